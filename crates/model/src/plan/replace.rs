//! A node that is lost and replaced: its VM runs, and nothing answers there. A machine that was reset has no system on its disk
//! any more, so waiting for it does not help; but from outside that looks like a machine that is slow, or like a broken network,
//! and its VM may hold data. So it is only done where the operator allowed it by name, where something shows that the node is
//! dead ([`alive`]), while a member of etcd answers, and to a control plane node only while etcd has its quorum without it ([`quorum`]), one in a run.
//! The dead member is removed from etcd in between: Talos would do that itself when the new one joins, but etcd takes no new member
//! while another one is unreachable.

use super::bring_up::{Builder, usual};
use super::renew::in_ha;
use super::{Note, Refusal, RefusalCode, bootstrap};
use crate::alive::{self, Doubt};
use crate::blueprint::{Node, Role};
use crate::observed::{Api, Vm};
use crate::quorum;
use crate::step::{Action, Disruption, StepId};
use crate::vm::words;

/// Seconds for which the executor watches a node before it stops its VM.
pub(super) const WATCH: u32 = 120;

/// What can be done about the only control plane node of a cluster, when its disk was wiped.
pub const ONLY_CONTROL_PLANE: &str = "check the network path from here to the machine. If its disk still has the data, bring the machine back. If not, the cluster's data is gone with it: restore the \
     VM from a backup in Proxmox, or create the cluster again with `talosmith destroy` and `talosmith apply`";

