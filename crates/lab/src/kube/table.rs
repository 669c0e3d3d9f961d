//! Lists as the tables that `kubectl get` asks for.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::columns::{Column, columns_of};
use super::kinds::Kind;
use super::store::Store;

/// Only what identifies an object.
pub(super) fn partial(object: &Value) -> Value {
    let metadata = object.get("metadata").cloned().unwrap_or_default();
    json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata})
}

/// A table of `objects`.
pub(super) fn table(
    store: &Store,
    kind: &Kind,
    objects: &[Value],
    now: Timestamp,
    metadata: &Value,
) -> Value {
    let columns = match kind.custom {
        true => custom_columns(store, kind),
        false => columns_of(&kind.plural),
    };
    let definitions: Vec<Value> = columns
        .iter()
        .map(|column| {
            let format = if column.name == "Name" { "name" } else { "" };
            json!({
                "name": column.name, "type": column.kind, "format": format,
                "description": format!("{} of this {}.", column.name, kind.kind), "priority": column.priority,
            })
        })
        .collect();
    let rows: Vec<Value> = objects
        .iter()
        .map(|object| {
            let cells: Vec<Value> = columns.iter().map(|column| (column.cell)(object, now)).collect();
            json!({"cells": cells, "object": partial(object)})
        })
        .collect();
    json!({
        "kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata,
        "columnDefinitions": definitions, "rows": rows,
    })
}

/// The columns that a definition asks for.
fn custom_columns(store: &Store, kind: &Kind) -> Vec<Column> {
    let definitions = store.list("apiextensions.k8s.io", "customresourcedefinitions", None);
    let name = kind.qualified();
    let definition = definitions.into_iter().find(|d| d["metadata"]["name"] == name.as_str());
    let versions = definition.and_then(|d| d["spec"]["versions"].as_array()).into_iter().flatten();
    let version = versions.into_iter().find(|version| version["name"] == kind.version.as_ref());
    let asked = version.and_then(|v| v["additionalPrinterColumns"].as_array()).cloned();
    let mut columns = vec![Column::name()];
    match asked {
        None => columns.push(Column::age()),
        Some(asked) => columns.extend(asked.iter().map(Column::asked)),
    }
    columns
}
