//! The lease of a cluster without Proxmox, kept in Kubernetes. The rules are those of the record: a holder whose lease may have
//! expired by its own clock goes no further before it has renewed it; one that looks expired is watched first, because clocks
//! differ; one that is taken over is given time to notice; and whoever looked at the world before somebody else had the
//! lease looks again.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use jiff::Timestamp;

use crate::apply::Run;
use crate::error::{Error, Kind, Result};
use crate::kubernetes::Kubernetes;
use crate::kubernetes::lease::{Claim, Found, Whose};
use crate::record::{LONGER_THAN_A_RENEWAL, RENEW_EVERY, TO_GIVE_BACK, stale, taking_over, watching};
use crate::world::World;

/// Where the lease of a cluster is.
pub(crate) const NAMESPACE: &str = "kube-system";

/// Its name.
pub(crate) fn name(cluster: &str) -> String {
    format!("talosmith-{cluster}")
}

/// A lease that was taken.
#[derive(Clone)]
pub(crate) struct KubernetesLease {
    world: World,
    kubernetes: Kubernetes,
    claim: Claim,
    /// Until when it is surely ours, by our own clock, in milliseconds.
    ours_until: Arc<AtomicI64>,
}

impl KubernetesLease {
    /// Takes it, or says who has it. `None` as long as Kubernetes does not answer; `note` is told what is waited for.
    pub(crate) async fn take(run: &Run<'_>, note: impl Fn(String)) -> Result<Option<Self>> {
        let seen = &run.look.observed.kubernetes;
        if !seen.answered {
            return Ok(None);
        }
        let blueprint = &run.look.blueprint;
        let kubernetes = Kubernetes::new(run.world, &blueprint.endpoint, &run.look.access()?.kubernetes)?;
        let claim = Claim {
            namespace: NAMESPACE.to_owned(),
            name: name(&blueprint.cluster),
            holder: format!("{} ({})", run.operator.name, run.operator.place),
            duration: RENEW_EVERY * 3,
            whose: Whose::Free,
        };
        let lease = Self { world: run.world.clone(), kubernetes, claim, ours_until: Arc::default() };
        let clock = &run.world.clock;
        let found = lease.find().await?;
        match found.holder.as_ref().filter(|holder| **holder != lease.claim.holder) {
            None => lease.hold(Whose::Free).await?,
            Some(holder) if run.operator.take_over => {
                note(taking_over(holder));
                lease.hold(Whose::Anybodys).await?;
                clock.sleep(LONGER_THAN_A_RENEWAL).await;
                lease.renew().await?;
                return Err(lease.stale().await);
            }
            Some(holder) if found.ends.is_some_and(|end| end > clock.now()) => {
                return Err(busy(holder, &found));
            }
            Some(holder) => {
                note(watching(holder));
                clock.sleep(LONGER_THAN_A_RENEWAL).await;
                let again = lease.find().await?;
                if again != found && again.holder.is_some() {
                    return Err(busy(again.holder.as_deref().unwrap_or(holder), &again));
                }
                lease.hold(Whose::Free).await?;
                return Err(lease.stale().await);
            }
        }
        if found.turns == seen.lease_turns { Ok(Some(lease)) } else { Err(lease.stale().await) }
    }

    /// The plan is of yesterday, and perhaps the next one is empty: nobody shall be kept waiting.
    async fn stale(&self) -> Error {
        let _ = self.world.clock.timeout(TO_GIVE_BACK, self.release()).await;
        stale()
    }

    async fn find(&self) -> Result<Found> {
        self.kubernetes.find_lease(&self.claim.namespace, &self.claim.name).await
    }

    async fn hold(&self, whose: Whose) -> Result<()> {
        let now = self.world.clock.now();
        self.kubernetes.claim(&Claim { whose, ..self.claim.clone() }).await?;
        let until = now.checked_add(self.claim.duration).unwrap_or(Timestamp::MAX);
        self.ours_until.store(until.as_millisecond(), Ordering::Relaxed);
        Ok(())
    }

    /// Renews it; [`Kind::Busy`] when somebody took it over.
    pub(crate) async fn renew(&self) -> Result<()> {
        self.hold(Whose::Ours).await
    }

    /// Whether it may have expired by our own clock, so that somebody else may have it.
    pub(crate) fn expired(&self) -> bool {
        self.world.clock.now().as_millisecond() >= self.ours_until.load(Ordering::Relaxed)
    }

    pub(crate) async fn release(&self) -> Result<()> {
        self.kubernetes.give_back(&self.claim).await
    }
}

fn busy(holder: &str, found: &Found) -> Error {
    let moment = |at: Option<Timestamp>| {
        at.map_or("an unknown time".to_owned(), |at| at.strftime("%Y-%m-%d %H:%M:%S UTC").to_string())
    };
    Error::new(Kind::Busy, format!("{holder} is changing the cluster since {}", moment(found.since))).remedy(
        format!(
            "wait; unless renewed, the lease ends at {}. If that run is surely dead, take over with `--take-over`",
            moment(found.ends)
        ),
    )
}
