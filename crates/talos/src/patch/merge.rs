//! Merging one document into another, value by value and type by type.
//!
//! A value that is zero does not replace one that is there, unless the key is optional (then, since 1.12, it does) or holds
//! true or false (then it always does). Mappings merge key by key, lists append, except where the type says otherwise.
//! A few types have their own rules, some of them surprising; they are as they are in Talos.

use crate::{
    schema::{Type, check::text_of, fields_of, zero_word_of},
    yaml::{Map, Value},
};

/// Where two values did not go together, and why.
pub(super) type Refusal = (String, &'static str);

/// How a value is merged, beside its type.
#[derive(Clone, Copy, Default)]
struct How {
    replace: bool,
    /// The value is optional, so zero is a value too.
    optional: bool,
    minor: u32,
}

/// Merges a document into another of the same kind.
pub(super) fn merge(left: &mut Map, right: &Map, root: &'static str, minor: u32) -> Result<(), Refusal> {
    *left = normal(left, root, minor);
    fields(left, right, root, minor)
}

/// A document as it is after reading it: a key without a value is not there, nor is what is empty in lists of plain values;
/// where keys are free, an entry without a value has the zero of its type.
pub(super) fn normal(document: &Map, root: &'static str, minor: u32) -> Map {
    let mut normal = document.clone();
    for field in fields_of(root, minor) {
        match normal.get_mut(field.key) {
            Some(Value::Null) => drop(normal.remove(field.key)),
            Some(value) => drop_nulls(value, field.kind, minor),
            None => {}
        }
    }
    normal
}

fn drop_nulls(value: &mut Value, kind: &'static Type, minor: u32) {
    match (kind, value) {
        (Type::Ptr(inner) | Type::Merged(_, inner), value) => drop_nulls(value, inner, minor),
        (Type::List(inner), Value::List(list)) => {
            if !matches!(inner, Type::Ptr(_) | Type::Any) {
                list.retain(|item| *item != Value::Null);
            }
            list.iter_mut().for_each(|item| drop_nulls(item, inner, minor));
        }
        (Type::Map(inner), Value::Map(map)) => {
            for value in map.values_mut() {
                match (inner, &value) {
                    (Type::Text, Value::Null) => *value = "".into(),
                    (Type::Bool, Value::Null) => *value = false.into(),
                    _ => drop_nulls(value, inner, minor),
                }
            }
        }
        (Type::Named(name), Value::Map(map)) => *map = normal(map, name, minor),
        _ => {}
    }
}

fn fields(left: &mut Map, right: &Map, name: &'static str, minor: u32) -> Result<(), Refusal> {
    for field in fields_of(name, minor) {
        let mut new = right.get(field.key).filter(|value| **value != Value::Null).cloned();
        if let Some(value) = &mut new {
            drop_nulls(value, field.kind, minor);
        }
        let mut old = left.get(field.key).filter(|value| **value != Value::Null).cloned();
        let how = How { replace: field.replace, optional: false, minor };
        value(&mut old, new, field.kind, how).map_err(|(path, reason)| {
            let inner = if path.is_empty() || path.starts_with('[') { path } else { format!(".{path}") };
            (format!("{}{inner}", field.key), reason)
        })?;
        match old {
            Some(value) => left.insert(field.key, value),
            None => drop(left.remove(field.key)),
        }
    }
    Ok(())
}

fn refused<T>(reason: &'static str) -> Result<T, Refusal> {
    Err((String::new(), reason))
}

/// Merges a value into one that may not be there.
fn value(
    left: &mut Option<Value>,
    right: Option<Value>,
    kind: &'static Type,
    how: How,
) -> Result<(), Refusal> {
    match kind {
        Type::Ptr(inner) => match (left.is_some(), right) {
            (_, None) => Ok(()),
            (false, right) => {
                *left = right;
                Ok(())
            }
            (true, right) => value(left, right, inner, How { optional: how.minor >= 12, ..how }),
        },
        Type::Merged(rule, inner) => merged(left, right, rule, inner, how),
        Type::Named(name) => {
            if how.replace {
                if right.as_ref().is_some_and(|value| !is_empty(value)) {
                    *left = right;
                }
                return Ok(());
            }
            let (empty, was_there) = (Map::new(), left.is_some());
            let Value::Map(map) = left.get_or_insert_with(|| Map::new().into()) else {
                return refused("is not a mapping");
            };
            fields(map, right.as_ref().and_then(Value::as_map).unwrap_or(&empty), name, how.minor)?;
            if !was_there && map.is_empty() && right.is_none() {
                *left = None;
            }
            Ok(())
        }
        Type::List(_) => list(left, right, how),
        Type::Map(inner) => match right {
            Some(Value::Map(right)) => entries(left, right, Some(inner), how),
            _ => Ok(()),
        },
        Type::Unstructured => match right {
            Some(Value::Map(right)) if right.is_empty() => Ok(()),
            Some(right) if how.replace => {
                *left = Some(right);
                Ok(())
            }
            Some(Value::Map(right)) => entries(left, right, None, how),
            _ => Ok(()),
        },
        Type::Any => free(left, right, how),
        Type::Bool => {
            match right {
                Some(right) => *left = Some(right),
                // Not optional, so absent is false, and false always replaces.
                None if left.is_some() => *left = Some(false.into()),
                None => {}
            }
            Ok(())
        }
        Type::Bytes(_) => {
            *left = right.or_else(|| left.take());
            Ok(())
        }
        Type::Url => {
            if let Some(right) = right {
                *left = Some(match left.as_ref().and_then(text_of) {
                    Some(old) => super::url::merged(&old, &text_of(&right).unwrap_or_default())
                        .ok_or((String::new(), "has a user name on both sides, which Talos cannot merge"))?
                        .into(),
                    None => right,
                });
            }
            Ok(())
        }
        Type::Opaque(name) => opaque(left, right, name),
        Type::Text | Type::Int(_) | Type::Uint(_) | Type::Duration | Type::Enum(_) => {
            if let Some(right) = right
                && (how.optional || !is_zero(&right, kind))
            {
                *left = Some(right);
            }
            Ok(())
        }
    }
}

/// Whether a scalar is the zero of its type.
fn is_zero(value: &Value, kind: &Type) -> bool {
    match kind {
        Type::Text => text_of(value).is_none_or(|text| text.is_empty()),
        Type::Enum(name) => text_of(value).is_none_or(|text| {
            text.is_empty()
                || text == "0"
                || zero_word_of(name).is_some_and(|zero| zero.eq_ignore_ascii_case(&text))
        }),
        Type::Duration => text_of(value)
            .is_none_or(|text| text.is_empty() || !text.contains(|c: char| c.is_ascii_digit() && c != '0')),
        _ => match value {
            Value::Int(number) => *number == 0,
            Value::Float(number) => *number == 0.0,
            Value::Number(text) => !text.contains(|c: char| c.is_ascii_hexdigit() && c != '0'),
            Value::Text(text) => text.is_empty(),
            _ => false,
        },
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Map(map) => map.iter().all(|(_, value)| *value == Value::Null),
        _ => false,
    }
}

fn list(left: &mut Option<Value>, right: Option<Value>, how: How) -> Result<(), Refusal> {
    let Some(Value::List(right)) = right else { return Ok(()) };
    match left {
        Some(Value::List(left)) if !how.replace => left.extend(right),
        _ => *left = Some(Value::List(right)),
    }
    Ok(())
}

/// Merges the entries of a mapping with free keys; without a type the values are of any kind.
fn entries(
    left: &mut Option<Value>,
    right: Map,
    kind: Option<&'static Type>,
    how: How,
) -> Result<(), Refusal> {
    if how.replace {
        *left = Some(right.into());
        return Ok(());
    }
    let Value::Map(map) = left.get_or_insert_with(|| Map::new().into()) else {
        return refused("is not a mapping");
    };
    for (key, new) in right.iter() {
        let inner = kind.unwrap_or(&Type::Any);
        let here = |(path, reason): Refusal| {
            let path = if path.is_empty() || path.starts_with('[') { path } else { format!(".{path}") };
            (format!("{key}{path}"), reason)
        };
        let new = Some(new.clone());
        let mut old = map.get(key).filter(|value| **value != Value::Null).cloned();
        match old {
            Some(_) if *inner == Type::Any => free(&mut old, new, How { minor: how.minor, ..How::default() }),
            Some(_) => {
                let new = new.filter(|value| *value != Value::Null);
                value(&mut old, new, inner, How { minor: how.minor, ..How::default() })
            }
            None => {
                old = new;
                Ok(())
            }
        }
        .map_err(here)?;
        map.insert(key, old.unwrap_or(Value::Null));
    }
    Ok(())
}

/// Merges values of any kind: both must be of the same one.
fn free(left: &mut Option<Value>, right: Option<Value>, how: How) -> Result<(), Refusal> {
    let Some(old) = left.as_mut() else {
        *left = right;
        return Ok(());
    };
    match (old, right) {
        (_, None) => Ok(()),
        (_, Some(Value::Null)) => refused("is empty in the patch; Talos cannot merge that with a value"),
        (Value::Map(_), Some(Value::Map(right))) => entries(left, right, None, how),
        (Value::List(old), Some(Value::List(right))) => {
            old.extend(right);
            Ok(())
        }
        (old, Some(right)) if form(old) != form(&right) => {
            refused("is of another kind in the patch than in the configuration")
        }
        (old, Some(right)) => {
            let zero = match &right {
                Value::Text(text) => text.is_empty(),
                Value::Int(number) => *number == 0,
                Value::Float(number) => *number == 0.0,
                _ => false,
            };
            if !zero {
                *old = right;
            }
            Ok(())
        }
    }
}

/// Which kind of value it is, as far as a merge of free values looks.
fn form(value: &Value) -> u8 {
    match value {
        Value::Null => 0,
        Value::Bool(_) => 1,
        Value::Int(_) => 2,
        Value::Number(text) if !text.contains(['.', 'e', 'E']) || text.contains('x') => 2,
        Value::Float(_) | Value::Number(_) => 3,
        Value::Text(_) => 4,
        Value::List(_) => 5,
        Value::Map(_) => 6,
    }
}

/// Values with a reader of their own and no rule for merging.
fn opaque(left: &mut Option<Value>, right: Option<Value>, name: &str) -> Result<(), Refusal> {
    match name {
        // A size in bytes wins over one in percent, whichever side it is on.
        "block.Size" => {
            let is_percent = |value: &Value| text_of(value).is_some_and(|text| text.contains('%'));
            if let Some(right) = right.filter(|right| text_of(right).is_some_and(|text| !text.is_empty())) {
                let keeps = left.as_ref().is_some_and(|left| !is_percent(left)) && is_percent(&right);
                if !keeps {
                    *left = Some(right);
                }
            }
            Ok(())
        }
        // Their reader gives both parts a value, so a part that the patch leaves out is emptied.
        name if name.starts_with("x509.") => {
            let Some(Value::Map(mut new)) = right else { return Ok(()) };
            for part in ["crt", "key"] {
                let was_there =
                    left.as_ref().and_then(Value::as_map).is_some_and(|old| old.get(part).is_some());
                if was_there && new.get(part).is_none() {
                    new.insert(part, "");
                }
            }
            *left = Some(new.into());
            Ok(())
        }
        "v1alpha1.InstallDiskSizeMatcher" if left.is_some() && right.is_some() => {
            refused("is a size to match, which Talos cannot merge; delete it in a patch before")
        }
        // Up to 1.13 addresses had no rule, and merging even with nothing failed.
        "network.Prefix" | "network.Addr" | "network.AddrPort" | "netip.Prefix" | "netip.Addr"
        | "netip.AddrPort" => {
            refused("is an address, which Talos before v1.14 cannot merge; delete the document first")
        }
        _ => {
            *left = right.or_else(|| left.take());
            Ok(())
        }
    }
}

/// Types with a rule of their own.
fn merged(
    left: &mut Option<Value>,
    right: Option<Value>,
    rule: &str,
    inner: &'static Type,
    how: How,
) -> Result<(), Refusal> {
    match rule {
        // They take the new value even where there is none.
        "ByteSize" | "PercentageSize" | "Expression" => {
            *left = right;
            return Ok(());
        }
        "Prefix" | "Addr" | "AddrPort" => {
            if let Some(right) = right.filter(|right| text_of(right).is_some_and(|text| !text.is_empty())) {
                *left = Some(right);
            }
            return Ok(());
        }
        "Args" => {
            if let Some(Value::Map(right)) = right
                && !right.is_empty()
            {
                let Value::Map(map) = left.get_or_insert_with(|| Map::new().into()) else {
                    return refused("is not a mapping");
                };
                for (key, value) in right.iter() {
                    map.insert(key, value.clone());
                }
            }
            return Ok(());
        }
        _ => {}
    }
    let (Type::List(item), Some(Value::List(right))) = (inner, right) else { return Ok(()) };
    let name = match item {
        Type::Ptr(Type::Named(name)) | Type::Named(name) => *name,
        _ => return refused("is a list that cannot be merged"),
    };
    if right.is_empty() {
        return Ok(());
    }
    let Value::List(list) = left.get_or_insert_with(|| Value::List(Vec::new())) else {
        return refused("is not a list");
    };
    // Rules for images are looked for only among those that were there before the patch, and the last one counts.
    let before = list.len();
    for new in right {
        let Value::Map(new) = new else { return refused("has an element that is not a mapping") };
        let is_it = |old: &Value| old.as_map().is_some_and(|old| same_element(old, &new, rule, how.minor));
        let found = match rule {
            "ImageVerificationRules" => list[..before].iter().rposition(is_it),
            _ => list.iter().position(is_it),
        };
        let existing = found.and_then(|index| match &mut list[index] {
            Value::Map(old) => Some(old),
            _ => None,
        });
        match existing {
            Some(old) if rule == "ImageVerificationRules" => *old = new,
            Some(old) => fields(old, &new, name, how.minor)?,
            None => list.push(new.into()),
        }
    }
    Ok(())
}

/// Whether an element of the patch means an element that is there.
fn same_element(old: &Map, new: &Map, rule: &str, minor: u32) -> bool {
    let text = |map: &Map, key: &str| map.get(key).and_then(text_of).unwrap_or_default();
    let same = |key: &str| text(old, key) == text(new, key);
    match rule {
        "NetworkDeviceList" if !text(new, "interface").is_empty() => same("interface"),
        "NetworkDeviceList" => match (old.get("deviceSelector"), new.get("deviceSelector")) {
            (Some(Value::Map(old)), Some(Value::Map(new))) => same_selector(old, new, minor),
            _ => false,
        },
        "VlanList" => same("vlanId"),
        "AdmissionPluginConfigList" => same("name"),
        "ConfigFileList" => same("mountPath"),
        "ImageVerificationRules" => same("image"),
        _ => false,
    }
}

/// Selectors are the same where every key is. An optional one is compared by where it is stored, so it is never the same.
fn same_selector(old: &Map, new: &Map, minor: u32) -> bool {
    fields_of("v1alpha1.NetworkDeviceSelector", minor).all(|field| {
        let (old, new) = (old.get(field.key), new.get(field.key));
        let (old, new) = (old.filter(|it| **it != Value::Null), new.filter(|it| **it != Value::Null));
        match field.kind {
            Type::Ptr(_) => old.is_none() && new.is_none(),
            _ => old.and_then(text_of).unwrap_or_default() == new.and_then(text_of).unwrap_or_default(),
        }
    })
}
