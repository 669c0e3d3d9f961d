//! `$patch: delete`: taking things out.
//!
//! In a mapping it stands for the mapping itself, in an element of a list for the first element whose other key has the same
//! value, at the top of a document for the document. What is to be deleted is taken out of the patch while it is read,
//! together with everything that becomes empty by that, so that only what is to be merged remains.

use super::PatchError;
use crate::{
    schema::{self, Type, check::text_of, field_of},
    yaml::{Map, Value},
};

/// One thing to be deleted.
#[derive(Debug, Clone)]
pub(super) struct Delete {
    /// The document: its kind, and its name where the patch gives one.
    kind: String,
    name: Option<String>,
    path: Vec<String>,
    /// In a list, the element to be deleted: the one where this key has this value.
    element: Option<(String, String)>,
}

/// Takes the deletes out of a document; says whether nothing remains of it.
pub(super) fn extract(document: &mut Map, deletes: &mut Vec<Delete>) -> Result<bool, PatchError> {
    let mut found = Vec::new();
    let whole = take_from_map(document, &mut Vec::new(), &mut found, false)?;
    let kind = document.text("kind").map(str::to_owned);
    let version = document.text("apiVersion");
    if !found.is_empty() && kind.is_some() != version.is_some() {
        return Err(bad(&[], "a delete needs both apiVersion and kind, or neither"));
    }
    for (path, element) in found {
        if path.is_empty() && kind.is_none() {
            return Err(bad(&path, "the document without a kind cannot be deleted"));
        }
        let kind = kind.clone().unwrap_or_else(|| "v1alpha1".to_owned());
        deletes.push(Delete { kind, name: document.text("name").map(str::to_owned), path, element });
    }
    let only_names = document.iter().all(|(key, value)| {
        ["version", "kind", "name"].contains(&key) && !matches!(value, Value::Map(_) | Value::List(_))
    });
    Ok(whole || only_names)
}

type Found = (Vec<String>, Option<(String, String)>);

/// Looks through a mapping; says whether it is to be taken out of what it stands in.
fn take_from_map(
    map: &mut Map,
    path: &mut Vec<String>,
    found: &mut Vec<Found>,
    in_list: bool,
) -> Result<bool, PatchError> {
    let keys: Vec<String> = map.iter().map(|(key, _)| key.to_owned()).collect();
    let had_keys = !keys.is_empty();
    for key in keys {
        let Some(value) = map.get_mut(&key) else { continue };
        if key == "$patch" && value.as_text() == Some("delete") {
            if in_list {
                let other =
                    map.iter().find(|(key, value)| *key != "$patch" || value.as_text() != Some("delete"));
                let (key, value) =
                    other.ok_or_else(|| bad(path, "name the element by one of its keys beside $patch"))?;
                found.push((path.clone(), Some((key.to_owned(), text_of(value).unwrap_or_default()))));
            } else if path.iter().any(|part| part.starts_with('[')) {
                return Err(bad(path, "inside of a list only a whole element can be deleted"));
            } else {
                found.push((path.clone(), None));
            }
            return Ok(true);
        }
        path.push(key.clone());
        if take(value, path, found)? {
            map.remove(&key);
        }
        path.pop();
    }
    Ok(had_keys && map.is_empty())
}

fn take(value: &mut Value, path: &mut Vec<String>, found: &mut Vec<Found>) -> Result<bool, PatchError> {
    match value {
        Value::Map(map) => take_from_map(map, path, found, false),
        Value::List(list) => {
            let had_items = !list.is_empty();
            let mut index = 0;
            while index < list.len() {
                path.push(format!("[{index}]"));
                let out = match &mut list[index] {
                    Value::Map(map) => take_from_map(map, path, found, true)?,
                    value => take(value, path, found)?,
                };
                path.pop();
                if out {
                    list.remove(index);
                } else {
                    index += 1;
                }
            }
            Ok(had_items && list.is_empty())
        }
        _ => Ok(false),
    }
}

fn bad(path: &[String], reason: &'static str) -> PatchError {
    PatchError::BadDelete { path: joined(path), reason }
}

fn joined(path: &[String]) -> String {
    if path.is_empty() { "$patch".to_owned() } else { path.join(".").replace(".[", "[") }
}

