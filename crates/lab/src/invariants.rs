//! What must hold in every run, whatever breaks: checked by the lab itself around every call.
//!
//! A [`Watch`] sees each call before it is carried out and after it was answered, and the world with it. Calls of the
//! operators that it watches come over connections that carry their names ([`crate::Lab::net_of`]); everybody else is
//! another person, who may do what they like. A call that must not be made is a [`Violation`], kept with the calls that led
//! to it until the test asks. Nothing is prevented: the lab shows what would have happened.
//!
//! The numbers are those of the list of invariants:
//!
//! 1. etcd is bootstrapped at most once for one identity.
//! 2. A majority of etcd's own members is up before a member is disrupted, and after.
//! 3. At most one control plane node is down at a time, and no more workers than may be.
//! 4. Every change is made by the holder of the lease of that moment.
//! 5. Every change of a VM hits one of ours; VMs of others stay as they are.
//! 6. A machine config, which carries keys, goes only to machines of ours, and where a run proves identity by console, only
//!    over a connection whose certificate the operator's own client has read on the console of that machine.
//! 8. No PodDisruptionBudget is passed by, no unmanaged pod lost, no node uncordoned that a person cordoned.
//! 9. Nothing is left behind ([`leftovers`]).
//!
//! Numbers 7, 10, 11 and 12 concern what only a client sees; tests check them.

mod etcd;
mod foreign;
mod kubernetes;
mod leftovers;
mod target;
#[cfg(test)]
mod tests;
mod workers;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::calls::{Call, Service};
use crate::world::World;
use foreign::Foreign;
pub use leftovers::leftovers;
use target::Target;

/// How many calls a violation is told with.
const HISTORY: usize = 60;

/// The configuration of a VM: option and value.
pub type VmConfig = BTreeMap<String, String>;

/// Whether a VM with this ID and configuration belongs to the cluster that is watched.
pub type IsOurs = dyn Fn(u32, &VmConfig) -> bool + Send + Sync;
/// The holder of the lease in the notes of a cluster record: `None` when the notes are none, and no name when it is free.
pub type LeaseIn = dyn Fn(&str) -> Option<Option<String>> + Send + Sync;

/// The holder in the `spec` of a Kubernetes Lease of this name: `None` when it is another kind of lease, and no name when it is free.
pub type HolderIn = dyn Fn(&str, &Value) -> Option<Option<String>> + Send + Sync;
/// Whether the comment of an account or a token says that it belongs to the cluster that is watched.
pub type IsOurComment = dyn Fn(&str) -> bool + Send + Sync;

/// Whether a Kubernetes node that is cordoned carries the mark of the cluster's operators.
pub type IsOurCordon = dyn Fn(&Value) -> bool + Send + Sync;

/// What the lab cannot know by itself.
pub struct Rules {
    /// Whether a VM with this ID and configuration belongs to the cluster that is watched.
    pub is_ours: Box<IsOurs>,
    /// Who holds the lease.
    pub lease: Box<LeaseIn>,
    /// Who holds it in a cluster without Proxmox.
    pub kubernetes_lease: Box<HolderIn>,
    /// Whose an account in Proxmox is.
    pub is_our_account: Box<IsOurComment>,
    /// Whose the cordon of a node is.
    pub is_our_cordon: Box<IsOurCordon>,
}

/// Something that must never happen, and how it came to it.
#[derive(Debug, Clone)]
pub struct Violation {
    /// The number of the invariant.
    pub number: u8,
    /// What happened.
    pub what: String,
    /// The last calls, the guilty one at the end.
    pub history: Vec<String>,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "invariant {} is violated: {}", self.number, self.what)?;
        writeln!(f, "the last {} calls:", self.history.len())?;
        self.history.iter().try_for_each(|line| writeln!(f, "  {line}"))
    }
}

/// Looks at every call.
pub struct Watch {
    rules: Rules,
    state: Mutex<State>,
}

/// Who may change things.
#[derive(Debug, Default)]
struct Lease {
    holder: Option<String>,
    /// From whom it was taken over.
    old: Option<String>,
    /// Whether the holder has changed anything yet.
    acted: bool,
}

