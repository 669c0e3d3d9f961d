//! A secrets bundle from any text, as a file or inside a state: it is read or refused; written and read again it is the same.

#![no_main]

use libfuzzer_sys::fuzz_target;
use talos::secrets::Bundle;

fuzz_target!(|text: &str| {
    for read in [Bundle::parse, Bundle::from_tofu_state] {
        match read(text) {
            Ok(bundle) => {
                let written = bundle.to_yaml();
                let again = Bundle::parse(&written).expect("what was written can be read");
                assert_eq!(again.to_yaml(), written);
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
});
