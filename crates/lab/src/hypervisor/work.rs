//! What tasks were asked to do, as data. How they do it is in `operations`.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::machine::BootImage;

/// How long the hypervisor waits for an agent that does not answer.
pub(crate) const AGENT_PATIENCE: Duration = Duration::from_secs(3);

/// What a task does.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Work {
    Create(Create),
    Configure(Configure),
    Power(Power),
    Resize(Resize),
    Destroy(Destroy),
    Download(Box<Download>),
    Remove(Remove),
    Import(Import),
    Clone(Box<Clone>),
    Template(Template),
    Snapshot(Snapshot),
    Move(Move),
    Reassign(Reassign),
    Migrate(Migrate),
    HaMigrate(HaMigrate),
    Ha(Ha),
    /// What waits of a host's network becomes true.
    ReloadNetwork,
    /// Nothing of its own: a console, for as long as its client is there.
    Console,
    /// Nothing that this world would show.
    Nothing,
    /// Nothing but to fail with this text, after a moment.
    Doomed(String),
}

/// A copy under way.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Clone {
    pub(crate) source: u32,
    pub(crate) newid: u32,
    pub(crate) name: Option<String>,
    pub(crate) description: Option<String>,
    pub(crate) full: Option<bool>,
    pub(crate) storage: Option<String>,
    pub(crate) format: Option<String>,
    pub(crate) pool: Option<String>,
    /// The snapshot to copy instead of the present.
    pub(crate) snapshot: Option<String>,
    /// The node for the copy.
    pub(crate) target: Option<String>,
    /// What the configuration becomes, once the disks are made.
    pub(crate) made: BTreeMap<String, String>,
}

/// A VM that becomes a template.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Template {
    pub(crate) vmid: u32,
}

/// What is to change.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Change {
    pub(crate) set: BTreeMap<String, String>,
    pub(crate) delete: Vec<String>,
    pub(crate) revert: Vec<String>,
    pub(crate) digest: Option<String>,
    /// Detached disks are destroyed.
    pub(crate) force: bool,
    /// A lock of the VM is passed over.
    #[serde(default)]
    pub(crate) skiplock: bool,
}

/// A change under way as a task.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Configure {
    pub(crate) vmid: u32,
    pub(crate) change: Change,
}

/// A creation under way.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Create {
    pub(crate) vmid: u32,
    /// The configuration as asked for, network cards complete.
    pub(crate) config: BTreeMap<String, String>,
    pub(crate) start: bool,
    #[serde(default)]
    pub(crate) pool: Option<String>,
    /// What the configuration becomes, once the disks are made.
    pub(crate) made: BTreeMap<String, String>,
}

/// A download under way.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Download {
    pub(crate) volid: String,
    pub(crate) content: String,
    pub(crate) path: String,
    pub(crate) wish: DownloadWish,
    /// What the web server had, once it was asked.
    pub(crate) found: Option<Found>,
}

/// What was asked for.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct DownloadWish {
    pub(crate) storage: String,
    pub(crate) url: String,
    pub(crate) content: String,
    pub(crate) filename: String,
    pub(crate) checksum: Option<String>,
    /// The algorithm of the checksum.
    #[serde(default)]
    pub(crate) algorithm: String,
    pub(crate) compression: Option<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Found {
    pub(crate) bytes: u64,
    pub(crate) disk_bytes: u64,
    pub(crate) origin: Option<BootImage>,
    /// The checksum with the algorithm that was asked for.
    pub(crate) sum: String,
    /// What kind of image its first bytes say that it is.
    #[serde(default)]
    pub(crate) image: Option<String>,
}

/// A volume that goes.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Remove {
    pub(crate) volid: String,
}

/// An upload under way.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Import {
    pub(crate) storage: String,
    pub(crate) content: String,
    pub(crate) filename: String,
    pub(crate) bytes: u64,
    pub(crate) disk_bytes: u64,
    /// What kind of image its first bytes say that it is.
    #[serde(default)]
    pub(crate) image: Option<String>,
    /// What the checksum must be, and what it is.
    pub(crate) checksum: Option<(String, String)>,
}

/// A migration under way.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Migrate {
    pub(crate) vmid: u32,
    pub(crate) target: String,
    pub(crate) online: bool,
    pub(crate) with_local_disks: bool,
}

/// A migration that the manager of high availability is asked for.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct HaMigrate {
    pub(crate) vmid: u32,
    pub(crate) target: String,
}

/// A move under way.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Move {
    pub(crate) vmid: u32,
    pub(crate) disk: String,
    pub(crate) storage: String,
    pub(crate) format: Option<String>,
    /// Whether the old volume goes.
    pub(crate) delete: bool,
}

/// A change of power under way.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Power {
    pub(crate) vmid: u32,
    pub(crate) kind: PowerKind,
    /// Whether a lock of the VM is passed over.
    pub(crate) skiplock: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum PowerKind {
    Start,
    Stop,
    Shutdown { patience: u64, force: bool },
    Reboot { patience: u64 },
    Reset,
    Pause,
    Resume,
}

impl Power {
    /// Whether a shutdown that started at `started` still waits for an agent that does not answer.
    pub(crate) fn waits_for_agent(&self, started: Timestamp, now: Timestamp) -> bool {
        matches!(self.kind, PowerKind::Shutdown { .. })
            && now.duration_since(started).unsigned_abs() < AGENT_PATIENCE
    }
}

/// A wish that the manager of high availability carries out later.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Ha {
    pub(crate) vmid: u32,
    pub(crate) start: bool,
    /// How long a guest may take to stop, if it is asked to.
    pub(crate) patience: Option<u64>,
}

/// A disk that grows.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Resize {
    pub(crate) vmid: u32,
    pub(crate) disk: String,
    pub(crate) size: String,
    pub(crate) digest: Option<String>,
}

/// A VM that goes.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Destroy {
    pub(crate) vmid: u32,
    pub(crate) purge: bool,
}

/// A disk that changes its owner.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Reassign {
    pub(crate) vmid: u32,
    pub(crate) disk: String,
    pub(crate) target: u32,
    pub(crate) target_disk: String,
}

/// Something that happens to a snapshot.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Snapshot {
    pub(crate) vmid: u32,
    pub(crate) name: String,
    pub(crate) act: Act,
}

/// What happens to it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Act {
    Take { description: Option<String> },
    Roll { start: bool },
    Drop,
}
