//! A world that somebody described in a file: one host with its storages, files and VMs, and a web server to download
//! from. It is laid over a new world that has the host and the storages already.

use std::collections::BTreeMap;
use std::net::IpAddr;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use crate::hypervisor::guest::Guest;
use crate::hypervisor::storage::{Leftover, Storage, Volume};
use crate::hypervisor::vm::{Running, Vm};
use crate::hypervisor::{Hypervisor, Web, WebFile};
use crate::{HostConfig, LabConfig, StorageConfig, StorageKind};

/// What a file says. Fields that explain where a fact is from are passed over.
#[derive(Debug, Clone, Deserialize)]
pub struct Description {
    node: Node,
    #[serde(default)]
    bridges: Vec<Bridge>,
    #[serde(default)]
    storages: Vec<StorageText>,
    #[serde(default)]
    directories_without_a_storage: Vec<Directory>,
    #[serde(default)]
    vms: Vec<VmText>,
    web: Option<WebText>,
    /// The hosts outside that answer; all when nothing is said.
    outside: Option<Vec<String>>,
    /// The network in which a DHCP server gives out addresses.
    dhcp: Option<ipnet::IpNet>,
    /// Schematics that the factory knows.
    #[serde(default)]
    schematics: Vec<String>,
}

#[derive(Debug, Clone, Deserialize)]
struct Node {
    name: String,
    ip: IpAddr,
    cpus: u32,
    memory_bytes: u64,
}

#[derive(Debug, Clone, Deserialize)]
struct Bridge {
    iface: String,
}

#[derive(Debug, Clone, Deserialize)]
struct StorageText {
    storage: String,
    #[serde(rename = "type")]
    kind: StorageKind,
    path: Option<String>,
    content: Vec<String>,
    #[serde(rename = "prune-backups")]
    prune: Option<String>,
    #[serde(default)]
    shared: u8,
    total_bytes: u64,
    #[serde(default)]
    files: Vec<FileText>,
}

#[derive(Debug, Clone, Deserialize)]
struct FileText {
    volid: String,
    file_bytes: Option<u64>,
    virtual_bytes: Option<u64>,
    used_bytes: Option<u64>,
    ctime: Option<i64>,
}

#[derive(Debug, Clone, Deserialize)]
struct Directory {
    path: String,
    files: Vec<LeftText>,
}

#[derive(Debug, Clone, Deserialize)]
struct LeftText {
    file: String,
    virtual_bytes: u64,
}

#[derive(Debug, Clone, Deserialize)]
struct VmText {
    vmid: u32,
    status: String,
    config: BTreeMap<String, Value>,
    guest: Option<GuestText>,
}

#[derive(Debug, Clone, Deserialize)]
struct GuestText {
    agent_version: String,
    hostname: String,
    interface: InterfaceText,
    #[serde(default)]
    os: BTreeMap<String, String>,
    #[serde(default)]
    files: BTreeMap<String, String>,
    #[serde(default)]
    commands: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Deserialize)]
struct InterfaceText {
    name: String,
    ipv4: Option<ipnet::IpNet>,
    ipv6: Option<ipnet::IpNet>,
}

#[derive(Debug, Clone, Deserialize)]
struct WebText {
    base: String,
    files: Vec<WebFileText>,
    everything_else: Option<String>,
}

#[derive(Debug, Clone, Deserialize)]
struct WebFileText {
    path: String,
    bytes: Option<u64>,
    mimetype: Option<String>,
    sha256: Option<String>,
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

    /// Puts files, VMs and the web server into a new world.
    pub(crate) fn fill(&self, hypervisor: &mut Hypervisor, now: Timestamp) {
        let node = &self.node.name;
        for text in &self.storages {
            if let Some(storage) = hypervisor.storages.defined.get_mut(&text.storage) {
                text.complete(storage);
            }
            for file in &text.files {
                hypervisor.storages.insert(node, file.volume(now));
            }
        }
        for directory in &self.directories_without_a_storage {
            hypervisor.storages.leftovers.extend(directory.files.iter().map(|left| Leftover {
                folder: directory.path.clone(),
                file: left.file.clone(),
                size: left.virtual_bytes,
            }));
        }
        for text in &self.vms {
            hypervisor.vms.insert(text.vmid, text.vm(node, now));
        }
        hypervisor.web = self.web.as_ref().map(WebText::web);
    }
}

impl StorageText {
    fn complete(&self, storage: &mut Storage) {
        for (key, value) in [("path", &self.path), ("prune-backups", &self.prune)] {
            if let Some(value) = value {
                storage.options.insert(key.to_owned(), value.clone());
            }
        }
    }
}

impl FileText {
    fn volume(&self, now: Timestamp) -> Volume {
        let name = self.volid.split_once(':').map_or("", |(_, name)| name);
        let folder = name.split('/').next().unwrap_or_default();
        let vmid = folder.parse().ok();
        let content = if vmid.is_some() { "images" } else { folder };
        let format = if content == "iso" { "iso" } else { name.rsplit('.').next().unwrap_or("raw") };
        let size = self.virtual_bytes.or(self.file_bytes).unwrap_or(0);
        Volume {
            volid: self.volid.clone(),
            content: content.to_owned(),
            format: format.to_owned(),
            size,
            used: self.file_bytes.or(self.used_bytes).unwrap_or(0),
            vmid,
            ctime: self.ctime.and_then(|second| Timestamp::from_second(second).ok()).unwrap_or(now),
            origin: None,
            parent: None,
        }
    }
}

impl VmText {
    fn vm(&self, node: &str, now: Timestamp) -> Vm {
        let mut vm = Vm::new(self.vmid, node);
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        vm.config = self.config.iter().map(|(key, value)| (key.clone(), text(value))).collect();
        // Every configuration that Proxmox made itself has these.
        let id = crate::stable::stable_uuid(&["described", &self.vmid.to_string()]);
        vm.config.entry("smbios1".to_owned()).or_insert_with(|| format!("uuid={id}"));
        vm.config.entry("vmgenid".to_owned()).or_insert(id);
        if self.status == "running" {
            let since = now.checked_sub(jiff::SignedDuration::from_mins(10)).unwrap_or(now);
            vm.running = Some(Running { since, pid: 1000 + self.vmid });
        }
        vm.guest = self.guest.as_ref().map(|text| Guest {
            agent_version: text.agent_version.clone(),
            hostname: text.hostname.clone(),
            interface: text.interface.name.clone(),
            addresses: [text.interface.ipv4, text.interface.ipv6].into_iter().flatten().collect(),
            os: text.os.clone(),
            files: text.files.clone(),
            commands: text.commands.clone(),
            ran: BTreeMap::new(),
        });
        vm
    }
}

impl WebText {
    fn web(&self) -> Web {
        let file = |text: &WebFileText| {
            let bytes = text.bytes.unwrap_or(0);
            let file = WebFile {
                bytes,
                disk_bytes: bytes,
                sums: text.sha256.iter().map(|sum| ("sha256".to_owned(), sum.clone())).collect(),
                image: None,
                mimetype: text.mimetype.clone().unwrap_or_else(|| "application/octet-stream".to_owned()),
            };
            (text.path.clone(), file)
        };
        Web {
            base: self.base.trim_end_matches('/').to_owned(),
            files: self.files.iter().map(file).collect(),
            otherwise: self.everything_else.clone().unwrap_or_else(|| "404 Not Found".to_owned()),
        }
    }
}
