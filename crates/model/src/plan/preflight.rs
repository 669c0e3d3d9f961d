//! What must be so before the first VM is created: rights, images, bridges, memory and space.
//!
//! Proxmox would tell most of it too, but halfway: after the third VM, or when the last one starts. What surely fails is
//! refused; what may become tight is told.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use super::{Note, Refusal, RefusalCode, bootstrap};
use crate::blueprint::{Blueprint, Node};
use crate::observed::{
    MissingDocument, MissingResource, MissingRight, NoImage, Observed, Proxmox, StoredImage, UnsizedImage, Vm,
};
use crate::ownership;
use crate::vm::{self, Holds};

/// Nodes that have no VM yet. One whose VM may be on a host that does not answer is not among them.
pub fn to_create<'b, 'p>(
    blueprint: &'b Blueprint,
    proxmox: &'p Proxmox,
) -> impl Iterator<Item = &'b Node> + use<'b, 'p> {
    blueprint.nodes.values().filter(move |node| {
        !node.external
            && !proxmox.unread.contains_key(&node.vmid)
            && ownership::vm_of(blueprint, proxmox, &node.name).is_none()
    })
}

/// The token may not do what creating nodes needs.
pub(super) fn rights(observed: &Observed) -> Vec<Refusal> {
    let missing = &observed.proxmox.missing_rights;
    let mut by_right: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for MissingRight { path, privilege } in missing {
        // Ids of single VMs say nothing to people: the right is given for all of them.
        let path = if path.starts_with("/vms/") { "/vms".to_owned() } else { path.clone() };
        by_right.entry(privilege).or_default().insert(path);
    }
    if by_right.is_empty() {
        return vec![];
    }
    // Only accounts for what runs in the cluster need this one, and few tokens should have it.
    let accounts = match by_right.contains_key("Permissions.Modify") {
        true => {
            "; or make the accounts of cloud provider and storage driver yourself and say with `token` where theirs are"
        }
        false => "",
    };
    let told: Vec<String> = by_right
        .into_iter()
        .map(|(right, paths)| format!("{right} on {}", paths.into_iter().collect::<Vec<_>>().join(", ")))
        .collect();
    vec![Refusal {
        code: RefusalCode::Rights,
        why: format!("the token may not do what is needed: it lacks {}", told.join("; ")),
        hint: format!("give these privileges to the token's role: Datacenter, Permissions{accounts}"),
    }]
}

/// Images that cannot be had.
pub(super) fn images(observed: &Observed) -> Vec<Refusal> {
    let refusal = |missing: &NoImage| {
        let (why, hint) = no_image(missing);
        Refusal { code: RefusalCode::Image, why, hint }
    };
    observed.proxmox.no_images.iter().map(refusal).collect()
}

/// Why an image cannot be had, and what helps.
pub(super) fn no_image(missing: &NoImage) -> (String, String) {
    match missing {
        NoImage::FactorySilent { factory, why } => (
            format!("the Image Factory {factory} does not answer here: {why}"),
            "check the network path from here to it, or name another one with `image.factory`, or a mirror with `image.mirror`".to_owned(),
        ),
        NoImage::UnknownRelease { factory, talos } => (
            format!("the Image Factory {factory} has no images of Talos {talos}"),
            "check `versions.talos` in the file".to_owned(),
        ),
        NoImage::UnknownExtension { factory, talos, extension } => (
            format!("the Image Factory {factory} has no extension {extension} for Talos {talos}"),
            "check `image.extensions` in the file; the factory's page lists what there is".to_owned(),
        ),
        NoImage::HostCannotReach { host, url, why } => (
            format!("{host} cannot download from {url}: {why}"),
            format!("check names, routes and the proxy of {host}, or name a mirror that it reaches with `image.mirror`"),
        ),
        NoImage::AnotherFile { host, datastore, file, bytes, expected } => (
            format!(
                "{file} in {datastore} on {host} has {bytes} bytes, and the image has {expected}: it is another file, or not all of it"
            ),
            format!("delete it in Proxmox ({datastore} on {host}, Import), so that the image is downloaded again"),
        ),
        NoImage::NotInMirror { host, url } => (
            format!("the Image Factory does not answer here, and {host} does not find {url} in the mirror"),
            "put the image there, or let this machine reach the factory once, so that it knows the schematic".to_owned(),
        ),
    }
}

