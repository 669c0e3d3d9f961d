//! Waits until a node has its place: running and ready by its own word, a voter in etcd if it is a control plane, and
//! ready in Kubernetes.

use std::sync::PoisonError;
use std::time::Duration;

use model::blueprint::{Node, Role};
use model::observed::{Api, Etcd, Machine as Seen};
use model::readiness::{Condition, Seen as Place};
use model::service::{self, Halted};
use talos_client::{Kind as Refused, Machine};

use crate::context::{Context, Done};
use crate::emit::Progress;
use crate::error::{Error, Result};
use crate::halt::{self, HaltWatch};
use crate::health::not_ready;
use crate::kubernetes::Kubernetes;
use crate::observe::machines::{self, Detail};
use crate::render::digest;
use crate::steps::configure;
use crate::steps::silence::Silence;
use crate::systems::REQUEST_TIMEOUT;
use crate::unmet::{PodWatch, Unmet};

const TIMEOUT: Duration = Duration::from_secs(15 * 60);
const INTERVAL: Duration = Duration::from_secs(3);
/// The code of a machine without the time.
const CLOCK: &str = "clock";
/// The code of a Kubernetes that does not answer.
const NO_KUBERNETES: &str = "kubernetes";
/// The code of an etcd without a majority.
const NO_QUORUM: &str = "etcd-no-quorum";

pub(super) async fn run(context: &Context, node: &Node, progress: &Progress) -> Result<Done> {
    let systems = &context.systems;
    let access = context.snapshot.access()?;
    let kubernetes = Kubernetes::new(systems, &context.snapshot.blueprint.endpoint, &access.kubernetes)?;
    let last = std::sync::Mutex::new(Unmet::new("nothing was seen of it"));
    let mut pods = PodWatch::of(&node.name);
    let mut watch = HaltWatch::default();
    let mut silence = Silence::new(context, node);
    let waiting = async {
        loop {
            let looked =
                silence.during(machines::observe_or_unmet(systems, node, access, Detail::Joining)).await;
            let missing = match looked {
                Ok((machine, _)) => {
                    silence.ends();
                    missing(context, progress, node, &machine, &kubernetes, &mut pods).await?
                }
                Err(unmet) => Some(Box::pin(silence.explain(unmet)).await?),
            };
            let Some(missing) = missing else { return Ok(true) };
            if let Some(seen) = halts(context, node, &missing).await
                && let Some(halted) = watch.judge(systems.clock.now(), seen)
            {
                return halt::ended(node, halted);
            }
            if let Some(error) = without_majority(context, node, &missing) {
                return Err(error);
            }
            progress.note(missing.words.clone());
            if let Ok(mut last) = last.lock() {
                *last = missing;
            }
            if pods.is_hopeless(systems) {
                return Ok(false);
            }
            silence.during(systems.clock.sleep(INTERVAL)).await;
        }
    };
    let joined = match systems.clock.timeout(TIMEOUT, waiting).await {
        Ok(joined) => Some(joined?),
        Err(_) => None,
    };
    if joined == Some(true) {
        return Ok(Done::default());
    }
    let last = last.into_inner().unwrap_or_else(PoisonError::into_inner);
    if joined == Some(false) {
        return Err(Error::systems(format!("{} does not become ready: {}", node.name, last.words))
            .coded(last.code)
            .hint(
                "correct what the pod says (a registry, a mirror, a version, a value); run the command again to continue waiting",
            ));
    }
    let last = after_all(context, node, &kubernetes, last).await;
    Err(Error::systems(format!(
        "{} did not join within {} minutes: {}",
        node.name,
        TIMEOUT.as_secs() / 60,
        last.words
    ))
    .coded(last.code)
    .hint(match silence.was_long() {
        true => format!(
            "look at its console with `talosmith node console {}`; {}",
            node.name,
            configure::wiped(context, node)
        ),
        false => {
            "`talosmith status` shows where it stands; run the command again to continue waiting".to_owned()
        }
    }))
}

