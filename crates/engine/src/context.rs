//! What the steps of a run share, and what each of them leaves behind.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, MutexGuard, PoisonError};

use model::blueprint::Node;
use model::lease::Hold;
use model::names::{NodeName, VmRef};
use model::observed::Api;
use model::ownership;
use tokio::sync::watch;

use crate::error::{Error, Kind, Result};
use crate::kubernetes_lease::KubernetesLease;
use crate::lease::{Holder, Validity};
use crate::permits::Permits;
use crate::record::Record;
use crate::session::Snapshot;
use crate::systems::Systems;

/// What a step leaves behind.
#[derive(Debug, Default)]
pub(crate) struct Done {
    /// Warnings that the world gave.
    pub warnings: Vec<String>,
}

/// The authority of a run that deletes the whole cluster. Only the run itself creates it.
#[derive(Debug)]
pub(crate) struct Destruction(());

/// What a run was asked to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Bring the cluster to the file.
    Apply,
    /// Delete the cluster.
    Destroy,
}

/// What steps share while they run.
pub(crate) struct Context {
    pub systems: Systems,
    pub snapshot: Snapshot,
    pub holder: Holder,
    /// Set once the record exists and the lease is ours.
    pub record: watch::Sender<Option<Record>>,
    /// The lease of a cluster without Proxmox, once it is ours.
    pub kubernetes_lease: watch::Sender<Option<KubernetesLease>>,
    /// Nodes that took a configuration from this run, and could not be asked yet which one they run.
    unproved: Mutex<BTreeSet<NodeName>>,
    /// Nodes that this run sent a configuration to.
    configured: Mutex<BTreeSet<NodeName>>,
    /// Whether this run is deleting the cluster record VM, so that its absence is no surprise.
    pub deletes_record: AtomicBool,
    /// Whether this run moves the cluster record VM to another host, or has done so.
    pub moves_record: AtomicBool,
    /// Control plane nodes that failed in this run, and why the first did.
    failed_control_planes: Mutex<(usize, String)>,
    /// Who may be disrupted, and who is.
    pub permits: Permits,
    /// Nodes whose machines this run has restarted.
    restarted: Mutex<BTreeSet<NodeName>>,
    /// Nodes whose kubelet this run gave another version.
    kubelets: Mutex<BTreeSet<NodeName>>,
    /// Nodes whose machine config this run staged.
    staged: Mutex<BTreeSet<NodeName>>,
    /// The Proxmox host that this run moved a VM to, by node.
    moved: Mutex<BTreeMap<NodeName, String>>,
    /// The Talos release that this run installed, by node.
    installed: Mutex<BTreeMap<NodeName, String>>,
    destruction: Option<Destruction>,
}

impl Context {
    /// Of a run that has no lease yet and has done nothing.
    pub(crate) fn new(systems: Systems, snapshot: Snapshot, holder: Holder, purpose: Purpose) -> Self {
        Self {
            systems,
            snapshot,
            holder,
            record: watch::Sender::new(None),
            kubernetes_lease: watch::Sender::new(None),
            unproved: Mutex::default(),
            configured: Mutex::default(),
            deletes_record: AtomicBool::new(false),
            moves_record: AtomicBool::new(false),
            failed_control_planes: Mutex::default(),
            permits: Permits::default(),
            restarted: Mutex::default(),
            kubelets: Mutex::default(),
            staged: Mutex::default(),
            moved: Mutex::default(),
            installed: Mutex::default(),
            destruction: (purpose == Purpose::Destroy).then_some(Destruction(())),
        }
    }

    /// The authority to delete the whole cluster, where this run was asked to.
    pub(crate) fn destruction(&self) -> Option<&Destruction> {
        self.destruction.as_ref()
    }

