//! A mapping whose keys are taken one by one, so that keys that were not taken are reported: nothing is dropped silently.

use std::cell::Cell;

use model::diagnostic::Span;
use model::load::{Scalar, Tree};

use super::notes::{Notes, names_secret};

/// A mapping of the input.
pub(super) struct Bag<'t> {
    /// What people call it: `nodes.ctrl-00`.
    pub(super) name: String,
    pub(super) span: Span,
    entries: Vec<(&'t str, Span, &'t Tree, Cell<Fate>)>,
}

/// What became of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// It was not taken.
    Unknown,
    /// It was taken, but it was of another kind.
    Misfit,
    /// It was understood.
    Taken,
}

/// A value and where it stood.
#[derive(Debug, Clone)]
pub(super) struct At<T> {
    pub(super) value: T,
    pub(super) span: Span,
}

impl<'t> Bag<'t> {
    pub(super) fn new(name: impl Into<String>, tree: &'t Tree) -> Option<Self> {
        let Tree::Map { span, entries } = tree else { return None };
        let entries =
            entries.iter().map(|(key, span, value)| (key.as_str(), *span, value, Cell::new(Fate::Unknown)));
        Some(Self { name: name.into(), span: *span, entries: entries.collect() })
    }

    /// A value, unless it is null. From now on it counts as understood.
    pub(super) fn take(&self, key: &str) -> Option<&'t Tree> {
        self.read(key, Some)
    }

    /// A value that can be read in some way. One that cannot is remembered, so that it is not lost without a word.
    fn read<T>(&self, key: &str, read: impl FnOnce(&'t Tree) -> Option<T>) -> Option<T> {
        let (_, _, value, fate) = self.entries.iter().find(|(name, ..)| *name == key)?;
        if matches!(value, Tree::Scalar { value: Scalar::Null, .. }) {
            fate.set(Fate::Taken);
            return None;
        }
        let found = read(value);
        match (&found, fate.get()) {
            (Some(_), _) => fate.set(Fate::Taken),
            (None, Fate::Unknown) => fate.set(Fate::Misfit),
            (None, _) => {}
        }
        found
    }

    /// The keys, in file order.
    pub(super) fn keys(&self) -> impl Iterator<Item = &'t str> + '_ {
        self.entries.iter().map(|(key, ..)| *key)
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.entries.iter().any(|(name, ..)| *name == key)
    }

    /// A text that is not empty; a number or a boolean reads as the text it was written with.
    pub(super) fn text(&self, key: &str) -> Option<At<String>> {
        self.read(key, scalar).filter(|text| !text.value.is_empty())
    }

    pub(super) fn number(&self, key: &str) -> Option<At<u32>> {
        self.read(key, |tree| {
            let text = scalar(tree)?;
            Some(At { value: text.value.trim().parse().ok()?, span: text.span })
        })
    }

    pub(super) fn flag(&self, key: &str) -> Option<bool> {
        self.read(key, |tree| scalar(tree)?.value.parse().ok())
    }

    /// Texts of a list.
    pub(super) fn texts(&self, key: &str) -> Vec<At<String>> {
        let all = self.read(key, |tree| match tree {
            Tree::List { items, .. } => items.iter().map(scalar).collect::<Option<Vec<_>>>(),
            _ => None,
        });
        all.unwrap_or_default()
    }

    pub(super) fn values(&self, key: &str) -> Vec<String> {
        self.texts(key).into_iter().map(|text| text.value).collect()
    }

    pub(super) fn bag(&self, key: &str) -> Option<Bag<'t>> {
        let name = self.full(key);
        self.read(key, |tree| Bag::new(name, tree))
    }

    /// Mappings inside this one, by key.
    pub(super) fn bags(&self) -> Vec<(&'t str, Bag<'t>)> {
        let keys: Vec<&str> = self.keys().collect();
        keys.into_iter().filter_map(|key| Some((key, self.bag(key)?))).collect()
    }

    /// A key with the names of what it stands in.
    fn full(&self, key: &str) -> String {
        if self.name.is_empty() { key.to_owned() } else { format!("{}.{key}", self.name) }
    }

    /// Reports every key that was not taken: it has no counterpart here.
    pub(super) fn finish(self, notes: &mut Notes) {
        for (key, span, value, fate) in &self.entries {
            let null = matches!(value, Tree::Scalar { value: Scalar::Null, .. });
            if fate.get() == Fate::Taken || null {
                continue;
            }
            let name = self.full(key);
            match value {
                Tree::Scalar { span, raw, .. } if names_secret(key) && !raw.is_empty() => {
                    notes.lost_secret(*span, &name);
                }
                _ if fate.get() == Fate::Misfit => {
                    notes.lost(*span, &format!("`{name}` has a value of another kind than expected"));
                }
                _ => notes.lost(*span, &format!("`{name}` has no counterpart here")),
            }
        }
    }

    /// Says the same of some keys, with the reason.
    pub(super) fn lose(&self, keys: &[&str], why: &str, notes: &mut Notes) {
        for (key, span, value, fate) in &self.entries {
            if keys.contains(key) && fate.get() != Fate::Taken {
                fate.set(Fate::Taken);
                if !matches!(value, Tree::Scalar { value: Scalar::Null, .. }) {
                    let name = self.full(key);
                    notes.lost(*span, &format!("`{name}` is not carried over: {why}"));
                }
            }
        }
    }

    /// Keys that the input itself does not say: a declaration gave them their value.
    pub(super) fn ignore(&self, keys: &[&str]) {
        self.entries
            .iter()
            .filter(|(key, ..)| keys.contains(key))
            .for_each(|(.., fate)| fate.set(Fate::Taken));
    }
}

/// A scalar as it was written.
fn scalar(tree: &Tree) -> Option<At<String>> {
    match tree {
        Tree::Scalar { raw, span, .. } => Some(At { value: raw.clone(), span: *span }),
        _ => None,
    }
}
