//! The users of a cluster during an operation: a Service with two pods behind a budget, and what holds up a drain of its pods.

use std::time::Duration;

use engine::kubernetes_api::{Api, ListParams, Patch, PatchParams};
use k8s_openapi::api::core::v1::Pod;
use lab::Injection;
use serde_json::json;

use super::{Act, Operation};
use crate::rig::Rig;

/// What only a drain meets.
pub const KINDS: [&str; 3] = ["budget that never allows", "evictions that fail", "pod that never ends"];
/// What keeps a pod of the canary from being gone.
const HOLDS: &str = "example.org/holds";

/// Whether users are asked for their opinion: the cluster exists, and its nodes are disrupted one after another.
pub fn has_canary(operation: Operation) -> bool {
    use Operation::{DrainHost, Move, ReplaceByHand, Restart, ScaleDown};
    matches!(operation, Restart | ReplaceByHand | DrainHost | Move | ScaleDown)
}

/// Whether an operation evicts pods of workers.
pub fn is_drained(operation: Operation) -> bool {
    matches!(operation, Operation::Restart | Operation::ReplaceByHand)
}

/// Whether what a person does takes no node away.
pub fn spared_by(act: Act) -> bool {
    matches!(act, Act::Tags(_) | Act::Notes(_) | Act::Clone(_) | Act::NeverAllows | Act::NeverEnds)
}

/// The same of something that breaks.
pub fn unharmed_by(injection: &Injection) -> bool {
    use Injection::{HostSlow, KubernetesFails, Partition, Wire};
    matches!(injection, Partition { .. } | Wire { .. } | HostSlow { .. } | KubernetesFails { .. })
}

/// How many pods of the canary must be left. Says whether Kubernetes took it, which it does while an API server answers.
pub async fn set_budget(rig: &Rig, pods: u32) -> bool {
    let budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": "canary", "namespace": "default"},
        "spec": {"minAvailable": pods, "selector": {"matchLabels": {"app": "canary"}}},
    });
    for _ in 0..30 {
        if rig.kubernetes().apply(&budget).await.is_ok() {
            return true;
        }
        rig.systems.clock.sleep(Duration::from_secs(10)).await;
    }
    false
}

/// One pod of the canary stays after its eviction, until it is released. Says whether there was one.
pub async fn hold_a_pod(rig: &Rig) -> bool {
    let pods: Api<Pod> = Api::namespaced(rig.kubernetes().client(), "default");
    let Ok(list) = pods.list(&ListParams::default().labels("app=canary")).await else { return false };
    let Some(name) = list.items.into_iter().find_map(|pod| pod.metadata.name) else { return false };
    let holds = Patch::Merge(json!({"metadata": {"finalizers": [HOLDS]}}));
    pods.patch(&name, &PatchParams::default(), &holds).await.is_ok()
}

/// Releases the pods that were held.
pub async fn release_pods(rig: &Rig) {
    let pods: Api<Pod> = Api::namespaced(rig.kubernetes().client(), "default");
    for _ in 0..30 {
        if let Ok(list) = pods.list(&ListParams::default()).await {
            let held = list.items.into_iter().filter(|pod| {
                pod.metadata.finalizers.as_ref().is_some_and(|list| list.iter().any(|name| name == HOLDS))
            });
            let released = Patch::Merge(json!({"metadata": {"finalizers": null}}));
            let mut all = true;
            for name in held.filter_map(|pod| pod.metadata.name) {
                all &= pods.patch(&name, &PatchParams::default(), &released).await.is_ok();
            }
            if all {
                return;
            }
        }
        rig.systems.clock.sleep(Duration::from_secs(10)).await;
    }
    panic!("Kubernetes does not release the pods");
}
