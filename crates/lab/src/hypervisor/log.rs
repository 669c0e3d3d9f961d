//! The log of the cluster: one line for each change of a VM's configuration, in the words of the change. Old lines go, as in the
//! ring that the real one is.

use std::collections::VecDeque;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// So many lines are kept.
const LINES: usize = 200;

/// The lines, the oldest first.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Log {
    lines: VecDeque<Line>,
    last: u32,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Line {
    pub(crate) uid: u32,
    pub(crate) at: Timestamp,
    pub(crate) node: String,
    /// `user@realm`, with `!token` if a token did it.
    pub(crate) user: String,
    pub(crate) text: String,
}

impl Log {
    pub(crate) fn write(&mut self, at: Timestamp, node: &str, user: &str, text: String) {
        self.last = self.last.saturating_add(1);
        if self.lines.len() == LINES {
            self.lines.pop_front();
        }
        self.lines.push_back(Line { uid: self.last, at, node: node.to_owned(), user: user.to_owned(), text });
    }

    /// The newest first.
    pub(crate) fn newest(&self) -> impl Iterator<Item = &Line> {
        self.lines.iter().rev()
    }
}
