//! Lists whose elements have a name of their own, so that a change speaks of elements and not of the whole.

use serde_json::Value;

/// The field that tells elements of a list apart, by the name of the list. Lists that are not here are replaced as a
/// whole; so are the taints of a node.
const KEYS: &[(&str, &str)] = &[
    ("addresses", "type"),
    ("conditions", "type"),
    ("containers", "name"),
    ("env", "name"),
    ("ephemeralContainers", "name"),
    ("hostAliases", "ip"),
    ("imagePullSecrets", "name"),
    ("initContainers", "name"),
    ("ownerReferences", "uid"),
    ("topologySpreadConstraints", "topologyKey"),
    ("volumeDevices", "devicePath"),
    ("volumeMounts", "mountPath"),
    ("volumes", "name"),
];

/// The key of a list's elements, where they have one.
pub(super) fn key_of(list: &str, elements: &[Value]) -> Option<&'static str> {
    if list == "ports" {
        // Of a container and of a service, which differ.
        let of_container = elements.iter().any(|element| element.get("containerPort").is_some());
        return Some(if of_container { "containerPort" } else { "port" });
    }
    KEYS.iter().find(|(name, _)| *name == list).map(|(_, key)| *key)
}

/// Whether a list is a set of texts.
pub(super) fn is_set(list: &str) -> bool {
    list == "finalizers"
}

/// The element with the same key as `like`.
pub(super) fn same_key(elements: &[Value], key: &str, like: &Value) -> Option<usize> {
    elements.iter().position(|element| element.get(key).is_some() && element.get(key) == like.get(key))
}
