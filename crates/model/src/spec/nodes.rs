//! Pools, nodes, and what can be said of both alike.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ExtraNic, ExtraRange, Hardware, ImageOverride, NicOverride, Patch, Written, is_default};

/// The part a node plays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Runs etcd and the Kubernetes control plane.
    ControlPlane,
    /// Runs workloads.
    Worker,
}

impl std::fmt::Display for Role {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::ControlPlane => "controlplane",
            Self::Worker => "worker",
        })
    }
}

/// What a node is beside its hardware. Labels, annotations, taints, kubelet arguments, tags and patches of a node are added
/// to those of its pool and of its role's defaults; anything else nearer to the node wins.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Traits {
    /// Other versions than the cluster's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub versions: Option<NodeVersions>,
    /// Another image than the cluster's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<ImageOverride>,
    /// A GPU that is passed through with `pci`: its driver comes into the image and is loaded. With a schematic
    /// file the extensions are yours to name in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<Gpu>,
    /// What differs on the first network device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<NicOverride>,
    /// Kubernetes labels.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Kubernetes annotations.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// Kubernetes taints: `VALUE:EFFECT` or `:EFFECT` by key, the effect being `NoSchedule`, `PreferNoSchedule` or
    /// `NoExecute`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("examples" = [{ "gpu": "true:NoSchedule" }]))]
    pub taints: BTreeMap<String, String>,
    /// More arguments of the kubelet, by name without the dashes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("examples" = [{ "rotate-server-certificates": "true" }]))]
    pub kubelet_args: BTreeMap<String, String>,
    /// Tags of the VM in Proxmox.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// A note for people, shown in Proxmox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Changes of the Talos configuration.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub patches: Vec<Patch>,
}

/// A GPU, by the driver that it needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Gpu {
    /// NVIDIA, with the open kernel modules and the container toolkit.
    Nvidia,
}

impl Gpu {
    /// The system extensions that it needs.
    #[must_use]
    pub fn extensions(self) -> &'static [&'static str] {
        match self {
            Self::Nvidia => &[
                "siderolabs/nvidia-container-toolkit-production",
                "siderolabs/nvidia-open-gpu-kernel-modules-production",
            ],
        }
    }
}

/// Versions of some nodes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NodeVersions {
    /// Talos version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub talos: Option<String>,
    /// Kubernetes version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubernetes: Option<String>,
}

/// Nodes that say nothing else.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Defaults {
    /// For control plane nodes.
    #[serde(default, skip_serializing_if = "is_default")]
    pub controlplane: RoleDefaults,
    /// For workers.
    #[serde(default, skip_serializing_if = "is_default")]
    pub worker: RoleDefaults,
}

impl Defaults {
    /// Those of one role.
    #[must_use]
    pub fn of(&self, role: Role) -> &RoleDefaults {
        match role {
            Role::ControlPlane => &self.controlplane,
            Role::Worker => &self.worker,
        }
    }
}

/// Nodes of one role that say nothing else.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RoleDefaults {
    /// Its hardware.
    #[serde(flatten)]
    pub hardware: Hardware,
    /// What else it is.
    #[serde(flatten)]
    pub traits: Traits,
}

/// A group of like nodes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Pool {
    /// What its nodes are.
    pub role: Role,
    /// How many.
    pub count: u32,
    /// Hardware by name, from `sizes`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<String>,
    /// The hosts that its nodes are put on. Default: all of `hosts`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
    /// How its nodes are shared between the hosts.
    #[serde(default, skip_serializing_if = "is_default")]
    pub placement: Placement,
    /// Addresses in order of the nodes: the first one, or first and last as `A-B`. One control-plane pool may leave it
    /// out and starts at .11, one worker pool starts at .21; every other pool names its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = ["10.25.150.31", "10.25.150.31-10.25.150.39"]))]
    pub addresses: Option<String>,
    /// VM ids in order of the nodes: the first one, or first and last as `A-B`. Default: they mirror the addresses, so
    /// 10.25.150.11 has VM id 150011.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vmids: Option<Written>,
    /// Addresses in extra networks, by the network's name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub networks: BTreeMap<String, ExtraRange>,
    /// Its hardware.
    #[serde(flatten)]
    pub hardware: Hardware,
    /// What else it is.
    #[serde(flatten)]
    pub traits: Traits,
}

/// How a pool's nodes are shared between hosts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Placement {
    /// Control plane nodes go where the fewest are; workers go round by the hosts' weights, the roomiest first.
    #[default]
    Spread,
    /// Node 1 on the first of `hosts`, node 2 on the second, and round again, in the order written.
    RoundRobin,
}

/// One node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
    /// Its VM id. Default: it mirrors the address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vmid: Option<u32>,
    /// MAC address of its network device. Default: derived from the names of cluster and node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mac: Option<String>,
    /// Its cards in extra networks, by the network's name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub networks: BTreeMap<String, ExtraNic>,
    /// A machine that is not ours to create: it is configured, but no VM is made for it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub external: bool,
    /// Disk that Talos installs itself to, such as `/dev/nvme0n1`, for an external machine that was started from an ISO or the
    /// network. What is on it is lost. Without the key, Talos is on the machine's disk already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub install_disk: Option<String>,
    /// What an external machine is known by before it receives the cluster's keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<NodeIdentity>,
    /// Sends the cluster's keys to an external machine that proves nothing: any machine that answers at its address receives them.
    #[serde(default, skip_serializing_if = "is_default")]
    pub unverified: bool,
    /// Hardware by name, from `sizes`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<String>,
    /// Its hardware.
    #[serde(flatten)]
    pub hardware: Hardware,
    /// What else it is.
    #[serde(flatten)]
    pub traits: Traits,
}

/// What an external machine is known by.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NodeIdentity {
    /// Fingerprint of the certificate that the machine shows in maintenance mode, from the last line `server certificate issued`
    /// on its console. It changes with every boot.
    #[schemars(extend("examples" = ["47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="]))]
    pub fingerprint: String,
}
