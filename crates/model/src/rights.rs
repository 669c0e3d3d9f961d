//! What a token must be allowed to do for one cluster, and where: the least that bring-up, change and removal need.
//!
//! There is one list of privileges, each with what it is needed for and since when. The blueprint says what nodes use; from both follow
//! what `doctor` proves and `proxmox setup` grants ([`needs`]), and what `plan` asks for before it creates nodes ([`to_create`]). What only
//! moving nodes between hosts needs ([`maintenance_needs`]) is granted where the file uses it, or where a person asks for it.
//! Two roles carry it, and a third one where the token is to make accounts ([`account_needs`]). [`RoleKind::Work`] holds what is
//! done with VMs, storages, networks, devices and hosts, and is given only where such things are used; [`RoleKind::Cluster`]
//! holds what concerns Proxmox as a whole, and reaches nothing below its path. Both belong to one cluster: a role that two
//! clusters shared would give each token what the other cluster needs.

use std::collections::{BTreeMap, BTreeSet};

use crate::blueprint::{Blueprint, Inventory, Node};
use crate::holder::Holder;
use crate::observed::MissingRight;
use crate::spec::{Delivery, Identity, Spec};
use crate::vm;

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

/// The role of a cluster that a token has, by what it may do: `roles` are all that there are, with their privileges, and `held` is what the
/// token holds at each path. `None` where two clusters have the same name and nothing tells their roles apart.
#[must_use]
pub fn held_role(
    kind: RoleKind,
    cluster: &str,
    roles: &BTreeMap<String, BTreeSet<String>>,
    held: &[BTreeSet<String>],
) -> Option<String> {
    let name = kind.name(cluster);
    let numbered = |other: &str| {
        let number = other.strip_prefix(&name).and_then(|rest| rest.strip_prefix('.'));
        number.is_some_and(|number| number.parse::<u32>().is_ok())
    };
    let own: Vec<&String> = roles.keys().filter(|other| **other == name || numbered(other)).collect();
    let fitting: Vec<&&String> = own.iter().filter(|role| held.contains(&roles[**role])).collect();
    match (&own[..], &fitting[..]) {
        ([], _) => Some(name),
        ([only], _) => Some((*only).clone()),
        (_, [only]) => Some((**only).clone()),
        _ => None,
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
    /// The name of the privilege in Proxmox.
    pub privilege: &'static str,
    /// What for.
    pub reason: &'static str,
    /// The role that carries it.
    pub role: RoleKind,
    /// Paths and privileges that are each as good.
    pub instead: Vec<(String, &'static str)>,
}

impl Need {
    fn new(path: impl Into<String>, Privilege { name, reason, .. }: &Privilege, role: RoleKind) -> Self {
        Self { path: path.into(), privilege: name, reason, role, instead: vec![] }
    }

    /// What a token lacks that does not meet it.
    #[must_use]
    pub fn missing(&self) -> MissingRight {
        MissingRight { path: self.path.clone(), privilege: self.privilege.to_owned() }
    }

    /// Whether a token meets it that has these privileges (path and privilege).
    pub fn is_met(&self, has: impl Fn(&str, &str) -> bool) -> bool {
        has(&self.path, self.privilege) || self.instead.iter().any(|(path, privilege)| has(path, privilege))
    }
}

/// A role that is to be given at a path.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The path in Proxmox that it is given at.
    pub path: String,
    /// Which of the cluster's roles it is.
    pub role: RoleKind,
    /// Whether it holds below the path as well.
    pub propagate: bool,
}

/// Since when a privilege is needed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum When {
    /// Without it no VM can be created and started.
    Creation,
    /// The same, where VMs are copied from a template.
    Copying,
    /// Only afterwards, or only to see more.
    Later,
}

/// What a token may be allowed to do.
struct Privilege {
    name: &'static str,
    reason: &'static str,
    when: When,
}

const fn first(name: &'static str, reason: &'static str) -> Privilege {
    Privilege { name, reason, when: When::Creation }
}

const fn later(name: &'static str, reason: &'static str) -> Privilege {
    Privilege { name, reason, when: When::Later }
}

