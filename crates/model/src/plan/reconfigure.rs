//! A machine that runs another configuration than the file describes.
//!
//! What it follows at once it gets in place. What restarts services of it, or the machine, is for a unit of its node. What may cut it
//! off, and what a cluster that runs cannot change ([`fixed`]), is not done. A volume is taken from what uses it only where that is
//! allowed by name, like everything that concerns data. Control planes are configured again one after another, each once the one
//! before it was seen to run what it was sent, and workers when all control planes do: a mistake in the file then ends with the first
//! machine.

use std::collections::BTreeMap;

use super::bring_up::{Builder, usual};
use super::drift::Held;
use super::fixed::{self, Fixed};
use super::in_force::{self, Image};
use super::units::Config;
use super::{Note, Refusal, RefusalCode};
use crate::blueprint::{Node, Role};
use crate::names::NodeName;
use crate::observed::{Api, ComponentChange, ConfigChange, ConfigCost, ConfigDifference, ENDPOINT, Machine};
use crate::quorum;
use crate::step::{Action, Disruption, StepId};

/// What becomes of a manifest that differs.
const MANIFESTS: &str = "Talos adds manifests that are new, and changes none that it applied before: apply changed ones with \
                         `kubectl apply`";

impl Builder<'_> {
    /// Gives the node the configuration of the file once `after` is done, or says why not.
    pub(super) fn reconfigure(&mut self, node: &Node, changes: &[ConfigChange], mut after: Vec<StepId>) {
        // Another version of Kubernetes is an upgrade, which goes its own way; what else differs is changed before.
        let (versions, changes): (Vec<&ConfigChange>, Vec<&ConfigChange>) =
            changes.iter().partition(|change| change.of_component().is_some());
        let versions: Vec<ComponentChange> =
            versions.iter().filter_map(|change| change.of_component()).collect();
        let upgrades = !versions.is_empty();
        if upgrades {
            self.kubernetes.insert(node.name.clone(), versions);
        }
        let (moved, changes): (Vec<&ConfigChange>, Vec<&ConfigChange>) = match self.moved_endpoint() {
            Some(_) => changes.into_iter().partition(|change| change.is_of_endpoint()),
            None => (vec![], changes),
        };
        if let Some((old, new)) = self.moved_endpoint().filter(|_| !moved.is_empty()) {
            self.refuse_endpoint(&old, &new);
        }
        let changes = self.without_fixed(node, &changes);
        let Some(changes) = changes.filter(|_| !upgrades && moved.is_empty()) else { return };
        // The same in other words is the same.
        let Some(worst) = changes.iter().map(|change| change.costs).max() else { return };
        let volumes: Vec<&str> = changes
            .iter()
            .filter(|change| change.costs == ConfigCost::Volume)
            .map(|change| change.path.as_str())
            .collect();
        if !self.may_unmount(node, &volumes) {
            return;
        }
        let told = places(&changes);
        let reason = match volumes.is_empty() {
            false => {
                format!(
                    "its configuration differs from the file in {told}; {} is unmounted",
                    volumes.join(", ")
                )
            }
            true => format!("its configuration differs from the file in {told}"),
        };
        let manifests = Note { text: MANIFESTS.to_owned() };
        if changes.iter().any(|change| change.path.contains("inlineManifests"))
            && !self.notes.contains(&manifests)
        {
            self.notes.push(manifests);
        }
        if worst > ConfigCost::Nothing || self.is_rewired(&node.name) {
            self.need(&node.name, after).config = Some(Config { cost: worst, reason });
            return;
        }
        after.extend(self.last_control_plane());
        let step = self.push(Action::reconfigure(&node.name), after, reason, usual::GROW);
        self.set_disruption(&step, worst.disruption());
    }

    /// What of a node's machine config this plan does not change, although the file asks for it, or may do so.
    pub(super) fn held(&self, node: &Node, machine: Option<&Machine>) -> Held {
        let Some(machine) = machine.filter(|machine| machine.api == Api::Configured) else {
            return Held::default();
        };
        let wanted = self.rendered.configs.get(&node.name);
        let network = match (&machine.config_digest, &machine.config_changes) {
            (digest, _) if wanted.is_none() || digest.as_ref() == wanted => false,
            // It is not known what differs.
            (None, _) | (_, None) => true,
            (Some(_), Some(changes)) => {
                let may_unmount =
                    self.allowed.node(&node.name) || self.allowed.disks.contains_key(&node.name);
                let is_held = |change: &ConfigChange| {
                    fixed::of(change).is_some()
                        || change.of_component().is_some()
                        || change.costs == ConfigCost::Volume && !may_unmount
                };
                changes.iter().any(is_held)
                    && changes.iter().any(|change| change.costs == ConfigCost::Network)
            }
        };
        let schematic = self.rendered.schematics.get(&node.image).map(String::as_str);
        let image = in_force::image(schematic, machine.schematic.as_deref()) == Image::Other;
        Held { network, image }
    }

    /// Whether a node has another role than the file says. Then nothing of it is changed: its VM, its machine config and its place in
    /// etcd belong to the role that it has.
    pub(super) fn has_another_role(&mut self, node: &Node) -> bool {
        let changes = self.observed.machines.get(&node.name).and_then(|seen| seen.config_changes.as_deref());
        let differs = changes.into_iter().flatten().any(|change| fixed::of(change) == Some(Fixed::Role));
        let votes = || quorum::is_member(&node.name, &quorum::views(&self.observed.machines));
        if !differs && (node.role == Role::ControlPlane || !votes()) {
            return false;
        }
        let (has, wanted) = match node.role {
            Role::ControlPlane => ("worker node", "control plane node"),
            Role::Worker => ("control plane node", "worker node"),
        };
        let what = format!("{} is a {has}, and the file says {wanted}: {}", node.name, Fixed::Role.why());
        let hint = Fixed::Role.hint().replace("NODE", &node.name);
        self.block(&node.name, Fixed::Role.disruption(), what, hint);
        self.postponed.insert(node.name.clone());
        true
    }

    /// The changes, if none of them is one that a running machine does not take. What is against one of them is against all: a
    /// machine config is sent as a whole.
    fn without_fixed<'c>(
        &mut self,
        node: &Node,
        changes: &[&'c ConfigChange],
    ) -> Option<Vec<&'c ConfigChange>> {
        let mut by_kind: BTreeMap<Fixed, Vec<&ConfigChange>> = BTreeMap::new();
        for change in changes {
            if let Some(fixed) = fixed::of(change) {
                by_kind.entry(fixed).or_default().push(change);
            }
        }
        let none = by_kind.is_empty();
        for (fixed, changes) in by_kind {
            match fixed.of_the_cluster() {
                true => {
                    let refusal = Refusal {
                        code: RefusalCode::Differs,
                        why: format!("the file asks for another {}: {}", places(&changes), fixed.why()),
                        hint: fixed.hint().to_owned(),
                    };
                    if !self.refusals.contains(&refusal) {
                        self.refusals.push(refusal);
                    }
                }
                false => {
                    let what = format!(
                        "the configuration of {} is not what the file describes in {}: {}",
                        node.name,
                        places(&changes),
                        fixed.why()
                    );
                    self.block(
                        &node.name,
                        fixed.disruption(),
                        what,
                        fixed.hint().replace("NODE", &node.name),
                    );
                }
            }
        }
        none.then(|| changes.to_vec())
    }

    /// Whether these volumes may be taken from what uses them. Where not, that is said together with the disks that they are on.
    fn may_unmount(&mut self, node: &Node, volumes: &[&str]) -> bool {
        let name = &node.name;
        let left = self.needs.get(name).map(|need| need.left_disks.clone()).unwrap_or_default();
        let all_allowed = !left.is_empty() && left.iter().all(|disk| self.may_delete(name, disk));
        if volumes.is_empty() || self.allowed.node(name) || all_allowed {
            return true;
        }
        let disks: Vec<String> = left.iter().map(ToString::to_string).collect();
        let on = if disks.is_empty() { String::new() } else { format!(" (on {})", disks.join(", ")) };
        let flags: Vec<String> =
            left.iter().map(|disk| format!("--allow-destroy {name}/{}", disk.key)).collect();
        let delete = match flags.is_empty() {
            true => String::new(),
            false => format!("; `{}` unmounts it and deletes its disk for good", flags.join(" ")),
        };
        let what = format!(
            "{name} has {}{on}, and the file does not: what uses it would lose its data from one moment to the next",
            volumes.join(", ")
        );
        let hint = format!(
            "put the disk back into the file; or, when nothing uses it any more, apply with `--allow-destroy {name}`: it is unmounted, \
             and its disk stays{delete}"
        );
        self.block(name, Disruption::Delete, what, hint);
        if let Some(need) = self.needs.get_mut(name) {
            need.left_disks.clear();
        }
        false
    }

    /// The address of the API that the machines have, and the one of the file, where a machine says that they differ.
    pub(super) fn moved_endpoint(&self) -> Option<(String, String)> {
        let old_and_new = |changes: &Vec<ConfigChange>| {
            let change = changes.iter().find(|change| change.path == ENDPOINT)?;
            match &change.difference {
                ConfigDifference::Values { old: Some(old), new: Some(new) } => {
                    Some((old.clone(), new.clone()))
                }
                _ => None,
            }
        };
        // One machine alone was edited by hand; that is drift.
        let mut known = self.observed.machines.values().filter_map(|machine| machine.config_changes.as_ref());
        let first = old_and_new(known.next()?)?;
        known.all(|changes| old_and_new(changes).as_ref() == Some(&first)).then_some(first)
    }

    /// One reason for all nodes: the address of the API is one thing.
    fn refuse_endpoint(&mut self, old: &str, new: &str) {
        let host = old.trim_start_matches("https://").split([':', '/']).next().unwrap_or(old);
        let hint = match self.blueprint.vip {
            Some(_) => format!("write `vip: {host}` under `network` again"),
            None => format!("write the file so that the endpoint is {old} again"),
        };
        let refusal = Refusal {
            code: RefusalCode::Differs,
            why: format!(
                "the machines have the Kubernetes API at {old}, and the file says {new}: this version does not change the VIP or endpoint \
                 of a cluster that runs"
            ),
            hint,
        };
        if !self.refusals.contains(&refusal) {
            self.refusals.push(refusal);
        }
    }

    /// The control plane node that is configured before the next node. Control plane nodes come first.
    pub(super) fn last_control_plane(&self) -> Option<StepId> {
        let is_control_plane = |name: &NodeName| {
            self.blueprint.nodes.get(name).is_some_and(|node| node.role == Role::ControlPlane)
        };
        self.steps.iter().rev().find_map(|step| match &step.action {
            Action::Reconfigure { node, .. } if is_control_plane(node) => Some(step.id.clone()),
            _ => None,
        })
    }
}

/// Places for people, with what is and what becomes of it: the first few by name, the others counted.
fn places(changes: &[&ConfigChange]) -> String {
    let (named, others) = changes.split_at(changes.len().min(4));
    let named: Vec<String> = named.iter().map(ToString::to_string).collect();
    match others.len() {
        0 => named.join(", "),
        more => format!("{} and {more} more places", named.join(", ")),
    }
}
