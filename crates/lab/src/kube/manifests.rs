//! The objects that Talos makes from the configuration of control planes: its own network, proxy and name service, manifests
//! in the configuration, and manifests that it fetches.
//!
//! Each object is made once. Talos never changes one that is there, and does not make one again that someone deleted.
//! What cannot be made yet (an unknown kind, a missing namespace, an address that does not answer) is tried again.

use std::sync::Arc;

use ipnet::IpNet;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::controllers::Report;
use super::defaults;
use super::kinds::Kind;
use super::store::{Place, Store};

const SYSTEM: &str = "kube-system";

/// What the configurations of a cluster's control planes ask for.
#[derive(Debug, Default)]
pub(super) struct Wanted {
    objects: Vec<Value>,
    urls: Vec<String>,
}

/// Makes what is not made yet.
pub(super) fn make(store: &mut Store, report: &Report<'_>, now: Timestamp) {
    let known = store
        .wanted
        .as_ref()
        .filter(|(configs, _)| configs == report.configs)
        .map(|(_, wanted)| wanted.clone());
    let wanted = known.unwrap_or_else(|| {
        let wanted = Arc::new(Wanted::read(report.configs));
        let configs = report.configs.iter().map(|config| (*config).to_owned()).collect();
        store.wanted = Some((configs, wanted.clone()));
        wanted
    });
    for object in &wanted.objects {
        make_once(store, object, now);
    }
    for url in &wanted.urls {
        // An address that does not answer is asked again and again; here, for as long as nothing is there.
        let Some(text) = report.documents.get(url) else { continue };
        for object in documents(text) {
            make_once(store, &object, now);
        }
    }
}

fn documents(text: &str) -> Vec<Value> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(text).unwrap_or_default();
    documents.into_iter().filter(Value::is_object).flat_map(unlisted).collect()
}

/// The objects of a list, or the object itself.
fn unlisted(object: Value) -> Vec<Value> {
    match object["items"].as_array() {
        Some(items) if object["kind"] == "List" => items.clone(),
        _ => vec![object],
    }
}

fn make_once(store: &mut Store, object: &Value, now: Timestamp) {
    let name = object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
    let id =
        format!("{}/{}/{}/{name}", object["apiVersion"], object["kind"], object["metadata"]["namespace"]);
    if store.made.contains(&id) {
        return;
    }
    if put(store, object, false, now) {
        store.made.insert(id);
    }
}

/// Makes an object, or gives one that is there what the manifest says. Says whether that could be done.
pub(super) fn put(store: &mut Store, object: &Value, again: bool, now: Timestamp) -> bool {
    let name = object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
    let Some(kind) = Kind::of_manifest(store, object) else { return false };
    let namespace = match kind.namespaced {
        true => object.pointer("/metadata/namespace").and_then(Value::as_str).unwrap_or("default"),
        false => "",
    };
    if !namespace.is_empty() && store.get(&Place::core("namespaces", "", namespace)).is_none() {
        return false;
    }
    let place = Place { group: &kind.group, plural: &kind.plural, namespace, name };
    let mut made = object.clone();
    defaults::complete(store, &kind, &mut made);
    match store.get(&place) {
        None => drop(store.put(&place, made, now)),
        Some(kept) if again && made.get("spec").is_some() => {
            let mut kept = kept.clone();
            kept["spec"] = made["spec"].take();
            store.put(&place, kept, now);
        }
        Some(_) => {}
    }
    true
}

impl Wanted {
    fn read(configs: &[&str]) -> Self {
        let mut wanted = Self::default();
        for config in configs {
            let found = documents(config);
            let documents = Documents(&found);
            wanted.objects.extend(documents.own());
            for manifest in documents.list("/cluster/inlineManifests") {
                wanted.objects.extend(self::documents(manifest["contents"].as_str().unwrap_or_default()));
            }
            let urls = [
                "/cluster/extraManifests",
                "/cluster/network/cni/urls",
                "/cluster/externalCloudProvider/manifests",
            ];
            let urls = urls.into_iter().flat_map(|place| documents.list(place));
            wanted.urls.extend(urls.filter_map(|url| url.as_str().map(str::to_owned)));
        }
        wanted
    }
}

/// The documents of one configuration.
struct Documents<'a>(&'a [Value]);

