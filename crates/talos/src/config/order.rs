//! Machine configs in the order in which a release of Talos writes them: that of its own types.

use super::{Documents, Map, Value};
use crate::schema::{self, Type};

/// The key whose number is a file mode, which Talos writes in octal.
const FILE_MODE: &str = "permissions";

impl Documents {
    /// The same documents as a minor release writes them: keys in the order of its types, and those that it does not know behind them.
    #[must_use]
    pub fn in_release_order(&self, minor: u32) -> Self {
        let mut all = Self::default();
        for document in self.iter() {
            let kind = schema::kind_of(document.text("kind").unwrap_or("v1alpha1"), minor);
            all.push(match kind {
                Some(kind) => map_in_order(document, kind.root, minor),
                None => document.clone(),
            });
        }
        all
    }
}

fn map_in_order(map: &Map, name: &str, minor: u32) -> Map {
    let mut ordered = Map::new();
    let fields: Vec<_> = schema::fields_of(name, minor).collect();
    let is_known = |key: &str| fields.iter().any(|field| field.key == key);
    for field in &fields {
        match map.get(field.key) {
            Some(Value::Int(mode)) if field.key == FILE_MODE => {
                ordered.insert(field.key, Value::Number(format!("{mode:#o}")));
            }
            Some(value) => ordered.insert(field.key, value_in_order(value, field.kind, minor)),
            None => {}
        }
    }
    for (key, value) in map.iter().filter(|(key, _)| !is_known(key)) {
        ordered.insert(key, value.clone());
    }
    ordered
}

fn value_in_order(value: &Value, kind: &Type, minor: u32) -> Value {
    match (kind, value) {
        (Type::Ptr(kind) | Type::Merged(_, kind), value) => value_in_order(value, kind, minor),
        (Type::List(kind), Value::List(items)) => {
            Value::List(items.iter().map(|item| value_in_order(item, kind, minor)).collect())
        }
        (Type::Map(kind), Value::Map(map)) => {
            let mut ordered = Map::new();
            for (key, value) in map.iter() {
                ordered.insert(key, value_in_order(value, kind, minor));
            }
            Value::Map(ordered)
        }
        (Type::Named(name), Value::Map(map)) => Value::Map(map_in_order(map, name, minor)),
        (_, value) => value.clone(),
    }
}
