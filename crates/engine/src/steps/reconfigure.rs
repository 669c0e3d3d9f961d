//! Gives a machine that runs the configuration that the file describes.
//!
//! Without a permit only where the machine follows at once. Two things keep that promise: the machine must still run the
//! configuration that the plan compared with, and it is asked in the mode that never reboots, so that a machine which judges
//! otherwise refuses and changes nothing.
//!
//! With a permit the configuration is staged, and the machine rebooted: that works the same way on every release, while those from 1.14
//! on never reboot by themselves. A crash between both leaves a machine that runs its old configuration, and is given the new one again.

use std::time::Duration;

use model::blueprint::Node;
use model::gate::{Effect, Permit};
use model::step::RebootMode;
use secrecy::ExposeSecret;
use talos_client::{ApplyMode, Machine};

use crate::context::{Context, Done};
use crate::emit::Progress;
use crate::error::{Error, Kind, Result};
use crate::render::digest;
use crate::steps::{boot, permit, reboot};
use crate::systems::REQUEST_TIMEOUT;

/// For the machine to take it over.
const TRIES: u32 = 15;
const INTERVAL: Duration = Duration::from_secs(2);

/// Gives a machine its configuration, which it takes over at once.
pub(super) async fn run(context: &Context, node: &Node, progress: &Progress) -> Result<Done> {
    let Some((machine, config)) = differs(context, node).await? else { return Ok(Done::default()) };
    progress.note("sending the configuration");
    let warnings = send(context, node, &machine, config, ApplyMode::NoReboot).await?;
    follows(context, node, &machine, &digest(config.as_bytes())).await?;
    await_volumes(context, node, &machine, progress).await?;
    Ok(Done { warnings })
}

/// Waits until the machine runs the configuration with this digest.
pub(super) async fn follows(context: &Context, node: &Node, machine: &Machine, wanted: &str) -> Result<()> {
    for _ in 0..TRIES {
        if runs(context, machine).await.is_some_and(|runs| runs == wanted) {
            return Ok(());
        }
        context.systems.clock.sleep(INTERVAL).await;
    }
    Err(runs_another(node))
}

/// Waits for the volumes of the node's data disks. A machine accepts a configuration with a volume that it finds no disk for.
async fn await_volumes(context: &Context, node: &Node, machine: &Machine, progress: &Progress) -> Result<()> {
    let wanted: Vec<String> = node.hardware.disks.iter().map(|disk| format!("u-{}", disk.name)).collect();
    let mut unready = None;
    for _ in 0..TRIES {
        if wanted.is_empty() {
            return Ok(());
        }
        let found = match context.systems.clock.timeout(REQUEST_TIMEOUT, machine.volumes()).await {
            Ok(found) => found.map_err(|e| attempt(node).because(e))?,
            Err(timed_out) => return Err(attempt(node).because(timed_out)),
        };
        let is_ready =
            |name: &&String| found.iter().any(|volume| volume.name == **name && volume.phase == "ready");
        let Some(name) = wanted.iter().find(|name| !is_ready(name)) else { return Ok(()) };
        let why =
            found.iter().find(|volume| volume.name == *name).map(|volume| volume.error_message.as_str());
        progress.note(format!("waiting for the volume {name}"));
        unready = Some(match why.filter(|why| !why.is_empty()) {
            Some(why) => {
                format!("the machine has the configuration, and its volume {name} is not ready: {why}")
            }
            None => format!("the machine has the configuration, and its volume {name} is not ready"),
        });
        context.systems.clock.sleep(INTERVAL).await;
    }
    Err(unready.map_or_else(|| attempt(node), |why| attempt(node).hint(why)))
}

/// Gives a machine its configuration, which it takes over with a reboot.
pub(super) async fn reboot(
    context: &Context,
    permit: &Permit,
    node: &Node,
    progress: &Progress,
) -> Result<Done> {
    permit::check(permit, &node.name, Effect::Absence)?;
    let Some((machine, config)) = differs(context, node).await? else { return Ok(Done::default()) };
    let before = boot::id(context, &machine, || attempt(node)).await?;
    progress.note("sending the configuration");
    let warnings = send(context, node, &machine, config, ApplyMode::Staged).await?;
    let machine =
        reboot::again(context, permit, node, &machine, &before, RebootMode::Default, progress).await?;
    match runs(context, &machine).await {
        Some(runs) if runs == digest(config.as_bytes()) => {
            await_volumes(context, node, &machine, progress).await?;
            Ok(Done { warnings })
        }
        Some(_) => Err(runs_another(node)),
        None => Err(attempt(node)
            .hint("it booted, and does not report which machine config it runs; run the command again")),
    }
}

/// Gives a machine its configuration, which it takes over at its next boot. Another step of the unit brings that about, and the node
/// is verified to run it afterwards.
pub(super) async fn stage(
    context: &Context,
    permit: &Permit,
    node: &Node,
    progress: &Progress,
) -> Result<Done> {
    permit::check(permit, &node.name, Effect::Absence)?;
    let Some((machine, config)) = differs(context, node).await? else { return Ok(Done::default()) };
    progress.note("sending the configuration");
    let warnings = send(context, node, &machine, config, ApplyMode::Staged).await?;
    context.staged().insert(node.name.clone());
    Ok(Done { warnings })
}

/// The machine, and the configuration that it does not run yet. Refused where it runs another one than the plan compared with.
async fn differs<'a>(context: &'a Context, node: &Node) -> Result<Option<(Machine, &'a str)>> {
    let systems = &context.systems;
    let config = context.snapshot.config(&node.name)?;
    let machine = boot::configured(context, node, || attempt(node)).await?;
    let runs = match systems.clock.timeout(REQUEST_TIMEOUT, machine.machine_config()).await {
        Ok(runs) => digest(runs.map_err(|e| attempt(node).because(e))?.expose_secret().as_bytes()),
        Err(timed_out) => return Err(attempt(node).because(timed_out)),
    };
    if runs == digest(config.as_bytes()) {
        return Ok(None);
    }
    let planned =
        context.snapshot.observed.machines.get(&node.name).and_then(|seen| seen.config_digest.as_ref());
    if planned != Some(&runs) {
        let what = format!("the configuration of {} was changed since the plan was made", node.name);
        return Err(Error::new(Kind::Refused, what).hint(
            "find out who changed it, then run the command again: it compares with what the machine runs now",
        ));
    }
    Ok(Some((machine, config)))
}

/// Sends a configuration. Gives the machine's warnings.
pub(super) async fn send(
    context: &Context,
    node: &Node,
    machine: &Machine,
    config: &str,
    mode: ApplyMode,
) -> Result<Vec<String>> {
    let sent = machine.apply_with(config.as_bytes(), mode);
    match context.systems.clock.timeout(REQUEST_TIMEOUT * 4, sent).await {
        Ok(Ok(applied)) => Ok(applied.warnings),
        Ok(Err(e)) => Err(attempt(node).hint(refused(&e)).because(e)),
        Err(timed_out) => Err(attempt(node).because(timed_out)),
    }
}

/// The digest of the configuration that a machine runs, where it tells.
async fn runs(context: &Context, machine: &Machine) -> Option<String> {
    let runs = context.systems.clock.timeout(REQUEST_TIMEOUT, machine.machine_config()).await;
    Some(digest(runs.ok()?.ok()?.expose_secret().as_bytes()))
}

fn attempt(node: &Node) -> Error {
    Error::systems(format!("could not update the machine config of {}", node.name))
}

fn runs_another(node: &Node) -> Error {
    attempt(node).hint(
        "it accepted the configuration, but runs another one; `talosmith plan` shows in what they differ",
    )
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
