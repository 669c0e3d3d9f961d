//! Holds a tree against the JSON Schema of the file, and turns it into a [`Spec`] when it fits.
//!
//! The walker knows the few words that the derived schema uses. It builds the JSON value as it goes, because only the
//! schema can say whether `1.10` is a number or a text. A value that does not fit is reported and left out; where one must
//! stand, something takes its place, so that the rest of the file can still be checked. Where that happened is a *gap*:
//! nothing that is found there means anything.

use std::sync::LazyLock;

use serde_json::{Map, Value};

use super::tree::{Scalar, Tree};
use crate::diagnostic::{Diagnostic, Path, codes, nearest};
use crate::spec::{self, Spec};

static SCHEMA: LazyLock<Value> = LazyLock::new(spec::schema);

/// The tree as a [`Spec`], as far as it fits, and where it does not.
pub(super) fn spec(tree: &Tree, problems: &mut Vec<Diagnostic>) -> Option<(Spec, Vec<Path>)> {
    let before = problems.len();
    let mut walker = Walker { root: &SCHEMA, problems: &mut *problems, gaps: Vec::new() };
    let value = walker.walk(tree, &SCHEMA, &Path::root());
    let gaps = walker.gaps;
    match serde_json::from_value(value?) {
        Ok(spec) => Some((spec, gaps)),
        // What takes the place of something need not fit everywhere.
        Err(_) if problems.len() > before => None,
        Err(error) => {
            // Only a gap between schema and types leads here; better said without a place than not at all.
            problems.push(Diagnostic::error(codes::WRONG_TYPE, format!("the file does not fit: {error}")));
            None
        }
    }
}

struct Walker<'s, 'p> {
    root: &'s Value,
    problems: &'p mut Vec<Diagnostic>,
    gaps: Vec<Path>,
}

