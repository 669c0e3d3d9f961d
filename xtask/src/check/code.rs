//! Rust source as far as a check needs it: what is code, what is only for tests, and which names of the crate's root it uses.

/// The source without comments, texts and what is only for tests.
pub fn plain(text: &str) -> String {
    without_tests(&without_texts(text))
}

/// Blanks comments, texts and characters.
fn without_texts(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let at = |i: usize| chars.get(i).copied().unwrap_or('\0');
    let mut out = String::with_capacity(text.len());
    let mut i = 0;
    while i < chars.len() {
        let end = match at(i) {
            '/' if at(i + 1) == '/' => (i..chars.len()).find(|j| at(*j) == '\n').unwrap_or(chars.len()),
            '/' if at(i + 1) == '*' => end_of_comment(&chars, i),
            '"' => end_of_text(&chars, i),
            'r' if !is_word(at(i.wrapping_sub(1))) || at(i.wrapping_sub(1)) == 'b' => end_of_raw(&chars, i),
            // A lifetime has no second quote.
            '\'' if at(i + 1) == '\\' => (i + 3..chars.len()).find(|j| at(*j) == '\'').map_or(i, |j| j + 1),
            '\'' if at(i + 2) == '\'' => i + 3,
            _ => i,
        };
        if end > i {
            out.push(' ');
            i = end;
        } else {
            out.push(at(i));
            i += 1;
        }
    }
    out
}

fn end_of_comment(chars: &[char], start: usize) -> usize {
    let (mut depth, mut i) = (0usize, start);
    while i + 1 < chars.len() {
        match (chars[i], chars[i + 1]) {
            ('/', '*') => (depth, i) = (depth + 1, i + 2),
            ('*', '/') => (depth, i) = (depth - 1, i + 2),
            _ => i += 1,
        }
        if depth == 0 {
            return i;
        }
    }
    chars.len()
}

fn end_of_text(chars: &[char], start: usize) -> usize {
    let mut i = start + 1;
    while i < chars.len() && chars[i] != '"' {
        i += if chars[i] == '\\' { 2 } else { 1 };
    }
    (i + 1).min(chars.len())
}

