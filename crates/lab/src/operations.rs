//! What Proxmox does: the rules that answer a request, and what the tasks do that requests start.
//!
//! Nothing here knows HTTP. Each rule in `create`, `configure`, `power` and `download` starts a task, and what the task does
//! later happens in [`tasks::run_due`], on the lab's clock, whether or not the caller is still there.

pub(crate) mod clone;
pub(crate) mod configure;
pub(crate) mod console;
pub(crate) mod create;
pub(crate) mod daemons;
pub(crate) mod download;
pub(crate) mod import;
pub(crate) mod migrate;
pub(crate) mod movement;
pub(crate) mod power;
pub(crate) mod reassign;
pub(crate) mod snapshot;
pub(crate) mod tasks;

use crate::world::World;

/// The host loses power: its guests and its tasks end in the middle.
pub(crate) fn host_offline(world: &mut World, node: &str) {
    let now = world.now;
    let Some(host) = world.hypervisor.hosts.get_mut(node) else { return };
    host.online = false;
    for task in world.hypervisor.tasks.values_mut().filter(|task| task.node == node) {
        task.lost(now);
    }
    for (vmid, vm) in world.hypervisor.vms.iter_mut().filter(|(_, vm)| vm.node == node) {
        // A lock file is held by a process, and those are gone. What stands in the configuration stays.
        vm.holder = None;
        vm.restart = false;
        if vm.running.is_some() {
            vm.stopped();
            world.machines.power_off(*vmid, now);
        }
    }
}

/// The host is back: guests that start at boot do so.
pub(crate) fn host_online(world: &mut World, node: &str) {
    let now = world.now;
    let Some(host) = world.hypervisor.hosts.get_mut(node).filter(|host| !host.online) else { return };
    host.online = true;
    host.booted = now;
    let at_boot =
        world.hypervisor.vms.values().filter(|vm| vm.node == node && vm.flag("onboot")).map(|vm| vm.vmid);
    for vmid in at_boot.collect::<Vec<_>>() {
        power::start(world, node, vmid, "root@pam");
    }
}
