//! How the cluster will stand when a unit starts, as far as the plan can tell: what was observed, and what the steps and units before
//! it leave behind. Only what this plan makes is assumed; what was not observed stays unknown, and the gate counts it as unhealthy.

use crate::blueprint::{Blueprint, Role};
use crate::gate::{self, ClusterView, Effect, MemberView, NodeView, Policy, Request, Standing, Verdict};
use crate::names::NodeName;
use crate::observed::{Member, Observed};
use crate::quorum;
use crate::unit::Forecast;

/// The cluster at one point of the plan.
pub(super) struct Outlook {
    view: ClusterView,
    policy: Policy,
    /// The node that holds the VIP, as long as no unit has moved it.
    holder: Option<String>,
}

impl Outlook {
    pub(super) fn new(blueprint: &Blueprint, observed: &Observed, policy: Policy) -> Self {
        let holder = quorum::standing(blueprint, &observed.machines).and_then(|standing| standing.vip_on);
        Self { view: ClusterView::observed(blueprint, observed), policy, holder }
    }

    pub(super) fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Whether a node may have a part in etcd. Only one that is known as a worker, and on no list of members, has none.
    pub(super) fn votes(&self, node: &str) -> bool {
        let is_worker = self.view.nodes.get(node).is_some_and(|seen| seen.role == Role::Worker);
        !is_worker || self.is_listed(node)
    }

    /// Whether a member lists the node.
    pub(super) fn is_listed(&self, node: &str) -> bool {
        self.view.members.values().flat_map(|view| &view.members).any(|member| member.is_of(node))
    }

    /// Whether a member lists the node as one that votes.
    fn is_voter(&self, node: &str) -> bool {
        let mut members = self.view.members.values().flat_map(|view| &view.members);
        members.any(|member| !member.learner && member.is_of(node))
    }

    /// How many members vote, by the longest list that a member gives. `None` where none gives one.
    pub(super) fn voters(&self) -> Option<usize> {
        let count = |view: &MemberView| view.members.iter().filter(|member| !member.learner).count();
        self.view.members.values().map(count).max()
    }

    /// How many of them are nodes of the file.
    pub(super) fn voters_of(&self, blueprint: &Blueprint) -> usize {
        let votes = |node: &&NodeName| {
            let members = self.view.members.values().flat_map(|view| &view.members);
            members.into_iter().any(|member| !member.learner && member.is_of(node))
        };
        blueprint.nodes.keys().filter(votes).count()
    }

    /// What the gate would say now.
    pub(super) fn ask(&self, request: &Request) -> Verdict {
        gate::judge(&self.policy, &self.view, &Standing::default(), request)
    }

    /// How many workers may be away at once.
    pub(super) fn budget(&self) -> usize {
        self.policy.workers.of(self.workers().count())
    }

    fn workers(&self) -> impl Iterator<Item = (&NodeName, &NodeView)> {
        self.view.nodes.iter().filter(|(name, _)| !self.votes(name))
    }

    /// How the cluster stands while a unit runs beside others of its kind.
    pub(super) fn forecast(&self, request: &Request, removed: bool, at_once: usize) -> Forecast {
        let (blockers, outage) = match self.ask(request) {
            Verdict::Go(permit) => (vec![], Some(permit.is_outage())),
            Verdict::Wait(blockers) | Verdict::Stop(blockers) => (blockers, None),
        };
        let node = &request.node;
        if !self.votes(node) {
            let ready = |(_, seen): &(&NodeName, &NodeView)| seen.ready == Some(true);
            let others = self.workers().filter(|(name, _)| *name != node).filter(ready).count();
            let all = self.workers().filter(|(name, _)| !removed || *name != node).count();
            let beside = at_once.saturating_sub(1);
            let workers = Some((others.saturating_sub(beside), all));
            return Forecast { workers, at_once, blockers, ..Forecast::default() };
        }
        let moves_vip = self.holder.as_ref().is_some_and(|holder| *node == *holder);
        let Some(voters) = self.voters() else {
            // It may be the only one.
            let outage = outage.unwrap_or(request.effect == Effect::Absence);
            return Forecast { outage, moves_vip, at_once, blockers, ..Forecast::default() };
        };
        let healthy = |(name, view): &(&NodeName, &MemberView)| {
            let votes = view.members.iter().any(|member| member.id == view.id && !member.learner);
            *name != node && votes && view.healthy && view.errors.is_empty()
        };
        let stay = self.view.members.iter().filter(healthy).count();
        // A learner is no voter that goes, and a list may be shorter than another one.
        let goes = usize::from(removed && self.is_voter(node));
        let too_few = || request.effect == Effect::Absence && self.is_listed(node) && stay <= voters / 2;
        let outage = outage.unwrap_or_else(too_few);
        let voters = Some((stay, voters.saturating_sub(goes)));
        Forecast { voters, outage, moves_vip, at_once, blockers, ..Forecast::default() }
    }

    /// A node went down for a while, so that another one holds the VIP.
    pub(super) fn moved_vip(&mut self, node: &str) {
        self.holder.take_if(|holder| holder == node);
    }

    /// A node has its place in the cluster now.
    pub(super) fn joined(&mut self, node: &str, role: Role) {
        self.view.nodes.insert(node.into(), NodeView { role, ready: Some(true) });
        if role == Role::Worker {
            return;
        }
        // Without a list nothing is known of etcd, and nothing is made up.
        let Some(example) = self.view.members.values().find(|view| view.healthy).cloned() else { return };
        let id = match self.view.members.get(node) {
            Some(view) => view.id.clone(),
            None => format!("of {node}"),
        };
        let list = |members: &[Member]| {
            let others = members.iter().filter(|member| !member.is_of(node)).cloned();
            let own = Member { id: id.clone(), name: node.to_owned(), learner: false, peers: vec![] };
            others.chain([own]).collect::<Vec<_>>()
        };
        let joined = MemberView { id: id.clone(), members: list(&example.members), ..example };
        for view in self.view.members.values_mut() {
            view.members = list(&view.members);
        }
        self.view.members.insert(node.into(), MemberView { errors: vec![], healthy: true, ..joined });
    }

    /// A node is off. Where its leadership of etcd was moved before, another member leads.
    pub(super) fn away(&mut self, node: &str, moved_leadership: bool) {
        if let Some(seen) = self.view.nodes.get_mut(node) {
            seen.ready = Some(false);
        }
        // Its member does not answer any more; the others list it all the same.
        let led = self.leaves(node);
        if led && moved_leadership {
            self.lead_by_another();
        }
    }

    /// The member of a node does not answer any more. Says whether it was the leader.
    fn leaves(&mut self, node: &str) -> bool {
        self.view.members.remove(node).is_some_and(|view| view.leader.as_ref() == Some(&view.id))
    }

    /// The leadership of etcd was moved to another healthy member.
    fn lead_by_another(&mut self) {
        let next = self.view.members.values().find(|view| view.healthy).map(|view| view.id.clone());
        for view in self.view.members.values_mut() {
            view.leader.clone_from(&next);
        }
    }

    /// A node is gone for good.
    pub(super) fn gone(&mut self, node: &str) {
        self.view.nodes.remove(node);
        let led = self.leaves(node);
        for view in self.view.members.values_mut() {
            view.members.retain(|member| !member.is_of(node));
        }
        // Its leadership was moved before.
        if led {
            self.lead_by_another();
        }
    }
}
