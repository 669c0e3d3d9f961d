//! Whether a node is dead, as far as anything says so.
//!
//! A node that does not answer may be dead, or the way to it may be broken. Only positive evidence counts: Kubernetes answered
//! and says that the node is not ready; or it does not have the node, and other machines of the cluster answer from here while
//! this one does not. Where Kubernetes does not answer, it might call the node ready, so nothing is known.

use std::fmt;

use crate::names::NodeName;
use crate::observed::{Api, Observed};

/// What was seen of a node and around it, at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Signs {
    /// Whether anything answered at its Talos API.
    pub answers: bool,
    /// What Kubernetes says of it.
    pub kubernetes: Says,
    /// How many other machines of the cluster answer.
    pub others: usize,
}

/// What Kubernetes says of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Says {
    /// It did not answer.
    Unknown,
    /// It has no such node.
    NoNode,
    /// The node is ready, or not.
    Ready(bool),
}

/// Why a node may not be called dead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doubt {
    Answers,
    /// Kubernetes says that it is ready.
    Ready,
    /// Kubernetes does not answer, and may call it ready.
    NoKubernetes,
    /// Nothing of the cluster answers, so that this node does not says nothing.
    NothingAnswers,
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Answers => "it answers after all",
            Self::Ready => "Kubernetes says that it is Ready",
            Self::NoKubernetes => {
                "Kubernetes does not answer from here, so nothing shows whether the node is Ready"
            }
            Self::NothingAnswers => {
                "neither Kubernetes nor any other machine of the cluster answers from here, so nothing shows that it is dead"
            }
        })
    }
}

/// Whether a node may be called dead.
///
/// # Errors
///
/// What speaks against it.
pub fn is_dead(signs: Signs) -> Result<(), Doubt> {
    match signs {
        Signs { answers: true, .. } => Err(Doubt::Answers),
        Signs { kubernetes: Says::Ready(true), .. } => Err(Doubt::Ready),
        Signs { kubernetes: Says::Ready(false), .. } => Ok(()),
        Signs { others: 0, .. } => Err(Doubt::NothingAnswers),
        Signs { kubernetes: Says::Unknown, .. } => Err(Doubt::NoKubernetes),
        Signs { kubernetes: Says::NoNode, .. } => Ok(()),
    }
}

/// The signs of a node in what was observed.
#[must_use]
pub fn signs(node: &str, observed: &Observed) -> Signs {
    let configured = |(name, machine): &(&NodeName, &crate::observed::Machine)| {
        *name != node && machine.api == Api::Configured
    };
    let kubernetes = match &observed.kubernetes {
        seen if seen.answered => seen.nodes.get(node).map_or(Says::NoNode, |seen| Says::Ready(seen.ready)),
        _ => Says::Unknown,
    };
    Signs {
        answers: observed.machines.get(node).is_none_or(|m| !matches!(m.api, Api::Unresponsive { .. })),
        kubernetes,
        others: observed.machines.iter().filter(configured).count(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SILENT: Signs = Signs { answers: false, kubernetes: Says::Unknown, others: 0 };

    #[test]
    fn a4_only_positive_evidence_counts() {
        let says = |kubernetes| Signs { kubernetes, others: 3, ..SILENT };
        assert_eq!(is_dead(SILENT), Err(Doubt::NothingAnswers));
        assert_eq!(is_dead(says(Says::Unknown)), Err(Doubt::NoKubernetes));
        assert_eq!(is_dead(says(Says::Ready(true))), Err(Doubt::Ready));
        assert_eq!(is_dead(says(Says::Ready(false))), Ok(()));
        assert_eq!(is_dead(says(Says::NoNode)), Ok(()));
        assert_eq!(is_dead(Signs { kubernetes: Says::Ready(false), ..SILENT }), Ok(()));
        assert_eq!(is_dead(Signs { kubernetes: Says::NoNode, ..SILENT }), Err(Doubt::NothingAnswers));
        assert_eq!(is_dead(Signs { answers: true, ..says(Says::Ready(false)) }), Err(Doubt::Answers));
    }

    #[test]
    fn a4_a_node_that_was_not_asked_is_not_silent() {
        assert!(signs("w-1", &Observed::default()).answers);
    }
}
