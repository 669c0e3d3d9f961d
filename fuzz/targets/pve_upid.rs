//! A task id from any text: it is refused, or prints as it was written and reads the same again.

#![no_main]

use libfuzzer_sys::fuzz_target;
use pve::Upid;

fuzz_target!(|text: &str| {
    if let Ok(upid) = text.parse::<Upid>() {
        assert_eq!(upid.to_string(), text);
        assert_eq!(text.parse::<Upid>().as_ref(), Ok(&upid));
        assert!(!upid.node.is_empty() && !upid.kind.is_empty() && !upid.user.is_empty());
    }
});
