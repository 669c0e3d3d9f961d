//! Proxmox' side: hosts and datastores from one list, then the notes of every VM that may be ours.

use std::collections::{BTreeMap, BTreeSet};

use futures::future::join_all;
use model::blueprint::{Blueprint, Inventory, InventoryDatastore, InventoryHost};
use model::mark::{Mark, RECORD_NODE, RecordState};
use model::observed::{Guest, Proxmox, RecordSeen, StoredImage, Unseen, Vm};
use pve::Resource;

use crate::World;
use crate::error::{Error, Result};
use crate::record::remedy;

/// The tag that every VM of ours carries. It only narrows the search; what counts is the mark.
pub const TAG: &str = "talosmith";

/// What can be known before anything is resolved.
#[derive(Debug, Clone)]
pub struct Survey {
    version: String,
    resources: Vec<Resource>,
    /// Hosts, datastores, bridges.
    pub inventory: Inventory,
    unseen: Vec<Unseen>,
}

/// Asks for the version, the list of everything, and each host's bridges.
///
/// # Errors
///
/// When Proxmox does not answer or refuses.
pub async fn survey(world: &World) -> Result<Survey> {
    let attempt = |e: pve::Error| Error::world("could not look at Proxmox").remedy(remedy(&e)).because(e);
    let (version, resources) = futures::join!(world.pve.version(), world.pve.cluster_resources());
    let (version, resources) = (version.map_err(attempt)?, resources.map_err(attempt)?);
    let mut inventory = Inventory { hosts: hosts(&resources) };
    let mut unseen = vec![];
    let online: Vec<String> =
        inventory.hosts.iter().filter(|(_, h)| h.online).map(|(n, _)| n.clone()).collect();
    let networks = join_all(online.iter().map(|host| world.pve.node_networks(host))).await;
    for (host, networks) in online.into_iter().zip(networks) {
        match networks {
            Ok(networks) => {
                let bridges = networks
                    .into_iter()
                    .filter(|n| n.kind.as_deref().is_some_and(is_bridge))
                    .map(|n| n.iface);
                if let Some(entry) = inventory.hosts.get_mut(&host) {
                    entry.bridges = bridges.collect();
                }
            }
            Err(error) => {
                unseen.push(Unseen { what: format!("the bridges of {host}"), why: last_cause(&error) })
            }
        }
    }
    Ok(Survey { version: version.text, resources, inventory, unseen })
}

fn is_bridge(kind: &str) -> bool {
    matches!(kind, "bridge" | "OVSBridge" | "vnet")
}

fn hosts(resources: &[Resource]) -> BTreeMap<String, InventoryHost> {
    let mut hosts: BTreeMap<String, InventoryHost> = BTreeMap::new();
    for r in resources.iter().filter(|r| r.kind == "node") {
        let Some(name) = &r.node else { continue };
        let host = hosts.entry(name.clone()).or_default();
        host.online = r.status.as_deref() == Some("online");
        host.memory_mib = r.maxmem.unwrap_or(0) >> 20;
    }
    for r in resources.iter().filter(|r| r.kind == "storage" && r.status.as_deref() == Some("available")) {
        let (Some(node), Some(storage)) = (&r.node, &r.storage) else { continue };
        let Some(host) = hosts.get_mut(node) else { continue };
        let datastore = InventoryDatastore {
            content: r.content.clone(),
            shared: r.shared,
            free_bytes: r.maxdisk.unwrap_or(0).saturating_sub(r.disk.unwrap_or(0)),
        };
        host.datastores.insert(storage.clone(), datastore);
    }
    hosts
}

