//! Nodes that the file does not have any more.
//!
//! Taking a node out of the file asks for its removal; its disks, and a member of etcd, go with it for good. So it is planned only
//! where the operator allowed it, by name or for all such nodes, and only where enough is known: which VM it is and that it is ours,
//! what its machine says or that it is dead, and that Kubernetes answers. Everything else is blocked, with what would be lost.

use super::bring_up::{Builder, usual};
use super::units::DraftStep;
use crate::alive;
use crate::blueprint::{Node, Role};
use crate::names::{NodeName, VmRef};
use crate::natural;
use crate::observed::{Api, Removed, Vm};
use crate::ownership::{self, Act, Evidence};
use crate::quorum;
use crate::step::{Action, Disruption};

/// A node that is removed.
#[derive(Debug)]
pub(super) struct Removal {
    pub(super) node: NodeName,
    /// `None` where it has no VM of ours.
    vm: Option<VmRef>,
    state: State,
    in_kubernetes: bool,
    /// What is lost with its VM.
    disks: String,
    /// What is lost in Kubernetes, where something is.
    pods: Option<String>,
}

/// What a node that is removed still does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// It is a part of the cluster.
    Alive,
    /// Its VM runs, and nothing of the cluster runs there: its machine waits for a configuration.
    Empty,
    /// Its VM runs, and something shows that the node is dead.
    Dead,
    /// Its VM is off, or it has none.
    Off,
}

impl Removal {
    /// Whether etcd and Kubernetes lost it already.
    pub(super) fn is_dead(&self) -> bool {
        self.state != State::Alive
    }

    /// What is done, one after another; `listed` where etcd has it as a member, and then how etcd stands without it, in words.
    pub(super) fn acts(&self, listed: bool, tolerance: Option<String>) -> Vec<DraftStep> {
        let node = || self.node.clone();
        let reason = "the file does not have it any more";
        let of_etcd = tolerance.map_or(reason.to_owned(), |tolerance| format!("{reason}; {tolerance}"));
        let of_pods = match &self.pods {
            Some(pods) => format!("{reason}; deleted for good: {pods}"),
            None => reason.to_owned(),
        };
        let mut acts = vec![];
        let drains = self.state == State::Alive && self.in_kubernetes;
        if drains {
            acts.push(DraftStep::new(Action::DrainNode { node: node() }, of_pods.as_str(), usual::DRAIN));
        }
        let leave = DraftStep::new(Action::LeaveEtcd { node: node() }, of_etcd, usual::LEAVE);
        let stop = self.vm.clone().filter(|_| self.state != State::Off).map(|vm| {
            let if_unresponsive = self.state == State::Dead;
            let stop = Action::StopVm { node: node(), vm, if_unresponsive };
            DraftStep::new(stop, reason, usual::STOP)
        });
        match self.state {
            // Stopped at once afterwards: at its next boot it would join again.
            State::Alive if listed => {
                let action = Action::MoveLeadership { node: node() };
                acts.push(DraftStep::new(action, "etcd keeps a leader", usual::LEADERSHIP));
                acts.push(leave);
                acts.extend(stop);
            }
            // Proved to be off before its member is removed.
            _ => {
                acts.extend(stop);
                acts.extend(listed.then_some(leave));
            }
        }
        if self.in_kubernetes {
            let reason = if drains { reason } else { of_pods.as_str() };
            acts.push(DraftStep::new(Action::DeleteNode { node: node() }, reason, usual::UNCORDON));
        }
        if let Some(vm) = self.vm.clone() {
            let delete = Action::DeleteVm { node: node(), vm, keeps_quorum: listed };
            let reason = format!("{reason}; deleted with it: {}", self.disks);
            acts.push(DraftStep::new(delete, reason, usual::DELETE));
        }
        acts
    }
}

