//! Restarting, switching off and wiping a machine, and knowing when it is back.
//!
//! These calls answer as soon as the machine has agreed to start. Whether it did, and how it ended, is told by events only:
//! a refusal because something else runs comes as an event without an actor. Whether a machine has restarted is told by
//! its boot id and by nothing else, because a machine that goes down shows `running` for a moment, and one that came back
//! may have been away for less time than the pause between two looks.

use std::time::Duration;

use talos::wire::machine as wire;
use talos::wire::machine::reboot_request::Mode;

use crate::api::{QUESTION, WORK};
use crate::error::{Kind, Result};
use crate::events::{Events, Past, SequenceFailure, What};
use crate::machine::Machine;
use crate::types::Stage;

const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
/// Between two looks at a machine that is on its way.
const PAUSE: Duration = Duration::from_secs(2);
/// A machine without its configuration is believed only after so many looks.
const LOOKS: u32 = 3;

/// How to restart a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Reboot {
    /// As the machine likes: mostly straight into the new kernel.
    #[default]
    Usual,
    /// Through the firmware.
    PowerCycle,
    /// At once, without stopping anything first. Since 1.12.
    Force,
}

/// How to reset a machine.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Reset {
    /// Drain and leave etcd first. The last control plane cannot leave: it says yes and comes back as it was.
    pub graceful: bool,
    /// Restart afterwards, into maintenance; else switch off.
    pub reboot: bool,
    /// Only these partitions (`STATE`, `EPHEMERAL`); empty for the whole system disk.
    pub partitions: Vec<String>,
}

impl Machine {
    /// Restarts the machine. It answers before it does; what it then tells has the id that is returned.
    ///
    /// # Errors
    ///
    /// As any call.
    pub async fn reboot(&self, how: Reboot) -> Result<String> {
        let mode = match how {
            Reboot::Usual => Mode::Default,
            Reboot::PowerCycle => Mode::Powercycle,
            Reboot::Force => Mode::Force,
        };
        let request = wire::RebootRequest { mode: mode.into() };
        let message = self.api.ask("restarting", QUESTION, self.api.services().reboot(request)).await?;
        Ok(message.actor_id)
    }

    /// Switches the machine off. It answers before it does. Unless `force`, it drains itself first.
    ///
    /// # Errors
    ///
    /// As any call.
    pub async fn shutdown(&self, force: bool) -> Result<String> {
        let request = wire::ShutdownRequest { force };
        let message = self.api.ask("switching off", QUESTION, self.api.services().shutdown(request)).await?;
        Ok(message.actor_id)
    }

    /// Wipes the machine's system disk or parts of it. It answers before it does.
    ///
    /// # Errors
    ///
    /// As any call.
    pub async fn reset(&self, reset: &Reset) -> Result<String> {
        let partition = |label: &String| wire::ResetPartitionSpec { label: label.clone(), wipe: true };
        let request = wire::ResetRequest {
            graceful: reset.graceful,
            reboot: reset.reboot,
            system_partitions_to_wipe: reset.partitions.iter().map(partition).collect(),
            mode: wire::reset_request::WipeMode::SystemDisk.into(),
            ..Default::default()
        };
        let message = self.api.ask("resetting", WORK, self.api.services().reset(request)).await?;
        Ok(message.actor_id)
    }

    /// Goes back to the system that was there before the last upgrade, and restarts into it.
    ///
    /// # Errors
    ///
    /// As any call.
    pub async fn rollback(&self) -> Result<()> {
        let attempt = "going back to the system before";
        let request = wire::RollbackRequest {};
        self.api.ask(attempt, WORK, self.api.services().rollback(request)).await.map(drop)
    }

    /// What changes with every boot and with nothing else.
    ///
    /// # Errors
    ///
    /// As any call; needs the administrator's role.
    pub async fn boot_id(&self) -> Result<String> {
        let text = self.read_file("reading the boot id", BOOT_ID).await?;
        Ok(String::from_utf8_lossy(&text).trim().to_owned())
    }

    /// Restarts the machine and waits until it is up again.
    ///
    /// # Errors
    ///
    /// [`Kind::Refused`] when it did not start because something else runs on it; [`Kind::Failed`] when it started and
    /// failed; [`Kind::Untrusted`] when it came back without its configuration; [`Kind::Deadline`].
    pub async fn reboot_and_wait(&self, how: Reboot, limit: Duration) -> Result<()> {
        let before = self.boot_id().await?;
        let mut events = self.events(Past::Nothing).await?;
        let actor = self.reboot(how).await?;
        let work = async {
            self.until_gone("restarting", "reboot", &actor, &mut events).await?;
            self.until_up("restarting", &before).await
        };
        match self.api.clock().timeout(limit, work).await {
            Ok(outcome) => outcome,
            Err(_) => Err(self.late("restarting", limit)),
        }
    }

    /// Waits until the machine has booted again, since `before` was its boot id, and runs.
    ///
    /// # Errors
    ///
    /// As [`Machine::reboot_and_wait`].
    pub async fn wait_for_boot(&self, before: &str, limit: Duration) -> Result<()> {
        let attempt = "waiting for a boot";
        match self.api.clock().timeout(limit, self.until_up(attempt, before)).await {
            Ok(outcome) => outcome,
            Err(_) => Err(self.late(attempt, limit)),
        }
    }

    fn late(&self, attempt: &'static str, limit: Duration) -> crate::Error {
        let why = format!("it is not back after {} s", limit.as_secs());
        self.api.failure(attempt, Kind::Deadline, why)
    }

    /// Listens until the machine ends the stream, which it does when it goes down.
    async fn until_gone(
        &self,
        attempt: &'static str,
        sequence: &str,
        actor: &str,
        events: &mut Events,
    ) -> Result<()> {
        loop {
            let event = match events.next(Duration::from_secs(3600)).await {
                Ok(Some(event)) => event,
                // A stream that breaks says as much as one that ends: look at the boot id.
                Ok(None) | Err(_) => return Ok(()),
            };
            let What::Sequence { name, failure: Some(failure), .. } = event.what else { continue };
            if name != sequence || !(event.actor.is_empty() || event.actor == actor) {
                continue;
            }
            match failure {
                SequenceFailure::Locked => {
                    let why = "it did not start: the machine is busy with something else";
                    return Err(self.api.failure(attempt, Kind::Refused, why));
                }
                SequenceFailure::Fatal(why) => return Err(self.api.failure(attempt, Kind::Failed, why)),
                // Another client restarts it as well, and took over.
                SequenceFailure::Cancelled => {}
            }
        }
    }

    async fn until_up(&self, attempt: &'static str, before: &str) -> Result<()> {
        let (mut sightings, mut bare) = (0, 0);
        loop {
            match self.looks_up(before).await {
                Ok(up) => {
                    sightings = if up { sightings + 1 } else { 0 };
                    bare = 0;
                    // One sighting of `running` may be the last breath of a machine that goes down again.
                    if sightings == 2 {
                        return Ok(());
                    }
                }
                Err(error) if error.kind() == Kind::Untrusted => {
                    bare += 1;
                    if bare == LOOKS {
                        let why = "it came back without its configuration";
                        return Err(self.api.failure(attempt, Kind::Untrusted, why));
                    }
                }
                Err(_) => (sightings, bare) = (0, 0),
            }
            self.api.clock().sleep(PAUSE).await;
        }
    }

    async fn looks_up(&self, before: &str) -> Result<bool> {
        let machine = self.within(Duration::from_secs(5));
        Ok(machine.boot_id().await? != before && machine.stage().await?.stage == Stage::Running)
    }
}
