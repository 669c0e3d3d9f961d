//! What a run knows of the identities of machines and of their VMs, and what of it the record says already.

use std::collections::BTreeMap;

use model::mark::RecordState;
use uuid::Uuid;

/// What the record says of nodes, by their names.
type ByNode = BTreeMap<String, String>;

/// What whatever is written next carries: the lease is renewed every few seconds, and given back at the end.
#[derive(Debug, Default)]
pub(super) struct Identities {
    /// Machines that this run gave the cluster's keys, each with what it was known by where nothing proved it.
    given: BTreeMap<String, Option<String>>,
    /// Machines whose proof failed in this run, each with what was seen.
    doubted: ByNode,
    /// Generations of control plane VMs that this run created or found to be as the file says.
    generations: BTreeMap<String, Uuid>,
    /// The nodes that the record names as unproved and as doubted, as it was read or written last. `None` before that.
    listed: Option<(ByNode, ByNode)>,
}

impl Identities {
    /// A machine is about to receive the cluster's keys: proved, or known by no more than this.
    pub(super) fn give(&mut self, node: &str, unproved: Option<&str>) {
        self.given.insert(node.to_owned(), unproved.map(str::to_owned));
        self.doubted.remove(node);
    }

    /// What answers for a machine is not proved to be it.
    pub(super) fn doubt(&mut self, node: &str, why: &str) {
        self.doubted.insert(node.to_owned(), why.to_owned());
    }

    /// The VM of a control plane node has this generation.
    pub(super) fn has_generation(&mut self, node: &str, generation: Uuid) {
        self.generations.insert(node.to_owned(), generation);
    }

    /// Whether the record says already that a machine received the keys so.
    pub(super) fn is_listed(&self, node: &str, unproved: Option<&str>) -> bool {
        self.listed.as_ref().is_some_and(|(listed, doubted)| {
            listed.get(node).map(String::as_str) == unproved && !doubted.contains_key(node)
        })
    }

    /// Puts what is known into what is written.
    pub(super) fn add_to(&self, state: &mut RecordState) {
        for (node, unproved) in &self.given {
            match unproved {
                Some(by) => state.unproved.insert(node.clone(), by.clone()),
                None => state.unproved.remove(node),
            };
            state.doubted.remove(node);
        }
        state.doubted.extend(self.doubted.iter().map(|(node, why)| (node.clone(), why.clone())));
        state
            .generations
            .extend(self.generations.iter().map(|(node, generation)| (node.clone(), *generation)));
    }

    /// The record says this now.
    pub(super) fn written(&mut self, state: &RecordState) {
        self.listed = Some((state.unproved.clone(), state.doubted.clone()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_that_was_proved_after_all_is_doubted_no_more() {
        let (mut known, mut state) = (Identities::default(), RecordState::default());
        assert!(!known.is_listed("w-1", None), "before the record was read, nothing is known of it");
        known.doubt("w-1", "another certificate");
        known.give("w-2", Some("address"));
        known.add_to(&mut state);
        known.written(&state);
        assert!(known.is_listed("w-2", Some("address")) && !known.is_listed("w-1", None));
        known.give("w-1", None);
        known.give("w-2", None);
        known.add_to(&mut state);
        assert!(state.unproved.is_empty() && state.doubted.is_empty());
    }
}
