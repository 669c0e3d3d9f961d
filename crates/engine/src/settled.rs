//! A VM that another client may be creating at this moment.
//!
//! Proxmox reserves the id at once and writes the notes only when the task ends, so until then it is unknown whose VM it
//! is. After the answer "exists", or without an answer, Talosmith waits here first.

use std::time::Duration;

use model::plan::ownership;
use pve::VmConfig;

use crate::Systems;
use crate::error::{Error, Result, hint};

/// Longer than a creation usually takes.
const TIMEOUT: u32 = 150;
const INTERVAL: Duration = Duration::from_secs(2);
/// How many looks until it is asked whether the creation still goes on.
const ATTEMPTS_PER_CHECK: u32 = 5;

/// The VM's configuration once its creation has ended. `None` when there is no such VM.
pub(crate) async fn settled(systems: &Systems, host: &str, vmid: u32) -> Result<Option<VmConfig>> {
    let attempt = || Error::systems(format!("could not find out whose VM {vmid} on {host} is"));
    for snapshot in 1..=TIMEOUT {
        match systems.pve.vm_config(host, vmid).await {
            Ok(config) if matches!(config.lock(), Some("create" | "clone")) => {}
            Ok(config) => return Ok(Some(config)),
            Err(error) if error.is_missing() => return Ok(None),
            Err(error) => return Err(attempt().hint(hint(&error)).because(error)),
        }
        if snapshot % ATTEMPTS_PER_CHECK == 0 && is_active(systems, host, vmid).await == Some(false) {
            return Err(attempt().coded("locked").hint(ownership::hint(vmid, host)));
        }
        systems.clock.sleep(INTERVAL).await;
    }
    Err(attempt().coded("locked").hint(format!(
        "a task is still creating it; when the task of VM {vmid} in Proxmox is done, run the command again"
    )))
}

/// Whether a task may be working on the VM; `None` where that cannot be seen. The task of a clone names its source, so any clone
/// on that host may be it.
pub(crate) async fn is_active(systems: &Systems, host: &str, vmid: u32) -> Option<bool> {
    let tasks = systems.pve.tasks(host, 0).await.ok()?;
    let works_on_it = |upid: &pve::Upid| upid.id == vmid.to_string() || upid.kind == "qmclone";
    Some(tasks.iter().any(|(upid, end)| end.is_none() && works_on_it(upid)))
}
