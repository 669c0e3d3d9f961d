//! The pods that every Talos cluster runs in `kube-system`, with the objects that own them.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::controllers::{Kubelet, condition};
use super::store::{Place, Store, second};

const NAMESPACE: &str = "kube-system";
const STATIC: [&str; 3] = ["kube-apiserver", "kube-controller-manager", "kube-scheduler"];

/// Brings pods and their owners up to date.
pub(super) fn reconcile(store: &mut Store, kubelets: &[Kubelet], now: Timestamp) {
    let nodes: Vec<&Kubelet> = kubelets.iter().filter(|kubelet| exists(store, &kubelet.name)).collect();
    for kubelet in &nodes {
        if kubelet.control_plane {
            for component in STATIC {
                let image = format!("registry.k8s.io/{component}:{}", kubelet.version);
                let name = format!("{component}-{}", kubelet.name);
                let running = kubelet.api_server;
                write_pod(store, &name, component, &image, Some(kubelet), running, now);
            }
        }
    }
    daemon_set(store, "kube-flannel", "ghcr.io/siderolabs/flannel:v0.28.5", &nodes, |k| k.cni, now);
    let version = nodes.first().map(|k| k.version.clone()).unwrap_or_default();
    daemon_set(
        store,
        "kube-proxy",
        &format!("registry.k8s.io/kube-proxy:{version}"),
        &nodes,
        |k| k.proxy,
        now,
    );
    coredns(store, &nodes, now);
    service(store, "default", "kubernetes", 1, 443, now);
    service(store, NAMESPACE, "kube-dns", 10, 53, now);
}

fn exists(store: &Store, node: &str) -> bool {
    store.get(&Place { group: "", plural: "nodes", namespace: "", name: node }).is_some()
}

fn is_ready(pod: &Value) -> bool {
    let conditions = pod.pointer("/status/conditions").and_then(Value::as_array);
    conditions.into_iter().flatten().any(|c| c["type"] == "Ready" && c["status"] == "True")
}

/// The pods of a node whose kubelet fell silent are no longer ready.
pub(super) fn mark_lost(store: &mut Store, node: &str, now: Timestamp) {
    let pods = store.list("", "pods", None);
    let on_node =
        pods.into_iter().filter(|p| p.pointer("/spec/nodeName").and_then(Value::as_str) == Some(node));
    for mut pod in on_node.cloned().collect::<Vec<_>>() {
        let old = pod.pointer("/status/conditions").cloned();
        let kinds = [
            ("Initialized", "True"),
            ("Ready", "False"),
            ("ContainersReady", "True"),
            ("PodScheduled", "True"),
        ];
        let changed = kinds.map(|(kind, status)| condition(kind, status, "", "", old.as_ref(), now));
        pod["status"]["conditions"] = changed.to_vec().into();
        let name = pod["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let namespace = pod["metadata"]["namespace"].as_str().unwrap_or_default().to_owned();
        store.put(&Place { group: "", plural: "pods", namespace: &namespace, name: &name }, pod, now);
    }
}

/// Five letters that belong to a name, as generated names end in.
fn suffix(of: &str) -> String {
    const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    let mut number = crate::machine::stable_number(&[of]);
    let mut letter = || {
        let index = usize::try_from(number % 27).unwrap_or(0);
        number /= 27;
        char::from(LETTERS[index])
    };
    (0..5).map(|_| letter()).collect()
}

fn daemon_set(
    store: &mut Store,
    name: &str,
    image: &str,
    nodes: &[&Kubelet],
    wanted: impl Fn(&Kubelet) -> bool,
    now: Timestamp,
) {
    let nodes: Vec<_> = nodes.iter().filter(|kubelet| wanted(kubelet)).collect();
    if nodes.is_empty() {
        return;
    }
    for kubelet in &nodes {
        let pod = format!("{name}-{}", suffix(&format!("{name}/{}", kubelet.name)));
        write_pod(store, &pod, name, image, Some(kubelet), kubelet.ready, now);
    }
    let pods = store.list("", "pods", Some(NAMESPACE));
    let pods: Vec<_> =
        pods.iter().filter(|p| p.pointer("/metadata/labels/k8s-app") == Some(&name.into())).collect();
    let ready = pods.iter().filter(|pod| is_ready(pod)).count();
    let wanted = pods.len();
    let place = Place { group: "apps", plural: "daemonsets", namespace: NAMESPACE, name };
    let object = json!({
        "metadata": {"labels": {"k8s-app": name, "tier": "node"}},
        "spec": {"selector": {"matchLabels": {"k8s-app": name}}},
        "status": {
            "currentNumberScheduled": wanted, "desiredNumberScheduled": wanted, "numberAvailable": ready,
            "numberReady": ready, "numberMisscheduled": 0, "updatedNumberScheduled": wanted, "observedGeneration": 1,
        },
    });
    store.put(&place, object, now);
}

/// Two replicas, which go to the nodes that are ready first.
fn coredns(store: &mut Store, nodes: &[&Kubelet], now: Timestamp) {
    let ready: Vec<_> = nodes.iter().filter(|kubelet| kubelet.ready).collect();
    let mut running = 0;
    for replica in 0..2_usize {
        let name = format!("coredns-{}-{}", suffix("coredns"), suffix(&format!("coredns/{replica}")));
        let place = Place { group: "", plural: "pods", namespace: NAMESPACE, name: &name };
        let pod = store.get(&place);
        let placed = pod.and_then(|p| p.pointer("/spec/nodeName")).and_then(Value::as_str);
        let node = match placed {
            Some(placed) => nodes.iter().find(|k| k.name == placed),
            None => ready.get(replica % ready.len().max(1)).copied(),
        };
        if placed.is_some() && node.is_none() {
            // Its node is silent: the pod stays as it was last seen.
            running += i32::from(pod.is_some_and(is_ready));
            continue;
        }
        let up = node.is_some_and(|k| k.ready);
        running += i32::from(up);
        write_pod(
            store,
            &name,
            "kube-dns",
            "registry.k8s.io/coredns/coredns:v1.14.3",
            node.copied(),
            up,
            now,
        );
    }
    let place = Place { group: "apps", plural: "deployments", namespace: NAMESPACE, name: "coredns" };
    let object = json!({
        "metadata": {"labels": {"k8s-app": "kube-dns"}},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"k8s-app": "kube-dns"}}},
        "status": {
            "replicas": 2, "updatedReplicas": 2, "readyReplicas": running, "availableReplicas": running,
            "unavailableReplicas": 2 - running, "observedGeneration": 1,
        },
    });
    store.put(&place, object, now);
}

