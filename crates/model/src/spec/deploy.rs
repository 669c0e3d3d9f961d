//! What comes after Kubernetes answers: manifests and GitOps.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Keys of a Talos configuration whose value is a secret, from the top.
pub(crate) const PATCH_SECRETS: &[&[&str]] = &[
    &["machine", "token"],
    &["machine", "ca", "key"],
    &["cluster", "token"],
    &["cluster", "secret"],
    &["cluster", "aescbcEncryptionSecret"],
    &["cluster", "secretboxEncryptionSecret"],
    &["cluster", "ca", "key"],
    &["cluster", "aggregatorCA", "key"],
    &["cluster", "serviceAccount", "key"],
    &["cluster", "etcd", "ca", "key"],
];

/// A change of the Talos configuration, by strategic merge: a file, a text, or the mapping itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Patch {
    /// Path of a file; or, with more than one line, the patch itself.
    Text(String),
    /// The patch itself.
    Inline(Map<String, Value>),
}

impl Patch {
    /// The file that holds it, where it does not stand here itself.
    #[must_use]
    pub fn file(&self) -> Option<&str> {
        match self {
            Self::Text(text) if !text.contains('\n') => Some(text),
            _ => None,
        }
    }
}

/// Manifests that Talos applies once Kubernetes answers. They do not change objects that exist already.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Manifests {
    /// Files.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
    /// URLs. Name a version in them: what a branch holds changes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub urls: Vec<String>,
    /// Manifests by name, as text.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub inline: BTreeMap<String, String>,
    /// Helm charts by release name, installed by a job in the cluster that runs once.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub helm: BTreeMap<String, Chart>,
    /// Image with the program `helm`, for the jobs that install charts. Default: `docker.io/alpine/helm:3.17.3`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub helm_image: Option<String>,
    /// The cloud controller manager for Proxmox.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proxmox_ccm: Option<Integration>,
    /// The storage driver for Proxmox.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proxmox_csi: Option<Integration>,
}

/// A Helm chart.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Chart {
    /// URL of the repository: `https://…` or `oci://…`.
    pub repository: String,
    /// Name of the chart. Default: the release's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chart: Option<String>,
    /// Version of the chart.
    pub version: String,
    /// Namespace. Default: the release's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Values.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub values: Map<String, Value>,
}

/// Something in the cluster that talks to Proxmox, with a user and token of its own. Where the file trusts Proxmox by a
/// fingerprint or an authority of your own, it is configured not to verify, because it has no way to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Integration {
    /// Version to install. Without the key, you install it, and only role, user and token are created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The role's name in Proxmox. Default: derived from the cluster's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// The user in Proxmox, `NAME@REALM`. Default: derived from the cluster's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Where an existing token is found: `env:NAME`, `file:PATH` or `cmd:COMMAND`. Default: one is created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
}

/// Hand-over to GitOps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GitOps {
    /// Which one.
    pub engine: GitOpsEngine,
    /// URL of the repository.
    #[schemars(extend("examples" = ["https://git.example.net/me/cluster.git"]))]
    pub repository: String,
    /// Branch, tag or commit.
    #[serde(default = "default_revision")]
    pub revision: String,
    /// Folder in the repository.
    #[serde(default = "default_path")]
    pub path: String,
    /// Namespace of the engine itself. Default: `flux-system` or `argocd`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Version of the engine's chart. Default: 2.18.2 of Flux, 9.2.3 of Argo CD.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chart_version: Option<String>,
    /// Namespace that what is found there goes to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destination_namespace: Option<String>,
    /// Where the repository's credentials are found: `env:NAME`, `file:PATH` or `cmd:COMMAND`. A token, `USER:PASSWORD`, or
    /// an SSH key with the server's lines of `known_hosts` behind it. Reading is enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials: Option<String>,
}

/// A GitOps engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum GitOpsEngine {
    /// Flux.
    Flux,
    /// Argo CD.
    Argocd,
}

fn default_revision() -> String {
    "main".to_owned()
}

fn default_path() -> String {
    ".".to_owned()
}
