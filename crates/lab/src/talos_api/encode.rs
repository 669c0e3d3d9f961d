//! A spec in its two encodings. Talos fills both: YAML as people read it, and protobuf as its own clients do.
//!
//! A spec is given as a tree with the names of the YAML form. The table of fields says in which order they are written,
//! and which number and type each has in protobuf. What has no table (a machine's configuration) is encoded by hand.

use std::net::IpAddr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ipnet::IpNet;
use prost::encoding::{WireType, encode_key, encode_varint};
use serde_json::Value;

use super::table::{self, Field};

/// Words whose numbers are needed: the type, and its words from zero on.
const WORDS: &[(&str, &[&str])] = &[
    (
        "runtime.MachineStage",
        &[
            "unknown",
            "booting",
            "installing",
            "maintenance",
            "running",
            "rebooting",
            "shutting down",
            "resetting",
            "upgrading",
        ],
    ),
    ("machine.Type", &["unknown", "init", "controlplane", "worker"]),
    (
        "block.VolumePhase",
        &["waiting", "failed", "missing", "located", "provisioned", "prepared", "ready", "closed"],
    ),
    ("block.VolumeType", &["partition", "disk", "tmpfs", "directory", "symlink", "overlay", "external"]),
    ("block.FilesystemType", &["none", "xfs", "vfat", "ext4", "iso9660", "swap", "virtiofs"]),
    (
        "nethelpers.OperationalState",
        &["unknown", "notPresent", "down", "lowerLayerDown", "testing", "dormant", "up"],
    ),
    ("nethelpers.AddressSortAlgorithm", &["v1", "v2"]),
    ("nethelpers.Family", &["", "", "inet4", "", "", "", "", "", "", "", "inet6"]),
    ("nethelpers.LinkType", &["netrom", "ether"]),
    ("network.ConfigLayer", &["default", "cmdline", "platform", "operator", "configuration"]),
    ("runtime.SELinuxState", &["disabled", "enabled, permissive", "enabled, enforcing"]),
    ("runtime.FIPSState", &["disabled", "enabled", "enabled, strict"]),
    ("Sensitivity", &["", "sensitive"]),
];

/// The YAML text of `value`, which is a spec of the named type.
pub(super) fn yaml(value: &Value, spec: &str) -> String {
    match value {
        Value::Object(map) if map.is_empty() => "{}\n".to_owned(),
        Value::Object(_) | Value::Array(_) => {
            let mut text = String::new();
            block(value, spec, 0, &mut text);
            text
        }
        scalar => format!("{}\n", plain(scalar)),
    }
}

/// Keys in the order of the table, then those that it does not know.
fn ordered<'a>(value: &'a Value, spec: &str) -> Vec<(&'a str, &'a Value, &'static str)> {
    let Some(map) = value.as_object() else { return vec![] };
    let fields: &'static [Field] = table::fields(spec).unwrap_or_default();
    let known = fields.iter().filter_map(|(name, _, kind)| {
        map.get_key_value(name).map(|(key, value)| (key.as_str(), value, kind.as_str()))
    });
    let mut all: Vec<_> = known.collect();
    let rest = map.iter().filter(|(key, _)| !fields.iter().any(|(name, _, _)| name == *key));
    all.extend(rest.map(|(key, value)| (key.as_str(), value, "")));
    all
}

fn block(value: &Value, spec: &str, depth: usize, text: &mut String) {
    let indent = "    ".repeat(depth);
    if let Value::Array(list) = value {
        for item in list {
            let mut inner = String::new();
            match item {
                Value::Object(map) if !map.is_empty() => block(item, spec, depth + 1, &mut inner),
                other => inner = format!("{indent}    {}\n", plain(other)),
            }
            // The first line of an item stands after its dash; the others keep two columns more than the dash.
            for (number, line) in inner.lines().enumerate() {
                let content = line.get(indent.len() + 4..).unwrap_or_default();
                let lead = if number == 0 { "- " } else { "  " };
                text.push_str(&format!("{indent}{lead}{content}\n"));
            }
        }
        return;
    }
    for (key, inner, kind) in ordered(value, spec) {
        let below = kind.trim_start_matches("[]");
        match inner {
            Value::Object(map) if !map.is_empty() => {
                text.push_str(&format!("{indent}{}:\n", quoted(key)));
                block(inner, below, depth + 1, text);
            }
            Value::Array(list) if !list.is_empty() => {
                text.push_str(&format!("{indent}{}:\n", quoted(key)));
                block(inner, below, depth + 1, text);
            }
            scalar => text.push_str(&format!("{indent}{}: {}\n", quoted(key), plain(scalar))),
        }
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => quoted(text),
        Value::Object(_) => "{}".to_owned(),
        Value::Array(_) => "[]".to_owned(),
        other => other.to_string(),
    }
}

