//! What a window asks of text: lines that end between words, letters that it has, and pages that replace each other.

use std::borrow::Cow;

use super::ink::count;

/// Columns that a text takes on a terminal. Colours have none.
pub(super) fn columns(text: &str) -> usize {
    console::measure_text_width(text)
}

/// Breaks lines that are longer than `limit` columns between words. What goes on below is indented, and the branches of a tree
/// go on beside it.
pub(super) fn wrap(text: &str, limit: usize) -> Cow<'_, str> {
    if text.lines().all(|line| columns(line) <= limit) {
        return Cow::Borrowed(text);
    }
    let mut wrapped = String::with_capacity(text.len() + 64);
    for line in text.split_inclusive('\n') {
        let (line, end) = line.strip_suffix('\n').map_or((line, ""), |line| (line, "\n"));
        let begin = below(line);
        let indent = columns(&begin);
        let mut used = 0;
        for (at, word) in line.split(' ').enumerate() {
            let width = columns(word);
            if at > 0 && width > 0 && used + 1 + width > limit && used > indent {
                wrapped.truncate(wrapped.trim_end_matches(' ').len());
                wrapped.push('\n');
                wrapped.push_str(&begin);
                used = indent;
            } else if at > 0 {
                wrapped.push(' ');
                used += 1;
            }
            wrapped.push_str(word);
            used += width;
        }
        wrapped.push_str(end);
    }
    Cow::Owned(wrapped)
}

/// How a line that goes on below itself starts there.
fn below(line: &str) -> String {
    let tree = line.chars().take_while(|c| " │├└─".contains(*c));
    tree.map(|c| if "│├".contains(c) { '│' } else { ' ' }).chain("  ".chars()).collect()
}

/// A text that stands behind so many columns, broken between words so that it goes on below itself, where there is room for it.
pub(super) fn beside(text: &str, begin: usize, limit: usize) -> String {
    const NARROWEST: usize = 20;
    let room = limit.saturating_sub(begin);
    if room < NARROWEST || columns(text) <= room {
        return text.to_owned();
    }
    let mut lines: Vec<String> = vec![];
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if columns(line) + 1 + columns(word) <= room => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines.join(&format!("\n{:begin$}", ""))
}

/// The same text in letters that every terminal has.
pub(super) fn plain_letters(text: &str) -> Cow<'_, str> {
    if text.is_ascii() {
        return Cow::Borrowed(text);
    }
    let mut plain = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '─' => plain.push('-'),
            '│' | '├' => plain.push('|'),
            '└' => plain.push('`'),
            '✓' => plain.push('+'),
            '✗' => plain.push('x'),
            '·' => plain.push('.'),
            '…' => plain.push_str("..."),
            '→' => plain.push_str("->"),
            other if other.is_ascii() => plain.push(other),
            _ => plain.push('?'),
        }
    }
    Cow::Owned(plain)
}

/// A page that takes the place of the one before it in a window of so many lines. The first starts below what stood there. What
/// is too tall loses lines before its end, where it says what is wrong.
pub(super) fn page(text: &str, height: usize, first: bool) -> String {
    const END: usize = 5;
    let lines: Vec<&str> = text.lines().collect();
    let room = height.saturating_sub(1).max(END + 2);
    let shown = if lines.len() <= room {
        lines.join("\u{1b}[K\n")
    } else {
        let (head, rest) = lines.split_at(room - END - 1);
        let (left_out, end) = rest.split_at(rest.len() - END);
        let more = format!("… and {}: this window is too low for them", count(left_out.len(), "more line"));
        let all: Vec<&str> = head.iter().copied().chain([more.as_str()]).chain(end.iter().copied()).collect();
        all.join("\u{1b}[K\n")
    };
    let space = if first { "\n".repeat(height.saturating_sub(1)) } else { String::new() };
    format!("{space}\u{1b}[H{shown}\u{1b}[K\n\u{1b}[J")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_broken_between_words() {
        let text = "short\n  a line that is too long\n\u{1b}[1mcoloured words\u{1b}[0m stay\n";
        assert_eq!(
            wrap(text, 16),
            "short\n  a line that is\n    too long\n\u{1b}[1mcoloured words\u{1b}[0m\n  stay\n"
        );
        assert_eq!(wrap("one-word-that-cannot-be-broken", 5), "one-word-that-cannot-be-broken");
    }

    #[test]
    fn a_tree_keeps_its_branches() {
        let text = "├─ make a new one\n│      (because it is gone)\n└─ start it at once\n";
        assert_eq!(
            wrap(text, 16),
            "├─ make a new\n│    one\n│      (because\n│        it is\n│        gone)\n└─ start it at\n     once\n"
        );
    }

    #[test]
    fn what_stands_beside_something_goes_on_below_itself() {
        let text = "VM.Allocate VM.Audit VM.Clone VM.Config.CPU";
        assert_eq!(beside(text, 4, 30), "VM.Allocate VM.Audit\n    VM.Clone VM.Config.CPU");
        assert_eq!(beside(text, 20, 30), text, "there is no room");
        assert_eq!(beside(text, 4, usize::MAX), text);
    }

    #[test]
    fn letters_that_a_terminal_lacks_are_replaced() {
        assert_eq!(plain_letters("✓ ├─ · … → é"), "+ |- . ... -> ?");
        assert_eq!(plain_letters("plain"), "plain");
    }

    #[test]
    fn a_low_window_keeps_the_end() {
        let bare = |page: String| {
            ["[K", "[H", "[J"].iter().fold(page, |p, code| p.replace(&format!("\u{1b}{code}"), ""))
        };
        let text = "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n";
        let cut = bare(page(text, 9, false));
        assert_eq!(cut, "1\n2\n… and 3 more lines: this window is too low for them\n6\n7\n8\n9\n10\n");
        assert_eq!(bare(page(text, 11, false)), text);
        assert!(page("1\n", 4, true).starts_with("\n\n\n\u{1b}[H1\u{1b}[K\n"), "what stood there is kept");
    }
}
