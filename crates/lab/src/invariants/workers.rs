//! Invariant 3 for workers: how many may be away at once.
//!
//! Kubernetes calls a node Ready for some 40 seconds after it went down. So a worker that was disrupted counts as away from then on, until
//! its kubelet has reported from another boot, or the node is gone.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::target::Target;
use crate::world::World;

/// What must be remembered from call to call.
#[derive(Debug, Default)]
pub(super) struct Memory {
    /// Workers that were disrupted and are not back yet: the name of the node, and the boot that was ended.
    disrupted: BTreeMap<u32, (String, String)>,
}

impl Memory {
    /// A Ready worker that goes down, although as many are away already as may be.
    pub(super) fn before(&mut self, target: &Target, at_once: usize, world: &World) -> Option<(u8, String)> {
        let (Target::Restart(vmid) | Target::Delete(vmid)) = *target else { return None };
        let machine = world.machines.get(vmid)?;
        if machine.node()?.is_control_plane() {
            return None;
        }
        let nodes = world.machines.etcd_of_cluster(vmid)?.store.list("", "nodes", None);
        self.disrupted.retain(|_, (name, boot)| {
            let node = nodes.iter().find(|node| node["metadata"]["name"] == **name);
            node.is_some_and(|node| !is_ready(node) || boot_of(node) == *boot)
        });
        let own = nodes.iter().find(|node| node["metadata"]["name"] == machine.hostname())?;
        let name = machine.hostname().to_owned();
        let unready = nodes.iter().filter(|node| is_worker(node) && !is_ready(node));
        let unready = unready.filter_map(|node| node["metadata"]["name"].as_str().map(str::to_owned));
        let mut away: BTreeSet<String> = unready.collect();
        away.extend(self.disrupted.values().map(|(name, _)| name.clone()));
        let counts = is_ready(own) && !away.contains(&name);
        away.remove(&name);
        if is_ready(own) {
            self.disrupted.entry(vmid).or_insert((name, boot_of(own)));
        }
        (counts && away.len() >= at_once).then(|| {
            let others = away.len();
            let what = format!(
                "VM {vmid}, a Ready worker, is disrupted while {others} other workers are away; {at_once} may be away at once"
            );
            (3, what)
        })
    }
}

fn boot_of(node: &Value) -> String {
    node.pointer("/status/nodeInfo/bootID").and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn is_worker(node: &Value) -> bool {
    node.pointer("/metadata/labels/node-role.kubernetes.io~1control-plane").is_none()
}

fn is_ready(node: &Value) -> bool {
    let conditions = node.pointer("/status/conditions").and_then(Value::as_array);
    conditions.into_iter().flatten().any(|c| c["type"] == "Ready" && c["status"] == "True")
}
