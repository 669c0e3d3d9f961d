//! Reading the table of calls. It is part of the program, so what it cannot say is left out rather than an error; a test
//! makes sure that nothing is.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::pattern::Pattern;
use super::{Kind, Method, Props, Rule, Schema};
use crate::ProxmoxVersion;

/// The table of the oldest release, and what a later one has more.
pub(super) fn schema(text: &str, later: &str, since: ProxmoxVersion) -> Schema {
    let read = |text: &str| serde_json::from_str::<Value>(text).unwrap_or_default();
    let (table, later) = (read(text), read(later));
    let mut methods: BTreeMap<String, Method> =
        rows(&table, "methods").map(|(n, v)| (n, method(v))).collect();
    methods.extend(rows(&later, "methods").map(|(name, value)| (name, Method { since, ..method(value) })));
    for (name, params) in rows(&later, "params") {
        let more = params.as_object().into_iter().flatten();
        let more = more.map(|(name, value)| (name.clone(), Rule { since, ..rule(value) }));
        if let Some(method) = methods.get_mut(&name) {
            method.params.extend(more);
        }
    }
    let paths = methods.keys().filter_map(|name| name.split_once(' '));
    let paths: BTreeSet<String> = paths.map(|(_, path)| path.to_owned()).collect();
    Schema {
        paths: paths.into_iter().collect(),
        methods,
        formats: rows(&table, "formats").map(|(name, value)| (name, props(value))).collect(),
    }
}

fn rows<'a>(table: &'a Value, key: &str) -> impl Iterator<Item = (String, &'a Value)> {
    table.get(key).and_then(Value::as_object).into_iter().flatten().map(|(name, row)| (name.clone(), row))
}

fn method(value: &Value) -> Method {
    let mut params = BTreeMap::new();
    let mut numbered = Vec::new();
    for (name, value) in value["params"].as_object().into_iter().flatten() {
        match range(name) {
            Some((prefix, from, to)) => numbered.push((prefix.to_owned(), from, to, rule(value))),
            None => drop(params.insert(name.clone(), rule(value))),
        }
    }
    let flag = |key: &str| value[key].as_bool().unwrap_or(false);
    Method {
        since: ProxmoxVersion::V9_1,
        params,
        numbered,
        open: flag("open"),
        permissions: value["permissions"].clone(),
        token: flag("token"),
        returns: value["returns"].as_str().unwrap_or_default().to_owned(),
    }
}

/// `net[0..31]` taken apart.
fn range(name: &str) -> Option<(&str, u32, u32)> {
    let (prefix, rest) = name.strip_suffix(']')?.split_once('[')?;
    let (from, to) = rest.split_once("..")?;
    Some((prefix, from.parse().ok()?, to.parse().ok()?))
}

fn props(value: &Value) -> Props {
    let keys: BTreeMap<String, Rule> =
        value.as_object().into_iter().flatten().map(|(key, value)| (key.clone(), rule(value))).collect();
    let default_key = keys.iter().find(|(_, rule)| rule.default_key).map(|(key, _)| key.clone());
    Props { keys, default_key }
}

pub(super) fn rule(value: &Value) -> Rule {
    let text = |key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
    // Numbers and flags are sometimes written as text.
    let number = |key: &str| match value.get(key) {
        Some(Value::String(text)) => text.parse().ok(),
        Some(other) => other.as_f64(),
        None => None,
    };
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "lengths are small whole numbers"
    )]
    let length = |key: &str| number(key).map(|length: f64| length as usize);
    let flag = |key: &str| number(key).is_some_and(|number: f64| number != 0.0);
    let words = |value: &Value| match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    Rule {
        since: ProxmoxVersion::V9_1,
        kind: match value.get("type").and_then(Value::as_str) {
            Some("boolean") => Kind::Bool,
            Some("integer") => Kind::Int,
            Some("number") => Kind::Number,
            Some("array") => Kind::List,
            _ => Kind::Text,
        },
        format: text("format"),
        pattern: text("pattern").and_then(|pattern| Pattern::new(&pattern)),
        max_length: length("maxLength"),
        min_length: length("minLength"),
        min: number("minimum"),
        max: number("maximum"),
        one_of: value
            .get("enum")
            .and_then(Value::as_array)
            .filter(|values| !values.contains(&Value::Null))
            .map(|values| values.iter().map(words).collect()),
        optional: flag("optional"),
        requires: text("requires"),
        default_key: flag("default_key"),
        alias: text("alias"),
        key_alias: text("keyAlias"),
        items: value.get("items").map(|items| Box::new(rule(items))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_of_the_table_is_understood() {
        fn walk(value: &Value) {
            match value {
                Value::Object(map) => {
                    if let Some(pattern) = map.get("pattern").and_then(Value::as_str) {
                        assert!(Pattern::new(pattern).is_some(), "{pattern}");
                    }
                    map.values().for_each(walk);
                }
                Value::Array(items) => items.iter().for_each(walk),
                _ => {}
            }
        }
        walk(&serde_json::from_str(include_str!("gen/methods.json")).unwrap());
    }
}
