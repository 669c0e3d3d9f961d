//! VMs of others: everything that anybody would notice about them, compared after each change.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use super::VmConfig;
use crate::world::World;

/// For how long a VM may go on changing after another person did something to it: tasks take their time.
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

/// The VMs of others, as they were.
#[derive(Debug, Default)]
pub(super) struct Foreign {
    seen: BTreeMap<u32, Seen>,
    touched: BTreeMap<u32, Timestamp>,
}

impl Foreign {
    pub(super) fn touched(&mut self, vmid: u32, now: Timestamp) {
        self.touched.insert(vmid, now);
    }

    pub(super) fn forget(&mut self) {
        self.seen.clear();
    }

    /// What is different from the last time and was nobody else's doing. What is seen now is compared with next.
    pub(super) fn compare(&mut self, is_ours: IsOurs<'_>, world: &World) -> Option<String> {
        let now = see(is_ours, world);
        let recent =
            |vmid: &u32| self.touched.get(vmid).is_some_and(|at| world.now.duration_since(*at) < SETTLES);
        let mut wrong = Vec::new();
        for (vmid, before) in self.seen.iter().filter(|(vmid, _)| !recent(vmid)) {
            match now.get(vmid) {
                Some(after) if after == before => {}
                Some(after) => {
                    wrong.push(format!("VM {vmid} of others changed: {}", difference(before, after)))
                }
                // One that is ours by now was marked by somebody: only we do that.
                None if world.hypervisor.vms.contains_key(vmid) => {
                    wrong.push(format!("VM {vmid} of others was marked as ours"));
                }
                None => wrong.push(format!("VM {vmid} of others is gone")),
            }
        }
        self.seen = now;
        (!wrong.is_empty()).then(|| wrong.join("; "))
    }
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
    let keys: std::collections::BTreeSet<&String> =
        keys.filter(|key| before.config.get(*key) != after.config.get(*key)).collect();
    words.extend(keys.into_iter().map(|key| format!("option {key}")));
    words.join(", ")
}
