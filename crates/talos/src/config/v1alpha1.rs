//! The v1alpha1 document.
//!
//! Up to 1.13 it holds nearly everything; from 1.14 on only what has no document of its own yet.

use base64::{Engine as _, engine::general_purpose::STANDARD};

use super::{Cni, Input};
use crate::secrets::{Bundle, EtcdEncryption, KeyPair};
use crate::yaml::{Map, Value, map};

/// The label that keeps load balancers away from control planes.
pub(super) const NO_LOAD_BALANCER: &str = "node.kubernetes.io/exclude-from-external-load-balancers";

/// The port of KubePrism on each node.
pub(super) const KUBE_PRISM_PORT: u16 = 7445;

/// The whole document.
pub(super) fn v1alpha1(bundle: &Bundle, input: &Input) -> Map {
    map([
        ("version", "v1alpha1".into()),
        ("debug", false.into()),
        ("persist", true.into()),
        ("machine", machine(bundle, input).into()),
        ("cluster", cluster(bundle, input).into()),
    ])
}

fn machine(bundle: &Bundle, input: &Input) -> Map {
    let machine = map([
        ("type", input.role.as_str().into()),
        ("token", bundle.machine_token.expose().into()),
        ("ca", authority(&bundle.os, input.is_control_plane())),
        ("certSANs", Value::texts(&input.cert_sans)),
    ]);
    if input.contract.kubernetes_documents() {
        return machine.with("features", map([("diskQuotaSupport", true.into())]));
    }
    let registries = (!input.contract.network_documents() && !input.registry_mirrors.is_empty()).then(|| {
        let mirrors = input.registry_mirrors.iter();
        let mirrors =
            mirrors.map(|(host, urls)| (host.clone(), map([("endpoints", Value::texts(urls))]).into()));
        map([("mirrors", mirrors.collect::<Map>().into())])
    });
    machine
        .with("kubelet", kubelet(input))
        .with_some("network", input.contract.empty_network().then(Map::new))
        .with("install", install(input))
        .with_some("sysctls", (!input.sysctls.is_empty()).then_some(&input.sysctls))
        .with_some("registries", registries)
        .with("features", features(input))
        .with_some("nodeLabels", input.is_control_plane().then(|| map([(NO_LOAD_BALANCER, "".into())])))
}

fn kubelet(input: &Input) -> Map {
    let mounts = input.extra_mounts.iter().map(|mount| {
        map([
            ("destination", mount.destination.as_str().into()),
            ("type", mount.kind.as_str().into()),
            ("source", mount.source.as_str().into()),
            ("options", Value::texts(&mount.options)),
        ])
        .into()
    });
    map([("image", input.kubelet_image().into())])
        .with_some("clusterDNS", (!input.cluster_dns.is_empty()).then(|| Value::texts(&input.cluster_dns)))
        .with_some("extraMounts", (!input.extra_mounts.is_empty()).then(|| Value::List(mounts.collect())))
        .with("defaultRuntimeSeccompProfileEnabled", true)
        .with("disableManifestsDirectory", true)
}

fn install(input: &Input) -> Map {
    let arguments = &input.extra_kernel_args;
    Map::new()
        .with_some("disk", input.install_disk.as_deref())
        .with_some("extraKernelArgs", (!arguments.is_empty()).then(|| Value::texts(arguments)))
        .with_some("image", input.install_image.as_deref())
        .with("wipe", false)
        .with_some("grubUseUKICmdline", input.contract.network_documents().then_some(true))
}

fn features(input: &Input) -> Map {
    let mut features = Map::new();
    if !input.contract.network_documents() {
        for always_on_later in ["rbac", "stableHostname", "apidCheckExtKeyUsage"] {
            features.insert(always_on_later, true);
        }
    }
    features
        .with("diskQuotaSupport", true)
        .with("kubePrism", map([("enabled", true.into()), ("port", KUBE_PRISM_PORT.into())]))
        .with("hostDNS", map([("enabled", true.into()), ("forwardKubeDNSToHost", true.into())]))
}

