//! Objects in protobuf, as clients with Kubernetes' own types send them (`kubectl create deployment` is one).
//!
//! The table of messages is made from those types (`conformance/protobuf/run`). A field has a number, the name that it has in
//! JSON, and a type; one without a name is a part whose fields stand in the whole. Answers are JSON, which these clients take
//! as well.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use prost::encoding::decode_varint;
use serde_json::{Map, Value, json};

pub(crate) const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";

/// What every message starts with.
const PREFIX: &[u8] = b"k8s\0";

/// Fields by number: name and type.
type Fields = BTreeMap<u64, (String, String)>;

static TABLE: LazyLock<BTreeMap<String, Fields>> =
    // The file is part of the program and a test reads it, so the empty table is never seen.
    LazyLock::new(|| serde_json::from_str(include_str!("gen/protobuf.json")).unwrap_or_default());

/// One field as it was sent.
#[derive(Debug, Clone, Copy)]
enum Raw<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// An object in the form of JSON.
///
/// # Errors
///
/// For bytes that are no such message, and for kinds that have none, with the reason.
pub(crate) fn decode(body: &[u8]) -> Result<Value, String> {
    let Some(body) = body.strip_prefix(PREFIX) else {
        let prefix = "[107 56 115 0]";
        return Err(format!(
            "provided data does not appear to be a protobuf message, expected prefix {prefix}"
        ));
    };
    let (mut api, mut kind, mut raw) = (String::new(), String::new(), &[][..]);
    for field in fields(body)? {
        match field {
            (1, Raw::Bytes(of)) => {
                for field in fields(of)? {
                    match field {
                        (1, Raw::Bytes(bytes)) => api = text(bytes),
                        (2, Raw::Bytes(bytes)) => kind = text(bytes),
                        _ => {}
                    }
                }
            }
            (2, Raw::Bytes(bytes)) => raw = bytes,
            _ => {}
        }
    }
    let group = api.split_once('/').map_or("core", |(group, _)| group.split('.').next().unwrap_or(group));
    // Every group has this one.
    let group = if kind == "DeleteOptions" { "meta" } else { group };
    let mut object = message(&format!("{group}.{kind}"), raw)
        .map_err(|why| format!("no kind {kind:?} is registered for version {api:?}: {why}"))?;
    object.insert("apiVersion".to_owned(), api.into());
    object.insert("kind".to_owned(), kind.into());
    Ok(Value::Object(object))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The fields of a message in their order.
fn fields(mut rest: &[u8]) -> Result<Vec<(u64, Raw<'_>)>, String> {
    let broken = || "unexpected EOF".to_owned();
    let mut all = vec![];
    while !rest.is_empty() {
        let key = decode_varint(&mut rest).map_err(|_| broken())?;
        let size = match key & 7 {
            0 => {
                all.push((key >> 3, Raw::Number(decode_varint(&mut rest).map_err(|_| broken())?)));
                continue;
            }
            1 => 8,
            2 => usize::try_from(decode_varint(&mut rest).map_err(|_| broken())?).map_err(|_| broken())?,
            5 => 4,
            other => return Err(format!("illegal wireType {other}")),
        };
        let (value, after) = rest.split_at_checked(size).ok_or_else(broken)?;
        all.push((key >> 3, Raw::Bytes(value)));
        rest = after;
    }
    Ok(all)
}

fn message(name: &str, bytes: &[u8]) -> Result<Map<String, Value>, String> {
    let table = TABLE.get(name).ok_or_else(|| format!("there is no message {name}"))?;
    let mut object = Map::new();
    for (number, raw) in fields(bytes)? {
        let Some((key, kind)) = table.get(&number) else { continue };
        if let Some(kind) = kind.strip_prefix("[]") {
            let list = object.entry(key).or_insert_with(|| json!([]));
            if let Some(list) = list.as_array_mut() {
                list.extend(elements(kind, raw)?);
            }
        } else if let Some(kind) = kind.strip_prefix("{}") {
            let (name, value) = entry(kind, raw)?;
            object.entry(key).or_insert_with(|| json!({}))[name] = value;
        } else {
            // A field that may be left out was set on purpose; another is sent although it was not set.
            let (kind, chosen) = kind.strip_prefix('*').map_or((kind.as_str(), false), |kind| (kind, true));
            match value(kind, raw)? {
                Value::Object(part) if key.is_empty() => object.extend(part),
                Value::Null => {}
                value if chosen || !is_zero(&value) => drop(object.insert(key.clone(), value)),
                _ => {}
            }
        }
    }
    Ok(object)
}

/// One element of a list, or several numbers that were sent together.
fn elements(kind: &str, raw: Raw<'_>) -> Result<Vec<Value>, String> {
    let Raw::Bytes(mut packed) = raw else { return Ok(vec![value(kind, raw)?]) };
    if !["int", "bool"].contains(&kind) {
        return Ok(vec![value(kind, raw)?]);
    }
    let mut all = vec![];
    while !packed.is_empty() {
        let number = decode_varint(&mut packed).map_err(|why| why.to_string())?;
        all.push(value(kind, Raw::Number(number))?);
    }
    Ok(all)
}

/// One entry of a map. What is not sent of it is empty.
fn entry(kind: &str, raw: Raw<'_>) -> Result<(String, Value), String> {
    let Raw::Bytes(bytes) = raw else { return Err("an entry of a map is no message".to_owned()) };
    let (mut name, mut found) = (String::new(), None);
    for field in fields(bytes)? {
        match field {
            (1, Raw::Bytes(bytes)) => name = text(bytes),
            (2, raw) => found = Some(value(kind, raw)?),
            _ => {}
        }
    }
    Ok((name, found.map_or_else(|| value(kind, Raw::Bytes(&[])), Ok)?))
}

fn value(kind: &str, raw: Raw<'_>) -> Result<Value, String> {
    Ok(match (kind, raw) {
        ("bool", Raw::Number(number)) => (number != 0).into(),
        // A negative number has all its bits.
        ("int", Raw::Number(number)) => number.cast_signed().into(),
        ("double", Raw::Bytes(bytes)) => {
            <[u8; 8]>::try_from(bytes).map(f64::from_le_bytes).unwrap_or(0.0).into()
        }
        ("string", Raw::Bytes(bytes)) => text(bytes).into(),
        ("bytes", Raw::Bytes(bytes)) => STANDARD.encode(bytes).into(),
        ("time", Raw::Bytes(bytes)) => time(bytes)?,
        ("duration", Raw::Bytes(bytes)) => format!("{}ns", number(bytes, 1)?).into(),
        ("intOrString", Raw::Bytes(bytes)) if number(bytes, 1)? == 0 => number(bytes, 2)?.into(),
        ("intOrString", Raw::Bytes(bytes)) => last(bytes, 3)?.map(text).unwrap_or_default().into(),
        ("quantity", Raw::Bytes(bytes)) => last(bytes, 1)?.map(text).unwrap_or_default().into(),
        ("raw", Raw::Bytes(bytes)) => {
            let inner = last(bytes, 1)?.unwrap_or_default();
            serde_json::from_slice(inner).unwrap_or_default()
        }
        ("items", Raw::Bytes(bytes)) => {
            let items = fields(bytes)?.into_iter().filter_map(|(_, raw)| match raw {
                Raw::Bytes(bytes) => Some(Value::from(text(bytes))),
                Raw::Number(_) => None,
            });
            items.collect()
        }
        (name, Raw::Bytes(bytes)) => Value::Object(message(name, bytes)?),
        (name, Raw::Number(_)) => return Err(format!("a number is no {name}")),
    })
}

/// The last bytes that were sent under a number.
fn last(bytes: &[u8], wanted: u64) -> Result<Option<&[u8]>, String> {
    let found = fields(bytes)?.into_iter().rev().find_map(|field| match field {
        (number, Raw::Bytes(bytes)) if number == wanted => Some(bytes),
        _ => None,
    });
    Ok(found)
}

fn number(bytes: &[u8], wanted: u64) -> Result<i64, String> {
    let found = fields(bytes)?.into_iter().rev().find_map(|field| match field {
        (number, Raw::Number(value)) if number == wanted => Some(value.cast_signed()),
        _ => None,
    });
    Ok(found.unwrap_or(0))
}

/// A moment; none, where nothing was sent.
fn time(bytes: &[u8]) -> Result<Value, String> {
    let (seconds, nanos) = (number(bytes, 1)?, number(bytes, 2)?);
    if seconds == 0 && nanos == 0 {
        return Ok(Value::Null);
    }
    let at = Timestamp::new(seconds, i32::try_from(nanos).unwrap_or(0)).map_err(|why| why.to_string())?;
    let form = if nanos == 0 { "%Y-%m-%dT%H:%M:%SZ" } else { "%Y-%m-%dT%H:%M:%S.%6fZ" };
    Ok(at.strftime(form).to_string().into())
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(set) => !set,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        // An empty part can mean something: an empty selector is every pod.
        Value::Array(_) | Value::Object(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without the status, which no client sends on purpose, and without empty parts that JSON leaves out.
    fn trimmed(mut object: Value) -> Value {
        fn trim(value: &mut Value) {
            if let Value::Object(object) = value {
                object.values_mut().for_each(trim);
                let optional = ["spec", "strategy", "resources", "metadata"];
                let empty = |key: &str, value: &Value| optional.contains(&key) && *value == json!({});
                object.retain(|key, value| !value.is_null() && key != "status" && !empty(key, value));
            } else if let Value::Array(list) = value {
                list.iter_mut().for_each(trim);
            }
        }
        trim(&mut object);
        object
    }

    /// What Kubernetes' own types wrote is read as Kubernetes' own types say it in JSON.
    #[test]
    fn e3_objects_of_real_clients_are_read() {
        let samples = include_str!("gen/protobuf-samples.jsonl").lines();
        let mut kinds = vec![];
        for sample in samples.map(|line| serde_json::from_str::<Value>(line).unwrap()) {
            let bytes = STANDARD.decode(sample["protobuf"].as_str().unwrap()).unwrap();
            let mut wanted = sample["object"].clone();
            wanted["kind"] = sample["kind"].clone();
            wanted["apiVersion"] = sample["apiVersion"].clone();
            assert_eq!(trimmed(decode(&bytes).unwrap()), trimmed(wanted));
            kinds.push(sample["kind"].as_str().unwrap().to_owned());
        }
        assert_eq!(kinds.len(), 10, "{kinds:?}");
    }

    #[test]
    fn e3_what_is_no_message_is_refused() {
        assert!(decode(b"{}").unwrap_err().contains("expected prefix [107 56 115 0]"));
        assert!(decode(b"k8s\0\x0a\xff").is_err());
        assert!(decode(b"k8s\0\x0a\x04\x12\x02No").unwrap_err().contains("no kind \"No\""));
    }

    /// Each kind of the table that Kubernetes itself brings can be sent.
    #[test]
    fn e3_every_built_in_kind_has_its_messages() {
        let unknown: Vec<_> = super::super::kinds::built_in()
            .filter(|kind| !["apiextensions.k8s.io", "apiregistration.k8s.io"].contains(&kind.group.as_ref()))
            .map(|kind| {
                let group = kind.group.split('.').next().unwrap_or_default();
                format!("{}.{}", if group.is_empty() { "core" } else { group }, kind.kind)
            })
            .filter(|name| !TABLE.contains_key(name))
            .collect();
        assert_eq!(unknown, Vec::<String>::new());
        for (kind, fields) in TABLE.values().flatten().map(|(_, (_, kind))| kind).zip(1..) {
            let plain = kind.trim_start_matches(['*', '[', ']', '{', '}']);
            let known = plain.chars().all(|c| c.is_ascii_lowercase()) || plain == "intOrString";
            assert!(known || TABLE.contains_key(plain), "{kind} ({fields})");
        }
    }
}
