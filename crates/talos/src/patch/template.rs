//! Placeholders in patches: `${node.name}` stands for a value of the machine that the patch is for.
//!
//! They are filled after the text was read, in values and in keys, so a value can never change the structure of a patch. Only
//! names that start with `node.` or `cluster.` are placeholders: `${HOME}` in a script stays what it is. `$${node.name}`
//! is the literal text.

use std::collections::BTreeMap;

use crate::yaml::{Map, Value};

/// What the placeholders of a patch stand for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Values(BTreeMap<String, String>);

/// A placeholder that stands for nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no patch variable ${{{name}}} here")]
pub struct TemplateError {
    /// What stands between the braces.
    pub name: String,
    /// The names that have a value.
    pub known: Vec<String>,
}

impl TemplateError {
    /// What a person can do about it.
    #[must_use]
    pub fn hint(&self) -> String {
        let written = |name: &String| format!("${{{name}}}");
        let meant = self.known.iter().map(|known| (unlike(&self.name, known), known)).min();
        let meant = meant.filter(|(mistakes, _)| *mistakes * 3 <= self.name.chars().count() + 2);
        let meant = meant.map(|(_, known)| format!("did you mean {}? ", written(known))).unwrap_or_default();
        let known: Vec<String> = self.known.iter().map(written).collect();
        format!("{meant}There are {}; write ${} for the text itself", known.join(", "), written(&self.name))
    }
}

/// How many letters differ: those at neither end that two words have in common, of the longer one.
fn unlike(one: &str, other: &str) -> usize {
    let (one, other): (Vec<char>, Vec<char>) = (one.chars().collect(), other.chars().collect());
    let shorter = one.len().min(other.len());
    let start = one.iter().zip(&other).take_while(|(a, b)| a == b).count();
    let end = one.iter().rev().zip(other.iter().rev()).take_while(|(a, b)| a == b).count();
    one.len().max(other.len()) - start - end.min(shorter - start)
}

impl Values {
    /// No values: every placeholder is an error.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The values with one more. The name is what stands between the braces, such as `node.name`.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.0.insert(name.to_owned(), value.to_owned());
        self
    }

    pub(super) fn fill_map(&self, map: &mut Map) -> Result<(), TemplateError> {
        map.rename_keys(|key| self.filled(key))?;
        map.values_mut().try_for_each(|value| self.fill(value))
    }

    fn fill(&self, value: &mut Value) -> Result<(), TemplateError> {
        match value {
            Value::Text(text) => *text = self.filled(text)?,
            Value::List(list) => list.iter_mut().try_for_each(|value| self.fill(value))?,
            Value::Map(map) => self.fill_map(map)?,
            _ => {}
        }
        Ok(())
    }

    fn filled(&self, text: &str) -> Result<String, TemplateError> {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(start) = rest.find("${") {
            let name = rest[start + 2..].split_once('}').map(|(name, _)| name).filter(|name| is_ours(name));
            let Some(name) = name else {
                out += &rest[..start + 2];
                rest = &rest[start + 2..];
                continue;
            };
            let end = start + 2 + name.len() + 1;
            if rest[..start].ends_with('$') {
                out += &rest[..start - 1];
                out += &rest[start..end];
            } else {
                let value = self.0.get(name).ok_or_else(|| TemplateError {
                    name: name.to_owned(),
                    known: self.0.keys().cloned().collect(),
                })?;
                out += &rest[..start];
                out += value;
            }
            rest = &rest[end..];
        }
        Ok(out + rest)
    }
}

fn is_ours(name: &str) -> bool {
    name.starts_with("node.") || name.starts_with("cluster.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_filled_and_others_left() {
        let values = Values::new().with("node.name", "cp-1").with("node.address", "10.0.0.1");
        for (text, filled) in [
            ("${node.name}", "cp-1"),
            ("a-${node.name}-${node.address}", "a-cp-1-10.0.0.1"),
            ("${HOME}/${node.name}", "${HOME}/cp-1"),
            ("$${node.name}", "${node.name}"),
            ("$$${node.name}", "$${node.name}"),
            ("${node.name", "${node.name"),
            ("100%$", "100%$"),
        ] {
            assert_eq!(values.filled(text).unwrap(), filled, "{text}");
        }
        let error = values.filled("${node.nmae}").unwrap_err();
        assert_eq!(error.to_string(), "there is no patch variable ${node.nmae} here");
        assert_eq!(
            error.hint(),
            "did you mean ${node.name}? There are ${node.address}, ${node.name}; write $${node.nmae} for the text itself"
        );
    }
}
