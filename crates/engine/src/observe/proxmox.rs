//! Proxmox' side: hosts and datastores from one list, then one call for each VM that may be ours.
//!
//! An observation costs at most three calls, one for each node, and one for each datastore of a host and each stored image that a new node needs. What only a
//! creation needs (bridges, images, rights, the way to the factory) is asked only when something must be created. Every call
//! is bounded in time.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::time::Duration;

use futures::future::join_all;
use model::blueprint::{Blueprint, Inventory, Node};
use model::holder::{self, Account, Holder};
use model::mark::{Line, Mark, RECORD_NODE, RecordState};
use model::names::NodeName;
use model::observed::{
    Accounts, Creation, Guest, Migration, NotRead, Proxmox, RecordSeen, StoredImage, Unchecked, Unobserved,
    Vm,
};
use model::ownership;
use model::plan::preflight;
use model::plan::{changed, moves};
use model::rights::{self, Need};
use pve::Resource;
use uuid::Uuid;

use crate::Systems;
use crate::error::{Error, Result, hint};
use crate::missing::{self, Unclear};
use crate::observe::{Purpose, Sought, documents, hosts, images as boot_images, named};
use crate::settled;
use crate::systems::{PROBE_TIMEOUT, TALOS_PORT};

/// The tag that every VM of ours carries. It only narrows the search; what counts is the mark.
pub const TAG: &str = "talosmith";
/// For one answer. A host that does not answer costs Proxmox itself half a minute; Talosmith does not wait for that here.
const TIMEOUT: Duration = Duration::from_secs(20);
const KUBERNETES_PORT: u16 = 6443;
/// Keys of a VM's configuration that are secret, or change by themselves.
const NOT_KEPT: &[&str] = &["cipassword", "sshkeys", "vmgenid", "meta", "lock"];

/// What can be known before anything is resolved.
#[derive(Debug, Clone)]
pub struct Survey {
    version: String,
    resources: Vec<Resource>,
    /// Hosts and datastores.
    pub inventory: Inventory,
}

/// Asks for the version and the list of everything.
///
/// # Errors
///
/// When Proxmox does not answer or refuses.
pub async fn survey(systems: &Systems) -> Result<Survey> {
    let attempt = |e: pve::Error| Error::systems("could not query Proxmox").hint(hint(&e)).because(e);
    let both = async { futures::join!(systems.pve.version(), systems.pve.cluster_resources()) };
    let (version, resources) = systems.clock.timeout(TIMEOUT, both).await.map_err(|late| {
        Error::systems(format!("Proxmox gave no answer within {} seconds", TIMEOUT.as_secs()))
            .coded("no-answer")
            .hint("its endpoint takes connections, but does not answer: look at the services pveproxy and pvedaemon on the host")
            .because(late)
    })?;
    let (version, resources) = (version.map_err(attempt)?, resources.map_err(attempt)?);
    let inventory = Inventory { hosts: hosts::hosts(systems, &resources).await };
    Ok(Survey { version: version.text, resources, inventory })
}

/// One answer within the time there is for it, or why not.
pub(super) async fn ask<T, E: std::error::Error>(
    systems: &Systems,
    call: impl Future<Output = std::result::Result<T, E>>,
) -> std::result::Result<T, String> {
    match systems.clock.timeout(TIMEOUT, call).await {
        Ok(answer) => answer.map_err(|error| last_cause(&error)),
        Err(_) => Err(format!("no answer within {} seconds", TIMEOUT.as_secs())),
    }
}

fn is_bridge(kind: &str) -> bool {
    matches!(kind, "bridge" | "OVSBridge" | "vnet")
}