const VM: &[Privilege] = &[
    first("VM.Allocate", "create and delete VMs"),
    first("VM.Audit", "read VMs"),
    Privilege { name: "VM.Clone", reason: "clone templates", when: When::Copying },
    first("VM.Config.CDROM", "attach the cloud-init drive"),
    first("VM.Config.CPU", "set processors"),
    first("VM.Config.Cloudinit", "set the initial address"),
    first("VM.Config.Disk", "attach and grow disks"),
    first("VM.Config.HWType", "set machine type, serial port and devices"),
    first("VM.Config.Memory", "set memory"),
    first("VM.Config.Network", "set network devices"),
    first("VM.Config.Options", "set name, notes and tags"),
    later("VM.GuestAgent.Audit", "ask the guest agent for addresses"),
    first("VM.PowerMgmt", "start and stop VMs"),
];
/// The privilege that opens the console of a VM, on which a new machine names its certificate.
pub const TO_PROVE: &str = "VM.Console";
/// Beside these, unless VMs are known by their UUID. A plan asks for it node by node, and goes on without it.
const CONSOLE: &Privilege = &later(TO_PROVE, "verify new machines through their console");
/// The privilege that moves a VM to another host.
pub const TO_MOVE: &str = "VM.Migrate";
/// Beside these, where the file says which hosts nodes are on, or where a person drains hosts.
const MIGRATE: &Privilege = &later(TO_MOVE, "move VMs to another host");
const DISKS: &[Privilege] =
    &[first("Datastore.AllocateSpace", "create disks"), later("Datastore.Audit", "read the free space")];
const IMAGES: &[Privilege] = &[
    first("Datastore.AllocateTemplate", "download the boot image"),
    later("Datastore.Audit", "list the images"),
];
const HOST: &[Privilege] =
    &[first("Sys.AccessNetwork", "let the host download"), later("Sys.Audit", "see memory, clock and tasks")];
const BRIDGE: &[Privilege] =
    &[later("SDN.Audit", "see the bridge"), first("SDN.Use", "connect VMs to the bridge")];
const DEVICE: &[Privilege] = &[first("Mapping.Use", "pass the device through")];
const START_ORDER: &[Privilege] = &[first("Sys.Modify", "set the order in which VMs start")];
const QUORUM: &Privilege = &later("Sys.Audit", "see whether the cluster has quorum");
const IDS: &Privilege = &later("VM.Audit", "see which ids are taken, and clones of nodes");
const POOL: &[Privilege] = &[later("Pool.Audit", "see the pool")];
const ACCOUNTS: &str = "create accounts for components of the cluster";

/// Something in Proxmox that a node's VM uses.
enum Use<'a> {
    Disks(String),
    Images(&'a str),
    Bridge(&'a str, Option<u16>),
    Device(&'a str),
    StartOrder,
}

impl Use<'_> {
    fn privileges(&self) -> &'static [Privilege] {
        match self {
            Self::Disks(_) => DISKS,
            Self::Images(_) => IMAGES,
            Self::Bridge(..) => BRIDGE,
            Self::Device(_) => DEVICE,
            Self::StartOrder => START_ORDER,
        }
    }

    /// The path that Proxmox asks for, with bridges in the zone of hosts.
    fn path(&self) -> String {
        match self {
            Self::Disks(store) => format!("/storage/{store}"),
            Self::Images(store) => format!("/storage/{store}"),
            Self::Bridge(bridge, None) => format!("/sdn/zones/{LOCAL_ZONE}/{bridge}"),
            Self::Bridge(bridge, Some(tag)) => format!("/sdn/zones/{LOCAL_ZONE}/{bridge}/{tag}"),
            Self::Device(mapping) => format!("/mapping/pci/{mapping}"),
            Self::StartOrder => "/".to_owned(),
        }
    }

    fn role(&self) -> RoleKind {
        match self {
            Self::StartOrder => RoleKind::Cluster,
            Self::Disks(_) | Self::Images(_) | Self::Bridge(..) | Self::Device(_) => RoleKind::Work,
        }
    }
}

/// What a node uses beside its VM and its host.
fn uses(node: &Node) -> Vec<Use<'_>> {
    let cards = node.settings.extra_nics.iter().map(|nic| (nic.bridge.as_str(), nic.vlan));
    let mut uses: Vec<Use<'_>> =
        vm::drives(node).into_iter().filter_map(|drive| drive.datastore).map(Use::Disks).collect();
    uses.extend(node.image_datastore.as_deref().map(Use::Images));
    uses.push(Use::Bridge(&node.bridge, node.vlan));
    uses.extend(cards.map(|(bridge, vlan)| Use::Bridge(bridge, vlan)));
    uses.extend(node.hardware.pci.iter().map(|device| Use::Device(&device.mapping)));
    uses.extend(node.hardware.startup.as_ref().map(|_| Use::StartOrder));
    uses
}

/// What lets a host download an image.
fn of_host(host: &str, privilege: &Privilege) -> Need {
    let instead = match privilege.when {
        When::Creation => vec![("/".to_owned(), "Sys.Modify")],
        When::Copying | When::Later => vec![],
    };
    Need { instead, ..Need::new(format!("/nodes/{host}"), privilege, RoleKind::Work) }
}

/// The same need, given for the pool that a new VM is put into.
fn or_in_pool(blueprint: &Blueprint, need: Need) -> Need {
    let pool = blueprint.resource_pool.iter().map(|pool| (format!("/pool/{pool}"), need.privilege));
    Need { instead: pool.collect(), ..need }
}

