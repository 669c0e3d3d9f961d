//! The ways in which a client may change part of an object: three patches. The fourth, applying, is in `apply`.

use serde_json::{Map, Value};

use super::lists;

/// Why a patch is not applied.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// It cannot be read.
    Unreadable(String),
    /// It does not fit the object.
    Unfit(String),
    /// There is no such kind of patch, or not for this kind of object.
    Unknown,
}

/// Applies `patch` to `target` as its media type says. Objects of definitions have no strategic patches.
pub(super) fn apply(
    target: &mut Value,
    media_type: &str,
    patch: &[u8],
    strategic: bool,
) -> Result<(), Refused> {
    let read = || serde_json::from_slice::<Value>(patch).map_err(|e| Refused::Unreadable(e.to_string()));
    match media_type.split(';').next().unwrap_or_default().trim() {
        "application/json-patch+json" => {
            let Value::Array(operations) = read()? else {
                return Err(Refused::Unreadable("a JSON patch is a list of operations".into()));
            };
            operations.iter().try_for_each(|operation| {
                let told = || Refused::Unfit(format!("the operation cannot be carried out: {operation}"));
                step(target, operation).ok_or_else(told)
            })
        }
        "application/merge-patch+json" => {
            merge(target, &read()?);
            Ok(())
        }
        "application/strategic-merge-patch+json" if strategic => {
            strategic_merge(target, &read()?);
            Ok(())
        }
        _ => Err(Refused::Unknown),
    }
}

/// RFC 7386.
fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(changes) = patch else {
        *target = patch.clone();
        return;
    };
    make_object(target);
    let Value::Object(object) = target else { return };
    for (key, change) in changes {
        if change.is_null() {
            object.remove(key);
        } else {
            merge(object.entry(key.clone()).or_insert(Value::Null), change);
        }
    }
}

fn make_object(target: &mut Value) {
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
}

/// As a merge, but lists are merged element by element where elements have names. Keys with a dollar sign are orders.
fn strategic_merge(target: &mut Value, patch: &Value) {
    let Value::Object(changes) = patch else {
        *target = patch.clone();
        return;
    };
    if changes.get("$patch") == Some(&Value::from("replace")) {
        *target = without_orders(changes);
        return;
    }
    make_object(target);
    let Value::Object(object) = target else { return };
    if let Some(kept) = changes.get("$retainKeys").and_then(Value::as_array) {
        object.retain(|key, _| kept.iter().any(|k| k == key.as_str()));
    }
    for (key, change) in changes {
        if let Some(list) = key.strip_prefix("$deleteFromPrimitiveList/") {
            let gone = change.as_array().cloned().unwrap_or_default();
            if let Some(list) = object.get_mut(list).and_then(Value::as_array_mut) {
                list.retain(|element| !gone.contains(element));
            }
            continue;
        }
        if key.starts_with('$') {
            continue;
        }
        match change {
            Value::Null => {
                object.remove(key);
            }
            Value::Array(changes) => {
                let list = object.entry(key.clone()).or_insert_with(|| Value::Array(vec![]));
                merge_list(key, list, changes);
            }
            Value::Object(inner) if inner.get("$patch") == Some(&Value::from("delete")) => {
                object.remove(key);
            }
            change => strategic_merge(object.entry(key.clone()).or_insert(Value::Null), change),
        }
    }
}

fn without_orders(object: &Map<String, Value>) -> Value {
    object.iter().filter(|(key, _)| !key.starts_with('$')).map(|(k, v)| (k.clone(), v.clone())).collect()
}

fn merge_list(name: &str, target: &mut Value, changes: &[Value]) {
    let Value::Array(list) = target else {
        *target = Value::Array(changes.to_vec());
        return;
    };
    let replaces = changes.iter().any(|change| change["$patch"] == "replace");
    let key = lists::key_of(name, changes);
    if lists::is_set(name) {
        list.extend(changes.iter().filter(|c| !list.contains(c)).cloned().collect::<Vec<_>>());
        return;
    }
    let Some(key) = key.filter(|_| !replaces) else {
        let plain = |change: &Value| change.as_object().map_or_else(|| change.clone(), without_orders);
        *list = changes.iter().filter(|c| c["$patch"] != "replace").map(plain).collect();
        return;
    };
    for change in changes {
        match lists::same_key(list, key, change) {
            Some(index) if change["$patch"] == "delete" => {
                list.remove(index);
            }
            Some(index) => strategic_merge(&mut list[index], change),
            None if change["$patch"] == "delete" => {}
            None => list.push(change.as_object().map_or_else(|| change.clone(), without_orders)),
        }
    }
}

