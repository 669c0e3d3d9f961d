//! Invariant 8: pods that are owed a warning, and nodes that people cordoned.

use std::collections::BTreeSet;

use serde_json::Value;

use super::target::Target;
use crate::calls::{Call, Service};
use crate::kube::{Place, Store, has_budget};
use crate::world::World;

/// What must be remembered from call to call.
#[derive(Debug, Default)]
pub(super) struct Memory {
    /// Nodes that those who are watched have cordoned.
    cordoned_by_us: BTreeSet<String>,
    /// Nodes that are cordoned before a call.
    cordoned: BTreeSet<String>,
}

impl Memory {
    pub(super) fn before(&mut self, call: &Call, target: &Target, world: &World) -> Option<(u8, String)> {
        let store = store_of(call, world);
        if let Some(store) = store {
            self.cordoned = cordoned(store);
        }
        match (call.service, target) {
            (Service::Kubernetes, _) => lost_pod(call, store?).map(|what| (8, what)),
            (_, Target::Delete(vmid)) => unmanaged_on(*vmid, world).map(|what| (8, what)),
            _ => None,
        }
    }

    pub(super) fn after(&mut self, call: &Call, world: &World) -> Option<String> {
        let now = cordoned(store_of(call, world)?);
        self.cordoned_by_us.extend(now.difference(&self.cordoned).cloned());
        let freed: Vec<&String> = self.cordoned.difference(&now).collect();
        let wrong = freed.iter().find(|name| !self.cordoned_by_us.contains(**name));
        let wrong = wrong.map(|name| format!("node {name} is uncordoned, which a person had cordoned"));
        for name in freed {
            self.cordoned_by_us.remove(name);
        }
        self.cordoned = now;
        wrong
    }
}

/// The objects behind the API server that answers a call.
fn store_of<'a>(call: &Call, world: &'a World) -> Option<&'a Store> {
    let vmid = call.machine.filter(|_| call.service == Service::Kubernetes)?;
    world.machines.etcd_of(vmid).map(|etcd| &etcd.store)
}

fn cordoned(store: &Store) -> BTreeSet<String> {
    let nodes = store.list("", "nodes", None);
    let nodes = nodes.into_iter().filter(|node| node["spec"]["unschedulable"] == true);
    nodes.filter_map(|node| node["metadata"]["name"].as_str().map(str::to_owned)).collect()
}

/// Whether nothing would make a pod again.
fn is_unmanaged(pod: &Value) -> bool {
    pod["metadata"]["ownerReferences"].as_array().is_none_or(Vec::is_empty)
        && !["Succeeded", "Failed"].iter().any(|over| pod["status"]["phase"] == *over)
}

/// A pod that is deleted without asking, or that nothing would make again.
fn lost_pod(call: &Call, store: &Store) -> Option<String> {
    let parts: Vec<&str> = call.path.trim_start_matches('/').split('/').collect();
    let (namespace, name, asks) = match parts.as_slice() {
        ["api", "v1", "namespaces", namespace, "pods", name] if call.method == "DELETE" => {
            (*namespace, *name, false)
        }
        ["api", "v1", "namespaces", namespace, "pods", name, "eviction"] => (*namespace, *name, true),
        _ => return None,
    };
    let pod = store.get(&Place::core("pods", namespace, name))?;
    if is_unmanaged(pod) {
        return Some(format!("pod {namespace}/{name} is lost: nothing would make it again"));
    }
    (!asks && has_budget(store, pod))
        .then(|| format!("pod {namespace}/{name} is deleted past its PodDisruptionBudget"))
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
