//! Changing a VM's configuration. The digest makes it a compare-and-set; what a running VM cannot take over waits.

use std::time::Duration;

use jiff::Timestamp;

use crate::hypervisor::refusal::Refusal;
use crate::hypervisor::rights::Asked;
use crate::hypervisor::storage::Storages;
use crate::hypervisor::tasks::Task;
use crate::hypervisor::vm::Vm;
use crate::hypervisor::work::{Change, Configure, Work};
use crate::hypervisor::{disks, drive, hotplug, options};
use crate::operations::create;
use crate::operations::tasks::{self, Next};
use crate::schema::{Parts, formats};
use crate::world::World;

impl Change {
    /// With `cdrom`, another name of `ide2`, called by that name.
    fn resolved(mut self) -> Self {
        create::cdrom_alias(&mut self.set);
        for key in self.delete.iter_mut().filter(|key| *key == "cdrom") {
            *key = "ide2".to_owned();
        }
        self
    }
}

/// Changes the configuration at once.
pub(crate) fn now(
    world: &mut World,
    node: &str,
    vmid: u32,
    change: Change,
    caller: &str,
) -> Result<(), Refusal> {
    let change = change.resolved();
    check(world, node, vmid, &change, caller)?;
    note(world, node, vmid, &change, caller);
    apply(world, node, vmid, change, caller).map(drop)
}

/// Changes the configuration in a task.
pub(crate) fn later(
    world: &mut World,
    node: &str,
    vmid: u32,
    change: Change,
    caller: &str,
) -> Result<String, Refusal> {
    let change = change.resolved();
    check(world, node, vmid, &change, caller)?;
    note(world, node, vmid, &change, caller);
    let work = Work::Configure(Configure { vmid, change });
    Ok(tasks::begin(world, node, "qmconfig", &vmid.to_string(), caller, work))
}

/// A change in the words of a log. A password is left out.
fn words(vmid: u32, change: &Change) -> String {
    let value = |key: &str, value: &str| if key == "cipassword" { "<hidden>" } else { value }.to_owned();
    let words = change.set.iter().map(|(key, text)| format!(" -{key} {}", value(key, text)));
    let delete = (!change.delete.is_empty()).then(|| format!(" -delete {}", change.delete.join(",")));
    let words: String = words.chain(delete).collect();
    format!("update VM {vmid}:{words}")
}

/// Copies a change into the log of the cluster.
fn note(world: &mut World, node: &str, vmid: u32, change: &Change, caller: &str) {
    let now = world.now;
    world.hypervisor.log.write(now, node, caller, words(vmid, change));
}

impl Configure {
    pub(crate) fn step(self, world: &mut World, task: &mut Task) -> Next {
        let now = world.now;
        if task.stage == 0 {
            task.log(now, words(self.vmid, &self.change));
            return match apply(world, &task.node, self.vmid, self.change, &task.user) {
                Ok(lines) => {
                    let takes = lines.last().map_or(Duration::from_millis(150), |(at, _)| *at);
                    for (at, line) in lines {
                        task.log_after(now, at, line);
                    }
                    Next::After(takes)
                }
                Err(refusal) => Next::fail(refusal.in_task()),
            };
        }
        Next::End(Ok(()))
    }
}

