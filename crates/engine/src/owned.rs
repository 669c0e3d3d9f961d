//! The ownership check that stands directly before every call that changes a VM.
//!
//! Between a plan and its steps lie minutes in which a VM may be deleted and its ID given to another one, cloned, restored or
//! rolled back. So each step reads the VM again and goes on only if it is still the one that Talosmith made. Where Proxmox takes
//! the digest of what was read, it is sent along; for the other calls (start, stop, delete, pool) a moment remains that
//! Proxmox offers no means to close.

use model::mark::Mark;
use model::names::VmRef;
use model::ownership::{self, Act, Evidence, Foreign};
use pve::{BothConfigs, VmConfig};
use uuid::Uuid;

use crate::context::Context;
use crate::error::{Error, Kind, Result, hint};
use crate::evidence::evidence;

/// Whether a VM with this configuration is `node` and may be acted on.
pub(crate) fn check(
    context: &Context,
    act: Act,
    vmid: u32,
    node: &str,
    config: &VmConfig,
) -> std::result::Result<(), Foreign> {
    let mark = Mark::find(config.description()).ok_or(Foreign::Another)?;
    let evidence = Evidence { recorded: recorded(context, node), ..evidence(vmid, &mark, config) };
    ownership::may(act, &context.snapshot.blueprint, &evidence, node).map(drop)
}

/// The generation ID that a node's VM had when it was observed, or when the cluster record VM was last written.
pub(crate) fn recorded(context: &Context, node: &str) -> Option<Uuid> {
    ownership::generations(&context.snapshot.blueprint, &context.snapshot.observed).get(node).copied()
}

/// Reads the VM, and refuses unless it is `node` and may be acted on.
pub(crate) async fn read(context: &Context, act: Act, node: &str, place: &VmRef) -> Result<BothConfigs> {
    let read = try_read(context, act, node, place)
        .await
        .map_err(|e| Error::systems(format!("could not read {node}, {place}")).hint(hint(&e)).because(e))?;
    read.map_err(|why| not_ours(node, place, why))
}

/// The same, for those who try again when Proxmox does not answer.
pub(crate) async fn try_read(
    context: &Context,
    act: Act,
    node: &str,
    place: &VmRef,
) -> pve::Result<std::result::Result<BothConfigs, Foreign>> {
    let configs = context.systems.pve.vm_configs(&place.host, place.vmid).await?;
    Ok(check(context, act, place.vmid, node, &configs.now).map(|()| configs))
}

/// The VM is not the one that was meant, and is left alone.
pub(crate) fn not_ours(what: &str, place: &VmRef, why: Foreign) -> Error {
    Error::new(Kind::Refused, format!("{place} is not {what} any more"))
        .hint("it changed after it was observed, and Talosmith did not change it; run the command again to see its state now")
        .because(why)
}
