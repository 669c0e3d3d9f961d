//! Nodes that a person wants to be made again.

use super::*;
use crate::plan::by_hand::{ByHand, Hand, plan_by_hand};
use crate::unit::Goal;

fn replaced(world: &Observed, node: &str, force: bool, allowed: &Allowed) -> Plan {
    let asked = ByHand { force, ..ByHand::of(Hand::Replace, [node]) };
    plan_by_hand(&blueprint(), &rendered(), world, allowed, &asked)
}

fn replace(world: &Observed, node: &str, force: bool) -> Plan {
    replaced(world, node, force, &Allowed::default())
}

fn healthy() -> Observed {
    let mut world = healthy_world(&blueprint());
    for host in world.proxmox.inventory.hosts.values_mut() {
        host.datastores.insert("local-lvm".to_owned(), InventoryDatastore::default());
    }
    world
}

/// It does not answer, and Kubernetes says that it is not ready.
fn dead(node: &str) -> Observed {
    let mut world = healthy();
    world.machines.insert(node.into(), Machine::unresponsive("no route to host"));
    world.kubernetes.nodes.get_mut(node).unwrap().ready = false;
    world
}

fn vm<'a>(world: &'a mut Observed, node: &str) -> &'a mut Vm {
    world.proxmox.marked.iter_mut().find(|vm| vm.mark.node == node).unwrap()
}

/// The kinds of the steps of its unit.
fn kinds(plan: &Plan) -> Vec<&str> {
    plan.steps.iter().filter(|step| step.unit.is_some()).map(|step| step.id.kind()).collect()
}

#[test]
fn a_dead_node_leaves_etcd_and_kubernetes_before_it_is_created_again() {
    let plan = replace(&dead("cp-3"), "cp-3", false);
    assert_eq!(plan.refusals, []);
    assert_eq!(plan.blocked, []);
    assert_eq!(
        kinds(&plan),
        ["stop-vm", "leave-etcd", "delete-vm", "delete-node", "create-vm", "start-vm", "configure", "join"]
    );
    assert_eq!(plan.goals().iter().filter(|goal| matches!(goal, Goal::Replace { .. })).count(), 1);
    let step = |kind: &str| plan.steps.iter().find(|step| step.id.kind() == kind).unwrap();
    assert!(matches!(step("stop-vm").action, Action::StopVm { if_unresponsive: true, .. }), "it is watched");
    let first = step("stop-vm");
    assert!(first.after.iter().any(|id| id.0 == "snapshot-etcd"), "{:?}", first.after);
    assert!(
        first.after.iter().any(|id| id.kind() == "download-image"),
        "its image is there before: {:?}",
        first.after
    );
    assert_eq!(step("leave-etcd").reason, "etcd then has 2 voting members and tolerates no failure");
    assert!(
        step("join").reason.ends_with("etcd then has 3 voting members and tolerates 1 failure"),
        "{}",
        step("join").reason
    );
    let worker = replace(&dead("w-1"), "w-1", false);
    assert_eq!(
        kinds(&worker),
        ["stop-vm", "delete-vm", "delete-node", "create-vm", "start-vm", "configure", "join"]
    );
}

#[test]
fn a_node_that_is_not_proved_to_be_dead_needs_a_word_more() {
    for node in ["cp-3", "w-1"] {
        let plan = replace(&healthy(), node, false);
        assert_eq!(plan.units, []);
        let [blocked] = plan.blocked.as_slice() else { panic!("{:?}", plan.blocked) };
        assert!(blocked.hint.contains("--force"), "{}", blocked.hint);
    }
    let plan = replace(&healthy(), "cp-3", true);
    assert_eq!(
        kinds(&plan),
        [
            "drain-node",
            "move-leadership",
            "leave-etcd",
            "stop-vm",
            "delete-vm",
            "delete-node",
            "create-vm",
            "start-vm",
            "configure",
            "join"
        ]
    );
    let mut off = healthy();
    vm(&mut off, "w-1").running = false;
    off.machines.remove("w-1");
    assert_eq!(replace(&off, "w-1", false).units, []);
    assert_eq!(
        kinds(&replace(&off, "w-1", true)),
        ["delete-vm", "delete-node", "create-vm", "start-vm", "configure", "join"]
    );
}

