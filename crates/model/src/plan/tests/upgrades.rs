//! Another Talos: which nodes, in which order, and what is against it.

use super::*;
use crate::stage::stage;
use crate::step::RebootMode;
use crate::unit::{Approval, Goal};
use crate::upgrade::{Component, Components};

/// A healthy cluster that runs one Talos while the file asks for another.
struct Case {
    blueprint: Blueprint,
    world: Observed,
    replaced: BTreeSet<NodeName>,
}

impl Case {
    fn new(runs: &str, wanted: &str) -> Self {
        let mut blueprint = blueprint();
        for node in blueprint.nodes.values_mut() {
            node.talos = wanted.to_owned();
        }
        let mut world = healthy_world(&blueprint);
        for machine in world.machines.values_mut() {
            machine.talos = Some(runs.to_owned());
            machine.schematic = Some("ce4c980550dd2ab1b17bbf2b".to_owned());
            machine.components = components("v1.35.4");
        }
        Self { blueprint, world, replaced: BTreeSet::new() }
    }

    fn runs(mut self, node: &str, talos: &str) -> Self {
        self.world.machines.get_mut(node).unwrap().talos = Some(talos.to_owned());
        self
    }

    fn wants(mut self, node: &str, talos: &str) -> Self {
        self.blueprint.nodes.get_mut(node).unwrap().talos = talos.to_owned();
        self
    }

    /// What each node runs after the next hop, and what is left.
    fn staged(&self) -> Blueprint {
        let mut blueprint = self.blueprint.clone();
        let wanted = blueprint.nodes.keys().map(|node| (node.clone(), components("v1.35.4"))).collect();
        stage(&mut blueprint, &self.world, &wanted, &self.replaced);
        blueprint
    }

    fn releases(&self) -> Vec<String> {
        self.staged().nodes.values().map(|node| node.talos.clone()).collect()
    }

    fn plan(&self) -> Plan {
        plan(&self.staged(), &rendered(), &self.world)
    }

    fn plan_for(&self, targets: &[&str]) -> Plan {
        let targets = targets.iter().map(|node| NodeName::from(*node)).collect();
        plan_for(&self.staged(), &rendered(), &self.world, &Allowed::default(), &targets)
    }
}

fn components(version: &str) -> Components {
    [(Component::Kubelet, version.to_owned()), (Component::ApiServer, version.to_owned())].into()
}

fn steps_of(plan: &Plan, node: &str) -> Vec<String> {
    let own = plan
        .steps
        .iter()
        .filter(|step| step.unit.as_ref().is_some_and(|unit| unit.0 == format!("upgrade/{node}")));
    own.map(|step| step.id.kind().to_owned()).collect()
}

#[test]
fn every_node_goes_through_the_same_steps_behind_snapshot_and_pulls() {
    let case = Case::new("v1.13.8", "v1.13.9");
    let plan = case.plan();
    assert_eq!((&plan.refusals[..], &plan.blocked[..]), (&[][..], &[][..]));
    for node in ["cp-1", "cp-2", "cp-3"] {
        let steps =
            ["drain-node", "move-leadership", "install-talos", "reboot-node", "verify-node", "uncordon-node"];
        assert_eq!(steps_of(&plan, node), steps);
    }
    assert_eq!(
        steps_of(&plan, "w-1"),
        ["drain-node", "install-talos", "reboot-node", "verify-node", "uncordon-node"]
    );
    let at = |id: &str| ids(&plan).iter().position(|step| *step == id).unwrap();
    for node in ["cp-1", "cp-2", "cp-3", "w-1"] {
        let drain = step(&plan, &format!("drain-node/{node}"));
        for other in ["cp-1", "cp-2", "cp-3", "w-1"] {
            assert!(drain.after.iter().any(|id| id.0 == format!("pull-image/{other}")), "{drain:?}");
        }
        assert!(at("snapshot-etcd") < at(&drain.id.0));
    }
    let Action::InstallTalos { image, talos, .. } = &step(&plan, "install-talos/w-1").action else {
        panic!()
    };
    assert_eq!((image.as_str(), talos.as_str()), ("factory.example/nocloud-installer/of-w-1", "v1.13.9"));
    assert!(!ids(&plan).iter().any(|id| id.starts_with("register-schematic")), "the factory knows it");
}

