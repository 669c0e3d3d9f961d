//! What a node would refuse, found before it is sent.
//!
//! First the strict reading (known kinds and keys, values of the right kind, no document twice), then what the values mean
//! together: roles, certificates, endpoints, addresses, names, installation, versions. Everything is looked at, so that a
//! person repairs a configuration once. Disk and link selectors are not evaluated here; only whether there is one.

mod documents;
mod forms;
mod legacy;
mod v1alpha1;

pub use crate::problem::Problem;

use crate::{
    config::{Documents, known_since},
    contract::Contract,
    patch::conflicts,
    schema::{self, check::misfits},
    yaml::{Map, Value},
};

/// How a machine runs, which decides what must be configured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// It installs itself on a disk.
    Metal,
    /// It booted from a disk image, as virtual machines with a cloud-init drive do.
    Cloud,
    /// It runs in a container.
    Container,
}

/// Everything that a node of a release would refuse about a configuration.
#[must_use]
pub fn validate(documents: &Documents, release: Contract, mode: Mode) -> Vec<Problem> {
    let minor = release.minor();
    let mut problems = Vec::new();
    let all: Vec<Map> = documents.iter().cloned().collect();
    for document in &all {
        match kind_of(document, minor) {
            Ok(kind) => problems.extend(
                misfits(document, kind.root, minor)
                    .into_iter()
                    .map(|misfit| Problem::in_document(document, &misfit.path, misfit.message)),
            ),
            Err(problem) => problems.push(problem),
        }
    }
    for (first, second) in conflicts(&all, minor) {
        let message =
            if first == second { "stands twice".to_owned() } else { format!("cannot stand beside {first}") };
        problems.push(Problem { path: second, message });
    }
    // A node stops here too: what cannot be read has no meaning.
    if problems.is_empty() {
        let mut rules = Rules { documents, minor, mode, problems };
        rules.v1alpha1();
        rules.documents();
        rules.beside_v1alpha1();
        problems = rules.problems;
    }
    problems
}

fn kind_of(document: &Map, minor: u32) -> Result<&'static schema::Kind, Problem> {
    let problem = |path, message: String| Err(Problem::in_document(document, path, message));
    let Some(name) = document.text("kind").filter(|name| !name.is_empty()) else {
        let version = document.text("apiVersion").or_else(|| document.text("version"));
        let is_legacy =
            ["machine", "cluster", "debug", "persist"].iter().any(|key| document.get(key).is_some());
        return match schema::kind_of("v1alpha1", minor) {
            Some(kind) if is_legacy => Ok(kind),
            _ if version.is_some() => problem("kind", "is missing".to_owned()),
            _ => problem("", "is no document: it has neither kind nor machine and cluster".to_owned()),
        };
    };
    match document.text("apiVersion") {
        Some("v1alpha1") => {}
        Some(_) => return problem("apiVersion", "must be v1alpha1".to_owned()),
        None => return problem("apiVersion", "is missing".to_owned()),
    }
    match schema::kind_of(name, minor) {
        Some(kind) => Ok(kind),
        None => {
            let since =
                known_since(name).map(|minor| format!("; it came with v1.{minor}")).unwrap_or_default();
            problem("kind", format!("is not known to Talos v1.{minor}{since}"))
        }
    }
}

/// The rules over a configuration that could be read.
struct Rules<'a> {
    documents: &'a Documents,
    minor: u32,
    mode: Mode,
    problems: Vec<Problem>,
}

impl<'a> Rules<'a> {
    fn problem(&mut self, path: &str, message: impl Into<String>) {
        self.problems.push(Problem { path: path.to_owned(), message: message.into() });
    }

    fn in_document(&mut self, document: &Map, path: &str, message: impl Into<String>) {
        self.problems.push(Problem::in_document(document, path, message.into()));
    }

    /// Refuses texts under a path that do not have a form.
    fn each_text(&mut self, document: &Map, path: &str, fits: fn(&str) -> bool, message: &str) {
        for text in document.texts(path).iter().filter(|text| !fits(text)) {
            self.in_document(document, path, format!("{message}: {text:?}"));
        }
    }

    /// The document without a kind.
    fn legacy(&self) -> Option<&'a Map> {
        self.documents.iter().find(|document| document.get("kind").is_none())
    }

    fn is_control_plane(&self) -> bool {
        let kind = self.legacy().and_then(|document| document.text("machine.type"));
        matches!(kind, Some("controlplane" | "init"))
    }
}

/// A value that is there.
fn set<'a>(document: &'a Map, path: &str) -> Option<&'a Value> {
    document.find(path).filter(|value| **value != Value::Null)
}

/// Whether a text stands under a path and is not empty.
fn has_text(document: &Map, path: &str) -> bool {
    document.text(path).is_some_and(|text| !text.is_empty())
}

#[cfg(test)]
mod tests;
