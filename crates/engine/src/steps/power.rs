//! Switching a VM on or off, judged by its effect and not by the task.
//!
//! Where high availability decides about a VM, the task only hands the wish over and ends at once; the VM follows at the manager's
//! next round, some ten to twenty seconds later.

use std::time::Duration;

use pve::{Finished, PowerState, Upid};

use crate::Systems;

/// How long a VM may take to follow the manager of high availability, and how often it is looked at.
const MANAGER_TIMEOUT: Duration = Duration::from_secs(90);
const INTERVAL: Duration = Duration::from_secs(2);

/// Follows a task that switches a VM, and, where the task was only a wish, waits for the VM. Says whether the VM got there.
pub(super) async fn follow(
    systems: &Systems,
    task: &Upid,
    vmid: u32,
    wanted: PowerState,
) -> pve::Result<(Finished, bool)> {
    let (pve, clock) = (&systems.pve, &systems.clock);
    let finished = pve.follow(task, |_| {}).await?;
    let began = clock.now();
    loop {
        let there = pve.vm_status(&task.node, vmid).await?.power == wanted;
        let waited = clock.now().duration_since(began).unsigned_abs();
        if there || !is_wish(task) || waited >= MANAGER_TIMEOUT {
            return Ok((finished, there));
        }
        clock.sleep(INTERVAL).await;
    }
}

/// Whether a task only tells the manager of high availability what is wanted.
fn is_wish(task: &Upid) -> bool {
    matches!(task.kind.as_str(), "hastart" | "hastop")
}
