//! What can be wrong with a machine itself: no network, no time, a clock that its host gave it wrong, a boot disk that is
//! smaller than it should be.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::node::{Machine, after};
use super::{BootDisk, Machines, timing};

/// How a machine comes back that was restarted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Return {
    /// Without its STATE partition.
    InMaintenance,
    /// Without a part of its kernel arguments.
    WithoutKernelArguments,
}

impl Machines {
    /// Decides how a machine comes back the next time that it boots.
    pub(crate) fn set_return(&mut self, vmid: u32, how: Option<Return>) {
        match how {
            Some(how) => drop(self.returns.insert(vmid, how)),
            None => drop(self.returns.remove(&vmid)),
        }
    }

    /// A machine boots: what was decided about it happens.
    pub(super) fn comes_back(&mut self, vmid: u32) {
        let (Some(how), Some(machine)) = (self.returns.remove(&vmid), self.machines.get_mut(&vmid)) else {
            return;
        };
        match how {
            Return::InMaintenance => machine.disk.config = None,
            Return::WithoutKernelArguments => machine.disk.few_arguments = true,
        }
    }

    /// Lets the streams of events of a machine fall silent, or speak again.
    pub(crate) fn silence_events(&mut self, vmid: u32, silent: bool) {
        match silent {
            true => self.silent.insert(vmid),
            false => self.silent.remove(&vmid),
        };
    }

    /// Whether a machine's streams of events say nothing.
    pub(crate) fn is_silent(&self, vmid: u32) -> bool {
        self.silent.contains(&vmid)
    }

    /// Pulls a machine's network cable, or puts it back. Without it the machine stands still for everybody else.
    pub(crate) fn unplug(&mut self, vmid: u32, unplugged: bool) {
        if let Some(machine) = self.machines.get_mut(&vmid) {
            machine.unplugged = unplugged;
        }
        self.settle();
    }

    /// Lets time servers answer, or not.
    pub(crate) fn set_time_servers(&mut self, answer: bool) {
        self.no_time = !answer;
        self.catch_up();
    }

    /// Makes the boot disk of a machine look smaller from its next start on; 0 clears it.
    pub(crate) fn limit_disk(&mut self, vmid: u32, gib: u64) {
        if gib == 0 {
            self.small_disks.remove(&vmid);
        } else {
            self.small_disks.insert(vmid, gib << 30);
        }
    }

    /// A disk of a machine grew while it ran, which it sees at once.
    pub(crate) fn grow_disk(&mut self, vmid: u32, slot: &str, bytes: u64) {
        let limited = self.small_disks.contains_key(&vmid);
        let Some(machine) = self.machines.get_mut(&vmid) else { return };
        let disk = machine.hardware.disks.iter_mut().enumerate().find(|(_, disk)| disk.slot == slot);
        if let Some((_, disk)) = disk.filter(|(number, _)| *number > 0 || !limited) {
            disk.bytes = bytes;
        }
    }

    /// Disks were plugged into a machine that runs, or out of it. One that stays is as the machine found it.
    pub(crate) fn plug_disks(&mut self, vmid: u32, disks: Vec<BootDisk>) {
        let Some(machine) = self.machines.get_mut(&vmid) else { return };
        let known = std::mem::take(&mut machine.hardware.disks);
        let found =
            |disk: BootDisk| known.iter().find(|known| known.slot == disk.slot).cloned().unwrap_or(disk);
        machine.hardware.disks = disks.into_iter().map(found).collect();
    }

    /// What the boot disk of a machine may hold at most, if it was limited.
    pub(super) fn disk_limit(&self, vmid: u32) -> Option<u64> {
        self.small_disks.get(&vmid).copied()
    }

    /// A machine was switched on by a host whose clock is ahead by so many seconds.
    pub(crate) fn set_clock(&mut self, vmid: u32, ahead: i64) {
        if let Some(machine) = self.machines.get_mut(&vmid) {
            machine.clock_error = ahead;
        }
    }

