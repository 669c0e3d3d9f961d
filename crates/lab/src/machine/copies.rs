//! Disks that are copied or go back in time: clones, restored backups, rollbacks.
//!
//! A machine that starts from such a disk has the configuration and the etcd data of another machine or of an earlier
//! moment. Its etcd member has forgotten what it acknowledged since, which etcd cannot survive.

use super::Machines;
use super::node::{Disk, Machine};

impl Disk {
    /// Whether etcd's data is older than what its member has acknowledged.
    pub(crate) fn has_old_log(&self) -> bool {
        self.etcd.is_some() && self.copied == self.etcd
    }

    /// The same content, as a clone, backup or snapshot holds it.
    pub(crate) fn copy(&self) -> Self {
        Self { copied: self.etcd, ..self.clone() }
    }
}

impl Machines {
    /// What is on the disk of a machine; nothing when it never ran.
    pub(crate) fn copy_of_disk(&self, vmid: u32) -> Option<Disk> {
        self.machines.get(&vmid).map(|machine| machine.disk.copy())
    }

    /// Replaces the disk of a machine that is off. `like` is the machine whose hardware it has before it is first started.
    pub(crate) fn put_disk(&mut self, vmid: u32, disk: Option<Disk>, like: u32) {
        if let Some(machine) = self.machines.get_mut(&vmid) {
            machine.disk = disk.unwrap_or_default();
        } else if let Some((disk, hardware)) =
            disk.zip(self.machines.get(&like).map(|machine| machine.hardware.clone()))
        {
            let mut machine = Machine::new(hardware);
            machine.disk = disk;
            self.machines.insert(vmid, machine);
        }
    }

    /// Whether a machine's etcd data is older than what its member has acknowledged.
    pub(crate) fn has_old_log(&self, vmid: u32) -> bool {
        self.machines.get(&vmid).is_some_and(|machine| machine.disk.has_old_log())
    }
}