/// The end of a wait for a majority of etcd, or for Kubernetes behind it, that does not come in this run: too many control plane nodes
/// failed in it for good.
fn without_majority(context: &Context, node: &Node, missing: &Unmet) -> Option<Error> {
    let (failed, all, why) = context.failed_control_planes();
    let hopeless = match (node.role, missing.code) {
        (Role::ControlPlane, NO_QUORUM) => failed * 2 >= all,
        (Role::Worker, NO_KUBERNETES) => failed == all,
        _ => false,
    };
    (hopeless && failed > 0).then(|| {
        let what = format!(
            "{} does not join: {}, and {failed} of {all} control plane nodes failed in this run: {why}",
            node.name, missing.words
        );
        Error::systems(what)
            .coded(missing.code)
            .hint("correct that first; the next run then continues with this node")
    })
}

/// What would make waiting for it useless, as far as it can be seen. Nothing where it is unknown.
async fn halts(context: &Context, node: &Node, missing: &Unmet) -> Option<Option<Halted>> {
    let (systems, blueprint) = (&context.systems, &context.snapshot.blueprint);
    let access = context.snapshot.access().ok()?;
    if missing.code == CLOCK {
        return Some(Some(service::no_time_comes(&node.ntp)));
    }
    match halt::of_node(systems, node, access).await {
        Some(None) if missing.code == NO_KUBERNETES => {
            Some(halt::of_endpoint(systems, &blueprint.endpoint, access, blueprint.control_planes()).await)
        }
        seen => seen,
    }
}

/// What the node still lacks. A node that runs another configuration than the one that it took lacks nothing that could come.
async fn missing(
    context: &Context,
    progress: &Progress,
    node: &Node,
    machine: &Seen,
    kubernetes: &Kubernetes,
    pods: &mut PodWatch,
) -> Result<Option<Unmet>> {
    if machine.api == Api::Configured && context.unproved().contains(&node.name) {
        let wanted = digest(context.snapshot.config(&node.name)?.as_bytes());
        match &machine.config_digest {
            Some(runs) if *runs == wanted => context.unproved().remove(&node.name),
            Some(_) => return Err(configure::runs_another(node)),
            None => return Ok(Some(Unmet::new("does not report which machine config it runs"))),
        };
    }
    Ok(lacks(context, progress, node, machine, kubernetes, pods).await)
}

/// What a machine that answers still lacks.
pub(super) async fn lacks(
    context: &Context,
    progress: &Progress,
    node: &Node,
    machine: &Seen,
    kubernetes: &Kubernetes,
    pods: &mut PodWatch,
) -> Option<Unmet> {
    match &machine.api {
        Api::Configured => {}
        Api::Maintenance => {
            // A configuration can be lost between the machine's answer and its disk.
            let sent = Box::pin(configure::again(context, node, progress)).await;
            let words = "waits in maintenance: it lost its configuration";
            return Some(Unmet::new(match sent {
                Ok(true) => format!("{words}; sending it again"),
                Ok(false) => words.to_owned(),
                Err(error) => format!("{words}, and {error}"),
            }));
        }
        Api::Unresponsive { why } => return Some(Unmet::new(format!("does not answer ({why})"))),
        Api::ForeignMachine { why } => return Some(Unmet::new(format!("its address answers, but {why}"))),
        Api::OtherKeys { why } => return Some(Unmet::new(format!("it has other keys: {why}"))),
    }
    let blueprint = &context.snapshot.blueprint;
    let place = Place::nothing(blueprint, node).with_machine(machine);
    match place.lacks(&[Condition::Time, Condition::Voting, Condition::Running]) {
        Some(Condition::Time) => return Some(Unmet::new(service::no_time(&node.ntp)).coded(CLOCK)),
        Some(Condition::Voting) => return Some(not_voting(context, &machine.etcd, kubernetes).await),
        // The machine only says that the node is not ready; Kubernetes says why, once it knows the node.
        Some(_) if !machine.unmet.first().is_some_and(|unmet| unmet.starts_with("nodeReady")) => {
            return Some(Unmet::new(stage(machine)));
        }
        Some(_) | None => {}
    }
    let Ok(nodes) = kubernetes.nodes().await else { return Some(no_kubernetes(context, node).await) };
    let place = place.with_kubernetes(&nodes);
    match place.lacks(&[Condition::Registered, Condition::Ready, Condition::Running])? {
        Condition::Registered => Some(Unmet::new("not registered in Kubernetes yet")),
        Condition::Ready => {
            let why = nodes.get(&node.name).and_then(|node| node.not_ready.as_ref());
            Some(pods.explain(&context.systems, kubernetes, Unmet::new(not_ready(blueprint, why))).await)
        }
        _ => Some(Unmet::new(stage(machine))),
    }
}

