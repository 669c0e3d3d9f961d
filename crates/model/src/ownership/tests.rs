//! Whose a VM is: made, copied, restored, and changed by hand.

use super::*;
use crate::diagnostic::Source;

const ID: &str = "abc=";
const BEFORE: Uuid = Uuid::from_u128(1);
const AFTER: Uuid = Uuid::from_u128(2);

fn blueprint() -> Blueprint {
    let text = "cluster: home\nversions: { talos: v1.13.9, kubernetes: v1.35.4 }\nproxmox: { endpoint: 'https://pve1:8006' }\n\
                network: { cidr: 10.25.150.0/24, gateway: 10.25.150.1, vip: 10.25.150.10 }\n\
                pools:\n  control: { role: controlplane, count: 3 }\n  work: { role: worker, count: 2 }\n";
    let spec = crate::load::load(&[Source::new("cluster.yaml", text)]).unwrap().spec;
    crate::resolve::resolve(&spec, None, Some(ID)).unwrap()
}

fn mark(node: &str) -> Mark {
    Mark { vmgenid: Some(BEFORE), ..Mark::new("home", Mark::owner_of(ID), node) }
}

/// A VM as Talosmith left it.
fn seen<'a>(blueprint: &Blueprint, mark: &'a Mark) -> Evidence<'a> {
    let vmid = blueprint.nodes.get(&mark.node).map_or(blueprint.record.vmid, |node| node.vmid);
    Evidence {
        vmid,
        name: &mark.node,
        mark,
        uuid: Some(mark.uuid(ID)),
        vmgenid: Some(BEFORE),
        recorded: None,
        template: false,
    }
}

const ACTS: [Act; 4] = [Act::Change, Act::Start, Act::CloneFrom, Act::Remove];

#[test]
fn a8_a_clone_is_never_touched() {
    let blueprint = blueprint();
    for node in ["home-control-1", "home-work-1", RECORD_NODE] {
        let mark = mark(node);
        let whole = seen(&blueprint, &mark);
        let clone = Evidence { uuid: Some(AFTER), vmgenid: Some(AFTER), ..whole };
        let old = Mark { version: 0, vmgenid: None, ..mark.clone() };
        let clone_of_old = Evidence { mark: &old, ..clone };
        for act in ACTS {
            assert_eq!(may(act, &blueprint, &whole, node), Ok(Identity::Ours));
            assert_eq!(may(act, &blueprint, &clone, node), Err(Foreign::Copy), "{node} {act:?}");
            assert_eq!(may(act, &blueprint, &clone_of_old, node), Err(Foreign::Copy), "{node} {act:?}");
        }
    }
}

#[test]
fn a8_a_control_plane_node_with_another_generation_is_refused_and_a_worker_is_not() {
    let blueprint = blueprint();
    for (node, starts) in [("home-control-1", false), ("home-work-1", true), (RECORD_NODE, false)] {
        let mark = mark(node);
        let restored = Evidence { vmgenid: Some(AFTER), ..seen(&blueprint, &mark) };
        for act in [Act::Change, Act::Start] {
            let wanted = if starts { Ok(Identity::Restored) } else { Err(Foreign::Restored) };
            assert_eq!(may(act, &blueprint, &restored, node), wanted, "{node} {act:?}");
        }
        let elsewhere = Evidence { vmid: 9000, ..restored };
        for act in ACTS {
            assert_eq!(may(act, &blueprint, &elsewhere, node), Err(Foreign::Copy), "{node} {act:?}");
        }
        let none = Evidence { vmgenid: None, ..restored };
        assert_eq!(
            may(Act::Start, &blueprint, &none, node).is_ok(),
            starts,
            "a generation that is gone is another one"
        );
    }
}

/// The mark alone was edited after a rollback: the record still has the generation before it.
#[test]
fn a8_an_edited_generation_is_known_by_the_record() {
    let blueprint = blueprint();
    let edited = mark("home-control-1");
    let is = |mark: &Mark, recorded| identify(&Evidence { recorded, ..seen(&blueprint, mark) }, ID);
    assert_eq!(is(&edited, Some(AFTER)), Identity::Restored);
    assert_eq!(is(&edited, Some(BEFORE)), Identity::Ours);
    assert_eq!(is(&edited, None), Identity::Ours, "the record does not know it yet");
    for known in
        [Mark { accepted: Some(AFTER), ..edited.clone() }, Mark { replaces: Some(AFTER), ..edited.clone() }]
    {
        assert_eq!(is(&known, Some(AFTER)), Identity::Ours, "{known:?}");
        assert_eq!(is(&known, Some(Uuid::from_u128(3))), Identity::Restored, "{known:?}");
    }
}

