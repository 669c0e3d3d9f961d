//! Makes `crates/lab/src/schema/gen/methods.json`: what Proxmox VE says about the parameters and the permissions of each
//! call that it knows.
//!
//! The source is the API schema of a real server, which is not part of this repository: where it is missing, nothing is
//! checked and nothing is written. Descriptions and defaults are left out, of a result only its type is kept, and a
//! property-string format that many parameters share is written once.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde_json::{Map, Value, json};

/// What is said of a parameter that no check depends on.
const LEFT_OUT: &[&str] =
    &["default", "description", "format_description", "typetext", "verbose_description", "completion"];

/// Writes the table, or with `--check` says whether the checked-in one is stale.
pub fn run(words: &[String]) -> Result<()> {
    let check = match words {
        [] => false,
        [word] if word == "--check" => true,
        _ => bail!("usage: cargo run -p xtask -- pve-schema [--check]"),
    };
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let source = repository.join("../shared/data/pve-9.1.8/api-schema.json");
    if !source.exists() {
        #[expect(
            clippy::print_stdout,
            reason = "the person who runs it must learn that nothing was compared"
        )]
        {
            println!("skipped: the API schema of a real Proxmox VE is not beside this clone");
        }
        return Ok(());
    }
    let schema: Value =
        serde_json::from_str(&fs::read_to_string(&source)?).context("the API schema is no JSON")?;
    let target = repository.join("crates/lab/src/schema/gen/methods.json");
    let made = table(&schema)?;
    if fs::read_to_string(&target).is_ok_and(|known| known == made) {
        return Ok(());
    }
    if check {
        bail!("the lab's table of parameters is stale: run `cargo run -p xtask -- pve-schema`");
    }
    fs::write(&target, made).with_context(|| format!("could not write {}", target.display()))
}

fn table(schema: &Value) -> Result<String> {
    let methods = schema["methods"].as_array().context("the API schema has no methods")?;
    let mut formats = Formats { known: &schema["formats"], made: BTreeMap::new() };
    let mut rows = BTreeMap::new();
    for method in methods {
        let key = (text(&method["path"]), text(&method["method"]));
        let properties = &method["parameters"]["properties"];
        let properties: Map<String, Value> = properties
            .as_object()
            .into_iter()
            .flatten()
            .map(|(name, rule)| (name.clone(), formats.rule(name, rule)))
            .collect();
        rows.insert(
            key,
            json!({
                "params": properties,
                "open": method["parameters"]["additionalProperties"] != json!(0),
                "permissions": method.get("permissions").cloned().unwrap_or(Value::Null),
                "token": method["allowtoken"] != json!(0),
                "returns": method["returns"]["type"],
            }),
        );
    }
    let mut out = String::from("{\n\"formats\":{\n");
    let lines: Vec<String> =
        formats.made.iter().map(|(name, format)| format!("{}:{format}", json!(name))).collect();
    out.push_str(&lines.join(",\n"));
    out.push_str("\n},\n\"methods\":{\n");
    let mut lines = Vec::new();
    for ((path, method), row) in &rows {
        lines.push(format!("{}:{row}", json!(format!("{method} {path}"))));
    }
    out.push_str(&lines.join(",\n"));
    let _ = writeln!(out, "\n}}\n}}");
    Ok(out)
}

/// The property-string formats that the rows refer to.
struct Formats<'a> {
    known: &'a Value,
    made: BTreeMap<String, Value>,
}

impl Formats<'_> {
    /// One parameter without what no check depends on, its format by name.
    fn rule(&mut self, name: &str, rule: &Value) -> Value {
        let Some(rule) = rule.as_object() else { return rule.clone() };
        let mut slim: Map<String, Value> = rule
            .iter()
            .filter(|(key, _)| !LEFT_OUT.contains(&key.as_str()))
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect();
        match slim.get("format").cloned() {
            Some(Value::Object(format)) => {
                let stem = name.split('[').next().unwrap_or(name);
                slim.insert("format".to_owned(), json!(self.named(&format!("props-{stem}"), &format)));
            }
            Some(Value::String(known)) => {
                if let Some(format) = self.known.get(&known).and_then(Value::as_object).cloned() {
                    self.named(&known, &format);
                }
            }
            _ => {}
        }
        if let Some(items) = slim.get("items").cloned() {
            slim.insert("items".to_owned(), self.rule(name, &items));
        }
        Value::Object(slim)
    }

    /// Keeps a format under `name`, or under the first free name after it where another one has that.
    fn named(&mut self, name: &str, format: &Map<String, Value>) -> String {
        let slim: Map<String, Value> =
            format.iter().map(|(key, rule)| (key.clone(), self.rule(key, rule))).collect();
        let slim = Value::Object(slim);
        let mut chosen = name.to_owned();
        let mut number = 2;
        while self.made.get(&chosen).is_some_and(|other| *other != slim) {
            chosen = format!("{name}-{number}");
            number += 1;
        }
        self.made.insert(chosen.clone(), slim);
        chosen
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
