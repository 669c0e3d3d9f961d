//! Random documents made from the library's own list of types, to patch with each other.
//!
//! The cases that people write down are the ones they thought of. These are not: every key of every kind comes up, with
//! values that are often zero, empty or missing, because that is where merging is surprising.

use anyhow::Context;
use serde_json::{Map, Value, json};

use super::cases::Dice;

/// What a release knows.
pub struct Shapes {
    kinds: Vec<(String, String, bool)>,
    structs: Map<String, Value>,
    words: Map<String, Value>,
}

impl Shapes {
    /// Reads the oracle's answer.
    pub fn read(answer: &Value) -> anyhow::Result<Self> {
        let kinds = answer.pointer("/schema/kinds").and_then(Value::as_object).context("kinds")?;
        let kinds = kinds.iter().map(|(name, kind)| {
            let root = kind.get("root").and_then(Value::as_str).unwrap_or_default().to_owned();
            (name.clone(), root, kind.get("named").and_then(Value::as_bool).unwrap_or_default())
        });
        let structs = answer.pointer("/schema/structs").and_then(Value::as_object).context("structs")?;
        let words = answer.pointer("/schema/words").and_then(Value::as_object).context("words")?;
        Ok(Self { kinds: kinds.collect(), structs: structs.clone(), words: words.clone() })
    }

    /// Two random documents of one kind and name.
    pub fn pair(&self, dice: &mut Dice) -> (String, String) {
        // The document without a kind is as large as all others together.
        let (kind, root, named) = if dice.below(3) == 0 {
            ("v1alpha1".to_owned(), "v1alpha1.Config".to_owned(), false)
        } else {
            dice.pick(&self.kinds)
        };
        let one = |dice: &mut Dice| {
            let mut document = self.fields(dice, &root, 0, &["apiVersion", "kind", "name", "version"]);
            if kind == "v1alpha1" {
                document.entry("machine").or_insert_with(|| json!({}));
            } else {
                document.insert("apiVersion".to_owned(), json!("v1alpha1"));
                document.insert("kind".to_owned(), json!(kind));
                if named {
                    document.insert("name".to_owned(), json!("a"));
                }
            }
            Value::Object(document).to_string()
        };
        (one(dice), one(dice))
    }

    fn fields(&self, dice: &mut Dice, name: &str, depth: u64, without: &[&str]) -> Map<String, Value> {
        let fields = self.structs.get(name).and_then(Value::as_array).cloned().unwrap_or_default();
        let mut map = Map::new();
        for field in &fields {
            let text = |key: &str| field.get(key).and_then(Value::as_str).unwrap_or_default();
            if without.contains(&text("key")) || dice.below(3 + depth) > 1 {
                continue;
            }
            if let Some(value) = self.value(dice, text("type"), depth + 1) {
                map.insert(text("key").to_owned(), value);
            }
        }
        map
    }

    /// A value of a type in the oracle's words; nothing for types that few texts fit.
    fn value(&self, dice: &mut Dice, words: &str, depth: u64) -> Option<Value> {
        if dice.below(12) == 0 {
            return Some(Value::Null);
        }
        let (first, rest) = words.split_once(' ').unwrap_or((words, ""));
        Some(match first {
            "text" => json!(dice.pick(&["", "a", "b", "1.10", "off"])),
            "bool" => json!(dice.coin()),
            "int" | "uint" => json!(dice.pick(&[0, 0, 1, 7, 150, 1500, 100_000])),
            "time" => json!(dice.pick(&["0s", "5m", "1h30m"])),
            "url" => json!(dice.pick(&["https://a.example:6443/x", "https://b.example", "http://c/?q=1"])),
            "bytes" if rest.ends_with("HardwareAddr") => json!("bc:24:11:00:00:01"),
            "bytes" => json!(dice.pick(&["aGVsbG8=", "d29ybGQ="])),
            "any" | "unstructured" => free(dice, depth),
            "ptr" => return self.value(dice, rest, depth),
            "list" => {
                let count = dice.below(3);
                let items = (0..count).filter_map(|_| self.value(dice, rest, depth + 1));
                // Where an element is optional, nothing in its place makes the library panic.
                json!(items.filter(|item| !item.is_null() || !rest.starts_with("ptr")).collect::<Vec<_>>())
            }
            "map" => {
                let mut map = Map::new();
                for key in ["x", "y"] {
                    if dice.coin() {
                        map.insert(key.to_owned(), self.value(dice, rest, depth + 1)?);
                    }
                }
                Value::Object(map)
            }
            "opaque" => opaque(dice, rest)?,
            "enum" => {
                let known = self.words.get(rest).and_then(Value::as_array)?;
                let mut words: Vec<Value> = known.clone();
                words.truncate(40);
                words.push(json!("no-such-word"));
                dice.pick(&words)
            }
            other => match other.split_once(':') {
                Some((_, inner)) => return self.value(dice, format!("{inner} {rest}").trim(), depth),
                None => Value::Object(self.fields(dice, other, depth, &[])),
            },
        })
    }
}

fn opaque(dice: &mut Dice, name: &str) -> Option<Value> {
    Some(match name.rsplit('.').next()? {
        "Prefix" => json!(dice.pick(&["10.0.0.0/8", "fd00::/64"])),
        "Addr" => json!(dice.pick(&["10.0.0.1", "fd00::1"])),
        "AddrPort" => json!("10.0.0.1:80"),
        "PortRange" => json!(dice.pick(&["80", "100-200"])),
        "ByteSize" => json!(dice.pick(&["10GiB", "1000"])),
        "Size" => json!(dice.pick(&["10GiB", "50%"])),
        "Expression" => json!(dice.pick(&["true", "disk.size > 1u"])),
        "ArgValue" => dice.pick(&[json!("a"), json!(["a", "b"]), json!("")]),
        "PEMEncodedCertificateAndKey" => {
            dice.pick(&[json!({"crt": "aGVsbG8="}), json!({"crt": "aGVsbG8=", "key": "d29ybGQ="})])
        }
        "PEMEncodedCertificate" => json!({"crt": "aGVsbG8="}),
        "PEMEncodedKey" => json!({"key": "d29ybGQ="}),
        _ => return None,
    })
}

/// A mapping of anything.
fn free(dice: &mut Dice, depth: u64) -> Value {
    let mut map = Map::new();
    for key in ["p", "q", "r"] {
        if dice.coin() {
            let value = match dice.below(if depth > 5 { 5 } else { 7 }) {
                0 => json!(dice.below(3)),
                1 => json!(dice.pick(&["", "text"])),
                2 => json!(dice.coin()),
                3 => json!([dice.below(2), "x"]),
                4 => json!(1.5),
                _ => free(dice, depth + 1),
            };
            map.insert(key.to_owned(), value);
        }
    }
    Value::Object(map)
}
