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
use crate::systems::REQUEST_TIMEOUT;

/// For the machine to take it over.
const TRIES: u32 = 15;
const INTERVAL: Duration = Duration::from_secs(2);

pub(super) async fn run(context: &Context, node: &Node, progress: &Progress) -> Result<Done> {
    let (systems, access) = (&context.systems, context.snapshot.access()?);
    let config = context.snapshot.config(&node.name)?;
    let attempt = || Error::systems(format!("could not update the machine config of {}", node.name));
    let machine = match identify(systems, node, access).await {
        Identified::Configured(machine) => machine,
        Identified::Maintenance(_) => {
            return Err(Error::new(Kind::Refused, format!("{} lost its configuration", node.name))
                .hint("run the command again: it gets all of it then"));
        }
        Identified::ForeignMachine { why } | Identified::OtherKeys { why } => {
            return Err(attempt().hint(format!("{why}; run the command again when it answers")));
        }
        Identified::Unresponsive(unmet) => {
            let hint = format!("{}; run the command again when it answers", unmet.words);
            return Err(attempt().coded(unmet.code).hint(hint));
        }
    };
    let runs = match systems.clock.timeout(REQUEST_TIMEOUT, machine.machine_config()).await {
        Ok(runs) => digest(runs.map_err(|e| attempt().because(e))?.expose_secret().as_bytes()),
        Err(timed_out) => return Err(attempt().because(timed_out)),
    };
    if runs == digest(config.as_bytes()) {
        return Ok(Done::default());
    }
    let planned =
        context.snapshot.observed.machines.get(&node.name).and_then(|seen| seen.config_digest.as_ref());
    if planned != Some(&runs) {
        let what = format!("the configuration of {} was changed since the plan was made", node.name);
        return Err(Error::new(Kind::Refused, what).hint(
            "find out who changed it, then run the command again: it compares with what the machine runs now",
        ));
    }
    progress.note("sending the configuration");
    let sent = machine.apply_with(config.as_bytes(), ApplyMode::NoReboot);
    let warnings = match systems.clock.timeout(REQUEST_TIMEOUT * 4, sent).await {
        Ok(Ok(applied)) => applied.warnings,
        Ok(Err(e)) => return Err(attempt().hint(refused(&e)).because(e)),
        Err(timed_out) => return Err(attempt().because(timed_out)),
    };
    for _ in 0..TRIES {
        let runs = systems.clock.timeout(REQUEST_TIMEOUT, machine.machine_config()).await;
        if let Ok(Ok(runs)) = runs
            && digest(runs.expose_secret().as_bytes()) == digest(config.as_bytes())
        {
            return Ok(Done { warnings });
        }
        systems.clock.sleep(INTERVAL).await;
    }
    Err(attempt().hint(
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
