//! Whether a mapping of PCI devices still names what the host has. Proxmox checks that at every start, property by property.

use std::collections::BTreeMap;

use crate::PciConfig;
use crate::hypervisor::vm::{Vm, is_numbered};
use crate::hypervisor::{Hypervisor, Mapping, options};

impl PciConfig {
    /// What an entry of a mapping must say about the device: no more, and no less.
    fn properties(&self) -> BTreeMap<&'static str, String> {
        let number = |text: &str| text.trim_start_matches("0x").to_owned();
        let mut all = BTreeMap::from([("id", format!("{}:{}", number(&self.vendor), number(&self.device)))]);
        if let Some(group) = self.iommu_group {
            all.insert("iommugroup", group.to_string());
        }
        if !self.subsystem_vendor.is_empty() && !self.subsystem_device.is_empty() {
            let id = format!("{}:{}", number(&self.subsystem_vendor), number(&self.subsystem_device));
            all.insert("subsystem-id", id);
        }
        all
    }

    /// The entry of a mapping for this device of a host.
    pub(crate) fn entry(&self, host: &str) -> String {
        let properties = self.properties().into_iter().map(|(key, value)| format!(",{key}={value}"));
        format!("node={host},path={}{}", self.address, properties.collect::<String>())
    }
}

impl Hypervisor {
    /// The entries of a mapping on a host.
    fn on<'a>(mapping: &'a Mapping, node: &str) -> Vec<BTreeMap<&'a str, &'a str>> {
        let parse = |entry: &'a String| entry.split(',').filter_map(|part| part.split_once('=')).collect();
        mapping
            .map
            .iter()
            .map(parse)
            .filter(|parts: &BTreeMap<_, _>| parts.get("node") == Some(&node))
            .collect()
    }

    /// Whether a mapping has a device on a host at all.
    pub(crate) fn is_mapped(mapping: &Mapping, node: &str) -> bool {
        !Self::on(mapping, node).is_empty()
    }

    /// What is wrong with a mapping on a host, in Proxmox' words.
    pub(crate) fn check_mapping(&self, name: &str, mapping: &Mapping, node: &str) -> Result<(), String> {
        let devices = self.hosts.get(node).map(|host| host.pci.as_slice()).unwrap_or_default();
        for entry in Self::on(mapping, node) {
            for path in entry.get("path").copied().unwrap_or_default().split(';') {
                let path = if path.contains('.') { path.to_owned() } else { format!("{path}.0") };
                let Some(device) = devices.iter().find(|device| device.address == path) else {
                    return Err(format!("pci device '{path}' not found"));
                };
                let expected = device.properties();
                for key in ["id", "iommugroup", "subsystem-id"] {
                    match (expected.get(key), entry.get(key)) {
                        (Some(_), None) => {
                            return Err(format!("missing expected property '{key}' for device '{path}'"));
                        }
                        (None, Some(_)) => {
                            return Err(format!(
                                "unexpected property '{key}' configured for device '{path}'"
                            ));
                        }
                        (Some(has), Some(says)) if has != says => {
                            return Err(format!("'{key}' does not match for '{name}' ({has} != {says})"));
                        }
                        _ => {}
                    }
                }
            }
        }
        Ok(())
    }

    /// The devices of a VM, as its start checks them.
    pub(crate) fn check_devices(&self, vm: &Vm, node: &str) -> Result<(), String> {
        for (key, value) in vm.config.iter().filter(|(key, _)| is_numbered(key, "hostpci")) {
            let Some(name) = mapping_of(key, value) else { continue };
            let name = &name;
            let mapping = self.mappings.get(name).filter(|mapping| Self::is_mapped(mapping, node));
            let Some(mapping) = mapping else {
                return Err(format!("PCI device mapping not found for '{name}'"));
            };
            self.check_mapping(name, mapping, node)
                .map_err(|why| format!("PCI device mapping invalid (hardware probably changed): {why}"))?;
        }
        Ok(())
    }
}

/// The mapping that a device of a VM is named by.
pub(crate) fn mapping_of(key: &str, value: &str) -> Option<String> {
    let props = options::option(key).and_then(|rule| crate::schema::props(rule.format.as_deref()?));
    props.and_then(|props| props.parse(key, value).ok())?.remove("mapping")
}
