//! The cluster file's types: what people write.
//!
//! The doc comments here are the descriptions in the JSON Schema, so they speak to the person who writes a file. Values
//! with a grammar of their own (addresses, sizes, versions) are plain strings: they are read in [`crate::check`], where
//! all that is wrong can be said at once. Maps are sorted by name, so the order in a file never matters.

mod backup;
mod changes;
mod deploy;
mod hardware;
mod image;
mod kubernetes;
mod network;
mod nodes;
mod reference;

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

pub use backup::{Backup, Keep};
pub use changes::{ApiOutage, Changes, Day, DrainDeletes, HealthGate, Window};
pub(crate) use deploy::PATCH_SECRETS;
pub use deploy::{Chart, GitOps, GitOpsEngine, Integration, Manifests, Patch};
pub use hardware::{
    Bios, BootDisk, BootDiskDetails, Bus, Cache, Cpu, CpuDetails, DataDisk, Hardware, Memory, MemoryDetails,
    Pci, PciDetails, Startup,
};
pub use image::{Arch, Delivery, Image, ImageOverride};
pub use kubernetes::{Cni, CniDetails, CniName, Kubernetes, Mount, Oidc, RegistryMirror, Storage};
pub use network::{ExtraNetwork, ExtraNic, ExtraRange, Network, NicModel, NicOverride, Route};
pub use nodes::{
    Defaults, Gpu, Node, NodeIdentity, NodeVersions, Placement, Pool, Role, RoleDefaults, Traits,
};
pub use reference::{DEFAULT_TOKEN, Reference, ReferenceError};

use crate::releases;

/// A Talos Linux Kubernetes cluster on Proxmox VE.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// Name of the cluster: lower case letters, digits and `-`. VM names start with it.
    #[schemars(extend("examples" = ["home"]))]
    pub cluster: String,
    /// Versions of Talos and Kubernetes. They are never chosen for you: the same file makes the same cluster.
    pub versions: Versions,
    /// How to reach Proxmox VE, and how our VMs stand there. Only a cluster of `external` machines needs none.
    #[serde(default, skip_serializing_if = "is_default")]
    pub proxmox: Proxmox,
    /// The network that the nodes live in.
    pub network: Network,
    /// The Proxmox hosts that may carry nodes, by name. Default: every host that is online.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub hosts: BTreeMap<String, Host>,
    /// The Talos image that the nodes boot.
    #[serde(default, skip_serializing_if = "is_default")]
    pub image: Image,
    /// Hardware by name, for pools and nodes to refer to.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sizes: BTreeMap<String, Hardware>,
    /// What holds for nodes that say nothing else, by role.
    #[serde(default, skip_serializing_if = "is_default")]
    pub defaults: Defaults,
    /// Groups of like nodes, by name. Their nodes are called `CLUSTER-POOL-1`, `-2` and so on.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub pools: BTreeMap<String, Pool>,
    /// Nodes one by one, by name. A name that a pool makes refines that one node.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub nodes: BTreeMap<String, Node>,
    /// Kubernetes itself.
    #[serde(default, skip_serializing_if = "is_default")]
    pub kubernetes: Kubernetes,
    /// Manifests that are applied once Kubernetes answers.
    #[serde(default, skip_serializing_if = "is_default")]
    pub manifests: Manifests,
    /// Hand-over to Flux or Argo CD.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gitops: Option<GitOps>,
    /// Changes of the Talos configuration of all nodes. Those of a role stand under `defaults`, those of a pool or node
    /// there; they are applied in that order. In values and keys, variables stand for what the node has: `${node.name}`, `${node.role}`,
    /// `${node.pool}`, `${node.address}`, `${node.cidr}`, `${node.gateway}`, `${node.mac}`, `${node.host}`, `${node.vmid}`,
    /// `${node.talos}`, `${node.kubernetes}`, `${cluster.name}`, `${cluster.endpoint}` and `${cluster.vip}`; `$${node.name}` is the
    /// text itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub patches: Vec<Patch>,
    /// How running nodes are changed.
    #[serde(default, skip_serializing_if = "is_default")]
    pub changes: Changes,
    /// Backups of etcd. Default: none are made, and `apply` saves a snapshot next to the file before it removes or upgrades a member of etcd.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backup: Option<Backup>,
    /// Where the Kubernetes API is reached, if not at the VIP or the first control plane node: `https://HOST:6443`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = ["https://k8s.example.net:6443"]))]
    pub endpoint: Option<String>,
    /// Refuses `destroy` as long as this is true.
    #[serde(default, skip_serializing_if = "is_default")]
    pub protect: bool,
}

const CONTRACT: &str = "Configuration contract, {contract}: the Talos release whose defaults machine configs follow. Default: for a \
                        new cluster that of `talos`, for one that runs the one that its machine configs follow, so that an upgrade \
                        of Talos changes nothing else.";

/// Versions, with or without the leading `v`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Versions {
    /// Talos version, one that is supported ([`crate::releases`]).
    #[schemars(description = releases::fill_in("Talos version, {talos}."))]
    #[schemars(extend("examples" = ["v1.13.9"]))]
    pub talos: String,
    /// Kubernetes version, one that this Talos supports.
    #[schemars(extend("examples" = ["v1.35.4"]))]
    pub kubernetes: String,
    /// Configuration contract: the Talos release whose defaults new configurations follow ([`crate::releases`]). Default: that of
    /// `talos`.
    #[schemars(description = releases::fill_in(CONTRACT))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = ["v1.12"]))]
    pub contract: Option<String>,
    /// Patch releases that an upgrade stops at on its way, instead of the newest ones that Talosmith knows. At most one for each minor.
    #[serde(default, skip_serializing_if = "Via::is_empty")]
    pub via: Via,
}

