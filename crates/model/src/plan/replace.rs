//! A node that is lost and made anew: its VM runs, and nobody answers there. A machine that was reset has no system on its disk
//! any more, so waiting for it is in vain; but from outside that looks like a machine that is slow, and its VM may hold data.
//! So it is only done where the operator allowed it by name, to a node that really does not answer, and to a control plane
//! only while the others are a majority of etcd. Talos itself takes the member of the same name out when the new one joins.

use super::bring_up::Builder;
use super::{Notice, Refusal, RefusalCode};
use crate::blueprint::{Node, Role};
use crate::observed::{Api, Etcd, Vm};
use crate::step::{Action, Disturbs, StepId};

/// Seconds that deleting a VM usually takes.
const DELETE: u32 = 5;

impl Builder<'_> {
    /// Whether the node may be made anew and needs to be. Where one of both is in doubt, that is told.
    pub(super) fn is_lost(&mut self, node: &Node, vm: &Vm) -> bool {
        let silent =
            self.observed.machines.get(&node.name).is_some_and(|m| matches!(m.api, Api::Silent { .. }));
        if !self.allowed.contains(&node.name) || !vm.running || vm.lock.is_some() || !silent {
            return false;
        }
        if self.observed.kubernetes.nodes.get(&node.name).is_some_and(|seen| seen.ready) {
            let text = format!(
                "{} does not answer here, but Kubernetes says that it is ready: it is not made anew",
                node.name
            );
            self.notices.push(Notice { text });
            return false;
        }
        if node.role == Role::ControlPlane && !self.others_are_a_majority(node) {
            self.refusals.push(Refusal {
                code: RefusalCode::Etcd,
                why: format!(
                    "{} cannot be made anew: the other control planes that can be seen are no majority of etcd",
                    node.name
                ),
                remedy: "bring the other control planes back first; without a majority etcd takes no new member"
                    .to_owned(),
            });
        }
        true
    }

    fn others_are_a_majority(&self, node: &Node) -> bool {
        let votes = |other: &&Node| {
            other.name != node.name
                && self
                    .observed
                    .machines
                    .get(&other.name)
                    .is_some_and(|m| matches!(m.etcd, Etcd::Member { learner: false, .. }))
        };
        let all = self.blueprint.control_planes().count();
        self.blueprint.control_planes().filter(votes).count() * 2 > all
    }

    /// Takes the VM away and makes it again; gives the step after which the new machine runs.
    pub(super) fn replace(&mut self, node: &Node, vm: &Vm) -> Vec<StepId> {
        let (name, host, vmid) = (node.name.clone(), vm.host.clone(), vm.vmid);
        let stop = Action::StopVm { node: name.clone(), host: host.clone(), vmid, if_silent: true };
        let stop = self.push(stop, vec![], "a running VM cannot be deleted", DELETE);
        let reason = "it does not answer, and making it anew is allowed";
        let delete = self.push(
            Action::DeleteVm { node: name.clone(), host, vmid },
            vec![stop.clone()],
            reason,
            DELETE,
        );
        self.disturb(&stop, Disturbs::Removes);
        self.disturb(&delete, Disturbs::Removes);
        let started = self.create(node);
        for step in &mut self.steps {
            if matches!(&step.action, Action::CreateVm { node, .. } | Action::CloneVm { node, .. } if *node == name)
            {
                step.after.push(delete.clone());
            }
        }
        started
    }
}
