//! Checks that the compiler cannot make: the borders between crates and between modules, the shape of source files, and the words that people read.
//!
//! All collect everything that is wrong before they fail, so that one run shows all of it. They also run as a test, on
//! this repository, so the borders hold wherever the tests pass.

mod borders;
mod code;
mod cycles;
mod sources;
mod words;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// Checks the repository and prints what was checked.
pub fn run(words: &[String]) -> Result<()> {
    if !words.is_empty() {
        bail!("usage: cargo run -p xtask -- check");
    }
    print_report(&check(&repository())?);
    Ok(())
}

#[expect(clippy::print_stdout, reason = "a check tells what it looked at")]
fn print_report(report: &str) {
    println!("{report}");
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// What was checked, or everything that is wrong.
fn check(repository: &Path) -> Result<String> {
    let graph = borders::Graph::read(&metadata(repository, &[])?)?;
    let without_lab = borders::Graph::read(&metadata(repository, &["--no-default-features"])?)?;
    let files = sources::read(repository)?;
    let mut problems = borders::problems(&graph);
    problems.extend(borders::lab_in_controller(&without_lab));
    problems.extend(cycles::problems(&files));
    problems.extend(sources::problems(&files));
    problems.extend(words::problems(repository)?);
    if !problems.is_empty() {
        bail!("{} found:\n- {}", count(problems.len(), "problem"), problems.join("\n- "));
    }
    Ok(format!(
        "borders: {} hold\nsources: {}, the median has {} lines, the longest {}",
        count(borders::ROWS.len(), "row"),
        count(files.len(), "file"),
        sources::median(&files),
        sources::longest(&files),
    ))
}

fn metadata(repository: &Path, features: &[&str]) -> Result<String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        // For this machine only: the crates of other platforms would have to be downloaded first.
        .args(["metadata", "--format-version", "1", "--locked", "--filter-platform", "host-tuple"])
        .args(features)
        .current_dir(repository)
        .output()
        .context("run `cargo metadata`")?;
    if !output.status.success() {
        bail!("`cargo metadata` failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    String::from_utf8(output.stdout).context("read the answer of `cargo metadata`")
}

fn count(number: usize, one: &str) -> String {
    if number == 1 { format!("1 {one}") } else { format!("{number} {one}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_repository_keeps_its_rules() {
        check(&repository()).unwrap();
    }
}
