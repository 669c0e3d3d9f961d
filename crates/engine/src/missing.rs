//! A VM that a host does not have: is it on another one, or gone?
//!
//! Proxmox answers for a VM that moved in the same words as for one that never was. So it counts as gone only when Proxmox'
//! list does not show it on a host that is off, and no host that is on has it; and that twice, because a VM may go from one to
//! another between two questions. And its ID must be free.

use std::time::Duration;

use futures::future::join_all;
use pve::VmConfig;

use crate::Systems;

/// Longer than the hosts take to agree on a move.
const INTERVAL: Duration = Duration::from_secs(1);
const ATTEMPTS: u32 = 2;

/// Why it is unknown where a VM is.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unclear {
    /// Its host has no power, or no network.
    #[error("Proxmox lists it on {host}, which is offline")]
    Offline {
        /// The host that Proxmox lists it on.
        host: String,
    },
    /// Its VM ID is in use, and every host says that it does not have it.
    #[error("Proxmox says that it exists, and no host has it")]
    Nowhere,
    /// A host that may have it did not tell.
    #[error("where it is could not be found out")]
    NotTold(#[from] pve::Error),
}

/// The host that a VM is on, with its configuration; `None` when no host has it.
pub(crate) async fn seek(systems: &Systems, vmid: u32) -> Result<Option<(String, VmConfig)>, Unclear> {
    for snapshot in 1..=ATTEMPTS {
        let resources = systems.pve.cluster_resources().await?;
        let hosts: Vec<&String> = resources
            .iter()
            // A host that the list does not know is asked, too: only one that is off cannot answer.
            .filter(|r| r.kind == "node" && r.status.as_deref() != Some("offline"))
            .filter_map(|r| r.node.as_ref())
            .collect();
        let is_it = |r: &&pve::Resource| r.kind == "qemu" && r.vmid == Some(u64::from(vmid));
        let listed = resources.iter().find(is_it).and_then(|r| r.node.as_ref());
        if let Some(host) = listed.filter(|host| !hosts.contains(host)) {
            return Err(Unclear::Offline { host: host.clone() });
        }
        let answers = join_all(hosts.iter().map(|host| systems.pve.vm_config(host, vmid))).await;
        let mut unresponsive = None;
        for (host, answer) in hosts.into_iter().zip(answers) {
            match answer {
                Ok(config) => return Ok(Some((host.clone(), config))),
                Err(error) if error.is_missing() => {}
                Err(error) => unresponsive = Some(error),
            }
        }
        if let Some(error) = unresponsive {
            return Err(Unclear::NotTold(error));
        }
        if snapshot < ATTEMPTS {
            systems.clock.sleep(INTERVAL).await;
        }
    }
    // What has its ID in use is not gone, whatever the hosts say.
    if systems.pve.vmid_exists(vmid).await? { Err(Unclear::Nowhere) } else { Ok(None) }
}
