//! A machine configuration from any text: it is read or refused; printed and read again it is the same, and validating and
//! looking at it never fails. One that a machine would take does not differ from itself.

#![no_main]

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
    for release in ["v1.12", "v1.14"] {
        let release = Contract::parse(release).expect("a release");
        let sound = validate(&documents, release, Mode::Cloud).is_empty();
        let same = difference(&documents, &again, release).is_empty();
        assert!(same || !sound, "it differs from itself: {printed}");
    }
});
