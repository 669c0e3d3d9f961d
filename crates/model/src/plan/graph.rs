//! Order of steps. A plan has tens of steps, so plain maps serve.

use std::collections::{BTreeMap, BTreeSet};

use crate::step::{Step, StepId};

/// Steps that need each other, directly or through others, so that none of them could ever start.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("these steps wait for each other: {}", .0.iter().map(|id| id.0.as_str()).collect::<Vec<_>>().join(", "))]
pub struct Cycle(pub Vec<StepId>);

/// The steps so that each stands behind all that it needs; among those that could stand at one place, the order given is
/// kept. Edges to steps that are not in the plan are dropped: what they would have done is already so.
///
/// # Errors
///
/// When steps need each other. Rules add edges only from later to earlier phases, so that is a mistake in a rule; a plan with
/// such steps is refused as a whole, because what it would leave out is not known to be unimportant.
pub fn in_order(mut steps: Vec<Step>) -> Result<Vec<Step>, Cycle> {
    let known: BTreeSet<StepId> = steps.iter().map(|s| s.id.clone()).collect();
    for step in &mut steps {
        step.after.retain(|id| known.contains(id));
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
    if steps.is_empty() { Ok(ordered) } else { Err(Cycle(steps.into_iter().map(|step| step.id).collect())) }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::step::{Action, Disruption};

    fn step(id: &str, after: &[&str]) -> Step {
        Step {
            id: StepId(id.to_owned()),
            action: Action::CheckHealth,
            after: after.iter().map(|id| StepId((*id).to_owned())).collect(),
            reason: String::new(),
            disruption: Disruption::None,
            seconds: 1,
            unit: None,
        }
    }

    #[test]
    fn arch3_steps_that_need_each_other_have_no_order() {
        let ids = |steps: &[Step]| steps.iter().map(|s| s.id.0.clone()).collect::<Vec<_>>();
        let ordered = in_order(vec![step("b", &["a"]), step("a", &["not-in-the-plan"])]).unwrap();
        assert_eq!(ids(&ordered), ["a", "b"]);
        let cycle = in_order(vec![step("a", &[]), step("b", &["c"]), step("c", &["b"]), step("d", &["c"])]);
        let cycle = cycle.unwrap_err();
        assert_eq!(cycle.to_string(), "these steps wait for each other: b, c, d");
        assert!(in_order(vec![step("a", &["a"])]).is_err(), "a step that needs itself never starts either");
    }
}
