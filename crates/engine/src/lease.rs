//! Who may change the cluster now. The rules and their times are in `model::lease`; here they meet a clock and a place.
//!
//! The lease of a cluster with Proxmox is in its record ([`crate::record`]); that of a cluster without Proxmox is in Kubernetes
//! ([`kubernetes`]).

mod keeping;
mod kubernetes;

use std::sync::{Arc, Mutex, PoisonError};

use ambient::{Clock, Reading};
use model::lease::{Hold, hold};

pub(crate) use keeping::keep;
pub(crate) use kubernetes::{KubernetesLease, NAMESPACE, name};

const _: () = assert!(
    ambient::DELIVERY_LIMIT.as_secs() <= model::lease::UNDELIVERED.as_secs(),
    "a successor waits for as long as bytes may be on their way"
);

/// When a lease was renewed last, by this computer's own clock. All clones agree.
#[derive(Debug, Clone)]
pub(crate) struct Validity {
    clock: Clock,
    renewed: Arc<Mutex<Option<Reading>>>,
}

impl Validity {
    /// Of a lease that is not held yet.
    pub(crate) fn new(clock: &Clock) -> Self {
        Self { clock: clock.clone(), renewed: Arc::default() }
    }

    /// It was renewed by a call that was sent at `sent`.
    pub(crate) fn renewed(&self, sent: Reading) {
        *self.renewed.lock().unwrap_or_else(PoisonError::into_inner) = Some(sent);
    }

    /// What the holder may do now.
    pub(crate) fn hold(&self) -> Hold {
        let renewed = *self.renewed.lock().unwrap_or_else(PoisonError::into_inner);
        hold(renewed.map(|sent| self.clock.since(&sent)))
    }
}
