//! Where snapshots of etcd are kept. The engine writes them; the front end says where to.

mod folder;

use futures::future::BoxFuture;
use jiff::Timestamp;
use model::observed::Member;
use serde::{Deserialize, Serialize};
use tokio::io::AsyncWrite;

use crate::error::{Error, Kind, Result};

pub use folder::SnapshotFolder;

/// What a snapshot is of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotOf {
    /// The name of the cluster in the file.
    pub cluster: String,
    /// The node whose member gave it.
    pub node: String,
    /// When it was taken.
    pub at: Timestamp,
    /// What was known about the cluster.
    pub facts: Facts,
}

/// What was known about a cluster when a snapshot of its etcd was taken.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// The cluster ID, which is in the secrets bundle.
    pub cluster_id: String,
    /// What ran.
    pub versions: Versions,
    /// The state of etcd.
    pub etcd: EtcdFacts,
}

/// What ran when a snapshot was taken.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Versions {
    /// The Talos release of the node that gave the snapshot.
    pub talos: Option<String>,
    /// The release of its Kubernetes API server.
    pub kubernetes: Option<String>,
    /// The release of etcd.
    pub etcd: Option<String>,
    /// The configuration contract that the cluster's machine configs follow.
    pub contract: Option<String>,
}

/// The state of etcd directly before a snapshot was taken.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EtcdFacts {
    /// The node whose member gave the snapshot.
    pub node: String,
    /// The ID of that member, in hex.
    pub member: String,
    /// How far it had applied the log.
    pub applied_index: u64,
    pub raft_term: u64,
    /// The revision of the database as Kubernetes reported it; `None` where Kubernetes did not answer.
    pub revision: Option<u64>,
    /// All members.
    pub members: Vec<Member>,
}

/// A place for snapshots of etcd.
pub trait SnapshotStore: Send + Sync {
    /// Opens a new snapshot, to be written and then kept.
    ///
    /// # Errors
    ///
    /// When nothing can be written there.
    fn create<'a>(&'a self, of: &'a SnapshotOf) -> BoxFuture<'a, Result<Box<dyn NewSnapshot>>>;
}

/// A snapshot that is being written. Dropped before it is kept, it leaves nothing.
pub trait NewSnapshot: AsyncWrite + Send + Unpin {
    /// Keeps what was written, which was found sound; says where it is, for people.
    ///
    /// # Errors
    ///
    /// When it could not be made durable.
    fn keep(self: Box<Self>, checked: talos_client::Snapshot) -> BoxFuture<'static, Result<String>>;
}

/// No place at all: nothing that needs a snapshot is done.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoStore;

impl SnapshotStore for NoStore {
    fn create<'a>(&'a self, _: &'a SnapshotOf) -> BoxFuture<'a, Result<Box<dyn NewSnapshot>>> {
        let error =
            Error::new(Kind::Refused, "could not save a snapshot of etcd: there is no place to keep it")
                .coded("no-snapshot-store")
                .hint("what follows cannot be undone without one, so it was not started");
        Box::pin(std::future::ready(Err(error)))
    }
}
