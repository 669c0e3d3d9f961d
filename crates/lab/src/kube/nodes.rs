//! Nodes as their kubelets report them, and as they are seen when a kubelet falls silent.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::store::{Place, Store, second};
use super::{events, owned};

/// The taint of a node that a cloud provider has not looked at yet.
pub(super) const UNINITIALIZED: &str = "node.cloudprovider.kubernetes.io/uninitialized";

/// One kubelet as the control plane sees it.
#[derive(Debug, Clone, PartialEq)]
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
    /// What Talos writes into the node object.
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) annotations: BTreeMap<String, String>,
    /// `value:Effect` or `Effect`, by key.
    pub(crate) taints: BTreeMap<String, String>,
    /// Taints that the kubelet itself sets when it registers.
    pub(crate) registers_with: Vec<Value>,
    /// An external cloud provider is to look at the node before it is used.
    pub(crate) uninitialized: bool,
    /// Kubernetes' version, with its `v`.
    pub(crate) version: String,
    pub(crate) talos: String,
    pub(crate) kernel: &'static str,
    pub(crate) containerd: &'static str,
    pub(crate) uuid: String,
    pub(crate) boot_id: String,
    pub(crate) cores: u32,
    pub(crate) memory_mib: u64,
    pub(crate) pod_subnet: IpNet,
    /// Pods that it runs by itself.
    pub(crate) static_pods: Vec<MirrorPod>,
}

/// A pod that a kubelet runs by itself, as it shows it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct MirrorPod {
    pub(crate) component: String,
    pub(crate) image: String,
    /// From which version of its configuration it was made.
    pub(crate) config_version: u64,
    pub(crate) ready: bool,
    /// What it says when it ends, where it does.
    pub(crate) crash: Option<String>,
    /// No registry has its image.
    pub(crate) no_image: bool,
}

/// What is known of a node's readiness.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Readiness {
    Ready,
    NotReady,
    Unknown,
}

impl Readiness {
    pub(super) fn of(node: &Value) -> Self {
        let conditions = node.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten();
        let ready = conditions.into_iter().find(|c| c["type"] == "Ready");
        match ready.and_then(|c| c["status"].as_str()) {
            Some("True") => Self::Ready,
            Some("Unknown") | None => Self::Unknown,
            _ => Self::NotReady,
        }
    }
}

fn version_of(object: &Value) -> u64 {
    let version = object.pointer("/metadata/resourceVersion").and_then(Value::as_str);
    version.and_then(|version| version.parse().ok()).unwrap_or(0)
}

/// Writes what a kubelet reports.
pub(super) fn write_node(store: &mut Store, kubelet: &Kubelet, now: Timestamp) {
    let place = Place::core("nodes", "", &kubelet.name);
    let kept = store.get(&place);
    let unchanged = store.known.get(&kubelet.name).zip(kept);
    if unchanged.is_some_and(|((last, version), kept)| last == kubelet && *version == version_of(kept)) {
        return;
    }
    let mut node = match kept {
        Some(node) => node.clone(),
        None if kubelet.registers => new_node(kubelet),
        // Someone deleted it: a kubelet registers again only when it starts again.
        None => return,
    };
    let readiness = if kubelet.ready { Readiness::Ready } else { Readiness::NotReady };
    let before = kept.map(Readiness::of);
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
            "containerRuntimeVersion": format!("containerd://{}", kubelet.containerd),
            "kernelVersion": kubelet.kernel,
            "kubeProxyVersion": "",
            "kubeletVersion": kubelet.version,
            "machineID": kubelet.uuid.replace('-', ""),
            "operatingSystem": "linux",
            "osImage": format!("Talos ({})", kubelet.talos),
            "systemUUID": kubelet.uuid,
        },
    });
    set_readiness_taints(&mut node, readiness);
    owned::apply(&mut node, kubelet);
    let written = store.put(&place, node, now);
    if before.is_none() {
        let message = format!("Node {0} event: Registered Node {0} in Controller", kubelet.name);
        events::note(store, "Node", &written, "node-controller", "RegisteredNode", &message, now);
    } else if before != Some(readiness) {
        let word = if kubelet.ready { "NodeReady" } else { "NodeNotReady" };
        let message = format!("Node {} status is now: {word}", kubelet.name);
        events::note(store, "Node", &written, "kubelet", word, &message, now);
    }
    store.known.insert(kubelet.name.clone(), (kubelet.clone(), version_of(&written)));
    let lease = Place {
        group: "coordination.k8s.io",
        plural: "leases",
        namespace: "kube-node-lease",
        name: &kubelet.name,
    };
    if store.get(&lease).is_none() {
        let metadata = &written["metadata"];
        let owner =
            json!([{"apiVersion": "v1", "kind": "Node", "name": kubelet.name, "uid": metadata["uid"]}]);
        let spec =
            json!({"holderIdentity": kubelet.name, "leaseDurationSeconds": 40, "renewTime": micro(now)});
        store.put(&lease, json!({"metadata": {"ownerReferences": owner}, "spec": spec}), now);
    }
}

