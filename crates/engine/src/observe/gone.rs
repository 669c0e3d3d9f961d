//! What is known of nodes that the file does not have any more, once the other machines and Kubernetes have been asked.

use futures::future::join_all;
use model::blueprint::{Blueprint, Node, Role};
use model::names::NodeName;
use model::observed::{Api, Etcd, Observed};
use model::removed;

use super::{machine, machines};
use crate::Systems;
use crate::kubernetes::Kubernetes;
use crate::render::Access;

/// Asks those whose address only Kubernetes or etcd knew, and each for its role.
pub(super) async fn complete(
    systems: &Systems,
    blueprint: &Blueprint,
    access: &Access,
    observed: &mut Observed,
) {
    let unknown: Vec<NodeName> = observed
        .removed
        .iter()
        .filter(|(_, removed)| removed.address.is_none())
        .map(|(name, _)| name.clone())
        .collect();
    describe(systems, blueprint, observed);
    let nodes = removed::nodes(blueprint, observed);
    let late = nodes.values().filter(|node| {
        let silent =
            matches!(observed.machines.get(&node.name).map(|m| &m.api), Some(Api::Unresponsive { .. }));
        unknown.contains(&node.name) && silent && !systems.address(node).is_unspecified()
    });
    let late: Vec<&Node> = late.collect();
    let asked = late.iter().map(|node| {
        // Asked as a control plane node, because it may be one.
        let node = Node { role: Role::ControlPlane, ..(*node).clone() };
        let proxmox = &observed.proxmox;
        async move {
            Box::pin(machine(systems, blueprint, proxmox, &node, access, &machines::Running::default())).await
        }
    });
    let asked = join_all(asked).await;
    for (node, (machine, unobserved)) in late.into_iter().zip(asked) {
        let what = machines::api_of(node);
        observed.unobserved.retain(|earlier| earlier.what != what);
        observed.unobserved.extend(unobserved);
        observed.machines.insert(node.name.clone(), machine);
    }
    let configured =
        |node: &&Node| observed.machines.get(&node.name).is_some_and(|m| m.api == Api::Configured);
    let configured: Vec<&Node> = nodes.values().filter(configured).collect();
    let roles = join_all(configured.iter().map(|node| machines::role_of(systems, node, access))).await;
    for (node, role) in configured.into_iter().zip(roles) {
        let Some(machine) = observed.machines.get_mut(&node.name) else { continue };
        machine.role = role;
        if role == Some(Role::Worker) && machine.etcd == Etcd::Unknown {
            machine.etcd = Etcd::Empty;
        }
    }
    describe(systems, blueprint, observed);
    add_pods(systems, blueprint, access, observed).await;
}

/// What would be lost with each of them in Kubernetes. Where it does not answer, that is not known.
async fn add_pods(systems: &Systems, blueprint: &Blueprint, access: &Access, observed: &mut Observed) {
    let kubernetes = &observed.kubernetes;
    if !kubernetes.answered || observed.removed.is_empty() {
        return;
    }
    let Ok(client) = Kubernetes::new(systems, &blueprint.endpoint, &access.kubernetes) else { return };
    let asked = observed.removed.iter_mut().map(|(name, removed)| {
        let client = &client;
        async move {
            removed.unmanaged_pods = match kubernetes.nodes.contains_key(name) {
                true => client.unmanaged_pods(name).await.ok(),
                // What Kubernetes does not have runs no pods.
                false => Some(vec![]),
            };
        }
    });
    join_all(asked).await;
}

fn describe(systems: &Systems, blueprint: &Blueprint, observed: &mut Observed) {
    observed.removed = removed::of(blueprint, observed);
    for (name, removed) in &mut observed.removed {
        removed.address = systems.found.of(name).or(removed.address);
    }
}