    /// By how many seconds a machine's clock is ahead now. One that reached a time server is right.
    pub(super) fn clock_error(&self, vmid: u32) -> i64 {
        match self.machines.get(&vmid) {
            Some(machine) if !self.clock_is_synced(vmid) => machine.clock_error,
            _ => 0,
        }
    }

    /// Everything that is wrong, in words.
    pub(crate) fn what_is_wrong(&self) -> Vec<String> {
        let unplugged = self.machines.iter().filter(|(_, machine)| machine.unplugged);
        let systems = self.broken_systems.iter();
        let disks = self.small_disks.iter();
        unplugged
            .map(|(vmid, _)| format!("VM {vmid}: its network cable is pulled"))
            .chain(systems.map(|(vmid, talos)| format!("VM {vmid}: {talos} does not come up")))
            .chain(disks.map(|(vmid, bytes)| format!("VM {vmid}: its boot disk has {} GiB", bytes >> 30)))
            .chain(self.full_databases())
            .chain(
                self.apart
                    .iter()
                    .map(|(one, other)| format!("VM {one} and VM {other} hear nothing of each other")),
            )
            .chain(
                self.no_images
                    .iter()
                    .map(|(vmid, service)| format!("VM {vmid}: the image of {service} is missing")),
            )
            .chain(self.returns.iter().map(|(vmid, how)| format!("VM {vmid}: comes back {how:?}")))
            .chain(self.silent.iter().map(|vmid| format!("VM {vmid}: its events are silent")))
            .chain(self.no_time.then(|| "no time server answers".to_owned()))
            .chain(self.outside.as_ref().map(|open| {
                let open: Vec<&str> = open.iter().map(String::as_str).collect();
                format!("of the hosts outside only these answer: {}", open.join(", "))
            }))
            .collect()
    }

    /// The machines whose etcd raised an alarm, in words.
    fn full_databases(&self) -> impl Iterator<Item = String> {
        let full = |vmid: u32| self.etcd_of(vmid).zip(self.member_of(vmid));
        let machines = self.machines.keys().copied();
        machines
            .filter(move |vmid| full(*vmid).is_some_and(|(etcd, (member, _))| etcd.alarms.contains(&member)))
            .map(|vmid| format!("VM {vmid}: its etcd database is full"))
    }

    /// Every machine is well again. Whom they reach outside is the world's to say.
    pub(crate) fn clear_faults(&mut self) {
        self.broken_systems.clear();
        self.small_disks.clear();
        self.etcds.iter_mut().for_each(|etcd| etcd.alarms.clear());
        self.no_time = false;
        self.apart.clear();
        self.no_images.clear();
        self.returns.clear();
        self.silent.clear();
        for machine in self.machines.values_mut() {
            machine.unplugged = false;
        }
        self.catch_up();
    }

    /// Machines that waited for what they could not reach get it now.
    pub(super) fn catch_up(&mut self) {
        let vmids: Vec<u32> = self.machines.keys().copied().collect();
        for vmid in vmids {
            let Some(machine) = self.machines.get(&vmid) else { continue };
            let Some(node) = machine.node() else { continue };
            let clock = node.clock_from == Timestamp::MAX && self.reaches_time(machine);
            let clock_from = if clock { after(self.now, timing::CLOCK_SYNC) } else { node.clock_from };
            let image = self.reaches_image(&node.settings, &node.settings.images.kubelet);
            let kubelet = node.kubelet_from == Timestamp::MAX && image && clock_from < Timestamp::MAX;
            let kubelet_from = after(clock_from.max(node.cri_from).max(self.now), timing::KUBELET);
            if let Some(node) = self.machines.get_mut(&vmid).and_then(Machine::node_mut) {
                node.clock_from = clock_from;
                if kubelet {
                    node.kubelet_from = kubelet_from;
                }
            }
        }
        self.settle();
    }
}

impl Machine {
    /// Whether anybody hears of it.
    pub(super) fn is_plugged(&self) -> bool {
        !self.unplugged
    }
}
