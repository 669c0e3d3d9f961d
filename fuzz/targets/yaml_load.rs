//! A cluster file, or two that are merged, from any text: it is read or refused, every place lies in its text, and what was
//! read is the same after it was written and read again.

#![no_main]

use libfuzzer_sys::fuzz_target;
use model::diagnostic::{Diagnostic, Source};
use model::load::load;

fuzz_target!(|text: &str| {
    let sources: Vec<Source> = text.split("\n=====\n").map(|part| Source::new("c.yaml", part)).collect();
    match load(&sources) {
        Ok(loaded) => {
            places(&loaded.sources, &loaded.check());
            if let Err(problems) = model::resolve::resolve(&loaded.spec, None, Some("id")) {
                places(&loaded.sources, &loaded.locate(problems));
            }
            let written = serde_saphyr::to_string(&loaded.spec).expect("a file can be written");
            let again = load(&[Source::new("again.yaml", &written)])
                .unwrap_or_else(|failed| panic!("{:?}\n{written}", failed.diagnostics));
            assert_eq!(loaded.spec, again.spec, "{written}");
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
