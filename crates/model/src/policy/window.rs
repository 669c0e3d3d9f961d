//! When disruptions may start, by the clock on the wall of a time zone.
//!
//! A moment is inside the window when that clock shows a time inside it. That one sentence is also the rule for the days on which the
//! clock is set: hours that it skips are not there, and hours that it shows twice count both times.

use std::collections::BTreeSet;
use std::fmt;

use jiff::civil::{DateTime, Weekday};
use jiff::tz::{Offset, TimeZone};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::spec;
use crate::spec::Day;

/// Minutes of a day.
const DAY: u16 = 24 * 60;
/// A window that opens once a week can fall into an hour that is skipped, and opens a week later then.
const AHEAD: i64 = 15;

/// When disruptions may start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    days: BTreeSet<Day>,
    /// Minutes after midnight.
    from: u16,
    /// Minutes after midnight; before `from`, those of the next day.
    to: u16,
    /// By whose clock.
    pub zone: Zone,
}

/// Whether disruptions may start now.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum WindowState {
    /// Nothing says.
    #[default]
    Unknown,
    /// They may.
    Open,
    /// They may not.
    Closed {
        /// When they may again, where that is known.
        opens: Option<Timestamp>,
    },
}

/// Whose clock counts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Zone {
    /// So many minutes ahead of UTC, always.
    Fixed(i16),
    /// By name, as in the time zone database.
    Named(String),
}

impl Zone {
    /// `UTC`, `+02:00`, or a name such as `Europe/Berlin`.
    pub(crate) fn read(text: &str) -> Option<Self> {
        if text == "UTC" {
            return Some(Self::Fixed(0));
        }
        let (sign, offset) = match (text.strip_prefix('+'), text.strip_prefix('-')) {
            (Some(offset), _) => (1, offset),
            (_, Some(offset)) => (-1, offset),
            _ => return is_name(text).then(|| Self::Named(text.to_owned())),
        };
        let minutes = time(offset).filter(|minutes| *minutes <= 14 * 60)?;
        Some(Self::Fixed(sign * i16::try_from(minutes).ok()?))
    }

    /// The zone, where `database` knows those that have a name.
    ///
    /// # Errors
    ///
    /// When the database has no such zone.
    pub fn resolve(
        &self,
        database: impl FnOnce(&str) -> Result<TimeZone, String>,
    ) -> Result<TimeZone, String> {
        match self {
            Self::Named(name) => database(name),
            Self::Fixed(minutes) => Offset::from_seconds(i32::from(*minutes) * 60)
                .map(TimeZone::fixed)
                .map_err(|error| error.to_string()),
        }
    }
}

impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(0) => f.write_str("UTC"),
            Self::Fixed(minutes) => {
                let sign = if *minutes < 0 { '-' } else { '+' };
                write!(f, "{sign}{:02}:{:02}", minutes.abs() / 60, minutes.abs() % 60)
            }
            Self::Named(name) => f.write_str(name),
        }
    }
}

/// The form of a name in the time zone database, which is also a path below its folder.
fn is_name(text: &str) -> bool {
    let part = |part: &str| {
        part.starts_with(|first: char| first.is_ascii_alphabetic())
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-+".contains(&byte))
    };
    text.len() <= 64 && text.split('/').count() <= 3 && text.split('/').all(part)
}

/// Minutes after midnight of `HH:MM`; `24:00` is the end of the day.
pub(crate) fn time(text: &str) -> Option<u16> {
    let (hours, minutes) = text.split_once(':')?;
    let two = |digits: &str| {
        let plain = digits.len() == 2 && digits.bytes().all(|digit| digit.is_ascii_digit());
        digits.parse::<u16>().ok().filter(|_| plain)
    };
    let (hours, minutes) = (two(hours)?, two(minutes)?);
    (minutes < 60 && hours * 60 + minutes <= DAY).then_some(hours * 60 + minutes)
}

impl Window {
    /// What the file says.
    pub(crate) fn read(window: &spec::Window) -> Option<Self> {
        let days = if window.days.is_empty() { &Day::ALL[..] } else { &window.days };
        let (from, to) = (time(&window.from)?, time(&window.to)?);
        let zone = Zone::read(&window.time_zone)?;
        // Twice the same could be the whole day as well as nothing.
        (from < DAY && from != to).then(|| Self { days: days.iter().copied().collect(), from, to, zone })
    }

    /// Whether it is open when the clock shows this.
    #[must_use]
    pub fn is_open(&self, shown: DateTime) -> bool {
        let minute = i32::from(shown.hour()) * 60 + i32::from(shown.minute());
        let (from, to) = (i32::from(self.from), i32::from(self.to));
        let opens_on = |weekday: Weekday| self.days.contains(&day(weekday));
        let today = shown.weekday();
        match from < to {
            true => opens_on(today) && (from..to).contains(&minute),
            // Over midnight: it belongs to the day on which it opened.
            false => (opens_on(today) && minute >= from) || (opens_on(today.previous()) && minute < to),
        }
    }

    /// Whether it is open now, in its own zone, and when it opens else.
    #[must_use]
    pub fn state(&self, now: Timestamp, zone: &TimeZone) -> WindowState {
        let is_open = |at: Timestamp| self.is_open(zone.to_datetime(at));
        if is_open(now) {
            return WindowState::Open;
        }
        // Minute by minute: no rule about clocks that are set can be wrong.
        let minute = Timestamp::from_second(now.as_second() - now.as_second().rem_euclid(60));
        let later = |minutes: i64| minute.as_ref().ok()?.checked_add(SignedDuration::from_mins(minutes)).ok();
        let opens = (1..=AHEAD * i64::from(DAY)).map_while(later).find(|at| is_open(*at));
        WindowState::Closed { opens }
    }
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let clock = |minutes: u16| format!("{:02}:{:02}", minutes / 60, minutes % 60);
        write!(f, "{} to {} {}", clock(self.from), clock(self.to), self.zone)?;
        if self.days.len() < Day::ALL.len() {
            let days: Vec<&str> = self.days.iter().map(|day| name(*day)).collect();
            write!(f, " on {}", days.join(", "))?;
        }
        Ok(())
    }
}

fn day(weekday: Weekday) -> Day {
    match weekday {
        Weekday::Monday => Day::Mon,
        Weekday::Tuesday => Day::Tue,
        Weekday::Wednesday => Day::Wed,
        Weekday::Thursday => Day::Thu,
        Weekday::Friday => Day::Fri,
        Weekday::Saturday => Day::Sat,
        Weekday::Sunday => Day::Sun,
    }
}

fn name(day: Day) -> &'static str {
    match day {
        Day::Mon => "Monday",
        Day::Tue => "Tuesday",
        Day::Wed => "Wednesday",
        Day::Thu => "Thursday",
        Day::Fri => "Friday",
        Day::Sat => "Saturday",
        Day::Sun => "Sunday",
    }
}

#[cfg(test)]
mod tests;