/// What is checked before anything is written.
fn check(world: &World, node: &str, vmid: u32, change: &Change, caller: &str) -> Result<(), Refusal> {
    if change.set.is_empty() && change.delete.is_empty() && change.revert.is_empty() {
        return Err(Refusal::failed("no options specified"));
    }
    let Change { set, delete, revert, .. } = change;
    let both = |first: &str, second: &str| format!("you can't use '{first}' and {second}' at the same time");
    for key in revert {
        if options::option(key).is_none() {
            return Err(Refusal::parameter("revert", format!("unknown option '{key}'")));
        }
        if set.contains_key(key) {
            return Err(Refusal::parameter("delete", both(&format!("-{key}"), &format!("-revert {key}"))));
        }
    }
    for key in delete {
        if set.contains_key(key) {
            return Err(Refusal::parameter("delete", both(&format!("-{key}"), &format!("-delete {key}"))));
        }
        if revert.contains(key) {
            let text = both(&format!("-delete {key}"), &format!("-revert {key}"));
            return Err(Refusal::parameter("revert", text));
        }
        if options::option(key).is_none() {
            return Err(Refusal::parameter("delete", format!("unknown option '{key}'")));
        }
    }
    create::check_options(&world.hypervisor, node, set)?;
    if let Some(script) = set.get("hookscript") {
        hook_script(world, node, script)?;
    }
    Asked { hypervisor: &world.hypervisor, caller, vmid, pool: None }.change(set, delete)?;
    let vm = world
        .hypervisor
        .vms
        .get(&vmid)
        .filter(|vm| vm.node == node)
        .ok_or_else(|| Refusal::no_vm(node, vmid))?;
    if vm.holder.is_some() && (vm.lock().is_none() || change.skiplock) {
        return Err(Refusal::Busy(vmid));
    }
    if change.digest.as_ref().is_some_and(|digest| *digest != vm.digest()) {
        return Err(Refusal::failed("checksum mismatch (file change by other user?)"));
    }
    if let Some(lock) = vm.lock().filter(|_| !change.skiplock) {
        return Err(Refusal::failed(format!("VM is locked ({lock})")));
    }
    let waits = |key: &str| vm.pending.get(key).and_then(Option::as_deref).or(vm.get(key));
    let number = |text: &str| text.strip_prefix("current=").unwrap_or(text).parse::<u64>().ok();
    let value = |key: &str| change.set.get(key).map(String::as_str).or_else(|| waits(key)).and_then(number);
    let asked = change.set.contains_key("memory") || change.set.contains_key("balloon");
    if asked && value("balloon").unwrap_or(0) > value("memory").unwrap_or(512) {
        return Err(Refusal::failed("balloon value too large (must be smaller than assigned memory)"));
    }
    Ok(())
}

/// A script of the host must be a snippet that is there.
fn hook_script(world: &World, node: &str, volid: &str) -> Result<(), Refusal> {
    let storages = &world.hypervisor.storages;
    let words = match storages.named(volid) {
        Err(words) => words,
        Ok(named) if named.content != "snippets" => format!("'{volid}' is not in the snippets directory"),
        Ok(_) if storages.volume(node, volid).is_none() => format!("script '{volid}' does not exist"),
        Ok(_) => return Ok(()),
    };
    Err(Refusal::parameter("hookscript", format!("{words}\n")))
}

/// What depends on the configuration that is there: rights on what is replaced, and whether the new value can follow it.
fn fits(world: &World, vm: &Vm, change: &Change, caller: &str) -> Result<(), Refusal> {
    let asked = Asked { hypervisor: &world.hypervisor, caller, vmid: vm.vmid, pool: None };
    asked.replaced(vm, &change.set, &change.delete)?;
    for key in change.delete.iter().filter(|key| vm.flag("protection") && vm.config.contains_key(*key)) {
        let what = match options::drive_props(key) {
            Some(_) => format!("can't remove drive '{key}'"),
            None if key.starts_with("unused") => {
                format!("can't remove unused disk '{}'", vm.get(key).unwrap_or_default())
            }
            None => continue,
        };
        return Err(Refusal::failed(format!("{what} - protection mode enabled")));
    }
    for (key, value) in &change.set {
        let Some(parts) = drive::parts(key, value) else { continue };
        create::one_cloudinit(key, &parts, vm.drives()).map_err(Refusal::Failed)?;
        if key == "tpmstate0"
            && let Some(old) = vm.get(key).and_then(|old| drive::parts(key, old))
            && old.get("file") == parts.get("file")
        {
            let version = |parts: &Parts| parts.get("version").map_or("v1.2", String::as_str).to_owned();
            if version(&old) != version(&parts) {
                return Err(Refusal::failed("cannot change TPM state version after creation"));
            }
        }
    }
    let order =
        change.set.get("boot").and_then(|boot| boot.split(',').find_map(|part| part.strip_prefix("order=")));
    for device in formats::items(order.unwrap_or_default()) {
        let there = vm.config.contains_key(device)
            || matches!(vm.pending.get(device), Some(Some(_)))
            || change.set.contains_key(device);
        if !there || change.delete.iter().any(|key| key == device) {
            return Err(Refusal::failed(format!("invalid bootorder: device '{device}' does not exist'")));
        }
    }
    Ok(())
}

