//! Inputs of every format, and all that becomes of them.
//!
//! Each folder under `tests/fixtures` is an input; `result.txt` in it holds what is expected: the file, what is said about
//! the translation, and what the checks say about the result. `UPDATE_FIXTURES=1` writes them again.

use std::fs;
use std::path::{Path as FilePath, PathBuf};

use model::resolve::resolve;

use super::*;

/// Everything about each diagnostic, as text.
fn render(diagnostics: &[Diagnostic]) -> String {
    use std::fmt::Write as _;
    let mut out = String::new();
    for d in diagnostics {
        writeln!(out, "{}[{}] {}", d.severity, d.code, d.message).unwrap();
        for label in &d.labels {
            let note = if label.note.is_empty() { String::new() } else { format!(": {}", label.note) };
            let at = label.place.as_ref().map_or("?".into(), |p| {
                format!("{}:{}:{}+{}", p.file, p.line, p.column, p.span.end - p.span.start)
            });
            writeln!(out, "  at {at} {}{note}", label.path).unwrap();
        }
        if let Some(help) = &d.help {
            writeln!(out, "  help: {help}").unwrap();
        }
    }
    out
}

fn folder() -> PathBuf {
    FilePath::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

fn files(folder: &FilePath, prefix: &str, sources: &mut Vec<Source>) {
    let mut entries: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        let name = format!("{prefix}{}", path.file_name().unwrap().to_string_lossy());
        if path.is_dir() {
            files(&path, &format!("{name}/"), sources);
        } else if name != "result.txt" {
            sources.push(Source::new(name, fs::read_to_string(&path).unwrap()));
        }
    }
}

fn imported(name: &str) -> Imported {
    let mut sources = Vec::new();
    files(&folder().join(name), "", &mut sources);
    folder_of(&sources).unwrap_or_else(|failed| panic!("{}", render(&failed.diagnostics)))
}

fn one(name: &str, text: &str) -> Result<Imported, Failed> {
    import(&Input { sources: &[Source::new(name, text)], reach: Reach::Files, here: "", result: "" })
}

fn folder_of(sources: &[Source]) -> Result<Imported, Failed> {
    import(&Input { sources, reach: Reach::Folder, here: "", result: "" })
}

fn blueprint(name: &str) -> model::blueprint::Blueprint {
    let yaml = imported(name).yaml;
    let loaded = load::load(&[Source::new("cluster.yaml", yaml)]).unwrap();
    resolve(&loaded.spec, None, None).unwrap_or_else(|problems| panic!("{}", render(&problems)))
}

fn address_and_host(name: &str, prefix: &str) -> Vec<String> {
    let blueprint = blueprint(name);
    let nodes = blueprint.nodes.values().filter(|node| node.name.starts_with(prefix));
    nodes.map(|node| format!("{} {}", node.address.addr(), node.host.clone().unwrap_or_default())).collect()
}

