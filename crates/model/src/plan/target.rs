//! A plan for some of the nodes: their own steps, and what these need.
//!
//! What one disruption has to do with another is their order, not a need: a node that is asked for is not held up by the restart of
//! another one, and the gate keeps the two apart whenever they run. A unit is kept as a whole or not at all.

use std::collections::BTreeSet;

use super::{Note, Plan};
use crate::names::NodeName;
use crate::step::{Step, StepId};

impl Plan {
    /// The part of the plan that is about these nodes. With no nodes, all of it. `all` is how many steps the plan for all nodes has.
    #[must_use]
    pub(super) fn of_nodes(self, nodes: &BTreeSet<NodeName>, all: usize) -> Self {
        if nodes.is_empty() {
            return self;
        }
        let kept = self.needed_by(nodes);
        let left_out = all.saturating_sub(kept.len());
        let narrowed = |step: &Step| {
            let after = step.after.iter().filter(|id| kept.contains(id) && self.needs(step, id));
            Step { after: after.cloned().collect(), ..step.clone() }
        };
        let steps: Vec<Step> =
            self.steps.iter().filter(|step| kept.contains(&step.id)).map(narrowed).collect();
        let units = self.units.iter().filter(|unit| steps.iter().any(|s| s.unit.as_ref() == Some(&unit.id)));
        let units = units.cloned().collect();
        let is_ours = |node: &Option<NodeName>| node.as_ref().is_none_or(|node| nodes.contains(node));
        let (blocked, others): (Vec<_>, Vec<_>) =
            self.blocked.iter().cloned().partition(|blocked| is_ours(&blocked.node));
        let mut notes = self.notes.clone();
        if !others.is_empty() {
            let what = if others.len() == 1 {
                "1 change is".to_owned()
            } else {
                format!("{} changes are", others.len())
            };
            let text = format!(
                "{what} blocked on nodes that `--target` leaves out; `talosmith plan` without it shows them"
            );
            notes.push(Note { text });
        }
        if left_out > 0 {
            let what = if left_out == 1 { "1 step is".to_owned() } else { format!("{left_out} steps are") };
            notes.push(Note { text: format!("{what} left out, because of `--target`") });
        }
        // What is approved with a part of an upgrade is that part.
        let mut upgrade = self.upgrade.clone();
        if let Some(upgrade) = &mut upgrade {
            if !upgrade.waits_for_reboot() {
                upgrade.rebooting.clear();
            }
            upgrade.rebooting.retain(|node| nodes.contains(node));
            upgrade.unknown.retain(|node| nodes.contains(node));
            upgrade.talos.retain(|node, _| nodes.contains(node));
            upgrade.kubernetes.retain(|node, _| nodes.contains(node));
        }
        Self { steps, units, blocked, notes, upgrade, ..self }
    }

    /// Steps of these nodes, and all that they need.
    fn needed_by(&self, nodes: &BTreeSet<NodeName>) -> BTreeSet<StepId> {
        let of_ours = |step: &&Step| {
            let unit = self.unit_of(step).map(|unit| unit.node.as_str());
            unit.or_else(|| step.action.node()).is_some_and(|node| nodes.contains(node))
        };
        let mut kept: BTreeSet<StepId> =
            self.steps.iter().filter(of_ours).map(|step| step.id.clone()).collect();
        loop {
            let before = kept.len();
            let steps: Vec<&Step> = self.steps.iter().filter(|step| kept.contains(&step.id)).collect();
            for step in steps {
                kept.extend(step.after.iter().filter(|id| self.needs(step, id)).cloned());
                let whole = self.steps.iter().filter(|other| step.unit.is_some() && other.unit == step.unit);
                kept.extend(whole.map(|other| other.id.clone()));
            }
            if kept.len() == before {
                return kept;
            }
        }
    }

    /// Whether the step before an edge is needed, and not just done earlier.
    fn needs(&self, step: &Step, before: &StepId) -> bool {
        let before = self.steps.iter().find(|other| other.id == *before);
        let Some(before) = before else { return false };
        match (self.unit_of(before), &step.unit) {
            (Some(unit), Some(own)) => unit.id == *own,
            // Behind the disruption of another node, too.
            (Some(unit), None) => step.action.node() == Some(&unit.node),
            (None, _) => true,
        }
    }
}