impl Builder<'_> {
    /// A VM of ours whose node the file does not have.
    pub(super) fn left_the_file(&mut self, vm: &Vm) {
        let node = &vm.mark.node;
        if let Some(new) = self.renamed_to(vm) {
            return self.block(
                node,
                Disruption::Replace,
                format!(
                    "{node} (VM {} on {}) is not in the file, and {} has its VM ID or its address: it looks renamed, and the name of a \
                     node cannot be changed",
                    vm.vmid, vm.host, new.name
                ),
                format!(
                    "write the old name of its pool or node again; to have new nodes instead, give {} another VM ID and address, apply, \
                     and remove {node} afterwards",
                    new.name
                ),
            );
        }
        let removed = self.observed.removed.get(node);
        let lost = self.lost_with(node, removed);
        if !self.may_remove(node) {
            return self.block(
                node,
                Disruption::Delete,
                format!("{node} (VM {} on {}) belongs to this cluster and is not in the file", vm.vmid, vm.host),
                format!(
                    "put it back into the file; or apply with `--allow-destroy {node}`, or `--allow-destroy-removed` for all such nodes, \
                     which removes it. Lost for good: {lost}"
                ),
            );
        }
        match self.removal(vm, removed) {
            Ok(removal) => self.removals.push(removal),
            Err((why, hint)) => {
                let what = format!("{node} (VM {} on {}) is not removed: {why}", vm.vmid, vm.host);
                self.block(node, Disruption::Delete, what, hint);
            }
        }
    }

    /// The removal of a VM of ours with its node, if enough is known for it; else why not, and what helps.
    fn removal(&self, vm: &Vm, removed: Option<&Removed>) -> Result<Removal, (String, String)> {
        let node = &vm.mark.node;
        let again = "run the command again then; nothing was changed";
        let reason = |why: &str, hint: &str| (why.to_owned(), hint.to_owned());
        if removed.is_none() {
            return Err(reason("what it is in the cluster could not be observed", again));
        }
        ownership::may(Act::Remove, self.blueprint, &Evidence::from(vm), node)
            .map_err(|why| (why.to_string(), "look at the VM in Proxmox, and delete it there".to_owned()))?;
        if let Some(lock) = &vm.lock {
            let hint =
                format!("wait for the task that holds it; if it died, run `qm unlock {}` as root", vm.vmid);
            return Err((format!("Proxmox holds the lock `{lock}` on it"), hint));
        }
        if vm.config.get("protection").is_some_and(|flag| flag == "1") {
            let hint = format!("disable its protection: `qm set {} --protection 0` on {}", vm.vmid, vm.host);
            return Err((String::from("it is protected in Proxmox"), hint));
        }
        if !self.observed.kubernetes.answered {
            let hint = "make the Kubernetes API reachable from here, then run the command again";
            return Err(reason("Kubernetes does not answer, so its pods cannot be moved", hint));
        }
        let state = match self.observed.machines.get(node).map(|machine| &machine.api) {
            _ if !vm.running => State::Off,
            Some(Api::Configured) => State::Alive,
            Some(Api::Maintenance) => State::Empty,
            Some(Api::Unresponsive { .. }) => match alive::is_dead(alive::signs(node, self.observed)) {
                Ok(()) => State::Dead,
                Err(doubt) => {
                    let why = format!("it does not answer, and {doubt}");
                    return Err((
                        why,
                        "check the network path from here to its machine, then run the command again"
                            .to_owned(),
                    ));
                }
            },
            Some(Api::ForeignMachine { why } | Api::OtherKeys { why }) => {
                let why = format!("another machine answers at its address: {why}");
                return Err((why, "free its address, then run the command again".to_owned()));
            }
            None => return Err(reason("its machine could not be asked", again)),
        };
        Ok(Removal {
            node: node.into(),
            vm: Some(vm.at()),
            state,
            in_kubernetes: self.observed.kubernetes.nodes.contains_key(node),
            disks: disks_of(removed),
            pods: pods_of(removed),
        })
    }

    /// A node of Kubernetes, or a member of etcd, that the file does not have, without a VM of ours.
    pub(super) fn without_vm(&mut self, node: &str) {
        let kubernetes = &self.observed.kubernetes;
        let known = kubernetes.nodes.get(node);
        // What Kubernetes does not say may be ready.
        let ready = known.map_or(!kubernetes.answered, |seen| seen.ready);
        // Its VM may be one of those that could not be read.
        let seen = &self.observed.proxmox;
        let certain = seen.unread.is_empty() && seen.unmarked.is_empty() && seen.hidden.is_empty();
        let in_kubernetes = known.is_some();
        if !ready && certain && self.may_remove(node) {
            return self.removals.push(Removal {
                node: node.into(),
                vm: None,
                state: State::Off,
                in_kubernetes,
                disks: String::new(),
                pods: None,
            });
        }
        let goes = match (in_kubernetes, quorum::is_member(node, &quorum::views(&self.observed.machines))) {
            (true, true) => "removes its member from etcd and deletes the node",
            (false, _) => "removes its member from etcd",
            (true, false) => "deletes the node",
        };
        let hint = match (ready, certain) {
            (true, _) => format!(
                "put it back into the file; or stop the machine of {node}, and apply with `--allow-destroy-removed` once Kubernetes says \
                 that it is not ready"
            ),
            (false, true) => format!(
                "put it back into the file; if the machine of {node} is gone, apply with `--allow-destroy-removed`, which {goes}"
            ),
            (false, false) => {
                "put it back into the file; or bring the hosts back whose VMs could not be read, then run the command again".to_owned()
            }
        };
        let what = if in_kubernetes { "a node of Kubernetes" } else { "a member of etcd" };
        let what = format!("{node} is {what} and is not in the file; it has no VM of this cluster");
        self.block(node, Disruption::Delete, what, hint);
    }

    /// Whether the operator allowed the removal of a node that the file does not have.
    fn may_remove(&self, node: &str) -> bool {
        self.allowed.removed || self.allowed.node(node)
    }

    /// Dead ones first, then those with the highest number.
    pub(super) fn in_removal_order(&mut self) {
        self.removals
            .sort_by(|a, b| b.is_dead().cmp(&a.is_dead()).then_with(|| natural::compare(&b.node, &a.node)));
    }

    /// The node of the file that a VM looks renamed to: it does not exist, and has the VM's ID or address.
    fn renamed_to(&self, vm: &Vm) -> Option<&Node> {
        let address = vm.config.get("ipconfig0").map(String::as_str).unwrap_or_default();
        let is_same = |node: &&Node| {
            !node.external
                && ownership::vm_of(self.blueprint, &self.observed.proxmox, &node.name).is_none()
                && (node.vmid == vm.vmid || address.contains(&format!("ip={}/", node.address.addr())))
        };
        self.blueprint.nodes.values().find(is_same)
    }

    /// What is lost with a node, in words.
    fn lost_with(&self, node: &str, removed: Option<&Removed>) -> String {
        let votes = removed.is_some_and(|removed| removed.role == Role::ControlPlane)
            || quorum::is_member(node, &quorum::views(&self.observed.machines));
        let stay = self.blueprint.control_planes().count();
        let member = votes.then(|| match quorum::tolerance(stay, stay) {
            Some(then) if stay < 3 => format!("its membership in etcd (with the nodes of the file, {then})"),
            _ => "its membership in etcd".to_owned(),
        });
        let lost: Vec<String> =
            [Some(disks_of(removed)), member, pods_of(removed)].into_iter().flatten().collect();
        match lost.as_slice() {
            [rest @ .., last] if !rest.is_empty() => format!("{}, and {last}", rest.join(", ")),
            _ => lost.concat(),
        }
    }
}

/// The disks of a node that are deleted with its VM, in words.
fn disks_of(removed: Option<&Removed>) -> String {
    let disks = removed.map(|removed| &removed.disks);
    let disks: Vec<String> =
        disks.into_iter().flatten().map(|(key, gib)| format!("{key} with {gib} GiB")).collect();
    match disks.is_empty() {
        true => "its disks".to_owned(),
        false => format!("its disks ({})", disks.join(", ")),
    }
}

/// Pods of a node that no controller recreates, in words; `None` where there are none.
fn pods_of(removed: Option<&Removed>) -> Option<String> {
    match &removed?.unmanaged_pods {
        None => Some("pods on it that no controller recreates (Kubernetes did not list them)".to_owned()),
        Some(pods) if pods.is_empty() => None,
        Some(pods) => Some(format!("pods that no controller recreates ({})", pods.join(", "))),
    }
}