/// The stage of a machine, and the first thing that it waits for.
fn stage(machine: &Seen) -> String {
    let stage = machine.stage.as_deref().unwrap_or("unknown");
    machine.unmet.first().map_or_else(|| stage.to_owned(), |unmet| format!("{stage}: {unmet}"))
}

/// Why a control plane node does not vote in etcd.
async fn not_voting(context: &Context, etcd: &Etcd, kubernetes: &Kubernetes) -> Unmet {
    if matches!(etcd, Etcd::Member { .. }) {
        return Unmet::new("etcd: still a learner");
    }
    let (words, endpoint) = (outside_etcd(etcd), &context.snapshot.blueprint.endpoint);
    // Where there is no discovery service, that is how it finds the others.
    match kubernetes.nodes().await {
        Ok(_) => Unmet::new(words),
        Err(_) => {
            Unmet::new(format!("{words}, and Kubernetes at {endpoint} does not answer")).coded(NO_KUBERNETES)
        }
    }
}

/// How a control plane node stands that is no member of etcd. What its machine does not tell is not "no member".
fn outside_etcd(etcd: &Etcd) -> &'static str {
    match etcd {
        Etcd::Empty => "etcd: it has not joined yet",
        Etcd::Data => "etcd: it has data, and its service is not up yet",
        Etcd::Unknown | Etcd::Member { .. } => "etcd: the machine does not report yet whether it is a member",
    }
}

/// Why Kubernetes does not answer, as far as the machine knows: without a majority in etcd it cannot.
async fn no_kubernetes(context: &Context, node: &Node) -> Unmet {
    match etcd_without_majority(context, node).await {
        Some(unmet) => unmet,
        None => Unmet::new("waiting for the Kubernetes API").coded(NO_KUBERNETES),
    }
}

/// What a node lacks that did not join in time, with what the control planes know: without a majority, or while one of them
/// does not respond, etcd takes no member in; and a Kubernetes that does not answer registers no worker.
async fn after_all(context: &Context, node: &Node, kubernetes: &Kubernetes, last: Unmet) -> Unmet {
    if last.is_explained() {
        return last;
    }
    let answers = kubernetes.nodes().await.is_ok();
    if node.role == Role::Worker && answers {
        return last;
    }
    for other in context.snapshot.blueprint.control_planes().filter(|other| other.name != node.name) {
        let seen = etcd_without_majority(context, other).await;
        if let Some(unmet) = seen {
            let words = format!("{}; {}: {}", last.words, other.name, unmet.words);
            return Unmet { words, ..unmet };
        }
    }
    if answers {
        return last;
    }
    Unmet::new(format!("{}; Kubernetes does not answer", last.words)).coded(NO_KUBERNETES)
}

/// What a machine says of an etcd that cannot decide, or that it says nothing.
async fn etcd_without_majority(context: &Context, node: &Node) -> Option<Unmet> {
    let (systems, address) = (&context.systems, context.systems.address(node));
    let access = context.snapshot.access().ok()?;
    let machine = Machine::connect(&systems.net, &systems.clock, address, &access.talos).ok()?;
    match systems.clock.timeout(REQUEST_TIMEOUT, machine.etcd_members(false)).await {
        Ok(Err(error)) if error.kind() == Refused::NoQuorum => {
            Some(Unmet::of_machine("waits for etcd, which has no majority", &error))
        }
        Ok(Err(error)) if error.kind() == Refused::Unavailable => {
            Some(Unmet::of_machine("does not report the state of etcd", &error))
        }
        Err(_) => Some(Unmet::new("does not report the state of etcd").coded("machine-unavailable")),
        Ok(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn e4_empty_starting_and_unknown_are_three_things() {
        let words = [Etcd::Empty, Etcd::Data, Etcd::Unknown].map(|etcd| outside_etcd(&etcd));
        assert!(words[0].contains("has not joined"));
        assert!(words[1].contains("has data") && words[1].contains("not up yet"));
        assert!(words[2].contains("does not report"));
    }
}
