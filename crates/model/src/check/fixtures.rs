//! Files that must be refused, each with all that is said about it.
//!
//! Every `NAME.yaml` under `tests/fixtures` stands beside a `NAME.txt` with the whole output. `UPDATE_FIXTURES=1` writes
//! them again.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path as FilePath;

use crate::diagnostic::{Source, codes, render};
use crate::load::load;

/// Codes that no file alone can have: they need a world, an import, or a text too large to keep.
const ELSEWHERE: &[&str] = &[
    codes::TOO_LARGE,
    codes::NO_DATASTORE,
    codes::UNKNOWN_TO_PROXMOX,
    codes::IMPORT_UNKNOWN,
    codes::NOT_HCL,
    codes::IMPORT_EXPRESSION,
    codes::IMPORT_LOST,
    codes::IMPORT_CHANGED,
    codes::IMPORT_SECRET,
    codes::IMPORT_ASSUMED,
    codes::IMPORT_SEVERAL,
];

#[test]
fn every_fixture_says_what_is_expected_and_every_code_has_one() {
    let folder = FilePath::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let mut paths: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let mut seen: BTreeSet<&str> = ELSEWHERE.iter().copied().collect();
    let mut wrong = Vec::new();
    for path in paths.iter().filter(|path| path.extension().is_some_and(|e| e == "yaml")) {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let source = Source::new(format!("{name}.yaml"), fs::read_to_string(path).unwrap());
        let found = match load(&[source]) {
            Ok(loaded) => loaded.check(),
            Err(failed) => failed.diagnostics,
        };
        assert!(!found.is_empty(), "{name} has no problem");
        let mut once = BTreeSet::new();
        for one in &found {
            assert!(once.insert(render(std::slice::from_ref(one))), "{name} says something twice");
            assert!(one.help.is_some() || one.code == codes::WRONG_TYPE, "{name}: {} has no hint", one.code);
        }
        if name.starts_with("ts") {
            let code = name.get(..6).unwrap_or_default();
            assert!(
                found.iter().any(|one| one.code.eq_ignore_ascii_case(code)),
                "{name} does not have {code}"
            );
        }
        seen.extend(found.iter().map(|one| one.code));
        let text = render(&found);
        let expected = path.with_extension("txt");
        if std::env::var_os("UPDATE_FIXTURES").is_some() {
            fs::write(&expected, &text).unwrap();
        }
        if fs::read_to_string(&expected).unwrap_or_default() != text {
            wrong.push(format!("{name}:\n{text}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // These are found where attached files are read and configurations rendered, which is not done here: what is said about
    // them is held whole by the tests of the command line (`tests/cli/attached.rs`).
    seen.extend([
        codes::UNREADABLE,
        codes::NO_SECRET,
        codes::UNKNOWN_TIME_ZONE,
        codes::BAD_SCHEMATIC,
        codes::BAD_MANIFEST,
        codes::CONFIG_REFUSED,
    ]);
    let missing: Vec<&str> =
        codes::ALL.iter().map(|one| one.code).filter(|code| !seen.contains(code)).collect();
    assert!(missing.is_empty(), "no fixture has {missing:?}");
}

/// Ten mistakes, ten diagnostics, none twice, in file order.
#[test]
fn ten_mistakes_are_ten_diagnostics() {
    let path = FilePath::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/ten-mistakes.yaml");
    let loaded = load(&[Source::new("c.yaml", fs::read_to_string(path).unwrap())]).unwrap();
    let found = loaded.check();
    assert_eq!(found.len(), 10, "{}", render(&found));
    let places: Vec<_> = found.iter().map(|d| d.labels[0].place.as_ref().unwrap().span).collect();
    assert!(places.is_sorted(), "{}", render(&found));
    assert_eq!(places.iter().collect::<BTreeSet<_>>().len(), 10);
}