/// Observes every VM that may be ours, and what new ones need.
pub(super) async fn details(
    systems: &Systems,
    survey: Survey,
    sought: &Sought<'_>,
    unobserved: &mut Vec<Unobserved>,
) -> Proxmox {
    let Sought { blueprint, .. } = *sought;
    let mut seen = Proxmox { version: survey.version, inventory: survey.inventory, ..Proxmox::default() };
    let guests: Vec<&Resource> =
        survey.resources.iter().filter(|r| r.kind == "qemu" || r.kind == "lxc").collect();
    for guest in &guests {
        if let (Some(vmid), Some(host)) = (vmid(guest), &guest.node) {
            let guest = Guest { name: guest.name.clone(), host: host.clone(), lock: guest.lock.clone() };
            seen.taken.insert(vmid, guest);
        }
    }
    let wanted: BTreeSet<u32> =
        blueprint.nodes.values().map(|n| n.vmid).chain([blueprint.record.vmid]).collect();
    let templates = blueprint.template_ids();
    // A tag is lost with one click, so a name of ours is reason enough to look.
    let prefix = format!("{}-", blueprint.cluster);
    let is_ours_by_name = |name: &String| {
        name.starts_with(&prefix) || *name == blueprint.record.name || blueprint.nodes.contains_key(name)
    };
    let vms = guests.iter().filter(|g| g.kind == "qemu");
    let vms = vms.filter_map(|g| Some((vmid(g)?, g.node.as_deref()?, *g)));
    let (mut candidates, others): (Vec<(u32, &str, &Resource)>, Vec<_>) = vms.partition(|(id, _, g)| {
        let creating = matches!(g.lock.as_deref(), Some("create" | "clone"));
        wanted.contains(id)
            || g.tags.iter().any(|t| t == TAG)
            || g.name.as_ref().is_some_and(is_ours_by_name)
            || creating && templates.contains(id)
    });
    seen.hidden = hidden(systems, blueprint, &seen).await;
    let owner = blueprint.cluster_id.as_deref().map(Mark::owner_of);
    let mut looks = join_all(candidates.iter().map(|(id, host, g)| vm(systems, *id, host, g, owner))).await;
    let is_record = |snapshot: &std::result::Result<Looked, NotRead>| matches!(snapshot, Ok(Looked::Marked(vm, _)) if vm.mark.node == RECORD_NODE && Some(vm.mark.owner) == owner);
    if !looks.iter().any(is_record) {
        // Before a record is created, every VM is read: it may be there without its tag, under another name and ID.
        let online = |host: &str| seen.inventory.hosts.get(host).is_some_and(|h| h.online);
        let read = join_all(others.iter().map(|(id, host, g)| async {
            if online(host) { vm(systems, *id, host, g, owner).await } else { Err(NotRead::Offline) }
        }));
        for (other, snapshot) in others.iter().zip(read.await) {
            match snapshot {
                Ok(_) => {
                    candidates.push(*other);
                    looks.push(snapshot);
                }
                Err(reason) => {
                    let (id, host, guest) = *other;
                    let unchecked = Unchecked { host: host.to_owned(), name: guest.name.clone(), reason };
                    seen.unchecked.insert(id, unchecked);
                }
            }
        }
    }
    let mut records: BTreeMap<u32, Option<RecordState>> = BTreeMap::new();
    for ((id, host, _), snapshot) in candidates.iter().zip(looks) {
        if let Some(state) = take_down(blueprint, *id, host, snapshot, &mut seen, unobserved) {
            records.insert(*id, state);
        }
    }
    keep_record(blueprint, records, owner, &mut seen);
    observe_for(systems, sought, &mut seen, unobserved).await;
    seen
}

/// Which of the VMs that say they are the record VM is it, and what it knows of the others.
fn keep_record(
    blueprint: &Blueprint,
    mut records: BTreeMap<u32, Option<RecordState>>,
    owner: Option<Uuid>,
    seen: &mut Proxmox,
) {
    // A clone of the record says the same as the record did, once.
    let marked = seen.marked.iter().filter(|vm| records.contains_key(&vm.vmid));
    if let Some(vm) = ownership::original(blueprint, marked) {
        let state = records.remove(&vm.vmid).flatten();
        let (vmid, host, unreadable) = (vm.vmid, vm.host.clone(), state.is_none());
        seen.record = Some(RecordSeen { vmid, host, state: state.unwrap_or_default(), unreadable });
    }
    if let Some(record) = &seen.record {
        for vm in seen.marked.iter_mut().filter(|vm| Some(vm.mark.owner) == owner) {
            vm.recorded = record.state.generations.get(&vm.mark.node).copied();
        }
    }
}

