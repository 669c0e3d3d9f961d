//! What an operator allows a plan to do beyond what is harmless: each by name, none of it by default.

use crate::blueprint::Blueprint;
use crate::names::NodeName;
use crate::vm::words;
use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

/// What an operator allows.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Allowed {
    /// Nodes whose data may be deleted.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub nodes: BTreeSet<NodeName>,
    /// Disks that may be deleted with their data, by node.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub disks: BTreeMap<NodeName, BTreeSet<String>>,
    /// Nodes that the file does not have any more may be deleted with their data.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub removed: bool,
    /// The Kubernetes API may be unreachable while the only control plane node, or one of two, restarts.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub api_outage: bool,
    /// Disruptions may start outside of the maintenance window.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub outside_window: bool,
}

impl Allowed {
    /// The data of these nodes may be deleted.
    #[must_use]
    pub fn data_of<Name: Into<NodeName>>(nodes: impl IntoIterator<Item = Name>) -> Self {
        Self { nodes: nodes.into_iter().map(Into::into).collect(), ..Self::default() }
    }

    /// Whether the data of this node may be deleted.
    #[must_use]
    pub fn node(&self, name: &str) -> bool {
        self.nodes.contains(name)
    }

    /// Whether this disk of a node may be deleted with its data.
    #[must_use]
    pub fn disk(&self, node: &str, disk: &str) -> bool {
        self.node(node) || self.disks.get(node).is_some_and(|disks| disks.contains(disk))
    }

    /// The same, with disks that were named as the file names them by their keys in Proxmox. A key is never read as a name.
    #[must_use]
    pub fn by_key(&self, blueprint: &Blueprint) -> Self {
        let key = |node: &NodeName, disk: &String| {
            let disks = blueprint.nodes.get(node).map(|node| &node.hardware.disks);
            let named = disks.into_iter().flatten().find(|own| own.name == *disk && !words::is_drive(disk));
            named.map_or_else(|| disk.clone(), |own| own.key())
        };
        let disks = self.disks.iter().map(|(node, disks)| {
            (node.clone(), disks.iter().map(|disk| key(node, disk)).collect::<BTreeSet<String>>())
        });
        Self { disks: disks.collect(), ..self.clone() }
    }

    /// Whether nothing is allowed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
