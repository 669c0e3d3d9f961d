//! The documents that hold Kubernetes since 1.14. Certificates and keys stand in them as plain PEM.

use super::{
    Cni, Input,
    documents::document,
    v1alpha1::{KUBE_PRISM_PORT, NO_LOAD_BALANCER, audit_policy, pod_security},
};
use crate::secrets::{Bundle, EtcdEncryption, KeyPair};
use crate::yaml::{Map, Value, map};

/// What every machine has.
pub(super) fn common(bundle: &Bundle, input: &Input) -> Vec<Map> {
    let authority = document("KubeAPIServerCAConfig");
    vec![
        document("KubeClusterConfig")
            .with("clusterName", input.cluster_name.as_str())
            .with("endpoint", input.endpoint.as_str()),
        node(input),
        document("KubeletConfig")
            .with("image", input.kubelet_image())
            .with("config", Map::new())
            .with_some(
                "clusterDNS",
                (!input.cluster_dns.is_empty()).then(|| Value::texts(&input.cluster_dns)),
            )
            .with("defaultRuntimeSeccompProfileEnabled", true),
        document("KubeNetworkConfig")
            .with("dnsDomain", input.dns_domain.as_str())
            .with("podSubnets", Value::texts(&input.pod_subnets))
            .with("serviceSubnets", Value::texts(&input.service_subnets)),
        if input.is_control_plane() {
            authority.with("issuingCA", issuing(&bundle.kubernetes))
        } else {
            authority.with("acceptedCAs", Value::List(vec![bundle.kubernetes.certificate.as_str().into()]))
        },
        document("KubePrismConfig").with("port", KUBE_PRISM_PORT),
    ]
}

/// What control planes have on top.
pub(super) fn control_plane(bundle: &Bundle, input: &Input) -> Vec<Map> {
    let authorizer =
        |name: &str, kind: &str| document("KubeAuthorizerConfig").with("name", name).with("type", kind);
    let image = |kind, name| document(kind).with("image", input.kubernetes_image(name));
    let sans = (!input.cert_sans.is_empty()).then(|| Value::texts(&input.cert_sans));
    let issuer = map([
        ("privateKey", bundle.service_account.expose().into()),
        ("issuerURL", input.endpoint.as_str().into()),
    ]);
    let proxy = document("KubeProxyConfig")
        .with_some("enabled", (!input.kube_proxy).then_some(false))
        .with("image", input.kubernetes_image("kube-proxy"));
    let mut documents = vec![
        document("KubeAggregatorCAConfig").with("issuingCA", issuing(&bundle.aggregator)),
        document("KubeAdmissionControlConfig")
            .with("name", "PodSecurity")
            .with("configuration", pod_security()),
        document("KubeAuditPolicyConfig").with("configuration", audit_policy()),
        document("KubeAuthenticationConfig").with("configuration", authentication()),
        authorizer("node", "Node"),
        authorizer("rbac", "RBAC"),
        document("KubeEtcdEncryptionConfig").with("config", etcd_encryption(&bundle.etcd_encryption)),
        document("KubeServiceAccountConfig").with("issuer", issuer),
        image("KubeAPIServerConfig", "kube-apiserver")
            .with_some("apiPort", input.local_api_port)
            .with_some("certExtraSANs", sans),
        image("KubeControllerManagerConfig", "kube-controller-manager"),
        image("KubeSchedulerConfig", "kube-scheduler").with("config", Map::new()),
        proxy.with("config", Map::new()),
    ];
    if input.cni == Cni::Flannel {
        documents.push(
            document("KubeFlannelCNIConfig").with("backendType", "vxlan").with("backendPort", 4789_u16),
        );
    }
    documents.push(document("KubeCoreDNSConfig").with("enabled", input.core_dns));
    if let Cni::Custom(urls) = &input.cni {
        for (index, url) in urls.iter().enumerate() {
            let name = if index == 0 { "custom-cni".to_owned() } else { format!("custom-cni-{}", index + 1) };
            documents
                .push(document("KubeExternalManifestConfig").with("name", name).with("url", url.as_str()));
        }
    }
    documents
}

fn node(input: &Input) -> Map {
    const CONTROL_PLANE: &str = "node-role.kubernetes.io/control-plane";
    let node = document("KubeNodeConfig").with("nodeIP", Map::new());
    if !input.is_control_plane() {
        return node;
    }
    let taints =
        (!input.allow_scheduling_on_control_planes).then(|| map([(CONTROL_PLANE, "NoSchedule".into())]));
    node.with("labels", map([(CONTROL_PLANE, "".into()), (NO_LOAD_BALANCER, "".into())]))
        .with_some("taints", taints)
}

fn issuing(pair: &KeyPair) -> Map {
    map([("cert", pair.certificate.as_str().into()), ("key", pair.key.expose().into())])
}

/// No anonymous requests, except for the probes.
fn authentication() -> Map {
    let conditions = ["/livez", "/readyz", "/healthz"].map(|path| map([("path", path.into())]).into());
    let anonymous = map([("conditions", Value::List(conditions.into())), ("enabled", true.into())]);
    map([("anonymous", anonymous.into()), ("jwt", Value::List(Vec::new()))])
}

fn etcd_encryption(encryption: &EtcdEncryption) -> Map {
    let (provider, name, key) = match encryption {
        EtcdEncryption::Secretbox(key) => ("secretbox", "key2", key),
        EtcdEncryption::AesCbc(key) => ("aescbc", "key1", key),
    };
    let key = map([("name", name.into()), ("secret", key.expose().into())]);
    let provider = map([(provider, map([("keys", Value::List(vec![key.into()]))]).into())]);
    let resource = map([
        ("providers", Value::List(vec![provider.into()])),
        ("resources", Value::List(vec!["secrets".into()])),
    ]);
    map([("resources", Value::List(vec![resource.into()]))])
}
