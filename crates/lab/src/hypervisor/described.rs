//! Lays what a file describes over a new hypervisor, which has the host and the storages already.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::Value;

use crate::config::description::{Description, FileText, StorageText, VmText, WebFileText, WebText};
use crate::hypervisor::guest::Guest;
use crate::hypervisor::storage::{Leftover, Storage, Volume};
use crate::hypervisor::vm::{Running, Vm};
use crate::hypervisor::{Hypervisor, Web, WebFile};

impl Description {
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
