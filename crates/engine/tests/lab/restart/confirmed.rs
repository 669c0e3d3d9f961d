//! What changes between the moment in which a unit enters the gate and the moment in which it takes its node down.

use std::collections::BTreeMap;

use lab::{CallMoment, Far, Injection, Lost, Partition, Verdict};
use model::event::{Outcome, What};
use model::gate::Effect;
use model::step::Action;
use model::unit::Goal;

use super::{CONTROL, WORKERS, failure, nothing, reboot, restart, unit};
use crate::rig::{HOME, Rig};

/// A person switches a VM off as soon as the drain of another node has ended: it waits for volumes then.
fn switched_off_after_the_drain(rig: &Rig, vmid: u32) {
    let lab = rig.lab.clone();
    rig.lab.on_call(move |_, moment, _, path| {
        if moment == CallMoment::After && path.contains("volumeattachments") {
            let _ = lab.person().power_off(vmid);
        }
        Verdict::GoOn
    });
}

#[tokio::test(start_paused = true)]
async fn a_node_is_not_rebooted_when_another_member_failed_during_its_drain() {
    let rig = Rig::healthy().await;
    let snapshot = rig.observe(HOME).await;
    let mut plan = nothing(&snapshot);
    restart(&mut plan, CONTROL[1], vec![reboot(CONTROL[1])], &[]);
    switched_off_after_the_drain(&rig, 150_013);
    let before = rig.boots()[&150_012].clone();
    let ran = rig.carry_out(&snapshot, &plan, "me").await.unwrap();
    assert_eq!(ran.outcome, Outcome::Failed);
    let (step, code, why) = failure(&ran);
    assert_eq!((step.as_str(), code.as_str()), ("reboot-node/home-control-2", "gate"), "{why}");
    assert_eq!(rig.boots()[&150_012], before);
    assert_eq!(rig.cordoned().await, BTreeMap::new(), "it takes pods again");
}

#[tokio::test(start_paused = true)]
async fn a_member_does_not_leave_when_another_one_failed_during_its_drain() {
    let rig = Rig::healthy().await;
    let snapshot = rig.observe(HOME).await;
    let mut plan = nothing(&snapshot);
    let node = || CONTROL[2].into();
    let acts = vec![Action::DrainNode { node: node() }, Action::LeaveEtcd { node: node() }];
    unit(&mut plan, "remove/home-control-3", Goal::Remove { node: node() }, Effect::Removal, acts, &[]);
    switched_off_after_the_drain(&rig, 150_012);
    let ran = rig.carry_out(&snapshot, &plan, "me").await.unwrap();
    let (step, code, why) = failure(&ran);
    assert_eq!((step.as_str(), code.as_str()), ("leave-etcd/home-control-3", "gate"), "{why}");
}

/// Kubernetes calls a node ready for most of a minute after its VM went off.
#[tokio::test(start_paused = true)]
async fn a_worker_that_went_off_counts_at_once() {
    let rig = Rig::healthy().await;
    let snapshot = rig.observe(HOME).await;
    let mut plan = nothing(&snapshot);
    restart(&mut plan, WORKERS[1], vec![reboot(WORKERS[1])], &[]);
    switched_off_after_the_drain(&rig, 150_021);
    let before = rig.boots()[&150_022].clone();
    let ran = rig.carry_out(&snapshot, &plan, "me").await.unwrap();
    let (step, code, why) = failure(&ran);
    assert_eq!((step.as_str(), code.as_str()), ("reboot-node/home-work-2", "gate"), "{why}");
    assert!(why.contains(WORKERS[0]), "{why}");
    assert_eq!(rig.boots()[&150_022], before);
}

/// Without Proxmox no VM is known to run, so nothing is disrupted; and that is what the wait names, not the nodes that seem to be missing.
#[tokio::test(start_paused = true)]
async fn a_wait_names_a_proxmox_that_does_not_answer() {
    let rig = Rig::healthy().await;
    let snapshot = rig.observe(HOME).await;
    let mut plan = nothing(&snapshot);
    restart(&mut plan, CONTROL[1], vec![reboot(CONTROL[1])], &[]);
    let lab = rig.lab.clone();
    rig.lab.on_call(move |_, moment, _, path| {
        if moment == CallMoment::After && path.contains("volumeattachments") {
            let which = Partition { origin: None, far: Far::Proxmox, lost: Lost::Requests };
            lab.inject(Injection::Partition { which, cut: true });
        }
        Verdict::GoOn
    });
    let before = rig.boots()[&150_012].clone();
    let ran = rig.carry_out(&snapshot, &plan, "me").await.unwrap();
    assert_eq!(ran.outcome, Outcome::Failed);
    let notes: Vec<&String> = ran
        .events
        .iter()
        .filter_map(|event| match &event.what {
            What::StepProgress { note, .. } => Some(note),
            _ => None,
        })
        .collect();
    assert!(notes.iter().any(|note| note.starts_with("Proxmox does not say")), "{notes:?}");
    assert!(!notes.iter().any(|note| note.contains("no other control plane node is ready")), "{notes:?}");
    assert_eq!(rig.boots()[&150_012], before);
}
