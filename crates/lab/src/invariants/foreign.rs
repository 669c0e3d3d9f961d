//! VMs of others: everything that anybody would notice about them, compared around each change.
//!
//! What another person does to a VM is theirs, and nothing else: the VM is compared before their call and looked at again after it. A
//! task that their call started goes on after the answer, so until it has ended the VM may change.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use super::VmConfig;
use crate::world::World;

/// For how long a machine that another person told to go down may take for it, and a call of theirs that was never answered.
const SETTLES: SignedDuration = SignedDuration::from_mins(10);

/// Whether a VM with this ID and configuration is ours.
type IsOurs<'a> = &'a dyn Fn(u32, &VmConfig) -> bool;

/// One VM as its owner knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Seen {
    node: String,
    config: VmConfig,
    running: bool,
    pool: Option<String>,
    volumes: BTreeMap<String, u64>,
}

/// What another person is doing to a VM.
#[derive(Debug, Default)]
struct Theirs {
    /// Since when a call is under way, and the tasks that ran before it.
    call: Option<(Timestamp, BTreeSet<String>)>,
    /// The tasks that their calls started.
    tasks: BTreeSet<String>,
    /// When its machine was told something that may turn it off.
    machine: Option<Timestamp>,
}

/// The VMs of others, as they were.
#[derive(Debug, Default)]
pub(super) struct Foreign {
    seen: BTreeMap<u32, Seen>,
    theirs: BTreeMap<u32, Theirs>,
}

impl Foreign {
    pub(super) fn forget(&mut self) {
        self.seen.clear();
    }

    /// Something was broken or cleared: VMs are as that left them, and what runs now belongs to it. A host that comes back starts VMs.
    pub(super) fn disrupted(&mut self, world: &World) {
        self.forget();
        let active = world.hypervisor.active.iter().filter_map(|upid| world.hypervisor.tasks.get(upid));
        for (vmid, task) in active.filter_map(|task| Some((task.id.parse().ok()?, task))) {
            self.theirs.entry(vmid).or_default().tasks.insert(task.upid.clone());
        }
    }

    /// Another person's call to Proxmox starts.
    pub(super) fn begins(&mut self, vmid: u32, world: &World) {
        let before = tasks_of(vmid, world).collect();
        self.theirs.entry(vmid).or_default().call = Some((world.now, before));
    }

    /// Another person's call to Proxmox was answered: what it changed is the expected state.
    pub(super) fn ends(&mut self, vmid: u32, is_ours: IsOurs<'_>, world: &World) {
        let theirs = self.theirs.entry(vmid).or_default();
        if let Some((_, before)) = theirs.call.take() {
            theirs.tasks.extend(tasks_of(vmid, world).filter(|task| !before.contains(task)));
        }
        self.look_again(vmid, is_ours, world);
    }

    /// Another person told the machine of a VM something.
    pub(super) fn told(&mut self, vmid: u32, now: Timestamp) {
        self.theirs.entry(vmid).or_default().machine = Some(now);
    }

    /// From now on a VM is compared with what it is now.
    pub(super) fn look_again(&mut self, vmid: u32, is_ours: IsOurs<'_>, world: &World) {
        match see(is_ours, world).remove(&vmid) {
            Some(seen) => drop(self.seen.insert(vmid, seen)),
            None => drop(self.seen.remove(&vmid)),
        }
    }

    /// What is different from the last time and was no one else's doing. What is seen now is compared with next.
    pub(super) fn compare(&mut self, is_ours: IsOurs<'_>, world: &World) -> Option<String> {
        let now = see(is_ours, world);
        let recent = |at: Timestamp| world.now.duration_since(at) < SETTLES;
        let mut wrong = Vec::new();
        for (vmid, before) in &self.seen {
            let theirs = self.theirs.get(vmid);
            let works = |theirs: &Theirs| {
                !theirs.tasks.is_empty() || theirs.call.as_ref().is_some_and(|(since, _)| recent(*since))
            };
            if theirs.is_some_and(works) {
                continue;
            }
            let goes_down = theirs.and_then(|theirs| theirs.machine).is_some_and(recent);
            match now.get(vmid) {
                Some(after) if after == before => {}
                Some(after) if goes_down && Seen { running: after.running, ..before.clone() } == *after => {}
                Some(after) => {
                    wrong.push(format!("VM {vmid} of others changed: {}", difference(before, after)))
                }
                // One that is ours by now was marked by someone: only we do that.
                None if world.hypervisor.vms.contains_key(vmid) => {
                    wrong.push(format!("VM {vmid} of others was marked as ours"));
                }
                None => wrong.push(format!("VM {vmid} of others is gone")),
            }
        }
        self.seen = now;
        for theirs in self.theirs.values_mut() {
            theirs.tasks.retain(|task| world.hypervisor.active.contains(task));
        }
        (!wrong.is_empty()).then(|| wrong.join("; "))
    }
}

/// The tasks that work on a VM.
fn tasks_of(vmid: u32, world: &World) -> impl Iterator<Item = String> {
    let active = world.hypervisor.active.iter().filter_map(|upid| world.hypervisor.tasks.get(upid));
    active.filter(move |task| task.id == vmid.to_string()).map(|task| task.upid.clone())
}

/// The VMs that are being created at this moment.
pub(super) fn being_made(world: &World) -> impl Iterator<Item = u32> {
    let made = world.hypervisor.vms.values().filter(|vm| matches!(vm.lock(), Some("create" | "clone")));
    made.map(|vm| vm.vmid)
}

/// The VMs of others. One that is being made says nothing yet about whose it is.
fn see(is_ours: IsOurs<'_>, world: &World) -> BTreeMap<u32, Seen> {
    let hypervisor = &world.hypervisor;
    let foreign = hypervisor
        .vms
        .values()
        .filter(|vm| !matches!(vm.lock(), Some("create" | "clone")) && !is_ours(vm.vmid, &vm.config));
    foreign
        .map(|vm| {
            let owned = hypervisor.storages.owned_by(vm.vmid);
            let seen = Seen {
                node: vm.node.clone(),
                config: vm.config.clone(),
                running: vm.running.is_some(),
                pool: hypervisor.access.pool_of(vm.vmid).map(str::to_owned),
                volumes: owned.map(|volume| (volume.volid.clone(), volume.size)).collect(),
            };
            (vm.vmid, seen)
        })
        .collect()
}

fn difference(before: &Seen, after: &Seen) -> String {
    let mut words = Vec::new();
    if before.node != after.node {
        words.push(format!("host {} -> {}", before.node, after.node));
    }
    if before.running != after.running {
        words.push(if after.running { "started".to_owned() } else { "stopped".to_owned() });
    }
    if before.pool != after.pool {
        words.push(format!("pool {:?} -> {:?}", before.pool, after.pool));
    }
    if before.volumes != after.volumes {
        words.push(format!("volumes {:?} -> {:?}", before.volumes, after.volumes));
    }
    let keys = before.config.keys().chain(after.config.keys());
    let keys: BTreeSet<&String> =
        keys.filter(|key| before.config.get(*key) != after.config.get(*key)).collect();
    words.extend(keys.into_iter().map(|key| format!("option {key}")));
    words.join(", ")
}
