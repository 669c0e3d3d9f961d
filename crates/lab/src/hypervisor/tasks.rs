//! Tasks, as data: what each is about, its log, and when it goes on.
//!
//! Lines of a log carry the moment from which they can be read, so a later reader sees progress without anything having to
//! happen in between.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::hypervisor::work::Work;

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Task {
    pub(crate) upid: String,
    pub(crate) node: String,
    pub(crate) kind: String,
    pub(crate) id: String,
    /// `user@realm`, with `!token` if a token started it.
    pub(crate) user: String,
    pub(crate) pid: u32,
    pub(crate) pstart: i64,
    pub(crate) started: Timestamp,
    pub(crate) ended: Option<Timestamp>,
    pub(crate) exit: Option<String>,
    pub(crate) log: Vec<Line>,
    pub(crate) due: Option<Timestamp>,
    pub(crate) stage: u8,
    pub(crate) work: Work,
}

/// One line of a log, and since when it is there.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Line {
    at: Timestamp,
    text: String,
}

impl Task {
    pub(crate) fn due(&self) -> Option<Timestamp> {
        self.due
    }

    /// Replaces what the later stages will find.
    pub(crate) fn set_work(&mut self, work: Work) {
        self.work = work;
    }

    /// Writes a line now.
    pub(crate) fn log(&mut self, now: Timestamp, text: impl Into<String>) {
        self.log.push(Line { at: now, text: text.into() });
    }

    /// Writes a line that can be read after `delay`.
    pub(crate) fn log_after(&mut self, now: Timestamp, delay: Duration, text: impl Into<String>) {
        self.log.push(Line { at: later(now, delay), text: text.into() });
    }

    /// The lines that can be read at `now`.
    pub(crate) fn lines(&self, now: Timestamp) -> Vec<&str> {
        self.log.iter().filter(|line| line.at <= now).map(|line| line.text.as_str()).collect()
    }

    /// The process vanished.
    pub(crate) fn lost(&mut self, now: Timestamp) {
        if self.ended.is_none() {
            self.log.retain(|line| line.at <= now);
            self.ended = Some(now);
            self.exit = Some("unexpected status".to_owned());
            self.due = None;
        }
    }

    /// Someone stops the task. A shutdown that waits for the agent notices it there and ends without a last line.
    pub(crate) fn interrupt(&mut self, now: Timestamp) {
        if self.ended.is_some() {
            return;
        }
        self.log.retain(|line| line.at <= now);
        if matches!(&self.work, Work::Power(power) if power.waits_for_agent(self.started, now)) {
            self.log(now, "QEMU Guest Agent is not running - received interrupt");
            self.ended = Some(now);
            self.exit = Some("unexpected status".to_owned());
            self.due = None;
        } else {
            self.end(now, Err("received interrupt".to_owned()));
        }
    }

    /// Ends the task, well or with the text of what went wrong.
    pub(crate) fn end(&mut self, now: Timestamp, result: Result<(), String>) {
        self.log.retain(|line| line.at <= now);
        let (line, exit) = match result {
            Ok(()) => ("TASK OK".to_owned(), "OK".to_owned()),
            Err(text) => (format!("TASK ERROR: {text}"), text),
        };
        self.log(now, line);
        self.ended = Some(now);
        self.exit = Some(exit);
        self.due = None;
    }
}

pub(crate) fn later(now: Timestamp, delay: Duration) -> Timestamp {
    SignedDuration::try_from(delay)
        .ok()
        .and_then(|delay| now.checked_add(delay).ok())
        .unwrap_or(Timestamp::MAX)
}

/// What is said when the lock of a VM could not be had in time.
pub(crate) fn lock_timeout(vmid: u32) -> String {
    format!("can't lock file '/var/lock/qemu-server/lock-{vmid}.conf' - got timeout")
}
