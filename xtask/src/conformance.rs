//! Conformance: what Talos' own library says, beside what we say.

mod oracle;
mod schema;

use anyhow::bail;

/// Runs the checks for the two newest releases, or with `--all` for every one; `--schema` writes the table of known keys.
pub fn run(words: &[String]) -> anyhow::Result<()> {
    if !oracle::has_go() {
        bail!("skipped: there is no Go toolchain, so Talos' own library cannot be asked");
    }
    match words.first().map(String::as_str) {
        Some("--schema") => schema::run(false),
        _ => schema::run(true),
    }
}
