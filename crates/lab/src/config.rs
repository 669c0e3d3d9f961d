//! What a new world is made of. The defaults are three ordinary hosts, so that a small cluster fits at once.

pub(crate) mod description;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use description::Description;

const GIB: u64 = 1 << 30;
const GB: u64 = 1_000_000_000;

/// The release of Proxmox VE that a world plays.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum ProxmoxVersion {
    /// 9.1.8, whose answers were recorded call by call.
    #[serde(rename = "9.1")]
    V9_1,
    /// 9.2.11: tags are checked at creation, tokens can be regenerated, and it has a dozen calls more.
    #[default]
    #[serde(rename = "9.2")]
    V9_2,
}

impl ProxmoxVersion {
    /// What a saved world plays that does not say it.
    pub(crate) fn unsaid() -> Self {
        Self::V9_1
    }

    /// The version of its manager, which is what it says of itself.
    #[must_use]
    pub fn version(self) -> &'static str {
        match self {
            Self::V9_1 => "9.1.8",
            Self::V9_2 => "9.2.11",
        }
    }

    /// The release, such as `9.2`.
    #[must_use]
    pub fn release(self) -> &'static str {
        match self {
            Self::V9_1 => "9.1",
            Self::V9_2 => "9.2",
        }
    }

    /// Its packages with their versions.
    pub(crate) fn packages(self) -> [(&'static str, &'static str); 6] {
        let [manager, server, storage, access, cluster] = match self {
            Self::V9_1 => [self.version(), "9.1.6", "9.1.1", "9.0.6", "9.1.2"],
            Self::V9_2 => [self.version(), "9.2.6", "9.1.7", "9.1.1", "9.1.6"],
        };
        [
            ("pve-manager", manager),
            ("qemu-server", server),
            ("libpve-storage-perl", storage),
            ("libpve-access-control", access),
            ("pve-cluster", cluster),
            ("libpve-http-server-perl", "6.0.5"),
        ]
    }
}

/// What a new world is made of.
#[derive(Debug, Clone)]
pub struct LabConfig {
    /// The release of Proxmox VE that it plays.
    pub proxmox: ProxmoxVersion,
    /// Where the world is kept. Without one it lives in memory only.
    pub folder: Option<PathBuf>,
    /// From this come ids, addresses and small differences in duration.
    pub seed: u64,
    /// The Proxmox cluster.
    pub hosts: Vec<HostConfig>,
    /// The name under which the Image Factory answers.
    pub factory_host: String,
    /// Talos versions that the factory offers.
    pub talos_versions: Vec<String>,
    /// Resource pools.
    pub pools: Vec<String>,
    /// Schematics that someone posted to the factory before, as they were posted.
    pub schematics: Vec<String>,
    /// The hosts outside that answer: mirrors, registries, time servers, the factory. Without a list everything does. A host
    /// that is asked for `/OTHER/…` is a proxy and answers for the other.
    pub outside: Option<Vec<String>>,
    /// The network in which a DHCP server gives out addresses, if there is one.
    pub dhcp: Option<ipnet::IpNet>,
    /// Addresses that the DHCP server keeps for cards, by MAC address.
    pub reservations: BTreeMap<String, ipnet::IpNet>,
    /// Names of PCI devices, each with the address that it stands for on every host that has one there.
    pub mappings: BTreeMap<String, String>,
    /// SDN vnets, which VMs may use as bridges on every host, each with its zone.
    pub vnets: BTreeMap<String, String>,
    /// The key of the one-time codes that `root@pam` logs in with beside the password, in base32, if it needs them.
    pub second_factor: Option<String>,
    /// What the operator's name server knows, beside hosts and factory: the cluster's endpoint, for one.
    pub names: BTreeMap<String, IpAddr>,
    /// What a new world has beside its hosts: files, VMs, a web server.
    pub described: Option<Description>,
}

/// One Proxmox host.
#[derive(Debug, Clone)]
pub struct HostConfig {
    /// Its node name.
    pub name: String,
    pub address: IpAddr,
    /// Logical CPUs.
    pub cpus: u32,
    pub memory_bytes: u64,
    /// Storages that this host has. The same id on several hosts is one storage definition.
    pub storages: Vec<StorageConfig>,
    /// Linux bridges.
    pub bridges: Vec<String>,
    /// PCI devices that can be handed through.
    pub pci: Vec<PciConfig>,
}

/// One PCI device of a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PciConfig {
    /// Its address, such as `0000:01:00.0`.
    pub address: String,
    /// Its class, such as `0x030000` for a graphics card.
    pub class: String,
    /// The vendor's number, such as `0x10de`.
    pub vendor: String,
    /// The device's number.
    pub device: String,
    /// What it is called.
    pub name: String,
    /// The number of the card's maker, such as `0x10de`; empty where the device has none.
    #[serde(default)]
    pub subsystem_vendor: String,
    /// The card's number; empty where the device has none.
    #[serde(default)]
    pub subsystem_device: String,
    /// Its IOMMU group, where the host has an IOMMU.
    #[serde(default)]
    pub iommu_group: Option<u32>,
}