#[test]
fn every_format_becomes_what_is_expected() {
    let mut names: Vec<_> = fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert!(names.len() > 10);
    let mut wrong = Vec::new();
    for name in names {
        let name = name.to_string_lossy();
        let made = imported(&name);
        let secrets = format!("{}{:?}{:?}", made.yaml, made.sources, made.notes);
        assert!(!secrets.contains("11111111-2222") && !secrets.contains("hunter22"), "{name} shows a secret");
        let result =
            format!("{}\n--- notes\n{}--- checks\n{}", made.yaml, render(&made.notes), render(&made.checks));
        let path = folder().join(&*name).join("result.txt");
        if std::env::var_os("UPDATE_FIXTURES").is_some() {
            fs::write(&path, &result).unwrap();
        }
        let expected = fs::read_to_string(&path).unwrap_or_default();
        if expected != result {
            wrong.push(format!("{name}:\n{result}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn counted_nodes_keep_their_addresses() {
    let workers = address_and_host("grouped", "meadow-node");
    assert_eq!(workers, ["192.168.40.20 pve", "192.168.40.21 pve", "192.168.40.22 pve"]);
    let control = address_and_host("grouped", "meadow-ctrl");
    assert_eq!(control, ["192.168.40.10 pve", "192.168.40.11 pve", "192.168.40.12 pve"]);
    let flat = address_and_host("flat", "meadow-node");
    assert_eq!(flat[..3], ["192.168.40.70 pve1", "192.168.40.71 pve1", "192.168.40.72 pve2"]);
}

#[test]
fn listed_nodes_take_turns_on_their_hosts() {
    let hosts: Vec<String> = address_and_host("lists-yaml", "heath-worker")
        .iter()
        .map(|line| line.split(' ').next_back().unwrap().to_owned())
        .collect();
    assert_eq!(hosts, ["alpha", "charlie", "foxtrot", "alpha", "charlie", "foxtrot"]);
}

#[test]
fn a_disk_keeps_what_a_node_does_not_say() {
    let blueprint = blueprint("nodes-config-drafted");
    let disk = &blueprint.nodes["work-02"].hardware.disks[0];
    assert_eq!((disk.size_gib, disk.slot, disk.mount.as_str()), (500, 1, "/var/lib/longhorn"));
    let other = &blueprint.nodes["work-03"].hardware.disks[0];
    assert_eq!(other.size_gib, 220);
}

#[test]
fn what_is_not_known_says_what_is() {
    let failed = one("main.tf", "resource \"x\" \"y\" {}\n").unwrap_err();
    insta::assert_snapshot!(render(&failed.diagnostics), @"
error[TS0801] nothing in main.tf is of a known format
  help: known are `nodes_config` with defaults by role; `talos_nodes` with `talos_cluster_config`; a module call with `cluster`, `image` and `nodes`; a module call with `nodes` and `flux_bootstrap_repo`; `node_distribution` with nodes counted by host; `control_plane_nodes` and `worker_nodes` as lists. Looked for were values in .tfvars, `variable` defaults, `module` calls and `inputs` in .tf and .hcl, and YAML files
");
    let failed = one("a.tfvars", "nodes_config = {\n  a = [1, }\n").unwrap_err();
    insta::assert_snapshot!(render(&failed.diagnostics), @r#"
error[TS0802] this is not valid HCL: invalid expression; expected `"`, `[`, `{`, `-`, `!`, `(`, `_`, `<`, letter or digit
  at a.tfvars:2:11+0 
  help: check it with `tofu fmt`
"#);
    assert!(folder_of(&[]).is_err());
}

#[test]
fn traps_end_quickly() {
    let deep = format!("nodes_config = {}", "[".repeat(100_000));
    assert!(one("a.tfvars", &deep).is_err());
    let mut bomb = "locals {\n  a0 = [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n".to_owned();
    for i in 1..12 {
        bomb.push_str(&format!("  a{i} = [{}]\n", vec![format!("local.a{}", i - 1); 10].join(", ")));
    }
    bomb.push_str("}\nmodule \"m\" {\n  nodes = local.a11\n  cluster = {}\n}\n");
    let _ = one("main.tf", &bomb);
}

proptest::proptest! {
    #![proptest_config(proptest::test_runner::Config { cases: 256, failure_persistence: None, ..Default::default() })]

    /// Whatever stands in an input, it is translated or refused, and no secret is shown.
    #[test]
    fn no_input_makes_it_panic(start in 0..900usize, piece in "[-a-z0-9=:{}\\[\\],&*!|><?'\"#%$é \n\t.@()]{0,30}") {
        let text = fs::read_to_string(folder().join("talos-nodes/talos.auto.tfvars")).unwrap();
        let at = (0..=start.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap();
        let changed = format!("{}{piece}{}", &text[..at], &text[at..]);
        let (diagnostics, sources) = match one("a.tfvars", &changed) {
            Ok(made) => (made.notes, made.sources),
            Err(failed) => (failed.diagnostics, failed.sources),
        };
        for place in diagnostics.iter().flat_map(|d| &d.labels).filter_map(|label| label.place.as_ref()) {
            assert!(sources[0].text.get(place.span.start..place.span.end).is_some(), "{place:?}");
        }
    }
}
