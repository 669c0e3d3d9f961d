//! Pods: given to nodes, started, finished, stopped; and the pods that kubelets run by themselves.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::charts::Release;
use super::nodes::{Kubelet, MirrorPod, Readiness, UNINITIALIZED, condition, set_taints};
use super::scheduler::{Nodes, Verdict};
use super::store::{Place, Store, second};
use super::{events, manifests};

/// Annotations of a pod that a kubelet runs by itself.
const MIRROR: &str = "kubernetes.io/config.mirror";
const CONFIG_VERSION: &str = "talos.dev/config-version";
/// How long images and containers take.
const START: SignedDuration = SignedDuration::from_secs(2);
/// How long something runs that is meant to end.
const RUN: SignedDuration = SignedDuration::from_secs(5);
/// How long the kubelet waits before it starts what failed again: doubled each time, up to a limit.
const BACK_OFF: i64 = 10;
const MOST_BACK_OFF: i64 = 300;
/// How long stopping takes, unless less is given.
const STOP: u64 = 2;

pub(super) fn is_ready(pod: &Value) -> bool {
    let conditions = pod.pointer("/status/conditions").and_then(Value::as_array);
    conditions.into_iter().flatten().any(|c| c["type"] == "Ready" && c["status"] == "True")
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn moment(object: &Value, pointer: &str) -> Option<Timestamp> {
    text(object, pointer).parse().ok()
}

fn since(pod: &Value, kind: &str) -> Option<Timestamp> {
    let conditions = pod.pointer("/status/conditions").and_then(Value::as_array);
    let found = conditions.into_iter().flatten().find(|c| c["type"] == kind && c["status"] == "True");
    moment(found?, "/lastTransitionTime")
}

/// Whether a node's network is set up: a pod runs there that writes the kubelet's network configuration.
pub(crate) fn has_network(store: &Store, node: &str) -> bool {
    store.list("", "pods", None).iter().any(|pod| {
        let volumes = pod.pointer("/spec/volumes").and_then(Value::as_array).into_iter().flatten();
        let mut paths = volumes.filter_map(|volume| volume.pointer("/hostPath/path")?.as_str());
        text(pod, "/spec/nodeName") == node
            && pod["status"]["phase"] == "Running"
            && paths.any(|path| path.starts_with("/etc/cni"))
    })
}

/// The pods that a kubelet runs by itself on a control plane, as the API server shows them.
pub(super) fn write_static(store: &mut Store, kubelets: &[Kubelet], now: Timestamp) {
    for kubelet in kubelets {
        let Some(node) = store.get(&Place::core("nodes", "", &kubelet.name)) else { continue };
        let owner = json!([{"apiVersion": "v1", "kind": "Node", "name": kubelet.name, "uid": node["metadata"]["uid"], "controller": true}]);
        for mirror in &kubelet.static_pods {
            write_mirror(store, kubelet, mirror, &owner, now);
        }
    }
}

fn write_mirror(store: &mut Store, kubelet: &Kubelet, mirror: &MirrorPod, owner: &Value, now: Timestamp) {
    let MirrorPod { component, image, config_version, ready, crash, no_image } = mirror;
    let name = format!("{component}-{}", kubelet.name);
    let version = config_version.to_string();
    let place = Place::core("pods", "kube-system", &name);
    let same = store.get(&place).is_some_and(|pod| {
        text(pod, "/spec/containers/0/image") == image
            && pod["metadata"]["annotations"][CONFIG_VERSION] == version.as_str()
            && pod["metadata"].get("deletionTimestamp").is_none()
            && pod["metadata"]["ownerReferences"] == *owner
            && waits_by_itself(pod) != *ready
    });
    if same {
        return;
    }
    let hash = crate::stable::stable_uuid(&[&name, image, &version]);
    let mut pod = json!({
        "metadata": {
            "annotations": {
                "kubernetes.io/config.hash": hash, MIRROR: hash,
                "kubernetes.io/config.source": "file", CONFIG_VERSION: version,
            },
            "labels": {"component": component, "k8s-app": component, "tier": "control-plane"},
            "ownerReferences": owner,
        },
        "spec": {
            "containers": [{"name": component, "image": image, "imagePullPolicy": "IfNotPresent", "resources": {"requests": {"cpu": "100m"}}}],
            "hostNetwork": true, "nodeName": kubelet.name, "priorityClassName": "system-cluster-critical",
            "restartPolicy": "Always", "terminationGracePeriodSeconds": 30,
            "tolerations": [{"effect": "NoExecute", "operator": "Exists"}],
        },
        "status": {"phase": "Pending"},
    });
    if *ready {
        let kept = store.put(&place, pod, now);
        return start(store, &place, kept, now);
    }
    let waits = match crash {
        Some(_) => {
            let message =
                format!("back-off 40s restarting failed container={component} pod={name}_kube-system");
            json!({"waiting": {"reason": "CrashLoopBackOff", "message": message}})
        }
        None if *no_image => {
            let message = format!("Back-off pulling image {image:?}: ErrImagePull: {image}: not found");
            json!({"waiting": {"reason": "ImagePullBackOff", "message": message}})
        }
        None => json!({"waiting": {"reason": "ContainerCreating"}}),
    };
    set_conditions(&mut pod, "False", "ContainersNotReady", now);
    pod["status"]["phase"] = "Running".into();
    pod["status"]["containerStatuses"] = containers(&pod, false, &waits).into();
    if let Some(crash) = crash {
        let ended = json!({"exitCode": 1, "reason": "Error", "finishedAt": second(now), "message": crash});
        pod["status"]["containerStatuses"][0]["lastState"] = json!({"terminated": ended});
    }
    store.put(&place, pod, now);
}

/// A static pod that is not ready, as its kubelet says.
fn waits_by_itself(pod: &Value) -> bool {
    pod["metadata"]["annotations"].get(MIRROR).is_some()
        && pod.pointer("/status/containerStatuses/0/state/waiting").is_some()
}

/// Moves every pod one step, if it is time for it.
pub(super) fn run(store: &mut Store, now: Timestamp) {
    let pods: Vec<(String, Value)> =
        store.entries("", "pods", None).map(|(key, pod)| (key.to_owned(), pod.clone())).collect();
    let mut nodes = Nodes::of(store);
    for (key, pod) in pods {
        let Some(place) = Place::of_key(&key) else { continue };
        match step(&pod, &nodes, store.outside.as_ref()) {
            Step::Place => give(store, &place, pod, &mut nodes, now),
            Step::Start(at) if at <= now => start(store, &place, pod, now),
            Step::Finish(at) if at <= now => finish(store, &place, pod, now),
            Step::Fail(at) if at <= now => fail(store, &place, pod, now),
            Step::Stop(at) if at <= now => {
                store.remove(&place);
            }
            Step::Readiness(ready) => set_ready(store, &place, pod, ready, now),
            _ => {}
        }
    }
    look_at_new_nodes(store, now);
}

/// When the next pod moves by itself.
pub(super) fn next_due(store: &Store, now: Timestamp) -> Option<Timestamp> {
    let nodes = Nodes::of(store);
    let outside = store.outside.as_ref();
    let moments = store.entries("", "pods", None).filter_map(|(_, pod)| match step(pod, &nodes, outside) {
        Step::Start(at) | Step::Finish(at) | Step::Fail(at) | Step::Stop(at) => Some(at),
        _ => None,
    });
    moments.filter(|at| *at > now).min()
}

/// What comes next for a pod.
enum Step {
    Place,
    Start(Timestamp),
    Finish(Timestamp),
    Fail(Timestamp),
    Stop(Timestamp),
    Readiness(bool),
    Nothing,
}

fn step(pod: &Value, nodes: &Nodes, outside: Option<&BTreeSet<String>>) -> Step {
    let node = text(pod, "/spec/nodeName");
    let phase = text(pod, "/status/phase");
    let known = nodes.readiness(node);
    if let Some(end) = moment(pod, "/metadata/deletionTimestamp") {
        // A node that is silent stops nothing.
        let heard = node.is_empty() || known.is_some_and(|r| r != Readiness::Unknown);
        let grace = pod["metadata"]["deletionGracePeriodSeconds"].as_u64().unwrap_or(0);
        let early = i64::try_from(grace.saturating_sub(STOP)).unwrap_or(0);
        let at = end.checked_sub(SignedDuration::from_secs(early)).unwrap_or(end);
        return if heard { Step::Stop(at) } else { Step::Nothing };
    }
    if node.is_empty() {
        return Step::Place;
    }
    let Some(readiness) = known else { return Step::Nothing };
    match phase {
        "Pending" | "" => {
            let own_network = pod.pointer("/spec/hostNetwork") == Some(&Value::Bool(true));
            let can = readiness == Readiness::Ready || (own_network && readiness == Readiness::NotReady);
            let from = since(pod, "PodScheduled").or_else(|| moment(pod, "/metadata/creationTimestamp"));
            match from.and_then(|from| from.checked_add(START).ok()) {
                Some(at) if can => Step::Start(at),
                _ => Step::Nothing,
            }
        }
        "Running" if text(pod, "/spec/restartPolicy") != "Always" && is_job(pod) => {
            if pod.pointer("/status/containerStatuses/0/state/waiting").is_some() {
                let failed = moment(pod, "/status/containerStatuses/0/lastState/terminated/finishedAt");
                let again = failed.and_then(|failed| failed.checked_add(back_off(pod)).ok());
                return again.map_or(Step::Nothing, Step::Start);
            }
            match since(pod, "Ready").and_then(|from| from.checked_add(RUN).ok()) {
                // What cannot fetch its chart starts again and again.
                Some(at)
                    if Release::of(pod)
                        .is_some_and(|r| outside.is_some_and(|open| !open.contains(&r.host))) =>
                {
                    Step::Fail(at)
                }
                Some(at) if readiness != Readiness::Unknown => Step::Finish(at),
                _ => Step::Nothing,
            }
        }
        "Running" if waits_by_itself(pod) => Step::Nothing,
        "Running" => {
            let ready = readiness != Readiness::Unknown;
            if is_ready(pod) == ready { Step::Nothing } else { Step::Readiness(ready) }
        }
        _ => Step::Nothing,
    }
}

/// How often a pod's container was started again.
fn restarts(pod: &Value) -> u64 {
    pod.pointer("/status/containerStatuses/0/restartCount").and_then(Value::as_u64).unwrap_or(0)
}

/// How long the kubelet waits before it starts a pod's container again.
fn back_off(pod: &Value) -> SignedDuration {
    let doubled = u32::try_from(restarts(pod)).ok().and_then(|n| 2_i64.checked_pow(n));
    let seconds = doubled.and_then(|times| BACK_OFF.checked_mul(times)).unwrap_or(MOST_BACK_OFF);
    SignedDuration::from_secs(seconds.min(MOST_BACK_OFF))
}

/// Only what a job made is meant to end.
fn is_job(pod: &Value) -> bool {
    super::garbage::owners(pod).any(|owner| owner["kind"] == "Job")
}

fn give(store: &mut Store, place: &Place<'_>, mut pod: Value, nodes: &mut Nodes, now: Timestamp) {
    let old = pod.pointer("/status/conditions").cloned();
    match nodes.choose(&pod) {
        Verdict::Node(name) => {
            let message = format!("Successfully assigned {}/{} to {name}", place.namespace, place.name);
            events::note(store, "Pod", &pod, "default-scheduler", "Scheduled", &message, now);
            pod["spec"]["nodeName"] = name.into();
            pod["status"]["conditions"] =
                json!([condition("PodScheduled", "True", "", "", old.as_ref(), now)]);
        }
        Verdict::None(why) => {
            if old.as_ref().and_then(|conditions| conditions.pointer("/0/message"))
                != Some(&why.as_str().into())
            {
                events::note(store, "Pod", &pod, "default-scheduler", "FailedScheduling", &why, now);
            }
            let waits = condition("PodScheduled", "False", "Unschedulable", &why, old.as_ref(), now);
            pod["status"]["conditions"] = json!([waits]);
        }
    }
    pod["status"]["phase"] = "Pending".into();
    store.put(place, pod, now);
}

fn set_conditions(pod: &mut Value, ready: &str, reason: &str, now: Timestamp) {
    let old = pod.pointer("/status/conditions").cloned();
    let all = [
        ("PodReadyToStartContainers", "True", ""),
        ("Initialized", "True", ""),
        ("Ready", ready, reason),
        ("ContainersReady", ready, reason),
        ("PodScheduled", "True", ""),
    ];
    let all = all.map(|(kind, status, reason)| condition(kind, status, reason, "", old.as_ref(), now));
    pod["status"]["conditions"] = all.to_vec().into();
}

fn containers(pod: &Value, ready: bool, state: &Value) -> Vec<Value> {
    let containers = pod.pointer("/spec/containers").and_then(Value::as_array).into_iter().flatten();
    let status = |c: &Value| {
        json!({
            "name": c["name"], "image": c["image"], "imageID": "", "ready": ready, "started": ready,
            "restartCount": 0, "state": state,
        })
    };
    containers.map(status).collect()
}

fn start(store: &mut Store, place: &Place<'_>, mut pod: Value, now: Timestamp) {
    let node = store.get(&Place::core("nodes", "", text(&pod, "/spec/nodeName")));
    let addresses = node.and_then(|n| n.pointer("/status/addresses")).and_then(Value::as_array);
    let host = addresses
        .into_iter()
        .flatten()
        .find(|a| a["type"] == "InternalIP")
        .map(|a| text(a, "/address").to_owned());
    let host = host.unwrap_or_default();
    let own = pod.pointer("/spec/hostNetwork") == Some(&Value::Bool(true));
    let cidr = node.map(|n| text(n, "/spec/podCIDR")).unwrap_or_default();
    let base = cidr.rsplit_once('.').map_or("10.244.0", |(base, _)| base);
    let number = crate::stable::stable_number(&[place.namespace, place.name]) % 250 + 2;
    let address = if own { host.clone() } else { format!("{base}.{number}") };
    let started = json!({"running": {"startedAt": second(now)}});
    set_conditions(&mut pod, "True", "", now);
    let before = pod.pointer("/status/containerStatuses/0/lastState").cloned();
    let times = restarts(&pod) + u64::from(before.is_some());
    pod["status"]["containerStatuses"] = containers(&pod, true, &started).into();
    if let Some(before) = before {
        pod["status"]["containerStatuses"][0]["lastState"] = before;
        pod["status"]["containerStatuses"][0]["restartCount"] = times.into();
    }
    for (key, value) in [
        ("phase", json!("Running")),
        ("hostIP", json!(host)),
        ("hostIPs", json!([{"ip": host}])),
        ("podIP", json!(address)),
        ("podIPs", json!([{"ip": address}])),
        ("startTime", json!(second(now))),
    ] {
        pod["status"][key] = value;
    }
    events::note(store, "Pod", &pod, "kubelet", "Started", "Started its containers", now);
    store.put(place, pod, now);
}

fn finish(store: &mut Store, place: &Place<'_>, mut pod: Value, now: Timestamp) {
    let ended = json!({"terminated": {"exitCode": 0, "reason": "Completed", "finishedAt": second(now)}});
    set_conditions(&mut pod, "False", "PodCompleted", now);
    pod["status"]["containerStatuses"] = containers(&pod, false, &ended).into();
    pod["status"]["phase"] = "Succeeded".into();
    let objects = Release::of(&pod).map(|release| release.objects()).unwrap_or_default();
    store.put(place, pod, now);
    for object in objects {
        manifests::put(store, &object, true, now);
    }
}

/// A program that could not fetch what it was told to install. What it said is kept where the pod asks for that.
fn fail(store: &mut Store, place: &Place<'_>, mut pod: Value, now: Timestamp) {
    let Some(release) = Release::of(&pod) else { return };
    let times = restarts(&pod);
    let mut ended = json!({"exitCode": 1, "reason": "Error", "finishedAt": second(now)});
    let keeps = text(&pod, "/spec/containers/0/terminationMessagePolicy") == "FallbackToLogsOnError";
    if keeps {
        ended["message"] = release.unreachable().into();
    }
    let container = text(&pod, "/spec/containers/0/name").to_owned();
    let message = format!(
        "back-off {}s restarting failed container={container} pod={}_{}({})",
        back_off(&pod).as_secs(),
        place.name,
        place.namespace,
        text(&pod, "/metadata/uid")
    );
    let waits = json!({"waiting": {"reason": "CrashLoopBackOff", "message": message}});
    set_conditions(&mut pod, "False", "ContainersNotReady", now);
    pod["status"]["containerStatuses"] = containers(&pod, false, &waits).into();
    pod["status"]["containerStatuses"][0]["lastState"] = json!({"terminated": ended});
    pod["status"]["containerStatuses"][0]["restartCount"] = times.into();
    events::note(store, "Pod", &pod, "kubelet", "BackOff", &message, now);
    store.put(place, pod, now);
}

fn set_ready(store: &mut Store, place: &Place<'_>, mut pod: Value, ready: bool, now: Timestamp) {
    let (status, reason) = if ready { ("True", "") } else { ("False", "NodeNotReady") };
    set_conditions(&mut pod, status, reason, now);
    store.put(place, pod, now);
}

/// An external cloud provider that runs takes its taint from nodes.
fn look_at_new_nodes(store: &mut Store, now: Timestamp) {
    let waits = |node: &Value| {
        let taints = node.pointer("/spec/taints").and_then(Value::as_array).into_iter().flatten();
        taints.into_iter().any(|taint| taint["key"] == UNINITIALIZED)
    };
    let nodes: Vec<Value> = store.list("", "nodes", None).into_iter().filter(|n| waits(n)).cloned().collect();
    let provider = |pod: &&Value| {
        let names = [text(pod, "/metadata/name"), text(pod, "/spec/serviceAccountName")];
        is_ready(pod) && names.iter().any(|name| name.contains("cloud-controller-manager"))
    };
    if nodes.is_empty() || store.list("", "pods", None).iter().find(|pod| provider(pod)).is_none() {
        return;
    }
    for mut node in nodes {
        set_taints(&mut node, &[UNINITIALIZED], vec![]);
        let name = text(&node, "/metadata/name").to_owned();
        store.put(&Place::core("nodes", "", &name), node, now);
    }
}
