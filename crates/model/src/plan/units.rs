//! Disruptions of nodes, in the order in which they are made.
//!
//! The other rules collect what a node needs that disrupts it ([`Need`]), which nodes are replaced, and which are removed. Here each
//! node gets one [`Unit`] with all of that: one drain, one restart, one proof that it is whole again.
//!
//! ```text
//! upgrade/NODE  [snapshot-etcd] ─► drain-node ─► move-leadership ─► install-talos ─► reboot-node ─► verify-node ─► uncordon-node
//! upgrade/NODE  drain-node ─► upgrade-component ─► verify-node ─► uncordon-node (kubelet; without a drain for a patch release)
//! restart/NODE  [snapshot-etcd] ─► drain-node ─► move-leadership ─► reconfigure ─► power-cycle-vm ─► verify-node ─► uncordon-node
//! move/NODE     drain-node ─► move-leadership ─► migrate-vm ─► verify-node ─► uncordon-node (without a drain, while it runs)
//! replace/NODE  [snapshot-etcd] ─► stop-vm ─► leave-etcd ─► delete-vm ─► create-vm ─► start-vm ─► configure ─► join
//! remove/NODE   [snapshot-etcd] ─► drain-node ─► move-leadership ─► leave-etcd ─► stop-vm ─► delete-node ─► delete-vm
//! ```
//!
//! Units of control plane nodes follow each other: dead ones are removed and replaced first, then nodes restart (those that are not
//! whole first, the leader of etcd late, the holder of the VIP last), and nodes that the file does not have any more leave. Units of
//! workers come after them and start in the order of the plan: how many run at once is the gate's budget. What the gate says of each is forecast on the
//! cluster as the units before it leave it.

mod components;
mod leave;
mod need;
mod outlook;
mod restart;

use std::collections::BTreeSet;

use super::bring_up::{Builder, usual};
use super::remove::Removal;
use crate::blueprint::{Node, Role};
use crate::gate::{Blocker, Effect, Policy, Request};
use crate::names::NodeName;
use crate::natural;
use crate::observed::{Api, Etcd};
use crate::quorum;
use crate::step::{Action, ConfigMode, Disruption, Step, StepId, UnitId};
use crate::unit::{Goal, Unit};
use crate::upgrade::Component;

pub(super) use need::{Config, Move, Need};
use outlook::Outlook;

/// One step of a unit before it has a place.
#[derive(Debug)]
pub(super) struct DraftStep {
    action: Action,
    reason: String,
    seconds: u32,
}

impl DraftStep {
    pub(super) fn new(action: Action, reason: impl Into<String>, seconds: u32) -> Self {
        Self { action, reason: reason.into(), seconds }
    }
}

/// A unit before it has a place.
struct DraftUnit {
    unit: UnitId,
    node: NodeName,
    goal: Goal,
    disruption: Disruption,
    effect: Effect,
    /// What is done, one after another.
    acts: Vec<DraftStep>,
    /// Steps that come before.
    after: Vec<StepId>,
    /// Whether it installs another image of Talos or another version of Kubernetes.
    installs: bool,
}

impl DraftUnit {
    fn request(&self) -> Request {
        Request { unit: self.unit.clone(), node: self.node.clone(), effect: self.effect }
    }
}

/// Where the plan stands while units are put in order.
struct Course {
    outlook: Outlook,
    /// Steps that the next unit of a control plane node comes after.
    chain: Vec<StepId>,
    /// Whether a snapshot of etcd was taken.
    saved: bool,
    /// The end of the last unit that gave a control plane node its machine config.
    configured: Option<StepId>,
    /// Roles of which a node boots the image that is installed from its firmware, or has done so.
    cycled: Vec<Role>,
    /// Why workers keep their image: a control plane node that keeps it.
    stalled: Option<NodeName>,
}

impl<'a> Builder<'a> {
    /// What a node needs, to be added to; `after` comes before it.
    pub(super) fn need(&mut self, node: &str, after: Vec<StepId>) -> &mut Need {
        let need = self.needs.entry(node.into()).or_default();
        need.after.extend(after);
        need
    }

    /// Whether the VM of a node is changed while it runs, with its network cut: then all of its changes are made together.
    pub(super) fn is_rewired(&self, node: &str) -> bool {
        self.needs.get(node).is_some_and(|need| need.rewire.is_some())
    }

