//! etcd clusters: who is a member, who votes, who leads.
//!
//! A cluster comes into being by one `Bootstrap` and never by itself, so two calls on two machines make two clusters of
//! one name. What Kubernetes keeps lives in here too, because a cluster without a majority can no longer be written.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::apart::{Apart, hear};
use super::node::{EtcdData, EtcdService, Machine, after};
use super::timing;
use crate::kube::Store;

/// One etcd cluster.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Etcd {
    pub id: u64,
    /// The identity of the Talos cluster that it serves.
    pub key: String,
    /// Whether its data came from a snapshot.
    #[serde(default)]
    pub restored: bool,
    pub members: BTreeMap<u64, Member>,
    pub leader: Option<u64>,
    pub term: u64,
    pub vip: Option<Vip>,
    /// Kubernetes' objects.
    pub store: Store,
    /// Kubernetes nodes that were registered here, by name.
    pub nodes: BTreeMap<String, Known>,
    /// Members whose database is full.
    #[serde(default)]
    pub alarms: BTreeSet<u64>,
}

/// One member, alive or not.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Member {
    pub vmid: u32,
    pub name: String,
    pub peer: IpAddr,
    /// Until then it is listed without a name.
    pub named_from: Timestamp,
    /// While a learner: when it is promoted, if all goes well.
    pub learner_until: Option<Timestamp>,
}

/// The shared address of a control plane.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Vip {
    pub address: IpAddr,
    pub holder: u32,
    /// When it is announced, and for a holder that vanished: when its lease ends.
    pub from: Timestamp,
    pub expires: Option<Timestamp>,
}

/// A node that Kubernetes knows.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Known {
    pub vmid: u32,
    /// How many came before it.
    pub number: usize,
    /// Set from registration until the node object is written.
    pub registers: bool,
    /// Set when the kubelet fell silent: from then on the node is `Unknown`.
    pub lost_at: Option<Timestamp>,
}

impl Etcd {
    /// A new cluster with one member, which votes and leads. `earlier` is the number of clusters that there were before.
    ///
    /// The cluster is another one than all before, on the same machine too, so that each has its own data. The ID of the
    /// first member is different: etcd derives it from name and address, and it repeats where both are the same.
    pub(super) fn bootstrap(
        vmid: u32,
        machine: &Machine,
        key: String,
        peer: IpAddr,
        now: Timestamp,
        earlier: usize,
    ) -> Self {
        let id = crate::stable::stable_number(&[
            &key,
            &machine.hardware.uuid,
            &now.to_string(),
            &earlier.to_string(),
            "etcd",
        ]);
        let restored = if machine.disk.recovery.is_some() { id.to_string() } else { String::new() };
        let member =
            crate::stable::stable_number(&[machine.hostname(), &peer.to_string(), &restored, "first member"]);
        let first =
            Member { vmid, name: machine.hostname().into(), peer, named_from: now, learner_until: None };
        Self {
            id,
            key,
            restored: machine.disk.recovery.is_some(),
            members: BTreeMap::from([(member, first)]),
            leader: Some(member),
            term: 2,
            vip: None,
            store: Store::default(),
            nodes: BTreeMap::new(),
            alarms: BTreeSet::new(),
        }
    }

    /// Adds a learner. A member of the same name is one that lost its data: Talos takes it out first.
    pub(super) fn join(&mut self, vmid: u32, machine: &Machine, peer: IpAddr, now: Timestamp) -> EtcdData {
        let id = crate::stable::stable_number(&[
            &machine.hardware.uuid,
            &self.id.to_string(),
            &now.to_string(),
            "member",
        ]);
        self.members.retain(|_, member| member.name != machine.hostname());
        let member = Member {
            vmid,
            name: machine.hostname().into(),
            peer,
            named_from: after(now, timing::ETCD_NAMELESS),
            learner_until: Some(after(now, timing::ETCD_LEARNER)),
        };
        self.members.insert(id, member);
        EtcdData { cluster: self.id, member: id }
    }

    /// Whether this member's process runs.
    pub(super) fn is_up(&self, id: u64, machines: &BTreeMap<u32, Machine>) -> bool {
        let Some(machine) = self.members.get(&id).and_then(|m| machines.get(&m.vmid)) else { return false };
        let data = EtcdData { cluster: self.id, member: id };
        machine.disk.etcd == Some(data)
            && !machine.disk.has_old_log()
            && machine.live_node().is_some_and(|node| matches!(node.etcd, EtcdService::Running { .. }))
    }

    /// Those who vote.
    pub(super) fn voters(&self) -> Vec<u64> {
        self.members.iter().filter(|(_, m)| m.learner_until.is_none()).map(|(id, _)| *id).collect()
    }

