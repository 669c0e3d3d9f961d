//! Writing objects: making, replacing, patching, applying, deleting, evicting.

use http::{Method, StatusCode};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::query::Query;
use super::store::{Store, second};
use super::target::{Target, Trouble};
use super::{apply, budgets, defaults, patch, protobuf, read};

/// One request to change something.
pub(crate) struct Change<'a> {
    pub(crate) target: &'a Target,
    pub(crate) query: &'a Query,
    pub(crate) method: &'a Method,
    pub(crate) media_type: &'a str,
    pub(crate) body: &'a [u8],
}

type Outcome = Result<(StatusCode, Value), Trouble>;

/// Carries a change out, unless it is only tried.
pub(crate) fn write(store: &mut Store, change: &Change<'_>, now: Timestamp) -> Outcome {
    let target = change.target;
    match (change.method.as_str(), &target.name, target.sub.as_deref()) {
        ("POST", None, None) => create(store, change, now),
        ("POST", Some(name), Some("eviction")) => evict(store, change, name, now),
        ("POST", Some(name), Some("binding")) => bind(store, change, name, now),
        ("PUT", Some(name), Some("scale")) | ("PATCH", Some(name), Some("scale")) => {
            rescale(store, change, name, now)
        }
        ("PUT", Some(name), _) => {
            let object = change.parse()?;
            let old = store.get(&target.place(name)).ok_or_else(|| target.missing(name))?.clone();
            change.keep(store, name, Some(&old), object, now)
        }
        ("PATCH", Some(name), _) => patch_one(store, change, name, now),
        ("DELETE", Some(name), None) => delete(store, change, name, now),
        ("DELETE", None, None) => delete_all(store, change, now),
        _ => Err(Trouble::method()),
    }
}

impl Change<'_> {
    fn parse(&self) -> Result<Value, Trouble> {
        let body = self.body;
        let object = if self.media_type.starts_with(protobuf::MEDIA_TYPE) {
            // Kinds that are defined by objects have no messages.
            if self.target.kind.custom {
                let message = "the body of the request was in an unknown format - accepted media types include: application/json, application/yaml";
                let code = StatusCode::UNSUPPORTED_MEDIA_TYPE;
                return Err(Trouble::new(code, "UnsupportedMediaType", message));
            }
            protobuf::decode(body)
        } else if self.media_type.contains("yaml") {
            serde_saphyr::from_slice(body).map_err(|e| e.to_string())
        } else {
            serde_json::from_slice::<Value>(body).map_err(|e| e.to_string())
        };
        let object = object.map_err(|why| {
            let kind = &self.target.kind;
            Trouble::bad(format!(
                "{} in version {:?} cannot be handled as a {}: {why}",
                kind.kind, kind.version, kind.kind
            ))
        })?;
        let kind = object["kind"].as_str().filter(|kind| !kind.is_empty());
        match kind {
            _ if !object.is_object() => Err(Trouble::bad("the request body is not an object")),
            Some(kind) if kind != self.target.kind.kind && self.target.sub.is_none() => {
                let message = format!(
                    "the object provided is unrecognized (must be of type {}): {kind}",
                    self.target.kind.kind
                );
                Err(Trouble::bad(message))
            }
            _ => Ok(object),
        }
    }

    /// Puts a changed object in place of the old one, with the parts that this request may not change as they were.
    fn keep(
        &self,
        store: &mut Store,
        name: &str,
        old: Option<&Value>,
        mut new: Value,
        now: Timestamp,
    ) -> Outcome {
        let target = self.target;
        if let Some(old) = old {
            self.check_version(name, old, &new)?;
            if target.kind.has("status") {
                if target.sub.as_deref() == Some("status") {
                    let mut changed = old.clone();
                    changed["status"] = new["status"].take();
                    new = changed;
                } else if let Some(status) = old.get("status") {
                    new["status"] = status.clone();
                } else if let Some(new) = new.as_object_mut() {
                    new.remove("status");
                }
            }
            for key in ["deletionTimestamp", "deletionGracePeriodSeconds"] {
                if let Some(kept) = old["metadata"].get(key) {
                    new["metadata"][key] = kept.clone();
                }
            }
        }
        let place = target.place(name);
        let code = if old.is_some() { StatusCode::OK } else { StatusCode::CREATED };
        if self.query.dry_run {
            return Ok((code, target.full(&store.prepared(&place, new, now))));
        }
        let kept = store.put(&place, new, now);
        let finished = kept["metadata"].get("deletionTimestamp").is_some() && finalizers(&kept).is_empty();
        if finished && target.kind.plural != "pods" {
            store.remove(&place);
        }
        Ok((code, target.full(&kept)))
    }

    fn check_version(&self, name: &str, old: &Value, new: &Value) -> Result<(), Trouble> {
        let given =
            new.pointer("/metadata/resourceVersion").filter(|v| v.as_str().is_some_and(|v| !v.is_empty()));
        if given.is_some() && given != old.pointer("/metadata/resourceVersion") {
            let message = format!(
                "Operation cannot be fulfilled on {} {name:?}: the object has been modified; please apply your changes to the latest version and try again",
                self.target.kind.qualified()
            );
            return Err(Trouble::conflict(message));
        }
        Ok(())
    }
}

