//! Nodes that move because the file says so.

use std::time::Duration;

use model::event::Outcome;

use super::units;
use crate::rig::{HOME, Rig};

/// Workers on one host.
fn on(host: &str) -> String {
    HOME.replace("role: worker,", &format!("role: worker, hosts: [{host}],"))
}

#[tokio::test(start_paused = true)]
async fn workers_move_while_they_run_to_the_host_that_the_file_says() {
    let rig = Rig::healthy().await;
    rig.deploy_canary().await;
    let (before, file) = (rig.boots(), on("pve3"));
    let mut identities = vec![];
    for vmid in [150_021, 150_022] {
        let config = rig.systems.pve.vm_config(&rig.host_of(vmid).await, vmid).await.unwrap();
        identities.push((config.get("vmgenid").map(str::to_owned), config.smbios_uuid()));
    }
    let snapshot = rig.observe(&file).await;
    let plan = snapshot.plan();
    assert_eq!((plan.refusals.len(), plan.blocked.len()), (0, 0), "{plan:?}");
    assert_eq!(units(&plan), ["move/home-work-1", "move/home-work-2"]);
    let ran = rig.carry_out_with_canary(&snapshot, &plan).await;
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    for (vmid, known) in [150_021, 150_022].into_iter().zip(identities) {
        assert_eq!(rig.host_of(vmid).await, "pve3");
        let config = rig.systems.pve.vm_config("pve3", vmid).await.unwrap();
        assert_eq!((config.get("vmgenid").map(str::to_owned), config.smbios_uuid()), known);
    }
    assert_eq!(before, rig.boots(), "none of them has booted");
    rig.assert_nothing_to_do(&file).await;
    assert_eq!(rig.guard.leftovers(&rig.lab), [] as [&str; 0]);
}

/// All control plane nodes on one host: they go one after another, and etcd keeps its quorum and its leader.
#[tokio::test(start_paused = true)]
async fn control_plane_nodes_move_one_at_a_time() {
    let rig = Rig::healthy().await;
    let file = HOME.replace("role: controlplane,", "role: controlplane, hosts: [pve2],");
    let snapshot = rig.observe(&file).await;
    let plan = snapshot.plan();
    assert_eq!(plan.units.len(), 2, "one is there already: {:?}", plan.blocked);
    let ran = Box::pin(rig.carry_out(&snapshot, &plan, "me")).await.unwrap();
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    for vmid in [150_011, 150_012, 150_013] {
        assert_eq!(rig.host_of(vmid).await, "pve2");
    }
    rig.assert_nothing_to_do(&file).await;
}

/// High availability moves it after its task has ended.
#[tokio::test(start_paused = true)]
async fn a_node_that_high_availability_manages_is_awaited_on_its_new_host() {
    let rig = Rig::healthy().await;
    rig.lab.person().manage(150_021).unwrap();
    rig.systems.clock.sleep(Duration::from_secs(30)).await;
    let file = on("pve3");
    let ran = rig.apply(&file).await;
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    assert_eq!(
        (rig.host_of(150_021).await, rig.host_of(150_022).await),
        ("pve3".to_owned(), "pve3".to_owned())
    );
}

/// With a mapped device it cannot move while it runs.
#[tokio::test(start_paused = true)]
async fn a_node_that_cannot_move_while_it_runs_is_shut_down_to_move() {
    let rig = Rig::healthy().await;
    let before = rig.boots();
    let snapshot = rig.observe(&on("pve3")).await;
    let mut plan = snapshot.plan();
    // As a plan says it for a node with a mapped device.
    for step in &mut plan.steps {
        if let model::step::Action::MigrateVm { online, .. } = &mut step.action {
            *online = false;
        }
    }
    let ran = Box::pin(rig.carry_out(&snapshot, &plan, "me")).await.unwrap();
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    for vmid in [150_021, 150_022] {
        assert_eq!(rig.host_of(vmid).await, "pve3");
    }
    let boots = rig.boots();
    let moved = before.iter().filter(|(vmid, boot)| boots[vmid] != **boot).count();
    assert!((1..=2).contains(&moved), "those that moved have booted: {moved}");
    rig.assert_nothing_to_do(&on("pve3")).await;
}
