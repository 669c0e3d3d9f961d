//! What a token must be allowed to do for one cluster, and where: the least that bring-up, change and removal need.
//!
//! The list follows from the blueprint alone, so that `doctor` can prove each line of it and `proxmox setup` can grant it.
//! Two roles carry it, and a third one where the token is to make accounts ([`account_needs`]). [`RoleKind::Work`] holds what is done with VMs, storages, networks, devices and hosts, and is given
//! only where such things are used; [`RoleKind::Cluster`] holds what concerns Proxmox as a whole, and reaches nothing below
//! its path. Both belong to one cluster: a role that two clusters shared would give each token what the other cluster needs.

use std::collections::{BTreeMap, BTreeSet};

use crate::blueprint::{Blueprint, Inventory, Node};
use crate::holder::Holder;
use crate::spec::{Identity, Spec};

/// The roles that earlier versions gave to the tokens of all clusters. They are never changed: other tokens may hold them.
pub const SHARED_ROLES: [&str; 2] = ["Talosmith", "TalosmithCluster"];

/// The zone that Proxmox counts the bridges of its hosts to.
pub const LOCAL_ZONE: &str = "localnetwork";

/// Which of a cluster's roles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RoleKind {
    /// For what is worked with.
    Work,
    /// For Proxmox as a whole.
    Cluster,
    /// For the accounts of what runs in the cluster.
    Accounts,
}

impl RoleKind {
    /// The role's name for a cluster. A cluster's name has letters, digits and hyphens, so no two clusters' roles are alike.
    #[must_use]
    pub fn name(self, cluster: &str) -> String {
        match self {
            Self::Work => format!("Talosmith-{cluster}"),
            Self::Cluster => format!("TalosmithCluster-{cluster}"),
            Self::Accounts => format!("TalosmithAccounts-{cluster}"),
        }
    }

    /// The role of a cluster that is set up now: the first of its names that is its own. One that another token holds
    /// belongs to another cluster of the same name, and stays as it is.
    pub fn own(self, cluster: &str, is_own: impl Fn(&str) -> bool) -> String {
        let name = self.name(cluster);
        if is_own(&name) {
            return name;
        }
        let mut numbered = (2_u32..).map(|number| format!("{name}.{number}"));
        numbered.find(|name| is_own(name)).unwrap_or(name)
    }
}

/// An entry of an access control list that names one of the [`SHARED_ROLES`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedEntry<'a> {
    /// What the role holds.
    pub privileges: BTreeSet<&'a str>,
    /// What the cluster's own roles hold at the same path.
    pub own: BTreeSet<&'a str>,
    /// Whether another token has the same role somewhere.
    pub shared: bool,
}

