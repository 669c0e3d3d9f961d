//! Virtual hardware. A value with a short form is a number or text for its most used key, or a mapping with all of them.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Written;

/// Virtual hardware. What is left out comes from further out: a node's own keys, its size, its pool, the pool's size,
/// the defaults of its role, and last 2 cores, 4G and 20G for a control plane, 4 cores, 8G and 40G for a worker. Each
/// key of `cpu`, `memory`, `disk` and of every disk is looked for by itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Hardware {
    /// CPU cores, or a mapping with more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<Cpu>,
    /// Memory: `8G`, `8192M`, a plain number of MiB, or a mapping with more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Memory>,
    /// Boot disk: `32G`, a plain number of GiB, or a mapping with more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<BootDisk>,
    /// Data disks by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub disks: BTreeMap<String, DataDisk>,
    /// Datastore of all disks that name none. Default: that of the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub datastore: Option<String>,
    /// Devices of the host that are passed through, by the names of Proxmox' resource mappings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pci: Option<Vec<Pci>>,
    /// Firmware. Default: SeaBIOS, or OVMF where the image has secure boot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bios: Option<Bios>,
    /// A TPM 2.0. Default: where the image has secure boot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tpm: Option<bool>,
    /// Machine type as Proxmox names it. Default: `q35`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
    /// The screen, as Proxmox names it: `std`, `virtio`, `serial0` or `none`. Default: Proxmox' default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display: Option<String>,
    /// Start with the host. Default: yes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_on_boot: Option<bool>,
    /// When it starts and stops among the VMs of its host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub startup: Option<Startup>,
}

/// CPU cores, or more about the CPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Cpu {
    /// Cores.
    Cores(u32),
    /// All that can be said.
    Details(CpuDetails),
}

/// The CPU.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CpuDetails {
    /// Cores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cores: Option<u32>,
    /// Type as Proxmox names it. Default: `x86-64-v2-AES`, the oldest that Talos runs on.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = ["host"]))]
    pub kind: Option<String>,
    /// Weight against other VMs, 1 to 10000; Proxmox' default is 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub units: Option<u32>,
}

/// Memory, or more about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Memory {
    /// `8G`, `8192M`, or a plain number of MiB.
    Size(Written),
    /// All that can be said.
    Details(MemoryDetails),
}

/// Memory.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MemoryDetails {
    /// `8G`, `8192M`, or a plain number of MiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<Written>,
    /// The least that the host may leave it when memory is short. Default: no ballooning, which is right for
    /// Kubernetes, because it counts on the memory that it was told of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub balloon: Option<Written>,
    /// Let the memory grow while the VM runs. Default: no, and each change of the memory is a power cycle. Kubernetes counts
    /// new memory when the kubelet restarts. Proxmox plugs memory in as modules, so the size is 1G and a multiple of 512M up to
    /// 17G, then of 1G up to 49G, of 2G up to 113G, and so on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hotplug: Option<bool>,
}

/// The boot disk's size, or more about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum BootDisk {
    /// `32G`, or a plain number of GiB.
    Size(Written),
    /// All that can be said.
    Details(BootDiskDetails),
}

/// The boot disk. It is always the first on its bus.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BootDiskDetails {
    /// `32G`, or a plain number of GiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<Written>,
    /// Datastore. Default: that of the node or host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub datastore: Option<String>,
    /// Bus that it hangs on. Default: `scsi`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bus: Option<Bus>,
    /// Cache of the host. Default: `none`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<Cache>,
    /// Hand freed space back to the datastore. Default: yes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub discard: Option<bool>,
    /// A thread of its own for this disk. Default: yes, where the bus can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iothread: Option<bool>,
    /// Tell the node that it is an SSD. Default: yes, where the bus can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ssd: Option<bool>,
    /// Take part in Proxmox' backups. Default: yes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backup: Option<bool>,
}

