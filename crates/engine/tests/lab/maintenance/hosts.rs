//! `host drain` and `host undrain`.

use model::allowed::Allowed;
use model::event::Outcome;
use model::plan::RefusalCode;
use model::plan::by_hand::{ByHand, Hand};
use model::step::UnitId;

use super::{done, planned, units};
use crate::rig::{HOME, Rig};

fn drain(host: &str) -> ByHand {
    ByHand::of_host(Hand::DrainHost, host)
}

fn undrain(host: &str) -> ByHand {
    ByHand::of_host(Hand::UndrainHost, host)
}

const VMS: [u32; 6] = [150_010, 150_011, 150_012, 150_013, 150_021, 150_022];

async fn on(rig: &Rig, host: &str) -> Vec<u32> {
    let mut here = vec![];
    for vmid in VMS {
        if rig.host_of(vmid).await == host {
            here.push(vmid);
        }
    }
    here
}

/// Every host in turn: what is on it leaves, with the record, stays away while the file is applied, and comes back.
#[tokio::test(start_paused = true)]
async fn nodes_leave_a_host_and_come_back() {
    let rig = Rig::healthy().await;
    rig.deploy_canary().await;
    let boots = rig.boots();
    for host in ["pve1", "pve2"] {
        rig.lab.person().create(host, 4711, &[("name", "theirs")]).unwrap();
        let before = on(&rig, host).await;
        assert!(!before.is_empty());
        let (snapshot, plan) = planned(&rig, HOME, &drain(host), Allowed::default()).await;
        assert_eq!((&plan.refusals[..], &plan.blocked[..]), (&[][..], &[][..]));
        assert!(plan.notes.iter().any(|note| note.text.contains("4711 (theirs)")), "{:?}", plan.notes);
        let ran = rig.carry_out_with_canary(&snapshot, &plan).await;
        assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
        assert_eq!(on(&rig, host).await, [] as [u32; 0]);
        assert_eq!(rig.host_of(4711).await, host, "guests of others stay");
        let plan = rig.observe(HOME).await.plan();
        assert!(plan.is_empty(), "{:?} {:?}", plan.steps, plan.blocked);
        let ran = done(&rig, HOME, &undrain(host)).await;
        assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
        let nodes: Vec<u32> = before.into_iter().filter(|vmid| *vmid != 150_010).collect();
        let back: Vec<u32> = on(&rig, host).await.into_iter().filter(|vmid| *vmid != 150_010).collect();
        assert_eq!(back, nodes);
        let drained = &rig.observe(HOME).await.observed.proxmox.record.clone().unwrap().state.drained;
        assert!(drained.is_empty(), "{drained:?}");
        rig.lab.person().delete(4711).unwrap();
    }
    assert_eq!(boots, rig.boots(), "none of them has booted");
    rig.assert_whole().await;
}

#[tokio::test(start_paused = true)]
async fn a_host_with_two_of_three_voters_is_refused() {
    let rig = Rig::healthy().await;
    let host = rig.host_of(150_011).await;
    rig.lab.person().migrate(150_012, &host).unwrap();
    let (_, plan) = planned(&rig, HOME, &drain(&host), Allowed::default()).await;
    assert_eq!(units(&plan), [] as [&str; 0]);
    let why = &plan.refusals[0].why;
    assert!(why.contains("2 of 3 voting members of etcd (home-control-1, home-control-2)"), "{why}");
}

/// A node that cannot move is shut down, and only `undrain` starts it again.
#[tokio::test(start_paused = true)]
async fn a_node_that_cannot_move_is_shut_down_until_undrain() {
    let file = HOME.replace("role: worker,", "role: worker, hosts: [pve1, pve2],");
    let rig = Rig::healthy().await;
    let ran = rig.apply(&file).await;
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    // Its only other host is in maintenance.
    let host = rig.host_of(150_021).await;
    let other = if host == "pve1" { "pve2" } else { "pve1" };
    rig.lab.person().maintain(other, true);
    let (snapshot, plan) = planned(&rig, &file, &drain(&host), Allowed::default()).await;
    assert!(units(&plan).contains(&"shutdown/home-work-1"), "{:?} {:?}", units(&plan), plan.blocked);
    let ran = Box::pin(rig.carry_out(&snapshot, &plan, "me")).await.unwrap();
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    let running = async || rig.systems.pve.is_running(&host, 150_021).await.unwrap();
    assert!(!running().await);
    rig.lab.person().maintain(other, false);
    let plan = rig.observe(&file).await.plan();
    assert!(!plan.steps.iter().any(|step| step.id.kind() == "start-vm"), "{:?}", plan.steps);
    let ran = done(&rig, &file, &undrain(&host)).await;
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    assert!(running().await);
    assert!(rig.cordoned().await.is_empty());
    rig.assert_nothing_to_do(&file).await;
}

