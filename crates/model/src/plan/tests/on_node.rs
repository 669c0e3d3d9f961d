//! Labels, annotations and taints that the Node in Kubernetes has, or not.

use super::*;
use crate::blueprint::Taint;

fn taint() -> Taint {
    Taint { value: "true".to_owned(), effect: "NoSchedule".to_owned() }
}

/// The plan for a healthy cluster whose `w-1` has this Node.
fn planned(blueprint: &Blueprint, change: impl FnOnce(&mut KubernetesNode)) -> Plan {
    let mut world = healthy_world(blueprint);
    let machine = world.machines.get_mut("w-1").unwrap();
    machine.config_digest = Some("same".to_owned());
    change(world.kubernetes.nodes.get_mut("w-1").unwrap());
    plan(blueprint, &rendered(), &world)
}

fn blocked(plan: &Plan) -> &Blocked {
    let [blocked] = plan.blocked.as_slice() else { panic!("{:?}", plan.blocked) };
    assert_eq!((plan.steps.len(), blocked.node.as_deref()), (0, Some("w-1")), "{plan:?}");
    blocked
}

#[test]
fn x2_3_a_taint_that_the_node_lacks_is_blocked() {
    let mut blueprint = blueprint();
    blueprint.nodes.get_mut("w-1").unwrap().settings.taints.insert("gpu".to_owned(), taint());
    let without = planned(&blueprint, |_| {});
    let found = blocked(&without);
    assert!(found.what.starts_with("w-1 does not have the taint gpu=true:NoSchedule"), "{found:?}");
    assert!(found.hint.contains("`kubectl taint nodes w-1 --overwrite gpu=true:NoSchedule`"), "{found:?}");
    let other = planned(&blueprint, |node| {
        node.taints.push(("gpu".to_owned(), Taint { value: "false".to_owned(), ..taint() }));
    });
    blocked(&other);
    assert!(planned(&blueprint, |node| node.taints.push(("gpu".to_owned(), taint()))).is_empty());
}

#[test]
fn x2_3_a_label_and_an_annotation_that_the_node_lacks_are_blocked() {
    let mut labelled = blueprint();
    labelled.nodes.get_mut("w-1").unwrap().labels.insert("role/x".to_owned(), "a".to_owned());
    let found = planned(&labelled, |_| {});
    assert!(blocked(&found).hint.contains("`kubectl label node w-1 --overwrite 'role/x=a'`"), "{found:?}");
    let other = planned(&labelled, |node| drop(node.labels.insert("role/x".to_owned(), "b".to_owned())));
    assert!(
        blocked(&other).what.contains("the label role/x=b in Kubernetes, and the file says a"),
        "{other:?}"
    );
    assert!(
        planned(&labelled, |node| drop(node.labels.insert("role/x".to_owned(), "a".to_owned()))).is_empty()
    );
    let mut annotated = blueprint();
    let settings = &mut annotated.nodes.get_mut("w-1").unwrap().settings;
    settings.annotations.insert("a".to_owned(), "b".to_owned());
    assert!(blocked(&planned(&annotated, |_| {})).hint.contains("kubectl annotate node w-1"));
}

#[test]
fn x2_3_a_taint_of_others_is_named_and_stays() {
    let blueprint = blueprint();
    let plan = planned(&blueprint, |node| {
        node.taints.push(("node.kubernetes.io/unschedulable".to_owned(), taint()));
        node.taints.push(("theirs".to_owned(), taint()));
    });
    assert!(plan.is_empty(), "{plan:?}");
    let [note] = plan.notes.as_slice() else { panic!("{:?}", plan.notes) };
    assert!(note.text.contains("the taint theirs=true:NoSchedule, which the file does not have"), "{note:?}");
}
