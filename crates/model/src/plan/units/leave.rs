//! Nodes that are replaced or removed, and nodes that an interrupted run left cordoned.

use std::collections::BTreeSet;

use super::super::bring_up::{Builder, usual};
use super::super::remove::Removal;
use super::{Course, DraftUnit, told};
use crate::blueprint::Node;
use crate::gate::{Blocker, Effect, Request, Verdict};
use crate::names::NodeName;
use crate::observed::Api;
use crate::quorum;
use crate::step::{Action, Disruption, Step, StepId, UnitId};
use crate::unit::{self, Goal, Unit, UnitState};

impl Builder<'_> {
    /// Nodes that are replaced: their steps stand already, and get their unit.
    pub(super) fn replace_units(&mut self, course: &mut Course, voting: bool) {
        let nodes = self.replacements.iter().filter(|node| course.outlook.votes(node) == voting);
        let nodes: Vec<&Node> = nodes.filter_map(|name| self.blueprint.nodes.get(name)).collect();
        for node in nodes {
            let id = UnitId(format!("replace/{}", node.name));
            let request = Request { unit: id.clone(), node: node.name.clone(), effect: Effect::Removal };
            let forecast = course.outlook.forecast(&request, false, 1);
            let before = self.before(course, &request, false, false);
            let of_node = |step: &&mut Step| step.action.node() == Some(&node.name);
            let own: BTreeSet<StepId> =
                self.steps.iter_mut().filter(of_node).map(|step| step.id.clone()).collect();
            for step in self.steps.iter_mut().filter(of_node) {
                step.unit = Some(id.clone());
                if !step.after.iter().any(|id| own.contains(id)) {
                    step.after.extend(before.iter().cloned());
                }
            }
            if voting {
                course.chain = vec![Action::Join { node: node.name.clone() }.id()];
            }
            course.outlook.joined(&node.name, node.role);
            let goal = Goal::Replace { node: node.name.clone() };
            let (node, effect) = (node.name.clone(), Effect::Removal);
            self.units.push(Unit { id, node, goal, disruption: Disruption::Replace, effect, forecast });
        }
    }

    /// Nodes that the file does not have any more.
    pub(super) fn remove_all(&mut self, course: &mut Course, removals: Vec<Removal>, at_once: usize) {
        for removal in removals {
            let node = removal.node.clone();
            let votes = course.outlook.votes(&node);
            let listed = course.outlook.is_listed(&node);
            let request = Request {
                unit: UnitId(format!("remove/{node}")),
                node: node.clone(),
                effect: Effect::Removal,
            };
            let voters = course.outlook.forecast(&request, true, 1).voters.filter(|_| listed);
            let tolerance = voters.and_then(|(healthy, voters)| quorum::tolerance(healthy, voters));
            let draft = DraftUnit {
                unit: UnitId(format!("remove/{node}")),
                node: node.clone(),
                goal: Goal::Remove { node: node.clone() },
                disruption: Disruption::Delete,
                effect: Effect::Removal,
                acts: removal.acts(listed, tolerance),
                after: vec![],
                installs: false,
            };
            match course.outlook.ask(&draft.request()) {
                Verdict::Go(_) => {}
                // Workers come back, and the gate asks again.
                Verdict::Wait(_) if !votes => {}
                Verdict::Wait(blockers) | Verdict::Stop(blockers) => {
                    let hint = blockers.first().map(Blocker::hint).unwrap_or_default();
                    let what = format!("Talosmith does not remove {node}: {}", told(&blockers));
                    self.block(&node, Disruption::Delete, what, hint.to_owned());
                    continue;
                }
            }
            self.place(course, draft, at_once);
            course.outlook.gone(&node);
        }
    }

    /// Nodes that Talosmith cordoned in a run that was interrupted, and that need nothing else. No other node is disrupted before they
    /// are whole and take pods again.
    pub(in crate::plan) fn uncordon(&mut self) {
        let has_unit = |name: &NodeName| self.units.iter().any(|unit| unit.node == *name);
        let left: Vec<NodeName> = self.interrupted().into_iter().filter(|name| !has_unit(name)).collect();
        let open = unit::open(self.observed);
        for node in left {
            let after = vec![Action::Join { node: node.clone() }.id(), Action::reconfigure(&node).id()];
            let state = open.iter().find(|unit| unit.node == node).map(|unit| unit.state);
            let reason = match state {
                Some(UnitState::InProgress) => "a run disrupts it now, or was interrupted meanwhile",
                Some(UnitState::ShutDown) => "it was shut down with `talosmith node shutdown`",
                Some(UnitState::Unknown) => "another run disrupts it, or was interrupted meanwhile",
                Some(UnitState::Interrupted) | None => {
                    "an earlier run was interrupted while it was disrupted"
                }
            };
            let verify = self.push(Action::VerifyNode { node: node.clone() }, after, reason, usual::VERIFY);
            let reason = "Talosmith cordoned it, and it needs nothing else";
            let uncordon = self.push(Action::UncordonNode { node }, vec![verify], reason, usual::UNCORDON);
            self.hold_units_until(&uncordon);
        }
    }

    /// Nodes that Talosmith cordoned in a run that was interrupted, and that answer, or boot right now and have a step that waits for them.
    pub(super) fn interrupted(&self) -> Vec<NodeName> {
        let is_left = |name: &&NodeName| {
            let answers =
                self.observed.machines.get(*name).is_some_and(|machine| machine.api == Api::Configured);
            let joins = Action::Join { node: (*name).clone() }.id();
            (answers || self.steps.iter().any(|step| step.id == joins))
                && self.blueprint.nodes.contains_key(*name)
                && !self.left_out.contains(*name)
                && !self.blocked.iter().any(|blocked| {
                    // What disrupts nothing, such as a missing label, is no reason to leave it cordoned.
                    blocked.node.as_ref() == Some(*name) && blocked.disruption > Disruption::InPlace
                })
        };
        let seen = &self.observed.kubernetes.nodes;
        let cordoned = seen.iter().filter(|(_, node)| node.cordoned.is_some()).map(|(name, _)| name);
        cordoned.filter(is_left).cloned().collect()
    }

    /// Puts a step before all units, except those that it waits for itself.
    fn hold_units_until(&mut self, step: &StepId) {
        let (mut open, mut before) = (vec![step.clone()], BTreeSet::new());
        while let Some(id) = open.pop() {
            let after = self.steps.iter().find(|step| step.id == id).map(|step| step.after.clone());
            open.extend(after.into_iter().flatten().filter(|id| before.insert(id.clone())));
        }
        let awaited: BTreeSet<UnitId> = self
            .steps
            .iter()
            .filter(|step| before.contains(&step.id))
            .filter_map(|step| step.unit.clone())
            .collect();
        for unit in &self.units {
            let first = self.steps.iter_mut().find(|step| step.unit.as_ref() == Some(&unit.id));
            if let Some(first) = first.filter(|_| !awaited.contains(&unit.id)) {
                first.after.push(step.clone());
            }
        }
    }
}
