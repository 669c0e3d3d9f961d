//! Hosts and datastores, from Proxmox' list of resources.
//!
//! That list repeats what each host's status daemon (pvestatd) last reported. When the daemon is silent for minutes, the host and all
//! of its guests and datastores are `unknown` there, while everything still works. Unknown is not offline: such hosts are asked
//! for in the cluster's membership, and for their datastores themselves.

use std::collections::{BTreeMap, BTreeSet};

use futures::future::join_all;
use model::blueprint::{InventoryDatastore, InventoryHost};
use pve::Resource;

use super::proxmox::ask;
use crate::World;

/// Every host, with its datastores.
pub(super) async fn hosts(world: &World, resources: &[Resource]) -> BTreeMap<String, InventoryHost> {
    let (mut hosts, unknown) = listed(resources);
    if unknown.is_empty() {
        return hosts;
    }
    let online = online(world, &unknown).await;
    let stores = join_all(online.iter().map(|host| ask(world, world.pve.node_storages(host)))).await;
    for (name, stores) in online.into_iter().zip(stores) {
        let Some(host) = hosts.get_mut(&name) else { continue };
        host.online = true;
        // What a host does not tell now is missing in what is resolved from it, which says so.
        for store in stores.unwrap_or_default().into_iter().filter(|store| store.active && store.enabled) {
            let datastore = InventoryDatastore {
                content: store.content,
                shared: store.shared,
                free_bytes: store.avail.unwrap_or(0),
            };
            host.datastores.insert(store.storage, datastore);
        }
    }
    hosts
}

/// Which of these hosts are there. Membership needs a right that not every token has; without it, a host that answers for itself is
/// there, too.
async fn online(world: &World, unknown: &BTreeSet<String>) -> Vec<String> {
    if let Ok(status) = ask(world, world.pve.cluster_status()).await {
        let members = status.nodes.into_iter().filter(|node| node.online && unknown.contains(&node.name));
        return members.map(|node| node.name).collect();
    }
    let answers = join_all(unknown.iter().map(|host| ask(world, world.pve.node_storages(host)))).await;
    unknown.iter().zip(answers).filter(|(_, answer)| answer.is_ok()).map(|(host, _)| host.clone()).collect()
}

/// What the list says, and the hosts whose state it does not know.
fn listed(resources: &[Resource]) -> (BTreeMap<String, InventoryHost>, BTreeSet<String>) {
    let mut hosts: BTreeMap<String, InventoryHost> = BTreeMap::new();
    let mut unknown = BTreeSet::new();
    for r in resources.iter().filter(|r| r.kind == "node") {
        let Some(name) = &r.node else { continue };
        let host = hosts.entry(name.clone()).or_default();
        match r.status.as_deref() {
            Some("online") => host.online = true,
            Some("offline") => {}
            _ => drop(unknown.insert(name.clone())),
        }
        host.memory_mib = r.maxmem.unwrap_or(0) >> 20;
        host.memory_used_mib = r.mem.unwrap_or(0) >> 20;
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
    (hosts, unknown)
}
