//! Numbers the versions of a machine's resources, as readers of the resource API see them: a version counts up when a reader
//! finds another content than the one before.

use jiff::Timestamp;

use super::Machines;
use super::node::Seen;

impl Machines {
    /// The version of a resource whose content is `content` now.
    pub(crate) fn version_of(
        &mut self,
        vmid: u32,
        kind: &str,
        id: &str,
        content: &str,
        now: Timestamp,
    ) -> Seen {
        let digest = crate::stable::stable_number(&[content]);
        let fresh = Seen { version: 1, digest, created: now, updated: now };
        let Some(machine) = self.machines.get_mut(&vmid) else { return fresh };
        let entry = machine.seen.entry(format!("{kind}/{id}")).or_insert(fresh);
        if entry.digest != digest {
            *entry = Seen { version: entry.version + 1, digest, created: entry.created, updated: now };
        }
        entry.clone()
    }
}
