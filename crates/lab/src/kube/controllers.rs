//! What kubelets and Kubernetes' own controllers keep up to date: node objects, leases, the system's workloads.
//!
//! [`reconcile`] compares what should be with what is stored and writes the difference. What a user put on a node (labels,
//! taints, cordon) stays.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::pods;
use super::store::{Place, Store, second};

/// One kubelet as the control plane sees it.
#[derive(Debug, Clone)]
pub(crate) struct Kubelet {
    pub(crate) name: String,
    /// How many registered before it.
    pub(crate) number: usize,
    /// Set when it registers: only then is the node object made.
    pub(crate) registers: bool,
    pub(crate) ready: bool,
    pub(crate) control_plane: bool,
    pub(crate) api_server: bool,
    pub(crate) addresses: Vec<IpAddr>,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) tainted: bool,
    /// Kubernetes' version, with its `v`.
    pub(crate) version: String,
    pub(crate) talos: String,
    pub(crate) uuid: String,
    pub(crate) boot_id: String,
    pub(crate) cores: u32,
    pub(crate) memory_mib: u64,
    pub(crate) cni: bool,
    pub(crate) proxy: bool,
    pub(crate) pod_subnet: IpNet,
}

/// What is known of a node's readiness.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Readiness {
    Ready,
    NotReady,
    Unknown,
}

