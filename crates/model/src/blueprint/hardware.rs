//! A node's virtual hardware, decided. The defaults are those of a VM of which the file says nothing.

use std::net::Ipv4Addr;

use ipnet::Ipv4Net;
use serde::{Deserialize, Serialize};

use crate::diagnostic::Path;
use crate::spec;
use crate::spec::{Bios, Bus, Cache, NicModel, Startup};

/// The VM beside cores, memory, boot disk size and first network.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hardware {
    /// Weight of its CPU; open means Proxmox' default.
    pub cpu_units: Option<u32>,
    /// The least memory that the host may leave it, in MiB; 0 turns ballooning off.
    pub balloon_mib: u64,
    /// Whether memory can be added while it runs.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub memory_hotplug: bool,
    /// Kind of the first network card.
    pub nic_model: NicModel,
    /// The boot disk beside its size and datastore.
    pub boot: BootDisk,
    /// Data disks, by slot.
    pub disks: Vec<Disk>,
    /// Devices of the host, in order: the first is `hostpci0`.
    pub pci: Vec<Pci>,
    /// Firmware; OVMF brings an EFI disk.
    pub bios: Bios,
    /// Whether the keys of secure boot are enrolled in the EFI disk by Talos, so that it starts empty.
    pub secure_boot: bool,
    /// A TPM 2.0.
    pub tpm: bool,
    /// Machine type.
    pub machine: String,
    /// The screen; open means Proxmox' default.
    pub display: Option<String>,
    /// Start with the host.
    pub start_on_boot: bool,
    /// Place among the VMs of its host.
    pub startup: Option<Startup>,
    /// Datastore of the cloud-init drive; open until the inventory is known.
    pub cloudinit_datastore: Option<String>,
    /// Tags, sorted: the cluster's and its own.
    pub tags: Vec<String>,
    /// A note for people.
    pub description: Option<String>,
}

impl Default for Hardware {
    fn default() -> Self {
        Self {
            cpu_units: None,
            balloon_mib: 0,
            memory_hotplug: false,
            nic_model: NicModel::Virtio,
            boot: BootDisk::default(),
            disks: Vec::new(),
            pci: Vec::new(),
            bios: Bios::Seabios,
            secure_boot: false,
            tpm: false,
            machine: "q35".to_owned(),
            display: None,
            start_on_boot: true,
            startup: None,
            cloudinit_datastore: None,
            tags: Vec::new(),
            description: None,
        }
    }
}

/// The boot disk, the first on its bus.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct BootDisk {
    pub bus: Bus,
    pub options: DiskOptions,
}

/// A data disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Disk {
    /// Name in the file, and of the volume in Talos.
    pub name: String,
    pub bus: Bus,
    /// Number on that bus.
    pub slot: u32,
    /// Size in GiB.
    pub size_gib: u64,
    /// Datastore; open until the inventory is known.
    pub datastore: Option<String>,
    pub options: DiskOptions,
    /// What Talos finds it by on scsi and sata: `0x` and 16 hexadecimal digits.
    pub wwn: String,
    /// What Talos finds it by on virtio.
    pub serial: String,
    /// Where Talos mounts it.
    pub mount: String,
}

impl Disk {
    /// The key in Proxmox: `scsi1`.
    #[must_use]
    pub fn key(&self) -> String {
        format!("{}{}", self.bus, self.slot)
    }
}

/// What Proxmox does with a disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskOptions {
    /// Cache of the host.
    pub cache: Cache,
    /// Hand freed space back.
    pub discard: bool,
    /// A thread of its own. Never true on sata, which cannot.
    pub iothread: bool,
    /// Shown as an SSD. Never true on virtio, which cannot.
    pub ssd: bool,
    /// Part of Proxmox' backups.
    pub backup: bool,
}

impl Default for DiskOptions {
    fn default() -> Self {
        Self { cache: Cache::None, discard: true, iothread: true, ssd: true, backup: true }
    }
}

/// A device of the host that is handed through.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pci {
    /// Name of the resource mapping.
    pub mapping: String,
    /// Shown as PCI Express.
    pub pcie: bool,
    /// Its ROM is shown.
    pub rombar: bool,
    /// The primary graphics card.
    pub primary: bool,
}

/// A further network card.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Nic {
    /// Name of the network in the file.
    pub network: String,
    /// MAC address, upper case.
    pub mac: String,
    /// Its address; `None` where a DHCP server gives one.
    pub address: Option<Ipv4Net>,
    /// Bridge on the Proxmox host.
    pub bridge: String,
    /// VLAN tag on that bridge.
    pub vlan: Option<u16>,
    pub mtu: Option<u16>,
    /// Kind of card.
    pub model: NicModel,
    /// Routes through it.
    pub routes: Vec<Route>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Route {
    /// Where it leads to.
    pub to: Ipv4Net,
    /// The router.
    pub via: Ipv4Addr,
    /// The lower, the more preferred.
    pub metric: Option<u32>,
}

/// A patch of a node's Talos configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodePatch {
    /// Where the file says it.
    #[serde(skip)]
    pub path: Path,
    pub patch: spec::Patch,
}

/// A Kubernetes taint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Taint {
    /// Its value; may be empty.
    pub value: String,
    /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    pub effect: String,
}
