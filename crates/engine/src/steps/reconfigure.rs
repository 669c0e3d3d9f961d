//! Gives a machine that runs the configuration that the file describes.
//!
//! The plan asks for this only where the machine follows at once. Should the machine think otherwise and restart for it,
//! that is told.

use std::time::Duration;

use model::blueprint::Node;
use secrecy::ExposeSecret;

use crate::apply::Context;
use crate::emit::Progress;
use crate::error::{Error, Kind, Result};
use crate::observe::machines::digest;
use crate::steps::{Done, Identified, identify};
use crate::world::QUESTION;

/// For the machine to take it over.
const TRIES: u32 = 15;
const PAUSE: Duration = Duration::from_secs(2);

pub(super) async fn run(context: &Context, node: &Node, progress: &Progress) -> Result<Done> {
    let (world, access) = (&context.world, context.look.access()?);
    let config = context.look.config(&node.name)?;
    let attempt = || Error::world(format!("could not configure {} anew", node.name));
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
    progress.note("sending the configuration");
    let applied = match world.clock.timeout(QUESTION * 4, machine.apply(config.as_bytes())).await {
        Ok(applied) => applied.map_err(|e| {
            attempt()
                .remedy("the machine names what it does not like; a patch is the usual reason")
                .because(e)
        })?,
        Err(timed_out) => return Err(attempt().because(timed_out)),
    };
    let mut warnings = applied.warnings;
    if applied.reboots {
        warnings.push(format!("{} restarts for its configuration", node.name));
    }
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
