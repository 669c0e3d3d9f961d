//! What programs read: every key of it stands in docs/reference/json.md.

use serde_json::Value;

use crate::shell::{HOME, Shell};

const PAGE: &str = include_str!("../../../../docs/reference/json.md");

/// Asserts that the page names every key of these lines of JSON.
pub fn assert_documented(lines: &str) {
    assert!(!lines.is_empty());
    for line in lines.lines() {
        let document: Value = serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
        documented(&document);
    }
}

fn documented(value: &Value) {
    match value {
        Value::Array(values) => values.iter().for_each(documented),
        Value::Object(values) => {
            for (key, value) in values {
                assert!(PAGE.contains(&format!("`{key}`")), "docs/reference/json.md does not name `{key}`");
                // What an action is about, and what was seen, are named there as far as others may rely on them.
                if !["action", "observed"].contains(&key.as_str()) {
                    documented(value);
                }
            }
        }
        _ => {}
    }
}

#[test]
fn every_key_is_documented() {
    let shell = Shell::with(HOME);
    for command in ["plan", "status", "health", "doctor"] {
        let ran = shell.run(&format!("{command} --json --lab --lab-speed max"));
        assert_documented(&ran.out);
        assert_eq!(ran.err, "", "{command}");
    }
    shell.write("wrong.yaml", "cluster: home\npols: {}\n");
    for command in [
        "validate wrong.yaml",
        "apply -f wrong.yaml",
        "apply --lab",
        "plan -f none.yaml",
        "init",
        "import wrong.yaml",
    ] {
        let ran = shell.run(&format!("{command} --json"));
        assert_documented(&ran.out);
        assert_eq!(ran.err, "", "{command}");
    }
}

#[test]
fn leftover_every_command_gives_json_with_a_schema() {
    let shell = Shell::with_secrets();
    for command in [
        "explain",
        "explain TS0101",
        "explain gate",
        "schema",
        "completions bash",
        "man",
        "man -o pages",
        "init --print --offline",
        "validate",
        "show",
        "kubeconfig --lab",
        "talosconfig --lab",
        "talosconfig --lab -o talosconfig",
        "render --lab -o rendered",
        "secrets recipients --lab",
        "lab inject faults",
        "lab down",
        "node cordon home-work-9 --lab --lab-speed max --yes",
        "explain nonsense",
        "lab reset --yes",
    ] {
        let ran = shell.run(&format!("{command} --json"));
        assert_eq!(ran.err, "", "{command}");
        assert!(!ran.out.is_empty(), "{command}");
        for line in ran.out.lines() {
            let document: Value =
                serde_json::from_str(line).unwrap_or_else(|e| panic!("{command}: {e}: {line}"));
            assert_eq!(document["schema"], 1, "{command}: {line}");
            let keys = document.as_object().unwrap().keys();
            keys.for_each(|key| {
                assert!(PAGE.contains(&format!("`{key}`")) || command == "show", "{command}: {key}")
            });
        }
    }
}
