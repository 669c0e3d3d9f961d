//! What a plan does, in the size in which a person approves it.
//!
//! A [`Unit`] is one disruption of one node, from the gate to the proof that the node is whole again: its steps run one after another,
//! with one permit. A [`Goal`] is what a person agrees to ("replace home-work-2"). Planning again while a run goes on gives other steps
//! for the same goals; those are not asked for again. A goal that was not approved is asked for.

mod open;

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::gate::{Blocker, Effect, Request};
use crate::names::NodeName;
use crate::step::{Action, Disruption, UnitId};

pub use open::{OpenUnit, UnitState, open};

/// One disruption of one node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unit {
    /// Its name, which its steps carry.
    pub id: UnitId,
    /// The node that is disrupted.
    pub node: NodeName,
    /// What it is for.
    pub goal: Goal,
    /// What it does to the node.
    pub disruption: Disruption,
    /// What the gate is asked for.
    pub effect: Effect,
    /// How the cluster stands while the unit runs, as far as the plan can tell.
    pub forecast: Forecast,
}

impl Unit {
    /// What the gate is asked.
    #[must_use]
    pub fn request(&self) -> Request {
        Request { unit: self.id.clone(), node: self.node.clone(), effect: self.effect }
    }
}

/// How the cluster stands while a unit runs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Forecast {
    /// Voting members of etcd that are healthy meanwhile, of how many. `None` where the unit does not touch etcd.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub voters: Option<(usize, usize)>,
    /// Workers that are ready meanwhile, of how many. `None` where the unit does not touch a worker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workers: Option<(usize, usize)>,
    /// Whether the Kubernetes API is away meanwhile.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub outage: bool,
    /// Whether the node holds the VIP, so that the endpoint is unavailable for some seconds until another node takes it over.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub moves_vip: bool,
    /// How many units of this kind run at once, at most.
    #[serde(default)]
    pub at_once: usize,
    /// What the gate has against it now. It is asked again directly before the unit starts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blockers: Vec<Blocker>,
}

/// What a person agrees to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "goal")]
pub enum Goal {
    /// Things that disrupt nothing that runs: images, the record, credentials, new machines, waiting.
    Create {
        /// The node, where it is about one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        node: Option<NodeName>,
    },
    /// A VM or a machine config is updated in place.
    Update { node: NodeName },
    /// Services of a node restart.
    RestartServices { node: NodeName },
    /// A node reboots.
    Reboot { node: NodeName },
    /// A node's VM is stopped and started.
    PowerCycle { node: NodeName },
    /// Disks of a node are deleted, with what else it needs.
    DeleteDisks { node: NodeName },
    /// A node runs another release or image of Talos afterwards.
    UpgradeTalos { node: NodeName },
    /// Parts of Kubernetes on a node run another version afterwards.
    UpgradeKubernetes { node: NodeName },
    /// A node is created again in place of a dead one.
    Replace { node: NodeName },
    /// A node is removed for good.
    Remove { node: NodeName },
    /// A node's VM moves to another Proxmox host.
    Move {
        node: NodeName,
        /// The host that it moves to.
        host: String,
    },
    /// A node's machine is shut down, and stays off.
    Shutdown { node: NodeName },
    /// A node is cordoned and its pods are evicted; it stays cordoned.
    Drain { node: NodeName },
    /// A node is cordoned, and stays so.
    Cordon { node: NodeName },
    /// A node is uncordoned, no matter who cordoned it.
    Uncordon { node: NodeName },
    /// The cluster is deleted.
    Destroy,
}

impl Goal {
    /// What a step outside of any unit is for.
    #[must_use]
    pub fn of(action: &Action) -> Self {
        let node = |node: &NodeName| node.clone();
        match action {
            Action::UpdateVm { node: n, .. }
            | Action::GrowDisk { node: n, .. }
            | Action::Reconfigure { node: n, .. }
            | Action::VerifyNode { node: n }
            | Action::UncordonNode { node: n } => Self::Update { node: node(n) },
            Action::DrainNode { node: n }
            | Action::MoveLeadership { node: n }
            | Action::RebootNode { node: n, .. } => Self::Reboot { node: node(n) },
            Action::CordonNode { node: n } => Self::Cordon { node: node(n) },
            Action::ReleaseNode { node: n } => Self::Uncordon { node: node(n) },
            Action::ShutdownNode { node: n } => Self::Shutdown { node: node(n) },
            Action::DeleteDisk { node: n, .. } => Self::DeleteDisks { node: node(n) },
            Action::PowerCycleVm { node: n, .. } => Self::PowerCycle { node: node(n) },
            Action::MigrateVm { node: n, to, .. } => Self::Move { node: node(n), host: to.clone() },
            Action::RenewDisk { node: n, .. } => Self::Replace { node: node(n) },
            Action::InstallTalos { node: n, .. } => Self::UpgradeTalos { node: node(n) },
            Action::UpgradeComponent { node: n, .. } => Self::UpgradeKubernetes { node: node(n) },
            Action::LeaveEtcd { node: n } | Action::DeleteNode { node: n } => Self::Remove { node: node(n) },
            Action::StopVm { node: n, .. } | Action::DeleteVm { node: n, .. } => {
                Self::Replace { node: node(n) }
            }
            Action::DeleteRecord { .. } | Action::RemoveAccount { .. } => Self::Destroy,
            Action::CreateVm { node: n, .. }
            | Action::CloneVm { node: n, .. }
            | Action::StartVm { node: n, .. }
            | Action::Configure { node: n, .. }
            | Action::Bootstrap { node: n }
            | Action::Join { node: n } => Self::Create { node: Some(node(n)) },
            Action::RegisterSchematic { .. }
            | Action::DownloadImage { .. }
            | Action::CreateRecord { .. }
            | Action::SealRecord { .. }
            | Action::UpdateRecord { .. }
            | Action::MigrateRecord { .. }
            | Action::DrainHost { .. }
            | Action::UndrainHost { .. }
            | Action::CreateTemplate { .. }
            | Action::CreateCredentials { .. }
            | Action::PullImage { .. }
            | Action::PullImages { .. }
            | Action::UpgradeProxy { .. }
            | Action::SnapshotEtcd
            | Action::CheckHealth => Self::Create { node: None },
        }
    }
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Create { node: None } => f.write_str("prepare the cluster"),
            Self::Create { node: Some(node) } => write!(f, "create {node}"),
            Self::Update { node } => write!(f, "update {node} in place"),
            Self::RestartServices { node } => write!(f, "restart services of {node}"),
            Self::Reboot { node } => write!(f, "reboot {node}"),
            Self::PowerCycle { node } => write!(f, "power cycle {node}"),
            Self::DeleteDisks { node } => write!(f, "delete disks of {node}"),
            Self::UpgradeTalos { node } => write!(f, "upgrade Talos on {node}"),
            Self::UpgradeKubernetes { node } => write!(f, "upgrade Kubernetes on {node}"),
            Self::Replace { node } => write!(f, "replace {node}"),
            Self::Remove { node } => write!(f, "remove {node}"),
            Self::Move { node, host } => write!(f, "move {node} to {host}"),
            Self::Shutdown { node } => write!(f, "shut {node} down"),
            Self::Drain { node } => write!(f, "drain {node}"),
            Self::Cordon { node } => write!(f, "cordon {node}"),
            Self::Uncordon { node } => write!(f, "uncordon {node}"),
            Self::Destroy => f.write_str("delete the cluster"),
        }
    }
}

