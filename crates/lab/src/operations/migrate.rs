//! A VM that moves to another host, its local disks with it. What runs inside does not notice.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::hypervisor::Hypervisor;
use crate::hypervisor::daemons::{Errand, What};
use crate::hypervisor::mapping::mapping_of;
use crate::hypervisor::refusal::Refusal;
use crate::hypervisor::tasks::{Task, later};
use crate::hypervisor::vm::{Vm, is_numbered};
use crate::hypervisor::work::{HaMigrate, Migrate, Work};
use crate::operations::tasks::{self, Next};
use crate::world::World;

/// The volumes that a VM names, with the option and whether it is attached.
pub(crate) fn volumes(vm: &Vm) -> Vec<(String, String, bool)> {
    let attached =
        vm.drives().filter_map(|(key, parts)| Some((key.to_owned(), parts.get("file")?.clone(), true)));
    let unused = vm.config.iter().filter(|(key, _)| is_numbered(key, "unused"));
    let all = attached.chain(unused.map(|(key, volid)| (key.clone(), volid.clone(), false)));
    all.filter(|(_, volid, _)| volid.contains(':')).collect()
}

/// Devices of the host that a VM has: those that stand for themselves, and those by the name of a mapping, each with its option.
pub(crate) fn devices(vm: &Vm) -> (Vec<String>, Vec<(String, String)>) {
    let (mut local, mut mapped) = (vec![], vec![]);
    for (key, value) in vm.config.iter().filter(|(key, _)| is_numbered(key, "hostpci")) {
        match mapping_of(key, value) {
            Some(name) => mapped.push((key.clone(), name)),
            None => local.push(key.clone()),
        }
    }
    (local, mapped)
}

/// Storages of a VM that another host does not have, and mappings that have no device there.
pub(crate) fn unavailable(hypervisor: &Hypervisor, vm: &Vm, target: &str) -> (Vec<String>, Vec<String>) {
    let named = volumes(vm);
    let storages = named.iter().filter_map(|(_, volid, _)| hypervisor.storages.storage_of(volid));
    let storages = storages.filter(|storage| !storage.nodes.contains(target));
    let storages: BTreeSet<String> = storages.map(|storage| storage.id.clone()).collect();
    let has = |name: &str| {
        hypervisor.mappings.get(name).is_some_and(|mapping| Hypervisor::is_mapped(mapping, target))
    };
    let mapped = devices(vm).1.into_iter().map(|(_, name)| name).filter(|name| !has(name));
    (storages.into_iter().collect(), mapped.collect())
}

/// Migrates a VM; one that is highly available is migrated by its manager, and the task ends when the manager was told.
pub(crate) fn ask(world: &mut World, node: &str, wish: Migrate, caller: &str) -> Result<String, Refusal> {
    check(world, node, &wish)?;
    if !world.hypervisor.is_managed(wish.vmid) {
        return begin(world, node, wish, caller);
    }
    let id = wish.vmid.to_string();
    let work = Work::HaMigrate(HaMigrate { vmid: wish.vmid, target: wish.target });
    Ok(tasks::begin(world, node, "hamigrate", &id, caller, work))
}

impl HaMigrate {
    pub(crate) fn step(self, world: &mut World, task: &mut Task) -> Next {
        let Self { vmid, target } = self;
        task.log(world.now, format!("Requesting HA migration for VM {vmid} to node {target}"));
        let due = later(world.now, Duration::from_secs(10) + world.rng.around(Duration::from_secs(4)));
        world.hypervisor.errands.push(Errand { due, vmid, what: What::Relocate { target } });
        Next::End(Ok(()))
    }
}

pub(crate) fn begin(world: &mut World, node: &str, wish: Migrate, caller: &str) -> Result<String, Refusal> {
    check(world, node, &wish)?;
    let id = wish.vmid.to_string();
    Ok(tasks::begin(world, node, "qmigrate", &id, caller, Work::Migrate(wish)))
}

/// What is refused before a task starts.
fn check(world: &World, node: &str, wish: &Migrate) -> Result<(), Refusal> {
    if wish.target == node {
        return Err(Refusal::parameter("target", "target is local node."));
    }
    let hypervisor = &world.hypervisor;
    match hypervisor.hosts.get(&wish.target) {
        None => return Err(Refusal::failed(format!("no such cluster node '{}'", wish.target))),
        Some(host) if !host.online => {
            return Err(Refusal::failed(format!("node '{}' is not online", wish.target)));
        }
        Some(_) => {}
    }
    let vm = hypervisor.vms.get(&wish.vmid).filter(|vm| vm.node == node);
    let vm = vm.ok_or_else(|| Refusal::no_vm(node, wish.vmid))?;
    if let Some(lock) = vm.lock() {
        return Err(Refusal::failed(format!("VM is locked ({lock})")));
    }
    if vm.running.is_some() && !wish.online {
        return Err(Refusal::failed("can't migrate running VM without --online"));
    }
    let (local, mapped) = devices(vm);
    if !local.is_empty() {
        let text = format!("can't migrate VM which uses local devices: {}", local.join(", "));
        return Err(Refusal::failed(text));
    }
    if vm.running.is_some() && !mapped.is_empty() {
        let keys: Vec<String> = mapped.into_iter().map(|(key, _)| key).collect();
        let text = "can't live migrate running VM which uses following mapped devices";
        return Err(Refusal::failed(format!("{text}: {}", keys.join(", "))));
    }
    Ok(())
}

impl Migrate {
    pub(crate) fn step(self, world: &mut World, task: &mut Task) -> Next {
        let now = world.now;
        let hypervisor = &mut world.hypervisor;
        let Some(vm) = hypervisor.vms.get_mut(&self.vmid) else { return Next::fail("the VM is gone") };
        let volumes = volumes(vm);
        if task.stage == 0 {
            task.log(now, format!("starting migration of VM {} to node '{}'", self.vmid, self.target));
            let mut takes = Duration::from_secs(2);
            for (_, volid, _) in &volumes {
                let Some(storage) = hypervisor.storages.storage_of(volid).filter(|storage| !storage.shared)
                else {
                    continue;
                };
                if !storage.nodes.contains(&self.target) {
                    let text = format!("storage '{}' is not available on node '{}'", storage.id, self.target);
                    return Next::fail(format!("Problem found while scanning volumes - {text}"));
                }
                if vm.running.is_some() && !self.with_local_disks && !volid.contains("cloudinit") {
                    return Next::fail(
                        "can't live migrate attached local disks without with-local-disks option",
                    );
                }
                let size = hypervisor.storages.volume(&task.node, volid).map_or(0, |volume| volume.used);
                takes += crate::hypervisor::disks::copy_time(size);
            }
            vm.config.insert("lock".to_owned(), "migrate".to_owned());
            return Next::After(world.rng.around(takes));
        }
        vm.config.remove("lock");
        vm.node.clone_from(&self.target);
        vm.holder = None;
        for (_, volid, _) in volumes {
            hypervisor.storages.carry(&volid, &task.node, &self.target);
        }
        task.log(now, "migration finished successfully (duration 00:00:02)");
        Next::End(Ok(()))
    }
}