#[test]
fn the_first_node_of_each_role_boots_from_its_firmware() {
    let modes = |plan: &Plan| {
        let cycled = plan.steps.iter().filter_map(|step| match &step.action {
            Action::RebootNode { node, mode: RebootMode::PowerCycle } => Some(node.to_string()),
            _ => None,
        });
        cycled.collect::<Vec<_>>()
    };
    let first = Case::new("v1.13.8", "v1.13.9");
    let plan = first.plan();
    let control = plan.units.first().unwrap().node.to_string();
    assert_eq!(modes(&plan), [control, "w-1".to_owned()]);
    // One of them has shown it already.
    assert_eq!(modes(&first.runs("cp-2", "v1.13.9").plan()), ["w-1"]);
}

#[test]
fn each_minor_is_a_hop_that_all_nodes_make_before_the_next() {
    let case = Case::new("v1.12.4", "v1.14.1");
    assert_eq!(case.releases(), ["v1.13.10"; 4]);
    let plan = case.plan();
    assert_eq!(plan.units.len(), 4);
    let told = |plan: &Plan| plan.notes.iter().map(|note| note.text.clone()).collect::<Vec<_>>().join("\n");
    assert!(told(&plan).contains("Talos v1.13.10 → v1.14.1"), "{}", told(&plan));
    // All hops are approved with the first plan, so it names what any of them does.
    assert!(told(&plan).contains("point of no return: etcd goes from 3.6 to 3.7"), "{}", told(&plan));
    assert!(told(&plan).contains("in the hop to Talos v1.14.1"), "{}", told(&plan));
    assert_eq!(plan.hops_left(), 2);
    let same = Case::new("v1.12.4", "v1.13.9").plan();
    assert!(!told(&same).contains("point of no return"), "etcd is the same in both");
    assert_eq!(same.hops_left(), 1);
    // Those that are ahead wait for the others.
    let mixed = case.runs("cp-1", "v1.13.10").runs("cp-2", "v1.13.10");
    assert_eq!(mixed.releases(), ["v1.13.10"; 4]);
    assert_eq!(mixed.plan().units.iter().map(|unit| unit.node.as_str()).collect::<Vec<_>>(), ["cp-3", "w-1"]);
    // All are there: the next one.
    let last = Case::new("v1.13.10", "v1.14.1");
    assert_eq!(last.releases(), ["v1.14.1"; 4]);
    assert!(
        told(&last.plan()).contains("point of no return: etcd goes from 3.6 to 3.7"),
        "{}",
        told(&last.plan())
    );
    assert!(Case::new("v1.14.1", "v1.14.1").staged().upgrade.is_none());
}

#[test]
fn the_approval_of_the_first_hop_covers_the_others() {
    let case = Case::new("v1.12.4", "v1.14.1");
    let approval = Approval::of(case.plan().goals());
    let next = Case::new("v1.13.10", "v1.14.1").plan().goals();
    assert_eq!(approval.lacks(&next), BTreeSet::new());
    let node = "w-1".into();
    assert!(next.contains(&Goal::UpgradeTalos { node }));
}

#[test]
fn an_older_an_unknown_and_a_release_too_far_away_are_refused() {
    for (runs, wanted, why) in [
        ("v1.13.9", "v1.13.8", "Talos is not downgraded"),
        ("v1.14.1", "v1.13.9", "Talos is not downgraded"),
        ("v1.15.0", "v1.15.1", "does not know Talos v1.15.0"),
        ("v1.13.9", "v1.15.1", "does not know Talos v1.15.1"),
    ] {
        let plan = Case::new(runs, wanted).plan();
        let [refusal] = plan.refusals.as_slice() else { panic!("{runs} {wanted} {:?}", plan.refusals) };
        assert!(refusal.why.contains(why), "{}", refusal.why);
        assert!(plan.steps.is_empty() && plan.units.is_empty());
    }
    // Nothing but staging brings a blueprint to the next stop; without it two minors are not made at once.
    let case = Case::new("v1.12.4", "v1.14.1");
    let unstaged = plan(&case.blueprint, &rendered(), &case.world);
    assert!(
        unstaged.refusals[0].why.contains("each minor release is a stop on the way"),
        "{:?}",
        unstaged.refusals
    );
    // A patch release that is not known is one of a release line that is.
    assert_eq!(Case::new("v1.13.9", "v1.13.99").plan().units.len(), 4);
}