/// Brings the stored objects up to date: `kubelets` are those that report, `lost` are nodes silent for too long.
pub(crate) fn reconcile(store: &mut Store, kubelets: &[Kubelet], lost: &[String], now: Timestamp) {
    for namespace in ["default", "kube-node-lease", "kube-public", "kube-system"] {
        let place = Place { group: "", plural: "namespaces", namespace: "", name: namespace };
        if store.get(&place).is_none() {
            let labels = json!({"kubernetes.io/metadata.name": namespace});
            let object = json!({"metadata": {"labels": labels}, "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}});
            store.put(&place, object, now);
        }
    }
    for kubelet in kubelets {
        write_node(store, kubelet, now);
    }
    for name in lost {
        mark_lost(store, name, now);
        pods::mark_lost(store, name, now);
    }
    pods::reconcile(store, kubelets, now);
}

fn write_node(store: &mut Store, kubelet: &Kubelet, now: Timestamp) {
    let place = Place { group: "", plural: "nodes", namespace: "", name: &kubelet.name };
    let mut node = match store.get(&place) {
        Some(node) => node.clone(),
        None if kubelet.registers => new_node(kubelet),
        // Somebody deleted it: a kubelet registers again only when it starts again.
        None => return,
    };
    let readiness = if kubelet.ready { Readiness::Ready } else { Readiness::NotReady };
    let conditions = conditions(readiness, node.pointer("/status/conditions"), now);
    node["status"] = json!({
        "addresses": addresses(kubelet),
        "allocatable": capacity(kubelet),
        "capacity": capacity(kubelet),
        "conditions": conditions,
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
        "nodeInfo": {
            "architecture": "amd64",
            "bootID": kubelet.boot_id,
            "containerRuntimeVersion": "containerd://2.2.4",
            "kernelVersion": "6.18.9-talos",
            "kubeProxyVersion": "",
            "kubeletVersion": kubelet.version,
            "machineID": kubelet.uuid.replace('-', ""),
            "operatingSystem": "linux",
            "osImage": format!("Talos ({})", kubelet.talos),
            "systemUUID": kubelet.uuid,
        },
    });
    set_readiness_taints(&mut node, readiness);
    store.put(&place, node, now);
    let lease = Place {
        group: "coordination.k8s.io",
        plural: "leases",
        namespace: "kube-node-lease",
        name: &kubelet.name,
    };
    if store.get(&lease).is_none() {
        let renewed = now.to_string();
        let spec = json!({"holderIdentity": kubelet.name, "leaseDurationSeconds": 40, "renewTime": renewed});
        store.put(&lease, json!({"spec": spec}), now);
    }
}

/// A node whose kubelet fell silent.
fn mark_lost(store: &mut Store, name: &str, now: Timestamp) {
    let place = Place { group: "", plural: "nodes", namespace: "", name };
    let Some(mut node) = store.get(&place).cloned() else { return };
    let conditions = conditions(Readiness::Unknown, node.pointer("/status/conditions"), now);
    node["status"]["conditions"] = conditions.into();
    set_readiness_taints(&mut node, Readiness::Unknown);
    store.put(&place, node, now);
}

fn new_node(kubelet: &Kubelet) -> Value {
    let mut labels: BTreeMap<String, String> = kubelet.labels.clone();
    for (key, value) in [
        ("beta.kubernetes.io/arch", "amd64"),
        ("beta.kubernetes.io/os", "linux"),
        ("kubernetes.io/arch", "amd64"),
        ("kubernetes.io/os", "linux"),
        ("kubernetes.io/hostname", kubelet.name.as_str()),
    ] {
        labels.insert(key.into(), value.into());
    }
    let mut taints = vec![];
    if kubelet.control_plane {
        labels.insert("node-role.kubernetes.io/control-plane".into(), String::new());
    }
    if kubelet.tainted {
        taints.push(json!({"effect": "NoSchedule", "key": "node-role.kubernetes.io/control-plane"}));
    }
    let cidr = pod_cidr(kubelet.pod_subnet, kubelet.number);
    json!({"metadata": {"labels": labels}, "spec": {"podCIDR": cidr, "podCIDRs": [cidr], "taints": taints}})
}

/// The part of the pod network that a node gets: /24 by /24, in the order of registration.
fn pod_cidr(subnet: IpNet, number: usize) -> String {
    let nth = subnet.subnets(24).ok().and_then(|mut nets| nets.nth(number));
    nth.unwrap_or(subnet).to_string()
}

fn set_readiness_taints(node: &mut Value, readiness: Readiness) {
    const OURS: [&str; 2] = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];
    let existing = node.pointer("/spec/taints").and_then(Value::as_array).cloned().unwrap_or_default();
    let mut taints: Vec<Value> =
        existing.into_iter().filter(|t| !t["key"].as_str().is_some_and(|key| OURS.contains(&key))).collect();
    let key = match readiness {
        Readiness::Ready => None,
        Readiness::NotReady => Some(OURS[0]),
        Readiness::Unknown => Some(OURS[1]),
    };
    taints.extend(key.map(|key| json!({"effect": "NoSchedule", "key": key})));
    if let Some(spec) = node.get_mut("spec").and_then(Value::as_object_mut) {
        if taints.is_empty() {
            spec.remove("taints");
        } else {
            spec.insert("taints".into(), taints.into());
        }
    }
}

/// The conditions of a node; a condition that did not change keeps its times.
fn conditions(readiness: Readiness, old: Option<&Value>, now: Timestamp) -> Vec<Value> {
    let unknown = ("Unknown", "NodeStatusUnknown", "Kubelet stopped posting node status.");
    let healthy = |kind: &str| match kind {
        "MemoryPressure" => {
            ("False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available")
        }
        "DiskPressure" => ("False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        "PIDPressure" => ("False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
        _ if readiness == Readiness::Ready => ("True", "KubeletReady", "kubelet is posting ready status"),
        _ => (
            "False",
            "KubeletNotReady",
            "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady message:Network plugin returns error: cni plugin not initialized",
        ),
    };
    ["MemoryPressure", "DiskPressure", "PIDPressure", "Ready"]
        .into_iter()
        .map(|kind| {
            let (status, reason, message) =
                if readiness == Readiness::Unknown { unknown } else { healthy(kind) };
            condition(kind, status, reason, message, old, now)
        })
        .collect()
}

pub(super) fn condition(
    kind: &str,
    status: &str,
    reason: &str,
    message: &str,
    old: Option<&Value>,
    now: Timestamp,
) -> Value {
    let before = old.and_then(Value::as_array).into_iter().flatten().find(|c| c["type"] == kind);
    let kept = before.filter(|c| c["status"] == status).and_then(|c| c["lastTransitionTime"].as_str());
    let since = kept.map_or_else(|| second(now), str::to_owned);
    json!({
        "type": kind, "status": status, "reason": reason, "message": message,
        "lastHeartbeatTime": since, "lastTransitionTime": since,
    })
}

fn addresses(kubelet: &Kubelet) -> Vec<Value> {
    let ips = kubelet.addresses.iter().map(|ip| json!({"type": "InternalIP", "address": ip.to_string()}));
    ips.chain([json!({"type": "Hostname", "address": kubelet.name})]).collect()
}

fn capacity(kubelet: &Kubelet) -> Value {
    json!({
        "cpu": kubelet.cores.to_string(),
        "ephemeral-storage": "10072064Ki",
        "hugepages-2Mi": "0",
        "memory": format!("{}Ki", kubelet.memory_mib.saturating_mul(1024)),
        "pods": "110",
    })
}
