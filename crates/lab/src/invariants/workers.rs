//! Invariant 3 for workers: how many may be away at once.

use serde_json::Value;

use super::target::Target;
use crate::world::World;

/// A Ready worker that goes down, although as many are away already as may be.
pub(super) fn too_many(target: &Target, at_once: usize, world: &World) -> Option<(u8, String)> {
    let (Target::Restart(vmid) | Target::Delete(vmid)) = *target else { return None };
    let machine = world.machines.get(vmid)?;
    if machine.node()?.is_control_plane() {
        return None;
    }
    let nodes = world.machines.etcd_of_cluster(vmid)?.store.list("", "nodes", None);
    let own = nodes.iter().find(|node| node["metadata"]["name"] == machine.hostname())?;
    let away = nodes.iter().filter(|node| is_worker(node) && !is_ready(node)).count();
    (is_ready(own) && away >= at_once).then(|| {
        let what = format!(
            "VM {vmid}, a Ready worker, is disrupted while {away} other workers are not Ready; {at_once} may be away at once"
        );
        (3, what)
    })
}

fn is_worker(node: &Value) -> bool {
    node.pointer("/metadata/labels/node-role.kubernetes.io~1control-plane").is_none()
}

fn is_ready(node: &Value) -> bool {
    let conditions = node.pointer("/status/conditions").and_then(Value::as_array);
    conditions.into_iter().flatten().any(|c| c["type"] == "Ready" && c["status"] == "True")
}
