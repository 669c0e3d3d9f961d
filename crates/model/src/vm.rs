//! A node's VM in Proxmox' words: every key that the file or a default of ours sets, and nothing else.
//!
//! Creating a VM and noticing that it was changed both start from here, so that they cannot disagree. What is not in
//! these lists is not ours: disks that a storage driver attached, tags and notes of people, options of Proxmox.

pub mod words;

use std::collections::BTreeMap;

use crate::blueprint::{Blueprint, DiskOptions, Node};
use crate::mark::Mark;
use crate::spec::{Bios, Bus, NicModel};

/// A drive of a node's VM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Drive {
    /// Key in Proxmox: `scsi0`, `efidisk0`, …
    pub key: String,
    /// Where it lies; open until the inventory is known.
    pub datastore: Option<String>,
    /// What is on it.
    pub holds: Holds,
    /// Options, as they stand behind the volume.
    pub options: BTreeMap<String, String>,
}

/// What a drive is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holds {
    /// The system, copied from the boot image.
    System {
        /// How large it is at least, in GiB.
        gib: u64,
    },
    /// A disk that the file adds, for data.
    Data {
        /// How large it is at least, in GiB.
        gib: u64,
    },
    /// The settings of the UEFI.
    EfiSettings,
    TpmState,
    /// The drive that tells a new machine its address.
    CloudInit,
}

impl Drive {
    /// The value that makes Proxmox create it; a system disk is copied from `image`. `None` where the datastore is open.
    #[must_use]
    pub fn creation(&self, image: &str) -> Option<String> {
        let store = self.datastore.as_deref()?;
        let volume = match self.holds {
            Holds::System { .. } => format!("{store}:0,import-from={image}"),
            Holds::Data { gib } => format!("{store}:{gib}"),
            // Proxmox ignores the size: these are as large as they are.
            Holds::EfiSettings | Holds::TpmState => format!("{store}:1"),
            Holds::CloudInit => format!("{store}:cloudinit"),
        };
        let options = self.options.iter().map(|(key, value)| format!(",{key}={value}"));
        Some(options.fold(volume, |text, option| text + &option))
    }
}

/// Whose VM this is. `None` as long as there is no bundle.
#[must_use]
pub fn mark(blueprint: &Blueprint, node: &Node) -> Option<Mark> {
    let owner = Mark::owner_of(blueprint.cluster_id.as_deref()?);
    Some(Mark::new(&blueprint.cluster, owner, &node.name))
}

/// Every key but drives, notes and tags, which are not ours alone.
#[must_use]
pub fn settings(blueprint: &Blueprint, node: &Node) -> BTreeMap<String, String> {
    let hardware = &node.hardware;
    let flag = |on: bool| if on { "1" } else { "0" }.to_owned();
    let image = blueprint.images.get(&node.image);
    let agent = image.is_some_and(|i| i.extensions.iter().any(|e| e == "siderolabs/qemu-guest-agent"));
    let mut keys: BTreeMap<String, String> = [
        ("name", node.name.to_string()),
        ("ostype", "l26".to_owned()),
        ("machine", hardware.machine.clone()),
        ("bios", hardware.bios.to_string()),
        // Proxmox' own default is too old for Talos.
        ("cpu", node.cpu_type.clone()),
        ("sockets", "1".to_owned()),
        ("cores", node.cores.to_string()),
        ("memory", node.memory_mib.to_string()),
        // Kubernetes counts on the memory that it was told of, so 0 unless the file says otherwise.
        ("balloon", hardware.balloon_mib.to_string()),
        ("scsihw", "virtio-scsi-single".to_owned()),
        ("boot", format!("order={}", boot_key(node))),
        // Talos logs to the serial port; the screen stays.
        ("serial0", "socket".to_owned()),
        ("agent", flag(agent)),
        ("onboot", flag(hardware.start_on_boot)),
    ]
    .map(|(key, value)| (key.to_owned(), value))
    .into();
    if let Some(uuid) = node.uuid {
        keys.insert("smbios1".to_owned(), format!("uuid={uuid}"));
    }
    if hardware.memory_hotplug {
        // The first three are Proxmox' default. Modules of memory belong to a NUMA node.
        keys.insert("hotplug".to_owned(), "network,disk,usb,memory".to_owned());
        keys.insert("numa".to_owned(), "1".to_owned());
    }
    if let Some(units) = hardware.cpu_units {
        keys.insert("cpuunits".to_owned(), units.to_string());
    }
    if let Some(display) = &hardware.display {
        keys.insert("vga".to_owned(), display.clone());
    }
    if let Some(startup) = hardware.startup {
        let parts = [("order", startup.order), ("up", startup.up), ("down", startup.down)];
        let parts: Vec<String> = parts.iter().filter_map(|(k, v)| Some(format!("{k}={}", (*v)?))).collect();
        if !parts.is_empty() {
            keys.insert("startup".to_owned(), parts.join(","));
        }
    }
    for (at, pci) in hardware.pci.iter().enumerate() {
        let value = format!(
            "mapping={},pcie={},rombar={},x-vga={}",
            pci.mapping,
            flag(pci.pcie),
            flag(pci.rombar),
            flag(pci.primary)
        );
        keys.insert(format!("hostpci{at}"), value);
    }
    network(node, &mut keys);
    keys
}