/// Files that are taken for an image by their name alone.
fn unsized_images(observed: &Observed) -> Vec<Note> {
    let told = |unproven: &UnsizedImage| {
        let StoredImage { host, datastore, file } = &unproven.image;
        Note {
            text: format!(
                "whether {file} in {datastore} on {host} is the whole image is not known: {}. If in doubt, delete it in Proxmox: it is \
                 downloaded again",
                unproven.why
            ),
        }
    };
    observed.proxmox.unsized_images.iter().map(told).collect()
}

/// What the file names in Proxmox, and new nodes need.
pub(super) fn named(observed: &Observed) -> Vec<Refusal> {
    let refusal = |missing: &MissingResource| {
        let (why, hint) = match missing {
            MissingResource::Pool { pool } => (
                format!("there is no resource pool {pool}, or the token may not see it"),
                "create it under Datacenter, Permissions, Pools, or run `talosmith proxmox setup`",
            ),
            MissingResource::Device { mapping, host, elsewhere: true } => (
                format!("the PCI mapping {mapping} has no device on {host}"),
                "add one under Datacenter, Resource Mappings, or name another host",
            ),
            MissingResource::Device { mapping, host, elsewhere: false } => (
                format!("there is no PCI mapping {mapping} for {host}, or the token may not see it"),
                "give the device's address in the file and run `talosmith proxmox setup`",
            ),
        };
        Refusal { code: RefusalCode::NotFound, why, hint: hint.to_owned() }
    };
    observed.proxmox.missing_resources.iter().map(refusal).collect()
}

/// Documents that machines will look for, and may not find.
fn documents(observed: &Observed) -> Vec<Note> {
    let told = |MissingDocument { host, url, why }: &MissingDocument| Note {
        text: format!(
            "{host} does not find {url}: {why}. The machines fetch it for themselves, and wait until they find it"
        ),
    };
    observed.proxmox.missing_documents.iter().map(told).collect()
}

/// An address of a new node, or of the cluster, is in use.
pub(super) fn addresses(blueprint: &Blueprint, observed: &Observed) -> Vec<Refusal> {
    let whose = |address: Ipv4Addr| match blueprint.nodes.values().find(|node| node.address.addr() == address)
    {
        Some(node) => node.name.to_string(),
        None => "the cluster's API".to_owned(),
    };
    // Where the cluster itself answers, it has the address of its API.
    let is_own = |address: &Ipv4Addr| {
        blueprint.vip == Some(*address)
            && (observed.kubernetes.answered || bootstrap::member(blueprint, observed).is_some())
    };
    // A VM of a renamed node or cluster has ID and address of the new one. Its ID is refused with the reason.
    let is_renamed = |address: &Ipv4Addr| {
        let vm_at = |vmid: u32| observed.proxmox.marked.iter().find(|vm| vm.vmid == vmid);
        let has = |vm: &Vm| {
            let words = vm.config.get("ipconfig0").map(String::as_str).unwrap_or_default();
            words.contains(&format!("ip={address}/"))
        };
        let node = blueprint.nodes.values().find(|node| node.address.addr() == *address);
        match node.and_then(|node| Some((node, vm_at(node.vmid)?))) {
            Some((node, vm)) => {
                (vm.mark.node != node.name || vm.mark.cluster != blueprint.cluster) && has(vm)
            }
            None => {
                blueprint.vip == Some(*address)
                    && vm_at(blueprint.record.vmid).is_some_and(|vm| vm.mark.cluster != blueprint.cluster)
            }
        }
    };
    let occupied =
        observed.proxmox.occupied.iter().filter(|(address, _)| !is_own(address) && !is_renamed(address));
    occupied
        .map(|(address, seen)| Refusal {
            code: RefusalCode::TakenAddress,
            why: format!("the address {address} of {} is taken: {seen}", whose(*address)),
            hint: "free it, or choose another in the file".to_owned(),
        })
        .collect()
}

