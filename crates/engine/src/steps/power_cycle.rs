//! Changes a VM in what it takes over only with a stop and start, and stops and starts it.
//!
//! The values are set while the VM still runs: what Proxmox refuses is refused before anything is disrupted. A graceful shutdown through
//! Proxmox follows: it reaches Talos as the power button does, which stops pods and services and drains nothing, and the manager of high
//! availability knows of it, while a machine that switches itself off would be started again. A machine that does not go down is stopped by
//! force only when its etcd and its kubelet do not run any more: it says so itself, or it does not answer and Kubernetes misses its kubelet.
//!
//! After a stop the host cleans up and holds the VM's lock for some seconds; what fails meanwhile is tried again.

use std::time::Duration;

use jiff::SignedDuration;
use model::blueprint::Node;
use model::gate::{Effect, Permit};
use model::names::VmRef;
use model::ownership::Act;
use pve::{Params, PowerState};
use talos_client::Machine;

use crate::context::{Context, Done};
use crate::emit::Progress;
use crate::error::{Error, NO_EFFECT, Result, hint};
use crate::identify::{Identified, identify};
use crate::owned;
use crate::steps::vm::{self, ATTEMPTS, worth_another_look};
use crate::steps::{boot, drain, permit, power, update};
use crate::systems::REQUEST_TIMEOUT;

/// How long a machine may take to stop its pods and services.
const SHUTDOWN: Duration = Duration::from_secs(300);
/// How long the manager of high availability may take beyond that.
const MANAGER: SignedDuration = SignedDuration::from_secs(390);
/// Between two looks.
const INTERVAL: Duration = Duration::from_secs(2);
/// The host cleans up after a VM that was stopped; before that, a start would wait for its lock.
const CLEAN_UP: Duration = Duration::from_secs(3);

/// Stops a node's VM gracefully, sets the keys named in the plan, and starts it.
pub(super) async fn run(
    context: &Context,
    permit: &Permit,
    node: &Node,
    place: &VmRef,
    set: &Params,
    progress: &Progress,
) -> Result<Done> {
    permit::check(permit, &node.name, Effect::Absence)?;
    let mut warnings = vec![];
    let machine = match Box::pin(identify(&context.systems, node, context.snapshot.access()?)).await {
        Identified::Configured(machine) => Some(machine),
        _ => None,
    };
    let before = match &machine {
        Some(machine) => boot::id(context, machine, || attempt(node, place)).await?,
        None => String::new(),
    };
    match update::for_next_start(context, node, place, set).await {
        Ok(done) => warnings.extend(done.warnings),
        // A guest that gives nothing back while it runs must, once it is off.
        Err(error) if is_hotplug(&error) => {}
        Err(error) => return Err(error),
    }
    progress.note("shutting down");
    context.restarted().insert(node.name.clone());
    warnings.extend(shut_down(context, permit, node, place, machine.as_ref(), progress).await?);
    context.systems.clock.sleep(CLEAN_UP).await;
    warnings.extend(update::for_next_start(context, node, place, set).await?.warnings);
    progress.note("starting");
    warnings.extend(vm::start(context, &node.name, place).await?.warnings);
    let waits = update::not_in_force(context, node, place, set).await?;
    if !waits.is_empty() {
        return Err(attempt(node, place).coded(NO_EFFECT).hint(format!(
            "it was stopped and started, and does not run with what it was given ({}); look at its hardware in Proxmox",
            waits.join(", ")
        )));
    }
    boot::wait(context, node, &before, progress).await?;
    Ok(Done { warnings })
}

/// Whether a running guest did not take a change over. Proxmox keeps the value for the next start, or a part of it.
fn is_hotplug(error: &Error) -> bool {
    error.causes().iter().any(|cause| cause.contains("hotplug problem"))
}

