//! Lists as the tables that `kubectl get` asks for.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::discovery::Kind;

/// A table of `objects`.
pub(super) fn table(kind: Kind, objects: &[Value], now: Timestamp, revision: u64) -> Value {
    let columns = columns(kind.plural);
    let definitions: Vec<Value> = columns
        .iter()
        .map(|name| {
            let format = if *name == "Name" { "name" } else { "" };
            json!({"name": name, "type": "string", "format": format, "description": "", "priority": 0})
        })
        .collect();
    let rows: Vec<Value> = objects
        .iter()
        .map(|object| {
            let cells: Vec<String> = columns.iter().map(|column| cell(column, object, now)).collect();
            let metadata = object.get("metadata").cloned().unwrap_or_default();
            let partial = json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata});
            json!({"cells": cells, "object": partial})
        })
        .collect();
    json!({
        "kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": {"resourceVersion": revision.to_string()},
        "columnDefinitions": definitions, "rows": rows,
    })
}

fn columns(plural: &str) -> &'static [&'static str] {
    match plural {
        "nodes" => &["Name", "Status", "Roles", "Age", "Version"],
        "pods" => &["Name", "Ready", "Status", "Restarts", "Age"],
        "namespaces" => &["Name", "Status", "Age"],
        "leases" => &["Name", "Holder", "Age"],
        _ => &["Name", "Age"],
    }
}

fn cell(column: &str, object: &Value, now: Timestamp) -> String {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    match column {
        "Name" => text("/metadata/name"),
        "Age" => age(&text("/metadata/creationTimestamp"), now),
        "Version" => text("/status/nodeInfo/kubeletVersion"),
        "Holder" => text("/spec/holderIdentity"),
        "Roles" => roles(object),
        "Ready" => containers(object),
        "Restarts" => "0".to_owned(),
        "Status" if object.pointer("/status/phase").is_some() => text("/status/phase"),
        "Status" => node_status(object),
        _ => String::new(),
    }
}

fn roles(node: &Value) -> String {
    let labels = node.pointer("/metadata/labels").and_then(Value::as_object).into_iter().flatten();
    let roles: Vec<&str> =
        labels.filter_map(|(key, _)| key.strip_prefix("node-role.kubernetes.io/")).collect();
    if roles.is_empty() { "<none>".to_owned() } else { roles.join(",") }
}

fn node_status(node: &Value) -> String {
    let conditions = node.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten();
    let ready = conditions.into_iter().any(|c| c["type"] == "Ready" && c["status"] == "True");
    let cordoned = node.pointer("/spec/unschedulable") == Some(&Value::Bool(true));
    format!(
        "{}{}",
        if ready { "Ready" } else { "NotReady" },
        if cordoned { ",SchedulingDisabled" } else { "" }
    )
}

fn containers(pod: &Value) -> String {
    let all: Vec<&Value> =
        pod.pointer("/status/containerStatuses").and_then(Value::as_array).into_iter().flatten().collect();
    let ready = all.iter().filter(|c| c["ready"] == true).count();
    format!("{ready}/{}", all.len())
}

fn age(created: &str, now: Timestamp) -> String {
    let Ok(created) = created.parse::<Timestamp>() else { return "<unknown>".to_owned() };
    match now.duration_since(created).as_secs() {
        seconds @ ..120 => format!("{seconds}s"),
        seconds @ ..7200 => format!("{}m", seconds / 60),
        seconds @ ..172_800 => format!("{}h", seconds / 3600),
        seconds => format!("{}d", seconds / 86_400),
    }
}