/// What is needed beside the VMs: for a change or a page the conditions of a creation, for a deletion the accounts.
async fn observe_for(
    systems: &Systems,
    sought: &Sought<'_>,
    seen: &mut Proxmox,
    unobserved: &mut Vec<Unobserved>,
) {
    let Sought { blueprint, purpose, .. } = *sought;
    match purpose {
        Purpose::Change | Purpose::Page => {
            let new: BTreeSet<String> =
                preflight::to_create(blueprint, seen).filter_map(|node| node.host.clone()).collect();
            let which = |host: &str| purpose == Purpose::Page || new.contains(host);
            hosts::ask_for_room(systems, &mut seen.inventory.hosts, which).await;
            if purpose == Purpose::Change {
                seen.migrations = migrations(systems, sought, seen).await;
            }
            Box::pin(for_new_nodes(systems, sought, seen, unobserved)).await;
            Box::pin(for_changed_vms(systems, blueprint, seen, unobserved)).await;
            seen.occupied = occupied(systems, blueprint, seen).await;
            if purpose == Purpose::Page {
                // Needs Sys.Audit on /; what the token may not ask is not known.
                seen.quorate =
                    ask(systems, systems.pve.cluster_status()).await.ok().map(|status| status.quorate);
            }
        }
        Purpose::Removal => {
            if Holder::accounts(blueprint).next().is_none() {
                return;
            }
            match ask(systems, systems.pve.permissions()).await {
                Ok(rights) => seen.accounts = accounts(systems, blueprint, &rights, unobserved).await,
                Err(why) => unobserved.push(Unobserved { what: "what the token may do".to_owned(), why }),
            }
        }
    }
}

/// What Proxmox says about moving the VMs that are to move.
async fn migrations(systems: &Systems, sought: &Sought<'_>, seen: &Proxmox) -> BTreeMap<u32, Migration> {
    let about = moves::to_ask_about(sought.blueprint, seen, sought.asked);
    let asked = about.into_iter().map(|(vm, to)| async move {
        let answer = match ask(systems, systems.pve.migration(&vm.host, vm.vmid, &to)).await {
            Ok(said) => Migration::Known {
                local_disks: said.local_disks,
                local_resources: said.local_resources,
                mapped_resources: said.mapped_resources,
                not_allowed: said.not_allowed,
            },
            Err(why) => Migration::Unknown { why },
        };
        (vm.vmid, answer)
    });
    join_all(asked).await.into_iter().collect()
}

/// Whether this is the VM ID of a node, of the record or of a template.
fn is_expected(blueprint: &Blueprint, id: u32) -> bool {
    blueprint.nodes.values().any(|node| node.vmid == id)
        || blueprint.record.vmid == id
        || blueprint.template_ids().contains(&id)
}

/// Takes down what was seen of one VM. Gives what the record says, where it is the record's VM: `None` in it where that cannot be read.
fn take_down(
    blueprint: &Blueprint,
    id: u32,
    host: &str,
    snapshot: std::result::Result<Looked, NotRead>,
    seen: &mut Proxmox,
    unobserved: &mut Vec<Unobserved>,
) -> Option<Option<RecordState>> {
    let owner = blueprint.cluster_id.as_deref().map(Mark::owner_of);
    let by_uuid = |uuid: Uuid| nodes_by_uuid(blueprint).find(|(known, _)| *known == uuid);
    let mut record = None;
    match snapshot {
        // The notes name another cluster, and the UUID, which comes from our keys, says otherwise.
        Ok(Looked::Marked(vm, _))
            if owner.is_some()
                && Some(vm.mark.owner) != owner
                && vm.uuid.is_some_and(|u| by_uuid(u).is_some()) =>
        {
            let node = vm.uuid.and_then(by_uuid).map(|(_, node)| node.to_owned());
            seen.unread.insert(id, vm.host.clone());
            seen.unmarked.insert(id, node.unwrap_or_default());
            seen.unmarked_generations.extend(vm.vmgenid.map(|vmgenid| (id, vmgenid)));
        }
        Ok(Looked::Marked(vm, state)) => {
            if vm.mark.node == RECORD_NODE && Some(vm.mark.owner) == owner {
                record = Some(state.map(|state| *state));
            }
            if let Some(guest) = seen.taken.get_mut(&id) {
                guest.host.clone_from(&vm.host);
            }
            seen.marked.push(*vm);
        }
        Ok(Looked::Unmarked { uuid, vmgenid, host }) => {
            if let Some((_, node)) = by_uuid(uuid) {
                seen.unread.insert(id, host);
                seen.unmarked.insert(id, node.to_owned());
                seen.unmarked_generations.extend(vmgenid.map(|vmgenid| (id, vmgenid)));
            }
        }
        // One of another cluster is not ours, whichever version wrote it.
        Ok(Looked::Newer { owner: theirs, .. }) if theirs.is_some() && theirs != owner => {}
        Ok(Looked::Newer { version, host, .. }) => {
            seen.unread.insert(id, host);
            seen.newer.insert(id, version);
        }
        Ok(Looked::Creating(creation)) if is_expected(blueprint, id) => {
            seen.creating.insert(id, creation);
        }
        Ok(Looked::Creating(_)) => {}
        Ok(Looked::Nobodys) => {}
        Err(reason) => {
            seen.unread.insert(id, host.to_owned());
            unobserved.push(Unobserved { what: format!("VM {id} on {host}"), why: words(reason) });
        }
    }
    record
}