/// A node was shut down to move, and the run died before it moved: the next drain moves it, and starts it there.
#[tokio::test(start_paused = true)]
async fn a_move_that_was_interrupted_while_its_node_was_off_is_continued() {
    let rig = Rig::healthy().await;
    let host = rig.host_of(150_022).await;
    let (_, drains) = planned(&rig, HOME, &drain(&host), Allowed::default()).await;
    let asked = ByHand::of(Hand::Shutdown, ["home-work-2"]);
    let (snapshot, mut plan) = planned(&rig, HOME, &asked, Allowed::default()).await;
    // The first half of a move is a shutdown under another name.
    let unit = UnitId("move/home-work-2".to_owned());
    plan.steps.iter_mut().filter(|step| step.unit.is_some()).for_each(|step| step.unit = Some(unit.clone()));
    plan.units.iter_mut().for_each(|one| one.id = unit.clone());
    plan.steps.extend(drains.steps.into_iter().filter(|step| step.id.kind() == "drain-host"));
    let ran = Box::pin(rig.carry_out(&snapshot, &plan, "me")).await.unwrap();
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    let plan = rig.observe(HOME).await.plan();
    let hint = format!("`talosmith host drain {host}`");
    assert!(plan.blocked.iter().any(|blocked| blocked.hint.contains(&hint)), "{:?}", plan.blocked);
    let ran = done(&rig, HOME, &drain(&host)).await;
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    let now = rig.host_of(150_022).await;
    assert_ne!(now, host);
    assert!(rig.systems.pve.is_running(&now, 150_022).await.unwrap());
    assert!(rig.cordoned().await.is_empty());
    assert!(rig.observe(HOME).await.plan().is_empty());
}

/// An administrator's maintenance: high availability may move guests, and nothing of ours is restarted there.
#[tokio::test(start_paused = true)]
async fn a_host_in_maintenance_holds_restarts_of_its_nodes() {
    let rig = Rig::healthy().await;
    let host = rig.host_of(150_021).await;
    rig.lab.person().maintain(&host, true);
    let boots = rig.boots();
    let (_, plan) = planned(&rig, HOME, &ByHand::of(Hand::Reboot, ["home-work-1"]), Allowed::default()).await;
    assert_eq!((units(&plan).len(), plan.blocked.len()), (0, 1));
    assert!(plan.blocked[0].what.contains("is in maintenance"), "{:?}", plan.blocked);
    // It began after the plan was made.
    rig.lab.person().maintain(&host, false);
    let asked = ByHand::of(Hand::Reboot, ["home-work-1"]);
    let (snapshot, plan) = planned(&rig, HOME, &asked, Allowed::default()).await;
    rig.lab.person().maintain(&host, true);
    let ran = Box::pin(rig.carry_out(&snapshot, &plan, "me")).await.unwrap();
    assert_eq!(ran.outcome, Outcome::Failed);
    assert!(
        ran.failures().iter().any(|failure| failure.contains("is in maintenance")),
        "{:?}",
        ran.failures()
    );
    assert_eq!(boots, rig.boots());
}

/// What is on it cannot be seen, and nothing can leave it: that is no drained host.
#[tokio::test(start_paused = true)]
async fn a_host_that_is_off_is_not_drained() {
    let rig = Rig::healthy().await;
    let host = rig.host_of(150_022).await;
    rig.lab.inject(lab::Injection::HostOffline(host.clone()));
    let (_, plan) = planned(&rig, HOME, &drain(&host), Allowed::default()).await;
    let codes: Vec<RefusalCode> = plan.refusals.iter().map(|refusal| refusal.code).collect();
    assert!(codes.contains(&RefusalCode::Host), "{:?}", plan.refusals);
    assert!(plan.steps.is_empty(), "{:?}", plan.steps);
    assert!(!plan.notes.iter().any(|note| note.text.contains("home-work-2")), "{:?}", plan.notes);
}

/// No record is created for a command that has nothing to act on.
#[tokio::test(start_paused = true)]
async fn a_cluster_without_vms_has_no_nodes_to_reboot_or_drain() {
    let rig = Rig::new();
    for asked in
        [ByHand::of(Hand::Reboot, ["home-work-1"]), ByHand::of(Hand::Drain, ["home-work-1"]), drain("pve1")]
    {
        let (_, plan) = planned(&rig, HOME, &asked, Allowed::default()).await;
        let codes: Vec<RefusalCode> = plan.refusals.iter().map(|refusal| refusal.code).collect();
        assert_eq!((codes, plan.steps.len()), (vec![RefusalCode::NotFound], 0), "{:?}", plan.refusals);
    }
}
