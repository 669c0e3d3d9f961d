//! Nodes that run another version of Talos or Kubernetes than the file says.
//!
//! Changing a version is an upgrade, which is more than a configuration: it is said as such, once for all nodes that need it, with
//! what runs, what is wanted, and both ways out.

use super::bring_up::Builder;
use super::{Refusal, RefusalCode};
use crate::blueprint::{Blueprint, Node};
use crate::names::NodeName;
use crate::natural;

/// What has a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Versioned {
    Talos,
    Kubernetes,
}

/// A version that runs, the one that the file asks for, and the nodes.
type Upgrade = ((Versioned, String, String), Vec<NodeName>);

impl Builder<'_> {
    /// Notes that a node runs another version than the file asks for.
    pub(super) fn other_version(&mut self, of: Versioned, node: &Node, runs: &str) {
        let wanted = match of {
            Versioned::Talos => &node.talos,
            Versioned::Kubernetes => &node.kubernetes,
        };
        let upgrade = (of, runs.to_owned(), wanted.clone());
        self.upgrades.entry(upgrade).or_default().push(node.name.clone());
    }

    /// Says which upgrades the file asks for.
    pub(super) fn versions(&mut self) {
        let upgrades = std::mem::take(&mut self.upgrades);
        let refusals = upgrades.into_iter().map(|upgrade| refusal(self.blueprint, upgrade));
        self.refusals.extend(refusals);
    }
}

fn refusal(blueprint: &Blueprint, ((of, runs, wanted), nodes): Upgrade) -> Refusal {
    let (name, key) = match of {
        Versioned::Talos => ("Talos", "talos"),
        Versioned::Kubernetes => ("Kubernetes", "kubernetes"),
    };
    let verb = if nodes.len() == 1 { "runs" } else { "run" };
    let first = nodes.first().and_then(|node| blueprint.nodes.get(node));
    let address = match of {
        Versioned::Talos => first,
        // One control plane node makes the upgrade of all.
        Versioned::Kubernetes => blueprint.control_planes().next(),
    };
    let address = address.map(|node| node.address.addr().to_string()).unwrap_or_default();
    let upgrade = match of {
        Versioned::Talos => format!(
            "`talosctl upgrade --nodes {address} --image IMAGE`, one node at a time, with the `machine.install.image` that `talosmith \
             render` writes for it"
        ),
        Versioned::Kubernetes => {
            format!("`talosctl upgrade-k8s --nodes {address} --to {}`", wanted.trim_start_matches('v'))
        }
    };
    if natural::compare(&wanted, &runs).is_lt() {
        return Refusal {
            code: RefusalCode::Differs,
            why: format!(
                "{} {verb} {name} {runs}, and the file asks for {wanted}, which is older: {name} cannot be downgraded",
                nodes.join(", ")
            ),
            hint: format!(
                "write `{key}: {runs}` under `versions` in the file (of the cluster, the pool or the node)"
            ),
        };
    }
    Refusal {
        code: RefusalCode::Differs,
        why: format!(
            "{} {verb} {name} {runs}, and the file asks for {wanted}: this version of Talosmith does not upgrade {name} yet",
            nodes.join(", ")
        ),
        hint: format!(
            "to stay with what runs, write `{key}: {runs}` under `versions` in the file (of the cluster, the pool or the node); to \
             upgrade now, run {upgrade}, and then this command again"
        ),
    }
}
