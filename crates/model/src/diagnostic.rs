//! What is wrong with a file, as plain data.
//!
//! A diagnostic has a stable code, one sentence, the places it speaks of, and how to mend it. Those who find a problem
//! know only the path of the value (`pools.work.count`); [`crate::load::Loaded::locate`] adds file, line, column and byte
//! range afterwards. So the types of the file stay plain, and checks need no source text. Nothing here renders: a
//! terminal draws the source line from the byte range, and JSON is this data as it stands.

pub mod codes;
mod nearest;

use std::fmt;

use serde::{Serialize, Serializer};

pub use nearest::nearest;

/// Whether a problem stops the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Nothing is done before this is mended.
    Error,
    /// Worth knowing; work goes on.
    Warning,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Error => "error",
            Self::Warning => "warning",
        })
    }
}

/// One problem.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Diagnostic {
    /// Stable code, for example `TS0101`; [`codes::explain`] knows it.
    pub code: &'static str,
    /// Whether it stops the work.
    pub severity: Severity,
    /// What is wrong, in one sentence without a full stop.
    pub message: String,
    /// The places it speaks of, the most telling first.
    pub labels: Vec<Label>,
    /// How to mend it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
}

/// One place that a diagnostic speaks of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Label {
    /// The value, by its path.
    pub path: Path,
    /// Where it stands; `None` until located, and for values that stand nowhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<Place>,
    /// What there is to say about this place; may be empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub note: String,
    #[serde(skip)]
    pub(crate) anchor: Anchor,
}

/// How the place of a label is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Anchor {
    /// The value at the path; for a mapping or a list, its key.
    Value,
    /// The key at the path.
    Key,
    /// Exactly here, whatever stands at the path.
    Exactly(Span),
}

/// A place in a source, for people (line and column, counted from 1, in characters) and for renderers (bytes).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Place {
    /// Name of the source, usually a file name.
    pub file: String,
    /// The line, counted from 1.
    pub line: usize,
    /// The column, counted from 1.
    pub column: usize,
    /// The same as bytes.
    #[serde(flatten)]
    pub span: Span,
}

/// A range of bytes in one of the sources.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Span {
    /// Index of the source.
    pub source: usize,
    /// First byte.
    pub start: usize,
    /// The byte after the last.
    pub end: usize,
}

/// A text that was read, with its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// What to call it, usually the file name.
    pub name: String,
    /// Its text. A secret that stood in it is masked.
    pub text: String,
}

impl Source {
    /// A text and what to call it.
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Self {
        Self { name: name.into(), text: text.into() }
    }

    pub(crate) fn place(&self, span: Span) -> Place {
        let before = self.text.get(..span.start).unwrap_or(&self.text);
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        Place {
            file: self.name.clone(),
            line: before.matches('\n').count() + 1,
            column: before.get(line_start..).unwrap_or_default().chars().count() + 1,
            span,
        }
    }
}

impl Diagnostic {
    /// A problem that stops the work.
    pub fn error(code: &'static str, message: impl Into<String>) -> Self {
        Self { code, severity: Severity::Error, message: message.into(), labels: Vec::new(), help: None }
    }

    /// A problem that only tells.
    pub fn warning(code: &'static str, message: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(code, message) }
    }

    /// Adds the value at `path`, with a note that may be empty.
    #[must_use]
    pub fn at(self, path: Path, note: impl Into<String>) -> Self {
        self.anchored(path, Anchor::Value, note)
    }

    /// Adds the key at `path` rather than its value.
    #[must_use]
    pub fn at_key(self, path: Path, note: impl Into<String>) -> Self {
        self.anchored(path, Anchor::Key, note)
    }

    /// Adds a place in a text that is not the tree of a cluster file.
    #[must_use]
    pub fn at_span(self, span: Span) -> Self {
        self.anchored(Path::root(), Anchor::Exactly(span), "")
    }

    pub(crate) fn anchored(mut self, path: Path, anchor: Anchor, note: impl Into<String>) -> Self {
        self.labels.push(Label { path, place: None, note: note.into(), anchor });
        self
    }

