//! Where snapshots of etcd are kept. The engine writes them; the front end says where to.

mod folder;

use futures::future::BoxFuture;
use jiff::Timestamp;
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
