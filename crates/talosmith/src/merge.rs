//! One cluster's credentials and a file that holds others.
//!
//! Merged, what has the same name is replaced, everything else stays, and the cluster becomes the current one. Without
//! merging a file is replaced only when it holds nothing of other clusters.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

/// Which file it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// For Kubernetes.
    Kubeconfig,
    /// For Talos.
    Talosconfig,
}

/// What became of two files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Merged {
    /// Both in one.
    pub text: String,
    /// The context that was current in the file that was there, where it is not any more.
    pub was_current: Option<String>,
    /// The context that is current now.
    pub current: String,
}

/// Why two files cannot be merged.
#[derive(Debug, thiserror::Error)]
pub enum MergeError {
    /// The file that is there is no YAML.
    #[error("it cannot be read as YAML: {0}")]
    Unreadable(String),
    /// The file that is there is something else.
    #[error("it is not a {0}")]
    SomethingElse(&'static str),
}

impl Form {
    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Self::Kubeconfig => "kubeconfig",
            Self::Talosconfig => "talosconfig",
        }
    }

    /// The key that names the current context.
    fn current(self) -> &'static str {
        match self {
            Self::Kubeconfig => "current-context",
            Self::Talosconfig => "context",
        }
    }

    /// `new` merged into what is there.
    pub fn merge(self, there: &str, new: &str) -> Result<Merged, MergeError> {
        let (mut there, new) = (self.read(there)?, self.read(new)?);
        let current = |fields: &Map<String, Value>| {
            fields.get(self.current()).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let (was, now) = (current(&there), current(&new));
        for (key, value) in new {
            match (there.get_mut(&key), value) {
                (Some(Value::Array(have)), Value::Array(add)) => {
                    for item in add {
                        have.retain(|other| other.get("name") != item.get("name"));
                        have.push(item);
                    }
                }
                (Some(Value::Object(have)), Value::Object(add)) => have.extend(add),
                (_, value) => {
                    there.insert(key, value);
                }
            }
        }
        let text = serde_saphyr::to_string(&there).map_err(|e| MergeError::Unreadable(e.to_string()))?;
        let was_current = Some(was).filter(|was| !was.is_empty() && *was != now);
        Ok(Merged { text, was_current, current: now })
    }

    /// What is there and has no part of the same name in `new`.
    pub fn others(self, there: &str, new: &str) -> Result<BTreeSet<String>, MergeError> {
        let (there, new) = (self.read(there)?, self.read(new)?);
        Ok(names(&there).difference(&names(&new)).cloned().collect())
    }

    fn read(self, text: &str) -> Result<Map<String, Value>, MergeError> {
        if text.trim().is_empty() {
            return Ok(Map::new());
        }
        let value: Value = serde_saphyr::from_str(text).map_err(|e| MergeError::Unreadable(in_a_line(&e)))?;
        match (self, value) {
            (Self::Kubeconfig, Value::Object(fields))
                if fields.get("kind").and_then(Value::as_str) == Some("Config") =>
            {
                Ok(fields)
            }
            (Self::Talosconfig, Value::Object(fields)) if fields.contains_key("contexts") => Ok(fields),
            _ => Err(MergeError::SomethingElse(self.name())),
        }
    }
}

/// The first line of an error that draws the file below it, which may hold secrets.
fn in_a_line(error: &serde_saphyr::Error) -> String {
    error.to_string().lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned()
}

/// Names of contexts, clusters and users.
fn names(fields: &Map<String, Value>) -> BTreeSet<String> {
    let lists = ["contexts", "clusters", "users"].into_iter().filter_map(|key| fields.get(key));
    let of = |list: &Value| -> Vec<String> {
        match list {
            Value::Array(items) => {
                items.iter().filter_map(|item| Some(item.get("name")?.as_str()?.to_owned())).collect()
            }
            Value::Object(items) => items.keys().cloned().collect(),
            _ => vec![],
        }
    };
    lists.flat_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::Form::{Kubeconfig, Talosconfig};
    use super::*;

    const NEW: &str = "apiVersion: v1\nkind: Config\nclusters: [{name: home, cluster: {server: https://new}}]\ncurrent-context: admin@home\n";

    #[test]
    fn others_stay_and_the_same_name_is_replaced() {
        let there = "apiVersion: v1\nkind: Config\nclusters:\n- {name: work, cluster: {server: https://work}}\n- {name: home, cluster: {server: https://old}}\ncurrent-context: work\npreferences: {}\n";
        let merged = Kubeconfig.merge(there, NEW).unwrap();
        assert_eq!((merged.was_current.as_deref(), merged.current.as_str()), (Some("work"), "admin@home"));
        let merged: Value = serde_saphyr::from_str(&merged.text).unwrap();
        assert_eq!(merged["clusters"][0]["cluster"]["server"], "https://work");
        assert_eq!(merged["clusters"][1]["cluster"]["server"], "https://new");
        assert_eq!(merged["clusters"].as_array().unwrap().len(), 2);
        assert_eq!(merged["current-context"], "admin@home");
        assert!(merged.get("preferences").is_some());
        assert_eq!(Kubeconfig.others(there, NEW).unwrap(), ["work".to_owned()].into());
        let alone = Kubeconfig.merge("", NEW).unwrap();
        assert_eq!(alone.was_current, None);
        let alone: Value = serde_saphyr::from_str(&alone.text).unwrap();
        assert_eq!(alone["clusters"][0]["name"], "home");
        assert!(Kubeconfig.others(NEW, NEW).unwrap().is_empty());
    }

    #[test]
    fn contexts_of_talos_are_kept_by_name() {
        let there =
            "context: work\ncontexts: {work: {endpoints: [10.0.0.1]}, home: {endpoints: [10.0.0.9]}}\n";
        let new = "context: home\ncontexts: {home: {endpoints: [10.0.0.2]}}\n";
        assert_eq!(Talosconfig.others(there, new).unwrap(), ["work".to_owned()].into());
        let merged = Talosconfig.merge(there, new).unwrap();
        assert_eq!(merged.was_current.as_deref(), Some("work"));
        let merged: Value = serde_saphyr::from_str(&merged.text).unwrap();
        assert_eq!(merged["context"], "home");
        assert_eq!(merged["contexts"]["work"]["endpoints"][0], "10.0.0.1");
        assert_eq!(merged["contexts"]["home"]["endpoints"][0], "10.0.0.2");
    }

    #[test]
    fn another_kind_of_file_is_left_alone() {
        assert!(matches!(Kubeconfig.merge("cluster: home", NEW), Err(MergeError::SomethingElse(_))));
        assert!(matches!(Talosconfig.merge("- a", "context: x"), Err(MergeError::SomethingElse(_))));
        let broken = Kubeconfig.merge("a: [", NEW).unwrap_err().to_string();
        assert!(broken.starts_with("it cannot be read as YAML: ") && !broken.contains('\n'), "{broken}");
    }
}
