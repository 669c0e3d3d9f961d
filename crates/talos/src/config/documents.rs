//! A whole machine configuration: one v1alpha1 document and any number of others, in order.

use std::fmt;

use super::redact;
use crate::yaml::{self, Map, Value, YamlError, map};

/// The documents of a machine configuration. Its `Debug` names the kinds only; its memory is wiped when it goes.
#[derive(Clone, Default, PartialEq)]
pub struct Documents(Vec<Map>);

/// Why a text is no configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DocumentsError {
    /// The text is not YAML.
    #[error("read a machine configuration")]
    Yaml(#[from] YamlError),
    /// A document is not a mapping.
    #[error("document {index} of the machine configuration is not a mapping")]
    NotAMapping {
        /// Which document, counted from one.
        index: usize,
    },
}

impl Documents {
    /// Reads a configuration. Documents without content are left out.
    ///
    /// # Errors
    ///
    /// Where the text is not YAML or a document is not a mapping.
    pub fn parse(text: &str) -> Result<Self, DocumentsError> {
        let mut documents = Vec::new();
        for (index, value) in yaml::read(text)?.into_iter().enumerate() {
            let Value::Map(map) = value else { return Err(DocumentsError::NotAMapping { index: index + 1 }) };
            documents.push(map);
        }
        Ok(Self(documents))
    }

    pub(crate) fn new(documents: Vec<Map>) -> Self {
        Self(documents)
    }

    /// The configuration as text, always the same for the same documents.
    #[must_use]
    pub fn to_yaml(&self) -> String {
        let texts: Vec<String> = self.0.iter().map(Map::to_yaml).collect();
        texts.join("---\n")
    }

    /// All documents in order.
    pub fn iter(&self) -> impl Iterator<Item = &Map> {
        self.0.iter()
    }

    /// The v1alpha1 document. Without it a configuration is partial and keeps a node in maintenance.
    #[must_use]
    pub fn v1alpha1(&self) -> Option<&Map> {
        self.0.iter().find(|document| is_v1alpha1(document))
    }

    /// The v1alpha1 document, to be changed.
    pub fn v1alpha1_mut(&mut self) -> Option<&mut Map> {
        self.0.iter_mut().find(|document| is_v1alpha1(document))
    }

    /// The documents of a kind, in order.
    pub fn of_kind<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Map> {
        self.0.iter().filter(move |document| document.text("kind") == Some(kind))
    }

    /// The first document of a kind.
    #[must_use]
    pub fn kind(&self, kind: &str) -> Option<&Map> {
        self.0.iter().find(|document| document.text("kind") == Some(kind))
    }

    /// The document of a kind that exists once, made at the end where there is none.
    pub fn kind_mut(&mut self, kind: &str) -> &mut Map {
        let index = match self.0.iter().position(|document| document.text("kind") == Some(kind)) {
            Some(index) => index,
            None => {
                self.0.push(document(kind));
                self.0.len() - 1
            }
        };
        &mut self.0[index]
    }

    /// Takes the documents of a kind and name out.
    pub(crate) fn remove(&mut self, kind: &str, name: &str) {
        let is_it =
            |document: &Map| document.text("kind") == Some(kind) && document.text("name") == Some(name);
        self.0.retain(|document| !is_it(document));
    }

    /// Takes the first document of a kind out.
    pub(crate) fn take_kind(&mut self, kind: &str) -> Option<Map> {
        let index = self.0.iter().position(|document| document.text("kind") == Some(kind))?;
        Some(self.0.remove(index))
    }

    /// The same with every secret replaced, so that people may see it.
    #[must_use]
    pub fn redacted(&self) -> Self {
        Self(self.0.iter().map(redact::redacted).collect())
    }

    /// As [`Self::redacted`], and with digests in place of manifests and of everything that `base`, the same before any patch, has not.
    #[must_use]
    pub fn redacted_beyond(&self, base: &Self) -> Self {
        let same = |one: &Map, other: &Map| {
            ["kind", "name", "version"].iter().all(|key| one.text(key) == other.text(key))
        };
        let one = |document: &Map| {
            let known = base.0.iter().find(|known| same(known, document));
            redact::redacted_beyond(document, known)
        };
        Self(self.0.iter().map(one).collect())
    }

    /// Adds a document at the end.
    pub fn push(&mut self, document: Map) {
        self.0.push(document);
    }
}

/// The beginning of a document of a kind.
pub(crate) fn document(kind: &str) -> Map {
    map([("apiVersion", "v1alpha1".into()), ("kind", kind.into())])
}

fn is_v1alpha1(document: &Map) -> bool {
    document.get("kind").is_none() && document.text("version") == Some("v1alpha1")
}

impl Drop for Documents {
    fn drop(&mut self) {
        self.0.iter_mut().for_each(Map::wipe);
    }
}

impl fmt::Debug for Documents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.0.iter().map(|document| document.text("kind").unwrap_or("v1alpha1")))
            .finish()
    }
}
