//! Reading YAML text into values.
//!
//! Talos decides by the field, not by the look of a scalar, whether `1.10` is a number or a text, so a number that would not
//! come back as it was written is kept as written. Aliases and merge keys are resolved, duplicate keys are refused as
//! Talos refuses them, and both depth and size are bounded because patches come from anywhere. Messages never show the
//! source text, which holds keys.

use std::collections::BTreeMap;

use serde_saphyr::granit_parser::{Event, Options, Parser, ScalarStyle, ScanError, Span, StrInput, Tag};

use super::{Map, Value, YamlError};

/// Deeper than any configuration, shallow enough for every stack.
const MAX_DEPTH: usize = 100;

/// More values than any configuration has, so that aliases of aliases end early.
const MAX_VALUES: usize = 500_000;

/// All documents of a text; empty ones are left out.
pub(crate) fn read(text: &str) -> Result<Vec<Value>, YamlError> {
    let mut options = Options::default();
    // Some other crate in the tree may ask the parser for comments; here they are nothing but in the way.
    options.set_emit_comments(false);
    let events = Parser::new_from_str_with_options(text, options);
    let mut reader = Reader { events, anchors: BTreeMap::new(), values: 0, line: 0 };
    let mut documents = Vec::new();
    while let Some((event, span)) = reader.next()? {
        match event {
            Event::StreamEnd => break,
            Event::StreamStart | Event::DocumentEnd => {}
            Event::DocumentStart(..) => {
                let document = reader.child(0)?;
                if document != Value::Null {
                    documents.push(document);
                }
            }
            _ => return Err(problem(&span, "a value stands where a document should start")),
        }
    }
    Ok(documents)
}

struct Reader<'a> {
    events: Parser<'a, StrInput<'a>>,
    anchors: BTreeMap<usize, Value>,
    values: usize,
    line: usize,
}

impl<'a> Reader<'a> {
    fn next(&mut self) -> Result<Option<(Event<'a>, Span)>, YamlError> {
        match self.events.next() {
            None => Ok(None),
            Some(Ok((event, span))) => {
                self.line = span.start.line();
                Ok(Some((event, span)))
            }
            Some(Err(error)) => Err(scan_error(&error)),
        }
    }

    /// The value that the next event starts.
    fn child(&mut self, depth: usize) -> Result<Value, YamlError> {
        match self.next()? {
            Some((event, span)) => self.value(event, &span, depth),
            None => Err(self.here("the text ends too early")),
        }
    }

    fn value(&mut self, event: Event<'a>, span: &Span, depth: usize) -> Result<Value, YamlError> {
        if depth > MAX_DEPTH {
            return Err(problem(span, "values are nested too deeply"));
        }
        self.count(1)?;
        let (value, anchor) = match event {
            Event::Scalar(text, style, anchor, tag) => (scalar(&text, style, tag.as_deref(), span)?, anchor),
            Event::SequenceStart(_, anchor, _) => (self.list(depth)?, anchor),
            Event::MappingStart(_, anchor, _) => (Value::Map(self.map(depth)?), anchor),
            Event::Alias(anchor) => {
                let value = self.anchors.get(&anchor).cloned();
                let value = value.ok_or_else(|| problem(span, "an alias stands inside of what it names"))?;
                self.count(size(&value))?;
                (value, 0)
            }
            _ => return Err(problem(span, "a value is missing")),
        };
        if anchor != 0 {
            self.anchors.insert(anchor, value.clone());
        }
        Ok(value)
    }

    fn list(&mut self, depth: usize) -> Result<Value, YamlError> {
        let mut list = Vec::new();
        loop {
            match self.next()? {
                Some((Event::SequenceEnd, _)) => return Ok(Value::List(list)),
                Some((event, span)) => list.push(self.value(event, &span, depth + 1)?),
                None => return Err(self.here("the text ends too early")),
            }
        }
    }

    fn map(&mut self, depth: usize) -> Result<Map, YamlError> {
        let mut map = Map::new();
        let mut merged = Vec::new();
        loop {
            let (key, span) = match self.next()? {
                Some((Event::MappingEnd, _)) => break,
                Some((Event::Scalar(text, style, ..), span)) => ((text.into_owned(), style), span),
                Some((_, span)) => return Err(problem(&span, "a key is not a text")),
                None => return Err(self.here("the text ends too early")),
            };
            let value = self.child(depth + 1)?;
            match key {
                (key, ScalarStyle::Plain) if key == "<<" => match value {
                    Value::List(list) => merged.extend(list),
                    value => merged.push(value),
                },
                (key, _) if map.get(&key).is_some() => {
                    return Err(problem(&span, &format!("the key {key:?} stands twice in one mapping")));
                }
                (key, _) => map.insert(&key, value),
            }
        }
        for value in merged {
            let Value::Map(more) = value else { return Err(self.here("a merge key names no mapping")) };
            for (key, value) in more.iter().filter(|(key, _)| map.get(key).is_none()).collect::<Vec<_>>() {
                map.insert(key, value.clone());
            }
        }
        Ok(map)
    }

    fn count(&mut self, more: usize) -> Result<(), YamlError> {
        self.values += more;
        if self.values > MAX_VALUES { Err(self.here("there are too many values")) } else { Ok(()) }
    }

