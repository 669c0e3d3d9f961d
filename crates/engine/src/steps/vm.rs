//! VMs: created, grown, started. Each call is followed to the end of its task, and the effect is read back before the step counts
//! as done.

use std::time::Duration;

use model::blueprint::Node;
use model::names::VmRef;
use model::ownership::Act;
use model::vm;
use pve::{Params, PowerState};

use crate::context::{Context, Done};
use crate::emit::Progress;
use crate::error::{Error, Kind, NO_EFFECT, Result, hint};
use crate::owned;
use crate::proof;
use crate::settled::settled;
use crate::steps::{power, update};

/// How often a busy host or storage is asked again. Each time waits longer.
pub(super) const ATTEMPTS: u32 = 6;

/// Creates the VM with its boot disk copied from the image, and grows that disk. The POST reserves the id: when
/// another client was faster, or an answer was lost, the VM that is there is looked at before anything is concluded.
pub(super) async fn create(
    context: &Context,
    node: &Node,
    place: &VmRef,
    image: &str,
    progress: &Progress,
) -> Result<Done> {
    let params = params(context, node, image)?;
    let attempt = format!("could not create {}, {place}", node.name);
    progress.note("creating the VM");
    let datastore = node.disk_datastore.as_deref().unwrap_or_default();
    let warnings = make(context, place, datastore, &attempt, &node.name, progress, || async {
        context.systems.pve.create_vm(&place.host, place.vmid, &params).await
    })
    .await?;
    // Tags, where they had to wait for the pool; and what only the finished VM has, its generation ID.
    update::settle(context, node, place).await?;
    progress.note("growing the disk");
    grow(context, &node.name, place, &vm::boot_key(node), node.disk_gib).await?;
    Ok(Done { warnings })
}

/// Starts a creation in `datastore` and follows it, again while Proxmox is busy. A VM that is there already is as good, if
/// its mark says that it is `whose`.
pub(super) async fn make<F>(
    context: &Context,
    place: &VmRef,
    datastore: &str,
    attempt: &str,
    whose: &str,
    progress: &Progress,
    begin: impl Fn() -> F,
) -> Result<Vec<String>>
where
    F: Future<Output = pve::Result<pve::Upid>>,
{
    let failed = |error: pve::Error| {
        let advice = match error.is_full() {
            true => {
                format!("make room in {datastore} on {}, or name another datastore in the file", &place.host)
            }
            false => hint(&error),
        };
        Error::systems(attempt).hint(advice).because(error)
    };
    let mut tries = 1;
    loop {
        let made = {
            let _turn = turn(context, &place.host, datastore).await;
            match begin().await {
                Ok(upid) => {
                    let mut copied = 0;
                    context.systems.pve.follow(&upid, |line| copying(line, &mut copied, progress)).await
                }
                Err(error) => Err(error),
            }
        };
        match made {
            // What ended with a warning may have ended early.
            Ok(finished) if finished.warnings.is_empty() || is_ours(context, whose, place).await? => {
                return Ok(finished.warnings);
            }
            Ok(_) => {
                return Err(Error::systems(attempt).coded(NO_EFFECT).hint(
                    "Proxmox reported success with a warning, but the VM does not exist; look at its task log",
                ));
            }
            Err(error) if error.is_exists() || error.effect_unknown() => {
                if is_ours(context, whose, place).await? {
                    return Ok(vec![]);
                }
                if error.is_exists() || tries >= ATTEMPTS {
                    return Err(failed(error));
                }
            }
            Err(error) if error.is_transient() && tries < ATTEMPTS => {}
            Err(error) => return Err(failed(error)),
        }
        progress.note("Proxmox is busy; trying again");
        // Those that failed together must not come back together.
        let apart = Duration::from_millis(u64::from(place.vmid) * 137 % 1000);
        context.systems.clock.sleep(Duration::from_secs(2 * u64::from(tries)) + apart).await;
        tries += 1;
    }
}

/// Waits for a turn to make disks in a datastore: it gives out one at a time, and a client that waits for too long fails.
async fn turn(context: &Context, host: &str, datastore: &str) -> pve::Turn {
    let hosts = &context.snapshot.observed.proxmox.inventory.hosts;
    let shared =
        hosts.get(host).and_then(|host| host.datastores.get(datastore)).is_some_and(|store| store.shared);
    context.systems.pve.storage_turn(host, datastore, shared).await
}

/// Shows how far the copy of a disk is. The disks behind the first one are small, and count from 0 again; that is not shown.
fn copying(line: &str, copied: &mut u8, progress: &Progress) {
    if let Some(percent) = further(line, copied) {
        progress.percent("copying the image", percent);
    }
}

/// How far the copy is by this line, if that is further than before.
fn further(line: &str, copied: &mut u8) -> Option<u8> {
    let percent = transferred(line).filter(|percent| percent > copied)?;
    *copied = percent;
    Some(percent)
}

/// The percentage in a line such as `transferred 1.2 GiB of 8.0 GiB (15.00%)`.
fn transferred(line: &str) -> Option<u8> {
    let (_, rest) = line.split_once("transferred")?.1.split_once('(')?;
    rest.split(['.', '%']).next()?.parse().ok()
}

/// Waits for a creation that somebody else may have started, then tells whether the VM carries this name of ours.
async fn is_ours(context: &Context, whose: &str, place: &VmRef) -> Result<bool> {
    let found = settled(&context.systems, &place.host, place.vmid).await?;
    Ok(found.is_some_and(|config| owned::check(context, Act::Change, place.vmid, whose, &config).is_ok()))
}

