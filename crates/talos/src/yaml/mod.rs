//! YAML whose mappings keep their order: machine configuration, secrets, schematics and patches are read and written with it.

mod reader;
mod value;
mod writer;

pub use value::{Map, Value};

pub(crate) use reader::read;
pub(crate) use value::map;
pub(crate) use writer::quoted;

/// A text that is no YAML.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not valid YAML{}: {reason}", place(*line))]
pub struct YamlError {
    /// The line, counted from one, where it is known.
    pub line: Option<u64>,
    /// What the parser says.
    pub reason: String,
}

fn place(line: Option<u64>) -> String {
    line.map(|line| format!(" at line {line}")).unwrap_or_default()
}
