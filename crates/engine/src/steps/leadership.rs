//! Moves the leadership of etcd from a node to another healthy member, before the node goes down.
//!
//! Talos hands it to the first other member in the list, healthy or not, and answers before anybody has voted. So the others are asked who
//! leads now. Where that is a member that is not healthy, it is asked to hand the leadership on, once.

use std::time::Duration;

use jiff::SignedDuration;
use model::blueprint::Node;
use model::gate::{ClusterView, Effect, MemberView, Permit};
use model::names::NodeName;

use crate::context::{Context, Done};
use crate::emit::Progress;
use crate::error::{Error, Result};
use crate::gate;
use crate::steps::{boot, permit};

/// How long an election may take.
const ELECTION: SignedDuration = SignedDuration::from_secs(20);
/// Between two looks.
const INTERVAL: Duration = Duration::from_secs(2);
/// How often a leader is asked to hand over.
const TRIES: u32 = 2;

/// Makes another healthy member lead. A node that does not lead has nothing to hand over.
pub(super) async fn run(
    context: &Context,
    permit: &Permit,
    node: &Node,
    progress: &Progress,
) -> Result<Done> {
    permit::check(permit, &node.name, Effect::Absence)?;
    let (mut tries, mut sick) = (0, None);
    loop {
        let leads = match settled(context, node).await {
            Leader::Healthy | Leader::OnlyMember => return Ok(Done::default()),
            Leader::Node => node.name.clone(),
            Leader::Sick(other) => {
                sick = Some(other.clone());
                other
            }
            Leader::Unknown => {
                return Err(attempt(node)
                    .coded("etcd-no-leader")
                    .hint("the other members of etcd do not agree on a leader; `talosmith health` says what they lack"));
            }
        };
        if tries == TRIES {
            return Err(match sick {
                Some(other) => attempt(node).coded("etcd-unhealthy").hint(format!(
                    "{other} would lead etcd and is not healthy; bring it back, then run the command again"
                )),
                None => attempt(node)
                    .coded("etcd-leader")
                    .hint("it still leads; `talosctl etcd status` shows how the members stand"),
            });
        }
        tries += 1;
        progress.note(format!("{leads} hands the leadership of etcd over"));
        let leader = context.snapshot.voters().into_iter().find(|voter| voter.name == leads);
        let leader =
            leader.ok_or_else(|| attempt(node).hint(format!("{leads}, which leads, is not in the file")))?;
        let machine = boot::configured(context, &leader, || attempt(node)).await?;
        // Where the answer is lost, the next look tells who leads.
        if let Err(error) = machine.etcd_forfeit_leadership().await
            && tries == TRIES
        {
            return Err(attempt(node).because(error));
        }
    }
}

/// Who leads.
#[derive(Debug, PartialEq, Eq)]
enum Leader {
    /// The node that is about to go down.
    Node,
    /// Another member, which is healthy.
    Healthy,
    /// Another member, which is not, or does not answer.
    Sick(NodeName),
    /// There is no other.
    OnlyMember,
    /// The others do not agree.
    Unknown,
}

/// Who leads, once the members agree; an election takes its time.
async fn settled(context: &Context, node: &Node) -> Leader {
    let clock = &context.systems.clock;
    let began = clock.now();
    loop {
        let leader = leader(&Box::pin(gate::view(context)).await, &node.name);
        if leader != Leader::Unknown || clock.now().duration_since(began) >= ELECTION {
            return leader;
        }
        clock.sleep(INTERVAL).await;
    }
}

/// Who leads, by what the members other than the node say. Where there is no other, by what it says itself.
fn leader(view: &ClusterView, node: &str) -> Leader {
    let lists = view.members.values().map(|member| &member.members);
    if view.members.contains_key(node) && lists.into_iter().all(|members| members.len() == 1) {
        return Leader::OnlyMember;
    }
    let mut says = view.members.iter().filter(|(name, _)| *name != node).map(|(_, member)| &member.leader);
    let Some(Some(leader)) = says.next() else { return Leader::Unknown };
    if says.any(|other| other.as_ref() != Some(leader)) {
        return Leader::Unknown;
    }
    let is_well = |member: &MemberView| member.healthy && member.errors.is_empty();
    match view.members.iter().find(|(_, member)| member.id == *leader) {
        Some((name, _)) if name == node => Leader::Node,
        Some((_, member)) if is_well(member) => Leader::Healthy,
        Some((name, _)) => Leader::Sick(name.clone()),
        None => {
            let mut listed = view.members.values().flat_map(|member| &member.members);
            let name = listed.find(|member| member.id == *leader).map(|member| member.name.clone());
            match name {
                Some(name) if name == node => Leader::Node,
                Some(name) => Leader::Sick(name.into()),
                None => Leader::Unknown,
            }
        }
    }
}

fn attempt(node: &Node) -> Error {
    Error::systems(format!("could not move the leadership of etcd from {} to another member", node.name))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use model::observed::Member;

    use super::*;

    /// Three members, of which `leads` leads by what each says, and `sick` is not healthy.
    fn view(leads: [&str; 3], sick: &str) -> ClusterView {
        let names = ["a", "b", "c"];
        let list: Vec<Member> = names
            .iter()
            .map(|name| Member {
                id: format!("id-{name}"),
                name: (*name).into(),
                learner: false,
                peers: vec![],
            })
            .collect();
        let member = |(name, leads): (&str, &str)| {
            let view = MemberView {
                id: format!("id-{name}"),
                members: list.clone(),
                leader: Some(format!("id-{leads}")).filter(|_| !leads.is_empty()),
                healthy: name != sick,
                ..MemberView::default()
            };
            (name.into(), view)
        };
        let members: BTreeMap<_, _> = names.into_iter().zip(leads).map(member).collect();
        ClusterView { members, ..ClusterView::default() }
    }

    #[test]
    fn the_others_say_who_leads() {
        assert_eq!(leader(&view(["a", "a", "a"], ""), "a"), Leader::Node);
        assert_eq!(leader(&view(["b", "b", "b"], ""), "a"), Leader::Healthy);
        // What the node says of itself does not count.
        assert_eq!(leader(&view(["a", "b", "b"], ""), "a"), Leader::Healthy);
        assert_eq!(leader(&view(["b", "b", "b"], "b"), "a"), Leader::Sick("b".into()));
        assert_eq!(leader(&view(["b", "b", "c"], ""), "a"), Leader::Unknown);
        assert_eq!(leader(&view(["b", "", ""], ""), "a"), Leader::Unknown);
        assert_eq!(leader(&ClusterView::default(), "a"), Leader::Unknown);
    }

    #[test]
    fn a_leader_that_does_not_answer_is_not_healthy() {
        let mut view = view(["b", "b", "b"], "");
        view.members.remove("b");
        assert_eq!(leader(&view, "a"), Leader::Sick("b".into()));
    }
}
