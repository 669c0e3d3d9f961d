//! When nothing may be touched. Each rule is one function that returns its reasons; all are reported at once.

use std::collections::{BTreeMap, BTreeSet};

use super::{Refusal, RefusalCode, accounts, changed, lost, ownership, preflight};
use crate::blueprint::{Blueprint, Node};
use crate::mark::{Mark, RECORD_NODE};
use crate::observed::{Api, Observed, Vm};
use crate::ownership::{Act, Evidence, may};

/// Without Proxmox nothing can be compared: every VM would look as if it were gone.
#[must_use]
pub fn silence(observed: &Observed) -> Option<Refusal> {
    let (why, hint) = match (&observed.proxmox.unresponsive, observed.proxmox.token_rejected) {
        (None, _) => return None,
        (Some(why), true) => (
            format!("Proxmox rejected the token ({why}), so drift is unknown"),
            "check the token's user, realm, name and secret, and that it has not expired; `talosmith proxmox setup --renew` replaces it",
        ),
        (Some(why), false) => (
            format!("Proxmox does not answer ({why}), so drift is unknown"),
            "make sure that a host of `proxmox.endpoint` or `proxmox.endpoints` is on and can be reached",
        ),
    };
    Some(Refusal { code: RefusalCode::NoProxmox, why, hint: hint.to_owned() })
}

/// Rules that hold for every change.
#[must_use]
pub fn always(blueprint: &Blueprint, observed: &Observed) -> Vec<Refusal> {
    [
        old_proxmox(blueprint, observed),
        lost_bundle(blueprint, observed),
        lost::another_bundle(blueprint, observed),
        lost_marks(blueprint, observed),
        ownership::newer(observed),
        ownership::unfinished(blueprint, observed),
        doubled_identity(blueprint, observed),
        record_out_of_sight(blueprint, observed),
        hidden(blueprint, observed),
    ]
    .concat()
}

/// Guests with a VM ID of this cluster that the token is not shown. Proxmox leaves out of its list what the token may not read, so one
/// that is missing there may be a node, or the record with another operator's lease.
fn hidden(blueprint: &Blueprint, observed: &Observed) -> Vec<Refusal> {
    let whose = |vmid: u32| ownership::whose(blueprint, vmid);
    let refusal = |(vmid, why): (&u32, &Option<String>)| match why {
        Some(why) => Refusal {
            code: RefusalCode::NoProxmox,
            why: format!(
                "VM {vmid}, which has the VM ID of {}, is not listed, and whether it exists could not be asked: {why}",
                whose(*vmid)
            ),
            hint: "run the command again once Proxmox answers".to_owned(),
        },
        None => Refusal {
            code: RefusalCode::Rights,
            why: format!(
                "VM {vmid}, which has the VM ID of {}, exists, and the token may not see it",
                whose(*vmid)
            ),
            hint: format!(
                "give the token VM.Audit on /vms/{vmid}, or put the VM back into the pool that the token has rights on; `talosmith doctor` \
             shows its rights. If it is another user's VM, choose another VM ID in the file"
            ),
        },
    };
    observed.proxmox.hidden.iter().map(refusal).collect()
}

/// Rules that hold before anything is created, or changed in a way that takes a start.
#[must_use]
pub fn creation(blueprint: &Blueprint, observed: &Observed) -> Vec<Refusal> {
    [
        taken_ids(blueprint, observed),
        hosts_that_cannot(blueprint, observed),
        preflight::memory(blueprint, observed),
        preflight::processors(blueprint, observed),
        preflight::rights(observed),
        preflight::addresses(blueprint, observed),
        accounts::taken(blueprint, observed),
        preflight::images(observed),
        preflight::named(observed),
        changed::refusals(blueprint, observed),
    ]
    .concat()
}

/// The file forbids taking the cluster away.
#[must_use]
pub fn protected(blueprint: &Blueprint) -> Vec<Refusal> {
    if !blueprint.protect {
        return vec![];
    }
    vec![Refusal {
        code: RefusalCode::Protected,
        why: format!("the file protects the cluster {}", blueprint.cluster),
        hint: "set `protect: false` in the file if you really want to destroy it".to_owned(),
    }]
}