impl PciConfig {
    /// A graphics card at an address.
    #[must_use]
    pub fn graphics(address: &str) -> Self {
        let bus = address.split(':').nth(1).and_then(|bus| u32::from_str_radix(bus, 16).ok());
        Self {
            address: address.to_owned(),
            class: "0x030000".to_owned(),
            vendor: "0x10de".to_owned(),
            device: "0x2204".to_owned(),
            name: "GA102 [GeForce RTX 3090]".to_owned(),
            subsystem_vendor: "0x10de".to_owned(),
            subsystem_device: "0x1467".to_owned(),
            iommu_group: Some(bus.unwrap_or_default() + 10),
        }
    }
}

/// One storage on a host.
#[derive(Debug, Clone)]
pub struct StorageConfig {
    /// Its id, such as `local-lvm`.
    pub id: String,
    /// How it keeps volumes.
    pub kind: StorageKind,
    /// Content types that it is configured for.
    pub content: Vec<String>,
    /// Whether all hosts see the same volumes.
    pub shared: bool,
    /// Its size.
    pub bytes: u64,
}

/// How a storage keeps volumes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StorageKind {
    /// A directory.
    Dir,
    /// An LVM thin pool.
    LvmThin,
    /// A plain volume group.
    Lvm,
    ZfsPool,
    /// An NFS export.
    Nfs,
    /// Ceph block devices.
    Rbd,
    /// A BTRFS file system.
    Btrfs,
    /// A share of a Windows or Samba server.
    Cifs,
    /// A Ceph file system.
    CephFs,
    /// A Proxmox Backup Server.
    Pbs,
}

impl StorageKind {
    /// Proxmox' name for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Dir => "dir",
            Self::LvmThin => "lvmthin",
            Self::Lvm => "lvm",
            Self::ZfsPool => "zfspool",
            Self::Nfs => "nfs",
            Self::Rbd => "rbd",
            Self::Btrfs => "btrfs",
            Self::Cifs => "cifs",
            Self::CephFs => "cephfs",
            Self::Pbs => "pbs",
        }
    }

    /// Whether volumes are files with a name that ends in their format.
    #[must_use]
    pub fn keeps_files(self) -> bool {
        matches!(self, Self::Dir | Self::Nfs | Self::Btrfs | Self::Cifs | Self::CephFs)
    }

    /// Whether all hosts see the same volumes.
    #[must_use]
    pub fn is_shared(self) -> bool {
        matches!(self, Self::Nfs | Self::Rbd | Self::Cifs | Self::CephFs | Self::Pbs)
    }
}

impl Default for LabConfig {
    fn default() -> Self {
        Self {
            proxmox: ProxmoxVersion::default(),
            folder: None,
            seed: 1,
            hosts: (1..=3).map(HostConfig::numbered).collect(),
            factory_host: "factory.talos.dev".to_owned(),
            talos_versions: talos_versions(),
            pools: Vec::new(),
            schematics: Vec::new(),
            outside: None,
            dhcp: None,
            reservations: BTreeMap::new(),
            mappings: BTreeMap::new(),
            vnets: BTreeMap::new(),
            second_factor: None,
            names: BTreeMap::new(),
            described: None,
        }
    }
}

/// Every release of the lines that the lab plays.
fn talos_versions() -> Vec<String> {
    let lines = [(12, 11), (13, 10), (14, 2)];
    lines
        .iter()
        .flat_map(|(minor, last)| (0..=*last).map(move |patch| format!("v1.{minor}.{patch}")))
        .collect()
}

impl HostConfig {
    /// `pve1` and so on: 16 CPUs, 64 GiB, `local` and `local-lvm`, one bridge, a graphics card.
    #[must_use]
    pub fn numbered(number: u8) -> Self {
        let content = |list: &[&str]| list.iter().map(|c| (*c).to_owned()).collect();
        Self {
            name: format!("pve{number}"),
            address: IpAddr::V4(Ipv4Addr::new(10, 25, 150, 100_u8.saturating_add(number))),
            cpus: 16,
            memory_bytes: 64 * GIB,
            storages: vec![
                StorageConfig {
                    id: "local".to_owned(),
                    kind: StorageKind::Dir,
                    content: content(&["backup", "import", "iso", "vztmpl"]),
                    shared: false,
                    bytes: 200 * GB,
                },
                StorageConfig {
                    id: "local-lvm".to_owned(),
                    kind: StorageKind::LvmThin,
                    content: content(&["images", "rootdir"]),
                    shared: false,
                    bytes: 800 * GB,
                },
            ],
            bridges: vec!["vmbr0".to_owned()],
            pci: vec![PciConfig::graphics("0000:01:00.0")],
        }
    }
}

impl LabConfig {
    /// A fixed moment for a new world to start at, so that two labs with one seed are alike. The caller's clock decides.
    #[must_use]
    pub fn first_moment() -> Timestamp {
        Timestamp::from_second(1_794_774_051).unwrap_or(Timestamp::UNIX_EPOCH)
    }
}
