//! The cluster file's types: what people write.
//!
//! The doc comments here are the descriptions in the JSON Schema, so they speak to the person who writes a file. Values
//! with a grammar of their own (addresses, sizes, versions) are plain strings: they are read in [`crate::check`], where
//! all that is wrong can be said at once. Maps are sorted by name, so the order in a file never matters.

mod reference;

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

pub use reference::{DEFAULT_TOKEN, Reference, ReferenceError};

use crate::blueprint::Role;

/// A Talos Linux Kubernetes cluster on Proxmox VE.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// Name of the cluster: lower case letters, digits and `-`. VM names begin with it.
    #[schemars(extend("examples" = ["home"]))]
    pub cluster: String,
    /// Versions of Talos and Kubernetes. They are never chosen for you: the same file makes the same cluster.
    pub versions: Versions,
    /// How to reach Proxmox VE, and how our VMs stand there.
    pub proxmox: Proxmox,
    /// The network that the nodes live in.
    pub network: Network,
    /// The Proxmox hosts that may carry nodes, by name. Left out: every host that is online.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub hosts: BTreeMap<String, Host>,
    /// The Talos image that the nodes boot.
    #[serde(default, skip_serializing_if = "is_default")]
    pub image: Image,
    /// Hardware by name, for pools and nodes to refer to.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sizes: BTreeMap<String, Hardware>,
    /// Hardware of nodes that say nothing else, by role.
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
    /// Where the Kubernetes API is reached, when neither the VIP nor the first control plane shall be: `https://HOST:6443`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = ["https://k8s.example.net:6443"]))]
    pub endpoint: Option<String>,
    /// Refuses `destroy` as long as this is true.
    #[serde(default, skip_serializing_if = "is_default")]
    pub protect: bool,
}

/// Versions, with or without the leading `v`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Versions {
    /// Talos version, 1.12 to 1.14.
    #[schemars(extend("examples" = ["v1.13.9"]))]
    pub talos: String,
    /// Kubernetes version, one that this Talos supports.
    #[schemars(extend("examples" = ["v1.35.4"]))]
    pub kubernetes: String,
}

/// How to reach Proxmox VE, and how our VMs stand there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
    /// `USER@REALM!NAME=SECRET`. Left out: `env:PROXMOX_VE_API_TOKEN`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = ["env:PROXMOX_VE_API_TOKEN"]))]
    pub token: Option<String>,
    /// SHA-256 fingerprint of the server's certificate, as the Proxmox web page shows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<String>,
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
    /// VM id of the cluster's record, a stopped VM without disks. Left out: it mirrors the VIP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record: Option<u32>,
}

/// The network that the nodes live in. Addresses are static.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Network {
    /// The network, for example `10.25.150.0/24`.
    #[schemars(extend("examples" = ["10.25.150.0/24"]))]
    pub cidr: String,
    /// Default gateway.
    #[schemars(extend("examples" = ["10.25.150.1"]))]
    pub gateway: String,
    /// An address of this network that moves between the control planes, so that the Kubernetes API outlives any one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = ["10.25.150.10"]))]
    pub vip: Option<String>,
    /// Bridge on the Proxmox hosts.
    #[serde(default = "default_bridge")]
    pub bridge: String,
    /// VLAN tag on that bridge, 1 to 4094.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vlan: Option<u32>,
    /// MTU of the nodes' network cards, 1280 to 65520. Left out: that of the bridge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<u32>,
    /// Name servers. Left out: those of the Proxmox host.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dns: Vec<String>,
    /// Time servers. Left out: Talos' own default.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ntp: Vec<String>,
}

/// One Proxmox host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Host {
    /// Which datastores to use. Left out: chosen from those that Proxmox has.
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
}

/// The Talos image that the nodes boot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Image {
    /// Base URL of the Image Factory.
    pub factory: String,
    /// Official system extensions. The guest agent is among them unless you say otherwise.
    pub extensions: Vec<String>,
    /// Kernel arguments.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kernel_args: Vec<String>,
    /// Processor architecture.
    pub arch: Arch,
    /// File with the authority of a private Image Factory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca: Option<String>,
}

impl Default for Image {
    fn default() -> Self {
        Self {
            factory: "https://factory.talos.dev".to_owned(),
            extensions: vec!["siderolabs/qemu-guest-agent".to_owned()],
            kernel_args: Vec::new(),
            arch: Arch::Amd64,
            ca: None,
        }
    }
}

/// Processor architecture.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Arch {
    /// 64-bit x86.
    #[default]
    Amd64,
    /// 64-bit Arm.
    Arm64,
}

impl std::fmt::Display for Arch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Amd64 => "amd64",
            Self::Arm64 => "arm64",
        })
    }
}

/// Virtual hardware. What is left out comes from further out: a node's own keys, its size, its pool, the pool's size,
/// the defaults of its role, and last 2 cores, 4G and 20G for a control plane, 4 cores, 8G and 40G for a worker.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Hardware {
    /// CPU cores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<u32>,
    /// Memory: `8G`, `8192M`, or a plain number of MiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Written>,
    /// Boot disk: `32G`, or a plain number of GiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<Written>,
}

/// Hardware of nodes that say nothing else.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Defaults {
    /// For control planes.
    #[serde(default, skip_serializing_if = "is_default")]
    pub controlplane: Hardware,
    /// For workers.
    #[serde(default, skip_serializing_if = "is_default")]
    pub worker: Hardware,
}

/// A group of like nodes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Pool {
    /// What its nodes are.
    pub role: Role,
    /// How many.
    pub count: u32,
    /// Hardware by name, from `sizes`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<String>,
    /// The hosts that its nodes are spread over. Left out: all of `hosts`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
    /// CPU cores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<u32>,
    /// Memory: `8G`, `8192M`, or a plain number of MiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Written>,
    /// Boot disk: `32G`, or a plain number of GiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<Written>,
    /// Addresses in order of the nodes: the first one, or first and last as `A-B`. One control-plane pool may leave it
    /// out and begins at .11, one worker pool begins at .21; every other pool names its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = ["10.25.150.31", "10.25.150.31-10.25.150.39"]))]
    pub addresses: Option<String>,
    /// VM ids in order of the nodes: the first one, or first and last as `A-B`. Left out: they mirror the addresses, so
    /// 10.25.150.11 has VM id 150011.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vmids: Option<Written>,
    /// Kubernetes labels of its nodes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
}

/// One node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Node {
    /// What it is, when it belongs to no pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
    /// The pool it belongs to, beyond that pool's `count`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
    /// The Proxmox host it is created on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Its address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// Its VM id. Left out: it mirrors the address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vmid: Option<u32>,
    /// MAC address of its network card. Left out: derived from the names of cluster and node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mac: Option<String>,
    /// Hardware by name, from `sizes`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<String>,
    /// CPU cores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<u32>,
    /// Memory: `8G`, `8192M`, or a plain number of MiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Written>,
    /// Boot disk: `32G`, or a plain number of GiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<Written>,
    /// Kubernetes labels, added to those of its pool.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
}

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
    /// Let workloads run on control planes.
    pub schedule_on_control_planes: bool,
}

impl Default for Kubernetes {
    fn default() -> Self {
        Self {
            pod_cidr: "10.244.0.0/16".to_owned(),
            service_cidr: "10.96.0.0/12".to_owned(),
            dns_domain: "cluster.local".to_owned(),
            schedule_on_control_planes: false,
        }
    }
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

fn default_bridge() -> String {
    "vmbr0".to_owned()
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
    schemars::schema_for!(Spec).to_value()
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
