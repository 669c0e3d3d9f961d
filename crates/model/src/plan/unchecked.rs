//! VMs that could not be read while no record of the cluster was found.
//!
//! Without a record the cluster is either new, or its record and nodes are somewhere they were not seen. A VM that could not be
//! read may be one of them, so nothing is created beside it. What is known to be another user's is only reported: a VM that the
//! token has no right to read; one on an offline host whose name, tag and VM ID are not the cluster's; one on a host that the
//! file's `hosts` leaves out.

use std::collections::BTreeMap;

use super::{Note, Refusal, RefusalCode, bootstrap};
use crate::blueprint::Blueprint;
use crate::mark::Mark;
use crate::observed::{NotRead, Observed, Unchecked};

/// At most so many VMs are named one by one.
const NAMED: usize = 5;

/// Why a VM that could not be read is in the way, or is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Judged {
    MayBeOurs,
    Forbidden,
    NamedOtherwise,
    HostLeftOut,
}

fn judge(blueprint: &Blueprint, vm: &Unchecked) -> Judged {
    match &vm.reason {
        NotRead::Forbidden => Judged::Forbidden,
        _ if !blueprint.allows_host(&vm.host) => Judged::HostLeftOut,
        NotRead::Offline if vm.name.is_some() => Judged::NamedOtherwise,
        NotRead::Offline | NotRead::Failed { .. } => Judged::MayBeOurs,
    }
}

fn concerns(blueprint: &Blueprint, observed: &Observed) -> bool {
    blueprint.has_proxmox() && observed.proxmox.record.is_none()
}

/// No record is created beside VMs that may be this cluster's, one reason a host.
pub(super) fn refusals(blueprint: &Blueprint, observed: &Observed) -> Vec<Refusal> {
    if !concerns(blueprint, observed) {
        return vec![];
    }
    let proxmox = &observed.proxmox;
    let mut by_host: BTreeMap<&str, Vec<(u32, Option<&str>)>> = BTreeMap::new();
    let mut why: BTreeMap<&str, &str> = BTreeMap::new();
    for (vmid, vm) in proxmox.unchecked.iter().filter(|(_, vm)| judge(blueprint, vm) == Judged::MayBeOurs) {
        by_host.entry(&vm.host).or_default().push((*vmid, vm.name.as_deref()));
        if let NotRead::Failed { why: words } = &vm.reason {
            why.entry(&vm.host).or_insert(words);
        }
    }
    let is_nodes = |vmid: u32| blueprint.nodes.values().any(|node| !node.external && node.vmid == vmid);
    // Where a member of etcd answers, a node that cannot be read keeps nothing secret.
    let lives = bootstrap::member(blueprint, observed).is_some();
    let owner = blueprint.cluster_id.as_deref().map(Mark::owner_of);
    let has_machines = owner.is_some_and(|owner| proxmox.of(owner).next().is_some());
    let unread = proxmox.unread.iter().filter(|(vmid, host)| {
        // What lost its mark, was marked by a newer Talosmith or has the record's ID is reported as that.
        let reported = proxmox.unmarked.contains_key(vmid) || proxmox.newer.contains_key(vmid);
        let reported = reported || **vmid == blueprint.record.vmid;
        // So is any that is no node, where the cluster has machines.
        let may_be_ours =
            if is_nodes(**vmid) { !lives } else { !has_machines && blueprint.allows_host(host) };
        !reported && may_be_ours
    });
    for (vmid, host) in unread {
        let name = proxmox.taken.get(vmid).and_then(|guest| guest.name.as_deref());
        by_host.entry(host).or_default().push((*vmid, name));
    }
    by_host.into_iter().map(|(host, vms)| refusal(blueprint, observed, host, &vms, why.get(host))).collect()
}

fn refusal(
    blueprint: &Blueprint,
    observed: &Observed,
    host: &str,
    vms: &[(u32, Option<&str>)],
    why: Option<&&str>,
) -> Refusal {
    let hosts = &observed.proxmox.inventory.hosts;
    let offline = hosts.get(host).is_some_and(|host| !host.online);
    let cause = match why {
        _ if offline => format!("{host} is offline"),
        Some(why) => (*why).to_owned(),
        None => "Proxmox did not give their configuration".to_owned(),
    };
    let verb = if vms.len() == 1 { "belongs" } else { "belong" };
    let others: Vec<String> = hosts
        .keys()
        .filter(|other| *other != host && blueprint.allows_host(other))
        .map(|other| format!("{other}: {{}}"))
        .collect();
    let back = match offline {
        true => format!("bring {host} back"),
        false => format!("make sure that {host} answers, and run the command again"),
    };
    let has_ours = vms.iter().any(|(vmid, _)| blueprint.nodes.values().any(|node| node.vmid == *vmid));
    let way_on = match others.is_empty() || has_ours {
        true => String::new(),
        false => format!(
            "; if this cluster never had a VM on {host}, leave that host out: write `hosts: {{ {} }}` in the file",
            others.join(", ")
        ),
    };
    Refusal {
        code: RefusalCode::NoRecord,
        why: format!(
            "the cluster record VM was not found, and whether {} on {host} {verb} to this cluster could not be checked: {cause}",
            list(vms)
        ),
        hint: format!("{back}{way_on}"),
    }
}

fn list(vms: &[(u32, Option<&str>)]) -> String {
    let named = |(vmid, name): &(u32, Option<&str>)| match name {
        Some(name) => format!("VM {vmid} ({name})"),
        None => format!("VM {vmid}"),
    };
    let mut words: Vec<String> = vms.iter().take(NAMED).map(named).collect();
    if vms.len() > NAMED {
        words.push(format!("{} more", vms.len() - NAMED));
    }
    match words.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        _ => words.concat(),
    }
}

/// VMs that could not be read and are taken for another user's, counted.
pub(super) fn notes(blueprint: &Blueprint, observed: &Observed) -> Vec<Note> {
    if !concerns(blueprint, observed) {
        return vec![];
    }
    let mut counted: BTreeMap<(Judged, &str), usize> = BTreeMap::new();
    for vm in observed.proxmox.unchecked.values() {
        let judged = judge(blueprint, vm);
        let host = if judged == Judged::Forbidden { "" } else { vm.host.as_str() };
        *counted.entry((judged, host)).or_default() += 1;
    }
    let text = |((judged, host), count): ((Judged, &str), usize)| {
        let vms = if count == 1 { "1 VM".to_owned() } else { format!("{count} VMs") };
        let what = match judged {
            Judged::MayBeOurs => return None,
            Judged::Forbidden => {
                format!("{vms} cannot be checked: the token has no right to read them (VM.Audit)")
            }
            Judged::NamedOtherwise => {
                format!(
                    "{vms} on {host} cannot be checked: the host is offline; name, tags and VM ID are not this cluster's"
                )
            }
            Judged::HostLeftOut => {
                format!("{vms} on {host} cannot be checked; `hosts` in the file leaves that host out")
            }
        };
        Some(Note { text: format!("{what}. If one of them belongs to this cluster, stop here") })
    };
    counted.into_iter().filter_map(text).collect()
}
