//! Gives a VM that is off a new system disk, copied from the boot image, and deletes the old one. All other disks stay where they are.
//!
//! Nothing brings the old system back, so the VM is read directly before: it must be ours and off, and its disk must be the one that the
//! plan named. The old disk goes first: a run that dies in between leaves a VM that cannot start with an old log of etcd, and no disk
//! that nothing names.

use std::time::Duration;

use model::blueprint::Node;
use model::gate::{Effect, Permit};
use model::names::VmRef;
use model::ownership::Act;
use model::vm;
use pve::{Params, PowerState, VmConfig};

use crate::context::{Context, Done};
use crate::emit::Progress;
use crate::error::{Error, Kind, NO_EFFECT, Result, hint};
use crate::owned;
use crate::steps::vm::{ATTEMPTS, grow};
use crate::steps::{permit, update};

/// A system disk that is renewed.
pub(super) struct Renewal<'a> {
    /// Key of the disk.
    pub(super) disk: &'a str,
    /// The volume that is there, and no other one.
    pub(super) volume: Option<&'a str>,
    /// What the new one is copied from.
    pub(super) image: &'a str,
}

/// Renews the system disk of a node's VM. One that was renewed already is as good.
pub(super) async fn run(
    context: &Context,
    permit: &Permit,
    node: &Node,
    place: &VmRef,
    renewal: &Renewal<'_>,
    progress: &Progress,
) -> Result<Done> {
    permit::check(permit, &node.name, Effect::Removal)?;
    let Renewal { disk, volume, image } = *renewal;
    let drive = vm::drives(node).into_iter().find(|drive| drive.key == disk);
    let value = drive
        .and_then(|drive| drive.creation(image))
        .ok_or_else(|| Error::new(Kind::Refused, format!("{} is not fully decided yet", node.name)))?;
    let mut warnings = vec![];
    let seen = |config: &VmConfig| config.drive(disk).map(|drive| drive.volume);
    let config = owned::read(context, Act::Change, &node.name, place).await?.now;
    if seen(&config).is_some_and(|seen| Some(seen.as_str()) != volume) {
        let what = format!("{disk} of {} is not what it was when it was observed", node.name);
        return Err(Error::new(Kind::Refused, what)
            .hint("Talosmith did not change it; run the command again to see its state now"));
    }
    progress.note("deleting the old system disk");
    change(context, node, place, &mut warnings, |config| {
        let delete = Params::from([
            ("delete".to_owned(), disk.to_owned()),
            // Without it the volume stays, as unused.
            ("force".to_owned(), "1".to_owned()),
        ]);
        seen(config).filter(|seen| Some(seen.as_str()) == volume).map(|_| delete)
    })
    .await?;
    progress.note("copying the image");
    // The disk left the boot order when it was deleted.
    let boot =
        vm::settings(&context.snapshot.blueprint, node).remove("boot").map(|boot| ("boot".to_owned(), boot));
    let params: Params = [(disk.to_owned(), value)].into_iter().chain(boot).collect();
    change(context, node, place, &mut warnings, |config| seen(config).is_none().then(|| params.clone()))
        .await?;
    // It is off, so it takes all of the file over.
    warnings.extend(update::settle(context, node, place).await?.warnings);
    grow(context, &node.name, place, disk, node.disk_gib).await?;
    Ok(Done { warnings })
}

/// Changes a VM that is off, as long as there is something to change.
async fn change(
    context: &Context,
    node: &Node,
    place: &VmRef,
    warnings: &mut Vec<String>,
    wanted: impl Fn(&VmConfig) -> Option<Params>,
) -> Result<()> {
    let pve = &context.systems.pve;
    let failed = |e: pve::Error| attempt(node, place).hint(hint(&e)).because(e);
    for tries in 1..=ATTEMPTS {
        let config = owned::read(context, Act::Change, &node.name, place).await?.now;
        let Some(params) = wanted(&config) else { return Ok(()) };
        if pve.vm_status(&place.host, place.vmid).await.map_err(failed)?.power != PowerState::Stopped {
            return Err(Error::new(Kind::Refused, format!("{}, {place}, runs again", node.name)).hint(
                "it was started after it was stopped, and Talosmith did not change it; run the command again",
            ));
        }
        match update::send(pve, place, &params, &config.digest).await {
            Ok(finished) => warnings.extend(finished.warnings),
            Err(error) if tries < ATTEMPTS && update::is_worth_another_round(&error) => {}
            Err(error) => return Err(failed(error)),
        }
        // The next round reads again, and finds nothing more to do if this one took effect.
        context.systems.clock.sleep(Duration::from_millis(500 * u64::from(tries))).await;
    }
    Err(attempt(node, place)
        .coded(NO_EFFECT)
        .hint("Proxmox reported success, but the VM is as it was; look at its task log"))
}

fn attempt(node: &Node, place: &VmRef) -> Error {
    Error::systems(format!("could not replace the system disk of {}, {place}", node.name))
}