    /// Turns all that was collected into units, and ends what an earlier run left.
    pub(super) fn units(&mut self) {
        self.disruptions();
        self.uncordon();
    }

    /// Turns all that was collected into units.
    pub(super) fn disruptions(&mut self) {
        let file = &self.blueprint.options.changes;
        let policy = Policy { api_outage: file.api_outage || self.allowed.api_outage, ..file.clone() };
        let mut outlook = Outlook::new(self.blueprint, self.observed, policy);
        let cycled = self.upgraded_roles();
        self.only_targets();
        let mut chain: Vec<StepId> = self.last_control_plane().into_iter().collect();
        for (node, join) in self.newcomers() {
            outlook.joined(&node.name, node.role);
            if node.role == Role::ControlPlane {
                chain.push(join);
            }
        }
        // Workers that an earlier run left cordoned take pods again before anything else is disrupted. Only what answers is counted on.
        for name in self.interrupted() {
            let answers = self.observed.machines.get(&name).is_some_and(|seen| seen.api == Api::Configured);
            let node = self.blueprint.nodes.get(&name).filter(|node| node.role == Role::Worker && answers);
            if node.is_some() && !self.needs.contains_key(&name) && !self.replacements.contains(&name) {
                outlook.joined(&name, Role::Worker);
            }
        }
        let mut course = Course { outlook, chain, saved: false, configured: None, cycled, stalled: None };
        self.component_units(&mut course);
        let nodes = self.in_restart_order(&course.outlook);
        let removals = std::mem::take(&mut self.removals);
        let (voters, workers): (Vec<Removal>, Vec<Removal>) =
            removals.into_iter().partition(|removal| course.outlook.votes(&removal.node));
        let (control, others): (Vec<&Node>, Vec<&Node>) =
            nodes.into_iter().partition(|node| course.outlook.votes(&node.name));
        let budget = course.outlook.budget().min(others.len() + workers.len()).max(1);
        for (removals, nodes, votes, at_once) in
            [(voters, control, true, 1), (workers, others, false, budget)]
        {
            // What is dead already takes nothing more away, and the others can do without more once it is gone or back.
            let (dead, alive): (Vec<Removal>, Vec<Removal>) =
                removals.into_iter().partition(Removal::is_dead);
            self.remove_all(&mut course, dead, at_once);
            self.replace_units(&mut course, votes);
            for node in nodes {
                self.restart(&mut course, node, at_once);
            }
            self.remove_all(&mut course, alive, at_once);
        }
        self.workers_last(course.configured.as_ref());
        self.only_needed_pulls();
    }

    /// A plan for some of the nodes is made as if no other node had a need: the snapshot of etcd, the boot through the firmware and
    /// what the gate says are those of the units that are left.
    fn only_targets(&mut self) {
        if self.targets.is_empty() {
            return;
        }
        self.left_out = self.needs.keys().filter(|node| !self.targets.contains(*node)).cloned().collect();
        self.needs.retain(|node, _| self.targets.contains(node));
        self.components.retain(|upgrade| self.targets.contains(&upgrade.node));
        self.removals.retain(|removal| self.targets.contains(&removal.node));
    }

    /// Images are pulled for units. Where all of them are blocked, pulling again and again would be all that a plan does.
    fn only_needed_pulls(&mut self) {
        let installs = self.steps.iter().filter_map(|step| match &step.action {
            Action::InstallTalos { node, .. } => Some(node.clone()),
            _ => None,
        });
        let installs: BTreeSet<NodeName> = installs.collect();
        let upgrades = |step: &Step| matches!(step.action, Action::UpgradeComponent { .. });
        let upgrades = self.steps.iter().any(upgrades);
        self.steps.retain(|step| match &step.action {
            Action::PullImage { node, .. } => installs.contains(node),
            Action::PullImages { .. } => upgrades,
            _ => true,
        });
        let awaited: BTreeSet<StepId> =
            self.steps.iter().flat_map(|step| step.after.iter().cloned()).collect();
        self.steps.retain(|step| {
            !matches!(step.action, Action::RegisterSchematic { .. }) || awaited.contains(&step.id)
        });
    }

