//! JSON patches: found, refused, and written as the strategic merge that means the same where there is one.
//!
//! Operations on keys of mappings have such a form. Lists do not: a strategic merge appends to them or finds an element by
//! its name, never by its number, so those are explained.

use super::PatchError;
use crate::yaml::{Map, Value};

/// Whether a list is one of JSON patch operations.
pub(super) fn is_patch(operations: &[Value]) -> bool {
    let is_operation = |value: &Value| {
        value.as_map().is_some_and(|map| map.text("op").is_some() && map.get("path").is_some())
    };
    !operations.is_empty() && operations.iter().all(is_operation)
}

/// The refusal, with the strategic form of what has one.
pub(super) fn suggestion(operations: &[Value]) -> PatchError {
    let mut merge = Map::new();
    let mut notes = Vec::new();
    for operation in operations.iter().filter_map(Value::as_map) {
        let (name, path) =
            (operation.text("op").unwrap_or_default(), operation.text("path").unwrap_or_default());
        let keys: Vec<String> =
            path.split('/').skip(1).map(|key| key.replace("~1", "/").replace("~0", "~")).collect();
        let in_list = keys.iter().any(|key| key == "-" || key.parse::<usize>().is_ok());
        match (name, keys.split_last()) {
            ("add" | "replace", Some((last, outer))) if last == "-" && !outer.iter().any(|key| key == "-") => {
                let item = operation.get("value").cloned().unwrap_or(Value::Null);
                put(&mut merge, outer, Value::List(vec![item]));
            }
            ("add" | "replace" | "remove", _) if in_list => notes.push(format!(
                "{name} {path}: elements of lists have no numbers in a strategic merge; lists are appended to, and an element \
                 is deleted by one of its keys: `- {{interface: eth0, $patch: delete}}`"
            )),
            ("add" | "replace", Some(_)) => {
                if name == "replace" && matches!(operation.get("value"), Some(Value::List(_) | Value::Map(_))) {
                    notes.push(format!("{path}: a merge adds to the existing values; to replace them, delete it in a patch before"));
                }
                put(&mut merge, &keys, operation.get("value").cloned().unwrap_or(Value::Null));
            }
            ("remove", Some(_)) => {
                let mut delete = Map::new();
                delete.insert("$patch", "delete");
                put(&mut merge, &keys, delete.into());
            }
            _ => notes.push(format!("{name} {path}: there is no such operation in a strategic merge")),
        }
    }
    let strategic = (!merge.is_empty()).then(|| merge.to_yaml());
    PatchError::Json { strategic, notes }
}

/// Puts a value at a path of keys; two lists at the same place become one.
fn put(map: &mut Map, keys: &[String], value: Value) {
    match keys {
        [] => {}
        [last] => match (map.get_mut(last), value) {
            (Some(Value::List(list)), Value::List(more)) => list.extend(more),
            (_, value) => map.insert(last, value),
        },
        [first, rest @ ..] => put(map.map_mut(first), rest, value),
    }
}
