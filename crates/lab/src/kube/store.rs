//! Kubernetes' objects: any kind, by group, plural, namespace and name, with versions that count up.
//!
//! The newest changes are remembered, so that a watch can start in the past. They are not saved with the world: after a
//! restart of the lab a watch from before is told that its version is too old, as after a compaction of etcd.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Value, json};

use super::controllers::Known;
use super::manifests::Wanted;

/// How many changes are remembered.
const MEMORY: usize = 2000;

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

impl<'a> Place<'a> {
    pub(crate) fn key(&self) -> String {
        format!("{}/{}/{}/{}", self.group, self.plural, self.namespace, self.name)
    }

    /// The place that a key was made from.
    pub(crate) fn of_key(key: &'a str) -> Option<Self> {
        let mut parts = key.splitn(4, '/');
        Some(Self {
            group: parts.next()?,
            plural: parts.next()?,
            namespace: parts.next()?,
            name: parts.next()?,
        })
    }

    /// The place of a core object in a namespace.
    pub(crate) fn core(plural: &'a str, namespace: &'a str, name: &'a str) -> Self {
        Self { group: "", plural, namespace, name }
    }

    /// Whether versions of the specification are counted.
    fn counts(&self) -> bool {
        !["", "coordination.k8s.io", "rbac.authorization.k8s.io", "storage.k8s.io"].contains(&self.group)
    }
}

/// One change of one object.
#[derive(Debug, Clone)]
pub(crate) struct Change {
    pub(crate) revision: u64,
    pub(crate) key: String,
    pub(crate) old: Option<Arc<Value>>,
    pub(crate) new: Option<Arc<Value>>,
}

/// All objects of one cluster.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Store {
    revision: u64,
    #[serde(serialize_with = "write_objects", deserialize_with = "read_objects")]
    objects: BTreeMap<String, Arc<Value>>,
    /// When a controller has something to do by itself.
    #[serde(default)]
    pub(super) due: Option<Timestamp>,
    /// Objects of the configuration that were made once and are not made again.
    #[serde(default)]
    pub(super) made: BTreeSet<String>,
    #[serde(skip)]
    history: VecDeque<Change>,
    /// The revision up to which controllers have looked.
    #[serde(skip)]
    pub(super) looked: Option<u64>,
    /// When they did.
    #[serde(default)]
    pub(super) ran: Option<Timestamp>,
    /// The hosts outside that answer; all when there is none.
    #[serde(skip)]
    pub(super) outside: Option<BTreeSet<String>>,
    /// What was written of each kubelet last.
    #[serde(skip)]
    pub(super) known: Known,
    /// What the configuration asks for, and the configuration it was read from.
    #[serde(skip)]
    pub(super) wanted: Option<(Vec<String>, Arc<Wanted>)>,
}

