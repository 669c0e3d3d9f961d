//! Invariant 9: what a run that ended well must not leave behind.

use super::Rules;
use crate::world::World;

/// Everything that nobody will ever clean up, in words: volumes without their VM, locks without a task, members of etcd and
/// Kubernetes nodes without a machine, and accounts and rights of users that are gone.
#[must_use]
pub fn leftovers(world: &World, rules: &Rules) -> Vec<String> {
    let hypervisor = &world.hypervisor;
    let mut left = Vec::new();
    for volume in hypervisor.storages.all() {
        if let Some(vmid) = volume.vmid.filter(|vmid| !hypervisor.vms.contains_key(vmid)) {
            left.push(format!("volume {} of VM {vmid}, which does not exist", volume.volid));
        }
    }
    for vm in hypervisor.vms.values().filter(|vm| (rules.is_ours)(vm.vmid, &vm.config)) {
        let unused = vm.config.iter().filter(|(key, _)| key.starts_with("unused"));
        left.extend(unused.map(|(_, volid)| format!("volume {volid}, unused by VM {}", vm.vmid)));
        if let (Some(lock), None) = (vm.lock(), &vm.holder) {
            left.push(format!("lock {lock} of VM {}", vm.vmid));
        }
    }
    for (path, entries) in &hypervisor.access.acl {
        for principal in entries.keys() {
            let (kind, name) = principal.parts();
            let gone = match kind {
                "user" => !hypervisor.access.users.contains_key(name),
                "token" => name.split_once('!').is_none_or(|(user, token)| {
                    hypervisor.access.users.get(user).is_none_or(|user| !user.tokens.contains_key(token))
                }),
                _ => false,
            };
            if gone {
                left.push(format!("rights at {path} of {kind} {name}, which does not exist"));
            }
        }
    }
    let newest = world.machines.etcd_views().into_iter().filter(|view| view.members.iter().any(|m| m.up));
    for view in newest {
        for member in view.members.iter().filter(|member| world.machines.get(member.vmid).is_none()) {
            left.push(format!("etcd member of VM {}, which does not exist", member.vmid));
        }
    }
    left
}