    fn here(&self, reason: &str) -> YamlError {
        YamlError { line: u64::try_from(self.line).ok(), reason: reason.to_owned() }
    }
}

fn problem(span: &Span, reason: &str) -> YamlError {
    YamlError { line: u64::try_from(span.start.line()).ok(), reason: reason.to_owned() }
}

fn scan_error(error: &ScanError) -> YamlError {
    YamlError { line: u64::try_from(error.marker().line()).ok(), reason: error.kind().to_string() }
}

fn size(value: &Value) -> usize {
    match value {
        Value::List(list) => 1 + list.iter().map(size).sum::<usize>(),
        Value::Map(map) => 1 + map.iter().map(|(_, value)| size(value)).sum::<usize>(),
        _ => 1,
    }
}

fn scalar(text: &str, style: ScalarStyle, tag: Option<&Tag>, span: &Span) -> Result<Value, YamlError> {
    match tag {
        Some(tag) if tag.is_yaml_core_schema() && tag.suffix() == "str" => Ok(text.into()),
        Some(tag) if tag.is_yaml_core_schema() => Ok(plain(text)),
        Some(_) => Err(problem(span, "a tag is not one that machine configuration can have")),
        None if style == ScalarStyle::Plain => Ok(plain(text)),
        None => Ok(text.into()),
    }
}

/// What a bare scalar is.
fn plain(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Value::Null,
        "true" | "True" | "TRUE" => return Value::Bool(true),
        "false" | "False" | "FALSE" => return Value::Bool(false),
        _ => {}
    }
    if let Ok(number) = text.parse::<i64>()
        && number.to_string() == text
    {
        return Value::Int(number);
    }
    if !is_number(text) {
        return text.into();
    }
    match text.parse::<f64>() {
        Ok(number) if format!("{number:?}") == text => Value::Float(number),
        _ => Value::Number(text.to_owned()),
    }
}

/// Whether a reader takes the bare text for a number, in decimal or another base, with an exponent, or none at all.
fn is_number(text: &str) -> bool {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    if matches!(unsigned.to_ascii_lowercase().as_str(), ".inf" | ".nan") {
        return true;
    }
    let digits = |text: &str, radix: u32| {
        text.starts_with(|c: char| c.is_digit(radix)) && text.chars().all(|c| c == '_' || c.is_digit(radix))
    };
    for (prefix, radix) in [("0x", 16), ("0o", 8), ("0b", 2)] {
        if let Some(rest) = unsigned.strip_prefix(prefix) {
            return digits(rest, radix);
        }
    }
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent.strip_prefix(['-', '+']).unwrap_or(exponent))),
        None => (unsigned, None),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all_digits = |text: &str| text.chars().all(|c| c == '_' || c.is_ascii_digit());
    let some = whole.starts_with(|c: char| c.is_ascii_digit())
        || (whole.is_empty() && fraction.starts_with(|c: char| c.is_ascii_digit()));
    some && all_digits(whole) && all_digits(fraction) && exponent.is_none_or(|digits_| digits(digits_, 10))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> Value {
        read(text).unwrap().pop().unwrap()
    }

    #[test]
    fn numbers_stay_as_they_were_written() {
        for text in ["1.10", "0644", "0o644", "0x1F", "1e3", "1_000", "+5", ".5", ".inf", "1.0e+3", "00"] {
            assert_eq!(one(text), Value::Number(text.to_owned()), "{text}");
        }
        assert_eq!(one("7445"), Value::Int(7445));
        assert_eq!(one("-1"), Value::Int(-1));
        assert_eq!(one("1.5"), Value::Float(1.5));
        for text in ["1.2.3", "10.0.0.0/8", "1e", "0xg", "e5", ".", "+", "1a", "yes", "2020-01-01"] {
            assert_eq!(one(text), text.into(), "{text}");
        }
        assert_eq!(one("'1'"), "1".into());
        assert_eq!(one("!!str 1"), "1".into());
    }

    #[test]
    fn aliases_and_merge_keys_are_resolved() {
        let value = one("a: &a {x: 1, y: 2}\nb: {<<: *a, y: 3}\nc: *a\n");
        assert_eq!(value, one("a: {x: 1, y: 2}\nb: {y: 3, x: 1}\nc: {x: 1, y: 2}\n"));
    }

    #[test]
    fn what_is_unsound_is_refused_with_its_line() {
        for (text, line) in [("a: 1\nb: 2\na: 3\n", 3), ("? [a]\n: b\n", 1), ("a: !x b\n", 1), ("a: *b\n", 1)]
        {
            assert_eq!(read(text).unwrap_err().line, Some(line), "{text}");
        }
        let deep = format!("{}{}", "[".repeat(300), "]".repeat(300));
        assert!(read(&deep).is_err());
        let mut bomb = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n".to_owned();
        for level in 1..9 {
            let inner = vec![format!("*a{}", level - 1); 10].join(",");
            bomb += &format!("a{level}: &a{level} [{inner}]\n");
        }
        assert!(read(&bomb).unwrap_err().reason.contains("too many"));
    }

    #[test]
    fn documents_are_separated_and_empty_ones_left_out() {
        assert_eq!(read("---\na: 1\n---\n---\n# nothing\n---\nb: 2\n...\n").unwrap().len(), 2);
        assert_eq!(read("").unwrap().len(), 0);
    }
}
