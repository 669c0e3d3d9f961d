//! Drains that meet budgets, errors, slow volumes and cordons of people.

use std::collections::BTreeMap;
use std::time::Duration;

use engine::kubernetes_api::{Api, DeleteParams};
use k8s_openapi::api::storage::v1::VolumeAttachment;
use lab::{CallFilter, CallMoment, Injection, Verdict};
use model::event::{Outcome, What};
use serde_json::json;

use super::{WORKERS, failure, nothing, reboot, restart};
use crate::rig::{HOME, Rig};

/// The smallest file, with a drain that is given up soon.
fn impatient() -> String {
    format!("{HOME}changes: {{ drain_timeout: 30s }}\n")
}

#[tokio::test(start_paused = true)]
async fn a_budget_that_never_allows_it_uncordons_and_stops() {
    let rig = Rig::healthy().await;
    rig.deploy_canary().await;
    let never = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": "canary", "namespace": "default"},
        "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "canary"}}},
    });
    rig.kubernetes().apply(&never).await.unwrap();
    let (snapshot, before) = (rig.observe(&impatient()).await, rig.boots());
    let mut plan = nothing(&snapshot);
    for node in WORKERS {
        restart(&mut plan, node, vec![reboot(node)], &[]);
    }
    let ran = rig.carry_out_with_canary(&snapshot, &plan).await;
    assert_eq!(ran.outcome, Outcome::Failed);
    let (step, code, why) = failure(&ran);
    assert_eq!((step.as_str(), code.as_str()), ("drain-node/home-work-1", "drain-blocked"), "{why}");
    assert!(
        why.contains("default/canary-") && why.contains(" of ReplicaSet canary-"),
        "pod and owner: {why}"
    );
    assert!(why.contains("The disruption budget canary needs 2 healthy pods"), "budget: {why}");
    let refused = ran.failures();
    assert!(
        refused.iter().any(|told| told.contains("restart/home-work-1 failed in this run")),
        "{refused:?}"
    );
    assert_eq!(rig.cordoned().await, BTreeMap::new(), "our cordon is taken back");
    assert_eq!(rig.boots(), before);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_fails_is_asked_again() {
    let rig = Rig::healthy().await;
    rig.deploy_canary().await;
    let snapshot = rig.observe(HOME).await;
    let mut plan = nothing(&snapshot);
    restart(&mut plan, WORKERS[0], vec![reboot(WORKERS[0])], &[]);
    let which = |path: &str| CallFilter { path_contains: path.into(), ..CallFilter::default() };
    rig.lab.inject(Injection::KubernetesFails { which: which("/eviction"), status: 500, times: 3 });
    rig.lab.inject(Injection::KubernetesFails { which: which("/nodes/home-work-1"), status: 503, times: 3 });
    rig.lab.inject(Injection::KubernetesFails { which: which("volumeattachments"), status: 503, times: 2 });
    let ran = rig.carry_out_with_canary(&snapshot, &plan).await;
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    assert_eq!(rig.cordoned().await, BTreeMap::new());
    let met = rig.lab.shared().read(|systems, _| systems.faults.calls_met().len());
    assert_eq!(met, 8, "all of them were met");
}

#[tokio::test(start_paused = true)]
async fn a_person_who_cordoned_a_node_finds_it_cordoned() {
    let rig = Rig::healthy().await;
    rig.kubernetes().cordon(WORKERS[0], Some("cordon by test")).await.unwrap();
    let snapshot = rig.observe(HOME).await;
    let (mut plan, before) = (nothing(&snapshot), rig.boots());
    restart(&mut plan, WORKERS[0], vec![reboot(WORKERS[0])], &[]);
    let ran = rig.carry_out(&snapshot, &plan, "me").await.unwrap();
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    assert_ne!(rig.boots()[&150_021], before[&150_021]);
    assert_eq!(rig.cordoned().await, BTreeMap::from([(WORKERS[0].to_owned(), None)]));
}

/// A volume that is attached to a node, as a storage driver would have it.
async fn attach(rig: &Rig, volume: &str, node: &str) {
    let attachment = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment", "metadata": {"name": format!("csi-{volume}")},
        "spec": {"attacher": "csi.example", "nodeName": node, "source": {"persistentVolumeName": volume}},
    });
    rig.kubernetes().apply(&attachment).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_node_goes_down_after_its_volumes_are_detached() {
    let rig = Rig::healthy().await;
    attach(&rig, "pv-1", WORKERS[0]).await;
    attach(&rig, "pv-2", WORKERS[1]).await;
    let snapshot = rig.observe(HOME).await;
    let mut plan = nothing(&snapshot);
    restart(&mut plan, WORKERS[0], vec![reboot(WORKERS[0])], &[]);
    let began = rig.systems.clock.now();
    let detached = async {
        rig.systems.clock.sleep(Duration::from_secs(45)).await;
        let kubernetes = rig.kubernetes();
        let attachments: Api<VolumeAttachment> = Api::all(kubernetes.client());
        attachments.delete("csi-pv-1", &DeleteParams::default()).await.unwrap();
    };
    let (ran, ()) = tokio::join!(Box::pin(rig.carry_out(&snapshot, &plan, "me")), detached);
    let ran = ran.unwrap();
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    let drained = ran.events.iter().find(|event| {
        matches!(&event.what, What::StepDone { step, warnings, .. } if step.kind() == "drain-node" && warnings.is_empty())
    });
    let took = drained.unwrap().at.duration_since(began).as_secs();
    assert!((45..60).contains(&took), "it waited for the volume of its own node: {took} s");
}

