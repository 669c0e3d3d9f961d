//! Kubernetes and etcd as the machine knows them: what it is configured to run, and what its kubelet says.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{Resource, View};
use crate::machine::{Machine, Registration, Settings};
use crate::talos_api::encode::structure;

pub(super) fn of(view: &View<'_>, kind: &str) -> Option<Vec<Resource>> {
    let node = view.node()?;
    let settings = &node.settings;
    let name = view.machine.hostname();
    let control_plane = node.is_control_plane();
    let one = |id: &str, owner, tree| Some(vec![Resource::new(id, owner, tree)]);
    match kind {
        "Nodenames.kubernetes.talos.dev" => one(
            "nodename",
            "k8s.NodenameController",
            json!({"nodename": name, "hostnameVersion": "1", "skipNodeRegistration": false}),
        ),
        "NodeStatuses.kubernetes.talos.dev" => {
            let Registration::Registered { ready_at, .. } = node.registration else { return Some(vec![]) };
            let ready = ready_at.is_some_and(|at| at <= view.now);
            let unschedulable = view.machines.is_cordoned(view.vmid);
            let tree = json!({
                "nodename": name, "nodeReady": ready, "unschedulable": unschedulable,
                "labels": view.machine.node_labels(settings), "annotations": view.machine.node_annotations(settings),
                "podCIDRs": [],
            });
            one(name, "k8s.NodeStatusController", tree)
        }
        "NodeLabelSpecs.k8s.talos.dev" => {
            Some(texts("k8s.NodeLabelSpecController", view.machine.node_labels(settings)))
        }
        "NodeAnnotationSpecs.k8s.talos.dev" => {
            Some(texts("k8s.NodeAnnotationSpecController", view.machine.node_annotations(settings)))
        }
        "NodeTaintSpecs.k8s.talos.dev" => {
            let taints = settings.taints_of_node().into_iter().map(|(key, text)| {
                let (value, effect) = text.split_once(':').unwrap_or(("", &text));
                let tree = json!({"key": key, "value": value, "effect": effect});
                Resource::new(key.clone(), "k8s.NodeTaintSpecController", tree)
            });
            Some(taints.collect())
        }
        "EtcdMembers.etcd.talos.dev" => {
            let member = view.machine.disk.etcd.filter(|_| node.etcd_is_healthy(view.now));
            let tree = json!({"memberID": format!("{:016x}", member?.member)});
            one("local", "etcd.MemberController", tree)
        }
        "EtcdSpecs.etcd.talos.dev" if control_plane => one(
            "etcd",
            "etcd.SpecController",
            json!({
                "name": name, "advertisedAddresses": view.machine.address().map(|a| a.to_string()).into_iter().collect::<Vec<_>>(),
                "listenPeerAddresses": ["0.0.0.0"], "listenClientAddresses": ["0.0.0.0"],
                "image": format!("registry.k8s.io/etcd:v{}", view.profile.etcd), "extraArgs": {},
            }),
        ),
        "KubeletSpecs.kubernetes.talos.dev" => one("kubelet", "k8s.KubeletSpecController", kubelet(view)),
        "KubeletStatuses.kubernetes.talos.dev" => {
            one("kubelet", "k8s.KubeletStatusController", json!({"image": settings.images.kubelet}))
        }
        "APIServerConfigs.kubernetes.talos.dev" if control_plane => one(
            "kube-apiserver",
            "k8s.ControlPlaneAPIServerController",
            json!({
                "image": settings.images.api_server, "cloudProvider": "", "controlPlaneEndpoint": settings.endpoint,
                "etcdServers": ["https://127.0.0.1:2379"], "localPort": 6443,
                "serviceCIDR": [settings.service_subnet.to_string()], "extraArgs": {}, "extraVolumes": [],
                "environmentVariables": {}, "advertisedAddress": "$(POD_IP)", "resources": resources(),
            }),
        ),
        "ControllerManagerConfigs.kubernetes.talos.dev" if control_plane => one(
            "kube-controller-manager",
            "k8s.ControlPlaneControllerManagerController",
            json!({
                "enabled": true, "image": settings.images.controller_manager, "cloudProvider": "",
                "podCIDRs": [settings.pod_subnet.to_string()], "serviceCIDRs": [settings.service_subnet.to_string()],
                "extraArgs": {}, "extraVolumes": [], "environmentVariables": {}, "resources": resources(),
            }),
        ),
        "SchedulerConfigs.kubernetes.talos.dev" if control_plane => one(
            "kube-scheduler",
            "k8s.ControlPlaneSchedulerController",
            json!({
                "enabled": true, "image": settings.images.scheduler, "extraArgs": {}, "extraVolumes": [],
                "environmentVariables": {}, "resources": resources(), "config": {},
            }),
        ),
        "Manifests.kubernetes.talos.dev" if control_plane => Some(manifests(view)),
        "ManifestStatuses.kubernetes.talos.dev" if control_plane => {
            let up = node.api_server_from.is_some_and(|at| at <= view.now);
            let applied: Vec<String> = manifests(view).into_iter().filter(|_| up).map(|one| one.id).collect();
            one("manifests", "k8s.ManifestApplyController", json!({"manifestsApplied": applied}))
        }
        "BootstrapManifestsConfigs.kubernetes.talos.dev" if control_plane => {
            one("manifests", "k8s.ControlPlaneBootstrapManifestsController", brought(settings))
        }
        "StaticPods.kubernetes.talos.dev" if control_plane => Some(static_pods(view, false)),
        "StaticPodStatuses.kubernetes.talos.dev" if control_plane => Some(static_pods(view, true)),
        _ => None,
    }
}

