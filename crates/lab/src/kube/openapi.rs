//! Just enough of OpenAPI v3 for `kubectl apply` and `kubectl explain`: which kinds there are, that the server checks
//! fields itself, and the outermost fields of each kind. Schemas of definitions are passed on as they were given.

use serde_json::{Map, Value, json};

use super::kinds::Kind;
use super::store::Store;

/// `/openapi/v3`: the documents, one for each group and version.
pub(crate) fn index(store: &Store) -> Value {
    let paths: Map<String, Value> = Kind::all(store)
        .iter()
        .map(|kind| {
            let path = path_of(kind);
            let url = format!("/openapi/v3/{path}");
            (path, json!({"serverRelativeURL": url}))
        })
        .collect();
    json!({"paths": paths})
}

fn path_of(kind: &Kind) -> String {
    if kind.group.is_empty() {
        format!("api/{}", kind.version)
    } else {
        format!("apis/{}/{}", kind.group, kind.version)
    }
}

/// `/openapi/v3/<path>`: one document.
pub(crate) fn document(store: &Store, path: &str) -> Option<Value> {
    let kinds = Kind::all(store);
    let kinds: Vec<&Kind> = kinds.iter().filter(|kind| path_of(kind) == path).collect();
    if kinds.is_empty() {
        return None;
    }
    let (mut paths, mut schemas) = (Map::new(), Map::new());
    for kind in kinds {
        let gvk = json!({"group": kind.group, "version": kind.version, "kind": kind.kind});
        let name = format!("lab.{}.{}.{}", kind.group, kind.version, kind.kind);
        let namespace = if kind.namespaced { "/namespaces/{namespace}" } else { "" };
        let list = format!("/{path}{namespace}/{}", kind.plural);
        let reference = json!({"$ref": format!("#/components/schemas/{name}")});
        let content = json!({"application/json": {"schema": reference}});
        let operation = |action: &str| {
            let query = |name: &str| json!({"name": name, "in": "query", "schema": {"type": "string"}});
            json!({
                "x-kubernetes-action": action, "x-kubernetes-group-version-kind": gvk,
                "parameters": [query("dryRun"), query("fieldManager"), query("fieldValidation")],
                "responses": {"200": {"description": "OK", "content": content}},
            })
        };
        paths.insert(list.clone(), json!({"get": operation("list"), "post": operation("post")}));
        let one = json!({
            "get": operation("get"), "put": operation("put"), "patch": operation("patch"), "delete": operation("delete"),
        });
        paths.insert(format!("{list}/{{name}}"), one);
        schemas.insert(name, schema(store, kind, &gvk));
    }
    let info = json!({"title": "Kubernetes", "version": "unversioned"});
    Some(json!({"openapi": "3.0.0", "info": info, "paths": paths, "components": {"schemas": schemas}}))
}

fn schema(store: &Store, kind: &Kind, gvk: &Value) -> Value {
    let definitions = store.list("apiextensions.k8s.io", "customresourcedefinitions", None);
    let name = kind.qualified();
    let definition = definitions.into_iter().find(|d| d["metadata"]["name"] == name.as_str());
    let versions = definition.and_then(|d| d["spec"]["versions"].as_array()).into_iter().flatten();
    let given = versions.into_iter().find(|v| v["name"] == kind.version.as_ref());
    let mut schema = given.and_then(|v| v.pointer("/schema/openAPIV3Schema")).cloned().unwrap_or_else(|| {
        let mut properties = json!({
            "apiVersion": {"type": "string", "description": "The group and version of this object."},
            "kind": {"type": "string", "description": "The kind of this object."},
            "metadata": {"type": "object", "description": "Name, namespace, labels and what the server keeps."},
            "spec": {"type": "object", "description": "What is wanted."},
        });
        if kind.has("status") {
            properties["status"] = json!({"type": "object", "description": "What is."});
        }
        json!({"type": "object", "description": format!("{}, as this lab knows it: any field is taken.", kind.kind), "properties": properties})
    });
    schema["x-kubernetes-group-version-kind"] = json!([gvk]);
    schema
}
