//! Nodes that leave the file, and nodes that are replaced.

use super::*;

fn all() -> Allowed {
    Allowed { removed: true, ..Allowed::default() }
}

#[test]
fn first_use_4_a_node_that_the_file_no_longer_has_is_blocked_until_its_removal_is_allowed() {
    let plan = Case::new().removed("w-1").plan();
    assert_eq!((plan.steps.len(), plan.refusals.len()), (0, 0));
    let [blocked] = plan.blocked.as_slice() else { panic!("once: {:?}", plan.blocked) };
    assert_eq!((blocked.node.as_deref(), blocked.disruption), (Some("w-1"), Disruption::Delete));
    assert!(blocked.hint.contains("`--allow-destroy w-1`"), "{}", blocked.hint);
    assert!(blocked.hint.contains("scsi0 with 20 GiB"), "{}", blocked.hint);
    let control = Case::new().removed("cp-3").plan();
    assert!(control.blocked[0].hint.contains("membership in etcd"), "{:?}", control.blocked);
    for allowed in [Allowed::data_of(["w-1"]), all()] {
        let plan = Case::new().removed("w-1").allowing(allowed).plan();
        assert_eq!((plan.refusals.len(), plan.blocked.len()), (0, 0), "{plan:?}");
        assert_eq!(steps_of(&plan, "remove/w-1"), ["drain-node", "stop-vm", "delete-node", "delete-vm"]);
        let unit = unit(&plan, "remove/w-1");
        assert_eq!((unit.effect, unit.disruption), (Effect::Removal, Disruption::Delete));
        assert_eq!(unit.goal, Goal::Remove { node: "w-1".into() });
        assert!(!ids(&plan).contains(&"snapshot-etcd"));
    }
}

#[test]
fn a_control_plane_node_leaves_etcd_before_its_vm_stops() {
    let plan = Case::new().removed("cp-3").allowing(all()).plan();
    assert_eq!(
        steps_of(&plan, "remove/cp-3"),
        ["drain-node", "move-leadership", "leave-etcd", "stop-vm", "delete-node", "delete-vm"]
    );
    assert!(step(&plan, "drain-node/cp-3").after.iter().any(|id| id.0 == "snapshot-etcd"));
    assert_eq!(unit(&plan, "remove/cp-3").forecast.voters, Some((2, 2)));
}

#[test]
fn control_plane_nodes_are_removed_one_by_one_dead_ones_first_and_never_the_last() {
    let case = || Case::new().removed("cp-3").removed("cp-2").allowing(all());
    let plan = case().plan();
    assert_eq!(units(&plan), ["remove/cp-3", "remove/cp-2"], "the highest number first");
    assert!(is_behind(&plan, "remove/cp-2", "remove/cp-3"));
    let forecast: Vec<_> = plan.units.iter().map(|unit| unit.forecast.voters).collect();
    assert_eq!(forecast, [Some((2, 2)), Some((1, 1))]);
    for (node, voters) in [("cp-3", "2 voting members"), ("cp-2", "1 voting member")] {
        let reason = &step(&plan, &format!("leave-etcd/{node}")).reason;
        let wanted = format!("etcd then has {voters} and tolerates no failure");
        assert!(reason.ends_with(&wanted), "leftover: {reason}");
    }
    let asked = Case::new().removed("cp-3").removed("cp-2").plan();
    assert_eq!(asked.blocked.len(), 2);
    for blocked in &asked.blocked {
        assert!(
            blocked.hint.contains("1 voting member and tolerates no failure"),
            "leftover: {}",
            blocked.hint
        );
    }
    assert_eq!(ids(&plan).iter().filter(|id| **id == "snapshot-etcd").count(), 1);
    let plan = case().dead("cp-2").plan();
    assert_eq!(units(&plan), ["remove/cp-2", "remove/cp-3"]);
    assert_eq!(steps_of(&plan, "remove/cp-2"), ["stop-vm", "leave-etcd", "delete-node", "delete-vm"]);
    assert!(matches!(
        step(&plan, "stop-vm/cp-2/150012").action,
        Action::StopVm { if_unresponsive: true, .. }
    ));
    // The dead one is not in the way of the file's own node, which is: etcd needs both of the others.
    let plan = Case::new().removed("cp-3").allowing(all()).dead("cp-1").plan();
    assert_eq!(units(&plan), Vec::<&str>::new());
    assert!(plan.blocked.iter().any(|b| b.node.as_deref() == Some("cp-3")), "{:?}", plan.blocked);
}

