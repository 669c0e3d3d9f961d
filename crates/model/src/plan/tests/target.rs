//! A plan for some of the nodes.

use super::*;
use crate::gate::Effect;
use crate::step::{RebootMode, StepId, UnitId};
use crate::unit::{Forecast, Goal, Unit};

fn restart(node: &str, after: Vec<StepId>) -> (Vec<Step>, Unit) {
    let id = UnitId(format!("restart/{node}"));
    let drain = Action::DrainNode { node: node.into() };
    let reboot = Action::RebootNode { node: node.into(), mode: RebootMode::Default };
    let step = |action: Action, after: Vec<StepId>| Step {
        id: action.id(),
        action,
        after,
        reason: String::new(),
        disruption: Disruption::Reboot,
        seconds: 1,
        unit: Some(id.clone()),
    };
    let steps = vec![step(drain.clone(), after), step(reboot, vec![drain.id()])];
    let goal = Goal::Reboot { node: node.into() };
    let unit = Unit {
        id: id.clone(),
        node: node.into(),
        goal,
        disruption: Disruption::Reboot,
        effect: Effect::Absence,
        forecast: Forecast::default(),
    };
    (steps, unit)
}

fn of(plan: &Plan, node: &str) -> Plan {
    plan.clone().of_nodes(&BTreeSet::from([node.into()]), plan.steps.len())
}

#[test]
fn a_unit_is_made_without_those_that_would_come_before_it() {
    let snapshot = Step { unit: None, ..restart("cp-1", vec![]).0.remove(0) };
    let snapshot = Step { id: Action::SnapshotEtcd.id(), action: Action::SnapshotEtcd, ..snapshot };
    let (first, one) = restart("cp-1", vec![snapshot.id.clone()]);
    let (second, two) = restart("cp-2", vec![snapshot.id.clone(), first[1].id.clone()]);
    let mut plan = plan(&blueprint(), &rendered(), &Observed::default());
    plan.units = vec![one, two];
    plan.steps = [vec![snapshot], first, second].concat();
    let narrowed = of(&plan, "cp-2");
    assert_eq!(ids(&narrowed), ["snapshot-etcd", "drain-node/cp-2", "reboot-node/cp-2"]);
    assert_eq!(narrowed.steps[1].after, [Action::SnapshotEtcd.id()], "no edge leads to what is not there");
    assert_eq!(narrowed.units.len(), 1);
    assert!(narrowed.notes.iter().any(|note| note.text.starts_with("2 steps are left out")));
    assert_eq!(plan.clone().of_nodes(&BTreeSet::new(), 0), plan);
}

#[test]
fn what_a_new_node_needs_is_made_with_it() {
    let mut blueprint = blueprint();
    blueprint.nodes.insert("w-2".into(), node("w-2", Role::Worker, 22, "pve2"));
    let plan = plan(&blueprint, &rendered(), &empty_world());
    assert!(ids(&plan).contains(&"create-vm/w-2"));
    let narrowed = of(&plan, "w-1");
    let ids = ids(&narrowed);
    for needed in ["create-record", "create-vm/w-1", "bootstrap/cp-1", "join/w-1"] {
        assert!(ids.contains(&needed), "{needed}: {ids:?}");
    }
    assert!(!ids.contains(&"create-vm/w-2") && !ids.contains(&"check-health"), "{ids:?}");
    assert!(graph::in_order(narrowed.steps).is_ok());
}

#[test]
fn what_only_comes_after_the_disruption_of_another_node_does_not_need_it() {
    let (first, one) = restart("cp-1", vec![]);
    let last = first[1].id.clone();
    let outside = |action: Action, after: Vec<StepId>| Step {
        id: action.id(),
        action,
        after,
        unit: None,
        ..restart("w-1", vec![]).0.remove(0)
    };
    let snapshot = outside(Action::SnapshotEtcd, vec![last.clone()]);
    let (second, two) = restart("cp-2", vec![snapshot.id.clone()]);
    let hot = outside(Action::reconfigure("w-1"), vec![last]);
    let mut plan = plan(&blueprint(), &rendered(), &Observed::default());
    plan.units = vec![one, two];
    plan.steps = [first, vec![snapshot], second, vec![hot]].concat();
    assert_eq!(ids(&of(&plan, "w-1")), ["reconfigure/w-1"]);
    assert_eq!(ids(&of(&plan, "cp-2")), ["snapshot-etcd", "drain-node/cp-2", "reboot-node/cp-2"]);
}
