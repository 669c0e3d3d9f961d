//! Writing YAML text.
//!
//! The writer gives the look that `talosctl` gives: four spaces, lists below their key, PEM as a literal block. A text is
//! written plain only where no reader, old or new, could take it for something else; otherwise it is quoted.

use super::{Map, Value};

impl Map {
    /// The mapping as one YAML document.
    #[must_use]
    pub fn to_yaml(&self) -> String {
        let mut out = String::new();
        if self.is_empty() {
            out.push_str("{}\n");
        } else {
            write_map(&mut out, self, 0);
        }
        out
    }
}

/// Each pair on its own line; the caller has written what stands before the first key.
fn write_map(out: &mut String, map: &Map, indent: usize) {
    for (index, (key, value)) in map.iter().enumerate() {
        if index > 0 {
            spaces(out, indent);
        }
        write_text(out, key, indent, false);
        out.push(':');
        write_after_key(out, value, indent);
    }
}

fn write_after_key(out: &mut String, value: &Value, indent: usize) {
    match value {
        Value::Map(map) if !map.is_empty() => {
            out.push('\n');
            spaces(out, indent + 4);
            write_map(out, map, indent + 4);
        }
        Value::List(list) if !list.is_empty() => {
            out.push('\n');
            spaces(out, indent + 4);
            write_list(out, list, indent + 4);
        }
        scalar => {
            out.push(' ');
            write_scalar(out, scalar, indent + 4);
            out.push('\n');
        }
    }
}

fn write_list(out: &mut String, list: &[Value], indent: usize) {
    for (index, value) in list.iter().enumerate() {
        if index > 0 {
            spaces(out, indent);
        }
        out.push_str("- ");
        match value {
            Value::Map(map) if !map.is_empty() => write_map(out, map, indent + 2),
            Value::List(list) if !list.is_empty() => write_list(out, list, indent + 2),
            scalar => {
                write_scalar(out, scalar, indent + 2);
                out.push('\n');
            }
        }
    }
}

fn write_scalar(out: &mut String, value: &Value, indent: usize) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(flag) => out.push_str(&flag.to_string()),
        Value::Int(number) => out.push_str(&number.to_string()),
        Value::Float(number) => out.push_str(&format!("{number:?}")),
        Value::Number(text) => out.push_str(text),
        Value::Text(text) => write_text(out, text, indent, true),
        Value::List(_) => out.push_str("[]"),
        Value::Map(_) => out.push_str("{}"),
    }
}

fn write_text(out: &mut String, text: &str, indent: usize, block: bool) {
    if is_plain(text) {
        out.push_str(text);
    } else if block && is_block(text) {
        out.push('|');
        for line in text.lines() {
            out.push('\n');
            if !line.is_empty() {
                spaces(out, indent);
                out.push_str(line);
            }
        }
    } else {
        out.push_str(&quoted(text));
    }
}

/// A text in double quotes, with everything escaped that YAML does not allow to stand bare. The result is JSON too.
pub(crate) fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            // Line separators and the byte order mark are allowed in JSON but not here.
            c if c.is_control() || ['\u{2028}', '\u{2029}', '\u{feff}'].contains(&c) => {
                out.push_str(&format!("\\u{:04x}", u32::from(c)));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Whether every reader takes the bare text for this text. Colons stand in image names and are safe without a space.
fn is_plain(text: &str) -> bool {
    let safe = |c: char| c.is_ascii_alphanumeric() || "/_.:@+=,-".contains(c);
    let begins = |c: char| c.is_ascii_alphabetic() || c == '/' || c == '_';
    let lower = text.to_ascii_lowercase();
    text.starts_with(begins)
        && text.chars().all(safe)
        && !text.ends_with(':')
        && !["true", "false", "yes", "no", "on", "off", "y", "n", "null"].contains(&lower.as_str())
}

/// Whether the text is whole lines that need no escape and do not start with a space, which a literal block would misread.
fn is_block(text: &str) -> bool {
    text.ends_with('\n')
        && !text.ends_with("\n\n")
        && !text.starts_with([' ', '\n'])
        && text.chars().all(|c| c == '\n' || c == '\t' || (!c.is_control() && c.is_ascii()))
}

fn spaces(out: &mut String, count: usize) {
    out.extend(std::iter::repeat_n(' ', count));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::yaml::{map, read};

    #[test]
    fn texts_that_look_like_something_else_are_quoted_and_come_back() {
        let odd = [
            "",
            "off",
            "Yes",
            "null",
            "~",
            "0x10",
            "1e3",
            "012345.0123456789012345",
            "a: b",
            "a:",
            "- a",
            "#a",
            " a",
            "a ",
            "ä",
            "a\nb",
            "a\n",
            "a\n\nb\n",
            "\n",
            " a\n",
            "a\tb\n",
            "a\r\n",
            "!x",
            "*x",
            "{}",
            "disk.x == \"y\"",
            "\u{7f}",
            "\u{85}\u{2028}\u{feff}",
        ];
        for text in odd {
            let value = map([("key", text.into()), (text, Value::List(vec![text.into()]))]);
            let written = value.to_yaml();
            assert_eq!(read(&written).unwrap(), [Value::Map(value)], "{written}");
        }
        let image = "ghcr.io/a/b:v1.2.3";
        assert_eq!(
            map([("a", "off".into()), ("b", image.into())]).to_yaml(),
            format!("a: \"off\"\nb: {image}\n")
        );
    }

    #[test]
    fn the_look_is_the_one_that_people_know() {
        let value = map([
            (
                "a",
                map([("b", Value::List(vec![map([("c", 1u16.into()), ("d", "x\ny\n".into())]).into()]))])
                    .into(),
            ),
            ("e", Map::new().into()),
            ("f", Value::List(Vec::new())),
        ]);
        let text =
            "a:\n    b:\n        - c: 1\n          d: |\n              x\n              y\ne: {}\nf: []\n";
        assert_eq!(value.to_yaml(), text);
        assert_eq!(read(text).unwrap(), [Value::Map(value)]);
    }

    #[test]
    fn a_syntax_error_names_the_line_and_shows_no_source() {
        let error = read("a: b\nsecret: [hunter2\nx").unwrap_err();
        assert!(error.line.is_some());
        assert!(!error.to_string().contains("hunter2"), "{error}");
    }
}
