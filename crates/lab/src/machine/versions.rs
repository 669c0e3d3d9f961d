//! Numbers the versions of a machine's resources, as readers of the resource API see them.

use std::collections::BTreeMap;

use super::Machines;
use super::node::{Seen, seeded};
use crate::talos_api::{Resource, resources};

impl Machines {
    /// Takes note of what changed since the last time.
    pub(super) fn note_resources(&mut self) {
        let now = self.now;
        for vmid in self.machines.keys().copied().collect::<Vec<_>>() {
            let current = resources(self, vmid, now);
            let Some(machine) = self.machines.get_mut(&vmid) else { continue };
            let mut seen = BTreeMap::new();
            for resource in current {
                let digest = seeded(&[&resource.yaml]);
                let key = key(&resource);
                let entry = match machine.seen.remove(&key) {
                    Some(old) if old.digest == digest => old,
                    Some(old) => {
                        Seen { version: old.version + 1, digest, created: old.created, updated: now }
                    }
                    None => Seen { version: 1, digest, created: now, updated: now },
                };
                seen.insert(key, entry);
            }
            machine.seen = seen;
        }
    }

    /// The version of a resource.
    pub(crate) fn seen(&self, vmid: u32, resource: &Resource) -> Option<&Seen> {
        self.machines.get(&vmid)?.seen.get(&key(resource))
    }
}

fn key(resource: &Resource) -> String {
    format!("{}/{}", resource.kind, resource.id)
}
