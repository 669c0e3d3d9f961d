//! Moves a VM to another Proxmox host.
//!
//! Proxmox is asked directly before whether it can move, and once. Its task ends early where high availability manages the VM, and an
//! answer may be lost, so what counts is where the VM is: on the new host, with the same mark, UUID and generation, and nowhere else. A VM
//! that cannot move while it runs is shut down before and started afterwards, wherever it is by then.

use std::sync::atomic::Ordering;
use std::time::Duration;

use jiff::SignedDuration;
use model::blueprint::Node;
use model::gate::{Effect, Permit};
use model::mark::RECORD_NODE;
use model::names::VmRef;
use model::ownership::Act;
use pve::{Migrate, PowerState};

use crate::context::{Context, Done};
use crate::emit::Progress;
use crate::error::{Error, Kind, NO_EFFECT, Result, hint};
use crate::identify::{Identified, identify};
use crate::missing;
use crate::owned;
use crate::steps::vm::{self, ATTEMPTS};
use crate::steps::{boot, permit, power_cycle};

/// How long the manager of high availability may take to move a VM after it was told to.
const MANAGER: SignedDuration = SignedDuration::from_mins(10);
/// Between two looks.
const INTERVAL: Duration = Duration::from_secs(2);
/// The host cleans up after a VM that was stopped.
const CLEAN_UP: Duration = Duration::from_secs(3);

/// Where a VM goes, and how.
pub(super) struct Course<'a> {
    /// Where it is.
    pub(super) from: &'a VmRef,
    /// The host that it moves to.
    pub(super) to: &'a str,
    /// Whether it runs meanwhile.
    pub(super) online: bool,
    /// Whether disks move with it.
    pub(super) local_disks: bool,
}

/// Moves the VM of a node.
pub(super) async fn run(
    context: &Context,
    permit: &Permit,
    node: &Node,
    course: &Course<'_>,
    progress: &Progress,
) -> Result<Done> {
    permit::check(permit, &node.name, Effect::Absence)?;
    let attempt = || attempt(&node.name, course);
    let mut warnings = vec![];
    let machine = match Box::pin(identify(&context.systems, node, context.snapshot.access()?)).await {
        Identified::Configured(machine) => Some(machine),
        _ => None,
    };
    let before = match &machine {
        Some(machine) => boot::id(context, machine, attempt).await?,
        None => String::new(),
    };
    if place(context, &node.name, course).await?.host == course.to {
        context.moved(&node.name, course.to);
        return Ok(Done::default());
    }
    can_move(context, &node.name, course).await?;
    if !course.online {
        progress.note("shutting down");
        context.restarted().insert(node.name.clone());
        warnings.extend(
            power_cycle::shut_down(context, permit, node, course.from, machine.as_ref(), &attempt, progress)
                .await?,
        );
        context.systems.clock.sleep(CLEAN_UP).await;
    }
    progress.note(format!("moving to {}", course.to));
    let moved = go(context, &node.name, course, progress).await;
    let now = place(context, &node.name, course).await;
    if let Ok(now) = &now {
        context.moved(&node.name, &now.host);
    }
    if !course.online {
        // A node that did not move is not left off.
        let now = now.as_ref().map_or(course.from, |now| now);
        progress.note("starting");
        let started = vm::start(context, &node.name, now).await;
        warnings.extend(moved?);
        warnings.extend(started?.warnings);
        boot::wait(context, node, &before, progress).await?;
    } else {
        warnings.extend(moved?);
    }
    let now = now?;
    let status = context.systems.pve.vm_status(&now.host, now.vmid).await;
    match status.map_err(|e| attempt().hint(hint(&e)).because(e))?.power {
        PowerState::Running => Ok(Done { warnings }),
        _ => Err(attempt()
            .coded(NO_EFFECT)
            .hint(format!("it is on {} now and does not run; `talosmith apply` starts it", now.host))),
    }
}

/// Moves the cluster record VM, which never runs.
pub(super) async fn record(context: &Context, from: &VmRef, to: &str, progress: &Progress) -> Result<Done> {
    let course = Course { from, to, online: false, local_disks: false };
    if place(context, RECORD_NODE, &course).await?.host == to {
        return Ok(Done::default());
    }
    // A renewal that meets the migration must not blame it on others. It stays so: an older handle may still ask.
    context.moves_record.store(true, Ordering::Relaxed);
    let warnings = go(context, RECORD_NODE, &course, progress).await?;
    // The lease is renewed, and in the end released, where it is now.
    let record = context.record()?.moved_to(to);
    context.record.send_replace(Some(record));
    Ok(Done { warnings })
}