impl Delete {
    pub(super) fn apply(&self, documents: &mut Vec<Map>, minor: u32) -> Result<(), PatchError> {
        let missing = || {
            let document = match &self.name {
                Some(name) => format!("{}/{name}", self.kind),
                None => self.kind.clone(),
            };
            PatchError::NothingToDelete { path: super::place(&document, &joined(&self.path)) }
        };
        let kind = schema::kind_of(&self.kind, minor).ok_or_else(missing)?;
        let index = documents.iter().position(|document| {
            super::kind_of(document, minor).is_ok_and(|it| it.name == kind.name)
                && document.text("name").filter(|_| kind.named) == self.name.as_deref()
        });
        let Some(index) = index else {
            // A document that is not there is what was wanted; before 1.14 the result was one that no node reads.
            return if minor >= 14 { Ok(()) } else { Err(missing()) };
        };
        if self.path.is_empty() {
            documents.remove(index);
            return Ok(());
        }
        match delete_field(&mut documents[index], &self.path, self.element.as_ref(), kind.root, minor) {
            Done::Deleted => Ok(()),
            Done::Missing => Err(missing()),
            Done::Unsupported(reason) => Err(bad(&self.path, reason)),
        }
    }
}

enum Done {
    Deleted,
    Missing,
    Unsupported(&'static str),
}

type Element<'a> = Option<&'a (String, String)>;

fn delete_field(map: &mut Map, path: &[String], element: Element, name: &'static str, minor: u32) -> Done {
    let Some((key, rest)) = path.split_first() else { return Done::Missing };
    let Some(field) = field_of(name, key, minor) else { return Done::Missing };
    if rest.is_empty() {
        map.remove(key);
        return Done::Deleted;
    }
    match map.get_mut(key).filter(|value| **value != Value::Null) {
        Some(value) => delete_in(value, rest, element, field.kind, minor),
        // What is not optional is always there, only empty; deleting in it changes nothing.
        None => {
            delete_in(&mut Value::Map(Map::new()), rest, element, field.kind, minor).when_absent(field.kind)
        }
    }
}

impl Done {
    fn when_absent(self, kind: &Type) -> Self {
        if matches!(kind, Type::Named(_)) { self } else { Done::Missing }
    }
}

fn delete_in(value: &mut Value, path: &[String], element: Element, kind: &'static Type, minor: u32) -> Done {
    match (kind, value) {
        (Type::Ptr(inner) | Type::Merged(_, inner), value) => delete_in(value, path, element, inner, minor),
        (Type::Named(name), Value::Map(map)) => delete_field(map, path, element, name, minor),
        (Type::Map(inner), Value::Map(map)) => delete_entry(map, path, element, Some(inner), minor),
        (Type::Any | Type::Unstructured, Value::Map(map)) => delete_entry(map, path, element, None, minor),
        (Type::List(inner), Value::List(list)) => delete_element(list, path, element, inner, minor),
        (Type::Any, Value::List(_)) => Done::Missing,
        _ => Done::Missing,
    }
}

fn delete_entry(
    map: &mut Map,
    path: &[String],
    element: Element,
    kind: Option<&'static Type>,
    minor: u32,
) -> Done {
    let Some((key, rest)) = path.split_first() else { return Done::Missing };
    if rest.is_empty() {
        return map.remove(key).map_or(Done::Missing, |_| Done::Deleted);
    }
    match map.get_mut(key) {
        Some(value) => delete_in(value, rest, element, kind.unwrap_or(&Type::Any), minor),
        None => Done::Missing,
    }
}

fn delete_element(
    list: &mut Vec<Value>,
    path: &[String],
    element: Element,
    kind: &'static Type,
    minor: u32,
) -> Done {
    let (Some((key, wanted)), [_]) = (element, path) else {
        return Done::Unsupported("inside of a list only a whole element can be deleted");
    };
    let kind = if let Type::Ptr(inner) = kind { inner } else { kind };
    let Type::Named(name) = kind else { return Done::Missing };
    let Some(field) = field_of(name, key, minor) else { return Done::Missing };
    let found = list.iter().position(|item| {
        let value = item.as_map().and_then(|map| map.get(key)).unwrap_or(&Value::Null);
        compared_as(value, field.kind, minor).as_ref() == Some(wanted)
    });
    match found {
        Some(index) => {
            list.remove(index);
            Done::Deleted
        }
        None => Done::Missing,
    }
}

/// The text by which Talos finds an element: only texts have one, and since 1.12 values with a text form of their own.
fn compared_as(value: &Value, kind: &Type, minor: u32) -> Option<String> {
    match kind {
        Type::Text => text_of(value),
        Type::Enum(_) | Type::Opaque(_) | Type::Url if minor >= 12 => text_of(value),
        Type::Ptr(inner) if minor >= 12 && *value != Value::Null && **inner != Type::Text => {
            compared_as(value, inner, minor)
        }
        Type::Merged(_, inner) => compared_as(value, inner, minor),
        _ => None,
    }
}
