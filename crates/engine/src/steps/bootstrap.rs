//! Begins etcd, on exactly one machine, once.
//!
//! Whatever the plan thought, the truth is looked at again here: *every* control plane must be seen, now, without etcd
//! data. Then the mark is written into the record, and only then is the call made. A crash after the mark repeats the
//! call on the same machine, where Talos itself refuses it if there is data.

use std::time::Duration;

use model::blueprint::Node;
use model::observed::Etcd;
use talos_client::{Kind as Refused, Machine};

use crate::apply::Context;
use crate::emit::Progress;
use crate::error::{Error, Kind, Result};
use crate::lack::Lack;
use crate::observe::machines;
use crate::steps::{Done, Identified, identify};
use crate::world::{QUESTION, World};

/// For the container runtime to come up and the clock to be set.
const PATIENCE: Duration = Duration::from_secs(5 * 60);
const PAUSE: Duration = Duration::from_secs(2);
/// For a control plane that was just configured to show what it has.
const TO_BE_SEEN: jiff::SignedDuration = jiff::SignedDuration::from_secs(120);

pub(super) async fn run(context: &Context, node: &Node, progress: &Progress) -> Result<Done> {
    let world = &context.world;
    let record = context.record_if_any()?;
    let access = context.look.access()?;
    let address = world.address(node);
    let attempt = || Error::world(format!("could not begin etcd on {}", node.name));
    let machine = Machine::connect(&world.net, &world.clock, address, &access.talos)
        .map_err(|e| attempt().because(e))?;
    let marked = match &record {
        Some(record) => {
            record.read().await?.bootstrap.is_some_and(|mark| mark.node == node.name && !mark.done)
        }
        None => false,
    };
    if marked && has_data(world, &machine, progress).await {
        // An earlier run made the call and died before it saw the effect.
        progress.note("etcd was begun by an earlier run");
    } else {
        progress.note("looking at every control plane");
        all_empty(context, progress).await?;
        if let Some(record) = &record {
            record.mark_bootstrap(&node.name).await?;
        }
        progress.note("beginning etcd");
        begin(world, &machine, progress).await.map_err(|e| match e {
            Some(error) => attempt()
                .remedy(
                    "if it waits for the time, check that the machine reaches a time server (`network.ntp`)",
                )
                .because(error),
            None => {
                attempt().remedy("look at the machine with `talosmith status`, then run the command again")
            }
        })?;
    }
    progress.note("waiting for etcd");
    let did_not = |why: Option<talos_client::Error>| {
        let error = Error::world(format!("etcd on {} was begun but did not come up", node.name))
            .remedy("look at the service etcd there; running the command again is safe");
        match why {
            Some(why) => error.because(why),
            None => error,
        }
    };
    match world.clock.timeout(PATIENCE, until_member(world, node, &machine, progress)).await {
        Ok(outcome) => outcome.map_err(did_not)?,
        Err(_) => {
            return Err(match identify(world, node, access).await {
                Identified::Silent(lack) => did_not(None).coded(lack.code).remedy(format!(
                    "the machine does not answer ({}); look at its console, then run the command again",
                    lack.words
                )),
                _ => did_not(None).coded("timed-out"),
            });
        }
    }
    if let Some(record) = &record {
        record.seal_bootstrap(&node.name).await?;
    }
    Ok(Done::default())
}

/// Waits until etcd is there. A machine that restarts before etcd has written anything has forgotten that it was asked, so
/// after a restart it is asked again; never without one, because that would stop an etcd that is about to begin.
async fn until_member(
    world: &World,
    node: &Node,
    machine: &Machine,
    progress: &Progress,
) -> std::result::Result<(), Option<talos_client::Error>> {
    let mut boot = None;
    loop {
        if matches!(machines::etcd(world, node, machine).await, Etcd::Member { .. }) {
            return Ok(());
        }
        if let Ok(Ok(seen)) = world.clock.timeout(QUESTION, machine.boot_id()).await {
            let restarted = boot.as_ref().is_some_and(|before| *before != seen);
            if !restarted {
                boot = Some(seen);
            } else if has_no_etcd(world, machine).await == Some(true) {
                progress.note("the machine restarted and forgot it; beginning etcd again");
                begin(world, machine, progress).await?;
                boot = Some(seen);
            }
        }
        world.clock.sleep(PAUSE).await;
    }
}

/// Whether the machine has etcd data. One that does not tell is asked again for a while: what it has decides whether the
/// call of an earlier run got through.
async fn has_data(world: &World, machine: &Machine, progress: &Progress) -> bool {
    let began = world.clock.now();
    loop {
        if let Some(empty) = has_no_etcd(world, machine).await {
            return !empty;
        }
        if world.clock.now().duration_since(began) > TO_BE_SEEN {
            return false;
        }
        progress.note("waiting for the machine to tell whether it has etcd data");
        world.clock.sleep(PAUSE).await;
    }
}

