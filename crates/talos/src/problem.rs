//! What a node would refuse, and where it stands: patches and whole configurations are judged in the same words.

use std::fmt;

use crate::yaml::Map;

/// One thing that a node would refuse.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Where: the keys joined by dots, in a document with a kind after `Kind/name: `.
    pub path: String,
    /// What is wrong.
    pub message: String,
}

impl Problem {
    /// A problem at a path of a document.
    pub(crate) fn in_document(document: &Map, path: &str, message: String) -> Self {
        let path = match (document.text("kind"), document.text("name")) {
            (Some(kind), Some(name)) => format!("{kind}/{name}: {path}"),
            (Some(kind), None) => format!("{kind}: {path}"),
            (None, _) => path.to_owned(),
        };
        Self { path, message }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.path, self.message)
    }
}
