//! VMs that stop everything because it is not certain that they are the ones that Talosmith made, or that they are finished.

use super::{Note, Refusal, RefusalCode};
use crate::blueprint::Blueprint;
use crate::mark::{Mark, RECORD_NODE};
use crate::observed::{Creation, Observed, Vm};
use crate::ownership::{self, Act, Evidence, Foreign, Identity};
use crate::quorum::{self, Quorum};

/// Notes that a newer Talosmith wrote may mean what this one does not know.
pub(super) fn newer(observed: &Observed) -> Vec<Refusal> {
    let refusal = |(vmid, version): (&u32, &u64)| Refusal {
        code: RefusalCode::Newer,
        why: format!(
            "the notes of VM {vmid} on {} were written by a newer Talosmith (version {version} of their format)",
            observed.proxmox.unread.get(vmid).map(String::as_str).unwrap_or_default()
        ),
        hint: "upgrade this program; nothing was changed".to_owned(),
    };
    observed.proxmox.newer.iter().map(refusal).collect()
}

/// VMs with our mark that are copies, or that were restored and must not be used. `act` is what is planned for all of them.
pub(super) fn foreign(blueprint: &Blueprint, observed: &Observed, act: Act) -> Vec<Refusal> {
    let Some(owner) = blueprint.cluster_id.as_deref().map(Mark::owner_of) else { return vec![] };
    let ours =
        || observed.proxmox.marked.iter().filter(move |vm| vm.mark.owner == owner && !vm.mark.is_template());
    let refusal = |vm: &Vm| {
        let why = ownership::may(act, blueprint, &Evidence::from(vm), &vm.mark.node).err()?;
        // One that exists twice is refused as that.
        if ours().filter(|other| other.mark.node == vm.mark.node).count() > 1 {
            return None;
        }
        let (node, vmid, host) = (&vm.mark.node, vm.vmid, &vm.host);
        let what = if *node == RECORD_NODE { "the cluster record VM" } else { node };
        match why {
            Foreign::Copy => Some(Refusal {
                code: RefusalCode::Copied,
                why: format!(
                    "VM {vmid} ({}) on {host} carries the mark of {what}, but is another VM: {why}",
                    vm.name
                ),
                hint: format!(
                    "if it is not needed, delete VM {vmid}; to keep it for something else, remove the line `talosmith-mark:` from \
                     its notes"
                ),
            }),
            Foreign::Restored => Some(Refusal {
                code: RefusalCode::Restored,
                why: format!("{what} (VM {vmid} on {host}) is not as Talosmith left it: {why}"),
                hint: restored(blueprint, observed, vm),
            }),
            Foreign::Another | Foreign::Unfinished => None,
        }
    };
    // A node that the file does not have is only reported, unless everything is removed.
    let concerns = |vm: &&Vm| {
        act == Act::Remove || vm.mark.node == RECORD_NODE || blueprint.nodes.contains_key(&vm.mark.node)
    };
    let mut refusals: Vec<Refusal> = ours().filter(concerns).filter_map(refusal).collect();
    if act != Act::Remove {
        refusals.extend(accepted_in_part(blueprint, observed));
    }
    refusals
}

/// A person accepted the rollback of some control plane nodes, but not all are known to have been rolled back.
fn accepted_in_part(blueprint: &Blueprint, observed: &Observed) -> Vec<Refusal> {
    let Some(found) = ownership::partly_accepted(blueprint, observed) else { return vec![] };
    let names = |vms: &[&Vm]| vms.iter().map(|vm| vm.mark.node.as_str()).collect::<Vec<_>>().join(", ");
    let (newer, accepted) = (names(&found.newer), names(&found.accepted));
    // Those that went back must not count: they are who would be removed.
    let all = blueprint.control_planes().count();
    let holds_without = found.newer.len() * 2 > all && has_quorum(blueprint, observed);
    let but = match (found.newer.len(), found.unread.first()) {
        (0, Some((node, host))) => {
            format!("but whether {node} was rolled back, too, could not be read on {host}")
        }
        (1, _) => format!("but {newer} was not: its etcd data is newer"),
        _ => format!("but {newer} were not: their etcd data is newer"),
    };
    let hint = match found.unread.first() {
        Some((_, host)) if found.newer.is_empty() => format!("bring {host} back, then run the command again"),
        _ => format!(
            "delete no VM. Stop {accepted}. If {newer} can give etcd a quorum, start what of it is off and run the command again. If not, \
             restore the VMs of all control plane nodes to one moment"
        ),
    };
    let refusal = |vm: &&Vm| Refusal {
        code: RefusalCode::Restored,
        why: format!(
            "{} (VM {} on {}) was restored or rolled back, which its notes accept, {but}",
            vm.mark.node, vm.vmid, vm.host
        ),
        hint: if holds_without { remove_member(vm) } else { hint.clone() },
    };
    found.accepted.iter().map(refusal).collect()
}

/// How a control plane node that went back alone is replaced.
fn remove_member(vm: &Vm) -> String {
    format!(
        "its etcd data is older than what its member acknowledged, so it must not run: stop VM {vmid}, remove the member {node} \
         (`talosctl etcd members` on another control plane node shows its ID, `talosctl etcd remove-member ID` removes it), \
         delete the VM and apply",
        vmid = vm.vmid,
        node = vm.mark.node
    )
}

