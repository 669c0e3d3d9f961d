//! Whether a VM is the one that Talosmith made, and what may be done to it.
//!
//! Three things are compared: the mark in its notes (owner and node), its SMBIOS UUID, and its generation ID (`vmgenid`), which
//! the mark repeats. What Proxmox changes tells them apart:
//!
//! | what was done to a VM | notes | UUID | vmgenid |
//! | --- | --- | --- | --- |
//! | cloned, or restored as unique | copied | new | new |
//! | restored from a backup, rolled back to a snapshot | kept | kept | new |
//! | UUID edited by a person | kept | new | kept |
//! | ID reused by another VM | none of ours | new | new |
//!
//! Marks of the first release have no vmgenid. The cluster record VM keeps the generation of every control plane node, so that such a mark in a
//! snapshot is known for what it is after a rollback.
//!
//! A control plane node with another generation brings an old raft log back under the ID of a live etcd member, so it is never
//! touched. A worker has no such state: restored in its own place, it is the same node. A copy is never touched, whatever it is
//! a copy of. Planning and execution both ask the functions below: a plan by what was observed, a step by what it reads
//! directly before its call.

use std::collections::BTreeMap;

use uuid::Uuid;

use crate::blueprint::{Blueprint, Node, Role};
use crate::mark::{Mark, RECORD_NODE};
use crate::names::VmRef;
use crate::observed::{Observed, Proxmox, Vm};

/// What identifies a VM.
#[derive(Debug, Clone, Copy)]
pub struct Evidence<'a> {
    /// Its VM ID.
    pub vmid: u32,
    /// The name that the VM has in Proxmox.
    pub name: &'a str,
    /// The mark in its notes.
    pub mark: &'a Mark,
    /// Its SMBIOS UUID.
    pub uuid: Option<Uuid>,
    /// Its generation ID. Proxmox gives none on some platforms.
    pub vmgenid: Option<Uuid>,
    /// The generation ID that the cluster record VM has for its node.
    pub recorded: Option<Uuid>,
    /// Whether Proxmox has it as a template.
    pub template: bool,
}

impl<'a> From<&'a Vm> for Evidence<'a> {
    fn from(vm: &'a Vm) -> Self {
        Self {
            vmid: vm.vmid,
            name: &vm.name,
            mark: &vm.mark,
            uuid: vm.uuid,
            vmgenid: vm.vmgenid,
            recorded: vm.recorded,
            template: vm.config.get("template").is_some_and(|flag| flag == "1"),
        }
    }
}

/// What a VM with a mark of this cluster is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Identity {
    /// The VM that Talosmith made.
    Ours,
    /// Talosmith has not finished creating it, and never started it.
    Unfinished,
    /// The VM that Talosmith made, with disks of an earlier time.
    Restored,
    /// Another VM: the mark was copied with its notes.
    Copy,
}

/// What Talosmith is about to do to a VM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    /// Change its configuration, disks or pool.
    Change,
    Start,
    /// Use it as the source of a clone.
    CloneFrom,
    /// Stop or delete it.
    Remove,
}

/// Why a VM is left alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Foreign {
    /// Its mark is of another cluster or node.
    #[error("its notes say that it is another VM")]
    Another,
    #[error("its notes were copied from another VM: it is a clone, or a backup restored as a new VM")]
    Copy,
    /// Its disks are of an earlier time.
    #[error("it was restored from a backup or rolled back to a snapshot")]
    Restored,
    /// It has not been finished.
    #[error("its creation is not finished")]
    Unfinished,
}

/// What the VM is, in the cluster with this ID.
#[must_use]
pub fn identify(seen: &Evidence<'_>, cluster_id: &str) -> Identity {
    let mark = seen.mark;
    let has_our_uuid = seen.uuid == Some(mark.uuid(cluster_id));
    // Templates of the first release have a random UUID. A clone of one is no template.
    let old_template =
        mark.is_template() && mark.version == 0 && seen.template && seen.name.starts_with(&mark.cluster);
    match mark.vmgenid {
        // The mark was edited after a rollback in another way than to accept it.
        Some(known) if seen.vmgenid == Some(known) && has_our_uuid && !is_expected(seen, known) => {
            Identity::Restored
        }
        // Proxmox never gives two VMs the same generation, so the UUID was edited by a person if it differs.
        Some(known) if seen.vmgenid == Some(known) => Identity::Ours,
        Some(_) if has_our_uuid => Identity::Restored,
        Some(_) => Identity::Copy,
        None if has_our_uuid && mark.creating => Identity::Unfinished,
        // Its mark had a generation once. A snapshot from before that was rolled back to.
        None if has_our_uuid && seen.recorded.is_some_and(|known| seen.vmgenid != Some(known)) => {
            Identity::Restored
        }
        None if has_our_uuid || old_template => Identity::Ours,
        // A clone of our template gets its UUID after its mark.
        None if mark.creating && seen.name == mark.node => Identity::Unfinished,
        None => Identity::Copy,
    }
}

