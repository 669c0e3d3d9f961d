//! Controllers over time, without a network: kubelets report, objects are written, the clock moves.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::kube::controllers::{Report, reconcile, run};
use crate::kube::nodes::{Kubelet, MirrorPod};
use crate::kube::pods::has_network;
use crate::kube::store::{Place, Store};

const PLAIN: &str =
    "machine: {type: controlplane, kubelet: {image: 'ghcr.io/siderolabs/kubelet:v1.35.4'}}\ncluster: {}\n";
const BARE: &str = "machine: {type: controlplane}\ncluster: {network: {cni: {name: none}}, proxy: {disabled: true}, coreDNS: {disabled: true}}\n";

struct Cluster {
    store: Store,
    kubelets: Vec<Kubelet>,
    lost: Vec<String>,
    config: String,
    documents: BTreeMap<String, String>,
    now: Timestamp,
}

impl Cluster {
    /// One control plane and `workers` workers, all of them ready or all without a network.
    fn new(config: &str, workers: usize, ready: bool) -> Self {
        let names = std::iter::once("c1".to_owned()).chain((1..=workers).map(|n| format!("w{n}")));
        let mirrors = ["kube-apiserver", "kube-controller-manager", "kube-scheduler"].map(|name| MirrorPod {
            component: name.to_owned(),
            image: format!("registry.k8s.io/{name}:v1.35.4"),
            config_version: 1,
            ready: true,
            crash: None,
            no_image: false,
        });
        let kubelet = |(number, name): (usize, String)| Kubelet {
            number,
            registers: true,
            ready,
            control_plane: number == 0,
            api_server: number == 0,
            addresses: vec![[10, 0, 0, u8::try_from(number).unwrap() + 1].into()],
            labels: BTreeMap::new(),
            annotations: BTreeMap::new(),
            taints: (number == 0)
                .then(|| ("node-role.kubernetes.io/control-plane".into(), "NoSchedule".into()))
                .into_iter()
                .collect(),
            registers_with: vec![],
            uninitialized: false,
            version: "v1.35.4".into(),
            talos: "v1.13.9".into(),
            kernel: "6.18.44-talos",
            containerd: "2.2.7",
            uuid: name.clone(),
            boot_id: name.clone(),
            cores: 2,
            memory_mib: 2048,
            pod_subnet: "10.244.0.0/16".parse().unwrap(),
            static_pods: mirrors.iter().filter(|_| number == 0).cloned().collect(),
            name,
        };
        let kubelets = names.enumerate().map(kubelet).collect();
        let now = "2026-01-01T00:00:00Z".parse().unwrap();
        let (lost, documents) = (vec![], BTreeMap::new());
        let mut cluster =
            Self { store: Store::default(), kubelets, lost, config: config.into(), documents, now };
        cluster.report();
        cluster.kubelets.iter_mut().for_each(|kubelet| kubelet.registers = false);
        cluster
    }

    fn report(&mut self) {
        let report = Report {
            kubelets: &self.kubelets,
            lost: &self.lost,
            configs: &[&self.config],
            documents: &self.documents,
            outside: None,
        };
        reconcile(&mut self.store, &report, self.now);
    }

    fn pass(&mut self, seconds: i64) {
        for _ in 0..seconds {
            self.now += SignedDuration::from_secs(1);
            self.report();
        }
    }

    fn put(&mut self, group: &str, plural: &str, name: &str, object: Value) {
        let namespace = if plural == "nodes" { "" } else { "default" };
        self.store.put(&Place { group, plural, namespace, name }, object, self.now);
        run(&mut self.store, self.now);
    }

    fn get(&self, group: &str, plural: &str, namespace: &str, name: &str) -> Option<&Value> {
        self.store.get(&Place { group, plural, namespace, name })
    }

