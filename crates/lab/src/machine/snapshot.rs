//! etcd's database as a file: what `EtcdSnapshot` streams and what a recovery starts from.
//!
//! The file is one that etcd's own tools open: a bbolt database with etcd's buckets, in `key` one entry for each object of
//! Kubernetes, under the revision of its last change. One entry more, of the newest revision, holds what the lab knows besides.
//! The SHA-256 of the database stands behind it, as etcd appends it.

mod bolt;

use std::collections::BTreeMap;

use prost::Message as _;
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use self::bolt::Bucket;
use crate::kube::Store;

const HASH: usize = 32;
/// Where Kubernetes keeps its objects.
const REGISTRY: &str = "/registry/";
/// Where the lab keeps the rest.
const REST: &str = "/lab/store";
/// Buckets that etcd makes in the beginning and the lab leaves empty.
const EMPTY: [&str; 7] = ["alarm", "auth", "authRoles", "authUsers", "lease", "members", "members_removed"];

/// One key and value, as etcd keeps them.
#[derive(Clone, PartialEq, prost::Message)]
struct KeyValue {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
    #[prost(int64, tag = "2")]
    create_revision: i64,
    #[prost(int64, tag = "3")]
    mod_revision: i64,
    #[prost(int64, tag = "4")]
    version: i64,
    #[prost(bytes = "vec", tag = "5")]
    value: Vec<u8>,
}

/// The file of a store, with the index of etcd's log and the version of its storage.
pub(crate) fn write(store: &Store, index: u64, storage_version: &str) -> Vec<u8> {
    let mut rest = serde_json::to_value(store).unwrap_or_default();
    let objects = rest.get_mut("objects").map(Value::take);
    let mut all: Vec<(u64, String, Value)> = vec![];
    for (key, object) in objects.and_then(|objects| objects.as_object().cloned()).unwrap_or_default() {
        let revision = object["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse().ok());
        all.push((revision.unwrap_or(1), format!("{REGISTRY}{key}"), object));
    }
    all.push((store.revision().max(1), REST.to_owned(), rest));
    all.sort_by(|one, other| (one.0, &one.1).cmp(&(other.0, &other.1)));
    let mut keys = Bucket::new();
    for (sub, (revision, key, value)) in (0_u64..).zip(&all) {
        // Main revision, a line, and the number within it: unique, and in the order of time.
        let at = [&revision.to_be_bytes()[..], b"_", &sub.to_be_bytes()].concat();
        let revision = i64::try_from(*revision).unwrap_or(i64::MAX);
        let kept = KeyValue {
            key: key.clone().into_bytes(),
            create_revision: revision,
            mod_revision: revision,
            version: 1,
            value: serde_json::to_vec(value).unwrap_or_default(),
        };
        keys.insert(at, kept.encode_to_vec());
    }
    let entry = |key: &str, value: &[u8]| (key.as_bytes().to_vec(), value.to_vec());
    let meta = [
        entry("consistent_index", &index.to_be_bytes()),
        entry("storageVersion", storage_version.as_bytes()),
        entry("term", &2_u64.to_be_bytes()),
    ];
    let mut buckets: BTreeMap<&str, Bucket> = EMPTY.into_iter().map(|name| (name, Bucket::new())).collect();
    buckets.insert("cluster", Bucket::from([entry("clusterVersion", storage_version.as_bytes())]));
    buckets.insert("key", keys);
    buckets.insert("meta", Bucket::from(meta));
    let mut file = bolt::write(&buckets);
    let hash = Sha256::digest(&file);
    file.extend(hash);
    file
}

/// The store in a file; what is wrong with the file, in etcd's words, if it is none.
pub(crate) fn read(file: &[u8], check_hash: bool) -> Result<Store, String> {
    let has_hash = file.len() % 512 == HASH;
    if check_hash && !has_hash {
        return Err("snapshot missing hash but --skip-hash-check=false".to_owned());
    }
    let pages = if has_hash { &file[..file.len() - HASH] } else { file };
    if check_hash && Sha256::digest(pages).as_slice() != &file[pages.len()..] {
        return Err("expected sha256 differs from that of the file".to_owned());
    }
    let invalid = || "invalid database".to_owned();
    let (mut objects, mut rest) = (Map::new(), None);
    for kept in bolt::read(pages, "key").ok_or_else(invalid)?.into_values() {
        let kept = KeyValue::decode(&kept[..]).map_err(|_| invalid())?;
        let value: Value = serde_json::from_slice(&kept.value).map_err(|_| invalid())?;
        match String::from_utf8(kept.key).map_err(|_| invalid())?.strip_prefix(REGISTRY) {
            Some(key) => drop(objects.insert(key.to_owned(), value)),
            None => rest = Some(value),
        }
    }
    let mut whole = rest.ok_or_else(invalid)?;
    whole["objects"] = Value::Object(objects);
    serde_json::from_value(whole).map_err(|_| invalid())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_reads_back_and_a_broken_one_does_not() {
        let file = write(&Store::default(), 7, "3.6.0");
        assert_eq!(file.len() % 512, HASH);
        assert!(read(&file, true).is_ok());
        let mut broken = file.clone();
        broken[100] ^= 1;
        assert!(read(&broken, true).is_err());
        assert!(read(&broken, false).is_ok());
        assert_eq!(read(b"garbage", true).unwrap_err(), "snapshot missing hash but --skip-hash-check=false");
        assert_eq!(read(b"garbage", false).unwrap_err(), "invalid database");
    }
}
