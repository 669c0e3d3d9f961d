//! Events: what happened to an object, for `kubectl describe`. They go after an hour, as in a real cluster.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::defaults::letters;
use super::store::{Place, Store, second};

const LIFE: SignedDuration = SignedDuration::from_hours(1);

/// Notes that something happened to an object of the core group.
pub(super) fn note(
    store: &mut Store,
    kind: &str,
    object: &Value,
    by: &str,
    reason: &str,
    message: &str,
    now: Timestamp,
) {
    let metadata = &object["metadata"];
    let name = metadata["name"].as_str().unwrap_or_default();
    // Events of objects without a namespace are kept in the first one.
    let namespace = metadata["namespace"].as_str().unwrap_or("default");
    let id = format!("{name}.{}", letters(&format!("{kind}/{namespace}/{name}/{reason}/{message}"), 12));
    let place = Place::core("events", namespace, &id);
    let count = store.get(&place).and_then(|event| event["count"].as_u64()).unwrap_or(0) + 1;
    let first = store.get(&place).map_or_else(|| second(now).into(), |event| event["firstTimestamp"].clone());
    let warns = reason.starts_with("Failed");
    let event = json!({
        "involvedObject": {
            "kind": kind, "apiVersion": "v1", "name": name, "namespace": metadata.get("namespace"), "uid": metadata["uid"],
        },
        "reason": reason, "message": message, "type": if warns { "Warning" } else { "Normal" },
        "source": {"component": by}, "reportingComponent": by, "reportingInstance": "",
        "firstTimestamp": first, "lastTimestamp": second(now), "count": count,
    });
    store.put(&place, event, now);
}

/// Removes what is too old.
pub(super) fn forget(store: &mut Store, now: Timestamp) {
    let old = |event: &Value| {
        let last = event["lastTimestamp"].as_str().and_then(|t| t.parse::<Timestamp>().ok());
        last.is_none_or(|last| now.duration_since(last) > LIFE)
    };
    let gone: Vec<String> = store
        .entries("", "events", None)
        .filter(|(_, event)| old(event))
        .map(|(key, _)| key.to_owned())
        .collect();
    for key in gone {
        if let Some(place) = Place::of_key(&key) {
            store.remove(&place);
        }
    }
}
