//! Nodes that move to another Proxmox host, and hosts that are drained.

use super::*;
use crate::gate::Effect;
use crate::observed::Migration;
use crate::plan::by_hand::{ByHand, Hand, plan_by_hand};
use crate::plan::moves;
use crate::unit::Goal;

struct Case {
    blueprint: Blueprint,
    world: Observed,
}

/// What Proxmox says of a VM that nothing ties to its host.
fn free() -> Migration {
    Migration::Known {
        local_disks: vec![],
        local_resources: vec![],
        mapped_resources: vec![],
        not_allowed: BTreeMap::new(),
    }
}

impl Case {
    fn new() -> Self {
        let blueprint = blueprint();
        let mut world = healthy_world(&blueprint);
        for vm in &world.proxmox.marked.clone() {
            world.proxmox.migrations.insert(vm.vmid, free());
        }
        for host in world.proxmox.inventory.hosts.values_mut() {
            host.datastores.insert("local-lvm".to_owned(), InventoryDatastore::default());
        }
        Self { blueprint, world }
    }

    /// The file names this host for a node.
    fn on(mut self, node: &str, host: &str) -> Self {
        let node = self.blueprint.nodes.get_mut(node).unwrap();
        (node.host, node.host_pinned) = (Some(host.to_owned()), true);
        self
    }

    fn said(mut self, node: &str, said: Migration) -> Self {
        let vmid = self.blueprint.nodes[node].vmid;
        self.world.proxmox.migrations.insert(vmid, said);
        self
    }

    fn vm(&mut self, node: &str) -> &mut Vm {
        self.world.proxmox.marked.iter_mut().find(|vm| vm.mark.node == node).unwrap()
    }

    fn host(&self, node: &str) -> String {
        self.world.proxmox.marked.iter().find(|vm| vm.mark.node == node).unwrap().host.clone()
    }

    fn drained(mut self, host: &str, nodes: &[&str]) -> Self {
        let record = self.world.proxmox.record.as_mut().unwrap();
        record.state.drained.insert(host.to_owned(), nodes.iter().map(|node| (*node).into()).collect());
        self
    }

    fn plan(&self) -> Plan {
        plan(&self.blueprint, &rendered(), &self.world)
    }

    fn asked(&self, hand: Hand, host: &str) -> Plan {
        let asked = ByHand::of_host(hand, host);
        plan_by_hand(&self.blueprint, &rendered(), &self.world, &Allowed::default(), &asked)
    }
}

/// The kinds of the steps of a unit.
fn kinds<'a>(plan: &'a Plan, unit: &str) -> Vec<&'a str> {
    let own = plan.steps.iter().filter(|step| step.unit.as_ref().is_some_and(|own| own.0 == unit));
    own.map(|step| step.id.kind()).collect()
}

fn migration<'a>(plan: &'a Plan, node: &str) -> &'a Action {
    let id = format!("migrate-vm/{node}");
    &plan.steps.iter().find(|step| step.id.0 == id).unwrap_or_else(|| panic!("{:?}", ids(plan))).action
}

#[test]
fn another_host_in_the_file_moves_a_node_while_it_runs() {
    let case = Case::new().on("w-1", "pve2");
    let from = case.host("w-1");
    assert_ne!(from, "pve2");
    let plan = case.plan();
    assert_eq!((plan.refusals.len(), plan.blocked.len()), (0, 0), "{plan:?}");
    assert_eq!(kinds(&plan, "move/w-1"), ["migrate-vm", "verify-node"]);
    assert!(
        matches!(migration(&plan, "w-1"), Action::MigrateVm { to, online: true, local_disks: false, .. } if to == "pve2")
    );
    assert_eq!(plan.units[0].effect, Effect::Absence);
    assert!(plan.goals().contains(&Goal::Move { node: "w-1".into(), host: "pve2".to_owned() }));
    let reason = &plan.steps.iter().find(|step| step.id.kind() == "migrate-vm").unwrap().reason;
    assert!(reason.contains("the file says pve2; it moves while it runs"), "{reason}");
    let asked = moves::to_ask_about(&case.blueprint, &case.world.proxmox, None);
    assert_eq!(asked.len(), 1, "Proxmox is asked about those only: {asked:?}");
}

