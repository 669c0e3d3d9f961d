//! A machine configuration from any text: it is read or refused; printed and read again it is the same, and validating and
//! looking at it never fails.

#![no_main]

use std::collections::BTreeSet;

use libfuzzer_sys::fuzz_target;
use talos::config::{Contract, Documents, MachineView, difference};
use talos::validate::{Mode, validate};

fuzz_target!(|text: &str| {
    let Ok(documents) = Documents::parse(text) else { return };
    let printed = documents.to_yaml();
    let again = Documents::parse(&printed).unwrap_or_else(|e| panic!("{e}: {printed}"));
    assert!(documents == again, "{printed}");
    assert_eq!(printed, again.to_yaml());
    let _ = MachineView::read(&documents);
    let mut seen = BTreeSet::new();
    let each_once = documents.iter().all(|one| seen.insert((one.text("kind"), one.text("name"))));
    for release in ["v1.12", "v1.14"] {
        let release = Contract::parse(release).expect("a release");
        let _ = validate(&documents, release, Mode::Cloud);
        // Of two documents with one name, which no machine takes, each would be held against the first.
        let same = difference(&documents, &again, release).is_empty();
        assert!(same || !each_once, "it differs from itself: {printed}");
    }
});
