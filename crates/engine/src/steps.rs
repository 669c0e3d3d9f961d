//! One file per kind of step. Each does its work, then verifies the effect in the observed state, and is safe to repeat.

mod boot;
mod bootstrap;
mod component;
mod configure;
mod credentials;
mod dead;
mod disk;
mod drain;
mod forget;
mod image;
mod install;
mod join;
mod leadership;
mod leave;
mod migrate;
mod off;
mod permit;
mod power;
mod power_cycle;
mod proxy;
mod reboot;
mod reconfigure;
mod record;
mod remove;
mod renew;
mod shutdown;
mod signing;
mod silence;
mod snapshot;
mod template;
mod update;
mod verify;
mod vm;

use std::sync::Arc;

use model::gate::Permit;
use model::step::{Action, ConfigMode};
use model::upgrade::Component;

use crate::context::{Context, Done};
use crate::emit::Progress;
use crate::error::{Kind, Result};
use crate::gate;
use crate::health;
use crate::offline;
use permit::Authority;

/// Whether a step mostly waits and may be dropped at any moment without leaving a call half made.
fn only_waits(action: &Action) -> bool {
    matches!(
        action,
        Action::Configure { .. }
            | Action::Bootstrap { .. }
            | Action::Join { .. }
            | Action::VerifyNode { .. }
            | Action::CheckHealth
    )
}

/// Carries out one step. A failure on a Proxmox host that is offline names that host as its cause.
pub(crate) async fn execute(
    context: &Context,
    action: &Action,
    permit: Option<&Permit>,
    progress: &Progress,
) -> Result<Done> {
    let done = match only_waits(action) {
        true => progress.only_waiting(carry_out(context, action, permit, progress)).await,
        false => match Box::pin(confirmed(context, action, permit, progress)).await {
            Ok(fresh) => carry_out(context, action, fresh.as_deref().or(permit), progress).await,
            Err(error) => Err(error),
        },
    };
    if let (Err(_), Some(permit)) = (&done, permit) {
        Box::pin(drain::after_failure(context, permit, action)).await;
    }
    match done {
        Err(error) if error.kind() == Kind::Systems => Err(match host(context, action) {
            Some(host) => offline::explain(&context.systems, &host, error).await,
            None => error,
        }),
        done => done,
    }
}

/// Whether a step takes its node down, or out of etcd, after other steps of its unit that may have taken minutes.
fn takes_down(action: &Action) -> bool {
    matches!(
        action,
        Action::RebootNode { .. }
            | Action::PowerCycleVm { .. }
            | Action::MigrateVm { .. }
            | Action::ShutdownNode { .. }
            | Action::InstallTalos { .. }
            | Action::UpgradeComponent { component: Component::Kubelet, .. }
            | Action::Reconfigure { mode: ConfigMode::Reboot, .. }
            | Action::LeaveEtcd { .. }
            // One of a dead node has a watch of its own.
            | Action::StopVm { if_unresponsive: false, .. }
    )
}

/// A new permit for a step that takes its node down: the one of its unit is as old as the drain. A node that this unit took down already
/// is brought to the end, because one that left etcd would join again, and one that is off is missed.
async fn confirmed(
    context: &Context,
    action: &Action,
    permit: Option<&Permit>,
    progress: &Progress,
) -> Result<Option<Arc<Permit>>> {
    let (Some(permit), Some(node)) = (permit.filter(|_| takes_down(action)), action.node()) else {
        return Ok(None);
    };
    if context.restarted().contains(node) {
        return Ok(None);
    }
    let asked = Box::pin(gate::confirm(context, permit.request(), progress));
    progress
        .only_waiting(asked)
        .await
        .map(Some)
        .map_err(|blockers| gate::refused(&action.describe(), &blockers))
}

/// The Proxmox host that a step works on, or that has the VM of its node.
fn host(context: &Context, action: &Action) -> Option<String> {
    if let Some(host) = action.host() {
        return Some(host.to_owned());
    }
    let node = context.snapshot.node(action.node()?).ok().filter(|node| !node.external)?;
    Some(context.place_of(node).host)
}

