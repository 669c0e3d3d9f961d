//! Another tool's files from any text: they are translated or refused, every place lies in its text, and the result is a
//! file that can at least be looked at.

#![no_main]

use import::{Input, Reach, import};
use libfuzzer_sys::fuzz_target;
use model::diagnostic::{Diagnostic, Source};
use model::load::load;

const NAMES: [&str; 3] = ["main.tf", "a.auto.tfvars", "schematic.yaml"];

fuzz_target!(|text: &str| {
    let parts = text.split("\n=====\n").zip(NAMES);
    let sources: Vec<Source> = parts.map(|(part, name)| Source::new(name, part)).collect();
    match import(&Input { sources: &sources, reach: Reach::Folder, here: "/a", result: "/b" }) {
        Ok(made) => {
            places(&made.sources, &made.notes);
            places(&[Source::new("cluster.yaml", &made.yaml)], &made.checks);
            let again = load(&[Source::new("cluster.yaml", &made.yaml)]);
            assert!(again.is_ok() || !made.checks.is_empty(), "{}", made.yaml);
        }
        Err(failed) => {
            assert!(!failed.diagnostics.is_empty(), "refused without a reason");
            places(&failed.sources, &failed.diagnostics);
        }
    }
});

fn places(sources: &[Source], diagnostics: &[Diagnostic]) {
    for place in diagnostics.iter().flat_map(|d| &d.labels).filter_map(|label| label.place.as_ref()) {
        let text = &sources[place.span.source].text;
        assert!(text.get(place.span.start..place.span.end).is_some(), "{place:?} lies outside");
    }
}