#[test]
fn nodes_with_versions_of_their_own_go_their_own_way() {
    let case = Case::new("v1.13.8", "v1.13.8").wants("w-1", "v1.13.9");
    assert_eq!(case.plan().units.iter().map(|unit| unit.node.as_str()).collect::<Vec<_>>(), ["w-1"]);
    // One that stays behind on purpose holds up no other.
    let behind = Case::new("v1.12.4", "v1.13.9").wants("w-1", "v1.12.4");
    assert_eq!(behind.releases(), ["v1.13.9", "v1.13.9", "v1.13.9", "v1.12.4"]);
}

#[test]
fn what_is_not_known_of_one_node_blocks_all() {
    let mut case = Case::new("v1.13.8", "v1.13.9");
    case.world.machines.insert("w-1".into(), Machine::unresponsive("no route to host"));
    let plan = case.plan();
    assert!(plan.units.is_empty(), "{:?}", plan.units);
    assert!(
        plan.blocked
            .iter()
            .any(|blocked| blocked.node.as_deref() == Some("w-1") && blocked.what.contains("could be left"))
    );
    assert!(
        plan.goals().iter().all(|goal| !matches!(goal, Goal::UpgradeTalos { .. })),
        "nothing is approved by the way"
    );
}

#[test]
fn what_one_node_would_lose_blocks_all() {
    let mut case = Case::new("v1.13.8", "v1.13.9");
    case.world.machines.get_mut("cp-2").unwrap().config_problems = vec!["machine.x: unknown".to_owned()];
    let plan = case.plan();
    assert!(
        plan.units.is_empty()
            && plan.blocked[0].what.contains("would refuse the machine config that cp-2 runs")
    );
    let mut case = Case::new("v1.13.8", "v1.13.9");
    let machine = case.world.machines.get_mut("w-1").unwrap();
    machine.install_args = vec!["mitigations=off".to_owned()];
    machine.kernel_args = Some("talos.platform=nocloud mitigations=off".to_owned());
    let plan = case.plan();
    assert!(plan.units.is_empty() && plan.blocked[0].what.contains("mitigations=off"), "{:?}", plan.blocked);
    // The installer of 1.12 reads the machine config.
    let mut case = Case::new("v1.12.4", "v1.12.11");
    case.world.machines.get_mut("w-1").unwrap().install_args = vec!["mitigations=off".to_owned()];
    assert_eq!(case.plan().units.len(), 4);
}

#[test]
fn workers_wait_for_a_control_plane_node_that_is_blocked() {
    let mut case = Case::new("v1.13.8", "v1.13.9");
    case.blueprint.nodes.retain(|name, _| *name != *"cp-2" && *name != *"cp-3");
    let names = ["cp-1"];
    let members: Vec<Member> = names.iter().map(|name| member("249fb", name)).collect();
    case.world.machines.retain(|name, _| *name != *"cp-2" && *name != *"cp-3");
    case.world.machines.get_mut("cp-1").unwrap().etcd =
        Etcd::Member { id: "249fb".to_owned(), learner: false, members: Some(members) };
    case.world.kubernetes.nodes.retain(|name, _| *name != *"cp-2" && *name != *"cp-3");
    case.world.proxmox.marked.retain(|vm| vm.mark.node != "cp-2" && vm.mark.node != "cp-3");
    let plan = case.plan();
    assert!(plan.units.is_empty() && plan.steps.is_empty(), "{:?}", plan.steps);
    let what: Vec<&str> = plan.blocked.iter().map(|blocked| blocked.what.as_str()).collect();
    assert!(what.iter().any(|what| what.contains("Talos on w-1: cp-1 comes before it")), "{what:?}");
    let allowed = Allowed { api_outage: true, ..Allowed::default() };
    let plan = plan_allowing(&case.staged(), &rendered(), &case.world, &allowed);
    assert_eq!(plan.units.len(), 2, "{:?}", plan.blocked);
}

