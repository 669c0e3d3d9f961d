//! Bootstrap, replacement and deletion need positive evidence.

use uuid::Uuid;

use super::*;
use crate::observed::{EtcdStatus, Kubelet};
use crate::step::StepId;

fn codes(plan: &Plan) -> Vec<RefusalCode> {
    plan.refusals.iter().map(|refusal| refusal.code).collect()
}

fn kinds(plan: &Plan) -> BTreeSet<&str> {
    plan.steps.iter().map(|step| step.id.kind()).collect()
}

/// Machines that were created and configured, before etcd was bootstrapped: as a run leaves it that dies at that point.
fn before_bootstrap(blueprint: &Blueprint) -> Observed {
    let mut world = healthy_world(blueprint);
    world.kubernetes = Kubernetes::default();
    world.proxmox.record.as_mut().unwrap().state = RecordState::default();
    for (name, machine) in &mut world.machines {
        machine.ready = false;
        machine.stage = Some("booting".to_owned());
        machine.etcd = Etcd::Empty;
        machine.kubelet = Kubelet::Never;
        if blueprint.nodes[name].role == Role::Worker {
            *machine = Machine::unresponsive("the port is closed");
        }
    }
    world
}

/// The same blueprint, of machines that others made.
fn external() -> Blueprint {
    let mut blueprint = blueprint();
    for node in blueprint.nodes.values_mut() {
        node.external = true;
        node.host = None;
        node.settings.unverified = true;
    }
    blueprint
}

fn external_world(blueprint: &Blueprint, world: Observed) -> Observed {
    let proxmox = Proxmox { version: "9.1.8".to_owned(), ..Proxmox::default() };
    assert!(!blueprint.has_proxmox());
    Observed { proxmox, ..world }
}

/// cp-1 answers, and nothing else of etcd does.
fn without_majority(blueprint: &Blueprint, list: bool) -> Observed {
    let mut world = healthy_world(blueprint);
    for name in ["cp-2", "cp-3"] {
        world.machines.insert(name.into(), Machine::unresponsive("connection timed out"));
    }
    let left = world.machines.get_mut("cp-1").unwrap();
    left.etcd_status = Some(EtcdStatus { leader: None, errors: vec![], ..EtcdStatus::default() });
    if let Etcd::Member { members, .. } = &mut left.etcd
        && !list
    {
        *members = None;
    }
    world.kubernetes = Kubernetes::default();
    world
}

/// Takes the VM of a node away.
fn lose(world: &mut Observed, node: &str) {
    world.proxmox.marked.retain(|vm| vm.mark.node != node);
    world.proxmox.taken.retain(|_, guest| guest.name.as_deref() != Some(node));
    world.machines.remove(node);
}

#[test]
fn issue_15_no_new_control_plane_node_beside_a_lost_majority() {
    let blueprint = blueprint();
    for list in [true, false] {
        let mut world = without_majority(&blueprint, list);
        lose(&mut world, "cp-2");
        lose(&mut world, "w-1");
        world.proxmox.marked.iter_mut().find(|vm| vm.mark.node == "cp-3").unwrap().running = false;
        world.machines.remove("cp-3");
        let plan = plan(&blueprint, &rendered(), &world);
        assert_eq!(plan.refusals, []);
        assert!(!ids(&plan).iter().any(|id| id.ends_with("/cp-2")), "{:?}", ids(&plan));
        let blocked: Vec<_> = plan.blocked.iter().map(|b| (b.node.as_deref(), b.what.as_str())).collect();
        let (node, what) = blocked[0];
        assert_eq!((blocked.len(), node), (1, Some("cp-2")), "{blocked:?}");
        assert!(what.starts_with("cp-2 is not created: etcd takes no new member: "), "{what}");
        assert!(plan.blocked[0].hint.contains("etcd from a snapshot"), "{:?}", plan.blocked);
        // What brings a member back goes on, and so does a worker.
        assert!(
            ids(&plan).contains(&"start-vm/cp-3") && ids(&plan).contains(&"create-vm/w-1"),
            "{:?}",
            ids(&plan)
        );
    }
    // A machine that waits empty is not configured either.
    let mut world = without_majority(&blueprint, false);
    world.machines.insert("cp-3".into(), Machine::with(Api::Maintenance));
    let held = plan(&blueprint, &rendered(), &world);
    assert!(!ids(&held).contains(&"configure/cp-3"), "{:?}", ids(&held));
    assert!(held.blocked[0].what.starts_with("cp-3 is not configured: "), "{:?}", held.blocked);
    // By the record alone.
    world.machines.insert("cp-1".into(), Machine::unresponsive("connection timed out"));
    let held = plan(&blueprint, &rendered(), &world);
    assert!(!ids(&held).contains(&"configure/cp-3"), "{:?}", ids(&held));
    assert!(
        held.blocked[0].what.contains("no member of it answers (cp-1, cp-2, cp-3)"),
        "{:?}",
        held.blocked
    );
}