/// One resource for each key.
fn texts(owner: &'static str, texts: BTreeMap<String, String>) -> Vec<Resource> {
    let texts = texts.into_iter();
    texts.map(|(key, value)| Resource::new(key.clone(), owner, json!({"key": key, "value": value}))).collect()
}

fn resources() -> Value {
    json!({"requests": {"cpu": "", "memory": ""}, "limits": {}})
}

fn kubelet(view: &View<'_>) -> Value {
    let Some(node) = view.node() else { return Value::Null };
    let name = view.machine.hostname();
    let dns = node.settings.service_subnet.hosts().nth(9).map(|ip| ip.to_string()).unwrap_or_default();
    let taints = if node.is_control_plane() && !node.settings.schedulable {
        json!([{"effect": "NoSchedule", "key": "node-role.kubernetes.io/control-plane"}])
    } else {
        json!([])
    };
    let mut config = json!({
        "address": "0.0.0.0", "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": {"enabled": false}, "webhook": {"cacheTTL": "0s", "enabled": true},
            "x509": {"clientCAFile": "/etc/kubernetes/pki/ca.crt"},
        },
        "authorization": {
            "mode": "Webhook", "webhook": {"cacheAuthorizedTTL": "0s", "cacheUnauthorizedTTL": "0s"},
        },
        "clusterDNS": [dns], "crashLoopBackOff": {}, "failSwapOn": false, "memorySwap": {},
        "featureGates": {"LocalStorageCapacityIsolationFSQuotaMonitoring": true},
        "logging": {
            "flushFrequency": 0, "format": "json", "verbosity": 0,
            "options": {"json": {"infoBufferSize": "0"}, "text": {"infoBufferSize": "0"}},
        },
        "oomScoreAdj": -450, "port": 10250, "registerWithTaints": taints, "rotateCertificates": true,
        "seccompDefault": true, "serializeImagePulls": false,
        "systemReserved": {"cpu": "50m", "ephemeral-storage": "256Mi", "memory": "512Mi", "pid": "100"},
    });
    for (key, text) in KUBELET_TEXTS {
        config[*key] = (*text).into();
    }
    if node.is_control_plane() {
        // The machine serves its static pods to its own kubelet, on a port that it was given.
        let port = 32_768 + crate::stable::stable_number(&["static pods", name]) % 28_000;
        config["staticPodURL"] = format!("http://127.0.0.1:{port}").into();
    }
    json!({
        "image": node.settings.images.kubelet,
        "args": arguments(view.machine),
        "expectedNodename": name,
        "config": config,
    })
}