/// Proxmox VE before 9 differs in roles, HA and downloads, and is past its end of life.
fn old_proxmox(blueprint: &Blueprint, observed: &Observed) -> Vec<Refusal> {
    if !blueprint.has_proxmox() {
        return vec![];
    }
    let version = &observed.proxmox.version;
    match version.split('.').next().and_then(|major| major.parse::<u32>().ok()) {
        Some(major) if major >= 9 => vec![],
        _ => vec![Refusal {
            code: RefusalCode::OldProxmox,
            why: format!("Proxmox VE {version} is too old: Talosmith needs 9.0 or newer"),
            hint: "upgrade Proxmox VE first; version 8 is past its end of life".to_owned(),
        }],
    }
}

/// Machines of this cluster exist, and the keys to them are gone. New keys would not open them, so none are made.
fn lost_bundle(blueprint: &Blueprint, observed: &Observed) -> Vec<Refusal> {
    if blueprint.cluster_id.is_some() {
        return vec![];
    }
    let configured =
        observed.machines.iter().filter(|(_, seen)| matches!(seen.api, Api::ForeignMachine { .. }));
    let configured: Vec<&str> = configured.map(|(name, _)| name.as_str()).collect();
    if !configured.is_empty() {
        let is = if configured.len() == 1 { "is" } else { "are" };
        return vec![Refusal {
            code: RefusalCode::LostBundle,
            why: format!(
                "the secrets bundle is missing, but {} {is} configured already, with keys that are not here",
                configured.join(", ")
            ),
            hint: format!("{}. `talosmith explain lost-bundle` says more", lost::RESTORE),
        }];
    }
    let found = lost::without_keys(blueprint, observed);
    if found.is_empty() {
        return vec![];
    }
    let (s, verb) = if found.len() == 1 { ("", "exists") } else { ("s", "exist") };
    vec![Refusal {
        code: RefusalCode::LostBundle,
        why: format!(
            "the secrets bundle is missing, but {} VM{s} of a cluster called {} {verb}: {}",
            found.len(),
            blueprint.cluster,
            lost::list(&found)
        ),
        hint: lost::hint(lost::RESTORE),
    }]
}

/// A VM that is ours by its UUID, which only this cluster's keys give, and whose notes were changed. Nothing of it may be
/// touched without its mark; neither may another be made in its place.
fn lost_marks(blueprint: &Blueprint, observed: &Observed) -> Vec<Refusal> {
    let Some(owner) = blueprint.cluster_id.as_deref().map(Mark::owner_of) else { return vec![] };
    let refusal = |(vmid, node): (&u32, &String)| {
        let host = observed.proxmox.unread.get(vmid).map(String::as_str).unwrap_or_default();
        // What the record has for it, so that one that was rolled back as well is not accepted by this line.
        let recorded = observed.proxmox.record.as_ref().and_then(|seen| seen.state.generations.get(node));
        let vmgenid = recorded.or_else(|| observed.proxmox.unmarked_generations.get(vmid)).copied();
        let mark = Mark { vmgenid, ..Mark::new(&blueprint.cluster, owner, node) };
        let (what, hint) = match node.as_str() {
            // Without it nothing would say that etcd was bootstrapped, so it is never to be deleted.
            RECORD_NODE => (
                "the cluster record VM",
                format!(
                    "restore the lines `talosmith-mark:` and `talosmith-record:` of its notes from a backup. The first one is: {}. \
                     While a control plane node answers, that one is enough",
                    mark.line()
                ),
            ),
            node => (node, format!("add this line to its notes: {}", mark.line())),
        };
        Refusal {
            code: RefusalCode::LostMark,
            why: format!("VM {vmid} on {host} is {what} by its UUID, but its notes do not say so any more"),
            hint,
        }
    };
    observed.proxmox.unmarked.iter().map(refusal).collect()
}

