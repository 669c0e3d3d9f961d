//! Kubernetes itself: networks, CNI plugin, what runs by default, certificates, registries, log-in.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::is_default;

/// Kubernetes itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Kubernetes {
    /// Network of the pods.
    pub pod_cidr: String,
    /// Network of the services.
    pub service_cidr: String,
    /// DNS domain inside the cluster.
    pub dns_domain: String,
    /// Let workloads run on control plane nodes.
    pub schedule_on_control_planes: bool,
    /// Network plug-in: `flannel`, `none`, `cilium`, or a mapping with more.
    #[serde(skip_serializing_if = "is_default")]
    pub cni: Cni,
    /// Run kube-proxy. Turn it off where the CNI plugin does its work.
    #[serde(skip_serializing_if = "is_true")]
    pub kube_proxy: bool,
    /// Run CoreDNS. Turn it off where you bring your own.
    #[serde(skip_serializing_if = "is_true")]
    pub coredns: bool,
    /// More names and addresses for the certificates of the Kubernetes and Talos APIs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cert_sans: Vec<String>,
    /// Folders of the node that the kubelet may hand to pods.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub extra_mounts: Vec<Mount>,
    /// Storage that the cluster will use: what each kind needs comes into the image of every node. You install the storage
    /// itself. With a schematic file the extensions are yours to name in it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub storage: Vec<Storage>,
    /// Where images are pulled from instead, by registry.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub registry_mirrors: BTreeMap<String, RegistryMirror>,
    /// Log-in by OpenID Connect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oidc: Option<Oidc>,
}

impl Default for Kubernetes {
    fn default() -> Self {
        Self {
            pod_cidr: "10.244.0.0/16".to_owned(),
            service_cidr: "10.96.0.0/12".to_owned(),
            dns_domain: "cluster.local".to_owned(),
            schedule_on_control_planes: false,
            cni: Cni::default(),
            kube_proxy: true,
            coredns: true,
            cert_sans: Vec::new(),
            extra_mounts: Vec::new(),
            storage: Vec::new(),
            registry_mirrors: BTreeMap::new(),
            oidc: None,
        }
    }
}

/// Storage, by what it needs on the nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Storage {
    /// Longhorn: `iscsi-tools`, `util-linux-tools`, and its folder `/var/lib/longhorn` where pods can reach it.
    Longhorn,
    /// Disks over iSCSI: `iscsi-tools`.
    Iscsi,
    /// NFS with locks: `nfs-utils`.
    Nfs,
}

impl Storage {
    /// The system extensions that it needs.
    #[must_use]
    pub fn extensions(self) -> &'static [&'static str] {
        match self {
            Self::Longhorn => &["siderolabs/iscsi-tools", "siderolabs/util-linux-tools"],
            Self::Iscsi => &["siderolabs/iscsi-tools"],
            Self::Nfs => &["siderolabs/nfs-utils"],
        }
    }

    /// The folder of the node that its pods work in, where it has one.
    #[must_use]
    pub fn folder(self) -> Option<&'static str> {
        match self {
            Self::Longhorn => Some("/var/lib/longhorn"),
            Self::Iscsi | Self::Nfs => None,
        }
    }
}

fn is_true(value: &bool) -> bool {
    *value
}

/// The CNI plugin: its name, or more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Cni {
    /// By name.
    Name(CniName),
    /// All that can be said.
    Details(CniDetails),
}

impl Default for Cni {
    fn default() -> Self {
        Self::Name(CniName::Flannel)
    }
}

impl Cni {
    /// The same as a mapping.
    #[must_use]
    pub fn details(&self) -> CniDetails {
        match self {
            Self::Name(name) => CniDetails { name: *name, ..CniDetails::default() },
            Self::Details(details) => details.clone(),
        }
    }
}

/// A CNI plugin.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CniName {
    /// What Talos brings.
    #[default]
    Flannel,
    /// None: you install one yourself, and nodes become ready only then.
    None,
    /// Cilium, by its chart.
    Cilium,
    /// Manifests from `urls`.
    Custom,
}

/// The CNI plugin.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CniDetails {
    /// Which one.
    pub name: CniName,
    /// Version of the chart, for Cilium. Default: 1.19.4.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Values of the chart, for Cilium.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub values: Map<String, Value>,
    /// File with values of the chart, for Cilium; `values` win over it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub values_file: Option<String>,
    /// Where the manifests are, for `custom`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub urls: Vec<String>,
}

/// A folder of the node that the kubelet may hand to pods.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Mount {
    /// The folder on the node.
    #[schemars(extend("examples" = ["/var/lib/longhorn"]))]
    pub source: String,
    /// Where the kubelet sees it. Default: the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destination: Option<String>,
    /// Options of the mount.
    #[serde(default = "bind_options")]
    pub options: Vec<String>,
}

fn bind_options() -> Vec<String> {
    ["bind", "rshared", "rw"].map(str::to_owned).to_vec()
}

/// Where images of one registry are pulled from instead.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RegistryMirror {
    /// URLs, tried in order, before the registry itself.
    #[schemars(extend("examples" = [["https://harbor.example.net/v2/docker"]]))]
    pub endpoints: Vec<String>,
    /// The URLs are complete: add no `/v2`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub override_path: bool,
    /// Never ask the registry itself.
    #[serde(default, skip_serializing_if = "is_default")]
    pub skip_fallback: bool,
}

/// Log-in by OpenID Connect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Oidc {
    /// URL of the issuer.
    #[schemars(extend("examples" = ["https://sso.example.net/application/o/kubectl/"]))]
    pub issuer: String,
    /// The client's id.
    #[schemars(extend("examples" = ["kubectl"]))]
    pub client: String,
    /// Claim that holds the user's name. Default: Kubernetes' default, `sub`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub username_claim: Option<String>,
    /// Prefix of user names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub username_prefix: Option<String>,
    /// Claim that holds the user's groups.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub groups_claim: Option<String>,
    /// Prefix of groups.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub groups_prefix: Option<String>,
}
