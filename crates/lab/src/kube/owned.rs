//! What Talos itself writes into the node object of a machine: labels, annotations and taints of its configuration.
//!
//! It takes over what is not there yet or has the wanted value already, changes and removes only what it took over, and keeps
//! the list of that in annotations of the node. What someone else wrote under the same key stays.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::nodes::Kubelet;

const LABELS: &str = "talos.dev/owned-labels";
const ANNOTATIONS: &str = "talos.dev/owned-annotations";
const TAINTS: &str = "talos.dev/owned-taints";

/// Brings what Talos owns of a node in line with its machine's configuration.
pub(super) fn apply(node: &mut Value, kubelet: &Kubelet) {
    let mut labels = taken(node, LABELS);
    let mut annotations = taken(node, ANNOTATIONS);
    let mut taints = taken(node, TAINTS);
    apply_texts(node, "labels", &mut labels, &kubelet.labels);
    apply_texts(node, "annotations", &mut annotations, &kubelet.annotations);
    apply_taints(node, &mut taints, &kubelet.taints);
    for (key, owned) in [(LABELS, labels), (ANNOTATIONS, annotations), (TAINTS, taints)] {
        let list: Vec<_> = owned.into_iter().collect();
        let text = (!list.is_empty()).then(|| json!(list).to_string());
        set_text(node, "annotations", key, text);
    }
}

/// The keys that an annotation lists.
fn taken(node: &Value, annotation: &str) -> BTreeSet<String> {
    let text = node["metadata"]["annotations"][annotation].as_str().unwrap_or("[]");
    serde_json::from_str(text).unwrap_or_default()
}

/// Sets a label or an annotation, or takes it away.
fn set_text(node: &mut Value, field: &str, key: &str, value: Option<String>) {
    let Some(metadata) = node.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    let texts = metadata.entry(field).or_insert_with(|| json!({}));
    let Some(texts) = texts.as_object_mut() else { return };
    match value {
        Some(value) => drop(texts.insert(key.to_owned(), value.into())),
        None => drop(texts.remove(key)),
    }
    if texts.is_empty() {
        metadata.remove(field);
    }
}

fn apply_texts(
    node: &mut Value,
    field: &str,
    owned: &mut BTreeSet<String>,
    wanted: &BTreeMap<String, String>,
) {
    for (key, value) in wanted {
        let there = node["metadata"][field].get(key).and_then(Value::as_str);
        let ours = there.is_none_or(|there| there == value) || owned.contains(key);
        if ours {
            owned.insert(key.clone());
            set_text(node, field, key, Some(value.clone()));
        }
    }
    let gone: Vec<String> = owned.iter().filter(|key| !wanted.contains_key(*key)).cloned().collect();
    for key in gone {
        set_text(node, field, &key, None);
        owned.remove(&key);
    }
}

fn apply_taints(node: &mut Value, owned: &mut BTreeSet<String>, wanted: &BTreeMap<String, String>) {
    let mut taints = node.pointer("/spec/taints").and_then(Value::as_array).cloned().unwrap_or_default();
    for (key, text) in wanted {
        let taint = taint(key, text);
        match taints.iter_mut().find(|there| there["key"] == key.as_str()) {
            None => taints.push(taint),
            Some(there) if owned.contains(key) => *there = taint,
            Some(there) if *there == taint => {}
            Some(_) => continue,
        }
        owned.insert(key.clone());
    }
    taints.retain(|there| {
        let key = there["key"].as_str().unwrap_or_default();
        !owned.contains(key) || wanted.contains_key(key)
    });
    owned.retain(|key| wanted.contains_key(key));
    let Some(spec) = node.get_mut("spec").and_then(Value::as_object_mut) else { return };
    if taints.is_empty() {
        spec.remove("taints");
    } else {
        spec.insert("taints".to_owned(), taints.into());
    }
}

/// A taint as a configuration writes it: `value:Effect`, or only its effect.
fn taint(key: &str, text: &str) -> Value {
    match text.split_once(':') {
        Some((value, effect)) => json!({"effect": effect, "key": key, "value": value}),
        None => json!({"effect": text, "key": key}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn what_was_taken_over_changes_and_goes_and_the_rest_stays() {
        let mut node = json!({"metadata": {"labels": {"kubernetes.io/hostname": "w1"}}, "spec": {}});
        let mut owned = BTreeSet::new();
        let first = texts(&[("a", "1"), ("kubernetes.io/hostname", "other")]);
        apply_texts(&mut node, "labels", &mut owned, &first);
        assert_eq!(node["metadata"]["labels"], json!({"a": "1", "kubernetes.io/hostname": "w1"}));
        assert_eq!(owned, BTreeSet::from(["a".to_owned()]));
        apply_texts(&mut node, "labels", &mut owned, &texts(&[("a", "2")]));
        assert_eq!(node["metadata"]["labels"]["a"], "2");
        apply_texts(&mut node, "labels", &mut owned, &texts(&[]));
        assert_eq!(node["metadata"]["labels"], json!({"kubernetes.io/hostname": "w1"}));
        assert!(owned.is_empty());
    }

    #[test]
    fn taints_of_others_stay() {
        let mut node =
            json!({"metadata": {}, "spec": {"taints": [{"effect": "NoExecute", "key": "theirs"}]}});
        let mut owned = BTreeSet::new();
        let wanted = texts(&[("ours", "v:NoSchedule"), ("plain", "NoSchedule"), ("theirs", "NoSchedule")]);
        apply_taints(&mut node, &mut owned, &wanted);
        assert_eq!(
            node["spec"]["taints"],
            json!([
                {"effect": "NoExecute", "key": "theirs"},
                {"effect": "NoSchedule", "key": "ours", "value": "v"},
                {"effect": "NoSchedule", "key": "plain"},
            ])
        );
        apply_taints(&mut node, &mut owned, &texts(&[]));
        assert_eq!(node["spec"]["taints"], json!([{"effect": "NoExecute", "key": "theirs"}]));
        assert!(owned.is_empty());
    }
}
