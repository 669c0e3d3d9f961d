//! How much may go on at a time: changing calls per node, work per storage.
//!
//! A node has three workers, and a storage gives out one disk at a time while others wait ten seconds at most. When Proxmox
//! reports that such a wait was too long, the limit of that node or storage is lowered, down to one; it is not raised
//! again, because what was too much once is too much for this run.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

const PER_NODE: usize = 3;
const PER_STORAGE: usize = 4;

/// The right to work on something; it ends when this is dropped.
#[derive(Debug)]
pub struct Turn(#[expect(dead_code, reason = "holding it is its use")] Option<OwnedSemaphorePermit>);

/// What a limit is on.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Place {
    Node(String),
    /// A storage by its name, and the node whose own it is where it is not shared.
    Storage(String, Option<String>),
}

#[derive(Debug)]
struct Limit {
    turns: Arc<Semaphore>,
    size: usize,
    /// Turns that go as soon as they come back.
    owed: usize,
}

/// All limits, made when they are first asked for.
#[derive(Debug, Default)]
pub(crate) struct Limits(Mutex<BTreeMap<Place, Limit>>);

impl Limits {
    /// Waits for a turn.
    pub(crate) async fn turn(&self, place: Place) -> Turn {
        let turns = self.with(place, |limit| {
            limit.owed -= limit.turns.forget_permits(limit.owed);
            limit.turns.clone()
        });
        // The semaphore is never closed, so an error here cannot happen and would only mean less restraint.
        Turn(turns.acquire_owned().await.ok())
    }

    /// One turn less from now on, but never none.
    pub(crate) fn lower(&self, place: Place) {
        self.with(place, |limit| {
            if limit.size > 1 {
                limit.size -= 1;
                // Where all turns are taken, the next that comes back is the one that goes.
                if limit.turns.forget_permits(1) == 0 {
                    limit.owed += 1;
                }
            }
        });
    }

    /// One turn less from now on at every place that is this storage.
    pub(crate) fn lower_storage(&self, storage: &str) {
        let places: Vec<Place> = {
            let limits = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            limits
                .keys()
                .filter(|place| matches!(place, Place::Storage(name, _) if name == storage))
                .cloned()
                .collect()
        };
        for place in places {
            self.lower(place);
        }
    }

    /// How many turns there are.
    #[cfg(test)]
    pub(crate) fn size(&self, place: Place) -> usize {
        self.with(place, |limit| limit.size)
    }

    fn with<T>(&self, place: Place, work: impl FnOnce(&mut Limit) -> T) -> T {
        let mut limits = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let size = match place {
            Place::Node(_) => PER_NODE,
            Place::Storage(..) => PER_STORAGE,
        };
        work(limits.entry(place).or_insert_with(|| Limit {
            turns: Arc::new(Semaphore::new(size)),
            size,
            owed: 0,
        }))
    }
}

/// The storage whose lock was not released in time, if a text says so.
pub(crate) fn crowded_storage(text: &str) -> Option<&str> {
    if !text.contains("got timeout")
        && !text.contains("got lock request timeout")
        && !text.contains("timed out")
    {
        return None;
    }
    let rest = text.split("'storage-").nth(1).or_else(|| text.split("/pve-storage-").nth(1))?;
    rest.split('\'').next().filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_limit_is_lowered_but_never_to_nothing() {
        let limits = Limits::default();
        let place = || Place::Storage("ceph".to_owned(), None);
        for _ in 0..9 {
            limits.lower(place());
        }
        assert_eq!(limits.size(place()), 1);
        let held = limits.turn(place()).await;
        let next = limits.turn(place());
        let waiting = futures::poll!(std::pin::pin!(next)).is_pending();
        assert!(waiting);
        drop(held);
        limits.turn(place()).await;
    }

    #[tokio::test]
    async fn turns_that_are_taken_go_when_they_come_back() {
        let limits = Limits::default();
        let place = || Place::Node("pve1".to_owned());
        let held = [limits.turn(place()).await, limits.turn(place()).await, limits.turn(place()).await];
        limits.lower(place());
        limits.lower(place());
        drop(held);
        let _one = limits.turn(place()).await;
        assert!(futures::poll!(std::pin::pin!(limits.turn(place()))).is_pending());
    }

    #[tokio::test]
    async fn a_crowded_storage_is_lowered_wherever_it_is() {
        let limits = Limits::default();
        let on = |node: &str| Place::Storage("lvm".to_owned(), Some(node.to_owned()));
        drop((limits.turn(on("pve1")).await, limits.turn(on("pve2")).await));
        limits.lower_storage("lvm");
        limits.lower_storage("other");
        assert_eq!((limits.size(on("pve1")), limits.size(on("pve2"))), (3, 3));
    }

    #[test]
    fn the_crowded_storage_is_named_in_the_words() {
        let cases = [
            (
                "unable to create VM 100 - cfs-lock 'storage-ceph' error: got lock request timeout",
                Some("ceph"),
            ),
            ("unable to create VM 100 - 'storage-nfs1'-locked command timed out - aborting", Some("nfs1")),
            ("can't lock file '/var/lock/pve-manager/pve-storage-local' - got timeout", Some("local")),
            ("can't lock file '/var/lock/qemu-server/lock-100.conf' - got timeout", None),
            ("storage 'storage-x' does not exist", None),
        ];
        for (text, storage) in cases {
            assert_eq!(crowded_storage(text), storage, "{text}");
        }
    }
}
