//! What speaks against a bootstrap at this moment: etcd data on any control plane node, and anything that shows that the cluster
//! exists or existed. What cannot be seen speaks against it, too, until it can be.

use model::blueprint::{Node, Role};
use model::observed::Kubelet;
use model::service::{self, Halted};
use talos_client::Machine;

use super::INTERVAL;
use crate::context::Context;
use crate::emit::Progress;
use crate::error::{Error, Kind, Result};
use crate::halt;
use crate::identify::{Identified, identify};
use crate::kubernetes::{Kubernetes, is_answer};
use crate::observe::{self, machines};
use crate::systems::{REQUEST_TIMEOUT, Systems};
use crate::unmet::Unmet;

/// For a control plane that was just configured to show what it has.
pub(super) const TO_BE_SEEN: jiff::SignedDuration = jiff::SignedDuration::from_secs(120);

/// Why etcd may not be bootstrapped.
enum Doubt<'a> {
    /// This node has data: etcd exists there.
    Data(&'a Node),
    /// The cluster exists elsewhere, or something else answers: waiting does not help.
    Certain(String),
    /// It could not be seen; a moment later it may be.
    Unclear(Unmet),
    /// It could not be seen, and waiting does not help: Talos gave a service up.
    Halted(&'a Node, Halted),
}

/// Every control plane node of the file was just seen, with proof that it has no etcd data, and nothing else shows that the
/// cluster exists or existed. Gives the node that has data, should there be one.
pub(super) async fn nothing_exists<'a>(
    context: &'a Context,
    progress: &Progress,
) -> Result<Option<&'a Node>> {
    let systems = &context.systems;
    let began = systems.clock.now();
    let elsewhere = answers_elsewhere(context);
    let (mut doubts, elsewhere) = futures::join!(doubts(context), Box::pin(elsewhere));
    doubts.extend(elsewhere.map(Doubt::Certain));
    loop {
        if doubts.is_empty() {
            return Ok(None);
        }
        let waited = systems.clock.now().duration_since(began);
        let hopeless = doubts.iter().any(|d| matches!(d, Doubt::Certain(_)));
        let data = doubts.iter().find_map(|d| match d {
            Doubt::Data(node) => Some(*node),
            Doubt::Certain(_) | Doubt::Unclear(_) | Doubt::Halted(..) => None,
        });
        if let Some(node) = data.filter(|_| !hopeless) {
            return Ok(Some(node));
        }
        let halted = doubts.iter().find_map(|d| match d {
            Doubt::Halted(_, halted) => Some(halted.hint.clone()),
            Doubt::Data(_) | Doubt::Certain(_) | Doubt::Unclear(_) => None,
        });
        let clock = doubts.iter().any(|d| matches!(d, Doubt::Unclear(unmet) if unmet.code == "clock"));
        let words: Vec<String> = doubts
            .into_iter()
            .map(|d| match d {
                Doubt::Data(node) => format!("{} has etcd data", node.name),
                Doubt::Certain(words) => words,
                Doubt::Unclear(unmet) => unmet.words,
                Doubt::Halted(node, halted) => {
                    format!("{} does not say whether it has etcd data: {}", node.name, halted.why)
                }
            })
            .collect();
        if clock && !hopeless && waited > TO_BE_SEEN {
            return Err(Error::systems(format!("etcd cannot be bootstrapped: {}", words.join("; "))).coded("clock").hint(
                "give the machines a time server that they reach by NTP (UDP port 123) in `network.ntp`, or allow NTP to the one that they use",
            ));
        }
        let refused = || {
            let why = words.join("; ");
            Error::new(
                Kind::Refused,
                format!("etcd was not bootstrapped, because it may exist already: {why}"),
            )
        };
        if let Some(hint) = halted.filter(|_| !hopeless) {
            return Err(refused()
                .coded(halt::CODE)
                .hint(format!("{hint}; then run the command again to continue")));
        }
        if hopeless || waited > TO_BE_SEEN {
            return Err(refused()
                .hint("bring every control plane node back, then run the command again; a second etcd would split the cluster"));
        }
        progress.note(words.join("; "));
        systems.clock.sleep(INTERVAL).await;
        doubts = self::doubts(context).await;
    }
}

