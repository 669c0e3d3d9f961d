//! Reboots a machine, and waits until it has booted again.
//!
//! The machine is asked once. Where the answer is lost, it is watched: a machine that goes down was asked, and one that runs on for a minute
//! was not. It is never asked a second time in one run.

use std::time::Duration;

use jiff::SignedDuration;
use model::blueprint::Node;
use model::gate::{Effect, Permit};
use model::step::RebootMode;
use talos_client::{Events, Kind as Refused, Machine, Past, Reboot, SequenceFailure, Stage, What};

use crate::context::{Context, Done};
use crate::emit::Progress;
use crate::error::{Error, Result};
use crate::steps::{boot, permit};
use crate::systems::REQUEST_TIMEOUT;

/// A machine that was asked to reboot is on its way after this.
const SETS_OUT: SignedDuration = SignedDuration::from_secs(60);
/// Between two looks at a machine of which it is not known whether it was asked.
const INTERVAL: Duration = Duration::from_secs(2);
/// For so long nothing may be heard on a stream of events.
const QUIET: Duration = Duration::from_secs(3600);

/// Reboots a node's machine.
pub(super) async fn run(
    context: &Context,
    permit: &Permit,
    node: &Node,
    mode: RebootMode,
    progress: &Progress,
) -> Result<Done> {
    permit::check(permit, &node.name, Effect::Absence)?;
    if context.restarted().contains(&node.name) {
        return Ok(Done::default());
    }
    let machine = boot::configured(context, node, || attempt(node)).await?;
    let before = boot::id(context, &machine, || attempt(node)).await?;
    again(context, permit, node, &machine, &before, mode, progress).await?;
    Ok(Done::default())
}

/// Reboots a machine that had the boot ID `before`, and gives it back when it runs again.
pub(super) async fn again(
    context: &Context,
    permit: &Permit,
    node: &Node,
    machine: &Machine,
    before: &str,
    mode: RebootMode,
    progress: &Progress,
) -> Result<Machine> {
    permit::check(permit, &node.name, Effect::Absence)?;
    let how = match mode {
        RebootMode::Default => Reboot::Usual,
        RebootMode::PowerCycle => Reboot::PowerCycle,
    };
    // They tell why a machine does not reboot. Whether it did, they do not tell.
    let clock = &context.systems.clock;
    let listening = clock.timeout(REQUEST_TIMEOUT, machine.events(Past::Nothing)).await;
    let events = listening.ok().and_then(talos_client::Result::ok);
    progress.note("rebooting");
    match machine.reboot(how).await {
        Ok(actor) => {
            context.restarted().insert(node.name.clone());
            tokio::select! {
                biased;
                refusal = refused(node, events, &actor) => Err(refusal),
                booted = boot::wait(context, node, before, progress) => booted,
            }
        }
        Err(error) if is_lost(&error) => {
            if !sets_out(context, machine, before).await {
                return Err(armed(context, node, attempt(node)).because(error));
            }
            context.restarted().insert(node.name.clone());
            boot::wait(context, node, before, progress).await
        }
        Err(error) => Err(armed(context, node, attempt(node)).because(error)),
    }
}

/// Says what the next reboot of a machine brings that has another image on its disk.
fn armed(context: &Context, node: &Node, error: Error) -> Error {
    let installed = context.installed().get(&node.name).cloned();
    match installed {
        Some(talos) => error.hint(format!(
            "Talos {talos} is installed: any later reboot of {} boots it; run the command again to continue",
            node.name
        )),
        None => error,
    }
}

/// Whether a call may have had an effect, although nothing was answered.
pub(super) fn is_lost(error: &talos_client::Error) -> bool {
    matches!(error.kind(), Refused::Unavailable | Refused::Deadline)
}

/// Comes back only when the machine says that it does not reboot, because something else goes on there.
async fn refused(node: &Node, events: Option<Events>, actor: &str) -> Error {
    let Some(mut events) = events else { return std::future::pending().await };
    loop {
        // A stream that ends says nothing.
        let Ok(Some(event)) = events.next(QUIET).await else { return std::future::pending().await };
        let What::Sequence { name, failure: Some(SequenceFailure::Locked), .. } = event.what else {
            continue;
        };
        if name == "reboot" && (event.actor.is_empty() || event.actor == actor) {
            return attempt(node).coded("machine-busy").hint(
                "the machine is busy with something else (an upgrade, a reset); wait for it, then run the command again",
            );
        }
    }
}

/// Whether a machine that may have been asked goes down. Nothing that it lacks proves that it was not asked.
async fn sets_out(context: &Context, machine: &Machine, before: &str) -> bool {
    let clock = &context.systems.clock;
    let began = clock.now();
    while clock.now().duration_since(began) < SETS_OUT {
        let looked = async {
            let id = machine.boot_id().await?;
            Ok::<_, talos_client::Error>((id, machine.stage().await?.stage))
        };
        match clock.timeout(REQUEST_TIMEOUT, looked).await {
            Ok(Ok((id, Stage::Running | Stage::Booting))) if id == before => {}
            Ok(Ok(_)) => return true,
            // Out of reach as before, or already on its way: time tells.
            Ok(Err(_)) | Err(_) => {}
        }
        clock.sleep(INTERVAL).await;
    }
    // One that cannot be asked may be down: Talosmith waits for it as long as for any other.
    !matches!(clock.timeout(REQUEST_TIMEOUT, machine.boot_id()).await, Ok(Ok(id)) if id == before)
}

fn attempt(node: &Node) -> Error {
    Error::systems(format!("could not reboot {}", node.name))
}
