//! A machine that runs another configuration than the file describes.
//!
//! It gets the right one only where it follows at once. What may cut it off, restarts something or takes a volume from what
//! uses it is refused with what it costs; the volume can be allowed by name, like everything that concerns data. Control planes
//! are configured again one after another, each once the one before it was seen to run what it was sent, and workers
//! when all control planes do: a mistake in the file then ends with the first machine.

use super::bring_up::{Builder, usual};
use super::versions::Versioned;
use super::{Note, Refusal, RefusalCode};
use crate::blueprint::{Node, Role};
use crate::observed::{ConfigChange, ConfigCost, ConfigDifference, ENDPOINT};
use crate::step::{Action, StepId};

/// What becomes of a manifest that differs.
const MANIFESTS: &str = "Talos adds manifests that are new, and changes none that it applied before: apply changed ones with \
                         `kubectl apply`";

impl Builder<'_> {
    /// Gives the node the configuration of the file once `after` is done, or says why not.
    pub(super) fn reconfigure(&mut self, node: &Node, changes: &[ConfigChange], mut after: Vec<StepId>) {
        // Another version of Kubernetes is one thing, and said as such; what else differs is said besides.
        let (versions, changes): (Vec<&ConfigChange>, Vec<&ConfigChange>) =
            changes.iter().partition(|change| change.kubernetes_version(&node.kubernetes).is_some());
        let runs = versions.first().and_then(|change| change.kubernetes_version(&node.kubernetes));
        if let Some(runs) = runs {
            self.other_version(Versioned::Kubernetes, node, runs);
        }
        let (moved, changes): (Vec<&ConfigChange>, Vec<&ConfigChange>) = match self.moved_endpoint() {
            Some(_) => changes.into_iter().partition(|change| change.is_of_endpoint()),
            None => (vec![], changes),
        };
        if let Some((old, new)) = self.moved_endpoint().filter(|_| !moved.is_empty()) {
            self.refuse_endpoint(&old, &new);
        }
        // The same in other words is the same.
        let Some(worst) = changes.iter().map(|change| change.costs).max() else { return };
        let at = |cost: ConfigCost| {
            let there: Vec<&ConfigChange> =
                changes.iter().copied().filter(|change| change.costs == cost).collect();
            (!there.is_empty()).then(|| places(&there))
        };
        let too_much: Vec<String> = [
            (ConfigCost::Network, "that it may be cut off from the network"),
            (ConfigCost::Services, "restarting services"),
            (ConfigCost::Reboot, "a reboot"),
        ]
        .into_iter()
        .filter_map(|(cost, words)| Some(format!("changing {} means {words}", at(cost)?)))
        .collect();
        if !too_much.is_empty() {
            self.refusals.push(Refusal {
                code: RefusalCode::Differs,
                why: format!(
                    "the configuration of {} is not what the file describes, and {}, which this version does not do to \
                     machines that run",
                    node.name,
                    too_much.join(", and ")
                ),
                hint: "put the file back to what runs (a patch can say it), or change the machine with talosctl, one node \
                         at a time"
                    .to_owned(),
            });
        }
        let volumes: Vec<&str> = changes
            .iter()
            .filter(|change| change.costs == ConfigCost::Volume)
            .map(|change| change.path.as_str())
            .collect();
        let volumes = (!volumes.is_empty()).then(|| volumes.join(", "));
        if let Some(volumes) = volumes.as_ref().filter(|_| !self.allowed.contains(&node.name)) {
            self.refusals.push(Refusal {
                code: RefusalCode::Differs,
                why: format!(
                    "{} has {volumes}, and the file does not: what uses it would lose its data from one moment to the next",
                    node.name
                ),
                hint: format!(
                    "put the disk back into the file; or, when nothing uses it any more, apply with `--allow-destroy {}`: it is \
                     unmounted, and its disk stays until you remove it in Proxmox",
                    node.name
                ),
            });
            return;
        }
        if !too_much.is_empty() || runs.is_some() || !moved.is_empty() {
            return;
        }
        let told = places(&changes);
        let reason = match volumes {
            Some(volumes) => {
                format!("its configuration differs from the file in {told}; {volumes} is unmounted")
            }
            None => format!("its configuration differs from the file in {told}"),
        };
        let manifests = Note { text: MANIFESTS.to_owned() };
        if changes.iter().any(|change| change.path.contains("inlineManifests"))
            && !self.notes.contains(&manifests)
        {
            self.notes.push(manifests);
        }
        after.extend(self.last_control_plane());
        let step = self.push(Action::Reconfigure { node: node.name.clone() }, after, reason, usual::GROW);
        self.set_disruption(&step, worst.disruption());
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

    /// The control plane that is configured again before whoever comes next. Nodes come with the control planes first.
    fn last_control_plane(&self) -> Option<StepId> {
        let is_control_plane = |name: &String| {
            self.blueprint.nodes.get(name).is_some_and(|node| node.role == Role::ControlPlane)
        };
        self.steps.iter().rev().find_map(|step| match &step.action {
            Action::Reconfigure { node } if is_control_plane(node) => Some(step.id.clone()),
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
