//! A lab that a file describes: one host with its storages, files and VMs, and a web server to download from.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::Deserialize;
use serde_json::Value;

use super::{HostConfig, LabConfig, StorageConfig, StorageKind};

/// What a file says. Fields that explain where a fact is from are passed over.
#[derive(Debug, Clone, Deserialize)]
pub struct Description {
    pub(crate) node: Node,
    #[serde(default)]
    pub(crate) bridges: Vec<Bridge>,
    #[serde(default)]
    pub(crate) storages: Vec<StorageText>,
    #[serde(default)]
    pub(crate) directories_without_a_storage: Vec<Directory>,
    #[serde(default)]
    pub(crate) vms: Vec<VmText>,
    pub(crate) web: Option<WebText>,
    /// The hosts outside that answer; all when nothing is said.
    pub(crate) outside: Option<Vec<String>>,
    /// The network in which a DHCP server gives out addresses.
    pub(crate) dhcp: Option<ipnet::IpNet>,
    /// Schematics that the factory knows.
    #[serde(default)]
    pub(crate) schematics: Vec<String>,
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Node {
    pub(crate) name: String,
    pub(crate) ip: IpAddr,
    pub(crate) cpus: u32,
    pub(crate) memory_bytes: u64,
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Bridge {
    pub(crate) iface: String,
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct StorageText {
    pub(crate) storage: String,
    #[serde(rename = "type")]
    pub(crate) kind: StorageKind,
    pub(crate) path: Option<String>,
    pub(crate) content: Vec<String>,
    #[serde(rename = "prune-backups")]
    pub(crate) prune: Option<String>,
    #[serde(default)]
    pub(crate) shared: u8,
    pub(crate) total_bytes: u64,
    #[serde(default)]
    pub(crate) files: Vec<FileText>,
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct FileText {
    pub(crate) volid: String,
    pub(crate) file_bytes: Option<u64>,
    pub(crate) virtual_bytes: Option<u64>,
    pub(crate) used_bytes: Option<u64>,
    pub(crate) ctime: Option<i64>,
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Directory {
    pub(crate) path: String,
    pub(crate) files: Vec<LeftText>,
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct LeftText {
    pub(crate) file: String,
    pub(crate) virtual_bytes: u64,
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct VmText {
    pub(crate) vmid: u32,
    pub(crate) status: String,
    pub(crate) config: BTreeMap<String, Value>,
    pub(crate) guest: Option<GuestText>,
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct GuestText {
    pub(crate) agent_version: String,
    pub(crate) hostname: String,
    pub(crate) interface: InterfaceText,
    #[serde(default)]
    pub(crate) os: BTreeMap<String, String>,
    #[serde(default)]
    pub(crate) files: BTreeMap<String, String>,
    #[serde(default)]
    pub(crate) commands: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct InterfaceText {
    pub(crate) name: String,
    pub(crate) ipv4: Option<ipnet::IpNet>,
    pub(crate) ipv6: Option<ipnet::IpNet>,
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct WebText {
    pub(crate) base: String,
    pub(crate) files: Vec<WebFileText>,
    pub(crate) everything_else: Option<String>,
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct WebFileText {
    pub(crate) path: String,
    pub(crate) bytes: Option<u64>,
    pub(crate) mimetype: Option<String>,
    pub(crate) sha256: Option<String>,
}

impl Description {
    /// A configuration for a new world that has the described host.
    #[must_use]
    pub fn config(self) -> LabConfig {
        let storage = |text: &StorageText| StorageConfig {
            id: text.storage.clone(),
            kind: text.kind,
            content: text.content.clone(),
            shared: text.shared == 1,
            bytes: text.total_bytes,
        };
        let host = HostConfig {
            name: self.node.name.clone(),
            address: self.node.ip,
            cpus: self.node.cpus,
            memory_bytes: self.node.memory_bytes,
            storages: self.storages.iter().map(storage).collect(),
            bridges: self.bridges.iter().map(|bridge| bridge.iface.clone()).collect(),
            pci: Vec::new(),
        };
        LabConfig {
            hosts: vec![host],
            outside: self.outside.clone(),
            dhcp: self.dhcp,
            schematics: self.schematics.clone(),
            described: Some(self),
            ..LabConfig::default()
        }
    }
}
