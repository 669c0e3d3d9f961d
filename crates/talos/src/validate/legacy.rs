//! Documents beside the fields that they replaced: each setting may stand in one place only.

use super::{Rules, has_text, set};
use crate::yaml::{Map, Value};

/// Documents and the v1alpha1 fields that may not stand beside them.
const REPLACED: &[(&str, &[&str])] = &[
    ("UnattendedInstallConfig", &["machine.install"]),
    ("KubeCoreDNSConfig", &["cluster.coreDNS"]),
    ("KubeletConfig", &["machine.kubelet"]),
    ("KubeCredentialProviderConfig", &["machine.kubelet"]),
    ("KubeAuditPolicyConfig", &["cluster.apiServer.auditPolicy"]),
    ("KubeAggregatorCAConfig", &["cluster.aggregatorCA"]),
    ("KubeEtcdEncryptionConfig", &["cluster.secretboxEncryptionSecret", "cluster.aescbcEncryptionSecret"]),
    ("KubeFlannelCNIConfig", &["cluster.network"]),
    ("KubeNetworkConfig", &["cluster.network"]),
    ("KubeClusterConfig", &["cluster.clusterName", "cluster.controlPlane.endpoint"]),
    ("KubePrismConfig", &["machine.features.kubePrism"]),
    ("KubeControllerManagerConfig", &["cluster.controllerManager"]),
    ("KubeSchedulerConfig", &["cluster.scheduler"]),
    ("KubeAPIServerCAConfig", &["cluster.ca"]),
    ("KubeAdmissionControlConfig", &["cluster.apiServer.admissionControl"]),
    ("KubeAuthorizerConfig", &["cluster.apiServer.admissionControl"]),
    ("KubeServiceAccountConfig", &["cluster.serviceAccount"]),
    ("KubeAPIServerConfig", &["cluster.apiServer", "cluster.controlPlane.localAPIServerPort"]),
    ("KubeTalosAPIAccessConfig", &["machine.features.kubernetesTalosAPIAccess"]),
    (
        "KubeNodeConfig",
        &[
            "cluster.allowSchedulingOnControlPlanes",
            "cluster.allowSchedulingOnMasters",
            "machine.kubelet.skipNodeRegistration",
            "machine.kubelet.registerWithFQDN",
            "machine.kubelet.nodeIP",
            "machine.nodeLabels",
            "machine.nodeAnnotations",
            "machine.nodeTaints",
        ],
    ),
    ("KubeProxyConfig", &["cluster.proxy"]),
    ("DiscoveryIdentityConfig", &["cluster.id", "cluster.secret"]),
    ("DiscoveryServiceConfig", &["cluster.discovery"]),
    ("KubeSpanConfig", &["machine.network.kubespan"]),
];

impl Rules<'_> {
    pub(super) fn beside_v1alpha1(&mut self) {
        let Some(legacy) = self.legacy() else { return };
        for (kind, fields) in REPLACED {
            let Some(document) = self.documents.kind(kind) else { continue };
            for field in fields.iter().filter(|field| is_set(legacy, field)) {
                self.in_document(
                    document,
                    "kind",
                    format!("cannot stand beside {field}; take one of them out"),
                );
            }
        }
        if let Some(document) = self.documents.kind("HostnameConfig") {
            if has_text(legacy, "machine.network.hostname") {
                self.in_document(document, "kind", "cannot stand beside machine.network.hostname");
            }
            if set(legacy, "machine.features.stableHostname") == Some(&Value::Bool(true)) {
                self.in_document(document, "kind", "cannot stand beside machine.features.stableHostname");
            }
        }
        if let Some(document) = self.documents.kind("TimeSyncConfig")
            && !legacy.texts("machine.time.servers").is_empty()
            && !document.texts("ntp.servers").is_empty()
        {
            self.in_document(document, "ntp.servers", "cannot stand beside machine.time.servers");
        }
        self.encryption_of_etcd(legacy);
    }

    /// A control plane with Kubernetes must encrypt what it keeps, since 1.14 says so.
    fn encryption_of_etcd(&mut self, legacy: &Map) {
        let has_authority =
            set(legacy, "cluster.ca").is_some() || self.documents.kind("KubeAPIServerCAConfig").is_some();
        if self.minor < 14 || !has_authority {
            return;
        }
        let encrypts = has_text(legacy, "cluster.secretboxEncryptionSecret")
            || has_text(legacy, "cluster.aescbcEncryptionSecret")
            || self.documents.kind("KubeEtcdEncryptionConfig").is_some();
        if self.is_control_plane() && !encrypts {
            self.problem("KubeEtcdEncryptionConfig", "is missing on a control plane");
        }
        let has_cluster = set(legacy, "cluster.controlPlane.endpoint").is_some()
            || self.documents.kind("KubeClusterConfig").is_some();
        if !has_cluster {
            self.problem("KubeClusterConfig", "is missing: the cluster's name and endpoint");
        }
    }
}

/// Whether a field holds something: a text that is not empty, or any other value.
fn is_set(legacy: &Map, path: &str) -> bool {
    match set(legacy, path) {
        None => false,
        Some(Value::Text(text)) => !text.is_empty(),
        Some(Value::List(list)) => !list.is_empty(),
        Some(Value::Int(number)) => *number != 0,
        Some(_) => true,
    }
}
