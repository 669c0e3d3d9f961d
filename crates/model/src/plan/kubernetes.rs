//! Nodes that run other versions of Kubernetes than they should after the next hop.
//!
//! ```text
//! pull-images on every node ─► [snapshot-etcd] ─► kube-apiserver/NODE … ─► kube-controller-manager/NODE … ─► kube-scheduler/NODE …
//!     ─► kube-proxy in the machine configs ─► upgrade/NODE: drain-node ─► upgrade-component ─► verify-node ─► uncordon-node
//! ```
//!
//! Nothing may be newer than the oldest API server, so one part of the control plane follows the other over all control plane nodes,
//! and kubelets come last ([`super::units`]). A kubelet of another minor release gets a drained node, one of another patch release just
//! restarts. An upgrade changes versions and nothing else: what else differs in machine configs is changed before.

use std::collections::{BTreeMap, BTreeSet};

use super::bring_up::{Builder, usual};
use super::{Blocked, Note};
use crate::blueprint::{Node, Role};
use crate::forms::Version;
use crate::names::NodeName;
use crate::observed::ComponentChange;
use crate::step::{Action, Disruption, StepId};
use crate::upgrade::Component;

/// A kubelet that gets another version.
#[derive(Debug)]
pub(super) struct KubeletUpgrade {
    /// The version that runs.
    pub(super) runs: String,
    /// The version that it gets.
    pub(super) version: String,
}

impl KubeletUpgrade {
    /// Whether it crosses a minor release, which Kubernetes supports on a drained node only.
    pub(super) fn is_minor(&self) -> bool {
        minor(&self.runs) != minor(&self.version)
    }
}

/// A part of Kubernetes, other than a kubelet, that gets another version on one node.
#[derive(Debug)]
pub(super) struct ComponentUpgrade {
    pub(super) node: NodeName,
    pub(super) change: ComponentChange,
    /// Steps that come before.
    pub(super) after: Vec<StepId>,
}

/// The minor release of a version.
fn minor(version: &str) -> Option<u64> {
    Version::read(version).map(|version| version.minor)
}

/// Changes of one plan, by node.
type Changes = BTreeMap<NodeName, Vec<ComponentChange>>;