/// What every machine says against it, all asked at once.
async fn doubts(context: &Context) -> Vec<Doubt<'_>> {
    let looks = context.snapshot.blueprint.in_order().into_iter().map(|node| doubt(context, node));
    futures::future::join_all(looks).await.into_iter().flatten().collect()
}

/// A Kubernetes of this cluster that answers. Before etcd runs, nothing has the address of its API.
async fn answers_elsewhere(context: &Context) -> Option<String> {
    let (systems, blueprint) = (&context.systems, &context.snapshot.blueprint);
    if !observe::answers(systems, blueprint).await {
        return None;
    }
    let access = context.snapshot.access().ok()?;
    let client = Kubernetes::new(systems, &blueprint.endpoint, &access.kubernetes).ok()?;
    let exists = match client.nodes().await {
        Ok(_) => true,
        Err(error) => is_answer(&error),
    };
    exists.then(|| format!("Kubernetes answers at {}", blueprint.endpoint))
}

async fn doubt<'a>(context: &Context, node: &'a Node) -> Option<Doubt<'a>> {
    let systems = &context.systems;
    let access = match context.snapshot.access() {
        Ok(access) => access,
        Err(error) => return Some(Doubt::Certain(error.to_string())),
    };
    let identified = identify(systems, node, access).await;
    let machine = match (identified, node.role) {
        (Identified::Configured(machine), _) => machine,
        // A worker answers only once a control plane node signed its certificate.
        (Identified::Unresponsive(_) | Identified::Maintenance(_), Role::Worker) => return None,
        (Identified::Maintenance(_), Role::ControlPlane) => {
            let words = "is in maintenance mode and does not show whether it has etcd data";
            return Some(Doubt::Unclear(Unmet::new(format!("{} {words}", node.name))));
        }
        (Identified::ForeignMachine { why } | Identified::OtherKeys { why }, _) => {
            return Some(Doubt::Certain(format!("{} is another machine: {why}", node.name)));
        }
        (Identified::Unresponsive(unmet), Role::ControlPlane) => {
            let words = format!("{} cannot be seen: {}", node.name, unmet.words);
            return Some(Doubt::Unclear(Unmet { words, ..unmet }));
        }
    };
    if node.role == Role::ControlPlane {
        match machines::has_no_etcd(systems, &machine).await {
            Some(true) => {}
            Some(false) => return Some(Doubt::Data(node)),
            None => {
                return Some(match halt::etcd_failed(systems, &machine).await {
                    Some(halted) => Doubt::Halted(node, halted),
                    None => Doubt::Unclear(unclear(systems, node, &machine).await),
                });
            }
        }
    }
    match machines::kubelet(systems, &machine).await {
        Kubelet::Never => None,
        Kubelet::Registered => Some(Doubt::Certain(format!(
            "{} was registered in Kubernetes with this cluster's keys, so the cluster existed",
            node.name
        ))),
        // A record without a mark says that the cluster never was, and one worker that is slow must not stop all others.
        Kubelet::Unknown if node.role == Role::Worker && context.snapshot.blueprint.has_proxmox() => None,
        Kubelet::Unknown => Some(Doubt::Unclear(Unmet::new(format!(
            "{} does not say yet whether its kubelet was ever registered",
            node.name
        )))),
    }
}

/// Why a machine does not tell whether it has etcd data. Without the time its etcd does not even prepare.
async fn unclear(systems: &Systems, node: &Node, machine: &Machine) -> Unmet {
    let words = format!("{} does not say yet whether it has etcd data", node.name);
    let unmet = match systems.clock.timeout(REQUEST_TIMEOUT, machine.stage()).await {
        Ok(Ok(status)) => status.unmet,
        Ok(Err(_)) | Err(_) => vec![],
    };
    if unmet.iter().any(|unmet| unmet.name == "time") {
        return Unmet::new(format!("{}: {}", node.name, service::no_time(&node.ntp))).coded("clock");
    }
    let Some(first) = unmet.first() else { return Unmet::new(words) };
    Unmet::new(format!("{words} (it waits: {}, {})", first.name, first.reason))
}
