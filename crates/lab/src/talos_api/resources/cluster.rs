//! Who belongs to the cluster, as discovery shows it.

use serde_json::{Value, json};

use super::{Resource, View};
use crate::machine::Machine;

/// The type of those who may belong to the cluster.
pub(super) const AFFILIATES: &str = "Affiliates.cluster.talos.dev";

/// The others, as the discovery service told of them.
pub(super) fn discovered(view: &View<'_>) -> Vec<Resource> {
    let others = peers(view).filter(|machine| machine.hardware.uuid != view.machine.hardware.uuid);
    others
        .map(|machine| {
            let id = format!("service/{}", identity(machine));
            Resource::new(id, "cluster.DiscoveryServiceController", describe(machine))
        })
        .collect()
}

pub(super) fn of(view: &View<'_>, kind: &str) -> Option<Vec<Resource>> {
    match kind {
        "Members.cluster.talos.dev" => Some(
            peers(view)
                .map(|machine| {
                    let mut tree = describe(machine);
                    remove(&mut tree, "nodename");
                    Resource::new(machine.hostname(), "cluster.MemberController", tree)
                })
                .collect(),
        ),
        AFFILIATES => Some(
            peers(view)
                .map(|machine| {
                    let tree = describe(machine);
                    Resource::new(identity(machine), "cluster.LocalAffiliateController", tree)
                })
                .collect(),
        ),
        // The identity lies on the STATE partition, which a machine in maintenance does not have yet.
        "Identities.cluster.talos.dev" => view.node().map(|_| {
            let tree = json!({"nodeId": identity(view.machine)});
            vec![Resource::new("local", "cluster.NodeIdentityController", tree)]
        }),
        "Infos.cluster.talos.dev" => view.node().map(|node| {
            let settings = &node.settings;
            let tree = json!({"clusterId": settings.cluster_id, "clusterName": settings.cluster_name});
            vec![Resource::new("current", "cluster.InfoController", tree)]
        }),
        _ => None,
    }
}

/// This machine, and others with the same identity when both use discovery.
fn peers<'a>(view: &'a View<'_>) -> impl Iterator<Item = &'a Machine> {
    let own = view.node();
    view.machines.iter().filter_map(move |(vmid, machine)| {
        let (own, other) = (own?, machine.node()?);
        let found = own.settings.discovery
            && other.settings.discovery
            && other.settings.cluster_id == own.settings.cluster_id
            && view.machines.reaches_discovery(view.vmid)
            && view.machines.reaches_discovery(vmid);
        (vmid == view.vmid || found).then_some(machine)
    })
}

fn describe(machine: &Machine) -> Value {
    let node = machine.node();
    let role = node.map_or("unknown", |node| node.settings.role.text());
    let mut tree = json!({
        "nodeId": identity(machine),
        "addresses": machine.address().map(|a| a.to_string()).into_iter().collect::<Vec<_>>(),
        "hostname": machine.hostname(),
        "nodename": machine.hostname(),
        "machineType": role,
        "operatingSystem": format!("Talos ({})", machine.talos()),
    });
    if node.is_some_and(|node| node.is_control_plane()) {
        tree["controlPlane"] = json!({"port": 6443});
    }
    tree
}

fn remove(tree: &mut Value, key: &str) {
    if let Some(map) = tree.as_object_mut() {
        map.remove(key);
    }
}

/// A node's id: 32 bytes of its own in base 62.
pub(super) fn identity(machine: &Machine) -> String {
    const DIGITS: &[u8; 62] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    (0..43)
        .map(|place: u32| {
            let number =
                crate::stable::stable_number(&[&machine.hardware.uuid, "identity", &place.to_string()]);
            char::from(DIGITS[usize::try_from(number % 62).unwrap_or(0)])
        })
        .collect()
}
