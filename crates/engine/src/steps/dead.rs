//! What is proved again directly before a node that is replaced loses its VM.
//!
//! Between the plan and this moment somebody may have thought for long. So the node is watched: for two minutes, at every look,
//! something must show that it is dead, and nothing that it lives. Then each other control plane node is asked for its list of
//! members, and etcd must have its quorum without the node. The rules are in [`model::alive`] and [`model::quorum`].

use std::time::Duration;

use futures::future::join_all;
use jiff::SignedDuration;
use model::alive::{self, Doubt, Says, Signs};
use model::blueprint::{Node, Role};
use model::observed::Etcd;
use model::quorum::{self, View};

use crate::context::Context;
use crate::emit::Progress;
use crate::error::{Error, Kind, Result};
use crate::identify::{Identified, identify};
use crate::kubernetes::Kubernetes;
use crate::observe::machines;

/// For so long a node must be dead at every look.
const WATCH: SignedDuration = SignedDuration::from_secs(120);
/// After this long without evidence it is given up.
const TIMEOUT: SignedDuration = SignedDuration::from_mins(10);
const INTERVAL: Duration = Duration::from_secs(10);
/// So many other machines are asked whether they answer.
const OTHERS: usize = 5;

/// The node is dead, as far as anything says, and was for two minutes; and etcd does not need it.
pub(super) async fn still_dead(context: &Context, node: &Node, progress: &Progress) -> Result<()> {
    // Before the watch, too: where etcd needs the node, two minutes change nothing.
    keeps_quorum(context, node).await?;
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
                return Err(Error::new(Kind::Refused, format!("{} is not replaced: {doubt}", node.name))
                    .hint("run the command again: it observes the cluster again and continues"));
            }
        }
        clock.sleep(INTERVAL).await;
    }
    keeps_quorum(context, node).await
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

/// etcd has its quorum without a control plane node, by what every other one says now.
pub(super) async fn keeps_quorum(context: &Context, node: &Node) -> Result<()> {
    let access = context.snapshot.access()?;
    let others = context.snapshot.blueprint.control_planes().filter(|other| other.name != node.name);
    let asked = others.map(|other| async move {
        let Identified::Configured(machine) = identify(&context.systems, other, access).await else {
            return None;
        };
        match machines::etcd(&context.systems, other, &machine).await {
            Etcd::Member { id, members: Some(members), .. } => {
                Some(View { node: other.name.clone(), id, members })
            }
            Etcd::Member { members: None, .. } | Etcd::Data | Etcd::Empty | Etcd::Unknown => None,
        }
    });
    let views: Vec<View> = join_all(asked).await.into_iter().flatten().collect();
    // The file may call a voter a worker; etcd's members know better.
    if node.role == Role::Worker && !quorum::is_member(&node.name, &views) {
        return Ok(());
    }
    quorum::may_remove(&node.name, &views).map_err(|blocker| {
        Error::new(Kind::Refused, format!("{} is not replaced: {blocker}", node.name)).hint(blocker.hint())
    })
}
