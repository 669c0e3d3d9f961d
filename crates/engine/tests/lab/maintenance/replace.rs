//! `node replace`.

use std::time::Duration;

use lab::Injection;
use model::allowed::Allowed;
use model::event::Outcome;
use model::plan::by_hand::{ByHand, Hand};

use super::{done, planned, uid, units};
use crate::rig::{HOME, Rig};

fn asked(node: &str, force: bool) -> ByHand {
    ByHand { force, ..ByHand::of(Hand::Replace, [node]) }
}

/// It is out of reach, and Kubernetes misses it.
async fn cut_off(rig: &Rig, vmid: u32) {
    rig.lab.inject(Injection::Unplugged { vmid, unplugged: true });
    rig.systems.clock.sleep(Duration::from_secs(120)).await;
}

#[tokio::test(start_paused = true)]
async fn a_dead_control_plane_node_is_replaced_under_its_name_and_address() {
    let rig = Rig::healthy().await;
    cut_off(&rig, 150_012).await;
    let offered = rig.observe(HOME).await.plan();
    let told = offered.blocked.iter().find(|blocked| blocked.node.as_deref() == Some("home-control-2"));
    assert!(told.unwrap().hint.contains("`talosmith node replace home-control-2`"), "{told:?}");
    let host = rig.host_of(150_012).await;
    let before = rig.systems.pve.vm_config(&host, 150_012).await.unwrap();
    let ran = done(&rig, HOME, &asked("home-control-2", false)).await;
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    let after = rig.systems.pve.vm_config(&host, 150_012).await.unwrap();
    assert_ne!(before.get("vmgenid"), after.get("vmgenid"), "it is another VM");
    rig.assert_whole().await;
}

#[tokio::test(start_paused = true)]
async fn a_healthy_node_is_replaced_with_force_only_and_the_canary_is_never_down() {
    let rig = Rig::healthy().await;
    rig.deploy_canary().await;
    for node in ["home-control-3", "home-work-1"] {
        let (_, plan) = planned(&rig, HOME, &asked(node, false), Allowed::default()).await;
        assert_eq!((units(&plan).len(), plan.blocked.len()), (0, 1), "{node}");
        let (snapshot, plan) = planned(&rig, HOME, &asked(node, true), Allowed::default()).await;
        assert_eq!(plan.refusals, []);
        let ran = rig.carry_out_with_canary(&snapshot, &plan).await;
        assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    }
    rig.assert_whole().await;
}

/// The data disk is the same volume, at the same place, and the system disk is another one.
#[tokio::test(start_paused = true)]
async fn data_disks_stay_with_a_node_that_is_replaced() {
    let file = HOME.replace("role: worker,", "role: worker, disks: { data: { size: 10G } },");
    let rig = Rig::new();
    let ran = Box::pin(rig.apply(&file)).await;
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    let host = rig.host_of(150_021).await;
    let config = async || rig.systems.pve.vm_config(&host, 150_021).await.unwrap();
    let volume = |config: &pve::VmConfig, disk: &str| config.drive(disk).unwrap().volume;
    let (before, boots) = (config().await, rig.boots());
    let node = uid(&rig, "home-work-1").unwrap();
    cut_off(&rig, 150_021).await;
    let (snapshot, plan) = planned(&rig, &file, &asked("home-work-1", false), Allowed::default()).await;
    assert_eq!(plan.blocked, []);
    assert!(plan.steps.iter().any(|step| step.id.kind() == "renew-disk"), "{:?}", plan.steps);
    // What is blocked elsewhere is not hidden by a target: the cluster does not match the file.
    let elsewhere = rig.session(&file).targeting(["home-control-1"]).observe().await.unwrap().plan();
    assert_eq!(elsewhere.blocked, []);
    assert!(
        elsewhere.notes.iter().any(|note| note.text.contains("`--target` leaves out")),
        "{:?}",
        elsewhere.notes
    );
    // The file's name of a disk is as good as its key in Proxmox.
    for disk in ["data", "scsi1"] {
        let disks = [("home-work-1".into(), [disk.to_owned()].into())].into();
        let named = Allowed { disks, ..Allowed::default() };
        let (allowing, deletes) = planned(&rig, &file, &asked("home-work-1", false), named).await;
        assert_eq!(allowing.unknown_name(), None);
        assert!(
            deletes.steps.iter().any(|step| step.id.kind() == "delete-vm"),
            "{disk}: {:?}",
            deletes.blocked
        );
    }
    // With the node alone, `apply` does not delete the disk either, and names the command that keeps it.
    let session = rig.session(&file).allowing(Allowed::data_of(["home-work-1"]));
    let refused = session.observe().await.unwrap().plan();
    let [blocked] = refused.blocked.as_slice() else { panic!("{:?}", refused.blocked) };
    assert!(blocked.what.contains("scsi1 with 10 GiB"), "{blocked:?}");
    assert!(blocked.hint.contains("`talosmith node replace home-work-1`"), "{blocked:?}");
    assert!(
        !refused.steps.iter().any(|step| step.action.node() == Some("home-work-1")),
        "{:?}",
        refused.steps
    );
    // A new network device is not out of reach.
    let ran = Box::pin(async {
        let mended = async {
            loop {
                rig.systems.clock.sleep(Duration::from_secs(1)).await;
                if !rig.systems.pve.is_running(&host, 150_021).await.unwrap_or(true) {
                    return rig.lab.inject(Injection::Unplugged { vmid: 150_021, unplugged: false });
                }
            }
        };
        tokio::join!(rig.carry_out(&snapshot, &plan, "me"), mended).0.unwrap()
    })
    .await;
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    let after = config().await;
    assert_eq!(volume(&before, "scsi1"), volume(&after, "scsi1"));
    assert_ne!(uid(&rig, "home-work-1").unwrap(), node, "it is another node in Kubernetes");
    assert!(
        !after.keys.keys().any(|key| key.starts_with("unused")),
        "the old system disk is gone: {after:?}"
    );
    assert_eq!(before.get("vmgenid"), after.get("vmgenid"));
    assert_ne!(boots[&150_021], rig.boots()[&150_021]);
    rig.assert_nothing_to_do(&file).await;
    assert_eq!(rig.guard.leftovers(&rig.lab), [] as [&str; 0]);
    // With the disk named, nothing of it stays.
    let disks = [("home-work-1".into(), ["scsi1".to_owned()].into())].into();
    let allowed = Allowed { disks, ..Allowed::default() };
    let (snapshot, plan) = planned(&rig, &file, &asked("home-work-1", true), allowed).await;
    let ran = Box::pin(rig.carry_out(&snapshot, &plan, "me")).await.unwrap();
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    assert_ne!(before.get("vmgenid"), config().await.get("vmgenid"), "it is another VM");
    rig.assert_nothing_to_do(&file).await;
}

