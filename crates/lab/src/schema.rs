//! Checks of values and of property strings (`virtio,bridge=vmbr0`), with the words that Proxmox has for what is wrong.
//!
//! A [`Kind`] says what a value must be. A property string is itself described by [`Field`]s, so the same checks serve the
//! parameters of a call and the parts of one parameter.

use std::collections::BTreeMap;

/// What a value must be.
pub(crate) enum Kind {
    Bool,
    Int(Option<i64>, Option<i64>),
    Number(Option<f64>, Option<f64>),
    /// A whole number that must satisfy the check.
    IntFormat(fn(&str) -> Result<(), String>),
    /// Any text up to so many characters.
    Text(usize),
    Enum(&'static [&'static str]),
    /// The text must satisfy the predicate.
    Pattern(fn(&str) -> bool),
    /// The text must satisfy the check, which says what is wrong.
    Format(fn(&str) -> Result<(), String>),
    Props(&'static Props),
}

/// Any text.
pub(crate) const TEXT: Kind = Kind::Text(usize::MAX);
/// A whole number of at least 0.
pub(crate) const COUNT: Kind = Kind::Int(Some(0), None);

/// One parameter of a call, or one key of a property string.
pub(crate) struct Field {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) required: bool,
    /// Another field that must be there if this one is.
    pub(crate) needs: Option<&'static str>,
}

/// An optional field.
pub(crate) const fn field(name: &'static str, kind: Kind) -> Field {
    Field { name, kind, required: false, needs: None }
}

/// A required field.
pub(crate) const fn required(name: &'static str, kind: Kind) -> Field {
    Field { name, kind, required: true, needs: None }
}

/// An optional field that makes sense only beside another.
pub(crate) const fn with(name: &'static str, kind: Kind, needs: &'static str) -> Field {
    Field { name, kind, required: false, needs: Some(needs) }
}

/// A comma-separated list of `key=value`.
pub(crate) struct Props {
    /// The key of a value that stands alone.
    pub(crate) default_key: Option<&'static str>,
    pub(crate) fields: &'static [&'static [Field]],
    /// Other names for keys.
    pub(crate) aliases: &'static [(&'static str, &'static str)],
    /// Keys that name the value of the first key here and give the value of the second: `virtio=MAC`.
    pub(crate) key_alias: Option<(&'static str, &'static str, &'static [&'static str])>,
}

/// The parts of a property string.
pub(crate) type Parts = BTreeMap<String, String>;

pub(crate) const UNKNOWN: &str =
    "property is not defined in schema and the schema does not allow additional properties";
pub(crate) const MISSING: &str = "property is missing and it is not optional";

impl Kind {
    /// Says what is wrong with `value`, the value of `name`, in Proxmox' words.
    pub(crate) fn check(&self, name: &str, value: &str) -> Result<(), String> {
        match self {
            Self::Bool if matches!(value, "0" | "1") => Ok(()),
            Self::Bool => Err(wrong_type("boolean", value)),
            Self::Int(min, max) => {
                let number: i64 = value.parse().map_err(|_| wrong_type("integer", value))?;
                within(&number, min.as_ref(), max.as_ref())
            }
            Self::Number(min, max) => {
                let number: f64 = value.parse().map_err(|_| wrong_type("number", value))?;
                within(&number, min.as_ref(), max.as_ref())
            }
            Self::IntFormat(check) => {
                value.parse::<i64>().map_err(|_| wrong_type("integer", value))?;
                check(value).map_err(|detail| format!("invalid format - {detail}\n"))
            }
            Self::Text(max) if value.chars().count() > *max => {
                Err(format!("value may only be {max} characters long"))
            }
            Self::Text(_) => Ok(()),
            Self::Enum(values) if values.contains(&value) => Ok(()),
            Self::Enum(values) => Err(format!(
                "value '{value}' does not have a value in the enumeration '{}'",
                values.join(", ")
            )),
            Self::Pattern(fits) if fits(value) => Ok(()),
            Self::Pattern(_) => Err("value does not match the regex pattern".to_owned()),
            Self::Format(check) => check(value).map_err(|detail| format!("invalid format - {detail}\n")),
            Self::Props(props) => {
                props.parse(name, value).map(drop).map_err(|detail| format!("invalid format - {detail}\n"))
            }
        }
    }

