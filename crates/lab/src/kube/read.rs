//! Reading objects: one or a list, whole, as a table, or only their metadata; lists page by page.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::StatusCode;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::query::Query;
use super::store::Store;
use super::table::{self, table};
use super::target::{Target, Trouble};

/// The form in which a client wants objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Whole,
    Table,
    Metadata,
}

impl Form {
    pub(crate) fn of(accept: &str) -> Self {
        // The list is in order of preference; the first that we know counts.
        for choice in accept.split(',') {
            if choice.contains("as=Table") {
                return Self::Table;
            }
            if choice.contains("as=PartialObjectMetadata") {
                return Self::Metadata;
            }
            if choice.trim().starts_with("application/json") || choice.contains("*/*") {
                return Self::Whole;
            }
        }
        Self::Whole
    }
}

/// An object in the wanted form, standing alone.
pub(crate) fn shown(store: &Store, target: &Target, object: &Value, form: Form, now: Timestamp) -> Value {
    match form {
        Form::Whole => target.full(object),
        Form::Metadata => table::partial(object),
        Form::Table => {
            let version = object.pointer("/metadata/resourceVersion").cloned().unwrap_or_default();
            let metadata = json!({"resourceVersion": version});
            table(store, &target.kind, std::slice::from_ref(object), now, &metadata)
        }
    }
}

/// Answers a request to read.
pub(crate) fn read(
    store: &Store,
    target: &Target,
    query: &Query,
    form: Form,
    now: Timestamp,
) -> Result<Value, Trouble> {
    if let Some(name) = &target.name {
        let object = store.get(&target.place(name)).ok_or_else(|| target.missing(name))?;
        return match target.sub.as_deref() {
            Some("scale") => Ok(scale(object)),
            Some("log") => Err(Trouble::bad("the lab keeps no logs of containers")),
            _ => Ok(shown(store, target, object, form, now)),
        };
    }
    let (start, version) = continuation(&query.after, store.revision())?;
    let entries = store.entries(&target.kind.group, &target.kind.plural, target.namespace.as_deref());
    let mut wanted = entries.filter(|(key, object)| *key > start.as_str() && query.wants(object));
    let limit = if query.limit == 0 { usize::MAX } else { query.limit };
    let mut last = String::new();
    let mut page: Vec<Value> = vec![];
    for (key, object) in wanted.by_ref().take(limit) {
        key.clone_into(&mut last);
        page.push(object.clone());
    }
    let rest = wanted.count();
    let mut metadata = json!({"resourceVersion": version.to_string()});
    if rest > 0 {
        metadata["continue"] = URL_SAFE_NO_PAD.encode(format!("{version} {last}")).into();
        metadata["remainingItemCount"] = rest.into();
    }
    Ok(match form {
        Form::Table => table(store, &target.kind, &page, now, &metadata),
        Form::Whole => json!({
            "kind": format!("{}List", target.kind.kind), "apiVersion": target.kind.api_version(),
            "metadata": metadata, "items": page,
        }),
        Form::Metadata => {
            let items: Vec<Value> = page.iter().map(table::partial).collect();
            json!({
                "kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1",
                "metadata": metadata, "items": items,
            })
        }
    })
}

/// Where a further page starts: after a key, in the list of a version.
fn continuation(token: &str, newest: u64) -> Result<(String, u64), Trouble> {
    if token.is_empty() {
        return Ok((String::new(), newest));
    }
    let told = || Trouble::new(StatusCode::BAD_REQUEST, "BadRequest", "continue key is not valid");
    let text = URL_SAFE_NO_PAD.decode(token).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let text = text.ok_or_else(told)?;
    let (version, key) = text.split_once(' ').ok_or_else(told)?;
    Ok((key.to_owned(), version.parse().map_err(|_| told())?))
}

/// How many of something there are and should be.
pub(crate) fn scale(object: &Value) -> Value {
    let metadata = &object["metadata"];
    let labels = object.pointer("/spec/selector/matchLabels").and_then(Value::as_object);
    let pairs = labels.into_iter().flatten().map(|(k, v)| format!("{k}={}", v.as_str().unwrap_or_default()));
    json!({
        "kind": "Scale", "apiVersion": "autoscaling/v1",
        "metadata": {
            "name": metadata["name"], "namespace": metadata["namespace"], "uid": metadata["uid"],
            "resourceVersion": metadata["resourceVersion"], "creationTimestamp": metadata["creationTimestamp"],
        },
        "spec": {"replicas": object.pointer("/spec/replicas").cloned().unwrap_or_else(|| 1.into())},
        "status": {
            "replicas": object.pointer("/status/replicas").cloned().unwrap_or_else(|| 0.into()),
            "selector": pairs.collect::<Vec<_>>().join(","),
        },
    })
}
