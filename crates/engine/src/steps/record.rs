//! The cluster record VM: created, sealed once etcd is bootstrapped, and given its name and tags back.

use std::collections::BTreeSet;

use model::mark::RECORD_NODE;
use model::names::{NodeName, VmRef};
use model::ownership;

use crate::context::{Context, Done};
use crate::emit::Progress;
use crate::error::Result;
use crate::record::Record;
use crate::tags;

/// Creates the record and takes the lease in it.
pub(super) async fn create(
    context: &Context,
    host: &str,
    member: Option<&str>,
    progress: &Progress,
) -> Result<Done> {
    let (blueprint, id) = (&context.snapshot.blueprint, context.snapshot.cluster_id()?);
    let made =
        Record::create(&context.systems, blueprint, id, host, member, &context.holder, progress).await?;
    if let Some(member) = member {
        // It may have been there already, made by another run.
        made.seal_bootstrap(member).await?;
    }
    context.record.send_replace(Some(made));
    if member.is_some() {
        outwait_lost_lease(context, progress).await?;
    }
    Ok(Done::default())
}

/// Writes into the record that etcd is bootstrapped. One whose line was lost is written again.
pub(super) async fn seal(
    context: &Context,
    place: &VmRef,
    member: &str,
    progress: &Progress,
) -> Result<Done> {
    if let Ok(record) = context.record() {
        record.seal_bootstrap(member).await?;
        return Ok(Done::default());
    }
    let (blueprint, id) = (&context.snapshot.blueprint, context.snapshot.cluster_id()?);
    let record = Record::existing(&context.systems, blueprint, id, &place.host, place.vmid, &context.holder);
    let generations = ownership::generations(blueprint, &context.snapshot.observed);
    let record = record.with_generations(generations);
    record.restore(member, progress).await?;
    context.record.send_replace(Some(record));
    outwait_lost_lease(context, progress).await?;
    Ok(Done::default())
}

/// Gives the record its name and its tags back.
pub(super) async fn update(context: &Context, place: &VmRef) -> Result<Done> {
    let blueprint = &context.snapshot.blueprint;
    tags::set(&context.systems, &place.host, place.vmid, blueprint, RECORD_NODE).await?;
    Ok(Done::default())
}

/// Writes down that a Proxmox host is drained, and which nodes leave it.
pub(super) async fn drain(context: &Context, host: &str, nodes: &BTreeSet<NodeName>) -> Result<Done> {
    context.record()?.note_drain(host, Some(nodes)).await?;
    Ok(Done::default())
}

/// Writes down that a Proxmox host is not drained any more.
pub(super) async fn undrain(context: &Context, host: &str) -> Result<Done> {
    context.record()?.note_drain(host, None).await?;
    Ok(Done::default())
}

/// The record of a cluster that lives was lost, and with it who held the lease. That run cannot renew any more: it has stopped when this
/// wait is over, during which our own lease is renewed. The record says that the wait is not over: a run that is stopped during it, and
/// every later one, waits again.
async fn outwait_lost_lease(context: &Context, progress: &Progress) -> Result<()> {
    let wait = model::lease::SUCCESSOR_WAITS;
    progress.note(format!(
        "another run may hold the lease of the lost record VM: waiting {} s, by when that run has stopped",
        wait.as_secs()
    ));
    progress.only_waiting(context.systems.clock.sleep(wait)).await;
    context.record()?.settle().await
}