/// Asks for the bootstrap until Talos is ready for it. Data that is already there is success: an earlier call got through.
async fn begin(
    world: &World,
    machine: &Machine,
    progress: &Progress,
) -> std::result::Result<(), Option<talos_client::Error>> {
    let began = world.clock.now();
    loop {
        let error = match world.clock.timeout(Duration::from_secs(15), machine.bootstrap()).await {
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
            Ok(Err(error)) => return Err(Some(error)),
            Err(_) => None,
        };
        if let Some(error) = &error {
            progress.note(format!("etcd cannot begin yet: {error}"));
        }
        if world.clock.now().duration_since(began) > PATIENCE.try_into().unwrap_or(jiff::SignedDuration::MAX)
        {
            return Err(error);
        }
        world.clock.sleep(PAUSE).await;
    }
}

/// Why etcd may not be begun.
enum Doubt {
    /// It exists, or somebody else answers: waiting does not help.
    Certain(String),
    /// It could not be seen; a moment later it may be.
    Unclear(Lack),
}

/// Every control plane of the blueprint was just seen, and without etcd data.
async fn all_empty(context: &Context, progress: &Progress) -> Result<()> {
    let world = &context.world;
    let began = world.clock.now();
    loop {
        let looks = context.look.blueprint.control_planes().map(|node| doubt(context, node));
        let doubts: Vec<Doubt> = futures::future::join_all(looks).await.into_iter().flatten().collect();
        if doubts.is_empty() {
            return Ok(());
        }
        let waited = world.clock.now().duration_since(began);
        let hopeless = doubts.iter().any(|d| matches!(d, Doubt::Certain(_)));
        let clock = doubts.iter().any(|d| matches!(d, Doubt::Unclear(lack) if lack.code == "clock"));
        let words: Vec<String> = doubts
            .into_iter()
            .map(|d| match d {
                Doubt::Certain(words) => words,
                Doubt::Unclear(lack) => lack.words,
            })
            .collect();
        if clock && !hopeless && waited > TO_BE_SEEN {
            return Err(Error::world(format!("etcd cannot begin: {}", words.join("; "))).coded("clock").remedy(
                "check that the machines reach a time server (`network.ntp`) and that the clocks of the Proxmox hosts are right",
            ));
        }
        if hopeless || waited > TO_BE_SEEN {
            return Err(Error::new(Kind::Refused, format!("etcd was not begun, because it may exist already: {}", words.join("; ")))
                .remedy("bring every control plane back, then run the command again; a second etcd would split the cluster"));
        }
        progress.note(words.join("; "));
        world.clock.sleep(PAUSE).await;
    }
}

async fn doubt(context: &Context, node: &Node) -> Option<Doubt> {
    let access = match context.look.access() {
        Ok(access) => access,
        Err(error) => return Some(Doubt::Certain(error.to_string())),
    };
    match identify(&context.world, node, access).await {
        Identified::Configured(machine) => match has_no_etcd(&context.world, &machine).await {
            Some(true) => None,
            Some(false) => Some(Doubt::Certain(format!("{} has etcd data", node.name))),
            None => Some(Doubt::Unclear(unclear(&context.world, node, &machine).await)),
        },
        Identified::Maintenance(_) => None,
        Identified::Stranger { why } => {
            Some(Doubt::Certain(format!("{} is somebody else: {why}", node.name)))
        }
        Identified::Silent(lack) => {
            let words = format!("{} cannot be seen: {}", node.name, lack.words);
            Some(Doubt::Unclear(Lack { words, ..lack }))
        }
    }
}

/// Why a machine does not tell whether it has etcd data. Without the time its etcd does not even prepare.
async fn unclear(world: &World, node: &Node, machine: &Machine) -> Lack {
    let words = format!("{} does not say yet whether it has etcd data", node.name);
    let unmet = match world.clock.timeout(QUESTION, machine.stage()).await {
        Ok(Ok(status)) => status.unmet,
        Ok(Err(_)) | Err(_) => vec![],
    };
    let Some(first) = unmet.iter().find(|unmet| unmet.name == "time").or(unmet.first()) else {
        return Lack::new(words);
    };
    let lack = Lack::new(format!("{words} (it waits: {}, {})", first.name, first.reason));
    if first.name == "time" { lack.coded("clock") } else { lack }
}

/// Whether a machine surely has no etcd data. `None` when it cannot be told yet.
///
/// The proof needs both halves. The service prepares only after the volume with its data is mounted, and stays there for
/// as long as nobody begins etcd; a member that restarts passes through the same state, but its folder is there.
pub(crate) async fn has_no_etcd(world: &World, machine: &Machine) -> Option<bool> {
    let services = world.clock.timeout(QUESTION, machine.services()).await.ok()?.ok()?;
    match services.iter().find(|s| s.id == "etcd")?.state.as_str() {
        "Preparing" => {}
        "Running" | "Stopping" => return Some(false),
        _ => return None,
    }
    let exists =
        world.clock.timeout(QUESTION, machine.path_exists("/var/lib/etcd/member")).await.ok()?.ok()?;
    Some(!exists)
}
