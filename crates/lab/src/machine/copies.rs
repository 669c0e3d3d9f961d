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

    /// Whether a machine's etcd data is older than what its member has acknowledged.
    pub(crate) fn has_old_log(&self, vmid: u32) -> bool {
        self.machines.get(&vmid).is_some_and(|machine| machine.disk.has_old_log())
    }
}
