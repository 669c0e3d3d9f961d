//! How disruptions are made, decided: the file's `changes` section as numbers, times and names.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::spec::{ApiOutage, Changes, DrainDeletes, HealthGate};

mod window;

pub(crate) use window::time;
pub use window::{Window, WindowState, Zone};

/// The longest time that a timeout or a soak may be set to.
pub(crate) const LONGEST: Duration = Duration::from_hours(24);

/// How the file wants disruptions to be made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    /// How many workers may be away at once.
    pub workers: Budget,
    /// How long a node may take to be drained.
    pub drain_timeout: Duration,
    /// What a drain may delete for good.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub drain_deletes: BTreeSet<DrainDeletes>,
    /// How long a node may take to be ready again.
    pub ready_timeout: Duration,
    /// How long a node must stay ready before the next one.
    pub soak: Duration,
    /// Whether an outage of the API was approved, for control plane nodes that etcd cannot do without.
    pub api_outage: bool,
    /// Systems that must be healthy before each disruption.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub gates: BTreeSet<HealthGate>,
    /// Commands that must succeed directly before each disruption.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub commands: Vec<String>,
    /// When disruptions may start; `None` is at any time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<Window>,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            workers: Budget::Count(1),
            drain_timeout: Duration::from_mins(5),
            drain_deletes: BTreeSet::new(),
            ready_timeout: Duration::from_mins(15),
            soak: Duration::from_secs(30),
            api_outage: false,
            gates: BTreeSet::new(),
            commands: Vec::new(),
            window: None,
        }
    }
}

impl Policy {
    /// What the file says. The checks leave nothing open; should one slip through, there is no policy.
    pub(crate) fn read(changes: &Changes) -> Option<Self> {
        let window = match &changes.window {
            Some(window) => Some(Window::read(window)?),
            None => None,
        };
        Some(Self {
            workers: Budget::read(&changes.workers.0)?,
            drain_timeout: timeout(&changes.drain_timeout.0)?,
            drain_deletes: changes.drain_deletes.iter().copied().collect(),
            ready_timeout: timeout(&changes.ready_timeout.0)?,
            soak: soak(&changes.soak.0)?,
            api_outage: changes.api_outage == ApiOutage::Allow,
            gates: changes.gates.iter().copied().collect(),
            commands: changes.commands.clone(),
            window,
        })
    }
}

/// A time for which something is awaited: none at all would never be enough.
pub(crate) fn timeout(text: &str) -> Option<Duration> {
    soak(text).filter(|time| !time.is_zero())
}

/// A time that passes, or none.
pub(crate) fn soak(text: &str) -> Option<Duration> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().ok()?;
    let seconds = match unit {
        "s" => Some(number),
        "m" => number.checked_mul(60),
        "h" => number.checked_mul(3600),
        _ => None,
    };
    seconds.map(Duration::from_secs).filter(|time| *time <= LONGEST)
}

/// How many workers may be away at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Budget {
    /// So many.
    Count(usize),
    /// This share of all, rounded down, and at least one.
    Percent(u8),
}

impl Budget {
    /// A number from 1 on, or a share from `1%` to `100%`.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let number = |digits: &str| {
            let plain = digits.bytes().all(|digit| digit.is_ascii_digit());
            digits.parse::<u32>().ok().filter(|number| plain && *number > 0)
        };
        match text.strip_suffix('%') {
            Some(percent) => u8::try_from(number(percent)?).ok().filter(|n| *n <= 100).map(Self::Percent),
            None => usize::try_from(number(text)?).ok().map(Self::Count),
        }
    }

    /// The number of nodes, of so many.
    #[must_use]
    pub fn of(self, workers: usize) -> usize {
        match self {
            Self::Count(count) => count.max(1),
            Self::Percent(percent) => (workers.saturating_mul(percent.min(100).into()) / 100).max(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::Written;

    #[test]
    fn what_the_file_leaves_out_is_the_default() {
        assert_eq!(Policy::read(&Changes::default()), Some(Policy::default()));
    }

    #[test]
    fn every_key_has_its_place() {
        let written = |text: &str| Written(text.to_owned());
        let changes = Changes {
            workers: written("20%"),
            drain_timeout: written("1s"),
            drain_deletes: vec![DrainDeletes::UnmanagedPods, DrainDeletes::UnmanagedPods],
            ready_timeout: written("2m"),
            soak: written("0s"),
            api_outage: ApiOutage::Allow,
            gates: vec![HealthGate::Ceph, HealthGate::Longhorn, HealthGate::Ceph],
            commands: vec!["./check".to_owned()],
            window: None,
        };
        let expected = Policy {
            workers: Budget::Percent(20),
            drain_timeout: Duration::from_secs(1),
            drain_deletes: BTreeSet::from([DrainDeletes::UnmanagedPods]),
            ready_timeout: Duration::from_secs(120),
            soak: Duration::ZERO,
            api_outage: true,
            gates: BTreeSet::from([HealthGate::Longhorn, HealthGate::Ceph]),
            commands: vec!["./check".to_owned()],
            window: None,
        };
        assert_eq!(Policy::read(&changes), Some(expected));
    }

    #[test]
    fn a_budget_is_a_number_or_a_percentage_and_never_none() {
        assert_eq!(Budget::read("3"), Some(Budget::Count(3)));
        assert_eq!(Budget::read("1%"), Some(Budget::Percent(1)));
        assert_eq!(Budget::read("100%"), Some(Budget::Percent(100)));
        for wrong in ["0", "0%", "101%", "300%", "", "%", "+3", "-1", "1.5", "all", "10 %"] {
            assert_eq!(Budget::read(wrong), None, "{wrong}");
        }
        assert_eq!(Budget::Count(2).of(1), 2);
        assert_eq!(Budget::Count(0).of(9), 1);
        assert_eq!(Budget::Percent(10).of(100), 10);
        assert_eq!(Budget::Percent(10).of(19), 1, "rounded down");
        assert_eq!(Budget::Percent(1).of(3), 1, "at least one");
        assert_eq!(Budget::Percent(100).of(7), 7);
    }

    #[test]
    fn a_timeout_is_more_than_nothing_and_a_soak_need_not_be() {
        assert_eq!((timeout("0s"), soak("0s")), (None, Some(Duration::ZERO)));
        assert_eq!(timeout("24h"), Some(Duration::from_hours(24)));
        for wrong in ["25h", "86401s", "5", "s", "5d", "-5s", "+5s", "1h30m", "99999999999999999999h"] {
            assert_eq!(soak(wrong), None, "{wrong}");
        }
        let seconds = |text| soak(text).map(|time| time.as_secs());
        assert_eq!((seconds("90s"), seconds("5m"), seconds("2h")), (Some(90), Some(300), Some(7200)));
    }
}