    /// Nodes whose machines this run has restarted: none is restarted twice.
    pub(crate) fn restarted(&self) -> MutexGuard<'_, BTreeSet<NodeName>> {
        self.restarted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nodes whose kubelet this run gave another version: until it is back, they stay cordoned.
    pub(crate) fn kubelets(&self) -> MutexGuard<'_, BTreeSet<NodeName>> {
        self.kubelets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nodes whose machine config this run staged: they must run it once they have booted.
    pub(crate) fn staged(&self) -> MutexGuard<'_, BTreeSet<NodeName>> {
        self.staged.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The Talos release that this run installed, by node.
    pub(crate) fn installed(&self) -> MutexGuard<'_, BTreeMap<NodeName, String>> {
        self.installed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The record of a cluster that has one: where every machine is external, there is no Proxmox to keep it in.
    pub(crate) fn record_if_any(&self) -> Result<Option<Record>> {
        if self.snapshot.blueprint.has_proxmox() { self.record().map(Some) } else { Ok(None) }
    }

    /// The lease of a cluster without Proxmox, once it is ours.
    pub(crate) fn kubernetes_lease(&self) -> Option<KubernetesLease> {
        self.kubernetes_lease.borrow().clone()
    }

    /// The host and the VM ID of a node's VM, as it was observed or as it will be, or where this run moved it to.
    pub(crate) fn place_of(&self, node: &Node) -> VmRef {
        let seen = ownership::place_of(&self.snapshot.blueprint, &self.snapshot.observed.proxmox, node);
        let moved = self.moved.lock().unwrap_or_else(PoisonError::into_inner);
        match moved.get(&node.name) {
            Some(host) => VmRef::new(host, seen.vmid),
            None => seen,
        }
    }

    /// The VM of a node is on this host now.
    pub(crate) fn moved(&self, node: &str, host: &str) {
        self.moved.lock().unwrap_or_else(PoisonError::into_inner).insert(node.into(), host.to_owned());
    }

    /// Whether changing calls may be made now. Where there is no lease yet, the plan has no step before the one that makes its
    /// place, or there is no place for one.
    pub(crate) fn may_change(&self) -> bool {
        let (record, lease) = (self.record.borrow(), self.kubernetes_lease.borrow());
        let holds = |validity: &Validity| validity.hold() == Hold::Valid;
        record.as_ref().is_none_or(|record| holds(record.validity()))
            && lease.as_ref().is_none_or(|lease| holds(lease.validity()))
    }

    /// How many control plane nodes failed in this run, of how many, and why the first did.
    pub(crate) fn failed_control_planes(&self) -> (usize, usize, String) {
        let (failed, why) = self.failed_control_planes.lock().unwrap_or_else(PoisonError::into_inner).clone();
        (failed, self.snapshot.blueprint.control_planes().count(), why)
    }

    /// So many control plane nodes failed by now, the first for this reason.
    pub(crate) fn note_failed_control_planes(&self, failed: usize, why: String) {
        *self.failed_control_planes.lock().unwrap_or_else(PoisonError::into_inner) = (failed, why);
    }

    /// Why no control plane node runs in this run, once that is certain: all of them failed, and none ran before. No wait for one
    /// can succeed then.
    pub(crate) fn no_control_plane(&self) -> Option<String> {
        let (failed, all, why) = self.failed_control_planes();
        let machines = &self.snapshot.observed.machines;
        let ran = |node: &Node| machines.get(&node.name).is_some_and(|seen| seen.api == Api::Configured);
        let none_runs = failed > 0 && failed == all && !self.snapshot.blueprint.control_planes().any(ran);
        none_runs.then_some(why)
    }

    /// The nodes whose configuration is still to be proved.
    pub(crate) fn unproved(&self) -> MutexGuard<'_, BTreeSet<NodeName>> {
        self.unproved.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The nodes that this run sent a configuration to.
    pub(crate) fn configured(&self) -> MutexGuard<'_, BTreeSet<NodeName>> {
        self.configured.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The record. Every step that asks stands behind the one that makes it.
    pub(crate) fn record(&self) -> Result<Record> {
        self.record
            .borrow()
            .clone()
            .ok_or_else(|| Error::new(Kind::Refused, "the cluster record VM does not exist yet"))
    }
}