fn cluster(bundle: &Bundle, input: &Input) -> Map {
    let control_plane = input.is_control_plane();
    let etcd = control_plane.then(|| map([("ca", authority(&bundle.etcd, true))]));
    let token = bundle.bootstrap_token.expose();
    if input.contract.kubernetes_documents() {
        return map([("token", token.into())]).with_some("etcd", etcd);
    }
    let port = input.local_api_port.filter(|_| control_plane);
    let cluster = map([
        ("id", bundle.cluster_id.as_str().into()),
        ("secret", bundle.cluster_secret.expose().into()),
        (
            "controlPlane",
            map([("endpoint", input.endpoint.as_str().into())]).with_some("localAPIServerPort", port).into(),
        ),
        ("clusterName", input.cluster_name.as_str().into()),
        ("network", network(input).into()),
        ("token", token.into()),
    ]);
    let discovery = map([
        ("enabled", input.discovery.into()),
        (
            "registries",
            map([("kubernetes", map([("disabled", true.into())]).into()), ("service", Map::new().into())])
                .into(),
        ),
    ]);
    if !control_plane {
        return cluster.with("ca", authority(&bundle.kubernetes, false)).with("discovery", discovery);
    }
    let (encryption, key) = match &bundle.etcd_encryption {
        EtcdEncryption::Secretbox(key) => ("secretboxEncryptionSecret", key),
        EtcdEncryption::AesCbc(key) => ("aescbcEncryptionSecret", key),
    };
    let image = |name| map([("image", input.kubernetes_image(name).into())]);
    cluster
        .with(encryption, key.expose())
        .with("ca", authority(&bundle.kubernetes, true))
        .with("aggregatorCA", authority(&bundle.aggregator, true))
        .with("serviceAccount", map([("key", STANDARD.encode(bundle.service_account.expose()).into())]))
        .with("apiServer", api_server(input))
        .with("controllerManager", image("kube-controller-manager"))
        .with("proxy", image("kube-proxy").with_some("disabled", (!input.kube_proxy).then_some(true)))
        .with("scheduler", image("kube-scheduler"))
        .with("discovery", discovery)
        .with_some("etcd", etcd)
        .with_some("coreDNS", (!input.core_dns).then(|| map([("disabled", true.into())])))
        .with_some("allowSchedulingOnControlPlanes", input.allow_scheduling_on_control_planes.then_some(true))
}

fn network(input: &Input) -> Map {
    let cni = match &input.cni {
        Cni::Flannel => None,
        Cni::None => Some(map([("name", "none".into())])),
        Cni::Custom(urls) => Some(map([("name", "custom".into()), ("urls", Value::texts(urls))])),
    };
    Map::new()
        .with_some("cni", cni)
        .with("dnsDomain", input.dns_domain.as_str())
        .with("podSubnets", Value::texts(&input.pod_subnets))
        .with("serviceSubnets", Value::texts(&input.service_subnets))
}

fn api_server(input: &Input) -> Map {
    let old = !input.contract.network_documents();
    let endpoint = input.endpoint_host().filter(|_| old).map(str::to_owned);
    let names: Vec<String> = endpoint.into_iter().chain(input.cert_sans.iter().cloned()).collect();
    let admission = map([("name", "PodSecurity".into()), ("configuration", pod_security().into())]);
    map([("image", input.kubernetes_image("kube-apiserver").into())])
        .with_some("certSANs", (!names.is_empty()).then(|| Value::texts(&names)))
        .with_some("disablePodSecurityPolicy", old.then_some(true))
        .with("admissionControl", Value::List(vec![admission.into()]))
        .with("auditPolicy", audit_policy())
}

/// Baseline is enforced everywhere but in `kube-system`; what is not restricted is warned about and audited.
pub(super) fn pod_security() -> Map {
    let defaults = [
        ("audit", "restricted"),
        ("audit-version", "latest"),
        ("enforce", "baseline"),
        ("enforce-version", "latest"),
        ("warn", "restricted"),
        ("warn-version", "latest"),
    ];
    let defaults: Map = defaults.into_iter().map(|(key, value)| (key.to_owned(), value.into())).collect();
    let exemptions = map([
        ("namespaces", Value::List(vec!["kube-system".into()])),
        ("runtimeClasses", Value::List(Vec::new())),
        ("usernames", Value::List(Vec::new())),
    ]);
    map([
        ("apiVersion", "pod-security.admission.config.k8s.io/v1alpha1".into()),
        ("defaults", defaults.into()),
        ("exemptions", exemptions.into()),
        ("kind", "PodSecurityConfiguration".into()),
    ])
}

/// Who did what, without the contents.
pub(super) fn audit_policy() -> Map {
    map([
        ("apiVersion", "audit.k8s.io/v1".into()),
        ("kind", "Policy".into()),
        ("rules", Value::List(vec![map([("level", "Metadata".into())]).into()])),
    ])
}

/// An authority in base64; its key only for those who issue certificates.
fn authority(pair: &KeyPair, with_key: bool) -> Value {
    let key = if with_key { STANDARD.encode(pair.key.expose()) } else { String::new() };
    map([("crt", STANDARD.encode(&pair.certificate).into()), ("key", key.into())]).into()
}