/// A control plane node alone never goes back: the others know what its etcd member acknowledged since. Where all of them went back, none
/// does, and etcd goes on from what they have.
fn restored(blueprint: &Blueprint, observed: &Observed, vm: &Vm) -> String {
    // What it was, so that accepting one of several can be told from accepting all.
    let before = vm.recorded.or(vm.mark.vmgenid).filter(|_| vm.mark.is_node());
    let accepted = Mark { accepted: before, ..vm.mark.clone().in_place_of(&vm.mark, vm.vmgenid) };
    let accept = format!("replace the line `talosmith-mark:` in its notes by: {}", accepted.line());
    match vm.mark.node.as_str() {
        RECORD_NODE => format!(
            "make sure that its notes say when etcd was bootstrapped, if it was; then, to accept them, {accept}"
        ),
        _ if all_restored(blueprint, observed) => format!(
            "no control plane node has newer etcd data, so etcd can go on from what they have; what was written since is lost. If that \
             is what you want, make sure that all of them are off, and {accept}"
        ),
        _ if !has_quorum(blueprint, observed) => format!(
            "its etcd data is older than what its member acknowledged, and no quorum of etcd is seen without it: delete no VM, and start \
             none that was rolled back. If all control plane nodes were restored to the same moment, make sure that all of them are off, \
             and {accept}. If not, and others of them are off, start those and run the command again; else restore all of them to \
             one moment first"
        ),
        _ => remove_member(vm),
    }
}

/// Whether members of etcd say that it has a quorum, so that one of them can be removed.
fn has_quorum(blueprint: &Blueprint, observed: &Observed) -> bool {
    quorum::standing(blueprint, &observed.machines).is_some_and(|standing| standing.quorum == Quorum::Holds)
}

/// Whether a node's VM was restored or rolled back.
pub(super) fn is_restored(blueprint: &Blueprint, observed: &Observed, node: &str) -> bool {
    let Some(cluster_id) = blueprint.cluster_id.as_deref() else { return false };
    ownership::vm_of(blueprint, &observed.proxmox, node)
        .is_some_and(|vm| ownership::identify(&Evidence::from(vm), cluster_id) == Identity::Restored)
}

/// Whether every control plane node of the file was restored or rolled back, so that nothing has newer etcd data.
fn all_restored(blueprint: &Blueprint, observed: &Observed) -> bool {
    blueprint.control_planes().all(|node| is_restored(blueprint, observed, &node.name))
}

/// A creation that was killed leaves a lock that only root can remove. The VM says neither whose it is nor which disks it has.
pub(super) fn unfinished(blueprint: &Blueprint, observed: &Observed) -> Vec<Refusal> {
    let refusal = |(vmid, creation): (&u32, &Creation)| {
        let host = &creation.host;
        Refusal {
            code: RefusalCode::Unfinished,
            why: format!(
                "VM {vmid} on {host}, which has the VM ID of {}, is an unfinished creation: Proxmox holds the lock `{}` on it, and \
                 no task is working on it",
                whose(blueprint, *vmid),
                creation.lock
            ),
            hint: hint(*vmid, host),
        }
    };
    let dead = observed.proxmox.creating.iter().filter(|(_, creation)| creation.active == Some(false));
    dead.map(refusal).collect()
}

/// How root removes what a killed creation left. Disks that no configuration names stay without the second option.
#[must_use]
pub fn hint(vmid: u32, host: &str) -> String {
    format!(
        "make sure that no other run is creating this VM; then, as root on {host}, run `qm destroy {vmid} --skiplock \
         --destroy-unreferenced-disks 1 --purge`, and run the command again"
    )
}

/// Which VM of the cluster has this VM ID.
#[must_use]
pub fn whose(blueprint: &Blueprint, vmid: u32) -> String {
    let node = blueprint.nodes.values().find(|node| node.vmid == vmid);
    match node {
        Some(node) => node.name.to_string(),
        None if vmid == blueprint.record.vmid || Some(vmid) == blueprint.record.usual_vmid => {
            "the cluster record VM".to_owned()
        }
        None => "a template of the cluster".to_owned(),
    }
}

/// A person protected a VM. Nothing is stopped before that is settled. The record's protection is our own.
pub(super) fn protected(blueprint: &Blueprint, observed: &Observed) -> Vec<Refusal> {
    let Some(owner) = blueprint.cluster_id.as_deref().map(Mark::owner_of) else { return vec![] };
    let is_protected = |vm: &&Vm| vm.config.get("protection").is_some_and(|flag| flag == "1");
    let vms = observed.proxmox.of(owner).chain(observed.proxmox.templates(owner)).filter(is_protected);
    vms.map(|vm| Refusal {
        code: RefusalCode::Protected,
        why: format!("{} (VM {} on {}) is protected in Proxmox", vm.mark.node, vm.vmid, vm.host),
        hint: format!(
            "to delete it, disable its protection: `qm set {} --protection 0` on {}, or in its options",
            vm.vmid, vm.host
        ),
    })
    .collect()
}

/// Whether a template is the one that Talosmith made. A clone of it carries the same mark and belongs to the person who made it.
pub(super) fn is_our_template(blueprint: &Blueprint, vm: &Vm) -> bool {
    let evidence = Evidence::from(vm);
    ownership::may(Act::Remove, blueprint, &evidence, &vm.mark.node) == Ok(Identity::Ours)
}

/// Copies of our templates, which stay.
pub(super) fn copied_templates(blueprint: &Blueprint, observed: &Observed) -> Vec<Note> {
    let Some(owner) = blueprint.cluster_id.as_deref().map(Mark::owner_of) else { return vec![] };
    let copies = observed.proxmox.templates(owner).filter(|vm| !is_our_template(blueprint, vm));
    let text = |vm: &Vm| {
        format!(
            "VM {} ({}) on {} is a copy of a template of this cluster; it is not changed. Remove the line `talosmith-mark:` \
             from its notes",
            vm.vmid, vm.name, vm.host
        )
    };
    copies.map(|vm| Note { text: text(vm) }).collect()
}