/// What a person agreed to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Approval {
    goals: BTreeSet<Goal>,
}

impl Approval {
    /// Agrees to these goals, and to nothing else.
    #[must_use]
    pub fn of(goals: impl IntoIterator<Item = Goal>) -> Self {
        Self { goals: goals.into_iter().collect() }
    }

    /// Agrees to these goals, too.
    pub fn add(&mut self, goals: impl IntoIterator<Item = Goal>) {
        self.goals.extend(goals);
    }

    /// Which of these goals were not approved. A person who approved that a node is created, replaced, rebooted or upgraded agreed that it is
    /// brought to the file in lesser ways, too.
    #[must_use]
    pub fn lacks(&self, goals: &BTreeSet<Goal>) -> BTreeSet<Goal> {
        goals.iter().filter(|goal| !self.covers(goal)).cloned().collect()
    }

    fn covers(&self, goal: &Goal) -> bool {
        let has = |goal: Goal| self.goals.contains(&goal);
        if self.goals.contains(goal) {
            return true;
        }
        match goal {
            // What is made or awaited on the way to anything.
            Goal::Create { node: None } => !self.goals.is_empty(),
            Goal::Create { node: Some(node) } => has(Goal::Replace { node: node.clone() }),
            Goal::Update { node } | Goal::RestartServices { node } => {
                let node = || node.clone();
                has(Goal::Create { node: Some(node()) })
                    || has(Goal::Replace { node: node() })
                    || has(Goal::Reboot { node: node() })
                    || has(Goal::PowerCycle { node: node() })
                    || has(Goal::DeleteDisks { node: node() })
                    || has(Goal::UpgradeTalos { node: node() })
                    || has(Goal::UpgradeKubernetes { node: node() })
                    || (matches!(goal, Goal::Update { .. }) && has(Goal::RestartServices { node: node() }))
            }
            Goal::Reboot { node } => {
                has(Goal::PowerCycle { node: node.clone() })
                    || has(Goal::UpgradeTalos { node: node.clone() })
                    || has(Goal::DeleteDisks { node: node.clone() })
            }
            Goal::PowerCycle { .. }
            | Goal::DeleteDisks { .. }
            | Goal::UpgradeTalos { .. }
            | Goal::UpgradeKubernetes { .. }
            | Goal::Replace { .. }
            | Goal::Remove { .. }
            | Goal::Move { .. }
            | Goal::Shutdown { .. }
            | Goal::Drain { .. }
            | Goal::Cordon { .. }
            | Goal::Uncordon { .. }
            | Goal::Destroy => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lacks(approved: Goal, asked: Goal) -> bool {
        !Approval::of([approved]).lacks(&BTreeSet::from([asked])).is_empty()
    }

    #[test]
    fn a_lesser_change_of_the_same_node_is_covered_and_a_greater_one_is_not() {
        let node = || NodeName::from("w-1");
        assert!(!lacks(Goal::PowerCycle { node: node() }, Goal::Reboot { node: node() }));
        assert!(lacks(Goal::Reboot { node: node() }, Goal::PowerCycle { node: node() }));
        assert!(!lacks(Goal::Reboot { node: node() }, Goal::Update { node: node() }));
        assert!(lacks(Goal::Update { node: node() }, Goal::RestartServices { node: node() }));
        assert!(lacks(Goal::Reboot { node: node() }, Goal::Reboot { node: "w-2".into() }));
        assert!(lacks(Goal::Update { node: node() }, Goal::Remove { node: node() }));
        assert!(lacks(Goal::Create { node: None }, Goal::Create { node: Some(node()) }));
        assert!(!lacks(Goal::Update { node: node() }, Goal::Create { node: None }));
    }
}
