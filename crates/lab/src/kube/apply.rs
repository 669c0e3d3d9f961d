//! Applying on the server's side: a client sends all that it wants of an object, and what it wanted before and does not
//! any more goes away, unless someone else applies it too. Who applies what is kept in the object, in the form that
//! Kubernetes uses. Conflicts between appliers are not looked for: the newest wins.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::lists;
use super::store::second;

/// Applies `config` to `object` on behalf of `manager`.
pub(super) fn apply(object: &mut Value, config: &Value, manager: &str, api_version: &str, now: Timestamp) {
    let mut wanted = config.clone();
    if let Some(top) = wanted.as_object_mut() {
        top.remove("apiVersion");
        top.remove("kind");
    }
    if let Some(metadata) = wanted.get_mut("metadata").and_then(Value::as_object_mut) {
        for name in ["name", "namespace", "managedFields", "uid", "resourceVersion", "creationTimestamp"] {
            metadata.remove(name);
        }
    }
    let managers = object.pointer("/metadata/managedFields").and_then(Value::as_array).cloned();
    let mut managers = managers.unwrap_or_default();
    let own = |entry: &Value| entry["manager"] == manager && entry["operation"] == "Apply";
    let before = managers.iter().find(|entry| own(entry)).map(|entry| entry["fieldsV1"].clone());
    let fields = fields_of(&wanted);
    if before.as_ref() == Some(&fields) {
        merge("", object, &wanted);
        return;
    }
    managers.retain(|entry| !own(entry));
    let others: Vec<&Value> = managers.iter().map(|entry| &entry["fieldsV1"]).collect();
    if let Some(before) = before {
        drop_fields(object, &before, &fields, &others);
    }
    merge("", object, &wanted);
    managers.push(json!({
        "manager": manager, "operation": "Apply", "apiVersion": api_version, "time": second(now),
        "fieldsType": "FieldsV1", "fieldsV1": fields,
    }));
    if let Some(object) = object.as_object_mut() {
        let metadata = object.entry("metadata").or_insert_with(|| json!({}));
        metadata["managedFields"] = managers.into();
    }
}

/// Takes over what is wanted; lists with named elements are merged by element.
fn merge(name: &str, target: &mut Value, wanted: &Value) {
    match (target, wanted) {
        (Value::Object(target), Value::Object(wanted)) => {
            for (key, value) in wanted {
                merge(key, target.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (Value::Array(target), Value::Array(wanted)) if lists::is_set(name) => {
            target.extend(wanted.iter().filter(|w| !target.contains(w)).cloned().collect::<Vec<_>>());
        }
        (Value::Array(target), Value::Array(wanted)) if lists::key_of(name, wanted).is_some() => {
            let Some(key) = lists::key_of(name, wanted) else { return };
            for element in wanted {
                match lists::same_key(target, key, element) {
                    Some(index) => merge("", &mut target[index], element),
                    None => target.push(element.clone()),
                }
            }
        }
        (target, wanted) => *target = wanted.clone(),
    }
}

/// The fields of a document, as Kubernetes writes them: `f:` and a key, or `k:` and the key of a list's element.
fn fields_of(value: &Value) -> Value {
    let Value::Object(object) = value else { return json!({}) };
    let mut fields = Map::new();
    for (key, value) in object {
        let below = match value {
            Value::Object(inner) if !inner.is_empty() => fields_of(value),
            Value::Array(list) => match lists::key_of(key, list) {
                Some(name) => {
                    let element = |element: &Value| {
                        let mut below = fields_of(element);
                        below["."] = json!({});
                        (format!("k:{}", json!({name: element[name]})), below)
                    };
                    list.iter().map(element).collect()
                }
                None => json!({}),
            },
            _ => json!({}),
        };
        fields.insert(format!("f:{key}"), below);
    }
    fields.into()
}

/// Removes what was applied before, is not now, and no one else applies.
fn drop_fields(target: &mut Value, before: &Value, now: &Value, others: &[&Value]) {
    for (field, below) in before.as_object().into_iter().flatten() {
        let (now_below, others_below): (Option<&Value>, Vec<&Value>) =
            (now.get(field), others.iter().filter_map(|other| other.get(field)).collect());
        let kept = now_below.is_some() || !others_below.is_empty();
        let leaf = below.as_object().is_none_or(Map::is_empty);
        if let Some(key) = field.strip_prefix("f:") {
            let Some(object) = target.as_object_mut() else { continue };
            if !kept && leaf {
                object.remove(key);
            } else if let Some(inner) = object.get_mut(key) {
                drop_fields(inner, below, now_below.unwrap_or(&Value::Null), &others_below);
                let empty = inner.as_object().is_some_and(Map::is_empty)
                    || inner.as_array().is_some_and(Vec::is_empty);
                if !kept && empty {
                    object.remove(key);
                }
            }
        } else if let Some(Ok(key)) = field.strip_prefix("k:").map(serde_json::from_str::<Value>) {
            let Some(list) = target.as_array_mut() else { continue };
            let found =
                key.as_object().and_then(|k| k.keys().next()).and_then(|k| lists::same_key(list, k, &key));
            match found {
                Some(index) if !kept => {
                    list.remove(index);
                }
                Some(index) => {
                    drop_fields(&mut list[index], below, now_below.unwrap_or(&Value::Null), &others_below);
                }
                None => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn apply_as(object: &mut Value, manager: &str, config: &Value) {
        apply(object, config, manager, "v1", Timestamp::UNIX_EPOCH);
    }

    #[test]
    fn what_is_not_applied_any_more_goes_unless_another_applies_it() {
        let mut object = json!({"metadata": {"labels": {"mine": "no"}}, "data": {"kept": "1"}});
        apply_as(
            &mut object,
            "a",
            &json!({"kind": "ConfigMap", "metadata": {"labels": {"x": "1"}}, "data": {"a": "1", "both": "1"}}),
        );
        apply_as(&mut object, "b", &json!({"data": {"both": "1"}}));
        apply_as(&mut object, "a", &json!({"data": {"a": "2"}}));
        assert_eq!(object["data"], json!({"kept": "1", "a": "2", "both": "1"}));
        assert_eq!(object["metadata"]["labels"], json!({"mine": "no"}));
        apply_as(&mut object, "b", &json!({}));
        assert_eq!(object["data"], json!({"kept": "1", "a": "2"}));
        let managers = object["metadata"]["managedFields"].as_array().unwrap();
        assert_eq!(managers[0]["fieldsV1"], json!({"f:data": {"f:a": {}}}));
    }

    #[test]
    fn elements_of_lists_have_owners() {
        let mut object = json!({});
        let containers = |names: &[&str]| {
            let list: Vec<Value> = names.iter().map(|n| json!({"name": n, "image": "x"})).collect();
            json!({"spec": {"containers": list}})
        };
        apply_as(&mut object, "a", &containers(&["one", "two"]));
        apply_as(&mut object, "b", &containers(&["two"]));
        apply_as(&mut object, "a", &containers(&["three"]));
        let names: Vec<&Value> =
            object["spec"]["containers"].as_array().unwrap().iter().map(|c| &c["name"]).collect();
        assert_eq!(names, ["two", "three"]);
    }
}
