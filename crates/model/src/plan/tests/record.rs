//! Nothing is touched without the lease, which is in the record.

use super::*;
use crate::step::{Disturbs, StepId};

/// All that must have happened before a step.
fn before(plan: &Plan, id: &StepId) -> BTreeSet<StepId> {
    let direct = step(plan, &id.0).after.clone();
    let further: Vec<StepId> = direct.iter().flat_map(|id| before(plan, id)).collect();
    direct.into_iter().chain(further).collect()
}

/// Everything differs a little, and somebody deleted the record.
fn disorder(blueprint: &Blueprint) -> Observed {
    let mut world = healthy_world(blueprint);
    world.proxmox.record = None;
    let (mut small, mut off) = (vm(&blueprint.nodes["cp-1"], true), vm(&blueprint.nodes["w-1"], false));
    small.config.insert("onboot".to_owned(), "0".to_owned());
    small.config.insert("scsi0".to_owned(), "l:vm-1-disk-0,discard=on,iothread=1,size=10G,ssd=1".to_owned());
    off.config.insert("cores".to_owned(), "8".to_owned());
    world.proxmox.marked.retain(|vm| vm.mark.node != "cp-1" && vm.mark.node != "w-1");
    world.proxmox.marked.extend([small, off]);
    world.machines.remove("w-1");
    world.machines.insert("cp-2".to_owned(), Machine::silent("refused"));
    world.kubernetes.nodes = [("cp-2", false)]
        .map(|(name, ready)| {
            (name.to_owned(), KubernetesNode { ready, ..world.kubernetes.nodes[name].clone() })
        })
        .into();
    world
}

#[test]
fn every_step_stands_behind_the_record_that_is_made_first() {
    let blueprint = blueprint();
    for allowed in [BTreeSet::new(), BTreeSet::from(["cp-2".to_owned()])] {
        let world = disorder(&blueprint);
        let plan = plan_allowing(&blueprint, &rendered(), &world, &allowed);
        assert_eq!(plan.refusals, []);
        let kinds: BTreeSet<&str> = ids(&plan).into_iter().filter_map(|id| id.split('/').next()).collect();
        for kind in ["update-vm", "grow-disk", "start-vm", "configure", "join"] {
            assert!(kinds.contains(kind), "{kinds:?}");
        }
        assert_eq!(kinds.contains("delete-vm"), !allowed.is_empty());
        for id in plan.steps.iter().map(|step| &step.id) {
            let first = id.0 == "create-record" || id.0.starts_with("register-schematic/");
            assert!(first || before(&plan, id).contains(&StepId("create-record".to_owned())), "{id}");
        }
    }
    let plan = plan(&blueprint, &rendered(), &empty_world());
    for id in plan.steps.iter().map(|step| &step.id).filter(|id| id.0.contains('/')) {
        let free = id.0.starts_with("register-schematic/");
        assert_eq!(before(&plan, id).contains(&StepId("create-record".to_owned())), !free, "{id}");
    }
}

#[test]
fn a_record_that_cannot_be_read_stops_everything() {
    let blueprint = blueprint();
    // Under its id, or under one that it was given before the file said another.
    for vmid in [150_010, 4711] {
        let mut world = disorder(&blueprint);
        world.proxmox.unread.insert(vmid, "pve3".to_owned());
        for plan in [plan(&blueprint, &rendered(), &world), plan_destroy(&blueprint, &world)] {
            assert!(plan.steps.is_empty());
            assert_eq!(plan.refusals.iter().map(|r| r.code).collect::<Vec<_>>(), [RefusalCode::NoRecord]);
            assert_eq!(
                plan.refusals[0].why,
                format!(
                    "VM {vmid} on pve3 may be the cluster's record and could not be read; without it nothing keeps two \
                     operators apart"
                )
            );
        }
        world.proxmox.record = healthy_world(&blueprint).proxmox.record;
        assert_eq!(plan(&blueprint, &rendered(), &world).refusals, [], "it was read: the other VM is not it");
    }
}

#[test]
fn what_others_have_on_a_dead_host_does_not_keep_a_new_cluster_from_being_made() {
    let blueprint = blueprint();
    let mut world = empty_world();
    world.proxmox.unread.insert(4711, "pve9".to_owned());
    assert_eq!(plan(&blueprint, &rendered(), &world).refusals, []);
    world.proxmox.unread.insert(150_010, "pve9".to_owned());
    let refused = plan(&blueprint, &rendered(), &world).refusals;
    assert_eq!(refused.iter().map(|r| r.code).collect::<Vec<_>>(), [RefusalCode::NoRecord]);
}

#[test]
fn arch3_a_plan_whose_steps_need_each_other_is_refused() {
    let step = |id: &str, after: &str| Step {
        id: StepId(id.to_owned()),
        action: Action::CheckHealth,
        after: vec![StepId(after.to_owned())],
        reason: String::new(),
        disturbs: Disturbs::Nothing,
        seconds: 1,
    };
    let plan =
        finish(&blueprint(), Found { steps: vec![step("a", "b"), step("b", "a")], ..Found::default() });
    assert_eq!(plan.steps, []);
    assert_eq!(plan.refusals.iter().map(|r| r.code).collect::<Vec<_>>(), [RefusalCode::Internal]);
}