#[test]
fn kubernetes_keeps_what_runs_and_a_newcomer_starts_where_the_others_are() {
    let mut case = Case::new("v1.12.4", "v1.14.1");
    case.world.machines.remove("w-1");
    case.world.proxmox.marked.retain(|vm| vm.mark.node != "w-1");
    case.world.kubernetes.nodes.remove("w-1");
    for machine in case.world.machines.values_mut() {
        machine.components = components("v1.34.2");
    }
    let staged = case.staged();
    assert_eq!(staged.nodes["cp-1"].components, components("v1.34.2"));
    let new = &staged.nodes["w-1"];
    assert_eq!((new.talos.as_str(), new.components[&Component::Kubelet].as_str()), ("v1.12.4", "v1.34.2"));
    assert_eq!(staged.images[&new.image].talos, "v1.12.4");
    let upgrade = staged.upgrade.unwrap();
    assert_eq!(crate::upgrade::told(&upgrade.hops), "Talos v1.13.10 → v1.14.1, then Kubernetes v1.35.4");
}

#[test]
fn a_replaced_node_starts_where_the_others_are() {
    let mut case = Case::new("v1.12.9", "v1.14.1");
    case.replaced.insert("cp-3".into());
    let staged = case.staged();
    let node = &staged.nodes["cp-3"];
    assert_eq!((node.talos.as_str(), staged.images[&node.image].talos.as_str()), ("v1.12.9", "v1.12.9"));
    assert_eq!(staged.nodes["cp-1"].talos, "v1.13.10", "the others are planned as before");
    // The only one that is behind comes back as the file says, before and after its old machine is gone.
    let mut case = Case::new("v1.14.1", "v1.14.1").runs("cp-3", "v1.12.9");
    case.replaced.insert("cp-3".into());
    let staged = case.staged();
    let node = &staged.nodes["cp-3"];
    assert_eq!((node.talos.as_str(), node.image.contains('@')), ("v1.14.1", false));
}

#[test]
fn a_restart_for_something_else_is_the_same_one() {
    let mut case = Case::new("v1.13.8", "v1.13.9");
    let vm = case.world.proxmox.marked.iter_mut().find(|vm| vm.mark.node == "w-1").unwrap();
    vm.config.insert("cores".to_owned(), "8".to_owned());
    let plan = case.plan();
    assert_eq!(
        steps_of(&plan, "w-1"),
        ["drain-node", "install-talos", "power-cycle-vm", "verify-node", "uncordon-node"]
    );
}

#[test]
fn budgets_that_allow_no_eviction_are_named_before() {
    let mut case = Case::new("v1.13.8", "v1.13.9");
    let budget = |name: &str, node: &str| crate::observed::BlockingBudget {
        namespace: "shop".to_owned(),
        name: name.to_owned(),
        nodes: [NodeName::from(node)].into(),
    };
    case.world.kubernetes.budgets = Some(vec![budget("db", "w-1")]);
    let told = |plan: &Plan| plan.notes.iter().any(|note| note.text.contains("shop/db (w-1)"));
    assert!(told(&case.plan()));
    case.world.kubernetes.budgets = Some(vec![]);
    assert!(!told(&case.plan()));
}

fn notes(plan: &Plan) -> String {
    plan.notes.iter().map(|note| note.text.clone()).collect::<Vec<_>>().join("\n")
}

#[test]
fn each_target_has_its_snapshot_and_its_boot_through_the_firmware() {
    let case = Case::new("v1.13.8", "v1.13.9");
    for node in ["cp-1", "cp-2", "cp-3"] {
        let plan = case.plan_for(&[node]);
        assert_eq!(plan.units.len(), 1);
        assert!(
            step(&plan, &format!("drain-node/{node}")).after.contains(&Action::SnapshotEtcd.id()),
            "{node}"
        );
        let Action::RebootNode { mode, .. } = &step(&plan, &format!("reboot-node/{node}")).action else {
            panic!()
        };
        assert_eq!(*mode, RebootMode::PowerCycle, "{node}");
        let pulls: Vec<_> = ids(&plan).into_iter().filter(|id| id.starts_with("pull-image/")).collect();
        assert_eq!(pulls, [format!("pull-image/{node}")]);
        assert!(notes(&plan).contains("left out, because of `--target`"));
    }
    // Another one has shown that it boots.
    let plan = case.runs("cp-1", "v1.13.9").plan_for(&["cp-3"]);
    let Action::RebootNode { mode, .. } = &step(&plan, "reboot-node/cp-3").action else { panic!() };
    assert_eq!(*mode, RebootMode::Default);
}

