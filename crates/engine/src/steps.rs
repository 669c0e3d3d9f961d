//! One file per kind of step. Each does its work, then verifies the effect in the world, and is safe to repeat.

mod bootstrap;
mod configure;
mod credentials;
mod dead;
mod image;
mod join;
mod power;
mod reconfigure;
mod record;
mod remove;
mod signing;
mod template;
mod update;
mod vm;

use model::step::Action;

use crate::context::{Context, Done};
use crate::emit::Progress;
use crate::error::Result;
use crate::health;
use crate::owned::Place;

/// Whether a step mostly waits and may be dropped at any moment without leaving a call half made.
pub(crate) fn only_waits(action: &Action) -> bool {
    matches!(
        action,
        Action::Configure { .. } | Action::Bootstrap { .. } | Action::Join { .. } | Action::CheckHealth
    )
}

/// Carries out one step. Each is on the heap: a step that is many calls deep would not fit on a small stack.
pub(crate) async fn execute(context: &Context, action: &Action, progress: &Progress) -> Result<Done> {
    match action {
        Action::RegisterSchematic { image, schematic } => {
            Box::pin(image::register(context, image, schematic)).await
        }
        Action::DownloadImage { host, datastore, file, url } => {
            Box::pin(image::download(context, host, datastore, file, url, progress)).await
        }
        Action::CreateRecord { host, member, .. } => {
            Box::pin(record::create(context, host, member.as_deref(), progress)).await
        }
        Action::SealRecord { host, vmid, member } => {
            Box::pin(record::seal(context, &Place { host, vmid: *vmid }, member, progress)).await
        }
        Action::UpdateRecord { host, vmid } => {
            Box::pin(record::update(context, &Place { host, vmid: *vmid })).await
        }
        Action::CreateTemplate { name, mark, host, vmid, disk, datastore, image } => {
            let template = template::Template { name, mark, disk, datastore, image };
            Box::pin(template::create(context, &template, &Place { host, vmid: *vmid }, progress)).await
        }
        Action::CreateVm { node, host, vmid, image, .. } => {
            let (node, place) = (context.snapshot.node(node)?, Place { host, vmid: *vmid });
            Box::pin(vm::create(context, node, &place, image, progress)).await
        }
        Action::CloneVm { node, host, vmid, template, datastore } => {
            let (node, place) = (context.snapshot.node(node)?, Place { host, vmid: *vmid });
            Box::pin(template::copy(context, node, &place, *template, datastore, progress)).await
        }
        Action::UpdateVm { node, host, vmid, set, pool, .. } => {
            let (node, place) = (context.snapshot.node(node)?, Place { host, vmid: *vmid });
            Box::pin(update::run(context, node, &place, set, pool.as_deref())).await
        }
        Action::GrowDisk { node, host, vmid, disk, gib } => {
            Box::pin(vm::grow(context, node, &Place { host, vmid: *vmid }, disk, *gib)).await
        }
        Action::StartVm { node, host, vmid } => {
            Box::pin(vm::start(context, node, &Place { host, vmid: *vmid })).await
        }
        Action::Configure { node, .. } => {
            Box::pin(configure::run(context, context.snapshot.node(node)?, progress)).await
        }
        Action::Reconfigure { node } => {
            Box::pin(reconfigure::run(context, context.snapshot.node(node)?, progress)).await
        }
        Action::Bootstrap { node } => {
            Box::pin(bootstrap::run(context, context.snapshot.node(node)?, progress)).await
        }
        Action::Join { node } => Box::pin(join::run(context, context.snapshot.node(node)?, progress)).await,
        Action::CreateCredentials { to, .. } => Box::pin(credentials::run(context, *to)).await,
        Action::CheckHealth => Box::pin(health::run(context, progress)).await,
        Action::StopVm { node, host, vmid, if_unresponsive } => {
            if *if_unresponsive {
                Box::pin(dead::still_dead(context, context.snapshot.node(node)?, progress)).await?;
            }
            Box::pin(remove::stop(context, node, &Place { host, vmid: *vmid })).await
        }
        Action::DeleteVm { node, host, vmid, keeps_quorum } => {
            if *keeps_quorum {
                Box::pin(dead::keeps_quorum(context, context.snapshot.node(node)?)).await?;
            }
            Box::pin(remove::delete(context, node, &Place { host, vmid: *vmid })).await
        }
        Action::RemoveAccount { of, user, role } => {
            Box::pin(credentials::remove_account(context, *of, user, role.as_deref())).await
        }
        Action::DeleteRecord { host, vmid } => {
            context.deletes_record.store(true, std::sync::atomic::Ordering::Relaxed);
            Box::pin(remove::delete_record(context, &Place { host, vmid: *vmid })).await?;
            context.record.send_replace(None);
            Ok(Done::default())
        }
    }
}