/// VM IDs of the cluster that are not listed, and that are in use all the same: a list shows only what the token may read.
async fn hidden(systems: &Systems, blueprint: &Blueprint, seen: &Proxmox) -> BTreeMap<u32, Option<String>> {
    let nodes = blueprint.nodes.values().filter(|node| !node.external).map(|node| node.vmid);
    let record = blueprint.has_proxmox().then_some(blueprint.record.vmid);
    let ids: BTreeSet<u32> = nodes.chain(record).chain(blueprint.record.usual_vmid).collect();
    let unlisted = ids.into_iter().filter(|id| !seen.taken.contains_key(id));
    let asked = unlisted.map(|id| async move {
        match ask(systems, systems.pve.vmid_exists(id)).await {
            Ok(false) => None,
            Ok(true) => Some((id, None)),
            Err(why) => Some((id, Some(why))),
        }
    });
    join_all(asked).await.into_iter().flatten().collect()
}

/// The accounts of what runs in the cluster, if there are to be any.
async fn accounts(
    systems: &Systems,
    blueprint: &Blueprint,
    rights: &pve::Permissions,
    unobserved: &mut Vec<Unobserved>,
) -> Option<Accounts> {
    let wanted: Vec<(Holder, Account)> = Holder::accounts(blueprint).collect();
    if wanted.is_empty() {
        return None;
    }
    let needs = wanted.iter().flat_map(|(holder, _)| holder.needs(blueprint));
    let may_change = needs.into_iter().all(|(path, right)| rights.has(&path, right));
    let asked = async { futures::try_join!(systems.pve.users(), systems.pve.granted()) };
    let (users, granted) = match ask(systems, asked).await {
        Ok(both) => both,
        Err(why) => {
            unobserved.push(Unobserved { what: "the accounts in Proxmox".to_owned(), why });
            return None;
        }
    };
    let us = blueprint.cluster_id.as_deref().map(Mark::owner_of);
    let mut seen = Accounts { may_change, ..Accounts::default() };
    for (_, Account { user, role, token, .. }) in wanted {
        let is_ours = |token: &pve::UserToken| us.is_some() && holder::owner(&token.comment) == us;
        if let Some(there) = users.iter().find(|there| there.name == user) {
            let owner = holder::owner(&there.comment);
            if owner.is_none() && may_change {
                match ask(systems, systems.pve.tokens(&user)).await {
                    Ok(tokens) => {
                        let foreign = tokens.iter().any(|there| there.name == token && !is_ours(there));
                        seen.foreign_tokens.extend(foreign.then(|| user.clone()));
                    }
                    Err(why) => unobserved.push(Unobserved { what: format!("the tokens of {user}"), why }),
                }
            }
            seen.users.insert(user.clone(), owner);
        }
        let is_its_own = |whom: &str| whom == user || whom.split('!').next() == Some(user.as_str());
        if granted.iter().any(|granted| granted.role == role && !is_its_own(&granted.whom)) {
            seen.shared_roles.insert(role);
        }
    }
    Some(seen)
}

/// The nodes whose VM the token may not open the console of.
pub(super) fn no_console(
    blueprint: &Blueprint,
    seen: &Proxmox,
    permissions: &pve::Permissions,
) -> BTreeSet<NodeName> {
    let vmid = |node: &Node| ownership::vm_of(blueprint, seen, &node.name).map(|vm| vm.vmid);
    let lacks = |node: &&Node| {
        let need = rights::to_prove(blueprint, node, vmid(node));
        !node.external && !need.is_met(|path, privilege| permissions.has(path, privilege))
    };
    blueprint.nodes.values().filter(lacks).map(|node| node.name.clone()).collect()
}