    /// Those who vote, are up and hear each other, if they are a majority; otherwise no one.
    pub(super) fn deciding(&self, machines: &BTreeMap<u32, Machine>, apart: &Apart) -> Vec<u64> {
        let voters = self.voters();
        let up = voters.iter().copied().filter(|id| self.is_up(*id, machines));
        let mut left: Vec<u64> = up.collect();
        let vmid = |id: &u64| self.members.get(id).map_or(0, |member| member.vmid);
        while let Some(first) = left.first().copied() {
            let mut side = vec![first];
            left.retain(|id| *id != first);
            let mut at = 0;
            while let Some(from) = side.get(at).copied() {
                let (near, far): (Vec<u64>, Vec<u64>) =
                    left.into_iter().partition(|id| hear(apart, vmid(&from), vmid(id)));
                side.extend(near);
                left = far;
                at += 1;
            }
            if side.len() * 2 > voters.len() {
                return side;
            }
        }
        vec![]
    }

    /// Holds an election where one is due; says whether anything changed.
    pub(super) fn elect(&mut self, machines: &BTreeMap<u32, Machine>, apart: &Apart) -> bool {
        let before = self.leader;
        let deciding = self.deciding(machines, apart);
        if !self.leader.is_some_and(|id| deciding.contains(&id)) {
            self.leader = deciding.iter().min().copied();
            self.term += u64::from(self.leader.is_some());
        }
        before != self.leader
    }

    /// Makes voters of learners whose time has come and who are up; returns them.
    pub(super) fn promote(&mut self, machines: &BTreeMap<u32, Machine>, now: Timestamp) -> Vec<u32> {
        if self.leader.is_none() {
            return vec![];
        }
        let due: Vec<u64> = self
            .members
            .iter()
            .filter(|(_, m)| m.learner_until.is_some_and(|at| at <= now))
            .map(|(id, _)| *id)
            .collect();
        let mut promoted = vec![];
        for id in due {
            if self.is_up(id, machines)
                && let Some(member) = self.members.get_mut(&id)
            {
                member.learner_until = None;
                promoted.push(member.vmid);
            }
        }
        promoted
    }

    /// Whether a newcomer may be added now: one learner at a time.
    pub(super) fn accepts(&self) -> bool {
        self.leader.is_some() && self.members.values().all(|m| m.learner_until.is_none())
    }

    /// How far the log has got. It grows with what Kubernetes writes.
    pub(crate) fn raft_index(&self) -> u64 {
        self.store.revision() + u64::try_from(self.members.len()).unwrap_or(0) * 2 + self.term
    }

    /// Gives the shared address to whom it is due; says whether anything changed.
    pub(super) fn elect_vip(&mut self, machines: &BTreeMap<u32, Machine>, now: Timestamp) -> bool {
        if self.leader.is_none() {
            return self.vip.take().is_some();
        }
        if let Some(vip) = &mut self.vip {
            let wants = |m: &Machine| m.live_node().is_some_and(|n| n.settings.vip == Some(vip.address));
            let machine = machines.get(&vip.holder);
            if machine.is_some_and(wants) {
                return vip.expires.take().is_some();
            }
            // A machine that goes down in order gives the address up; one that vanishes keeps its lease.
            let orderly = machine.and_then(Machine::node).is_some_and(super::node::Node::stopped);
            match vip.expires {
                None if !orderly => {
                    vip.expires = Some(after(now, timing::VIP_LEASE));
                    return true;
                }
                Some(expires) if expires > now => return false,
                _ => self.vip = None,
            }
        }
        let candidate =
            self.members.iter().filter(|(_, m)| m.learner_until.is_none()).find_map(|(_, member)| {
                let node = machines.get(&member.vmid)?.live_node()?;
                let healthy =
                    matches!(node.etcd, EtcdService::Running { healthy_from: Some(at), .. } if at <= now);
                let kubelet = node.kubelet_from <= now && !node.kubelet_stopped;
                node.settings.vip.filter(|_| healthy && kubelet).map(|address| (member.vmid, address))
            });
        let Some((holder, address)) = candidate else { return false };
        self.vip = Some(Vip { address, holder, from: after(now, timing::VIP_ELECTION), expires: None });
        true
    }

    pub(super) fn moments(&self) -> Vec<Timestamp> {
        let members = self.members.values().flat_map(|m| m.learner_until.into_iter().chain([m.named_from]));
        let vip = self.vip.iter().flat_map(|v| v.expires.into_iter().chain([v.from]));
        let nodes = self.nodes.values().filter_map(|n| n.lost_at);
        members.chain(vip).chain(nodes).chain(self.store.next_due()).collect()
    }
}
