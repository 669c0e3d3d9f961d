//! An upgrade that the file asks for: its hops, and the nodes that it concerns. How hops are found is `hops`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::names::NodeName;

/// One verified stop on the way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Hop {
    /// All nodes run this Talos afterwards.
    Talos(String),
    /// The cluster runs this Kubernetes afterwards.
    Kubernetes(String),
}

/// A part of Kubernetes that a machine config names an image for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Component {
    /// kube-apiserver.
    ApiServer,
    /// kube-controller-manager.
    ControllerManager,
    /// kube-scheduler.
    Scheduler,
    /// kube-proxy.
    Proxy,
    Kubelet,
}

impl Component {
    /// All of them, in the order in which an upgrade changes them: nothing may be newer than the API server.
    pub const ALL: [Self; 5] =
        [Self::ApiServer, Self::ControllerManager, Self::Scheduler, Self::Proxy, Self::Kubelet];

    /// As Kubernetes calls it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ApiServer => "kube-apiserver",
            Self::ControllerManager => "kube-controller-manager",
            Self::Scheduler => "kube-scheduler",
            Self::Proxy => "kube-proxy",
            Self::Kubelet => "kubelet",
        }
    }

    /// Whether the kubelet of a control plane node runs it as a static pod.
    #[must_use]
    pub fn is_static_pod(self) -> bool {
        matches!(self, Self::ApiServer | Self::ControllerManager | Self::Scheduler)
    }
}

impl fmt::Display for Component {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Versions of parts of Kubernetes, with the leading `v`.
pub type Components = BTreeMap<Component, String>;

/// An upgrade that the file asks for and that is not complete.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Upgrade {
    /// Every hop that is left. A plan makes the first one.
    pub hops: Vec<Hop>,
    /// Nodes that run another Talos than the file says, or start with another one.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub talos: BTreeMap<NodeName, VersionChange>,
    /// Nodes that run another Kubernetes than the file says. Where their components differ, the oldest counts.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub kubernetes: BTreeMap<NodeName, VersionChange>,
    /// Nodes that exist and did not tell what they run. No hop is made as long as there is one: it may be the one that is left behind.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub unknown: BTreeSet<NodeName>,
    /// Those of `unknown` that Talosmith cordoned: they may be rebooting for this upgrade.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub rebooting: BTreeSet<NodeName>,
    /// Nodes whose machine config differs from the file in more than versions. It is changed first, with the Kubernetes that runs.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub configured_first: BTreeSet<NodeName>,
    /// Why there is no way to what the file asks for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

impl Upgrade {
    /// Whether nothing but a reboot of its own holds it up.
    #[must_use]
    pub fn waits_for_reboot(&self) -> bool {
        !self.rebooting.is_empty() && self.unknown == self.rebooting
    }

    /// The version of Kubernetes that the next hop brings, where it is one of Kubernetes.
    #[must_use]
    pub fn next_kubernetes(&self) -> Option<&str> {
        match self.hops.first() {
            Some(Hop::Kubernetes(version)) => Some(version),
            _ => None,
        }
    }

    /// The hops of Talos that are left.
    pub fn talos_hops(&self) -> impl Iterator<Item = &str> {
        self.hops.iter().filter_map(|hop| match hop {
            Hop::Talos(version) => Some(version.as_str()),
            Hop::Kubernetes(_) => None,
        })
    }
}

/// What a node runs, and what the file asks for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VersionChange {
    /// What runs.
    pub runs: String,
    /// What the file asks for.
    pub wanted: String,
}

/// Patch releases that the file names for stops on the way.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Via {
    pub talos: Vec<String>,
    pub kubernetes: Vec<String>,
}

/// The hops as one line for people: `Talos v1.12.11 → v1.13.10 → v1.14.1, then Kubernetes v1.35.4`.
#[must_use]
pub fn told(hops: &[Hop]) -> String {
    let mut told = String::new();
    let mut last = None;
    for hop in hops {
        let (name, version) = match hop {
            Hop::Talos(version) => ("Talos", version),
            Hop::Kubernetes(version) => ("Kubernetes", version),
        };
        told += &match last {
            Some(last) if last == name => format!(" → {version}"),
            Some(_) => format!(", then {name} {version}"),
            None => format!("{name} {version}"),
        };
        last = Some(name);
    }
    told
}

impl fmt::Display for Hop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Talos(version) => write!(f, "Talos {version}"),
            Self::Kubernetes(version) => write!(f, "Kubernetes {version}"),
        }
    }
}
