//! What a host will do by itself in a moment, as data.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::hypervisor::Hypervisor;
use crate::hypervisor::tasks::later;

/// From the end of a process to its clean-up.
const CLEAN_UP: Duration = Duration::from_millis(1500);
/// Who holds the lock of a VM during a clean-up.
pub(crate) const EVENT_DAEMON: &str = "qmeventd";

/// Something that is due in a moment.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Errand {
    pub(crate) due: Timestamp,
    pub(crate) vmid: u32,
    pub(crate) what: What,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
/// What is due.
pub(crate) enum What {
    CleanUp {
        since: Timestamp,
    },
    GiveUp,
    /// A VM that is to stop gets so long for it, if any.
    Manage {
        patience: Option<u64>,
    },
    /// The manager moves a VM to another host.
    Relocate {
        target: String,
    },
}

impl Errand {
    pub(crate) fn due(&self) -> Timestamp {
        self.due
    }
}

impl Hypervisor {
    /// The process of a VM ended: its host will clean up, and a clean-up that needed this goes on.
    pub(crate) fn process_ended(&mut self, vmid: u32, now: Timestamp) {
        if let Some(vm) = self.vms.get_mut(&vmid).filter(|vm| vm.holder.as_deref() == Some(EVENT_DAEMON)) {
            vm.holder = None;
        }
        self.errands.retain(|errand| {
            errand.vmid != vmid || matches!(errand.what, What::Manage { .. } | What::Relocate { .. })
        });
        let due = later(now, CLEAN_UP);
        self.errands.push(Errand { due, vmid, what: What::CleanUp { since: now } });
    }

    /// Whether the manager of high availability looks after a VM.
    pub(crate) fn is_managed(&self, vmid: u32) -> bool {
        let options = self.ha.get(&format!("vm:{vmid}"));
        options.is_some_and(|options| options.get("state").map(String::as_str) != Some("ignored"))
    }
}