/// A text as it may stand in YAML: bare where that means the same text.
fn quoted(text: &str) -> String {
    let special = |c: char| "-?:,[]{}#&*!|>'\"%@` ".contains(c);
    let risky = text.is_empty()
        || text.starts_with(special) && !text.starts_with("--") && !text.starts_with(":5")
        || text.ends_with([' ', ':'])
        || text.contains(": ")
        || text.contains(" #")
        || text.chars().any(char::is_control)
        || text.parse::<f64>().is_ok()
        || ["true", "false", "null", "yes", "no", "on", "off", "~"].contains(&text.to_lowercase().as_str())
        || text.starts_with("0x") && text[2..].chars().all(|c| c.is_ascii_hexdigit())
        || is_sexagesimal(text);
    if risky { Value::from(text).to_string() } else { text.to_owned() }
}

/// Digits with colons between them, which old readers of YAML take for a number.
fn is_sexagesimal(text: &str) -> bool {
    text.contains(':')
        && text.starts_with(|c: char| c.is_ascii_digit())
        && text.chars().all(|c| c.is_ascii_digit() || ":.".contains(c))
}

/// The protobuf form of `value`, which is a spec of the named type. Fields that are zero are left out, as usual.
pub(super) fn protobuf(value: &Value, spec: &str) -> Vec<u8> {
    let mut bytes = vec![];
    for (name, number, kind) in table::fields(spec).unwrap_or_default() {
        if let (Some(value), Ok(number)) = (value.get(name), number.parse()) {
            field(number, value, kind, &mut bytes);
        }
    }
    bytes
}

fn field(number: u32, value: &Value, kind: &str, bytes: &mut Vec<u8>) {
    if let Some(inner) = kind.strip_prefix("[]") {
        for item in value.as_array().into_iter().flatten() {
            field(number, item, inner, bytes);
        }
        return;
    }
    if kind == "map[string]any" {
        if value.as_object().is_some_and(|map| !map.is_empty()) {
            delimited(number, &structure(value), bytes);
        }
        return;
    }
    if let Some((_, inner)) = kind.strip_prefix("map[").and_then(|rest| rest.split_once(']')) {
        for (key, item) in value.as_object().into_iter().flatten() {
            let mut entry = vec![];
            delimited(1, key.as_bytes(), &mut entry);
            field(2, item, inner, &mut entry);
            delimited(number, &entry, bytes);
        }
        return;
    }
    match (kind, value) {
        (_, Value::Bool(true)) => varint(number, 1, bytes),
        ("float64", Value::Number(n)) => {
            encode_key(number, WireType::SixtyFourBit, bytes);
            bytes.extend(n.as_f64().unwrap_or_default().to_le_bytes());
        }
        (_, Value::Number(n)) => {
            let bits = n.as_u64().unwrap_or_else(|| n.as_i64().unwrap_or_default().cast_unsigned());
            if bits != 0 {
                varint(number, bits, bytes);
            }
        }
        ("string", Value::String(text)) if !text.is_empty() => delimited(number, text.as_bytes(), bytes),
        ("netip.Addr", Value::String(text)) => {
            if let Ok(address) = text.parse::<IpAddr>() {
                delimited(number, &address_message(address), bytes);
            }
        }
        ("netip.Prefix", Value::String(text)) => {
            if let Ok(net) = text.parse::<IpNet>() {
                let mut message = address_message(net.addr());
                varint(2, net.prefix_len().into(), &mut message);
                delimited(number, &message, bytes);
            }
        }
        ("nethelpers.HardwareAddr", Value::String(text)) => {
            let hardware: Vec<u8> =
                text.split(':').filter_map(|part| u8::from_str_radix(part, 16).ok()).collect();
            delimited(number, &hardware, bytes);
        }
        (kind, Value::String(text)) => {
            let words = WORDS.iter().find(|(name, _)| *name == kind).map(|(_, words)| *words);
            match words.and_then(|words| words.iter().position(|word| word == text)) {
                Some(0) | None => {}
                Some(index) => varint(number, u64::try_from(index).unwrap_or(0), bytes),
            }
        }
        (kind, Value::Object(pair)) if kind.starts_with("x509.PEMEncoded") => {
            let mut message = vec![];
            for (part, name) in [(1, "crt"), (2, "key")] {
                let text = pair.get(name).and_then(Value::as_str).unwrap_or_default();
                if let Ok(pem) = STANDARD.decode(text)
                    && !pem.is_empty()
                {
                    delimited(part, &pem, &mut message);
                }
            }
            delimited(number, &message, bytes);
        }
        (kind, Value::Object(_)) if table::fields(kind).is_some() => {
            delimited(number, &protobuf(value, kind), bytes);
        }
        _ => {}
    }
}

