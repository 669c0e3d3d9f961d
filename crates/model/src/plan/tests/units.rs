//! Disruptions: which nodes, in which order, with which steps, and what the gate says of each.

use super::*;
use crate::gate::{Blocker, Effect};
use crate::observed::{ConfigChange, ConfigCost, ConfigDifference, Removed};
use crate::plan::tests::sketch::cordoned;
use crate::step::ConfigMode;
use crate::unit::Goal;

/// A healthy cluster of the blueprint, in which things are changed.
struct Case {
    blueprint: Blueprint,
    world: Observed,
    rendered: Rendered,
    allowed: Allowed,
}

impl Case {
    fn new() -> Self {
        Self::of(blueprint())
    }

    fn of(blueprint: Blueprint) -> Self {
        let world = healthy_world(&blueprint);
        Self { blueprint, world, rendered: rendered(), allowed: Allowed::default() }
    }

    /// Only the first so many control plane nodes.
    fn with_voters(count: usize) -> Self {
        let mut blueprint = blueprint();
        let names = ["cp-1", "cp-2", "cp-3"];
        blueprint.nodes.retain(|name, _| !names[count..].contains(&name.as_str()));
        Self::of(blueprint)
    }

    /// One more worker.
    fn and_worker(mut self, name: &str, last: u8) -> Self {
        let new = node(name, Role::Worker, last, "pve2");
        self.blueprint.nodes.insert(new.name.clone(), new);
        Self::of(self.blueprint)
    }

    fn vm(&mut self, node: &str) -> &mut Vm {
        self.world.proxmox.marked.iter_mut().find(|vm| vm.mark.node == node).unwrap()
    }

    /// Its VM has another number of cores than the file says.
    fn cores(mut self, nodes: &[&str]) -> Self {
        for node in nodes {
            self.vm(node).config.insert("cores".to_owned(), "8".to_owned());
        }
        self
    }

    /// Its machine config differs.
    fn config(mut self, nodes: &[&str], path: &str, costs: ConfigCost) -> Self {
        for node in nodes {
            let machine = self.world.machines.get_mut(*node).unwrap();
            machine.config_digest = Some("other".to_owned());
            let change = ConfigChange { path: path.to_owned(), costs, difference: ConfigDifference::Changed };
            machine.config_changes.get_or_insert_default().push(change);
            self.rendered.configs.insert((*node).into(), "ours".to_owned());
        }
        self
    }

    /// It holds the VIP.
    fn and_holder(mut self, node: &str) -> Self {
        let vip = self.blueprint.vip.unwrap();
        self.world.machines.get_mut(node).unwrap().addresses = Some([vip].into());
        self
    }

    /// The file does not have it any more.
    fn removed(mut self, node: &str) -> Self {
        let gone = self.blueprint.nodes.remove(node).unwrap();
        let removed = Removed {
            vmid: gone.vmid,
            host: gone.host.clone().unwrap(),
            role: gone.role,
            address: Some(gone.address.addr()),
            disks: [("scsi0".to_owned(), 20)].into(),
            unmanaged_pods: Some(vec![]),
        };
        self.world.removed.insert(node.into(), removed);
        self.world.kubernetes.nodes.get_mut(node).unwrap().control_plane = gone.role == Role::ControlPlane;
        self
    }

    /// It does not answer, and Kubernetes says that it is not ready.
    fn dead(mut self, node: &str) -> Self {
        self.world.machines.insert(node.into(), Machine::unresponsive("no route to host"));
        self.world.kubernetes.nodes.get_mut(node).unwrap().ready = false;
        self
    }

    fn allowing(mut self, allowed: Allowed) -> Self {
        self.allowed = allowed;
        self
    }

    fn plan(&self) -> Plan {
        plan_allowing(&self.blueprint, &self.rendered, &self.world, &self.allowed)
    }
}

fn units(plan: &Plan) -> Vec<&str> {
    plan.units.iter().map(|unit| unit.id.0.as_str()).collect()
}

fn unit<'a>(plan: &'a Plan, id: &str) -> &'a Unit {
    plan.units.iter().find(|unit| unit.id.0 == id).unwrap_or_else(|| panic!("no {id} in {:?}", units(plan)))
}

