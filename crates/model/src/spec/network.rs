//! The networks that nodes live in, and what a pool or node says about its cards.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::is_default;

/// The network that the nodes live in. Its card is the first one; `extra` adds others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Network {
    /// The network, for example `10.25.150.0/24`.
    #[schemars(extend("examples" = ["10.25.150.0/24"]))]
    pub cidr: String,
    /// Default gateway.
    #[schemars(extend("examples" = ["10.25.150.1"]))]
    pub gateway: String,
    /// An address of this network that moves between the control plane nodes, so that the Kubernetes API outlives any one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = ["10.25.150.10"]))]
    pub vip: Option<String>,
    /// Bridge on the Proxmox hosts.
    #[serde(default = "default_bridge")]
    pub bridge: String,
    /// VLAN tag on that bridge, 1 to 4094.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vlan: Option<u32>,
    /// MTU of the nodes' network cards, 1280 to 65520. Default: that of the bridge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<u32>,
    /// Model of the network device.
    #[serde(default, skip_serializing_if = "is_default")]
    pub model: NicModel,
    /// Let a DHCP server give the nodes their addresses. With a reservation for its MAC address, a node is found at once where
    /// it is expected (`show` prints both); another address is asked of its guest agent, which the image must then have. Keep
    /// a `vip` or an `endpoint` that does not change.
    #[serde(default, skip_serializing_if = "is_default")]
    pub dhcp: bool,
    /// Name servers. Default: those of the Proxmox host.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dns: Vec<String>,
    /// Time servers. Default: Talos' own default.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ntp: Vec<String>,
    /// Routes beside the default one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<Route>,
    /// Further networks by name, one more card for each, in the order of their names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub extra: BTreeMap<String, ExtraNetwork>,
    /// Name of the extra network whose addresses the kubelets announce. Default: this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubelet: Option<String>,
    /// Name of the extra network that etcd's members talk over. Default: this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etcd: Option<String>,
}

/// A further network.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExtraNetwork {
    /// The network. Needed unless `dhcp` is true. A node has the same number in it as in the first network, unless it
    /// or its pool says otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = ["192.168.192.0/24"]))]
    pub cidr: Option<String>,
    /// Take addresses from a DHCP server.
    #[serde(default, skip_serializing_if = "is_default")]
    pub dhcp: bool,
    /// Bridge on the Proxmox hosts.
    #[serde(default = "default_bridge")]
    pub bridge: String,
    /// VLAN tag on that bridge, 1 to 4094.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vlan: Option<u32>,
    /// MTU, 1280 to 65520. Default: that of the bridge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<u32>,
    /// Model of the network device.
    #[serde(default, skip_serializing_if = "is_default")]
    pub model: NicModel,
    /// Routes through this network.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<Route>,
    /// The pools whose nodes have a card in it. Default: all nodes. A node that names it under `networks` has one too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pools: Vec<String>,
}

/// One route.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Route {
    /// Where it leads to: a network.
    #[schemars(extend("examples" = ["10.40.0.0/16"]))]
    pub to: String,
    /// The router, an address of the network that the route belongs to.
    pub via: String,
    /// The lower, the more preferred.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metric: Option<u32>,
}

/// Model of the network device, as Proxmox names it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum NicModel {
    /// The fastest, and what Talos knows best.
    #[default]
    Virtio,
    /// Intel gigabit.
    E1000,
    /// Intel gigabit, newer.
    E1000e,
    /// VMware's.
    Vmxnet3,
}

impl std::fmt::Display for NicModel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Virtio => "virtio",
            Self::E1000 => "e1000",
            Self::E1000e => "e1000e",
            Self::Vmxnet3 => "vmxnet3",
        })
    }
}

/// What differs on the first network device of some nodes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NicOverride {
    /// Bridge on the Proxmox hosts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bridge: Option<String>,
    /// VLAN tag on that bridge, 1 to 4094.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vlan: Option<u32>,
    /// MTU, 1280 to 65520.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<u32>,
    /// Model of the network device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<NicModel>,
    /// Name servers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dns: Vec<String>,
}

/// A node's card in an extra network.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExtraNic {
    /// Its address there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// MAC address of that card. Default: derived from the names of cluster, node and network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mac: Option<String>,
}

/// The addresses of a pool's nodes in an extra network.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExtraRange {
    /// Addresses in order of the nodes: the first one, or first and last as `A-B`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub addresses: Option<String>,
}

fn default_bridge() -> String {
    "vmbr0".to_owned()
}
