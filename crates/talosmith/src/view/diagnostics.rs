//! Everything that is wrong with a file, with the lines it stands in.
//!
//! The first label of a diagnostic is drawn as its place, the others as context. A diagnostic that stands nowhere shows
//! the paths of its values instead, so nothing is lost when there is no line to draw.

use std::io::{self, Write};
use std::ops::Range;

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};
use model::diagnostic::{Diagnostic, Label, Severity, Source};
use serde::Serialize;

use super::ink::{Ink, count};

/// For people.
///
/// # Errors
/// When writing fails.
pub fn human(w: &mut dyn Write, ink: Ink, sources: &[Source], diagnostics: &[Diagnostic]) -> io::Result<()> {
    list(w, ink, sources, diagnostics)?;
    let names = match sources.len() {
        0..=4 => sources.iter().map(|source| source.name.as_str()).collect::<Vec<_>>().join(", "),
        many => format!("{many} files"),
    };
    let (errors, warnings): (Vec<_>, Vec<_>) = diagnostics.iter().partition(|d| d.is_error());
    match (errors.len(), warnings.len()) {
        (0, 0) => writeln!(w, "{} in {names}.", ink.green("No problems")),
        (0, warnings) => writeln!(w, "{} in {names}.", ink.yellow(&count(warnings, "warning"))),
        (errors, 0) => {
            writeln!(w, "{} in {names}; nothing was changed.", ink.red(&count(errors, "problem")))
        }
        (errors, warnings) => writeln!(
            w,
            "{} and {} in {names}; nothing was changed.",
            ink.red(&count(errors, "problem")),
            ink.yellow(&count(warnings, "warning"))
        ),
    }
}

/// Each with its lines.
pub(super) fn list(
    w: &mut dyn Write,
    ink: Ink,
    sources: &[Source],
    diagnostics: &[Diagnostic],
) -> io::Result<()> {
    let renderer = if ink.colour { Renderer::styled() } else { Renderer::plain() }.term_width(ink.width);
    for diagnostic in diagnostics {
        writeln!(w, "{}\n", renderer.render(&[group(sources, diagnostic)]))?;
    }
    Ok(())
}

fn group<'a>(sources: &'a [Source], diagnostic: &'a Diagnostic) -> Group<'a> {
    let level = match diagnostic.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
    };
    let mut group = Group::with_title(level.primary_title(&diagnostic.message).id(diagnostic.code));
    for (index, source) in sources.iter().enumerate() {
        let mut snippet = Snippet::source(&source.text).path(&source.name);
        let mut drawn = false;
        for (at, label) in diagnostic.labels.iter().enumerate() {
            let Some(span) = drawable(index, source, label) else { continue };
            let kind = if at == 0 { AnnotationKind::Primary } else { AnnotationKind::Context };
            let note = Some(label.note.as_str()).filter(|note| !note.is_empty());
            snippet = snippet.annotation(kind.span(span).label(note));
            drawn = true;
        }
        if drawn {
            group = group.element(snippet);
        }
    }
    for label in diagnostic.labels.iter().filter(|label| label.place.is_none()) {
        let note = if label.note.is_empty() { String::new() } else { format!(": {}", label.note) };
        group = group.element(Level::NOTE.message(format!("at `{}`{note}", label.path)));
    }
    if let Some(help) = &diagnostic.help {
        group = group.element(Level::HELP.with_name("hint").message(help));
    }
    group
}

/// The bytes of a label within this source. Ends of a range that a renderer could trip over are drawn in.
fn drawable(index: usize, source: &Source, label: &Label) -> Option<Range<usize>> {
    let span = label.place.as_ref()?.span;
    if span.source != index {
        return None;
    }
    let inside =
        |at: usize| (0..=at.min(source.text.len())).rev().find(|at| source.text.is_char_boundary(*at));
    let (start, end) = (inside(span.start)?, inside(span.end)?);
    Some(start..end.max(start))
}

/// For programs: the place of the first label beside the message, and all labels as they are.
#[must_use]
pub fn json(diagnostics: &[Diagnostic]) -> impl Serialize + use<'_> {
    #[derive(Serialize)]
    struct Document<'a> {
        code: &'a str,
        severity: Severity,
        message: &'a str,
        file: Option<&'a str>,
        line: Option<usize>,
        column: Option<usize>,
        hint: Option<&'a str>,
        labels: &'a [Label],
    }
    diagnostics
        .iter()
        .map(|d| {
            let place = d.labels.iter().find_map(|label| label.place.as_ref());
            Document {
                code: d.code,
                severity: d.severity,
                message: &d.message,
                file: place.map(|p| p.file.as_str()),
                line: place.map(|p| p.line),
                column: place.map(|p| p.column),
                hint: d.help.as_deref(),
                labels: &d.labels,
            }
        })
        .collect::<Vec<_>>()
}