/// What the kubelet is started with.
fn arguments(machine: &Machine) -> Vec<String> {
    let address = machine.address().map(|a| a.to_string()).unwrap_or_default();
    vec![
        "--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubeconfig".to_owned(),
        "--cert-dir=/var/lib/kubelet/pki".to_owned(),
        "--config=/etc/kubernetes/kubelet.yaml".to_owned(),
        format!("--hostname-override={}", machine.hostname()),
        "--kubeconfig=/etc/kubernetes/kubeconfig-kubelet".to_owned(),
        format!("--node-ip={address}"),
    ]
}

/// What the kubelet says of itself when it starts.
pub(in crate::talos_api) fn kubelet_texts(machine: &Machine) -> Vec<String> {
    let flags = arguments(machine).into_iter().map(|argument| format!("FLAG: {argument}"));
    let settings = KUBELET_TEXTS.iter().map(|(key, text)| format!("KubeletConfiguration: {key}={text:?}"));
    flags.chain(settings).collect()
}

/// Settings of the kubelet that are the same on every machine.
const KUBELET_TEXTS: &[(&str, &str)] = &[
    ("cgroupRoot", "/"),
    ("clusterDomain", "cluster.local"),
    ("containerRuntimeEndpoint", "unix:///run/containerd/containerd.sock"),
    ("cpuManagerReconcilePeriod", "0s"),
    ("evictionPressureTransitionPeriod", "0s"),
    ("fileCheckFrequency", "0s"),
    ("httpCheckFrequency", "0s"),
    ("imageMaximumGCAge", "0s"),
    ("imageMinimumGCAge", "0s"),
    ("kubeletCgroups", "/podruntime/kubelet"),
    ("nodeStatusReportFrequency", "0s"),
    ("nodeStatusUpdateFrequency", "0s"),
    ("resolvConf", "/system/resolved/resolv.conf"),
    ("runtimeRequestTimeout", "0s"),
    ("shutdownGracePeriod", "30s"),
    ("shutdownGracePeriodCriticalPods", "10s"),
    ("streamingConnectionIdleTimeout", "5m0s"),
    ("syncFrequency", "0s"),
    ("systemCgroups", "/system"),
    ("tlsMinVersion", "VersionTLS13"),
    ("volumeStatsAggPeriod", "0s"),
];

/// What of the cluster's own workloads the configuration wants.
fn brought(settings: &Settings) -> Value {
    let version = &settings.kubernetes;
    let dns = settings.service_subnet.hosts().nth(9).map(|ip| ip.to_string()).unwrap_or_default();
    json!({
        "string": settings.endpoint, "clusterDomain": "cluster.local", "podCIDRs": [settings.pod_subnet.to_string()],
        "proxyEnabled": settings.proxy, "proxyImage": format!("registry.k8s.io/kube-proxy:{version}"),
        "proxyArgs": [format!("--cluster-cidr={}", settings.pod_subnet), "--hostname-override=$(NODE_NAME)", "--proxy-mode=nftables"],
        "coreDNSEnabled": !settings.no_core_dns, "coreDNSImage": "registry.k8s.io/coredns/coredns:v1.14.2",
        "dnsServiceIP": dns, "flannelEnabled": settings.cni,
        "flannelImage": "ghcr.io/siderolabs/flannel:v0.28.1", "talosAPIServiceEnabled": false,
        "cniName": if settings.cni { "flannel" } else { "none" }, "podSecurityPolicyEnabled": false,
    })
}