fn write_pod(
    store: &mut Store,
    name: &str,
    app: &str,
    image: &str,
    node: Option<&Kubelet>,
    running: bool,
    now: Timestamp,
) {
    let place = Place { group: "", plural: "pods", namespace: NAMESPACE, name };
    let old = store.get(&place).and_then(|p| p.pointer("/status/conditions")).cloned();
    let ready = if running { "True" } else { "False" };
    let scheduled = if node.is_some() { "True" } else { "False" };
    let conditions: Vec<Value> =
        [("Initialized", ready), ("Ready", ready), ("ContainersReady", ready), ("PodScheduled", scheduled)]
            .into_iter()
            .map(|(kind, status)| condition(kind, status, "", "", old.as_ref(), now))
            .collect();
    let started = store.get(&place).and_then(|p| p.pointer("/status/startTime")).cloned();
    let container = app.strip_prefix("kube-dns").map_or(app, |_| "coredns");
    let state = if running {
        json!({"running": {"startedAt": started.clone().unwrap_or_else(|| second(now).into())}})
    } else {
        json!({"waiting": {"reason": "ContainerCreating"}})
    };
    let address = node.and_then(|k| k.addresses.first()).map(ToString::to_string).unwrap_or_default();
    let mut labels = json!({"k8s-app": app});
    if STATIC.contains(&app) {
        labels = json!({"k8s-app": app, "tier": "control-plane"});
    }
    let object = json!({
        "metadata": {"labels": labels},
        "spec": {
            "containers": [{"name": container, "image": image}],
            "hostNetwork": container != "coredns",
            "nodeName": node.map(|k| k.name.as_str()),
            "priorityClassName": "system-cluster-critical",
        },
        "status": {
            "phase": if running { "Running" } else { "Pending" },
            "conditions": conditions,
            "hostIP": address, "podIP": address,
            "startTime": started.unwrap_or_else(|| second(now).into()),
            "containerStatuses": [{
                "name": container, "image": image, "ready": running, "started": running, "restartCount": 0, "state": state,
            }],
        },
    });
    store.put(&place, object, now);
}

fn service(store: &mut Store, namespace: &str, name: &str, host: usize, port: u16, now: Timestamp) {
    let place = Place { group: "", plural: "services", namespace, name };
    if store.get(&place).is_some() {
        return;
    }
    let address = format!("10.96.0.{host}");
    let spec = json!({
        "clusterIP": address, "clusterIPs": [address], "type": "ClusterIP",
        "ports": [{"port": port, "protocol": "TCP", "name": name}],
    });
    store.put(&place, json!({"spec": spec, "status": {"loadBalancer": {}}}), now);
}
