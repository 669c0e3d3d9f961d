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
use crate::Systems;

/// Every host, with its datastores.
pub(super) async fn hosts(systems: &Systems, resources: &[Resource]) -> BTreeMap<String, InventoryHost> {
    let (mut hosts, unknown) = listed(resources);
    if unknown.is_empty() {
        return hosts;
    }
    let online = online(systems, &unknown).await;
    let stores = join_all(online.iter().map(|host| ask(systems, systems.pve.node_storages(host)))).await;
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

/// A count of processors, which Proxmox writes as any number.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a float is cut off to what fits")]
fn whole(count: f64) -> u32 {
    count as u32
}

/// Asks each of these hosts that is online for the room in its datastores. The list of resources has only size and use, and what is between
/// both is not what can be written: a file system keeps a part for itself, and a pool may share its room with others.
pub(crate) async fn ask_for_room(
    systems: &Systems,
    hosts: &mut BTreeMap<String, InventoryHost>,
    which: impl Fn(&str) -> bool,
) {
    let wanted = hosts.iter().filter(|(name, host)| host.online && which(name));
    let online: Vec<String> = wanted.map(|(name, _)| name.clone()).collect();
    let stores = join_all(online.iter().map(|host| ask(systems, systems.pve.node_storages(host)))).await;
    for (name, stores) in online.iter().zip(stores) {
        if let (Some(host), Ok(stores)) = (hosts.get_mut(name), stores) {
            room(host, &stores);
        }
    }
}

/// The room in a host's datastores is what the host says.
fn room(host: &mut InventoryHost, stores: &[pve::Storage]) {
    for store in stores {
        if let (Some(known), Some(free)) = (host.datastores.get_mut(&store.storage), store.avail) {
            known.free_bytes = free;
        }
    }
}

/// Which of these hosts are there. Membership needs a right that not every token has; without it, a host that answers for itself is
/// there, too.
async fn online(systems: &Systems, unknown: &BTreeSet<String>) -> Vec<String> {
    if let Ok(status) = ask(systems, systems.pve.cluster_status()).await {
        let members = status.nodes.into_iter().filter(|node| node.online && unknown.contains(&node.name));
        return members.map(|node| node.name).collect();
    }
    let answers = join_all(unknown.iter().map(|host| ask(systems, systems.pve.node_storages(host)))).await;
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
        host.maintenance = r.hastate.as_deref() == Some("maintenance");
        host.cpus = r.maxcpu.map_or(0, whole);
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn seen() -> BTreeMap<String, InventoryHost> {
        let rows = json!([
            {"type": "node", "id": "node/pve1", "node": "pve1", "status": "online", "hastate": "maintenance",
             "maxcpu": 2, "maxmem": 8_589_934_592_u64},
            {"type": "node", "id": "node/pve2", "node": "pve2", "status": "online"},
            {"type": "storage", "id": "storage/pve1/local", "node": "pve1", "storage": "local", "status": "available",
             "content": "images,import", "maxdisk": 300 * 1024, "disk": 88 * 1024},
        ]);
        listed(&serde_json::from_value::<Vec<Resource>>(rows).unwrap()).0
    }

    #[test]
    fn p14_a_host_in_maintenance_is_known_and_p7_so_are_its_processors() {
        let hosts = seen();
        assert!(hosts["pve1"].online && hosts["pve1"].maintenance);
        assert_eq!(hosts["pve1"].cpus, 2);
        assert!(!hosts["pve2"].maintenance, "without high availability nothing is said");
        assert_eq!(hosts["pve2"].cpus, 0, "a host that does not tell has an unknown number");
    }

    /// 212 GiB lie between size and use, and 51 GiB can be written.
    #[test]
    fn e6_the_room_of_a_datastore_is_what_can_be_written() {
        let mut hosts = seen();
        let stores =
            json!([{"storage": "local", "total": 300 * 1024, "used": 88 * 1024, "avail": 51 * 1024}]);
        let stores: Vec<pve::Storage> = serde_json::from_value(stores).unwrap();
        let host = hosts.get_mut("pve1").unwrap();
        room(host, &stores);
        assert_eq!(host.datastores["local"].free_bytes, 51 * 1024);
    }
}
