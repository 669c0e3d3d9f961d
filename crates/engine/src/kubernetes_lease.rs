//! The lease of a cluster without Proxmox, kept in Kubernetes, by the same rules as in the record.
//!
//! A new cluster has no Kubernetes, so a run that makes one starts without a lease and takes it as soon as Kubernetes answers.

use std::time::Duration;

use model::lease::{
    FIRST_HOLDER_WAITS, HOLDER_STOPS, Late, LateFind, LateHolder, RENEWAL_TIMEOUT, late, takeover_waits,
};

use crate::error::{Error, Kind, Result};
use crate::kubernetes::Kubernetes;
use crate::kubernetes::lease::{Claim, Found, NAMESPACE, Wait, Whose, name};
use crate::lease::{Holder, TO_GIVE_BACK, Validity, held_by, outwait, stale, taking_over, watch, watching};
use crate::session::Snapshot;
use crate::systems::Systems;

/// A lease that was taken.
#[derive(Clone)]
pub(crate) struct KubernetesLease {
    systems: Systems,
    kubernetes: Kubernetes,
    claim: Claim,
    validity: Validity,
}

impl KubernetesLease {
    /// Nothing is asked yet.
    fn new(systems: &Systems, snapshot: &Snapshot, holder: &Holder) -> Result<Self> {
        let (blueprint, operator) = (&snapshot.blueprint, &holder.operator);
        let kubernetes = Kubernetes::new(systems, &blueprint.endpoint, &snapshot.access()?.kubernetes)?;
        let claim = Claim {
            namespace: NAMESPACE.to_owned(),
            name: name(&blueprint.cluster),
            holder: format!("{} ({})", operator.name, operator.place),
            run: holder.run.clone(),
            duration: HOLDER_STOPS,
            whose: Whose::Free,
            wait: Wait::Unchanged,
        };
        Ok(Self { systems: systems.clone(), kubernetes, claim, validity: Validity::new(&systems.clock) })
    }

    /// Takes it, or says who has it. `None` as long as Kubernetes does not answer; `note` is told what is waited for.
    pub(crate) async fn take(
        systems: &Systems,
        snapshot: &Snapshot,
        holder: &Holder,
        note: impl Fn(String),
    ) -> Result<Option<Self>> {
        let seen = &snapshot.observed.kubernetes;
        if !seen.answered {
            return Self::take_late(systems, snapshot, holder).await;
        }
        let lease = Self::new(systems, snapshot, holder)?;
        let clock = &systems.clock;
        let found = lease.find().await?;
        let wait = takeover_waits(found.duration, found.outwaits);
        if let (Some(wait), true) = (found.outwaits, found.holder.as_ref() == Some(&lease.claim.holder)) {
            // An earlier run from here took the lease over, and ended before the one it was taken from had surely stopped.
            note(taking_over("the operator before", wait));
            lease.hold_and_wait(Whose::Free, Wait::For(wait)).await?;
            return Err(lease.outwait(wait).await?);
        }
        match found.holder.as_ref().filter(|holder| **holder != lease.claim.holder) {
            None if !found.exists => {
                let wait = FIRST_HOLDER_WAITS;
                note(format!(
                    "the cluster had no lease yet: waiting {} s, by when a run that started before there was a place for one has stopped",
                    wait.as_secs()
                ));
                lease.hold_and_wait(Whose::Free, Wait::For(wait)).await?;
                return Err(lease.outwait(wait).await?);
            }
            None => lease.hold(Whose::Free).await?,
            Some(other) if holder.operator.take_over => {
                note(taking_over(other, wait));
                lease.hold_and_wait(Whose::Anybodys, Wait::For(wait)).await?;
                return Err(lease.outwait(wait).await?);
            }
            Some(other) if found.ends.is_some_and(|end| end > clock.now()) => {
                return Err(busy(other, &found));
            }
            Some(other) => {
                note(watching(other, wait));
                let again = || async {
                    match lease.find().await {
                        Ok(Found { holder: None, .. }) => Ok(true),
                        Ok(again) if again != found => {
                            Err(busy(again.holder.as_deref().unwrap_or(other), &again))
                        }
                        Ok(_) | Err(_) => Ok(false),
                    }
                };
                watch(systems, wait, again).await?;
                let again = lease.find().await?;
                if again != found && again.holder.is_some() {
                    return Err(busy(again.holder.as_deref().unwrap_or(other), &again));
                }
                lease.hold(Whose::Free).await?;
                return Err(lease.stale().await);
            }
        }
        if found.turns == seen.lease_turns { Ok(Some(lease)) } else { Err(lease.stale().await) }
    }

