//! A VM that somebody may be making at this very moment.
//!
//! Proxmox reserves the id at once and writes the notes only when the task ends, so until then nobody can say whose VM it
//! is. Whoever was told "exists", or got no answer at all, waits here first.

use std::time::Duration;

use pve::VmConfig;

use crate::World;
use crate::error::{Error, Result};
use crate::record::remedy;

/// Longer than any creation takes.
const PATIENCE: u32 = 150;
const PAUSE: Duration = Duration::from_secs(2);

/// The VM's configuration once nobody is making it any more. `None` when there is no such VM.
pub(crate) async fn settled(world: &World, host: &str, vmid: u32) -> Result<Option<VmConfig>> {
    let attempt = || Error::world(format!("could not find out whose VM {vmid} on {host} is"));
    for _ in 0..PATIENCE {
        match world.pve.vm_config(host, vmid).await {
            Ok(config) if matches!(config.lock(), Some("create" | "clone")) => {}
            Ok(config) => return Ok(Some(config)),
            Err(error) if error.is_missing() => return Ok(None),
            Err(error) => return Err(attempt().remedy(remedy(&error)).because(error)),
        }
        world.clock.sleep(PAUSE).await;
    }
    Err(attempt().remedy(format!(
        "its creation does not end; look at its task, or run `qm unlock {vmid}` on {host} as root"
    )))
}