fn finalizers(object: &Value) -> Vec<String> {
    let list = object.pointer("/metadata/finalizers").and_then(Value::as_array).into_iter().flatten();
    list.filter_map(Value::as_str).map(str::to_owned).collect()
}

fn create(store: &mut Store, change: &Change<'_>, now: Timestamp) -> Outcome {
    let target = change.target;
    let mut object = change.parse()?;
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (mut name, prefix) = (text("/metadata/name"), text("/metadata/generateName"));
    if name.is_empty() && !prefix.is_empty() {
        name = format!("{prefix}{}", defaults::suffix(&format!("{prefix}{}", store.revision())));
    }
    check_name(target, &name)?;
    check_namespace(store, target)?;
    if store.get(&target.place(&name)).is_some() {
        let message = format!("{} {name:?} already exists", target.kind.qualified());
        let details = json!({"name": name, "group": target.kind.group, "kind": target.kind.plural});
        return Err(Trouble::new(StatusCode::CONFLICT, "AlreadyExists", message).with(details));
    }
    if let Some(object) = object.as_object_mut().filter(|_| target.kind.has("status")) {
        object.remove("status");
    }
    defaults::complete(store, &target.kind, &mut object);
    change.keep(store, &name, None, object, now)
}

fn check_name(target: &Target, name: &str) -> Result<(), Trouble> {
    let refuse = |why: &str| {
        let qualified = target.kind.qualified();
        Err(Trouble::invalid(format!("{qualified} {name:?} is invalid: metadata.name: {why}")))
    };
    if name.is_empty() {
        return refuse("Required value: name or generateName is required");
    }
    // Roles may be called anything that fits into a path.
    let free = target.kind.group == "rbac.authorization.k8s.io";
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.".contains(c);
    let ends = name.starts_with(|c: char| !c.is_ascii_alphanumeric())
        || name.ends_with(|c: char| !c.is_ascii_alphanumeric());
    if !free && (name.len() > 253 || !name.chars().all(allowed) || ends) {
        return refuse(
            "Invalid value: a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character",
        );
    }
    Ok(())
}

fn check_namespace(store: &Store, target: &Target) -> Result<(), Trouble> {
    let Some(namespace) = target.namespace.as_deref().filter(|_| target.kind.namespaced) else {
        return Ok(());
    };
    let place = super::store::Place::core("namespaces", "", namespace);
    match store.get(&place) {
        None => {
            let message = format!("namespaces {namespace:?} not found");
            Err(Trouble::new(StatusCode::NOT_FOUND, "NotFound", message))
        }
        Some(found) if found["metadata"].get("deletionTimestamp").is_some() => {
            let message = format!(
                "unable to create new content in namespace {namespace} because it is being terminated"
            );
            Err(Trouble::new(StatusCode::FORBIDDEN, "Forbidden", message))
        }
        Some(_) => Ok(()),
    }
}

