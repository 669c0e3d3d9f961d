//! Nodes of this cluster that the file does not have any more: VMs with our mark whose node is not in the file.
//!
//! Nothing is planned for their machine configs, and they have no drift. But their etcd members vote, so they are asked like the nodes of
//! the file, and they can be removed safely. What the file would say about them comes from elsewhere: the role from etcd, Kubernetes and the
//! machine itself, the address from the VM's cloud-init settings, Kubernetes or etcd.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use ipnet::Ipv4Net;

use crate::blueprint::{Blueprint, Node, NodeSettings, Role};
use crate::mark::Mark;
use crate::names::NodeName;
use crate::observed::{Etcd, Observed, Proxmox, Removed, Vm};
use crate::ownership::{self, Evidence, Identity};
use crate::quorum;
use crate::vm::words;

/// Every removed node, by what is known of it so far.
#[must_use]
pub fn of(blueprint: &Blueprint, observed: &Observed) -> BTreeMap<NodeName, Removed> {
    let removed = |vm: &Vm| {
        let removed = Removed {
            vmid: vm.vmid,
            host: vm.host.clone(),
            role: role(observed, &vm.mark.node),
            address: address(observed, vm),
            disks: disks(vm),
            unmanaged_pods: observed
                .removed
                .get(vm.mark.node.as_str())
                .and_then(|seen| seen.unmanaged_pods.clone()),
        };
        (vm.mark.node.as_str().into(), removed)
    };
    vms(blueprint, &observed.proxmox).map(removed).collect()
}

/// A [`Node`] for each removed node, so that its machine can be reached and identified and its VM stopped and deleted.
///
/// Name, role, host, VM ID, UUID, MAC address and address are its own. Everything else is that of another node of the file, if possible of
/// the same role, and means nothing: no machine config is rendered from it and no VM is created from it. An address that is not known is
/// unspecified (`0.0.0.0`), and nothing connects there.
#[must_use]
pub fn nodes(blueprint: &Blueprint, observed: &Observed) -> BTreeMap<NodeName, Node> {
    let found = vms(blueprint, &observed.proxmox);
    let node = |vm: &Vm| {
        Some((vm.mark.node.as_str().into(), node(blueprint, vm, observed.removed.get(&vm.mark.node)?)?))
    };
    found.filter_map(node).collect()
}

/// A stand-in for a member of etcd that the file does not have and that has no VM of this cluster: all that is known of it is its name, and
/// where the other members reach it. `None` where nothing says where that is.
#[must_use]
pub fn member(blueprint: &Blueprint, name: &str, peers: &[String]) -> Option<Node> {
    let address = peers.iter().find_map(|peer| host_of(peer))?;
    let mut node = blueprint.control_planes().next()?.clone();
    node.name = name.into();
    node.address = Ipv4Net::new(address, node.address.prefix_len()).ok()?;
    // It is known by its host name, as a machine without a VM is.
    node.external = true;
    (node.pool, node.host, node.uuid, node.mac) = (None, None, None, String::new());
    node.labels.clear();
    node.settings = NodeSettings::default();
    Some(node)
}

/// The VMs of removed nodes, one for each. A copy of a VM is no node.
fn vms<'a>(blueprint: &'a Blueprint, proxmox: &'a Proxmox) -> impl Iterator<Item = &'a Vm> {
    let cluster_id = blueprint.cluster_id.as_deref();
    let all = cluster_id.into_iter().flat_map(|id| proxmox.of(Mark::owner_of(id)));
    all.filter(move |vm| {
        let original = ownership::vm_of(blueprint, proxmox, &vm.mark.node);
        let is_copy = |id| ownership::identify(&Evidence::from(*vm), id) == Identity::Copy;
        !blueprint.nodes.contains_key(&vm.mark.node)
            && original.is_some_and(|original| original.vmid == vm.vmid)
            && !cluster_id.is_some_and(is_copy)
    })
}

