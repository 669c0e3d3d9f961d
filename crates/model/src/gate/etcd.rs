//! What etcd is, by the word of its leader and of a majority that follows it.
//!
//! The leader is the reference, because it has the newest list and the newest entries of the log; it must answer for itself. A member
//! counts as healthy when it answers for itself, is healthy, and has applied the log up to the leader's. One that does not answer and
//! one that is not healthy count the same: so a fact that is not known never allows more than the worst that it could be. Members
//! that contradict each other about who the members are, who leads and in which term are no knowledge at all, and nothing is decided
//! by them. The node that is about to be disrupted is heard for its own health, and as the leader, and for nothing else.

use std::collections::BTreeSet;

use super::{Blocker, ClusterView, MemberView, Request};
use crate::names::NodeName;
use crate::observed::Member;

/// A member that has not applied so many entries of the log is behind.
const BEHIND: u64 = 5_000;

/// etcd by its leader's word.
pub(super) struct Consensus<'a> {
    /// All members.
    pub list: &'a [Member],
    /// Those that vote.
    pub voters: Vec<&'a Member>,
    /// Those of them that are proved healthy.
    pub healthy: Vec<&'a Member>,
    /// What is wrong with the others.
    pub unwell: Vec<Blocker>,
}

/// A node, and what its member says.
type Said<'a> = (&'a NodeName, &'a MemberView);

/// How many of so many are more than half.
pub(super) fn majority(voters: usize) -> usize {
    voters / 2 + 1
}

/// etcd, as a healthy majority of its members describes it.
pub(super) fn consensus<'a>(view: &'a ClusterView, want: &Request) -> Result<Consensus<'a>, Vec<Blocker>> {
    if view.members.is_empty() {
        return Err(vec![Blocker::NoMember]);
    }
    let others = || view.members.iter().filter(|(node, _)| **node != want.node);
    let target = || view.members.get_key_value(&want.node);
    let Some(leader) = others().find(leads).or_else(|| target().filter(leads)) else {
        return Err(vec![Blocker::NoLeader]);
    };
    // One that is on no list and has an etcd all the same is in another one.
    let is_outside = |said: &Said<'_>| !leader.1.members.iter().any(|member| member.is_of(said.0));
    let heard = others().chain(target().filter(is_outside));
    let contradictions: Vec<Blocker> = heard.filter_map(|said| contradiction(said, leader)).collect();
    if !contradictions.is_empty() {
        return Err(contradictions);
    }
    let mut etcd = Consensus::of(view, leader);
    let well = |node: &str| etcd.healthy.iter().any(|member| member.is_of(node));
    let (healthy, voters) = (etcd.healthy.len(), etcd.voters.len());
    // A leader that is sick may be disrupted itself; nothing else is decided by its word.
    if healthy >= majority(voters) && (well(leader.0) || *leader.0 == want.node) {
        return Ok(etcd);
    }
    etcd.unwell.push(Blocker::NoMajority { healthy, need: majority(voters), voters });
    Err(etcd.unwell)
}

/// Whether a member says that it leads, and can be taken as the reference.
fn leads((node, said): &Said<'_>) -> bool {
    let votes = |member: &Member| member.id == said.id && !member.learner && member.is_of(node);
    said.leader.as_ref() == Some(&said.id)
        && said.term > 0
        && said.index > 0
        && said.members.iter().any(votes)
}

impl<'a> Consensus<'a> {
    fn of(view: &'a ClusterView, leader: Said<'a>) -> Self {
        let list = &leader.1.members;
        let voters: Vec<&Member> = list.iter().filter(|member| !member.learner).collect();
        let (mut healthy, mut unwell) = (vec![], vec![]);
        for voter in &voters {
            let said = view.members.iter().find(|(node, said)| said.id == voter.id && voter.is_of(node));
            match said.map(|said| contradiction(said, leader).or_else(|| sickness(said, leader))) {
                Some(None) => healthy.push(*voter),
                Some(Some(doubt)) => unwell.push(doubt),
                None => unwell.push(Blocker::NoAnswer(voter.name.clone())),
            }
        }
        Self { list, voters, healthy, unwell }
    }

    /// Whether a node is a member, or is becoming one.
    pub fn lists(&self, node: &str) -> bool {
        self.list.iter().any(|member| member.is_of(node))
    }
}

/// What a member says that cannot be true if the leader is right.
fn contradiction((node, said): Said<'_>, (leading, leader): Said<'_>) -> Option<Blocker> {
    if list(said) != list(leader) {
        return Some(Blocker::Disagree(node.clone(), leading.clone()));
    }
    let other_leader = said.leader.is_some() && said.leader != leader.leader;
    let other_term = said.term > 0 && said.term != leader.term;
    (other_leader || other_term).then(|| Blocker::OtherLeader(node.clone(), leading.clone()))
}

/// What speaks against a member being healthy.
fn sickness((node, said): Said<'_>, (leading, leader): Said<'_>) -> Option<Blocker> {
    if let Some(error) = said.errors.first() {
        return Some(Blocker::Complains(node.clone(), error.clone()));
    }
    if said.leader.is_none() || said.term == 0 {
        return Some(Blocker::OtherLeader(node.clone(), leading.clone()));
    }
    let newest = said.index.max(leader.index);
    let caught_up = said.index > 0 && said.applied > 0 && newest.saturating_sub(said.applied) <= BEHIND;
    (!said.healthy || !caught_up).then(|| Blocker::Unhealthy(node.clone()))
}

/// Its list of members, without their addresses, which a member may change at any time.
fn list(said: &MemberView) -> BTreeSet<(&str, &str, bool)> {
    said.members.iter().map(|one| (one.id.as_str(), one.name.as_str(), one.learner)).collect()
}