/// The manifests that a control plane brings along, by name; their content is what Kubernetes shows of it.
fn manifests(view: &View<'_>) -> Vec<Resource> {
    let Some(node) = view.node() else { return vec![] };
    let object = |api: &str, kind: &str, name: &str, space: &str| {
        let mut metadata = json!({"name": name});
        if !space.is_empty() {
            metadata["namespace"] = space.into();
        }
        json!({"apiVersion": api, "kind": kind, "metadata": metadata})
    };
    let binding = |name: &str| object("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", name, "");
    let mut all = vec![
        ("00-kubelet-bootstrapping-token", object("v1", "Secret", "bootstrap-token", "kube-system")),
        ("01-csr-approver-role-binding", binding("system-bootstrap-approve-node-client-csr")),
        ("01-csr-node-bootstrap", binding("system-bootstrap-node-bootstrapper")),
        ("01-csr-renewal-role-binding", binding("system-bootstrap-node-renewal")),
        ("11-kube-config-in-cluster", object("v1", "ConfigMap", "kubeconfig-in-cluster", "kube-system")),
        ("11-talos-node-rbac-template", binding("system:talos-nodes")),
    ];
    if !node.settings.no_core_dns {
        all.push(("11-core-dns", object("apps/v1", "Deployment", "coredns", "kube-system")));
        all.push(("11-core-dns-svc", object("v1", "Service", "kube-dns", "kube-system")));
    }
    if node.settings.cni {
        all.push(("05-flannel", object("apps/v1", "DaemonSet", "kube-flannel", "kube-system")));
    }
    if node.settings.proxy {
        all.push(("10-kube-proxy", object("apps/v1", "DaemonSet", "kube-proxy", "kube-system")));
    }
    all.into_iter()
        .map(|(id, tree)| {
            let yaml = crate::talos_api::encode::yaml(&json!([tree]), "");
            let mut item = vec![];
            crate::talos_api::encode::delimited(1, &structure(&tree), &mut item);
            let mut bytes = vec![];
            crate::talos_api::encode::delimited(1, &item, &mut bytes);
            Resource::both(id, "k8s.ManifestController", yaml, bytes)
        })
        .collect()
}

/// The pods that the kubelet runs from files, or what it says of them.
fn static_pods(view: &View<'_>, status: bool) -> Vec<Resource> {
    let Some(node) = view.node() else { return vec![] };
    node.static_pods()
        .filter(|(_, pod)| !status || pod.version > 1 || pod.is_ready(view.now))
        .map(|(component, pod)| {
            let image = &pod.image;
            let (id, owner, tree) = if status {
                let ready = |kind: &str| pod.is_ready(view.now) || !kind.ends_with("Ready");
                let status = |kind: &str| if ready(kind) { "True" } else { "False" };
                let condition =
                    |kind: &str| json!({"type": kind, "status": status(kind), "lastProbeTime": null});
                let kinds =
                    ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"];
                let tree = json!({"phase": "Running", "conditions": kinds.map(condition)});
                let id = format!("kube-system/{component}-{}", view.machine.hostname());
                (id, "k8s.KubeletStaticPodController", tree)
            } else {
                let tree = json!({
                    "apiVersion": "v1", "kind": "Pod",
                    "metadata": {
                        "name": component, "namespace": "kube-system",
                        "annotations": {"talos.dev/config-version": pod.version.to_string()},
                        "labels": {"k8s-app": component, "tier": "control-plane"},
                    },
                    "spec": {"containers": [{"name": component, "image": image}], "hostNetwork": true},
                });
                (component.to_owned(), "k8s.ControlPlaneStaticPodController", tree)
            };
            let yaml = crate::talos_api::encode::yaml(&tree, "");
            let mut bytes = vec![];
            crate::talos_api::encode::delimited(1, &structure(&tree), &mut bytes);
            Resource::both(id, owner, yaml, bytes)
        })
        .collect()
}