    /// Phase and node of pods by label.
    fn pods(&self, app: &str) -> Vec<(String, String)> {
        let text = |pod: &Value, pointer: &str| {
            pod.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let pods = self.store.list("", "pods", None).into_iter();
        let chosen =
            pods.filter(|pod| ["app", "k8s-app"].iter().any(|key| pod["metadata"]["labels"][*key] == app));
        let mut found: Vec<_> =
            chosen.map(|pod| (text(pod, "/status/phase"), text(pod, "/spec/nodeName"))).collect();
        found.sort();
        found
    }
}

fn template(app: &str, spec: Value) -> Value {
    json!({"metadata": {"labels": {"app": app}}, "spec": spec})
}

fn deployment(app: &str, replicas: u32) -> Value {
    let spec = json!({"containers": [{"name": "c", "image": "x"}]});
    json!({"spec": {"replicas": replicas, "selector": {"matchLabels": {"app": app}}, "template": template(app, spec)}})
}

fn daemons(app: &str, spec: Value) -> Value {
    json!({"spec": {"selector": {"matchLabels": {"app": app}}, "template": template(app, spec)}})
}

fn running(nodes: &[&str]) -> Vec<(String, String)> {
    nodes.iter().map(|node| ("Running".to_owned(), (*node).to_owned())).collect()
}

#[test]
fn talos_brings_network_proxy_and_names() {
    let mut cluster = Cluster::new(PLAIN, 2, true);
    cluster.pass(5);
    assert_eq!(cluster.pods("flannel"), running(&["c1", "w1", "w2"]));
    assert_eq!(cluster.pods("kube-proxy"), running(&["c1", "w1", "w2"]));
    assert_eq!(cluster.pods("kube-dns").len(), 2);
    let events = cluster.store.list("", "events", None);
    for reason in ["RegisteredNode", "Scheduled", "Started"] {
        assert!(events.iter().any(|event| event["reason"] == reason), "{reason}");
    }
    assert_eq!(cluster.pods("kube-apiserver"), running(&["c1"]));
    let service = cluster.get("", "services", "kube-system", "kube-dns").unwrap();
    assert_eq!(service["spec"]["clusterIP"], "10.96.0.10");
    assert!(cluster.get("", "serviceaccounts", "default", "default").is_some());
    let proxy = cluster.get("apps", "daemonsets", "kube-system", "kube-proxy").unwrap();
    assert_eq!(
        proxy.pointer("/spec/template/spec/containers/0/image").unwrap(),
        "registry.k8s.io/kube-proxy:v1.35.4"
    );
    // What someone deleted or changed stays so.
    let place = Place { group: "apps", plural: "deployments", namespace: "kube-system", name: "coredns" };
    cluster.store.remove(&place);
    cluster.pass(5);
    assert_eq!(cluster.pods("kube-dns"), []);
}

#[test]
fn without_a_network_a_node_waits_for_whoever_writes_one() {
    let mut cluster = Cluster::new(BARE, 1, false);
    cluster.put("apps", "deployments", "web", deployment("web", 1));
    cluster.pass(5);
    assert_eq!(cluster.pods("web"), [("Pending".to_owned(), String::new())], "nodes are not ready");
    assert!(!has_network(&cluster.store, "w1"));
    let spec = json!({
        "hostNetwork": true, "containers": [{"name": "agent", "image": "cilium"}], "tolerations": [{"operator": "Exists"}],
        "volumes": [{"name": "cni", "hostPath": {"path": "/etc/cni/net.d"}}],
    });
    cluster.put("apps", "daemonsets", "cilium", daemons("cilium", spec));
    cluster.pass(3);
    assert!(has_network(&cluster.store, "w1") && has_network(&cluster.store, "c1"));
    cluster.kubelets.iter_mut().for_each(|kubelet| kubelet.ready = true);
    cluster.pass(3);
    assert_eq!(cluster.pods("web"), running(&["w1"]), "the control plane is tainted");
}

#[test]
fn manifests_of_the_configuration_become_objects_when_they_can() {
    let config = "\
machine: {type: controlplane}
cluster:
  network: {cni: {name: none}}
  extraManifests: ['https://example.com/more.yaml']
  inlineManifests:
    - name: shop
      contents: |
        apiVersion: shop.example/v1
        kind: Order
        metadata: {name: first, namespace: shop}
        ---
        apiVersion: v1
        kind: Namespace
        metadata: {name: shop}
        ---
        apiVersion: apiextensions.k8s.io/v1
        kind: CustomResourceDefinition
        metadata: {name: orders.shop.example}
        spec:
          group: shop.example
          scope: Namespaced
          names: {plural: orders, kind: Order}
          versions: [{name: v1, served: true, storage: true}]
";
    let mut cluster = Cluster::new(config, 0, true);
    cluster.pass(2);
    assert!(
        cluster.get("shop.example", "orders", "shop", "first").is_some(),
        "its kind and namespace came later"
    );
    assert!(cluster.get("", "configmaps", "shop", "more").is_none());
    let more = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: more, namespace: shop}\n";
    cluster.documents.insert("https://example.com/more.yaml".into(), more.into());
    cluster.pass(1);
    assert!(cluster.get("", "configmaps", "shop", "more").is_some(), "the address answers now");
}

