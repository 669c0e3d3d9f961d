//! Changing a VM's configuration. The digest makes it a compare-and-set; what a running VM cannot take over waits.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::hypervisor::refusal::Refusal;
use crate::hypervisor::rights::Asked;
use crate::hypervisor::storage::Storages;
use crate::hypervisor::tasks::{self, Next, Task, Work};
use crate::hypervisor::vm::Vm;
use crate::hypervisor::{create, disks, drive, options};
use crate::world::World;

/// What is to change.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Change {
    pub(crate) set: BTreeMap<String, String>,
    pub(crate) delete: Vec<String>,
    pub(crate) revert: Vec<String>,
    pub(crate) digest: Option<String>,
    /// Detached disks are destroyed.
    pub(crate) force: bool,
    /// A lock of the VM is passed over.
    #[serde(default)]
    pub(crate) skiplock: bool,
}

/// A change under way as a task.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Configure {
    pub(crate) vmid: u32,
    change: Change,
}

/// Changes the configuration at once.
pub(crate) fn now(
    world: &mut World,
    node: &str,
    vmid: u32,
    change: Change,
    caller: &str,
) -> Result<(), Refusal> {
    check(world, node, vmid, &change, caller)?;
    apply(world, node, vmid, change).map(drop)
}

/// Changes the configuration in a task.
pub(crate) fn later(
    world: &mut World,
    node: &str,
    vmid: u32,
    change: Change,
    caller: &str,
) -> Result<String, Refusal> {
    check(world, node, vmid, &change, caller)?;
    let work = Work::Configure(Configure { vmid, change });
    Ok(tasks::begin(world, node, "qmconfig", &vmid.to_string(), caller, work))
}

impl Configure {
    pub(crate) fn step(self, world: &mut World, task: &mut Task) -> Next {
        let now = world.now;
        if task.stage == 0 {
            let words = self.change.set.iter().map(|(key, value)| format!(" -{key} {value}"));
            let delete = (!self.change.delete.is_empty())
                .then(|| format!(" -delete {}", self.change.delete.join(",")));
            let words: String = words.chain(delete).collect();
            task.log(now, format!("update VM {}:{words}", self.vmid));
            return match apply(world, &task.node, self.vmid, self.change) {
                Ok(lines) => {
                    let takes = lines.last().map_or(Duration::from_millis(150), |(at, _)| *at);
                    for (at, line) in lines {
                        task.log_after(now, at, line);
                    }
                    Next::After(takes)
                }
                Err(refusal) => Next::fail(text_of(refusal)),
            };
        }
        Next::End(Ok(()))
    }
}

fn text_of(refusal: Refusal) -> String {
    match refusal {
        Refusal::Failed(text)
        | Refusal::FailedAfter(_, text)
        | Refusal::Forbidden(text)
        | Refusal::Unauthorized(text) => text,
        Refusal::Parameters(errors) => {
            errors.into_iter().map(|(key, text)| format!("{key}: {text}")).collect()
        }
        Refusal::Busy(vmid) => tasks::lock_timeout(vmid),
        Refusal::Unserved => "not implemented".to_owned(),
    }
}

/// What is checked before anything is written.
fn check(world: &World, node: &str, vmid: u32, change: &Change, caller: &str) -> Result<(), Refusal> {
    if change.set.is_empty() && change.delete.is_empty() && change.revert.is_empty() {
        return Err(Refusal::failed("no options specified"));
    }
    create::check_options(&world.hypervisor, node, &change.set, caller)?;
    let access = &world.hypervisor.access;
    Asked { access, caller, vmid, pool: None, creation: false }.check(&change.set, &change.delete)?;
    if let Some(script) = change.set.get("hookscript")
        && world.hypervisor.storages.volume(node, script).is_none()
    {
        return Err(Refusal::parameter("hookscript", format!("script '{script}' does not exist\n")));
    }
    let vm = world
        .hypervisor
        .vms
        .get(&vmid)
        .filter(|vm| vm.node == node)
        .ok_or_else(|| Refusal::no_vm(node, vmid))?;
    for key in &change.delete {
        if options::option(key).is_none() {
            return Err(Refusal::parameter("delete", format!("unknown option '{key}'")));
        }
        if caller != "root@pam" && options::root_only(key) {
            return Err(Refusal::failed(format!("only root can set '{key}' config")));
        }
    }
    if vm.holder.is_some() && (vm.lock().is_none() || change.skiplock) {
        return Err(Refusal::Busy(vmid));
    }
    if change.digest.as_ref().is_some_and(|digest| *digest != vm.digest()) {
        return Err(Refusal::failed("checksum mismatch (file change by other user?)"));
    }
    if let Some(lock) = vm.lock().filter(|_| !change.skiplock) {
        return Err(Refusal::failed(format!("VM is locked ({lock})")));
    }
    if let Some(balloon) = change.set.get("balloon").and_then(|text| text.parse::<u64>().ok()) {
        let asked = change.set.get("memory").and_then(|text| text.parse::<u64>().ok());
        if balloon > asked.unwrap_or(vm.memory_bytes() >> 20) {
            return Err(Refusal::failed("balloon value too large (must be smaller than assigned memory)"));
        }
    }
    Ok(())
}

