//! One cluster's credentials merged into a file that holds others.
//!
//! What has the same name is replaced, everything else stays, and the cluster becomes the current one.

use serde_json::{Map, Value};

/// Why two files cannot be merged.
#[derive(Debug, thiserror::Error)]
pub enum MergeError {
    /// The file that is there is no YAML.
    #[error("it cannot be read as YAML")]
    Unreadable(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The file that is there is something else.
    #[error("it is not a {0}")]
    SomethingElse(&'static str),
}

/// A kubeconfig merged into another.
pub fn kubeconfig(there: &str, new: &str) -> Result<String, MergeError> {
    let (mut there, new) = (read(there, "kubeconfig")?, read(new, "kubeconfig")?);
    if !there.is_empty() && there.get("kind").and_then(Value::as_str) != Some("Config") {
        return Err(MergeError::SomethingElse("kubeconfig"));
    }
    for (key, value) in new {
        match (there.get_mut(&key), value) {
            (Some(Value::Array(have)), Value::Array(add)) => {
                for item in add {
                    have.retain(|other| other.get("name") != item.get("name"));
                    have.push(item);
                }
            }
            (_, value) => {
                there.insert(key, value);
            }
        }
    }
    write(&there)
}

/// A talosconfig merged into another.
pub fn talosconfig(there: &str, new: &str) -> Result<String, MergeError> {
    let (mut there, new) = (read(there, "talosconfig")?, read(new, "talosconfig")?);
    if !there.is_empty() && !there.contains_key("contexts") {
        return Err(MergeError::SomethingElse("talosconfig"));
    }
    for (key, value) in new {
        match (there.get_mut(&key), value) {
            (Some(Value::Object(have)), Value::Object(add)) => have.extend(add),
            (_, value) => {
                there.insert(key, value);
            }
        }
    }
    write(&there)
}

fn read(text: &str, what: &'static str) -> Result<Map<String, Value>, MergeError> {
    if text.trim().is_empty() {
        return Ok(Map::new());
    }
    let value: Value = serde_saphyr::from_str(text).map_err(|e| MergeError::Unreadable(Box::new(e)))?;
    match value {
        Value::Object(fields) => Ok(fields),
        _ => Err(MergeError::SomethingElse(what)),
    }
}

fn write(fields: &Map<String, Value>) -> Result<String, MergeError> {
    serde_saphyr::to_string(fields).map_err(|e| MergeError::Unreadable(Box::new(e)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEW: &str = "apiVersion: v1\nkind: Config\nclusters: [{name: home, cluster: {server: https://new}}]\ncurrent-context: admin@home\n";

    #[test]
    fn others_stay_and_the_same_name_is_replaced() {
        let there = "apiVersion: v1\nkind: Config\nclusters:\n- {name: work, cluster: {server: https://work}}\n- {name: home, cluster: {server: https://old}}\ncurrent-context: work\npreferences: {}\n";
        let merged: Value = serde_saphyr::from_str(&kubeconfig(there, NEW).unwrap()).unwrap();
        assert_eq!(merged["clusters"][0]["cluster"]["server"], "https://work");
        assert_eq!(merged["clusters"][1]["cluster"]["server"], "https://new");
        assert_eq!(merged["clusters"].as_array().unwrap().len(), 2);
        assert_eq!(merged["current-context"], "admin@home");
        assert!(merged.get("preferences").is_some());
        let alone: Value = serde_saphyr::from_str(&kubeconfig("", NEW).unwrap()).unwrap();
        assert_eq!(alone["clusters"][0]["name"], "home");
    }

    #[test]
    fn contexts_of_talos_are_kept_by_name() {
        let there =
            "context: work\ncontexts: {work: {endpoints: [10.0.0.1]}, home: {endpoints: [10.0.0.9]}}\n";
        let new = "context: home\ncontexts: {home: {endpoints: [10.0.0.2]}}\n";
        let merged: Value = serde_saphyr::from_str(&talosconfig(there, new).unwrap()).unwrap();
        assert_eq!(merged["context"], "home");
        assert_eq!(merged["contexts"]["work"]["endpoints"][0], "10.0.0.1");
        assert_eq!(merged["contexts"]["home"]["endpoints"][0], "10.0.0.2");
    }

    #[test]
    fn another_kind_of_file_is_left_alone() {
        assert!(matches!(kubeconfig("cluster: home", NEW), Err(MergeError::SomethingElse(_))));
        assert!(matches!(talosconfig("- a", "context: x"), Err(MergeError::SomethingElse(_))));
        assert!(matches!(kubeconfig("a: [", NEW), Err(MergeError::Unreadable(_))));
    }
}
