//! One VM: its configuration as Proxmox keeps it in a file, what of it waits for the next start, and whether it runs.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::IpAddr;

use ipnet::IpNet;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use sha1::{Digest, Sha1};

use crate::hypervisor::guest::Guest;
use crate::hypervisor::storage::Storages;
use crate::hypervisor::{cloudinit, drive, options};
use crate::machine::{Boot, BootDisk, BootNic};
use crate::schema::Parts;

const DEFAULT_MEMORY_MIB: u64 = 512;

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Vm {
    pub(crate) vmid: u32,
    pub(crate) node: String,
    /// Option and value, as in the file.
    pub(crate) config: BTreeMap<String, String>,
    /// Changes for the next start; nothing means that the option goes.
    pub(crate) pending: BTreeMap<String, Option<String>>,
    pub(crate) running: Option<Running>,
    /// The task that holds the lock on the file.
    pub(crate) holder: Option<String>,
    /// It is to start again as soon as the host has cleaned up after it.
    #[serde(default)]
    pub(crate) restart: bool,
    /// The process stands still.
    #[serde(default)]
    pub(crate) paused: bool,
    #[serde(default)]
    pub(crate) snapshots: BTreeMap<String, Snapshot>,
    /// The snapshot that the present state comes from.
    #[serde(default)]
    pub(crate) parent: Option<String>,
    /// What runs inside, where it is not Talos.
    #[serde(default)]
    pub(crate) guest: Option<Guest>,
}

/// The configuration at a moment.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Snapshot {
    pub(crate) config: BTreeMap<String, String>,
    pub(crate) at: Timestamp,
    pub(crate) description: Option<String>,
    pub(crate) parent: Option<String>,
    /// What a Talos machine had on its disk.
    #[serde(default)]
    pub(crate) disk: Option<Box<crate::machine::CopiedDisk>>,
}

/// The process of a running VM.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Running {
    pub(crate) since: Timestamp,
    pub(crate) pid: u32,
}

impl Vm {
    pub(crate) fn new(vmid: u32, node: &str) -> Self {
        Self {
            vmid,
            node: node.to_owned(),
            config: BTreeMap::new(),
            pending: BTreeMap::new(),
            running: None,
            holder: None,
            restart: false,
            paused: false,
            snapshots: BTreeMap::new(),
            parent: None,
            guest: None,
        }
    }

    /// The process has ended.
    pub(crate) fn stopped(&mut self) {
        self.running = None;
        self.paused = false;
    }

    /// What waited for the next start is now so.
    pub(crate) fn apply_pending(&mut self) {
        for (key, value) in std::mem::take(&mut self.pending) {
            let file = |text: &str| drive::parts(&key, text).and_then(|parts| parts.get("file").cloned());
            let new = value.as_deref().and_then(file);
            let old = match value {
                Some(value) => self.config.insert(key.clone(), value),
                None => self.config.remove(&key),
            };
            if let Some(volid) = old.as_deref().and_then(file).filter(|old| Some(old) != new.as_ref()) {
                self.keep_unused(volid);
            }
        }
    }