fn network(node: &Node, keys: &mut BTreeMap<String, String>) {
    keys.insert("ipconfig0".to_owned(), first_address(node));
    keys.insert(
        "net0".to_owned(),
        card(node.hardware.nic_model, &node.mac, &node.bridge, node.vlan, node.mtu),
    );
    for (at, nic) in node.settings.extra_nics.iter().enumerate() {
        let address = nic.address.map_or_else(|| "ip=dhcp".to_owned(), |address| format!("ip={address}"));
        keys.insert(format!("ipconfig{}", at + 1), address);
        keys.insert(format!("net{}", at + 1), card(nic.model, &nic.mac, &nic.bridge, nic.vlan, nic.mtu));
    }
    if !node.dns.is_empty() {
        let servers: Vec<String> = node.dns.iter().map(ToString::to_string).collect();
        keys.insert("nameserver".to_owned(), servers.join(" "));
    }
}

/// What a new machine is told of its first card's address.
#[must_use]
pub fn first_address(node: &Node) -> String {
    match node.settings.dhcp {
        true => "ip=dhcp".to_owned(),
        false => format!("ip={},gw={}", node.address, node.gateway),
    }
}

fn card(model: NicModel, mac: &str, bridge: &str, vlan: Option<u16>, mtu: Option<u16>) -> String {
    let mut text = format!("{model}={mac},bridge={bridge}");
    if let Some(vlan) = vlan {
        text.push_str(&format!(",tag={vlan}"));
    }
    // Proxmox knows the MTU of virtio cards only; for others the machine's own setting does.
    if let Some(mtu) = mtu.filter(|_| model == NicModel::Virtio) {
        text.push_str(&format!(",mtu={mtu}"));
    }
    text
}

/// Key of the boot disk.
#[must_use]
pub fn boot_key(node: &Node) -> String {
    format!("{}0", node.hardware.boot.bus)
}

/// Every drive of ours, the boot disk first.
#[must_use]
pub fn drives(node: &Node) -> Vec<Drive> {
    let hardware = &node.hardware;
    let mut drives = vec![Drive {
        key: boot_key(node),
        datastore: node.disk_datastore.clone(),
        holds: Holds::System { gib: node.disk_gib },
        options: options(&hardware.boot.options, hardware.boot.bus),
    }];
    for disk in &hardware.disks {
        let mut options = options(&disk.options, disk.bus);
        // What Talos finds it by. A virtio disk has no world wide name.
        match disk.bus {
            Bus::Virtio => options.insert("serial".to_owned(), disk.serial.clone()),
            Bus::Scsi | Bus::Sata => options.insert("wwn".to_owned(), disk.wwn.clone()),
        };
        drives.push(Drive {
            key: disk.key(),
            datastore: disk.datastore.clone(),
            holds: Holds::Data { gib: disk.size_gib },
            options,
        });
    }
    let small = |key: &str, holds, options: &[(&str, &str)]| Drive {
        key: key.to_owned(),
        datastore: node.disk_datastore.clone(),
        holds,
        options: options.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect(),
    };
    if hardware.bios == Bios::Ovmf {
        // Talos enrols its own keys, so the settings start without any.
        let options = [("efitype", "4m"), ("pre-enrolled-keys", "0")];
        drives.push(small("efidisk0", Holds::EfiSettings, &options));
    }
    if hardware.tpm {
        drives.push(small("tpmstate0", Holds::TpmState, &[("version", "v2.0")]));
    }
    let store = hardware.cloudinit_datastore.clone().or_else(|| node.disk_datastore.clone());
    drives.push(Drive { datastore: store, ..small("ide2", Holds::CloudInit, &[]) });
    drives
}

fn options(said: &DiskOptions, bus: Bus) -> BTreeMap<String, String> {
    let flag = |on: bool| if on { "1" } else { "0" };
    let mut options = vec![
        ("cache", said.cache.to_string()),
        ("discard", if said.discard { "on" } else { "ignore" }.to_owned()),
        ("backup", flag(said.backup).to_owned()),
    ];
    if bus != Bus::Sata {
        options.push(("iothread", flag(said.iothread).to_owned()));
    }
    if bus != Bus::Virtio {
        options.push(("ssd", flag(said.ssd).to_owned()));
    }
    options.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

#[cfg(test)]
mod tests;
