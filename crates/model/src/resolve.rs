//! Decides every name, address, VM id, MAC address, host and datastore: from the file, to a [`Blueprint`].
//!
//! Everything derives from the node's own name and number, so adding or removing one node never changes another. What
//! only Proxmox can decide stays open without an [`Inventory`]. Resolving starts with the checks: a file with an error in
//! it has no blueprint.

mod datastores;
mod node;

use std::collections::BTreeMap;

use datastores::Stores;

use crate::blueprint::{Blueprint, Image, Inventory, Node, Options, ProxmoxApi, Record, Role};
use crate::check;
use crate::derived;
use crate::diagnostic::{Diagnostic, Path, codes, nearest};
use crate::draft::{self, Draft, DraftNode};
use crate::forms::{self, Version};
use crate::images::Images;
use crate::names::NodeName;
use crate::placement;
use crate::policy::Policy;
use crate::spec::Spec;
use crate::upgrade::Via;

/// The tag that every VM of ours carries.
const TAG: &str = "talosmith";

/// Decides what the file leaves open.
///
/// # Errors
/// Everything that stands against it, by path: [`crate::load::Loaded::locate`] adds the places.
pub fn resolve(
    spec: &Spec,
    inventory: Option<&Inventory>,
    cluster_id: Option<&str>,
) -> Result<Blueprint, Vec<Diagnostic>> {
    let draft = Draft::new(spec);
    let mut problems: Vec<Diagnostic> =
        check::examine(&draft).into_iter().filter(Diagnostic::is_error).collect();
    if problems.is_empty() {
        problems.extend(inventory.map(|inventory| unknown_hosts(spec, inventory)).unwrap_or_default());
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    let placed = placement::place(&draft, inventory);
    let mut stores = Stores::new(spec, inventory);
    let mut nodes = BTreeMap::new();
    let mut images = Images::new(spec);
    for node in &draft.nodes {
        let host = placed.get(&node.name);
        let image = images.of(node);
        let decided =
            image.and_then(|image| node::decide(&draft, node, image, host, &mut stores, cluster_id));
        let Some(decided) = decided else {
            // The checks leave nothing open that a node needs; should one slip through, it is said rather than lost.
            problems.push(undecided(node));
            continue;
        };
        nodes.insert(decided.name.clone(), decided);
    }
    problems.append(&mut stores.into_problems());
    let blueprint = finish(&draft, inventory, cluster_id, nodes, images.into_used());
    match blueprint {
        Some(blueprint) if problems.is_empty() => Ok(blueprint),
        _ => Err(problems),
    }
}

/// Whether any node of the file is a VM. Otherwise there is no Proxmox to ask.
#[must_use]
pub fn needs_proxmox(spec: &Spec) -> bool {
    !Draft::new(spec).all_external()
}

fn finish(
    draft: &Draft<'_>,
    inventory: Option<&Inventory>,
    cluster_id: Option<&str>,
    nodes: BTreeMap<NodeName, Node>,
    images: BTreeMap<String, Image>,
) -> Option<Blueprint> {
    let spec = draft.spec;
    let first_control_plane =
        nodes.values().filter(|node| node.role == Role::ControlPlane).map(|node| node.address.addr()).min();
    let endpoint = match &spec.endpoint {
        Some(endpoint) => endpoint.trim_end_matches('/').to_owned(),
        None => format!("https://{}:6443", draft.vip.or(first_control_plane)?),
    };
    let online = || inventory?.hosts.iter().find(|(_, host)| host.online).map(|(name, _)| name);
    let usable = |host: &&String| {
        inventory.is_none_or(|inventory| inventory.hosts.get(*host).is_some_and(|host| host.online))
    };
    let record_vmid = draft.record_vmid()?.value;
    let record = Record {
        name: derived::record_name(&spec.cluster),
        vmid: record_vmid,
        usual_vmid: draft.usual_record_vmid().map(|usual| usual.value).filter(|usual| *usual != record_vmid),
        // Any host will do: the record never runs. Where the first node goes is where people look first.
        host: nodes.values().filter_map(|node| node.host.as_ref()).find(usable).or_else(online).cloned(),
        uuid: cluster_id.map(derived::record_uuid),
    };
    let carrying = |name: &Option<String>| {
        let network = spec.network.extra.get(name.as_ref()?)?;
        draft::node_network(network.cidr.as_ref()?)
    };
    Some(Blueprint {
        cluster: spec.cluster.clone(),
        cluster_id: cluster_id.map(str::to_owned),
        endpoint,
        vip: draft.vip,
        kubernetes: Version::read(&spec.versions.kubernetes)?.to_string(),
        pod_cidr: spec.kubernetes.pod_cidr.parse().ok()?,
        service_cidr: spec.kubernetes.service_cidr.parse().ok()?,
        dns_domain: spec.kubernetes.dns_domain.clone(),
        schedule_on_control_planes: spec.kubernetes.schedule_on_control_planes,
        protect: spec.protect,
        tags: tags([&spec.proxmox.tags]),
        resource_pool: spec.proxmox.pool.clone(),
        hosts: spec.hosts.keys().cloned().collect(),
        record,
        images,
        nodes,
        options: Options {
            contract: spec.versions.contract.as_deref().and_then(forms::contract),
            via: Via {
                talos: spec.versions.via.talos.clone(),
                kubernetes: spec.versions.via.kubernetes.clone(),
            },
            kubelet_network: carrying(&spec.network.kubelet),
            etcd_network: carrying(&spec.network.etcd),
            kubernetes: spec.kubernetes.clone(),
            manifests: spec.manifests.clone(),
            gitops: spec.gitops.clone(),
            changes: Policy::read(&spec.changes)?,
            backup: spec.backup.clone(),
            proxmox_api: proxmox_api(spec),
            identity: spec.proxmox.identity,
            insecure: spec.proxmox.insecure,
        },
        upgrade: None,
    })
}

/// How the cluster itself reaches Proxmox.
fn proxmox_api(spec: &Spec) -> Option<ProxmoxApi> {
    let proxmox = &spec.proxmox;
    let url = proxmox.endpoint.iter().chain(&proxmox.endpoints).next()?;
    let verified = !proxmox.insecure && !proxmox.is_pinned() && proxmox.ca.is_none();
    Some(ProxmoxApi { url: url.trim_end_matches('/').to_owned(), verified })
}

/// Tags with ours among them, sorted, each once.
fn tags<'t>(lists: impl IntoIterator<Item = &'t Vec<String>>) -> Vec<String> {
    let mut tags: Vec<String> = lists.into_iter().flatten().cloned().chain([TAG.to_owned()]).collect();
    tags.sort();
    tags.dedup();
    tags
}

