//! Brings a VM's configuration to what the file says.
//!
//! The VM is read again first: of what the plan wants to set, only what still differs is sent, with the digest of what was
//! read, so that no change in between is overwritten and an existing disk is not created twice.

use std::time::Duration;

use model::blueprint::{Node, Role};
use model::gate::{Effect, Permit};
use model::names::VmRef;
use model::observed::Vm;
use model::ownership::{Act, Foreign};
use model::plan::drift::{self, Drift};
use pve::Params;

use crate::context::{Context, Done};
use crate::error::{Error, Result, hint};
use crate::observe::proxmox;
use crate::owned;
use crate::steps::vm::ATTEMPTS;

/// Sets the keys named in the plan. Those that cut the network of a running machine need a permit.
pub(super) async fn run(
    context: &Context,
    permit: Option<&Permit>,
    node: &Node,
    place: &VmRef,
    keys: &Params,
    pool: Option<&str>,
) -> Result<Done> {
    if let Some(pool) = pool {
        owned::read(context, Act::Change, &node.name, place).await?;
        let put = context.systems.pve.put_into_pool(pool, place.vmid).await;
        put.map_err(|e| attempt(node, place).hint(hint(&e)).because(e))?;
    }
    match permit.is_some_and(|permit| permit.covers(&node.name, Effect::Absence)) {
        true => for_next_start(context, node, place, keys).await,
        false => change(context, node, place, |key| keys.contains_key(key)).await,
    }
}

/// Gives a VM that does not run yet all that the file says.
pub(super) async fn settle(context: &Context, node: &Node, place: &VmRef) -> Result<Done> {
    change(context, node, place, |_| true).await
}

/// Sets the keys named in the plan, also those that disrupt a running VM, or that it keeps waiting for its next stop and start.
pub(super) async fn for_next_start(
    context: &Context,
    node: &Node,
    place: &VmRef,
    keys: &Params,
) -> Result<Done> {
    let off = |vm: Vm| Vm { running: false, ..vm };
    change_as(context, node, place, off, |key| keys.contains_key(key)).await
}

/// What of the keys named in the plan a VM does not run with.
pub(super) async fn not_in_force(
    context: &Context,
    node: &Node,
    place: &VmRef,
    keys: &Params,
) -> Result<Vec<String>> {
    let (vm, _) = read(context, node, place).await?;
    let mut waits: Vec<String> = vm.pending.keys().cloned().collect();
    let differs = differs(context, node, &Vm { running: false, ..vm });
    waits.extend(differs.set.into_keys().filter(|key| keys.contains_key(key)));
    waits.sort_unstable();
    waits.dedup();
    Ok(waits)
}

async fn change(
    context: &Context,
    node: &Node,
    place: &VmRef,
    planned: impl Fn(&str) -> bool,
) -> Result<Done> {
    change_as(context, node, place, |vm| vm, planned).await
}

/// The same, of a VM that is taken for another.
async fn change_as(
    context: &Context,
    node: &Node,
    place: &VmRef,
    taken_for: impl Fn(Vm) -> Vm,
    planned: impl Fn(&str) -> bool,
) -> Result<Done> {
    let pve = &context.systems.pve;
    let failed = |e: pve::Error| attempt(node, place).hint(hint(&e)).because(e);
    let mut warnings = vec![];
    for tries in 1..=ATTEMPTS {
        let (vm, digest) = read(context, node, place).await?;
        let vm = taken_for(vm);
        let differs = differs(context, node, &vm);
        let params: Params = differs.set.into_iter().filter(|(key, _)| planned(key)).collect();
        if params.is_empty() {
            note_generation(context, node, &vm);
            return Ok(Done { warnings });
        }
        match send(pve, place, &params, &digest).await {
            Ok(finished) => warnings.extend(finished.warnings),
            Err(error) if tries < ATTEMPTS && is_worth_another_round(&error) => {}
            Err(error) => return Err(failed(error)),
        }
        // The next round reads again, and finds nothing more to do if this one took effect.
        context.systems.clock.sleep(Duration::from_millis(500 * u64::from(tries))).await;
    }
    Err(attempt(node, place)
        .hint("Proxmox took the change, but the VM still differs; `talosmith plan` shows in what"))
}

/// Changes the config of a VM that was read with this digest, and follows the task, where there is one.
pub(super) async fn send(
    pve: &pve::Client,
    place: &VmRef,
    params: &Params,
    digest: &str,
) -> pve::Result<pve::Finished> {
    match pve.change_config(&place.host, place.vmid, params, digest).await? {
        Some(upid) => pve.follow(&upid, |_| {}).await,
        None => Ok(pve::Finished::default()),
    }
}

/// Whether a change may have taken effect, or may do so in another round, which reads the VM again first.
pub(super) fn is_worth_another_round(error: &pve::Error) -> bool {
    matches!(error.meaning(), pve::Kind::DigestMismatch) || error.is_transient() || error.effect_unknown()
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
async fn read(context: &Context, node: &Node, place: &VmRef) -> Result<(Vm, String)> {
    let failed = |e: pve::Error| attempt(node, place).hint(hint(&e)).because(e);
    let configs = owned::read(context, Act::Change, &node.name, place).await?;
    let Some((mut vm, _)) = proxmox::read(place.vmid, &place.host, None, &configs) else {
        return Err(owned::not_ours(&node.name, place, Foreign::Another));
    };
    vm.recorded = owned::recorded(context, &node.name);
    vm.running = proxmox::is_running(&context.systems, &place.host, place.vmid).await.map_err(failed)?;
    Ok((vm, configs.now.digest))
}

fn attempt(node: &Node, place: &VmRef) -> Error {
    Error::systems(format!("could not change {}, {place}", node.name))
}
