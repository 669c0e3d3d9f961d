//! Names for PCI devices. Proxmox compares a mapping with the host's device at every start of a VM, property by property, so an
//! entry says everything that the host says of the device.

use std::collections::BTreeMap;

use model::blueprint::Inventory;
use pve::{Client, Mapping, PciDevice};

use super::{Task, failed};
use crate::error::{Error, Kind, Result};

/// The keys of an entry that describe the device.
const DESCRIBES: [&str; 3] = ["id", "iommugroup", "subsystem-id"];

/// The entry for a device of a host.
fn entry(host: &str, device: &PciDevice) -> String {
    let number = |text: &str| text.trim_start_matches("0x").to_owned();
    let mut entry = format!(
        "node={host},path={},id={}:{}",
        device.address,
        number(&device.vendor),
        number(&device.device)
    );
    if let Some(group) = device.group.as_ref().filter(|group| *group != "-1") {
        entry.push_str(&format!(",iommugroup={group}"));
    }
    if let (Some(vendor), Some(card)) = (&device.subsystem_vendor, &device.subsystem_device) {
        entry.push_str(&format!(",subsystem-id={}:{}", number(vendor), number(card)));
    }
    entry
}

fn parts(entry: &str) -> BTreeMap<&str, &str> {
    entry.split(',').filter_map(|part| part.split_once('=')).collect()
}

/// A mapping that was made before, with the entries of the hosts that were asked corrected. Nothing where it is right.
fn corrected(known: &Mapping, wanted: &[String]) -> Option<Vec<String>> {
    let mut all = known.map.clone();
    let mut changed = false;
    for wanted in wanted {
        let want = parts(wanted);
        let same = |entry: &&mut String| {
            let has = parts(entry);
            has.get("node") == want.get("node") && has.get("path") == want.get("path")
        };
        match all.iter_mut().find(same) {
            None => {
                all.push(wanted.clone());
                changed = true;
            }
            Some(entry) => {
                let has = parts(entry);
                if DESCRIBES.iter().any(|key| has.get(key) != want.get(key)) {
                    let others =
                        has.iter().filter(|(key, _)| !want.contains_key(*key) && !DESCRIBES.contains(key));
                    let others: String = others.map(|(key, value)| format!(",{key}={value}")).collect();
                    *entry = format!("{wanted}{others}");
                    changed = true;
                }
            }
        }
    }
    changed.then_some(all)
}

/// What to do so that each address has its name on every host that has the device.
pub(super) async fn tasks(
    pve: &Client,
    inventory: &Inventory,
    names: &BTreeMap<String, String>,
) -> Result<Vec<Task>> {
    if names.is_empty() {
        return Ok(vec![]);
    }
    let known = pve.pci_mappings(None).await.map_err(failed)?;
    let mut devices: BTreeMap<&String, Vec<String>> = BTreeMap::new();
    for host in inventory.hosts.iter().filter(|(_, host)| host.online).map(|(name, _)| name) {
        for device in pve.pci_devices(host).await.map_err(failed)? {
            if let Some((address, _)) = names.get_key_value(&device.address) {
                devices.entry(address).or_default().push(entry(host, &device));
            }
        }
    }
    let mut tasks = vec![];
    for (address, name) in names {
        let found = devices.remove(address).unwrap_or_default();
        match known.iter().find(|mapping| mapping.id == *name) {
            Some(mapping) => {
                if let Some(devices) = corrected(mapping, &found) {
                    let (name, digest) = (name.clone(), mapping.digest.clone());
                    tasks.push(Task::CorrectMapping { name, devices, digest });
                }
            }
            None if found.is_empty() => {
                let text = format!("no host has a device at {address}");
                return Err(Error::new(Kind::Input, text).hint("`lspci -D` on the host lists the addresses"));
            }
            None => {
                let (name, address) = (name.clone(), address.clone());
                tasks.push(Task::MapDevice { name, address, devices: found });
            }
        }
    }
    Ok(tasks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p2_a_mapping_says_everything_that_the_host_says_of_its_device() {
        let device: PciDevice = serde_json::from_value(serde_json::json!({
            "id": "0000:01:00.0", "vendor": "0x10de", "device": "0x2204", "iommugroup": 11,
            "subsystem_vendor": "0x10de", "subsystem_device": "0x1467",
        }))
        .unwrap();
        let full = "node=pve1,path=0000:01:00.0,id=10de:2204,iommugroup=11,subsystem-id=10de:1467";
        assert_eq!(entry("pve1", &device), full);
        let bare = PciDevice { subsystem_vendor: None, group: Some("-1".to_owned()), ..device };
        assert_eq!(entry("pve1", &bare), "node=pve1,path=0000:01:00.0,id=10de:2204");

        let mapping = |map: &[&str]| Mapping {
            id: "gpu".to_owned(),
            map: map.iter().map(|entry| (*entry).to_owned()).collect(),
            checks: vec![],
            digest: None,
        };
        let wanted = [full.to_owned()];
        assert_eq!(corrected(&mapping(&[full, "node=pve9,path=0000:02:00.0,id=1:2"]), &wanted), None);
        let old = "id=10de:2204,iommugroup=11,node=pve1,path=0000:01:00.0,description=x";
        let other = "node=pve9,path=0000:02:00.0,id=1:2";
        let found = corrected(&mapping(&[old, other]), &wanted).unwrap();
        assert_eq!(found, [format!("{full},description=x"), other.to_owned()]);
    }
}