/// A time with six digits after the second, as leases have it.
fn micro(moment: Timestamp) -> String {
    format!("{moment:.6}")
}

/// A node whose kubelet fell silent.
pub(super) fn write_lost(store: &mut Store, name: &str, now: Timestamp) {
    let place = Place::core("nodes", "", name);
    let Some(mut node) = store.get(&place).filter(|n| Readiness::of(n) != Readiness::Unknown).cloned() else {
        return;
    };
    let conditions = conditions(Readiness::Unknown, node.pointer("/status/conditions"), now);
    node["status"]["conditions"] = conditions.into();
    set_readiness_taints(&mut node, Readiness::Unknown);
    store.put(&place, node, now);
}

fn new_node(kubelet: &Kubelet) -> Value {
    let labels = json!({
        "beta.kubernetes.io/arch": "amd64",
        "beta.kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "kubernetes.io/hostname": kubelet.name,
    });
    let mut taints = kubelet.registers_with.clone();
    if kubelet.uninitialized {
        taints.push(json!({"effect": "NoSchedule", "key": UNINITIALIZED, "value": "true"}));
    }
    let cidr = pod_cidr(kubelet.pod_subnet, kubelet.number);
    json!({"metadata": {"labels": labels}, "spec": {"podCIDR": cidr, "podCIDRs": [cidr], "taints": taints}})
}

/// The part of the pod network that a node gets: /24 by /24, in the order of registration.
fn pod_cidr(subnet: IpNet, number: usize) -> String {
    let nth = subnet.subnets(24).ok().and_then(|mut nets| nets.nth(number));
    nth.unwrap_or(subnet).to_string()
}

/// Sets the taints of a node's readiness and of its cordon, and leaves all others alone.
fn set_readiness_taints(node: &mut Value, readiness: Readiness) {
    const NOT_READY: &str = "node.kubernetes.io/not-ready";
    const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
    let key = match readiness {
        Readiness::Ready => None,
        Readiness::NotReady => Some(NOT_READY),
        Readiness::Unknown => Some(UNREACHABLE),
    };
    let effects = ["NoSchedule", "NoExecute"];
    let wanted = key.into_iter().flat_map(|key| effects.map(|effect| json!({"effect": effect, "key": key})));
    set_taints(node, &[NOT_READY, UNREACHABLE], wanted.collect());
}

/// Puts `wanted` in the place of the taints with these keys.
pub(super) fn set_taints(node: &mut Value, keys: &[&str], wanted: Vec<Value>) {
    let existing = node.pointer("/spec/taints").and_then(Value::as_array).cloned().unwrap_or_default();
    let others = existing.into_iter().filter(|t| !t["key"].as_str().is_some_and(|key| keys.contains(&key)));
    let taints: Vec<Value> = others.chain(wanted).collect();
    if !node["spec"].is_object() {
        node["spec"] = json!({});
    }
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
            let mut condition = condition(kind, status, reason, message, old, now);
            condition["lastHeartbeatTime"] = condition["lastTransitionTime"].clone();
            condition
        })
        .collect()
}

/// A condition that keeps its time while its status stays.
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
    let mut condition = json!({"type": kind, "status": status, "lastTransitionTime": since});
    if !reason.is_empty() {
        condition["reason"] = reason.into();
        condition["message"] = message.into();
    }
    condition
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