#[test]
fn issue_15_a_control_plane_node_is_created_again_while_a_majority_answers() {
    let blueprint = blueprint();
    let mut world = healthy_world(&blueprint);
    lose(&mut world, "cp-2");
    let plan = plan(&blueprint, &rendered(), &world);
    assert!(ids(&plan).contains(&"create-vm/cp-2"), "{:?}", ids(&plan));
    assert_eq!(plan.blocked, []);
}

#[test]
fn a_run_that_died_before_bootstrap_is_continued() {
    let blueprint = blueprint();
    for etcd in [Etcd::Empty, Etcd::Unknown] {
        let mut world = before_bootstrap(&blueprint);
        world.machines.get_mut("cp-2").unwrap().etcd = etcd;
        let plan = plan(&blueprint, &rendered(), &world);
        assert_eq!(plan.refusals, []);
        assert!(ids(&plan).contains(&"bootstrap/cp-1"), "{:?}", ids(&plan));
    }
    let blueprint = external();
    let world = external_world(&blueprint, before_bootstrap(&super::blueprint()));
    let plan = plan(&blueprint, &rendered(), &world);
    assert_eq!(plan.refusals, []);
    assert!(ids(&plan).contains(&"bootstrap/cp-1"), "{:?}", ids(&plan));
}

#[test]
fn a2_vms_without_a_record_and_without_members_are_refused() {
    let blueprint = blueprint();
    let mut world = empty_world();
    world.proxmox.marked.push(vm(&blueprint.nodes["w-1"], true));
    world.machines.insert("w-1".into(), machine(Api::Configured, Etcd::Empty));
    let told = plan(&blueprint, &rendered(), &world);
    assert_eq!(codes(&told), [RefusalCode::NoRecord]);
    assert!(!told.refusals[0].hint.contains("delete"), "{:?}", told.refusals);
    // Off, or not in the file any more: it is still a VM of this cluster.
    world.machines.clear();
    world.proxmox.marked[0].running = false;
    assert_eq!(codes(&plan(&blueprint, &rendered(), &world)), [RefusalCode::NoRecord]);
    world.proxmox.marked[0].mark.node = "old-9".to_owned();
    world.proxmox.marked[0].uuid = Some(world.proxmox.marked[0].mark.uuid(ID));
    assert_eq!(codes(&plan(&blueprint, &rendered(), &world)), [RefusalCode::NoRecord]);
    // It can be given up.
    assert_eq!(plan_destroy(&blueprint, &world).refusals, []);
}

#[test]
fn a2_a_member_brings_the_record_back_with_its_mark() {
    let blueprint = blueprint();
    let mut world = healthy_world(&blueprint);
    world.proxmox.record = None;
    world.proxmox.occupied.insert("10.25.150.10".parse().unwrap(), "something answers".to_owned());
    let plan = plan(&blueprint, &rendered(), &world);
    assert_eq!(plan.refusals, [], "the address of its API is the cluster's own");
    let Action::CreateRecord { member, .. } = &step(&plan, "create-record").action else { panic!() };
    assert_eq!(member.as_deref(), Some("cp-1"));
    assert!(!kinds(&plan).contains("bootstrap"));
}

#[test]
fn a2_a_record_without_a_sealed_mark_is_sealed_while_a_member_answers() {
    let blueprint = blueprint();
    for state in [RecordState::default(), bootstrapped("cp-1", false)] {
        let mut world = healthy_world(&blueprint);
        world.proxmox.record.as_mut().unwrap().state = state;
        let plan = plan(&blueprint, &rendered(), &world);
        assert_eq!(ids(&plan), ["seal-record"]);
    }
}

