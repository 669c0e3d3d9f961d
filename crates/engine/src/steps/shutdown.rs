//! Shuts a machine down, and waits until it is off.
//!
//! The machine shuts itself down: its services stop and its disks are flushed. Proxmox says when its VM is off; a machine that Proxmox
//! does not have counts as off when it does not respond for a while.
//!
//! The manager of high availability starts a VM again that switches itself off. So one that it manages is shut down through Proxmox, which
//! tells the manager that the VM is to be stopped; `apply` starts it in the same way.

use std::time::Duration;

use jiff::SignedDuration;
use model::blueprint::Node;
use model::gate::{Effect, Permit};
use model::names::VmRef;

use crate::context::{Context, Done};
use crate::emit::Progress;
use crate::error::{Error, Result, hint};
use crate::identify::{Identified, identify};
use crate::steps::{boot, permit, power_cycle, reboot};
use crate::systems::REQUEST_TIMEOUT;

/// For so long a machine may take to go off.
const TIMEOUT: SignedDuration = SignedDuration::from_mins(5);
/// Between two looks.
const INTERVAL: Duration = Duration::from_secs(2);
/// A machine that Proxmox does not have is off when it does not respond so often.
const LOOKS: u32 = 5;

/// Where the VM of a node is, if the manager of high availability looks after it. What Proxmox does not say is not known, and then nothing
/// is shut down: the machine could come back at any moment.
async fn managed(context: &Context, node: &Node) -> Result<Option<VmRef>> {
    if node.external {
        return Ok(None);
    }
    let place = context.place_of(node);
    let asked = context.systems.pve.vm_status(&place.host, place.vmid).await;
    let status = asked.map_err(|e| {
        let what = format!("could not read whether Proxmox HA manages {}", node.name);
        Error::systems(what).hint(hint(&e)).because(e)
    })?;
    Ok(status.ha_managed.then_some(place))
}

/// Shuts a node's machine down.
pub(super) async fn run(
    context: &Context,
    permit: &Permit,
    node: &Node,
    progress: &Progress,
) -> Result<Done> {
    permit::check(permit, &node.name, Effect::Absence)?;
    let attempt = || Error::systems(format!("could not shut {} down", node.name));
    let machine = boot::configured(context, node, attempt).await?;
    if let Some(place) = managed(context, node).await? {
        progress.note("shutting down through the HA manager of Proxmox");
        context.restarted().insert(node.name.clone());
        let stopped =
            power_cycle::shut_down(context, permit, node, &place, Some(&machine), &attempt, progress).await?;
        return Ok(Done { warnings: stopped });
    }
    progress.note("shutting down");
    // Its pods are gone already, so it need not drain itself. Where the answer is lost, it is watched all the same.
    if let Err(error) = machine.shutdown(true).await
        && !reboot::is_lost(&error)
    {
        return Err(attempt().because(error));
    }
    // From here on it is on its way down: it is not lent to pods again before it was seen to run.
    context.restarted().insert(node.name.clone());
    let clock = &context.systems.clock;
    let (began, mut unresponsive) = (clock.now(), 0);
    while clock.now().duration_since(began) < TIMEOUT {
        clock.sleep(INTERVAL).await;
        let off = if node.external {
            let looked = Box::pin(identify(&context.systems, node, context.snapshot.access()?)).await;
            unresponsive = if matches!(looked, Identified::Unresponsive(_)) { unresponsive + 1 } else { 0 };
            unresponsive >= LOOKS
        } else {
            let VmRef { host, vmid } = context.place_of(node);
            let asked = clock.timeout(REQUEST_TIMEOUT, context.systems.pve.is_running(&host, vmid)).await;
            // What Proxmox does not say is not off.
            matches!(asked, Ok(Ok(false)))
        };
        if off {
            return Ok(Done::default());
        }
    }
    let hint = "its console shows what it waits for (`talosmith node console`); a VM that hangs is stopped in Proxmox";
    Err(attempt().coded("timed-out").hint(hint))
}
