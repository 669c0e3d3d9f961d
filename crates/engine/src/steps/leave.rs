//! Lets a control plane node leave etcd, and sees it gone from the lists of the other members.
//!
//! A member that answers leaves by itself, which also removes its data; one that does not is removed by another member, once its machine
//! is proved to be off ([`off`]). Neither is repeated blindly: after an answer that was lost, the lists are read first. A node that has
//! left would join again at its next boot, so the step behind this one stops its VM at once.

use std::time::Duration;

use futures::future::join_all;
use jiff::SignedDuration;
use model::gate::{Effect, Permit};
use model::observed::{Etcd, Member};
use talos_client::{Kind as Refused, Machine};

use crate::context::{Context, Done};
use crate::emit::Progress;
use crate::error::{Error, Kind, Result};
use crate::identify::{Identified, identify};
use crate::observe::machines;
use crate::steps::{off, permit, reboot};

/// How long the others may take to have it on their lists no more.
const GONE: SignedDuration = SignedDuration::from_secs(60);
/// Between two looks.
const INTERVAL: Duration = Duration::from_secs(2);

/// Takes the node's member out of etcd. One that is gone already is as good.
pub(super) async fn run(context: &Context, permit: &Permit, node: &str, progress: &Progress) -> Result<Done> {
    permit::check(permit, node, Effect::Removal)?;
    let others = Others::ask(context, node).await;
    let Some(member) = others.member(node)? else { return Ok(Done::default()) };
    let id = u64::from_str_radix(&member.id, 16).map_err(|e| attempt(node).because(e))?;
    // One that has no VM any more is known by its member only.
    let machine = match context.snapshot.node(node) {
        Ok(known) => match Box::pin(identify(&context.systems, known, context.snapshot.access()?)).await {
            Identified::Configured(machine) => Some(machine),
            _ => None,
        },
        Err(_) => None,
    };
    if machine.is_none() {
        Box::pin(off::proved(context, node, &member.peers, progress)).await?;
    }
    // From here on its unit goes on to the end: what has left, or may have, is stopped.
    context.restarted().insert(node.into());
    let left = match &machine {
        Some(machine) => {
            progress.note("leaving etcd");
            let left = machine.etcd_leave().await;
            match left {
                // Whether it left, the others say; what did not answer may not be asked again.
                Err(error) if reboot::is_lost(&error) => match gone(context, node, progress).await {
                    Ok(()) => return Ok(Done::default()),
                    Err(_) => remove(context, permit, node, id).await,
                },
                other => other.map_err(|e| refused(node, e)),
            }
        }
        None => {
            progress.note("it is off: another member removes it from etcd");
            remove(context, permit, node, id).await
        }
    };
    left?;
    gone(context, node, progress).await.map(|()| Done::default())
}

/// Has another member remove it.
async fn remove(context: &Context, permit: &Permit, node: &str, id: u64) -> Result<()> {
    permit::check(permit, node, Effect::Removal)?;
    let others = Others::ask(context, node).await;
    if others.member(node)?.is_none() {
        return Ok(());
    }
    let Some((_, machine, _)) = others.0.first() else { return Err(unknown(node)) };
    match machine.etcd_remove_member(id).await {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == Refused::NotFound => Ok(()),
        // The lists tell whether it took effect.
        Err(error) if reboot::is_lost(&error) => Ok(()),
        Err(error) => Err(refused(node, error)),
    }
}

/// Waits until no other member lists it.
async fn gone(context: &Context, node: &str, progress: &Progress) -> Result<()> {
    let clock = &context.systems.clock;
    let began = clock.now();
    loop {
        let others = Others::ask(context, node).await;
        let listed = others.listing(node);
        if others.is_majority() && listed.is_empty() {
            return Ok(());
        }
        if clock.now().duration_since(began) >= GONE {
            return Err(match listed.is_empty() {
                true => unknown(node),
                false => attempt(node).coded("etcd-member-left").hint(format!(
                    "it is still on the member list of {}; nothing else was removed. Compare `talosctl etcd members` of all control \
                     plane nodes, then run the command again",
                    listed.join(", ")
                )),
            });
        }
        progress.note("waiting until it is gone from the lists of all other members");
        clock.sleep(INTERVAL).await;
    }
}

/// The other members that answer: the node, its machine, and its own list.
struct Others(Vec<(String, Machine, Vec<Member>)>);

impl Others {
    async fn ask(context: &Context, node: &str) -> Self {
        let Ok(access) = context.snapshot.access() else { return Self(vec![]) };
        let voters = context.snapshot.voters().into_iter().filter(|voter| voter.name != *node);
        let asked = voters.map(|voter| async move {
            let Identified::Configured(machine) = Box::pin(identify(&context.systems, &voter, access)).await
            else {
                return None;
            };
            match machines::etcd(&context.systems, &voter, &machine).await {
                Etcd::Member { members: Some(members), .. } => {
                    Some((voter.name.to_string(), machine, members))
                }
                _ => None,
            }
        });
        Self(join_all(asked).await.into_iter().flatten().collect())
    }

    /// The names of those that list the node.
    fn listing(&self, node: &str) -> Vec<String> {
        let lists =
            |(_, _, members): &&(String, Machine, Vec<Member>)| members.iter().any(|m| is_of(m, node));
        self.0.iter().filter(lists).map(|(name, ..)| name.clone()).collect()
    }

    /// The member of the node. `None` where every other one says that it is gone; what too few say is not known.
    fn member(&self, node: &str) -> Result<Option<&Member>> {
        let mut listed = self.0.iter().flat_map(|(_, _, members)| members);
        match listed.find(|member| is_of(member, node)) {
            Some(member) => Ok(Some(member)),
            None if self.is_majority() => Ok(None),
            None => Err(unknown(node)),
        }
    }

    /// Whether those that answer are a majority of the members that they list: what these have agreed on, the others learn.
    fn is_majority(&self) -> bool {
        let all = self.0.iter().map(|(_, _, members)| members.len()).max().unwrap_or(0);
        all > 0 && self.0.len() * 2 > all
    }
}

fn is_of(member: &Member, node: &str) -> bool {
    member.name.split('.').next() == Some(node)
}

fn attempt(node: &str) -> Error {
    Error::systems(format!("could not remove {node} from etcd"))
}

fn unknown(node: &str) -> Error {
    attempt(node)
        .coded("etcd-no-quorum")
        .hint("too few other members of etcd answer to know; `talosmith health` says what they lack. Nothing else was removed")
}

fn refused(node: &str, error: talos_client::Error) -> Error {
    Error::new(Kind::Systems, format!("could not remove {node} from etcd"))
        .hint("etcd takes no change now; `talosmith health` says what its members lack. Nothing else was removed")
        .because(error)
}
