//! The engine's calls to Kubernetes, one account of them for the lab's API server and for a real one.
//!
//! The real one is started when the paths of `kube-apiserver` and `etcd` are in the environment (`conformance/kube-apiserver/run`
//! builds them and asks for it). Nothing runs beside it, neither controllers nor kubelets, so the account sets the states that
//! those would set.

use std::time::Duration;

use ambient::{Clock, Net};
use engine::error::Kind;
use engine::kubernetes::Kubernetes;
use engine::kubernetes::drain::{CORDONED, Drain};
use engine::kubernetes::lease::{Claim, Wait, Whose};
use engine::kubernetes_api::{Api, Client, DeleteParams, Patch, PatchParams};
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use serde_json::{Value, json};

use crate::real_kubernetes::RealKubernetes;
use crate::rig::{Rig, bundle};

const DAY: Duration = Duration::from_secs(24 * 3600);
const MINUTE: Duration = Duration::from_secs(60);

struct Account<'a> {
    kubernetes: &'a Kubernetes,
    clock: &'a Clock,
}

impl Account<'_> {
    fn client(&self) -> Client {
        self.kubernetes.client()
    }

    async fn apply(&self, manifest: Value) {
        self.kubernetes.apply(&manifest).await.unwrap_or_else(|e| panic!("{:?}", e.causes()));
    }

    async fn set_status<K>(&self, api: &Api<K>, name: &str, status: Value)
    where
        K: Clone + std::fmt::Debug + serde::de::DeserializeOwned,
    {
        let patch = Patch::Merge(json!({"status": status}));
        api.patch_status(name, &PatchParams::default(), &patch).await.unwrap();
    }

    async fn everything(&self) {
        self.apply(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "probe"}})).await;
        Box::pin(self.objects_are_applied()).await;
        Box::pin(self.definitions_bring_kinds()).await;
        Box::pin(self.leases_are_held_by_one()).await;
        Box::pin(self.nodes_are_watched_and_cordoned()).await;
        Box::pin(self.nodes_are_emptied()).await;
        assert!(self.kubernetes.delete_node("probe-1").await.unwrap());
        assert!(!self.kubernetes.delete_node("probe-1").await.unwrap(), "it was not there any more");
        assert!(!self.kubernetes.nodes().await.unwrap().contains_key("probe-1"));
    }

    async fn objects_are_applied(&self) {
        let map = |data: Value| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "probe"}, "data": data});
        self.apply(map(json!({"x": "1", "y": "2"}))).await;
        let maps: Api<ConfigMap> = Api::namespaced(self.client(), "probe");
        let theirs = Patch::Merge(json!({"metadata": {"labels": {"theirs": "yes"}}, "data": {"z": "3"}}));
        maps.patch("a", &PatchParams::default(), &theirs).await.unwrap();
        self.apply(map(json!({"x": "4"}))).await;
        let found = maps.get("a").await.unwrap();
        let data: Vec<(String, String)> = found.data.unwrap().into_iter().collect();
        assert_eq!(data, [("x".into(), "4".into()), ("z".into(), "3".into())], "ours go, theirs stay");
        assert_eq!(found.metadata.labels.unwrap()["theirs"], "yes");
        let version = found.metadata.resource_version;
        self.apply(map(json!({"x": "4"}))).await;
        assert_eq!(
            maps.get("a").await.unwrap().metadata.resource_version,
            version,
            "the same again changes nothing"
        );

        let nowhere = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "nowhere"}});
        let causes = self.kubernetes.apply(&nowhere).await.unwrap_err().causes();
        assert!(causes.iter().any(|cause| cause.contains("namespaces \"nowhere\" not found")), "{causes:?}");
        let nameless = self.kubernetes.apply(&json!({"apiVersion": "v1", "kind": "ConfigMap"})).await;
        assert_eq!(nameless.unwrap_err().kind(), Kind::Input);
    }

    async fn definitions_bring_kinds(&self) {
        let widget = json!({"apiVersion": "probe.example/v1", "kind": "Widget", "metadata": {"name": "w", "namespace": "probe"}, "spec": {"size": 3}});
        assert!(self.kubernetes.apply(&widget).await.is_err(), "no one knows the kind yet");
        self.apply(json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "widgets.probe.example"},
            "spec": {
                "group": "probe.example", "scope": "Namespaced", "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                    "type": "object", "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}},
                }}}],
            },
        }))
        .await;
        for _ in 0..30 {
            if self.kubernetes.apply(&widget).await.is_ok() {
                return;
            }
            self.clock.sleep(Duration::from_secs(1)).await;
        }
        panic!("the kind was never served");
    }

    async fn leases_are_held_by_one(&self) {
        let claim = |holder: &str| Claim {
            namespace: "probe".into(),
            name: "change".into(),
            holder: holder.into(),
            run: "1".into(),
            duration: Duration::from_secs(3),
            whose: Whose::Free,
            wait: Wait::Unchanged,
        };
        let (ours, theirs) = (claim("ours"), claim("theirs"));
        assert_eq!(self.kubernetes.claim(&ours).await.unwrap(), None);
        assert_eq!(self.kubernetes.claim(&ours).await.unwrap(), None, "renewed");
        let error = self.kubernetes.claim(&theirs).await.unwrap_err();
        assert_eq!(error.kind(), Kind::Busy);
        assert!(error.to_string().starts_with("ours is changing the cluster since "), "{error}");
        self.clock.sleep(Duration::from_secs(4)).await;
        assert_eq!(
            self.kubernetes.claim(&theirs).await.unwrap().as_deref(),
            Some("ours"),
            "it was not renewed"
        );
        self.kubernetes.give_back(&ours).await.unwrap();
        let again = Claim { whose: Whose::Ours, ..ours.clone() };
        let error = self.kubernetes.claim(&again).await.unwrap_err();
        assert_eq!((error.kind(), error.to_string().as_str()), (Kind::Busy, "theirs took over the lease"));
        let forced = Claim { whose: Whose::Anybodys, ..ours.clone() };
        assert_eq!(
            self.kubernetes.claim(&forced).await.unwrap().as_deref(),
            Some("theirs"),
            "it was not ours to give back"
        );
        assert_eq!(self.kubernetes.claim(&again).await.unwrap(), None, "renewed");
        self.kubernetes.give_back(&ours).await.unwrap();
        let error = self.kubernetes.claim(&again).await.unwrap_err();
        assert_eq!(
            (error.kind(), error.to_string().as_str()),
            (Kind::Busy, "another operator took over the lease")
        );
        assert_eq!(self.kubernetes.claim(&theirs).await.unwrap(), None, "free again");
    }

    async fn nodes_are_watched_and_cordoned(&self) {
        self.apply(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "probe-1"}})).await;
        assert!(!self.kubernetes.nodes().await.unwrap()["probe-1"].ready);
        let error = self.kubernetes.wait_for_ready(&["probe-1"], Duration::from_secs(3)).await.unwrap_err();
        assert_eq!(error.to_string(), "not ready in Kubernetes after 3 s: probe-1");
        let becomes_ready = async {
            self.clock.sleep(Duration::from_secs(1)).await;
            let ready =
                json!({"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]});
            self.set_status::<Node>(&Api::all(self.client()), "probe-1", ready).await;
        };
        let (waited, ()) = tokio::join!(self.kubernetes.wait_for_ready(&["probe-1"], MINUTE), becomes_ready);
        waited.unwrap();
        assert!(self.kubernetes.cordon("probe-1", Some("cordon by test")).await.unwrap());
        assert!(!self.kubernetes.cordon("probe-1", Some("cordon by test")).await.unwrap(), "it was already");
        assert!(!self.kubernetes.nodes().await.unwrap()["probe-1"].schedulable);
        assert!(self.kubernetes.cordon("probe-1", None).await.unwrap());
        assert!(self.kubernetes.nodes().await.unwrap()["probe-1"].schedulable);
        assert!(
            self.kubernetes.cordon("probe-2", Some("cordon by test")).await.is_err(),
            "there is no such node"
        );
    }

    /// A pod on the node, ready as its kubelet would have it.
    async fn pod(&self, name: &str, owners: Value) {
        self.apply(json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "namespace": "probe", "labels": {"app": "probe"}, "ownerReferences": owners},
            "spec": {"nodeName": "probe-1", "containers": [{"name": "c", "image": "example/c:1"}]},
        }))
        .await;
        let status = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
        self.set_status::<Pod>(&Api::namespaced(self.client(), "probe"), name, status).await;
    }

    async fn nodes_are_emptied(&self) {
        let labels = json!({"app": "probe"});
        self.apply(json!({
            "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "probe", "namespace": "probe"},
            "spec": {
                "replicas": 1, "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels},
                    "spec": {"nodeSelector": {"no": "where"}, "containers": [{"name": "c", "image": "example/c:1"}]},
                },
            },
        }))
        .await;
        let sets: Api<ReplicaSet> = Api::namespaced(self.client(), "probe");
        let uid = sets.get("probe").await.unwrap().metadata.uid;
        let owner = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "probe", "uid": uid, "controller": true}]);
        self.pod("replica", owner).await;
        self.apply(json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "budget", "namespace": "probe"},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": labels}},
        }))
        .await;
        let budgets: Api<PodDisruptionBudget> = Api::namespaced(self.client(), "probe");
        let count = json!({"disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1, "observedGeneration": 1});
        self.set_status(&budgets, "budget", count).await;

        let how = Drain { limit: Duration::from_secs(5), grace: Some(Duration::ZERO), ..Drain::default() };
        let error = self.kubernetes.drain("probe-1", &how, "test").await.unwrap_err();
        assert_eq!(
            error.to_string(),
            "node probe-1 could not be drained within 5 s: probe/replica of ReplicaSet probe (The disruption budget budget needs 1 healthy pods and has 1 currently)"
        );
        assert!(self.takes_pods().await, "our cordon was taken back");
        self.kubernetes.cordon("probe-1", Some("cordon by test")).await.unwrap();
        self.kubernetes.drain("probe-1", &how, "test").await.unwrap_err();
        assert!(!self.takes_pods().await, "a person's cordon stays");
        assert!(!self.kubernetes.release("probe-1").await.unwrap(), "it is not ours");
        self.kubernetes.cordon("probe-1", None).await.unwrap();

        budgets.delete("budget", &DeleteParams::default()).await.unwrap();
        self.pod("bare", json!([])).await;
        let error = self.kubernetes.drain("probe-1", &how, "test").await.unwrap_err();
        assert_eq!(error.kind(), Kind::Refused);
        assert!(error.to_string().ends_with(": probe/bare"), "{error}");
        assert!(self.takes_pods().await, "nothing was touched");
        let insisting = Drain { unmanaged: true, ..how };
        let moved = self.kubernetes.drain("probe-1", &insisting, "test").await.unwrap();
        assert_eq!(moved, ["probe/bare", "probe/replica"]);
        assert!(!self.takes_pods().await, "drained, and kept so");
        let nodes: Api<Node> = Api::all(self.client());
        let annotations = nodes.get("probe-1").await.unwrap().metadata.annotations.unwrap();
        assert_eq!(annotations.get(CORDONED).map(String::as_str), Some("test"));
        let moved = self.kubernetes.drain("probe-1", &how, "test").await.unwrap();
        assert_eq!(moved, [""; 0], "nothing is left, and it is still ours");
        self.data_is_kept(&how).await;
        assert!(self.kubernetes.release("probe-1").await.unwrap(), "it is ours to take back");
        assert!(self.takes_pods().await);
    }

    async fn takes_pods(&self) -> bool {
        self.kubernetes.nodes().await.unwrap()["probe-1"].schedulable
    }

    /// A pod that keeps data on the node is not evicted, unless that is allowed.
    async fn data_is_kept(&self, how: &Drain) {
        self.apply(json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "keeper", "namespace": "probe"},
            "spec": {
                "nodeName": "probe-1", "containers": [{"name": "c", "image": "example/c:1"}],
                "volumes": [{"name": "data", "emptyDir": {}}],
            },
        }))
        .await;
        let careful = Drain { unmanaged: true, ..*how };
        let error = self.kubernetes.drain("probe-1", &careful, "test").await.unwrap_err();
        assert_eq!(error.kind(), Kind::Refused);
        assert!(error.to_string().ends_with("which is deleted with them: probe/keeper"), "{error}");
        let allowed = Drain { empty_dir: true, ..careful };
        assert_eq!(self.kubernetes.drain("probe-1", &allowed, "test").await.unwrap(), ["probe/keeper"]);
    }
}

