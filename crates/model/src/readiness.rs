//! Whether a node has its place in the cluster: named conditions over what was observed.
//!
//! The plan, the steps that wait for a node, `health`, `status` and the gate all read these, so that they cannot disagree about what ready
//! means. Each asks for the conditions that it needs, in its own order. What was not observed is [`State::Unknown`], which never counts as
//! met. What only the operator can bring, because the file leaves a CNI plugin or a cloud provider to them, is
//! [`State::LeftToOperator`]: nothing that Talosmith waits for.

use std::collections::BTreeMap;

use crate::blueprint::{Blueprint, Node, Role};
use crate::names::NodeName;
use crate::observed::{Api, Etcd, Kubernetes, KubernetesNode, Machine, Observed};

/// Something that holds for a node that has its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Condition {
    /// Its machine has the time.
    Time,
    /// Its machine is in stage `running` and calls itself ready.
    Running,
    /// It is a voting member of etcd, if it is a control plane node.
    Voting,
    /// Kubernetes knows it.
    Registered,
    /// Kubernetes calls it ready.
    Ready,
    /// Its kubelet has the version that the file says.
    Version,
    /// A cloud provider has seen it, where one is expected to.
    Initialized,
}

/// How a condition stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// It holds.
    Met,
    /// It does not hold.
    Unmet,
    /// What would tell was not observed.
    Unknown,
    /// It does not hold, and only because of something that the file leaves to the operator.
    LeftToOperator,
}

impl State {
    /// Whether nothing is missing that Talosmith could wait for.
    #[must_use]
    pub fn is_enough(self) -> bool {
        matches!(self, Self::Met | Self::LeftToOperator)
    }

    fn of(holds: bool) -> Self {
        if holds { Self::Met } else { Self::Unmet }
    }

    /// The same, where the operator has to bring what is missing.
    fn or_left(self, to_operator: bool) -> Self {
        if self == Self::Unmet && to_operator { Self::LeftToOperator } else { self }
    }
}

/// A node, and what was observed of it.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'a> {
    blueprint: &'a Blueprint,
    node: &'a Node,
    machine: Option<&'a Machine>,
    kubernetes: Option<&'a BTreeMap<NodeName, KubernetesNode>>,
}

impl<'a> Seen<'a> {
    /// A node of which nothing was observed.
    #[must_use]
    pub fn nothing(blueprint: &'a Blueprint, node: &'a Node) -> Self {
        Self { blueprint, node, machine: None, kubernetes: None }
    }

    /// A node in what was observed of everything.
    #[must_use]
    pub fn of(blueprint: &'a Blueprint, observed: &'a Observed, node: &'a Node) -> Self {
        let kubernetes = observed.kubernetes.answered.then_some(&observed.kubernetes.nodes);
        Self { blueprint, node, machine: observed.machines.get(&node.name), kubernetes }
    }

    /// The same node with its machine.
    #[must_use]
    pub fn with_machine(self, machine: &'a Machine) -> Self {
        Self { machine: Some(machine), ..self }
    }

    /// The same node with what Kubernetes says.
    #[must_use]
    pub fn with_kubernetes(self, nodes: &'a BTreeMap<NodeName, KubernetesNode>) -> Self {
        Self { kubernetes: Some(nodes), ..self }
    }

    /// How a condition stands.
    #[must_use]
    pub fn state(&self, condition: Condition) -> State {
        let Self { blueprint, node, machine, .. } = *self;
        let state = match condition {
            Condition::Time => machine.map(|machine| State::of(!waits_for(machine, "time:"))),
            Condition::Running => machine.and_then(|machine| running(blueprint, machine)),
            Condition::Voting if node.role == Role::Worker => Some(State::Met),
            Condition::Voting => machine.and_then(voting),
            Condition::Registered => self.registered(|_| State::Met),
            Condition::Ready => {
                self.registered(|seen| State::of(seen.ready).or_left(blueprint.awaits_network()))
            }
            Condition::Version => self.registered(|seen| State::of(seen.version == node.kubernetes)),
            Condition::Initialized => self
                .registered(|seen| State::of(!seen.uninitialized).or_left(blueprint.awaits_cloud_provider())),
        };
        state.unwrap_or(State::Unknown)
    }

    /// The first of these conditions that is not met and may be met later.
    #[must_use]
    pub fn lacks(&self, conditions: &[Condition]) -> Option<Condition> {
        conditions.iter().copied().find(|condition| !self.state(*condition).is_enough())
    }

    /// Whether all of these conditions hold.
    #[must_use]
    pub fn meets(&self, conditions: &[Condition]) -> bool {
        conditions.iter().all(|condition| self.state(*condition) == State::Met)
    }

    /// What holds for the node as Kubernetes has it. One that it does not know meets nothing.
    fn registered(&self, state: impl Fn(&KubernetesNode) -> State) -> Option<State> {
        Some(self.kubernetes?.get(&self.node.name).map_or(State::Unmet, state))
    }
}

/// Whether Kubernetes calls a node ready, be it in the file or not; `None` where it did not say.
#[must_use]
pub fn is_ready(kubernetes: &Kubernetes, node: &str) -> Option<bool> {
    kubernetes.nodes.get(node).filter(|_| kubernetes.answered).map(|seen| seen.ready)
}

/// Where no CNI plugin is installed yet, the node is not ready, and that alone keeps its machine from calling itself so.
fn running(blueprint: &Blueprint, machine: &Machine) -> Option<State> {
    if !matches!(machine.api, Api::Configured | Api::Maintenance) {
        return None;
    }
    let only_network = machine.unmet.iter().all(|unmet| unmet.starts_with("nodeReady"));
    match machine.stage.as_deref()? {
        "running" => Some(State::of(machine.ready).or_left(blueprint.awaits_network() && only_network)),
        _ => Some(State::Unmet),
    }
}

fn voting(machine: &Machine) -> Option<State> {
    match machine.etcd {
        Etcd::Member { learner, .. } => Some(State::of(!learner)),
        Etcd::Empty | Etcd::Data => Some(State::Unmet),
        Etcd::Unknown => None,
    }
}

fn waits_for(machine: &Machine, name: &str) -> bool {
    machine.unmet.iter().any(|unmet| unmet.starts_with(name))
}

#[cfg(test)]
mod tests;
