//! Copies of VMs, and templates to copy from.
//!
//! A clone of a template holds only the differences from the template's disks unless a full copy is asked for; the
//! cloud-init drive is copied either way. A clone is a machine of its own: new MAC addresses, a new UUID.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use crate::hypervisor::refusal::Refusal;
use crate::hypervisor::rights::{Asked, need};
use crate::hypervisor::storage::{Storages, Volume, Wish};
use crate::hypervisor::tasks::Task;
use crate::hypervisor::vm::{Vm, is_numbered};
use crate::hypervisor::work::{Clone, Template, Work};
use crate::hypervisor::{disks, drive, options};
use crate::operations::create::complete_nics;
use crate::operations::tasks::{self, Next};
use crate::schema::{Parts, print_size};
use crate::world::World;

/// Checks the wish and starts the task.
pub(crate) fn clone(world: &mut World, node: &str, mut wish: Clone, caller: &str) -> Result<String, Refusal> {
    let hypervisor = &world.hypervisor;
    wish.target = wish.target.filter(|target| target != node && target != "localhost");
    if let Some(pool) = wish.pool.as_ref().filter(|pool| !hypervisor.access.pools.contains_key(*pool)) {
        return Err(Refusal::Forbidden(format!("Permission check failed (pool '{pool}' does not exist)")));
    }
    if let Some(target) = wish.target.as_ref().filter(|target| !hypervisor.hosts.contains_key(*target)) {
        return Err(Refusal::failed(format!("no such cluster node '{target}'")));
    }
    if let Some(id) = &wish.storage {
        let storage = hypervisor.storages.usable(node, id).map_err(Refusal::Failed)?;
        hypervisor.storages.takes_images(id)?;
        if let Some(target) = &wish.target {
            hypervisor.storages.usable(target, id).map_err(Refusal::Failed)?;
            if !storage.shared {
                return Err(Refusal::failed(format!("can't clone to non-shared storage '{id}'")));
            }
        }
    }
    let vm = hypervisor.vms.get(&wish.source).filter(|vm| vm.node == node);
    let vm = vm.ok_or_else(|| Refusal::no_vm(node, wish.source))?;
    if let Some(lock) = vm.lock() {
        return Err(Refusal::failed(format!("VM is locked ({lock})")));
    }
    let old = match &wish.snapshot {
        Some(name) => {
            let kept = vm.snapshots.get(name);
            &kept.ok_or_else(|| Refusal::failed(format!("snapshot '{name}' does not exist")))?.config
        }
        None => &vm.config,
    };
    let full = *wish.full.get_or_insert(!vm.flag("template"));
    for (name, given) in [("storage", &wish.storage), ("format", &wish.format)] {
        if given.is_some() && !full {
            return Err(Refusal::failed(format!("parameter '{name}' not allowed for linked clones")));
        }
    }
    let drives: Vec<(&str, Parts)> = old
        .iter()
        .filter_map(|(key, value)| Some((key.as_str(), drive::parts(key, value)?)))
        .filter(|(_, parts)| parts.get("file").is_some_and(|file| file.contains(':')))
        .collect();
    let mut shared = true;
    for (_, parts) in &drives {
        let volid = parts.get("file").map_or("", String::as_str);
        let own = volid.split(':').next().unwrap_or_default();
        let storage = hypervisor.storages.defined.get(own);
        let storage = storage.ok_or_else(|| Refusal::failed(format!("storage '{own}' does not exist")))?;
        shared &= storage.shared;
        if !drive::is_cdrom(parts) {
            let id = wish.storage.as_deref().unwrap_or(own);
            need(&hypervisor.access, caller, &format!("/storage/{id}"), "Datastore.AllocateSpace")?;
        }
    }
    let asked = Asked { hypervisor, caller, vmid: wish.newid, pool: None };
    old.iter().try_for_each(|(key, value)| asked.bridge(key, value))?;
    if let Some(target) = wish.target.as_ref().filter(|_| !shared) {
        return Err(Refusal::failed(format!("can't clone VM to node '{target}' (VM uses local storage)")));
    }
    if hypervisor.vms.contains_key(&wish.newid) {
        let text = format!("unable to create VM {}: config file already exists", wish.newid);
        return Err(Refusal::failed(text));
    }
    for (key, parts) in drives.iter().filter(|(_, parts)| !drive::is_cdrom(parts)) {
        if full && *key == "tpmstate0" && vm.running.is_some() && wish.snapshot.is_none() {
            return Err(Refusal::failed("cannot clone TPM state while VM is running"));
        }
        let volid = parts.get("file").map_or("", String::as_str);
        let name = volid.rsplit([':', '/']).next().unwrap_or_default();
        if !full && *key != "tpmstate0" && !name.starts_with("base-") {
            let of = if wish.snapshot.is_some() { " a snapshot of" } else { "" };
            let text = format!("Linked clone feature is not supported for{of} '{volid}' ({key})");
            return Err(Refusal::failed(text));
        }
    }
    let id = wish.source.to_string();
    Ok(tasks::begin(world, node, "qmclone", &id, caller, Work::Clone(Box::new(wish))))
}