/// More memory is asked of a host than it has in all. Proxmox would start the first VMs and fail at the last.
pub(super) fn memory(blueprint: &Blueprint, observed: &Observed) -> Vec<Refusal> {
    let mut wanted: BTreeMap<&str, u64> = BTreeMap::new();
    for node in blueprint.nodes.values().filter(|node| !node.external) {
        if let Some(host) = &node.host {
            *wanted.entry(host).or_default() += node.memory_mib;
        }
    }
    wanted
        .into_iter()
        .filter_map(|(host, mib)| {
            let has = observed.proxmox.inventory.hosts.get(host).filter(|h| h.online)?.memory_mib;
            (has > 0 && mib > has).then(|| Refusal {
                code: RefusalCode::Memory,
                why: format!("the nodes on {host} need {mib} MiB of memory, and it has {has} MiB"),
                hint: "give the nodes less memory, or spread them over more hosts".to_owned(),
            })
        })
        .collect()
}

/// More processors are asked for one VM than its host has. Proxmox would make the VM and refuse to start it.
pub(super) fn processors(blueprint: &Blueprint, observed: &Observed) -> Vec<Refusal> {
    let too_many = |node: &Node| {
        let host = node.host.as_ref()?;
        let has = observed.proxmox.inventory.hosts.get(host).filter(|h| h.online)?.cpus;
        (has > 0 && node.cores > has).then(|| Refusal {
            code: RefusalCode::Processors,
            why: format!(
                "{} asks for {} cores, and {host} has {has} CPUs: Proxmox would not start it",
                node.name, node.cores
            ),
            hint: "give it fewer cores (`cpu` of its size or pool), or another host".to_owned(),
        })
    };
    to_create(blueprint, &observed.proxmox).filter_map(too_many).collect()
}

/// What does not keep anything from being created, and should be known before. `plan` and `doctor` both report it.
#[must_use]
pub fn warnings(blueprint: &Blueprint, observed: &Observed) -> Vec<Note> {
    [tight(blueprint, observed), unsized_images(observed), documents(observed)].concat()
}

/// What may become tight: memory and space that others use, and what is left when a host is lost.
fn tight(blueprint: &Blueprint, observed: &Observed) -> Vec<Note> {
    let new: Vec<&Node> = to_create(blueprint, &observed.proxmox).collect();
    let hosts = &observed.proxmox.inventory.hosts;
    let mut memory: BTreeMap<&str, u64> = BTreeMap::new();
    let mut space: BTreeMap<(&str, String), u64> = BTreeMap::new();
    for node in &new {
        let Some(host) = &node.host else { continue };
        *memory.entry(host).or_default() += node.memory_mib;
        for drive in vm::drives(node) {
            if let (Holds::System { gib } | Holds::Data { gib }, Some(store)) = (drive.holds, drive.datastore)
            {
                *space.entry((host, store)).or_default() += gib;
            }
        }
    }
    let mut notes = vec![];
    for (host, mib) in &memory {
        let Some(seen) = hosts.get(*host).filter(|h| h.memory_mib > 0) else { continue };
        let free = seen.memory_mib.saturating_sub(seen.memory_used_mib);
        if *mib > free {
            let text = format!(
                "the new nodes on {host} want {mib} MiB of memory, and {free} MiB are free there now"
            );
            notes.push(Note { text });
        }
    }
    for ((host, store), gib) in space {
        let Some(seen) = hosts.get(host).and_then(|h| h.datastores.get(&store)) else { continue };
        let free = seen.free_bytes >> 30;
        if gib > free {
            let text = format!(
                "the new disks in {store} on {host} may grow to {gib} GiB, and {free} GiB are free there now"
            );
            notes.push(Note { text });
        }
    }
    if !new.is_empty() {
        notes.extend(one_host_lost(blueprint, observed));
    }
    notes
}

/// With several hosts, etcd should outlive the loss of any one.
fn one_host_lost(blueprint: &Blueprint, observed: &Observed) -> Option<Note> {
    let mut by_host: BTreeMap<&str, usize> = BTreeMap::new();
    for host in blueprint.control_planes().filter_map(|node| node.host.as_deref()) {
        *by_host.entry(host).or_default() += 1;
    }
    let all = blueprint.control_planes().count();
    let online = observed.proxmox.inventory.hosts.values().filter(|h| h.online).count();
    let (host, most) = by_host.into_iter().max_by_key(|(_, count)| *count)?;
    let survives = all - most > all / 2;
    (all >= 3 && online >= 3 && !survives).then(|| Note {
        text: format!("{most} of {all} control plane nodes are on {host}: without it etcd stops; `hosts` of the pool can spread them"),
    })
}
