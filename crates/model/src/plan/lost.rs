//! VMs of a cluster with this name whose keys are not here: the bundle is missing, or it is another one.
//!
//! Whose a VM is follows from the bundle. Without the right one nothing can be changed, and "there is nothing" would be untrue.

use super::{Refusal, RefusalCode};
use crate::blueprint::Blueprint;
use crate::mark::Mark;
use crate::natural;
use crate::observed::{Observed, Vm};

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
        hint: hint(&found),
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

/// What to do about VMs whose keys are not here.
pub(super) fn hint(vms: &[&Vm]) -> String {
    let first = vms.first().map(|vm| vm.vmid).unwrap_or_default();
    format!(
        "restore the bundle from your backup; if those VMs belong to another cluster, give this one another name; to delete them \
         without the bundle, run on the host of each, as root: `qm stop {first}; qm destroy {first} --purge 1 \
         --destroy-unreferenced-disks 1`"
    )
}