#[test]
fn a_target_that_is_ahead_waits_for_the_others_and_says_so() {
    let case = Case::new("v1.12.4", "v1.14.1");
    let first = case.plan_for(&["cp-1"]);
    assert_eq!((first.units.len(), first.hops_left(), first.blocked.len()), (1, 1, 0));
    assert!(!notes(&first).contains("point of no return"), "{}", notes(&first));
    let case = case.runs("cp-1", "v1.13.10");
    let plan = case.plan_for(&["cp-1"]);
    assert!(plan.steps.is_empty() && !plan.is_empty());
    assert_eq!(plan.blocked[0].node.as_deref(), Some("cp-1"));
    assert!(plan.blocked[0].what.contains("cp-2, cp-3, w-1 must make the hop"), "{:?}", plan.blocked);
    // The others are asked for, too, or all are.
    assert_eq!(case.plan_for(&["cp-1", "cp-2", "cp-3", "w-1"]).blocked, []);
    assert_eq!(case.plan().blocked, []);
}

#[test]
fn what_blocks_all_blocks_a_target() {
    let mut case = Case::new("v1.13.8", "v1.13.9");
    case.world.machines.insert("cp-2".into(), Machine::unresponsive("no route to host"));
    let plan = case.plan_for(&["w-1"]);
    assert!(
        plan.steps.is_empty() && plan.blocked.iter().any(|it| it.what.contains("cp-2 does not respond")),
        "{plan:?}"
    );
    // One that needs nothing is not concerned.
    let settled = case.runs("w-1", "v1.13.9").plan_for(&["w-1"]);
    assert_eq!(settled.blocked, []);
}

#[test]
fn the_rest_of_an_upgrade_that_waits_for_a_reboot_is_part_of_the_plan() {
    let mut case = Case::new("v1.13.8", "v1.13.9");
    case.world.machines.insert("cp-2".into(), Machine::unresponsive("no route to host"));
    sketch::cordoned(&mut case.world, "cp-2", Some("upgrade"));
    let plan = case.plan();
    assert!(plan.units.is_empty());
    let blocked = plan.blocked.iter().find(|it| it.what.contains("may be rebooting")).unwrap();
    assert!(blocked.what.contains("cp-1, cp-3, w-1") && !blocked.hint.contains("take it out"), "{blocked:?}");
    for node in ["cp-1", "cp-2", "cp-3", "w-1"] {
        assert!(plan.goals().contains(&Goal::UpgradeTalos { node: node.into() }), "{node}");
    }
    // Another one is away, and nothing shows that this is for the upgrade.
    case.world.machines.insert("w-1".into(), Machine::unresponsive("no route to host"));
    assert!(!case.plan().goals().iter().any(|goal| matches!(goal, Goal::UpgradeTalos { .. })));
}

#[test]
fn an_upgrade_waits_for_an_interrupted_replacement_and_names_its_command() {
    let mut case = Case::new("v1.13.8", "v1.13.9");
    case.world.machines.remove("cp-2");
    case.world.proxmox.marked.iter_mut().find(|vm| vm.mark.node == "cp-2").unwrap().running = false;
    case.world.kubernetes.nodes.get_mut("cp-2").unwrap().ready = false;
    sketch::cordoned(&mut case.world, "cp-2", Some("replace/cp-2 by eva@laptop"));
    let plan = case.plan();
    assert!(plan.units.is_empty() && !plan.blocked.is_empty(), "{plan:?}");
    for blocked in &plan.blocked {
        assert_eq!(blocked.hint, "continue it: `talosmith node replace cp-2`", "{blocked:?}");
    }
}