/// Any tree as `google.protobuf.Struct`, in which resources carry Kubernetes objects.
pub(super) fn structure(value: &Value) -> Vec<u8> {
    let mut bytes = vec![];
    for (key, item) in value.as_object().into_iter().flatten() {
        let mut entry = vec![];
        delimited(1, key.as_bytes(), &mut entry);
        delimited(2, &any_value(item), &mut entry);
        delimited(1, &entry, &mut bytes);
    }
    bytes
}

/// `google.protobuf.Value`.
fn any_value(value: &Value) -> Vec<u8> {
    let mut bytes = vec![];
    match value {
        Value::Null => varint(1, 0, &mut bytes),
        Value::Number(n) => {
            encode_key(2, WireType::SixtyFourBit, &mut bytes);
            bytes.extend(n.as_f64().unwrap_or_default().to_le_bytes());
        }
        Value::String(text) => delimited(3, text.as_bytes(), &mut bytes),
        Value::Bool(flag) => varint(4, u64::from(*flag), &mut bytes),
        Value::Object(_) => delimited(5, &structure(value), &mut bytes),
        Value::Array(list) => {
            let mut inner = vec![];
            for item in list {
                delimited(1, &any_value(item), &mut inner);
            }
            delimited(6, &inner, &mut bytes);
        }
    }
    bytes
}

fn address_message(address: IpAddr) -> Vec<u8> {
    let mut message = vec![];
    match address {
        IpAddr::V4(v4) => delimited(1, &v4.octets(), &mut message),
        IpAddr::V6(v6) => delimited(1, &v6.octets(), &mut message),
    }
    message
}

fn varint(number: u32, value: u64, bytes: &mut Vec<u8>) {
    encode_key(number, WireType::Varint, bytes);
    encode_varint(value, bytes);
}

/// A field of bytes.
pub(super) fn delimited(number: u32, content: &[u8], bytes: &mut Vec<u8>) {
    encode_key(number, WireType::LengthDelimited, bytes);
    encode_varint(u64::try_from(content.len()).unwrap_or(0), bytes);
    bytes.extend_from_slice(content);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_spec_is_written_in_the_order_of_its_type() {
        let value = json!({
            "status": {"unmetConditions": [{"reason": "waiting on: address", "name": "network"}], "ready": false},
            "stage": "booting",
        });
        assert_eq!(
            yaml(&value, "runtime.MachineStatusSpec"),
            "stage: booting\nstatus:\n    ready: false\n    unmetConditions:\n        - name: network\n          reason: \"waiting on: address\"\n"
        );
        let bytes = protobuf(&value, "runtime.MachineStatusSpec");
        assert_eq!(&bytes[..2], [0x08, 1]);
        let read: Value = serde_saphyr::from_str(&yaml(&value, "runtime.MachineStatusSpec")).unwrap();
        assert_eq!(read, value);
    }

    #[test]
    fn addresses_are_messages_in_protobuf() {
        let value = json!({"addresses": ["10.1.0.11/24"], "sortAlgorithm": "v1"});
        assert_eq!(protobuf(&value, "network.NodeAddressSpec"), [0x0a, 8, 0x0a, 4, 10, 1, 0, 11, 0x10, 24]);
    }

    #[test]
    fn certificates_are_bytes_in_protobuf() {
        let value = json!({"server": {"crt": "YWI=", "key": "Yw=="}, "skipVerifyingClientCert": false});
        let bytes = [0x1a, 7, 0x0a, 2, b'a', b'b', 0x12, 1, b'c'];
        assert_eq!(protobuf(&value, "secrets.APICertsSpec"), bytes);
    }

    #[test]
    fn texts_that_mean_something_else_in_yaml_are_quoted() {
        for (text, written) in [
            ("", "\"\""),
            ("0x1af4", "\"0x1af4\""),
            ("1", "\"1\""),
            ("true", "\"true\""),
            (":50000", ":50000"),
            ("00:00:00:00:00:00", "\"00:00:00:00:00:00\""),
            ("bc:24:11:00:00:01", "bc:24:11:00:00:01"),
            ("--node-ip=1.2.3.4", "--node-ip=1.2.3.4"),
            ("a: b", "\"a: b\""),
        ] {
            assert_eq!(quoted(text), written);
        }
    }
}
