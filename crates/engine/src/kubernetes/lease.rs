//! A lease in Kubernetes: who may change the cluster now.
//!
//! Kubernetes takes a change only of the version that was read, so of two who try at once one fails. A lease that was not
//! renewed in time is free; one that is taken over counts its holders.
//!
//! The identity in it is a holder and the ID of its run. A holder takes the lease of an earlier run of its own at once; a run renews
//! and releases only its own.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use model::lease::takeover_waits;

use super::Kubernetes;
use crate::error::{Error, Kind, Result};
use crate::kubernetes_api::{self as api, Api, PostParams};
use crate::lease::{self, taken_over, taken_over_from_here};

/// Where the lease of a cluster without Proxmox is.
pub(crate) const NAMESPACE: &str = "kube-system";

/// The name of a cluster's lease.
pub(crate) fn name(cluster: &str) -> String {
    format!("talosmith-{cluster}")
}

/// Where a lease is and who wants it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The namespace of the Lease object.
    pub namespace: String,
    /// The name of the Lease object.
    pub name: String,
    /// Who wants it, and from where.
    pub holder: String,
    /// The ID of the run, which no other one has.
    pub run: String,
    /// For how long, without renewing.
    pub duration: Duration,
    /// Whose it may be until then.
    pub whose: Whose,
    /// What becomes of a wait for the holder before.
    pub wait: Wait,
}

/// For how long the one that a lease was taken from may still go on. It is written into the lease with the claim, so that a run that
/// ends during the wait leaves it behind, and the next one waits again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    Unchanged,
    /// It starts now.
    For(Duration),
    Over,
}

/// Whose a lease may be when it is claimed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whose {
    /// Free, of an earlier run of the same holder, or of one whose time is over.
    Free,
    /// Anybody's: it is taken over.
    Anybodys,
    /// Ours: it is only renewed. One that is free now may have had another holder since, who changed the cluster.
    Ours,
}

/// A lease as it was found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Found {
    /// Whether there is such a lease at all.
    pub exists: bool,
    /// For how long it holds without being renewed, which is also how long its holder goes on.
    pub duration: Option<Duration>,
    /// Who holds it.
    pub holder: Option<String>,
    /// The ID of the run that has it. Absent from leases of earlier releases.
    pub run: Option<String>,
    /// Since when.
    pub since: Option<Timestamp>,
    /// When it ends unless renewed.
    pub ends: Option<Timestamp>,
    /// How often it went from one to another.
    pub turns: i32,
    /// Who released it, if it had no holder since.
    pub released_by: Option<String>,
    /// For how long its holder must wait before it changes anything, where that wait is not over.
    pub outwaits: Option<Duration>,
}

/// Who released a lease last, and at which number of transitions. At another number it had another holder since, whose release does not write
/// this, or who never gave it back.
const RELEASED: &str = "talosmith.dev/released";

/// For how many seconds the holder waits for the one before, and at which number of transitions that was written.
const OUTWAITS: &str = "talosmith.dev/outwaits";

/// Between a holder and the ID of its run.
const RUN: &str = " run ";

/// How often another operator may be faster before that counts.
const TRIES: u32 = 3;

impl Kubernetes {
    /// Looks at a lease. One that is not there is free.
    ///
    /// # Errors
    ///
    /// When Kubernetes does not answer in time, or refuses.
    pub async fn find_lease(&self, namespace: &str, name: &str) -> Result<Found> {
        let leases: Api<Lease> = Api::namespaced(self.client.clone(), namespace);
        let what = format!("read lease {namespace}/{name}");
        let found = self.ask_maybe(&what, leases.get(name)).await?;
        let exists = found.is_some();
        let outwaits = found.as_ref().and_then(outwaits);
        let released =
            found.as_ref().and_then(|lease| lease.metadata.annotations.as_ref()?.get(RELEASED).cloned());
        let spec = found.and_then(|lease| lease.spec).unwrap_or_default();
        let seconds = spec.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
        Ok(Found {
            exists,
            duration: seconds.map(Duration::from_secs),
            holder: held(&spec).map(|(holder, _)| holder.to_owned()),
            run: held(&spec).and_then(|(_, run)| run).map(str::to_owned),
            since: spec.acquire_time.as_ref().map(|time| time.0),
            ends: end(&spec),
            turns: spec.lease_transitions.unwrap_or(0),
            released_by: released.and_then(|text| released_by(&text, &spec)),
            outwaits,
        })
    }

