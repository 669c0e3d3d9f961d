//! What a token must be allowed to do for one cluster, and where: the least that bring-up, change and removal need.
//!
//! The list follows from the blueprint alone, so that `doctor` can prove each line of it and `proxmox setup` can grant it.
//! Two roles carry it. [`ROLE`] holds what is done with VMs, storages, networks, devices and hosts, and is given only where
//! such things are used; [`CLUSTER_ROLE`] holds what concerns the cluster as a whole, and reaches nothing below its path.

use std::collections::{BTreeMap, BTreeSet};

use crate::blueprint::{Blueprint, Inventory, Node};
use crate::spec::Spec;

/// The role for what is worked with.
pub const ROLE: &str = "Talosmith";
/// The role for the cluster as a whole.
pub const CLUSTER_ROLE: &str = "TalosmithCluster";

/// A privilege that is needed somewhere.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Need {
    /// Where, as Proxmox writes it.
    pub path: String,
    /// Which.
    pub privilege: &'static str,
    /// What for.
    pub reason: &'static str,
}

/// A role that is to be given at a path.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Where.
    pub path: String,
    /// The role.
    pub role: &'static str,
    /// Whether it holds below the path as well.
    pub propagate: bool,
}

const VM: &[(&str, &str)] = &[
    ("VM.Allocate", "create and delete VMs"),
    ("VM.Audit", "read VMs"),
    ("VM.Clone", "copy templates"),
    ("VM.Config.CDROM", "attach the cloud-init drive"),
    ("VM.Config.CPU", "set processors"),
    ("VM.Config.Cloudinit", "set the first address"),
    ("VM.Config.Disk", "attach and grow disks"),
    ("VM.Config.HWType", "set machine type, serial port and devices"),
    ("VM.Config.Memory", "set memory"),
    ("VM.Config.Network", "set network cards"),
    ("VM.Config.Options", "set name, notes and tags"),
    ("VM.GuestAgent.Audit", "ask the guest agent for addresses"),
    ("VM.Migrate", "move VMs off a host"),
    ("VM.PowerMgmt", "start and stop VMs"),
];
/// Of these, what creating a VM does not need.
const LATER: &[&str] = &["VM.Clone", "VM.GuestAgent.Audit", "VM.Migrate"];
const DISKS: &[(&str, &str)] =
    &[("Datastore.AllocateSpace", "make disks"), ("Datastore.Audit", "see the room that is left")];
const IMAGES: &[(&str, &str)] = &[
    ("Datastore.AllocateTemplate", "download the boot image"),
    ("Datastore.Audit", "see which images are there"),
];
const HOST: &[(&str, &str)] =
    &[("Sys.AccessNetwork", "let the host download"), ("Sys.Audit", "see memory, clock and tasks")];
const BRIDGE: &[(&str, &str)] = &[("SDN.Audit", "see the bridge"), ("SDN.Use", "connect VMs to the bridge")];

/// The privileges on a VM without which it cannot be created and started.
pub(crate) fn to_create_a_vm() -> impl Iterator<Item = &'static str> {
    VM.iter().map(|(privilege, _)| *privilege).filter(|privilege| !LATER.contains(privilege))
}

/// The hosts that may carry nodes: those that the file names, or all.
#[must_use]
pub fn hosts(spec: &Spec, inventory: &Inventory) -> Vec<String> {
    let named = |name: &&String| spec.hosts.is_empty() || spec.hosts.contains_key(*name);
    inventory.hosts.keys().filter(named).cloned().collect()
}