/// A data disk.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DataDisk {
    /// `220G`, `1T`, or a plain number of GiB. It may grow later, never shrink.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = ["220G"]))]
    pub size: Option<Written>,
    /// Number on its bus. Default: 1. With several disks on one bus, all but one name theirs, so that adding a disk
    /// never moves another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slot: Option<u32>,
    /// Datastore. Default: that of the node or host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub datastore: Option<String>,
    /// Bus that it hangs on. Default: `scsi`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bus: Option<Bus>,
    /// Cache of the host. Default: `none`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<Cache>,
    /// Hand freed space back to the datastore. Default: yes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub discard: Option<bool>,
    /// A thread of its own for this disk. Default: yes, where the bus can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iothread: Option<bool>,
    /// Tell the node that it is an SSD. Default: yes, where the bus can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ssd: Option<bool>,
    /// Take part in Proxmox' backups. Default: yes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backup: Option<bool>,
    /// Where Talos mounts it. Default: `/var/mnt/NAME`. Another path is a bind mount of that for the kubelet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = ["/var/lib/longhorn"]))]
    pub mount: Option<String>,
}

/// Bus that a disk hangs on.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Bus {
    /// VirtIO SCSI, 31 disks.
    #[default]
    Scsi,
    /// VirtIO block, 16 disks.
    Virtio,
    /// SATA, 6 disks.
    Sata,
}

impl Bus {
    /// How many disks hang on it at most.
    #[must_use]
    pub fn slots(self) -> u32 {
        match self {
            Self::Scsi => 31,
            Self::Virtio => 16,
            Self::Sata => 6,
        }
    }
}

impl std::fmt::Display for Bus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Scsi => "scsi",
            Self::Virtio => "virtio",
            Self::Sata => "sata",
        })
    }
}

/// How the host caches a disk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Cache {
    /// Not at all.
    #[default]
    None,
    /// Reads only.
    Writethrough,
    /// Reads and writes; what was written may be lost with the host's power.
    Writeback,
    /// Not at all, and every write waits.
    Directsync,
    /// Everything; the host never flushes its cache. Data is lost with the host's power.
    Unsafe,
}

impl std::fmt::Display for Cache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::None => "none",
            Self::Writethrough => "writethrough",
            Self::Writeback => "writeback",
            Self::Directsync => "directsync",
            Self::Unsafe => "unsafe",
        })
    }
}

/// A device that is passed through: the name of its mapping, or more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Pci {
    /// Name of the resource mapping.
    Mapping(String),
    /// All that can be said.
    Details(PciDetails),
}

/// A device that is passed through.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PciDetails {
    /// Name of the resource mapping: Datacenter, Resource Mappings.
    pub mapping: String,
    /// Show it as PCI Express. Default: yes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pcie: Option<bool>,
    /// Show its ROM. Default: yes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rombar: Option<bool>,
    /// Make it the primary GPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub primary: Option<bool>,
}

impl Pci {
    /// Name of the resource mapping.
    #[must_use]
    pub fn mapping(&self) -> &str {
        match self {
            Self::Mapping(mapping) | Self::Details(PciDetails { mapping, .. }) => mapping,
        }
    }
}

/// Firmware.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Bios {
    /// The classic one.
    #[default]
    Seabios,
    /// UEFI, with a small disk for its settings.
    Ovmf,
}

impl std::fmt::Display for Bios {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Seabios => "seabios",
            Self::Ovmf => "ovmf",
        })
    }
}

/// When a VM starts and stops among those of its host.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Startup {
    /// Place in the order of starting; stopping goes the other way round.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<u32>,
    /// Seconds to wait after starting it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub up: Option<u32>,
    /// Seconds that it may take to stop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub down: Option<u32>,
}

impl Cpu {
    /// The same as a mapping.
    #[must_use]
    pub fn details(&self) -> CpuDetails {
        match self {
            Self::Cores(cores) => CpuDetails { cores: Some(*cores), ..CpuDetails::default() },
            Self::Details(details) => details.clone(),
        }
    }
}

impl Memory {
    /// The same as a mapping.
    #[must_use]
    pub fn details(&self) -> MemoryDetails {
        match self {
            Self::Size(size) => MemoryDetails { size: Some(size.clone()), ..MemoryDetails::default() },
            Self::Details(details) => details.clone(),
        }
    }
}

impl BootDisk {
    /// The same as a mapping.
    #[must_use]
    pub fn details(&self) -> BootDiskDetails {
        match self {
            Self::Size(size) => BootDiskDetails { size: Some(size.clone()), ..BootDiskDetails::default() },
            Self::Details(details) => details.clone(),
        }
    }
}