#[test]
fn a_node_restarts_before_the_others_leave_it_alone() {
    let case = Case::new().removed("cp-3").removed("cp-2").allowing(all()).cores(&["cp-1"]);
    let plan = case.plan();
    assert_eq!(units(&plan), ["restart/cp-1", "remove/cp-3", "remove/cp-2"], "{:?}", plan.blocked);
    assert_eq!(unit(&plan, "restart/cp-1").forecast.voters, Some((2, 3)));
}

#[test]
fn a_removal_needs_to_know_what_is_removed() {
    let told = |case: Case| {
        let plan = case.allowing(all()).plan();
        assert_eq!(units(&plan), Vec::<&str>::new());
        assert!(
            !ids(&plan).iter().any(|id| id.starts_with("delete-") || id.starts_with("stop-")),
            "{:?}",
            ids(&plan)
        );
        assert!(plan.blocked.iter().any(|b| b.node.as_deref() == Some("w-1")), "{:?}", plan.blocked);
    };
    let case = || Case::new().removed("w-1");
    let mut unseen = case();
    unseen.world.removed.clear();
    told(unseen);
    let mut not_asked = case();
    not_asked.world.machines.remove("w-1");
    told(not_asked);
    let mut silent = case();
    silent.world.kubernetes = Kubernetes::default();
    told(silent);
    let mut doubtful = case();
    doubtful.world.machines.insert("w-1".into(), Machine::unresponsive("timed out"));
    told(doubtful);
    let mut locked = case();
    locked.vm("w-1").lock = Some("backup".to_owned());
    told(locked);
    let mut protected = case();
    protected.vm("w-1").config.insert("protection".to_owned(), "1".to_owned());
    told(protected);
    let mut copied = case();
    copied.vm("w-1").uuid = None;
    told(copied);
}

#[test]
fn a_node_that_is_off_or_dead_is_not_drained() {
    let plan = Case::new().removed("w-1").dead("w-1").allowing(all()).plan();
    assert_eq!(steps_of(&plan, "remove/w-1"), ["stop-vm", "delete-node", "delete-vm"]);
    let mut off = Case::new().removed("w-1").dead("w-1").allowing(all());
    off.vm("w-1").running = false;
    assert_eq!(steps_of(&off.plan(), "remove/w-1"), ["delete-node", "delete-vm"]);
}

#[test]
fn a_node_of_kubernetes_without_a_vm_is_deleted_only_where_it_is_not_ready_and_named() {
    let case = || {
        let mut case = Case::new().removed("w-1");
        case.world.removed.clear();
        case.world.proxmox.marked.retain(|vm| vm.mark.node != "w-1");
        case.world.machines.remove("w-1");
        case
    };
    let ready = case().allowing(all()).plan();
    assert_eq!((units(&ready).len(), ready.blocked.len()), (0, 1), "{ready:?}");
    let not_named = {
        let mut case = case();
        case.world.kubernetes.nodes.get_mut("w-1").unwrap().ready = false;
        case
    };
    let plan = not_named.plan();
    assert_eq!((units(&plan).len(), plan.blocked.len()), (0, 1));
    assert!(plan.blocked[0].hint.contains("`--allow-destroy-removed`"), "{:?}", plan.blocked);
    let named = not_named.allowing(all());
    assert_eq!(steps_of(&named.plan(), "remove/w-1"), ["delete-node"]);
    let mut unread = named;
    unread.world.proxmox.unread.insert(4711, "pve2".to_owned());
    assert_eq!(units(&unread.plan()).len(), 0, "its VM may be the one that could not be read");
}