#[derive(Default)]
struct State {
    history: VecDeque<String>,
    violations: Vec<Violation>,
    /// Whether the whole cluster is being deleted, which makes most of etcd's rules void.
    deleting: bool,
    /// Whether operators prove the identity of machines by their consoles.
    console_identity: bool,
    /// What the operators may disrupt.
    allowance: Allowance,
    /// Machines that others made and the file names.
    external: BTreeSet<u32>,
    lease: Lease,
    /// Creations without the lease, by the number of the call, until they are answered.
    creations: BTreeMap<u64, (u8, String)>,
    /// Calls to machines that were restarting before, by their number, until they are answered: they do not restart anything.
    too_late: BTreeSet<u64>,
    /// VMs that those who are watched have created: they are theirs before their configuration is complete.
    made: BTreeSet<u32>,
    foreign: Foreign,
    etcd: etcd::Memory,
    workers: workers::Memory,
    kubernetes: kubernetes::Memory,
}

/// What operators may disrupt, as the file or a person allows it. By default nothing that is healthy is ever disrupted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Allowance {
    /// How many workers may be away at once.
    pub workers: usize,
    /// Whether a control plane node may be disrupted that etcd cannot do without, with one or two voters, after a snapshot.
    pub api_outage: bool,
    /// Whether pods may be lost that nothing would make again.
    pub unmanaged_pods: bool,
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").finish_non_exhaustive()
    }
}

impl Watch {
    /// A watch that knows nothing yet.
    #[must_use]
    pub fn new(rules: Rules) -> Self {
        Self { rules, state: Mutex::default() }
    }

    /// The violations since they were asked for the last time.
    #[must_use]
    pub fn take_violations(&self) -> Vec<Violation> {
        std::mem::take(&mut self.state().violations)
    }

    /// From now on the whole cluster is being deleted, or no longer.
    pub fn set_deleting(&self, deleting: bool) {
        self.state().deleting = deleting;
    }

    /// Other VMs than before may be ours: what was seen as a VM of others until now may not have been one.
    pub fn rules_changed(&self) {
        self.state().foreign.forget();
    }

    /// A machine that others made may be given a configuration.
    pub fn allow_external(&self, vmid: u32) {
        self.state().external.insert(vmid);
    }

    /// From now on operators prove the identity of machines by their consoles, or no longer.
    pub fn require_console_identity(&self, required: bool) {
        self.state().console_identity = required;
    }

