//! Kubernetes' objects: any kind, by group, plural, namespace and name, with versions that count up.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Where an object is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place<'a> {
    /// API group; empty for the core.
    pub(crate) group: &'a str,
    pub(crate) plural: &'a str,
    /// Empty for objects without one.
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
}

impl Place<'_> {
    fn key(&self) -> String {
        format!("{}/{}/{}/{}", self.group, self.plural, self.namespace, self.name)
    }
}

/// All objects of one cluster.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Store {
    revision: u64,
    objects: BTreeMap<String, Value>,
}

impl Store {
    /// The version of the newest change.
    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }

    pub(crate) fn get(&self, place: &Place<'_>) -> Option<&Value> {
        self.objects.get(&place.key())
    }

    /// Objects of one kind, of one namespace or of all, in the order of their names.
    pub(crate) fn list(&self, group: &str, plural: &str, namespace: Option<&str>) -> Vec<&Value> {
        let prefix = match namespace {
            Some(namespace) => format!("{group}/{plural}/{namespace}/"),
            None => format!("{group}/{plural}/"),
        };
        let from = self.objects.range(prefix.clone()..);
        from.take_while(|(key, _)| key.starts_with(&prefix)).map(|(_, value)| value).collect()
    }

    /// Writes an object, new or in place of the old one, and returns it as kept. Writing what is there already changes
    /// nothing.
    pub(crate) fn put(&mut self, place: &Place<'_>, mut object: Value, now: Timestamp) -> Value {
        let key = place.key();
        let old = self.objects.get(&key);
        let uid = crate::machine::stable_uuid(&[&key, &(self.revision + 1).to_string()]);
        let born = second(now);
        let meta = |name: &str, fallback: &str| -> Value {
            let kept = old.and_then(|o| o.pointer(&format!("/metadata/{name}"))).cloned();
            kept.unwrap_or_else(|| Value::String(fallback.to_owned()))
        };
        let (uid, created) = (meta("uid", &uid), meta("creationTimestamp", &born));
        let metadata = object.as_object_mut().map(|o| o.entry("metadata").or_insert_with(|| json!({})));
        if let Some(metadata) = metadata.and_then(Value::as_object_mut) {
            metadata.insert("name".into(), place.name.into());
            if !place.namespace.is_empty() {
                metadata.insert("namespace".into(), place.namespace.into());
            }
            metadata.insert("uid".into(), uid);
            metadata.insert("creationTimestamp".into(), created);
            let version =
                old.and_then(|o| o.pointer("/metadata/resourceVersion")).cloned().unwrap_or_default();
            metadata.insert("resourceVersion".into(), version);
        }
        if old == Some(&object) {
            return object;
        }
        self.revision += 1;
        if let Some(metadata) = object.get_mut("metadata") {
            metadata["resourceVersion"] = Value::String(self.revision.to_string());
        }
        self.objects.insert(key, object.clone());
        object
    }

    pub(crate) fn remove(&mut self, place: &Place<'_>) -> Option<Value> {
        let removed = self.objects.remove(&place.key());
        self.revision += u64::from(removed.is_some());
        removed
    }
}

/// A time as Kubernetes writes it.
pub(crate) fn second(moment: Timestamp) -> String {
    Timestamp::from_second(moment.as_second()).unwrap_or(moment).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_count_changes_only_and_identity_stays() {
        let mut store = Store::default();
        let place = Place { group: "", plural: "configmaps", namespace: "default", name: "a" };
        let now = Timestamp::UNIX_EPOCH;
        let first = store.put(&place, json!({"data": {"x": "1"}}), now);
        let same = store.put(&place, json!({"data": {"x": "1"}}), now);
        let second = store.put(&place, json!({"data": {"x": "2"}}), now);
        assert_eq!(first, same);
        assert_eq!(first["metadata"]["resourceVersion"], "1");
        assert_eq!(second["metadata"]["resourceVersion"], "2");
        assert_eq!(first["metadata"]["uid"], second["metadata"]["uid"]);
        assert_eq!(store.list("", "configmaps", Some("default")).len(), 1);
        assert_eq!(store.list("", "configmaps", Some("def")).len(), 0);
        assert!(store.remove(&place).is_some());
        assert!(store.get(&place).is_none());
    }
}
