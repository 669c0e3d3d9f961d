//! Machines that hear nothing of each other, while everybody else hears both.

use std::collections::BTreeSet;

use super::{Etcd, Machines};

/// Pairs of VMs, the smaller ID first.
pub(crate) type Apart = BTreeSet<(u32, u32)>;

/// Whether two machines hear each other.
pub(super) fn hear(apart: &Apart, one: u32, other: u32) -> bool {
    !apart.contains(&(one.min(other), one.max(other)))
}

impl Machines {
    /// Parts two machines, or lets them hear each other again.
    pub(crate) fn set_apart(&mut self, one: u32, other: u32, apart: bool) {
        let pair = (one.min(other), one.max(other));
        if apart {
            self.apart.insert(pair);
        } else {
            self.apart.remove(&pair);
        }
        self.settle();
    }

    /// The etcd cluster whose data a machine has, if it has a leader that this machine hears of.
    pub(crate) fn led_etcd_of(&self, vmid: u32) -> Option<&Etcd> {
        let etcd = self.etcd_of(vmid).filter(|etcd| etcd.leader.is_some())?;
        let hears = |other: u32| hear(&self.apart, vmid, other);
        let deciding = etcd.deciding(&self.machines, &self.apart);
        let mut deciding = deciding.iter().filter_map(|id| etcd.members.get(id));
        (self.apart.is_empty() || deciding.any(|member| member.vmid == vmid || hears(member.vmid)))
            .then_some(etcd)
    }
}