#[test]
fn control_plane_nodes_move_one_after_another_and_hand_their_leadership_over() {
    let mut case = Case::new();
    let to: Vec<(&str, String)> = ["cp-1", "cp-2"]
        .into_iter()
        .map(|node| (node, if case.host(node) == "pve2" { "pve1".to_owned() } else { "pve2".to_owned() }))
        .collect();
    for (node, host) in to {
        case = case.on(node, &host);
    }
    let plan = case.plan();
    assert_eq!(plan.units.len(), 2, "{:?}", plan.blocked);
    for unit in &plan.units {
        assert_eq!(kinds(&plan, &unit.id.0), ["move-leadership", "migrate-vm", "verify-node"]);
        assert!(!unit.forecast.outage && !unit.forecast.moves_vip);
    }
    let second = plan.steps.iter().find(|step| step.unit.as_ref() == Some(&plan.units[1].id)).unwrap();
    let last = plan.steps.iter().rfind(|step| step.unit.as_ref() == Some(&plan.units[0].id)).unwrap();
    assert!(second.after.contains(&last.id), "{:?}", second.after);
}

#[test]
fn a_node_with_a_mapped_device_is_shut_down_to_move_and_one_with_a_device_of_its_host_never_moves() {
    let known = |mapped: &[&str], local: &[&str]| Migration::Known {
        local_disks: vec!["lvm:vm-1".to_owned()],
        local_resources: local.iter().map(|name| (*name).to_owned()).collect(),
        mapped_resources: mapped.iter().map(|name| (*name).to_owned()).collect(),
        not_allowed: BTreeMap::new(),
    };
    let plan = Case::new().on("w-1", "pve2").said("w-1", known(&["hostpci0"], &[])).plan();
    assert_eq!(kinds(&plan, "move/w-1"), ["drain-node", "migrate-vm", "verify-node", "uncordon-node"]);
    assert!(matches!(migration(&plan, "w-1"), Action::MigrateVm { online: false, local_disks: true, .. }));
    assert_eq!(plan.units[0].disruption, Disruption::PowerCycle);
    let told = |said: Migration, words: &str| {
        let plan = Case::new().on("w-1", "pve2").said("w-1", said).plan();
        assert_eq!(plan.units, []);
        let [blocked] = plan.blocked.as_slice() else { panic!("{:?}", plan.blocked) };
        assert!(blocked.what.contains(words), "{}", blocked.what);
        blocked.hint.clone()
    };
    let hint = told(known(&[], &["hostpci0"]), "it uses devices of its host (hostpci0)");
    assert!(hint.contains("`talosmith node replace w-1 --force`"), "{hint}");
    told(Migration::Unknown { why: "Permission check failed".to_owned() }, "Proxmox did not say");
    let not_allowed = Migration::Known {
        local_disks: vec![],
        local_resources: vec![],
        mapped_resources: vec![],
        not_allowed: [("pve2".to_owned(), vec!["fast".to_owned()])].into(),
    };
    told(not_allowed, "pve2 lacks fast");
}

#[test]
fn a_node_stays_where_its_new_host_or_its_machine_is_not_well() {
    let none = |change: &dyn Fn(&mut Case)| {
        let mut case = Case::new().on("w-1", "pve2");
        change(&mut case);
        let plan = case.plan();
        assert_eq!(plan.units, [], "{:?}", ids(&plan));
        assert!(plan.blocked.iter().any(|blocked| blocked.node.as_deref() == Some("w-1")), "{plan:?}");
    };
    none(&|case| case.world.proxmox.inventory.hosts.get_mut("pve2").unwrap().maintenance = true);
    none(&|case| case.world.proxmox.inventory.hosts.get_mut("pve2").unwrap().online = false);
    none(&|case| case.world.proxmox.inventory.hosts.get_mut("pve2").unwrap().datastores.clear());
    none(&|case| {
        let host = case.world.proxmox.inventory.hosts.get_mut("pve2").unwrap();
        host.memory_used_mib = host.memory_mib;
    });
    none(&|case| case.world.proxmox.migrations.clear());
}

#[test]
fn a_host_in_maintenance_holds_everything_but_nodes_that_leave() {
    let mut case = Case::new();
    let host = case.host("w-1");
    case.vm("w-1").config.insert("cores".to_owned(), "8".to_owned());
    case.world.proxmox.inventory.hosts.get_mut(&host).unwrap().maintenance = true;
    let plan = case.plan();
    assert_eq!(plan.units, []);
    assert!(
        plan.blocked.iter().any(|blocked| blocked.what.contains("is in maintenance")),
        "{:?}",
        plan.blocked
    );
    let plan = case.asked(Hand::DrainHost, &host);
    assert_eq!(plan.refusals, []);
    assert!(kinds(&plan, "move/w-1").contains(&"migrate-vm"), "{:?} {:?}", ids(&plan), plan.blocked);
}