/// The steps of a unit, without the node's name.
fn steps_of<'a>(plan: &'a Plan, id: &str) -> Vec<&'a str> {
    let own = plan.steps.iter().filter(|step| step.unit.as_ref().is_some_and(|unit| unit.0 == id));
    own.map(|step| step.id.kind()).collect()
}

/// Whether the first step of one unit waits, through others, for the last one of another.
fn is_behind(plan: &Plan, later: &str, earlier: &str) -> bool {
    let of = |id: &str| {
        plan.steps.iter().filter(|s| s.unit.as_ref().is_some_and(|u| u.0 == id)).collect::<Vec<_>>()
    };
    let (mut open, last) = (vec![of(later)[0].id.clone()], of(earlier).last().unwrap().id.clone());
    let mut seen = BTreeSet::new();
    while let Some(id) = open.pop() {
        if id == last {
            return true;
        }
        if seen.insert(id.clone()) {
            open.extend(plan.steps.iter().find(|s| s.id == id).unwrap().after.iter().cloned());
        }
    }
    false
}

#[test]
fn a_power_cycle_of_a_worker_is_drained_verified_and_uncordoned() {
    let plan = Case::new().cores(&["w-1"]).plan();
    assert_eq!((plan.refusals.len(), plan.blocked.len()), (0, 0), "{plan:?}");
    assert_eq!(
        steps_of(&plan, "restart/w-1"),
        ["drain-node", "power-cycle-vm", "verify-node", "uncordon-node"]
    );
    let unit = unit(&plan, "restart/w-1");
    assert_eq!((unit.disruption, unit.effect), (Disruption::PowerCycle, Effect::Absence));
    assert_eq!(unit.goal, Goal::PowerCycle { node: "w-1".into() });
    assert_eq!((unit.forecast.workers, unit.forecast.voters), (Some((0, 1)), None));
    assert_eq!(unit.forecast.blockers, []);
    assert_eq!(step(&plan, "power-cycle-vm/w-1").disruption, Disruption::PowerCycle);
    assert_eq!(step(&plan, "drain-node/w-1").disruption, Disruption::None);
    assert_eq!(ids(&plan).last(), Some(&"check-health"));
}

#[test]
fn all_that_a_node_needs_is_one_unit_with_one_restart() {
    let case = Case::new().cores(&["w-1"]);
    let case = case.config(&["w-1"], "machine.files", ConfigCost::Reboot);
    let plan = case.config(&["w-1"], "machine.kubelet.extraMounts", ConfigCost::Services).plan();
    assert_eq!(
        steps_of(&plan, "restart/w-1"),
        ["drain-node", "reconfigure", "power-cycle-vm", "verify-node", "uncordon-node"]
    );
    let Action::Reconfigure { mode, .. } = &step(&plan, "reconfigure/w-1").action else { panic!() };
    assert_eq!(*mode, ConfigMode::Staged, "the stop and start brings it");
    assert_eq!(unit(&plan, "restart/w-1").disruption, Disruption::PowerCycle);
}

#[test]
fn a_reboot_for_a_configuration_and_a_restart_of_services_are_units() {
    let plan = Case::new().config(&["w-1"], "machine.files", ConfigCost::Reboot).plan();
    assert_eq!(steps_of(&plan, "restart/w-1"), ["drain-node", "reconfigure", "verify-node", "uncordon-node"]);
    let Action::Reconfigure { mode, .. } = &step(&plan, "reconfigure/w-1").action else { panic!() };
    assert_eq!((*mode, step(&plan, "reconfigure/w-1").disruption), (ConfigMode::Reboot, Disruption::Reboot));
    let plan = Case::new().config(&["w-1", "cp-1"], "machine.kubelet.extraArgs", ConfigCost::Services).plan();
    for id in ["restart/cp-1", "restart/w-1"] {
        assert_eq!(steps_of(&plan, id), ["reconfigure", "verify-node"], "no drain");
        assert_eq!(unit(&plan, id).disruption, Disruption::ServiceRestart);
        assert!(matches!(unit(&plan, id).goal, Goal::RestartServices { .. }));
    }
    let Action::Reconfigure { mode, .. } = &step(&plan, "reconfigure/cp-1").action else { panic!() };
    assert_eq!(*mode, ConfigMode::NoReboot);
    assert!(is_behind(&plan, "restart/w-1", "restart/cp-1"));
}

