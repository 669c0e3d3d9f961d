//! What a person asks of single nodes.

use std::collections::BTreeSet;

use super::*;
use crate::plan::by_hand::{ByHand, Hand, plan_by_hand};
use crate::unit::Goal;

/// Two workers.
fn cluster() -> Blueprint {
    let mut blueprint = blueprint();
    blueprint.nodes.insert("w-2".into(), node("w-2", Role::Worker, 22, "pve2"));
    blueprint
}

fn asked(world: &Observed, hand: Hand, nodes: &[&str]) -> Plan {
    let asked = ByHand::of(hand, nodes.iter().copied());
    plan_by_hand(&cluster(), &rendered(), world, &Allowed::default(), &asked)
}

fn healthy() -> Observed {
    healthy_world(&cluster())
}

#[test]
fn a_node_that_is_rebooted_by_hand_is_drained_and_verified() {
    let plan = asked(&healthy(), Hand::Reboot, &["w-1"]);
    assert_eq!(plan.refusals, []);
    assert_eq!(ids(&plan), ["drain-node/w-1", "reboot-node/w-1", "verify-node/w-1", "uncordon-node/w-1"]);
    assert!(plan.steps.iter().all(|step| step.unit.is_some()), "all of it needs the permit");
    assert_eq!(plan.goals(), BTreeSet::from([Goal::Reboot { node: "w-1".into() }]));
    assert_eq!(plan.units[0].disruption, Disruption::Reboot);
}

#[test]
fn control_plane_nodes_follow_each_other() {
    let plan = asked(&healthy(), Hand::Reboot, &["cp-1", "cp-2", "cp-3"]);
    assert_eq!(plan.units.len(), 3);
    for pair in plan.units.windows(2) {
        let first = plan.steps.iter().rfind(|step| step.unit.as_ref() == Some(&pair[0].id)).unwrap();
        let second = plan.steps.iter().find(|step| step.unit.as_ref() == Some(&pair[1].id)).unwrap();
        assert!(second.after.contains(&first.id), "{} starts before {} is whole", pair[1].id, pair[0].id);
    }
    assert!(ids(&plan).contains(&"move-leadership/cp-2"));
}

#[test]
fn what_is_drained_by_hand_stays_cordoned_by_hand() {
    let plan = asked(&healthy(), Hand::Drain, &["w-1"]);
    assert_eq!(ids(&plan), ["cordon-node/w-1", "drain-node/w-1"]);
    assert_eq!(plan.goals(), BTreeSet::from([Goal::Drain { node: "w-1".into() }]));
    let plan = asked(&healthy(), Hand::Cordon, &["w-1", "w-2"]);
    assert_eq!(ids(&plan), ["cordon-node/w-1", "cordon-node/w-2"]);
    assert_eq!(plan.units, [], "nothing is disrupted");
    let mut world = healthy();
    world.kubernetes.nodes.get_mut("w-1").unwrap().schedulable = false;
    assert_eq!(ids(&asked(&world, Hand::Cordon, &["w-1"])), [] as [&str; 0]);
    assert_eq!(ids(&asked(&world, Hand::Uncordon, &["w-1"])), ["release-node/w-1"]);
    assert_eq!(ids(&asked(&healthy(), Hand::Uncordon, &["w-1"])), [] as [&str; 0]);
}

/// The budget is for nodes that come back, too; for one that stays off, waiting does not help.
#[test]
fn more_nodes_than_the_budget_has_are_not_shut_down() {
    let plan = asked(&healthy(), Hand::Shutdown, &["w-1"]);
    assert_eq!(ids(&plan), ["drain-node/w-1", "shutdown-node/w-1"]);
    assert_eq!(plan.goals(), BTreeSet::from([Goal::Shutdown { node: "w-1".into() }]));
    let plan = asked(&healthy(), Hand::Shutdown, &["w-1", "w-2"]);
    assert_eq!(plan.units.len(), 1, "{:?}", plan.units);
    assert_eq!(plan.blocked.len(), 1);
    let plan = asked(&healthy(), Hand::Shutdown, &["cp-1", "cp-2"]);
    assert_eq!(
        (plan.units.len(), plan.blocked.len()),
        (1, 1),
        "etcd needs the second one: {:?}",
        plan.blocked
    );
}

#[test]
fn a_node_that_does_not_respond_is_blocked_beside_the_others() {
    let mut world = healthy();
    world.machines.insert("w-2".into(), Machine::unresponsive("refused"));
    let plan = asked(&world, Hand::Reboot, &["w-1", "w-2"]);
    assert_eq!(plan.units.len(), 1);
    assert_eq!(plan.blocked[0].node.as_deref(), Some("w-2"));
    let mut world = healthy();
    world.kubernetes = Kubernetes::default();
    let plan = asked(&world, Hand::Cordon, &["w-1"]);
    assert!(plan.steps.is_empty() && plan.blocked.len() == 1, "{plan:?}");
}

#[test]
fn without_secrets_nothing_is_done() {
    let blueprint = Blueprint { cluster_id: None, ..blueprint() };
    let asked = ByHand::of(Hand::Reboot, ["w-1"]);
    let plan = plan_by_hand(&blueprint, &rendered(), &empty_world(), &Allowed::default(), &asked);
    assert_eq!(plan.refusals[0].code, RefusalCode::LostBundle);
    assert!(plan.steps.is_empty());
}

/// A drain takes nothing away from etcd and the API, so it is no outage.
#[test]
fn the_only_control_plane_node_is_drained_by_hand() {
    let mut blueprint = cluster();
    blueprint.nodes.retain(|name, _| !["cp-2", "cp-3"].contains(&name.as_str()));
    let asked = ByHand::of(Hand::Drain, ["cp-1"]);
    let world = healthy_world(&blueprint);
    let plan = plan_by_hand(&blueprint, &rendered(), &world, &Allowed::default(), &asked);
    assert_eq!(plan.blocked, []);
    assert_eq!(ids(&plan), ["cordon-node/cp-1", "drain-node/cp-1"]);
    assert!(!plan.units[0].forecast.outage);
}