/// Each step is on the heap: one that is many calls deep would not fit on a small stack.
async fn carry_out(
    context: &Context,
    action: &Action,
    permit: Option<&Permit>,
    progress: &Progress,
) -> Result<Done> {
    match action {
        Action::RegisterSchematic { image, schematic } => {
            Box::pin(image::register(context, image, schematic)).await
        }
        Action::DownloadImage { host, datastore, file, url } => {
            Box::pin(image::download(context, host, datastore, file, url, progress)).await
        }
        Action::CreateRecord { vm, member } => {
            Box::pin(record::create(context, &vm.host, member.as_deref(), progress)).await
        }
        Action::SealRecord { vm, member } => Box::pin(record::seal(context, vm, member, progress)).await,
        Action::UpdateRecord { vm } => Box::pin(record::update(context, vm)).await,
        Action::CreateTemplate { name, mark, vm, disk, datastore, image } => {
            let template = template::Template { name, mark, disk, datastore, image };
            Box::pin(template::create(context, &template, vm, progress)).await
        }
        Action::CreateVm { node, vm, image, .. } => {
            let node = context.snapshot.node(node)?;
            Box::pin(vm::create(context, node, vm, image, progress)).await
        }
        Action::CloneVm { node, vm, template, datastore } => {
            let node = context.snapshot.node(node)?;
            Box::pin(template::copy(context, node, vm, *template, datastore, progress)).await
        }
        Action::UpdateVm { node, vm, set, pool, .. } => {
            let node = context.snapshot.node(node)?;
            Box::pin(update::run(context, permit, node, vm, set, pool.as_deref())).await
        }
        Action::DeleteDisk { node, vm, disk, volume, .. } => {
            let permit = permit::of(permit, action)?;
            Box::pin(disk::delete(context, permit, node, vm, disk, volume)).await
        }
        Action::GrowDisk { node, vm, disk, gib } => Box::pin(vm::grow(context, node, vm, disk, *gib)).await,
        Action::StartVm { node, vm } => Box::pin(vm::start(context, node, vm)).await,
        Action::Configure { node, .. } => {
            Box::pin(configure::run(context, context.snapshot.node(node)?, progress)).await
        }
        Action::Reconfigure { node, mode: ConfigMode::NoReboot } => {
            Box::pin(reconfigure::run(context, context.snapshot.node(node)?, progress)).await
        }
        Action::Reconfigure { node, mode: ConfigMode::Reboot } => {
            let (permit, node) = (permit::of(permit, action)?, context.snapshot.node(node)?);
            Box::pin(reconfigure::reboot(context, permit, node, progress)).await
        }
        Action::Reconfigure { node, mode: ConfigMode::Staged } => {
            let (permit, node) = (permit::of(permit, action)?, context.snapshot.node(node)?);
            Box::pin(reconfigure::stage(context, permit, node, progress)).await
        }
        Action::DrainNode { node } => {
            Box::pin(drain::run(context, permit::of(permit, action)?, node, progress)).await
        }
        Action::RebootNode { node, mode } => {
            let (permit, node) = (permit::of(permit, action)?, context.snapshot.node(node)?);
            Box::pin(reboot::run(context, permit, node, *mode, progress)).await
        }
        Action::PowerCycleVm { node, vm, set, .. } => {
            let (permit, node) = (permit::of(permit, action)?, context.snapshot.node(node)?);
            Box::pin(power_cycle::run(context, permit, node, vm, set, progress)).await
        }
        Action::MigrateVm { node, vm, to, online, local_disks } => {
            let (permit, node) = (permit::of(permit, action)?, context.snapshot.node(node)?);
            let course = migrate::Course { from: vm, to, online: *online, local_disks: *local_disks };
            Box::pin(migrate::run(context, permit, node, &course, progress)).await
        }
        Action::MigrateRecord { vm, to } => Box::pin(migrate::record(context, vm, to, progress)).await,
        Action::DrainHost { host, nodes } => Box::pin(record::drain(context, host, nodes)).await,
        Action::UndrainHost { host } => Box::pin(record::undrain(context, host)).await,
        Action::RenewDisk { node, vm, disk, volume, image } => {
            let (permit, node) = (permit::of(permit, action)?, context.snapshot.node(node)?);
            let renewal = renew::Renewal { disk, volume: volume.as_deref(), image };
            Box::pin(renew::run(context, permit, node, vm, &renewal, progress)).await
        }
        Action::VerifyNode { node } => {
            Box::pin(verify::run(context, context.snapshot.node(node)?, progress)).await
        }
        Action::UncordonNode { node } => Box::pin(drain::uncordon(context, node, progress)).await,
        Action::CordonNode { node } => Box::pin(drain::cordon(context, permit, node, progress)).await,
        Action::ReleaseNode { node } => Box::pin(drain::release(context, node, progress)).await,
        Action::ShutdownNode { node } => {
            let (permit, node) = (permit::of(permit, action)?, context.snapshot.node(node)?);
            Box::pin(shutdown::run(context, permit, node, progress)).await
        }
        Action::SnapshotEtcd => Box::pin(snapshot::run(context, progress)).await,
        Action::MoveLeadership { node } => {
            let (permit, node) = (permit::of(permit, action)?, context.snapshot.node(node)?);
            Box::pin(leadership::run(context, permit, node, progress)).await
        }
        Action::PullImage { node, image } => {
            Box::pin(install::pull(context, context.snapshot.node(node)?, image, progress)).await
        }
        Action::PullImages { node, images } => {
            Box::pin(component::pull(context, context.snapshot.node(node)?, images, progress)).await
        }
        Action::UpgradeComponent { node, component, version } => {
            let node = context.snapshot.node(node)?;
            // What only the machine config says disrupts nothing.
            let permit = match component.is_static_pod() || *component == Component::Kubelet {
                true => Some(permit::of(permit, action)?),
                false => None,
            };
            Box::pin(component::run(context, permit, node, *component, version, progress)).await
        }
        Action::UpgradeProxy { version } => Box::pin(proxy::run(context, version, progress)).await,
        Action::InstallTalos { node, image, talos, mode } => {
            let (permit, node) = (permit::of(permit, action)?, context.snapshot.node(node)?);
            let what = install::Install { image, talos, mode: *mode };
            Box::pin(install::run(context, permit, node, &what, progress)).await
        }
        Action::LeaveEtcd { node } => {
            Box::pin(leave::run(context, permit::of(permit, action)?, node, progress)).await
        }
        Action::DeleteNode { node } => {
            Box::pin(forget::run(context, permit::of(permit, action)?, node, progress)).await
        }
        Action::Bootstrap { node } => {
            Box::pin(bootstrap::run(context, context.snapshot.node(node)?, progress)).await
        }
        Action::Join { node } => Box::pin(join::run(context, context.snapshot.node(node)?, progress)).await,
        Action::CreateCredentials { to, .. } => Box::pin(credentials::run(context, *to)).await,
        Action::CheckHealth => Box::pin(health::run(context, progress)).await,
        Action::StopVm { node, vm, if_unresponsive } => {
            if *if_unresponsive {
                let node = context.snapshot.node(node)?;
                let permit = Box::pin(dead::watch(context, node, "replaced", progress)).await?;
                Box::pin(drain::mark(context, &permit, &node.name, progress)).await?;
                return Box::pin(remove::stop(context, Authority::Permit(&permit), &node.name, vm)).await;
            }
            let authority = Authority::of(context, permit, action)?;
            Box::pin(remove::stop(context, authority, node, vm)).await
        }
        Action::DeleteVm { node, vm, keeps_quorum } => {
            if *keeps_quorum || (permit.is_none() && context.destruction().is_none()) {
                let node = context.snapshot.node(node)?;
                let permit = Box::pin(dead::may_go(context, node, progress)).await?;
                return Box::pin(remove::delete(context, Authority::Permit(&permit), &node.name, vm)).await;
            }
            let authority = Authority::of(context, permit, action)?;
            Box::pin(remove::delete(context, authority, node, vm)).await
        }
        Action::RemoveAccount { of, user, role } => {
            Box::pin(credentials::remove_account(context, *of, user, role.as_deref())).await
        }
        Action::DeleteRecord { vm } => {
            let authority = permit::destruction(context, action)?;
            context.deletes_record.store(true, std::sync::atomic::Ordering::Relaxed);
            Box::pin(remove::delete_record(context, authority, vm)).await?;
            context.record.send_replace(None);
            Ok(Done::default())
        }
    }
}
