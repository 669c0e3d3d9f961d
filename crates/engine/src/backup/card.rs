//! The card of a backup: what is in it, to be read without opening the snapshot.
//!
//! A card is JSON, encrypted like the backup. It has a schema version. Fields that this release does not know are kept when a card is
//! written again; a card of a newer schema is refused.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::snapshots::Facts;

/// The schema that this release writes, and the newest that it reads.
const SCHEMA: u64 = 1;
const VERIFIED_AT: &str = "verified_at";

/// What is known about a backup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Card {
    schema: u64,
    /// The name of the cluster.
    pub cluster: String,
    /// When the snapshot was taken.
    pub taken_at: Timestamp,
    /// When the backup was last read back and found sound.
    #[serde(default)]
    pub verified_at: Option<Timestamp>,
    /// The release of Talosmith that made it.
    pub talosmith: String,
    /// The cluster when it was taken.
    #[serde(flatten)]
    pub facts: Facts,
    /// The snapshot.
    pub snapshot: SnapshotFacts,
    /// The copy of the secrets bundle.
    pub bundle: BundleFacts,
    /// Everything, with what this release does not know.
    #[serde(skip)]
    all: Map<String, Value>,
}

/// The snapshot of a backup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotFacts {
    /// Its length as etcd gave it, with the digest at its end.
    pub bytes: u64,
    /// The SHA-256 of the database, which is what etcd wrote at its end.
    pub sha256: String,
    /// The object in the store.
    pub object: StoredObject,
}

/// The copy of the secrets bundle in a backup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BundleFacts {
    /// The SHA-256 of the bundle itself.
    pub sha256: String,
    /// The file name of the copy.
    pub name: String,
}

/// An object in a store, as it was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredObject {
    /// Its file name.
    pub name: String,
    pub bytes: u64,
    /// The SHA-256 of what is stored: it can be compared without a key.
    pub sha256: String,
}

/// Why a text is not a card.
#[derive(Debug, thiserror::Error)]
pub enum CardError {
    /// A release of the future wrote it.
    #[error("a newer Talosmith wrote it (schema {0}, this one reads up to {SCHEMA})")]
    Newer(u64),
    /// It is damaged, or something else.
    #[error("it is not a card: {0}")]
    Invalid(#[from] serde_json::Error),
}

impl Card {
    /// A card of a backup that was just made.
    pub(super) fn new(
        cluster: &str,
        taken_at: Timestamp,
        facts: &Facts,
        snapshot: SnapshotFacts,
        bundle: BundleFacts,
    ) -> Self {
        Self {
            schema: SCHEMA,
            cluster: cluster.to_owned(),
            taken_at,
            verified_at: None,
            talosmith: env!("CARGO_PKG_VERSION").to_owned(),
            facts: facts.clone(),
            snapshot,
            bundle,
            all: Map::new(),
        }
    }

    /// Reads a card.
    ///
    /// # Errors
    ///
    /// When it is none, or of a newer schema.
    pub fn read(text: &[u8]) -> Result<Self, CardError> {
        let all: Map<String, Value> = serde_json::from_slice(text)?;
        // The schema comes first: a newer card may have any other form.
        if let Some(schema) = all.get("schema").and_then(Value::as_u64).filter(|schema| *schema > SCHEMA) {
            return Err(CardError::Newer(schema));
        }
        let card: Self = serde_json::from_value(Value::Object(all.clone()))?;
        Ok(Self { all, ..card })
    }

    /// The same card of a backup that was found sound at this time.
    pub(super) fn verified(mut self, at: Timestamp) -> Self {
        self.verified_at = Some(at);
        self.all.insert(VERIFIED_AT.to_owned(), Value::String(at.to_string()));
        self
    }

    /// The text of the card, with everything that was read.
    pub(super) fn write(&self) -> Vec<u8> {
        let mut all = match serde_json::to_value(self) {
            Ok(Value::Object(known)) => known,
            _ => Map::new(),
        };
        // What was read stays as it was, at every depth; nothing but the time of the verification ever changes.
        all.extend(self.all.clone());
        let mut text = serde_json::to_vec_pretty(&all).unwrap_or_default();
        text.push(b'\n');
        text
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(crate) fn sample() -> Card {
        let object = StoredObject { name: "home-x.snap.zst.age".into(), bytes: 5, sha256: "ab".into() };
        let snapshot = SnapshotFacts { bytes: 544, sha256: "cd".into(), object };
        let bundle = BundleFacts { sha256: "ef".into(), name: "home-x.secrets.age".into() };
        let facts = Facts { cluster_id: "id".into(), ..Facts::default() };
        Card::new("home", "2026-03-01T10:00:00Z".parse().unwrap(), &facts, snapshot, bundle)
    }

    #[test]
    fn a_card_keeps_what_this_release_does_not_know() {
        let mut text: Value = serde_json::from_slice(&sample().write()).unwrap();
        text["color"] = "blue".into();
        text["snapshot"]["blocks"] = 7.into();
        text["etcd"]["downgrade"] = true.into();
        let card = Card::read(text.to_string().as_bytes()).unwrap();
        assert_eq!((card.cluster.as_str(), card.facts.cluster_id.as_str()), ("home", "id"));
        let again = card.verified("2026-03-02T10:00:00Z".parse().unwrap());
        text["verified_at"] = "2026-03-02T10:00:00Z".into();
        assert_eq!(serde_json::from_slice::<Value>(&again.write()).unwrap(), text);
        assert_eq!(Card::read(&again.write()).unwrap().verified_at, again.verified_at);
    }

    #[test]
    fn a_card_of_a_newer_schema_is_refused() {
        let mut text: Value = serde_json::from_slice(&sample().write()).unwrap();
        text["schema"] = 2.into();
        text["snapshot"] = "anything".into();
        let refused = Card::read(text.to_string().as_bytes()).unwrap_err();
        assert!(matches!(refused, CardError::Newer(2)), "{refused}");
        assert!(matches!(Card::read(b"{}").unwrap_err(), CardError::Invalid(_)));
    }
}