/// The boot order follows its devices: one that goes is taken off, a new CD is put at its end.
fn follow_boot(vm: &Vm, change: &mut Change) {
    if change.set.contains_key("boot") || change.delete.iter().any(|key| key == "boot") {
        return;
    }
    let waiting = vm.pending.get("boot").and_then(Option::as_deref);
    let Some(order) = waiting.or(vm.get("boot")).and_then(|boot| boot.strip_prefix("order=")) else { return };
    let before = formats::items(order);
    let mut devices: Vec<&str> =
        before.iter().copied().filter(|device| !change.delete.iter().any(|key| key == device)).collect();
    let new_cds = change.set.iter().filter(|(key, value)| {
        let parts = drive::parts(key, value);
        parts.is_some_and(|parts| drive::is_cdrom(&parts) && !drive::is_cloudinit(&parts))
    });
    let new_cds: Vec<String> = new_cds.map(|(key, _)| key.clone()).collect();
    devices.extend(new_cds.iter().map(String::as_str).filter(|key| !before.contains(key)));
    if devices != before {
        let text = if devices.is_empty() { " ".to_owned() } else { format!("order={}", devices.join(";")) };
        change.set.insert("boot".to_owned(), text);
    }
}

/// Writes the change; gives the lines of a task log about new disks.
fn apply(
    world: &mut World,
    node: &str,
    vmid: u32,
    mut change: Change,
    caller: &str,
) -> Result<Vec<(Duration, String)>, Refusal> {
    let now = world.now;
    create::complete_nics(&mut change.set, &mut world.rng);
    let present = world.hypervisor.vms.get(&vmid).filter(|vm| vm.node == node);
    let present = present.ok_or_else(|| Refusal::no_vm(node, vmid))?;
    fits(world, present, &change, caller)?;
    follow_boot(present, &mut change);
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
    let mut start = Duration::ZERO;
    // Another system disk, or none.
    let boots = vm.boot_disk().map(str::to_owned);
    let mut renewed = boots.is_some_and(|boots| change.delete.contains(&boots));
    for (key, value) in &change.set {
        let value = if let Some(parts) = drive::parts(key, value) {
            let made = disks::make(&mut hypervisor.storages, node, vmid, key, &parts, now)
                .map_err(Refusal::Failed)?;
            lines.extend(made.lines.into_iter().map(|(at, line)| (start + at, line)));
            start += made.takes;
            let replaced = file_of(vm, key);
            let is_other =
                replaced != drive::parts(key, &made.value).and_then(|new| new.get("file").cloned());
            renewed |= is_other && vm.boot_disk() == Some(key);
            if replaced.is_some() && is_other && hotplug::applies(vm, key, Some(&made.value)) {
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
        if drive::parts(key, vm.get(key).unwrap_or_default()).is_some() && hotplug::applies(vm, key, None) {
            detach(vm, &mut hypervisor.storages, key, change.force);
        } else if key.starts_with("unused") {
            if let Some(volid) = vm.config.remove(key) {
                hypervisor.storages.remove(&vm.node, &volid);
            }
        } else {
            write(vm, key, None);
        }
    }
    if vm.running.is_some() {
        let disks = vm.boot(&hypervisor.storages).disks;
        world.machines.plug_disks(vmid, disks);
    } else if renewed {
        // Another disk: nothing of what the machine had installed is on it.
        world.machines.put_disk(vmid, None);
    }
    Ok(lines)
}

/// Writes one option, now or for the next start.
fn write(vm: &mut Vm, key: &str, value: Option<String>) {
    if hotplug::applies(vm, key, value.as_deref()) {
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
pub(crate) fn normal_tags(text: &str) -> String {
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
