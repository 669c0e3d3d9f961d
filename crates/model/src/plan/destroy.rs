//! Taking the cluster away: every VM and every account that is ours, the record last, nothing else.
//!
//! etcd members are not removed one by one, because nothing remains. A dead cluster is no obstacle, because only Proxmox is asked. Images stay,
//! since other clusters may use them; so does the bundle.

use super::{Note, accounts, ownership};
use crate::blueprint::Blueprint;
use crate::mark::Mark;
use crate::natural;
use crate::observed::{Observed, Vm};
use crate::step::{Action, Disruption, Step};

/// Steps and notes.
pub(super) fn steps(blueprint: &Blueprint, observed: &Observed) -> (Vec<Step>, Vec<Note>) {
    let Some(owner) = blueprint.cluster_id.as_deref().map(Mark::owner_of) else { return (vec![], vec![]) };
    let mut steps: Vec<Step> = vec![];
    let mut deletions = vec![];
    let mut vms: Vec<&Vm> = observed.proxmox.of(owner).collect();
    vms.sort_by(|a, b| natural::compare(&a.mark.node, &b.mark.node));
    let templates = observed.proxmox.templates(owner);
    let templates = templates.filter(|vm| ownership::is_our_template(blueprint, vm));
    for vm in vms.into_iter().chain(templates) {
        let node = || vm.mark.node.as_str().into();
        let mut after = vec![];
        if vm.running {
            let stop = Action::StopVm { node: node(), vm: vm.at(), if_unresponsive: false };
            after.push(stop.id());
            steps.push(step(stop, vec![], "a running VM cannot be deleted", 5));
        }
        let delete = Action::DeleteVm { node: node(), vm: vm.at(), keeps_quorum: false };
        deletions.push(delete.id());
        steps.push(step(delete, after, "it is part of the cluster", 5));
    }
    let had_any = !steps.is_empty() || observed.proxmox.record.is_some();
    let (removals, stays) = if had_any { accounts::removal(blueprint, observed) } else { (vec![], vec![]) };
    deletions.extend(removals.iter().map(|step| step.id.clone()));
    steps.extend(removals);
    // What could not be read or is being created may be ours, and as long as something of ours is left, the record guards it.
    let complete = observed.proxmox.unread.is_empty() && observed.proxmox.creating.is_empty();
    if let Some(record) = observed.proxmox.record.as_ref().filter(|_| complete) {
        let delete = Action::DeleteRecord { vm: record.at() };
        steps.push(step(delete, deletions, "it is deleted last", 3));
    }
    let mut notes: Vec<Note> = observed
        .unobserved
        .iter()
        .map(|u| Note {
            text: format!("could not read {}: {}. VMs of this cluster there stay", u.what, u.why),
        })
        .collect();
    if !complete && observed.proxmox.record.is_some() {
        notes.push(Note { text: "the cluster record VM stays until everything else is gone".to_owned() });
    }
    notes.extend(stays);
    notes.extend(ownership::copied_templates(blueprint, observed));
    for node in blueprint.in_order().into_iter().filter(|node| node.external) {
        let text = format!(
            "{} was not created by Talosmith; reset it with `talosctl reset` to use it for something else",
            node.name
        );
        notes.push(Note { text });
    }
    (steps, notes)
}

fn step(action: Action, after: Vec<crate::step::StepId>, reason: &str, seconds: u32) -> Step {
    Step {
        id: action.id(),
        action,
        after,
        reason: reason.to_owned(),
        disruption: Disruption::Delete,
        seconds,
        unit: None,
    }
}
