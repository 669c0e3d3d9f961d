//! The cluster as a whole: its version, nodes, resources, networks, and what the token may do.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::client::{Call, Client};
use crate::error::{Error, Kind, Result};
use crate::percent::encode;
use crate::scalar;

/// The version of the node that answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version {
    /// The whole text, such as `9.1.8`.
    pub text: String,
    /// The first number.
    pub major: u32,
    /// The second number.
    pub minor: u32,
}

/// A machine, node, storage, pool or network, as the cluster's overview lists it. Names and run states lag by ten seconds.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Resource {
    /// Unique, such as `qemu/100` or `storage/pve1/local`.
    pub id: String,
    /// `node`, `storage`, `pool`, `qemu`, `lxc`, `sdn` or `network`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The node it is on.
    #[serde(default, deserialize_with = "scalar::text")]
    pub node: Option<String>,
    /// The id of a machine.
    #[serde(default, deserialize_with = "scalar::number")]
    pub vmid: Option<u64>,
    /// The name of a machine. A new one has none for some seconds.
    #[serde(default, deserialize_with = "scalar::text")]
    pub name: Option<String>,
    /// `running`, `stopped`, `online`, `available`, `unknown`, …
    #[serde(default, deserialize_with = "scalar::text")]
    pub status: Option<String>,
    /// The resource pool it is in.
    #[serde(default, deserialize_with = "scalar::text")]
    pub pool: Option<String>,
    /// The tags of a machine.
    #[serde(default, deserialize_with = "scalar::list")]
    pub tags: Vec<String>,
    /// The lock of a machine.
    #[serde(default, deserialize_with = "scalar::text")]
    pub lock: Option<String>,
    /// Whether a machine is a template.
    #[serde(default, deserialize_with = "scalar::flag")]
    pub template: bool,
    /// How many processors it has.
    #[serde(default, deserialize_with = "scalar::fraction")]
    pub maxcpu: Option<f64>,
    /// Memory in bytes.
    #[serde(default, deserialize_with = "scalar::number")]
    pub maxmem: Option<u64>,
    /// Memory in use, in bytes.
    #[serde(default, deserialize_with = "scalar::number")]
    pub mem: Option<u64>,
    /// Size of the disk or storage in bytes.
    #[serde(default, deserialize_with = "scalar::number")]
    pub maxdisk: Option<u64>,
    /// Bytes in use on it.
    #[serde(default, deserialize_with = "scalar::number")]
    pub disk: Option<u64>,
    /// Seconds since it was started.
    #[serde(default, deserialize_with = "scalar::number")]
    pub uptime: Option<u64>,
    /// The name of a storage.
    #[serde(default, deserialize_with = "scalar::text")]
    pub storage: Option<String>,
    /// What a storage may hold.
    #[serde(default, deserialize_with = "scalar::list")]
    pub content: Vec<String>,
    /// The type of a storage.
    #[serde(default, deserialize_with = "scalar::text")]
    pub plugintype: Option<String>,
    /// Whether a storage is the same on all nodes.
    #[serde(default, deserialize_with = "scalar::flag")]
    pub shared: bool,
    /// What high availability says of a node (`online`, `maintenance`, …) or of a machine; nothing where it is not in use.
    #[serde(default, deserialize_with = "scalar::text")]
    pub hastate: Option<String>,
}

/// The cluster and its members.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterStatus {
    /// The cluster's name; a single node without a cluster has none.
    pub name: Option<String>,
    /// Whether changes are possible. A single node without a cluster always is.
    pub quorate: bool,
    /// The members.
    pub nodes: Vec<ClusterNode>,
}

/// A member of the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterNode {
    pub name: String,
    /// Its address in the cluster.
    pub ip: Option<String>,
    /// Whether it is there.
    pub online: bool,
    /// Whether it is the one that answered.
    pub local: bool,
}

/// A Proxmox node.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Node {
    /// Its name.
    pub node: String,
    /// `online`, `offline` or `unknown`.
    #[serde(default, deserialize_with = "scalar::text")]
    pub status: Option<String>,
    /// Processors; like all figures, only shown to a token with `Sys.Audit`.
    #[serde(default, deserialize_with = "scalar::fraction")]
    pub maxcpu: Option<f64>,
    /// Memory in bytes.
    #[serde(default, deserialize_with = "scalar::number")]
    pub maxmem: Option<u64>,
    /// Memory in use, in bytes.
    #[serde(default, deserialize_with = "scalar::number")]
    pub mem: Option<u64>,
    /// The fingerprint of its certificate.
    #[serde(default, deserialize_with = "scalar::text")]
    pub ssl_fingerprint: Option<String>,
}

impl Node {
    /// Whether the node is up.
    #[must_use]
    pub fn online(&self) -> bool {
        self.status.as_deref() == Some("online")
    }
}

/// A network interface of a node.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Network {
    /// Its name, such as `vmbr0`.
    pub iface: String,
    /// `bridge`, `OVSBridge`, `eth`, `bond`, `vlan`, …
    #[serde(default, rename = "type", deserialize_with = "scalar::text")]
    pub kind: Option<String>,
    /// Whether it is up.
    #[serde(default, deserialize_with = "scalar::flag")]
    pub active: bool,
    /// The node's address in it.
    #[serde(default, deserialize_with = "scalar::text")]
    pub cidr: Option<String>,
    #[serde(default, deserialize_with = "scalar::text")]
    pub gateway: Option<String>,
    /// Its MTU, where one is set.
    #[serde(default, deserialize_with = "scalar::number")]
    pub mtu: Option<u64>,
    /// Whether a bridge passes VLAN tags.
    #[serde(default, deserialize_with = "scalar::flag")]
    pub bridge_vlan_aware: bool,
}