impl Builder<'_> {
    /// Turns other versions of Kubernetes into needs of nodes, or says why not.
    pub(super) fn upgrade_kubernetes(&mut self, installs: bool) {
        self.tell_configured_first();
        let mut changes = std::mem::take(&mut self.kubernetes);
        changes.retain(|node, _| self.targets.is_empty() || self.targets.contains(node));
        if changes.is_empty() || self.refuse_older(&changes) {
            return;
        }
        if installs {
            let text = "Kubernetes is upgraded once all nodes run the image of Talos in the file, by the plan that follows";
            self.notes.push(Note { text: text.to_owned() });
            return;
        }
        if !self.may_upgrade_kubernetes(&changes) {
            return;
        }
        let drained = changes.iter().filter(|(_, changes)| {
            let kubelet = changes.iter().find(|change| change.component == Component::Kubelet);
            kubelet.is_some_and(|change| minor(&change.runs) != minor(&change.wanted))
        });
        let drained: Vec<NodeName> = drained.map(|(node, _)| node.clone()).collect();
        self.tell_path(&drained);
        let pulled = self.pull_components(&changes);
        self.proxy = self.next_proxy().map(|version| (version, pulled.clone()));
        for (node, changes) in changes {
            let is_worker = self.blueprint.nodes.get(&node).is_some_and(|node| node.role == Role::Worker);
            let has_kubelet = changes.iter().any(|change| change.component == Component::Kubelet);
            for change in changes {
                if change.component == Component::Kubelet {
                    let (runs, version) = (change.runs, change.wanted);
                    self.need(&node, pulled.clone()).kubelet = Some(KubeletUpgrade { runs, version });
                } else if !(is_worker && has_kubelet) {
                    // A worker runs none of them; what its machine config says of them comes with its kubelet.
                    let after = pulled.clone();
                    self.components.push(ComponentUpgrade { node: node.clone(), change, after });
                }
            }
        }
    }

    /// The version that the pods of kube-proxy get with this hop: that of all control plane nodes after it. None where Talos does not
    /// bring kube-proxy, or the plan leaves a control plane node out.
    fn next_proxy(&self) -> Option<String> {
        let nodes: Vec<&Node> = self.blueprint.control_planes().collect();
        let mut versions = BTreeSet::new();
        for node in &nodes {
            let machine = self.observed.machines.get(&node.name);
            if machine.is_some_and(|machine| machine.components.contains_key(&Component::Proxy)) {
                // What has no version of its own gets that of the file, as its kubelet does.
                versions.insert(node.components.get(&Component::Proxy).unwrap_or(&node.kubernetes));
            }
        }
        let is_target = |node: &&Node| self.targets.is_empty() || self.targets.contains(&node.name);
        let version = versions.first().filter(|_| versions.len() == 1 && nodes.iter().all(is_target));
        version.map(|version| (*version).clone())
    }

    /// No node is disrupted before every node has its images.
    fn pull_components(&mut self, changes: &Changes) -> Vec<StepId> {
        let mut pulled = vec![];
        for (node, changes) in changes {
            // kube-proxy is no part of the machine: its pods are replaced one after another, and pull by themselves.
            let images = changes.iter().filter(|change| change.component != Component::Proxy);
            let images = images.map(|change| (change.component, change.image.clone()));
            let images: BTreeMap<Component, String> = images.collect();
            if images.is_empty() {
                continue;
            }
            let reason = "nothing is disrupted before every node has its images of Kubernetes";
            let action = Action::PullImages { node: node.clone(), images };
            pulled.push(self.push(action, vec![], reason, usual::PULL));
        }
        pulled
    }

    /// Whether the file asks for something older than what runs, which is refused.
    fn refuse_older(&mut self, changes: &Changes) -> bool {
        let mut older: BTreeMap<(&str, &str), BTreeSet<&str>> = BTreeMap::new();
        for (node, changes) in changes {
            for change in changes {
                let versions = Version::read(&change.runs).zip(Version::read(&change.wanted));
                if versions.is_some_and(|(runs, wanted)| wanted.is_before(&runs)) {
                    older.entry((&change.runs, &change.wanted)).or_default().insert(node);
                }
            }
        }
        for ((runs, wanted), nodes) in &older {
            let nodes: Vec<&str> = nodes.iter().copied().collect();
            let verb = if nodes.len() == 1 { "runs" } else { "run" };
            let why = format!(
                "{} {verb} Kubernetes {runs}, and the file asks for {wanted}, which is older: Kubernetes is not downgraded",
                nodes.join(", ")
            );
            self.refuse_versions(why, &format!("kubernetes: {runs}"));
        }
        !older.is_empty()
    }

    /// Says that machine configs are changed first, or that they keep the upgrade from going on.
    fn tell_configured_first(&mut self) {
        let upgrade = self.blueprint.upgrade.as_ref().filter(|upgrade| upgrade.problem.is_none());
        let Some((version, nodes)) =
            upgrade.and_then(|upgrade| Some((upgrade.next_kubernetes()?, &upgrade.configured_first)))
        else {
            return;
        };
        let is_changed = |node: &&NodeName| {
            let step = Action::reconfigure(node).id();
            self.needs.get(*node).is_some_and(|need| need.config.is_some())
                || self.steps.iter().any(|known| known.id == step)
        };
        let (changed, stay): (Vec<&NodeName>, Vec<&NodeName>) = nodes.iter().partition(is_changed);
        let named =
            |nodes: &[&NodeName]| nodes.iter().map(|node| node.as_str()).collect::<Vec<_>>().join(", ");
        if !stay.is_empty() {
            let what = format!(
                "Talosmith does not upgrade Kubernetes to {version}: the machine config of {} differs from the file in more than \
                 versions, and this plan does not change that",
                named(&stay)
            );
            let hint = "remove what blocks the change of these machine configs, or write what they run into the file";
            self.blocked.push(Blocked {
                node: None,
                what,
                disruption: Disruption::ServiceRestart,
                hint: hint.to_owned(),
            });
        } else if !changed.is_empty() {
            let text = format!(
                "the upgrade to Kubernetes {version} follows once the machine config of {} matches the file in everything but versions",
                named(&changed)
            );
            self.notes.push(Note { text });
        }
    }

    /// Whether nothing is known that would keep the upgrade from its end. What is, is blocked by name.
    fn may_upgrade_kubernetes(&mut self, changes: &Changes) -> bool {
        let before = self.blocked.len();
        let unknown = self.blueprint.upgrade.iter().flat_map(|upgrade| upgrade.unknown.clone());
        for node in unknown.collect::<Vec<_>>() {
            let what = format!(
                "Talosmith does not upgrade Kubernetes: {node} does not respond, so it is not known what it runs; it could be left behind"
            );
            let hint = format!(
                "bring {node} back (`talosmith status` says what is known of it), replace it, or take it out of the file"
            );
            self.block(&node, Disruption::ServiceRestart, what, hint);
        }
        for (node, machine) in &self.observed.machines {
            if machine.component_problems.is_empty() {
                continue;
            }
            let what = format!(
                "Talosmith does not upgrade Kubernetes: {node} has settings that the next version does not know, and would not start \
                 with: {}",
                machine.component_problems.join("; ")
            );
            let hint = "remove them from the patches in the file, apply with the version that runs, and upgrade then";
            self.blocked.push(Blocked {
                node: Some(node.clone()).filter(|node| self.blueprint.nodes.contains_key(node)),
                what,
                disruption: Disruption::ServiceRestart,
                hint: hint.to_owned(),
            });
        }
        self.behind_api_servers(changes);
        let may = self.blocked.len() == before;
        if !self.targets.is_empty() {
            for blocked in self.blocked.iter_mut().skip(before) {
                blocked.node = blocked.node.take().filter(|node| self.targets.contains(node));
            }
        }
        may
    }

    /// Nothing may be of a newer minor release than the oldest API server, whichever nodes the plan is about.
    fn behind_api_servers(&mut self, changes: &Changes) {
        let after_plan = |node: &NodeName| {
            let change = changes.get(node).into_iter().flatten();
            let planned = change.into_iter().find(|change| change.component == Component::ApiServer);
            let planned = planned.map(|change| change.wanted.clone());
            let runs = || self.observed.machines.get(node)?.components.get(&Component::ApiServer).cloned();
            minor(&planned.or_else(runs)?)
        };
        let servers =
            self.blueprint.control_planes().filter_map(|node| Some((after_plan(&node.name)?, node)));
        let Some((oldest, server)) = servers.min_by_key(|(minor, _)| *minor) else { return };
        let server = server.name.clone();
        let ahead = changes.iter().filter(|(_, changes)| {
            changes.iter().any(|change| minor(&change.wanted).is_some_and(|minor| minor > oldest))
        });
        let ahead: Vec<&str> = ahead.map(|(node, _)| node.as_str()).collect();
        if ahead.is_empty() {
            return;
        }
        let what = format!(
            "Talosmith does not upgrade Kubernetes on {}: kube-apiserver on {server} stays at 1.{oldest}, and nothing may be newer than that",
            ahead.join(", ")
        );
        let hint =
            "apply without `--target`, or give the control plane nodes a newer version in the file, too";
        self.blocked.push(Blocked {
            node: None,
            what,
            disruption: Disruption::ServiceRestart,
            hint: hint.to_owned(),
        });
    }
}
