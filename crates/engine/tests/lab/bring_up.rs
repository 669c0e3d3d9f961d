//! The usual way: from nothing to healthy, one more, and away again.

use model::event::Outcome;

use crate::rig::{HOME, Rig};

#[tokio::test(start_paused = true)]
async fn an_empty_proxmox_becomes_a_healthy_cluster_and_a_second_run_is_empty() {
    let rig = Rig::new();
    let ran = rig.apply(HOME).await;
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    rig.assert_whole().await;
    let snapshot = rig.observe(HOME).await;
    assert_eq!(snapshot.observed.unobserved, []);
    assert_eq!(snapshot.observed.kubernetes.nodes.len(), 5);
    let record = snapshot.observed.proxmox.record.as_ref().unwrap();
    assert!(record.state.bootstrap.as_ref().unwrap().done);
    assert_eq!(record.state.lease, None, "the lease is given back");
    for condition in engine::health::conditions(&rig.systems, &snapshot).await {
        assert_eq!(condition.missing, None, "{}", condition.name);
    }
}

#[tokio::test(start_paused = true)]
async fn one_worker_more_is_the_only_thing_that_happens() {
    let rig = Rig::healthy().await;
    let grown = HOME.replace("count: 2", "count: 3");
    let snapshot = rig.observe(&grown).await;
    let plan = snapshot.plan();
    let ids: Vec<&str> = plan.steps.iter().map(|s| s.id.0.as_str()).collect();
    assert_eq!(
        ids,
        [
            "create-vm/home-work-3",
            "start-vm/home-work-3",
            "configure/home-work-3",
            "join/home-work-3",
            "check-health"
        ]
    );
    let ran = rig.carry_out(&snapshot, &plan, "me").await.unwrap();
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    assert!(rig.observe(&grown).await.plan().is_empty());
    assert_eq!(rig.etcd_clusters(), 1);
}

#[tokio::test(start_paused = true)]
async fn destroy_leaves_nothing_of_ours_and_everything_else() {
    let rig = Rig::new();
    let mine =
        pve::Params::from([("name".to_owned(), "nas".to_owned()), ("memory".to_owned(), "512".to_owned())]);
    let upid = rig.systems.pve.create_vm("pve2", 4711, &mine).await.unwrap();
    rig.systems.pve.follow(&upid, |_| {}).await.unwrap();
    rig.apply(HOME).await;
    let snapshot = rig.observe(HOME).await;
    let ran = rig.carry_out(&snapshot, &snapshot.plan_destroy(), "me").await.unwrap();
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    assert_eq!(rig.vmids().await, [4711]);
    assert!(rig.observe(HOME).await.plan_destroy().is_empty());
}

#[tokio::test(start_paused = true)]
async fn equal_worlds_have_equal_events() {
    let events = || async {
        let rig = Rig::new();
        let ran = rig.apply(HOME).await;
        ran.events.iter().map(|e| serde_json::to_string(e).unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(events().await, events().await);
}