/// The end of `r"…"` or `r#"…"#`, or `start` where this is none.
fn end_of_raw(chars: &[char], start: usize) -> usize {
    let hashes = chars[start + 1..].iter().take_while(|c| **c == '#').count();
    let open = start + 1 + hashes;
    if chars.get(open) != Some(&'"') {
        return start;
    }
    let ends =
        |i: &usize| chars[*i] == '"' && chars[*i + 1..].iter().take_while(|c| **c == '#').count() >= hashes;
    (open + 1..chars.len()).find(ends).map_or(chars.len(), |i| i + 1 + hashes)
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

const TEST: &str = "#[cfg(test)]";

/// Takes out every item below `#[cfg(test)]`.
fn without_tests(code: &str) -> String {
    let mut out = String::with_capacity(code.len());
    let mut rest = code;
    while let Some((before, after)) = rest.split_once(TEST) {
        out.push_str(before);
        rest = &after[item(after)..];
    }
    out + rest
}

/// How long the item is that code starts with: to its semicolon, or to the end of its block.
fn item(code: &str) -> usize {
    let mut depth = 0usize;
    for (at, c) in code.char_indices() {
        match c {
            '{' | '[' | '(' => depth += 1,
            '}' | ']' | ')' => {
                depth = depth.saturating_sub(1);
                if depth == 0 && c == '}' {
                    return at + 1;
                }
            }
            ';' if depth == 0 => return at + 1,
            _ => {}
        }
    }
    code.len()
}

/// The modules of tests that a file declares, as paths under `src` without their ending.
pub fn test_files(path: &str, text: &str) -> Vec<String> {
    let (folder, name) = path.rsplit_once('/').map_or(("", path), |(folder, name)| (folder, name));
    let own = match name {
        "lib.rs" | "main.rs" | "mod.rs" => folder.to_owned(),
        _ => path.trim_end_matches(".rs").to_owned(),
    };
    let join = |folder: &str, name: &str| match folder {
        "" => name.to_owned(),
        folder => format!("{folder}/{name}"),
    };
    let mut found = vec![];
    for part in text.split(TEST).skip(1) {
        let declared = &part[..item(part)];
        let words: Vec<&str> = declared.split_whitespace().collect();
        if let Some((_, rest)) = declared.split_once("#[path = \"") {
            found.extend(rest.split_once(".rs\"").map(|(file, _)| join(folder, file)));
        } else if let ["mod", name] | ["pub(crate)" | "pub(super)" | "pub", "mod", name] = words[..] {
            found.extend(name.strip_suffix(';').map(|name| join(&own, name)));
        }
    }
    found
}

/// Which names of the crate's root this code uses, by `crate::` or by as many `super::` as its file is deep.
pub fn names_of_root(code: &str, depth: usize) -> Vec<String> {
    let mut found = vec![];
    let mut rest = code;
    let mut before = ' ';
    while !rest.is_empty() {
        let word = &rest[..rest.find(|c| !is_word(c)).unwrap_or(rest.len())];
        if word.is_empty() || is_word(before) {
            before = rest.chars().next().unwrap_or(' ');
            rest = &rest[before.len_utf8()..];
            continue;
        }
        let mut after = &rest[word.len()..];
        let mut root = word == "crate";
        if word == "super" {
            let mut supers = 1;
            while let Some(next) = after.strip_prefix("::super") {
                (after, supers) = (next, supers + 1);
            }
            root = supers >= depth;
        }
        if root && let Some(path) = after.strip_prefix("::") {
            found.extend(tree(path).0.into_iter().map(|(first, _)| first));
        }
        before = 'x';
        rest = after;
    }
    found
}

/// What a root imports or re-exports: each name, and the module that it comes from.
pub fn imports(code: &str) -> Vec<(String, String)> {
    let uses = code.match_indices("use ").filter(|(at, _)| !code[..*at].ends_with(is_word));
    let paths = uses.map(|(at, found)| {
        code[at + found.len()..].trim_start_matches("crate::").trim_start_matches("self::")
    });
    paths.flat_map(|path| tree(path).0).map(|(first, last)| (last, first)).collect()
}

/// The first and the last name of each path in a tree such as `a::{b, c::{self, D as E}}`, and what stands behind it.
fn tree(code: &str) -> (Vec<(String, String)>, &str) {
    let code = code.trim_start();
    if let Some(mut rest) = code.strip_prefix('{') {
        let mut all = vec![];
        loop {
            let (some, after) = tree(rest);
            all.extend(some);
            match after.trim_start().strip_prefix(',') {
                Some(next) if !next.trim_start().starts_with('}') => rest = next,
                other => {
                    let after = other.unwrap_or(after.trim_start()).trim_start();
                    return (all, after.strip_prefix('}').unwrap_or(after));
                }
            }
        }
    }
    let end = code.find(|c| !is_word(c)).unwrap_or(code.len());
    let (name, after) = code.split_at(end);
    if name.is_empty() {
        return (vec![], after);
    }
    if let Some(below) = after.strip_prefix("::") {
        let (below, after) = tree(below);
        // A path that ends in something else, such as `*` or `<T>`, is at least its first name.
        let named = below.into_iter().map(|(first, last)| {
            let last = if first == "self" && last == "self" { name.to_owned() } else { last };
            (name.to_owned(), last)
        });
        let named: Vec<_> = named.collect();
        return (if named.is_empty() { vec![(name.to_owned(), name.to_owned())] } else { named }, after);
    }
    if let Some(alias) = after.trim_start().strip_prefix("as ") {
        let end = alias.find(|c| !is_word(c)).unwrap_or(alias.len());
        return (vec![(name.to_owned(), alias[..end].to_owned())], &alias[end..]);
    }
    (vec![(name.to_owned(), name.to_owned())], after)
}