/// Each need once, by path and privilege; what comes first has the reason.
fn once(needs: impl IntoIterator<Item = Need>) -> Vec<Need> {
    let mut all: BTreeMap<(String, &'static str), Need> = BTreeMap::new();
    for need in needs {
        all.entry((need.path.clone(), need.privilege)).or_insert(need);
    }
    all.into_values().collect()
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
    let mut all = vec![Need::new("/", QUORUM, RoleKind::Cluster)];
    let console = (blueprint.options.identity != Some(Identity::Uuid)).then_some(CONSOLE);
    let vm = VM.iter().chain(console).chain(names_hosts(blueprint, hosts).then_some(MIGRATE));
    match &blueprint.resource_pool {
        Some(pool) => {
            let path = format!("/pool/{pool}");
            all.extend(vm.chain(POOL).map(|privilege| Need::new(path.clone(), privilege, RoleKind::Work)));
            all.push(Need::new("/vms", IDS, RoleKind::Cluster));
        }
        None => all.extend(vm.map(|privilege| Need::new("/vms", privilege, RoleKind::Work))),
    }
    for host in hosts {
        all.extend(HOST.iter().map(|privilege| of_host(host, privilege)));
    }
    for used in blueprint.nodes.values().filter(|node| !node.external).flat_map(uses) {
        let need = |privilege| Need::new(used.path(), privilege, used.role());
        all.extend(used.privileges().iter().map(need));
    }
    once(all)
}

/// Whether the file says which of several hosts single nodes or pools are on, so that a change of it moves them. The list of all hosts
/// that may run nodes is no such thing: it says which datastores they have, and `init` writes it for every host.
fn names_hosts(blueprint: &Blueprint, hosts: &[String]) -> bool {
    let mut nodes = blueprint.nodes.values().filter(|node| !node.external);
    hosts.len() > 1 && nodes.any(|node| node.host_pinned || !node.settings.hosts.is_empty())
}

/// What moving nodes between hosts needs beyond bring-up: `host drain`, and another host in the file. It is given where the file names
/// hosts, and where a person asks for it.
#[must_use]
pub fn maintenance_needs(blueprint: &Blueprint) -> Vec<Need> {
    let path = match &blueprint.resource_pool {
        Some(pool) => format!("/pool/{pool}"),
        None => "/vms".to_owned(),
    };
    vec![Need::new(path, MIGRATE, RoleKind::Work)]
}

/// What creating these nodes needs. `zones` has the zone of each SDN vnet; whether a bridge by another name than those of hosts is
/// one is not known where it has none, and it is not asked for.
#[must_use]
pub fn to_create(blueprint: &Blueprint, new: &[&Node], zones: &BTreeMap<String, String>) -> Vec<Need> {
    let mut all = vec![];
    for node in new {
        let copied =
            blueprint.images.get(&node.image).is_some_and(|image| image.delivery == Delivery::Template);
        let at_first = |privilege: &&Privilege| match privilege.when {
            When::Creation => true,
            When::Copying => copied,
            When::Later => false,
        };
        let vm = |privilege| {
            or_in_pool(blueprint, Need::new(format!("/vms/{}", node.vmid), privilege, RoleKind::Work))
        };
        all.extend(VM.iter().filter(at_first).map(vm));
        if let Some(host) = &node.host {
            all.extend(HOST.iter().filter(at_first).map(|privilege| of_host(host, privilege)));
        }
        for used in uses(node) {
            if let Use::Bridge(bridge, _) = used
                && !zones.contains_key(bridge)
                && !bridge.starts_with("vmbr")
            {
                continue;
            }
            let need = |privilege| Need::new(used.path(), privilege, used.role());
            all.extend(used.privileges().iter().filter(at_first).map(need));
        }
    }
    if !new.is_empty() {
        all.extend(account_needs(blueprint));
    }
    once(in_zones(all, zones))
}

/// What opening the console of a node's VM needs. `vmid` is that of the VM, if it is there already.
#[must_use]
pub fn to_prove(blueprint: &Blueprint, node: &Node, vmid: Option<u32>) -> Need {
    let path = format!("/vms/{}", vmid.unwrap_or(node.vmid));
    let need = |privilege| Need::new(path, privilege, RoleKind::Work);
    match vmid {
        None => or_in_pool(blueprint, need(CONSOLE)),
        Some(_) => need(CONSOLE),
    }
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
    let need = |(path, privilege)| {
        let role = RoleKind::Accounts;
        Need { path, privilege, reason: ACCOUNTS, role, instead: vec![] }
    };
    needs.into_iter().map(need).collect()
}

/// The privileges of each role.
#[must_use]
pub fn roles(needs: &[Need]) -> BTreeMap<RoleKind, BTreeSet<&'static str>> {
    let mut roles: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
    for need in needs {
        roles.entry(need.role).or_default().insert(need.privilege);
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
        Place { propagate: path != "/", path, role: need.role }
    };
    needs.iter().map(place).collect()
}

#[cfg(test)]
mod tests;
