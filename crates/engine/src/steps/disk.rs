//! Deletes a data disk that the file does not have any more.
//!
//! Nothing brings it back, so the VM is read directly before: it must be ours, and the volume at the key must be the one that the plan
//! named. Proxmox detaches and deletes it in one call, with the digest of what was read.

use std::time::Duration;

use model::gate::{Effect, Permit};
use model::names::VmRef;
use model::ownership::Act;
use pve::Params;

use crate::context::{Context, Done};
use crate::error::{Error, Kind, NO_EFFECT, Result, hint};
use crate::owned;
use crate::steps::vm::ATTEMPTS;
use crate::steps::{permit, update};

pub(super) async fn delete(
    context: &Context,
    permit: &Permit,
    node: &str,
    place: &VmRef,
    disk: &str,
    volume: &str,
) -> Result<Done> {
    let attempt = || Error::systems(format!("could not delete the disk {disk} of {node}, {place}"));
    permit::check(permit, node, Effect::Absence)?;
    let pve = &context.systems.pve;
    let mut warnings = vec![];
    for tries in 1..=ATTEMPTS {
        let config = owned::read(context, Act::Change, node, place).await?.now;
        match config.drive(disk).map(|drive| drive.volume) {
            None => return Ok(Done { warnings }),
            Some(seen) if seen != volume => {
                return Err(Error::new(Kind::Refused, format!("{disk} of {node} is not {volume} any more"))
                    .hint("it changed after it was observed, and Talosmith did not change it; run the command again"));
            }
            Some(_) => {}
        }
        let params = Params::from([
            ("delete".to_owned(), disk.to_owned()),
            // Without it the volume stays, as unused.
            ("force".to_owned(), "1".to_owned()),
        ]);
        match update::send(pve, place, &params, &config.digest).await {
            Ok(finished) => warnings.extend(finished.warnings),
            Err(error) if tries < ATTEMPTS && update::is_worth_another_round(&error) => {}
            Err(error) => return Err(attempt().hint(hint(&error)).because(error)),
        }
        // The next round reads again, and finds nothing more to do if this one took effect.
        context.systems.clock.sleep(Duration::from_millis(500 * u64::from(tries))).await;
    }
    Err(attempt()
        .coded(NO_EFFECT)
        .hint("Proxmox reported success, but the VM still has it; look at its task log"))
}
