//! VMs that a task of Proxmox holds, such as a migration that a run started before it was killed. The task ends by itself, so the loop
//! waits for it, for a while, instead of leaving that to a person.

use std::time::Duration;

use jiff::SignedDuration;
use model::observed::Vm;

use super::{Course, Intent, Notice, Reconcile};
use crate::session::Snapshot;

/// For so long the loop waits for a task.
const TIMEOUT: SignedDuration = SignedDuration::from_mins(10);
const INTERVAL: Duration = Duration::from_secs(5);
/// A lock that no task holds: a suspended VM has it until it is resumed.
const LASTING: &[&str] = &["suspended"];

impl Reconcile<'_> {
    /// Waits a moment for a task that holds a VM; says whether it did. The cluster is observed again then.
    pub(super) async fn wait_for_task(&self, course: &mut Course, snapshot: &Snapshot) -> bool {
        let Some((vm, lock)) = self.held(snapshot) else {
            course.held_since = None;
            return false;
        };
        let clock = course.session.systems.clock.clone();
        let now = clock.now();
        let is_first = course.held_since.is_none();
        if now.duration_since(*course.held_since.get_or_insert(now)) >= TIMEOUT {
            return false;
        }
        if is_first {
            (self.listener)(Notice::WaitsForTask { vm, lock, seconds: TIMEOUT.as_secs() });
        }
        clock.sleep(INTERVAL).await;
        true
    }

    /// A VM of ours that this run is about, and the lock that a task holds on it.
    fn held<'s>(&self, snapshot: &'s Snapshot) -> Option<(&'s Vm, &'s str)> {
        let owner = model::mark::Mark::owner_of(snapshot.blueprint.cluster_id.as_deref()?);
        let is_about = |vm: &&Vm| match &self.intent {
            Intent::Apply | Intent::Destroy => true,
            Intent::ByHand(asked) => asked.host.is_some() || asked.nodes.contains(vm.mark.node.as_str()),
        };
        snapshot.observed.proxmox.of(owner).filter(is_about).find_map(|vm| {
            let lock = vm.lock.as_deref().filter(|lock| !LASTING.contains(lock))?;
            Some((vm, lock))
        })
    }
}
