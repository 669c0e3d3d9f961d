//! What a machine is asked to do over its API: bootstrap etcd, reboot, shut down, reset, start and stop services.

use jiff::Timestamp;
use tonic::Code;

use super::apply::{Refusal, leaving};
use super::node::{EtcdService, Leave, Node, Wipe, after};
use super::{Machines, snapshot, timing};
use crate::stable::stable_uuid;

/// What can be done to a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ServiceAction {
    Start,
    Stop,
    Restart,
}

impl Machines {
    /// Makes a new etcd cluster of this machine alone, empty or from the snapshot that was uploaded before.
    ///
    /// # Errors
    ///
    /// On a worker, before the runtime and the clock are ready, and when etcd's data directory is not empty.
    pub(crate) fn bootstrap(
        &mut self,
        vmid: u32,
        recover: Option<RecoverOptions>,
        now: Timestamp,
    ) -> Result<(), Refusal> {
        self.now = self.now.max(now);
        let not_yet = |words: &str| Refusal::new(Code::FailedPrecondition, words);
        let machine = self.machines.get(&vmid);
        let has_data = machine.is_some_and(|m| m.disk.etcd.is_some());
        let file = machine.and_then(|m| m.disk.recovery.clone());
        // The runtime is asked for first, on a worker too.
        if machine.and_then(|m| m.live_node()).is_some_and(|node| node.cri_from > now) {
            return Err(not_yet("bootstrap is not available yet").late(timing::BOOTSTRAP_WAITS_CRI));
        }
        let old_worker = machine
            .is_some_and(|m| m.profile().minor <= 12 && m.node().is_some_and(|n| !n.is_control_plane()));
        if old_worker {
            return Err(not_yet("bootstrap can only be performed on a control plane node"));
        }
        let node = self.control_plane(vmid, "bootstrap")?;
        if node.clock_from > now {
            return Err(not_yet("time is not in sync yet").late(timing::BOOTSTRAP_WAITS_CLOCK));
        }
        if has_data {
            return Err(Refusal::new(Code::AlreadyExists, "etcd data directory is not empty"));
        }
        if let Some(options) = recover {
            let file = file.ok_or_else(|| {
                Refusal::new(
                    Code::Unknown,
                    "error recovering etcd: open /var/lib/etcd.snapshot: no such file or directory",
                )
            })?;
            snapshot::read(&file, !options.skip_hash_check)
                .map_err(|words| Refusal::new(Code::Unknown, format!("error recovering etcd: {words}")))?;
        } else if let Some(machine) = self.machines.get_mut(&vmid) {
            machine.disk.recovery = None;
        }
        if let Some(machine) = self.machines.get_mut(&vmid) {
            machine.publish_bootstrap(now);
        }
        self.set_etcd(vmid, EtcdService::Bootstrapping { at: after(now, timing::ETCD_DATA) });
        self.mark(vmid, true);
        self.settle();
        Ok(())
    }

    /// The configured control plane behind `vmid`.
    ///
    /// # Errors
    ///
    /// UNIMPLEMENTED in Talos' words for every other machine.
    pub(crate) fn control_plane(&self, vmid: u32, api: &str) -> Result<&Node, Refusal> {
        self.live(vmid).filter(|node| node.is_control_plane()).ok_or_else(|| {
            Refusal::new(Code::Unimplemented, format!("{api} is only available on control plane nodes"))
        })
    }

    /// The ID of the caller that asks for a sequence now.
    pub(crate) fn actor(&self, vmid: u32, now: Timestamp) -> String {
        let machine = self.machines.get(&vmid);
        let (uuid, count) = machine.map_or(("", 0), |m| (m.hardware.uuid.as_str(), m.log.len()));
        stable_uuid(&[uuid, &now.to_string(), &count.to_string(), "actor"])
    }

    /// Starts to go down, and says on whose behalf. A reboot or shutdown replaces one that is under way; a reset does not.
    pub(crate) fn leave(&mut self, vmid: u32, why: Leave, now: Timestamp) -> String {
        self.now = self.now.max(now);
        let actor = self.actor(vmid, now);
        let Some(machine) = self.machines.get_mut(&vmid) else { return actor };
        let before = machine.node().and_then(|node| node.leaving.map(|l| (l.why, node.actor.clone())));
        if machine.live_node().is_none() {
            return actor;
        }
        if matches!(why, Leave::Reset { .. } | Leave::Upgrade) && before.is_some() {
            machine.publish_locked(now, &why);
        } else {
            machine.publish_leaving(now, &actor, &why, before.as_ref());
            if let Some(node) = machine.node_mut() {
                node.leaving = Some(leaving(why, now));
                node.actor.clone_from(&actor);
            }
        }
        self.mark(vmid, true);
        self.settle();
        actor
    }

