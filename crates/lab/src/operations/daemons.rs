//! What a host does by itself, a moment after something happened.
//!
//! The event daemon cleans up after every VM whose process ended, under the lock of the VM, and starts it again if it was to be
//! rebooted. Where the VM was started again before the daemon came to it, the daemon of 9.2 waits for that process to end, and
//! holds the lock meanwhile. The manager of high availability does what was asked of it at its next round.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::ProxmoxVersion;
use crate::hypervisor::daemons::{EVENT_DAEMON, Errand, What};
use crate::hypervisor::tasks::later;
use crate::hypervisor::work::Migrate;
use crate::operations::tasks::LOCK_RETRY;
use crate::operations::{migrate, power};
use crate::world::World;

/// How long a clean-up waits for the lock, and then for a process that runs again.
const LOCK_PATIENCE: SignedDuration = SignedDuration::from_secs(60);
const PROCESS_PATIENCE: Duration = Duration::from_secs(30);
/// The manager acts after this long at least, and up to this much later.
const ROUND: Duration = Duration::from_secs(10);
const ROUND_MORE_MILLIS: u64 = 10_000;

/// Lets the manager of high availability look at a VM at its next round.
pub(crate) fn ask_manager(world: &mut World, vmid: u32, patience: Option<u64>) {
    let more = Duration::from_millis(world.rng.below(ROUND_MORE_MILLIS));
    let due = later(world.now, ROUND + more);
    let asked = |errand: &Errand| errand.vmid == vmid && matches!(errand.what, What::Manage { .. });
    world.hypervisor.errands.retain(|errand| !asked(errand));
    world.hypervisor.errands.push(Errand { due, vmid, what: What::Manage { patience } });
}

/// Does everything that is due, in the order of time and then of VM.
pub(crate) fn run_due(world: &mut World) {
    loop {
        let due = world.hypervisor.errands.iter().enumerate().filter(|(_, errand)| errand.due <= world.now);
        let Some(at) = due.min_by_key(|(_, errand)| (errand.due, errand.vmid)).map(|(at, _)| at) else {
            return;
        };
        let errand = world.hypervisor.errands.remove(at);
        let vm = world.hypervisor.vms.get(&errand.vmid);
        let online = |node: &String| world.hypervisor.hosts.get(node).is_some_and(|host| host.online);
        let Some(node) = vm.map(|vm| vm.node.clone()).filter(online) else { continue };
        match errand.what {
            What::CleanUp { since } => clean_up(world, &node, errand.vmid, since),
            What::GiveUp => {
                let vm = world.hypervisor.vms.get_mut(&errand.vmid);
                if let Some(vm) = vm.filter(|vm| vm.holder.as_deref() == Some(EVENT_DAEMON)) {
                    vm.holder = None;
                }
            }
            What::Manage { patience } => manage(world, &node, errand.vmid, patience),
            What::Relocate { target } => relocate(world, &node, errand.vmid, target),
        }
    }
}

fn clean_up(world: &mut World, node: &str, vmid: u32, since: Timestamp) {
    let (now, version) = (world.now, world.hypervisor.version);
    let Some(vm) = world.hypervisor.vms.get_mut(&vmid) else { return };
    if vm.holder.is_some() {
        if now.duration_since(since) < LOCK_PATIENCE {
            let due = later(now, LOCK_RETRY);
            world.hypervisor.errands.push(Errand { due, vmid, what: What::CleanUp { since } });
        }
    } else if vm.running.is_some() && version == ProxmoxVersion::V9_1 {
        // It notices and gives up.
    } else if vm.running.is_some() {
        vm.holder = Some(EVENT_DAEMON.to_owned());
        let due = later(now, PROCESS_PATIENCE);
        world.hypervisor.errands.push(Errand { due, vmid, what: What::GiveUp });
    } else if std::mem::take(&mut vm.restart) {
        power::start_here(world, node, vmid);
    } else if world.hypervisor.is_managed(vmid) {
        // The manager starts what switched itself off, unless it is to be stopped.
        ask_manager(world, vmid, Some(power::MANAGED_PATIENCE));
    }
}

/// Lets the manager move all that it looks after away from a host.
pub(crate) fn evacuate(world: &mut World, host: &str) {
    let others = world.hypervisor.hosts.values().filter(|other| other.online && !other.maintenance);
    let Some(target) = others.map(|other| other.name.clone()).find(|other| other != host) else { return };
    let here = world.hypervisor.vms.values().filter(|vm| vm.node == host).map(|vm| vm.vmid);
    let managed: Vec<u32> = here.filter(|vmid| world.hypervisor.is_managed(*vmid)).collect();
    for vmid in managed {
        let due = later(world.now, ROUND);
        world.hypervisor.errands.push(Errand { due, vmid, what: What::Relocate { target: target.clone() } });
    }
}

/// Moves a VM to another host, with its local disks, running where it runs. What is refused is only told in the manager's own log.
fn relocate(world: &mut World, node: &str, vmid: u32, target: String) {
    if !world.hypervisor.is_managed(vmid) || !world.hypervisor.quorate() || node == target {
        return;
    }
    let online = world.hypervisor.vms.get(&vmid).is_some_and(|vm| vm.running.is_some());
    let wish = Migrate { vmid, target, online, with_local_disks: true };
    drop(migrate::begin(world, node, wish, "root@pam"));
}

/// Makes a VM run or stop, as its resource says.
fn manage(world: &mut World, node: &str, vmid: u32, patience: Option<u64>) {
    if !world.hypervisor.is_managed(vmid) || !world.hypervisor.quorate() {
        return;
    }
    let options = world.hypervisor.ha.get(&format!("vm:{vmid}"));
    let state = options.and_then(|options| options.get("state")).map_or("started", String::as_str);
    let to_run = matches!(state, "started" | "enabled");
    let runs = world.hypervisor.vms.get(&vmid).is_some_and(|vm| vm.running.is_some());
    match (to_run, runs) {
        (true, false) => power::start_here(world, node, vmid),
        (false, true) => power::stop_here(world, node, vmid, patience),
        _ => {}
    }
}