#[test]
fn a2_a_record_that_says_nothing_is_written_first_or_refused() {
    let blueprint = blueprint();
    let mut world = healthy_world(&blueprint);
    *world.proxmox.record.as_mut().unwrap() = RecordSeen {
        vmid: 150_010,
        host: "pve1".to_owned(),
        state: RecordState::default(),
        unreadable: true,
    };
    world.proxmox.marked.retain(|vm| vm.mark.node != "w-1");
    world.proxmox.taken.remove(&150_021);
    let told = plan(&blueprint, &rendered(), &world);
    assert_eq!(told.refusals, []);
    let seal = StepId("seal-record".to_owned());
    assert!(step(&told, "create-vm/w-1").after.contains(&seal), "nothing is touched without the lease");
    for machine in world.machines.values_mut() {
        *machine = Machine::unresponsive("the network is unreachable");
    }
    for told in [plan(&blueprint, &rendered(), &world), plan_destroy(&blueprint, &world)] {
        assert_eq!(codes(&told), [RefusalCode::NoRecord]);
        assert!(told.refusals[0].hint.contains(r#""done":true"#), "{:?}", told.refusals);
    }
}

#[test]
fn a2_nobody_is_told_to_delete_the_record() {
    let blueprint = blueprint();
    let mut world = healthy_world(&blueprint);
    world.proxmox.record = None;
    world.proxmox.unread.insert(150_010, "pve1".to_owned());
    world.proxmox.unmarked.insert(150_010, RECORD_NODE.to_owned());
    let plan = plan(&blueprint, &rendered(), &world);
    assert_eq!(codes(&plan), [RefusalCode::LostMark]);
    assert!(!plan.refusals[0].hint.contains("delete"), "{:?}", plan.refusals);
}

#[test]
fn a2_a_vm_outside_of_the_file_may_have_etcds_data() {
    let blueprint = blueprint();
    let mut world = before_bootstrap(&blueprint);
    let mut old = vm(&blueprint.nodes["cp-1"], false);
    (old.vmid, old.mark.node) = (150_019, "cp-9".to_owned());
    world.proxmox.marked.push(old);
    let plan = plan(&blueprint, &rendered(), &world);
    assert_eq!(codes(&plan), [RefusalCode::Etcd]);
    assert!(plan.refusals[0].why.contains("cp-9 (VM 150019 on pve1)"), "{:?}", plan.refusals);
}

#[test]
fn t1_an_answering_kubernetes_blocks_bootstrap() {
    let blueprint = blueprint();
    for (answered, refused) in [(true, false), (false, true)] {
        let mut world = before_bootstrap(&blueprint);
        world.kubernetes = Kubernetes { answered, refused, ..Kubernetes::default() };
        let plan = plan(&blueprint, &rendered(), &world);
        assert_eq!(codes(&plan), [RefusalCode::Etcd]);
        assert!(plan.refusals[0].why.contains("Kubernetes answers"), "{:?}", plan.refusals);
    }
}

#[test]
fn t1_a_node_with_data_is_waited_for() {
    for (blueprint, world) in [
        (blueprint(), before_bootstrap(&blueprint())),
        (external(), external_world(&external(), before_bootstrap(&blueprint()))),
    ] {
        let mut world = world;
        world.machines.get_mut("cp-1").unwrap().etcd = Etcd::Data;
        let plan = plan(&blueprint, &rendered(), &world);
        assert_eq!(plan.refusals, []);
        assert!(!kinds(&plan).contains("bootstrap"), "{:?}", ids(&plan));
        assert!(ids(&plan).contains(&"join/cp-1"), "{:?}", ids(&plan));
    }
}

#[test]
fn t1_a_running_control_plane_node_that_does_not_tell_blocks_bootstrap() {
    let blueprint = blueprint();
    let mut world = before_bootstrap(&blueprint);
    let seen = world.machines.get_mut("cp-1").unwrap();
    (seen.etcd, seen.stage) = (Etcd::Unknown, Some("running".to_owned()));
    assert_eq!(codes(&plan(&blueprint, &rendered(), &world)), [RefusalCode::Etcd]);
}

#[test]
fn t2_a_kubelet_that_was_registered_blocks_bootstrap() {
    let blueprint = external();
    let mut world = external_world(&blueprint, before_bootstrap(&super::blueprint()));
    for name in ["cp-1", "cp-2", "cp-3"] {
        world.machines.insert(name.into(), Machine::with(Api::Maintenance));
    }
    let worker = Machine { kubelet: Kubelet::Registered, ..machine(Api::Configured, Etcd::Empty) };
    world.machines.insert("w-1".into(), worker);
    let plan = plan(&blueprint, &rendered(), &world);
    assert_eq!(codes(&plan), [RefusalCode::Etcd]);
    assert!(plan.refusals[0].why.contains("w-1 was registered"), "{:?}", plan.refusals);
}

#[test]
fn i16_a_required_console_needs_the_serial_port_that_the_vm_runs_with() {
    let mut blueprint = blueprint();
    blueprint.options.identity = Some(crate::spec::Identity::Console);
    let mut world = before_bootstrap(&blueprint);
    world.machines.insert("w-1".into(), Machine::with(Api::Maintenance));
    let identity = |world: &Observed| {
        let told = plan(&blueprint, &rendered(), world);
        told.refusals.into_iter().find(|refusal| refusal.code == RefusalCode::Identity)
    };
    assert_eq!(identity(&world), None);
    let vm = world.proxmox.marked.iter_mut().find(|vm| vm.name == "w-1").unwrap();
    vm.config.remove("serial0");
    let refusal = identity(&world).unwrap();
    assert!(refusal.why.contains("runs without the serial port"), "{refusal:?}");
    assert!(refusal.hint.starts_with("add the port"), "{refusal:?}");
    // It was added, and is there from the next start on.
    let vm = world.proxmox.marked.iter_mut().find(|vm| vm.name == "w-1").unwrap();
    vm.pending.insert("serial0".to_owned(), Some("socket".to_owned()));
    assert!(identity(&world).unwrap().hint.starts_with("stop and start the VM"));
}

#[test]
fn i16_an_external_machine_without_identity_that_does_not_answer_is_named() {
    let mut blueprint = external();
    for node in blueprint.nodes.values_mut() {
        (node.settings.unverified, node.settings.fingerprint) = (false, None);
    }
    let mut world = external_world(&blueprint, before_bootstrap(&super::blueprint()));
    world.machines.insert("w-1".into(), Machine::unresponsive("no route to host"));
    let told = plan(&blueprint, &rendered(), &world);
    let warns = |note: &&Note| note.text.contains("does not say how w-1 can be identified");
    assert!(told.notes.iter().any(|note| warns(&note)), "{:?}", told.notes);
}

#[test]
fn t3_other_keys_are_refused() {
    let blueprint = external();
    let mut world = external_world(&blueprint, before_bootstrap(&super::blueprint()));
    for machine in world.machines.values_mut() {
        *machine = Machine::with(Api::OtherKeys { why: "unknown authority".to_owned() });
    }
    let plan = plan(&blueprint, &rendered(), &world);
    assert_eq!(kinds(&plan), BTreeSet::new());
    assert_eq!(codes(&plan), [RefusalCode::OtherKeys; 4]);
}

#[test]
fn by_reading_2_a_machine_in_maintenance_mode_may_have_etcds_data() {
    let blueprint = blueprint();
    let mut world = before_bootstrap(&blueprint);
    world.proxmox.record.as_mut().unwrap().state = bootstrapped("cp-1", true);
    for name in ["cp-1", "cp-2", "cp-3"] {
        world.machines.insert(name.into(), Machine::with(Api::Maintenance));
    }
    let told = plan(&blueprint, &rendered(), &world);
    assert_eq!(told.refusals, [], "it shows once they are configured");
    assert!(kinds(&told).contains("configure") && !kinds(&told).contains("bootstrap"), "{:?}", ids(&told));
}

/// A healthy cluster in which nothing answers at these nodes, and Kubernetes misses them.
fn without(blueprint: &Blueprint, lost: &[&str]) -> Observed {
    let mut world = healthy_world(blueprint);
    for name in lost {
        world.machines.insert((*name).into(), Machine::unresponsive("the network is unreachable"));
        world.kubernetes.nodes.get_mut(*name).unwrap().ready = false;
    }
    world
}

fn allowing(blueprint: &Blueprint, world: &Observed, nodes: &[&str]) -> Plan {
    plan_allowing(blueprint, &rendered(), world, &Allowed::data_of(nodes.iter().copied()))
}

#[test]
fn a3_members_that_the_file_does_not_have_count() {
    let blueprint = blueprint();
    let mut world = without(&blueprint, &["cp-3"]);
    assert!(kinds(&allowing(&blueprint, &world, &["cp-3"])).contains("delete-vm"));
    for machine in world.machines.values_mut() {
        if let Etcd::Member { members: Some(members), .. } = &mut machine.etcd {
            members.extend([member("e4", "cp-4"), member("e5", "cp-5")]);
        }
    }
    let told = allowing(&blueprint, &world, &["cp-3"]);
    assert_eq!(codes(&told), [RefusalCode::Etcd]);
    assert!(told.refusals[0].why.contains("only 2 of 5 voting members"), "{:?}", told.refusals);
    // A list that was not given is no vote.
    let mut world = without(&blueprint, &["cp-3"]);
    let etcd = Etcd::Member { id: "1".to_owned(), learner: false, members: None };
    world.machines.get_mut("cp-2").unwrap().etcd = etcd;
    assert_eq!(codes(&allowing(&blueprint, &world, &["cp-3"])), [RefusalCode::Etcd]);
}

#[test]
fn a3_the_second_control_plane_node_waits_for_another_run() {
    let mut blueprint = blueprint();
    for (name, last) in [("cp-4", 14), ("cp-5", 15)] {
        let new = node(name, Role::ControlPlane, last, "pve1");
        blueprint.nodes.insert(name.into(), new);
    }
    let world = without(&blueprint, &["cp-4", "cp-5"]);
    let plan = allowing(&blueprint, &world, &["cp-4", "cp-5"]);
    assert_eq!(plan.refusals, []);
    let about = |node: &str| ids(&plan).into_iter().filter(|id| id.contains(node)).count();
    assert!(about("cp-4") > 4 && about("cp-5") == 0, "{:?}", ids(&plan));
    assert!(plan.notes.iter().any(|n| n.text.starts_with("cp-5 is replaced in another run")));
    let Action::DeleteVm { keeps_quorum, .. } = step(&plan, "delete-vm/cp-4/150014").action else { panic!() };
    assert!(keeps_quorum);
}

#[test]
fn a4_a_worker_is_replaced_only_where_something_shows_that_it_is_dead() {
    let blueprint = blueprint();
    let told = |world: &Observed| allowing(&blueprint, world, &["w-1"]);
    assert!(kinds(&told(&without(&blueprint, &["w-1"]))).contains("delete-vm"), "Kubernetes says not ready");
    let mut world = without(&blueprint, &["w-1"]);
    world.kubernetes.nodes.remove("w-1");
    assert!(kinds(&told(&world)).contains("delete-vm"), "Kubernetes has no such node, and others answer");
    world.kubernetes = Kubernetes::default();
    let plan = told(&world);
    assert_eq!(codes(&plan), [RefusalCode::NotProven], "Kubernetes might call it ready");
    assert!(!plan.refusals[0].hint.contains("delete"), "etcd was bootstrapped: {:?}", plan.refusals);
    for name in ["cp-1", "cp-2", "cp-3"] {
        world.machines.insert(name.into(), Machine::unresponsive("the network is unreachable"));
    }
    assert_eq!(codes(&told(&world)), [RefusalCode::NotProven], "nothing answers");
    let mut world = without(&blueprint, &["w-1"]);
    world.kubernetes.nodes.get_mut("w-1").unwrap().ready = true;
    assert!(!kinds(&told(&world)).contains("delete-vm"), "a veto");
    assert!(told(&world).notes.iter().any(|n| n.text.contains("is Ready")), "{:?}", told(&world).notes);
}

/// A run died behind the call, etcd ran, and then the control plane VMs were deleted: the mark does not say that it ran.
#[test]
fn a2_a_mark_whose_vm_is_gone_is_not_repeated() {
    let blueprint = blueprint();
    let mut world = before_bootstrap(&blueprint);
    world.proxmox.record.as_mut().unwrap().state = bootstrapped("cp-1", false);
    assert!(kinds(&plan(&blueprint, &rendered(), &world)).contains("bootstrap"), "its VM is there");
    world.proxmox.marked.retain(|vm| !vm.mark.node.starts_with("cp-"));
    world.machines.retain(|name, _| !name.starts_with("cp-"));
    let plan = plan(&blueprint, &rendered(), &world);
    assert_eq!(plan.steps, []);
    assert!(codes(&plan).contains(&RefusalCode::Etcd), "{:?}", plan.refusals);
}

/// The line of the record lost its bootstrap mark by hand, and the control plane VMs were deleted.
#[test]
fn a2_generations_of_vms_that_are_gone_are_a_sign_of_a_cluster() {
    let blueprint = blueprint();
    let mut world = before_bootstrap(&blueprint);
    let generations: BTreeMap<String, Uuid> =
        (1..=3).map(|n| (format!("cp-{n}"), Uuid::from_u128(n))).collect();
    for vm in &mut world.proxmox.marked {
        vm.vmgenid = generations.get(&vm.mark.node).copied().or(vm.vmgenid);
    }
    world.proxmox.record.as_mut().unwrap().state.generations = generations;
    assert!(kinds(&plan(&blueprint, &rendered(), &world)).contains("bootstrap"), "their VMs are there");
    for vm in &mut world.proxmox.marked {
        vm.vmgenid = Some(Uuid::from_u128(9));
    }
    let others = plan(&blueprint, &rendered(), &world);
    world.proxmox.marked.retain(|vm| !vm.mark.node.starts_with("cp-"));
    world.machines.retain(|name, _| !name.starts_with("cp-"));
    for plan in [others, plan(&blueprint, &rendered(), &world)] {
        assert!(!kinds(&plan).contains("bootstrap"), "{:?}", ids(&plan));
        assert!(codes(&plan).contains(&RefusalCode::Etcd), "{:?}", plan.refusals);
    }
}

/// The file calls a voter a worker: etcd's members say what it is.
#[test]
fn a3_a_voter_that_the_file_calls_a_worker_counts() {
    let mut blueprint = blueprint();
    let mut world = without(&blueprint, &["cp-2", "cp-3"]);
    blueprint.nodes.get_mut("cp-3").unwrap().role = Role::Worker;
    world.machines.get_mut("cp-1").unwrap().ready = true;
    let plan = allowing(&blueprint, &world, &["cp-3"]);
    assert!(!plan.steps.iter().any(|step| step.action.node() == Some("cp-3")), "{:?}", ids(&plan));
    let blocked = plan.blocked.iter().find(|blocked| blocked.node.as_deref() == Some("cp-3"));
    assert!(blocked.is_some_and(|blocked| blocked.what.contains("is a control plane node")), "{plan:?}");
}

#[test]
fn a4_nothing_is_replaced_while_no_member_of_etcd_answers() {
    let blueprint = blueprint();
    let mut world = without(&blueprint, &["w-1"]);
    world.kubernetes.nodes.get_mut("w-1").unwrap().ready = false;
    assert!(kinds(&allowing(&blueprint, &world, &["w-1"])).contains("delete-vm"));
    for node in blueprint.control_planes() {
        world.machines.get_mut(&node.name).unwrap().etcd = Etcd::Unknown;
    }
    let plan = allowing(&blueprint, &world, &["w-1"]);
    assert_eq!((codes(&plan), plan.steps.len()), (vec![RefusalCode::NotProven], 0));
}

#[test]
fn e1_the_only_control_plane_node_is_not_replaced_and_the_remedy_is_one_that_helps() {
    let mut blueprint = blueprint();
    blueprint.nodes.retain(|name, _| !["cp-2", "cp-3"].contains(&name.as_str()));
    let only = blueprint.control_planes().next().unwrap().name.clone();
    let mut world = without(&blueprint, &[&only]);
    for answers in [true, false] {
        world.kubernetes.answered = answers;
        let plan = allowing(&blueprint, &world, &[&only]);
        assert_eq!(codes(&plan), [RefusalCode::NotProven], "{:?}", plan.refusals);
        let Refusal { why, hint, .. } = &plan.refusals[0];
        assert!(why.contains("the only control plane node"), "{why}");
        assert!(hint.contains("talosmith destroy") && hint.contains("backup"), "{hint}");
        assert!(!hint.contains("control plane node back"), "{hint}");
    }
}