impl Store {
    /// The version of the newest change.
    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }

    /// When something happens by itself.
    pub(crate) fn next_due(&self) -> Option<Timestamp> {
        self.due
    }

    pub(crate) fn get(&self, place: &Place<'_>) -> Option<&Value> {
        self.objects.get(&place.key()).map(|object| &**object)
    }

    /// Objects of one kind, of one namespace or of all, in the order of their names.
    pub(crate) fn list(&self, group: &str, plural: &str, namespace: Option<&str>) -> Vec<&Value> {
        self.entries(group, plural, namespace).map(|(_, value)| value).collect()
    }

    /// As [`Self::list`], with the keys.
    pub(crate) fn entries(
        &self,
        group: &str,
        plural: &str,
        namespace: Option<&str>,
    ) -> impl Iterator<Item = (&str, &Value)> {
        let prefix = match namespace {
            Some(namespace) => format!("{group}/{plural}/{namespace}/"),
            None => format!("{group}/{plural}/"),
        };
        let from = self.objects.range(prefix.clone()..);
        from.take_while(move |(key, _)| key.starts_with(&prefix)).map(|(key, value)| (key.as_str(), &**value))
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.objects.iter().map(|(key, value)| (key.as_str(), &**value))
    }

    /// Writes an object, new or in place of the old one, and returns it as kept. Writing what is there already changes
    /// nothing.
    pub(crate) fn put(&mut self, place: &Place<'_>, object: Value, now: Timestamp) -> Value {
        let key = place.key();
        let old = self.objects.get(&key).cloned();
        let mut object = self.prepared(place, object, now);
        if old.as_deref() == Some(&object) {
            return object;
        }
        self.revision += 1;
        object["metadata"]["resourceVersion"] = Value::String(self.revision.to_string());
        let new = Arc::new(object.clone());
        self.objects.insert(key.clone(), new.clone());
        self.remember(Change { revision: self.revision, key, old, new: Some(new) });
        object
    }

    /// An object as it would be kept, but for its version.
    pub(crate) fn prepared(&self, place: &Place<'_>, mut object: Value, now: Timestamp) -> Value {
        let key = place.key();
        let old = self.objects.get(&key);
        let kept = |name: &str| old.and_then(|o| o.pointer(&format!("/metadata/{name}"))).cloned();
        let generation = kept("generation").and_then(|g| g.as_u64()).unwrap_or(0);
        let same_spec = old.is_some_and(|old| old.get("spec") == object.get("spec"));
        let generation = if same_spec { generation } else { generation + 1 };
        if let Some(object) = object.as_object_mut() {
            // They belong to an object that stands alone, and are added there.
            object.remove("kind");
            object.remove("apiVersion");
            let metadata = object.entry("metadata").or_insert_with(|| json!({}));
            if !metadata.is_object() {
                *metadata = json!({});
            }
        }
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.retain(|_, value| !value.is_null());
            metadata.insert("name".into(), place.name.into());
            metadata.remove("namespace");
            if !place.namespace.is_empty() {
                metadata.insert("namespace".into(), place.namespace.into());
            }
            let next = (self.revision + 1).to_string();
            let uid = kept("uid").unwrap_or_else(|| crate::stable::stable_uuid(&[&key, &next]).into());
            metadata.insert("uid".into(), uid);
            let created = kept("creationTimestamp").unwrap_or_else(|| second(now).into());
            metadata.insert("creationTimestamp".into(), created);
            metadata.remove("generation");
            if place.counts() {
                metadata.insert("generation".into(), generation.into());
            }
            metadata.remove("resourceVersion");
            if let Some(version) = kept("resourceVersion") {
                metadata.insert("resourceVersion".into(), version);
            }
        }
        object
    }

    pub(crate) fn remove(&mut self, place: &Place<'_>) -> Option<Value> {
        let key = place.key();
        let old = self.objects.remove(&key)?;
        self.revision += 1;
        let removed = (*old).clone();
        self.remember(Change { revision: self.revision, key, old: Some(old), new: None });
        Some(removed)
    }

    fn remember(&mut self, change: Change) {
        self.history.push_back(change);
        if self.history.len() > MEMORY {
            self.history.pop_front();
        }
    }

    /// The changes after a version; `None` when that is too long ago.
    pub(crate) fn changes_since(&self, revision: u64) -> Option<impl Iterator<Item = &Change>> {
        let floor = self.history.front().map_or(self.revision, |change| change.revision.saturating_sub(1));
        let first = self.history.partition_point(|change| change.revision <= revision);
        (revision >= floor).then(|| self.history.range(first..))
    }
}

fn write_objects<S: Serializer>(objects: &BTreeMap<String, Arc<Value>>, to: S) -> Result<S::Ok, S::Error> {
    to.collect_map(objects.iter().map(|(key, value)| (key, &**value)))
}

fn read_objects<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<String, Arc<Value>>, D::Error> {
    let objects = BTreeMap::<String, Value>::deserialize(from)?;
    Ok(objects.into_iter().map(|(key, value)| (key, Arc::new(value))).collect())
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
        let place = Place::core("configmaps", "default", "a");
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

    #[test]
    fn the_past_is_remembered_until_the_lab_restarts() {
        let mut store = Store::default();
        let place = Place::core("configmaps", "default", "a");
        store.put(&place, json!({"data": {"x": "1"}}), Timestamp::UNIX_EPOCH);
        store.put(&place, json!({"data": {"x": "2"}}), Timestamp::UNIX_EPOCH);
        store.remove(&place);
        let since = |store: &Store, revision| store.changes_since(revision).map(Iterator::count);
        assert_eq!((since(&store, 0), since(&store, 1), since(&store, 3)), (Some(3), Some(2), Some(0)));
        let saved = serde_json::to_string(&store).unwrap();
        let store: Store = serde_json::from_str(&saved).unwrap();
        assert_eq!((since(&store, 2), since(&store, 3)), (None, Some(0)));
    }
}