/// The hosts of the control plane nodes are made what a test needs.
fn placed(hosts: [&str; 3]) -> Case {
    let mut case = Case::new();
    for (node, host) in ["cp-1", "cp-2", "cp-3"].into_iter().zip(hosts) {
        host.clone_into(&mut case.vm(node).host);
    }
    case
}

#[test]
fn a_drained_host_is_written_down_before_its_nodes_leave_it() {
    let mut case = placed(["pve1", "pve2", "pve2"]);
    "pve1".clone_into(&mut case.vm("w-1").host);
    case.world.proxmox.record.as_mut().unwrap().host = "pve1".to_owned();
    case.world
        .proxmox
        .taken
        .insert(4711, Guest { name: Some("theirs".to_owned()), host: "pve1".to_owned(), lock: None });
    let plan = case.asked(Hand::DrainHost, "pve1");
    assert_eq!((plan.refusals.len(), plan.blocked.len()), (0, 0), "{plan:?}");
    let units: Vec<&str> = plan.units.iter().map(|unit| unit.id.0.as_str()).collect();
    assert_eq!(units, ["move/cp-1", "move/w-1"]);
    let first = plan.steps.iter().find(|step| step.id.0 == "drain-host/pve1").unwrap();
    assert!(matches!(&first.action, Action::DrainHost { nodes, .. } if nodes.len() == 2));
    for step in plan.steps.iter().filter(|step| step.unit.is_some()) {
        assert!(step.after.contains(&first.id), "{}", step.id);
    }
    let record = plan.steps.iter().find(|step| step.id.0 == "migrate-record").unwrap();
    assert_eq!(record.after.len(), plan.steps.len() - 1, "it is the last one");
    assert!(plan.notes.iter().any(|note| note.text.contains("4711 (theirs)")), "{:?}", plan.notes);
}

#[test]
fn a_host_that_etcd_needs_is_refused_with_the_node_to_move_first() {
    let plan = placed(["pve1", "pve1", "pve2"]).asked(Hand::DrainHost, "pve1");
    assert_eq!(plan.steps, []);
    let [refusal] = plan.refusals.as_slice() else { panic!("{:?}", plan.refusals) };
    assert_eq!(refusal.code, RefusalCode::Quorum);
    assert!(refusal.why.contains("2 of 3 voting members of etcd (cp-1, cp-2)"), "{}", refusal.why);
    assert!(refusal.hint.starts_with("move cp-2 first: write `host: pve3`"), "{}", refusal.hint);
    let plan = placed(["pve1", "pve2", "pve2"]).asked(Hand::DrainHost, "nowhere");
    assert_eq!(plan.refusals[0].code, RefusalCode::Host);
}

#[test]
fn a_node_that_cannot_move_is_shut_down() {
    let tied = Migration::Known {
        local_disks: vec![],
        local_resources: vec!["hostpci0".to_owned()],
        mapped_resources: vec![],
        not_allowed: BTreeMap::new(),
    };
    let mut case = placed(["pve2", "pve2", "pve2"]).said("w-1", tied);
    "pve1".clone_into(&mut case.vm("w-1").host);
    let plan = case.asked(Hand::DrainHost, "pve1");
    assert_eq!(kinds(&plan, "shutdown/w-1"), ["drain-node", "shutdown-node"], "{:?}", plan.blocked);
    assert!(plan.notes.iter().any(|note| note.text.contains("w-1 is shut down")), "{:?}", plan.notes);
}

#[test]
fn a_node_of_which_it_is_not_known_whether_it_can_move_is_not_shut_down() {
    let why = "403 on pve1: the token lacks VM.Migrate".to_owned();
    let mut case = placed(["pve2", "pve2", "pve2"]).said("w-1", Migration::Unknown { why });
    "pve1".clone_into(&mut case.vm("w-1").host);
    let plan = case.asked(Hand::DrainHost, "pve1");
    assert_eq!(plan.units, [], "{:?}", plan.units);
    let [blocked] = plan.blocked.as_slice() else { panic!("{:?}", plan.blocked) };
    assert_eq!(blocked.node.as_deref(), Some("w-1"));
    assert!(!blocked.what.contains("pve2") && !blocked.what.contains("pve3"), "{}", blocked.what);
    assert!(blocked.hint.contains("proxmox setup --maintenance"), "{}", blocked.hint);
}

#[test]
fn voting_members_that_come_together_on_one_host_are_named() {
    let told =
        |plan: &Plan| plan.notes.iter().any(|note| note.text.contains("2 of 3 control plane nodes are on"));
    let plan = placed(["pve1", "pve2", "pve3"]).asked(Hand::DrainHost, "pve1");
    assert!(told(&plan), "{:?}", plan.notes);
    let mut case = placed(["pve2", "pve2", "pve3"]);
    "pve1".clone_into(&mut case.vm("w-1").host);
    let plan = case.asked(Hand::DrainHost, "pve1");
    assert!(!told(&plan), "it is so without this command: {:?}", plan.notes);
}