    /// Proxmox' name of the type, for values that are not even text.
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Self::Bool => "boolean",
            Self::Int(..) | Self::IntFormat(_) => "integer",
            Self::Number(..) => "number",
            _ => "string",
        }
    }
}

impl Props {
    /// Takes a property string apart. `name` is the parameter that it is the value of.
    pub(crate) fn parse(&self, name: &str, text: &str) -> Result<Parts, String> {
        let mut parts = Parts::new();
        let mut put = |key: &str, value: &str| match parts.insert(key.to_owned(), value.to_owned()) {
            None => Ok(()),
            Some(_) => Err(format!("duplicate key in comma-separated list property: {key}")),
        };
        for part in text.split(',').filter(|part| !part.is_empty()) {
            match part.split_once('=') {
                Some((key, value)) => match self.key_alias {
                    Some((first, second, keys)) if keys.contains(&key) => {
                        put(first, key)?;
                        put(second, value)?;
                    }
                    _ => put(self.canonical(key), value)?,
                },
                None => match self.default_key {
                    Some(key) => put(key, part)?,
                    None => {
                        return Err("value without key, but schema does not define a default key".to_owned());
                    }
                },
            }
        }
        let problems = self.problems(name, &parts);
        if problems.is_empty() { Ok(parts) } else { Err(format!("format error\n{}", problems.join("\n"))) }
    }

    fn canonical<'a>(&self, key: &'a str) -> &'a str {
        self.aliases.iter().find(|(alias, _)| *alias == key).map_or(key, |(_, canonical)| canonical)
    }

    fn field(&self, name: &str) -> Option<&'static Field> {
        self.fields.iter().flat_map(|group| group.iter()).find(|field| field.name == name)
    }

    fn problems(&self, name: &str, parts: &Parts) -> Vec<String> {
        let mut problems = Vec::new();
        for (key, value) in parts {
            let Some(field) = self.field(key) else {
                problems.push(format!("{name}.{key}: {UNKNOWN}"));
                continue;
            };
            let value = if matches!(field.kind, Kind::Bool) { word_to_bool(value) } else { value.as_str() };
            if let Err(problem) = field.kind.check(key, value) {
                problems.push(format!("{name}.{key}: {problem}"));
            }
            if let Some(needs) = field.needs.filter(|needs| !parts.contains_key(*needs)) {
                problems.push(format!("{name}.{needs}: missing property required by '{name}.{key}'"));
            }
        }
        let missing = self.fields.iter().flat_map(|group| group.iter()).filter(|f| f.required);
        for field in missing.filter(|field| !parts.contains_key(field.name)) {
            problems.push(format!("{name}.{}: {MISSING}", field.name));
        }
        problems
    }

    /// Puts the parts together as Proxmox writes them: the default key first and bare, the rest by name.
    pub(crate) fn print(&self, parts: &Parts) -> String {
        let mut text: Vec<String> = Vec::new();
        let mut done = Vec::new();
        if let Some((first, second, _)) = self.key_alias
            && let (Some(kind), Some(value)) = (parts.get(first), parts.get(second))
        {
            text.push(format!("{kind}={value}"));
            done.extend([first, second]);
        } else if let Some((key, value)) = self.default_key.and_then(|key| Some((key, parts.get(key)?))) {
            text.push(value.clone());
            done.push(key);
        }
        text.extend(
            parts.iter().filter(|(key, _)| !done.contains(&key.as_str())).map(|(k, v)| format!("{k}={v}")),
        );
        text.join(",")
    }
}

fn wrong_type(wanted: &str, value: &str) -> String {
    format!("type check ('{wanted}') failed - got '{value}'")
}

fn within<T: PartialOrd + std::fmt::Display>(
    value: &T,
    min: Option<&T>,
    max: Option<&T>,
) -> Result<(), String> {
    if let Some(min) = min.filter(|min| value < *min) {
        return Err(format!("value must have a minimum value of {min}"));
    }
    if let Some(max) = max.filter(|max| value > *max) {
        return Err(format!("value must have a maximum value of {max}"));
    }
    Ok(())
}

/// Inside property strings, booleans may be words.
fn word_to_bool(value: &str) -> &str {
    match value.to_ascii_lowercase().as_str() {
        "1" | "on" | "yes" | "true" => "1",
        "0" | "off" | "no" | "false" => "0",
        _ => value,
    }
}