#[test]
fn a8_the_generation_proves_a_vm_whose_uuid_was_edited() {
    let blueprint = blueprint();
    let mark = mark("home-control-1");
    let edited = Evidence { uuid: Some(AFTER), ..seen(&blueprint, &mark) };
    assert_eq!(may(Act::Change, &blueprint, &edited, "home-control-1"), Ok(Identity::Ours));
}

#[test]
fn a6_a_vm_of_others_is_never_touched() {
    let blueprint = blueprint();
    let theirs = Mark { owner: Mark::owner_of("theirs"), ..mark("home-work-1") };
    for act in ACTS {
        let another = Err(Foreign::Another);
        assert_eq!(may(act, &blueprint, &seen(&blueprint, &theirs), "home-work-1"), another);
        let neighbor = mark("home-work-2");
        assert_eq!(may(act, &blueprint, &seen(&blueprint, &neighbor), "home-work-1"), another);
    }
}

#[test]
fn a8_what_is_being_created_is_finished_before_it_starts() {
    let blueprint = blueprint();
    let mark = Mark { vmgenid: None, ..mark("home-work-1") }.while_creating();
    let cloned = Evidence { uuid: Some(AFTER), ..seen(&blueprint, &mark) };
    for unfinished in [seen(&blueprint, &mark), cloned] {
        assert_eq!(may(Act::Change, &blueprint, &unfinished, "home-work-1"), Ok(Identity::Unfinished));
        assert_eq!(may(Act::Start, &blueprint, &unfinished, "home-work-1"), Err(Foreign::Unfinished));
    }
    let copy = Evidence { name: "Copy-of-VM-home-work-1", ..cloned };
    assert_eq!(may(Act::Change, &blueprint, &copy, "home-work-1"), Err(Foreign::Copy));
}

#[test]
fn a9_a_mark_without_a_generation_gets_it_after_its_name_agrees() {
    let blueprint = blueprint();
    let old = Mark { version: 0, vmgenid: None, ..mark("home-work-1") };
    let whole = seen(&blueprint, &old);
    assert_eq!(generation(&whole, Identity::Ours, "home-work-1"), Some(BEFORE));
    let renamed = Evidence { name: "mine", ..whole };
    assert_eq!(generation(&renamed, Identity::Ours, "home-work-1"), None);
    let bound = mark("home-work-1");
    let renamed = Evidence { mark: &bound, ..renamed };
    assert_eq!(
        generation(&renamed, Identity::Ours, "home-work-1"),
        Some(BEFORE),
        "a generation is never forgotten"
    );
}

#[test]
fn a8_a_clone_of_a_template_is_no_template_of_ours() {
    let blueprint = blueprint();
    let name = "(template) pve1 worker scsi0 x";
    let old = Mark { version: 0, vmgenid: None, ..mark(name) };
    let template = Evidence {
        name: "home-worker-scsi0-v1-13-9-pve1",
        uuid: Some(AFTER),
        template: true,
        ..seen(&blueprint, &old)
    };
    assert_eq!(may(Act::CloneFrom, &blueprint, &template, name), Ok(Identity::Ours));
    let clone = Evidence { template: false, name: "Copy-of-VM-home-worker", ..template };
    let new = Mark { version: 1, ..old.clone() };
    for clone in [clone, Evidence { mark: &new, ..clone }, Evidence { mark: &new, template: true, ..clone }] {
        for act in ACTS {
            assert_eq!(may(act, &blueprint, &clone, name), Err(Foreign::Copy));
        }
    }
}

#[test]
fn a_mark_without_a_generation_is_old_where_the_record_has_another_one() {
    let blueprint = blueprint();
    for (node, goes_on) in [("home-control-1", false), ("home-work-1", true)] {
        let old = Mark { version: 0, vmgenid: None, ..mark(node) };
        let upgraded = Evidence { recorded: Some(BEFORE), ..seen(&blueprint, &old) };
        assert_eq!(
            may(Act::Change, &blueprint, &upgraded, node),
            Ok(Identity::Ours),
            "a run died before it wrote the mark"
        );
        let rolled_back = Evidence { vmgenid: Some(AFTER), ..upgraded };
        let wanted = if goes_on { Ok(Identity::Restored) } else { Err(Foreign::Restored) };
        assert_eq!(may(Act::Change, &blueprint, &rolled_back, node), wanted, "{node}");
        let gone = Evidence { vmgenid: None, ..upgraded };
        assert_eq!(may(Act::Change, &blueprint, &gone, node), wanted, "{node}");
    }
}
