//! Taking a cluster away that is dead, or on a host that is.

use lab::Disturbance;
use model::event::{Outcome, What};
use model::plan::RefusalCode;

use crate::rig::{HOME, Ran, Rig};

async fn destroy(rig: &Rig) -> (Vec<String>, Ran) {
    let look = rig.look(HOME).await;
    let plan = look.plan_destroy();
    assert_eq!(plan.refusals, []);
    let notices = plan.notices.iter().map(|n| n.text.clone()).collect();
    (notices, rig.carry_out(&look, &plan, "me").await.unwrap())
}

#[tokio::test(start_paused = true)]
async fn a_dead_cluster_is_no_obstacle_and_what_is_out_of_reach_is_named() {
    let rig = Rig::healthy().await;
    for vmid in [150_011, 150_012, 150_013, 150_021, 150_022] {
        rig.lab.disturb(Disturbance::Unplugged { vmid, unplugged: true });
    }
    rig.lab.disturb(Disturbance::HostOffline("pve3".to_owned()));
    let (notices, ran) = destroy(&rig).await;
    let left: Vec<u64> = rig.vmids().await;
    assert!(!left.is_empty() && left.len() < 6, "what is on the hosts that answer is gone: {left:?}");
    let failed: Vec<&String> = ran
        .events
        .iter()
        .filter_map(|e| match &e.what {
            What::StepFailed { step, .. } => Some(&step.0),
            _ => None,
        })
        .collect();
    let said = format!("{notices:?} {failed:?}");
    for vmid in left.iter().filter(|vmid| **vmid != 150_010) {
        assert!(said.contains(&vmid.to_string()) || said.contains("pve3"), "{vmid} is named: {said}");
    }
    assert!(left.contains(&150_010), "the record guards what is left");

    rig.lab.disturb(Disturbance::HostOnline("pve3".to_owned()));
    rig.world.clock.sleep(std::time::Duration::from_secs(30)).await;
    let (_, ran) = destroy(&rig).await;
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    assert_eq!(rig.vmids().await, [] as [u64; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_protected_cluster_stays() {
    let rig = Rig::healthy().await;
    let protected = HOME.replace("cluster: home", "cluster: home\nprotect: true");
    let plan = rig.look(&protected).await.plan_destroy();
    assert_eq!(plan.steps, []);
    assert_eq!(plan.refusals[0].code, RefusalCode::Protected);
}
