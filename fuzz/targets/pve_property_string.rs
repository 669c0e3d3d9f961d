//! A property string from any text: printed and read again it is the same, and what is set is found.

#![no_main]

use libfuzzer_sys::fuzz_target;
use pve::PropertyString;

fuzz_target!(|text: &str| {
    let read = PropertyString::from(text);
    let printed = read.to_string();
    let again = PropertyString::from(printed.as_str());
    assert_eq!(read, again, "{printed}");
    assert_eq!(printed, again.to_string());
    assert_eq!(read.with("size", "20G").get("size"), Some("20G"));
});
