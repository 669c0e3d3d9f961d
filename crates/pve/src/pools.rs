//! Pools, PCI devices and their mappings.

use http::Method;
use serde::Deserialize;

use crate::client::{Call, Client};
use crate::error::Result;
use crate::percent::encode;
use crate::scalar;

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Pool {
    #[serde(rename = "poolid")]
    pub name: String,
    /// What it is for.
    #[serde(default)]
    pub comment: String,
}

/// A PCI device under one name on every node.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Mapping {
    /// The name.
    pub id: String,
    /// `node=…,path=…,id=…`, one for each device.
    #[serde(default)]
    pub map: Vec<String>,
    /// What a node says against it, where one was asked to check.
    #[serde(default)]
    pub checks: Vec<Check>,
    /// Changes with every change of a mapping.
    #[serde(default, deserialize_with = "scalar::text")]
    pub digest: Option<String>,
}

/// What a node says against a mapping.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Check {
    /// `warning` or `error`.
    #[serde(default)]
    pub severity: String,
    /// Proxmox' words.
    #[serde(default)]
    pub message: String,
}

/// A PCI device of a node.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct PciDevice {
    /// Its address, such as `0000:01:00.0`.
    #[serde(rename = "id")]
    pub address: String,
    /// The vendor's number, such as `0x10de`.
    #[serde(default)]
    pub vendor: String,
    /// The device's number.
    #[serde(default)]
    pub device: String,
    /// What it is called.
    #[serde(default, rename = "device_name")]
    pub name: String,
    /// Its IOMMU group; `-1` where there is none.
    #[serde(default, rename = "iommugroup", deserialize_with = "scalar::text")]
    pub group: Option<String>,
    /// The number of the card's maker, where it has one.
    #[serde(default, deserialize_with = "scalar::text")]
    pub subsystem_vendor: Option<String>,
    /// The number of the card, where it has one.
    #[serde(default, deserialize_with = "scalar::text")]
    pub subsystem_device: Option<String>,
}

impl Client {
    /// All pools that the caller may see.
    pub async fn pools(&self) -> Result<Vec<Pool>> {
        self.call(Call::get("listing the pools", "/pools")).await
    }

    /// Makes a pool.
    ///
    /// # Errors
    ///
    /// [`Kind::Exists`](crate::Kind::Exists) when there is one of that name.
    pub async fn create_pool(&self, name: &str, comment: &str) -> Result<()> {
        let call = Call::change_all(Method::POST, format!("making pool {name}"), "/pools");
        self.call(call.with("poolid", name).with("comment", comment)).await
    }

    /// Removes a pool.
    ///
    /// # Errors
    ///
    /// [`Kind::Missing`](crate::Kind::Missing) when there is none of that name.
    pub async fn delete_pool(&self, name: &str) -> Result<()> {
        let call = Call::change_all(Method::DELETE, format!("removing pool {name}"), "/pools");
        self.call(call.with("poolid", name)).await
    }

    /// Puts a machine into a pool, out of another one if it is in one.
    ///
    /// # Errors
    ///
    /// As any call; needs `Pool.Allocate` on the pool.
    pub async fn put_into_pool(&self, pool: &str, vmid: u32) -> Result<()> {
        let call = Call::change_all(Method::PUT, format!("putting VM {vmid} into pool {pool}"), "/pools");
        self.call(call.with("poolid", pool).with("vms", vmid).with("allow-move", 1)).await
    }

    /// All mappings of PCI devices that the caller may see; with a node, checked against the devices of that node.
    pub async fn pci_mappings(&self, check: Option<&str>) -> Result<Vec<Mapping>> {
        let call = Call::get("listing the PCI mappings", "/cluster/mapping/pci");
        self.call(match check {
            Some(node) => call.with("check-node", node),
            None => call,
        })
        .await
    }

    /// Replaces the devices of a mapping. With a digest, only if no mapping was changed since it was read.
    pub async fn set_pci_mapping(&self, id: &str, devices: &[String], digest: Option<&str>) -> Result<()> {
        let path = format!("/cluster/mapping/pci/{}", encode(id));
        let call = Call::change_all(Method::PUT, format!("changing PCI mapping {id}"), path);
        let call = call.with_list("map", devices);
        self.call(match digest {
            Some(digest) => call.with("digest", digest),
            None => call,
        })
        .await
    }

    /// Makes a mapping of devices, each `node=…,path=…,id=…`.
    ///
    /// # Errors
    ///
    /// [`Kind::Exists`](crate::Kind::Exists) when there is one of that name.
    pub async fn create_pci_mapping(&self, id: &str, devices: &[String]) -> Result<()> {
        let call = Call::change_all(Method::POST, format!("making PCI mapping {id}"), "/cluster/mapping/pci");
        self.call(call.with("id", id).with_list("map", devices)).await
    }

    /// The PCI devices of a node.
    ///
    /// # Errors
    ///
    /// As any call; needs `Sys.Audit` or `Sys.Modify` on `/`.
    pub async fn pci_devices(&self, node: &str) -> Result<Vec<PciDevice>> {
        let path = format!("/nodes/{}/hardware/pci", encode(node));
        self.call(Call::get(format!("listing the PCI devices of {node}"), path)).await
    }
}