    /// From now on operators may disrupt this much.
    pub fn allow(&self, allowance: Allowance) {
        self.state().allowance = allowance;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Another person is about to do something to VMs.
    pub(crate) fn before_person(&self, world: &World) {
        let state = &mut *self.state();
        if let Some((number, what)) = self.compare(state, world) {
            state.violate(number, what);
        }
    }

    /// Another person did something to a VM.
    pub(crate) fn after_person(&self, vmid: u32, world: &World) {
        let state = &mut *self.state();
        state.made.remove(&vmid);
        state.foreign.look_again(vmid, &*self.rules.is_ours, world);
    }

    /// Something was broken or cleared, which changes more than any call.
    pub(crate) fn disrupted(&self, world: &World) {
        self.state().foreign.disrupted(world);
    }

    /// A call is about to be carried out.
    pub(crate) fn before(&self, call: &Call, world: &World) {
        // A dry run sends the configuration all the same.
        self.without_proof(call, world);
        if !call.changes() {
            return;
        }
        let target = Target::of(call, world);
        let mut state = self.state();
        if call.origin.is_empty() {
            let changed = self.compare(&mut state, world);
            match (target.vmid(), call.service) {
                (Some(vmid), Service::Proxmox) => state.foreign.begins(vmid, world),
                (Some(vmid), _) => state.foreign.told(vmid, world.now),
                (None, _) => {}
            }
            if let Some((number, what)) = changed {
                state.violate(number, what);
            }
            return;
        }
        if call.machine.is_some_and(|vmid| world.machines.is_leaving(vmid)) {
            state.too_late.insert(call.number);
        }
        let mut found = Vec::new();
        if let Some(violation) = self.without_lease(call, &target, world, &mut state.lease) {
            // An operator who saw no record tries to create it, and Proxmox refuses the second one: only a creation that is accepted counts.
            match call.method == "POST" && call.path.ends_with("/qemu") {
                true => drop(state.creations.insert(call.number, violation)),
                false => found.push(violation),
            }
        }
        found.extend(self.not_ours(call, &target, world, &state));
        if !state.deleting {
            let allowance = state.allowance;
            found.extend(state.etcd.before(call, &target, allowance, world));
            found.extend(state.workers.before(&target, allowance.workers, world));
            found.extend(state.kubernetes.before(
                call,
                &target,
                allowance,
                &*self.rules.is_our_cordon,
                world,
            ));
        }
        // The baseline is taken before the first change, so that the first change is seen too.
        found.extend(self.compare(&mut state, world));
        if !found.is_empty() {
            state.note(call, world.now, "not answered yet");
        }
        for (number, what) in found {
            state.violate(number, what);
        }
    }

    /// A call was answered.
    pub(crate) fn after(&self, call: &Call, world: &World, outcome: &str) {
        let mut state = self.state();
        state.note(call, world.now, outcome);
        state.etcd.after(call, outcome);
        let mut found: Vec<(u8, String)> =
            state.etcd.count(world).map(|what| (1, what)).into_iter().collect();
        if call.origin.is_empty() && call.changes() && call.service == Service::Proxmox {
            if let Some(vmid) = Target::of(call, world).vmid() {
                state.made.remove(&vmid);
                state.foreign.ends(vmid, &*self.rules.is_ours, world);
            }
        } else if !call.origin.is_empty() && call.changes() {
            found.extend(state.creations.remove(&call.number).filter(|_| outcome.starts_with("200")));
            if call.method == "POST" && (call.path.ends_with("/qemu") || call.path.ends_with("/clone")) {
                state.made.extend(foreign::being_made(world));
            }
            found.extend(self.compare(&mut state, world));
            found.extend(state.kubernetes.after(call, world).map(|what| (8, what)));
            // A configuration may make its machine restart, which is known only now. A machine that was restarting before, such as by
            // the last call of a run that died, is not disrupted a second time.
            let too_late = state.too_late.remove(&call.number);
            let restarts = call.machine.filter(|vmid| !too_late && world.machines.is_leaving(*vmid));
            if let Some(vmid) =
                restarts.filter(|_| call.path.ends_with("/ApplyConfiguration") && !state.deleting)
            {
                let (restart, allowance) = (Target::Restart(vmid), state.allowance);
                found.extend(state.etcd.before(call, &restart, allowance, world));
                found.extend(state.workers.before(&restart, allowance.workers, world));
                found.extend(state.kubernetes.before(
                    call,
                    &restart,
                    allowance,
                    &*self.rules.is_our_cordon,
                    world,
                ));
            }
        }
        for (number, what) in found {
            state.violate(number, what);
        }
    }

    /// Everything that can be seen without a call: at the end of a run.
    pub(crate) fn look(&self, world: &World) {
        let mut state = self.state();
        let mut found: Vec<(u8, String)> =
            state.etcd.count(world).map(|what| (1, what)).into_iter().collect();
        found.extend(self.compare(&mut state, world));
        for (number, what) in found {
            state.violate(number, what);
        }
    }

    /// The VMs of others, compared with the last time.
    fn compare(&self, state: &mut State, world: &World) -> Option<(u8, String)> {
        let State { foreign, made, .. } = state;
        made.retain(|vmid| world.hypervisor.vms.contains_key(vmid));
        let is_ours =
            |vmid: u32, config: &VmConfig| made.contains(&vmid) || (self.rules.is_ours)(vmid, config);
        foreign.compare(&is_ours, world).map(|what| (5, what))
    }

    /// The cluster record: its VM and who holds the lease.
    fn record(&self, world: &World) -> Option<(u32, Option<String>)> {
        world.hypervisor.vms.values().find_map(|vm| {
            let notes = vm.get("description")?;
            let holder = (self.rules.lease)(notes)?;
            (self.rules.is_ours)(vm.vmid, &vm.config).then_some((vm.vmid, holder))
        })
    }

    /// Invariant 4. The record itself is how the lease is acquired, and its writes are compare-and-set.
    ///
    /// In a cluster without Proxmox, only the valid lease of another forbids anything: before there is one, there is no place for it.
    /// A lease that is taken over is written first, and the new holder waits until the old one must have noticed: until the new
    /// one changes something, the old one may.
    fn without_lease(
        &self,
        call: &Call,
        target: &Target,
        world: &World,
        lease: &mut Lease,
    ) -> Option<(u8, String)> {
        let leases = call.service == Service::Kubernetes && call.path.contains("/leases");
        if call.service == Service::Factory || leases {
            return None;
        }
        let (record, holder) = match self.record(world) {
            Some((record, holder)) => (Some(record), holder),
            None => (None, Some(self.holder_in_kubernetes(world)?)),
        };
        if holder != lease.holder {
            let old = std::mem::replace(&mut lease.holder, holder.clone());
            *lease = Lease { holder: holder.clone(), old: old.filter(|_| holder.is_some()), acted: false };
        }
        if record.is_some() && target.vmid() == record {
            return None;
        }
        if holder.as_deref() == Some(&*call.origin) {
            lease.acted = true;
            return None;
        }
        // Without a record, also one who started before there was a place for the lease goes on until then.
        if !lease.acted && (record.is_none() || lease.old.as_deref() == Some(&*call.origin)) {
            return None;
        }
        let holder = holder.map_or_else(|| "no one".to_owned(), |holder| format!("{holder:?}"));
        Some((4, format!("{} changes something while the lease is held by {holder}", call.origin)))
    }

    /// Invariant 6, where identity is proved by console.
    fn without_proof(&self, call: &Call, world: &World) {
        let (Some(delivery), Some(vmid)) = (&call.delivery, call.machine) else { return };
        let mut state = self.state();
        if call.origin.is_empty() || !state.console_identity {
            return;
        }
        let proved = world.machines.is_witnessed(&call.origin, vmid, &delivery.fingerprint);
        // What an external machine has for a proof is the file's to say; a relay is none.
        let external = state.external.contains(&vmid);
        let what = match (delivery.relayed, proved || external) {
            (true, _) => format!("a relay in front of VM {vmid} is sent a machine config"),
            (false, true) => return,
            (false, false) => format!(
                "VM {vmid} is sent a machine config, and {} has not read the fingerprint {} on its console",
                call.origin, delivery.fingerprint
            ),
        };
        state.note(call, world.now, "not answered yet");
        state.violate(6, what);
    }

    /// Who holds a valid lease in Kubernetes.
    fn holder_in_kubernetes(&self, world: &World) -> Option<String> {
        let mut leases = world
            .machines
            .stores()
            .flat_map(|store| store.list("coordination.k8s.io", "leases", Some("kube-system")));
        leases.find_map(|lease| {
            let spec = &lease["spec"];
            let holder = (self.rules.kubernetes_lease)(lease["metadata"]["name"].as_str()?, spec)??;
            let renewed: Timestamp = spec["renewTime"].as_str()?.parse().ok()?;
            let ends = renewed
                .checked_add(SignedDuration::from_secs(spec["leaseDurationSeconds"].as_i64()?))
                .ok()?;
            (ends > world.now).then_some(holder)
        })
    }

    /// Invariants 5 and 6.
    fn not_ours(&self, call: &Call, target: &Target, world: &World, state: &State) -> Option<(u8, String)> {
        let vmid = target.vmid()?;
        let vm = world.hypervisor.vms.get(&vmid)?;
        let ours = state.made.contains(&vmid) || (self.rules.is_ours)(vmid, &vm.config);
        match call.service {
            Service::Proxmox if matches!(target, Target::Start(_)) && world.machines.has_old_log(vmid) => {
                Some((5, format!("VM {vmid} is started from a copied disk, with an old etcd log")))
            }
            Service::Proxmox if !ours => Some((5, format!("VM {vmid} ({}) is not ours", vm.name()))),
            Service::Talos if !ours && !state.external.contains(&vmid) => {
                let number = if call.path.ends_with("/ApplyConfiguration") { 6 } else { 5 };
                Some((number, format!("the machine of VM {vmid} ({}) is not ours", vm.name())))
            }
            _ => None,
        }
    }
}

impl State {
    fn note(&mut self, call: &Call, now: Timestamp, outcome: &str) {
        let who = if call.origin.is_empty() { "someone" } else { &call.origin };
        let at = call.machine.map(|vmid| format!(" at {vmid}")).unwrap_or_default();
        let dry = if call.dry_run { " (dry run)" } else { "" };
        let line = format!("{now} #{} {who}{at}: {} {}{dry}: {outcome}", call.number, call.method, call.path);
        self.history.push_back(line);
        if self.history.len() > HISTORY {
            self.history.pop_front();
        }
    }

    fn violate(&mut self, number: u8, what: String) {
        let history = self.history.iter().cloned().collect();
        self.violations.push(Violation { number, what, history });
    }
}
