//! etcd as someone sees it who knows everything: which clusters there are, who is a member, who is up.

use super::Machines;
use super::node::Machine;
use crate::kube::Store;

/// One etcd cluster.
#[derive(Debug, Clone)]
pub(crate) struct EtcdView {
    pub(crate) id: u64,
    /// The identity of the Talos cluster that it serves.
    pub(crate) key: String,
    /// Whether its data came from a snapshot.
    pub(crate) restored: bool,
    pub(crate) members: Vec<MemberView>,
}

#[derive(Debug, Clone)]
pub(crate) struct MemberView {
    pub(crate) vmid: u32,
    pub(crate) voter: bool,
    pub(crate) up: bool,
}

impl EtcdView {
    pub(crate) fn voters(&self) -> usize {
        self.members.iter().filter(|member| member.voter).count()
    }

    /// Voters that are up, those of one VM not counted.
    pub(crate) fn up_without(&self, vmid: u32) -> usize {
        self.members.iter().filter(|member| member.voter && member.up && member.vmid != vmid).count()
    }

    pub(crate) fn majority(&self) -> usize {
        self.voters() / 2 + 1
    }
}

impl Machines {
    /// All etcd clusters that there ever were, the oldest first.
    pub(crate) fn etcd_views(&self) -> Vec<EtcdView> {
        let view = |etcd: &super::Etcd| EtcdView {
            id: etcd.id,
            key: etcd.key.clone(),
            restored: etcd.restored,
            members: etcd
                .members
                .iter()
                .map(|(id, member)| MemberView {
                    vmid: member.vmid,
                    voter: member.learner_until.is_none(),
                    up: etcd.is_up(*id, &self.machines),
                })
                .collect(),
        };
        self.etcds.iter().map(view).collect()
    }

    /// The objects of every etcd cluster that has a leader.
    pub(crate) fn stores(&self) -> impl Iterator<Item = &Store> {
        self.etcds.iter().filter(|etcd| etcd.leader.is_some()).map(|etcd| &etcd.store)
    }

    /// A control plane node whose API server takes writes.
    pub(crate) fn serving(&self) -> Option<u32> {
        let up = |machine: &Machine| {
            machine.live_node().and_then(|node| node.api_server_from).is_some_and(|at| at <= self.now)
        };
        let mut serving = self.machines.iter().filter(|(_, machine)| up(machine)).map(|(vmid, _)| *vmid);
        serving.find(|vmid| self.led_etcd_of(*vmid).is_some())
    }

    /// Whether any machine still carries a cluster's identity.
    pub(crate) fn anybody_has_key(&self, key: &str) -> bool {
        let of = |machine: &Machine| {
            machine.node().is_some_and(|node| node.settings.cluster_key() == key)
                || (machine.node().is_none() && machine.disk.config.is_some())
        };
        self.machines.values().any(of)
    }

    /// Whether a machine goes down or restarts at someone's wish.
    pub(crate) fn is_leaving(&self, vmid: u32) -> bool {
        self.machines.get(&vmid).and_then(Machine::node).is_some_and(|node| node.leaving.is_some())
    }
}