/// Reads the notes of every VM that may be ours, and which boot images are there.
pub(super) async fn details(
    world: &World,
    survey: Survey,
    blueprint: &Blueprint,
    unseen: &mut Vec<Unseen>,
) -> Result<Proxmox> {
    unseen.extend(survey.unseen);
    let guests: Vec<&Resource> =
        survey.resources.iter().filter(|r| r.kind == "qemu" || r.kind == "lxc").collect();
    let mut taken = BTreeMap::new();
    for guest in &guests {
        if let (Some(vmid), Some(host)) = (vmid(guest), &guest.node) {
            taken.insert(
                vmid,
                Guest { name: guest.name.clone(), host: host.clone(), lock: guest.lock.clone() },
            );
        }
    }
    let wanted: BTreeSet<u32> =
        blueprint.nodes.values().map(|n| n.vmid).chain([blueprint.record.vmid]).collect();
    let candidates: Vec<(u32, &str, &Resource)> = guests
        .iter()
        .filter(|g| g.kind == "qemu")
        .filter_map(|g| Some((vmid(g)?, g.node.as_deref()?, *g)))
        .filter(|(id, _, g)| wanted.contains(id) || g.tags.iter().any(|t| t == TAG))
        .collect();
    let looks = join_all(candidates.iter().map(|(id, host, g)| vm(world, *id, host, g))).await;
    let mut marked = vec![];
    let mut record = None;
    let owner = blueprint.cluster_id.as_deref().map(Mark::owner_of);
    for ((id, host, _), look) in candidates.iter().zip(looks) {
        match look {
            Ok(Some((seen, state))) => {
                if seen.mark.node == RECORD_NODE && Some(seen.mark.owner) == owner {
                    record = Some(RecordSeen {
                        vmid: *id,
                        host: (*host).to_owned(),
                        state: state.unwrap_or_default(),
                    });
                }
                marked.push(seen);
            }
            Ok(None) => {}
            Err(error) => unseen.push(Unseen { what: format!("VM {id} on {host}"), why: last_cause(&error) }),
        }
    }
    let images = images(world, &survey.inventory, blueprint, unseen).await;
    Ok(Proxmox { version: survey.version, inventory: survey.inventory, taken, marked, record, images })
}

fn vmid(resource: &Resource) -> Option<u32> {
    resource.vmid.and_then(|id| u32::try_from(id).ok())
}

/// One VM, if it carries a mark.
async fn vm(
    world: &World,
    vmid: u32,
    host: &str,
    resource: &Resource,
) -> pve::Result<Option<(Vm, Option<RecordState>)>> {
    let config = match world.pve.vm_config(host, vmid).await {
        Ok(config) => config,
        // It went away between the list and now.
        Err(error) if error.is_missing() => return Ok(None),
        Err(error) => return Err(error),
    };
    let Some(mark) = Mark::find(config.description()) else { return Ok(None) };
    let state = RecordState::find(config.description());
    // The list lags by up to ten seconds, so the run state is asked for where it matters.
    let running = match mark.node == RECORD_NODE {
        true => false,
        false => world.pve.vm_status(host, vmid).await?.power == pve::PowerState::Running,
    };
    let number = |key: &str| config.get(key).and_then(|v| v.parse::<u64>().ok());
    let seen = Vm {
        vmid,
        host: host.to_owned(),
        name: config.get("name").or(resource.name.as_deref()).unwrap_or_default().to_owned(),
        running,
        lock: config.lock().map(str::to_owned),
        uuid: config.smbios_uuid().and_then(|u| u.parse().ok()),
        mark,
        disk_gib: config.drive("scsi0").map(|d| d.size.unwrap_or(0) >> 30),
        cores: u32::try_from(number("cores").unwrap_or(1) * number("sockets").unwrap_or(1))
            .unwrap_or(u32::MAX),
        memory_mib: number("memory").unwrap_or(512),
    };
    Ok(Some((seen, state)))
}

/// Boot images where nodes look for them. A shared datastore is asked once.
async fn images(
    world: &World,
    inventory: &Inventory,
    blueprint: &Blueprint,
    unseen: &mut Vec<Unseen>,
) -> BTreeSet<StoredImage> {
    let mut places: BTreeSet<(String, String)> = BTreeSet::new();
    let mut shared: BTreeSet<String> = BTreeSet::new();
    for node in blueprint.nodes.values() {
        let (Some(host), Some(store)) = (&node.host, &node.image_datastore) else { continue };
        let Some(seen) = inventory.hosts.get(host).filter(|h| h.online).and_then(|h| h.datastores.get(store))
        else {
            continue;
        };
        if !seen.shared || shared.insert(store.clone()) {
            places.insert((host.clone(), store.clone()));
        }
    }
    let lists =
        join_all(places.iter().map(|(host, store)| world.pve.storage_content(host, store, "import"))).await;
    let mut images = BTreeSet::new();
    for ((host, store), list) in places.iter().zip(lists) {
        match list {
            Ok(list) => {
                let prefix = format!("{store}:import/");
                images.extend(list.iter().filter_map(|c| c.volid.strip_prefix(&prefix)).map(|file| {
                    StoredImage { host: host.clone(), datastore: store.clone(), file: file.to_owned() }
                }));
            }
            Err(error) => unseen
                .push(Unseen { what: format!("the images in {store} on {host}"), why: last_cause(&error) }),
        }
    }
    images
}

fn last_cause(error: &pve::Error) -> String {
    let mut last: &dyn std::error::Error = error;
    while let Some(source) = last.source() {
        last = source;
    }
    last.to_string()
}
