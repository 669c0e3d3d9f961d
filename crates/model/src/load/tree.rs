//! YAML as a tree in which every node and every key knows its place.
//!
//! A scalar keeps the text as it was written beside what YAML takes it for, so that `1.10` can still become the text
//! "1.10" where a text is wanted. Where a value stands behind an alias, its place is that of the original.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_saphyr::options::DuplicateKeyPolicy;
use serde_saphyr::{Location, Spanned};

use crate::diagnostic::{Anchor, Diagnostic, Path, Segment, Span, codes};

/// A node of a YAML document.
#[derive(Debug, Clone, PartialEq)]
pub enum Tree {
    /// Keys and values, in file order.
    Map {
        /// Where it starts.
        span: Span,
        /// Key, where the key stands, value.
        entries: Vec<(String, Span, Tree)>,
    },
    List {
        /// Where it starts.
        span: Span,
        items: Vec<Tree>,
    },
    /// Anything else.
    Scalar {
        /// Where it stands.
        span: Span,
        /// The text, as written and without quotes.
        raw: String,
        /// What YAML takes it for.
        value: Scalar,
    },
}

/// What YAML takes a scalar for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Scalar {
    /// Nothing.
    Null,
    /// `true` or `false`; `yes` and `no` are texts.
    Bool(bool),
    /// A whole number.
    Integer(i128),
    /// A number with a fraction.
    Number(f64),
    Text,
}

impl Tree {
    /// Where it stands; for a map or list, where it starts.
    #[must_use]
    pub fn span(&self) -> Span {
        match self {
            Self::Map { span, .. } | Self::List { span, .. } | Self::Scalar { span, .. } => *span,
        }
    }

    /// Where the value at `path` stands, or its nearest ancestor that does stand somewhere. For a map or a list, and
    /// when the key is asked for, that is the key.
    #[must_use]
    pub fn span_of(&self, path: &Path, at_key: bool) -> Span {
        let mut node = self;
        let mut key_span = None;
        for segment in path.segments() {
            let next = match (node, segment) {
                (Self::Map { entries, .. }, Segment::Key(key)) => entries
                    .iter()
                    .find(|(name, _, _)| name == key)
                    .map(|(_, span, value)| (Some(*span), value)),
                (Self::List { items, .. }, Segment::Index(index)) => {
                    items.get(*index).map(|value| (None, value))
                }
                _ => None,
            };
            let Some((span, value)) = next else { return key_span.unwrap_or(node.span()) };
            (key_span, node) = (span, value);
        }
        match (node, key_span) {
            (Self::Scalar { span, .. }, _) if !at_key => *span,
            (_, Some(span)) => span,
            (_, None) => node.span(),
        }
    }

    pub(super) fn get_mut(&mut self, keys: &[&str]) -> Option<&mut Self> {
        keys.iter().try_fold(self, |node, key| match node {
            Self::Map { entries, .. } => {
                entries.iter_mut().find(|(name, _, _)| name == key).map(|(_, _, value)| value)
            }
            _ => None,
        })
    }
}

/// Reads one source. Problems are added to `problems`; `None` when there is no tree at all.
pub(super) fn read(source: usize, text: &str, problems: &mut Vec<Diagnostic>) -> Option<Tree> {
    let before = problems.len();
    let parsed = match parse(text, DuplicateKeyPolicy::LastWins) {
        // Keys that look like numbers are compared by value inside the parser, which then keeps the last one only.
        // Where there are such keys, a second and stricter reading makes sure that none was lost.
        Ok(raw) if raw.value.has_numeric_key() => parse(text, DuplicateKeyPolicy::Error).map(|_| raw),
        other => other,
    };
    let raw = match parsed {
        Ok(raw) => raw,
        Err(error) => {
            problems.push(syntax_error(source, text, &error));
            return None;
        }
    };
    let tree = Builder { source, text }.build(raw, &Path::root(), problems);
    match tree {
        Tree::Map { .. } => Some(tree),
        other => {
            let problem = match other {
                Tree::Scalar { value: Scalar::Null, .. } => {
                    Diagnostic::error(codes::EMPTY, "the file is empty")
                }
                _ => Diagnostic::error(codes::EMPTY, "the file is not a mapping of keys to values"),
            };
            problems.truncate(before);
            let problem = problem.anchored(Path::root(), Anchor::Exactly(other.span()), "");
            problems.push(problem.help("start with `cluster: NAME`"));
            None
        }
    }
}

