//! What of a node's VM is not as the file says, and what bringing it there would disrupt.
//!
//! Only what the file or a default of ours sets is compared. A VM that is off takes everything; one that runs takes over
//! some changes at once, and keeps the others waiting until it is stopped and started. Those are for a unit of its node, because a
//! machine of a cluster may only be stopped when the others can do without it. What an installed system does not survive (another
//! firmware or machine type, a boot disk elsewhere) takes a new node.

use std::collections::BTreeMap;

use super::{Blocked, Note, Refusal, RefusalCode};
use crate::blueprint::{Blueprint, Disk, Node};
use crate::mark::Mark;
use crate::observed::{Api, Machine, Vm};
use crate::ownership::{self, Act, Evidence, Identity};
use crate::step::Disruption;
use crate::vm::{self, Drive, Holds, words};

/// What was found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Drift {
    /// Keys to set now, with their values.
    pub set: BTreeMap<String, String>,
    /// The resource pool to put it into.
    pub pool: Option<String>,
    /// What that changes, in words.
    pub says: Vec<String>,
    /// What that disrupts.
    pub disruption: Option<Disruption>,
    /// Disks that are too small: key, size in GiB that they have and that they should have.
    pub grow: Vec<(String, u64, u64)>,
    /// What the running VM takes over at once, with its network cut for a moment.
    pub rewire: Keys,
    /// What the running VM takes over with a stop and start only.
    pub power_cycle: Keys,
    /// The same, once it runs the image in the file.
    pub with_image: Keys,
    /// Data disks of this cluster that the file does not have.
    pub left_disks: Vec<LeftDisk>,
    /// What differs and can only be told.
    pub notes: Vec<Note>,
    /// What is not done to this node.
    pub blocked: Vec<Blocked>,
}

/// Keys of a VM that are changed together.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Keys {
    /// Those to set, with their values. Empty where Proxmox has the values already, and they wait.
    pub set: BTreeMap<String, String>,
    /// What changes, in words.
    pub says: Vec<String>,
}

/// A data disk of a VM that the file does not have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftDisk {
    /// Its key in Proxmox.
    pub key: String,
    pub volume: String,
    /// Its size, where Proxmox says it.
    pub gib: Option<u64>,
}

impl std::fmt::Display for LeftDisk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.gib {
            Some(gib) => write!(f, "the disk {} with {gib} GiB", self.key),
            None => write!(f, "the disk {}", self.key),
        }
    }
}

impl Keys {
    /// Whether nothing changes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.says.is_empty()
    }
}

/// Halves of changes that a machine config does not get now. Their other halves in the VM wait for them: a machine whose network
/// device and machine config do not fit each other is cut off.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Held {
    /// Addresses, MAC addresses, MTU, gateway.
    pub network: bool,
    /// The image, with its system extensions.
    pub image: bool,
}

impl Held {
    /// Whether a key of a VM is the other half.
    fn covers(self, key: &str) -> bool {
        match key.trim_end_matches(|c: char| c.is_ascii_digit()) {
            "net" | "ipconfig" | "nameserver" => self.network,
            // Without its system extension, the guest agent does not answer.
            "agent" => self.image,
            _ => false,
        }
    }
}

struct Examined<'a> {
    node: &'a Node,
    vm: &'a Vm,
    machine: Option<&'a Machine>,
    held: Held,
    drift: Drift,
    /// What waits for the machine config, in words.
    waits: Vec<String>,
    /// What only a new node can have, in words.
    replace: Vec<String>,
}

/// A machine that was made with another address than the file's, and is not at the file's. Its cloud-init drive is read at
/// the first start only, and a machine that has its configuration keeps the address in that: waiting for it would not help.
#[must_use]
pub fn moved(node: &Node, vm: &Vm, machine: Option<&Machine>, in_kubernetes: bool) -> Option<Refusal> {
    if !(vm.running || in_kubernetes)
        || matches!(machine.map(|m| &m.api), Some(Api::Configured | Api::Maintenance))
    {
        return None;
    }
    let key = "ipconfig0";
    let address = |value: &str| words::parts(key, value).remove("ip");
    let without_prefix = |address: &str| address.split('/').next().unwrap_or_default().to_owned();
    let (has, wanted) = (address(vm.config.get(key)?)?, address(&vm::first_address(node))?);
    (has != wanted).then(|| Refusal {
        code: RefusalCode::Differs,
        why: format!(
            "{} (VM {}) was created with the address {has}, the file says {wanted}, and it does not answer there: the address of a \
             machine is not changed",
            node.name, vm.vmid
        ),
        hint: format!(
            "write {} in the file (`address` of the node, or `addresses` of its pool); or, if all other nodes keep their \
             addresses, drain it, run `talosctl reset`, delete VM {} and apply, which creates it again at {}. A whole cluster cannot be \
             moved to another network",
            without_prefix(&has),
            vm.vmid,
            without_prefix(&wanted)
        ),
    })
}

