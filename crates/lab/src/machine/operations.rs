//! What a machine is asked to do over its API: bootstrap etcd, reboot, shut down, reset.

use jiff::Timestamp;
use tonic::Code;

use super::apply::{Refusal, leaving};
use super::node::{EtcdService, Leave, Node, Wipe, after};
use super::{Machines, timing};

impl Machines {
    /// Makes a new etcd cluster of this machine alone.
    ///
    /// # Errors
    ///
    /// On a worker, before the runtime and the clock are ready, and when etcd's data directory is not empty.
    pub(crate) fn bootstrap(&mut self, vmid: u32, now: Timestamp) -> Result<(), Refusal> {
        self.now = self.now.max(now);
        let not_yet = |words: &str| Refusal::new(Code::FailedPrecondition, words);
        let has_data = self.machines.get(&vmid).is_some_and(|m| m.disk.etcd.is_some());
        let node = self.control_plane(vmid, "bootstrap")?;
        if node.cri_from > now {
            return Err(not_yet("bootstrap is not available yet").late(timing::BOOTSTRAP_WAITS_CRI));
        }
        if node.clock_from > now {
            return Err(not_yet("time is not in sync yet").late(timing::BOOTSTRAP_WAITS_CLOCK));
        }
        if has_data {
            return Err(Refusal::new(Code::AlreadyExists, "etcd data directory is not empty"));
        }
        self.set_etcd(vmid, EtcdService::Bootstrapping { at: after(now, timing::ETCD_DATA) });
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

    /// Begins to go down. A reboot or shutdown replaces one that is under way; a reset does not.
    pub(crate) fn leave(&mut self, vmid: u32, why: Leave, now: Timestamp) {
        self.now = self.now.max(now);
        if let Some(node) = self.live_mut(vmid) {
            let locked = matches!(why, Leave::Reset(_)) && node.leaving.is_some();
            if !locked {
                node.leaving = Some(leaving(why, now));
            }
        }
        self.settle();
    }

    /// Resets a machine. A graceful reset first leaves etcd, which the only member cannot: it then comes back as it was.
    pub(crate) fn reset(&mut self, vmid: u32, graceful: bool, wipe: Wipe, now: Timestamp) {
        let members = self.etcd_of(vmid).map_or(0, |etcd| etcd.members.len());
        let data = self.machines.get(&vmid).and_then(|m| m.disk.etcd).filter(|_| graceful);
        match data {
            Some(_) if members < 2 => self.leave(vmid, Leave::Reboot, now),
            Some(data) => {
                if let Some(etcd) = self.etcds.iter_mut().find(|etcd| etcd.id == data.cluster) {
                    etcd.members.remove(&data.member);
                }
                if let Some(machine) = self.machines.get_mut(&vmid) {
                    machine.disk.etcd = None;
                }
                self.leave(vmid, Leave::Reset(wipe), now);
            }
            None => self.leave(vmid, Leave::Reset(wipe), now),
        }
    }
}