#[test]
fn control_plane_nodes_go_one_by_one_the_leader_late_and_the_holder_of_the_vip_last() {
    let mut case = Case::new().cores(&["w-1", "cp-1", "cp-2", "cp-3"]).and_holder("cp-1");
    let of_leader = |case: &mut Case, leader: &str| {
        let id = format!("{:x}", case.blueprint.nodes[leader].vmid);
        for machine in case.world.machines.values_mut().filter(|machine| machine.etcd_status.is_some()) {
            machine.etcd_status = Some(status(&id));
        }
        case.plan()
    };
    let plan = of_leader(&mut case, "cp-2");
    assert_eq!(units(&plan), ["restart/cp-3", "restart/cp-2", "restart/cp-1", "restart/w-1"]);
    assert!(is_behind(&plan, "restart/cp-2", "restart/cp-3"));
    assert!(is_behind(&plan, "restart/cp-1", "restart/cp-2"));
    assert!(is_behind(&plan, "restart/w-1", "restart/cp-1"));
    assert_eq!(
        steps_of(&plan, "restart/cp-3"),
        ["drain-node", "move-leadership", "power-cycle-vm", "verify-node", "uncordon-node"]
    );
    for unit in plan.units.iter().filter(|unit| unit.node.starts_with("cp-")) {
        assert_eq!(unit.forecast.voters, Some((2, 3)), "{}", unit.id);
        assert_eq!(unit.forecast.moves_vip, unit.node == "cp-1", "{}", unit.id);
        assert!(!unit.forecast.outage && unit.forecast.blockers.is_empty(), "{}", unit.id);
    }
    assert!(!ids(&plan).contains(&"snapshot-etcd"), "nothing is removed, and the API stays");
    // The order follows the leader and the VIP; the work is the same.
    let other = of_leader(&mut case, "cp-3");
    assert_eq!(units(&other), ["restart/cp-2", "restart/cp-3", "restart/cp-1", "restart/w-1"]);
    assert!(other.same_work(&plan));
}

#[test]
fn workers_have_no_order_among_each_other() {
    let case = Case::new().and_worker("w-2", 22).cores(&["w-1", "w-2"]);
    let plan = case.plan();
    assert_eq!(units(&plan), ["restart/w-1", "restart/w-2"]);
    assert!(
        !is_behind(&plan, "restart/w-1", "restart/w-2") && !is_behind(&plan, "restart/w-2", "restart/w-1")
    );
    assert_eq!(unit(&plan, "restart/w-1").forecast.workers, Some((1, 2)));
    // One at a time: twice as long as one.
    let one = plan.unit_seconds(unit(&plan, "restart/w-1"));
    assert!(plan.seconds() > 2 * one, "{} {one}", plan.seconds());
}

#[test]
fn with_one_or_two_voters_a_restart_is_an_outage_that_is_approved() {
    for voters in [1, 2] {
        let case = Case::with_voters(voters).cores(&["cp-1", "w-1"]);
        let plan = case.plan();
        assert_eq!(units(&plan), ["restart/w-1"], "the others go on");
        let [blocked] = plan.blocked.as_slice() else { panic!("{:?}", plan.blocked) };
        assert_eq!((blocked.node.as_deref(), blocked.disruption), (Some("cp-1"), Disruption::PowerCycle));
        assert!(blocked.hint.contains("`--allow-api-outage`"), "{}", blocked.hint);
        assert!(blocked.what.contains("cores 8 → 2"), "{}", blocked.what);
        let plan = case.allowing(Allowed { api_outage: true, ..Allowed::default() }).plan();
        assert_eq!((units(&plan), plan.blocked.len()), (vec!["restart/cp-1", "restart/w-1"], 0));
        let unit = unit(&plan, "restart/cp-1");
        assert!(unit.forecast.outage);
        assert_eq!(unit.forecast.voters, Some((voters - 1, voters)));
        let steps = steps_of(&plan, "restart/cp-1");
        match voters {
            1 => assert_eq!(steps, ["power-cycle-vm", "verify-node"], "nowhere to go"),
            _ => {
                assert!(steps.starts_with(&["drain-node", "move-leadership", "power-cycle-vm"]), "{steps:?}")
            }
        }
        let first = plan.steps.iter().find(|step| step.unit.is_some()).unwrap();
        assert!(first.after.iter().any(|id| id.0 == "snapshot-etcd"), "{:?}", first.after);
        assert_eq!(step(&plan, "snapshot-etcd").unit, None);
    }
}