/// What creating nodes needs: bridges, images, rights.
async fn for_new_nodes(
    systems: &Systems,
    sought: &Sought<'_>,
    seen: &mut Proxmox,
    unobserved: &mut Vec<Unobserved>,
) {
    let blueprint = sought.blueprint;
    let replaced = blueprint.nodes.values().filter(|node| {
        let asked = sought.asked.is_some_and(|asked| asked.replaces(&node.name));
        !node.external && (asked || sought.allowed.node(&node.name))
    });
    let mut new: Vec<&Node> = preflight::to_create(blueprint, seen).chain(replaced).collect();
    new.sort_by(|a, b| a.name.cmp(&b.name));
    new.dedup_by(|a, b| a.name == b.name);
    if new.is_empty() {
        // VMs that exist are moved into the pool that the file names.
        let owner = blueprint.cluster_id.as_deref().map(Mark::owner_of);
        let outside = |vm: &Vm| vm.pool != blueprint.resource_pool;
        if owner.is_some_and(|owner| seen.of(owner).any(outside)) {
            seen.missing_resources.extend(named::pool(systems, blueprint, unobserved).await);
        }
        return;
    }
    let online = |host: &String| seen.inventory.hosts.get(host).is_some_and(|h| h.online);
    let hosts: BTreeSet<&String> = new
        .iter()
        .filter(|node| !bridges_are_in_use(node, seen))
        .filter_map(|node| node.host.as_ref())
        .filter(|host| online(host))
        .collect();
    let networks = join_all(hosts.iter().map(|host| ask(systems, systems.pve.node_networks(host))));
    let permissions = ask(systems, systems.pve.permissions());
    let zones = zones(systems, &new);
    let images = images(systems, &seen.inventory, &new);
    let (networks, permissions, zones, (images, dark)) = futures::join!(networks, permissions, zones, images);
    let networks: Vec<_> = hosts.into_iter().cloned().zip(networks).collect();
    let (other_files, unproven) =
        boot_images::other_files(systems, blueprint, sought.schematics, &images, &new).await;
    seen.unsized_images = unproven;
    seen.images = images.into_keys().collect();
    unobserved.extend(dark);
    match permissions {
        Ok(permissions) => {
            seen.accounts = accounts(systems, blueprint, &permissions, unobserved).await;
            seen.no_console = Some(no_console(blueprint, seen, &permissions));
            let needs = rights::to_create(blueprint, &new, &zones);
            let missing = |need: &&Need| !need.is_met(|path, privilege| permissions.has(path, privilege));
            seen.missing_rights = needs.iter().filter(missing).map(Need::missing).collect();
        }
        Err(why) => unobserved.push(Unobserved { what: "what the token may do".to_owned(), why }),
    }
    keep_bridges(networks, seen, unobserved);
    seen.no_images =
        Box::pin(boot_images::missing(systems, blueprint, sought.schematics, seen, &new, unobserved)).await;
    seen.no_images.extend(other_files);
    seen.missing_documents = documents::missing(systems, blueprint, seen, &new).await;
    seen.missing_resources = named::missing(systems, blueprint, &new, unobserved).await;
}

/// What VMs need of their hosts that change, or are off: Proxmox would accept the change and refuse the start.
async fn for_changed_vms(
    systems: &Systems,
    blueprint: &Blueprint,
    seen: &mut Proxmox,
    unobserved: &mut Vec<Unobserved>,
) {
    let asking = changed::asking(blueprint, seen);
    let unlisted = |host: &str| {
        seen.inventory.hosts.get(host).is_some_and(|host| host.online && host.bridges.is_empty())
    };
    let bridged = asking.iter().filter(|(node, vm)| !changed::new_bridges(node, vm, seen).is_empty());
    let hosts: BTreeSet<String> =
        bridged.map(|(_, vm)| vm.host.clone()).filter(|host| unlisted(host)).collect();
    let devices = asking.iter().flat_map(|(node, vm)| {
        changed::new_devices(node, vm).into_iter().map(|mapping| (mapping.to_owned(), vm.host.clone()))
    });
    let devices: BTreeSet<(String, String)> = devices.collect();
    let networks = join_all(hosts.iter().map(|host| ask(systems, systems.pve.node_networks(host))));
    let (networks, missing) = futures::join!(networks, named::devices_missing(systems, &devices, unobserved));
    for missing in missing {
        if !seen.missing_resources.contains(&missing) {
            seen.missing_resources.push(missing);
        }
    }
    let networks = hosts.into_iter().zip(networks).collect();
    keep_bridges(networks, seen, unobserved);
}

