//! VMs of a cluster with this name whose keys are not here: the bundle is missing, or it is another one.
//!
//! Whose a VM is follows from the bundle. Without the right one nothing can be changed, and "there is nothing" would be untrue.

use super::{Plan, Refusal, RefusalCode};
use crate::blueprint::Blueprint;
use crate::mark::Mark;
use crate::natural;
use crate::observed::{Observed, Vm};

/// How a bundle that is missing comes back.
pub(super) const RESTORE: &str =
    "restore it from your backup; `talosmith secrets import FILE` takes over secrets that were exported";
/// The same, where another one is in its place.
const REPLACE: &str = "replace it by the one from your backup; `talosmith secrets import FILE` takes over secrets that were exported, \
                       once that file is moved away";

/// At most so many VMs are named one by one.
const NAMED: usize = 12;

/// VMs that carry the cluster's name and were made with another bundle than the one that is here, if any is.
#[must_use]
pub fn without_keys<'a>(blueprint: &Blueprint, observed: &'a Observed) -> Vec<&'a Vm> {
    let ours = blueprint.cluster_id.as_deref().map(Mark::owner_of);
    let marked = observed.proxmox.marked.iter();
    let mut found: Vec<&Vm> =
        marked.filter(|vm| vm.mark.cluster == blueprint.cluster && Some(vm.mark.owner) != ours).collect();
    found.sort_by(|a, b| natural::compare(&a.name, &b.name));
    found
}

/// There is a bundle, nothing was made with it, and a cluster of the same name was made with another one.
pub(super) fn another_bundle(blueprint: &Blueprint, observed: &Observed) -> Vec<Refusal> {
    let Some(ours) = blueprint.cluster_id.as_deref().map(Mark::owner_of) else { return vec![] };
    if observed.proxmox.marked.iter().any(|vm| vm.mark.owner == ours) {
        return vec![];
    }
    let found = without_keys(blueprint, observed);
    if found.is_empty() {
        return vec![];
    }
    vec![Refusal {
        code: RefusalCode::LostBundle,
        why: format!(
            "the secrets bundle here is not the one that the cluster {} was made with: {}",
            blueprint.cluster,
            list(&found)
        ),
        hint: hint(REPLACE),
    }]
}

/// The VMs, for people.
pub(super) fn list(vms: &[&Vm]) -> String {
    let named = vms.iter().take(NAMED).map(|vm| format!("VM {} ({}) on {}", vm.vmid, vm.name, vm.host));
    let mut named: Vec<String> = named.collect();
    if vms.len() > NAMED {
        named.push(format!("and {} more", vms.len() - NAMED));
    }
    named.join(", ")
}

/// What to do about VMs whose keys are not here. Their deletion is no way to get the cluster back, so it is not proposed: `explain` tells
/// how it is done.
pub(super) fn hint(first: &str) -> String {
    format!(
        "{first}; if those VMs belong to another cluster, give this one another name. `talosmith explain lost-bundle` says more"
    )
}

/// Says in refusals for the lack of the bundle where it was searched, or which one was read: only the caller knows.
pub fn locate(plan: &mut Plan, bundle_at: &str) {
    let lost = |refusal: &&mut Refusal| refusal.code == RefusalCode::LostBundle && !bundle_at.is_empty();
    for refusal in plan.refusals.iter_mut().filter(lost) {
        refusal.hint = format!("{bundle_at}: {}", refusal.hint);
    }
}