/// Adds `other` to `tree`, key by key. A key that both set is a problem, unless both hold mappings there.
pub(super) fn merge(tree: &mut Tree, other: Tree, path: &Path, problems: &mut Vec<Diagnostic>) {
    let (Tree::Map { entries, .. }, Tree::Map { entries: more, .. }) = (tree, other) else { return };
    let mut known: BTreeMap<String, usize> = BTreeMap::new();
    for (index, (key, _, _)) in entries.iter().enumerate() {
        known.insert(key.clone(), index);
    }
    for (key, key_span, value) in more {
        let Some((_, first_span, existing)) = known.get(&key).and_then(|index| entries.get_mut(*index))
        else {
            entries.push((key, key_span, value));
            continue;
        };
        let path = path.key(&key);
        if matches!((&existing, &value), (Tree::Map { .. }, Tree::Map { .. })) {
            merge(existing, value, &path, problems);
        } else {
            problems.push(twice(&path, *first_span, key_span));
        }
    }
}

fn twice(path: &Path, first: Span, second: Span) -> Diagnostic {
    Diagnostic::error(codes::KEY_TWICE, format!("`{path}` is set twice"))
        .anchored(path.clone(), Anchor::Exactly(second), "set again here")
        .anchored(path.clone(), Anchor::Exactly(first), "first set here")
        .help("keep one of the two")
}

fn parse(text: &str, duplicate_keys: DuplicateKeyPolicy) -> Result<Spanned<Raw>, serde_saphyr::Error> {
    // What aliases may add grows with the text, so that no small file can become a large one.
    let by_aliases = 10_000 + 4 * text.len();
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            // Deeper than any cluster file or chart value is, and shallow enough for the stack of a test's thread.
            max_depth: 40,
            max_events: 8_000_000,
            max_nodes: 4_000_000,
            max_recorded_anchor_events: by_aliases,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: by_aliases,
        },
        duplicate_keys: duplicate_keys,
        strict_booleans: true,
        with_snippet: false,
    };
    serde_saphyr::from_str_with_options(text, options)
}

fn syntax_error(source: usize, text: &str, error: &serde_saphyr::Error) -> Diagnostic {
    let at = error.location().map_or((text.len(), text.len()), |location| {
        bytes(location).unwrap_or_else(|| {
            let start =
                text.char_indices().nth(usize::try_from(location.span().offset()).unwrap_or(usize::MAX));
            let start = start.map_or(text.len(), |(index, _)| index);
            (start, start)
        })
    });
    let end = at.1.min(text.len());
    let span = Span { source, start: at.0.min(end), end };
    if let serde_saphyr::Error::DuplicateMappingKey { key, .. } = error {
        let key = key.as_deref().unwrap_or("a key");
        return Diagnostic::error(codes::KEY_TWICE, format!("`{key}` is set twice"))
            .anchored(Path::root(), Anchor::Exactly(span), "set again here")
            .help("keep one of the two");
    }
    if let serde_saphyr::Error::MultipleDocuments { .. } = error {
        return Diagnostic::error(codes::NOT_YAML, "the file holds more than one YAML document")
            .anchored(Path::root(), Anchor::Exactly(span), "the second starts here")
            .help("remove the line `---`, or make the parts files of their own");
    }
    let said = error.render_with_formatter(&Plain);
    if ["limits breached", "recursion limit"].iter().any(|limit| said.contains(limit)) {
        return Diagnostic::error(
            codes::TOO_LARGE,
            "the file is nested too deeply, or its aliases make too much of it",
        )
        .anchored(Path::root(), Anchor::Exactly(span), "reading stopped here")
        .help("no cluster file needs this; write values out where aliases stand for other aliases");
    }
    Diagnostic::error(codes::NOT_YAML, format!("this is not valid YAML: {said}"))
        .anchored(Path::root(), Anchor::Exactly(span), "")
        .help("check the indentation, and quote texts that hold `: `, ` #`, or start with one of @ ` * & ! % { [")
}

/// The parser's own words without the position, which is given beside them.
struct Plain;

impl serde_saphyr::MessageFormatter for Plain {
    fn localizer(&self) -> &dyn serde_saphyr::Localizer {
        &NoPosition
    }

    fn format_message<'a>(&self, error: &'a serde_saphyr::Error) -> std::borrow::Cow<'a, str> {
        serde_saphyr::UserMessageFormatter.format_message(error)
    }
}

struct NoPosition;

