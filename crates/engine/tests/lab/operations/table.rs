//! Which operation is to meet which fault, and how often it did.
//!
//! A run's seed decides its operation and the two faults that it is to meet, in turn, so that any range of seeds covers all of them
//! evenly; everything else is chance. A long run fails when a cell of the table that makes sense was met too seldom.

use std::collections::BTreeMap;

use super::{ALL, Operation};

/// How often a long run meets each fault in each operation, at least.
pub const OFTEN: u64 = 20;
/// A long run takes at least so many minutes, and has at least so many runs to make.
const LONG: (u64, u64) = (30, 5_000);

/// Everything that a long run must have met, as it is counted. Two neighbours happen in one run, so neither hides the other.
pub const KINDS: [&str; 22] = [
    "VM powered off",
    "VM migrated",
    "tags changed",
    "notes changed",
    "VM cloned",
    "VM ID reused",
    "VM rolled back",
    "VM restored",
    "cut: operator and machines",
    "cut: machines among each other",
    "cut: operator and one machine",
    "connections that break",
    "cut: operator and Kubernetes",
    "slow host",
    "cut: operator and Proxmox",
    "host lost",
    "crash",
    "second operator",
    "service failed for good",
    "budget that never allows",
    "evictions that fail",
    "pod that never ends",
];

/// How many of [`KINDS`] another person does to a VM.
const ACTS: usize = 8;

/// Why an operation cannot meet a fault.
pub fn senseless(operation: Operation, kind: &str) -> Option<&'static str> {
    use Operation::{Create, Destroy, DrainHost, Drift, Move, Reconfigure, Restart, ScaleDown, Update};
    match (operation, kind) {
        (Create, kind) if KINDS[..ACTS].contains(&kind) => {
            Some("there is no VM yet that a person could change")
        }
        (
            Drift | Update | Reconfigure | Destroy | ScaleDown | Move | Restart | DrainHost,
            "service failed for good",
        ) => Some("no machine pulls an image, so none fails to"),
        (
            Destroy,
            "cut: operator and machines"
            | "cut: operator and one machine"
            | "cut: operator and Kubernetes"
            | "connections that break",
        ) => Some("a deletion asks Proxmox only, and these are on the way to machines"),
        (operation, kind)
            if super::workloads::KINDS.contains(&kind) && !super::workloads::is_drained(operation) =>
        {
            Some("no pod is evicted")
        }
        _ => None,
    }
}

/// The operation of a seed.
pub fn operation(seed: u64) -> Operation {
    ALL[(seed % ALL.len() as u64) as usize]
}

/// The two faults that a run is to meet: neighbours in [`KINDS`].
pub fn wanted(seed: u64) -> [&'static str; 2] {
    let operation = operation(seed);
    let sensible: Vec<&str> = KINDS.into_iter().filter(|kind| senseless(operation, kind).is_none()).collect();
    let turn = (seed / ALL.len() as u64) as usize;
    [sensible[turn % sensible.len()], sensible[(turn + 1) % sensible.len()]]
}

/// How often each fault was met in each operation.
#[derive(Default)]
pub struct Table(BTreeMap<(String, Operation), u64>);

impl Table {
    pub fn add(&mut self, kind: String, operation: Operation) {
        *self.0.entry((kind, operation)).or_default() += 1;
    }

    fn of(&self, kind: &str, operation: Operation) -> u64 {
        self.0.get(&(kind.to_owned(), operation)).copied().unwrap_or(0)
    }

    /// As lines, one for each fault.
    pub fn lines(&self) -> Vec<String> {
        let head = ALL.map(|operation| format!("{:>14}", format!("{operation:?}"))).concat();
        let mut lines = vec![format!("{:32}{head}", "")];
        for kind in KINDS {
            let cells = ALL.map(|operation| match (senseless(operation, kind), self.of(kind, operation)) {
                (Some(_), 0) => format!("{:>14}", "–"),
                (_, count) => format!("{count:>14}"),
            });
            lines.push(format!("{kind:32}{}", cells.concat()));
        }
        lines
    }

    /// Cells of a long run that were met too seldom.
    pub fn seldom(&self) -> Vec<String> {
        let cells = KINDS.iter().flat_map(|kind| ALL.map(|operation| (*kind, operation)));
        cells
            .filter(|(kind, operation)| senseless(*operation, kind).is_none())
            .filter(|(kind, operation)| self.of(kind, *operation) < OFTEN)
            .map(|(kind, operation)| format!("{operation:?}, {kind}: {}", self.of(kind, operation)))
            .collect()
    }
}

/// Whether a run of so many minutes and so many single runs is a long one.
pub fn is_long(minutes: u64, runs: u64) -> bool {
    minutes >= LONG.0 && runs >= LONG.1
}

#[test]
fn every_sensible_cell_is_wanted_often_enough_in_a_long_run() {
    let mut wants = Table::default();
    for seed in 1..=5_000 {
        wanted(seed).into_iter().for_each(|kind| wants.add(kind.to_owned(), operation(seed)));
    }
    // A third of them may come to nothing.
    let few = KINDS.iter().flat_map(|kind| ALL.map(|operation| (kind, operation, wants.of(kind, operation))));
    let few: Vec<_> = few.filter(|(kind, operation, _)| senseless(*operation, kind).is_none()).collect();
    assert!(few.iter().all(|(.., count)| *count >= OFTEN * 3 / 2), "{few:?}");
    assert_eq!(wants.seldom(), [] as [String; 0]);
    assert!(is_long(60, 5_000) && !is_long(60, 100) && !is_long(10, 5_000));
}