#[test]
fn what_left_a_drained_host_comes_back_with_undrain_and_not_before() {
    let mut case = placed(["pve2", "pve2", "pve2"]).on("w-1", "pve1").drained("pve1", &["w-1", "cp-1"]);
    "pve2".clone_into(&mut case.vm("w-1").host);
    let plan = case.plan();
    assert_eq!(plan.units, [], "the file names a host that is drained");
    assert!(
        plan.notes.iter().any(|note| note.text.contains("`talosmith host undrain pve1`")),
        "{:?}",
        plan.notes
    );
    let plan = case.asked(Hand::UndrainHost, "pve1");
    let units: Vec<&str> = plan.units.iter().map(|unit| unit.id.0.as_str()).collect();
    assert_eq!(units, ["move/cp-1", "move/w-1"], "{:?}", plan.blocked);
    let last = plan.steps.iter().find(|step| step.id.0 == "undrain-host/pve1").unwrap();
    assert_eq!(last.after.len(), plan.steps.len() - 1);
    // What cannot come back keeps the host drained.
    case.world.proxmox.migrations.clear();
    let plan = case.asked(Hand::UndrainHost, "pve1");
    assert!(!ids(&plan).contains(&"undrain-host/pve1"), "{:?}", ids(&plan));
    assert_eq!(plan.blocked.len(), 2);
    let plan = Case::new().asked(Hand::UndrainHost, "pve1");
    assert_eq!((plan.steps.len(), plan.notes.len()), (0, 1), "it is not drained");
}

#[test]
fn a_node_that_was_shut_down_on_a_drained_host_is_started_by_undrain_and_not_by_apply() {
    let mut case = placed(["pve2", "pve2", "pve2"]).drained("pve1", &["w-1"]);
    let vm = case.vm("w-1");
    (vm.host, vm.running) = ("pve1".to_owned(), false);
    case.world.machines.remove("w-1");
    case.world.kubernetes.nodes.get_mut("w-1").unwrap().ready = false;
    let plan = case.plan();
    assert!(!ids(&plan).contains(&"start-vm/w-1"), "{:?}", ids(&plan));
    assert!(
        plan.blocked.iter().any(|blocked| blocked.what.contains("its host pve1 is drained")),
        "{:?}",
        plan.blocked
    );
    let plan = case.asked(Hand::UndrainHost, "pve1");
    assert!(
        ids(&plan).contains(&"start-vm/w-1") && ids(&plan).contains(&"undrain-host/pve1"),
        "{:?}",
        ids(&plan)
    );
}

#[test]
fn a_move_to_a_drained_host_is_blocked_unless_the_node_left_it() {
    let case = Case::new().on("w-1", "pve2").drained("pve2", &[]);
    let plan = case.plan();
    assert_eq!(plan.units, []);
    let [blocked] = plan.blocked.as_slice() else { panic!("{:?}", plan.blocked) };
    assert!(blocked.what.ends_with("it does not move: pve2 is drained"), "{}", blocked.what);
    assert!(blocked.hint.contains("`talosmith host undrain pve2`"), "{}", blocked.hint);
    assert_eq!(Case::new().on("w-1", "pve2").drained("pve2", &["w-1"]).plan().blocked, []);
}

#[test]
fn a_host_with_nodes_that_still_run_there_is_not_called_drained() {
    let mut case = placed(["pve2", "pve2", "pve3"]);
    let host = case.host("w-1");
    case = case.drained(&host, &["w-1"]);
    let note = |case: &Case, words: &str| case.plan().notes.iter().any(|note| note.text.contains(words));
    assert!(note(&case, &format!("{host} is being drained; 1 node still runs there: w-1")));
    case.vm("w-1").running = false;
    assert!(note(&case, &format!("{host} is drained of w-1")));
}

/// A device that ties a VM to its host.
fn tied() -> Migration {
    Migration::Known {
        local_disks: vec![],
        local_resources: vec!["hostpci0".to_owned()],
        mapped_resources: vec![],
        not_allowed: BTreeMap::new(),
    }
}

