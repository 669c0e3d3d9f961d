//! Where an upgrade goes: what a person must know of all of its hops before the first one, and which nodes stay behind.
//!
//! All hops are approved with the first plan, so that plan tells what any of them means. With `--target`, nodes that the plan is not
//! about keep what they run, and no node goes further ahead of them than one hop.

use std::collections::BTreeSet;

use super::bring_up::Builder;
use super::{Blocked, Note};
use crate::forms::Version;
use crate::hops::etcd_of;
use crate::names::NodeName;
use crate::step::Disruption;
use crate::upgrade::{self, Hop, Upgrade};

/// How many minor releases of Talos control plane nodes may be apart.
const MAX_APART: u64 = 1;

/// A control plane node on the way.
struct Voter {
    node: NodeName,
    runs: Version,
    wanted: Version,
}

impl Voter {
    /// The minor release that it runs after a hop to another one.
    fn after(&self, hop: u64) -> u64 {
        self.runs.minor.max(hop).min(self.wanted.minor.max(self.runs.minor))
    }
}

/// The hops that a plan for these nodes leads to: the first one only, where a node that it is not about stays behind.
pub(super) fn hops(upgrade: &Upgrade, targets: &BTreeSet<NodeName>) -> Vec<Hop> {
    let stays_behind = |node: &NodeName| !targets.is_empty() && !targets.contains(node);
    let mut behind = upgrade.talos.keys().chain(upgrade.kubernetes.keys());
    let number = if behind.any(stays_behind) { 1 } else { usize::MAX };
    upgrade.hops.iter().take(number).cloned().collect()
}

