//! Brings a VM's configuration to what the file says.
//!
//! The VM is read again first: of what the plan wants to set, only what still differs is sent, with the digest of what was
//! read, so that nobody's change in between is overwritten and a disk that was made already is not made twice.

use std::time::Duration;

use model::blueprint::{Node, Role};
use model::observed::Vm;
use model::ownership::{Act, Foreign};
use model::plan::drift::{self, Drift};
use pve::Params;

use crate::context::{Context, Done};
use crate::error::{Error, Result, hint};
use crate::observe::proxmox;
use crate::owned::{self, Place};
use crate::steps::vm::ATTEMPTS;

/// Sets the keys named in the plan.
pub(super) async fn run(
    context: &Context,
    node: &Node,
    place: &Place<'_>,
    keys: &Params,
    pool: Option<&str>,
) -> Result<Done> {
    if let Some(pool) = pool {
        owned::read(context, Act::Change, &node.name, place).await?;
        let put = context.systems.pve.put_into_pool(pool, place.vmid).await;
        put.map_err(|e| attempt(node, place).hint(hint(&e)).because(e))?;
    }
    change(context, node, place, |key| keys.contains_key(key)).await
}

/// Gives a VM that does not run yet all that the file says.
pub(super) async fn settle(context: &Context, node: &Node, place: &Place<'_>) -> Result<Done> {
    change(context, node, place, |_| true).await
}

async fn change(
    context: &Context,
    node: &Node,
    place: &Place<'_>,
    planned: impl Fn(&str) -> bool,
) -> Result<Done> {
    let pve = &context.systems.pve;
    let failed = |e: pve::Error| attempt(node, place).hint(hint(&e)).because(e);
    let mut warnings = vec![];
    for tries in 1..=ATTEMPTS {
        let (vm, digest) = read(context, node, place).await?;
        let differs = differs(context, node, &vm);
        let params: Params = differs.set.into_iter().filter(|(key, _)| planned(key)).collect();
        if params.is_empty() {
            note_generation(context, node, &vm);
            return Ok(Done { warnings });
        }
        let task = async {
            match pve.change_config(place.host, place.vmid, &params, &digest).await? {
                Some(upid) => pve.follow(&upid, |_| {}).await,
                None => Ok(pve::Finished::default()),
            }
        };
        match task.await {
            Ok(finished) => warnings.extend(finished.warnings),
            Err(error) if tries == ATTEMPTS => return Err(failed(error)),
            Err(error) if matches!(error.meaning(), pve::Kind::DigestMismatch) => {}
            Err(error) if error.is_transient() || error.effect_unknown() => {}
            Err(error) => return Err(failed(error)),
        }
        // The next round reads again, and finds nothing more to do if this one took effect.
        context.systems.clock.sleep(Duration::from_millis(500 * u64::from(tries))).await;
    }
    Err(attempt(node, place)
        .hint("Proxmox took the change, but the VM still differs; `talosmith plan` shows in what"))
}

/// The record knows the VM of a control plane node by its generation from now on, also where it replaced another one.
fn note_generation(context: &Context, node: &Node, vm: &Vm) {
    let generation = vm.vmgenid.filter(|_| vm.mark.vmgenid == vm.vmgenid && node.role == Role::ControlPlane);
    if let (Some(generation), Ok(record)) = (generation, context.record()) {
        record.has_generation(&node.name, generation);
    }
}

/// What differs, as the plan would see it. What a machine says of itself was weighed when the plan was made.
fn differs(context: &Context, node: &Node, vm: &Vm) -> Drift {
    let machine = context.snapshot.observed.machines.get(&node.name);
    drift::examine(&context.snapshot.blueprint, node, vm, machine)
}

/// The VM as it is now, if it is the node's.
async fn read(context: &Context, node: &Node, place: &Place<'_>) -> Result<(Vm, String)> {
    let failed = |e: pve::Error| attempt(node, place).hint(hint(&e)).because(e);
    let configs = owned::read(context, Act::Change, &node.name, place).await?;
    let Some((mut vm, _)) = proxmox::read(place.vmid, place.host, None, &configs) else {
        return Err(owned::not_ours(&node.name, place, Foreign::Another));
    };
    vm.recorded = owned::recorded(context, &node.name);
    vm.running = proxmox::is_running(&context.systems, place.host, place.vmid).await.map_err(failed)?;
    Ok((vm, configs.now.digest))
}

fn attempt(node: &Node, place: &Place<'_>) -> Error {
    Error::systems(format!("could not change {}, {place}", node.name))
}
