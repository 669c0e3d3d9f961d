//! A patch on a configuration, both from any text: it is refused and changes nothing, or it is applied and the result can
//! be printed and read. A patch that only sets values gives the same when it is applied again, or is then refused: some
//! values cannot be merged even with themselves.

#![no_main]

use libfuzzer_sys::fuzz_target;
use talos::config::{Contract, Documents};
use talos::patch::{Patch, Values};

fuzz_target!(|text: &str| {
    let Some((base, patch_text)) = text.split_once("\n=====\n") else { return };
    let Ok(base) = Documents::parse(base) else { return };
    for release in ["v1.12", "v1.14"] {
        let release = Contract::parse(release).expect("a release");
        let Ok(patch) = Patch::parse(patch_text, release, &Values::new()) else { continue };
        let mut patched = base.clone();
        if patch.apply(&mut patched).is_err() {
            assert!(patched == base, "a refused patch changed something");
            continue;
        }
        let printed = patched.to_yaml();
        let again = Documents::parse(&printed).unwrap_or_else(|e| panic!("{e}: {printed}"));
        assert_eq!(again.to_yaml(), printed);
        // Lists grow, deletes find nothing the second time, and of two equal documents only the first is merged into.
        if !patch_text.contains(['-', '[', '$', '&', '<']) && base.iter().count() < 2 {
            let mut twice = patched.clone();
            if patch.apply(&mut twice).is_ok() {
                assert!(twice == patched, "once:\n{printed}twice:\n{}", twice.to_yaml());
            }
        }
    }
});
