//! Snapshots: the configuration at a moment, kept under a name, with what a Talos machine had on its disk.

use std::time::Duration;

use crate::hypervisor::refusal::{Refusal, no_vm};
use crate::hypervisor::tasks::Task;
use crate::hypervisor::vm::{self, Vm};
use crate::hypervisor::work::{Act, Snapshot, Work};
use crate::operations::tasks::{self, Next};
use crate::world::World;

pub(crate) fn begin(world: &mut World, node: &str, wish: Snapshot, caller: &str) -> Result<String, Refusal> {
    let there = world.hypervisor.vms.get(&wish.vmid).is_some_and(|vm| vm.node == node);
    let kind = match wish.act {
        Act::Take { .. } if wish.name == "current" || wish.name.eq_ignore_ascii_case("pending") => {
            let name = if wish.name == "current" { "current" } else { "pending" };
            return Err(Refusal::failed(format!("unable to use snapshot name '{name}' (reserved name)")));
        }
        Act::Take { .. } if !there => return Err(Refusal::no_vm(node, wish.vmid)),
        Act::Take { .. } => "qmsnapshot",
        Act::Roll { .. } => "qmrollback",
        Act::Drop => "qmdelsnapshot",
    };
    let id = wish.vmid.to_string();
    Ok(tasks::begin(world, node, kind, &id, caller, Work::Snapshot(wish)))
}

impl Snapshot {
    pub(crate) fn step(self, world: &mut World, task: &mut Task) -> Next {
        let now = world.now;
        let disk = world.machines.copy_disk(self.vmid).map(Box::new);
        let Some(vm) = world.hypervisor.vms.get_mut(&self.vmid).filter(|vm| vm.node == task.node) else {
            return Next::fail(no_vm(&task.node, self.vmid));
        };
        if task.stage == 0 {
            let there = vm.snapshots.contains_key(&self.name);
            if vm.flag("template") {
                return Next::fail(match self.act {
                    Act::Take { .. } => "you can't take a snapshot if it's a template",
                    Act::Roll { .. } => "you can't rollback if vm is a template",
                    Act::Drop => "you can't delete a snapshot if vm is a template",
                });
            }
            let missing = !there && !matches!(self.act, Act::Take { .. });
            if let Some(lock) = vm.lock().filter(|_| !missing) {
                return Next::fail(format!("VM is locked ({lock})"));
            }
            return match self.act {
                Act::Take { .. } if there => {
                    Next::fail(format!("snapshot name '{}' already used", self.name))
                }
                Act::Roll { .. } | Act::Drop if !there => {
                    Next::fail(format!("snapshot '{}' does not exist", self.name))
                }
                _ => Next::After(world.rng.around(Duration::from_millis(400))),
            };
        }
        match self.act {
            Act::Take { description } => {
                for (key, parts) in
                    vm.drives().filter(|(_, parts)| !crate::hypervisor::drive::is_cdrom(parts))
                {
                    let volid = parts.get("file").map_or("", String::as_str);
                    task.log(now, format!("snapshotting 'drive-{key}' ({volid})"));
                }
                let parent = vm.parent.replace(self.name.clone());
                let config = vm.config.clone();
                vm.snapshots.insert(self.name, vm::Snapshot { config, at: now, description, parent, disk });
            }
            Act::Roll { start } => {
                let Some(kept) = vm.snapshots.get(&self.name) else {
                    return Next::fail("the snapshot is gone");
                };
                let disk = kept.disk.as_deref().cloned();
                // Proxmox gives a new one, the only sign of a rollback in the configuration.
                let generation = vm.get("vmgenid").map(|_| world.rng.uuid());
                vm.config = rolled_back(vm, &kept.config, generation);
                vm.pending.clear();
                vm.parent = Some(self.name);
                if vm.running.is_some() {
                    vm.stopped();
                    world.machines.power_off(self.vmid, now);
                }
                world.machines.put_disk(self.vmid, disk);
                if start {
                    super::power::start(world, &task.node, self.vmid, &task.user);
                }
            }
            Act::Drop => {
                let gone = vm.snapshots.remove(&self.name).and_then(|gone| gone.parent);
                let renamed = |parent: &mut Option<String>| {
                    if parent.as_deref() == Some(self.name.as_str()) {
                        parent.clone_from(&gone);
                    }
                };
                vm.snapshots.values_mut().for_each(|other| renamed(&mut other.parent));
                renamed(&mut vm.parent);
            }
        }
        Next::End(Ok(()))
    }
}

/// The kept configuration, with when the VM was made and the new generation.
fn rolled_back(
    vm: &Vm,
    kept: &std::collections::BTreeMap<String, String>,
    generation: Option<String>,
) -> std::collections::BTreeMap<String, String> {
    let mut config = kept.clone();
    config.extend(vm.get("meta").map(|value| ("meta".to_owned(), value.to_owned())));
    config.extend(generation.map(|id| ("vmgenid".to_owned(), id)));
    config
}
