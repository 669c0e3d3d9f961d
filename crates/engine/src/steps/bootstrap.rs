//! Bootstraps etcd, on exactly one machine, once.
//!
//! Whatever the plan thought, the truth is looked at again here: *every* control plane node must be seen, now, with proof that
//! it has no etcd data, and nothing may show that the cluster exists or existed. Then the mark is written into the record,
//! and only then is the call made. A crash after the mark repeats the call on the same machine, where Talos itself refuses
//! it if there is data. Where a node has data, etcd exists: nothing is called, and it is given time to come up.
//!
//! This look is not the gate's: the gate asks members of etcd whether they can do without a node, and here the proof is that there is none.

mod doubts;

use std::pin::pin;
use std::time::Duration;

use futures::future::{Either, select};
use model::blueprint::Node;
use model::observed::Etcd;
use talos_client::{Kind as Refused, Machine};

use crate::context::{Context, Done};
use crate::emit::Progress;
use crate::error::{Error, Kind, Result};
use crate::halt;
use crate::identify::{Identified, identify};
use crate::observe::machines;
use crate::systems::{REQUEST_TIMEOUT, Systems};

use doubts::{TO_BE_SEEN, nothing_exists};

/// For the container runtime to come up and the clock to be set.
const TIMEOUT: Duration = Duration::from_secs(5 * 60);
const INTERVAL: Duration = Duration::from_secs(2);

pub(super) async fn run(context: &Context, node: &Node, progress: &Progress) -> Result<Done> {
    let systems = &context.systems;
    let record = context.record_if_any()?;
    let access = context.snapshot.access()?;
    let address = systems.address(node);
    let attempt = || Error::systems(format!("could not bootstrap etcd on {}", node.name));
    let machine = Machine::connect(&systems.net, &systems.clock, address, &access.talos)
        .map_err(|e| attempt().because(e))?;
    let marked = match &record {
        Some(record) => {
            record.read().await?.bootstrap.is_some_and(|mark| mark.node == node.name && !mark.done)
        }
        None => false,
    };
    let existing = match marked && has_data(systems, &machine, progress).await {
        // An earlier run made the call and died before it saw the effect.
        true => Some(node),
        false => {
            progress.note("checking every control plane node");
            nothing_exists(context, progress).await?
        }
    };
    // Where data was found, the call is not ours to make; unless it was, in an earlier run.
    let may_call = existing.is_none_or(|existing| marked && existing.name == node.name);
    let (node, machine) = match existing {
        Some(existing) => {
            progress.note(format!("{} has etcd data already; waiting for its etcd", existing.name));
            let address = systems.address(existing);
            let machine = Machine::connect(&systems.net, &systems.clock, address, &access.talos)
                .map_err(|e| attempt().because(e))?;
            (existing, machine)
        }
        None => {
            if let Some(record) = &record {
                record.mark_bootstrap(&node.name).await?;
            }
            progress.note("sending the request");
            begin(context, node, &machine, progress).await?;
            (node, machine)
        }
    };
    progress.note("waiting for etcd");
    let did_not = || {
        Error::systems(format!("etcd on {} is bootstrapped but did not come up", node.name))
            .hint("look at the service etcd there; running the command again is safe")
    };
    let coming = systems.clock.timeout(TIMEOUT, until_member(context, node, &machine, may_call, progress));
    let outcome = match select(pin!(coming), pin!(halt::until_etcd_failed(systems, &machine))).await {
        Either::Left((outcome, _)) => outcome,
        Either::Right((halted, _)) => return halt::ended(node, halted),
    };
    match outcome {
        Ok(outcome) => outcome?,
        Err(_) => {
            return Err(match identify(systems, node, access).await {
                Identified::Unresponsive(unmet) => did_not().coded(unmet.code).hint(format!(
                    "the machine does not answer ({}); look at its console, then run the command again",
                    unmet.words
                )),
                _ => did_not().coded("timed-out"),
            });
        }
    }
    if let Some(record) = &record {
        record.seal_bootstrap(&node.name).await?;
    }
    Ok(Done::default())
}