/// Where the VM is now, and that it is the one that was meant.
async fn place(context: &Context, node: &str, course: &Course<'_>) -> Result<VmRef> {
    let vmid = course.from.vmid;
    let attempt = || attempt(node, course);
    let mut found = None;
    for host in [course.to, course.from.host.as_str()] {
        match context.systems.pve.vm_config(host, vmid).await {
            Ok(config) => {
                found = Some((host.to_owned(), config));
                break;
            }
            Err(error) if error.is_missing() => {}
            Err(error) => return Err(attempt().hint(hint(&error)).because(error)),
        }
    }
    if found.is_none() {
        found = missing::seek(&context.systems, vmid).await.map_err(|unclear| {
            attempt().hint("run the command again when every Proxmox host answers").because(unclear)
        })?;
    }
    let Some((host, config)) = found else {
        return Err(attempt().coded(NO_EFFECT).hint("no Proxmox host has the VM; look at its task log"));
    };
    let place = VmRef::new(host, vmid);
    owned::check(context, Act::Change, vmid, node, &config)
        .map_err(|why| owned::not_ours(node, &place, why))?;
    Ok(place)
}

/// Refuses where Proxmox does not let the VM move any more.
async fn can_move(context: &Context, node: &str, course: &Course<'_>) -> Result<()> {
    let asked = context.systems.pve.migration(&course.from.host, course.from.vmid, course.to).await;
    let seen = asked.map_err(|e| attempt(node, course).hint(hint(&e)).because(e))?;
    let tied = [&seen.local_resources, &seen.mapped_resources];
    let tied: Vec<&str> = match course.online {
        true => tied.into_iter().flatten().map(String::as_str).collect(),
        false => seen.local_resources.iter().map(String::as_str).collect(),
    };
    let why = match (tied.is_empty(), seen.not_allowed.get(course.to)) {
        (true, None) => return Ok(()),
        (false, _) => format!("{} ties it to {}", tied.join(", "), course.from.host),
        (true, Some(lacks)) => format!("{} lacks {}", course.to, lacks.join(", ")),
    };
    Err(Error::new(Kind::Refused, format!("could not move {node} to {}: {why}", course.to))
        .hint("it changed after it was observed; run the command again, and the plan says what can be done"))
}

/// Has Proxmox move the VM, and waits until it is there.
async fn go(context: &Context, node: &str, course: &Course<'_>, progress: &Progress) -> Result<Vec<String>> {
    let (pve, clock) = (&context.systems.pve, &context.systems.clock);
    let attempt = || attempt(node, course);
    let request =
        Migrate { target: course.to.to_owned(), online: course.online, with_local_disks: course.local_disks };
    let mut tries = 1;
    let finished = loop {
        owned::read(context, Act::Change, node, course.from).await?;
        let task = async {
            let upid = pve.migrate(&course.from.host, course.from.vmid, &request).await?;
            pve.follow(&upid, |line| {
                if let Some(percent) = percent(line) {
                    progress.percent("moving disks", percent);
                }
            })
            .await
        };
        match task.await {
            Ok(finished) => break finished,
            // It may have moved: that is looked at, and it is never moved twice.
            Err(error) if error.effect_unknown() || error.is_missing() => {
                match place(context, node, course).await {
                    Ok(now) if now.host == course.to => break pve::Finished::default(),
                    Ok(_) if tries < ATTEMPTS => {}
                    _ => return Err(attempt().hint(hint(&error)).because(error)),
                }
            }
            Err(error) if tries < ATTEMPTS && error.is_transient() => {}
            Err(error) => return Err(attempt().hint(hint(&error)).because(error)),
        }
        clock.sleep(Duration::from_secs(2 * u64::from(tries))).await;
        tries += 1;
    };
    let began = clock.now();
    loop {
        if place(context, node, course).await.is_ok_and(|now| now.host == course.to) {
            return Ok(finished.warnings);
        }
        let status = pve.vm_status(&course.from.host, course.from.vmid).await;
        let managed = status.as_ref().is_ok_and(|status| status.ha_managed || status.lock.is_some());
        let waited = clock.now().duration_since(began);
        if waited >= MANAGER || (!managed && status.is_ok()) {
            return Err(attempt()
                .coded(NO_EFFECT)
                .hint("Proxmox reported success, but the VM is where it was; look at its task log"));
        }
        progress.note("waiting for high availability to move it");
        clock.sleep(INTERVAL).await;
    }
}

/// The percentage in a line such as `drive-scsi0: transferred 1.2 GiB of 8.0 GiB (15.00%) in 5s`.
fn percent(line: &str) -> Option<u8> {
    let (_, rest) = line.split_once("transferred")?.1.split_once('(')?;
    rest.split(['.', '%']).next()?.parse().ok()
}

fn attempt(node: &str, course: &Course<'_>) -> Error {
    let what = if node == RECORD_NODE { "the cluster record VM" } else { node };
    Error::systems(format!("could not move {what}, {}, to {}", course.from, course.to))
}
