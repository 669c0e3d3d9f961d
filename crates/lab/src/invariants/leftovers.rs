//! Invariant 9: what a run that ended well must not leave behind.

use std::collections::{BTreeMap, BTreeSet};

use super::Rules;
use crate::hypervisor::access::Principal;
use crate::world::World;

/// Everything that nothing will clean up, in words: volumes without their VM or that it does not use, locks without a task, a lease
/// that is held, cordons of nodes, members of etcd and Kubernetes nodes without a machine, accounts without a cluster, tokens without rights, roles that
/// no user has, and rights of users that are gone.
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
        let uses = |volid: &str| {
            let snapshots = vm.snapshots.values().flat_map(|snapshot| snapshot.config.values());
            vm.config.values().chain(snapshots).any(|value| value.split(',').any(|part| part == volid))
        };
        let owned = hypervisor.storages.owned_by(vm.vmid).filter(|volume| !uses(&volume.volid));
        left.extend(
            owned.map(|volume| format!("volume {}, which VM {} does not name", volume.volid, vm.vmid)),
        );
        if let Some(holder) = vm.get("description").and_then(|notes| (rules.lease)(notes)?) {
            left.push(format!("the lease of {holder} in VM {}", vm.vmid));
        }
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
    left.extend(accounts(world, rules));
    left.extend(nodes(world));
    left.extend(cordons(world, rules));
    let newest = world.machines.etcd_views().into_iter().filter(|view| view.members.iter().any(|m| m.up));
    for view in newest {
        for member in view.members.iter().filter(|member| world.machines.get(member.vmid).is_none()) {
            left.push(format!("etcd member of VM {}, which does not exist", member.vmid));
        }
    }
    left
}

/// Accounts of a cluster that is gone, tokens that may do nothing, and roles that no user has.
fn accounts(world: &World, rules: &Rules) -> Vec<String> {
    let access = &world.hypervisor.access;
    let mut left = Vec::new();
    let exists = world.hypervisor.vms.values().any(|vm| (rules.is_ours)(vm.vmid, &vm.config));
    let ours = access
        .users
        .iter()
        .filter(|(_, user)| user.about.get("comment").is_some_and(|comment| (rules.is_our_account)(comment)));
    for (name, user) in ours {
        if !exists {
            left.push(format!("account {name} of a cluster that is gone"));
        }
        for token in user.tokens.keys().map(|token| format!("{name}!{token}")) {
            let has_rights = |entries: &BTreeMap<Principal, _>| {
                entries.keys().any(|principal| principal.parts() == ("token", token.as_str()))
            };
            if !access.acl.values().any(has_rights) {
                left.push(format!("token {token}, which has no rights"));
            }
        }
    }
    let used: BTreeSet<&String> =
        access.acl.values().flat_map(BTreeMap::values).flat_map(BTreeMap::keys).collect();
    let unused = access.roles.keys().filter(|role| !used.contains(role));
    left.extend(unused.map(|role| format!("role {role}, which no user has")));
    left
}

/// Nodes that operators cordoned and forgot.
fn cordons(world: &World, rules: &Rules) -> Vec<String> {
    let nodes = world.machines.stores().flat_map(|store| store.list("", "nodes", None));
    let ours = nodes.filter(|node| (rules.is_our_cordon)(node));
    ours.map(|node| format!("the cordon of Kubernetes node {}", node["metadata"]["name"])).collect()
}

/// Nodes in Kubernetes that no machine is.
fn nodes(world: &World) -> Vec<String> {
    let nodes = world.machines.stores().flat_map(|store| store.list("", "nodes", None));
    let names = nodes.filter_map(|node| node["metadata"]["name"].as_str());
    let is_machine = |name: &&str| world.machines.iter().any(|(_, machine)| machine.hostname() == *name);
    names
        .filter(|name| !is_machine(name))
        .map(|name| format!("Kubernetes node {name}, which no machine is"))
        .collect()
}