/// Keeps which bridges hosts have.
fn keep_bridges(
    networks: Vec<(String, std::result::Result<Vec<pve::Network>, String>)>,
    seen: &mut Proxmox,
    unobserved: &mut Vec<Unobserved>,
) {
    for (host, networks) in networks {
        match networks {
            Ok(networks) => {
                let bridges = networks
                    .into_iter()
                    .filter(|n| n.kind.as_deref().is_some_and(is_bridge))
                    .map(|n| n.iface);
                if let Some(entry) = seen.inventory.hosts.get_mut(&host) {
                    entry.bridges = bridges.collect();
                }
            }
            Err(why) => unobserved.push(Unobserved { what: format!("the bridges of {host}"), why }),
        }
    }
}

/// The zone of each SDN vnet. Only a name that no bridge of a host has by custom can be one.
async fn zones(systems: &Systems, new: &[&Node]) -> BTreeMap<String, String> {
    let more = |node: &&Node| node.settings.extra_nics.iter().any(|nic| !nic.bridge.starts_with("vmbr"));
    if !new.iter().any(|node| !node.bridge.starts_with("vmbr") || more(node)) {
        return BTreeMap::new();
    }
    vnets(systems).await
}

/// The zone of each SDN vnet that the token sees. Where that cannot be asked, none is known.
pub(crate) async fn vnets(systems: &Systems) -> BTreeMap<String, String> {
    let vnets = ask(systems, systems.pve.vnets()).await.unwrap_or_default();
    vnets.into_iter().map(|vnet| (vnet.vnet, vnet.zone)).collect()
}

/// Addresses of new nodes, and that of a new cluster, at which something is already. What refuses a connection is there, too;
/// where nothing is, nothing comes back. Loopback is the exception: this machine has all of its addresses and refuses for each.
async fn occupied(systems: &Systems, blueprint: &Blueprint, seen: &Proxmox) -> BTreeMap<Ipv4Addr, String> {
    // Where a DHCP server has no reservation, it will find another address.
    let new = preflight::to_create(blueprint, seen).filter(|node| !node.settings.dhcp);
    let nodes = new.map(|node| (node.address.addr(), TALOS_PORT));
    let api = blueprint.vip.filter(|_| seen.record.is_none()).map(|vip| (vip, KUBERNETES_PORT));
    let asked: Vec<(Ipv4Addr, u16)> = nodes.chain(api).collect();
    let knocks = asked.iter().map(|(address, port)| async move {
        let host = address.to_string();
        match systems.clock.timeout(PROBE_TIMEOUT, systems.net.dial(&host, *port)).await {
            Ok(Ok(_)) => Some((*address, format!("something answers there on port {port}"))),
            Ok(Err(error))
                if error.kind() == std::io::ErrorKind::ConnectionRefused && !address.is_loopback() =>
            {
                Some((*address, "a machine has this address, and refuses the connection".to_owned()))
            }
            _ => None,
        }
    });
    join_all(knocks).await.into_iter().flatten().collect()
}

/// Whether a VM of ours runs on the node's host with the same bridges: then they are there.
fn bridges_are_in_use(node: &Node, seen: &Proxmox) -> bool {
    let wanted = [&node.bridge].into_iter().chain(node.settings.extra_nics.iter().map(|nic| &nic.bridge));
    let running = || seen.marked.iter().filter(|vm| vm.running && Some(&vm.host) == node.host.as_ref());
    let uses = |vm: &Vm, bridge: &String| {
        let cards = vm.config.iter().filter(|(key, _)| key.starts_with("net"));
        cards
            .into_iter()
            .any(|(key, value)| model::vm::words::parts(key, value).get("bridge") == Some(bridge))
    };
    wanted.into_iter().all(|bridge| running().any(|vm| uses(vm, bridge)))
}

fn vmid(resource: &Resource) -> Option<u32> {
    resource.vmid.and_then(|id| u32::try_from(id).ok())
}

/// Whose a VM is.
enum Looked {
    /// It carries a mark, perhaps of another cluster.
    Marked(Box<Vm>, Option<Box<RecordState>>),
    /// It carries none, but a UUID.
    Unmarked { uuid: Uuid, vmgenid: Option<Uuid>, host: String },
    /// It carries one that a newer Talosmith wrote.
    Newer { version: u64, owner: Option<Uuid>, host: String },
    /// Proxmox is creating it, and it does not say whose it is.
    Creating(Creation),
    /// Neither, or it is gone.
    Nobodys,
}