    /// Takes the lease, or renews it. Returns the holder it was taken from, if there was another.
    ///
    /// # Errors
    ///
    /// [`Kind::Busy`] when another operator holds it, or was faster.
    pub async fn claim(&self, claim: &Claim) -> Result<Option<String>> {
        for _ in 1..TRIES {
            match self.try_claim(claim).await {
                // Reading it again shows whether that was another operator, or a call of ours whose answer was lost.
                Err(error) if error.kind() == Kind::Stale => {}
                ended => return ended,
            }
        }
        self.try_claim(claim).await.map_err(|error| match error.kind() {
            Kind::Stale => Error::new(Kind::Busy, error.to_string()),
            _ => error,
        })
    }

    /// As [`Self::claim`]; [`Kind::Stale`] when it changed after it was read.
    async fn try_claim(&self, claim: &Claim) -> Result<Option<String>> {
        let leases: Api<Lease> = Api::namespaced(self.client.clone(), &claim.namespace);
        let now = self.clock.now();
        let what = format!("read lease {}/{}", claim.namespace, claim.name);
        let found = self.ask_maybe(&what, leases.get(&claim.name)).await?;
        let what = format!("acquire lease {}/{} for {}", claim.namespace, claim.name, claim.holder);
        let held_by = found.as_ref().and_then(|lease| held(lease.spec.as_ref()?));
        let other = held_by.map(|(holder, _)| holder.to_owned()).filter(|holder| *holder != claim.holder);
        if claim.whose == Whose::Ours && held_by != Some(claim.identity()) {
            return Err(match held_by {
                Some((holder, _)) if other.is_none() => taken_over_from_here(holder),
                _ => taken_over(other.as_deref()),
            });
        }
        let Some(mut lease) = found else {
            let metadata = ObjectMeta { name: Some(claim.name.clone()), ..Default::default() };
            let mut lease = Lease { metadata, spec: Some(claim.spec(now, None)) };
            claim.note_wait(&mut lease);
            let params = PostParams::default();
            let call = leases.create(&params, &lease);
            return self.ask_unless_beaten(claim, &what, call).await.map(|()| None);
        };
        let outwaits = outwaits(&lease);
        let spec = lease.spec.take().unwrap_or_default();
        if let Some(holder) = other.as_ref().filter(|_| claim.whose == Whose::Free && !is_over(&spec, now)) {
            let seconds = spec.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
            let wait = takeover_waits(seconds.map(Duration::from_secs), outwaits);
            return Err(lease::held_by(
                holder,
                spec.acquire_time.as_ref().map(|time| time.0),
                end(&spec),
                wait,
            ));
        }
        lease.spec = Some(claim.spec(now, Some(spec)));
        claim.note_wait(&mut lease);
        let params = PostParams::default();
        let call = leases.replace(&claim.name, &params, &lease);
        self.ask_unless_beaten(claim, &what, call).await.map(|()| other)
    }

    /// Releases the lease, if it is ours. Says whether it stays ours, because it was being taken over.
    ///
    /// # Errors
    ///
    /// When Kubernetes does not answer in time.
    pub async fn give_back(&self, claim: &Claim) -> Result<bool> {
        let leases: Api<Lease> = Api::namespaced(self.client.clone(), &claim.namespace);
        let what = format!("release lease {}/{}", claim.namespace, claim.name);
        let Some(mut lease) = self.ask_maybe(&what, leases.get(&claim.name)).await? else { return Ok(false) };
        let waits = outwaits(&lease).is_some();
        let Some(spec) = lease.spec.as_mut().filter(|spec| held(spec) == Some(claim.identity())) else {
            return Ok(false);
        };
        // During a take-over the one before may still be at work: the lease stays, and with it the wait.
        if waits {
            return Ok(true);
        }
        spec.holder_identity = None;
        let released = format!("{} {}", spec.lease_transitions.unwrap_or(0), claim.holder);
        lease.metadata.annotations.get_or_insert_default().insert(RELEASED.to_owned(), released);
        // An operator that changed it meanwhile holds it now, and then there is nothing to release.
        let params = PostParams::default();
        let call = leases.replace(&claim.name, &params, &lease);
        match self.ask_unless_beaten(claim, &what, call).await {
            Err(error) if error.kind() == Kind::Stale => Ok(false),
            other => other.map(|()| false),
        }
    }

    async fn ask_unless_beaten(
        &self,
        claim: &Claim,
        what: &str,
        call: impl Future<Output = api::Result<Lease>>,
    ) -> Result<()> {
        let call = async {
            match call.await {
                Ok(_) => Ok(true),
                Err(api::Error::Api(status)) if status.code == 409 => Ok(false),
                Err(error) => Err(error),
            }
        };
        if self.ask(what, call).await? {
            return Ok(());
        }
        let told = format!("another operator acquired lease {}/{} first", claim.namespace, claim.name);
        Err(Error::new(Kind::Stale, told))
    }
}

impl Claim {
    /// The holder and the ID of the run.
    fn identity(&self) -> (&str, Option<&str>) {
        (&self.holder, Some(&self.run))
    }