/// Its host lost its power: whether the node lives is not known, whatever Kubernetes says.
#[tokio::test(start_paused = true)]
async fn a_node_on_a_host_that_is_away_is_not_replaced() {
    let rig = Rig::healthy().await;
    let host = rig.host_of(150_022).await;
    assert_ne!(host, "pve1", "the endpoint stays");
    rig.lab.inject(Injection::HostOffline(host));
    rig.systems.clock.sleep(Duration::from_secs(120)).await;
    for force in [false, true] {
        let (_, plan) = planned(&rig, HOME, &asked("home-work-2", force), Allowed::default()).await;
        assert_eq!(units(&plan), [] as [&str; 0]);
        assert!(!plan.blocked.is_empty() || !plan.refusals.is_empty(), "{plan:?}");
    }
}

/// The image, the installer image and the machine are of one release: the one that the others run.
#[tokio::test(start_paused = true)]
async fn a_node_that_is_replaced_before_an_upgrade_starts_with_the_release_of_the_others() {
    let rig = Rig::healthy().await;
    let file = HOME.replace("talos: v1.13.9", "talos: v1.14.1");
    let (snapshot, plan) = planned(&rig, &file, &asked("home-control-3", true), Allowed::default()).await;
    let create = plan.steps.iter().find(|step| step.id.kind() == "create-vm").unwrap();
    assert!(create.reason.ends_with("Talos v1.13.9"), "{}", create.reason);
    let images = format!("{:?}", plan.steps);
    assert!(images.contains("talos-v1.13.9-") && !images.contains("talos-v1.14.1-"), "{images}");
    assert!(snapshot.rendered.installers["home-control-3"].ends_with(":v1.13.9"));
    let ran = Box::pin(rig.carry_out(&snapshot, &plan, "me")).await.unwrap();
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    let seen = rig.observe(&file).await;
    assert_eq!(seen.observed.machines["home-control-3"].talos.as_deref(), Some("v1.13.9"));
    rig.assert_whole().await;
}

/// The run dies once the member left etcd: `apply` changes nothing of the node and names the command, which finishes the replacement.
#[tokio::test(start_paused = true)]
async fn a_replacement_that_died_after_the_node_left_etcd_is_continued_by_its_command() {
    let rig = Rig::healthy().await;
    let (snapshot, mut plan) = planned(&rig, HOME, &asked("home-control-3", true), Allowed::default()).await;
    let left = plan.steps.iter().position(|step| step.id.kind() == "leave-etcd").unwrap();
    plan.steps.truncate(left + 1);
    let ran = Box::pin(rig.carry_out(&snapshot, &plan, "me")).await.unwrap();
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    let after = rig.observe(HOME).await.plan();
    let [blocked] = after.blocked.as_slice() else { panic!("{:?} {:?}", after.blocked, after.steps) };
    assert!(blocked.hint.contains("`talosmith node replace home-control-3 --force`"), "{}", blocked.hint);
    assert!(
        !after.steps.iter().any(|step| step.action.node() == Some("home-control-3")),
        "{:?}",
        after.steps
    );
    let ran = done(&rig, HOME, &asked("home-control-3", true)).await;
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    rig.assert_whole().await;
}