#[test]
fn what_is_not_known_of_etcd_is_not_a_majority() {
    let mut case = Case::new().cores(&["cp-1"]);
    for node in ["cp-1", "cp-2", "cp-3"] {
        case.world.machines.get_mut(node).unwrap().etcd_status = None;
    }
    let plan = case.plan();
    assert_eq!(units(&plan), Vec::<&str>::new());
    assert_eq!(plan.blocked.len(), 1, "{:?}", plan.blocked);
    // Enough members, one of which does not answer: it may come back, and the gate asks again.
    let plan = Case::new().cores(&["cp-1"]).dead("cp-3").plan();
    assert_eq!(units(&plan), ["restart/cp-1"]);
    let blockers = &unit(&plan, "restart/cp-1").forecast.blockers;
    assert!(matches!(blockers.last(), Some(Blocker::NoMajority { .. })), "{blockers:?}");
    // Without Kubernetes nothing is known of workers.
    let mut case = Case::new().cores(&["w-1"]);
    case.world.kubernetes = Kubernetes::default();
    let plan = case.plan();
    assert_eq!((units(&plan).len(), plan.blocked.len()), (0, 1), "{:?}", plan.blocked);
}

#[test]
fn another_bridge_is_a_unit_with_all_that_the_node_needs() {
    let mut case = Case::new();
    let card = case.vm("w-1").config["net0"].replace("bridge=vmbr0", "bridge=vmbr7");
    case.vm("w-1").config.extend([("net0".to_owned(), card), ("onboot".to_owned(), "0".to_owned())]);
    let case = case.config(&["w-1"], "machine.sysctls", ConfigCost::Nothing);
    let plan = case.plan();
    assert_eq!(steps_of(&plan, "restart/w-1"), ["update-vm", "reconfigure", "verify-node"]);
    let Action::UpdateVm { set, .. } = &step(&plan, "update-vm/w-1").action else { panic!() };
    assert_eq!(set.keys().collect::<Vec<_>>(), ["net0", "onboot"]);
    assert_eq!(step(&plan, "update-vm/w-1").disruption, Disruption::ServiceRestart);
    // With a power cycle it is changed while the VM is off, and the rest in place before.
    let plan = case.cores(&["w-1"]).plan();
    assert_eq!(
        steps_of(&plan, "restart/w-1"),
        ["drain-node", "power-cycle-vm", "verify-node", "uncordon-node"]
    );
    let Action::PowerCycleVm { set, .. } = &step(&plan, "power-cycle-vm/w-1").action else { panic!() };
    assert_eq!(set.keys().collect::<Vec<_>>(), ["cores", "net0"]);
    let first = &step(&plan, "drain-node/w-1").after;
    for before in ["update-vm/w-1", "reconfigure/w-1"] {
        assert!(first.iter().any(|id| id.0 == before), "{first:?}");
        assert_eq!(step(&plan, before).unit, None);
    }
}

#[test]
fn a_new_data_disk_is_there_before_the_configuration_that_mounts_it() {
    let mut case = Case::new();
    case.blueprint.nodes.get_mut("w-1").unwrap().hardware.disks.push(data_disk());
    let plan = case.config(&["w-1"], "machine.kubelet.extraMounts", ConfigCost::Services).plan();
    assert_eq!(steps_of(&plan, "restart/w-1"), ["reconfigure", "verify-node"]);
    assert_eq!(
        (step(&plan, "update-vm/w-1").disruption, &step(&plan, "update-vm/w-1").unit),
        (Disruption::InPlace, &None)
    );
    assert!(step(&plan, "reconfigure/w-1").after.iter().any(|id| id.0 == "update-vm/w-1"));
}

