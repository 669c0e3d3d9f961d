//! A small value type for YAML whose mappings keep the order in which they were written.
//!
//! Machine configuration is read by people, so the order of keys should be the one they know from `talosctl`. Equality does
//! not look at that order. Strings hold keys and tokens; `Debug` shows their length only and a wipe clears them.

use std::{collections::BTreeMap, fmt};

use zeroize::Zeroize;

/// A YAML value.
#[derive(Clone, PartialEq)]
pub enum Value {
    /// Nothing.
    Null,
    /// True or false.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// Another number.
    Float(f64),
    /// A number in a form that is not the shortest, such as `0644` or `1.10`, as it was written.
    Number(String),
    Text(String),
    /// A sequence.
    List(Vec<Value>),
    /// A mapping.
    Map(Map),
}

/// A mapping that keeps the order of its keys.
#[derive(Clone, Default)]
pub struct Map(Vec<(String, Value)>);

/// A mapping from pairs.
pub(crate) fn map<const N: usize>(pairs: [(&str, Value); N]) -> Map {
    pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

impl Map {
    /// An empty mapping.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The value under a key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.0.iter().find(|(known, _)| known == key).map(|(_, value)| value)
    }

    /// The value at a path of keys joined by dots. Keys that have dots themselves cannot be reached this way.
    #[must_use]
    pub fn find(&self, path: &str) -> Option<&Value> {
        match path.split_once('.') {
            None => self.get(path),
            Some((key, rest)) => self.get(key)?.as_map()?.find(rest),
        }
    }

    /// The text at a path of keys joined by dots.
    #[must_use]
    pub fn text(&self, path: &str) -> Option<&str> {
        self.find(path)?.as_text()
    }

    /// The texts of the list at a path of keys joined by dots; empty where there is none.
    #[must_use]
    pub fn texts(&self, path: &str) -> Vec<String> {
        let list = self.find(path).and_then(Value::as_list).unwrap_or_default();
        list.iter().filter_map(Value::as_text).map(str::to_owned).collect()
    }

    /// Puts a value under a key: in place of the old one, or at the end.
    pub fn insert(&mut self, key: &str, value: impl Into<Value>) {
        let value = value.into();
        match self.0.iter_mut().find(|(known, _)| known == key) {
            Some((_, old)) => *old = value,
            None => self.0.push((key.to_owned(), value)),
        }
    }

    /// The mapping with one more pair, for building.
    #[must_use]
    pub(crate) fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.insert(key, value);
        self
    }

    /// The mapping with one more pair where there is a value.
    #[must_use]
    pub(crate) fn with_some(self, key: &str, value: Option<impl Into<Value>>) -> Self {
        match value {
            Some(value) => self.with(key, value),
            None => self,
        }
    }

    /// Takes a key out.
    pub fn remove(&mut self, key: &str) -> Option<Value> {
        let index = self.0.iter().position(|(known, _)| known == key)?;
        Some(self.0.remove(index).1)
    }

    /// The mapping under a key, made at the end where there was none or something else.
    pub fn map_mut(&mut self, key: &str) -> &mut Map {
        if !matches!(self.get(key), Some(Value::Map(_))) {
            self.insert(key, Map::new());
        }
        let index = self.0.iter().position(|(known, _)| known == key).unwrap_or_default();
        match &mut self.0[index].1 {
            Value::Map(map) => map,
            _ => unreachable!("a mapping was just put there"),
        }
    }

    /// The value under a key, to be changed.
    pub(crate) fn get_mut(&mut self, key: &str) -> Option<&mut Value> {
        self.0.iter_mut().find(|(known, _)| known == key).map(|(_, value)| value)
    }

    /// All values in order, to be changed.
    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut Value> {
        self.0.iter_mut().map(|(_, value)| value)
    }

    /// Gives every key another name.
    pub(crate) fn rename_keys<E>(&mut self, rename: impl Fn(&str) -> Result<String, E>) -> Result<(), E> {
        for (key, _) in &mut self.0 {
            *key = rename(key)?;
        }
        Ok(())
    }

    /// All pairs in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value))
    }

    /// Whether there is nothing in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Clears every text in it from memory.
    pub(crate) fn wipe(&mut self) {
        self.0.iter_mut().for_each(|(_, value)| value.wipe());
    }
}

impl PartialEq for Map {
    fn eq(&self, other: &Self) -> bool {
        self.0.len() == other.0.len() && self.0.iter().all(|(key, value)| other.get(key) == Some(value))
    }
}

impl FromIterator<(String, Value)> for Map {
    fn from_iter<T: IntoIterator<Item = (String, Value)>>(pairs: T) -> Self {
        Self(pairs.into_iter().collect())
    }
}

impl Value {
    /// A list of texts.
    pub(crate) fn texts(texts: &[String]) -> Self {
        Self::List(texts.iter().map(|text| text.as_str().into()).collect())
    }

    /// The text, if it is one.
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }

    /// The mapping, if it is one.
    #[must_use]
    pub fn as_map(&self) -> Option<&Map> {
        if let Self::Map(map) = self { Some(map) } else { None }
    }

    /// The list, if it is one.
    #[must_use]
    pub fn as_list(&self) -> Option<&[Value]> {
        if let Self::List(list) = self { Some(list) } else { None }
    }

    /// The whole number, if it is one.
    #[must_use]
    pub fn as_int(&self) -> Option<i64> {
        if let Self::Int(number) = self { Some(*number) } else { None }
    }

    /// True or false, if it is that.
    #[must_use]
    pub fn as_bool(&self) -> Option<bool> {
        if let Self::Bool(flag) = self { Some(*flag) } else { None }
    }

    pub(crate) fn wipe(&mut self) {
        match self {
            Self::Text(text) => text.zeroize(),
            Self::List(list) => list.iter_mut().for_each(Self::wipe),
            Self::Map(map) => map.wipe(),
            Self::Null | Self::Bool(_) | Self::Int(_) | Self::Float(_) | Self::Number(_) => {}
        }
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<bool> for Value {
    fn from(flag: bool) -> Self {
        Self::Bool(flag)
    }
}

impl From<u16> for Value {
    fn from(number: u16) -> Self {
        Self::Int(number.into())
    }
}

impl From<u32> for Value {
    fn from(number: u32) -> Self {
        Self::Int(number.into())
    }
}

impl From<Map> for Value {
    fn from(map: Map) -> Self {
        Self::Map(map)
    }
}

impl From<&BTreeMap<String, String>> for Value {
    fn from(texts: &BTreeMap<String, String>) -> Self {
        Self::Map(texts.iter().map(|(key, text)| (key.clone(), text.as_str().into())).collect())
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Bool(flag) => flag.fmt(f),
            Self::Int(number) => number.fmt(f),
            Self::Float(number) => number.fmt(f),
            Self::Number(text) => f.write_str(text),
            Self::Text(text) => write!(f, "<{} bytes>", text.len()),
            Self::List(list) => list.fmt(f),
            Self::Map(map) => map.fmt(f),
        }
    }
}

impl fmt::Debug for Map {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}