/// The same node twice: a backup was restored beside the original. Which one is true, only a person can say.
fn doubled_identity(blueprint: &Blueprint, observed: &Observed) -> Vec<Refusal> {
    let Some(owner) = blueprint.cluster_id.as_deref().map(Mark::owner_of) else { return vec![] };
    let mut by_node: BTreeMap<&str, Vec<&Vm>> = BTreeMap::new();
    for vm in observed.proxmox.marked.iter().filter(|v| v.mark.owner == owner && !v.mark.is_template()) {
        by_node.entry(&vm.mark.node).or_default().push(vm);
    }
    by_node
        .into_iter()
        .filter(|(_, vms)| vms.len() > 1)
        .map(|(node, vms)| {
            let place = |v: &Vm| format!("VM {} on {}", v.vmid, v.host);
            let where_: Vec<String> = vms.iter().map(|v| place(v)).collect();
            let original = crate::ownership::original(blueprint, vms.iter().copied());
            let proven = |v: &Vm| may(Act::CloneFrom, blueprint, &Evidence::from(v), &v.mark.node).is_ok();
            let copies: Vec<&Vm> =
                vms.iter().copied().filter(|v| Some(v.vmid) != original.map(|o| o.vmid)).collect();
            let certain = original.is_some_and(proven) && !copies.iter().any(|v| proven(v));
            let copies: Vec<String> = copies.into_iter().map(place).collect();
            let hint = match certain {
                true => format!(
                    "delete the copy, {}, or remove the line `talosmith-mark:` from its notes",
                    copies.join(" and ")
                ),
                false => "remove the copy, or the line `talosmith-mark:` from its notes".to_owned(),
            };
            Refusal {
                code: RefusalCode::Doubled,
                why: format!("{node} exists {} times, as {}", vms.len(), where_.join(" and ")),
                hint,
            }
        })
        .collect()
}

/// The record may be on a host that does not answer. A new one cannot be made beside it, and without its lease another operator
/// may be changing the same machines. Once there are machines of ours, there is a record, too: then whatever could not be
/// read and is no node may be it, under another id.
fn record_out_of_sight(blueprint: &Blueprint, observed: &Observed) -> Vec<Refusal> {
    let proxmox = &observed.proxmox;
    if !blueprint.has_proxmox() || proxmox.record.is_some() {
        return vec![];
    }
    let owner = blueprint.cluster_id.as_deref().map(Mark::owner_of);
    let has_machines = owner.is_some_and(|owner| proxmox.of(owner).next().is_some());
    let is_node = |vmid: u32| blueprint.nodes.values().any(|node| node.vmid == vmid);
    // What lost its mark is told of as that.
    let may_be_it = |vmid: u32| {
        !proxmox.unmarked.contains_key(&vmid)
            && !proxmox.newer.contains_key(&vmid)
            && (vmid == blueprint.record.vmid || has_machines && !is_node(vmid))
    };
    let Some((vmid, host)) = proxmox.unread.iter().find(|(vmid, _)| may_be_it(**vmid)) else { return vec![] };
    vec![Refusal {
        code: RefusalCode::NoRecord,
        why: format!(
            "VM {vmid} on {host} may be the cluster record VM and could not be read; without it nothing keeps two operators apart"
        ),
        hint: format!(
            "bring {host} back; if it is lost for good, move the record VM, which has no disk, as root on another host: \
             `mv /etc/pve/nodes/{host}/qemu-server/{vmid}.conf /etc/pve/qemu-server/`"
        ),
    }]
}