fn patch_one(store: &mut Store, change: &Change<'_>, name: &str, now: Timestamp) -> Outcome {
    let target = change.target;
    let old = store.get(&target.place(name)).cloned();
    if change.media_type.starts_with("application/apply-patch") {
        let config = change.parse()?;
        if change.query.manager.is_empty() {
            return Err(Trouble::bad(
                "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required value: is required for apply patch",
            ));
        }
        let mut object = old.clone().unwrap_or_else(|| json!({}));
        apply::apply(&mut object, &config, &change.query.manager, &target.kind.api_version(), now);
        if old.is_none() {
            check_name(target, name)?;
            check_namespace(store, target)?;
            defaults::complete(store, &target.kind, &mut object);
        }
        return change.keep(store, name, old.as_ref(), object, now);
    }
    let old = old.ok_or_else(|| target.missing(name))?;
    let mut object = old.clone();
    patch::apply(&mut object, change.media_type, change.body, !target.kind.custom).map_err(refusal)?;
    change.keep(store, name, Some(&old), object, now)
}

fn refusal(refused: patch::Refused) -> Trouble {
    match refused {
        patch::Refused::Unreadable(why) => Trouble::bad(why),
        patch::Refused::Unfit(why) => {
            Trouble::invalid(format!("the server rejected our request due to an error in our request: {why}"))
        }
        patch::Refused::Unknown => {
            let message = "the body of the request was in an unknown format - accepted media types include: application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml";
            Trouble::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "UnsupportedMediaType", message)
        }
    }
}

fn rescale(store: &mut Store, change: &Change<'_>, name: &str, now: Timestamp) -> Outcome {
    let target = change.target;
    let mut object = store.get(&target.place(name)).ok_or_else(|| target.missing(name))?.clone();
    let mut wanted = read::scale(&object);
    if change.method == Method::PUT {
        wanted = change.parse()?;
    } else {
        patch::apply(&mut wanted, change.media_type, change.body, true).map_err(refusal)?;
    }
    change.check_version(name, &object, &wanted)?;
    object["spec"]["replicas"] = wanted["spec"]["replicas"].clone();
    let kept = if change.query.dry_run {
        store.prepared(&target.place(name), object, now)
    } else {
        store.put(&target.place(name), object, now)
    };
    Ok((StatusCode::OK, read::scale(&kept)))
}

fn bind(store: &mut Store, change: &Change<'_>, name: &str, now: Timestamp) -> Outcome {
    let node = change.parse()?["target"]["name"].clone();
    let mut pod = store.get(&change.target.place(name)).ok_or_else(|| change.target.missing(name))?.clone();
    pod["spec"]["nodeName"] = node;
    store.put(&change.target.place(name), pod, now);
    Ok((StatusCode::CREATED, success()))
}

fn success() -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"})
}

fn evict(store: &mut Store, change: &Change<'_>, name: &str, now: Timestamp) -> Outcome {
    let target = change.target;
    let eviction = change.parse()?;
    let pod = store.get(&target.place(name)).ok_or_else(|| target.missing(name))?.clone();
    check_preconditions(target, name, &pod, &eviction["deleteOptions"])?;
    budgets::allow(store, &pod)?;
    let grace = eviction.pointer("/deleteOptions/gracePeriodSeconds").and_then(Value::as_u64);
    let tried =
        change.query.dry_run || eviction.pointer("/deleteOptions/dryRun").is_some_and(|d| d != &json!([]));
    if !tried {
        terminate(store, target, name, pod, grace, now);
    }
    Ok((StatusCode::CREATED, success()))
}

/// Refuses to end an object that is not the one the client means.
fn check_preconditions(target: &Target, name: &str, object: &Value, options: &Value) -> Result<(), Trouble> {
    for key in ["uid", "resourceVersion"] {
        let wanted = options.pointer(&format!("/preconditions/{key}"));
        if wanted.is_some_and(|wanted| Some(wanted) != object["metadata"].get(key)) {
            let message = format!(
                "Operation cannot be fulfilled on {} {name:?}: Precondition failed: {key} differs",
                target.kind.qualified()
            );
            return Err(Trouble::conflict(message));
        }
    }
    Ok(())
}

