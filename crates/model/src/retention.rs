//! Which backups are kept, and why.
//!
//! Of each hour, day and week that has a backup, the newest one stands for it. The file says how many hours, days and weeks count, from
//! the newest backup back: a time without backups costs none of them. Hours, days and weeks are those of UTC, and a week starts on Monday.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::Serialize;

use crate::spec::Keep;

const HOUR: i64 = 3600;
const DAY: i64 = 24 * HOUR;
const WEEK: i64 = 7 * DAY;
/// The first of January 1970 was a Thursday.
const MONDAY: i64 = 3 * DAY;

/// A backup that may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Backup {
    /// When it was made.
    pub at: Timestamp,
    /// Whether it was read back and found sound.
    pub verified: bool,
}

/// Why a backup is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// No other one is newer.
    Newest,
    /// Of those that were verified, no other one is newer.
    NewestVerified,
    /// It stands for its hour.
    Hourly,
    /// It stands for its day.
    Daily,
    /// It stands for its week.
    Weekly,
}

/// Which of the backups are kept. All others may go.
#[must_use]
pub fn kept(keep: &Keep, backups: &[Backup]) -> BTreeMap<Backup, BTreeSet<Reason>> {
    let mut newest_first: Vec<Backup> = backups.to_vec();
    // Of two of one moment, the verified one comes first.
    newest_first.sort_by(|one, other| other.cmp(one));
    let mut kept: BTreeMap<Backup, BTreeSet<Reason>> = BTreeMap::new();
    let mut hold = |backup: Backup, reason| kept.entry(backup).or_default().insert(reason);
    if let Some(newest) = newest_first.first() {
        hold(*newest, Reason::Newest);
    }
    if let Some(verified) = newest_first.iter().find(|backup| backup.verified) {
        hold(*verified, Reason::NewestVerified);
    }
    let rules = [
        (Reason::Hourly, keep.hourly, HOUR, 0),
        (Reason::Daily, keep.daily, DAY, 0),
        (Reason::Weekly, keep.weekly, WEEK, MONDAY),
    ];
    for (reason, count, length, shift) in rules {
        let mut periods = BTreeSet::new();
        for backup in &newest_first {
            let period = (backup.at.as_second() + shift).div_euclid(length);
            if periods.contains(&period) {
                continue;
            }
            if periods.len() >= usize::try_from(count).unwrap_or(usize::MAX) {
                break;
            }
            periods.insert(period);
            hold(*backup, reason);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Backup {
        Backup { at: text.parse().unwrap(), verified: true }
    }

    fn names(kept: &BTreeMap<Backup, BTreeSet<Reason>>) -> Vec<String> {
        kept.iter().rev().map(|(backup, why)| format!("{} {why:?}", backup.at)).collect()
    }

    #[test]
    fn the_newest_backup_of_each_period_stands_for_it() {
        let keep = Keep { hourly: 2, daily: 2, weekly: 2 };
        let all = [
            at("2026-11-18T10:50:00Z"),
            at("2026-11-18T10:10:00Z"),
            at("2026-11-18T09:00:00Z"),
            at("2026-11-18T08:00:00Z"),
            at("2026-11-17T23:00:00Z"),
            at("2026-11-16T00:00:00Z"), // Monday
            at("2026-11-15T23:59:00Z"), // Sunday, another week
            at("2026-11-01T00:00:00Z"),
        ];
        assert_eq!(
            names(&kept(&keep, &all)),
            [
                "2026-11-18T10:50:00Z {Newest, NewestVerified, Hourly, Daily, Weekly}",
                "2026-11-18T09:00:00Z {Hourly}",
                "2026-11-17T23:00:00Z {Daily}",
                "2026-11-15T23:59:00Z {Weekly}",
            ]
        );
    }

    #[test]
    fn a_time_without_backups_costs_none_of_them() {
        let keep = Keep { hourly: 0, daily: 2, weekly: 0 };
        let all = [at("2026-11-18T10:00:00Z"), at("2026-03-01T10:00:00Z"), at("2026-01-01T10:00:00Z")];
        assert_eq!(kept(&keep, &all).len(), 2);
    }

    #[test]
    fn the_newest_verified_backup_is_never_deleted() {
        let nothing = Keep { hourly: 0, daily: 0, weekly: 0 };
        let newer = Backup { verified: false, ..at("2026-11-18T10:00:00Z") };
        let all = [newer, at("2026-11-17T10:00:00Z"), at("2026-11-16T10:00:00Z")];
        let kept = kept(&nothing, &all);
        assert_eq!(kept.keys().rev().copied().collect::<Vec<_>>(), all[..2]);
        assert_eq!(self::kept(&nothing, &[]), BTreeMap::new());
    }
}