impl Builder<'_> {
    /// Whether the node may be replaced and needs to be. Where one of both is in doubt, that is told.
    pub(super) fn is_lost(&mut self, node: &Node, vm: &Vm) -> bool {
        let unresponsive =
            self.observed.machines.get(&node.name).is_some_and(|m| matches!(m.api, Api::Unresponsive { .. }));
        if !vm.running || vm.lock.is_some() || !unresponsive {
            return false;
        }
        let dead = alive::is_dead(alive::signs(&node.name, self.observed));
        if !self.allowed.node(&node.name) {
            if dead.is_ok() {
                self.offer(node);
            }
            return false;
        }
        let alone = self.blueprint.is_only_control_plane(&node.name)
            && bootstrap::member(self.blueprint, self.observed).is_none();
        match dead {
            Ok(()) | Err(Doubt::NothingAnswers | Doubt::NoKubernetes) if alone => self.refusals.push(Refusal {
                code: RefusalCode::NotProven,
                why: format!(
                    "{} cannot be replaced: it is the only control plane node, and it alone has the data of etcd",
                    node.name
                ),
                hint: ONLY_CONTROL_PLANE.to_owned(),
            }),
            // Where etcd may be lost, a disk of any node may be what helps.
            Ok(()) if bootstrap::member(self.blueprint, self.observed).is_none() => self.refusals.push(Refusal {
                code: RefusalCode::NotProven,
                why: format!("{} cannot be replaced: no member of etcd answers", node.name),
                hint: "bring a control plane node back, so that it answers from here, then run the command again".to_owned(),
            }),
            Ok(()) => {}
            Err(Doubt::Answers) => return false,
            Err(doubt @ Doubt::Ready) => {
                let text = format!("{} does not answer here, but {doubt}: it is not replaced", node.name);
                self.notes.push(Note { text });
                return false;
            }
            Err(doubt @ (Doubt::NothingAnswers | Doubt::NoKubernetes)) => self.refusals.push(Refusal {
                code: RefusalCode::NotProven,
                why: format!("{} cannot be replaced: {doubt}", node.name),
                hint: match doubt {
                    Doubt::NoKubernetes if bootstrap::never(self.blueprint, self.observed, &node.name) => format!(
                        "the record VM says that etcd was never bootstrapped, so the VM has no data of the cluster: delete VM {} in \
                         Proxmox, and it is created again",
                        vm.vmid
                    ),
                    Doubt::NoKubernetes => {
                        "make the Kubernetes API reachable from here (`talosmith health` says what it lacks), then run the command again"
                            .to_owned()
                    }
                    _ => "check the network path from here to the machines, then run the command again".to_owned(),
                },
            }),
        }
        if vm.ha_state.is_some() {
            let (why, hint) = in_ha(vm);
            let what = format!("Talosmith does not replace {}: {why}", node.name);
            self.block(&node.name, Disruption::Replace, what, hint);
            return false;
        }
        if self.would_lose_disks(node, vm) {
            return true;
        }
        if self.votes(node) && !alone {
            self.one_by_one(node);
        }
        true
    }

    /// Data disks go only if each is named: a node can be replaced without them.
    fn would_lose_disks(&mut self, node: &Node, vm: &Vm) -> bool {
        let named = self.allowed.disks.get(&node.name);
        let disks = self.data_disks(node, vm);
        let lost: Vec<&String> =
            disks.iter().filter(|disk| !named.is_some_and(|named| named.contains(*disk))).collect();
        if lost.is_empty() {
            return false;
        }
        let size = |disk: &String| match vm.config.get(disk).and_then(|value| words::gib(value)) {
            Some(gib) => format!("{disk} with {gib} GiB"),
            None => disk.clone(),
        };
        let all: Vec<String> = lost.iter().map(|disk| size(disk)).collect();
        let flags: Vec<String> =
            lost.iter().map(|disk| format!("--allow-destroy {}/{disk}", node.name)).collect();
        let what = format!(
            "Talosmith does not delete the VM of {}: its data disks would be lost ({})",
            node.name,
            all.join(", ")
        );
        let hint = format!(
            "`talosmith node replace {}` creates the node again and keeps them; to delete them with their data, add `{}`",
            node.name,
            flags.join(" ")
        );
        self.block(&node.name, Disruption::Replace, what, hint);
        self.postponed.insert(node.name.clone());
        true
    }

    /// Says how a node that is dead would be replaced, where it may be: by what Kubernetes says of it, so that a node which has not
    /// joined yet is not called dead.
    fn offer(&mut self, node: &Node) {
        let known = self.observed.kubernetes.nodes.contains_key(&node.name);
        let views = quorum::views(&self.observed.machines);
        let kept = !self.votes(node) || quorum::may_remove(&node.name, &views).is_ok();
        if known && kept && bootstrap::member(self.blueprint, self.observed).is_some() {
            let what = format!("{} does not answer, and Kubernetes says that it is not ready", node.name);
            let hint = format!(
                "Talosmith waits for it. If it does not come back, replace it: `talosmith node replace {}` creates the node again and \
                 keeps its data disks",
                node.name
            );
            self.block(&node.name, Disruption::Replace, what, hint);
        }
    }

    /// Whether etcd's quorum is at stake: by the file, or by what its members say.
    pub(super) fn votes(&self, node: &Node) -> bool {
        node.role == Role::ControlPlane
            || quorum::is_member(&node.name, &quorum::views(&self.observed.machines))
    }

    /// A control plane node is replaced only while etcd does not need it, and no other one in the same run.
    fn one_by_one(&mut self, node: &Node) {
        if let Some(first) = &self.replaced {
            let text = format!(
                "{} is replaced in another run, because {first} is replaced in this one: one control plane node at a time. Run \
                 the command again afterwards",
                node.name
            );
            self.notes.push(Note { text });
            self.postponed.insert(node.name.clone());
            return;
        }
        let views = quorum::views(&self.observed.machines);
        if let Err(blocker) = quorum::may_remove(&node.name, &views) {
            self.refusals.push(Refusal {
                code: RefusalCode::Etcd,
                why: format!("{} cannot be replaced: {blocker}", node.name),
                hint: blocker.hint().to_owned(),
            });
        }
        self.replaced = Some(node.name.clone());
    }

    /// Takes the VM away and makes it again; gives the step after which the new machine runs.
    pub(super) fn replace(&mut self, node: &Node, vm: &Vm) -> Vec<StepId> {
        let name = node.name.clone();
        let stop = Action::StopVm { node: name.clone(), vm: vm.at(), if_unresponsive: true };
        let reason = "it does not answer; it is watched for two minutes before it is stopped";
        let stop = self.push(stop, vec![], reason, WATCH + usual::STOP);
        let mut after = stop.clone();
        // etcd takes no new member while one of its members is unreachable.
        if quorum::is_member(&name, &quorum::views(&self.observed.machines)) {
            let leave = Action::LeaveEtcd { node: name.clone() };
            after = self.push(
                leave,
                vec![after],
                "it is dead, and its successor joins as a new member",
                usual::LEAVE,
            );
            self.set_disruption(&after, Disruption::Delete);
        }
        let reason = "it does not answer, and replacing it is allowed";
        let keeps_quorum = self.votes(node);
        let delete = Action::DeleteVm { node: name.clone(), vm: vm.at(), keeps_quorum };
        let delete = self.push(delete, vec![after], reason, usual::DELETE);
        self.set_disruption(&stop, Disruption::Delete);
        self.set_disruption(&delete, Disruption::Delete);
        self.replacements.push(name.clone());
        let started = self.create(node);
        for step in &mut self.steps {
            if matches!(&step.action, Action::CreateVm { node, .. } | Action::CloneVm { node, .. } if *node == name)
            {
                step.after.push(delete.clone());
            }
        }
        if self.observed.kubernetes.nodes.contains_key(&name) {
            self.delete_node_behind(node, &delete, "its successor registers as a new node");
        }
        started
    }
}