impl<'s> Walker<'s, '_> {
    fn walk(&mut self, tree: &Tree, schema: &'s Value, path: &Path) -> Option<Value> {
        if schema.as_bool() == Some(true) {
            return Some(as_it_stands(tree));
        }
        let alternatives = self.alternatives(schema);
        let nullable = alternatives.iter().any(|one| allows(one, "null"));
        if nullable && matches!(tree, Tree::Scalar { value: Scalar::Null, .. }) {
            return Some(Value::Null);
        }
        let kinds: &[&str] = match tree {
            Tree::Map { .. } => &["object"],
            Tree::List { .. } => &["array"],
            Tree::Scalar { .. } => &["string", "integer", "boolean"],
        };
        let fitting = alternatives.iter().find(|one| {
            kinds.iter().any(|kind| allows(one, kind)) || kinds.len() > 1 && choices(one).is_some()
        });
        let Some(schema) = fitting.or_else(|| alternatives.iter().find(|one| !allows(one, "null"))).copied()
        else {
            return self.wrong_type(&alternatives, "this", path);
        };
        match tree {
            Tree::Map { entries, .. } if allows(schema, "object") => Some(self.map(entries, schema, path)),
            Tree::List { items, .. } if allows(schema, "array") => {
                let item_schema = schema.get("items").unwrap_or(&Value::Null);
                let walked = items.iter().enumerate();
                let walked: Vec<_> =
                    walked.filter_map(|(i, item)| self.walk(item, item_schema, &path.index(i))).collect();
                if walked.len() < items.len() {
                    // Those behind the one that is left out have other numbers now.
                    self.gaps.push(path.clone());
                }
                Some(Value::Array(walked))
            }
            Tree::Scalar { raw, value, .. } => self.scalar(raw, *value, schema, &alternatives, path),
            Tree::Map { .. } => self.wrong_type(&alternatives, "a mapping", path),
            Tree::List { .. } => self.wrong_type(&alternatives, "a list", path),
        }
    }

    /// The schemas that a value may fit: what a reference points at, and each of those that it may be.
    fn alternatives(&self, schema: &'s Value) -> Vec<&'s Value> {
        if let Some(either) = schema.get("anyOf").and_then(Value::as_array) {
            return either.iter().flat_map(|one| self.alternatives(one)).collect();
        }
        let pointer = schema.get("$ref").and_then(Value::as_str).and_then(|at| at.strip_prefix('#'));
        match pointer.and_then(|pointer| self.root.pointer(pointer)) {
            Some(found) => self.alternatives(found),
            None => vec![schema],
        }
    }

    fn map(
        &mut self,
        entries: &[(String, crate::diagnostic::Span, Tree)],
        schema: &'s Value,
        path: &Path,
    ) -> Value {
        let properties = schema.get("properties").and_then(Value::as_object);
        let others =
            schema.get("additionalProperties").filter(|s| s.is_object() || s.as_bool() == Some(true));
        let mut walked = Map::new();
        let mut meant = Vec::new();
        let parent = path;
        for (key, _, value) in entries {
            let path = parent.key(key);
            let Some(of_key) = properties.and_then(|p| p.get(key)).or(others) else {
                let known: Vec<&str> =
                    properties.into_iter().flatten().map(|(key, _)| key.as_str()).collect();
                let near = nearest(key, known.iter().copied());
                meant.extend(near);
                self.problems.push(unknown_key(near, &known, &path));
                self.gaps.extend(near.map(|near| parent.key(near)));
                continue;
            };
            if let Some(value) = self.walk(value, of_key, &path) {
                walked.insert(key.clone(), value);
            }
        }
        let required = schema.get("required").and_then(Value::as_array);
        for key in required.into_iter().flatten().filter_map(Value::as_str) {
            let of_key = properties.and_then(|p| p.get(key)).unwrap_or(&Value::Null);
            if !walked.contains_key(key) {
                walked.insert(key.to_owned(), self.stand_in(of_key));
                self.gaps.push(path.key(key));
            }
            // A required key that is misspelled is one mistake, and was said above.
            if !entries.iter().any(|(given, _, _)| given == key) && !meant.contains(&key) {
                let whole = path.key(key);
                let problem = Diagnostic::error(codes::MISSING_KEY, format!("`{whole}` is missing"));
                self.problems.push(problem.at_key(path.clone(), "").help(describe(key, of_key)));
            }
        }
        Value::Object(walked)
    }

    fn scalar(
        &mut self,
        raw: &str,
        value: Scalar,
        schema: &'s Value,
        alternatives: &[&Value],
        path: &Path,
    ) -> Option<Value> {
        if let Some(choices) = choices(schema) {
            if matches!(value, Scalar::Text) && choices.contains(&raw) {
                return Some(Value::from(raw));
            }
            let mut problem =
                Diagnostic::error(codes::NOT_A_CHOICE, format!("`{path}` cannot be {}", written(raw, value)))
                    .at(path.clone(), "");
            let listed = choices.join("`, `");
            problem = match nearest(raw, choices) {
                Some(near) => problem.help(format!("did you mean `{near}`? Known are `{listed}`")),
                None => problem.help(format!("known are `{listed}`")),
            };
            self.report(path, problem);
            return None;
        }
        match value {
            // A key with nothing behind it is a key that is not set, where that is allowed.
            Scalar::Null if allows(schema, "null") => Some(Value::Null),
            Scalar::Null if allows(schema, "object") => Some(self.map(&[], schema, path)),
            Scalar::Bool(value) if allows(schema, "boolean") => Some(Value::Bool(value)),
            // Before numbers: where a text is fine, the text as written is kept, so that 1.10 does not become 1.1.
            Scalar::Text | Scalar::Integer(_) | Scalar::Number(_) if allows(schema, "string") => {
                Some(Value::from(raw))
            }
            Scalar::Integer(number) if allows(schema, "integer") => self.integer(number, schema, path),
            _ => self.wrong_type(alternatives, &written(raw, value), path),
        }
    }

    fn integer(&mut self, number: i128, schema: &Value, path: &Path) -> Option<Value> {
        let bound = |key: &str, or: i128| schema.get(key).and_then(Value::as_i64).map_or(or, i128::from);
        let (low, high) = (bound("minimum", 0), bound("maximum", u32::MAX.into()));
        if let Ok(number) = i64::try_from(number)
            && (low..=high).contains(&i128::from(number))
        {
            return Some(Value::from(number));
        }
        let problem =
            Diagnostic::error(codes::WRONG_TYPE, format!("`{path}` is a number out of range: {number}"));
        self.report(path, problem.at(path.clone(), "").help(format!("give a number from {low} to {high}")));
        None
    }

    fn report(&mut self, path: &Path, problem: Diagnostic) {
        self.problems.push(problem);
        self.gaps.push(path.clone());
    }

    /// Something that fits where a value must stand.
    fn stand_in(&self, schema: &'s Value) -> Value {
        let alternatives = self.alternatives(schema);
        let Some(schema) = alternatives.first() else { return Value::Null };
        // Of a worker less is asked than of a control plane.
        let choice = choices(schema).and_then(|choices| choices.last().copied());
        match () {
            () if choice.is_some() => choice.into(),
            () if allows(schema, "object") => {
                let properties = schema.get("properties");
                let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
                let filled = required.filter_map(Value::as_str).map(|key| {
                    let of_key = properties.and_then(|properties| properties.get(key));
                    (key.to_owned(), of_key.map_or(Value::Null, |of_key| self.stand_in(of_key)))
                });
                Value::Object(filled.collect())
            }
            () if allows(schema, "array") => Value::Array(Vec::new()),
            () if allows(schema, "integer") => Value::from(1),
            () if allows(schema, "boolean") => Value::Bool(false),
            () => Value::from(""),
        }
    }

    fn wrong_type(&mut self, alternatives: &[&Value], found: &str, path: &Path) -> Option<Value> {
        let wanted = wanted(alternatives);
        let allows = |kind: &str| alternatives.iter().any(|one| allows(one, kind));
        let mut problem =
            Diagnostic::error(codes::WRONG_TYPE, format!("`{path}` must be {wanted}, not {found}"))
                .at(path.clone(), "");
        if allows("string") && (found == "true" || found == "false") {
            problem = problem.help(format!("write \"{found}\" with quotes to mean the text"));
        } else if allows("array") && !found.starts_with("a ") {
            problem = problem.help(format!("write it as a list: [{found}]"));
        } else if let Some(help) = example(&allows, path) {
            problem = problem.help(help);
        }
        self.report(path, problem);
        None
    }
}

