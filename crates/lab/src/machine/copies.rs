//! Disks that are copied or go back in time: clones, restored backups, rollbacks.
//!
//! A machine that starts from such a disk has the configuration and the etcd data of another machine or of an earlier
//! moment. Its etcd member has forgotten what it acknowledged since, which etcd cannot survive.

use serde::{Deserialize, Serialize};

use super::Machines;
use super::boot::Boot;
use super::node::{Disk, Machine};

/// A copy of a machine's disk.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct CopiedDisk {
    disk: Disk,
    /// What the machine is until it is started again.
    hardware: Boot,
}

impl Disk {
    /// Whether etcd's data is older than what its member has acknowledged.
    pub(crate) fn has_old_log(&self) -> bool {
        self.etcd.is_some() && self.copied == self.etcd
    }
}

impl Machines {
    /// What is on the disk of a machine; nothing when it never ran.
    pub(crate) fn copy_disk(&self, vmid: u32) -> Option<CopiedDisk> {
        let machine = self.machines.get(&vmid)?;
        let disk = Disk { copied: machine.disk.etcd, ..machine.disk.clone() };
        Some(CopiedDisk { disk, hardware: machine.hardware.clone() })
    }

    /// Replaces the disk of a machine that is off; without a copy by an empty one.
    pub(crate) fn put_disk(&mut self, vmid: u32, copy: Option<CopiedDisk>) {
        match (self.machines.get_mut(&vmid), copy) {
            (Some(machine), copy) => machine.disk = copy.map(|copy| copy.disk).unwrap_or_default(),
            (None, Some(copy)) => {
                let mut machine = Machine::new(copy.hardware);
                machine.disk = copy.disk;
                self.machines.insert(vmid, machine);
            }
            (None, None) => {}
        }
    }

    /// Whether a machine's etcd data is older than what the others know that its member has acknowledged.
    pub(crate) fn has_old_log(&self, vmid: u32) -> bool {
        let old = self.machines.get(&vmid).is_some_and(|machine| machine.disk.has_old_log());
        old && !self.all_have_old_logs(vmid)
    }

    /// Whether every voter went back in time, so that none knows of anything newer. What Kubernetes stored since stays in the lab: the
    /// data of an etcd cluster is kept once, and not on each disk.
    fn all_have_old_logs(&self, vmid: u32) -> bool {
        let voters = self.voters_with(vmid);
        let old = |vmid: &u32| self.machines.get(vmid).is_some_and(|machine| machine.disk.has_old_log());
        !voters.is_empty() && voters.iter().all(old)
    }

    /// etcd starts where every voter went back in time: from now on that is all that they know.
    pub(super) fn forget_newer_logs(&mut self, vmid: u32) {
        if !self.all_have_old_logs(vmid) {
            return;
        }
        for vmid in self.voters_with(vmid) {
            if let Some(machine) = self.machines.get_mut(&vmid) {
                machine.disk.copied = None;
            }
        }
    }

    /// The machines of all voters of the etcd cluster that a machine has data of.
    fn voters_with(&self, vmid: u32) -> Vec<u32> {
        let data = self.machines.get(&vmid).and_then(|machine| machine.disk.etcd);
        let etcd = data.and_then(|data| self.etcds.iter().find(|etcd| etcd.id == data.cluster));
        let members = etcd.into_iter().flat_map(|etcd| etcd.members.values());
        members.filter(|member| member.learner_until.is_none()).map(|member| member.vmid).collect()
    }
}