/// Compares a node with its VM.
#[must_use]
pub fn examine(blueprint: &Blueprint, node: &Node, vm: &Vm, machine: Option<&Machine>) -> Drift {
    examine_holding(blueprint, node, vm, machine, Held::default())
}

/// The same, without what belongs to a machine config that is not changed now.
#[must_use]
pub fn examine_holding(
    blueprint: &Blueprint,
    node: &Node,
    vm: &Vm,
    machine: Option<&Machine>,
    held: Held,
) -> Drift {
    let (drift, waits, replace) = (Drift::default(), vec![], vec![]);
    let mut examined = Examined { node, vm, machine, held, drift, waits, replace };
    for (key, wanted) in vm::settings(blueprint, node) {
        examined.key(&key, &wanted);
    }
    for drive in vm::drives(node) {
        examined.drive(&drive);
    }
    examined.tags();
    examined.notes(blueprint);
    examined.pool(blueprint.resource_pool.as_deref());
    examined.left_behind(blueprint);
    examined.finish()
}

impl Examined<'_> {
    /// One key that is ours alone.
    fn key(&mut self, key: &str, wanted: &str) {
        let now = self.vm.config.get(key).map(String::as_str).or_else(|| granted(key));
        let next = self.vm.next(key).or_else(|| granted(key));
        let differs_now = words::differing(key, wanted, now);
        if words::differing(key, wanted, next).is_empty() {
            if self.vm.running && !differs_now.is_empty() {
                let from = now.map_or_else(|| "(not set)".to_owned(), |now| measured(key, now));
                let says =
                    format!("{} {from} → {}, which waits in Proxmox", spoken(key), measured(key, wanted));
                match class(key, &differs_now, now, wanted, self.machine) {
                    _ if self.held.covers(key) => self.hold(key, None, says),
                    Disruption::Replace => self.replace.push(says),
                    _ => self.drift.power_cycle.says.push(says),
                }
            }
            return;
        }
        let disruption = match self.vm.running && !differs_now.is_empty() {
            true if key == "memory" && self.plugs_memory(now, wanted) => {
                let text = format!(
                    "Kubernetes counts the new memory of {} when its kubelet restarts: `talosctl -n {} service kubelet restart`, or the \
                     next reboot",
                    self.node.name,
                    self.node.address.addr()
                );
                self.drift.notes.push(Note { text });
                Disruption::InPlace
            }
            true => class(key, &differs_now, now, wanted, self.machine),
            // Nothing runs with it: the VM is off, or a change by another person still waits for a restart.
            false => Disruption::None,
        };
        let from = next.map_or_else(|| "(not set)".to_owned(), |next| measured(key, next));
        let says = format!("{} {from} → {}", spoken(key), measured(key, wanted));
        self.change(key, words::corrected(key, wanted, next), says, disruption);
    }

    /// Whether the VM that runs takes more memory: the file asks for it, and the VM was started for it.
    fn plugs_memory(&self, now: Option<&str>, wanted: &str) -> bool {
        let mib = |text: &str| text.parse::<u64>().ok();
        let is = |key: &str, expected: &dyn Fn(&str) -> bool| {
            self.vm.config.get(key).is_some_and(|value| expected(value))
        };
        self.node.hardware.memory_hotplug
            && is("hotplug", &|value| value.split([',', ';', ' ']).any(|feature| feature == "memory"))
            && is("numa", &|value| value == "1")
            && now.and_then(mib).zip(mib(wanted)).is_some_and(|(now, wanted)| wanted > now)
    }

    /// What changes later: with the image, or with the machine config. Without a value, Proxmox has it already.
    fn hold(&mut self, key: &str, value: Option<String>, says: String) {
        if key != "agent" {
            return self.waits.push(says);
        }
        self.drift.with_image.set.extend(value.map(|value| (key.to_owned(), value)));
        self.drift.with_image.says.push(says);
    }

    fn change(&mut self, key: &str, value: String, says: String, disruption: Disruption) {
        if self.held.covers(key) {
            return self.hold(key, Some(value), says);
        }
        let keys = match disruption {
            Disruption::None | Disruption::InPlace => {
                self.drift.set.insert(key.to_owned(), value);
                self.drift.says.push(says);
                self.drift.disruption = self.drift.disruption.max(Some(disruption));
                return;
            }
            Disruption::ServiceRestart => &mut self.drift.rewire,
            Disruption::Reboot | Disruption::PowerCycle => &mut self.drift.power_cycle,
            Disruption::Replace | Disruption::Delete => return self.replace.push(says),
        };
        keys.set.insert(key.to_owned(), value);
        keys.says.push(says);
    }

    /// What is not done to the VM, with what it would take.
    fn block(&mut self, what: String, hint: String) {
        let node = Some(self.node.name.clone());
        self.drift.blocked.push(Blocked { node, what, disruption: Disruption::Replace, hint });
    }

    fn drive(&mut self, drive: &Drive) {
        let Some(seen) = self.vm.next(&drive.key) else { return self.missing_drive(drive) };
        match drive.holds {
            Holds::System { gib } | Holds::Data { gib } => {
                if self.is_anothers(drive, seen) {
                    let what = format!(
                        "{} of {} (VM {}) is not the disk that the file means, but {}",
                        drive.key,
                        self.node.name,
                        self.vm.vmid,
                        short(seen)
                    );
                    let hint = "give the disk in the file another `slot`, or move the other one";
                    return self.block(what, hint.to_owned());
                }
                self.size(drive, words::gib(seen), gib);
                let options: Vec<String> = drive.options.iter().map(|(k, v)| format!("{k}={v}")).collect();
                self.key(&drive.key, &options.join(","));
            }
            // These have no options that could be changed later.
            Holds::EfiSettings | Holds::TpmState | Holds::CloudInit => {}
        }
    }

    /// A data disk is known by what Talos finds it by.
    fn is_anothers(&self, drive: &Drive, seen: &str) -> bool {
        let parts = words::parts(&drive.key, seen);
        ["wwn", "serial"]
            .iter()
            .any(|name| drive.options.get(*name).is_some_and(|wanted| parts.get(*name) != Some(wanted)))
    }

    /// Where a data disk of the file is, if it is elsewhere. A second one would have the same name for Talos.
    fn elsewhere(&self, drive: &Drive) -> Option<String> {
        let disk = self.node.hardware.disks.iter().find(|disk| disk.key() == drive.key)?;
        let is_it = |key: &&String| self.vm.next(key).is_some_and(|seen| is_disk(disk, key, seen));
        self.vm.config.keys().find(is_it).cloned()
    }

    fn missing_drive(&mut self, drive: &Drive) {
        if let Some(key) = self.elsewhere(drive) {
            let what = format!(
                "the data disk that the file has at {} of {} is at {key} of VM {}: a disk keeps its place",
                drive.key, self.node.name, self.vm.vmid
            );
            let hint =
                format!("write the `bus` and `slot` of {key} in the file; or give the new disk another name");
            return self.block(what, hint);
        }
        let disruption = match drive.holds {
            Holds::System { .. } => {
                let what = format!(
                    "{} (VM {} on {}) has no boot disk at {}",
                    self.node.name, self.vm.vmid, self.vm.host, drive.key
                );
                let hint = format!(
                    "it was removed, or the file names another bus now: write the bus that the disk is on, or {}",
                    replace(&self.node.name)
                );
                return self.block(what, hint);
            }
            // It tells a machine its address at the first start; later the configuration does.
            Holds::CloudInit if self.vm.running => return,
            _ if !self.vm.running => Disruption::None,
            Holds::Data { .. } if !drive.key.starts_with("sata") => Disruption::InPlace,
            // It comes with another firmware.
            Holds::EfiSettings => Disruption::Replace,
            _ => Disruption::PowerCycle,
        };
        let Some(value) = drive.creation("") else { return };
        let store = drive.datastore.as_deref().unwrap_or_default();
        let says = match drive.holds {
            Holds::Data { gib } => format!("new disk {} of {gib} GiB on {store}", drive.key),
            _ => format!("new {} on {store}", drive.key),
        };
        self.change(&drive.key, value, says, disruption);
    }

    fn size(&mut self, drive: &Drive, has: Option<u64>, wanted: u64) {
        match has {
            Some(has) if has < wanted => self.drift.grow.push((drive.key.clone(), has, wanted)),
            Some(has) if has > wanted => {
                let what = format!(
                    "{} of {} has {has} GiB and the file says {wanted}: a disk never shrinks",
                    drive.key, self.node.name
                );
                self.block(
                    what,
                    format!("write {has}G in the file; only a new node can have a smaller disk"),
                );
            }
            _ => {}
        }
    }

    /// Tags of others stay.
    fn tags(&mut self) {
        let has: Vec<&str> = self
            .vm
            .next("tags")
            .unwrap_or_default()
            .split([';', ',', ' '])
            .filter(|t| !t.is_empty())
            .collect();
        let missing: Vec<&str> = self
            .node
            .hardware
            .tags
            .iter()
            .map(String::as_str)
            .filter(|tag| !has.iter().any(|has| has.eq_ignore_ascii_case(tag)))
            .collect();
        if missing.is_empty() {
            return;
        }
        let mut all: Vec<&str> = has.iter().chain(&missing).copied().collect();
        all.sort_unstable();
        let says = format!("tags + {}", missing.join(", "));
        self.change("tags", all.join(";"), says, Disruption::None);
    }

    fn notes(&mut self, blueprint: &Blueprint) {
        let Some(mark) = vm::mark(blueprint, self.node) else { return };
        let evidence = Evidence::from(self.vm);
        let judged = ownership::may(Act::Change, blueprint, &evidence, &self.node.name);
        // The notes of a VM that is not ours are not changed; nothing else of it is either.
        let Ok(identity) = judged else { return };
        let generation = ownership::generation(&evidence, identity, &self.node.name);
        let mark = mark.in_place_of(&self.vm.mark, generation);
        let replaces = match identity {
            Identity::Unfinished => self.vm.recorded.filter(|recorded| Some(*recorded) != generation),
            _ => self.vm.mark.replaces,
        };
        let mark = Mark { replaces, ..mark };
        let says = match identity {
            Identity::Restored => "notes (generation ID after a restore or rollback)",
            _ => "notes",
        };
        let seen = self.vm.next("description").unwrap_or_default();
        if let Some(text) = mark.corrected(seen, self.node.hardware.description.as_deref()) {
            self.change("description", text, says.to_owned(), Disruption::None);
        }
    }

    fn pool(&mut self, wanted: Option<&str>) {
        if let Some(wanted) = wanted.filter(|wanted| self.vm.pool.as_deref() != Some(wanted)) {
            self.drift.pool = Some(wanted.to_owned());
            self.drift.says.push(format!("into the resource pool {wanted}"));
            self.drift.disruption = self.drift.disruption.max(Some(Disruption::None));
        }
    }

    /// What the file could say and does not, perhaps any more. Who set it cannot be seen, so it stays. A disk of ours has a name
    /// that Talos finds it by, and its volume is this VM's own: those of a storage driver are not.
    fn left_behind(&mut self, blueprint: &Blueprint) {
        let settings = vm::settings(blueprint, self.node);
        let drives = vm::drives(self.node);
        let own = format!("vm-{}-disk-", self.vm.vmid);
        for key in self.vm.config.keys() {
            let Some(value) = self.vm.next(key) else { continue };
            let has = |name: &str| words::parts(key, value).contains_key(name);
            match key.trim_end_matches(|c: char| c.is_ascii_digit()) {
                "scsi" | "virtio" | "sata"
                    if !drives.iter().any(|drive| drive.key == *key)
                        && value.contains(&own)
                        && (has("wwn") || has("serial"))
                        // One of the file at another place is told as such.
                        && !self.node.hardware.disks.iter().any(|disk| is_disk(disk, key, value)) =>
                {
                    let volume = words::parts(key, value).remove("file").unwrap_or_default();
                    self.drift.left_disks.push(LeftDisk { key: key.clone(), volume, gib: words::gib(value) });
                }
                "startup" | "cpuunits" | "vga" | "hostpci" | "net" if !settings.contains_key(key) => {
                    let text = format!(
                        "{} (VM {}) has {} {}, of which the file says nothing; it is not changed",
                        self.node.name,
                        self.vm.vmid,
                        spoken(key),
                        short(value)
                    );
                    self.drift.notes.push(Note { text });
                }
                _ => {}
            }
        }
    }

    fn finish(mut self) -> Drift {
        if !self.replace.is_empty() {
            let what = format!(
                "the VM of {} does not match the file ({}), and the system on its disk does not survive that change",
                self.node.name,
                self.replace.join("; ")
            );
            let hint = format!("write in the file what the VM has; or {}", replace(&self.node.name));
            self.block(what, hint);
        }
        if !self.waits.is_empty() {
            let name = &self.node.name;
            let what = format!(
                "the VM of {name} does not match the file ({}), and changes only together with the machine config, whose change is blocked",
                self.waits.join("; ")
            );
            let hint =
                format!("do what the other blocked change of {name} asks for; both change together then");
            let disruption = Disruption::PowerCycle;
            self.drift.blocked.push(Blocked { node: Some(name.clone()), what, disruption, hint });
        }
        self.drift
    }
}