#[test]
fn what_is_not_known_is_never_replaced() {
    let mut worlds = vec![];
    let mut doubtful = healthy();
    doubtful.machines.insert("w-1".into(), Machine::unresponsive("timed out"));
    worlds.push(("Kubernetes calls it ready", doubtful));
    let mut silent = dead("w-1");
    silent.kubernetes = Kubernetes::default();
    worlds.push(("Kubernetes does not answer", silent));
    let mut unread = dead("w-1");
    unread.proxmox.marked.retain(|vm| vm.mark.node != "w-1");
    unread.proxmox.unread.insert(150_021, "pve1".to_owned());
    worlds.push(("its VM could not be read", unread));
    let mut not_asked = healthy();
    not_asked.machines.remove("w-1");
    worlds.push(("its machine was not asked", not_asked));
    let mut foreign = healthy();
    foreign.machines.insert("w-1".into(), Machine::with(Api::ForeignMachine { why: "its UUID".to_owned() }));
    worlds.push(("another machine answers", foreign));
    let mut copied = dead("w-1");
    vm(&mut copied, "w-1").uuid = None;
    worlds.push(("its VM may be a copy", copied));
    let mut locked = dead("w-1");
    vm(&mut locked, "w-1").lock = Some("backup".to_owned());
    worlds.push(("Proxmox holds a lock", locked));
    for (what, world) in worlds {
        for force in [false, true] {
            let plan = replace(&world, "w-1", force);
            assert!(plan.units.is_empty(), "{what}, force {force}: {:?}", ids(&plan));
            assert!(!plan.blocked.is_empty() || !plan.refusals.is_empty(), "{what} is told");
            assert!(
                !ids(&plan).iter().any(|id| id.starts_with("delete-") || id.starts_with("renew-")),
                "{what}"
            );
        }
    }
}

#[test]
fn etcd_keeps_its_quorum_and_control_plane_nodes_are_replaced_one_at_a_time() {
    let mut two = dead("cp-3");
    two.machines.insert("cp-2".into(), Machine::unresponsive("no route to host"));
    two.kubernetes.nodes.get_mut("cp-2").unwrap().ready = false;
    let plan = replace(&two, "cp-3", false);
    assert_eq!((plan.units.len(), plan.blocked.len()), (0, 1), "one of three answers: {plan:?}");
    let asked = ByHand { force: true, ..ByHand::of(Hand::Replace, ["cp-2", "cp-3"]) };
    let plan = plan_by_hand(&blueprint(), &rendered(), &healthy(), &Allowed::default(), &asked);
    assert_eq!((plan.units.len(), plan.blocked.len()), (1, 1), "{:?}", plan.blocked);
    let mut only = blueprint();
    only.nodes.retain(|name, _| !["cp-2", "cp-3"].contains(&name.as_str()));
    let asked = ByHand { force: true, ..ByHand::of(Hand::Replace, ["cp-1"]) };
    let plan = plan_by_hand(&only, &rendered(), &healthy_world(&only), &Allowed::default(), &asked);
    assert_eq!((plan.units.len(), plan.blocked.len()), (0, 1), "it alone has the data");
}

#[test]
fn data_disks_stay_unless_all_of_them_may_go() {
    let mut world = dead("w-1");
    vm(&mut world, "w-1")
        .config
        .insert("scsi1".to_owned(), "lvm:vm-150021-disk-1,size=100G,wwn=0x5".to_owned());
    let plan = replace(&world, "w-1", false);
    assert_eq!(
        kinds(&plan),
        ["stop-vm", "renew-disk", "delete-node", "start-vm", "configure", "join"],
        "{:?}",
        plan.blocked
    );
    let renew = plan.steps.iter().find(|step| step.id.kind() == "renew-disk").unwrap();
    assert!(renew.reason.contains("scsi1"), "{}", renew.reason);
    assert_eq!(renew.disruption, Disruption::Delete);
    let named = Allowed { disks: [("w-1".into(), ["scsi1".to_owned()].into())].into(), ..Allowed::default() };
    assert!(kinds(&replaced(&world, "w-1", false, &named)).contains(&"delete-vm"));
    // A disk that is detached is one of them.
    vm(&mut world, "w-1").config.insert("unused0".to_owned(), "lvm:vm-150021-disk-2".to_owned());
    assert!(kinds(&replaced(&world, "w-1", false, &named)).contains(&"renew-disk"));
}