/// Waits until etcd is there. A machine that restarts before etcd has written anything has forgotten that it was asked, so
/// after a restart it is asked again; never without one, because that would stop an etcd that is about to start. Minutes may
/// lie between the two calls, so everything that speaks against a bootstrap is looked for again.
async fn until_member(
    context: &Context,
    node: &Node,
    machine: &Machine,
    may_call: bool,
    progress: &Progress,
) -> Result<()> {
    let systems = &context.systems;
    let mut boot = None;
    loop {
        if matches!(machines::etcd(systems, node, machine).await, Etcd::Member { .. }) {
            return Ok(());
        }
        if let Ok(Ok(seen)) = systems.clock.timeout(REQUEST_TIMEOUT, machine.boot_id()).await {
            let restarted = boot.as_ref().is_some_and(|before| *before != seen);
            if !restarted {
                boot = Some(seen);
            } else if may_call && machines::has_no_etcd(systems, machine).await == Some(true) {
                progress.note("the machine restarted and forgot it; checking every control plane node again");
                if is_still_empty(context, node, progress).await? {
                    progress.note("sending the request again");
                    begin(context, node, machine, progress).await?;
                }
                boot = Some(seen);
            }
        }
        systems.clock.sleep(INTERVAL).await;
    }
}

/// Whether `node` is still to be asked for the bootstrap: nothing else has etcd data by now. `false` when it has data itself.
async fn is_still_empty(context: &Context, node: &Node, progress: &Progress) -> Result<bool> {
    match nothing_exists(context, progress).await? {
        None => Ok(true),
        Some(existing) if existing.name == node.name => Ok(false),
        Some(existing) => Err(Error::new(
            Kind::Refused,
            format!(
                "etcd was not bootstrapped again on {}: {} has etcd data by now",
                node.name, existing.name
            ),
        )
        .hint("look at both with `talosmith status`; a second etcd would split the cluster")),
    }
}

/// Whether the machine has etcd data. One that does not tell is asked again for a while: what it has decides whether the
/// call of an earlier run got through.
async fn has_data(systems: &Systems, machine: &Machine, progress: &Progress) -> bool {
    let began = systems.clock.now();
    loop {
        if let Some(empty) = machines::has_no_etcd(systems, machine).await {
            return !empty;
        }
        if systems.clock.now().duration_since(began) > TO_BE_SEEN {
            return false;
        }
        progress.note("waiting for the machine to tell whether it has etcd data");
        systems.clock.sleep(INTERVAL).await;
    }
}

/// Asks for the bootstrap until Talos is ready for it. Data that is already there is success: an earlier call got through.
/// The caller has just checked every control plane node; it is done again before each repetition.
async fn begin(context: &Context, node: &Node, machine: &Machine, progress: &Progress) -> Result<()> {
    let systems = &context.systems;
    let attempt = || Error::systems(format!("could not bootstrap etcd on {}", node.name));
    let failed = |error: Option<talos_client::Error>| match error {
        Some(error) => attempt()
            .hint("if it waits for the time, check that the machine reaches a time server (`network.ntp`)")
            .because(error),
        None => attempt().hint("look at the machine with `talosmith status`, then run the command again"),
    };
    let began = systems.clock.now();
    loop {
        let error = match systems.clock.timeout(Duration::from_secs(15), machine.bootstrap()).await {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(error)) if error.kind() == Refused::AlreadyExists => return Ok(()),
            Ok(Err(error))
                if matches!(
                    error.kind(),
                    Refused::NotReady | Refused::Clock | Refused::Unavailable | Refused::Deadline
                ) =>
            {
                Some(error)
            }
            Ok(Err(error)) => return Err(failed(Some(error))),
            Err(_) => None,
        };
        if let Some(error) = &error {
            progress.note(format!("etcd cannot be bootstrapped yet: {error}"));
        }
        if systems.clock.now().duration_since(began) > TIMEOUT.try_into().unwrap_or(jiff::SignedDuration::MAX)
        {
            return Err(failed(error));
        }
        systems.clock.sleep(INTERVAL).await;
        if !is_still_empty(context, node, progress).await? {
            return Ok(());
        }
    }
}