/// Whether the cluster's own roles take the place of an entry that an earlier version made. They do where nothing is lost by
/// it; and where another token has the shared role too, since what our own roles lack was then added for that one. Otherwise
/// the token itself may serve another cluster, and keeps what it has.
#[must_use]
pub fn is_superseded(entry: &SharedEntry<'_>) -> bool {
    !entry.own.is_empty() && (entry.shared || entry.privileges.is_subset(&entry.own))
}

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
    pub role: RoleKind,
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
/// The privilege that opens the console of a VM, on which a new machine names its certificate.
pub const TO_PROVE: &str = "VM.Console";
/// Beside these, unless VMs are known by their UUID.
const CONSOLE: &[(&str, &str)] = &[(TO_PROVE, "prove new machines through their console")];
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
const ACCOUNTS: &str = "make accounts for what runs in the cluster";
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
    let console = if blueprint.options.identity == Some(Identity::Uuid) { &[] } else { CONSOLE };
    match &blueprint.resource_pool {
        Some(pool) => {
            add(format!("/pool/{pool}"), VM);
            add(format!("/pool/{pool}"), console);
            add(format!("/pool/{pool}"), &[("Pool.Audit", "see the pool")]);
            add("/vms".to_owned(), &[("VM.Audit", "see which ids are taken")]);
        }
        None => {
            add("/vms".to_owned(), VM);
            add("/vms".to_owned(), console);
        }
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

/// The needs, with each SDN vnet in its zone: a bridge's privilege is asked for at `/sdn/zones/ZONE/VNET`, and only Proxmox knows
/// the zone.
#[must_use]
pub fn in_zones(needs: Vec<Need>, zones: &BTreeMap<String, String>) -> Vec<Need> {
    let local = format!("/sdn/zones/{LOCAL_ZONE}/");
    let moved = |mut need: Need| {
        let rest = need.path.strip_prefix(&local).map(str::to_owned);
        let zone = rest.as_deref().and_then(|rest| zones.get(rest.split('/').next()?));
        if let (Some(rest), Some(zone)) = (&rest, zone) {
            need.path = format!("/sdn/zones/{zone}/{rest}");
        }
        need
    };
    let mut needs: Vec<Need> = needs.into_iter().map(moved).collect();
    needs.sort();
    needs
}

/// What making the accounts of cloud provider and storage driver needs. It is as much as an administrator has, so it is given
/// only where a person asks for it.
#[must_use]
pub fn account_needs(blueprint: &Blueprint) -> Vec<Need> {
    let needs = Holder::of(blueprint).into_iter().flat_map(|holder| holder.needs(blueprint));
    let needs: BTreeSet<(String, &'static str)> = needs.collect();
    let need = |(path, privilege)| Need { path, privilege, reason: ACCOUNTS };
    needs.into_iter().map(need).collect()
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
pub fn roles(needs: &[Need]) -> BTreeMap<RoleKind, BTreeSet<&'static str>> {
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
pub fn role_of(need: &Need) -> RoleKind {
    match need.reason == ACCOUNTS {
        true => RoleKind::Accounts,
        false if is_of_cluster(need) => RoleKind::Cluster,
        false => RoleKind::Work,
    }
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
        let places: Vec<String> = places(&needs)
            .into_iter()
            .map(|p| format!("{} {} {}", p.path, p.role.name("home"), p.propagate))
            .collect();
        insta::assert_snapshot!(places.join("\n"), @r"
        / TalosmithCluster-home false
        /nodes/pve1 Talosmith-home true
        /sdn/zones/localnetwork/vmbr0 Talosmith-home true
        /storage/local Talosmith-home true
        /storage/lvm Talosmith-home true
        /vms Talosmith-home true
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
        assert_eq!(roles[&RoleKind::Cluster], BTreeSet::from(["Sys.Audit", "VM.Audit"]));
    }

    #[test]
    fn p3_no_two_clusters_have_a_role_in_common() {
        let (work, cluster) = (RoleKind::Work, RoleKind::Cluster);
        let names: BTreeSet<String> =
            ["a", "a-2", "cluster-a"].iter().flat_map(|name| [work.name(name), cluster.name(name)]).collect();
        assert_eq!(names.len(), 6);
        assert!(SHARED_ROLES.iter().all(|shared| !names.contains(*shared)));
        // Another cluster of the same name has the first one.
        assert_eq!(work.own("a", |_| true), "Talosmith-a");
        assert_eq!(work.own("a", |name| name != "Talosmith-a"), "Talosmith-a.2");
        assert_eq!(work.own("a", |name| name.ends_with(".3")), "Talosmith-a.3");
    }

    #[test]
    fn p3_a_shared_role_is_given_up_only_where_nobody_loses_what_is_needed() {
        let entry = |privileges: &[&'static str], own: &[&'static str], shared| SharedEntry {
            privileges: privileges.iter().copied().collect(),
            own: own.iter().copied().collect(),
            shared,
        };
        assert!(is_superseded(&entry(&["Sys.Audit"], &["Sys.Audit", "VM.Audit"], false)));
        // More than this cluster needs: added for another cluster's token, or used by another cluster with this token.
        assert!(is_superseded(&entry(&["Sys.Audit", "Sys.Modify"], &["Sys.Audit"], true)));
        assert!(!is_superseded(&entry(&["Sys.Audit", "Sys.Modify"], &["Sys.Audit"], false)));
        assert!(!is_superseded(&entry(&["Sys.Audit"], &[], true)), "a path that is none of ours");
    }

    #[test]
    fn p9_a_vnet_is_asked_for_in_its_own_zone() {
        let mut blueprint = blueprint("proxmox: { endpoint: 'https://pve1:8006' }\n");
        for node in blueprint.nodes.values_mut().filter(|node| node.role == crate::blueprint::Role::Worker) {
            (node.bridge, node.vlan) = ("blue".to_owned(), Some(7));
        }
        let all = needs(&blueprint, &[]);
        let zones = [("blue".to_owned(), "campus".to_owned())].into();
        let paths: BTreeSet<String> =
            in_zones(all, &zones).into_iter().filter(|n| n.privilege == "SDN.Use").map(|n| n.path).collect();
        let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
        assert_eq!(paths, ["/sdn/zones/campus/blue/7", "/sdn/zones/localnetwork/vmbr0/42"]);
    }
}