/// A run that ended between the old disk and the new one.
#[test]
fn a_vm_without_a_system_disk_is_replaced_without_a_word_more() {
    let mut world = dead("w-1");
    world.machines.remove("w-1");
    let vm = vm(&mut world, "w-1");
    vm.running = false;
    vm.config.remove("scsi0");
    vm.config.insert("scsi1".to_owned(), "lvm:vm-150021-disk-1,size=100G,wwn=0x5".to_owned());
    assert_eq!(
        kinds(&replace(&world, "w-1", false)),
        ["renew-disk", "delete-node", "start-vm", "configure", "join"]
    );
}

#[test]
fn a_replacement_that_was_interrupted_after_the_node_left_etcd_names_its_command() {
    let mut world = healthy();
    let node = world.kubernetes.nodes.get_mut("cp-3").unwrap();
    (node.schedulable, node.cordoned) = (false, Some("replace/cp-3 by eva@laptop".to_owned()));
    let before = plan(&blueprint(), &rendered(), &world);
    assert_eq!(before.blocked, [], "it is a member: apply takes its cordon back");
    world.machines.get_mut("cp-3").unwrap().etcd = Etcd::Empty;
    for machine in world.machines.values_mut() {
        if let Etcd::Member { members: Some(members), .. } = &mut machine.etcd {
            members.retain(|member| !member.is_of("cp-3"));
        }
    }
    let plan = plan(&blueprint(), &rendered(), &world);
    let [blocked] = plan.blocked.as_slice() else { panic!("{:?}", plan.blocked) };
    assert_eq!(blocked.hint, "continue it: `talosmith node replace cp-3 --force`");
    assert!(!plan.steps.iter().any(|step| step.action.node() == Some("cp-3")), "{:?}", ids(&plan));
    let again = replace(&world, "cp-3", true);
    assert_eq!(again.blocked, []);
    assert!(kinds(&again).contains(&"create-vm"), "{:?}", kinds(&again));
}

/// The cluster in the moments of a replacement in which its Node says that it runs.
#[test]
fn leftover_a_replacement_that_was_interrupted_is_continued_and_never_undone() {
    for node in ["cp-3", "w-1"] {
        let mut off = healthy();
        let seen = off.kubernetes.nodes.get_mut(node).unwrap();
        (seen.schedulable, seen.ready) = (false, false);
        seen.cordoned = Some(format!("replace/{node} by eva@laptop"));
        off.machines.remove(node);
        for machine in off.machines.values_mut() {
            if let Etcd::Member { members: Some(members), .. } = &mut machine.etcd {
                members.retain(|member| !member.is_of(node));
            }
        }
        vm(&mut off, node).running = false;
        let mut deleted = off.clone();
        deleted.proxmox.marked.retain(|vm| vm.mark.node != node);
        for (what, world) in [("its VM is off", off), ("its VM is deleted", deleted)] {
            let applied = plan(&blueprint(), &rendered(), &world);
            let touches = |step: &&Step| step.action.node() == Some(node);
            assert!(!applied.steps.iter().any(|step| touches(&step)), "{what}: {:?}", ids(&applied));
            let [blocked] = applied.blocked.as_slice() else { panic!("{what}: {:?}", applied.blocked) };
            assert!(blocked.what.contains(what), "{}", blocked.what);
            assert_eq!(blocked.hint, format!("continue it: `talosmith node replace {node}`"));
            let again = replace(&world, node, false);
            assert_eq!(again.blocked, [], "{what}");
            assert!(kinds(&again).contains(&"create-vm"), "{what}: {:?}", kinds(&again));
            assert!(kinds(&again).contains(&"delete-node"), "{what}: {:?}", kinds(&again));
        }
    }
}

#[test]
fn a_vm_in_high_availability_is_not_deleted_to_be_created_again() {
    let mut world = healthy();
    vm(&mut world, "cp-3").ha_state = Some("started".to_owned());
    let plan = replace(&world, "cp-3", true);
    assert_eq!(plan.units, []);
    let [blocked] = plan.blocked.as_slice() else { panic!("{:?}", plan.blocked) };
    assert!(blocked.what.contains("managed by HA"), "{}", blocked.what);
    assert!(blocked.hint.contains("`ha-manager remove vm:"), "{}", blocked.hint);
}

#[test]
fn a_vm_that_is_replaced_is_not_called_gone() {
    let plan = replace(&healthy(), "cp-3", true);
    let create = plan.steps.iter().find(|step| step.id.kind() == "create-vm").unwrap();
    assert!(create.reason.starts_with("it is created again, empty; "), "{}", create.reason);
}