/// A network of the software-defined network, which VMs are connected to as to a bridge.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Vnet {
    /// Its name, which is that of the bridge.
    pub vnet: String,
    pub zone: String,
}

/// What the token may do: privileges by path, and whether each reaches the paths below.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Permissions(pub BTreeMap<String, BTreeMap<String, bool>>);

impl Permissions {
    /// Whether the token has `privilege` on `path`. The nearest path that is listed decides: a list on a deeper path
    /// replaces what comes from above.
    #[must_use]
    pub fn has(&self, path: &str, privilege: &str) -> bool {
        let mut at = path;
        loop {
            let here = if at.is_empty() { "/" } else { at };
            if let Some(privileges) = self.0.get(here) {
                return privileges.get(privilege).is_some_and(|propagates| *propagates || here == path);
            }
            match at.rsplit_once('/') {
                Some((above, _)) => at = above,
                None => return false,
            }
        }
    }
}

#[derive(Deserialize)]
struct WireVersion {
    version: String,
}

#[derive(Deserialize)]
struct WireTime {
    time: i64,
}

#[derive(Deserialize)]
struct WireMember {
    #[serde(rename = "type")]
    kind: String,
    name: String,
    #[serde(default, deserialize_with = "scalar::flag")]
    quorate: bool,
    #[serde(default, deserialize_with = "scalar::flag")]
    online: bool,
    #[serde(default, deserialize_with = "scalar::flag")]
    local: bool,
    #[serde(default, deserialize_with = "scalar::text")]
    ip: Option<String>,
}

impl Client {
    /// The version of the node that answers.
    ///
    /// # Errors
    ///
    /// As any call. This is the first one to make: it proves address, certificate and token.
    pub async fn version(&self) -> Result<Version> {
        let attempt = "reading the version of Proxmox VE";
        let text = self.call::<WireVersion>(Call::get(attempt, "/version")).await?.version;
        let mut numbers = text.split(['.', '-']).map_while(|part| part.parse().ok());
        match (numbers.next(), numbers.next()) {
            (Some(major), Some(minor)) => Ok(Version { major, minor, text }),
            _ => Err(Error::new(attempt, Kind::Protocol { text: format!("'{text}' is not a version") })),
        }
    }

    /// Everything in the cluster that the token may see.
    pub async fn cluster_resources(&self) -> Result<Vec<Resource>> {
        self.call(Call::get("listing the resources of the Proxmox cluster", "/cluster/resources")).await
    }

    /// Whether a guest has a VM ID, also one that the token may not see.
    pub async fn vmid_exists(&self, vmid: u32) -> Result<bool> {
        let attempt = format!("asking whether the VM ID {vmid} is in use");
        let call = Call::get(attempt, "/cluster/nextid").with("vmid", vmid);
        match self.call::<serde::de::IgnoredAny>(call).await {
            Ok(_) => Ok(false),
            Err(error) if error.is_exists() => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// The cluster's members and whether it has quorum.
    ///
    /// # Errors
    ///
    /// As any call; needs `Sys.Audit` on `/`.
    pub async fn cluster_status(&self) -> Result<ClusterStatus> {
        let call = Call::get("reading the status of the Proxmox cluster", "/cluster/status");
        let members: Vec<WireMember> = self.call(call).await?;
        let cluster = members.iter().find(|m| m.kind == "cluster");
        Ok(ClusterStatus {
            name: cluster.map(|c| c.name.clone()),
            quorate: cluster.is_none_or(|c| c.quorate),
            nodes: members
                .into_iter()
                .filter(|m| m.kind == "node")
                .map(|m| ClusterNode { name: m.name, ip: m.ip, online: m.online, local: m.local })
                .collect(),
        })
    }

    pub async fn nodes(&self) -> Result<Vec<Node>> {
        self.call(Call::get("listing the Proxmox nodes", "/nodes")).await
    }

    /// The bridges of a node that VMs can be connected to, SDN vnets among them. Those that the token may not use are missing.
    pub async fn node_networks(&self, node: &str) -> Result<Vec<Network>> {
        let path = format!("/nodes/{}/network", encode(node));
        let call = Call::get(format!("listing the networks of {node}"), path);
        // Without a type, vnets are not listed.
        self.call(call.with("type", "any_bridge")).await
    }

    /// The vnets of the software-defined network, each with its zone. Those that the token may not use are missing.
    pub async fn vnets(&self) -> Result<Vec<Vnet>> {
        self.call(Call::get("listing the SDN vnets", "/cluster/sdn/vnets")).await
    }

    /// The time of a node's clock, in seconds since 1970.
    ///
    /// # Errors
    ///
    /// As any call; needs `Sys.Audit` on the node.
    pub async fn node_time(&self, node: &str) -> Result<i64> {
        let path = format!("/nodes/{}/time", encode(node));
        Ok(self.call::<WireTime>(Call::get(format!("reading the clock of {node}"), path)).await?.time)
    }

    /// What the token may do.
    pub async fn permissions(&self) -> Result<Permissions> {
        let call = Call::get("reading the token's permissions", "/access/permissions");
        let wire: BTreeMap<String, BTreeMap<String, serde_json::Value>> = self.call(call).await?;
        let flags = |list: BTreeMap<String, serde_json::Value>| {
            list.into_iter()
                .map(|(privilege, propagates)| (privilege, scalar::as_flag(&propagates)))
                .collect()
        };
        Ok(Permissions(wire.into_iter().map(|(path, list)| (path, flags(list))).collect()))
    }
}
