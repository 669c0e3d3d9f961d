//! Installs another image of Talos on a machine's disk.
//!
//! From 1.13 on the machine pulls the image and its installer writes the new system beside the old one; the machine runs on, and boots the
//! new one at its next reboot. Before, one call does all of it and reboots by itself; then this step waits for that boot, and the reboot
//! behind it has nothing left to do.

use model::blueprint::Node;
use model::gate::{Effect, Permit};
use talos_client::{Progress as Heard, Upgraded};

use crate::context::{Context, Done};
use crate::emit::Progress;
use crate::error::{Error, Result};
use crate::steps::{boot, permit, reboot};
use crate::systems::REQUEST_TIMEOUT;

/// Installs an image, unless the machine runs it already.
pub(super) async fn run(
    context: &Context,
    permit: &Permit,
    node: &Node,
    image: &str,
    talos: &str,
    progress: &Progress,
) -> Result<Done> {
    permit::check(permit, &node.name, Effect::Absence)?;
    let attempt = || Error::systems(format!("could not install Talos {talos} on {}", node.name));
    let machine = boot::configured(context, node, attempt).await?;
    let before = boot::id(context, &machine, attempt).await?;
    context.installed().insert(node.name.clone(), talos.to_owned());
    if runs(context, &machine, image, talos).await {
        return Ok(Done::default());
    }
    progress.note(format!("pulling {image}"));
    let heard = |heard: Heard| match heard {
        Heard::Layer { .. } => {}
        Heard::Installer(words) => progress.note(words),
    };
    match machine.upgrade(image, heard).await {
        Ok(Upgraded::AwaitsReboot) => {}
        Ok(Upgraded::RestartsItself { .. }) => {
            context.restarted().insert(node.name.clone());
            boot::wait(context, node, &before, progress).await?;
        }
        Err(error) => {
            // Before 1.13 it may be on its way by now.
            if reboot::is_lost(&error) {
                context.restarted().insert(node.name.clone());
            }
            return Err(attempt()
                .hint("the machine runs as before; correct what it says, then run the command again")
                .because(error));
        }
    }
    Ok(Done::default())
}

/// Whether the machine runs this release with this schematic. What it does not tell, it does not run.
async fn runs(context: &Context, machine: &talos_client::Machine, image: &str, talos: &str) -> bool {
    let clock = &context.systems.clock;
    let (version, schematic) = futures::join!(
        clock.timeout(REQUEST_TIMEOUT, machine.version()),
        clock.timeout(REQUEST_TIMEOUT, machine.schematic()),
    );
    let (Ok(Ok(version)), Ok(Ok(Some(schematic)))) = (version, schematic) else { return false };
    // An installer image of the factory is named after its schematic.
    version.tag == talos && image.contains(&schematic)
}