/// The UUIDs that VMs of this cluster have, which come from its keys.
fn nodes_by_uuid(blueprint: &Blueprint) -> impl Iterator<Item = (Uuid, &str)> {
    let nodes = blueprint.nodes.values().filter_map(|node| Some((node.uuid?, node.name.as_str())));
    nodes.chain(blueprint.record.uuid.map(|uuid| (uuid, RECORD_NODE)))
}

/// One VM, by its mark.
async fn vm(
    systems: &Systems,
    vmid: u32,
    host: &str,
    resource: &Resource,
    owner: Option<Uuid>,
) -> std::result::Result<Looked, NotRead> {
    let read = async {
        let (host, configs) = match systems.pve.vm_configs(host, vmid).await {
            Ok(configs) => (host.to_owned(), configs),
            // It moved or went away between the list and now.
            Err(error) if error.is_missing() => match missing::seek(systems, vmid).await? {
                Some((host, _)) => {
                    let configs = systems.pve.vm_configs(&host, vmid).await?;
                    (host, configs)
                }
                None => return Ok(Looked::Nobodys),
            },
            Err(error) => return Err(error.into()),
        };
        if let Some(creation) = creation(systems, vmid, &host, &configs).await? {
            return Ok(Looked::Creating(creation));
        }
        let notes = configs.now.description();
        if let Some((version, owner)) = newer(Mark::read(notes)).or_else(|| newer(RecordState::read(notes))) {
            // The record's line names no owner; its mark does.
            let owner = owner.or_else(|| Some(Mark::find(notes)?.owner));
            return Ok(Looked::Newer { version, owner, host });
        }
        let Some((mut vm, state)) = read(vmid, &host, resource.pool.clone(), &configs) else {
            let uuid = configs.now.smbios_uuid().and_then(|uuid| uuid.parse().ok());
            let vmgenid = configs.now.get("vmgenid").and_then(|id| id.parse().ok());
            return Ok(uuid.map_or(Looked::Nobodys, |uuid| Looked::Unmarked { uuid, vmgenid, host }));
        };
        vm.ha_state.clone_from(&resource.hastate);
        // The list lags by ten seconds, so only "running" is believed here; a machine that then does not answer is asked
        // for again.
        vm.running = match resource.status.as_deref() {
            // Whether another cluster's runs does not matter here.
            _ if !vm.mark.is_node() || owner.is_some_and(|owner| owner != vm.mark.owner) => false,
            Some("running") => true,
            _ => is_running(systems, &host, vmid).await?,
        };
        Ok::<_, Unclear>(Looked::Marked(Box::new(vm), state.map(Box::new)))
    };
    let forbidden = |error: &Unclear| matches!(error, Unclear::NotTold(e) if matches!(e.meaning(), pve::Kind::Permission { .. }));
    match systems.clock.timeout(TIMEOUT, read).await {
        Ok(Ok(looked)) => Ok(looked),
        Ok(Err(error)) if forbidden(&error) => Err(NotRead::Forbidden),
        Ok(Err(Unclear::Offline { .. })) => Err(NotRead::Offline),
        Ok(Err(error)) => Err(NotRead::Failed { why: last_cause(&error) }),
        Err(_) => Err(NotRead::Failed { why: format!("no answer within {} seconds", TIMEOUT.as_secs()) }),
    }
}

fn words(reason: NotRead) -> String {
    match reason {
        NotRead::Forbidden => "the token has no right to read it".to_owned(),
        NotRead::Offline => "its host is offline".to_owned(),
        NotRead::Failed { why } => why,
    }
}

/// Between the reservation of a VM ID and the first moment of its task, and between the end of a task and our question.
const SETTLE: Duration = Duration::from_secs(2);

