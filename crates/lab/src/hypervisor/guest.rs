//! An ordinary guest with an agent, as a described world can have one: it has a name, an address, files and commands that
//! it knows the answer of.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// From power to an agent that answers.
const BOOT: Duration = Duration::from_secs(4);

/// What runs inside a VM that is no Talos machine.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Guest {
    pub(crate) agent_version: String,
    pub(crate) hostname: String,
    pub(crate) interface: String,
    pub(crate) addresses: Vec<ipnet::IpNet>,
    pub(crate) os: BTreeMap<String, String>,
    pub(crate) files: BTreeMap<String, String>,
    /// What a command prints.
    pub(crate) commands: BTreeMap<String, String>,
    /// Commands that ran, by process number.
    #[serde(default)]
    pub(crate) ran: BTreeMap<u32, String>,
}

impl Guest {
    /// Whether it is up, having got power at `since`.
    pub(crate) fn is_up(&self, since: Timestamp, now: Timestamp) -> bool {
        now.duration_since(since).unsigned_abs() >= BOOT
    }
}