#[cfg(test)]
mod tests {
    use model::diagnostic::{Path, Place, Span, codes};

    use super::*;

    const TEXT: &str = "cluster: home\nnodes:\n  a: { ip: 10.0.0.1 }\n  é: { ip: 10.0.0.1 }\n";

    fn place(nth: usize, word: &str) -> Place {
        let start = TEXT.match_indices(word).nth(nth).unwrap().0;
        let before = &TEXT[..start];
        Place {
            file: "cluster.yaml".into(),
            line: before.matches('\n').count() + 1,
            column: before.rsplit('\n').next().unwrap().chars().count() + 1,
            span: Span { source: 0, start, end: start + word.len() },
        }
    }

    fn problems() -> (Vec<Source>, Vec<Diagnostic>) {
        let mut twice = Diagnostic::error("TS0402", "the address 10.0.0.1 is given twice")
            .at(Path::of(&["nodes", "é", "ip"]), "second time")
            .at(Path::of(&["nodes", "a", "ip"]), "first time")
            .help("give one of them another address");
        twice.labels[0].place = Some(place(1, "10.0.0.1"));
        twice.labels[1].place = Some(place(0, "10.0.0.1"));
        let missing = Diagnostic::error(codes::MISSING_KEY, "`network` is missing")
            .at(Path::of(&["network"]), "")
            .help("add `network: { cidr: …, gateway: … }`");
        let mut even = Diagnostic::warning("TS0601", "two control plane nodes survive no failure");
        even = even.at(Path::of(&["cluster"]), "");
        even.labels[0].place = Some(place(0, "home"));
        (vec![Source::new("cluster.yaml", TEXT)], vec![twice, missing, even])
    }

    fn text(sources: &[Source], diagnostics: &[Diagnostic]) -> String {
        let mut text = Vec::new();
        human(&mut text, Ink::PLAIN, sources, diagnostics).unwrap();
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn all_problems_are_shown_with_their_lines() {
        let (sources, diagnostics) = problems();
        insta::assert_snapshot!(text(&sources, &diagnostics), @"
        error[TS0402]: the address 10.0.0.1 is given twice
         --> cluster.yaml:4:12
          |
        3 |   a: { ip: 10.0.0.1 }
          |            -------- first time
        4 |   é: { ip: 10.0.0.1 }
          |            ^^^^^^^^ second time
          |
          = hint: give one of them another address

        error[TS0102]: `network` is missing
         |
         = note: at `network`
         = hint: add `network: { cidr: …, gateway: … }`

        warning[TS0601]: two control plane nodes survive no failure
         --> cluster.yaml:1:10
          |
        1 | cluster: home
          |          ^^^^

        2 problems and 1 warning in cluster.yaml; nothing was changed.
        ");
    }

    #[test]
    fn a_sound_file_is_said_to_be_sound() {
        let (sources, _) = problems();
        insta::assert_snapshot!(text(&sources, &[]), @"No problems in cluster.yaml.");
    }

    #[test]
    fn programs_get_place_and_labels() {
        let (_, diagnostics) = problems();
        insta::assert_snapshot!(serde_json::to_string_pretty(&json(&diagnostics[..2])).unwrap(), @r#"
        [
          {
            "code": "TS0402",
            "severity": "error",
            "message": "the address 10.0.0.1 is given twice",
            "file": "cluster.yaml",
            "line": 4,
            "column": 12,
            "hint": "give one of them another address",
            "labels": [
              {
                "path": "nodes.é.ip",
                "place": {
                  "file": "cluster.yaml",
                  "line": 4,
                  "column": 12,
                  "source": 0,
                  "start": 55,
                  "end": 63
                },
                "note": "second time"
              },
              {
                "path": "nodes.a.ip",
                "place": {
                  "file": "cluster.yaml",
                  "line": 3,
                  "column": 12,
                  "source": 0,
                  "start": 32,
                  "end": 40
                },
                "note": "first time"
              }
            ]
          },
          {
            "code": "TS0102",
            "severity": "error",
            "message": "`network` is missing",
            "file": null,
            "line": null,
            "column": null,
            "hint": "add `network: { cidr: …, gateway: … }`",
            "labels": [
              {
                "path": "network"
              }
            ]
          }
        ]
        "#);
    }

    #[test]
    fn a_place_outside_the_text_is_drawn_at_its_end() {
        let (sources, mut diagnostics) = problems();
        if let Some(place) = &mut diagnostics[0].labels[0].place {
            place.span = Span { source: 0, start: 9_000, end: 9_001 };
        }
        assert!(text(&sources, &diagnostics[..1]).contains("given twice"));
    }
}