    /// Takes the lease for a run whose observation found no Kubernetes. `None` as long as it does not answer.
    ///
    /// # Errors
    ///
    /// When the run must end: another operator has the lease, or had it after the cluster was observed.
    pub(crate) async fn take_late(
        systems: &Systems,
        snapshot: &Snapshot,
        holder: &Holder,
    ) -> Result<Option<Self>> {
        let lease = Self::new(systems, snapshot, holder)?;
        let clock = &systems.clock;
        // It does not answer, or not yet whole: that is no reason to end a run that is about to bring it up.
        let Ok(Ok(found)) = clock.timeout(RENEWAL_TIMEOUT, lease.find()).await else { return Ok(None) };
        if found.outwaits.is_some() && found.holder.as_ref() == Some(&lease.claim.holder) {
            // The next run sees Kubernetes, and waits.
            return Err(stale());
        }
        let holder = match &found.holder {
            // Ours was the last run that had it, so nothing was changed since this run observed the cluster.
            None if found.released_by.as_ref() == Some(&lease.claim.holder) => LateHolder::Ours,
            None => LateHolder::Free,
            Some(holder) if *holder == lease.claim.holder => LateHolder::Ours,
            Some(_) => LateHolder::Other,
        };
        match late(LateFind { exists: found.exists, holder }) {
            Late::Busy => Err(busy(found.holder.as_deref().unwrap_or_default(), &found)),
            Late::Stale => Err(stale()),
            Late::Take => match clock.timeout(RENEWAL_TIMEOUT, lease.hold(Whose::Free)).await {
                Ok(Ok(())) => Ok(Some(lease)),
                Ok(Err(error)) if error.kind() == Kind::Busy => Err(error),
                Ok(Err(_)) | Err(_) => Ok(None),
            },
        }
    }

    /// The plan is of yesterday, and perhaps the next one is empty: no other operator should wait for it.
    async fn stale(&self) -> Error {
        let _ = self.systems.clock.timeout(TO_GIVE_BACK, self.release()).await;
        stale()
    }

    async fn find(&self) -> Result<Found> {
        self.kubernetes.find_lease(&self.claim.namespace, &self.claim.name).await
    }

    /// Waits until the one that the lease was taken from has stopped. The plan is old by then.
    async fn outwait(&self, wait: Duration) -> Result<Error> {
        outwait(&self.systems, wait, || self.renew()).await?;
        self.hold_and_wait(Whose::Ours, Wait::Over).await?;
        Ok(self.stale().await)
    }

    async fn hold(&self, whose: Whose) -> Result<()> {
        self.hold_and_wait(whose, Wait::Unchanged).await
    }

    async fn hold_and_wait(&self, whose: Whose, wait: Wait) -> Result<()> {
        let sent = self.systems.clock.reading();
        self.kubernetes.claim(&Claim { whose, wait, ..self.claim.clone() }).await?;
        self.validity.renewed(sent);
        Ok(())
    }

    /// Renews it; [`Kind::Busy`] when another operator took it over.
    pub(crate) async fn renew(&self) -> Result<()> {
        self.hold(Whose::Ours).await
    }

    /// When it was renewed last, and what follows from that.
    pub(crate) fn validity(&self) -> &Validity {
        &self.validity
    }

    /// Releases it. Says whether it stays ours, because it was being taken over.
    pub(crate) async fn release(&self) -> Result<bool> {
        self.kubernetes.give_back(&self.claim).await
    }

    /// Releases the lease of a run that was stopped while it was being taken. Says whether it stays ours.
    pub(crate) async fn release_of(systems: &Systems, snapshot: &Snapshot, holder: &Holder) -> Result<bool> {
        Self::new(systems, snapshot, holder)?.release().await
    }
}

fn busy(holder: &str, found: &Found) -> Error {
    held_by(holder, found.since, found.ends, takeover_waits(found.duration, found.outwaits))
}
