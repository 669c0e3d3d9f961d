//! Looking at the world: Proxmox first, then every machine and Kubernetes at once, bounded in time.
//!
//! Looking changes nothing. Whatever does not answer becomes a line in [`Observed::unseen`]; only a Proxmox that cannot
//! be asked at all is an error, because without it nothing can be said.

pub mod machines;
pub mod proxmox;

use model::blueprint::Blueprint;
use model::mark::Mark;
use model::observed::{Kubernetes, Observed, Unseen};

use crate::World;
use crate::error::Result;
use crate::render::Access;

/// Everything that the plan needs to know.
///
/// # Errors
///
/// When Proxmox cannot be asked.
pub async fn observe(
    world: &World,
    survey: proxmox::Survey,
    blueprint: &Blueprint,
    access: Option<&Access>,
) -> Result<Observed> {
    let mut unseen = vec![];
    let proxmox = proxmox::details(world, survey, blueprint, &mut unseen).await?;
    let mut observed = Observed { proxmox, unseen, ..Observed::default() };
    let (Some(access), Some(cluster_id)) = (access, blueprint.cluster_id.as_deref()) else {
        return Ok(observed);
    };
    let owner = Mark::owner_of(cluster_id);
    let running: Vec<_> = blueprint
        .nodes
        .values()
        .filter(|n| observed.proxmox.of(owner).any(|v| v.running && v.mark.node == n.name))
        .collect();
    if running.is_empty() {
        return Ok(observed);
    }
    let machines = futures::future::join_all(running.iter().map(|node| machines::look(world, node, access)));
    let (machines, kubernetes) = futures::join!(machines, kubernetes(world, blueprint, access));
    for (node, machine) in running.iter().zip(machines) {
        if let model::observed::Api::Silent { why } = &machine.api {
            observed
                .unseen
                .push(Unseen { what: format!("the Talos API of {}", node.name), why: why.clone() });
        }
        observed.machines.insert(node.name.clone(), machine);
    }
    match kubernetes {
        Ok(seen) => observed.kubernetes = seen,
        Err(error) => observed.unseen.push(Unseen {
            what: format!("Kubernetes at {}", blueprint.endpoint),
            why: error.causes().last().cloned().unwrap_or_default(),
        }),
    }
    Ok(observed)
}

async fn kubernetes(world: &World, blueprint: &Blueprint, access: &Access) -> Result<Kubernetes> {
    let client = crate::kubernetes::Kubernetes::new(world, &blueprint.endpoint, &access.kubernetes)?;
    Ok(Kubernetes { answered: true, nodes: client.nodes().await? })
}
