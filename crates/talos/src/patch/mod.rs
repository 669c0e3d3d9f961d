//! Configuration patches: Talos' strategic merge.
//!
//! A patch is a text of one or more documents. Each is merged into the document of the same kind and name, or added where there
//! is none; `$patch: delete` takes things out, before anything is merged. How two values merge depends on their type in the
//! release that the machine runs, which is why a patch is read for one release. JSON patches are refused, with the
//! strategic form where there is one: since 1.12 a machine's configuration has several documents, and JSON patches
//! cannot address them.

mod delete;
mod json;
mod merge;
mod template;
mod url;

use std::collections::BTreeSet;

pub use template::{TemplateError, Values};

use crate::{
    config::{Documents, known_since},
    contract::Contract,
    problem::Problem,
    schema::{self, check::misfits},
    yaml::{Map, Value, YamlError, read as read_yaml},
};

/// A patch, read for one release of Talos.
#[derive(Debug, Clone)]
pub struct Patch {
    minor: u32,
    deletes: Vec<delete::Delete>,
    documents: Vec<Map>,
}

/// Why a patch cannot be used.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum PatchError {
    /// The text is not YAML.
    #[error("read a configuration patch")]
    Yaml(#[from] YamlError),
    /// The text is a JSON patch.
    #[error("this is a JSON patch; Talos refuses those for configurations of several documents")]
    Json {
        /// The same as a strategic merge, where there is such a form.
        strategic: Option<String>,
        /// What has no such form, and what to write instead.
        notes: Vec<String>,
    },
    /// There is nothing in it.
    #[error("the patch holds nothing")]
    Empty,
    /// A document has keys or values that the release does not take.
    #[error("the patch has parts that Talos would not read: {}", list(.0))]
    Unfit(Vec<Problem>),
    /// The same document stands twice, which was not allowed before 1.14.
    #[error("the document {document} stands twice in the patch; Talos takes that only since v1.14")]
    Duplicate {
        /// Kind and name.
        document: String,
    },
    /// A delete that cannot be meant.
    #[error("{path}: {reason}")]
    BadDelete {
        /// Where in the patch.
        path: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A delete of something that is not there.
    #[error("{path} is to be deleted, but does not exist")]
    NothingToDelete {
        /// Where in the configuration.
        path: String,
    },
    /// Two values cannot be merged.
    #[error("{path}: {reason}")]
    NoMerge {
        /// Where in the configuration.
        path: String,
        /// Why not.
        reason: &'static str,
    },
    /// The patched configuration has two documents where only one may be.
    #[error("after the patch, {first} and {second} stand beside each other; only one of them may")]
    Conflict {
        /// The one that was there.
        first: String,
        /// The other one.
        second: String,
    },
    /// A placeholder cannot be filled.
    #[error("could not fill in the variables of a patch")]
    Template(#[from] TemplateError),
}

impl PatchError {
    /// What a person can do about it, where there is something.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Json { strategic, notes } => {
                let form = strategic.as_ref().map(|text| format!("write it as a strategic merge:\n{text}"));
                Some(form.into_iter().chain(notes.iter().cloned()).collect::<Vec<_>>().join("\n"))
            }
            Self::Duplicate { .. } => Some("put both into one document of the patch".to_owned()),
            Self::Template(error) => Some(error.hint()),
            Self::NothingToDelete { .. } => Some("take the delete out of the patch".to_owned()),
            _ => None,
        }
    }
}

