//! What the hypervisor hands to a machine when it is switched on: hardware, the cloud-init network, the boot image.

use std::net::IpAddr;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

/// The hardware of one virtual machine at the moment of power-on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Boot {
    /// Name of the virtual machine; cloud-init makes it the platform's host name.
    pub name: String,
    /// SMBIOS uuid.
    pub uuid: String,
    /// The `instance-id` of the cloud-init drive; empty where there is no drive.
    #[serde(default)]
    pub instance_id: String,
    /// Processor cores.
    pub cores: u32,
    /// Memory in MiB.
    pub memory_mib: u64,
    /// Disks in slot order; the first is the one booted from.
    pub disks: Vec<BootDisk>,
    /// Network cards in slot order.
    pub nics: Vec<BootNic>,
    /// What the boot disk was imported from. Without it nothing comes up.
    pub image: Option<BootImage>,
    /// Whether the firmware is UEFI.
    #[serde(default)]
    pub uefi: bool,
    /// Whether that firmware boots signed systems only.
    #[serde(default)]
    pub secure_boot: bool,
    /// Devices that were passed through from the host: vendor and product.
    #[serde(default)]
    pub pci: Vec<(String, String)>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BootDisk {
    /// Proxmox slot, such as `scsi0` or `virtio1`.
    pub slot: String,
    /// Its size in bytes.
    pub bytes: u64,
    /// Serial number, if one is set on the drive.
    pub serial: Option<String>,
    /// World wide name, such as `0x5ee7a105d15c0001`.
    pub wwn: Option<String>,
}

/// One network card, with what the cloud-init drive says about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BootNic {
    /// Hardware address, in any case of letters.
    pub mac: String,
    /// Bridge of the host that it is plugged into.
    pub bridge: String,
    /// Static address, or the one that a DHCP server gave out.
    pub address: Option<IpNet>,
    /// Default gateway.
    pub gateway: Option<IpAddr>,
    /// Static IPv6 address. There is no other kind: what Proxmox writes for DHCP and for router advertisements Talos
    /// does not understand.
    #[serde(default)]
    pub address6: Option<IpNet>,
    /// Default gateway of IPv6.
    #[serde(default)]
    pub gateway6: Option<IpAddr>,
    /// Name servers.
    pub dns: Vec<IpAddr>,
    /// Whether it asks a DHCP server.
    #[serde(default)]
    pub dhcp: bool,
}

/// The Image Factory image that a boot disk was imported from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BootImage {
    /// Talos version with its `v`, such as `v1.13.9`.
    pub talos: String,
    /// Schematic id.
    pub schematic: String,
    /// Platform, such as `nocloud`.
    pub platform: String,
    /// Architecture, such as `amd64`.
    pub arch: String,
    /// Names of the system extensions in it.
    #[serde(default)]
    pub extensions: Vec<String>,
}
