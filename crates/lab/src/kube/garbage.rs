//! What goes away by itself: objects whose owners are gone, the content of namespaces that end, pods of nodes that are no
//! more.

use std::collections::BTreeSet;

use serde_json::Value;

use super::store::{Place, Store};

/// The owners that an object names.
pub(super) fn owners(object: &Value) -> impl Iterator<Item = &Value> {
    object.pointer("/metadata/ownerReferences").and_then(Value::as_array).into_iter().flatten()
}

pub(super) fn run(store: &mut Store) {
    let uids: BTreeSet<&str> = store.all().filter_map(|(_, o)| o["metadata"]["uid"].as_str()).collect();
    let ending: BTreeSet<&str> = store
        .entries("", "namespaces", None)
        .filter(|(_, n)| n["metadata"].get("deletionTimestamp").is_some())
        .filter_map(|(_, n)| n["metadata"]["name"].as_str())
        .collect();
    let nodes: BTreeSet<&str> =
        store.entries("", "nodes", None).filter_map(|(_, n)| n["metadata"]["name"].as_str()).collect();
    let gone = |key: &str, object: &Value| {
        let mut named = owners(object).peekable();
        let orphaned =
            named.peek().is_some() && named.all(|o| !o["uid"].as_str().is_some_and(|uid| uids.contains(uid)));
        let homeless =
            object["metadata"]["namespace"].as_str().is_some_and(|namespace| ending.contains(namespace));
        let stranded = key.starts_with("/pods/")
            && object
                .pointer("/spec/nodeName")
                .and_then(Value::as_str)
                .is_some_and(|node| !nodes.contains(node));
        orphaned || homeless || stranded
    };
    let doomed: Vec<String> =
        store.all().filter(|(key, object)| gone(key, object)).map(|(key, _)| key.to_owned()).collect();
    let ended: Vec<String> =
        ending.iter().map(|namespace| Place::core("namespaces", "", namespace).key()).collect();
    for key in doomed.iter().chain(&ended) {
        let Some(place) = Place::of_key(key) else { continue };
        let holds = store.get(&place).is_some_and(|o| {
            o.pointer("/metadata/finalizers").and_then(Value::as_array).is_some_and(|f| !f.is_empty())
        });
        if !holds {
            store.remove(&place);
        }
    }
}
