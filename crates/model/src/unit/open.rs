//! Units that started and have not ended, as the cordons on nodes say. No run has to be asked: what it does to a node is written there.

use serde::Serialize;

use crate::names::NodeName;
use crate::observed::{Cordon, Observed};
use crate::step::UnitId;

/// A unit that started and has not ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OpenUnit {
    /// Its name, such as `restart/home-work-1`.
    pub unit: UnitId,
    pub node: NodeName,
    /// Who ran it, where the node says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// What has become of it.
    pub state: UnitState,
}

/// What has become of a unit that has not ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum UnitState {
    /// An operator holds the lease of the cluster, so a run may be working on it.
    InProgress,
    /// The lease is free: the run ended before the unit did.
    Interrupted,
    /// Whether the lease is held is not known.
    Unknown,
    /// A person shut the node down, which is how that ends.
    ShutDown,
}

/// Units that started and have not ended, by node.
#[must_use]
pub fn open(observed: &Observed) -> Vec<OpenUnit> {
    let lease = match &observed.proxmox.record {
        Some(record) if !record.unreadable => match record.state.lease {
            Some(_) => UnitState::InProgress,
            None => UnitState::Interrupted,
        },
        _ => UnitState::Unknown,
    };
    let unit = |node: &NodeName, reason: String| {
        let (unit, by) = match reason.split_once(" by ") {
            Some((unit, by)) => (UnitId(unit.to_owned()), Some(by.to_owned())),
            None => (UnitId(reason), None),
        };
        // Kubernetes calls a machine that is off ready for some time; Proxmox knows at once.
        let is_stopped = observed.proxmox.marked.iter().any(|vm| vm.mark.node == **node && !vm.running);
        let is_off = is_stopped || observed.kubernetes.nodes.get(node).is_some_and(|seen| !seen.ready);
        let state = match unit.kind() == "shutdown" && is_off && lease != UnitState::InProgress {
            true => UnitState::ShutDown,
            false => lease,
        };
        OpenUnit { unit, node: node.clone(), by, state }
    };
    let ours = observed.kubernetes.nodes.iter().filter_map(|(node, seen)| match seen.cordon()? {
        Cordon::Talosmith { reason } => Some(unit(node, reason)),
        Cordon::Person { .. } => None,
    });
    ours.collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::mark::{Mark, RecordState};
    use crate::observed::{KubernetesNode, RecordSeen, Vm};

    fn observed(reason: Option<&str>, ready: bool) -> Observed {
        let mut observed = Observed::default();
        let cordoned = reason.map(str::to_owned);
        let node = KubernetesNode { ready, schedulable: false, cordoned, ..KubernetesNode::default() };
        observed.kubernetes.nodes.insert("w-1".into(), node);
        let state = RecordState::default();
        let record = RecordSeen { vmid: 1, host: "pve1".to_owned(), state, unreadable: false };
        observed.proxmox.record = Some(record);
        observed
    }

    fn vm(running: bool) -> Vm {
        Vm {
            vmid: 2,
            host: "pve1".to_owned(),
            name: "w-1".to_owned(),
            running,
            lock: None,
            uuid: None,
            vmgenid: None,
            recorded: None,
            mark: Mark::new("home", Mark::owner_of("abc="), "w-1"),
            pool: None,
            ha_state: None,
            config: BTreeMap::new(),
            pending: BTreeMap::new(),
        }
    }

    #[test]
    fn a_cordon_of_ours_is_a_unit_that_has_not_ended() {
        let seen = open(&observed(Some("restart/w-1 by eva@laptop"), true));
        let expected = OpenUnit {
            unit: UnitId("restart/w-1".to_owned()),
            node: "w-1".into(),
            by: Some("eva@laptop".to_owned()),
            state: UnitState::Interrupted,
        };
        assert_eq!(seen, [expected]);
        assert_eq!(open(&observed(None, true)), [], "a person's cordon is none of ours");
    }

    #[test]
    fn without_a_record_it_is_not_known_whether_a_run_is_at_work() {
        let mut seen = observed(Some("restart/w-1 by eva@laptop"), true);
        seen.proxmox.record = None;
        assert_eq!(open(&seen)[0].state, UnitState::Unknown);
    }

    #[test]
    fn a_node_that_a_person_shut_down_was_not_interrupted() {
        let shut_down = |ready| open(&observed(Some("shutdown/w-1 by eva@laptop"), ready)).remove(0).state;
        assert_eq!(shut_down(false), UnitState::ShutDown);
        assert_eq!(shut_down(true), UnitState::Interrupted, "it still runs");
        let mut seen = observed(Some("shutdown/w-1 by eva@laptop"), true);
        seen.proxmox.marked.push(vm(false));
        assert_eq!(open(&seen)[0].state, UnitState::ShutDown, "Kubernetes does not know yet");
        seen.proxmox.marked = vec![vm(true)];
        assert_eq!(open(&seen)[0].state, UnitState::Interrupted);
    }
}
