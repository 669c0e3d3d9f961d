//! Whether etcd keeps its quorum when a control plane node is removed.
//!
//! The size of etcd is what its members say, never what the file says: a member that is off, or that the file does not name
//! any more, still counts. Each member that answers gives its own list; a member that does not answer counts as lost.
//! The plan asks this, and the engine asks again, on fresh answers, directly before it stops or deletes a VM.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::names::NodeName;
use crate::observed::{Etcd, Machine, Member};

mod admits;
mod standing;

pub use admits::{Closed, admits};
pub use standing::{Quorum, Standing, standing};

/// What one member that answers says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct View {
    /// The name of the node in the file.
    pub node: NodeName,
    /// Its own member ID in hex.
    pub id: String,
    /// Its own member list.
    pub members: Vec<Member>,
}

/// Why a control plane node may not be removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Blocker {
    /// No other voting member gives its list. Without a quorum none does.
    NoVoter,
    /// Two members have different lists.
    Disagree(NodeName, NodeName),
    /// Another member is being added, and an addition and a removal must not overlap.
    Learner(String),
    /// Those that answer and stay are no majority.
    NoMajority {
        /// Voting members that answer and stay.
        stay: usize,
        /// All voting members.
        voters: usize,
    },
}

impl fmt::Display for Blocker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoVoter => f.write_str(
                "no other voting member of etcd gives its list of members: they do not answer, or etcd has no quorum",
            ),
            Self::Disagree(one, other) => {
                write!(f, "{one} and {other} have different lists of etcd's members")
            }
            Self::Learner(name) => write!(f, "{name} is still joining etcd"),
            Self::NoMajority { stay, voters } => {
                write!(f, "only {stay} of {voters} voting members of etcd answer and stay, which is no majority")
            }
        }
    }
}

impl Blocker {
    /// What the operator can do.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        match self {
            Self::NoVoter | Self::NoMajority { .. } => {
                "bring the other control plane nodes back first; without a quorum etcd takes no new member"
            }
            Self::Disagree(..) => {
                "compare `talosctl etcd members` of all control plane nodes; remove a member that does not exist any more"
            }
            Self::Learner(_) => "wait until it votes, then run the command again",
        }
    }
}

/// Whether the node may be stopped and deleted, given what the members that answer say.
///
/// # Errors
///
/// The reason against it.
pub fn may_remove(node: &str, views: &[View]) -> Result<(), Blocker> {
    // Itself it has no say: it is about to be gone.
    let views: Vec<&View> = views.iter().filter(|view| view.node != node).collect();
    let votes = |view: &&View| view.members.iter().any(|m| m.id == view.id && !m.learner);
    let Some(first) = views.iter().copied().find(|view| votes(view)) else { return Err(Blocker::NoVoter) };
    for view in &views {
        if list(view) != list(first) {
            return Err(Blocker::Disagree(first.node.clone(), view.node.clone()));
        }
    }
    if let Some(learner) = first.members.iter().find(|m| m.learner && !m.is_of(node)) {
        let name = if learner.name.is_empty() { "a new member" } else { &learner.name };
        return Err(Blocker::Learner(name.to_owned()));
    }
    let voters = first.members.iter().filter(|m| !m.learner);
    let (gone, rest): (Vec<&Member>, Vec<&Member>) = voters.partition(|m| m.is_of(node));
    let answered: BTreeSet<&str> = views.iter().map(|view| view.id.as_str()).collect();
    let stay = rest.iter().filter(|m| answered.contains(m.id.as_str())).count();
    let before = gone.len() + rest.len();
    // Before, or etcd cannot even commit the removal; after, or the next write fails.
    match stay * 2 > before && stay * 2 > rest.len() {
        true => Ok(()),
        false => Err(Blocker::NoMajority { stay, voters: before }),
    }
}

/// Whether any member lists the node, whatever the file calls it.
#[must_use]
pub fn is_member(node: &str, views: &[View]) -> bool {
    views.iter().flat_map(|view| &view.members).any(|member| member.is_of(node))
}

/// The list by ID, without addresses: a member may change those at any time.
fn list(view: &View) -> BTreeMap<&str, (&str, bool)> {
    view.members.iter().map(|m| (m.id.as_str(), (m.name.as_str(), m.learner))).collect()
}

/// The views in what was observed of machines, be they in the file or not: a member votes in either case.
#[must_use]
pub fn views(machines: &BTreeMap<NodeName, Machine>) -> Vec<View> {
    let view = |(node, machine): (&NodeName, &Machine)| match &machine.etcd {
        Etcd::Member { id, members: Some(members), .. } => {
            Some(View { node: node.clone(), id: id.clone(), members: members.clone() })
        }
        _ => None,
    };
    machines.iter().filter_map(view).collect()
}

/// How many failures etcd tolerates with so many healthy members among its voters, in words; `None` without a quorum.
#[must_use]
pub fn tolerance(healthy: usize, voters: usize) -> Option<String> {
    let tolerates = match healthy.checked_sub(voters / 2 + 1)? {
        0 => "no failure".to_owned(),
        1 => "1 failure".to_owned(),
        many => format!("{many} failures"),
    };
    let members = if voters == 1 { "voting member" } else { "voting members" };
    Some(format!("etcd then has {voters} {members} and tolerates {tolerates}"))
}

#[cfg(test)]
mod tests;