    /// Workers get a machine config in place once the control plane nodes were seen to run theirs.
    fn workers_last(&mut self, configured: Option<&StepId>) {
        let Some(configured) = configured else { return };
        for step in self.steps.iter_mut().filter(|step| step.unit.is_none()) {
            let Action::Reconfigure { node, .. } = &step.action else { continue };
            if self.blueprint.nodes.get(node).is_some_and(|node| node.role == Role::Worker) {
                step.after.push(configured.clone());
            }
        }
    }

    /// Nodes that this plan makes, with the step after which they have their place.
    fn newcomers(&self) -> Vec<(&'a Node, StepId)> {
        let is_new = |node: &&Node| {
            let machine = self.observed.machines.get(&node.name).map(|machine| &machine.api);
            let made = |step: &Step| matches!(&step.action, Action::CreateVm { node: n, .. } | Action::CloneVm { node: n, .. } if *n == node.name);
            // A machine in maintenance mode that this plan does not configure does not join.
            let configures =
                |step: &Step| matches!(&step.action, Action::Configure { node: n, .. } if *n == node.name);
            !self.replacements.contains(&node.name)
                && (machine == Some(&Api::Maintenance) || self.steps.iter().any(made))
                && self.steps.iter().any(configures)
        };
        let joins = |node: &Node| Action::Join { node: node.name.clone() }.id();
        let nodes = self.blueprint.nodes.values().filter(is_new);
        let joining = nodes.map(|node| (node, joins(node)));
        joining.filter(|(_, join)| self.steps.iter().any(|step| step.id == *join)).collect()
    }