/// Brings the VM down, gracefully. One that is off already is as good. Gives the warnings of Proxmox.
pub(super) async fn shut_down(
    context: &Context,
    permit: &Permit,
    node: &Node,
    place: &VmRef,
    machine: Option<&Machine>,
    progress: &Progress,
) -> Result<Vec<String>> {
    permit::check(permit, &node.name, Effect::Absence)?;
    let failed = |e: pve::Error| attempt(node, place).hint(hint(&e)).because(e);
    let pve = &context.systems.pve;
    let mut tries = 1;
    loop {
        owned::read(context, Act::Change, &node.name, place).await?;
        let asked = async {
            if !pve.is_running(&place.host, place.vmid).await? {
                return Ok(Some(vec![]));
            }
            let task = pve.shutdown(&place.host, place.vmid, SHUTDOWN).await?;
            let (finished, _) =
                power::follow(&context.systems, &task, place.vmid, PowerState::Stopped).await?;
            Ok(is_down(context, place).await?.then_some(finished.warnings))
        };
        match asked.await {
            Ok(Some(warnings)) => return Ok(warnings),
            Ok(None) => return by_force(context, permit, node, place, machine, progress).await,
            Err(error) if is_disobeyed(&error) => {
                return by_force(context, permit, node, place, machine, progress).await;
            }
            Err(error) if tries < ATTEMPTS && worth_another_look(&error) => {}
            Err(error) => return Err(failed(error)),
        }
        context.systems.clock.sleep(Duration::from_secs(2 * u64::from(tries))).await;
        tries += 1;
    }
}

/// Waits for a VM that is managed by others, who take their time.
async fn is_down(context: &Context, place: &VmRef) -> pve::Result<bool> {
    let (pve, clock) = (&context.systems.pve, &context.systems.clock);
    let began = clock.now();
    loop {
        let status = pve.vm_status(&place.host, place.vmid).await?;
        let waited = clock.now().duration_since(began);
        if status.power == PowerState::Stopped || !status.ha_managed || waited >= MANAGER {
            return Ok(status.power == PowerState::Stopped);
        }
        clock.sleep(INTERVAL).await;
    }
}

/// Whether the guest did not go down in its time.
fn is_disobeyed(error: &pve::Error) -> bool {
    error.to_string().contains("powerdown failed")
}

/// Switches a machine off that did not go down by itself, if nothing of it runs that could be harmed.
async fn by_force(
    context: &Context,
    permit: &Permit,
    node: &Node,
    place: &VmRef,
    machine: Option<&Machine>,
    progress: &Progress,
) -> Result<Vec<String>> {
    permit::check(permit, &node.name, Effect::Absence)?;
    let pve = &context.systems.pve;
    if let Some(running) = still_runs(context, node, machine).await {
        return Err(attempt(node, place).coded("no-shutdown").hint(format!(
            "it did not shut down within {} s, and {running}; look at its console with `talosmith node console {}`. It was not \
             stopped by force",
            SHUTDOWN.as_secs(),
            node.name
        )));
    }
    progress.note("its services have stopped, and it does not switch off: forced shutdown");
    let failed = |e: pve::Error| attempt(node, place).hint(hint(&e)).because(e);
    owned::read(context, Act::Change, &node.name, place).await?;
    let stopped = async {
        let task = pve.stop(&place.host, place.vmid).await?;
        power::follow(&context.systems, &task, place.vmid, PowerState::Stopped).await
    };
    match stopped.await.map_err(failed)? {
        (finished, true) => Ok(finished.warnings),
        (_, false) => Err(attempt(node, place)
            .coded(NO_EFFECT)
            .hint("Proxmox reported it as stopped, but the VM still runs; look at its task log")),
    }
}

/// What still runs on a machine, or may, and must not be cut off. That a machine does not answer shows nothing by itself: the way to it
/// may be broken.
async fn still_runs(context: &Context, node: &Node, machine: Option<&Machine>) -> Option<String> {
    let Some(machine) = machine else {
        return Some("it did not answer before, so what runs on it is unknown".to_owned());
    };
    match context.systems.clock.timeout(REQUEST_TIMEOUT, machine.services()).await {
        Ok(Ok(services)) => {
            let up = |service: &&talos_client::Service| {
                ["etcd", "kubelet"].contains(&service.id.as_str()) && service.state == "Running"
            };
            let names: Vec<&str> = services.iter().filter(up).map(|service| service.id.as_str()).collect();
            (!names.is_empty()).then(|| format!("{} still runs on it", names.join(" and ")))
        }
        Ok(Err(_)) | Err(_) if is_missed(context, node).await => None,
        Ok(Err(_)) | Err(_) => {
            Some("it does not answer, and Kubernetes does not show that its kubelet has stopped".to_owned())
        }
    }
}

/// Whether Kubernetes answers and says that the node is not ready.
async fn is_missed(context: &Context, node: &Node) -> bool {
    let Ok(kubernetes) = drain::kubernetes(context) else { return false };
    kubernetes.nodes().await.is_ok_and(|nodes| nodes.get(&node.name).is_some_and(|seen| !seen.ready))
}

fn attempt(node: &Node, place: &VmRef) -> Error {
    Error::systems(format!("could not stop and start {}, {place}", node.name))
}