fn delete(store: &mut Store, change: &Change<'_>, name: &str, now: Timestamp) -> Outcome {
    let target = change.target;
    let options = if change.media_type.starts_with(protobuf::MEDIA_TYPE) {
        protobuf::decode(change.body).unwrap_or_default()
    } else {
        serde_json::from_slice(change.body).unwrap_or_default()
    };
    let object = store.get(&target.place(name)).ok_or_else(|| target.missing(name))?.clone();
    check_preconditions(target, name, &object, &options)?;
    let text = |key: &str| options[key].as_str().map(str::to_owned);
    let orphans = text("propagationPolicy").unwrap_or_else(|| change.query.propagation.clone()) == "Orphan";
    let grace = options["gracePeriodSeconds"].as_u64().or(change.query.grace);
    let tried = change.query.dry_run || options["dryRun"].as_array().is_some_and(|list| !list.is_empty());
    if tried {
        return Ok((StatusCode::OK, target.full(&object)));
    }
    if orphans {
        disown(store, &object, now);
    }
    Ok((StatusCode::OK, terminate(store, target, name, object, grace, now)))
}

/// Ends an object: at once, or when its finalizers are gone; a pod when its node has stopped it.
fn terminate(
    store: &mut Store,
    target: &Target,
    name: &str,
    mut object: Value,
    grace: Option<u64>,
    now: Timestamp,
) -> Value {
    let place = target.place(name);
    let plural = target.kind.plural.as_ref();
    let placed = object.pointer("/spec/nodeName").is_some_and(|node| !node.is_null());
    let usual = object.pointer("/spec/terminationGracePeriodSeconds").and_then(Value::as_u64).unwrap_or(30);
    let over =
        ["Succeeded", "Failed"].iter().any(|phase| object.pointer("/status/phase") == Some(&(*phase).into()));
    let grace = if plural == "pods" && placed && !over { grace.unwrap_or(usual) } else { 0 };
    let waits = grace > 0 || plural == "namespaces" || !finalizers(&object).is_empty();
    if !waits {
        store.remove(&place);
        return success();
    }
    if object["metadata"].get("deletionTimestamp").is_none() {
        let at = now.checked_add(SignedDuration::from_secs(i64::try_from(grace).unwrap_or(0))).unwrap_or(now);
        object["metadata"]["deletionTimestamp"] = second(at).into();
        object["metadata"]["deletionGracePeriodSeconds"] = grace.into();
        if plural == "namespaces" {
            object["status"]["phase"] = "Terminating".into();
        }
        object = store.put(&place, object, now);
    }
    target.full(&object)
}

/// Makes dependents of something forget it, so that they stay.
fn disown(store: &mut Store, owner: &Value, now: Timestamp) {
    let uid = &owner["metadata"]["uid"];
    let dependents: Vec<(String, Value)> = store
        .all()
        .filter(|(_, object)| super::garbage::owners(object).any(|reference| &reference["uid"] == uid))
        .map(|(key, object)| (key.to_owned(), object.clone()))
        .collect();
    for (key, mut object) in dependents {
        if let Some(references) = object["metadata"]["ownerReferences"].as_array_mut() {
            references.retain(|reference| &reference["uid"] != uid);
        }
        if let Some(place) = super::store::Place::of_key(&key) {
            store.put(&place, object, now);
        }
    }
}

fn delete_all(store: &mut Store, change: &Change<'_>, now: Timestamp) -> Outcome {
    let target = change.target;
    let entries = store.entries(&target.kind.group, &target.kind.plural, target.namespace.as_deref());
    let wanted: Vec<Value> =
        entries.filter(|(_, object)| change.query.wants(object)).map(|(_, object)| object.clone()).collect();
    for object in wanted {
        let text = |key: &str| object["metadata"][key].as_str().unwrap_or_default().to_owned();
        let (name, namespace) = (text("name"), text("namespace"));
        let one = Target { namespace: Some(namespace).filter(|n| !n.is_empty()), ..target.clone() };
        if !change.query.dry_run {
            terminate(store, &one, &name, object, change.query.grace, now);
        }
    }
    Ok((StatusCode::OK, success()))
}