/// Everything that the file says about the VM; without its tags where it goes into a pool, because Proxmox looks at them before
/// it looks at the pool, which may be all that the token has rights on.
fn params(context: &Context, node: &Node, image: &str) -> Result<Params> {
    let blueprint = &context.snapshot.blueprint;
    let open = || Error::new(Kind::Refused, format!("{} is not fully decided yet", node.name));
    let mark = vm::mark(blueprint, node).filter(|_| node.uuid.is_some()).ok_or_else(open)?;
    let mut params: Params = vm::settings(blueprint, node);
    for drive in vm::drives(node) {
        params.insert(drive.key.clone(), drive.creation(image).ok_or_else(open)?);
    }
    params.insert(
        "description".to_owned(),
        mark.while_creating().describe(node.hardware.description.as_deref()),
    );
    match &blueprint.resource_pool {
        Some(pool) => {
            params.insert("pool".to_owned(), pool.clone());
        }
        None => {
            params.insert("tags".to_owned(), node.hardware.tags.join(";"));
        }
    }
    Ok(params)
}

/// Grows a disk to `gib`. Doing it again does nothing.
pub(super) async fn grow(context: &Context, node: &str, place: &VmRef, disk: &str, gib: u64) -> Result<Done> {
    let attempt = || Error::systems(format!("could not grow {disk} of {place} to {gib} GiB"));
    let pve = &context.systems.pve;
    let has = || async {
        let config = owned::read(context, Act::Change, node, place).await?.now;
        Ok::<_, Error>((config.drive(disk).and_then(|d| d.size).unwrap_or(0), config.digest))
    };
    let wanted = gib << 30;
    let mut tries = 1;
    let finished = loop {
        let (size, digest) = has().await?;
        if size >= wanted {
            return Ok(Done::default());
        }
        let task = async {
            let upid = pve.resize(&place.host, place.vmid, disk, &format!("{gib}G"), Some(&digest)).await?;
            pve.follow(&upid, |_| {}).await
        };
        match task.await {
            Ok(finished) => break finished,
            // The configuration changed since it was read: it is read and checked again.
            Err(error) if tries < ATTEMPTS && matches!(error.meaning(), pve::Kind::DigestMismatch) => {
                tries += 1;
            }
            Err(error) => return Err(attempt().hint(hint(&error)).because(error)),
        }
    };
    if has().await?.0 < wanted {
        return Err(attempt()
            .coded(NO_EFFECT)
            .hint("Proxmox reported success, but the disk is still smaller; look at its storage"));
    }
    Ok(Done { warnings: finished.warnings })
}

/// Starts the VM. One that runs already is as good.
pub(super) async fn start(context: &Context, node: &str, place: &VmRef) -> Result<Done> {
    let pve = &context.systems.pve;
    let attempt = || Error::systems(format!("could not start {place}"));
    let mut tries = 1;
    let mut began = false;
    let mut slot = Box::pin(proof::slot(context, node, &place.host)).await;
    loop {
        let task = async {
            if let Err(why) = owned::try_read(context, Act::Start, node, place).await? {
                return Ok(Err(why));
            }
            if pve.vm_status(&place.host, place.vmid).await?.power == PowerState::Running {
                return Ok(Ok((pve::Finished::default(), true)));
            }
            began = true;
            let task = pve.start(&place.host, place.vmid).await?;
            power::follow(&context.systems, &task, place.vmid, PowerState::Running).await.map(Ok)
        };
        match task.await {
            Ok(Err(why)) => return Err(owned::not_ours(node, place, why)),
            Ok(Ok((finished, runs))) => {
                if runs {
                    Box::pin(proof::watch_start(context, node, place, began, slot.take())).await;
                    return Ok(Done { warnings: finished.warnings });
                }
                if tries >= ATTEMPTS {
                    return Err(attempt().coded(NO_EFFECT).hint(
                        "Proxmox reported success, but the VM is not in that state; look at its task log",
                    ));
                }
            }
            Err(error) if tries < ATTEMPTS && worth_another_look(&error) => {}
            Err(error) => return Err(attempt().hint(hint(&error)).because(error)),
        }
        context.systems.clock.sleep(Duration::from_secs(2 * u64::from(tries))).await;
        tries += 1;
    }
}

/// Besides what passes by itself: a run that died may have asked for the same a moment ago, so that the VM came to run, or
/// ceased to, between our look and our call.
pub(super) fn worth_another_look(error: &pve::Error) -> bool {
    error.is_transient() || error.effect_unknown() || matches!(error.meaning(), pve::Kind::WrongState { .. })
}

#[cfg(test)]
mod tests {
    use super::further;

    /// The task log of a VM with a system disk and EFI variables: the second copy counts from 0 again.
    #[test]
    fn p16_the_progress_of_a_copy_never_goes_back() {
        let log = [
            "transferred 0.0 B of 8.0 GiB (0.00%)",
            "transferred 4.1 GiB of 8.0 GiB (51.20%)",
            "scsi0: successfully created disk",
            "transferred 8.0 GiB of 8.0 GiB (100.00%)",
            "transferred 0.0 B of 528.0 KiB (0.00%)",
            "transferred 264.0 KiB of 528.0 KiB (50.00%)",
            "transferred 528.0 KiB of 528.0 KiB (100.00%)",
        ];
        let mut copied = 0;
        let shown: Vec<u8> = log.iter().filter_map(|line| further(line, &mut copied)).collect();
        assert_eq!(shown, [51, 100]);
    }
}