/// A value that the file only hands on, as YAML takes it.
pub fn as_it_stands(tree: &Tree) -> Value {
    match tree {
        Tree::Map { entries, .. } => {
            entries.iter().map(|(key, _, value)| (key.clone(), as_it_stands(value))).collect()
        }
        Tree::List { items, .. } => items.iter().map(as_it_stands).collect(),
        Tree::Scalar { raw, value, .. } => match *value {
            Scalar::Null => Value::Null,
            Scalar::Bool(value) => Value::Bool(value),
            Scalar::Integer(number) => match (i64::try_from(number), u64::try_from(number)) {
                (Ok(number), _) => Value::from(number),
                (_, Ok(number)) => Value::from(number),
                _ => Value::from(raw.as_str()),
            },
            Scalar::Number(number) => {
                serde_json::Number::from_f64(number).map_or_else(|| Value::from(raw.as_str()), Value::Number)
            }
            Scalar::Text => Value::from(raw.as_str()),
        },
    }
}

/// What a value of the right kind looks like.
fn example(allows: &dyn Fn(&str) -> bool, path: &Path) -> Option<String> {
    let whole = path.to_string();
    let key = whole.rsplit('.').next().filter(|key| !key.contains('['))?;
    Some(match () {
        () if allows("integer") => format!("write a whole number without quotes, for example `{key}: 3`"),
        () if allows("boolean") => format!("write `{key}: true` or `{key}: false`"),
        () if allows("object") => {
            format!("write keys below it, for example `{key}: {{ … }}`; `talosmith explain TS0103` says more")
        }
        () => return None,
    })
}

fn unknown_key(near: Option<&str>, known: &[&str], path: &Path) -> Diagnostic {
    let problem =
        Diagnostic::error(codes::UNKNOWN_KEY, format!("unknown key `{path}`")).at_key(path.clone(), "");
    match near {
        Some(near) => problem.help(format!("did you mean `{near}`?")),
        None => problem.help(format!("known here are `{}`", known.join("`, `"))),
    }
}

fn describe(key: &str, schema: &Value) -> String {
    let about = schema.get("description").and_then(Value::as_str).unwrap_or_default();
    let example = schema.pointer("/examples/0").and_then(Value::as_str);
    let first_sentence =
        about.split(". ").next().unwrap_or_default().trim_end_matches('.').replace('\n', " ");
    match (first_sentence.is_empty(), example) {
        (true, _) => format!("add `{key}`"),
        (false, None) => format!("add `{key}`: {}", lower_first(&first_sentence)),
        (false, Some(example)) => format!("add `{key}: {example}`: {}", lower_first(&first_sentence)),
    }
}

fn lower_first(text: &str) -> String {
    // A word in capitals (VIP, MAC) stays as it is.
    let mut letters = text.chars();
    match (letters.next(), letters.next()) {
        (Some(first), Some(second)) if second.is_lowercase() || second == ' ' => {
            format!("{}{second}{}", first.to_lowercase(), letters.as_str())
        }
        _ => text.to_owned(),
    }
}

fn allows(schema: &Value, kind: &str) -> bool {
    match schema.get("type") {
        Some(Value::String(one)) => one == kind,
        Some(Value::Array(several)) => several.iter().any(|one| one == kind),
        _ => false,
    }
}

/// The values of an enumeration: written as `enum`, or as `oneOf` constants when each has a description.
fn choices(schema: &Value) -> Option<Vec<&str>> {
    if let Some(values) = schema.get("enum").and_then(Value::as_array) {
        return Some(values.iter().filter_map(Value::as_str).collect());
    }
    let one_of = schema.get("oneOf")?.as_array()?;
    one_of.iter().map(|one| one.get("const")?.as_str()).collect()
}

fn wanted(alternatives: &[&Value]) -> String {
    let names = [
        ("boolean", "true or false"),
        ("string", "a text"),
        ("integer", "a whole number"),
        ("array", "a list"),
        ("object", "a mapping"),
    ];
    let of_kind = |kind: &str| {
        alternatives.iter().any(|one| allows(one, kind) || kind == "string" && choices(one).is_some())
    };
    let fitting: Vec<&str> =
        names.into_iter().filter(|(kind, _)| of_kind(kind)).map(|(_, name)| name).collect();
    fitting.join(" or ")
}

fn written(raw: &str, value: Scalar) -> String {
    match value {
        Scalar::Null => "empty".to_owned(),
        Scalar::Text => format!("\"{raw}\""),
        _ => raw.to_owned(),
    }
}
