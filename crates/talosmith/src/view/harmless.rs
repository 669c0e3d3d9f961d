//! Text from outside, made harmless. Names of VMs, notes, errors of tasks and words of machines are written by others, and a
//! terminal obeys what stands in them: it moves its cursor, hides text, or shows it in another order.
//!
//! The [`Printer`](super::Printer) sends everything through here, so that no view can forget it:
//!
//! - [`data`] puts every text of a plan, an observation or an event on one line before a view sees it, so that no name can
//!   look like a line of ours;
//! - [`for_people`] lets only our own colors through to a terminal or a file;
//! - [`for_programs`] escapes in JSON what JSON itself allows and a terminal obeys.

use std::borrow::Cow;
use std::fmt::Write as _;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::ink::clean;

/// Whether a character does something else than stand in its place: controls, and what hides or reorders text.
pub(super) fn acts(letter: char) -> bool {
    letter.is_control()
        || matches!(letter,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// A page for people. With `color`, the colors that our views use stay; nothing else that a terminal would obey does.
pub(super) fn for_people(text: &str, color: bool) -> Cow<'_, str> {
    if !text.chars().any(|letter| acts(letter) && letter != '\n') {
        return Cow::Borrowed(text);
    }
    let mut page = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(letter) = rest.chars().next() {
        if let Some(length) = painted(rest).filter(|_| color) {
            page.push_str(&rest[..length]);
            rest = &rest[length..];
            continue;
        }
        page.push(if acts(letter) && !matches!(letter, '\n' | '\t') { '?' } else { letter });
        rest = &rest[letter.len_utf8()..];
    }
    Cow::Owned(page)
}

/// The length of the color that a text starts with. Hidden and black text, and backgrounds, are none of ours.
fn painted(text: &str) -> Option<usize> {
    let inside = text.strip_prefix("\u{1b}[")?;
    let (codes, _) = inside.split_once('m')?;
    let ours = |code: &str| matches!(code.parse(), Ok(0_u8..=2 | 31..=36 | 91..=96));
    codes.split(';').all(ours).then_some("\u{1b}[m".len() + codes.len())
}

/// A document of JSON: the same document, in letters that no terminal obeys.
pub(super) fn for_programs(json: &str) -> Cow<'_, str> {
    if !json.chars().any(acts) {
        return Cow::Borrowed(json);
    }
    let mut escaped = String::with_capacity(json.len());
    for letter in json.chars() {
        if acts(letter) {
            // Outside of texts JSON has no such letters, and writing to a string cannot fail.
            letter.encode_utf16(&mut [0; 2]).iter().for_each(|unit| {
                let _ = write!(escaped, "\\u{unit:04x}");
            });
        } else {
            escaped.push(letter);
        }
    }
    Cow::Owned(escaped)
}

/// The same data with every text in it on one line.
pub(super) fn data<T: Serialize + DeserializeOwned + Clone>(value: &T) -> T {
    let harmless = serde_json::to_value(value).map(on_one_line).and_then(serde_json::from_value);
    // What cannot be written and read again is shown as it is: its letters are still replaced where it is printed.
    harmless.unwrap_or_else(|_| value.clone())
}

fn on_one_line(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(clean(&text).into_owned()),
        Value::Array(all) => all.into_iter().map(on_one_line).collect(),
        Value::Object(all) => {
            let all = all.into_iter().map(|(key, value)| (clean(&key).into_owned(), on_one_line(value)));
            Value::Object(all.collect())
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a14_nothing_but_our_own_colors_reaches_a_terminal() {
        let hostile = "vm\u{1b}[2J\u{1b}[8mhidden\u{9b}1A\u{7}\u{202e}txt.exe\u{2066}\r\u{1b}]0;t\u{7}";
        let shown = for_people(hostile, true);
        assert_eq!(shown, "vm?[2J?[8mhidden?1A??txt.exe???]0;t?");
        let ours = "\u{1b}[1;31mred\u{1b}[0m and\n\u{1b}[1m\u{1b}[94mblue\u{1b}[0m é│";
        assert_eq!(for_people(ours, true), ours);
        assert_eq!(for_people(ours, false), "?[1;31mred?[0m and\n?[1m?[94mblue?[0m é│");
        for hidden in ["\u{1b}[8m", "\u{1b}[30m", "\u{1b}[0;8m", "\u{1b}[41m", "\u{1b}[m", "\u{1b}[1"] {
            assert!(for_people(hidden, true).starts_with('?'), "{hidden:?}");
        }
    }

    #[test]
    fn a14_json_stays_the_same_document_in_harmless_letters() {
        let document = serde_json::json!({ "name": "a\u{9b}2J\u{202e}b\u{7f}\u{e0041}\u{1b}" });
        let text = document.to_string();
        let escaped = for_programs(&text);
        assert!(!escaped.chars().any(acts), "{escaped:?}");
        assert_eq!(serde_json::from_str::<Value>(&escaped).unwrap(), document);
    }

    #[test]
    fn a14_names_cannot_look_like_lines_of_ours() {
        let value = vec!["vm\nhome: nothing to do\u{202e}".to_owned()];
        assert_eq!(data(&value), ["vm home: nothing to do?"]);
    }
}
