//! Everything that is wrong with a file, at once.

use crate::diagnostic::Diagnostic;
use crate::load::Loaded;

/// Every problem of a file that could be loaded, located and in file order.
#[must_use]
pub fn check(loaded: &Loaded) -> Vec<Diagnostic> {
    loaded.locate(Vec::new())
}
