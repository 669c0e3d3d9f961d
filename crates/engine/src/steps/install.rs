//! Installs another image of Talos on a machine's disk.
//!
//! From 1.13 on the machine pulls the image and its installer writes the new system beside the old one; the machine runs on, and boots the
//! new one at its next reboot. Before, one call does all of it and reboots by itself; then this step waits for that boot, and the reboot
//! behind it has nothing left to do.

use model::blueprint::Node;
use model::gate::{Effect, Permit};
use model::step::RebootMode;
use talos_client::{ImageStore, LegacyUpgrade, Progress as Heard, Upgraded};

use crate::context::{Context, Done};
use crate::emit::Progress;
use crate::error::{Error, Result};
use crate::steps::{boot, permit, reboot};
use crate::systems::REQUEST_TIMEOUT;

/// What is installed.
pub(super) struct Install<'a> {
    /// The installer image.
    pub(super) image: &'a str,
    /// The release that it brings.
    pub(super) talos: &'a str,
    /// How a machine reboots that does so by itself.
    pub(super) mode: RebootMode,
}

/// Lets the machine pull an installer image before anything is disrupted. One that it cannot have is found here.
pub(super) async fn pull(context: &Context, node: &Node, image: &str, progress: &Progress) -> Result<Done> {
    let attempt = || Error::systems(format!("could not pull {image} on {}", node.name));
    let machine = boot::configured(context, node, attempt).await?;
    let heard = |heard: Heard| match heard {
        Heard::Layer { offset, total, .. } if total > 0 => {
            progress.note(format!("{} of {} MiB", offset >> 20, total >> 20));
        }
        Heard::Layer { .. } | Heard::Installer(_) => {}
    };
    machine.prefetch(image, ImageStore::System, heard).await.map(|()| Done::default()).map_err(|error| {
        attempt()
            .hint(
                "nothing was disrupted; check that the machines reach the registry, that `image.factory` and `image.installer_mirror` in \
                 the file are right, and that the release exists, then run the command again",
            )
            .because(error)
    })
}

/// Installs an image, unless the machine runs it already.
pub(super) async fn run(
    context: &Context,
    permit: &Permit,
    node: &Node,
    what: &Install<'_>,
    progress: &Progress,
) -> Result<Done> {
    let Install { image, talos, mode } = *what;
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
    let legacy = LegacyUpgrade { power_cycle: mode == RebootMode::PowerCycle, ..LegacyUpgrade::default() };
    match machine.upgrade_with(image, legacy, heard).await {
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