/// Everything that is needed, by path and privilege, each once. `hosts` are all that may carry nodes: where the next node
/// goes is decided by what can be seen of each of them.
#[must_use]
pub fn needs(blueprint: &Blueprint, hosts: &[String]) -> Vec<Need> {
    let mut all: BTreeMap<(String, &'static str), &'static str> = BTreeMap::new();
    let mut add = |path: String, list: &[(&'static str, &'static str)]| {
        for (privilege, reason) in list {
            all.entry((path.clone(), privilege)).or_insert(reason);
        }
    };
    add("/".to_owned(), &[("Sys.Audit", "see whether the cluster has quorum")]);
    match &blueprint.resource_pool {
        Some(pool) => {
            add(format!("/pool/{pool}"), VM);
            add(format!("/pool/{pool}"), &[("Pool.Audit", "see the pool")]);
            add("/vms".to_owned(), &[("VM.Audit", "see which ids are taken")]);
        }
        None => add("/vms".to_owned(), VM),
    }
    for host in hosts {
        add(format!("/nodes/{host}"), HOST);
    }
    for node in blueprint.nodes.values().filter(|node| !node.external) {
        for store in disk_stores(node) {
            add(format!("/storage/{store}"), DISKS);
        }
        if let Some(store) = &node.image_datastore {
            add(format!("/storage/{store}"), IMAGES);
        }
        let more = node.settings.extra_nics.iter().map(|nic| (&nic.bridge, nic.vlan));
        for (bridge, vlan) in std::iter::once((&node.bridge, node.vlan)).chain(more) {
            let tag = vlan.map(|tag| format!("/{tag}")).unwrap_or_default();
            add(format!("/sdn/zones/localnetwork/{bridge}{tag}"), BRIDGE);
        }
        for device in &node.hardware.pci {
            add(format!("/mapping/pci/{}", device.mapping), &[("Mapping.Use", "hand the device through")]);
        }
        if node.hardware.startup.is_some() {
            add("/".to_owned(), &[("Sys.Modify", "set the order in which VMs start")]);
        }
    }
    all.into_iter().map(|((path, privilege), reason)| Need { path, privilege, reason }).collect()
}

/// The datastores that hold disks of a node.
fn disk_stores(node: &Node) -> BTreeSet<&String> {
    let hardware = &node.hardware;
    let more = hardware.disks.iter().filter_map(|disk| disk.datastore.as_ref());
    node.disk_datastore.iter().chain(&hardware.cloudinit_datastore).chain(more).collect()
}

/// Whether a need is one of the cluster as a whole.
fn is_of_cluster(need: &Need) -> bool {
    need.path == "/" || (need.path == "/vms" && need.reason.contains("ids"))
}

/// The privileges of each role.
#[must_use]
pub fn roles(needs: &[Need]) -> BTreeMap<&'static str, BTreeSet<&'static str>> {
    let mut roles: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
    for need in needs {
        roles.entry(role_of(need)).or_default().insert(need.privilege);
    }
    roles
}

/// Where each role is to be given.
#[must_use]
pub fn places(needs: &[Need]) -> BTreeSet<Place> {
    let place = |need: &Need| {
        let path = match need.path.rsplit_once('/') {
            // Given for a bridge, it holds for every VLAN on it.
            Some((bridge, tag)) if bridge.starts_with("/sdn/") && tag.parse::<u16>().is_ok() => {
                bridge.to_owned()
            }
            _ => need.path.clone(),
        };
        Place { propagate: path != "/", path, role: role_of(need) }
    };
    needs.iter().map(place).collect()
}

/// The role that carries a need.
#[must_use]
pub fn role_of(need: &Need) -> &'static str {
    if is_of_cluster(need) { CLUSTER_ROLE } else { ROLE }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blueprint::{InventoryDatastore, InventoryHost};
    use crate::diagnostic::Source;

    fn blueprint(more: &str) -> Blueprint {
        let text = format!(
            "cluster: home\nversions: {{ talos: v1.13.9, kubernetes: v1.35.4 }}\n\
             network: {{ cidr: 10.25.150.0/24, gateway: 10.25.150.1, vip: 10.25.150.10, vlan: 42 }}\n\
             pools: {{ control: {{ role: controlplane, count: 1 }}, work: {{ role: worker, count: 1 }} }}\n{more}"
        );
        let loaded = crate::load::load(&[Source::new("cluster.yaml", text)])
            .unwrap_or_else(|failed| panic!("{:?}", failed.diagnostics));
        let store = |content: &str| InventoryDatastore {
            content: vec![content.to_owned()],
            shared: false,
            free_bytes: 1 << 40,
        };
        let host = InventoryHost {
            online: true,
            memory_mib: 64 << 10,
            datastores: [("local".to_owned(), store("import")), ("lvm".to_owned(), store("images"))].into(),
            bridges: vec!["vmbr0".to_owned()],
            ..InventoryHost::default()
        };
        let inventory = Inventory { hosts: [("pve1".to_owned(), host)].into() };
        crate::resolve::resolve(&loaded.spec, Some(&inventory), None).unwrap()
    }

    #[test]
    fn a_plain_cluster_needs_little_and_only_where_it_works() {
        let needs = needs(&blueprint("proxmox: { endpoint: 'https://pve1:8006' }\n"), &["pve1".to_owned()]);
        let places: Vec<String> =
            places(&needs).into_iter().map(|p| format!("{} {} {}", p.path, p.role, p.propagate)).collect();
        insta::assert_snapshot!(places.join("\n"), @r"
        / TalosmithCluster false
        /nodes/pve1 Talosmith true
        /sdn/zones/localnetwork/vmbr0 Talosmith true
        /storage/local Talosmith true
        /storage/lvm Talosmith true
        /vms Talosmith true
        ");
        assert!(!needs.iter().any(|n| n.privilege == "Sys.Modify" || n.privilege == "Datastore.Allocate"));
    }

    #[test]
    fn with_a_pool_other_vms_are_only_seen() {
        let needs = needs(&blueprint("proxmox: { endpoint: 'https://pve1:8006', pool: k8s }\n"), &[]);
        let at =
            |path: &str| needs.iter().filter(|n| n.path == path).map(|n| n.privilege).collect::<Vec<_>>();
        assert_eq!(at("/vms"), ["VM.Audit"]);
        assert!(at("/pool/k8s").contains(&"VM.Allocate"));
        let roles = roles(&needs);
        assert_eq!(roles[CLUSTER_ROLE], BTreeSet::from(["Sys.Audit", "VM.Audit"]));
    }
}