#[test]
fn a_node_that_is_created_is_upgraded_with_the_same_approval() {
    let mut case = Case::new("v1.12.4", "v1.14.1");
    case.world.machines.remove("w-1");
    case.world.proxmox.marked.retain(|vm| vm.mark.node != "w-1");
    case.world.proxmox.taken.remove(&case.blueprint.nodes["w-1"].vmid);
    case.world.kubernetes.nodes.remove("w-1");
    for plan in [case.plan(), case.plan_for(&["w-1"])] {
        assert_eq!(plan.refusals, []);
        assert!(plan.goals().contains(&Goal::UpgradeTalos { node: "w-1".into() }), "{:?}", plan.goals());
    }
    assert!(notes(&case.plan()).contains("w-1 starts with Talos v1.12.4"), "{}", notes(&case.plan()));
}

#[test]
fn control_plane_nodes_stay_within_one_minor() {
    let case = Case::new("v1.12.4", "v1.14.1").wants("cp-2", "v1.12.4");
    let plan = case.plan();
    assert_eq!(plan.blocked, []);
    assert!(
        notes(&plan).contains("stops before the hop to Talos v1.14.1 (cp-1, cp-3): cp-2 stays"),
        "{}",
        notes(&plan)
    );
    assert!(!notes(&plan).contains("point of no return"), "cp-2 keeps the old etcd");
    let next = Case::new("v1.13.10", "v1.14.1").wants("cp-2", "v1.12.4").runs("cp-2", "v1.12.4").plan();
    assert!(
        next.units.is_empty() && next.blocked[0].what.contains("cp-2 stays at Talos v1.12.4"),
        "{next:?}"
    );
    let apart = Case::new("v1.14.1", "v1.14.1").wants("cp-2", "v1.12.4").runs("cp-2", "v1.12.4").plan();
    assert!(notes(&apart).contains("more than one minor release apart"), "{}", notes(&apart));
    // One minor behind on purpose is fine, and etcd can go back.
    let canary = Case::new("v1.13.10", "v1.14.1").wants("cp-2", "v1.13.10").plan();
    assert_eq!((canary.units.len(), canary.blocked.len()), (3, 0));
    assert!(!notes(&canary).contains("point of no return"));
}

#[test]
fn stops_that_are_not_on_the_way_are_named() {
    let mut case = Case::new("v1.12.9", "v1.14.1");
    let ignored = |case: &Case| {
        notes(&case.plan()).lines().find(|note| note.contains("versions.via")).map(str::to_owned)
    };
    case.blueprint.options.via.talos = vec!["v1.12.5".to_owned(), "v1.13.9".to_owned(), "v1.14.0".to_owned()];
    assert!(ignored(&case).unwrap().contains("Talos v1.12.5, v1.14.0, which"), "{:?}", ignored(&case));
    case.blueprint.options.via.talos = vec!["v1.13.9".to_owned()];
    assert_eq!(ignored(&case), None);
    let mut passed = Case::new("v1.13.9", "v1.14.1");
    passed.blueprint.options.via.talos = vec!["v1.13.9".to_owned()];
    assert_eq!(ignored(&passed), None);
}

/// Before 1.13 the call that installs an image reboots the machine: no second reboot is planned.
#[test]
fn leftover_a_reboot_that_the_installation_makes_is_not_a_step() {
    let kinds = |plan: &Plan| -> Vec<String> {
        let of_node = |step: &&Step| step.unit.is_some() && step.action.node() == Some("w-1");
        plan.steps.iter().filter(of_node).map(|step| step.id.kind().to_owned()).collect()
    };
    let old = Case::new("v1.12.4", "v1.13.9").plan();
    assert_eq!(kinds(&old), ["drain-node", "install-talos", "verify-node", "uncordon-node"]);
    let new = Case::new("v1.13.9", "v1.14.1").plan();
    assert_eq!(kinds(&new), ["drain-node", "install-talos", "reboot-node", "verify-node", "uncordon-node"]);
    let seconds = |plan: &Plan| plan.units.iter().map(|unit| plan.unit_seconds(unit)).sum::<u32>();
    assert_eq!(seconds(&old), seconds(&new), "it takes as long");
}