fn list(problems: &[Problem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

impl Patch {
    /// Reads a patch for the release that a machine runs, with the placeholders filled.
    ///
    /// # Errors
    ///
    /// Where it is no patch, or not one that the release would take.
    pub fn parse(text: &str, release: Contract, values: &Values) -> Result<Self, PatchError> {
        let minor = release.minor();
        let mut documents = Vec::new();
        for value in read_yaml(text)? {
            match value {
                Value::Map(mut map) => {
                    values.fill_map(&mut map)?;
                    documents.push(map);
                }
                Value::List(operations) if json::is_patch(&operations) => {
                    return Err(json::suggestion(&operations));
                }
                _ => return Err(unfit(&Map::new(), "", "must be a mapping")),
            }
        }
        let mut deletes = Vec::new();
        let mut rest = Vec::new();
        let mut seen = BTreeSet::new();
        for mut document in documents {
            if delete::extract(&mut document, &mut deletes)? {
                continue;
            }
            let kind = kind_of(&document, minor)?;
            let id = id(&document, kind);
            if !seen.insert(id.clone()) && minor < 14 {
                return Err(PatchError::Duplicate { document: id });
            }
            let problems: Vec<Problem> = misfits(&document, kind.root, minor)
                .into_iter()
                .map(|misfit| Problem::in_document(&document, &misfit.path, misfit.message))
                .collect();
            if !problems.is_empty() {
                return Err(PatchError::Unfit(problems));
            }
            rest.push(document);
        }
        if deletes.is_empty() && rest.is_empty() {
            return Err(PatchError::Empty);
        }
        Ok(Self { minor, deletes, documents: rest })
    }

    /// Patches a configuration. Where it fails, the configuration is left as it was.
    ///
    /// # Errors
    ///
    /// Where a value to be deleted is not there, or two values do not go together.
    pub fn apply(&self, documents: &mut Documents) -> Result<(), PatchError> {
        let mut patched: Vec<Map> = documents.iter().cloned().collect();
        for delete in &self.deletes {
            delete.apply(&mut patched, self.minor)?;
        }
        for document in &self.documents {
            let kind = kind_of(document, self.minor)?;
            let wanted = id(document, kind);
            let same = |left: &Map| left_id(left, self.minor).as_ref() == Some(&wanted);
            let index = match patched.iter().position(same) {
                Some(index) => {
                    let merged = merge::merge(&mut patched[index], document, kind.root, self.minor);
                    merged.map_err(|(path, reason)| PatchError::NoMerge {
                        path: place(&wanted, &path),
                        reason,
                    })?;
                    index
                }
                None => {
                    patched.push(merge::normal(document, kind.root, self.minor));
                    patched.len() - 1
                }
            };
            // Keys without values go, but not where they are all that tells the kind.
            if kind_of(&patched[index], self.minor).is_err() {
                for (key, value) in document.iter().filter(|(_, value)| **value == Value::Null) {
                    patched[index].insert(key, value.clone());
                }
            }
        }
        if let Some((first, second)) = conflicts(&patched, self.minor).into_iter().next() {
            return Err(PatchError::Conflict { first, second });
        }
        *documents = Documents::new(patched);
        Ok(())
    }
}

/// A document's kind; the one without a kind is `v1alpha1`.
fn kind_of(document: &Map, minor: u32) -> Result<&'static schema::Kind, PatchError> {
    let name = document.text("kind").filter(|name| !name.is_empty());
    let Some(name) = name else {
        // A version alone is nothing: Talos does not find a configuration in it.
        let is_v1alpha1 = ["machine", "cluster", "debug", "persist"];
        if document.get("apiVersion").is_none() && is_v1alpha1.iter().any(|key| document.get(key).is_some()) {
            let kind = schema::kind_of("v1alpha1", minor);
            return kind.ok_or_else(|| unfit(document, "version", "is not known"));
        }
        return Err(unfit(document, "kind", "is missing: a document has a kind, or machine or cluster"));
    };
    if document.text("apiVersion") != Some("v1alpha1") {
        return Err(unfit(document, "apiVersion", "must be v1alpha1"));
    }
    schema::kind_of(name, minor).ok_or_else(|| {
        let since = known_since(name).map(|minor| format!("; it came with v1.{minor}")).unwrap_or_default();
        unfit(document, "kind", &format!("is not known to Talos v1.{minor}{since}"))
    })
}

fn unfit(document: &Map, path: &str, message: &str) -> PatchError {
    PatchError::Unfit(vec![Problem::in_document(document, path, message.to_owned())])
}

/// What tells a document from others: its kind, and its name where the kind has names.
fn id(document: &Map, kind: &schema::Kind) -> String {
    match document.text("name").filter(|_| kind.named) {
        Some(name) => format!("{}/{name}", kind.name),
        None => kind.name.to_owned(),
    }
}

fn left_id(document: &Map, minor: u32) -> Option<String> {
    kind_of(document, minor).ok().map(|kind| id(document, kind))
}

/// A place for people: the document, and the path in it.
fn place(document: &str, path: &str) -> String {
    if document == "v1alpha1" { path.to_owned() } else { format!("{document}: {path}") }
}

/// Documents that may not stand beside each other: the same one twice, or two that own the same link or volume.
pub(crate) fn conflicts(documents: &[Map], minor: u32) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut earlier: Vec<(String, &'static schema::Kind, &Map)> = Vec::new();
    for document in documents {
        let Ok(kind) = kind_of(document, minor) else { continue };
        let this = id(document, kind);
        for (other, other_kind, other_document) in &earlier {
            let same_name = document.text("name") == other_document.text("name");
            let excluded =
                kind.conflicts.contains(&other_kind.name) || other_kind.conflicts.contains(&kind.name);
            if *other == this || (same_name && (excluded || (kind.link && other_kind.link))) {
                found.push((other.clone(), this.clone()));
            }
        }
        earlier.push((this, kind, document));
    }
    found
}

#[cfg(test)]
mod tests;