/// Operations 5137 and 5267: its VM is gone, and its member and its Node are not.
#[test]
fn a_member_without_a_vm_is_removed_through_the_others() {
    let case = |in_kubernetes: bool| {
        let mut case = Case::new().removed("cp-3").dead("cp-3");
        case.world.removed.clear();
        case.world.proxmox.marked.retain(|vm| vm.mark.node != "cp-3");
        case.world.machines.remove("cp-3");
        if !in_kubernetes {
            case.world.kubernetes.nodes.remove("cp-3");
        }
        case
    };
    let plan = case(true).allowing(all()).plan();
    assert_eq!(steps_of(&plan, "remove/cp-3"), ["leave-etcd", "delete-node"], "{:?}", plan.blocked);
    assert_eq!(unit(&plan, "remove/cp-3").effect, Effect::Removal);
    assert!(step(&plan, "leave-etcd/cp-3").after.iter().any(|id| id.0 == "snapshot-etcd"));
    // Kubernetes has forgotten it already.
    let plan = case(false).plan();
    let [blocked] = plan.blocked.as_slice() else { panic!("{:?}", plan.blocked) };
    assert!(blocked.what.contains("cp-3 is a member of etcd and is not in the file"), "{}", blocked.what);
    assert!(blocked.hint.contains("removes its member from etcd"), "{}", blocked.hint);
    let plan = case(false).allowing(all()).plan();
    assert_eq!(steps_of(&plan, "remove/cp-3"), ["leave-etcd"]);
    // Where Kubernetes does not answer, it may be ready.
    let mut silent = case(false).allowing(all());
    silent.world.kubernetes = Kubernetes::default();
    assert_eq!(units(&silent.plan()), Vec::<&str>::new());
    // Its VM may be the one that could not be read.
    let mut unread = case(false).allowing(all());
    unread.world.proxmox.unread.insert(4711, "pve2".to_owned());
    assert_eq!(units(&unread.plan()), Vec::<&str>::new());
    // etcd needs both of the others: the file's own node is dead, too.
    let both = case(true).dead("cp-1").allowing(all()).plan();
    assert_eq!(units(&both), Vec::<&str>::new());
}

#[test]
fn user_b_a_renamed_node_is_explained_and_never_removed() {
    let mut case = Case::new().removed("w-1").allowing(all());
    let mut new = node("worker-1", Role::Worker, 21, "pve1");
    case.blueprint.nodes.insert(new.name.clone(), new.clone());
    let plan = case.plan();
    assert_eq!((plan.steps.len(), plan.units.len()), (0, 0));
    assert!(plan.refusals.iter().any(|r| r.code == RefusalCode::TakenId), "{:?}", plan.refusals);
    // With another VM ID, and the same address.
    new.vmid = 4711;
    case.blueprint.nodes.insert(new.name.clone(), new);
    let plan = case.plan();
    assert!(!ids(&plan).iter().any(|id| id.starts_with("delete-vm")), "{:?}", ids(&plan));
    let blocked = plan.blocked.iter().find(|b| b.node.as_deref() == Some("w-1")).unwrap();
    assert!(blocked.what.contains("it looks renamed"), "{}", blocked.what);
}

#[test]
fn a_replacement_is_one_unit_from_stop_to_join() {
    let plan = Case::new().dead("w-1").allowing(Allowed::data_of(["w-1"])).plan();
    assert_eq!(
        steps_of(&plan, "replace/w-1"),
        ["stop-vm", "delete-vm", "delete-node", "create-vm", "start-vm", "configure", "join"]
    );
    let unit = unit(&plan, "replace/w-1");
    assert_eq!((unit.effect, unit.disruption), (Effect::Removal, Disruption::Replace));
    assert_eq!(count(&plan, "download-image"), 1, "the image is fetched before");
    let plan = Case::new().dead("cp-3").allowing(Allowed::data_of(["cp-3"])).cores(&["cp-1"]).plan();
    assert_eq!(
        steps_of(&plan, "replace/cp-3"),
        ["stop-vm", "leave-etcd", "delete-vm", "delete-node", "create-vm", "start-vm", "configure", "join"]
    );
    assert!(step(&plan, "stop-vm/cp-3/150013").after.iter().any(|id| id.0 == "snapshot-etcd"));
    // What restarts comes after it, when all members are there again.
    assert_eq!(units(&plan), ["replace/cp-3", "restart/cp-1"]);
    assert!(is_behind(&plan, "restart/cp-1", "replace/cp-3"));
    let forecast = &plan.units[1].forecast;
    assert_eq!((forecast.voters, forecast.blockers.len()), (Some((2, 3)), 0));
}

#[test]
fn a_dead_node_is_offered_to_be_replaced() {
    let plan = Case::new().dead("w-1").plan();
    let [blocked] = plan.blocked.as_slice() else { panic!("{:?}", plan.blocked) };
    assert_eq!((blocked.node.as_deref(), blocked.disruption), (Some("w-1"), Disruption::Replace));
    assert!(blocked.hint.contains("`talosmith node replace w-1`"), "{}", blocked.hint);
    assert!(ids(&plan).contains(&"join/w-1"), "it may come back by itself: {:?}", ids(&plan));
    // The only control plane node is not.
    assert_eq!(Case::with_voters(1).dead("cp-1").plan().blocked, []);
}
