//! Text that must not be seen: its `Debug` hides it and its memory is wiped when it goes.

use std::fmt;

use zeroize::{Zeroize, ZeroizeOnDrop};

/// A key, a token, or another text that must not reach a log.
#[derive(Clone, PartialEq, Eq, Zeroize, ZeroizeOnDrop)]
pub struct Secret(String);

impl Secret {
    /// Takes the text over.
    #[must_use]
    pub fn new(text: String) -> Self {
        Self(text)
    }

    /// The text itself. The name makes each use easy to find.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<secret>")
    }
}