/// Whether a drive of a VM is a data disk of the file, by what Talos finds it by.
fn is_disk(disk: &Disk, key: &str, seen: &str) -> bool {
    let parts = words::parts(key, seen);
    parts.get("wwn") == Some(&disk.wwn) || parts.get("serial") == Some(&disk.serial)
}

/// How a node gets a new system.
fn replace(node: &str) -> String {
    format!(
        "replace the node, which deletes its system disk and keeps its data disks: `talosmith node replace {node} --force`"
    )
}

/// What Proxmox takes for granted where a key is missing.
fn granted(key: &str) -> Option<&'static str> {
    match key {
        "bios" => Some("seabios"),
        "onboot" | "agent" => Some("0"),
        "sockets" | "cores" => Some("1"),
        "memory" => Some("512"),
        _ => None,
    }
}

/// What changing a key of a running VM costs.
fn class(
    key: &str,
    differs: &[String],
    now: Option<&str>,
    wanted: &str,
    machine: Option<&Machine>,
) -> Disruption {
    let only = |names: &[&str]| differs.iter().all(|name| names.contains(&name.as_str()));
    match key.trim_end_matches(|c: char| c.is_ascii_digit()) {
        "name" | "onboot" | "startup" | "ipconfig" | "nameserver" => Disruption::None,
        "cpuunits" => Disruption::InPlace,
        // Turning it on or off changes the machine's devices.
        "balloon" if now != Some("0") && now.is_some() && wanted != "0" => Disruption::InPlace,
        "scsi" | "virtio" | "sata" if only(&["backup"]) => Disruption::InPlace,
        "net" if now.is_none() => Disruption::InPlace,
        // A machine that cannot be reached loses nothing by it.
        "net" if only(&["bridge", "tag"]) => match machine.map(|m| &m.api) {
            Some(Api::Unresponsive { .. }) | None => Disruption::InPlace,
            _ => Disruption::ServiceRestart,
        },
        "bios" | "machine" => Disruption::Replace,
        _ => Disruption::PowerCycle,
    }
}

fn spoken(key: &str) -> &str {
    match key {
        "cpu" => "CPU type",
        "cpuunits" => "CPU units",
        "onboot" => "start at boot",
        "vga" => "display",
        "smbios1" => "UUID",
        "nameserver" => "name servers",
        other => other,
    }
}

/// A value for people, with its unit where Proxmox writes a bare number.
fn measured(key: &str, value: &str) -> String {
    match key {
        "memory" | "balloon" if value.bytes().all(|digit| digit.is_ascii_digit()) => format!("{value} MiB"),
        _ => short(value).to_owned(),
    }
}

/// A value for people: not the whole of a drive or card.
fn short(value: &str) -> &str {
    match value.char_indices().nth(60) {
        Some((end, _)) => &value[..end],
        None => value,
    }
}
