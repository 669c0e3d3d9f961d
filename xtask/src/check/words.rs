//! The words that people read: string literals of the program and its libraries, help texts, and the documents. CONTRIBUTING.md has the
//! list of words to use instead.
//!
//! The lab is left out: its texts are those of the systems that it simulates.

use std::path::Path;

use anyhow::{Context, Result};

/// What is not written, and what is written instead.
const DISCOURAGED: [(&str, &str); 48] = [
    ("nobody", "name the actor"),
    ("somebody", "name the actor"),
    ("whoever", "name the actor"),
    ("anew", "again"),
    ("shall", "must, will or should"),
    ("begin", "start"),
    ("begins", "starts"),
    ("begun", "started; etcd is bootstrapped"),
    ("began", "started"),
    ("put right", "correct, reconcile or update in place"),
    ("puts right", "corrects"),
    ("made whole", "repaired"),
    ("mind this", "note or warning"),
    ("farewell", "end"),
    ("in vain", "without success"),
    ("twin", "lab copy of the file"),
    ("stranger", "foreign machine or unknown machine"),
    ("is told", "reports"),
    ("are told", "reports"),
    ("told, and", "reported"),
    ("is waited for", "Talosmith waits for"),
    ("are waited for", "Talosmith waits for"),
    ("patience", "timeout"),
    ("disturb", "disrupt; inject a fault"),
    ("disturbs", "disruption"),
    ("disturbed", "disrupted"),
    ("mend", "fix; clear the faults"),
    ("mends", "fixes"),
    ("mended", "fixed"),
    ("taken away", "deleted"),
    ("takes away", "deletes"),
    ("take away", "delete"),
    ("given back", "released"),
    ("gives back", "releases"),
    ("handed through", "passed through"),
    ("network card", "network device or interface"),
    ("graphics card", "GPU"),
    ("the world", "the observed state; the lab state"),
    ("unseen", "not observed"),
    ("unfound", "not found"),
    ("gently", "gracefully"),
    ("looks around", "observes"),
    ("nothing notices", "no disruption"),
    ("made anew", "recreated"),
    ("those who vote", "voting members"),
    ("id of a guest", "VM ID"),
    ("control planes", "control plane nodes"),
    ("remedy", "hint"),
];

/// A place where a discouraged word may stand: it quotes the list itself, or another program.
const ALLOWED: [(&str, &str); 1] = [("CONTRIBUTING.md", "")];

/// One text that people read, with the line that it starts on.
struct Text {
    line: usize,
    text: String,
}

/// Everything discouraged that people would read.
pub fn problems(repository: &Path) -> Result<Vec<String>> {
    let mut found = vec![];
    for name in ["model", "pve", "talos", "talos-client", "engine", "talosmith"] {
        for path in files(&repository.join("crates").join(name).join("src"), "rs")? {
            let file = path.strip_prefix(repository).unwrap_or(&path).display().to_string();
            let is_test =
                file.ends_with("tests.rs") || file.contains("/tests/") || file.contains("_tests.rs");
            if is_test || file.contains("/gen/") {
                continue;
            }
            let source = std::fs::read_to_string(&path).with_context(|| format!("read {file}"))?;
            let help = file.contains("talosmith/src/args") || file.contains("model/src/spec");
            found.extend(texts(&source, help).iter().flat_map(|text| judge(&file, text)));
        }
    }
    let mut pages = files(&repository.join("docs"), "md")?;
    let names = ["README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md"];
    pages.extend(names.iter().map(|name| repository.join(name)));
    for path in pages {
        let file = path.strip_prefix(repository).unwrap_or(&path).display().to_string();
        let page = std::fs::read_to_string(&path).with_context(|| format!("read {file}"))?;
        for (at, line) in page.lines().enumerate() {
            found.extend(judge(&file, &Text { line: at + 1, text: line.to_owned() }));
        }
    }
    Ok(found)
}

fn judge(file: &str, text: &Text) -> Vec<String> {
    if ALLOWED.iter().any(|(name, part)| file == *name && text.text.contains(part)) {
        return vec![];
    }
    let lower = text.text.to_lowercase();
    let wrong = DISCOURAGED.iter().filter(|(word, _)| contains(&lower, word));
    wrong.map(|(word, instead)| format!("{file}:{}: \"{word}\": write {instead}", text.line)).collect()
}

/// Whether the text has the word as a word of its own.
fn contains(text: &str, word: &str) -> bool {
    let is_part = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == '-');
    text.match_indices(word).any(|(at, _)| {
        !is_part(text[..at].chars().next_back()) && !is_part(text[at + word.len()..].chars().next())
    })
}

/// The string literals of a source file that hold more than one word, up to its tests; with `help`, its doc comments, too.
fn texts(source: &str, help: bool) -> Vec<Text> {
    let source = source.split("\n#[cfg(test)]\n").next().unwrap_or_default();
    let mut found = vec![];
    let (mut rest, mut line) = (source, 1);
    while let Some(c) = rest.chars().next() {
        let length = match c {
            '/' if rest.starts_with("//") => {
                let comment = rest.lines().next().unwrap_or_default();
                if help && comment.starts_with("///") {
                    found.push(Text { line, text: comment.to_owned() });
                }
                comment.len()
            }
            // A character, not a lifetime.
            '\'' if rest.starts_with("'\\") => 2 + rest[2..].find('\'').map_or(0, |end| end + 1),
            '\'' if rest.chars().nth(2) == Some('\'') => rest.chars().take(3).map(char::len_utf8).sum(),
            'r' if rest.starts_with("r#\"") => {
                let end = rest[3..].find("\"#").map_or(rest.len(), |end| end + 5);
                found.push(Text { line, text: rest[..end].to_owned() });
                end
            }
            '"' => {
                let end = end_of_literal(rest);
                found.push(Text { line, text: rest[..end].to_owned() });
                end
            }
            c => c.len_utf8(),
        };
        let (read, after) = rest.split_at(length.max(1).min(rest.len()));
        line += read.matches('\n').count();
        rest = after;
    }
    found.retain(|text| text.text.contains(' '));
    found
}

fn end_of_literal(rest: &str) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            '\\' if !escaped => escaped = true,
            '"' if !escaped => return at + 1,
            _ => escaped = false,
        }
    }
    rest.len()
}

fn files(folder: &Path, extension: &str) -> Result<Vec<std::path::PathBuf>> {
    let mut found = vec![];
    let entries = std::fs::read_dir(folder).with_context(|| format!("list {}", folder.display()))?;
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(files(&path, extension)?);
        } else if path.extension().is_some_and(|is| is == extension) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_found_in_what_people_read_and_nowhere_else() {
        let source = "// nobody reads this\nlet a = \"it is begun \\\" here\";\nlet c = '\"'; let b = \"two\nlines, and shall\";\n\
                      /// anew, in help\n#[cfg(test)]\nmod tests {\n\"nobody at all\"";
        let found = |help| -> Vec<String> {
            texts(source, help).iter().flat_map(|text| judge("x.rs", text)).collect()
        };
        assert_eq!(
            found(false),
            [
                "x.rs:2: \"begun\": write started; etcd is bootstrapped",
                "x.rs:3: \"shall\": write must, will or should"
            ]
        );
        assert_eq!(found(true).len(), 3);
        assert!(
            !contains("beginning", "begin")
                && !contains("unbegun-x", "begun")
                && contains("so, begin.", "begin")
        );
    }
}
