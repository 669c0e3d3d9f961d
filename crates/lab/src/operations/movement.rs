//! A disk that moves to another storage.

use std::time::Duration;

use crate::hypervisor::refusal::Refusal;
use crate::hypervisor::rights::need;
use crate::hypervisor::storage::Wish;
use crate::hypervisor::tasks::Task;
use crate::hypervisor::vm::is_numbered;
use crate::hypervisor::work::{Move, Work};
use crate::hypervisor::{disks, drive, options};
use crate::operations::tasks::{self, Next};
use crate::world::World;

/// The volume that an option names, attached or not.
fn volume_of(key: &str, value: &str) -> Option<String> {
    match drive::parts(key, value) {
        Some(parts) => parts.get("file").cloned(),
        None if is_numbered(key, "unused") => Some(value.to_owned()),
        None => None,
    }
}

pub(crate) fn begin(
    world: &mut World,
    node: &str,
    wish: Move,
    digest: Option<&str>,
    caller: &str,
) -> Result<String, Refusal> {
    let hypervisor = &world.hypervisor;
    need(&hypervisor.access, caller, &format!("/storage/{}", wish.storage), "Datastore.AllocateSpace")?;
    let vm = hypervisor.vms.get(&wish.vmid).filter(|vm| vm.node == node);
    let vm = vm.ok_or_else(|| Refusal::no_vm(node, wish.vmid))?;
    if let Some(lock) = vm.lock() {
        return Err(Refusal::failed(format!("VM is locked ({lock})")));
    }
    if digest.is_some_and(|digest| digest != vm.digest()) {
        let text = "detected modified configuration - file changed by other user? Try again.";
        return Err(Refusal::failed(text));
    }
    let disk = wish.disk.as_str();
    let Some(value) = vm.get(disk) else {
        return Err(Refusal::failed(format!("disk '{disk}' does not exist")));
    };
    let Some(volid) = volume_of(disk, value) else {
        return Err(Refusal::failed(format!("disk '{disk}' has no associated volume")));
    };
    let cd = drive::parts(disk, value)
        .is_some_and(|parts| drive::is_cdrom(&parts) && !drive::is_cloudinit(&parts));
    if cd {
        return Err(Refusal::failed("you can't move a cdrom"));
    }
    let format = hypervisor.storages.named(&volid).map_err(Refusal::Failed)?.format;
    let same = wish.format.as_ref().is_none_or(|wanted| *wanted == format);
    if volid.starts_with(&format!("{}:", wish.storage)) && same {
        return Err(Refusal::failed("you can't move to the same storage with same format"));
    }
    hypervisor.storages.usable(node, &wish.storage).map_err(Refusal::Failed)?;
    hypervisor.storages.takes_images(&wish.storage)?;
    let kept =
        vm.snapshots.values().any(|kept| kept.config.get(disk).is_some_and(|old| old.contains(&volid)));
    if kept && wish.delete {
        return Err(Refusal::failed("you can't move a disk with snapshots and delete the source"));
    }
    let id = wish.vmid.to_string();
    Ok(tasks::begin(world, node, "qmmove", &id, caller, Work::Move(wish)))
}

impl Move {
    pub(crate) fn step(self, world: &mut World, task: &mut Task) -> Next {
        if task.stage == 0 {
            return Next::After(world.rng.around(Duration::from_millis(600)));
        }
        Next::End(self.carry_out(world, task))
    }

    fn carry_out(self, world: &mut World, task: &mut Task) -> Result<(), String> {
        let now = world.now;
        let hypervisor = &mut world.hypervisor;
        let vm = hypervisor.vms.get_mut(&self.vmid).ok_or("the VM is gone")?;
        let value = vm.get(&self.disk).unwrap_or_default().to_owned();
        let old =
            volume_of(&self.disk, &value).ok_or_else(|| format!("disk '{}' does not exist", self.disk))?;
        let from = hypervisor.storages.volume(&task.node, &old).cloned();
        let from = from.ok_or_else(|| format!("volume '{old}' does not exist"))?;
        let wish = Wish {
            storage: &self.storage,
            vmid: self.vmid,
            size: from.size,
            used: from.used,
            format: Some(self.format.as_deref().unwrap_or(&from.format)),
            cloudinit: old.contains("cloudinit"),
            origin: from.origin.clone(),
        };
        let new = hypervisor.storages.allocate(&task.node, wish, now)?;
        task.log(now, format!("create full clone of drive {} ({old})", self.disk));
        task.log(now, disks::created(&hypervisor.storages, &new));
        let value = match drive::parts(&self.disk, &value) {
            Some(mut parts) => {
                parts.insert("file".to_owned(), new.volid);
                options::drive_props(&self.disk).map(|props| props.print(&parts)).unwrap_or_default()
            }
            None => new.volid,
        };
        vm.config.insert(self.disk, value);
        if self.delete {
            hypervisor.storages.remove(&task.node, &old);
        } else if let Some(free) =
            (0..256).map(|n| format!("unused{n}")).find(|key| !vm.config.contains_key(key))
        {
            vm.config.insert(free, old);
        }
        Ok(())
    }
}