/// A VM that is being created, or whose creation was cut off, by its lock. That no task works on it is believed only when the
/// lock is still there a moment later.
async fn creation(
    systems: &Systems,
    vmid: u32,
    host: &str,
    configs: &pve::BothConfigs,
) -> pve::Result<Option<Creation>> {
    let Some(lock @ ("create" | "clone")) = configs.now.lock() else { return Ok(None) };
    if lock == "create" && Mark::find(configs.now.description()).is_some() {
        // A creation writes the notes at its end: this one is complete, and a later task left its lock.
        return Ok(None);
    }
    let mut active = settled::is_active(systems, host, vmid).await;
    if active == Some(false) {
        systems.clock.sleep(SETTLE).await;
        active = match systems.pve.vm_config(host, vmid).await {
            Ok(config) if config.lock() == Some(lock) => settled::is_active(systems, host, vmid).await,
            // It ended just now: the next step finds out how.
            Ok(_) => Some(true),
            Err(error) if error.is_missing() => Some(true),
            Err(error) => return Err(error),
        };
    }
    Ok(Some(Creation { host: host.to_owned(), lock: lock.to_owned(), active }))
}

/// The version and the owner of a line that a newer Talosmith wrote.
fn newer<T>(line: Line<T>) -> Option<(u64, Option<Uuid>)> {
    match line {
        Line::Newer { version, owner } => Some((version, owner)),
        Line::Missing | Line::Unreadable | Line::Found(_) => None,
    }
}

/// Whether a VM runs at this moment. A state that Proxmox does not know is an error, because it is not "off".
pub(crate) async fn is_running(systems: &Systems, host: &str, vmid: u32) -> pve::Result<bool> {
    systems.pve.is_running(host, vmid).await
}

/// What a VM's configuration says, if it carries a mark.
pub(crate) fn read(
    vmid: u32,
    host: &str,
    pool: Option<String>,
    configs: &pve::BothConfigs,
) -> Option<(Vm, Option<RecordState>)> {
    let (now, next) = (&configs.now, &configs.next);
    let mark = Mark::find(now.description())?;
    let kept = |key: &&String| !NOT_KEPT.contains(&key.as_str());
    let config: BTreeMap<String, String> =
        now.keys.iter().filter(|(key, _)| kept(key)).map(|(k, v)| (k.clone(), v.clone())).collect();
    let both: BTreeSet<&String> = now.keys.keys().chain(next.keys.keys()).filter(kept).collect();
    let pending = both
        .into_iter()
        .filter(|key| now.get(key) != next.get(key))
        .map(|key| (key.clone(), next.get(key).map(str::to_owned)))
        .collect();
    let vm = Vm {
        vmid,
        host: host.to_owned(),
        name: now.get("name").unwrap_or_default().to_owned(),
        running: false,
        lock: now.lock().map(str::to_owned),
        uuid: now.smbios_uuid().and_then(|u| u.parse().ok()),
        vmgenid: now.get("vmgenid").and_then(|id| id.parse().ok()),
        recorded: None,
        mark,
        pool,
        ha_state: None,
        config,
        pending,
    };
    Some((vm, RecordState::find(now.description())))
}

/// Boot images where new nodes look for them, with their length in bytes (0 where Proxmox does not tell). A shared datastore is asked once.
async fn images(
    systems: &Systems,
    inventory: &Inventory,
    new: &[&Node],
) -> (BTreeMap<StoredImage, u64>, Vec<Unobserved>) {
    let mut places: BTreeSet<(&String, &String)> = BTreeSet::new();
    let mut shared: BTreeSet<&String> = BTreeSet::new();
    for node in new {
        let (Some(host), Some(store)) = (&node.host, &node.image_datastore) else { continue };
        let Some(seen) = inventory.hosts.get(host).filter(|h| h.online).and_then(|h| h.datastores.get(store))
        else {
            continue;
        };
        if !seen.shared || shared.insert(store) {
            places.insert((host, store));
        }
    }
    let lists = join_all(
        places.iter().map(|(host, store)| ask(systems, systems.pve.storage_content(host, store, "import"))),
    )
    .await;
    let (mut images, mut unobserved) = (BTreeMap::new(), vec![]);
    for ((host, store), list) in places.into_iter().zip(lists) {
        match list {
            Ok(list) => {
                let prefix = format!("{store}:import/");
                for content in &list {
                    let Some(file) = content.volid.strip_prefix(&prefix) else { continue };
                    let stored =
                        StoredImage { host: host.clone(), datastore: store.clone(), file: file.to_owned() };
                    images.insert(stored, content.size.unwrap_or(0));
                }
            }
            Err(why) => unobserved.push(Unobserved { what: format!("the images in {store} on {host}"), why }),
        }
    }
    (images, unobserved)
}

pub(crate) fn last_cause(error: &dyn std::error::Error) -> String {
    let mut last = error;
    while let Some(source) = last.source() {
        last = source;
    }
    last.to_string()
}
