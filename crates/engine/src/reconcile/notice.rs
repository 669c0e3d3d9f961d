//! What a front end is told while the loop goes on.

use model::event::Event;
use model::observed::Vm;
use model::plan::Plan;

use crate::session::Snapshot;

/// A listener. It is called in the order in which things happen, and must not block.
pub type Listener = std::sync::Arc<dyn Fn(Notice<'_>) + Send + Sync>;

/// Something to show.
#[derive(Clone, Copy)]
pub enum Notice<'a> {
    /// A plan was made: the first one, or one that does something else than the one before.
    Planned {
        /// The observed state that it was made for.
        snapshot: &'a Snapshot,
        plan: &'a Plan,
        /// Why it was made.
        why: Why,
    },
    /// A task of Proxmox holds a VM of the cluster. The loop waits for it, at most for so many seconds.
    WaitsForTask {
        vm: &'a Vm,
        /// The lock of the task, such as `migrate`.
        lock: &'a str,
        seconds: i64,
    },
    /// Another operator held the lease since the cluster was observed. It is observed again.
    OtherOperator,
    /// A plan is about to be run.
    RunStarts(&'a Plan),
    /// Something happened in the run. The journal has it already.
    Happened(&'a Event),
    /// The run did not start after all.
    RunCancelled,
    /// The run has ended.
    RunEnds,
    /// Not all events reached the journal.
    JournalIncomplete {
        /// What people call the journal.
        journal: &'a str,
        /// What went wrong first.
        why: &'a str,
    },
    /// What is needed to understand a failure was kept there.
    Reported(&'a str),
    /// It could not be kept, for this reason.
    NotReported(&'a str),
}

/// Why a plan was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    First,
    /// Time passed while a person answered.
    Answered,
    /// The cluster has its secrets now.
    NewSecrets,
    /// Another operator held the lease in between.
    OtherOperator,
    /// A run has ended well, and this is left.
    Ran,
}