/// One operation of RFC 6902.
fn step(target: &mut Value, operation: &Value) -> Option<()> {
    let path = operation["path"].as_str()?;
    let value = operation.get("value").cloned();
    match operation["op"].as_str()? {
        "test" => (target.pointer(path) == value.as_ref()).then_some(()),
        "add" => add(target, path, value?),
        "replace" => {
            *target.pointer_mut(path)? = value?;
            Some(())
        }
        "remove" => take(target, path).map(drop),
        "move" => {
            let moved = take(target, operation["from"].as_str()?)?;
            add(target, path, moved)
        }
        "copy" => {
            let copied = target.pointer(operation["from"].as_str()?)?.clone();
            add(target, path, copied)
        }
        _ => None,
    }
}

fn split(path: &str) -> Option<(&str, String)> {
    let (parent, last) = path.rsplit_once('/')?;
    Some((parent, last.replace("~1", "/").replace("~0", "~")))
}

fn add(target: &mut Value, path: &str, value: Value) -> Option<()> {
    let (parent, last) = split(path)?;
    match target.pointer_mut(parent)? {
        Value::Object(object) => {
            object.insert(last, value);
        }
        Value::Array(list) if last == "-" => list.push(value),
        Value::Array(list) => {
            let index = last.parse::<usize>().ok().filter(|index| *index <= list.len())?;
            list.insert(index, value);
        }
        _ => return None,
    }
    Some(())
}

fn take(target: &mut Value, path: &str) -> Option<Value> {
    let (parent, last) = split(path)?;
    match target.pointer_mut(parent)? {
        Value::Object(object) => object.remove(&last),
        Value::Array(list) => {
            let index = last.parse::<usize>().ok().filter(|index| *index < list.len())?;
            Some(list.remove(index))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const MERGE: &str = "application/merge-patch+json";
    const JSON: &str = "application/json-patch+json";
    const STRATEGIC: &str = "application/strategic-merge-patch+json";

    fn patched(mut object: Value, media_type: &str, patch: &Value) -> Result<Value, Refused> {
        apply(&mut object, media_type, patch.to_string().as_bytes(), true).map(|()| object)
    }

    #[test]
    fn merge_and_json_patches() {
        let node = json!({"spec": {"unschedulable": true, "x": 1}, "list": [1]});
        let merged = patched(node, MERGE, &json!({"spec": {"unschedulable": null}})).unwrap();
        assert_eq!(merged, json!({"spec": {"x": 1}, "list": [1]}));
        let patch = json!([
            {"op": "test", "path": "/spec/x", "value": 1}, {"op": "add", "path": "/list/-", "value": 2},
            {"op": "move", "from": "/spec/x", "path": "/spec/y"}, {"op": "copy", "from": "/list/0", "path": "/first"},
        ]);
        let stepped = patched(merged.clone(), JSON, &patch).unwrap();
        assert_eq!(stepped, json!({"spec": {"y": 1}, "list": [1, 2], "first": 1}));
        let wrong = json!([{"op": "remove", "path": "/nope/a"}]);
        assert!(matches!(patched(merged, JSON, &wrong), Err(Refused::Unfit(_))));
    }

    #[test]
    fn strategic_patches_speak_of_elements() {
        let pod = json!({"spec": {"containers": [{"name": "a", "image": "x"}, {"name": "b"}]}, "taints": [{"key": "t"}]});
        let patch = json!({
            "$setElementOrder/containers": [],
            "spec": {"containers": [{"name": "a", "tty": true}, {"name": "b", "$patch": "delete"}, {"name": "c"}]},
            "taints": [{"key": "u"}],
        });
        assert_eq!(
            patched(pod, STRATEGIC, &patch).unwrap(),
            json!({"spec": {"containers": [{"name": "a", "image": "x", "tty": true}, {"name": "c"}]}, "taints": [{"key": "u"}]})
        );
        let refused = apply(&mut json!({}), STRATEGIC, b"{}", false);
        assert_eq!(refused, Err(Refused::Unknown), "objects of definitions have none");
    }
}
