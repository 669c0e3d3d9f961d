//! Who may change the cluster now. The rules and their times are in `model::lease`; here they meet a clock and a place.
//!
//! The lease of a cluster with Proxmox is in its record ([`crate::record`]); that of a cluster without Proxmox is in Kubernetes
//! (`kubernetes_lease`).

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ambient::{Clock, Reading};
use jiff::Timestamp;
use model::lease::{Hold, RENEW_EVERY, hold, takeover_waits};
use model::mark::{Lease, RecordState};

use crate::error::{Error, Kind, Result};
use crate::systems::Systems;

const _: () = assert!(
    ambient::DELIVERY_LIMIT.as_secs() <= model::lease::UNDELIVERED.as_secs(),
    "a successor waits for as long as bytes may be on their way"
);

/// For giving a lease back that turned out to be of no use.
pub(crate) const TO_GIVE_BACK: Duration = Duration::from_secs(20);

/// Who asks for the lease.
#[derive(Debug, Clone)]
pub struct Operator {
    /// For people: user, machine, file.
    pub name: String,
    /// For people who look at the cluster from elsewhere: user and machine.
    pub person: String,
    /// Names the working folder. Its user must hold its local lock.
    pub place: String,
    /// Take the lease even from an operator that still holds it.
    pub take_over: bool,
}

/// A run of an operator.
#[derive(Debug, Clone)]
pub struct Holder {
    /// Who runs it.
    pub operator: Operator,
    /// Its ID, which no other run has.
    pub run: String,
}

impl Holder {
    /// Whether a lease is this run's.
    pub(crate) fn has(&self, lease: &Lease) -> bool {
        self.is_here(lease) && lease.run.as_ref() == Some(&self.run)
    }

    /// Whether a lease is of this place, by whichever run.
    pub(crate) fn is_here(&self, lease: &Lease) -> bool {
        lease.nonce == self.operator.place
    }
}

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

/// Another operator had the lease after the cluster was observed.
pub(crate) fn stale() -> Error {
    Error::new(Kind::Stale, "another operator changed the cluster since it was observed")
        .hint("run the command again: it observes the cluster again and continues")
}

/// Whether asking for the lease is needless, because the observation just showed that another operator holds it.
///
/// # Errors
///
/// [`Kind::Busy`] when that is so. What has expired, or is to be taken over, is decided when the lease is asked for.
pub fn may_begin(seen: &RecordState, operator: &Operator, now: Timestamp) -> Result<()> {
    match &seen.lease {
        Some(held) if held.nonce != operator.place && held.expires > now && !operator.take_over => {
            Err(busy(held))
        }
        _ => Ok(()),
    }
}

/// Waits until a former holder has stopped. The lease is ours by now, and is renewed meanwhile.
pub(crate) async fn outwait<F: Future<Output = Result<()>>>(
    systems: &Systems,
    wait: Duration,
    renew: impl Fn() -> F,
) -> Result<()> {
    let mut left = wait;
    loop {
        // Counted by what was slept: a clock that was set forward must not shorten it.
        let nap = left.min(RENEW_EVERY);
        systems.clock.sleep(nap).await;
        left = left.saturating_sub(nap);
        match renew().await {
            Ok(()) if left.is_zero() => return Ok(()),
            // One that cannot be renewed for a moment is still not another operator's.
            Err(error) if left.is_zero() || error.kind() == Kind::Busy => return Err(error),
            _ => {}
        }
    }
}

/// Watches a lease that has expired, for as long as its holder may still be at work. `snapshot` says whether it was given back, which ends
/// the watch, or fails when it was renewed.
pub(crate) async fn watch<F: Future<Output = Result<bool>>>(
    systems: &Systems,
    wait: Duration,
    snapshot: impl Fn() -> F,
) -> Result<()> {
    let mut left = wait;
    while !left.is_zero() {
        let nap = left.min(RENEW_EVERY);
        systems.clock.sleep(nap).await;
        left = left.saturating_sub(nap);
        if snapshot().await? {
            return Ok(());
        }
    }
    Ok(())
}

/// What is said while a living holder is given time to find out that it was taken over.
pub(crate) fn taking_over(holder: &str, wait: Duration) -> String {
    format!("taking over from {holder}: waiting {} s, by when that run has stopped", wait.as_secs())
}

/// What is said while a lease that has expired is watched.
pub(crate) fn watching(holder: &str, wait: Duration) -> String {
    format!("the lease of {holder} has expired: waiting {} s to see whether it is renewed", wait.as_secs())
}

/// Another operator took the lease over.
pub(crate) fn taken_over(by: Option<&str>) -> Error {
    let told = by.map_or_else(
        || "another operator took over the lease".to_owned(),
        |by| format!("{by} took over the lease"),
    );
    Error::new(Kind::Busy, told)
        .hint("nothing more is changed by this run; `talosmith status` shows its state")
}

/// Another run from the same place took the lease, although its lock should have kept them apart.
pub(crate) fn taken_over_from_here(holder: &str) -> Error {
    Error::new(Kind::Busy, format!("another run of {holder} from the same folder took over the lease"))
        .hint("nothing more is changed by this run; make sure that the folder's file `lock` is not deleted while a run goes on, and that its file system has locks")
}

/// How long a successor waits for the holder of a lease in the record.
pub(crate) fn wait_for(held: &Lease) -> Duration {
    let seconds = |seconds: Option<u32>| seconds.map(|seconds| Duration::from_secs(seconds.into()));
    takeover_waits(seconds(held.stops_after), seconds(held.outwaits))
}

/// Another operator holds the lease in the record.
pub(crate) fn busy(held: &Lease) -> Error {
    held_by(&held.holder, Some(held.since), Some(held.expires), wait_for(held))
}

/// Another operator holds the lease. `wait` is what a successor waits for it, whichever way the lease is taken.
pub(crate) fn held_by(
    holder: &str,
    since: Option<Timestamp>,
    expires: Option<Timestamp>,
    wait: Duration,
) -> Error {
    let moment = |at: Option<Timestamp>| {
        at.map_or("an unknown time".to_owned(), |at| at.strftime("%Y-%m-%d %H:%M:%S UTC").to_string())
    };
    let (since, expires, wait) = (moment(since), moment(expires), wait.as_secs());
    Error::new(Kind::Busy, format!("{holder} is changing the cluster since {since}")).hint(format!(
        "wait until that run has ended. If it is surely dead, run the command again with `--take-over`, or after {expires}, when the \
         lease expires; either way Talosmith then waits {wait} s, by when that run has certainly stopped"
    ))
}

/// What is said of a lease that was being taken over when the run was stopped.
pub(crate) const KEPT: &str = "the lease is not released, because the run that it was taken from may still be at work: run the same command again, which waits \
     for that run; elsewhere, `--take-over` does the same";
