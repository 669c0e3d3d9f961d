//! Saves a snapshot of etcd, before something that cannot be undone.
//!
//! A snapshot is what one member has. So the one is asked that has applied the most and does not lead: it has the least to do.

use model::gate::ClusterView;
use model::names::NodeName;

use crate::context::{Context, Done};
use crate::emit::Progress;
use crate::error::{Error, Result};
use crate::gate;
use crate::snapshots::SnapshotOf;
use crate::steps::boot;

/// Takes a snapshot and keeps it.
pub(super) async fn run(context: &Context, progress: &Progress) -> Result<Done> {
    let attempt = || Error::systems("could not save a snapshot of etcd");
    let view = Box::pin(gate::view(context)).await;
    let name = source(&view).ok_or_else(|| {
        attempt()
            .coded("etcd-no-member")
            .hint("no member of etcd answers; `talosmith health` says what they lack")
    })?;
    let node = context.snapshot.voters().into_iter().find(|voter| voter.name == name);
    let node = node.ok_or_else(attempt)?;
    let machine = boot::configured(context, &node, attempt).await?;
    let of = SnapshotOf {
        cluster: context.snapshot.blueprint.cluster.clone(),
        node: node.name.to_string(),
        at: context.systems.clock.now(),
    };
    progress.note(format!("taking a snapshot from {}", node.name));
    let mut new = context.snapshot.snapshots().create(&of).await?;
    let checked = machine.etcd_snapshot(&mut new).await.map_err(|e| {
        attempt().hint("the incomplete snapshot was discarded; run the command again").because(e)
    })?;
    let place = new.keep(checked).await?;
    progress.note(format!("saved to {place}"));
    Ok(Done::default())
}

/// The member that is asked: the one that has applied the most, of those that do not lead, if there are others.
fn source(view: &ClusterView) -> Option<NodeName> {
    let leads = |id: &String| view.members.values().any(|member| member.leader.as_ref() == Some(id));
    let best = view.members.iter().max_by_key(|(_, member)| (!leads(&member.id), member.applied))?;
    Some(best.0.clone())
}

#[cfg(test)]
mod tests {
    use model::gate::MemberView;

    use super::*;

    fn view(applied: &[(&str, u64)], leader: &str) -> ClusterView {
        let member = |(name, applied): &(&str, u64)| {
            let view = MemberView {
                id: (*name).to_owned(),
                leader: Some(leader.to_owned()),
                applied: *applied,
                ..MemberView::default()
            };
            ((*name).into(), view)
        };
        ClusterView { members: applied.iter().map(member).collect(), ..ClusterView::default() }
    }

    #[test]
    fn the_follower_that_has_the_most_is_asked() {
        assert_eq!(source(&view(&[("a", 9), ("b", 7), ("c", 8)], "a")).as_deref(), Some("c"));
        assert_eq!(source(&view(&[("a", 9)], "a")).as_deref(), Some("a"), "there is no other");
        assert_eq!(source(&ClusterView::default()), None);
    }
}