impl Clone {
    pub(crate) fn step(mut self, world: &mut World, task: &mut Task) -> Next {
        if task.stage == 0 {
            return match self.make(world, task) {
                Ok(takes) => {
                    task.set_work(Work::Clone(Box::new(self)));
                    Next::After(takes)
                }
                Err(text) => {
                    world.hypervisor.vms.remove(&self.newid);
                    Next::fail(format!("clone failed: {text}"))
                }
            };
        }
        if let Some(vm) = world.hypervisor.vms.get_mut(&self.newid) {
            vm.config = self.made;
            if let Some(target) = &self.target {
                vm.node.clone_from(target);
            }
        }
        let disk = world.machines.copy_disk(self.source);
        world.machines.put_disk(self.newid, disk);
        if let Some(pool) = self.pool.and_then(|pool| world.hypervisor.access.pools.get_mut(&pool)) {
            pool.vms.insert(self.newid);
        }
        Next::End(Ok(()))
    }

    fn make(&mut self, world: &mut World, task: &mut Task) -> Result<Duration, String> {
        let now = world.now;
        let hypervisor = &mut world.hypervisor;
        let Some(source) = hypervisor.vms.get(&self.source) else { return Err("the VM is gone".to_owned()) };
        if hypervisor.vms.contains_key(&self.newid) {
            return Err(format!("unable to create VM {}: config file already exists", self.newid));
        }
        task.log(now, format!("creating a clone of VM {} with ID {}", self.source, self.newid));
        let mut config = match &self.snapshot {
            Some(name) => source.snapshots.get(name).map(|kept| kept.config.clone()).unwrap_or_default(),
            None => source.config.clone(),
        };
        let guest = source.guest.clone();
        let named = source.name();
        let mut takes = Duration::from_millis(300);
        config.retain(|key, _| {
            !is_numbered(key, "unused") && !matches!(key.as_str(), "template" | "lock" | "parent")
        });
        for (key, value) in config.clone() {
            let Some(parts) = drive::parts(&key, &value) else { continue };
            let Some(volid) = parts.get("file").filter(|file| file.contains(':')) else { continue };
            let Some(volume) = hypervisor.storages.volume(&task.node, volid).cloned() else {
                return Err(format!("volume '{volid}' does not exist"));
            };
            // A CD in the drive stays in the drive.
            if volume.vmid.is_none() {
                continue;
            }
            let copy = self.copy(&mut hypervisor.storages, &task.node, &key, &volume, now)?;
            for (at, line) in copy.lines {
                task.log_after(now, takes + at, line);
            }
            takes += copy.takes;
            let mut parts = parts.clone();
            parts.insert("file".to_owned(), copy.volid);
            if parts.contains_key("size") {
                parts.insert("size".to_owned(), print_size(volume.size));
            }
            if let Some(props) = options::drive_props(&key) {
                config.insert(key, props.print(&parts));
            }
        }
        let name = self.name.clone().unwrap_or_else(|| format!("Copy-of-VM-{named}"));
        config.insert("name".to_owned(), name);
        if let Some(description) = &self.description {
            config.insert("description".to_owned(), description.clone());
        }
        renew(&mut config, &mut world.rng);
        self.made = config;
        let mut vm = Vm::new(self.newid, &task.node);
        vm.config.insert("lock".to_owned(), "clone".to_owned());
        vm.guest = guest;
        world.hypervisor.vms.insert(self.newid, vm);
        world.hypervisor.kept.copy_below(&format!("/qemu/{}", self.source), &format!("/qemu/{}", self.newid));
        Ok(world.rng.around(takes))
    }

