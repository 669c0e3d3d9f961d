//! A mapping whose keys are taken one by one, so that what nobody took can be told: nothing is dropped silently.

use std::cell::Cell;

use super::notes::{Notes, names_secret};
use crate::diagnostic::Span;
use crate::load::{Scalar, Tree};

/// A mapping of the input.
pub(super) struct Bag<'t> {
    /// What people call it: `nodes.ctrl-00`.
    pub(super) name: String,
    pub(super) span: Span,
    entries: Vec<(&'t str, Span, &'t Tree, Cell<bool>)>,
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
        let entries = entries.iter().map(|(key, span, value)| (key.as_str(), *span, value, Cell::new(false)));
        Some(Self { name: name.into(), span: *span, entries: entries.collect() })
    }

    /// A value, unless it is null. From now on it counts as understood.
    pub(super) fn take(&self, key: &str) -> Option<&'t Tree> {
        let (_, _, value, taken) = self.entries.iter().find(|(name, ..)| *name == key)?;
        taken.set(true);
        (!matches!(value, Tree::Scalar { value: Scalar::Null, .. })).then_some(*value)
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
        match self.take(key)? {
            Tree::Scalar { raw, span, .. } if !raw.is_empty() => Some(At { value: raw.clone(), span: *span }),
            _ => None,
        }
    }

    pub(super) fn number(&self, key: &str) -> Option<At<u32>> {
        let text = self.text(key)?;
        Some(At { value: text.value.trim().parse().ok()?, span: text.span })
    }

    pub(super) fn flag(&self, key: &str) -> Option<bool> {
        match self.text(key)?.value.as_str() {
            "true" => Some(true),
            "false" => Some(false),
            _ => None,
        }
    }

    /// Texts of a list.
    pub(super) fn texts(&self, key: &str) -> Vec<At<String>> {
        let Some(Tree::List { items, .. }) = self.take(key) else { return Vec::new() };
        let text = |item: &Tree| match item {
            Tree::Scalar { raw, span, .. } => Some(At { value: raw.clone(), span: *span }),
            _ => None,
        };
        items.iter().filter_map(text).collect()
    }

    pub(super) fn values(&self, key: &str) -> Vec<String> {
        self.texts(key).into_iter().map(|text| text.value).collect()
    }

    pub(super) fn bag(&self, key: &str) -> Option<Bag<'t>> {
        let name = if self.name.is_empty() { key.to_owned() } else { format!("{}.{key}", self.name) };
        Bag::new(name, self.take(key)?)
    }

    /// Mappings inside this one, by key.
    pub(super) fn bags(&self) -> Vec<(&'t str, Bag<'t>)> {
        let keys: Vec<&str> = self.keys().collect();
        keys.into_iter().filter_map(|key| Some((key, self.bag(key)?))).collect()
    }

    /// Says of every key that nobody took that it has no counterpart here.
    pub(super) fn finish(self, notes: &mut Notes) {
        for (key, span, value, taken) in &self.entries {
            let null = matches!(value, Tree::Scalar { value: Scalar::Null, .. });
            if !taken.get() && !null {
                let name =
                    if self.name.is_empty() { (*key).to_owned() } else { format!("{}.{key}", self.name) };
                match value {
                    Tree::Scalar { span, raw, .. } if names_secret(key) && !raw.is_empty() => {
                        notes.lost_secret(*span, &name);
                    }
                    _ => notes.lost(*span, &format!("`{name}` has no counterpart here")),
                }
            }
        }
    }

    /// Says the same of some keys, with the reason.
    pub(super) fn lose(&self, keys: &[&str], why: &str, notes: &mut Notes) {
        for (key, span, value, taken) in &self.entries {
            if keys.contains(key) && !taken.get() {
                taken.set(true);
                if !matches!(value, Tree::Scalar { value: Scalar::Null, .. }) {
                    notes.lost(*span, &format!("`{}.{key}` is not carried over: {why}", self.name));
                }
            }
        }
    }

    /// Keys that say what holds here anyway.
    pub(super) fn ignore(&self, keys: &[&str]) {
        self.entries.iter().filter(|(key, ..)| keys.contains(key)).for_each(|(.., taken)| taken.set(true));
    }
}
