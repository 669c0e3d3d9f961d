//! What Kubernetes says.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};

use crate::blueprint::Taint;
use crate::names::NodeName;
use crate::spec::HealthGate;

/// What Kubernetes says.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kubernetes {
    /// Whether its API answered.
    pub answered: bool,
    /// Whether it answered with this cluster's authority, and did not tell what it was asked.
    #[serde(default)]
    pub refused: bool,
    /// Nodes by name.
    pub nodes: BTreeMap<NodeName, KubernetesNode>,
    /// PodDisruptionBudgets that allow no eviction now; `None` where that was not told. It changes with every pod, so a saved plan does
    /// not hold it.
    #[serde(skip)]
    pub budgets: Option<Vec<BlockingBudget>>,
    /// Those of the Secrets for [`Holder`](crate::holder::Holder)s that are there, as `namespace/name`.
    pub secrets: BTreeSet<String>,
    /// How the systems stand that the file wants to be healthy before a disruption. It changes from one moment to the next, so a saved
    /// plan does not hold it.
    #[serde(skip)]
    pub health: BTreeMap<HealthGate, Health>,
    /// How often the lease of a cluster without Proxmox went from one operator to another.
    #[serde(default)]
    pub lease_turns: i32,
}

/// How a system stands that must be healthy before a disruption.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Health {
    /// All of it is healthy.
    Healthy,
    /// Something is not.
    Unhealthy {
        /// What, by name.
        what: String,
    },
    /// Kubernetes does not know its resources: it is not installed.
    Missing,
    /// Kubernetes did not tell.
    Unknown { why: String },
}

/// One node as Kubernetes sees it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KubernetesNode {
    /// Its `Ready` condition.
    pub ready: bool,
    /// Kubelet version.
    pub version: String,
    /// Whether new pods may go there.
    pub schedulable: bool,
    /// Whether a cloud provider has still to look at it.
    pub uninitialized: bool,
    /// Whether it has the label of control plane nodes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub control_plane: bool,
    /// Why Talosmith cordoned it, where it did: the annotation that it leaves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cordoned: Option<String>,
    /// The command with which a person cordoned it, where it was one of Talosmith: the annotation that it leaves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cordoned_with: Option<String>,
    /// The first address that its kubelet reported (`InternalIP`). A DHCP server may change it, so a saved plan does not hold it.
    #[serde(skip)]
    pub address: Option<Ipv4Addr>,
    /// The boot ID that its kubelet reported. It changes with every boot, so a saved plan does not hold it.
    #[serde(skip)]
    pub boot_id: Option<String>,
    /// Its conditions (`Ready`, `MemoryPressure`, …) with their status. A saved plan holds only whether it is ready.
    #[serde(skip)]
    pub conditions: BTreeMap<String, String>,
    /// Its labels. Other programs change labels, annotations and taints at any time, so a saved plan does not hold them.
    #[serde(skip)]
    pub labels: BTreeMap<String, String>,
    #[serde(skip)]
    pub annotations: BTreeMap<String, String>,
    /// Its taints, with their keys. A key may have one for each effect.
    #[serde(skip)]
    pub taints: Vec<(String, Taint)>,
    /// Why it is not ready, where Kubernetes says so. In its words, which change from one moment to the next, so nothing is
    /// planned by them and a saved plan does not hold them.
    #[serde(skip)]
    pub not_ready: Option<NotReady>,
}

/// Who keeps new pods off a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "by")]
pub enum Cordon {
    /// Talosmith, which uncordons it again.
    Talosmith {
        /// Why, as its annotation says.
        reason: String,
    },
    /// A person or another program. Talosmith does not uncordon it.
    Person {
        /// The command of Talosmith and who ran it, where it was one: `drain by eva@laptop`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        command: Option<String>,
    },
}

impl KubernetesNode {
    /// Who cordoned it; `None` where it is not cordoned. An annotation that is left on a node that takes pods means nothing.
    #[must_use]
    pub fn cordon(&self) -> Option<Cordon> {
        match &self.cordoned {
            _ if self.schedulable => None,
            Some(reason) => Some(Cordon::Talosmith { reason: reason.clone() }),
            None => Some(Cordon::Person { command: self.cordoned_with.clone() }),
        }
    }

    /// Conditions other than `Ready` that are not as they should be, such as `DiskPressure`.
    pub fn complaints(&self) -> impl Iterator<Item = &str> {
        let bad = self.conditions.iter().filter(|(name, status)| *name != "Ready" && *status == "True");
        bad.map(|(name, _)| name.as_str())
    }
}

/// A PodDisruptionBudget that allows no eviction now.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct BlockingBudget {
    pub namespace: String,
    pub name: String,
    /// Nodes that run pods of it, which could not be drained now.
    pub nodes: BTreeSet<NodeName>,
}

/// Why a node is not ready.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotReady {
    /// Its kubelet waits for a CNI plugin.
    NetworkPlugin,
    /// Its kubelet has stopped reporting: the machine is off, restarts or cannot reach Kubernetes.
    KubeletSilent,
    /// Anything else, as the kubelet says it.
    Other(String),
}

impl NotReady {
    /// What the condition `Ready` of a node says.
    #[must_use]
    pub fn of(status: &str, message: &str) -> Option<Self> {
        match status {
            "True" => None,
            "Unknown" => Some(Self::KubeletSilent),
            _ if message.contains("NetworkPluginNotReady")
                || message.contains("cni plugin not initialized") =>
            {
                Some(Self::NetworkPlugin)
            }
            _ => Some(Self::Other(message.split_whitespace().collect::<Vec<_>>().join(" "))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cordon_is_ours_only_with_our_annotation() {
        let node = |schedulable, cordoned: Option<&str>| {
            let cordoned = cordoned.map(str::to_owned);
            KubernetesNode { schedulable, cordoned, ..KubernetesNode::default() }.cordon()
        };
        assert_eq!(node(true, None), None);
        assert_eq!(node(true, Some("reboot")), None, "a leftover");
        assert_eq!(node(false, None), Some(Cordon::Person { command: None }));
        assert_eq!(node(false, Some("reboot")), Some(Cordon::Talosmith { reason: "reboot".into() }));
    }

    #[test]
    fn a_condition_that_is_true_is_a_complaint_unless_it_is_ready() {
        let conditions = [("Ready", "True"), ("DiskPressure", "True"), ("MemoryPressure", "False")];
        let conditions = conditions.map(|(name, status)| (name.to_owned(), status.to_owned())).into();
        let node = KubernetesNode { conditions, ..KubernetesNode::default() };
        assert_eq!(node.complaints().collect::<Vec<_>>(), ["DiskPressure"]);
    }
}
