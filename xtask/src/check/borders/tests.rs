//! Made-up dependency graphs that break each row, so that the check can be seen to fail.

use serde_json::json;

use super::*;

const OURS: &[&str] = &[
    "ambient",
    "engine",
    "import",
    "lab",
    "model",
    "pve",
    "talos",
    "talos-client",
    "talosmith",
    "talosmith-fuzz",
    "xtask",
];

/// Metadata with all of our crates and these edges: from, to, kind.
fn metadata(edges: &[(&str, &str, Option<&str>)]) -> String {
    let mut names: BTreeSet<&str> = OURS.iter().copied().collect();
    names.extend(edges.iter().flat_map(|(from, to, _)| [*from, *to]));
    let nodes: Vec<Value> = names
        .iter()
        .map(|name| {
            let deps: Vec<Value> = edges
                .iter()
                .filter(|(from, ..)| from == name)
                .map(|(_, to, kind)| json!({ "name": to, "pkg": to, "dep_kinds": [{ "kind": kind, "target": null }] }))
                .collect();
            json!({ "id": name, "deps": deps })
        })
        .collect();
    let packages: Vec<Value> = names.iter().map(|name| json!({ "id": name, "name": name })).collect();
    json!({ "packages": packages, "workspace_members": OURS, "resolve": { "nodes": nodes } }).to_string()
}

fn problems_of(edges: &[(&str, &str, Option<&str>)]) -> Vec<String> {
    problems(&Graph::read(&metadata(edges)).unwrap())
}

#[test]
fn the_graph_of_the_design_is_sound() {
    let mut edges = vec![
        ("import", "model", None),
        ("import", "hcl-edit", None),
        ("pve", "ambient", None),
        ("talos-client", "talos", None),
        ("talos-client", "ambient", None),
        ("engine", "model", None),
        ("engine", "pve", None),
        ("engine", "talos-client", None),
        ("engine", "kube", None),
        ("lab", "talos", None),
        ("lab", "ambient", None),
        ("talosmith", "engine", None),
        ("talosmith", "import", None),
        ("talosmith", "lab", None),
        ("talosmith", "clap", None),
        ("ambient", "tokio", None),
        ("talos", "tonic", None),
        ("tonic", "tokio", None),
        ("model", "serde-saphyr", None),
        ("serde-saphyr", "annotate-snippets", None),
    ];
    // Tests and build scripts may use what they like.
    edges.push(("model", "tokio", Some("dev")));
    edges.push(("engine", "lab", Some("dev")));
    edges.push(("model", "kube", Some("build")));
    assert_eq!(problems_of(&edges), Vec::<String>::new());
}

#[test]
fn every_row_can_be_broken() {
    for row in ROWS {
        let ours = OURS.iter().filter(|other| **other != row.name && !row.ours.contains(other));
        for other in ours.chain(row.not) {
            let far = problems_of(&[(row.name, "between", None), ("between", other, None)]);
            assert!(
                far.iter().any(|p| p.starts_with(&format!("{} must not reach {other}", row.name))),
                "{} reaches {other} unseen: {far:?}",
                row.name
            );
        }
        for other in row.not_directly {
            let near = problems_of(&[(row.name, other, None)]);
            assert!(near.iter().any(|p| p.contains("itself")), "{} names {other} unseen", row.name);
            assert_eq!(problems_of(&[(row.name, "between", None), ("between", other, None)]).len(), 0);
        }
    }
}

#[test]
fn only_the_program_may_use_the_lab_and_nobody_the_program() {
    for name in OURS.iter().filter(|name| **name != "lab") {
        assert_eq!(problems_of(&[(name, "lab", None)]).is_empty(), *name == "talosmith", "{name}");
    }
    for name in OURS.iter().filter(|name| **name != "talosmith") {
        assert!(!problems_of(&[(name, "talosmith", None)]).is_empty(), "{name}");
    }
}

#[test]
fn the_message_shows_the_way_and_the_reason() {
    let found = problems_of(&[("model", "helper", None), ("helper", "tokio", None)]);
    assert_eq!(
        found,
        [
            "model must not reach tokio, but model -> helper -> tokio: the model is pure: no IO, no clock, no async, no TLS"
        ]
    );
}

#[test]
fn a_crate_without_a_row_is_a_problem() {
    let strange = metadata(&[]).replace("\"xtask\"", "\"operator\"");
    let found = problems(&Graph::read(&strange).unwrap());
    assert_eq!(found, ["the crate operator has no row in xtask/src/check/borders.rs"]);
}

#[test]
fn every_crate_of_ours_has_a_row() {
    assert_eq!(ROWS.iter().map(|row| row.name).collect::<BTreeSet<_>>(), OURS.iter().copied().collect());
}

#[test]
fn metadata_of_another_shape_is_refused() {
    assert!(Graph::read("{}").is_err());
    assert!(Graph::read("no json").is_err());
}

#[test]
fn h2_a_controller_is_built_without_the_lab() {
    let found = |edges| lab_in_controller(&Graph::read(&metadata(edges)).unwrap());
    assert_eq!(found(&[("talosmith", "engine", None), ("engine", "lab", Some("dev"))]), Vec::<String>::new());
    assert_eq!(
        found(&[("talosmith", "engine", None), ("engine", "lab", None)]),
        [
            "without default features talosmith must not reach lab, but talosmith -> engine -> lab: a controller has no simulator"
        ]
    );
}