    /// A disk of its own that is in no drive any more is kept aside.
    fn keep_unused(&mut self, volid: String) {
        let own = volid.contains(&format!("vm-{}-", self.vmid)) && !volid.contains("cloudinit");
        let free = (0..256).map(|n| format!("unused{n}")).find(|key| !self.config.contains_key(key));
        if let Some(free) = free.filter(|_| own) {
            self.config.insert(free, volid);
        }
    }

    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        self.config.get(key).map(String::as_str)
    }

    pub(crate) fn flag(&self, key: &str) -> bool {
        self.get(key) == Some("1")
    }

    pub(crate) fn lock(&self) -> Option<&str> {
        self.get("lock")
    }

    pub(crate) fn name(&self) -> String {
        self.get("name").map_or_else(|| format!("VM {}", self.vmid), str::to_owned)
    }

    fn memory_mib(&self) -> u64 {
        let text = self.get("memory").map(|text| text.strip_prefix("current=").unwrap_or(text));
        text.and_then(|text| text.parse().ok()).unwrap_or(DEFAULT_MEMORY_MIB)
    }

    pub(crate) fn memory_bytes(&self) -> u64 {
        self.memory_mib() << 20
    }

    pub(crate) fn cores(&self) -> u32 {
        let number = |key| self.get(key).and_then(|text| text.parse::<u32>().ok()).unwrap_or(1);
        number("cores").saturating_mul(number("sockets"))
    }

    /// Whether the configuration has the guest agent on.
    pub(crate) fn agent_enabled(&self) -> bool {
        self.get("agent").is_some_and(|agent| {
            let first = agent.split(',').find(|part| !part.contains('=') || part.starts_with("enabled="));
            first.is_some_and(|part| part.trim_start_matches("enabled=") == "1")
        })
    }

    /// The drives, by key.
    pub(crate) fn drives(&self) -> impl Iterator<Item = (&str, Parts)> {
        self.config.iter().filter_map(|(key, value)| Some((key.as_str(), drive::parts(key, value)?)))
    }

    pub(crate) fn has_cloudinit(&self) -> bool {
        self.drives().any(|(_, parts)| parts.get("file").is_some_and(|file| file.contains("cloudinit")))
    }

    /// The network cards, in order.
    pub(crate) fn nics(&self) -> impl Iterator<Item = (&str, Parts)> {
        let mut nics: Vec<_> = self.config.iter().filter(|(key, _)| is_numbered(key, "net")).collect();
        nics.sort_by_key(|(key, _)| slot_order(key));
        nics.into_iter()
            .filter_map(|(key, value)| Some((key.as_str(), options::net().parse(key, value).ok()?)))
    }

    /// The disk that a guest would boot from, first in the boot order.
    pub(crate) fn boot_disk(&self) -> Option<&str> {
        let order = self.get("boot").and_then(|boot| boot.strip_prefix("order=")).unwrap_or_default();
        let disk = |key: &&str| {
            let value = self.get(key).filter(|_| options::drive_props(key).is_some());
            value.is_some_and(|value| !value.split(',').any(|part| part == "media=cdrom"))
        };
        order.split(';').find(disk)
    }

    /// The size of the boot disk. It is asked for every row of every list, so the value is not taken apart.
    pub(crate) fn max_disk(&self) -> u64 {
        let size = |value: &str| {
            value.split(',').find_map(|part| part.strip_prefix("size=").and_then(crate::schema::parse_size))
        };
        self.boot_disk().and_then(|key| self.get(key)).and_then(size).unwrap_or(0)
    }

    /// The file as Proxmox would write it. The digest is of this text.
    fn text(&self) -> String {
        let mut text = String::new();
        for line in self.get("description").unwrap_or_default().lines() {
            let _ = writeln!(text, "#{line}");
        }
        for (key, value) in self.config.iter().filter(|(key, _)| *key != "description") {
            let _ = writeln!(text, "{key}: {value}");
        }
        if !self.pending.is_empty() {
            text.push_str("\n[PENDING]\n");
            for (key, value) in &self.pending {
                let _ = match value {
                    Some(value) => writeln!(text, "{key}: {value}"),
                    None => writeln!(text, "delete: {key}"),
                };
            }
        }
        text
    }

    pub(crate) fn digest(&self) -> String {
        hex::encode(Sha1::digest(self.text()))
    }

    /// The configuration as it is answered: with what waits, or (`current`) as it is in force.
    pub(crate) fn answer(&self, current: bool) -> Value {
        let mut merged = self.config.clone();
        if !current {
            for (key, value) in &self.pending {
                match value {
                    Some(value) => drop(merged.insert(key.clone(), value.clone())),
                    None => drop(merged.remove(key)),
                }
            }
        }
        if let Some(parent) = &self.parent {
            merged.insert("parent".to_owned(), parent.clone());
        }
        let mut answer: Map<String, Value> =
            merged.iter().map(|(key, value)| (key.clone(), shown(key, value))).collect();
        answer.insert("digest".to_owned(), json!(self.digest()));
        Value::Object(answer)
    }

    /// What is in force beside what waits, row by row.
    pub(crate) fn pending_answer(&self) -> Value {
        let mut rows = Vec::new();
        for (key, value) in &self.config {
            let mut row = json!({"key": key, "value": shown(key, value)});
            match self.pending.get(key) {
                Some(Some(waiting)) => row["pending"] = shown(key, waiting),
                Some(None) => row["delete"] = json!(1),
                None => {}
            }
            rows.push(row);
        }
        for (key, value) in self.pending.iter().filter(|(key, _)| !self.config.contains_key(*key)) {
            if let Some(value) = value {
                rows.push(json!({"key": key, "pending": shown(key, value)}));
            }
        }
        rows.push(json!({"key": "digest", "value": self.digest()}));
        Value::Array(rows)
    }

    /// What a guest finds when the VM is switched on.
    pub(crate) fn boot(&self, storages: &Storages) -> Boot {
        let boot_disk = self.boot_disk();
        let volume = |parts: &Parts| storages.volume(&self.node, parts.get("file")?);
        let mut disks: Vec<_> =
            self.drives().filter(|(key, parts)| is_disk(key) && !drive::is_cdrom(parts)).collect();
        disks.sort_by_key(|(key, _)| (Some(*key) != boot_disk, slot_order(key)));
        let first = disks.first().filter(|(key, _)| Some(*key) == boot_disk);
        let image = first.and_then(|(_, parts)| volume(parts)).and_then(|volume| volume.origin.clone());
        let uuid = self.get("smbios1").and_then(|text| options::smbios().parse("smbios1", text).ok());
        Boot {
            name: self.name(),
            uuid: uuid.and_then(|parts| parts.get("uuid").cloned()).unwrap_or_default(),
            instance_id: if self.has_cloudinit() { cloudinit::instance_id(self) } else { String::new() },
            cores: self.cores(),
            memory_mib: self.memory_mib(),
            disks: disks
                .iter()
                .map(|(key, parts)| BootDisk {
                    slot: (*key).to_owned(),
                    bytes: volume(parts).map_or(0, |volume| volume.size),
                    serial: parts.get("serial").cloned(),
                    wwn: parts.get("wwn").cloned(),
                })
                .collect(),
            nics: self.nics().map(|(key, parts)| self.boot_nic(key, &parts)).collect(),
            image,
            uefi: self.get("bios") == Some("ovmf"),
            secure_boot: self.get("efidisk0").is_some_and(|text| text.contains("pre-enrolled-keys=1")),
            pci: vec![],
        }
    }

    fn boot_nic(&self, key: &str, parts: &Parts) -> BootNic {
        let config = self.get(&key.replace("net", "ipconfig")).filter(|_| self.has_cloudinit());
        let config = config.and_then(|text| options::ipconfig().parse(key, text).ok());
        // The drive does not mention a card without an `ipconfig`, and Talos asks for an address on those that no one
        // mentions. An empty one is written as DHCP of both kinds.
        let dhcp = config.as_ref().is_none_or(|c| c.is_empty() || c.get("ip").is_some_and(|ip| ip == "dhcp"));
        let config = config.unwrap_or_default();
        let net = |key: &str| config.get(key).and_then(|net| net.parse::<IpNet>().ok());
        let router = |key: &str| config.get(key).and_then(|address| address.parse::<IpAddr>().ok());
        let (address, address6) = (net("ip"), net("ip6"));
        let said = address.is_some() || address6.is_some();
        let dns = self.get("nameserver").filter(|_| said).unwrap_or_default();
        BootNic {
            mac: parts.get("macaddr").cloned().unwrap_or_default(),
            bridge: parts.get("bridge").cloned().unwrap_or_default(),
            address,
            gateway: router("gw").filter(|_| address.is_some()),
            address6,
            gateway6: router("gw6").filter(|_| address6.is_some()),
            dns: dns.split([' ', ',', ';']).filter_map(|part| part.parse().ok()).collect(),
            dhcp,
        }
    }
}

/// A value as it is answered: numbers as numbers, passwords not at all.
pub(crate) fn shown(key: &str, value: &str) -> Value {
    match value.parse::<i64>() {
        _ if key == "cipassword" => json!("**********"),
        // It is kept as lines of comment, and read back without white space at its end.
        _ if key == "description" => json!(value.trim_end()),
        Ok(number) if options::is_number(key) => json!(number),
        _ => json!(value),
    }
}

/// Whether `key` is `prefix` and a number.
pub(crate) fn is_numbered(key: &str, prefix: &str) -> bool {
    key.strip_prefix(prefix)
        .is_some_and(|number| !number.is_empty() && number.chars().all(|c| c.is_ascii_digit()))
}

fn is_disk(key: &str) -> bool {
    ["ide", "sata", "scsi", "virtio"].iter().any(|bus| is_numbered(key, bus))
}

/// Slots in the order in which a person would count them: `scsi2` before `scsi10`.
fn slot_order(key: &str) -> (&str, u32) {
    let at = key.find(|c: char| c.is_ascii_digit()).unwrap_or(key.len());
    let (bus, number) = key.split_at(at);
    (bus, number.parse().unwrap_or(0))
}
