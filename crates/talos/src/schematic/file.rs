//! A schematic that a person wrote, as it is.
//!
//! A factory reads it, leaves out what is not set, and writes the fields in its own order; lists keep theirs. So do we.

use super::{canonical, id};
use crate::yaml::{Map, Value, YamlError, read as read_yaml};

/// The fields in canonical order, with what stands under each.
const FIELDS: &[(&str, Form)] = &[
    ("owner", Form::Text),
    ("overlay", Form::Map(&[("image", Form::Text), ("name", Form::Text), ("options", Form::Free)])),
    (
        "customization",
        Form::Map(&[
            ("embeddedMachineConfiguration", Form::Text),
            ("extraKernelArgs", Form::Texts),
            ("meta", Form::Maps(&[("key", Form::Number), ("value", Form::Text)])),
            ("systemExtensions", Form::Map(&[("officialExtensions", Form::Texts)])),
            ("bootloader", Form::Text),
            (
                "secureboot",
                Form::Map(&[("enrollKeys", Form::Text), ("includeWellKnownCertificates", Form::Flag)]),
            ),
            ("diskImage", Form::Map(&[("sectorSize", Form::Number)])),
        ]),
    ),
];

/// What stands under a field.
#[derive(Clone, Copy)]
enum Form {
    Text,
    Texts,
    Number,
    Flag,
    Free,
    Map(&'static [(&'static str, Form)]),
    Maps(&'static [(&'static str, Form)]),
}

/// A schematic from a file.
#[derive(Debug, Clone, PartialEq)]
pub struct SchematicFile(Map);

/// Why a text is no schematic.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SchematicError {
    /// The text is not YAML.
    #[error("read a schematic")]
    Yaml(#[from] YamlError),
    /// The text is not one mapping.
    #[error("a schematic is one YAML document with the key customization")]
    NotASchematic,
    /// A field that factories do not know.
    #[error("{path} is not a field of a schematic")]
    Unknown {
        /// The path of the field in the schematic.
        path: String,
    },
    /// A field with something else in it than factories take.
    #[error("{path} must be {wanted}")]
    Unfit {
        /// The path of the field in the schematic.
        path: String,
        /// What should stand there.
        wanted: &'static str,
    },
}

impl SchematicFile {
    /// Reads a schematic.
    ///
    /// # Errors
    ///
    /// Where it is none that a factory would take.
    pub fn parse(text: &str) -> Result<Self, SchematicError> {
        let mut documents = read_yaml(text)?;
        let (Some(Value::Map(map)), true) = (documents.pop(), documents.is_empty()) else {
            return Err(SchematicError::NotASchematic);
        };
        let mut document = ordered(&map, FIELDS, "")?;
        // Always there, even where nothing is customised.
        if document.get("customization").is_none() {
            document.insert("customization", Map::new());
        }
        Ok(Self(document))
    }

    /// The canonical text, which a factory takes and hashes.
    #[must_use]
    pub fn canonical(&self) -> String {
        canonical(&self.0)
    }

    /// The id, where it can be known without a factory.
    #[must_use]
    pub fn id(&self) -> Option<String> {
        id(&self.0)
    }

    /// The official system extensions, in the order of the file.
    #[must_use]
    pub fn extensions(&self) -> Vec<String> {
        self.0.texts("customization.systemExtensions.officialExtensions")
    }
}

fn ordered(map: &Map, fields: &[(&str, Form)], path: &str) -> Result<Map, SchematicError> {
    let at = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    if let Some((key, _)) = map.iter().find(|(key, _)| !fields.iter().any(|(known, _)| known == key)) {
        return Err(SchematicError::Unknown { path: at(key) });
    }
    let mut result = Map::new();
    for (key, form) in fields {
        let Some(value) = map.get(key).filter(|value| **value != Value::Null) else { continue };
        let value = shaped(value, *form, &at(key))?;
        // What is zero is left out, except in the elements of lists.
        let zero = match &value {
            Value::Text(text) => text.is_empty(),
            Value::Int(number) => *number == 0,
            Value::Bool(flag) => !flag,
            Value::List(list) => list.is_empty(),
            Value::Map(map) => map.is_empty() && *key != "customization",
            _ => false,
        };
        if !zero {
            result.insert(key, value);
        }
    }
    Ok(result)
}