#[tokio::test(start_paused = true)]
async fn the_labs_kubernetes_answers_the_engine() {
    let rig = Rig::healthy().await;
    let identity = talos::secrets::kubernetes_admin(&bundle(), DAY, rig.systems.clock.now()).unwrap();
    let kubernetes = Kubernetes::new(&rig.systems, "https://10.25.150.10:6443", &identity).unwrap();
    // Boxed, because in one piece it is larger than the stack of a test.
    Box::pin(Account { kubernetes: &kubernetes, clock: &rig.systems.clock }.everything()).await;
}

#[tokio::test]
#[ignore = "needs a real kube-apiserver and etcd: conformance/kube-apiserver/run"]
async fn a_real_kubernetes_answers_the_engine() {
    let clock = Clock::real();
    let real = RealKubernetes::start(&clock).await;
    let identity = talos::secrets::kubernetes_admin(&bundle(), DAY, clock.now()).unwrap();
    let kubernetes = Kubernetes::connect(&Net::tcp(), &clock, &real.endpoint, &identity).unwrap();
    real.wait_until_up(&kubernetes, &clock).await;
    Box::pin(Account { kubernetes: &kubernetes, clock: &clock }.everything()).await;
}

/// A pod that nothing would make again stands on the node: nothing is touched; a drain of ours is taken back, a person's cordon is not.
#[tokio::test(start_paused = true)]
async fn by_reading_6_a_drain_takes_back_only_its_own_cordon() {
    let rig = Rig::healthy().await;
    let identity = talos::secrets::kubernetes_admin(&bundle(), DAY, rig.systems.clock.now()).unwrap();
    let kubernetes = Kubernetes::new(&rig.systems, "https://10.25.150.10:6443", &identity).unwrap();
    let node = "home-work-1";
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "bare", "namespace": "default"},
        "spec": {"nodeName": node, "containers": [{"name": "c", "image": "example/c:1"}]},
    });
    kubernetes.apply(&pod).await.unwrap();
    let careful = Drain { empty_dir: true, ..Drain::default() };
    let error = kubernetes.drain(node, &careful, "upgrade").await.unwrap_err();
    assert_eq!(error.kind(), Kind::Refused);
    assert!(kubernetes.nodes().await.unwrap()[node].schedulable, "nothing was touched");
    kubernetes.drain(node, &Drain { unmanaged: true, ..careful }, "upgrade").await.unwrap();
    assert!(!kubernetes.nodes().await.unwrap()[node].schedulable);
    // The one that comes after a crash knows whose the cordon is.
    kubernetes.apply(&pod).await.unwrap();
    kubernetes.drain(node, &careful, "upgrade").await.unwrap_err();
    assert!(kubernetes.release(node).await.unwrap());
    assert!(kubernetes.nodes().await.unwrap()[node].schedulable);
    kubernetes.cordon(node, Some("cordon by test")).await.unwrap();
    assert!(!kubernetes.release(node).await.unwrap(), "a person's");
}
