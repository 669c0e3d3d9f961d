//! What is still missing while something is waited for: words for people, and a word for programs should it never come.

use crate::error::machine_code;

/// The code of what just did not come.
const LATE: &str = "timed-out";

/// Something that is missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Lack {
    /// For people.
    pub words: String,
    /// For programs, as [`crate::error::Error::code`] gives it.
    pub code: &'static str,
}

impl Lack {
    /// Something that just did not come yet.
    pub(crate) fn new(words: impl Into<String>) -> Self {
        Self { words: words.into(), code: LATE }
    }

    /// Whether it is known why it does not come.
    pub(crate) fn is_explained(&self) -> bool {
        self.code != LATE
    }

    /// Gives it a code of its own.
    pub(crate) fn coded(self, code: &'static str) -> Self {
        Self { code, ..self }
    }

    /// A machine that did not do what it was asked, in these words.
    pub(crate) fn of_machine(words: impl Into<String>, error: &talos_client::Error) -> Self {
        Self { words: words.into(), code: machine_code(error.kind()) }
    }
}