/// Writes the change; gives the lines of a task log about new disks.
fn apply(
    world: &mut World,
    node: &str,
    vmid: u32,
    mut change: Change,
) -> Result<Vec<(Duration, String)>, Refusal> {
    let now = world.now;
    create::complete_nics(&mut change.set, &mut world.rng);
    let hypervisor = &mut world.hypervisor;
    let vm = hypervisor
        .vms
        .get_mut(&vmid)
        .filter(|vm| vm.node == node)
        .ok_or_else(|| Refusal::no_vm(node, vmid))?;
    for key in &change.revert {
        vm.pending.remove(key);
    }
    let mut lines = Vec::new();
    let mut begun = Duration::ZERO;
    for (key, value) in &change.set {
        let value = if let Some(parts) = drive::parts(key, value) {
            let made = disks::make(&mut hypervisor.storages, node, vmid, key, &parts, now)
                .map_err(Refusal::Failed)?;
            lines.extend(made.lines.into_iter().map(|(at, line)| (begun + at, line)));
            begun += made.takes;
            let replaced = file_of(vm, key);
            if replaced.is_some()
                && replaced != drive::parts(key, &made.value).and_then(|new| new.get("file").cloned())
            {
                detach(vm, &mut hypervisor.storages, key, change.force);
            }
            made.value
        } else if key == "tags" {
            normal_tags(value)
        } else {
            value.clone()
        };
        write(vm, key, Some(value));
    }
    for key in &change.delete {
        if vm.flag("protection") && options::drive_props(key).is_some() && vm.config.contains_key(key) {
            return Err(Refusal::failed(format!("can't remove drive '{key}' - protection mode enabled")));
        }
        if drive::parts(key, vm.get(key).unwrap_or_default()).is_some() && applies(vm, key) {
            detach(vm, &mut hypervisor.storages, key, change.force);
        } else if key.starts_with("unused") {
            if let Some(volid) = vm.config.remove(key) {
                hypervisor.storages.remove(&vm.node, &volid);
            }
        } else {
            write(vm, key, None);
        }
    }
    Ok(lines)
}

fn applies(vm: &Vm, key: &str) -> bool {
    vm.running.is_none() || options::applies_while_running(key)
}

/// Writes one option, now or for the next start.
fn write(vm: &mut Vm, key: &str, value: Option<String>) {
    if applies(vm, key) {
        vm.pending.remove(key);
        match value {
            Some(value) => drop(vm.config.insert(key.to_owned(), value)),
            None => drop(vm.config.remove(key)),
        }
    } else if vm.config.get(key) == value.as_ref() {
        vm.pending.remove(key);
    } else {
        vm.pending.insert(key.to_owned(), value);
    }
}

fn file_of(vm: &Vm, key: &str) -> Option<String> {
    drive::parts(key, vm.get(key)?)?.get("file").cloned()
}

/// Takes a disk off: it stays as unused, a cloud-init drive goes, and with `force` any goes.
fn detach(vm: &mut Vm, storages: &mut Storages, key: &str, force: bool) {
    let Some(parts) = vm.config.remove(key).and_then(|text| drive::parts(key, &text)) else { return };
    vm.pending.remove(key);
    let Some(volid) = parts.get("file") else { return };
    let Some(owner) = storages.volume(&vm.node, volid).map(|volume| volume.vmid) else { return };
    if owner != Some(vm.vmid) {
        return;
    }
    if force || volid.contains("cloudinit") {
        storages.remove(&vm.node, volid);
    } else if let Some(free) = (0..256).map(|n| format!("unused{n}")).find(|key| !vm.config.contains_key(key))
    {
        vm.config.insert(free, volid.clone());
    }
}

/// Tags as an update writes them: in small letters, each once, sorted.
fn normal_tags(text: &str) -> String {
    let mut tags: Vec<String> =
        text.split([' ', ',', ';']).filter(|tag| !tag.is_empty()).map(str::to_lowercase).collect();
    tags.sort();
    tags.dedup();
    tags.join(";")
}

/// The moment from which a caller who waits for the lock gives up.
pub(crate) fn patience_ends(asked: Timestamp) -> Timestamp {
    asked.checked_add(tasks::LOCK_PATIENCE).unwrap_or(Timestamp::MAX)
}
