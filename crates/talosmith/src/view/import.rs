//! What became of another tool's files: what is different, what was assumed, what is wrong with the result, and at the end
//! everything that could not be carried over.

use std::io::{self, Write};
use std::path::Path;

use ::import::{Format, Imported};
use model::diagnostic::{Diagnostic, Source, codes};
use serde::Serialize;

use super::diagnostics;
use super::ink::{Ink, count};

/// Titles, and the codes of what stands below them, in the order of the report.
const PARTS: &[(&str, &str)] = &[
    ("Assumed, because the input does not say it", codes::IMPORT_ASSUMED),
    ("Different now", codes::IMPORT_CHANGED),
    ("Secrets, which the file only refers to", codes::IMPORT_SECRET),
    ("Not evaluated, so missing in the file", codes::IMPORT_EXPRESSION),
    ("Not carried over", codes::IMPORT_LOST),
];

/// For people.
///
/// # Errors
/// When writing fails.
pub fn human(w: &mut dyn Write, ink: Ink, imported: &Imported, written: Option<&Path>) -> io::Result<()> {
    let name = written.map_or_else(|| "the result".to_owned(), |path| path.display().to_string());
    if !imported.checks.is_empty() {
        let source = Source::new(name.clone(), imported.yaml.clone());
        diagnostics::list(w, ink, std::slice::from_ref(&source), &imported.checks)?;
    }
    for (title, code) in PARTS {
        let notes: Vec<&Diagnostic> = imported.notes.iter().filter(|note| note.code == *code).collect();
        if notes.is_empty() {
            continue;
        }
        writeln!(w, "{} [{code}]:", ink.bold(title))?;
        for note in notes {
            let place = note.labels.iter().find_map(|label| label.place.as_ref());
            let place = place.map_or_else(String::new, |p| format!("{}:{}: ", p.file, p.line));
            writeln!(w, "- {}{}", ink.dim(&place), note.message)?;
            if let Some(help) = &note.help {
                writeln!(w, "  {} {help}", ink.bold("hint:"))?;
            }
        }
        writeln!(w)?;
    }
    let (errors, warnings): (Vec<_>, Vec<_>) = imported.checks.iter().partition(|d| d.is_error());
    let lost = imported.notes.iter().filter(|note| note.code == codes::IMPORT_LOST).count();
    let open = imported.notes.iter().filter(|note| note.code == codes::IMPORT_EXPRESSION).count();
    let verdict = match (errors.len(), warnings.len()) {
        (0, 0) => ink.green("no problems"),
        (0, some) => ink.yellow(&count(some, "warning")),
        (some, 0) => ink.red(&count(some, "problem")),
        (some, more) => format!("{} and {}", ink.red(&count(some, "problem")), count(more, "warning")),
    };
    let verb = if written.is_some() { "written to" } else { "printed as" };
    writeln!(
        w,
        "Read as {}, {verb} {name}: {verdict}, {} not evaluated, {} not carried over.",
        imported.format,
        count(open, "expression"),
        count(lost, "key"),
    )
}

/// For programs.
#[must_use]
pub fn json<'a>(imported: &'a Imported, written: Option<&'a Path>) -> impl Serialize + use<'a> {
    #[derive(Serialize)]
    struct Document<'a, N, C> {
        format: Format,
        #[serde(skip_serializing_if = "Option::is_none")]
        file: Option<&'a Path>,
        #[serde(skip_serializing_if = "Option::is_none")]
        yaml: Option<&'a str>,
        notes: N,
        checks: C,
    }
    Document {
        format: imported.format,
        file: written,
        yaml: written.is_none().then_some(imported.yaml.as_str()),
        notes: diagnostics::json(&imported.notes),
        checks: diagnostics::json(&imported.checks),
    }
}
