//! What the loop keeps outside of the cluster. A command line keeps it in files, a controller elsewhere: all of it is handed in.
//!
//! The lease is not among these: it is in the cluster record VM or in Kubernetes, because every operator must find it there.

pub use futures::future::BoxFuture;
use jiff::Timestamp;
use model::spec::Spec;
use talos::secrets::Bundle;

use crate::error::Result;
use crate::journal::JournalStore;
use crate::report::ReportStore;

/// Where the secrets bundle of a cluster is kept.
pub trait BundleStore: Send + Sync {
    /// Creates the bundle of a new cluster. It is kept, and can be read again, before it is given back: machines get identities from
    /// it, and without it they are lost.
    ///
    /// # Errors
    ///
    /// When it cannot be created or kept, or there is one already. Nothing is changed then.
    fn create<'a>(&'a self, spec: &'a Spec, now: Timestamp) -> BoxFuture<'a, Result<Bundle>>;
}

/// Keeps other processes of the same place from changing a cluster that may have no lease yet, because it has no Proxmox.
pub trait ClusterLock: Send + Sync {
    /// Locks the cluster with this ID for as long as the result lives.
    ///
    /// # Errors
    ///
    /// [`crate::error::Kind::Busy`] when another process has it.
    fn lock(&self, cluster_id: &str) -> Result<Box<dyn Send + Sync>>;
}

/// Everything that is kept outside of the cluster.
#[derive(Clone, Copy)]
pub struct Stores<'a> {
    /// The secrets bundle.
    pub bundles: &'a dyn BundleStore,
    /// What happened.
    pub journal: &'a dyn JournalStore,
    /// What is needed to understand a failure.
    pub reports: &'a dyn ReportStore,
    /// Other processes of the same place.
    pub lock: &'a dyn ClusterLock,
}
