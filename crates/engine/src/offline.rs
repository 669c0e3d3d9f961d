//! A Proxmox host that is offline. It is the cause of what fails there, whatever the call said.

use crate::error::Error;
use crate::systems::{REQUEST_TIMEOUT, Systems};

/// A failure on this host, with the host as its cause where that is offline.
pub(crate) async fn explain(systems: &Systems, host: &str, error: Error) -> Error {
    if is_offline(systems, host).await { error.on_offline_host(host) } else { error }
}

/// Whether the other hosts say that a host is offline. What could not be asked is not known.
pub(crate) async fn is_offline(systems: &Systems, host: &str) -> bool {
    let listed = systems.clock.timeout(REQUEST_TIMEOUT, systems.pve.cluster_resources()).await;
    let Ok(Ok(resources)) = listed else { return false };
    resources.iter().any(|resource| {
        resource.kind == "node"
            && resource.node.as_deref() == Some(host)
            && resource.status.as_deref() == Some("offline")
    })
}
