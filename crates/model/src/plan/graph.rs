//! Order of steps. A plan has tens of steps, so plain maps serve.

use std::collections::{BTreeMap, BTreeSet};

use crate::step::{Step, StepId};

/// The steps so that each stands behind all that it needs; among those that could stand at one place, the order given is
/// kept. Edges to steps that are not in the plan are dropped: what they would have done is already so.
///
/// Rules add edges only from later to earlier phases, so there is no cycle; should there ever be one, its steps are left
/// at the end in the order given, where the executor refuses to begin them.
#[must_use]
pub fn in_order(mut steps: Vec<Step>) -> Vec<Step> {
    let known: BTreeSet<StepId> = steps.iter().map(|s| s.id.clone()).collect();
    for step in &mut steps {
        step.after.retain(|id| known.contains(id) && *id != step.id);
        step.after.sort();
        step.after.dedup();
    }
    let mut placed: BTreeSet<StepId> = BTreeSet::new();
    let mut ordered = Vec::with_capacity(steps.len());
    while let Some(at) = steps.iter().position(|s| s.after.iter().all(|id| placed.contains(id))) {
        let step = steps.remove(at);
        placed.insert(step.id.clone());
        ordered.push(step);
    }
    ordered.extend(steps);
    ordered
}

/// The length of the longest chain, in seconds. Expects steps in order.
#[must_use]
pub fn critical_path(steps: &[Step]) -> u32 {
    let mut ends: BTreeMap<&StepId, u32> = BTreeMap::new();
    for step in steps {
        let begins = step.after.iter().filter_map(|id| ends.get(id)).max().copied().unwrap_or(0);
        ends.insert(&step.id, begins.saturating_add(step.seconds));
    }
    ends.values().max().copied().unwrap_or(0)
}
