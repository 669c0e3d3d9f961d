//! Takes a snapshot of etcd and keeps it.
//!
//! A snapshot is what one member has. So the one is asked that has applied the most and does not lead: it has the least to do.

use futures::future::join_all;
use jiff::Timestamp;
use model::blueprint::Node;
use model::names::NodeName;
use model::observed::Member;
use model::upgrade::Component;
use talos_client::{EtcdStatus, Machine};

use crate::error::{Error, Result};
use crate::identify::{Identified, identify};
use crate::kubernetes::Kubernetes;
use crate::session::Snapshot;
use crate::snapshots::{EtcdFacts, Facts, SnapshotOf, Versions};
use crate::systems::{REQUEST_TIMEOUT, Systems};

/// A snapshot that was taken and kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Taken {
    /// The node whose member gave it.
    pub node: NodeName,
    /// When.
    pub at: Timestamp,
    /// What it is.
    pub snapshot: talos_client::Snapshot,
    /// Where it is.
    pub place: String,
}

/// A member of etcd that answers.
struct Source {
    node: Node,
    machine: Machine,
    status: EtcdStatus,
}

/// Takes a snapshot and keeps it in the place that the session was given. `note` is told what happens.
///
/// # Errors
///
/// When no member answers, the snapshot is not sound, or it cannot be kept. Nothing is left of it then.
pub async fn take(systems: &Systems, of: &Snapshot, note: &(dyn Fn(String) + Sync)) -> Result<Taken> {
    let attempt = || Error::systems("could not save a snapshot of etcd");
    let sources = sources(systems, of).await?;
    let statuses: Vec<&EtcdStatus> = sources.iter().map(|source| &source.status).collect();
    let source = best(&statuses).and_then(|index| sources.get(index)).ok_or_else(|| {
        attempt()
            .coded("etcd-no-member")
            .hint("no member of etcd answers; `talosmith health` says what they lack")
    })?;
    let at = systems.clock.now();
    let of_this = SnapshotOf {
        cluster: of.blueprint.cluster.clone(),
        node: source.node.name.to_string(),
        at,
        facts: facts(systems, of, source).await,
    };
    note(format!("taking a snapshot from {}", source.node.name));
    let mut new = of.snapshots().create(&of_this).await?;
    let snapshot = source.machine.etcd_snapshot(&mut new).await.map_err(|e| {
        attempt().hint("the incomplete snapshot was discarded; run the command again").because(e)
    })?;
    let place = new.keep(snapshot.clone()).await?;
    note(format!("saved to {place}"));
    Ok(Taken { node: source.node.name.clone(), at, snapshot, place })
}

/// Every member that answers, except learners: they give no snapshot.
async fn sources(systems: &Systems, of: &Snapshot) -> Result<Vec<Source>> {
    let access = of.access()?;
    let asked = of.voters().into_iter().map(|node| async move {
        let Identified::Configured(machine) = Box::pin(identify(systems, &node, access)).await else {
            return None;
        };
        let status = systems.clock.timeout(REQUEST_TIMEOUT, machine.etcd_status()).await.ok()?.ok()?;
        (!status.learner).then_some(Source { node, machine, status })
    });
    Ok(join_all(asked).await.into_iter().flatten().collect())
}

/// The member that is asked: one without complaints before others, one that does not lead before the leader, then the one that has
/// applied the most.
fn best(members: &[&EtcdStatus]) -> Option<usize> {
    let leads = |member: &EtcdStatus| members.iter().any(|other| other.leader == member.member);
    let rank = |member: &EtcdStatus| (member.errors.is_empty(), !leads(member), member.raft_applied_index);
    (0..members.len()).max_by_key(|index| members.get(*index).map(|member| rank(member)))
}

/// What is known about the cluster now. What does not answer is left out: a snapshot is worth more than what is said about it.
async fn facts(systems: &Systems, of: &Snapshot, source: &Source) -> Facts {
    let known = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let (version, members, revision) = futures::join!(
        systems.clock.timeout(REQUEST_TIMEOUT, source.machine.version()),
        systems.clock.timeout(REQUEST_TIMEOUT, source.machine.etcd_members(true)),
        Box::pin(revision(systems, of)),
    );
    let members = members.ok().and_then(std::result::Result::ok).unwrap_or_default();
    let talos = version.ok().and_then(std::result::Result::ok).and_then(|version| known(&version.tag));
    // Where the file says nothing, machine configs follow the release that runs.
    let own = talos.as_deref().and_then(|tag| tag.rsplit_once('.')).map(|(minor, _)| minor.to_owned());
    Facts {
        cluster_id: of.blueprint.cluster_id.clone().unwrap_or_default(),
        versions: Versions {
            kubernetes: kubernetes(of, &source.node),
            etcd: known(&source.status.version),
            contract: of.blueprint.options.contract.clone().or(own),
            talos,
        },
        etcd: EtcdFacts {
            node: source.node.name.to_string(),
            member: format!("{:016x}", source.status.member),
            applied_index: source.status.raft_applied_index,
            raft_term: source.status.raft_term,
            revision,
            members: members
                .into_iter()
                .map(|member| Member {
                    id: format!("{:016x}", member.id),
                    name: member.hostname,
                    learner: member.learner,
                    peers: member.peer_urls,
                })
                .collect(),
        },
    }
}

/// The release of the node's API server. A machine config is read only where it is not the one of the file.
fn kubernetes(of: &Snapshot, node: &Node) -> Option<String> {
    let machine = of.observed.machines.get(&node.name)?;
    let as_wanted =
        machine.config_digest.as_ref().is_some_and(|runs| of.rendered.configs.get(&node.name) == Some(runs));
    let named = machine.components.get(&Component::ApiServer).cloned();
    named.or_else(|| as_wanted.then(|| node.kubernetes.clone()))
}

/// The revision of etcd's database, as Kubernetes knows it.
async fn revision(systems: &Systems, of: &Snapshot) -> Option<u64> {
    let access = of.access().ok()?;
    Kubernetes::new(systems, &of.blueprint.endpoint, &access.kubernetes).ok()?.revision().await.ok()?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(applied: &[u64], leader: u64) -> Option<usize> {
        let member = |(id, applied): (u64, &u64)| EtcdStatus {
            member: id,
            leader,
            raft_applied_index: *applied,
            ..EtcdStatus::default()
        };
        let all: Vec<EtcdStatus> = (1..).zip(applied).map(member).collect();
        best(&all.iter().collect::<Vec<_>>())
    }

    #[test]
    fn the_follower_that_has_the_most_is_asked() {
        assert_eq!(asked(&[9, 7, 8], 1), Some(2));
        assert_eq!(asked(&[9], 1), Some(0), "there is no other");
        assert_eq!(asked(&[], 0), None);
    }

    #[test]
    fn a_member_that_complains_is_asked_last() {
        let well = EtcdStatus { member: 1, leader: 1, raft_applied_index: 5, ..EtcdStatus::default() };
        let ill =
            EtcdStatus { member: 2, raft_applied_index: 9, errors: vec!["corrupt".into()], ..well.clone() };
        assert_eq!(best(&[&ill, &well]), Some(1));
    }
}
