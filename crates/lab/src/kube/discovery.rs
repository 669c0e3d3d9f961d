//! The documents by which clients find kinds: one by one, and all at once as newer clients ask.

use serde_json::{Value, json};

use super::kinds::Kind;
use super::store::Store;

const VERBS: [&str; 8] = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];

/// The kind that a subresource is exchanged as, and what can be done with it.
fn subresource(kind: &Kind, name: &str) -> (String, String, String, &'static [&'static str]) {
    let own = (kind.group.to_string(), kind.version.to_string(), kind.kind.to_string());
    match name {
        "scale" => ("autoscaling".into(), "v1".into(), "Scale".into(), &["get", "patch", "update"]),
        "eviction" => ("policy".into(), "v1".into(), "Eviction".into(), &["create"]),
        "binding" => (String::new(), "v1".into(), "Binding".into(), &["create"]),
        "log" => (own.0, own.1, own.2, &["get"]),
        "finalize" => (own.0, own.1, own.2, &["update"]),
        _ => (own.0, own.1, own.2, &["get", "patch", "update"]),
    }
}

fn resources_of(kind: &Kind) -> Vec<Value> {
    let mut found = vec![json!({
        "name": kind.plural, "singularName": kind.singular, "namespaced": kind.namespaced, "kind": kind.kind,
        "shortNames": kind.short, "categories": kind.categories, "verbs": VERBS,
    })];
    for name in &kind.subresources {
        let (group, version, exchanged, verbs) = subresource(kind, name);
        found.push(json!({
            "name": format!("{}/{name}", kind.plural), "singularName": "", "namespaced": kind.namespaced,
            "group": group, "version": version, "kind": exchanged, "verbs": verbs,
        }));
    }
    found
}

/// `/api`.
pub(crate) fn core_versions() -> Value {
    json!({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []})
}

/// A version of a group, with its kinds.
type Version = (String, Vec<Kind>);

/// Groups with their versions and kinds, in the order of the table.
fn grouped(store: &Store, core: bool) -> Vec<(String, Vec<Version>)> {
    let mut groups: Vec<(String, Vec<Version>)> = vec![];
    for kind in Kind::all(store).into_iter().filter(|kind| kind.group.is_empty() == core) {
        let group = match groups.iter().position(|(name, _)| *name == kind.group) {
            Some(index) => index,
            None => {
                groups.push((kind.group.to_string(), vec![]));
                groups.len() - 1
            }
        };
        let versions = &mut groups[group].1;
        match versions.iter_mut().find(|(version, _)| *version == kind.version) {
            Some((_, kinds)) => kinds.push(kind),
            None => versions.push((kind.version.to_string(), vec![kind])),
        }
    }
    groups
}

fn group_document(name: &str, versions: &[Version]) -> Value {
    let versions: Vec<Value> = versions
        .iter()
        .map(|(version, _)| json!({"groupVersion": format!("{name}/{version}"), "version": version}))
        .collect();
    json!({"name": name, "versions": versions, "preferredVersion": versions.first()})
}

/// `/apis`.
pub(crate) fn groups(store: &Store) -> Value {
    let groups: Vec<Value> =
        grouped(store, false).iter().map(|(name, versions)| group_document(name, versions)).collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

/// `/apis/<group>`.
pub(crate) fn group(store: &Store, name: &str) -> Option<Value> {
    let groups = grouped(store, false);
    let (name, versions) = groups.iter().find(|(group, _)| group == name)?;
    let mut document = group_document(name, versions);
    document["kind"] = "APIGroup".into();
    document["apiVersion"] = "v1".into();
    Some(document)
}

/// `/api` or `/apis` with everything below, in one document.
pub(crate) fn aggregated(store: &Store, core: bool) -> Value {
    let items: Vec<Value> = grouped(store, core)
        .into_iter()
        .map(|(name, versions)| {
            let versions: Vec<Value> = versions
                .iter()
                .map(|(version, kinds)| {
                    let resources: Vec<Value> = kinds.iter().map(aggregated_kind).collect();
                    json!({"version": version, "resources": resources, "freshness": "Current"})
                })
                .collect();
            let metadata = if name.is_empty() { json!({}) } else { json!({"name": name}) };
            json!({"metadata": metadata, "versions": versions})
        })
        .collect();
    json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items})
}

fn aggregated_kind(kind: &Kind) -> Value {
    let gvk =
        |group: &str, version: &str, kind: &str| json!({"group": group, "version": version, "kind": kind});
    let below: Vec<Value> = kind
        .subresources
        .iter()
        .map(|name| {
            let (group, version, exchanged, verbs) = subresource(kind, name);
            json!({"subresource": name, "responseKind": gvk(&group, &version, &exchanged), "verbs": verbs})
        })
        .collect();
    json!({
        "resource": kind.plural, "responseKind": gvk(&kind.group, &kind.version, &kind.kind),
        "scope": if kind.namespaced { "Namespaced" } else { "Cluster" }, "singularResource": kind.singular,
        "shortNames": kind.short, "categories": kind.categories, "verbs": VERBS, "subresources": below,
    })
}

/// `/api/v1` and `/apis/<group>/<version>`; `None` when no one serves it.
pub(crate) fn resources(store: &Store, group: &str, version: &str) -> Option<Value> {
    let kinds = Kind::all(store);
    let kinds: Vec<&Kind> = kinds.iter().filter(|k| k.group == group && k.version == version).collect();
    let api_version = kinds.first()?.api_version();
    let resources: Vec<Value> = kinds.into_iter().flat_map(resources_of).collect();
    Some(
        json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": api_version, "resources": resources}),
    )
}

/// `/version`.
pub(crate) fn version(kubernetes: &str) -> Value {
    let mut parts = kubernetes.trim_start_matches('v').split('.');
    json!({
        "major": parts.next().unwrap_or_default(), "minor": parts.next().unwrap_or_default(),
        "gitVersion": kubernetes, "gitCommit": "0000000000000000000000000000000000000000", "gitTreeState": "clean",
        "buildDate": "2026-01-01T00:00:00Z", "goVersion": "go1.26.8", "compiler": "gc", "platform": "linux/amd64",
    })
}