#[test]
fn jobs_finish_and_deployments_roll() {
    let mut cluster = Cluster::new(PLAIN, 2, true);
    let spec = json!({"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}]});
    let job = json!({"spec": {"completions": 2, "parallelism": 1, "ttlSecondsAfterFinished": 10, "template": template("job", spec)}});
    cluster.put("batch", "jobs", "once", job);
    cluster.put("apps", "deployments", "web", deployment("web", 2));
    cluster.pass(8);
    assert_eq!(cluster.pods("web"), running(&["w1", "w2"]));
    cluster.pass(8);
    let job = cluster.get("batch", "jobs", "default", "once").unwrap();
    assert_eq!(
        (&job["status"]["succeeded"], &job["status"]["conditions"][1]["type"]),
        (&json!(2), &json!("Complete"))
    );
    cluster.pass(12);
    assert!(cluster.get("batch", "jobs", "default", "once").is_none(), "it asked to be removed");
    assert_eq!(cluster.pods("job"), [], "and its pods went with it");

    let mut changed = cluster.get("apps", "deployments", "default", "web").unwrap().clone();
    changed["spec"]["template"]["spec"]["containers"][0]["image"] = "y".into();
    cluster.put("apps", "deployments", "web", changed);
    cluster.pass(8);
    let images: Vec<&Value> = cluster
        .store
        .list("", "pods", Some("default"))
        .into_iter()
        .map(|pod| &pod["spec"]["containers"][0]["image"])
        .collect();
    assert_eq!(images, ["y", "y"]);
    let web = cluster.get("apps", "deployments", "default", "web").unwrap();
    assert_eq!(web["status"]["observedGeneration"], web["metadata"]["generation"]);
}

#[test]
fn a_silent_node_keeps_its_pods_and_a_deleted_one_loses_them() {
    let mut cluster = Cluster::new(PLAIN, 2, true);
    cluster.put("apps", "deployments", "web", deployment("web", 2));
    cluster.pass(5);
    cluster.kubelets.retain(|kubelet| kubelet.name != "w2");
    cluster.lost = vec!["w2".into()];
    cluster.pass(3);
    assert_eq!(cluster.pods("web"), running(&["w1", "w2"]));
    let web = cluster.get("apps", "deployments", "default", "web").unwrap();
    assert_eq!(web["status"]["readyReplicas"], 1);
    cluster.lost.clear();
    cluster.store.remove(&Place::core("nodes", "", "w2"));
    cluster.pass(5);
    assert_eq!(cluster.pods("web"), running(&["w1", "w1"]));
    assert!(
        cluster.get("coordination.k8s.io", "leases", "kube-node-lease", "w2").is_none(),
        "its lease belonged to it"
    );
}

#[test]
fn an_external_cloud_provider_has_the_first_look_at_a_node() {
    let mut cluster = Cluster::new(BARE, 0, true);
    let mut new =
        Kubelet { name: "w9".into(), registers: true, uninitialized: true, ..cluster.kubelets[0].clone() };
    (new.control_plane, new.api_server) = (false, false);
    new.taints.clear();
    cluster.kubelets.push(new);
    cluster.pass(1);
    cluster.put("apps", "deployments", "web", deployment("web", 1));
    cluster.pass(4);
    assert_eq!(cluster.pods("web"), [("Pending".to_owned(), String::new())]);
    let spec = json!({
        "hostNetwork": true, "serviceAccountName": "proxmox-cloud-controller-manager",
        "containers": [{"name": "c", "image": "ccm"}], "tolerations": [{"operator": "Exists"}],
    });
    cluster.put("apps", "daemonsets", "ccm", daemons("ccm", spec));
    cluster.pass(8);
    assert_eq!(cluster.pods("web"), running(&["w9"]));
}

#[test]
fn what_is_due_is_done_though_somebody_wrote_just_before() {
    let mut cluster = Cluster::new(PLAIN, 1, true);
    cluster.pass(10);
    cluster.put("apps", "deployments", "web", deployment("web", 1));
    let due = cluster.store.next_due().unwrap();
    cluster.now = due - SignedDuration::from_millis(100);
    cluster.put("", "configmaps", "other", json!({}));
    cluster.now = due;
    cluster.report();
    assert_eq!(cluster.pods("web"), running(&["w1"]));
}

#[test]
fn nothing_changes_while_nothing_happens() {
    let mut cluster = Cluster::new(PLAIN, 3, true);
    cluster.put("apps", "deployments", "web", deployment("web", 3));
    cluster.pass(20);
    let before = cluster.store.revision();
    cluster.pass(60);
    assert_eq!(cluster.store.revision(), before);
    assert_eq!(cluster.store.next_due(), None);
}