#[test]
fn a_data_disk_is_deleted_only_where_it_was_named() {
    let case = || {
        let mut case = Case::new();
        let disk = "local-lvm:vm-150021-disk-1,size=100G,wwn=0x59387dea28bb01e3";
        case.vm("w-1").config.insert("scsi1".to_owned(), disk.to_owned());
        case.config(&["w-1"], "UserVolumeConfig/data", ConfigCost::Volume)
    };
    let disk =
        || Allowed { disks: [("w-1".into(), ["scsi1".to_owned()].into())].into(), ..Allowed::default() };
    let plan = case().plan();
    assert_eq!((plan.steps.len(), plan.blocked.len()), (0, 1), "said once: {:?}", plan.blocked);
    assert!(plan.blocked[0].what.contains("the disk scsi1 with 100 GiB"), "{}", plan.blocked[0].what);
    assert!(plan.blocked[0].hint.contains("`--allow-destroy w-1/scsi1`"), "{}", plan.blocked[0].hint);
    // The node alone: unmounted, and the disk stays.
    let plan = case().allowing(Allowed::data_of(["w-1"])).plan();
    assert_eq!(steps_of(&plan, "restart/w-1"), ["reconfigure", "verify-node"]);
    assert_eq!(plan.blocked.len(), 1, "{:?}", plan.blocked);
    let plan = case().allowing(disk()).plan();
    assert_eq!(steps_of(&plan, "restart/w-1"), ["reconfigure", "delete-disk", "verify-node"]);
    assert_eq!(
        (plan.blocked.len(), step(&plan, "delete-disk/w-1/scsi1").disruption),
        (0, Disruption::Delete)
    );
    assert_eq!(unit(&plan, "restart/w-1").goal, Goal::DeleteDisks { node: "w-1".into() });
    // What the machine has could not be compared: it may be in use.
    let mut unknown = case().allowing(disk());
    unknown.world.machines.get_mut("w-1").unwrap().config_changes = None;
    let plan = unknown.plan();
    assert!(!ids(&plan).iter().any(|id| id.starts_with("delete-disk")), "{:?}", ids(&plan));
}

#[test]
fn what_a_running_cluster_keeps_is_refused_once_and_a_role_is_blocked() {
    let nodes = ["cp-1", "cp-2", "cp-3", "w-1"];
    let plan = Case::new().config(&nodes, "cluster.network.cni.name", ConfigCost::Services).plan();
    let [refusal] = plan.refusals.as_slice() else { panic!("{:?}", plan.refusals) };
    assert_eq!((refusal.code, plan.steps.len()), (RefusalCode::Differs, 0));
    let plan = Case::new().cores(&["w-1"]).config(&["cp-1"], "machine.type", ConfigCost::Reboot).plan();
    assert_eq!((plan.refusals.len(), plan.blocked.len()), (0, 1), "{plan:?}");
    assert_eq!(plan.blocked[0].node.as_deref(), Some("cp-1"));
    assert_eq!(units(&plan), ["restart/w-1"], "one blocked node does not hold the others");
}

#[test]
fn a_network_beside_the_first_one_is_configured_with_a_reboot() {
    let plan = Case::new().config(&["w-1"], "LinkConfig/net1", ConfigCost::Network).plan();
    let Action::Reconfigure { mode, .. } = &step(&plan, "reconfigure/w-1").action else { panic!() };
    assert_eq!((*mode, unit(&plan, "restart/w-1").disruption), (ConfigMode::Reboot, Disruption::Reboot));
}

#[test]
fn in_place_changes_of_workers_wait_for_control_plane_nodes_that_restart() {
    let case = Case::new().config(&["cp-1", "cp-2"], "machine.files", ConfigCost::Reboot);
    let plan = case.config(&["w-1", "cp-3"], "machine.sysctls", ConfigCost::Nothing).plan();
    assert_eq!(units(&plan), ["restart/cp-2", "restart/cp-1"], "cp-1 leads");
    let after = |id: &str| step(&plan, id).after.iter().map(|id| id.0.as_str()).collect::<Vec<_>>();
    assert!(after("drain-node/cp-2").contains(&"reconfigure/cp-3"));
    assert!(after("reconfigure/w-1").contains(&"uncordon-node/cp-1"), "{:?}", after("reconfigure/w-1"));
}

