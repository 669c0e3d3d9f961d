//! A worker whose port is closed waits for a control plane node that signs its certificate. What keeps those from it is the main cause.

use futures::future::join_all;
use model::blueprint::Node;
use model::service;

use crate::context::Context;
use crate::error::Error;
use crate::identify::{Identified, identify};
use crate::systems::REQUEST_TIMEOUT;
use crate::unmet::Unmet;

/// The code of a machine that does not answer.
const CODE: &str = "machine-unavailable";

/// What a control plane node says of itself.
enum Signer {
    /// It has no time, and signs nothing without.
    NoTime,
    Runs,
    /// It does not run, in words.
    Not(String),
}

/// Why nothing signs a worker's certificate.
pub(super) async fn unsigned(context: &Context, unmet: Unmet) -> Unmet {
    let signers: Vec<&Node> = context.snapshot.blueprint.control_planes().collect();
    let seen = join_all(signers.iter().map(|node| Box::pin(ask(context, node)))).await;
    let seen = || signers.iter().zip(&seen);
    if let Some((node, _)) = seen().find(|(_, signer)| matches!(signer, Signer::NoTime)) {
        let why = service::no_time(&node.ntp);
        return Unmet::new(format!("waits for {} to sign its certificate: {why}", node.name)).coded("clock");
    }
    let not: Vec<String> = seen()
        .filter_map(|(node, signer)| match signer {
            Signer::Not(why) => Some(format!("{}: {why}", node.name)),
            Signer::NoTime | Signer::Runs => None,
        })
        .collect();
    let waits = "waits for a control plane node to sign its certificate";
    let words = match not.len() == signers.len() {
        true => format!("{waits}, and none runs yet ({})", not.join("; ")),
        false => format!("{waits} ({})", unmet.words),
    };
    Unmet { words, ..unmet }
}

async fn ask(context: &Context, node: &Node) -> Signer {
    let systems = &context.systems;
    let Ok(access) = context.snapshot.access() else { return Signer::Not("it cannot be asked".to_owned()) };
    let machine = match identify(systems, node, access).await {
        Identified::Configured(machine) => machine,
        Identified::Maintenance(_) => return Signer::Not("it has no configuration yet".to_owned()),
        Identified::Unresponsive(_) => return Signer::Not("it does not answer".to_owned()),
        Identified::ForeignMachine { .. } | Identified::OtherKeys { .. } => {
            return Signer::Not("another machine answers at its address".to_owned());
        }
    };
    match systems.clock.timeout(REQUEST_TIMEOUT, machine.stage()).await {
        Ok(Ok(status)) if status.unmet.iter().any(|unmet| unmet.name == "time") => Signer::NoTime,
        _ => Signer::Runs,
    }
}

/// The end of a wait for a certificate that nothing signs in this run.
pub(super) fn never(node: &Node, why: &str) -> Error {
    Error::systems(format!(
        "{} waits for a control plane node to sign its certificate, and no control plane node runs in this run: {why}",
        node.name
    ))
    .coded(CODE)
    .hint("correct that first; the next run then continues with this node")
}
