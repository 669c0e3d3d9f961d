//! Invariant 8: pods that are owed a warning, and nodes that people cordoned.

use std::collections::BTreeMap;

use serde_json::Value;

use super::target::Target;
use super::{Allowance, IsOurCordon};
use crate::calls::{Call, Service};
use crate::kube::{Place, Store, has_budget};
use crate::world::World;

/// What must be remembered from call to call.
#[derive(Debug, Default)]
pub(super) struct Memory {
    /// Nodes that are cordoned, and whether those who are watched did that.
    cordoned: BTreeMap<String, bool>,
}

impl Memory {
    pub(super) fn before(
        &mut self,
        call: &Call,
        target: &Target,
        allowance: Allowance,
        is_our_cordon: &IsOurCordon,
        world: &World,
    ) -> Option<(u8, String)> {
        let store = store_of(call, world);
        if let Some(store) = store {
            // Of one that was cordoned before anybody looked, its mark says whose cordon it is.
            self.follow(store, is_our_cordon);
        }
        match (call.service, target) {
            (Service::Kubernetes, _) => lost_pod(call, allowance, store?).map(|what| (8, what)),
            (_, Target::Delete(vmid)) if !allowance.unmanaged_pods => {
                unmanaged_on(*vmid, world).map(|what| (8, what))
            }
            (_, Target::Restart(vmid)) if !allowance.api_outage => {
                cut_off(*vmid, world).map(|what| (8, what))
            }
            _ => None,
        }
    }

    pub(super) fn after(&mut self, call: &Call, world: &World) -> Option<String> {
        let freed = self.follow(store_of(call, world)?, |_| true);
        let wrong = freed.into_iter().find(|(_, ours)| !ours);
        wrong.map(|(name, _)| format!("node {name} is uncordoned, which a person had cordoned"))
    }

    /// Takes note of the nodes that are cordoned now; of new ones, `ours` says whose cordon it is. Gives those that are not any more.
    fn follow(&mut self, store: &Store, ours: impl Fn(&Value) -> bool) -> BTreeMap<String, bool> {
        let nodes = store.list("", "nodes", None);
        let nodes = nodes.into_iter().filter(|node| node["spec"]["unschedulable"] == true);
        let mut before = std::mem::take(&mut self.cordoned);
        for node in nodes {
            let Some(name) = node["metadata"]["name"].as_str() else { continue };
            let ours = before.remove(name).unwrap_or_else(|| ours(node));
            self.cordoned.insert(name.to_owned(), ours);
        }
        before
    }
}

/// The objects behind the API server that answers a call.
fn store_of<'a>(call: &Call, world: &'a World) -> Option<&'a Store> {
    let vmid = call.machine.filter(|_| call.service == Service::Kubernetes)?;
    world.machines.etcd_of(vmid).map(|etcd| &etcd.store)
}

/// Whether nothing would make a pod again.
fn is_unmanaged(pod: &Value) -> bool {
    pod["metadata"]["ownerReferences"].as_array().is_none_or(Vec::is_empty)
        && !["Succeeded", "Failed"].iter().any(|over| pod["status"]["phase"] == *over)
}

/// A pod that is deleted without asking, or that nothing would make again.
fn lost_pod(call: &Call, allowance: Allowance, store: &Store) -> Option<String> {
    let parts: Vec<&str> = call.path.trim_start_matches('/').split('/').collect();
    let (namespace, name, asks) = match parts.as_slice() {
        ["api", "v1", "namespaces", namespace, "pods", name] if call.method == "DELETE" => {
            (*namespace, *name, false)
        }
        ["api", "v1", "namespaces", namespace, "pods", name, "eviction"] => (*namespace, *name, true),
        _ => return None,
    };
    let pod = store.get(&Place::core("pods", namespace, name))?;
    if is_unmanaged(pod) && !allowance.unmanaged_pods {
        return Some(format!("pod {namespace}/{name} is lost: nothing would make it again"));
    }
    (!asks && has_budget(store, pod))
        .then(|| format!("pod {namespace}/{name} is deleted past its PodDisruptionBudget"))
}

/// A pod on a machine that is about to go down, which has a budget and was not evicted.
fn cut_off(vmid: u32, world: &World) -> Option<String> {
    let machine = world.machines.get(vmid).filter(|machine| machine.live_node().is_some())?;
    let store = &world.machines.etcd_of_cluster(vmid)?.store;
    let pods = store.list("", "pods", None);
    let cut = pods.into_iter().find(|pod| {
        pod["spec"]["nodeName"] == machine.hostname()
            && pod["status"]["phase"] == "Running"
            && pod["metadata"].get("deletionTimestamp").is_none()
            && has_budget(store, pod)
    })?;
    let name = &cut["metadata"]["name"];
    Some(format!("VM {vmid} goes down with pod {name} on it, past its PodDisruptionBudget"))
}

/// A running pod on a machine that is about to go, which nothing would make again.
fn unmanaged_on(vmid: u32, world: &World) -> Option<String> {
    let machine = world.machines.get(vmid).filter(|machine| machine.live_node().is_some())?;
    let store = &world.machines.etcd_of_cluster(vmid)?.store;
    let pods = store.list("", "pods", None);
    let lost = pods.into_iter().find(|pod| {
        // Static pods are mirrored and belong to their node.
        let mirrored = pod.pointer("/metadata/annotations/kubernetes.io~1config.mirror").is_some();
        pod["spec"]["nodeName"] == machine.hostname() && is_unmanaged(pod) && !mirrored
    })?;
    let name = &lost["metadata"]["name"];
    Some(format!("pod {name} is lost with VM {vmid}: nothing would make it again"))
}