#[test]
fn a_machine_that_does_not_answer_is_not_power_cycled() {
    for api in [Api::Maintenance, Api::Unresponsive { why: "timed out".to_owned() }] {
        let mut case = Case::new().cores(&["w-1"]);
        case.world.machines.insert("w-1".into(), Machine::with(api));
        let plan = case.plan();
        assert_eq!(units(&plan), Vec::<&str>::new());
        assert!(
            plan.notes.iter().any(|note| note.text.contains("changes once its machine answers")),
            "{:?}",
            plan.notes
        );
    }
}

#[test]
fn a_node_that_is_not_whole_may_be_what_its_unit_heals() {
    let mut case = Case::new().and_worker("w-2", 22).cores(&["w-2"]);
    case.world.machines.get_mut("w-2").unwrap().ready = false;
    case.world.kubernetes.nodes.get_mut("w-2").unwrap().ready = false;
    let plan = case.plan();
    assert_eq!(units(&plan), ["restart/w-2"]);
    assert!(!ids(&plan).contains(&"join/w-2"), "its unit waits for it: {:?}", ids(&plan));
}

#[test]
fn external_machines_are_never_power_cycled() {
    let mut case = Case::new();
    case.blueprint.nodes.get_mut("w-1").unwrap().external = true;
    let case = case.cores(&["w-1"]).config(&["w-1"], "machine.files", ConfigCost::Reboot);
    let plan = case.plan();
    assert_eq!(steps_of(&plan, "restart/w-1"), ["drain-node", "reconfigure", "verify-node", "uncordon-node"]);
}

#[test]
fn a_cordon_of_a_run_that_goes_on_or_of_a_shutdown_is_no_interruption() {
    let mut case = Case::new();
    cordoned(&mut case.world, "w-1", Some("restart/w-1 by eva@laptop"));
    let reason = |case: &Case| step(&case.plan(), "verify-node/w-1").reason.clone();
    assert!(reason(&case).contains("was interrupted"), "{}", reason(&case));
    assert_eq!(case.plan().notes, []);
    let at = "2026-01-01T00:00:00.123456789Z".parse().unwrap();
    let lease = crate::mark::Lease {
        holder: "eva@laptop".into(),
        nonce: "1".into(),
        run: None,
        since: at,
        expires: at,
        stops_after: None,
        outwaits: None,
    };
    case.world.proxmox.record.as_mut().unwrap().state.lease = Some(lease);
    assert!(reason(&case).starts_with("a run disrupts it now"), "{}", reason(&case));
    let notes = case.plan().notes;
    assert!(
        notes[0].text.starts_with("lease: held by eva@laptop since 2026-01-01 00:00:00 UTC"),
        "{notes:?}"
    );
    case.world.proxmox.record.as_mut().unwrap().state.lease = None;
    cordoned(&mut case.world, "w-1", Some("shutdown/w-1 by eva@laptop"));
    case.vm("w-1").running = false;
    case.world.machines.remove("w-1");
    assert!(reason(&case).contains("shut down"), "{}", reason(&case));
}

#[test]
fn what_talosmith_cordoned_is_uncordoned_and_what_a_person_cordoned_is_not() {
    let mut case = Case::new();
    cordoned(&mut case.world, "w-1", Some("power cycle"));
    let plan = case.plan();
    assert_eq!(ids(&plan), ["verify-node/w-1", "uncordon-node/w-1", "check-health"]);
    assert_eq!(plan.units, []);
    assert_eq!(plan.goals().len(), 2, "{:?}", plan.goals());
    assert!(plan.goals().contains(&Goal::Update { node: "w-1".into() }), "{:?}", plan.goals());
    let mut case = Case::new().cores(&["w-1"]);
    cordoned(&mut case.world, "w-1", None);
    let plan = case.plan();
    assert_eq!(steps_of(&plan, "restart/w-1"), ["drain-node", "power-cycle-vm", "verify-node"]);
    let mut case = Case::new();
    cordoned(&mut case.world, "w-1", None);
    assert!(case.plan().is_empty(), "a person's cordon is no drift");
    let mut case = Case::new().cores(&["w-1"]);
    cordoned(&mut case.world, "w-1", Some("power cycle"));
    assert_eq!(steps_of(&case.plan(), "restart/w-1").last(), Some(&"uncordon-node"));
}

