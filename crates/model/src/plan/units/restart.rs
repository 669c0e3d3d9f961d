//! One node through a restart of it or of its services.

use super::super::Note;
use super::super::bring_up::{Builder, usual};
use super::super::by_hand::{ASKED, Hand};
use super::super::drift::LeftDisk;
use super::need::Need;
use super::outlook::Outlook;
use super::{Course, DraftStep, DraftUnit, told};
use crate::blueprint::{Node, Role};
use crate::gate::{Blocker, Effect, Request, Verdict};
use crate::step::{Action, Disruption, RebootMode};

impl Builder<'_> {
    /// One node through a restart of it or of its services.
    pub(super) fn restart(&mut self, course: &mut Course, node: &Node, at_once: usize) {
        let Some(mut need) = self.needs.remove(&node.name) else { return };
        self.spare_disks(node, &mut need);
        // One after the other: what a person approves is either.
        if need.upgrades().is_some()
            && need.by_hand.is_none()
            && let Some(moves) = need.moves.take()
        {
            let text =
                format!("{} moves to {} after its upgrade, by the plan that follows", node.name, moves.to);
            self.notes.push(Note { text });
        }
        let Some(restarts) = need.restarts() else { return };
        let (upgrades, installs) = (need.upgrades(), need.install.is_some());
        // Kubelets of control plane nodes wait for what they must not be newer than, too.
        let waits = node.role == Role::Worker || !installs;
        let stalled = course.stalled.clone().filter(|_| waits);
        if let Some((before, what)) = stalled.zip(upgrades) {
            let what = format!(
                "Talosmith does not upgrade {what} on {}: {before} comes before it, and is blocked",
                node.name
            );
            let hint =
                "remove what blocks the control plane node first; the others follow once it is upgraded";
            return self.block(&node.name, Disruption::Reboot, what, hint.to_owned());
        }
        let disruption = need.disruption(restarts);
        let votes = course.outlook.votes(&node.name);
        let goal = need.goal(&node.name, restarts);
        let unit = need.unit(&node.name);
        let effect = if need.by_hand == Some(Hand::Drain) { Effect::Eviction } else { Effect::Absence };
        let request = Request { unit: unit.clone(), node: node.name.clone(), effect };
        let voters = course.outlook.voters();
        let verdict = course.outlook.ask(&request);
        let may_wait = match votes {
            // With fewer voters it is an outage, and with an unknown number it may be one. Those that the file does not have are
            // about to go.
            true if effect == Effect::Absence => {
                course.outlook.policy().api_outage || course.outlook.voters_of(self.blueprint) > 2
            }
            _ => self.observed.kubernetes.answered,
        };
        // A node that is shut down does not come back by itself, so nothing is gained by waiting for it.
        let may_wait = may_wait && need.by_hand != Some(Hand::Shutdown);
        let rewire = need.rewire.as_ref().and_then(|id| self.take(id));
        // A plan that is made outside of the maintenance window may be carried out in it.
        let stops = |blocker: &Blocker| !matches!(blocker, Blocker::OutsideWindow { .. });
        if let Verdict::Stop(blockers) | Verdict::Wait(blockers) = &verdict
            && !(may_wait && (matches!(verdict, Verdict::Wait(_)) || !blockers.iter().any(stops)))
        {
            let hint = blockers.first().map(Blocker::hint).unwrap_or_default();
            let changes = need.changes(rewire.as_ref());
            let what = format!("Talosmith does not {goal} ({changes}): {}", told(blockers));
            if upgrades.is_some() && node.role == Role::ControlPlane {
                course.stalled = Some(node.name.clone());
            }
            return self.block(&node.name, disruption, what, hint.to_owned());
        }
        // With one voter there is nowhere to go, and the API that evicts is away meanwhile.
        let all = voters.unwrap_or_else(|| self.blueprint.control_planes().count());
        let is_off = self.vm(node).is_some_and(|vm| !vm.running);
        let drains = need.drains(restarts) && !is_off && !(votes && all <= 1 && effect == Effect::Absence);
        let reboot = match installs && !course.cycled.contains(&node.role) {
            true => RebootMode::PowerCycle,
            false => RebootMode::Default,
        };
        if installs {
            course.cycled.push(node.role);
        }
        let mut acts = need.acts(&node.name, restarts, reboot);
        if let Some(rewire) = rewire {
            need.after.extend(rewire.after);
            acts.insert(0, DraftStep::new(rewire.action, rewire.reason, rewire.seconds));
        }
        let configures = need.config.is_some();
        if !configures && need.by_hand.is_none() {
            // What it follows at once stands before, outside of the unit.
            need.after.push(Action::reconfigure(&node.name).id());
        }
        // What Kubernetes does not have, it cannot drain.
        let known = self.observed.kubernetes.nodes.contains_key(&node.name);
        let drains = drains && (known || !self.observed.kubernetes.answered);
        // A kubelet that restarts leaves etcd alone.
        let goes_down = (need.moves.is_some() && !is_off) || (drains && restarts >= Disruption::Reboot);
        let acts = self.around(&course.outlook, node, acts, drains, goes_down, need.by_hand);
        let moves_leadership = acts.iter().any(|step| matches!(step.action, Action::MoveLeadership { .. }));
        let draft = DraftUnit {
            unit,
            node: node.name.clone(),
            goal,
            disruption,
            effect,
            acts,
            after: need.after,
            installs: upgrades.is_some(),
        };
        // Its unit waits for it to be whole, and may be what makes it so.
        let join = Action::Join { node: node.name.clone() }.id();
        self.take(&join);
        self.place(course, draft, at_once);
        match need.by_hand {
            Some(Hand::Shutdown) => course.outlook.away(&node.name, moves_leadership),
            _ => course.outlook.joined(&node.name, node.role),
        }
        if configures && votes {
            course.configured = course.chain.first().cloned();
        }
    }

    /// What is done to the node itself, with what is done around it.
    fn around(
        &self,
        outlook: &Outlook,
        node: &Node,
        acts: Vec<DraftStep>,
        drains: bool,
        goes_down: bool,
        by_hand: Option<Hand>,
    ) -> Vec<DraftStep> {
        let name = || node.name.clone();
        let kubernetes = &self.observed.kubernetes;
        let seen = kubernetes.nodes.get(&node.name);
        let of_a_person = seen.is_some_and(|seen| !seen.schedulable && seen.cordoned.is_none());
        let ours = seen.is_some_and(|seen| seen.cordoned.is_some());
        let mut all = vec![];
        if by_hand == Some(Hand::Drain) {
            // A person's cordon, which stays.
            let action = Action::CordonNode { node: name() };
            all.push(DraftStep::new(action, ASKED, usual::UNCORDON));
        }
        if drains {
            let reason = match by_hand {
                Some(Hand::Drain) => ASKED,
                _ => "its pods move before it is disrupted",
            };
            all.push(DraftStep::new(Action::DrainNode { node: name() }, reason, usual::DRAIN));
        }
        if goes_down
            && by_hand != Some(Hand::Drain)
            && outlook.votes(&node.name)
            && outlook.is_listed(&node.name)
        {
            let action = Action::MoveLeadership { node: name() };
            all.push(DraftStep::new(action, "etcd keeps a leader", usual::LEADERSHIP));
        }
        all.extend(acts);
        if matches!(by_hand, Some(Hand::Drain | Hand::Shutdown)) {
            return all;
        }
        let soak = u32::try_from(outlook.policy().soak.as_secs()).unwrap_or(u32::MAX);
        let (action, seconds) = (Action::VerifyNode { node: name() }, usual::VERIFY.saturating_add(soak));
        all.push(DraftStep::new(action, "no other node is disrupted before it is healthy", seconds));
        if ours || (drains && !of_a_person) {
            all.push(DraftStep::new(
                Action::UncordonNode { node: name() },
                "Talosmith cordoned it",
                usual::UNCORDON,
            ));
        }
        all
    }

    /// Says which disks stay although the file does not have them, and leaves those in the need that are deleted.
    fn spare_disks(&mut self, node: &Node, need: &mut Need) {
        let name = &node.name;
        let (delete, keep): (Vec<LeftDisk>, Vec<LeftDisk>) = std::mem::take(&mut need.left_disks)
            .into_iter()
            .partition(|disk| need.compared && self.may_delete(name, disk));
        need.left_disks = delete;
        for disk in keep {
            let what = format!("{name} has {disk}, and the file does not; it is kept, with its data");
            let hint = format!(
                "put the disk into the file; or, when its data is not needed any more, apply with `--allow-destroy {name}/{}`, which \
                 deletes it for good",
                disk.key
            );
            self.block(name, Disruption::Delete, what, hint);
        }
    }

    /// Whether the operator named this disk. A node that was named may lose its data where it is replaced, and keeps its disks otherwise.
    pub(in crate::plan) fn may_delete(&self, node: &str, disk: &LeftDisk) -> bool {
        self.allowed.disks.get(node).is_some_and(|disks| disks.contains(&disk.key))
    }
}
