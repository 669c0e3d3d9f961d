//! What a VM that exists would not start with once it is as the file says: more cores than its host has, or a bridge that its host does
//! not have.
//!
//! Proxmox accepts both and refuses the start, which is after the node was drained and stopped. For VMs that are created, the same is
//! asked by [`super::preflight`] and [`super::refuse`]. Devices are asked for both in the same way.

use std::collections::BTreeSet;

use super::preflight;
use super::refuse;
use super::{Refusal, RefusalCode};
use crate::blueprint::{Blueprint, Node};
use crate::observed::{Observed, Proxmox, Vm};
use crate::ownership;
use crate::vm::words;

/// Nodes with the VM that they have.
fn existing<'b>(
    blueprint: &'b Blueprint,
    proxmox: &'b Proxmox,
) -> impl Iterator<Item = (&'b Node, &'b Vm)> + use<'b> {
    let nodes = blueprint.nodes.values().filter(|node| !node.external);
    nodes.filter_map(|node| Some((node, ownership::vm_of(blueprint, proxmox, &node.name)?)))
}

/// Bridges that a VM gets, or needs for its next start, and that no running VM of the cluster uses on its host: whether they exist
/// there must be asked.
#[must_use]
pub fn new_bridges<'b>(node: &'b Node, vm: &Vm, proxmox: &Proxmox) -> BTreeSet<&'b String> {
    let cards = [&node.bridge].into_iter().chain(node.settings.extra_nics.iter().map(|nic| &nic.bridge));
    let cards = cards.enumerate().filter(|(at, bridge)| {
        let has = bridge_of(vm, &format!("net{at}"));
        !vm.running || has.as_ref() != Some(*bridge)
    });
    let running = || proxmox.marked.iter().filter(|other| other.running && other.host == vm.host);
    let is_used = |bridge: &String| {
        let uses = |other: &Vm| {
            let mut cards = other.config.keys().filter(|key| key.starts_with("net"));
            cards.any(|key| bridge_of(other, key).as_ref() == Some(bridge))
        };
        running().any(uses)
    };
    cards.map(|(_, bridge)| bridge).filter(|bridge| !is_used(bridge)).collect()
}

fn bridge_of(vm: &Vm, card: &str) -> Option<String> {
    words::parts(card, vm.config.get(card)?).remove("bridge")
}

/// PCI mappings that a VM gets, or needs for its next start.
#[must_use]
pub fn new_devices<'b>(node: &'b Node, vm: &Vm) -> Vec<&'b str> {
    let has = |mapping: &str| {
        let mut devices = vm.config.iter().filter(|(key, _)| key.starts_with("hostpci"));
        devices.any(|(key, value)| words::parts(key, value).get("mapping").is_some_and(|it| it == mapping))
    };
    let wanted = node.hardware.pci.iter().map(|pci| pci.mapping.as_str());
    wanted.filter(|mapping| !mapping.contains(':') && (!vm.running || !has(mapping))).collect()
}

/// Nodes whose VM changes in a way that asks something of its host that is not known from the VMs that run there.
#[must_use]
pub fn asking<'b>(blueprint: &'b Blueprint, proxmox: &'b Proxmox) -> Vec<(&'b Node, &'b Vm)> {
    let asks = |(node, vm): &(&Node, &Vm)| {
        !new_bridges(node, vm, proxmox).is_empty() || !new_devices(node, vm).is_empty()
    };
    existing(blueprint, proxmox).filter(asks).collect()
}

/// Why VMs would not start after their change.
pub(super) fn refusals(blueprint: &Blueprint, observed: &Observed) -> Vec<Refusal> {
    let proxmox = &observed.proxmox;
    let found = existing(blueprint, proxmox).flat_map(|(node, vm)| {
        let changes = !vm.running || vm.config.get("cores") != Some(&node.cores.to_string());
        let processors = changes.then(|| preflight::too_many_cores(observed, node, &vm.host)).flatten();
        processors.into_iter().chain(bridges(proxmox, node, vm))
    });
    found.collect()
}

fn bridges(proxmox: &Proxmox, node: &Node, vm: &Vm) -> Vec<Refusal> {
    let new = new_bridges(node, vm, proxmox);
    let Some(host) = proxmox.inventory.hosts.get(&vm.host).filter(|host| host.online && !new.is_empty())
    else {
        return vec![];
    };
    // A machine that runs is not disconnected for a bridge that may not exist. One that is off loses nothing.
    if host.bridges.is_empty() && vm.running {
        let names: Vec<&str> = new.iter().map(|bridge| bridge.as_str()).collect();
        return vec![Refusal {
            code: RefusalCode::Bridge,
            why: format!(
                "{} gets the bridge {}, and Proxmox did not say whether {} has it",
                node.name,
                names.join(", "),
                vm.host
            ),
            hint:
                "`talosmith doctor` shows what the token may see; run the command again once Proxmox answers"
                    .to_owned(),
        }];
    }
    refuse::missing_bridges(node, &vm.host, &host.bridges, new.into_iter())
}