/// cp-1 leads etcd. Its leadership moves before it goes, so the forecast of the worker after it has a leader.
#[test]
fn the_leader_and_a_worker_on_one_host_are_both_shut_down() {
    let mut case = placed(["pve1", "pve2", "pve3"]).said("cp-1", tied()).said("w-1", tied());
    "pve1".clone_into(&mut case.vm("w-1").host);
    let plan = case.asked(Hand::DrainHost, "pve1");
    let units: Vec<&str> = plan.units.iter().map(|unit| unit.id.0.as_str()).collect();
    assert_eq!(units, ["shutdown/cp-1", "shutdown/w-1"], "{:?}", plan.blocked);
    assert!(kinds(&plan, "shutdown/cp-1").contains(&"move-leadership"));
}

#[test]
fn a_node_that_never_left_a_drained_host_is_named() {
    let mut case = placed(["pve1", "pve2", "pve3"]).drained("pve1", &["cp-1"]);
    case.vm("cp-1").running = false;
    "pve1".clone_into(&mut case.vm("w-1").host);
    let plan = case.plan();
    let words = "pve1 is being drained; 1 node still runs there: w-1";
    assert!(plan.notes.iter().any(|note| note.text.contains(words)), "{:?}", plan.notes);
}

/// A node with a mapped device was shut down to move, and the run was interrupted before it moved.
fn interrupted_move() -> Case {
    let mapped = Migration::Known {
        local_disks: vec![],
        local_resources: vec![],
        mapped_resources: vec!["hostpci0".to_owned()],
        not_allowed: BTreeMap::new(),
    };
    let mut case = placed(["pve1", "pve2", "pve3"]).said("cp-1", mapped).drained("pve1", &["cp-1"]);
    let seen = case.world.kubernetes.nodes.get_mut("cp-1").unwrap();
    (seen.ready, seen.schedulable) = (false, false);
    seen.cordoned = Some("move/cp-1 by eva@laptop".to_owned());
    case.vm("cp-1").running = false;
    "pve2".clone_into(&mut case.vm("w-1").host);
    case.world.machines.remove("cp-1");
    for machine in case.world.machines.values_mut() {
        if let Some(status) = &mut machine.etcd_status {
            status.leader = Some("249fc".to_owned());
        }
    }
    case
}

#[test]
fn an_interrupted_move_is_continued_by_the_next_drain_of_its_host() {
    let mut case = interrupted_move();
    let plan = case.asked(Hand::DrainHost, "pve1");
    assert_eq!(kinds(&plan, "move/cp-1"), ["migrate-vm", "verify-node", "uncordon-node"], "{plan:?}");
    assert!(matches!(migration(&plan, "cp-1"), Action::MigrateVm { online: false, .. }));
    // What a person shut down stays off.
    let seen = case.world.kubernetes.nodes.get_mut("cp-1").unwrap();
    seen.cordoned = Some("shutdown/cp-1 by eva@laptop".to_owned());
    assert_eq!(case.asked(Hand::DrainHost, "pve1").units, []);
}

#[test]
fn a_plan_names_the_command_that_continues_an_interrupted_move() {
    let mut case = interrupted_move();
    let continues = |case: &Case| {
        let plan = case.plan();
        assert!(plan.steps.iter().all(|step| step.action.node() != Some("cp-1")), "{:?}", ids(&plan));
        let [blocked] = plan.blocked.as_slice() else { panic!("{:?}", plan.blocked) };
        assert!(blocked.hint.contains("`talosmith host drain pve1`"), "{}", blocked.hint);
    };
    continues(&case);
    // It is still going down.
    case.vm("cp-1").running = true;
    let etcd = case.world.machines["cp-2"].etcd.clone();
    let going =
        Machine { stage: Some("shutting down".to_owned()), ready: false, ..machine(Api::Configured, etcd) };
    case.world.machines.insert("cp-1".into(), going);
    continues(&case);
    let plan = case.asked(Hand::DrainHost, "pve1");
    assert_eq!(plan.units, [], "it can move once it is off");
    let [blocked] = plan.blocked.as_slice() else { panic!("{:?}", plan.blocked) };
    assert!(blocked.hint.contains("run the command again"), "{}", blocked.hint);
}

#[test]
fn undrain_names_a_node_that_stays_off() {
    let mut case = placed(["pve2", "pve2", "pve2"]).drained("pve1", &[]);
    let vm = case.vm("w-1");
    (vm.host, vm.running) = ("pve1".to_owned(), false);
    case.world.machines.remove("w-1");
    let plan = case.asked(Hand::UndrainHost, "pve1");
    assert!(
        ids(&plan).contains(&"undrain-host/pve1") && !ids(&plan).contains(&"start-vm/w-1"),
        "{:?}",
        ids(&plan)
    );
    let told = |note: &Note| note.text.contains("w-1 is off") && note.text.contains("`talosmith apply`");
    assert!(plan.notes.iter().any(told), "{:?}", plan.notes);
}