#[test]
fn new_control_plane_nodes_join_before_anything_is_disrupted() {
    let mut case = Case::with_voters(1).cores(&["cp-1"]);
    for (name, last) in [("cp-2", 12), ("cp-3", 13)] {
        case.blueprint.nodes.insert(name.into(), node(name, Role::ControlPlane, last, "pve2"));
    }
    let plan = case.plan();
    assert_eq!((units(&plan), plan.blocked.len()), (vec!["restart/cp-1"], 0), "{:?}", plan.blocked);
    assert_eq!(unit(&plan, "restart/cp-1").forecast.voters, Some((2, 3)));
    let first = &step(&plan, "drain-node/cp-1").after;
    assert!(["join/cp-2", "join/cp-3"].iter().all(|join| first.iter().any(|id| id.0 == *join)), "{first:?}");
}

mod removal;

#[test]
fn no_node_is_disrupted_before_one_that_an_earlier_run_left_is_whole() {
    for (left, other) in [("w-1", "cp-1"), ("cp-2", "cp-1"), ("cp-2", "w-1")] {
        let mut case = Case::new().cores(&[other]);
        cordoned(&mut case.world, left, Some("power cycle"));
        let plan = case.plan();
        let first = plan.steps.iter().find(|step| step.unit.is_some()).unwrap();
        assert_eq!(first.id.0, format!("drain-node/{other}"));
        assert!(first.after.iter().any(|id| id.0 == format!("uncordon-node/{left}")), "{:?}", first.after);
        assert_eq!(unit(&plan, &format!("restart/{other}")).forecast.blockers, []);
    }
}

#[test]
fn a_missing_taint_is_no_reason_to_leave_a_node_cordoned() {
    let mut case = Case::new();
    let taint = crate::blueprint::Taint { value: "gpu".into(), effect: "NoSchedule".into() };
    case.blueprint.nodes.get_mut("w-1").unwrap().settings.taints.insert("dedicated".into(), taint);
    cordoned(&mut case.world, "w-1", Some("power cycle"));
    let plan = case.plan();
    assert_eq!(plan.blocked.len(), 1, "{:?}", plan.blocked);
    assert_eq!(ids(&plan), ["verify-node/w-1", "uncordon-node/w-1", "check-health"]);
}

#[test]
fn a_worker_that_talosmith_left_cordoned_is_not_available() {
    // It needs something itself, so it is not uncordoned before.
    let mut case = Case::new().and_worker("w-2", 22).cores(&["w-1", "w-2"]);
    cordoned(&mut case.world, "w-2", Some("power cycle"));
    let plan = case.plan();
    let away = Blocker::Budget { away: vec!["w-2".into()], budget: 1 };
    assert_eq!(unit(&plan, "restart/w-1").forecast.blockers, [away]);
    assert_eq!(unit(&plan, "restart/w-2").forecast.blockers, []);
}

#[test]
fn a_worker_whose_vm_is_off_is_not_available() {
    let mut case = Case::new().and_worker("w-2", 22).cores(&["w-1"]);
    case.vm("w-2").running = false;
    let view = crate::gate::ClusterView::observed(&case.blueprint, &case.world);
    assert_eq!((view.nodes["w-1"].ready, view.nodes["w-2"].ready), (Some(true), Some(false)));
    case.world.proxmox.marked.retain(|vm| vm.mark.node != "w-2");
    let view = crate::gate::ClusterView::observed(&case.blueprint, &case.world);
    assert_eq!(view.nodes["w-2"].ready, None, "what was not seen is not known");
}
