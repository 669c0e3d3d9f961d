//! What does not start because the maintenance window of the file is closed.
//!
//! A plan may be made at any time and carried out in the window, so planning does not look at the clock. A run does: it leaves out what
//! it must not start, makes all other changes, and ends with the rest blocked.

use std::collections::BTreeSet;

use jiff::Timestamp;
use model::plan::{Blocked, Plan};
use model::policy::{Window, WindowState};
use model::step::{Action, StepId};

use crate::session::Snapshot;

/// The plan without the disruptions that the closed window keeps from starting; those are blocked.
pub(super) fn hold(snapshot: &Snapshot, plan: &mut Plan, now: Timestamp) {
    let Some(window) = snapshot.policy().window else { return };
    let opens = match snapshot.window(now) {
        WindowState::Open => return,
        WindowState::Closed { opens } => opens,
        WindowState::Unknown => None,
    };
    if plan.units.is_empty() {
        return;
    }
    let closed = closed(snapshot, &window, opens);
    let hint = "run the command again when the window is open, or with `--now` to start outside of it";
    let held = held(plan);
    for unit in std::mem::take(&mut plan.units) {
        plan.blocked.push(Blocked {
            node: Some(unit.node.clone()),
            what: format!("Talosmith does not {} now: {closed}", unit.goal),
            disruption: unit.disruption,
            hint: hint.to_owned(),
        });
    }
    for step in plan.steps.iter().filter(|step| step.unit.is_none() && held.contains(&step.id)) {
        if is_only_for_units(&step.action) || matches!(step.action, Action::RegisterSchematic { .. }) {
            continue;
        }
        plan.blocked.push(Blocked {
            node: step.action.node().map(Into::into),
            what: format!(
                "Talosmith does not {} now: it comes after a disruption, and {closed}",
                step.action.describe()
            ),
            disruption: step.disruption,
            hint: hint.to_owned(),
        });
    }
    plan.steps.retain(|step| !held.contains(&step.id));
    if plan.steps.iter().all(|step| matches!(step.action, Action::CheckHealth)) {
        plan.steps.clear();
    }
    for step in &mut plan.steps {
        step.after.retain(|id| !held.contains(id));
    }
}

/// Steps of units, those that come after one, and snapshots that are only taken for one.
fn held(plan: &Plan) -> BTreeSet<StepId> {
    let mut held: BTreeSet<StepId> =
        plan.steps.iter().filter(|step| step.unit.is_some()).map(|step| step.id.clone()).collect();
    // Each stands behind all that it needs.
    for step in &plan.steps {
        let is_last = matches!(step.action, Action::CheckHealth);
        if !is_last && step.after.iter().any(|id| held.contains(id)) {
            held.insert(step.id.clone());
        }
    }
    let only = plan.steps.iter().filter(|step| is_only_for_units(&step.action));
    held.extend(only.map(|step| step.id.clone()).collect::<Vec<_>>());
    // What nothing waits for any more goes with them.
    let awaited: BTreeSet<&StepId> =
        plan.steps.iter().filter(|step| !held.contains(&step.id)).flat_map(|step| &step.after).collect();
    let registers = plan.steps.iter().filter(|step| {
        matches!(step.action, Action::RegisterSchematic { .. }) && !awaited.contains(&step.id)
    });
    let registers: Vec<StepId> = registers.map(|step| step.id.clone()).collect();
    held.extend(registers);
    held
}

/// What is done outside of units and for nothing else.
fn is_only_for_units(action: &Action) -> bool {
    matches!(action, Action::SnapshotEtcd | Action::PullImage { .. } | Action::PullImages { .. })
}

/// That it is closed, and when it opens by its own clock.
fn closed(snapshot: &Snapshot, window: &Window, opens: Option<Timestamp>) -> String {
    let zone = window.zone.resolve(|name| snapshot.local().time_zone(name));
    match opens.zip(zone.ok()) {
        Some((opens, zone)) => format!(
            "the maintenance window ({window}) is closed; it opens on {} {}",
            zone.to_datetime(opens).strftime("%A, %Y-%m-%d at %H:%M"),
            window.zone
        ),
        None => format!("it is not known when the maintenance window ({window}) is open"),
    }
}
