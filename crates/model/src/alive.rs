//! Whether a node is dead, as far as anything says so.
//!
//! A node that does not answer may be dead, or the way to it may be broken. Only positive evidence counts: Kubernetes answered
//! and says that the node is not ready, or other machines of the cluster answer from here and this one does not. Where
//! nothing answers, nothing is known.

use std::fmt;

use crate::observed::{Api, Observed};

/// What was seen of a node and around it, at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Signs {
    /// Whether anything answered at its Talos API.
    pub answers: bool,
    /// Whether Kubernetes says Ready. `None` where Kubernetes did not answer, or does not know the node.
    pub ready: Option<bool>,
    /// How many other machines of the cluster answer.
    pub others: usize,
}

/// Why a node may not be called dead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doubt {
    /// It answers.
    Answers,
    /// Kubernetes says that it is ready.
    Ready,
    /// Nothing of the cluster answers, so that this node does not says nothing.
    NothingAnswers,
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Answers => "it answers after all",
            Self::Ready => "Kubernetes says that it is Ready",
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
        Signs { ready: Some(true), .. } => Err(Doubt::Ready),
        Signs { ready: Some(false), .. } => Ok(()),
        Signs { others: 0, .. } => Err(Doubt::NothingAnswers),
        Signs { .. } => Ok(()),
    }
}

/// The signs of a node in what was observed.
#[must_use]
pub fn signs(node: &str, observed: &Observed) -> Signs {
    let configured = |(name, machine): &(&String, &crate::observed::Machine)| {
        *name != node && machine.api == Api::Configured
    };
    let kubernetes = &observed.kubernetes;
    let known = kubernetes.nodes.get(node).filter(|_| kubernetes.answered);
    Signs {
        answers: observed.machines.get(node).is_none_or(|m| !matches!(m.api, Api::Silent { .. })),
        ready: known.map(|seen| seen.ready),
        others: observed.machines.iter().filter(configured).count(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SILENT: Signs = Signs { answers: false, ready: None, others: 0 };

    #[test]
    fn a4_only_positive_evidence_counts() {
        assert_eq!(is_dead(SILENT), Err(Doubt::NothingAnswers));
        assert_eq!(is_dead(Signs { others: 3, ..SILENT }), Ok(()));
        assert_eq!(is_dead(Signs { ready: Some(false), ..SILENT }), Ok(()));
        assert_eq!(is_dead(Signs { ready: Some(true), others: 3, ..SILENT }), Err(Doubt::Ready));
        let answers = Signs { answers: true, ready: Some(false), others: 3 };
        assert_eq!(is_dead(answers), Err(Doubt::Answers));
    }

    #[test]
    fn a4_a_node_that_was_not_asked_is_not_silent() {
        assert!(signs("w-1", &Observed::default()).answers);
    }
}