/// Whether the record agrees with a VM's generation: it has none of the node yet, or this one, or the one that this VM replaced, or
/// that a person accepted the loss of.
fn is_expected(seen: &Evidence<'_>, generation: Uuid) -> bool {
    let Evidence { mark, recorded, .. } = seen;
    recorded.is_none() || [Some(generation), mark.accepted, mark.replaces].contains(recorded)
}

/// Whether the VM is `node` and may be acted on.
///
/// # Errors
///
/// Why it is left alone.
pub fn may(act: Act, blueprint: &Blueprint, seen: &Evidence<'_>, node: &str) -> Result<Identity, Foreign> {
    let Some(cluster_id) = blueprint.cluster_id.as_deref() else { return Err(Foreign::Another) };
    if !seen.mark.names(Mark::owner_of(cluster_id), node) {
        return Err(Foreign::Another);
    }
    let identity = identify(seen, cluster_id);
    match (identity, act) {
        (Identity::Ours, _) => Ok(identity),
        (Identity::Unfinished, Act::Change | Act::Remove) => Ok(identity),
        (Identity::Unfinished, Act::Start | Act::CloneFrom) => Err(Foreign::Unfinished),
        (Identity::Restored, _) if !in_its_place(blueprint, seen) => Err(Foreign::Copy),
        (Identity::Restored, Act::Remove) if node != RECORD_NODE => Ok(identity),
        (Identity::Restored, _) if is_worker(blueprint, node) => Ok(identity),
        (Identity::Restored, _) => Err(Foreign::Restored),
        (Identity::Copy, _) => Err(Foreign::Copy),
    }
}

/// Whether the VM has the VM ID that its node has in the file. A backup may be restored beside it.
fn in_its_place(blueprint: &Blueprint, seen: &Evidence<'_>) -> bool {
    match seen.mark.node.as_str() {
        RECORD_NODE => seen.vmid == blueprint.record.vmid,
        node => blueprint.nodes.get(node).is_some_and(|node| node.vmid == seen.vmid),
    }
}

fn is_worker(blueprint: &Blueprint, node: &str) -> bool {
    blueprint.nodes.get(node).is_some_and(|node| node.role == Role::Worker)
}

/// Of several VMs with the mark of one node, the one that is most certainly it. A clone stays beside its original until a person
/// removes it, and must not be named in its place.
#[must_use]
pub fn original<'a>(blueprint: &Blueprint, vms: impl Iterator<Item = &'a Vm>) -> Option<&'a Vm> {
    let cluster_id = blueprint.cluster_id.as_deref()?;
    vms.min_by_key(|vm| {
        let evidence = Evidence::from(*vm);
        let doubt = match identify(&evidence, cluster_id) {
            Identity::Ours => 0,
            Identity::Unfinished => 1,
            Identity::Restored => 2,
            Identity::Copy => 3,
        };
        (doubt, !in_its_place(blueprint, &evidence), vm.vmid)
    })
}

/// The VM of a node. Of several that have its mark it is the most certain one; `None` means that none has.
#[must_use]
pub fn vm_of<'a>(blueprint: &Blueprint, proxmox: &'a Proxmox, node: &str) -> Option<&'a Vm> {
    let owner = Mark::owner_of(blueprint.cluster_id.as_deref()?);
    original(blueprint, proxmox.of(owner).filter(|vm| vm.mark.node == node))
}