impl Builder<'_> {
    /// Says where the upgrade goes, and what that means, before its first hop.
    pub(super) fn tell_path(&mut self, drained: &[NodeName]) {
        let targets = &self.targets;
        let drained = drained.iter().filter(|node| targets.is_empty() || targets.contains(*node));
        let nodes: Vec<NodeName> = drained.cloned().collect();
        self.tell_hops();
        self.tell_budgets(&nodes);
        self.tell_no_return();
        self.tell_removals();
        self.tell_newcomers();
        self.tell_ignored_stops();
    }

    fn note(&mut self, text: String) {
        self.notes.push(Note { text });
    }

    /// The hops of Talos that this plan leads to.
    fn talos_hops(&self) -> Vec<Version> {
        let hops = self.blueprint.upgrade.iter().flat_map(|upgrade| hops(upgrade, &self.targets));
        let talos = hops.filter_map(|hop| match hop {
            Hop::Talos(version) => Version::read(&version),
            Hop::Kubernetes(_) => None,
        });
        talos.collect()
    }

    fn tell_hops(&mut self) {
        let upgrade = self.blueprint.upgrade.as_ref();
        let hops: Vec<Hop> = upgrade.map(|upgrade| hops(upgrade, &self.targets)).unwrap_or_default();
        if hops.len() > 1 {
            self.note(format!(
                "the upgrade goes to {}: `apply` makes one hop after the other, each when all nodes are healthy with the one before; this \
                 plan shows the first of {} hops, and its approval is for all of them",
                upgrade::told(&hops),
                hops.len()
            ));
        }
    }

    fn tell_budgets(&mut self, nodes: &[NodeName]) {
        let budgets = self.observed.kubernetes.budgets.iter().flatten();
        let blocking = budgets.filter_map(|budget| {
            let nodes: Vec<&str> =
                nodes.iter().map(NodeName::as_str).filter(|node| budget.nodes.contains(*node)).collect();
            (!nodes.is_empty())
                .then(|| format!("{}/{} ({})", budget.namespace, budget.name, nodes.join(", ")))
        });
        let blocking: Vec<String> = blocking.collect();
        if !blocking.is_empty() {
            self.note(format!(
                "PodDisruptionBudgets allow no eviction now: {}; a drain waits for them for `changes.drain_timeout`, and then stops the run",
                blocking.join(", ")
            ));
        }
    }

    /// Control plane nodes, with what each runs and what this plan and those after it bring it to.
    fn voters(&self) -> Vec<Voter> {
        let upgrade = self.blueprint.upgrade.as_ref();
        let voters = self.blueprint.control_planes().filter_map(|node| {
            let machine = self.observed.machines.get(&node.name).and_then(|machine| machine.talos.as_ref());
            let runs = Version::read(machine.unwrap_or(&node.talos))?;
            let is_target = self.targets.is_empty() || self.targets.contains(&node.name);
            let change = upgrade.and_then(|upgrade| upgrade.talos.get(&node.name)).filter(|_| is_target);
            let wanted = change.and_then(|change| Version::read(&change.wanted));
            let wanted = wanted.unwrap_or_else(|| runs.clone());
            Some(Voter { node: node.name.clone(), runs, wanted })
        });
        voters.collect()
    }

    /// From where on there is no way back: the hop with which the last member gets another minor of etcd, whichever it is.
    fn tell_no_return(&mut self) {
        let voters = self.voters();
        let etcd = |minor: u64| etcd_of(&Version::first(minor, 0));
        let Some(mut oldest) = voters.iter().map(|voter| voter.runs.minor).min() else { return };
        for hop in self.talos_hops() {
            let Some(after) = voters.iter().map(|voter| voter.after(hop.minor)).min() else { return };
            let (from, to) = (etcd(oldest), etcd(after));
            if from < to {
                self.note(format!(
                    "point of no return: etcd goes from {}.{} to {}.{} with the last control plane node in the hop to Talos {hop}; after that \
                     no node can go back to Talos 1.{oldest}",
                    from.0, from.1, to.0, to.1
                ));
            }
            oldest = after;
        }
    }

    /// What will keep Kubernetes from being upgraded, before Talos is.
    fn tell_removals(&mut self) {
        let upgrade = self.blueprint.upgrade.as_ref();
        if upgrade.is_none_or(|upgrade| upgrade.next_kubernetes().is_some()) {
            return;
        }
        let machines = self.observed.machines.iter();
        let found = machines.filter(|(_, machine)| !machine.component_problems.is_empty());
        let found: Vec<String> = found
            .map(|(node, machine)| format!("{node} has {}", machine.component_problems.join("; ")))
            .collect();
        if !found.is_empty() {
            self.note(format!(
                "Kubernetes is not upgraded after Talos until settings that the next version does not know are removed from the file: {}",
                found.join(". ")
            ));
        }
    }

    /// Nodes that are created in the middle of the upgrade make its hops, too.
    fn tell_newcomers(&mut self) {
        let upgrade = self.blueprint.upgrade.as_ref();
        let new = upgrade.into_iter().flat_map(|upgrade| &upgrade.talos);
        let new = new.filter(|(node, _)| {
            let runs = self.observed.machines.get(*node).is_some_and(|machine| machine.talos.is_some());
            !runs && (self.targets.is_empty() || self.targets.contains(*node))
        });
        let new: Vec<String> = new
            .map(|(node, change)| {
                format!(
                    "{node} starts with Talos {}, as the nodes that run, and is upgraded to {} afterwards",
                    change.runs, change.wanted
                )
            })
            .collect();
        new.into_iter().for_each(|text| self.note(text));
    }

    /// Stops in the file that are not on the way. One that was passed has done what it is for.
    fn tell_ignored_stops(&mut self) {
        let Some(upgrade) = &self.blueprint.upgrade else { return };
        let read = |text: &str| Version::read(text);
        let hops: Vec<Version> = upgrade.talos_hops().filter_map(read).collect();
        let runs: Vec<Version> = upgrade.talos.values().filter_map(|change| read(&change.runs)).collect();
        let Some(oldest) = runs.iter().map(|runs| runs.minor).min() else { return };
        let stops = self.blueprint.options.via.talos.iter().filter_map(|text| read(text));
        let ignored =
            stops.filter(|stop| stop.minor >= oldest && !hops.contains(stop) && !runs.contains(stop));
        let ignored: Vec<String> = ignored.map(|stop| stop.to_string()).collect();
        if !ignored.is_empty() {
            self.note(format!(
                "`versions.via` names Talos {}, which is not on the way to {}: it is not used",
                ignored.join(", "),
                upgrade::told(&upgrade.hops)
            ));
        }
    }

    /// Control plane nodes stay within one minor release: one that has its own version in the file may be left behind by the others.
    pub(super) fn stay_together(&mut self) {
        let voters = self.voters();
        let hops = self.talos_hops();
        let apart = |minor: &dyn Fn(&Voter) -> u64| {
            let behind = voters.iter().min_by_key(|voter| minor(voter))?;
            let rise =
                |voter: &&Voter| minor(voter) > minor(behind) + MAX_APART && voter.runs.minor < minor(voter);
            let ahead: Vec<&str> = voters.iter().filter(rise).map(|voter| voter.node.as_str()).collect();
            (!ahead.is_empty()).then(|| (behind.node.clone(), behind.runs.to_string(), ahead.join(", ")))
        };
        let found = hops
            .iter()
            .enumerate()
            .find_map(|(at, hop)| Some((at, hop, apart(&|voter: &Voter| voter.after(hop.minor))?)));
        let Some((at, hop, (behind, runs, ahead))) = found else { return };
        let why = format!(
            "{behind} stays at Talos {runs}, and control plane nodes must not be more than one minor release apart"
        );
        if at > 0 {
            return self.note(format!("the upgrade stops before the hop to Talos {hop} ({ahead}): {why}"));
        }
        let what = format!("Talosmith does not upgrade Talos on {ahead} to {hop}: {why}");
        let hint = format!(
            "give {behind} a newer version in the file (`versions` of the node or its pool), or apply it, too"
        );
        // It is the others that are blocked.
        self.blocked.push(Blocked { node: None, what, disruption: Disruption::Reboot, hint });
    }

    /// Warns of control plane nodes that run releases too far apart, whatever the file asks for.
    pub(super) fn tell_apart(&mut self) {
        let voters = self.voters();
        let oldest = voters.iter().min_by_key(|voter| voter.runs.minor);
        let newest = voters.iter().max_by_key(|voter| voter.runs.minor);
        let (Some(oldest), Some(newest)) = (oldest, newest) else { return };
        if newest.runs.minor > oldest.runs.minor + MAX_APART {
            self.note(format!(
                "{} runs Talos {}, and {} runs {}: control plane nodes must not be more than one minor release apart. Upgrade {} first",
                oldest.node, oldest.runs, newest.node, newest.runs, oldest.node
            ));
        }
    }

    /// Nodes that the plan is about and that are ahead of others that it is not about.
    pub(super) fn waiting(&mut self) {
        let Some(upgrade) = self.blueprint.upgrade.as_ref().filter(|_| !self.targets.is_empty()) else {
            return;
        };
        let planned = |node: &NodeName| self.blueprint.nodes.get(node).map(|node| node.talos.clone());
        let mut waiting = vec![];
        for (node, change) in upgrade.talos.iter().filter(|(node, _)| self.targets.contains(*node)) {
            if planned(node).as_ref() != Some(&change.runs) {
                continue;
            }
            let behind = upgrade.talos.iter().filter(|(other, theirs)| {
                !self.targets.contains(*other) && planned(other).is_some_and(|next| next != theirs.runs)
            });
            let behind: Vec<&str> = behind.map(|(other, _)| other.as_str()).collect();
            if !behind.is_empty() {
                let what = format!(
                    "Talosmith does not upgrade Talos on {node} from {} to {} yet: {} must make the hop before it first",
                    change.runs,
                    change.wanted,
                    behind.join(", ")
                );
                waiting.push((node.clone(), what));
            }
        }
        for (node, what) in waiting {
            let hint = "apply without `--target`, or name these nodes with `--target`, too";
            self.block(&node, Disruption::Reboot, what, hint.to_owned());
        }
    }
}
