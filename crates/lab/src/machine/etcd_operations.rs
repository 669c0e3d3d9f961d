//! What a control plane is asked to do with its etcd: leave, hand over, remove others, disarm, recover.

use jiff::Timestamp;
use tonic::Code;

use super::apply::Refusal;
use super::node::{EtcdData, EtcdService};
use super::operations::only_member;
use super::{Machines, timing};

impl Machines {
    /// Whether a machine's etcd takes changes: its member is up and there is a leader.
    pub(crate) fn etcd_has_leader(&self, vmid: u32) -> bool {
        self.led_etcd_of(vmid).is_some()
    }

    /// Whether the machine's own member has no vote yet.
    pub(crate) fn is_learner(&self, vmid: u32) -> bool {
        self.member_of(vmid).is_some_and(|(_, member)| member.learner_until.is_some())
    }

    /// Gives leadership to another member and names it; no one, when this one does not lead.
    pub(crate) fn forfeit(&mut self, vmid: u32, now: Timestamp) -> Result<Option<String>, Refusal> {
        self.now = self.now.max(now);
        let own = self.member_of(vmid).map(|(id, _)| id);
        let Some(index) = self.etcd_index(vmid) else { return Ok(None) };
        if self.etcds[index].members.len() < 2 {
            let words = "failed to forfeit leadership: cannot forfeit leadership, only one member";
            return Err(Refusal::new(Code::Unknown, words));
        }
        if self.etcds[index].leader != own {
            return Ok(None);
        }
        let etcd = &self.etcds[index];
        let other = etcd.members.iter().find(|(id, member)| {
            Some(**id) != own && member.learner_until.is_none() && etcd.is_up(**id, &self.machines)
        });
        let Some((id, name)) = other.map(|(id, member)| (*id, member.name.clone())) else {
            return Err(Refusal::new(
                Code::Unknown,
                "failed to forfeit leadership: etcdserver: request timed out",
            ));
        };
        self.etcds[index].leader = Some(id);
        self.etcds[index].term += 1;
        self.settle();
        Ok(Some(name))
    }

    /// Takes the machine's member out of its cluster and its data off the disk.
    pub(crate) fn leave_etcd(&mut self, vmid: u32, now: Timestamp) -> Result<(), Refusal> {
        self.now = self.now.max(now);
        let Some(data) = self.machines.get(&vmid).and_then(|m| m.disk.etcd) else { return Ok(()) };
        if self.etcd_of(vmid).map_or(0, |etcd| etcd.members.len()) < 2 {
            let words = format!("failed to leave cluster: {}", only_member(data.member));
            return Err(Refusal::new(Code::Unknown, words));
        }
        self.take_out(data);
        if let Some(machine) = self.machines.get_mut(&vmid) {
            machine.disk.etcd = None;
            if let Some(node) = machine.node_mut() {
                node.etcd = EtcdService::Finished { since: now };
                node.api_server_from = None;
            }
        }
        self.mark(vmid, true);
        self.settle();
        Ok(())
    }

    /// Removes a member by its id, any member.
    pub(crate) fn remove_member(&mut self, vmid: u32, id: u64, now: Timestamp) -> Result<(), Refusal> {
        self.now = self.now.max(now);
        let refuse = |code, words: &str| {
            let prefix = if code == Code::NotFound { "" } else { "failed to remove member: " };
            Err(Refusal::new(code, format!("{prefix}failed to remove member {id}: etcdserver: {words}")))
        };
        let Some(index) = self.etcd_index(vmid) else { return Ok(()) };
        let etcd = &self.etcds[index];
        if etcd.leader.is_none() {
            return refuse(Code::Unknown, "no leader");
        }
        let Some(member) = etcd.members.get(&id) else { return refuse(Code::NotFound, "member not found") };
        // The members that stay must be able to decide without the one that goes.
        let (gone, voters) = (member.vmid, etcd.voters());
        let up = voters.iter().filter(|voter| **voter != id && etcd.is_up(**voter, &self.machines)).count();
        let left = voters.iter().filter(|voter| **voter != id).count();
        if left == 0 || up * 2 <= left {
            return refuse(Code::Unknown, "re-configuration failed due to not enough started members");
        }
        let data = EtcdData { cluster: etcd.id, member: id };
        self.take_out(data);
        if self.machines.get(&gone).is_some_and(|machine| machine.disk.etcd == Some(data)) {
            self.set_etcd(gone, EtcdService::Removed);
            self.mark(gone, true);
        }
        self.settle();
        Ok(())
    }

    pub(super) fn take_out(&mut self, data: EtcdData) {
        if let Some(etcd) = self.etcds.iter_mut().find(|etcd| etcd.id == data.cluster) {
            etcd.members.remove(&data.member);
            etcd.alarms.remove(&data.member);
        }
    }

    /// Raises the alarm of a full database on a member, as when no one compacts it.
    pub fn fill_etcd(&mut self, vmid: u32) {
        let member = self.member_of(vmid).map(|(id, _)| id);
        if let (Some(index), Some(member)) = (self.etcd_index(vmid), member) {
            self.etcds[index].alarms.insert(member);
        }
    }

    /// Ends all alarms of a cluster and names the members that had one.
    pub(crate) fn disarm(&mut self, vmid: u32) -> Vec<u64> {
        let Some(index) = self.etcd_index(vmid) else { return vec![] };
        std::mem::take(&mut self.etcds[index].alarms).into_iter().collect()
    }

    /// Keeps an uploaded snapshot. Nothing of it is looked at before `Bootstrap`.
    pub(crate) fn upload_snapshot(
        &mut self,
        vmid: u32,
        file: Vec<u8>,
        now: Timestamp,
    ) -> Result<(), Refusal> {
        let node = self.control_plane(vmid, "etcd recover")?;
        if node.cri_from > now {
            let words = "etcd service is not ready for recovery yet";
            return Err(Refusal::new(Code::FailedPrecondition, words).late(timing::BOOTSTRAP_WAITS_CRI));
        }
        if let Some(machine) = self.machines.get_mut(&vmid) {
            machine.disk.recovery = Some(file);
        }
        Ok(())
    }

    fn etcd_index(&self, vmid: u32) -> Option<usize> {
        let data = self.machines.get(&vmid)?.disk.etcd?;
        self.etcds.iter().position(|etcd| etcd.id == data.cluster)
    }
}