fn undecided(node: &DraftNode<'_>) -> Diagnostic {
    Diagnostic::error(codes::ADDRESS_MISSING, format!("`{}` could not be decided", node.name))
        .at(node.path.clone(), "")
        .help("give it an `address` and a `vmid`")
}

/// Hosts that the file names and Proxmox does not have.
fn unknown_hosts(spec: &Spec, inventory: &Inventory) -> Vec<Diagnostic> {
    let mut named: Vec<(&String, Path)> = Vec::new();
    if spec.hosts.is_empty() {
        for (pool, hosts) in spec.pools.iter().map(|(name, pool)| (name, &pool.hosts)) {
            let path = Path::of(&["pools", pool, "hosts"]);
            named.extend(hosts.iter().enumerate().map(|(index, host)| (host, path.index(index))));
        }
        let nodes = spec.nodes.iter();
        named.extend(
            nodes.filter_map(|(name, node)| Some((node.host.as_ref()?, Path::of(&["nodes", name, "host"])))),
        );
    } else {
        // Pools and nodes can name only these: the checks have seen to that.
        named.extend(spec.hosts.keys().map(|host| (host, Path::of(&["hosts", host]))));
    }
    let unknown = named.into_iter().filter(|(host, _)| !inventory.hosts.contains_key(*host));
    let known = || inventory.hosts.keys().map(String::as_str);
    let say = |(host, path): (&String, Path)| {
        let problem =
            Diagnostic::error(codes::UNKNOWN_TO_PROXMOX, format!("Proxmox has no host called `{host}`"));
        problem.at(path, "").help(match nearest(host, known()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("it has `{}`", known().collect::<Vec<_>>().join("`, `")),
        })
    };
    unknown.map(say).collect()
}

#[cfg(test)]
mod hardware_tests;
#[cfg(test)]
mod tests;
