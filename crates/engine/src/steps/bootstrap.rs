//! Begins etcd, on exactly one machine, once.
//!
//! Whatever the plan thought, the truth is looked at again here: *every* control plane must be seen, now, without etcd
//! data. Then the mark is written into the record, and only then is the call made. A crash after the mark repeats the
//! call on the same machine, where Talos itself refuses it if there is data.

use std::net::IpAddr;
use std::time::Duration;

use model::blueprint::Node;
use model::observed::Etcd;
use talos_client::{Kind as Refused, Machine};

use crate::apply::Context;
use crate::emit::Progress;
use crate::error::{Error, Kind, Result};
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
    let address = IpAddr::V4(node.address.addr());
    let attempt = || Error::world(format!("could not begin etcd on {}", node.name));
    let machine = Machine::connect(&world.net, &world.clock, address, &access.talos)
        .map_err(|e| attempt().because(e))?;
    let marked = match &record {
        Some(record) => {
            record.read().await?.bootstrap.is_some_and(|mark| mark.node == node.name && !mark.done)
        }
        None => false,
    };
    if marked && has_no_etcd(world, &machine).await == Some(false) {
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
        Err(_) => return Err(did_not(None)),
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
                if matches!(error.kind(), Refused::NotReady | Refused::Unavailable | Refused::Deadline) =>
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
    Unclear(String),
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
        let words: Vec<String> = doubts
            .into_iter()
            .map(|d| match d {
                Doubt::Certain(w) | Doubt::Unclear(w) => w,
            })
            .collect();
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
            None => {
                let waits = waits_for(&context.world, &machine).await;
                Some(Doubt::Unclear(format!(
                    "{} does not say yet whether it has etcd data{waits}",
                    node.name
                )))
            }
        },
        Identified::Maintenance(_) => None,
        Identified::Stranger { why } => {
            Some(Doubt::Certain(format!("{} is somebody else: {why}", node.name)))
        }
        Identified::Silent { why } => Some(Doubt::Unclear(format!("{} cannot be seen: {why}", node.name))),
    }
}

/// What a machine says that it waits for, most often the time.
async fn waits_for(world: &World, machine: &Machine) -> String {
    match world.clock.timeout(QUESTION, machine.stage()).await {
        Ok(Ok(status)) => {
            let first = status.unmet.first();
            first.map(|unmet| format!(" (it waits: {}, {})", unmet.name, unmet.reason)).unwrap_or_default()
        }
        Ok(Err(_)) | Err(_) => String::new(),
    }
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