fn node(blueprint: &Blueprint, vm: &Vm, removed: &Removed) -> Option<Node> {
    let like = blueprint.nodes.values().min_by_key(|node| (node.role != removed.role, node.external))?;
    let mut node = like.clone();
    node.name = vm.mark.node.as_str().into();
    node.role = removed.role;
    node.pool = None;
    node.host = Some(removed.host.clone());
    node.host_pinned = false;
    node.vmid = removed.vmid;
    node.uuid = vm.uuid;
    node.mac = mac(vm).unwrap_or_default();
    let address = removed.address.unwrap_or(Ipv4Addr::UNSPECIFIED);
    node.address = Ipv4Net::new(address, like.address.prefix_len()).ok()?;
    node.external = false;
    node.labels.clear();
    node.hardware.disks.clear();
    node.hardware.pci.clear();
    node.settings = NodeSettings { dhcp: cloud_init_address(vm).is_none(), ..NodeSettings::default() };
    Some(node)
}

/// Its role. Anything that calls it a control plane node is believed. That it is a worker is believed of the machine itself, and of etcd
/// members that do not list it; where nothing is known it counts as a control plane node, of which more is asked.
fn role(observed: &Observed, name: &str) -> Role {
    let machine = observed.machines.get(name);
    let views = quorum::views(&observed.machines);
    let says = machine.and_then(|machine| machine.role);
    let votes = observed.kubernetes.nodes.get(name).is_some_and(|node| node.control_plane)
        || quorum::is_member(name, &views)
        || machine.is_some_and(|machine| matches!(machine.etcd, Etcd::Member { .. } | Etcd::Data))
        || says == Some(Role::ControlPlane);
    match !votes && (says == Some(Role::Worker) || !views.is_empty()) {
        true => Role::Worker,
        false => Role::ControlPlane,
    }
}

/// Where its machine is: as its VM was told, else as Kubernetes or etcd say.
fn address(observed: &Observed, vm: &Vm) -> Option<Ipv4Addr> {
    let name = &vm.mark.node;
    let kubernetes = || observed.kubernetes.nodes.get(name).and_then(|node| node.address);
    let views = || quorum::views(&observed.machines).into_iter().flat_map(|view| view.members);
    let etcd = || views().filter(|member| member.is_of(name)).flat_map(|member| member.peers);
    cloud_init_address(vm).or_else(kubernetes).or_else(|| etcd().find_map(|peer| host_of(&peer)))
}

/// The address in the VM's cloud-init settings; `None` where a DHCP server gives it one.
fn cloud_init_address(vm: &Vm) -> Option<Ipv4Addr> {
    let parts = words::parts("ipconfig0", vm.config.get("ipconfig0")?);
    parts.get("ip")?.split('/').next()?.parse().ok()
}

/// The address in a peer URL, such as `https://10.25.150.11:2380`.
fn host_of(url: &str) -> Option<Ipv4Addr> {
    let (_, rest) = url.split_once("://")?;
    rest.rsplit_once(':').map_or(rest, |(host, _)| host).parse().ok()
}

fn mac(vm: &Vm) -> Option<String> {
    words::parts("net0", vm.config.get("net0")?).remove("macaddr")
}

/// Disks with data, by their key in Proxmox. Of one that is detached, Proxmox does not say the size: it counts as 0.
fn disks(vm: &Vm) -> BTreeMap<String, u64> {
    let holds_data = |key: &str, value: &str| {
        let is_disk = words::is_drive(key) && !key.starts_with("efidisk") && !key.starts_with("tpmstate");
        let is_detached = key.strip_prefix("unused").is_some_and(|rest| rest.parse::<u32>().is_ok());
        is_detached || is_disk && !value.contains("media=cdrom") && !value.contains("cloudinit")
    };
    let disks = vm.config.iter().filter(|(key, value)| holds_data(key, value));
    disks.map(|(key, value)| (key.clone(), words::gib(value).unwrap_or(0))).collect()
}

#[cfg(test)]
mod tests;
