//! Whether the VM of a machine that a step waits for is still on. A machine without power never answers, and Proxmox knows that.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use model::blueprint::Node;
use model::names::VmRef;

use crate::context::Context;
use crate::error::{Error, UNREACHABLE};
use crate::offline;
use crate::systems::REQUEST_TIMEOUT;
use crate::unmet::Unmet;

const CODE: &str = "vm-off";
/// Between two questions; also for how long a machine is silent before the first one.
const INTERVAL: SignedDuration = SignedDuration::from_secs(15);
/// A VM that is off for so long was not just stopped and started.
const STAYS_OFF: SignedDuration = SignedDuration::from_secs(30);

/// Looks after the power of one VM while its machine does not answer.
#[derive(Debug, Default)]
pub(crate) struct PowerWatch {
    /// When it was asked last, or fell silent.
    asked: Option<Timestamp>,
    off_since: Option<Timestamp>,
    /// Whether its host is offline.
    host_offline: bool,
}

impl PowerWatch {
    /// The machine answers, so its VM is on.
    pub(crate) fn answers(&mut self) {
        *self = Self::default();
    }

    /// The machine does not answer. Says so where its VM is off, or its host: what is missing, or a failure once the VM stays off.
    pub(crate) async fn observe(&mut self, context: &Context, node: &Node) -> Result<Option<Unmet>, Error> {
        if node.external {
            return Ok(None);
        }
        let systems = &context.systems;
        let VmRef { host, vmid } = context.place_of(node);
        let now = systems.clock.now();
        if now.duration_since(*self.asked.get_or_insert(now)) >= INTERVAL {
            self.asked = Some(now);
            match systems.clock.timeout(REQUEST_TIMEOUT, systems.pve.is_running(&host, vmid)).await {
                Ok(Ok(true)) => (self.off_since, self.host_offline) = (None, false),
                Ok(Ok(false)) => {
                    (self.off_since, self.host_offline) = (Some(self.off_since.unwrap_or(now)), false);
                }
                // What Proxmox does not say is not known; the other hosts say whether it is the host.
                Ok(Err(_)) | Err(_) => self.host_offline = offline::is_offline(systems, &host).await,
            }
        }
        if self.host_offline {
            // It may be restarting, so Talosmith still waits for its machines.
            return Ok(Some(Unmet::new(format!("the Proxmox host {host} is offline")).coded(UNREACHABLE)));
        }
        let Some(since) = self.off_since else { return Ok(None) };
        let words = format!("VM {vmid} on {host} is off");
        if now.duration_since(since) < STAYS_OFF {
            return Ok(Some(Unmet::new(words).coded(CODE)));
        }
        Err(Error::systems(format!("could not wait for {}: {words}", node.name)).coded(CODE).hint(format!(
            "the tasks of VM {vmid} in Proxmox say who stopped it, or why it stopped; running the command again starts it"
        )))
    }
}

/// A machine that boots answers sooner.
pub(crate) const USUAL_BOOT: Duration = Duration::from_secs(90);