/// An ID that we would create is taken by another VM. A VM that is being made at this moment shows no notes yet and
/// may well be ours, by a run that died: the step that creates it waits and reads it.
fn taken_ids(blueprint: &Blueprint, observed: &Observed) -> Vec<Refusal> {
    let owner = blueprint.cluster_id.as_deref().map(Mark::owner_of);
    let mut wanted: Vec<(u32, String, &str)> = preflight::to_create(blueprint, &observed.proxmox)
        .map(|n| (n.vmid, format!("of {}", n.name), "`vmid` (or `vmids` of its pool)"))
        .collect();
    if blueprint.has_proxmox()
        && observed.proxmox.record.is_none()
        && !observed.proxmox.unread.contains_key(&blueprint.record.vmid)
    {
        wanted.push((blueprint.record.vmid, "of the cluster record VM".to_owned(), "`proxmox.record`"));
    }
    wanted
        .into_iter()
        .filter_map(|(vmid, whose, key)| {
            let being_made = |lock: Option<&str>| matches!(lock, Some("create" | "clone"));
            let guest = observed.proxmox.taken.get(&vmid).filter(|g| !being_made(g.lock.as_deref()))?;
            let name = guest.name.as_deref().map_or_else(String::new, |n| format!(" ({n})"));
            let marked = observed.proxmox.marked.iter().find(|vm| vm.vmid == vmid);
            let is_outside = |mark: &Mark| mark.is_node() && !blueprint.nodes.contains_key(&mark.node);
            let (why, hint) = match marked.map(|vm| &vm.mark) {
                Some(mark)
                    if Some(mark.owner) == owner
                        && is_outside(mark)
                        && mark.cluster == blueprint.cluster =>
                (
                    format!(
                        "the id {vmid} {whose} is in use by {}, a node of this cluster that is not in the file",
                        mark.node
                    ),
                    format!(
                        "if its pool or the node was renamed in the file, write the old name again: the name of a node cannot be \
                         changed. For a new node beside it, choose another id with {key}"
                    ),
                ),
                Some(mark) if mark.cluster != blueprint.cluster => (
                    format!("the id {vmid} {whose} is in use by {} of the cluster {}", called(mark), mark.cluster),
                    format!(
                        "if `cluster` was renamed in the file, write `cluster: {}` again: the name of a cluster cannot be changed. \
                         Otherwise choose another id with {key}",
                        mark.cluster
                    ),
                ),
                _ => (
                    format!("the id {vmid} {whose} is taken by another guest{name} on {}", guest.host),
                    format!("choose another id with {key} in the file"),
                ),
            };
            Some(Refusal { code: RefusalCode::TakenId, why, hint })
        })
        .collect()
}

/// What a VM with a mark is called.
fn called(mark: &Mark) -> &str {
    match mark.node.as_str() {
        RECORD_NODE => "the record",
        node => node,
    }
}

/// A node must be created on a host that is unknown, off, without its bridges, or was never decided.
fn hosts_that_cannot(blueprint: &Blueprint, observed: &Observed) -> Vec<Refusal> {
    let mut refusals = vec![];
    for node in preflight::to_create(blueprint, &observed.proxmox) {
        let Some(host) = &node.host else {
            refusals.push(Refusal {
                code: RefusalCode::Host,
                why: format!(
                    "{} cannot be created: none of the Proxmox hosts that may carry it is online",
                    node.name
                ),
                hint: "bring a host back, or let the node run on others with `host` or `hosts`".to_owned(),
            });
            continue;
        };
        let reason = match observed.proxmox.inventory.hosts.get(host) {
            None => "Proxmox does not know it",
            Some(h) if !h.online => "it is offline",
            Some(h) if h.maintenance => "it is in maintenance mode, and Proxmox migrates VMs to other hosts",
            Some(h) => {
                let extra = node.settings.extra_nics.iter().map(|nic| &nic.bridge);
                refusals.extend(missing_bridges(
                    node,
                    host,
                    &h.bridges,
                    [&node.bridge].into_iter().chain(extra),
                ));
                continue;
            }
        };
        refusals.push(Refusal {
            code: RefusalCode::Host,
            why: format!("{} cannot be created on {host}: {reason}", node.name),
            hint: "name another host for it, or bring that one back".to_owned(),
        });
    }
    refusals
}

/// Proxmox accepts a bridge that does not exist, and fails when the VM starts.
pub(super) fn missing_bridges<'a>(
    node: &Node,
    host: &str,
    bridges: &[String],
    wanted: impl Iterator<Item = &'a String>,
) -> Vec<Refusal> {
    if bridges.is_empty() {
        // They could not be listed.
        return vec![];
    }
    let wanted: BTreeSet<&String> = wanted.collect();
    wanted
        .into_iter()
        .filter(|bridge| !bridges.contains(bridge))
        .map(|bridge| Refusal {
            code: RefusalCode::Bridge,
            why: format!("{} needs the bridge {bridge}, which {host} does not have", node.name),
            hint: format!(
                "create it there, or name one of its bridges: {}; a bridge that the token may not use is not seen",
                bridges.join(", ")
            ),
        })
        .collect()
}