    /// Resets a machine. A graceful reset first leaves etcd, which the only member cannot: it then comes back as it was.
    pub(crate) fn reset(&mut self, vmid: u32, graceful: bool, wipe: Wipe, now: Timestamp) -> String {
        let members = self.etcd_of(vmid).map_or(0, |etcd| etcd.members.len());
        let data = self.machines.get(&vmid).and_then(|m| m.disk.etcd).filter(|_| graceful);
        let why = Leave::Reset { graceful, wipe };
        let Some(data) = data else { return self.leave(vmid, why, now) };
        if members < 2 {
            let actor = self.actor(vmid, now);
            if let Some(machine) = self.machines.get_mut(&vmid) {
                let words = only_member(data.member);
                machine.publish_failed_reset(now, &actor, &format!("failed to leave cluster: {words}"));
                if let Some(node) = machine.node_mut() {
                    node.leaving = Some(leaving(Leave::Reboot, now));
                    node.actor.clone_from(&actor);
                }
            }
            self.mark(vmid, true);
            self.settle();
            return actor;
        }
        self.take_out(data);
        if let Some(machine) = self.machines.get_mut(&vmid) {
            machine.disk.etcd = None;
        }
        self.leave(vmid, why, now)
    }

    /// Starts, stops or restarts a service.
    ///
    /// # Errors
    ///
    /// For unknown services, and for all that may not be touched this way.
    pub(crate) fn service_action(
        &mut self,
        vmid: u32,
        id: &str,
        action: ServiceAction,
        now: Timestamp,
    ) -> Result<String, Refusal> {
        self.now = self.now.max(now);
        let services = self.services(vmid);
        let Some(service) = services.iter().find(|service| service.id == id) else {
            return Err(Refusal::new(Code::Unknown, format!("service {id:?} not defined")));
        };
        let running = matches!(service.state, "Running" | "Preparing" | "Waiting");
        let extension = id.starts_with("ext-");
        let (word, done, allowed) = match action {
            ServiceAction::Start => ("start", "started", running || extension || id == "kubelet"),
            ServiceAction::Stop => ("stop", "stopped", !running || extension),
            // A restart of what does not run is a start.
            ServiceAction::Restart => {
                (if running { "restart" } else { "start" }, "restarted", extension || id == "kubelet")
            }
        };
        if !allowed {
            return Err(Refusal::new(
                Code::Unknown,
                format!("service {id:?} doesn't support {word} operation via API"),
            ));
        }
        let runs = self.live(vmid).is_some_and(|node| node.kubelet_from <= now && !node.kubelet_stopped);
        if id == "kubelet" && action == ServiceAction::Restart && runs {
            self.restart_kubelet(vmid, now);
        } else if id == "kubelet"
            && let Some(node) = self.live_mut(vmid)
        {
            match action {
                // Starting one that failed has the machine try again.
                _ if node.kubelet_gives_up.is_some_and(|at| at <= now) => {
                    node.kubelet_gives_up = Some(after(now, timing::PULL_GIVES_UP));
                }
                _ => node.kubelet_stopped = false,
            }
        }
        self.mark(vmid, true);
        self.settle();
        Ok(format!("Service {id:?} {done}"))
    }

    /// The kubelet of a machine ends and starts again. The holder of the shared address lets go of it meanwhile.
    pub(crate) fn restart_kubelet(&mut self, vmid: u32, now: Timestamp) {
        self.now = self.now.max(now);
        let Some(node) = self.live_mut(vmid).filter(|node| node.kubelet_from <= now) else { return };
        node.kubelet_from = after(now, timing::KUBELET_RESTART);
        let held = self.etcds.iter_mut().filter_map(|etcd| etcd.vip.as_mut());
        held.filter(|vip| vip.holder == vmid).for_each(|vip| vip.from = after(now, timing::VIP_AWAY));
        self.mark(vmid, true);
        self.settle();
    }

    /// Writes a key of META, or removes it.
    ///
    /// # Errors
    ///
    /// For keys that do not fit, and when a key to remove is not there.
    pub(crate) fn meta(&mut self, vmid: u32, key: u32, value: Option<String>) -> Result<(), Refusal> {
        let key =
            u8::try_from(key).map_err(|_| Refusal::new(Code::InvalidArgument, "key must be a uint8"))?;
        let Some(machine) = self.machines.get_mut(&vmid) else { return Ok(()) };
        match value {
            Some(value) => drop(machine.disk.meta.insert(key, value)),
            None => {
                let missing = || Refusal::new(Code::NotFound, "meta key not found");
                machine.disk.meta.remove(&key).ok_or_else(missing)?;
            }
        }
        Ok(())
    }
}

/// How a recovery reads its snapshot.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RecoverOptions {
    pub(crate) skip_hash_check: bool,
}

/// What etcd says to its last member that wants to go.
pub(super) fn only_member(id: u64) -> String {
    format!(
        "1 error(s) occurred:\n\tfailed to remove member {id}: etcdserver: re-configuration failed due to not enough started members"
    )
}
