//! The ways in which a client may change part of an object.

use serde_json::Value;

/// Applies `patch` to `target` as its media type says; `None` when the patch makes no sense.
///
/// A strategic merge patch is applied as a plain merge patch, and an apply patch too: lists are replaced as a whole.
pub(super) fn apply(target: &mut Value, media_type: &str, patch: &[u8]) -> Option<()> {
    if media_type.starts_with("application/json-patch+json") {
        let operations: Vec<Value> = serde_json::from_slice(patch).ok()?;
        return operations.iter().try_for_each(|operation| step(target, operation));
    }
    let patch: Value = if media_type.starts_with("application/apply-patch+yaml") {
        serde_saphyr::from_slice(patch).ok()?
    } else {
        serde_json::from_slice(patch).ok()?
    };
    merge(target, &patch);
    Some(())
}

/// RFC 7386.
fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(changes) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(serde_json::Map::new());
    }
    let Some(object) = target.as_object_mut() else { return };
    for (key, change) in changes {
        if change.is_null() {
            object.remove(key);
        } else {
            merge(object.entry(key.clone()).or_insert(Value::Null), change);
        }
    }
}

/// One operation of RFC 6902; `move` and `copy` are not known.
fn step(target: &mut Value, operation: &Value) -> Option<()> {
    let path = operation["path"].as_str()?;
    let value = operation.get("value").cloned();
    if operation["op"] == "test" {
        return (target.pointer(path) == value.as_ref()).then_some(());
    }
    let (parent, last) = path.rsplit_once('/')?;
    let last = last.replace("~1", "/").replace("~0", "~");
    match (operation["op"].as_str()?, target.pointer_mut(parent)?) {
        ("add" | "replace", Value::Object(object)) => {
            object.insert(last, value?);
        }
        ("remove", Value::Object(object)) => {
            object.remove(&last)?;
        }
        ("add", Value::Array(list)) if last == "-" => list.push(value?),
        ("add", Value::Array(list)) => {
            let index = last.parse::<usize>().ok().filter(|index| *index <= list.len())?;
            list.insert(index, value?);
        }
        ("replace", Value::Array(list)) => *list.get_mut(last.parse::<usize>().ok()?)? = value?,
        ("remove", Value::Array(list)) => {
            let index = last.parse::<usize>().ok().filter(|index| *index < list.len())?;
            list.remove(index);
        }
        _ => return None,
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_two_common_patches() {
        let mut node = json!({"spec": {"unschedulable": true, "x": 1}, "list": [1]});
        apply(&mut node, "application/merge-patch+json", br#"{"spec": {"unschedulable": null}}"#).unwrap();
        assert_eq!(node, json!({"spec": {"x": 1}, "list": [1]}));
        let patch = br#"[{"op": "test", "path": "/spec/x", "value": 1}, {"op": "add", "path": "/list/-", "value": 2}]"#;
        apply(&mut node, "application/json-patch+json", patch).unwrap();
        assert_eq!(node["list"], json!([1, 2]));
        assert!(
            apply(&mut node, "application/json-patch+json", br#"[{"op": "remove", "path": "/nope/a"}]"#)
                .is_none()
        );
    }
}
