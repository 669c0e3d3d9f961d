//! Waits until a node has its place: running and ready by its own word, a voter in etcd if it is a control plane, and
//! ready in Kubernetes.

use std::time::Duration;

use model::blueprint::{Node, Role};
use model::observed::{Api, Etcd};

use crate::apply::Context;
use crate::emit::Progress;
use crate::error::{Error, Result};
use crate::health::likely;
use crate::kubernetes::Kubernetes;
use crate::observe::machines;
use crate::steps::{Done, configure};

const PATIENCE: Duration = Duration::from_secs(15 * 60);
const PAUSE: Duration = Duration::from_secs(3);

pub(super) async fn run(context: &Context, node: &Node, progress: &Progress) -> Result<Done> {
    let world = &context.world;
    let access = context.look.access()?;
    let kubernetes = Kubernetes::new(world, &context.look.blueprint.endpoint, &access.kubernetes)?;
    let last = std::sync::Mutex::new("nothing was seen of it".to_owned());
    let waiting = async {
        loop {
            let missing = missing(context, node, &kubernetes).await;
            let Some(missing) = missing else { return };
            progress.note(missing.clone());
            if let Ok(mut last) = last.lock() {
                *last = missing;
            }
            world.clock.sleep(PAUSE).await;
        }
    };
    if world.clock.timeout(PATIENCE, waiting).await.is_err() {
        let last = last.into_inner().unwrap_or_default();
        return Err(Error::world(format!(
            "{} did not join within {} minutes: {last}",
            node.name,
            PATIENCE.as_secs() / 60
        ))
        .remedy("`talosmith status` shows where it stands; running the command again goes on waiting"));
    }
    Ok(Done::default())
}

/// What the node still lacks, in words.
async fn missing(context: &Context, node: &Node, kubernetes: &Kubernetes) -> Option<String> {
    let access = context.look.access().ok()?;
    let machine = machines::look(&context.world, node, access, None).await;
    match &machine.api {
        Api::Configured => {}
        Api::Maintenance => {
            // A configuration can be lost between the machine's answer and its disk.
            let sent = configure::again(context, node).await;
            let words = "waits in maintenance: it lost its configuration";
            return Some(match sent {
                Ok(true) => format!("{words}; sending it again"),
                Ok(false) => words.to_owned(),
                Err(error) => format!("{words}, and {error}"),
            });
        }
        Api::Silent { why } if node.role == Role::Worker => {
            return Some(format!("waits for a control plane to sign its certificate ({why})"));
        }
        Api::Silent { why } => return Some(format!("does not answer ({why})")),
        Api::Stranger { why } => return Some(format!("its address answers, but {why}")),
    }
    if node.role == Role::ControlPlane {
        match &machine.etcd {
            Etcd::Member { learner: false, .. } => {}
            Etcd::Member { learner: true, .. } => return Some("etcd: still a learner".to_owned()),
            Etcd::Empty | Etcd::Unknown => return Some("etcd: not a member yet".to_owned()),
        }
    }
    let settled = context.look.blueprint.is_settled(machine.ready, machine.unmet.iter());
    if machine.stage.as_deref() != Some("running") || !settled {
        let stage = machine.stage.as_deref().unwrap_or("unknown");
        return Some(match machine.unmet.first() {
            Some(unmet) if unmet.starts_with("nodeReady") => {
                format!("{stage}: {unmet}{}", likely(&context.look.blueprint))
            }
            Some(unmet) => format!("{stage}: {unmet}"),
            None => stage.to_owned(),
        });
    }
    match kubernetes.nodes().await {
        Err(_) => Some("waits for Kubernetes to answer".to_owned()),
        Ok(nodes) => match nodes.get(&node.name) {
            None => Some("not registered in Kubernetes yet".to_owned()),
            // Without a network plug-in a node is as far as it can be once it is registered.
            Some(n) if !n.ready && !context.look.blueprint.awaits_network() => {
                let likely = likely(&context.look.blueprint);
                Some(format!("registered in Kubernetes, not ready yet{likely}"))
            }
            Some(_) => None,
        },
    }
}
