//! What is there and not in the file, and what could not be seen.
//!
//! A node that the file no longer has is removed where that is allowed ([`remove`](super::remove)), and one on another host than the file
//! says moves ([`moves`](super::moves)). A VM ID that the file changed is something that cannot be done. Each that is not done is blocked,
//! so that no plan calls the cluster as the file says.

use std::collections::BTreeSet;

use super::bring_up::{Builder, usual};
use super::{Blocked, Note, drift};
use crate::blueprint::Node;
use crate::names::NodeName;
use crate::observed::{RecordSeen, Vm};
use crate::ownership;
use crate::quorum;
use crate::step::{Action, Disruption};

/// With this starts the note about a deletion that was interrupted.
pub const DELETION: &str = "its deletion started at ";

impl Builder<'_> {
    /// VMs of ours and nodes of Kubernetes that the file does not have, and what could not be seen.
    pub(super) fn others(&mut self) {
        let (blueprint, observed) = (self.blueprint, self.observed);
        let ours: Vec<_> = self.owner.into_iter().flat_map(|owner| observed.proxmox.of(owner)).collect();
        // A clone is refused as that; what the file should say follows from the original.
        let is_original = |vm: &&&Vm| {
            let original = ownership::vm_of(blueprint, &observed.proxmox, &vm.mark.node);
            original.is_some_and(|original| original.vmid == vm.vmid)
        };
        for vm in ours.iter().filter(is_original) {
            let Some(node) = blueprint.nodes.get(&vm.mark.node) else {
                self.left_the_file(vm);
                continue;
            };
            self.misplaced(node, vm);
        }
        let nodes = observed.kubernetes.nodes.keys().map(ToString::to_string);
        let members = quorum::views(&observed.machines).into_iter().flat_map(|view| view.members);
        // A name may be fully qualified, and is empty while a member starts for the first time.
        let members = members.filter_map(|member| Some(member.name.split('.').next()?.to_owned()));
        let names: BTreeSet<String> = nodes.chain(members).filter(|name| !name.is_empty()).collect();
        for name in &names {
            // One that has a VM of ours was reported above.
            if !blueprint.nodes.contains_key(name.as_str()) && !ours.iter().any(|vm| vm.mark.node == *name) {
                self.without_vm(name);
            }
        }
        self.in_removal_order();
        for (host, nodes) in observed.proxmox.record.iter().flat_map(|record| &record.state.drained) {
            // Also one that was blocked, and so is not on the list of those that left.
            let there = self.nodes_on(host).into_iter().filter(|(_, vm)| vm.running);
            let there: Vec<&str> = there.map(|(node, _)| node.name.as_str()).collect();
            if !there.is_empty() {
                let count = match there.len() {
                    1 => "1 node still runs".to_owned(),
                    many => format!("{many} nodes still run"),
                };
                let text = format!(
                    "{host} is being drained; {count} there: {}. `talosmith host drain {host}` continues that, `talosmith host undrain \
                     {host}` ends it",
                    there.join(", ")
                );
                self.notes.push(Note { text });
                continue;
            }
            let nodes: Vec<&str> = nodes.iter().map(NodeName::as_str).collect();
            let left = if nodes.is_empty() { String::new() } else { format!(" of {}", nodes.join(", ")) };
            let text = format!("{host} is drained{left}; `talosmith host undrain {host}` ends that");
            self.notes.push(Note { text });
        }
        if let Some(since) = observed.proxmox.record.as_ref().and_then(|record| record.state.deleting) {
            self.notes.push(Note {
                text: format!(
                    "{DELETION}{} and was interrupted; `talosmith destroy` continues it, `talosmith apply` creates again what is \
                     missing",
                    since.strftime("%Y-%m-%d %H:%M:%S UTC")
                ),
            });
        }
        for unobserved in &observed.unobserved {
            let verb = if unobserved.what.starts_with("Kubernetes") { "reach" } else { "observe" };
            let text = format!("could not {verb} {}: {}", unobserved.what, unobserved.why);
            self.notes.push(Note { text });
        }
    }

    /// A VM with another ID than the file says, or on another host.
    fn misplaced(&mut self, node: &Node, vm: &Vm) {
        let machine = self.observed.machines.get(&node.name);
        let known = self.observed.kubernetes.nodes.contains_key(&node.name);
        // The ID follows from the address; another address is refused as that.
        let moved = drift::moved(node, vm, machine, known).is_some();
        if vm.vmid != node.vmid && !moved {
            self.block(
                &node.name,
                Disruption::Replace,
                format!(
                    "{} has the VM ID {}, and the file says {}; the ID of a VM cannot be changed",
                    node.name, vm.vmid, node.vmid
                ),
                format!("write `vmid: {}` for this node in the file", vm.vmid),
            );
        }
        self.misplaced_host(node, vm);
    }

    /// What of the record's VM is not as the file says.
    pub(super) fn record_differs(&mut self, seen: &RecordSeen) {
        let wanted = self.blueprint.record.vmid;
        // The ID follows from the VIP; another VIP is refused as that.
        if seen.vmid != wanted && self.moved_endpoint().is_none() {
            self.blocked.push(Blocked {
                node: None,
                what: format!(
                    "the cluster record VM has the VM ID {}, and the file says {wanted}; the ID of a VM cannot be changed",
                    seen.vmid
                ),
                disruption: Disruption::Replace,
                hint: format!("write `record: {}` under `proxmox` in the file", seen.vmid),
            });
        }
        let vm = self.observed.proxmox.marked.iter().find(|vm| vm.vmid == seen.vmid);
        let has: Option<Vec<&str>> =
            vm.map(|vm| vm.next("tags").unwrap_or_default().split([';', ',', ' ']).collect());
        let lacks = |tag: &&String| {
            has.as_ref().is_some_and(|has| !has.iter().any(|has| has.eq_ignore_ascii_case(tag)))
        };
        let missing: Vec<&str> = self.blueprint.tags.iter().filter(lacks).map(String::as_str).collect();
        let name = &self.blueprint.record.name;
        let renamed = vm.filter(|vm| vm.name != *name).map(|vm| format!("its name is {} → {name}", vm.name));
        let lost = (!missing.is_empty()).then(|| format!("it lost the tags {}", missing.join(", ")));
        let deleting = seen.state.deleting.map(|_| "it says that the cluster is being deleted".to_owned());
        let differs: Vec<String> = renamed.into_iter().chain(lost).chain(deleting).collect();
        if !differs.is_empty() && !seen.unreadable {
            let reason = differs.join("; ");
            let action = Action::UpdateRecord { vm: seen.at() };
            self.push(action, vec![], reason, usual::RECORD);
        }
    }

    pub(super) fn block(&mut self, node: &str, disruption: Disruption, what: String, hint: String) {
        self.blocked.push(Blocked { node: Some(node.into()), what, disruption, hint });
    }
}