#[tokio::test(start_paused = true)]
async fn a_volume_that_is_never_detached_is_a_warning() {
    let rig = Rig::healthy().await;
    attach(&rig, "pv-1", WORKERS[0]).await;
    let snapshot = rig.observe(HOME).await;
    let mut plan = nothing(&snapshot);
    restart(&mut plan, WORKERS[0], vec![reboot(WORKERS[0])], &[]);
    let ran = rig.carry_out(&snapshot, &plan, "me").await.unwrap();
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    let warned = ran.events.iter().any(
        |event| matches!(&event.what, What::StepDone { warnings, .. } if warnings.iter().any(|w| w.contains("pv-1"))),
    );
    assert!(warned);
}

/// Pods with data on the node, or that nothing would make again, are evicted where the file allows it.
#[tokio::test(start_paused = true)]
async fn what_a_drain_may_delete_is_in_the_file() {
    let rig = Rig::healthy().await;
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "bare", "namespace": "default"},
        "spec": {
            "nodeName": WORKERS[0], "containers": [{"name": "c", "image": "example/c:1"}],
            "volumes": [{"name": "data", "emptyDir": {}}],
        },
    });
    rig.kubernetes().apply(&pod).await.unwrap();
    for (deletes, ends) in [
        ("[empty-dir]", Outcome::Failed),
        ("[unmanaged-pods]", Outcome::Failed),
        ("[empty-dir, unmanaged-pods]", Outcome::Done),
    ] {
        let snapshot = rig.observe(&format!("{HOME}changes: {{ drain_deletes: {deletes} }}\n")).await;
        let mut plan = nothing(&snapshot);
        restart(&mut plan, WORKERS[0], vec![reboot(WORKERS[0])], &[]);
        let ran = rig.carry_out(&snapshot, &plan, "me").await.unwrap();
        assert_eq!(ran.outcome, ends, "{deletes}: {:?}", ran.failures());
        assert_eq!(rig.cordoned().await, BTreeMap::new());
    }
}

/// A pod that nothing would make again is on the node: nothing is touched.
#[tokio::test(start_paused = true)]
async fn a_pod_that_would_be_lost_is_refused_before_anything_is_touched() {
    let rig = Rig::healthy().await;
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "bare", "namespace": "default"},
        "spec": {"nodeName": WORKERS[0], "containers": [{"name": "c", "image": "example/c:1"}]},
    });
    rig.kubernetes().apply(&pod).await.unwrap();
    let (snapshot, before) = (rig.observe(HOME).await, rig.boots());
    let mut plan = nothing(&snapshot);
    restart(&mut plan, WORKERS[0], vec![reboot(WORKERS[0])], &[]);
    rig.lab.on_call(|_, moment, method, path| {
        assert!(
            moment == CallMoment::After || method != "PATCH" || !path.contains("/nodes/"),
            "{method} {path}"
        );
        Verdict::GoOn
    });
    let ran = rig.carry_out(&snapshot, &plan, "me").await.unwrap();
    assert_eq!(ran.outcome, Outcome::Failed);
    let (step, code, why) = failure(&ran);
    assert_eq!((step.as_str(), code.as_str()), ("drain-node/home-work-1", "unsafe"));
    assert!(why.contains("default/bare"), "{why}");
    assert_eq!(rig.boots(), before);
}

/// Pods would come back as fast as they are evicted.
#[tokio::test(start_paused = true)]
async fn a_drain_ends_when_a_person_uncordons_the_node() {
    let rig = Rig::healthy().await;
    rig.deploy_canary().await;
    let never = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": "canary", "namespace": "default"},
        "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "canary"}}},
    });
    rig.kubernetes().apply(&never).await.unwrap();
    let (snapshot, before) = (rig.observe(HOME).await, rig.boots());
    let mut plan = nothing(&snapshot);
    restart(&mut plan, WORKERS[0], vec![reboot(WORKERS[0])], &[]);
    let person = async {
        rig.systems.clock.sleep(Duration::from_secs(20)).await;
        rig.kubernetes().cordon(WORKERS[0], None).await.unwrap();
    };
    let (ran, ()) = futures::join!(rig.carry_out(&snapshot, &plan, "me"), person);
    let (step, code, why) = failure(&ran.unwrap());
    assert_eq!((step.as_str(), code.as_str()), ("drain-node/home-work-1", "drain-blocked"), "{why}");
    assert!(why.contains("uncordoned"), "{why}");
    assert_eq!((rig.boots(), rig.cordoned().await), (before, BTreeMap::new()));
}
