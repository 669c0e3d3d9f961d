//! What the gate decides by.

use std::collections::BTreeMap;

use crate::blueprint::{Blueprint, Role};
use crate::names::NodeName;
use crate::observed::{Etcd, Health, Kubernetes, Machine, Member, Observed, Removed};
use crate::ownership;
use crate::policy::WindowState;
use crate::readiness;
use crate::spec::HealthGate;

/// What the gate decides by. What is not in it was not observed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClusterView {
    /// Control plane nodes whose member of etcd told of itself.
    pub members: BTreeMap<NodeName, MemberView>,
    /// Nodes of the file, and nodes beside them that Kubernetes has or that the file had.
    pub nodes: BTreeMap<NodeName, NodeView>,
    /// Whether Kubernetes answered.
    pub kubernetes: bool,
    /// How the systems stand that must be healthy.
    pub health: BTreeMap<HealthGate, Health>,
    /// Whether the maintenance window is open, where the file has one.
    pub window: WindowState,
    /// Nodes whose Proxmox host is in maintenance, with that host.
    pub maintenance: BTreeMap<NodeName, String>,
}

/// What one member of etcd says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MemberView {
    /// Its own member ID in hex.
    pub id: String,
    /// Its own list of all members.
    pub members: Vec<Member>,
    /// The leader's member ID in hex, as it sees it.
    pub leader: Option<String>,
    /// The raft term; 0 is not known.
    pub term: u64,
    /// The newest entry of the log that it has; 0 is not known.
    pub index: u64,
    /// The newest entry of the log that it has applied; 0 is not known.
    pub applied: u64,
    /// What it complains about, alarms included.
    pub errors: Vec<String>,
    /// Whether its service runs and is healthy, as Talos says.
    pub healthy: bool,
}

/// What is known of one node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeView {
    /// Its role in the file.
    pub role: Role,
    /// Whether the cluster can count on it: Kubernetes calls it ready, its VM runs, and no unit of ours left it cordoned. `None` where
    /// one of these was not said.
    pub ready: Option<bool>,
}

impl ClusterView {
    /// The view in what was observed for a plan.
    #[must_use]
    pub fn observed(blueprint: &Blueprint, observed: &Observed) -> Self {
        Self::of(blueprint, &observed.machines, &observed.kubernetes)
            .with_power(blueprint, |node| {
                ownership::vm_of(blueprint, &observed.proxmox, node).map(|vm| vm.running)
            })
            .with_removed(&observed.removed)
            .with_window(observed.window.clone())
            .with_maintenance(in_maintenance(observed))
    }

    /// The view in what machines and Kubernetes said. It does not know the time.
    #[must_use]
    pub fn of(
        blueprint: &Blueprint,
        machines: &BTreeMap<NodeName, Machine>,
        kubernetes: &Kubernetes,
    ) -> Self {
        // A unit that was interrupted left it so. Pods of a unit that starts now have nowhere to go there.
        let left = |name: &str| {
            let seen = kubernetes.nodes.get(name).filter(|_| kubernetes.answered);
            seen.is_some_and(|seen| !seen.control_plane && !seen.schedulable && seen.cordoned.is_some())
        };
        let ready = |name: &NodeName| readiness::is_ready(kubernetes, name).map(|ready| ready && !left(name));
        let of_file = blueprint
            .nodes
            .values()
            .map(|node| (node.name.clone(), NodeView { role: node.role, ready: ready(&node.name) }));
        let mut nodes: BTreeMap<NodeName, NodeView> = of_file.collect();
        for (name, node) in kubernetes.nodes.iter().filter(|_| kubernetes.answered) {
            let role = if node.control_plane { Role::ControlPlane } else { Role::Worker };
            nodes.entry(name.clone()).or_insert_with(|| NodeView { role, ready: ready(name) });
        }
        let members = machines.iter().filter_map(|(node, machine)| Some((node.clone(), member(machine)?)));
        Self {
            members: members.collect(),
            nodes,
            kubernetes: kubernetes.answered,
            health: kubernetes.health.clone(),
            window: WindowState::Unknown,
            maintenance: BTreeMap::new(),
        }
    }

    /// The same with the hosts that VMs are on and that high availability has in maintenance.
    #[must_use]
    pub fn with_maintenance(self, maintenance: BTreeMap<NodeName, String>) -> Self {
        Self { maintenance, ..self }
    }

    /// The same with what Proxmox says of the VMs of the file's nodes: whether each runs, or nothing where it did not say. For up to a
    /// minute Kubernetes calls a node ready that is off.
    #[must_use]
    pub fn with_power(mut self, blueprint: &Blueprint, runs: impl Fn(&NodeName) -> Option<bool>) -> Self {
        for (name, seen) in &mut self.nodes {
            if blueprint.nodes.get(name).is_none_or(|node| node.external) {
                continue;
            }
            seen.ready = match (seen.ready, runs(name)) {
                (_, Some(false)) => Some(false),
                (Some(true), None) => None,
                (ready, _) => ready,
            };
        }
        self
    }

    /// The same with nodes that the file does not have any more. Where their role was control plane, it still is.
    #[must_use]
    pub fn with_removed(mut self, removed: &BTreeMap<NodeName, Removed>) -> Self {
        for (name, gone) in removed {
            let node = self.nodes.entry(name.clone()).or_insert(NodeView { role: gone.role, ready: None });
            if gone.role == Role::ControlPlane {
                node.role = Role::ControlPlane;
            }
        }
        self
    }

    /// Whether the node is known, and a worker by its role. Whether it is a member of etcd all the same, only etcd says.
    pub(super) fn is_worker(&self, node: &str) -> bool {
        self.nodes.get(node).is_some_and(|seen| seen.role == Role::Worker)
    }

    /// The same at a time.
    #[must_use]
    pub fn with_window(self, window: WindowState) -> Self {
        Self { window, ..self }
    }
}

/// VMs on hosts that are in maintenance.
fn in_maintenance(observed: &Observed) -> BTreeMap<NodeName, String> {
    let hosts = &observed.proxmox.inventory.hosts;
    let vms = observed.proxmox.marked.iter().filter(|vm| vm.mark.is_node());
    let vms = vms.filter(|vm| hosts.get(&vm.host).is_some_and(|host| host.maintenance));
    vms.map(|vm| (vm.mark.node.as_str().into(), vm.host.clone())).collect()
}

fn member(machine: &Machine) -> Option<MemberView> {
    let Etcd::Member { id, members: Some(members), .. } = &machine.etcd else { return None };
    let status = machine.etcd_status.as_ref()?;
    Some(MemberView {
        id: id.clone(),
        members: members.clone(),
        leader: status.leader.clone(),
        term: status.term,
        index: status.index,
        applied: status.applied,
        errors: status.errors.clone(),
        healthy: status.healthy == Some(true),
    })
}
