//! Nothing is touched without the lease, which is in the record.

use super::*;
use crate::observed::{NotRead, Unchecked};
use crate::step::{Disruption, StepId};

/// All that must have happened before a step.
fn before(plan: &Plan, id: &StepId) -> BTreeSet<StepId> {
    let direct = step(plan, &id.0).after.clone();
    let further: Vec<StepId> = direct.iter().flat_map(|id| before(plan, id)).collect();
    direct.into_iter().chain(further).collect()
}

/// Everything differs a little, and someone deleted the record.
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
    world.machines.insert("cp-2".into(), Machine::unresponsive("refused"));
    world.kubernetes.nodes = [("cp-2", false)]
        .map(|(name, ready)| (name.into(), KubernetesNode { ready, ..world.kubernetes.nodes[name].clone() }))
        .into();
    world
}

#[test]
fn every_step_stands_behind_the_record_that_is_made_first() {
    let blueprint = blueprint();
    for allowed in [Allowed::default(), Allowed::data_of(["cp-2"])] {
        let world = disorder(&blueprint);
        let plan = plan_allowing(&blueprint, &rendered(), &world, &allowed);
        assert_eq!(plan.refusals, []);
        let kinds: BTreeSet<&str> = plan.steps.iter().map(|step| step.id.kind()).collect();
        for kind in ["update-vm", "grow-disk", "start-vm", "configure", "join"] {
            assert!(kinds.contains(kind), "{kinds:?}");
        }
        assert_eq!(kinds.contains("delete-vm"), !allowed.is_empty());
        for id in plan.steps.iter().map(|step| &step.id) {
            let first = ["create-record", "register-schematic"].contains(&id.kind());
            assert!(first || before(&plan, id).contains(&StepId("create-record".to_owned())), "{id}");
        }
    }
    let plan = plan(&blueprint, &rendered(), &empty_world());
    for id in plan.steps.iter().map(|step| &step.id).filter(|id| id.objects().next().is_some()) {
        let free = id.kind() == "register-schematic";
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
                    "VM {vmid} on pve3 may be the cluster record VM and could not be read; without it nothing keeps two \
                     operators apart"
                )
            );
        }
        world.proxmox.record = healthy_world(&blueprint).proxmox.record;
        assert_eq!(plan(&blueprint, &rendered(), &world).refusals, [], "it was read: the other VM is not it");
    }
}

fn unchecked(host: &str, name: Option<&str>, reason: NotRead) -> Unchecked {
    Unchecked { host: host.to_owned(), name: name.map(str::to_owned), reason }
}

#[test]
fn vms_that_could_not_be_read_keep_a_record_from_being_created() {
    let blueprint = blueprint();
    let failed = || NotRead::Failed { why: "got no answer".to_owned() };
    let mut world = empty_world();
    world.proxmox.inventory.hosts.get_mut("pve3").unwrap().online = false;
    world.proxmox.unchecked.insert(101, unchecked("pve3", None, NotRead::Offline));
    world.proxmox.unchecked.insert(102, unchecked("pve3", None, NotRead::Offline));
    world.proxmox.unchecked.insert(103, unchecked("pve2", Some("web"), failed()));
    let refused = plan(&blueprint, &rendered(), &world);
    assert!(refused.steps.is_empty());
    let told: Vec<(&str, &str)> =
        refused.refusals.iter().map(|r| (r.why.as_str(), r.hint.as_str())).take(2).collect();
    assert_eq!(
        told,
        [
            (
                "the cluster record VM was not found, and whether VM 103 (web) on pve2 belongs to this cluster could not be checked: got no answer",
                "make sure that pve2 answers, and run the command again; if this cluster never had a VM on pve2, leave that host out: write `hosts: { pve1: {}, pve3: {} }` in the file"
            ),
            (
                "the cluster record VM was not found, and whether VM 101 and VM 102 on pve3 belong to this cluster could not be checked: pve3 is offline",
                "bring pve3 back; if this cluster never had a VM on pve3, leave that host out: write `hosts: { pve1: {}, pve2: {} }` in the file"
            ),
        ]
    );
    // Also where they carry our tag, and where the cluster lives.
    let mut world = empty_world();
    world.proxmox.unread.insert(4711, "pve9".to_owned());
    let codes = |plan: Plan| plan.refusals.iter().map(|r| r.code).collect::<Vec<_>>();
    assert_eq!(codes(plan(&blueprint, &rendered(), &world)), [RefusalCode::NoRecord]);
    world.proxmox.unread.insert(150_010, "pve9".to_owned());
    assert_eq!(codes(plan(&blueprint, &rendered(), &world)), [RefusalCode::NoRecord; 2]);
    let mut world = healthy_world(&blueprint);
    world.proxmox.unchecked.insert(103, unchecked("pve2", Some("web"), failed()));
    assert_eq!(plan(&blueprint, &rendered(), &world).refusals, [], "the record was found");
    world.proxmox.record = None;
    assert_eq!(codes(plan(&blueprint, &rendered(), &world)), [RefusalCode::NoRecord]);
}

#[test]
fn vms_that_are_known_to_be_anothers_are_counted_and_keep_nothing_from_being_created() {
    let mut blueprint = blueprint();
    let mut world = empty_world();
    world.proxmox.unchecked.insert(101, unchecked("pve1", Some("a"), NotRead::Forbidden));
    world.proxmox.unchecked.insert(102, unchecked("pve2", None, NotRead::Forbidden));
    world.proxmox.unchecked.insert(103, unchecked("pve9", Some("web"), NotRead::Offline));
    world.proxmox.unchecked.insert(104, unchecked("pve8", None, NotRead::Offline));
    world.proxmox.unread.insert(105, "pve8".to_owned());
    blueprint.hosts = ["pve1", "pve2", "pve3", "pve9"].map(str::to_owned).into();
    let plan = plan(&blueprint, &rendered(), &world);
    assert_eq!(plan.refusals, []);
    let told: Vec<&str> =
        plan.notes.iter().map(|n| n.text.as_str()).filter(|t| t.contains("checked")).collect();
    assert_eq!(
        told,
        [
            "2 VMs cannot be checked: the token has no right to read them (VM.Audit). If one of them belongs to this cluster, stop here",
            "1 VM on pve9 cannot be checked: the host is offline; name, tags and VM ID are not this cluster's. If one of them belongs to this cluster, stop here",
            "1 VM on pve8 cannot be checked; `hosts` in the file leaves that host out. If one of them belongs to this cluster, stop here",
        ]
    );
}

#[test]
fn arch3_a_plan_whose_steps_need_each_other_is_refused() {
    let step = |id: &str, after: &str| Step {
        id: StepId(id.to_owned()),
        action: Action::CheckHealth,
        after: vec![StepId(after.to_owned())],
        reason: String::new(),
        disruption: Disruption::None,
        seconds: 1,
        unit: None,
    };
    let plan =
        finish(&blueprint(), Found { steps: vec![step("a", "b"), step("b", "a")], ..Found::default() });
    assert_eq!(plan.steps, []);
    assert_eq!(plan.refusals.iter().map(|r| r.code).collect::<Vec<_>>(), [RefusalCode::Internal]);
}
