//! The look of text: colours where they are wanted, widths, durations, and words that came from outside made harmless.

use std::borrow::Cow;

use super::harmless::acts;

/// How text looks.
#[derive(Debug, Clone, Copy)]
pub struct Ink {
    /// Whether to colour.
    pub colour: bool,
    /// Columns that text aims for.
    pub width: usize,
    /// Columns that there are. Only a window has an end.
    pub limit: usize,
    /// Whether the terminal has no letters but those of ASCII.
    pub ascii: bool,
}

impl Ink {
    /// No colours, 100 columns.
    #[cfg(test)]
    pub const PLAIN: Self = Self { colour: false, width: 100, limit: usize::MAX, ascii: false };

    /// Bold, for titles.
    pub fn bold(self, text: &str) -> String {
        self.paint("1", text)
    }

    /// What matters less.
    pub fn dim(self, text: &str) -> String {
        self.paint("2", text)
    }

    /// Failures and removals.
    pub fn red(self, text: &str) -> String {
        self.paint("1;31", text)
    }

    /// Success and additions.
    pub fn green(self, text: &str) -> String {
        self.paint("32", text)
    }

    /// What needs attention.
    pub fn yellow(self, text: &str) -> String {
        self.paint("33", text)
    }

    fn paint(self, code: &str, text: &str) -> String {
        if self.colour && !text.is_empty() {
            format!("\u{1b}[{code}m{text}\u{1b}[0m")
        } else {
            text.to_owned()
        }
    }
}

/// Text from outside on one line, without characters that a terminal would obey.
pub(super) fn clean(text: &str) -> Cow<'_, str> {
    let text = text.trim();
    if !text.chars().any(acts) {
        return Cow::Borrowed(text);
    }
    let mut line = String::with_capacity(text.len());
    for word in text.split(|c: char| c.is_control() && c != '\u{1b}').filter(|word| !word.trim().is_empty()) {
        if !line.is_empty() {
            line.push(' ');
        }
        line.extend(word.trim().chars().map(|c| if acts(c) { '?' } else { c }));
    }
    Cow::Owned(line)
}

/// A duration for people.
pub(super) fn duration(millis: u64) -> String {
    let seconds = millis / 1000;
    match seconds {
        0..10 => format!("{}.{} s", seconds, millis % 1000 / 100),
        10..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {:02} s", seconds / 60, seconds % 60),
        _ => format!("{} h {:02} min", seconds / 3600, seconds % 3600 / 60),
    }
}

/// An estimate for people, without seconds.
pub(super) fn about(seconds: u32) -> String {
    match seconds {
        0..60 => format!("about {} s", seconds.max(1)),
        _ => format!("about {} min", (seconds + 30) / 60),
    }
}

/// `1 VM`, `2 VMs`.
pub(super) fn count(number: usize, one: &str) -> String {
    if number == 1 { format!("1 {one}") } else { format!("{number} {one}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_from_outside_cannot_move_the_cursor() {
        assert_eq!(clean(" a\n  b\r\n\tc "), "a b c");
        assert_eq!(clean("a\u{1b}[2Jb"), "a?[2Jb");
        assert_eq!(clean("storage 'é' does not exist"), "storage 'é' does not exist");
    }

    #[test]
    fn durations_are_as_exact_as_people_want_them() {
        let all = [0, 999, 9_990, 10_000, 59_999, 60_000, 151_000, 3_600_000, 3_725_000].map(duration);
        assert_eq!(
            all,
            [
                "0.0 s",
                "0.9 s",
                "9.9 s",
                "10 s",
                "59 s",
                "1 min 00 s",
                "2 min 31 s",
                "1 h 00 min",
                "1 h 02 min"
            ]
        );
        assert_eq!(
            [0, 59, 60, 89, 90].map(about),
            ["about 1 s", "about 59 s", "about 1 min", "about 1 min", "about 2 min"]
        );
    }

    #[test]
    fn colour_is_only_used_when_wanted() {
        assert_eq!(Ink::PLAIN.red("x"), "x");
        assert_eq!(Ink { colour: true, ..Ink::PLAIN }.red("x"), "\u{1b}[1;31mx\u{1b}[0m");
    }
}