impl Documents<'_> {
    fn main(&self, pointer: &str) -> Option<&Value> {
        self.0.iter().find(|d| d.get("kind").is_none())?.pointer(pointer)
    }

    fn kind(&self, kind: &str) -> Option<&Value> {
        self.0.iter().find(|d| d["kind"] == kind)
    }

    fn list(&self, pointer: &str) -> impl Iterator<Item = &Value> {
        self.main(pointer).and_then(Value::as_array).into_iter().flatten()
    }

    /// Since 1.14 Kubernetes has documents of its own, and the network is there only when it is asked for.
    fn newer(&self) -> bool {
        self.kind("KubeNetworkConfig").is_some() || self.kind("KubeClusterConfig").is_some()
    }

    fn flannel(&self) -> bool {
        let name = self.main("/cluster/network/cni/name").and_then(Value::as_str);
        self.kind("KubeFlannelCNIConfig").is_some()
            || (!self.newer() && name.is_none_or(|name| name == "flannel"))
    }

    fn proxy(&self) -> bool {
        let off = self.main("/cluster/proxy/disabled") == Some(&Value::Bool(true));
        !off && self.kind("KubeProxyConfig").is_none_or(|config| config["enabled"] != false)
    }

    fn name_service(&self) -> bool {
        let off = self.main("/cluster/coreDNS/disabled") == Some(&Value::Bool(true));
        !off && self.kind("KubeCoreDNSConfig").is_none_or(|config| config["enabled"] != false)
    }

    fn text(&self, pointer: &str) -> Option<String> {
        self.main(pointer).and_then(Value::as_str).map(str::to_owned)
    }

    /// The tenth and the first address of the services' network.
    fn service_address(&self, number: usize) -> String {
        let net =
            self.list("/cluster/network/serviceSubnets").find_map(|net| net.as_str()?.parse::<IpNet>().ok());
        let net = net.unwrap_or(IpNet::new_assert([10, 96, 0, 0].into(), 12));
        net.hosts().nth(number - 1).map(|address| address.to_string()).unwrap_or_default()
    }

    /// What Talos brings by itself.
    fn own(&self) -> Vec<Value> {
        let kubelet = self
            .text("/machine/kubelet/image")
            .or_else(|| self.kind("KubeletConfig")?["image"].as_str().map(str::to_owned));
        let version = kubelet
            .as_deref()
            .and_then(|image| image.split('@').next()?.rsplit_once(':'))
            .map_or("", |(_, tag)| tag);
        let proxy_image = self
            .text("/cluster/proxy/image")
            .unwrap_or_else(|| format!("registry.k8s.io/kube-proxy:{version}"));
        let dns_image = self
            .text("/cluster/coreDNS/image")
            .unwrap_or_else(|| "registry.k8s.io/coredns/coredns:v1.14.3".to_owned());
        let mut objects = vec![service("default", "kubernetes", &self.service_address(1), 443, &json!({}))];
        if self.flannel() {
            objects.extend(daemon_set(
                "kube-flannel",
                "flannel",
                "ghcr.io/siderolabs/flannel:v0.28.5",
                &["/run/flannel", "/etc/cni/net.d"],
            ));
        }
        if self.proxy() {
            objects.extend(daemon_set("kube-proxy", "kube-proxy", &proxy_image, &["/lib/modules"]));
        }
        if self.name_service() {
            objects.extend(name_service(&dns_image));
            objects.push(service(
                SYSTEM,
                "kube-dns",
                &self.service_address(10),
                53,
                &json!({"k8s-app": "kube-dns"}),
            ));
        }
        objects
    }
}

fn account(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": SYSTEM}})
}

fn daemon_set(name: &str, app: &str, image: &str, paths: &[&str]) -> [Value; 2] {
    let volume =
        |(index, path): (usize, &&str)| json!({"name": format!("host-{index}"), "hostPath": {"path": path}});
    let volumes: Vec<Value> = paths.iter().enumerate().map(volume).collect();
    let labels = json!({"k8s-app": app, "tier": "node"});
    let set = json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": SYSTEM, "labels": labels},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "containers": [{"name": name, "image": image, "resources": {"requests": {"cpu": "100m"}}}],
                    "hostNetwork": true, "priorityClassName": "system-cluster-critical", "serviceAccountName": app,
                    "tolerations": [{"effect": "NoSchedule", "operator": "Exists"}, {"effect": "NoExecute", "operator": "Exists"}],
                    "volumes": volumes,
                },
            },
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}},
        },
    });
    [account(app), set]
}

fn name_service(image: &str) -> [Value; 2] {
    let labels = json!({"k8s-app": "kube-dns"});
    let bears = |key: &str| json!({"key": key, "operator": "Exists", "effect": "NoSchedule"});
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "coredns", "namespace": SYSTEM, "labels": labels},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "containers": [{"name": "coredns", "image": image, "resources": {"requests": {"cpu": "100m", "memory": "70Mi"}}}],
                    "priorityClassName": "system-cluster-critical", "serviceAccountName": "coredns",
                    "tolerations": [
                        bears("node-role.kubernetes.io/control-plane"),
                        bears("node.cloudprovider.kubernetes.io/uninitialized"),
                    ],
                },
            },
        },
    });
    [account("coredns"), deployment]
}

fn service(namespace: &str, name: &str, address: &str, port: u16, selector: &Value) -> Value {
    let port = if port == 53 {
        json!([{"name": "dns", "port": 53, "protocol": "UDP", "targetPort": 53}, {"name": "dns-tcp", "port": 53, "protocol": "TCP", "targetPort": 53}])
    } else {
        json!([{"name": "https", "port": port, "protocol": "TCP", "targetPort": 6443}])
    };
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": namespace},
        "spec": {"clusterIP": address, "clusterIPs": [address], "type": "ClusterIP", "ports": port, "selector": selector},
    })
}
