//! A machine that goes down and comes back.
//!
//! That it has booted is told by its boot ID and by nothing else: a machine that goes down shows `running` for a moment, one that came back
//! may have been away for less time than lies between two looks, and its stream of events may stay silent although it is back.

use std::time::Duration;

use jiff::SignedDuration;
use model::blueprint::Node;
use talos_client::{Machine, Stage};

use crate::context::Context;
use crate::emit::Progress;
use crate::error::{Error, Kind, Result};
use crate::identify::{Identified, identify};
use crate::steps::configure;
use crate::steps::silence::Silence;
use crate::systems::REQUEST_TIMEOUT;
use crate::unmet::Unmet;

/// Between two looks.
const INTERVAL: Duration = Duration::from_secs(1);
/// A machine without its configuration, or with another identity, is believed only after so many looks.
const LOOKS: u32 = 6;
/// The code of a machine that came back in maintenance mode.
pub(super) const LOST_CONFIG: &str = "lost-configuration";

/// The machine of a node, with its configuration. `attempt` is what fails where there is none.
pub(super) async fn configured(
    context: &Context,
    node: &Node,
    attempt: impl Fn() -> Error,
) -> Result<Machine> {
    match Box::pin(identify(&context.systems, node, context.snapshot.access()?)).await {
        Identified::Configured(machine) => Ok(machine),
        Identified::Maintenance(_) => {
            Err(Error::new(Kind::Refused, format!("{} lost its configuration", node.name))
                .coded(LOST_CONFIG)
                .hint("run the command again: it gets all of it then"))
        }
        Identified::ForeignMachine { why } | Identified::OtherKeys { why } => {
            Err(attempt().hint(format!("{why}; run the command again when it answers")))
        }
        Identified::Unresponsive(unmet) => {
            let hint = format!("{}; run the command again when it answers", unmet.words);
            Err(attempt().coded(unmet.code).hint(hint))
        }
    }
}

/// The boot ID of a machine that answers.
pub(super) async fn id(context: &Context, machine: &Machine, attempt: impl Fn() -> Error) -> Result<String> {
    match context.systems.clock.timeout(REQUEST_TIMEOUT, machine.boot_id()).await {
        Ok(Ok(id)) => Ok(id),
        Ok(Err(error)) => Err(attempt().because(error)),
        Err(timed_out) => Err(attempt().because(timed_out)),
    }
}

/// Waits until the machine of a node has booted since it had the boot ID `before`, and its stage is `running`.
///
/// # Errors
///
/// When it came back without its configuration, its VM is off, or the time is over.
pub(super) async fn wait(
    context: &Context,
    node: &Node,
    before: &str,
    progress: &Progress,
) -> Result<Machine> {
    let (systems, access) = (&context.systems, context.snapshot.access()?);
    let limit = context.snapshot.policy().ready_timeout;
    let began = systems.clock.now();
    let mut silence = Silence::new(context, node);
    let mut last = Unmet::new("it still runs as before");
    let (mut sightings, mut bare) = (0, 0);
    while systems.clock.now().duration_since(began) < limit.try_into().unwrap_or(SignedDuration::MAX) {
        let identified = silence.during(Box::pin(identify(systems, node, access))).await;
        let mut seen = None;
        match identified {
            Identified::Configured(machine) => {
                silence.ends();
                bare = 0;
                let (up, unmet) = is_up(context, &machine, before).await;
                sightings = if up { sightings + 1 } else { 0 };
                last = unmet;
                seen = Some(machine);
            }
            Identified::Maintenance(_) => {
                silence.ends();
                (sightings, bare) = (0, bare + 1);
                last = Unmet::new("waits in maintenance mode: it came back without its configuration");
                if bare == LOOKS {
                    return Err(lost_config(context, node));
                }
            }
            Identified::ForeignMachine { why } | Identified::OtherKeys { why } => {
                (sightings, bare) = (0, 0);
                last = Unmet::new(why);
            }
            Identified::Unresponsive(unmet) => {
                (sightings, bare) = (0, 0);
                last = Box::pin(silence.explain(unmet)).await?;
            }
        }
        // One sighting of `running` may be the last of a machine that goes down again.
        if let Some(machine) = seen.filter(|_| sightings == 2) {
            return Ok(machine);
        }
        progress.note(format!("waiting for it to boot: {}", last.words));
        silence.during(systems.clock.sleep(INTERVAL)).await;
    }
    Err(Error::systems(format!(
        "{} has not booted within {} minutes: {}",
        node.name,
        limit.as_secs() / 60,
        last.words
    ))
    .coded(last.code)
    .hint(match silence.was_long() {
        true => format!(
            "look at its console with `talosmith node console {}`; {}",
            node.name,
            configure::wiped(context, node)
        ),
        false => "`talosmith status` shows where it stands; run the command again to continue".to_owned(),
    }))
}

/// Whether a machine has booted again and runs, and what it lacks where it does not.
async fn is_up(context: &Context, machine: &Machine, before: &str) -> (bool, Unmet) {
    let clock = &context.systems.clock;
    let (id, stage) = futures::join!(
        clock.timeout(REQUEST_TIMEOUT, machine.boot_id()),
        clock.timeout(REQUEST_TIMEOUT, machine.stage()),
    );
    match (id, stage) {
        (Ok(Ok(id)), Ok(Ok(status))) if id == before => {
            (false, Unmet::new(format!("it has not gone down yet (stage {})", status.stage)))
        }
        (Ok(Ok(_)), Ok(Ok(status))) if status.stage == Stage::Running => {
            (true, Unmet::new("it has just booted"))
        }
        (Ok(Ok(_)), Ok(Ok(status))) => (false, Unmet::new(format!("stage {}", status.stage))),
        (Ok(Err(error)), _) | (_, Ok(Err(error))) => {
            (false, Unmet::of_machine("it does not tell its boot ID and stage", &error))
        }
        (Err(_), _) | (_, Err(_)) => (false, Unmet::new("it does not tell its boot ID and stage")),
    }
}

/// A machine that came back in maintenance mode.
pub(super) fn lost_config(context: &Context, node: &Node) -> Error {
    Error::systems(format!("{} came back in maintenance mode: its configuration is gone", node.name))
        .coded(LOST_CONFIG)
        .hint(format!(
            "its disk lost its STATE partition; `talosmith apply` configures it again. {}",
            configure::wiped(context, node)
        ))
}
