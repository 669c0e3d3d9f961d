//! Checks of parameters and of property strings (`virtio,bridge=vmbr0`), with the words that Proxmox has for what is wrong.
//!
//! What each call takes is not written here: it is read from `schema/gen/methods.json`, which is made from the API schema
//! of a real server, and from `schema/since-9.2.json`, which has what a later release added. A [`Rule`] is one parameter, or one key of a property string, so the same checks serve both. The
//! order of the checks is the server's: type, format, pattern, length, range, enumeration; the first that fails is told.

pub(crate) mod cpu;
mod fits;
pub(crate) mod formats;
mod load;
mod pattern;
mod privileges;
mod size;

use std::collections::BTreeMap;
use std::sync::LazyLock;

pub(crate) use pattern::Pattern;
pub(crate) use privileges::PRIVILEGES;
use serde_json::Value;
pub(crate) use size::{parse_size, print_size};

use crate::ProxmoxVersion;

pub(crate) const UNKNOWN: &str =
    "property is not defined in schema and the schema does not allow additional properties";
pub(crate) const MISSING: &str = "property is missing and it is not optional";

/// Everything that is known of the calls.
#[derive(Debug, Default)]
pub(crate) struct Schema {
    /// Every path there is, with its names in braces.
    paths: Vec<String>,
    methods: BTreeMap<String, Method>,
    formats: BTreeMap<String, Props>,
}

#[derive(Debug)]
pub(crate) struct Method {
    /// The release that has it first.
    pub(crate) since: ProxmoxVersion,
    pub(crate) params: BTreeMap<String, Rule>,
    /// Parameters whose name ends in a number: prefix, lowest, highest.
    numbered: Vec<(String, u32, u32, Rule)>,
    /// Whether anything else is taken as well.
    pub(crate) open: bool,
    /// Who may call, as the server writes it.
    pub(crate) permissions: Value,
    /// Whether an API token may call.
    pub(crate) token: bool,
    /// The type of what it answers.
    pub(crate) returns: String,
}

/// What a value must be.
#[derive(Debug, Default)]
pub(crate) struct Rule {
    /// The release that has it first.
    pub(crate) since: ProxmoxVersion,
    pub(crate) kind: Kind,
    pub(crate) format: Option<String>,
    pattern: Option<Pattern>,
    max_length: Option<usize>,
    min_length: Option<usize>,
    min: Option<f64>,
    max: Option<f64>,
    one_of: Option<Vec<String>>,
    pub(crate) optional: bool,
    /// Another parameter that must be there if this one is.
    pub(crate) requires: Option<String>,
    /// In a property string: this key may be left out and its value stands alone.
    default_key: bool,
    /// In a property string: another name for this key.
    alias: Option<String>,
    /// In a property string: the key's own name is the value of that other key, as in `virtio=MAC`.
    key_alias: Option<String>,
    items: Option<Box<Rule>>,
}

/// The type of a value.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Bool,
    Int,
    Number,
    #[default]
    Text,
    List,
}

/// A comma-separated list of `key=value`.
#[derive(Debug, Default)]
pub(crate) struct Props {
    keys: BTreeMap<String, Rule>,
    default_key: Option<String>,
}

/// The parts of a property string.
pub(crate) type Parts = BTreeMap<String, String>;

static SCHEMA: LazyLock<Schema> = LazyLock::new(|| {
    let later = include_str!("schema/since-9.2.json");
    load::schema(include_str!("schema/gen/methods.json"), later, ProxmoxVersion::V9_2)
});

/// The call `method path`, the path with its names in braces.
pub(crate) fn method(method: &str, path: &str) -> Option<&'static Method> {
    SCHEMA.methods.get(&format!("{method} {path}"))
}

/// Every path there is, with its names in braces.
pub(crate) fn paths() -> &'static [String] {
    &SCHEMA.paths
}

/// The property-string format of that name.
pub(crate) fn props(format: &str) -> Option<&'static Props> {
    SCHEMA.formats.get(format)
}

impl Method {
    /// The rule for the parameter `name`.
    pub(crate) fn rule(&self, name: &str) -> Option<&Rule> {
        self.params.get(name).or_else(|| {
            let (prefix, number) = name.split_at(name.find(|c: char| c.is_ascii_digit())?);
            let number = number.parse().ok().filter(|parsed: &u32| parsed.to_string() == number)?;
            let fits = |row: &&(String, u32, u32, Rule)| row.0 == prefix && (row.1..=row.2).contains(&number);
            self.numbered.iter().find(fits).map(|row| &row.3)
        })
    }
}