impl serde_saphyr::Localizer for NoPosition {
    fn attach_location<'a>(&self, base: std::borrow::Cow<'a, str>, _: Location) -> std::borrow::Cow<'a, str> {
        base
    }
}

fn bytes(location: Location) -> Option<(usize, usize)> {
    let span = location.span();
    let start = usize::try_from(span.byte_offset()?).ok()?;
    Some((start, start + usize::try_from(span.byte_len()?).ok()?))
}

/// What the parser hands over, before places are byte ranges of a source.
enum Raw {
    Map(Vec<(Spanned<Key>, Spanned<Raw>)>),
    List(Vec<Spanned<Raw>>),
    Scalar(Scalar, Option<String>),
}

impl Raw {
    fn has_numeric_key(&self) -> bool {
        match self {
            Self::Map(entries) => entries.iter().any(|(key, value)| {
                let first = key.value.0.trim_start_matches(['-', '+']).chars().next();
                first.is_some_and(|c| c.is_ascii_digit()) || value.value.has_numeric_key()
            }),
            Self::List(items) => items.iter().any(|item| item.value.has_numeric_key()),
            Self::Scalar(..) => false,
        }
    }
}

struct Key(String);

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self)
    }
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(RawVisitor)
    }
}

struct RawVisitor;

impl<'de> Visitor<'de> for RawVisitor {
    type Value = Raw;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Raw, E> {
        Ok(Raw::Scalar(Scalar::Null, None))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Raw, E> {
        Ok(Raw::Scalar(Scalar::Bool(value), None))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Raw, E> {
        Ok(Raw::Scalar(Scalar::Integer(value.into()), None))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Raw, E> {
        Ok(Raw::Scalar(Scalar::Integer(value.into()), None))
    }

    fn visit_i128<E>(self, value: i128) -> Result<Raw, E> {
        Ok(Raw::Scalar(Scalar::Integer(value), None))
    }

    fn visit_u128<E: serde::de::Error>(self, value: u128) -> Result<Raw, E> {
        let value = i128::try_from(value).map_err(|_| E::custom("this number is too large"))?;
        Ok(Raw::Scalar(Scalar::Integer(value), None))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Raw, E> {
        Ok(Raw::Scalar(Scalar::Number(value), None))
    }

    fn visit_str<E>(self, value: &str) -> Result<Raw, E> {
        Ok(Raw::Scalar(Scalar::Text, Some(value.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Raw, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = access.next_element()? {
            items.push(item);
        }
        Ok(Raw::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Raw, A::Error> {
        let mut entries = Vec::new();
        while let Some(key) = access.next_key::<Spanned<Key>>()? {
            let value = access.next_value()?;
            entries.push((key, value));
        }
        if entries.len() > 1_000_000 {
            return Err(A::Error::custom("this mapping has too many keys"));
        }
        Ok(Raw::Map(entries))
    }
}

struct Builder<'t> {
    source: usize,
    text: &'t str,
}

impl Builder<'_> {
    fn build(&self, raw: Spanned<Raw>, path: &Path, problems: &mut Vec<Diagnostic>) -> Tree {
        let span = self.span(raw.defined);
        match raw.value {
            Raw::List(items) => {
                let build = |(index, item)| self.build(item, &path.index(index), problems);
                Tree::List { span, items: items.into_iter().enumerate().map(build).collect() }
            }
            Raw::Scalar(value, text) => {
                let written = || self.text.get(span.start..span.end).unwrap_or_default().trim().to_owned();
                Tree::Scalar { span, raw: text.unwrap_or_else(written), value }
            }
            Raw::Map(raw_entries) => {
                let mut entries: Vec<(String, Span, Tree)> = Vec::with_capacity(raw_entries.len());
                let mut first: BTreeMap<String, Span> = BTreeMap::new();
                for (key, value) in raw_entries {
                    let key_span = self.span(key.defined);
                    let key = key.value.0;
                    let path = path.key(&key);
                    if let Some(first_span) = first.get(&key) {
                        problems.push(twice(&path, *first_span, key_span));
                        continue;
                    }
                    first.insert(key.clone(), key_span);
                    entries.push((key, key_span, self.build(value, &path, problems)));
                }
                Tree::Map { span, entries }
            }
        }
    }

    fn span(&self, location: Location) -> Span {
        let (start, end) = bytes(location).unwrap_or((0, 0));
        let end = end.min(self.text.len());
        Span { source: self.source, start: start.min(end), end }
    }
}