/// Control plane nodes of the file of which some were rolled back, which a person accepted, and others may have newer etcd data.
#[derive(Debug, Default)]
pub struct PartlyAccepted<'a> {
    /// Rolled back, and accepted.
    pub accepted: Vec<&'a Vm>,
    /// Not rolled back.
    pub newer: Vec<&'a Vm>,
    /// Which of both could not be read: node and host.
    pub unread: Vec<(&'a str, &'a str)>,
}

/// The control plane nodes, if a person accepted the rollback of some and not all others went back with them. A run that goes on
/// with what was accepted writes all generations to the record first, so an acceptance with another one there is old.
#[must_use]
pub fn partly_accepted<'a>(blueprint: &'a Blueprint, observed: &'a Observed) -> Option<PartlyAccepted<'a>> {
    let cluster_id = blueprint.cluster_id.as_deref()?;
    let is_accepted = |vm: &Vm| {
        vm.mark.accepted.is_some_and(|before| vm.recorded.is_none_or(|recorded| recorded == before))
    };
    let mut found = PartlyAccepted::default();
    let mut sort = |vm: &'a Vm| match identify(&Evidence::from(vm), cluster_id) {
        Identity::Ours if is_accepted(vm) => found.accepted.push(vm),
        Identity::Ours => found.newer.push(vm),
        _ => {}
    };
    // One that left the file may be a control plane node, and still has its data.
    let outside = |vm: &&Vm| !blueprint.nodes.contains_key(&vm.mark.node);
    observed.proxmox.of(Mark::owner_of(cluster_id)).filter(outside).for_each(&mut sort);
    for node in blueprint.control_planes() {
        match vm_of(blueprint, &observed.proxmox, &node.name) {
            Some(vm) => sort(vm),
            None => {
                let unread = observed.proxmox.unread.get(&node.vmid);
                found.unread.extend(unread.map(|host| (node.name.as_str(), host.as_str())));
            }
        }
    }
    let others = found.newer.len() + found.unread.len();
    (!found.accepted.is_empty() && others > 0).then_some(found)
}

/// Where a node's VM is; where it will be, if it has none.
#[must_use]
pub fn place_of(blueprint: &Blueprint, proxmox: &Proxmox, node: &Node) -> VmRef {
    match vm_of(blueprint, proxmox, &node.name) {
        Some(vm) => vm.at(),
        None => VmRef::new(node.host.clone().unwrap_or_default(), node.vmid),
    }
}

/// The generation that the mark of a VM should name. One that an earlier release marked gets it only when its name agrees,
/// too; one that may be changed after it was restored gets the new one.
#[must_use]
pub fn generation(seen: &Evidence<'_>, identity: Identity, name: &str) -> Option<Uuid> {
    match identity {
        Identity::Ours if seen.mark.vmgenid.is_some() => seen.mark.vmgenid,
        Identity::Ours if seen.name != name => None,
        Identity::Ours | Identity::Unfinished | Identity::Restored => seen.vmgenid,
        Identity::Copy => seen.mark.vmgenid,
    }
}

/// The generations that the cluster record VM should have: what it has, and those of all VMs that are certainly control plane nodes.
/// A worker needs none, and the notes of a VM have only so much room.
#[must_use]
pub fn generations(blueprint: &Blueprint, observed: &Observed) -> BTreeMap<String, Uuid> {
    let record = observed.proxmox.record.as_ref();
    let mut known = record.map(|record| record.state.generations.clone()).unwrap_or_default();
    let Some(cluster_id) = blueprint.cluster_id.as_deref() else { return known };
    let is_control_plane = |vm: &&Vm| blueprint.control_planes().any(|node| node.name == vm.mark.node);
    // Of rollbacks that were accepted in part, the record keeps what was before: it is how they are told apart.
    let partly = partly_accepted(blueprint, observed).map(|found| found.accepted).unwrap_or_default();
    for vm in observed.proxmox.of(Mark::owner_of(cluster_id)).filter(is_control_plane) {
        let evidence = Evidence::from(vm);
        let certain = identify(&evidence, cluster_id) == Identity::Ours
            && in_its_place(blueprint, &evidence)
            && !partly.iter().any(|accepted| accepted.vmid == vm.vmid);
        if let Some(generation) = vm.vmgenid.filter(|_| certain) {
            known.insert(vm.mark.node.clone(), generation);
        }
    }
    known
}

#[cfg(test)]
mod tests;
