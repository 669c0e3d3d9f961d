//! A disk that moves to another storage.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::hypervisor::refusal::Refusal;
use crate::hypervisor::rights::need;
use crate::hypervisor::storage::Wish;
use crate::hypervisor::tasks::{self, Next, Task, Work};
use crate::hypervisor::vm::is_numbered;
use crate::hypervisor::{disks, drive, options};
use crate::world::World;

/// A move under way.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Move {
    pub(crate) vmid: u32,
    pub(crate) disk: String,
    pub(crate) storage: String,
    pub(crate) format: Option<String>,
    /// Whether the old volume goes.
    pub(crate) delete: bool,
}

/// The volume that an option names, attached or not.
fn volume_of(key: &str, value: &str) -> Option<String> {
    match drive::parts(key, value) {
        Some(parts) => parts.get("file").cloned(),
        None if is_numbered(key, "unused") => Some(value.to_owned()),
        None => None,
    }
}

pub(crate) fn begin(world: &mut World, node: &str, wish: Move, caller: &str) -> Result<String, Refusal> {
    let hypervisor = &world.hypervisor;
    let vm = hypervisor.vms.get(&wish.vmid).filter(|vm| vm.node == node);
    let vm = vm.ok_or_else(|| Refusal::no_vm(node, wish.vmid))?;
    need(&hypervisor.access, caller, &format!("/storage/{}", wish.storage), "Datastore.AllocateSpace")?;
    if let Some(lock) = vm.lock() {
        return Err(Refusal::failed(format!("VM is locked ({lock})")));
    }
    hypervisor.storages.usable(node, &wish.storage).map_err(Refusal::Failed)?;
    let volid = vm.get(&wish.disk).and_then(|value| volume_of(&wish.disk, value));
    let Some(volid) = volid else {
        return Err(Refusal::failed(format!("disk '{}' does not exist", wish.disk)));
    };
    if volid.starts_with(&format!("{}:", wish.storage)) && wish.format.is_none() {
        return Err(Refusal::failed("you can't move to the same storage with same format"));
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
            cloudinit: false,
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
