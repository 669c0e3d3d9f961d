//! Gives a machine that runs the configuration that the file describes.
//!
//! The plan asks for this only where the machine follows at once. Two things keep that promise: the machine must still run the
//! configuration that the plan compared with, and it is asked in the mode that never reboots, so that a machine which judges
//! otherwise refuses and changes nothing.

use std::time::Duration;

use model::blueprint::Node;
use secrecy::ExposeSecret;
use talos_client::ApplyMode;

use crate::context::{Context, Done};
use crate::emit::Progress;
use crate::error::{Error, Kind, Result};
use crate::identify::{Identified, identify};
use crate::render::digest;
use crate::world::QUESTION;

/// For the machine to take it over.
const TRIES: u32 = 15;
const PAUSE: Duration = Duration::from_secs(2);

pub(super) async fn run(context: &Context, node: &Node, progress: &Progress) -> Result<Done> {
    let (world, access) = (&context.world, context.look.access()?);
    let config = context.look.config(&node.name)?;
    let attempt = || Error::world(format!("could not update the machine config of {}", node.name));
    let machine = match identify(world, node, access).await {
        Identified::Configured(machine) => machine,
        Identified::Maintenance(_) => {
            return Err(Error::new(Kind::Refused, format!("{} lost its configuration", node.name))
                .remedy("run the command again: it gets all of it then"));
        }
        Identified::Stranger { why } | Identified::OtherKeys { why } => {
            return Err(attempt().remedy(format!("{why}; run the command again when it answers")));
        }
        Identified::Silent(lack) => {
            let remedy = format!("{}; run the command again when it answers", lack.words);
            return Err(attempt().coded(lack.code).remedy(remedy));
        }
    };
    let runs = match world.clock.timeout(QUESTION, machine.machine_config()).await {
        Ok(runs) => digest(runs.map_err(|e| attempt().because(e))?.expose_secret().as_bytes()),
        Err(timed_out) => return Err(attempt().because(timed_out)),
    };
    if runs == digest(config.as_bytes()) {
        return Ok(Done::default());
    }
    let planned = context.look.observed.machines.get(&node.name).and_then(|seen| seen.config_digest.as_ref());
    if planned != Some(&runs) {
        let what = format!("the configuration of {} was changed since the plan was made", node.name);
        return Err(Error::new(Kind::Refused, what).remedy(
            "find out who changed it, then run the command again: it compares with what the machine runs now",
        ));
    }
    progress.note("sending the configuration");
    let sent = machine.apply_with(config.as_bytes(), ApplyMode::NoReboot);
    let warnings = match world.clock.timeout(QUESTION * 4, sent).await {
        Ok(Ok(applied)) => applied.warnings,
        Ok(Err(e)) => return Err(attempt().remedy(refused(&e)).because(e)),
        Err(timed_out) => return Err(attempt().because(timed_out)),
    };
    for _ in 0..TRIES {
        let runs = world.clock.timeout(QUESTION, machine.machine_config()).await;
        if let Ok(Ok(runs)) = runs
            && digest(runs.expose_secret().as_bytes()) == digest(config.as_bytes())
        {
            return Ok(Done { warnings });
        }
        world.clock.sleep(PAUSE).await;
    }
    Err(attempt().remedy(
        "it accepted the configuration, but runs another one; `talosmith plan` shows in what they differ",
    ))
}

/// What to do about a configuration that the machine did not take.
fn refused(error: &talos_client::Error) -> &'static str {
    match error.to_string().contains("immediate mode") {
        true => {
            "nothing was changed, because the machine would have to reboot for it; put the file back to what runs, or apply the \
             change with talosctl, one node at a time"
        }
        false => "the machine names what it does not accept; a patch is the usual reason",
    }
}
