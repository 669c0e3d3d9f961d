//! A machine that moves to another node of the Proxmox cluster.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::client::{Call, Client};
use crate::error::Result;
use crate::scalar;
use crate::vm::machine;

/// What Proxmox says about moving a machine, before anything is moved.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Migration {
    /// Whether it runs.
    pub running: bool,
    /// Volumes that the other nodes do not share, without those that Proxmox makes again at every start.
    pub local_disks: Vec<String>,
    /// Devices of the node, which tie the machine to it.
    pub local_resources: Vec<String>,
    /// Devices by the name of a mapping, which tie it to the node while it runs.
    pub mapped_resources: Vec<String>,
    /// Nodes that it can move to. `None` where Proxmox does not say.
    pub allowed: Option<Vec<String>>,
    /// Nodes that it cannot move to, each with what is missing there.
    pub not_allowed: BTreeMap<String, Vec<String>>,
}

#[derive(Deserialize)]
struct WireMigration {
    #[serde(default, deserialize_with = "scalar::flag")]
    running: bool,
    #[serde(default)]
    local_disks: Vec<WireDisk>,
    #[serde(default, deserialize_with = "scalar::list")]
    local_resources: Vec<String>,
    #[serde(default, rename = "mapped-resources", deserialize_with = "scalar::list")]
    mapped_resources: Vec<String>,
    #[serde(default)]
    allowed_nodes: Option<Vec<String>>,
    #[serde(default)]
    not_allowed_nodes: Option<BTreeMap<String, Value>>,
}

#[derive(Deserialize)]
struct WireDisk {
    #[serde(default, deserialize_with = "scalar::text")]
    volid: Option<String>,
    #[serde(default, deserialize_with = "scalar::flag")]
    is_cloudinit: bool,
    #[serde(default, deserialize_with = "scalar::flag")]
    shared: bool,
}

impl From<WireMigration> for Migration {
    fn from(wire: WireMigration) -> Self {
        let disks = wire.local_disks.into_iter().filter(|disk| !disk.is_cloudinit && !disk.shared);
        // Whatever kind of thing is missing, its names are in lists.
        let missing = |why: Value| match why {
            Value::Object(kinds) => {
                let lists = kinds.into_iter().filter_map(|(_, names)| match names {
                    Value::Array(names) => Some(names),
                    _ => None,
                });
                lists.flatten().filter_map(|name| scalar::as_text(name.get("sid").unwrap_or(&name))).collect()
            }
            _ => vec![],
        };
        let not_allowed = wire.not_allowed_nodes.unwrap_or_default();
        Self {
            running: wire.running,
            local_disks: disks.filter_map(|disk| disk.volid).collect(),
            local_resources: wire.local_resources,
            mapped_resources: wire.mapped_resources,
            allowed: wire.allowed_nodes,
            not_allowed: not_allowed.into_iter().map(|(node, why)| (node, missing(why))).collect(),
        }
    }
}

impl Client {
    /// What Proxmox says about moving a machine to `target`.
    ///
    /// # Errors
    ///
    /// As any call; needs `VM.Migrate` on the machine.
    pub async fn migration(&self, node: &str, vmid: u32, target: &str) -> Result<Migration> {
        let attempt = format!("asking whether VM {vmid} can be migrated from {node} to {target}");
        let call = Call::get(attempt, machine(node, vmid, "/migrate")).with("target", target);
        Ok(self.call::<WireMigration>(call).await?.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As Proxmox VE 9.1.8 answered, with a second node that lacks a storage.
    #[test]
    fn what_ties_a_machine_to_its_node_is_told() {
        let wire = serde_json::json!({
            "allowed_nodes": ["pve2"], "running": 0, "mapped-resources": ["hostpci0"], "local_resources": ["hostpci1"],
            "mapped-resource-info": {"hostpci0": {"name": "gpu"}}, "has-dbus-vmstate": 1,
            "not_allowed_nodes": {"pve3": {"unavailable_storages": ["fast"], "unavailable-resources": ["gpu"]}},
            "local_disks": [
                {"volid": "local:100/vm-100-disk-0.qcow2", "is_cloudinit": 0, "shared": 0, "cdrom": 0, "size": 3_489_660_928_u64},
                {"volid": "local:100/vm-100-cloudinit.qcow2", "is_cloudinit": 1, "shared": 0, "cdrom": 1},
            ],
        });
        let seen = Migration::from(serde_json::from_value::<WireMigration>(wire).unwrap());
        assert_eq!(seen.local_disks, ["local:100/vm-100-disk-0.qcow2"]);
        assert_eq!(
            (&seen.local_resources[..], &seen.mapped_resources[..]),
            (&["hostpci1".to_owned()][..], &["hostpci0".to_owned()][..])
        );
        assert_eq!(seen.allowed.as_deref(), Some(&["pve2".to_owned()][..]));
        let missing: Vec<&str> = seen.not_allowed["pve3"].iter().map(String::as_str).collect();
        assert!(missing.contains(&"fast") && missing.contains(&"gpu"), "{missing:?}");
        let seen = Migration::from(
            serde_json::from_value::<WireMigration>(serde_json::json!({"running": 1})).unwrap(),
        );
        assert_eq!(
            (seen.running, seen.allowed),
            (true, None),
            "an answer without nodes says nothing of them"
        );
    }
}
