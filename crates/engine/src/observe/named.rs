//! Whether what the file names in Proxmox is there: the resource pool, and devices by their mapping.
//!
//! Proxmox takes a VM with a device that does not exist, and fails when it starts; a pool that is not there fails the first VM.

use std::collections::BTreeSet;

use model::blueprint::{Blueprint, Node};
use model::observed::{MissingResource, Unobserved};
use pve::Mapping;

use super::proxmox::ask;
use crate::Systems;

/// What is not there, or not for this token to see.
pub(super) async fn missing(
    systems: &Systems,
    blueprint: &Blueprint,
    new: &[&Node],
    unobserved: &mut Vec<Unobserved>,
) -> Vec<MissingResource> {
    let mut missing: Vec<MissingResource> = pool(systems, blueprint, unobserved).await.into_iter().collect();
    let devices = devices(new.iter().copied()).map(|(name, host)| (name.to_owned(), host.to_owned()));
    missing.extend(devices_missing(systems, &devices.collect(), unobserved).await);
    missing
}

/// Devices, by mapping and host, that are not there.
pub(super) async fn devices_missing(
    systems: &Systems,
    wanted: &BTreeSet<(String, String)>,
    unobserved: &mut Vec<Unobserved>,
) -> Vec<MissingResource> {
    if wanted.is_empty() {
        return vec![];
    }
    match ask(systems, systems.pve.pci_mappings(None)).await {
        Ok(mappings) => {
            let gone = wanted.iter().filter(|(name, host)| is_on(&mappings, name, host) != Some(true));
            let missing = gone.map(|(name, host)| MissingResource::Device {
                mapping: name.clone(),
                host: host.clone(),
                elsewhere: is_on(&mappings, name, host).is_some(),
            });
            missing.collect()
        }
        // A machine is not stopped for a device that it may not start with.
        Err(why) => {
            unobserved.push(Unobserved { what: "the names of devices".to_owned(), why });
            let unknown = wanted.iter().map(|(name, host)| MissingResource::Device {
                mapping: name.clone(),
                host: host.clone(),
                elsewhere: false,
            });
            unknown.collect()
        }
    }
}

/// The resource pool, if it is not there.
pub(super) async fn pool(
    systems: &Systems,
    blueprint: &Blueprint,
    unobserved: &mut Vec<Unobserved>,
) -> Option<MissingResource> {
    let pool = blueprint.resource_pool.as_ref()?;
    match ask(systems, systems.pve.pools()).await {
        Ok(pools) if pools.iter().any(|known| known.name == *pool) => None,
        Ok(_) => Some(MissingResource::Pool { pool: pool.clone() }),
        Err(why) => {
            unobserved.push(Unobserved { what: "the resource pools".to_owned(), why });
            None
        }
    }
}

/// Devices that VMs need, by mapping and host. One that is given by its address has no mapping.
pub(crate) fn devices<'a>(nodes: impl Iterator<Item = &'a Node>) -> impl Iterator<Item = (&'a str, &'a str)> {
    let placed = nodes.filter(|node| !node.external).filter_map(|node| Some((node, node.host.as_deref()?)));
    let named =
        placed.flat_map(|(node, host)| node.hardware.pci.iter().map(move |pci| (pci.mapping.as_str(), host)));
    named.filter(|(name, _)| !name.contains(':'))
}

/// Whether a mapping has a device on a host; nothing where there is no such mapping.
pub(crate) fn is_on(mappings: &[Mapping], name: &str, host: &str) -> Option<bool> {
    let on = format!("node={host}");
    let mapping = mappings.iter().find(|mapping| mapping.id == name)?;
    Some(mapping.map.iter().any(|entry| entry.split(',').any(|part| part == on)))
}