    /// Nodes with a need: those that are not whole first, then by name, the leader of etcd late and the holder of the VIP last.
    fn in_restart_order(&self, outlook: &Outlook) -> Vec<&'a Node> {
        self.in_order(outlook, &self.needs.keys().collect::<Vec<_>>())
    }

    fn in_order(&self, outlook: &Outlook, names: &[&NodeName]) -> Vec<&'a Node> {
        let standing = quorum::standing(self.blueprint, &self.observed.machines);
        let is = |node: &Node, name: Option<&String>| name.is_some_and(|name| node.name == *name);
        let (leader, holder) = match &standing {
            Some(standing) => (standing.leader.as_ref(), standing.vip_on.as_ref()),
            None => (None, None),
        };
        let mut nodes: Vec<&'a Node> =
            names.iter().filter_map(|name| self.blueprint.nodes.get(*name)).collect();
        nodes.sort_by(|a, b| {
            let key = |node: &Node| {
                (outlook.votes(&node.name) && self.is_whole(node), is(node, holder), is(node, leader))
            };
            key(a).cmp(&key(b)).then_with(|| natural::compare(&a.name, &b.name))
        });
        nodes
    }

    /// Roles of which a node runs the image of the file already, while others are to get it.
    fn upgraded_roles(&self) -> Vec<Role> {
        let has = |role: Role| {
            let nodes = self.blueprint.nodes.values().filter(|node| node.role == role);
            let installed = |node: &Node| {
                let machine = self.observed.machines.get(&node.name);
                let needs = self.needs.get(&node.name).is_some_and(|need| need.install.is_some());
                // One that runs an older release waits for the others, and shows nothing.
                let newest = self
                    .needs
                    .values()
                    .filter_map(|need| need.install.as_ref())
                    .map(|install| &install.talos);
                !needs
                    && machine.is_some_and(|machine| machine.api == Api::Configured)
                    && newest.into_iter().all(|talos| *talos == node.talos)
            };
            nodes.into_iter().any(installed)
        };
        [Role::ControlPlane, Role::Worker].into_iter().filter(|role| has(*role)).collect()
    }

    /// Whether a control plane node is a voting member and calls itself ready.
    fn is_whole(&self, node: &Node) -> bool {
        let machine = self.observed.machines.get(&node.name);
        machine.is_some_and(|machine| {
            machine.ready && matches!(machine.etcd, Etcd::Member { learner: false, .. })
        })
    }

    fn take(&mut self, id: &StepId) -> Option<Step> {
        let at = self.steps.iter().position(|step| step.id == *id)?;
        Some(self.steps.remove(at))
    }

    /// Gives a unit its place: behind all units of control plane nodes before it.
    fn place(&mut self, course: &mut Course, draft: DraftUnit, at_once: usize) {
        let votes = course.outlook.votes(&draft.node);
        let removed = matches!(draft.goal, Goal::Remove { .. });
        let mut forecast = course.outlook.forecast(&draft.request(), removed, at_once);
        match draft.goal {
            Goal::Drain { .. } => forecast.moves_vip = false,
            // A static pod that restarts leaves the VIP where it is; without its API server, the endpoint does not answer.
            Goal::UpgradeKubernetes { .. } if draft.unit.kind() == Component::ApiServer.name() => {}
            Goal::UpgradeKubernetes { .. } if draft.unit.kind() != "upgrade" => forecast.moves_vip = false,
            // A machine that moves while it runs keeps its addresses.
            Goal::Move { .. } if draft.disruption < Disruption::Reboot => forecast.moves_vip = false,
            _ => course.outlook.moved_vip(&draft.node),
        }
        let before = self.before(course, &draft.request(), forecast.outage, draft.installs);
        let mut after = [draft.after, before].concat();
        let mut last = None;
        for DraftStep { action, reason, seconds } in draft.acts {
            let disruption = disruption_of(&action, draft.disruption);
            let id = self.push(action, after, reason, seconds);
            self.set_disruption(&id, disruption);
            if let Some(step) = self.steps.iter_mut().find(|step| step.id == id) {
                step.unit = Some(draft.unit.clone());
            }
            after = vec![id.clone()];
            last = Some(id);
        }
        if let Some(last) = last.filter(|_| votes) {
            course.chain = vec![last];
        }
        let DraftUnit { unit: id, node, goal, disruption, effect, .. } = draft;
        self.units.push(Unit { id, node, goal, disruption, effect, forecast });
    }

    /// What comes before a unit: the units of control plane nodes before it, and once a snapshot of etcd, where a member is removed or
    /// upgraded, or the API is away.
    fn before(
        &mut self,
        course: &mut Course,
        request: &Request,
        outage: bool,
        installs: bool,
    ) -> Vec<StepId> {
        let is_member = course.outlook.is_listed(&request.node);
        let removes = request.effect == Effect::Removal && is_member;
        let upgrades = installs && is_member;
        let saves = outage || removes || upgrades;
        if saves && !course.saved {
            course.saved = true;
            let reason = match outage {
                true => {
                    "the Kubernetes API is unavailable during the next steps; the snapshot is the way back if one of them fails"
                }
                false if removes => {
                    "the next steps remove an etcd member; the snapshot is the way back if one of them fails"
                }
                false => {
                    "the next steps upgrade control plane nodes; the snapshot is the way back if one of them fails"
                }
            };
            let saved = self.push(Action::SnapshotEtcd, course.chain.clone(), reason, usual::SNAPSHOT);
            course.chain = vec![saved];
        }
        let mut before = course.chain.clone();
        let saved = Action::SnapshotEtcd.id();
        if saves && !before.contains(&saved) {
            // Of its own, so that no unit is made without it where another one is left out.
            before.push(saved);
        }
        before
    }
}

fn told(blockers: &[Blocker]) -> String {
    blockers.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// What one step of a unit does to what runs: the act itself has the class, what is around it has none.
fn disruption_of(action: &Action, unit: Disruption) -> Disruption {
    match action {
        Action::PowerCycleVm { .. } => Disruption::PowerCycle,
        Action::ShutdownNode { .. } => Disruption::PowerCycle,
        Action::MigrateVm { online: true, .. } => Disruption::ServiceRestart,
        Action::MigrateVm { online: false, .. } => Disruption::PowerCycle,
        // Before 1.13 the machine reboots by itself when it has installed the image.
        Action::InstallTalos { .. }
        | Action::RebootNode { .. }
        | Action::Reconfigure { mode: ConfigMode::Reboot, .. } => Disruption::Reboot,
        Action::Reconfigure { mode: ConfigMode::NoReboot, .. }
        | Action::UpdateVm { .. }
        | Action::UpgradeComponent { .. } => unit.min(Disruption::ServiceRestart),
        Action::StopVm { .. }
        | Action::DeleteVm { .. }
        | Action::DeleteDisk { .. }
        | Action::RenewDisk { .. }
        | Action::LeaveEtcd { .. } => Disruption::Delete,
        _ => Disruption::None,
    }
}