/// Stops on the way of an upgrade.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Via {
    /// Talos versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("examples" = [["v1.13.9"]]))]
    pub talos: Vec<String>,
    /// Kubernetes versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("examples" = [["v1.36.3"]]))]
    pub kubernetes: Vec<String>,
}

impl Via {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// How to reach Proxmox VE, and how our VMs stand there.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Proxmox {
    /// The API: `https://HOST:8006`. Give this or `endpoints`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = ["https://pve1:8006"]))]
    pub endpoint: Option<String>,
    /// Several hosts of the same Proxmox cluster, tried in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub endpoints: Vec<String>,
    /// Where the API token is found, never the token itself: `env:NAME`, `file:PATH` or `cmd:COMMAND`. The token reads
    /// `USER@REALM!NAME=SECRET`. Default: `env:PROXMOX_VE_API_TOKEN`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = ["env:PROXMOX_VE_API_TOKEN"]))]
    pub token: Option<String>,
    /// SHA-256 fingerprint of the server's certificate, as the Proxmox web page shows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<String>,
    /// Fingerprints of several hosts: each host of a Proxmox cluster has a certificate of its own, and any of these is
    /// accepted. Give one for each of `endpoints`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fingerprints: Vec<String>,
    /// File with the authority that signed the server's certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<String>,
    /// Do not verify the server's certificate at all. Anyone in between can read the token.
    #[serde(default, skip_serializing_if = "is_default")]
    pub insecure: bool,
    /// Resource pool that our VMs are put in. It must exist.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
    /// Tags for every VM, beside `talosmith`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Value of the label `topology.kubernetes.io/region` on the nodes: what this Proxmox cluster is called in Kubernetes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// How a new machine proves that it is the VM that Talosmith created, before it receives the cluster's keys. `console`: its
    /// certificate must be the one that Talos prints on the VM's serial console. `uuid`: it claims the VM's SMBIOS UUID, which a
    /// relay in the network can pass on. Default: `console` where the token has VM.Console and the VM has a serial port;
    /// otherwise `uuid`, and the plan warns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<Identity>,
    /// VM id of the cluster record VM, a stopped VM without disks. Default: it mirrors the VIP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record: Option<u32>,
}

impl Proxmox {
    /// Every fingerprint that the server's certificate may have.
    pub fn pins(&self) -> impl Iterator<Item = &str> {
        self.fingerprint.iter().chain(&self.fingerprints).map(String::as_str)
    }

    /// Whether the server's certificate is trusted by its fingerprint.
    #[must_use]
    pub fn is_pinned(&self) -> bool {
        self.pins().next().is_some()
    }
}

/// How a new machine proves which VM it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Identity {
    /// By the certificate that Talos prints on the VM's console.
    Console,
    /// By the UUID that it claims.
    Uuid,
}

/// One Proxmox host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Host {
    /// Which datastores to use. Default: chosen from those that Proxmox has.
    #[serde(default, skip_serializing_if = "is_default")]
    pub datastores: Datastores,
    /// Value of the label `topology.kubernetes.io/zone` on the nodes here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// Share of the workers, against other hosts, up to 100. 0: only what is put here by name.
    #[serde(default = "default_weight")]
    #[schemars(range(max = 100))]
    pub weight: u32,
}

impl Default for Host {
    fn default() -> Self {
        Self { datastores: Datastores::default(), zone: None, weight: default_weight() }
    }
}

/// Datastores of one host.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Datastores {
    /// Where the boot image is downloaded to; takes content `import`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// Where the nodes' disks lie; takes content `images`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disks: Option<String>,
    /// Where the small drives with the nodes' addresses lie; takes content `images`. Default: that of the disks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cloudinit: Option<String>,
}

/// A text or a number, as it was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Written(pub String);

impl JsonSchema for Written {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Written".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["string", "integer"] })
    }
}

impl JsonSchema for Role {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Role".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "What a node is: a control plane runs etcd and Kubernetes itself, a worker runs workloads.",
            "type": "string",
            "enum": ["controlplane", "worker"],
        })
    }
}

fn default_weight() -> u32 {
    1
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// The JSON Schema (2020-12) of the file.
#[must_use]
pub fn schema() -> serde_json::Value {
    let mut schema = schemars::schema_for!(Spec).to_value();
    // Types that share keys with others cannot say by themselves that they take no more.
    let types = schema.get_mut("$defs").and_then(serde_json::Value::as_object_mut);
    for one in types.into_iter().flatten().filter_map(|(_, one)| one.as_object_mut()) {
        if one.contains_key("properties") {
            one.remove("unevaluatedProperties");
            one.insert("additionalProperties".to_owned(), false.into());
        }
    }
    schema
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn the_schema_describes_every_key_and_refuses_others() {
        let schema = schema();
        assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
        let types = schema["$defs"].as_object().unwrap().iter().map(|(name, one)| (name.as_str(), one));
        let mut seen = 0;
        for (name, one) in types.chain([("Spec", &schema)]) {
            let Some(properties) = one.get("properties").and_then(Value::as_object) else { continue };
            assert_eq!(one["additionalProperties"], false, "{name}");
            for (key, property) in properties {
                assert!(property["description"].is_string(), "{name}.{key} has no description");
                seen += 1;
            }
        }
        assert!(seen > 50, "only {seen} keys were found");
    }

    #[test]
    fn defaults_are_in_the_schema() {
        let schema = schema();
        assert_eq!(schema.pointer("/$defs/Network/properties/bridge/default").unwrap(), "vmbr0");
        assert_eq!(schema.pointer("/$defs/Kubernetes/properties/pod_cidr/default").unwrap(), "10.244.0.0/16");
    }
}
