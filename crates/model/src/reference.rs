//! The reference of the file's keys as Markdown, made from its JSON Schema, which is made from the types themselves.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use serde_json::{Map, Value};

use crate::spec;

/// The page.
#[must_use]
pub fn markdown() -> String {
    let schema = spec::schema();
    let mut page = Page { schema: &schema, out: String::new(), said: BTreeSet::new(), waiting: Vec::new() };
    page.out.push_str(
        "# The cluster file\n\nEvery key of the file, made from the same types that read it. A key in **bold** must be given; all others may be left \
         out. Where a key takes a mapping, its type is a link. `talosmith schema` prints the same as JSON Schema for editors.\n\n",
    );
    page.keys("The file", &schema);
    while !page.waiting.is_empty() {
        let name = page.waiting.remove(0);
        if let Some(one) = schema.get("$defs").and_then(|types| types.get(&name)) {
            page.section(&name, one);
        }
    }
    page.out.truncate(page.out.trim_end().len());
    page.out.push('\n');
    page.out
}

struct Page<'s> {
    schema: &'s Value,
    out: String,
    said: BTreeSet<String>,
    waiting: Vec<String>,
}

impl Page<'_> {
    fn section(&mut self, name: &str, schema: &Value) {
        if let Some(choices) = schema.get("oneOf").and_then(Value::as_array) {
            self.heading(name, schema);
            self.out.push_str("| value | meaning |\n| --- | --- |\n");
            for choice in choices {
                let value = choice.get("const").and_then(Value::as_str).unwrap_or_default();
                let _ = writeln!(self.out, "| `{value}` | {} |", cell(description(choice)));
            }
            self.out.push('\n');
        } else if schema.get("properties").is_some() {
            self.keys(name, schema);
        } else if schema.get("anyOf").is_some() {
            self.heading(name, schema);
            let kind = self.kind(schema);
            let _ = writeln!(self.out, "Written as {kind}.\n");
        } else {
            self.heading(name, schema);
            let kind = self.kind(schema);
            let _ = writeln!(self.out, "One of {kind}.\n");
        }
    }

    fn heading(&mut self, name: &str, schema: &Value) {
        let _ = writeln!(self.out, "## {name}\n\n{}\n", description(schema).replace('\n', " "));
    }

    fn keys(&mut self, name: &str, schema: &Value) {
        self.heading(name, schema);
        let required: BTreeSet<&str> = schema
            .get("required")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        self.out.push_str("| key | type | default | meaning |\n| --- | --- | --- | --- |\n");
        let none = Map::new();
        for (key, about) in schema.get("properties").and_then(Value::as_object).unwrap_or(&none) {
            let kind = self.kind(about);
            let shown =
                if required.contains(key.as_str()) { format!("**`{key}`**") } else { format!("`{key}`") };
            let default = about.get("default").filter(|value| !value.is_null() && !is_empty(value));
            let default = default.map_or_else(String::new, |value| format!("`{}`", inline(value)));
            let mut text = description(about).to_owned();
            if let Some(example) = about.pointer("/examples/0") {
                let _ = write!(text, " Example: `{}`.", inline(example));
            }
            let _ =
                writeln!(self.out, "| {shown} | {} | {} | {} |", cell(&kind), cell(&default), cell(&text));
        }
        self.out.push('\n');
    }

    /// The type in words, with links to what has a section of its own.
    fn kind(&mut self, schema: &Value) -> String {
        if let Some(name) = schema.get("$ref").and_then(Value::as_str).and_then(|at| at.rsplit('/').next()) {
            return self.named(name);
        }
        if let Some(either) = schema.get("anyOf").and_then(Value::as_array) {
            let kinds: Vec<String> = either
                .iter()
                .filter(|one| one.get("type").and_then(Value::as_str) != Some("null"))
                .map(|one| self.kind(one))
                .collect();
            return kinds.join(" or ");
        }
        if let Some(values) = schema.get("enum").and_then(Value::as_array) {
            let values: Vec<String> = values.iter().map(|value| format!("`{}`", inline(value))).collect();
            return values.join(", ");
        }
        let of = |kind: &str| match schema.get("type") {
            Some(Value::String(one)) => one == kind,
            Some(Value::Array(several)) => several.iter().any(|one| one == kind),
            _ => false,
        };
        let mut kinds: Vec<String> = Vec::new();
        if of("boolean") {
            kinds.push("true or false".to_owned());
        }
        if of("string") {
            kinds.push("text".to_owned());
        }
        if of("integer") {
            kinds.push("number".to_owned());
        }
        if of("array") {
            let items = schema.get("items").map_or_else(|| "anything".to_owned(), |items| self.kind(items));
            kinds.push(format!("list of {items}"));
        }
        if of("object") {
            kinds.push(match schema.get("additionalProperties") {
                Some(Value::Object(_)) => {
                    let inner =
                        schema.get("additionalProperties").map_or_else(String::new, |inner| self.kind(inner));
                    format!("by name: {inner}")
                }
                _ => "mapping".to_owned(),
            });
        }
        if kinds.is_empty() { "anything".to_owned() } else { kinds.join(" or ") }
    }

    fn named(&mut self, name: &str) -> String {
        // A short form has no section of its own: what it may be is said where it stands.
        let definition = self.schema.get("$defs").and_then(|types| types.get(name));
        if let Some(definition) = definition.filter(|one| one.get("anyOf").is_some()) {
            let definition = definition.clone();
            return self.kind(&definition);
        }
        if let Some(definition) = definition.filter(|one| one.get("enum").is_some()) {
            let definition = definition.clone();
            return self.kind(&definition);
        }
        if self.said.insert(name.to_owned()) {
            self.waiting.push(name.to_owned());
        }
        format!("[{name}](#{})", name.to_ascii_lowercase())
    }
}

fn description(schema: &Value) -> &str {
    schema.get("description").and_then(Value::as_str).unwrap_or_default()
}

fn is_empty(value: &Value) -> bool {
    value.as_array().is_some_and(Vec::is_empty)
        || value.as_object().is_some_and(Map::is_empty)
        || value == false
}

fn inline(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Object(_) => "…".to_owned(),
        other => other.to_string(),
    }
}

fn cell(text: &str) -> String {
    text.replace('\n', " ").replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn the_page_is_current() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/file.md");
        let page = markdown();
        if std::env::var_os("UPDATE_FIXTURES").is_some() {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, &page).unwrap();
        }
        let written = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            written == page,
            "docs/reference/file.md is not current: run this test with UPDATE_FIXTURES=1"
        );
    }

    #[test]
    fn every_type_has_a_section_or_is_said_where_it_stands() {
        let page = markdown();
        for link in page.split("](#").skip(1) {
            let anchor = link.split(')').next().unwrap();
            assert!(
                page.lines().any(|l| l.strip_prefix("## ").is_some_and(|h| h.eq_ignore_ascii_case(anchor))),
                "{anchor}"
            );
        }
        assert!(page.contains("| `slot` |"));
    }
}