    /// Says how to mend it.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Whether it stops the work.
    #[must_use]
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }
}

/// The way from the top of the file to a value.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Path(Vec<Segment>);

/// One step of a [`Path`].
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Segment {
    /// Into a mapping.
    Key(String),
    /// Into a list, counted from 0.
    Index(usize),
}

impl Path {
    /// The whole file.
    #[must_use]
    pub fn root() -> Self {
        Self::default()
    }

    /// The path through these keys.
    #[must_use]
    pub fn of(keys: &[&str]) -> Self {
        Self(keys.iter().map(|key| Segment::Key((*key).to_owned())).collect())
    }

    /// This path and one key more.
    #[must_use]
    pub fn key(&self, key: &str) -> Self {
        self.step(Segment::Key(key.to_owned()))
    }

    /// This path and one place in a list more.
    #[must_use]
    pub fn index(&self, index: usize) -> Self {
        self.step(Segment::Index(index))
    }

    /// Whether this is `other`, or lies below it.
    #[must_use]
    pub fn starts_with(&self, other: &Self) -> bool {
        self.0.starts_with(&other.0)
    }

    /// The steps, from the top.
    #[must_use]
    pub fn segments(&self) -> &[Segment] {
        &self.0
    }

    fn step(&self, segment: Segment) -> Self {
        let mut longer = self.0.clone();
        longer.push(segment);
        Self(longer)
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (depth, segment) in self.0.iter().enumerate() {
            match segment {
                Segment::Index(index) => write!(f, "[{index}]")?,
                Segment::Key(key) => {
                    if depth > 0 {
                        f.write_str(".")?;
                    }
                    if key.contains(['.', '[', ' ']) || key.is_empty() {
                        write!(f, "{key:?}")?;
                    } else {
                        f.write_str(key)?;
                    }
                }
            }
        }
        Ok(())
    }
}

impl Serialize for Path {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Diagnostics as text for snapshots: every part of them, one after the other.
#[cfg(test)]
pub(crate) fn render(diagnostics: &[Diagnostic]) -> String {
    use std::fmt::Write as _;
    let mut out = String::new();
    for d in diagnostics {
        writeln!(out, "{}[{}] {}", d.severity, d.code, d.message).unwrap();
        for label in &d.labels {
            let note = if label.note.is_empty() { String::new() } else { format!(": {}", label.note) };
            let at = label.place.as_ref().map_or("?".into(), |p| {
                format!("{}:{}:{}+{}", p.file, p.line, p.column, p.span.end - p.span.start)
            });
            writeln!(out, "  at {at} {}{note}", label.path).unwrap();
        }
        if let Some(help) = &d.help {
            writeln!(out, "  help: {help}").unwrap();
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_reads_as_people_write_it() {
        let path = Path::of(&["nodes", "a"]).key("labels").key("example.com/zone");
        assert_eq!(path.to_string(), r#"nodes.a.labels."example.com/zone""#);
        assert_eq!(Path::of(&["network", "dns"]).index(1).to_string(), "network.dns[1]");
        assert_eq!(Path::root().to_string(), "");
    }

    #[test]
    fn lines_and_columns_count_characters_from_one() {
        let source = Source::new("f", "a: é\nbé: x\n");
        let place = source.place(Span { source: 0, start: 11, end: 12 });
        assert_eq!((place.line, place.column), (2, 5));
    }

    #[test]
    fn the_json_form_is_flat_and_complete() {
        let source = Source::new("c.yaml", "a: 1\n");
        let mut problem = Diagnostic::error(codes::UNKNOWN_KEY, "no").at(Path::of(&["a"]), "here").help("do");
        problem.labels[0].place = Some(source.place(Span { source: 0, start: 3, end: 4 }));
        insta::assert_snapshot!(serde_json::to_string(&problem).unwrap(), @r#"{"code":"TS0101","severity":"error","message":"no","labels":[{"path":"a","place":{"file":"c.yaml","line":1,"column":4,"source":0,"start":3,"end":4},"note":"here"}],"help":"do"}"#);
    }
}
