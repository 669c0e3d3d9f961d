//! The shape of source files: each starts with `//!`, which says what it is for, and none has more than a thousand lines.
//!
//! Files in a folder called `gen` are made by a generator, which knows neither rule: they are left out altogether, of the
//! median too.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

/// More lines than this are more than one thing.
const MOST_LINES: usize = 1_000;

/// One file, as far as the rules care.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// Its path from the top of the repository.
    pub path: String,
    /// What is in it.
    pub text: String,
    /// Number of lines.
    lines: usize,
    /// Whether it starts by saying what it is for.
    introduced: bool,
}

/// Every file under `crates/*/src`, `crates/*/tests` and `xtask/src`, by path.
pub fn read(repository: &Path) -> Result<Vec<Source>> {
    let mut folders = vec![repository.join("xtask/src")];
    let crates = repository.join("crates");
    for entry in fs::read_dir(&crates).with_context(|| format!("list {}", crates.display()))? {
        let folder = entry?.path();
        folders.extend([folder.join("src"), folder.join("tests")]);
    }
    let mut files = vec![];
    for folder in folders.iter().filter(|folder| folder.is_dir()) {
        walk(repository, folder, &mut files)?;
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

fn walk(repository: &Path, folder: &Path, files: &mut Vec<Source>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("list {}", folder.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            if path.file_name().is_none_or(|name| name != "gen") {
                walk(repository, &path, files)?;
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
            let name = path.strip_prefix(repository).unwrap_or(&path).display().to_string();
            files.push(source(name, &text));
        }
    }
    Ok(())
}

pub fn source(path: String, text: &str) -> Source {
    let introduced = text
        .strip_prefix("//!")
        .is_some_and(|rest| rest.lines().next().is_some_and(|l| !l.trim().is_empty()));
    Source { path, text: text.to_owned(), lines: text.lines().count(), introduced }
}

/// Every file that breaks a rule.
pub fn problems(files: &[Source]) -> Vec<String> {
    let mut problems = vec![];
    for Source { path, lines, introduced, .. } in files {
        if *lines > MOST_LINES {
            problems
                .push(format!("{path} has {lines} lines; {MOST_LINES} are allowed: make two modules of it, or put it into a folder `gen` if it is generated"));
        }
        if !introduced {
            problems.push(format!("{path} does not begin with `//!` and what it is for"));
        }
    }
    problems
}

/// The number of lines that half of the files do not exceed.
pub fn median(files: &[Source]) -> usize {
    let mut lines: Vec<usize> = files.iter().map(|file| file.lines).collect();
    lines.sort_unstable();
    lines.get(lines.len().saturating_sub(1) / 2).copied().unwrap_or(0)
}

/// The number of lines of the longest file.
pub fn longest(files: &[Source]) -> usize {
    files.iter().map(|file| file.lines).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_files_and_files_without_a_purpose_are_problems() {
        let long = format!("//! Long.\n{}", "\n".repeat(1_000));
        let files = [
            source("good.rs".into(), "//! Good.\nfn a() {}\n"),
            source("long.rs".into(), &long),
            source("mute.rs".into(), "fn a() {}\n"),
            source("empty.rs".into(), "//!\n//! Says nothing on its first line.\n"),
        ];
        assert_eq!(
            problems(&files),
            [
                "long.rs has 1001 lines; 1000 are allowed: make two modules of it, or put it into a folder `gen` if it is generated",
                "mute.rs does not begin with `//!` and what it is for",
                "empty.rs does not begin with `//!` and what it is for",
            ]
        );
        assert_eq!((median(&files), longest(&files)), (2, 1_001));
    }

    #[test]
    fn generated_files_are_left_out() {
        let files = read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("..")).unwrap();
        assert!(files.iter().any(|file| file.path.ends_with("check/sources.rs")));
        assert!(!files.iter().any(|file| file.path.contains("/gen/")));
    }
}
