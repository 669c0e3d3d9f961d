//! What kubelets and Kubernetes' own controllers keep up to date.
//!
//! Everything is level-triggered: [`reconcile`] writes what the kubelets report, [`run`] compares what should be with what is
//! stored and writes the difference, until nothing is left to do. What takes time (a pod that starts, a job that runs) is
//! derived from the times in the objects themselves. What a user put on a node (labels, taints, cordon) stays.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use super::nodes::{Kubelet, write_lost, write_node};
use super::store::{Place, Store};
use super::{budgets, events, garbage, manifests, pods, workloads};

/// What was written of each kubelet last, and the version of the node that it became.
pub(super) type Known = BTreeMap<String, (Kubelet, u64)>;

/// Kubelets report all the time; controllers look at it at most this often.
const PACE: SignedDuration = SignedDuration::from_secs(1);
const NAMESPACES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

/// What the machines of a cluster tell its control plane.
pub(crate) struct Report<'a> {
    /// The kubelets that are heard of.
    pub(crate) kubelets: &'a [Kubelet],
    /// Nodes that were silent for too long.
    pub(crate) lost: &'a [String],
    /// The configurations of the control planes whose API server is up.
    pub(crate) configs: &'a [&'a str],
    /// What can be fetched from outside, by address.
    pub(crate) documents: &'a BTreeMap<String, String>,
    /// The hosts outside that answer; all when there is none.
    pub(crate) outside: Option<&'a BTreeSet<String>>,
}

/// Brings the stored objects up to date.
pub(crate) fn reconcile(store: &mut Store, report: &Report<'_>, now: Timestamp) {
    if store.outside.as_ref() != report.outside {
        store.outside = report.outside.cloned();
    }
    for namespace in NAMESPACES {
        let place = Place::core("namespaces", "", namespace);
        if store.get(&place).is_none() {
            let labels = json!({"kubernetes.io/metadata.name": namespace});
            let object = json!({"metadata": {"labels": labels}, "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}});
            store.put(&place, object, now);
        }
    }
    for kubelet in report.kubelets {
        write_node(store, kubelet, now);
    }
    for name in report.lost {
        write_lost(store, name, now);
    }
    manifests::make(store, report, now);
    pods::write_static(store, report.kubelets, now);
    let recently = store.ran.is_some_and(|ran| now.duration_since(ran) < PACE && ran <= now);
    // What is due is done, however recently they looked: nothing else would wake them again.
    if !recently || store.due.is_some_and(|due| due <= now) {
        run(store, now);
    } else if store.looked != Some(store.revision()) {
        let soon = store.ran.and_then(|ran| ran.checked_add(PACE).ok());
        store.due = [store.due, soon].into_iter().flatten().min();
    }
}

/// Lets every controller look, until none has anything left to do.
pub(crate) fn run(store: &mut Store, now: Timestamp) {
    let due = store.due.is_some_and(|due| due <= now);
    if store.looked == Some(store.revision()) && !due {
        return;
    }
    events::forget(store, now);
    // Each round can only open work that a bounded chain of others waited for; the limit guards against a mistake.
    for _ in 0..12 {
        let before = store.revision();
        workloads::run(store, now);
        pods::run(store, now);
        budgets::run(store, now);
        garbage::run(store);
        if store.revision() == before {
            break;
        }
    }
    store.due = [pods::next_due(store, now), workloads::next_due(store, now)].into_iter().flatten().min();
    store.looked = Some(store.revision());
    store.ran = Some(now);
}