    /// Copies one volume, or makes one that holds the differences from it.
    fn copy(
        &self,
        storages: &mut Storages,
        node: &str,
        key: &str,
        from: &Volume,
        now: Timestamp,
    ) -> Result<Copy, String> {
        let cloudinit = from.volid.contains("cloudinit");
        let linked = self.full == Some(false) && !cloudinit;
        let own = from.volid.split(':').next().unwrap_or_default();
        let storage = self.storage.as_deref().filter(|_| !linked).unwrap_or(own);
        let format = self.format.as_deref().filter(|_| !linked && !cloudinit).unwrap_or(&from.format);
        let wish = Wish {
            storage,
            vmid: self.newid,
            size: from.size,
            used: if linked { 0 } else { from.used },
            format: Some(format),
            cloudinit,
            origin: from.origin.clone(),
        };
        let mut volume = storages.allocate(node, wish, now)?;
        let mut lines = Vec::new();
        let how = if linked { "linked" } else { "full" };
        lines.push((Duration::ZERO, format!("create {how} clone of drive {key} ({})", from.volid)));
        if linked {
            storages.remove(node, &volume.volid);
            let kind = storages.storage_of(&volume.volid).map(|storage| storage.kind);
            let (base, name) =
                (from.volid.clone(), volume.volid.split_once(':').map_or("", |(_, name)| name).to_owned());
            match kind {
                Some(kind) if kind.keeps_files() => volume.volid = format!("{base}/{name}"),
                Some(crate::StorageKind::ZfsPool) => volume.volid = format!("{base}/{name}"),
                _ => {}
            }
            volume.parent = Some(base);
            storages.insert(node, volume.clone());
        }
        lines.push((Duration::from_millis(100), disks::created(storages, &volume)));
        let mut takes = Duration::from_millis(400);
        if !linked {
            lines.push((Duration::from_millis(100), format!("allocated target volume '{}'", volume.volid)));
            if !cloudinit {
                takes += disks::copying(from.size, Duration::from_millis(100), &mut lines);
            }
        }
        Ok(Copy { volid: volume.volid, lines, takes })
    }
}

struct Copy {
    volid: String,
    lines: Vec<(Duration, String)>,
    takes: Duration,
}

/// A copy is a machine of its own.
fn renew(config: &mut BTreeMap<String, String>, rng: &mut crate::rng::Rng) {
    for (key, value) in config.iter_mut().filter(|(key, _)| is_numbered(key, "net")) {
        if let Ok(mut parts) = options::net().parse(key, value) {
            parts.remove("macaddr");
            *value = options::net().print(&parts);
        }
    }
    complete_nics(config, rng);
    let known = config.get("smbios1").and_then(|text| options::smbios().parse("smbios1", text).ok());
    let mut smbios = known.unwrap_or_default();
    smbios.insert("uuid".to_owned(), rng.uuid());
    config.insert("smbios1".to_owned(), options::smbios().print(&smbios));
    config.insert("vmgenid".to_owned(), rng.uuid());
}

pub(crate) fn template(world: &mut World, node: &str, vmid: u32, caller: &str) -> Result<String, Refusal> {
    let vm = world.hypervisor.vms.get(&vmid).filter(|vm| vm.node == node);
    let vm = vm.ok_or_else(|| Refusal::no_vm(node, vmid))?;
    if let Some(lock) = vm.lock() {
        return Err(Refusal::failed(format!("VM is locked ({lock})")));
    }
    if !vm.snapshots.is_empty() {
        return Err(Refusal::failed("unable to create template, because VM contains snapshots"));
    }
    if vm.flag("template") {
        return Err(Refusal::failed("you can't convert a template to a template"));
    }
    if vm.running.is_some() {
        return Err(Refusal::failed("you can't convert a VM to template if VM is running"));
    }
    Ok(tasks::begin(world, node, "qmtemplate", &vmid.to_string(), caller, Work::Template(Template { vmid })))
}

impl Template {
    pub(crate) fn step(self, world: &mut World, task: &mut Task) -> Next {
        if task.stage == 0 {
            return Next::After(world.rng.around(Duration::from_millis(400)));
        }
        let hypervisor = &mut world.hypervisor;
        let Some(vm) = hypervisor.vms.get_mut(&self.vmid) else { return Next::fail("the VM is gone") };
        vm.config.insert("template".to_owned(), "1".to_owned());
        for (key, value) in vm.config.clone() {
            let Some(mut parts) = drive::parts(&key, &value).filter(|parts| !drive::is_cdrom(parts)) else {
                continue;
            };
            let Some(old) = parts.get("file").cloned() else { continue };
            let Some(mut volume) = hypervisor.storages.volume(&task.node, &old).cloned() else { continue };
            hypervisor.storages.remove(&task.node, &old);
            volume.volid =
                old.replace(&format!("vm-{}-disk", self.vmid), &format!("base-{}-disk", self.vmid));
            parts.insert("file".to_owned(), volume.volid.clone());
            hypervisor.storages.insert(&task.node, volume);
            if let Some(props) = options::drive_props(&key) {
                vm.config.insert(key, props.print(&parts));
            }
        }
        Next::End(Ok(()))
    }
}