fn shaped(value: &Value, form: Form, path: &str) -> Result<Value, SchematicError> {
    let unfit = |wanted| Err(SchematicError::Unfit { path: path.to_owned(), wanted });
    match (form, value) {
        (Form::Map(fields), Value::Map(map)) => Ok(ordered(map, fields, path)?.into()),
        (Form::Map(_), _) => unfit("a mapping"),
        (Form::Maps(fields), Value::List(list)) => {
            let items = list.iter().map(|item| match item {
                Value::Map(map) => ordered(map, fields, path).map(Value::from),
                _ => unfit("a list of mappings"),
            });
            Ok(Value::List(items.collect::<Result<_, _>>()?))
        }
        (Form::Texts, Value::List(list)) if list.iter().all(|item| text(item).is_some()) => {
            Ok(Value::List(list.iter().filter_map(text).map(Value::from).collect()))
        }
        (Form::Maps(_) | Form::Texts, _) => unfit("a list"),
        (Form::Text, value) => match text(value) {
            Some(text) => Ok(text.into()),
            None => unfit("a text"),
        },
        (Form::Number, Value::Int(_)) | (Form::Flag, Value::Bool(_)) | (Form::Free, Value::Map(_)) => {
            Ok(value.clone())
        }
        (Form::Number, _) => unfit("a number"),
        (Form::Flag, _) => unfit("true or false"),
        (Form::Free, _) => unfit("a mapping"),
    }
}

fn text(value: &Value) -> Option<String> {
    crate::schema::check::text_of(value)
}

#[cfg(test)]
mod tests {
    use super::{super::Schematic, *};

    #[test]
    fn a_file_has_the_id_of_what_it_means() {
        let written = "customization:\n  systemExtensions: {officialExtensions: [siderolabs/qemu-guest-agent]}\n  extraKernelArgs: []\n  secureboot: {includeWellKnownCertificates: false}\n";
        let file = SchematicFile::parse(written).unwrap();
        let same = Schematic {
            extensions: ["siderolabs/qemu-guest-agent".to_owned()].into(),
            ..Schematic::default()
        };
        assert_eq!(file.canonical(), same.canonical());
        assert_eq!(file.id().unwrap(), "ce4c980550dd2ab1b17bbf2b08801c7eb59418eafe8f279833297925d67c7515");
        assert_eq!(file.extensions(), ["siderolabs/qemu-guest-agent"]);
        assert_eq!(SchematicFile::parse("overlay: null\n").unwrap().id(), Schematic::default().id());
    }

    #[test]
    fn the_order_of_a_list_stays() {
        let file = |list: &str| {
            SchematicFile::parse(&format!(
                "customization: {{systemExtensions: {{officialExtensions: {list}}}}}"
            ))
            .unwrap()
        };
        assert_ne!(file("[a/b, a/a]").id(), file("[a/a, a/b]").id());
    }

    #[test]
    fn what_is_no_schematic_is_refused() {
        for (text, message) in [
            ("- a", "a schematic is one YAML document with the key customization"),
            ("customisation: {}", "customisation is not a field of a schematic"),
            ("customization: {meta: [{keys: 1}]}", "customization.meta.keys is not a field of a schematic"),
            ("customization: {extraKernelArgs: a}", "customization.extraKernelArgs must be a list"),
            (
                "customization: {diskImage: {sectorSize: x}}",
                "customization.diskImage.sectorSize must be a number",
            ),
        ] {
            assert_eq!(SchematicFile::parse(text).unwrap_err().to_string(), message);
        }
    }
}
