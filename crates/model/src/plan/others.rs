//! What is there and not in the file, and what could not be seen. It is told, and left alone.

use super::Notice;
use super::bring_up::Builder;

impl Builder<'_> {
    /// VMs of ours and nodes of Kubernetes that the file does not have, and what could not be seen.
    pub(super) fn others(&mut self) {
        let (blueprint, observed) = (self.blueprint, self.observed);
        let ours: Vec<_> = self.owner.into_iter().flat_map(|owner| observed.proxmox.of(owner)).collect();
        for vm in &ours {
            let Some(node) = blueprint.nodes.get(&vm.mark.node) else {
                self.tell(format!(
                    "{} (VM {} on {}) is ours but not in the file; it is left alone, because removing a node is not \
                     supported yet",
                    vm.mark.node, vm.vmid, vm.host
                ));
                continue;
            };
            if vm.vmid != node.vmid {
                self.tell(format!(
                    "{} has the VM id {}, not {}; ids are never changed",
                    node.name, vm.vmid, node.vmid
                ));
            }
            if let Some(host) = node.host.as_ref().filter(|h| node.host_pinned && **h != vm.host) {
                self.tell(format!("{} is on {}, the file says {host}; it is left there", node.name, vm.host));
            }
        }
        for name in observed.kubernetes.nodes.keys() {
            // One that has a VM of ours was told above.
            if !blueprint.nodes.contains_key(name) && !ours.iter().any(|vm| vm.mark.node == *name) {
                self.tell(format!(
                    "{name} is a node of Kubernetes but not in the file; it is left alone, because removing a node is not \
                     supported yet. If its machine is gone, `kubectl delete node {name}` removes it"
                ));
            }
        }
        for unseen in &observed.unseen {
            self.tell(format!("could not see {}: {}", unseen.what, unseen.why));
        }
    }

    fn tell(&mut self, text: String) {
        self.notices.push(Notice { text });
    }
}
