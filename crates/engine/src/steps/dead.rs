//! What is proved again directly before a node that is replaced loses its VM.
//!
//! Between the plan and this moment much time may have passed. So the node is watched: for two minutes, at every look,
//! something must show that it is dead, and nothing that it lives ([`model::alive`]). Then the gate is asked, on a fresh view, for a permit
//! to remove it: etcd must have its quorum without the node. Only that permit stops and deletes its VM.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use jiff::SignedDuration;
use model::alive::{self, Doubt, Says, Signs};
use model::blueprint::Node;
use model::gate::{Blocker, Permit};

use crate::context::Context;
use crate::emit::Progress;
use crate::error::{Error, Kind, Result};
use crate::gate;
use crate::identify::{Identified, identify};
use crate::kubernetes::Kubernetes;

/// For so long a node must be dead at every look.
const WATCH: SignedDuration = SignedDuration::from_secs(120);
/// After this long without evidence it is given up.
const TIMEOUT: SignedDuration = SignedDuration::from_mins(10);
const INTERVAL: Duration = Duration::from_secs(10);
/// So many other machines are asked whether they answer.
const OTHERS: usize = 5;

/// The node is dead, as far as anything says, and was for two minutes; and etcd does not need it. Where it is not, it is not `acted` on.
pub(super) async fn watch(
    context: &Context,
    node: &Node,
    acted: &str,
    progress: &Progress,
) -> Result<Arc<Permit>> {
    // Before the watch, too: where etcd needs the node, two minutes change nothing.
    may_go(context, node, progress).await?;
    let clock = &context.systems.clock;
    let began = clock.now();
    let mut since = None;
    progress.note("watching it for two minutes, whether it is really dead");
    loop {
        let doubt = alive::is_dead(signs(context, node).await).err();
        let now = clock.now();
        match doubt {
            None if now.duration_since(*since.get_or_insert(now)) >= WATCH => break,
            None => {}
            Some(doubt @ (Doubt::NothingAnswers | Doubt::NoKubernetes))
                if now.duration_since(began) < TIMEOUT =>
            {
                since = None;
                progress.note(doubt.to_string());
            }
            Some(doubt) => {
                return Err(Error::new(Kind::Refused, format!("{} is not {acted}: {doubt}", node.name))
                    .hint("run the command again: it observes the cluster again and continues"));
            }
        }
        clock.sleep(INTERVAL).await;
    }
    may_go(context, node, progress).await
}

/// What is seen of the node and around it now.
async fn signs(context: &Context, node: &Node) -> Signs {
    let (systems, blueprint) = (&context.systems, &context.snapshot.blueprint);
    let Ok(access) = context.snapshot.access() else {
        return Signs { answers: false, kubernetes: Says::Unknown, others: 0 };
    };
    let others = blueprint.in_order().into_iter().filter(|other| other.name != node.name).take(OTHERS);
    let others = join_all(others.map(|other| identify(systems, other, access)));
    let kubernetes = async {
        let client = Kubernetes::new(systems, &blueprint.endpoint, &access.kubernetes).ok()?;
        let nodes = client.nodes().await.ok()?;
        Some(nodes.get(&node.name).map_or(Says::NoNode, |seen| Says::Ready(seen.ready)))
    };
    let (seen, others, says) =
        futures::join!(Box::pin(identify(systems, node, access)), Box::pin(others), Box::pin(kubernetes));
    let configured = |other: &&Identified| matches!(other, Identified::Configured(_));
    Signs {
        answers: !matches!(seen, Identified::Unresponsive(_)),
        kubernetes: says.unwrap_or(Says::Unknown),
        others: others.iter().filter(configured).count(),
    }
}

/// The permit to remove a dead node, by what every other one says now.
pub(super) async fn may_go(context: &Context, node: &Node, progress: &Progress) -> Result<Arc<Permit>> {
    Box::pin(gate::remove_dead(context, &node.name, progress)).await.map_err(|blockers| {
        let why: Vec<String> = blockers.iter().map(ToString::to_string).collect();
        let what = format!("{} is not replaced: {}", node.name, why.join("; "));
        Error::new(Kind::Refused, what).hint(blockers.first().map_or("run the command again", Blocker::hint))
    })
}