    fn note_wait(&self, lease: &mut Lease) {
        let transitions = lease.spec.as_ref().and_then(|spec| spec.lease_transitions).unwrap_or(0);
        match self.wait {
            Wait::Unchanged => {}
            Wait::For(wait) => {
                let text = format!("{transitions} {}", wait.as_secs());
                lease.metadata.annotations.get_or_insert_default().insert(OUTWAITS.to_owned(), text);
            }
            Wait::Over => {
                lease.metadata.annotations.get_or_insert_default().remove(OUTWAITS);
            }
        }
    }

    fn spec(&self, now: Timestamp, old: Option<LeaseSpec>) -> LeaseSpec {
        let old = old.unwrap_or_default();
        let ours = held(&old) == Some(self.identity());
        let transitions = old.lease_transitions.unwrap_or(0);
        LeaseSpec {
            holder_identity: Some(format!("{}{RUN}{}", self.holder, self.run)),
            lease_duration_seconds: Some(self.duration.as_secs().try_into().unwrap_or(i32::MAX)),
            acquire_time: if ours { old.acquire_time } else { Some(MicroTime(now)) },
            renew_time: Some(MicroTime(now)),
            lease_transitions: Some(transitions + i32::from(!ours)),
            ..Default::default()
        }
    }
}

/// Who holds a lease: holder, and the ID of its run, which leases of earlier releases do not have.
fn held(spec: &LeaseSpec) -> Option<(&str, Option<&str>)> {
    let identity = spec.holder_identity.as_deref().filter(|identity| !identity.is_empty())?;
    let is_id = |run: &str| !run.is_empty() && run.chars().all(|c| c.is_ascii_hexdigit());
    Some(match identity.rsplit_once(RUN).filter(|(_, run)| is_id(run)) {
        Some((holder, run)) => (holder, Some(run)),
        None => (identity, None),
    })
}

/// Who gave the lease back, unless it is held or was had since.
fn released_by(text: &str, spec: &LeaseSpec) -> Option<String> {
    let (turns, holder) = text.split_once(' ')?;
    let free = spec.holder_identity.as_deref().is_none_or(str::is_empty);
    let same = turns.parse() == Ok(spec.lease_transitions.unwrap_or(0));
    (free && same).then(|| holder.to_owned())
}

/// The wait that the holder of a lease has before it. One of an earlier holder does not count.
fn outwaits(lease: &Lease) -> Option<Duration> {
    let spec = lease.spec.as_ref()?;
    let (turns, seconds) = lease.metadata.annotations.as_ref()?.get(OUTWAITS)?.split_once(' ')?;
    let held = spec.holder_identity.as_deref().is_some_and(|holder| !holder.is_empty());
    let same = turns.parse() == Ok(spec.lease_transitions.unwrap_or(0));
    seconds.parse().ok().filter(|_| held && same).map(Duration::from_secs)
}

fn end(spec: &LeaseSpec) -> Option<Timestamp> {
    let renewed = spec.renew_time.as_ref()?.0;
    let seconds = spec.lease_duration_seconds?;
    renewed.checked_add(jiff::SignedDuration::from_secs(seconds.into())).ok()
}

fn is_over(spec: &LeaseSpec, now: Timestamp) -> bool {
    end(spec).is_none_or(|end| end <= now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_id_is_read_from_a_lease_and_older_leases_have_none() {
        let held = |identity: &str| {
            let spec = LeaseSpec { holder_identity: Some(identity.to_owned()), ..Default::default() };
            held(&spec).map(|(holder, run)| (holder.to_owned(), run.map(str::to_owned)))
        };
        let (eva, run) = ("eva@test (eva)".to_owned(), "00ff".to_owned());
        assert_eq!(held("eva@test (eva) run 00ff"), Some((eva.clone(), Some(run))));
        assert_eq!(held("eva@test (eva)"), Some((eva, None)));
        assert_eq!(held("a run by eva"), Some(("a run by eva".to_owned(), None)));
        assert_eq!(held(""), None);
    }

    #[test]
    fn t4_a_release_counts_only_while_nobody_had_the_lease_since() {
        let spec = |holder: Option<&str>, turns| LeaseSpec {
            holder_identity: holder.map(str::to_owned),
            lease_transitions: Some(turns),
            ..Default::default()
        };
        let by = |text: &str, holder, turns| released_by(text, &spec(holder, turns));
        assert_eq!(by("3 eva@test (eva)", None, 3).as_deref(), Some("eva@test (eva)"));
        assert_eq!(by("3 eva@test (eva)", None, 4), None, "someone had it since");
        assert_eq!(by("3 eva@test (eva)", Some("kim"), 3), None, "someone has it");
        assert_eq!(by("eva", None, 3), None);
    }
}