impl Rule {
    /// Says what is wrong with `value`, the value of `name`, in Proxmox' words.
    pub(crate) fn check(&self, name: &str, value: &str) -> Result<(), String> {
        if self.kind == Kind::List {
            return self.items.as_ref().map_or(Ok(()), |items| items.check(name, value));
        }
        let digits = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_digit());
        let typed = match self.kind {
            Kind::Bool => matches!(value, "0" | "1"),
            Kind::Int => digits(value.strip_prefix(['+', '-']).unwrap_or(value)),
            // Words such as `inf` are numbers elsewhere.
            Kind::Number => value.parse::<f64>().is_ok() && value.contains(|c: char| c.is_ascii_digit()),
            Kind::Text | Kind::List => true,
        };
        if !typed {
            return Err(format!("type check ('{}') failed - got '{value}'", self.kind.name()));
        }
        if let Some(format) = &self.format {
            formats::check(format, name, value).map_err(|detail| format!("invalid format - {detail}\n"))?;
        }
        if self.pattern.as_ref().is_some_and(|pattern| !pattern.fits(value)) {
            return Err("value does not match the regex pattern".to_owned());
        }
        let length = value.chars().count();
        if let Some(max) = self.max_length.filter(|max| length > *max) {
            return Err(format!("value may only be {max} characters long"));
        }
        if let Some(min) = self.min_length.filter(|min| length < *min) {
            return Err(format!("value must be at least {min} characters long"));
        }
        if let (Kind::Int | Kind::Number, Ok(number)) = (self.kind, value.parse::<f64>()) {
            if let Some(max) = self.max.filter(|max| number > *max) {
                return Err(format!("value must have a maximum value of {max}"));
            }
            if let Some(min) = self.min.filter(|min| number < *min) {
                return Err(format!("value must have a minimum value of {min}"));
            }
        }
        match &self.one_of {
            Some(values) if !values.iter().any(|known| known == value) => {
                let list = values.join(", ");
                Err(format!("value '{value}' does not have a value in the enumeration '{list}'"))
            }
            _ => Ok(()),
        }
    }

    /// Whether a list is taken as one text with commas.
    pub(crate) fn joins_lists(&self) -> bool {
        self.kind == Kind::Text && self.format.as_ref().is_some_and(|format| format.ends_with("-list"))
    }
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Bool => "boolean",
            Self::Int => "integer",
            Self::Number => "number",
            Self::Text => "string",
            Self::List => "array",
        }
    }
}

impl Props {
    /// Takes a property string apart. `name` is the parameter that it is the value of.
    pub(crate) fn parse(&self, name: &str, text: &str) -> Result<Parts, String> {
        let mut parts = Parts::new();
        let duplicate = |key: &str| format!("duplicate key in comma-separated list property: {key}");
        let mut bare = false;
        for part in text.split(',').filter(|part| !part.trim().is_empty()) {
            match part.split_once('=') {
                Some((key, value)) if !key.is_empty() && !value.is_empty() => {
                    if parts.contains_key(key) {
                        return Err(duplicate(key));
                    }
                    let rule = self.keys.get(key);
                    let Some(target) = rule.and_then(|rule| rule.alias.as_deref()) else {
                        parts.insert(key.to_owned(), value.to_owned());
                        continue;
                    };
                    if let Some(other) = rule.and_then(|rule| rule.key_alias.as_ref())
                        && parts.insert(other.clone(), key.to_owned()).is_some()
                    {
                        return Err(format!("key alias '{other}' is already defined"));
                    }
                    if parts.insert(target.to_owned(), value.to_owned()).is_some() {
                        return Err(format!("key '{target}' is already defined (via alias)"));
                    }
                }
                Some(_) => return Err("missing key in comma-separated list property".to_owned()),
                None => match &self.default_key {
                    Some(key) if bare || parts.contains_key(key) => return Err(duplicate(key)),
                    Some(key) => {
                        bare = true;
                        parts.insert(key.clone(), part.to_owned());
                    }
                    None => {
                        return Err("value without key, but schema does not define a default key".to_owned());
                    }
                },
            }
        }
        let problems = self.problems(name, &parts);
        if problems.is_empty() { Ok(parts) } else { Err(format!("format error\n{}", problems.join("\n"))) }
    }

    fn problems(&self, name: &str, parts: &Parts) -> Vec<String> {
        let mut problems = Vec::new();
        for (key, value) in parts {
            let Some(rule) = self.keys.get(key).filter(|rule| rule.alias.is_none()) else {
                problems.push(format!("{name}.{key}: {UNKNOWN}"));
                continue;
            };
            let value = if rule.kind == Kind::Bool { word_to_bool(value) } else { value.as_str() };
            if let Err(problem) = rule.check(key, value) {
                problems.push(format!("{name}.{key}: {problem}"));
            }
            if let Some(needs) = rule.requires.as_ref().filter(|needs| !parts.contains_key(*needs)) {
                problems.push(format!("{name}.{needs}: missing property required by '{name}.{key}'"));
            }
        }
        let required = self.keys.iter().filter(|(_, rule)| !rule.optional && rule.alias.is_none());
        for (key, _) in required.filter(|(key, _)| !parts.contains_key(*key)) {
            problems.push(format!("{name}.{key}: {MISSING}"));
        }
        problems
    }

    /// Puts the parts together as Proxmox writes them: the default key first and bare, the rest by name.
    pub(crate) fn print(&self, parts: &Parts) -> String {
        let mut text: Vec<String> = Vec::new();
        let mut done: Vec<&str> = Vec::new();
        let named = self.keys.iter().find_map(|(key, rule)| {
            let (first, second) = (rule.key_alias.as_deref()?, rule.alias.as_deref()?);
            Some((first, second, parts.get(second)?)).filter(|_| parts.get(first) == Some(key))
        });
        if let Some((first, second, value)) = named {
            text.push(format!("{}={value}", parts.get(first).map_or("", String::as_str)));
            done.extend([first, second]);
        } else if let Some((key, value)) = self.default_key.as_ref().and_then(|key| parts.get_key_value(key))
        {
            text.push(value.clone());
            done.push(key);
        }
        let rest = parts.iter().filter(|(key, _)| !done.contains(&key.as_str()));
        text.extend(rest.map(|(key, value)| format!("{key}={value}")));
        text.join(",")
    }
}

/// Inside property strings, booleans may be words.
fn word_to_bool(value: &str) -> &str {
    match value.to_ascii_lowercase().as_str() {
        "1" | "on" | "yes" | "true" => "1",
        "0" | "off" | "no" | "false" => "0",
        _ => value,
    }
}
