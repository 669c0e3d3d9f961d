//! Inputs of other tools, value by value: each is found again in a VM, in an image, in a machine's configuration, in how
//! Proxmox is reached, or in the list of what was not carried over.
//!
//! The proof changes one value after the other in the input's own text: whatever was read must then show. That VMs and
//! machines really get what is compared here is what `seeds` proves: after an apply, Proxmox and machines are asked, and
//! nothing differs. A value whose every other is refused was read by the checks. Where each key went is written down in `places`, for people; `UPDATE_FIXTURES=1` writes it again.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use engine::render::{Renderer, schematics};
use model::attachments::{Attachments, attached};
use model::blueprint::Blueprint;
use model::diagnostic::{Diagnostic, Source};
use model::spec::Spec;

use crate::rig::{bundle, in_parallel};
use crate::seeds::{Seed, imported};

/// Words that some keys take and no others.
const WORDS: [&str; 3] = ["controlplane", "virtio", "argocd"];

/// The ends of ranges: no VM has the last id before there are as many nodes.
const LIMITS: [&str; 2] = ["controlplane_max", "worker_max"];

/// A value in an input: its place, and the key that it belongs to.
#[derive(Debug)]
struct Value {
    source: usize,
    start: usize,
    end: usize,
    key: String,
    /// The key of the mapping that it stands in, as far as its line tells.
    group: String,
}

/// Every value in a text: quoted, a number or a flag; in YAML any plain word.
fn values(source: usize, name: &str, text: &str, found: &mut Vec<Value>) {
    let plain = name.ends_with(".yaml");
    let (mut at, mut key, mut group) = (0, String::new(), String::new());
    while at < text.len() {
        let rest = &text[at..];
        if rest.starts_with('#') || (!plain && rest.starts_with("//")) {
            at += rest.find('\n').unwrap_or(rest.len());
            continue;
        }
        let first = rest.chars().next().unwrap();
        let length = if first == '"' {
            rest[1..].find('"').map_or(rest.len(), |end| end + 2)
        } else if first.is_ascii_alphanumeric() || first == '_' {
            let ends =
                |c: char| !(c.is_ascii_alphanumeric() || "_-./".contains(c) || (plain && ":@!".contains(c)));
            rest[..rest.find(ends).unwrap_or(rest.len())].trim_end_matches(':').len()
        } else {
            at += first.len_utf8();
            continue;
        };
        let (word, after) = (&rest[..length], rest[length..].trim_start_matches([' ', '\t']));
        let bare = word.trim_matches('"');
        if (after.starts_with('=') && !after.starts_with("==")) || (plain && after.starts_with(':')) {
            key = bare.to_owned();
            if after[1..].trim_start().starts_with('{') {
                group.clone_from(&key);
            }
        } else {
            let scalar = bare.parse::<f64>().is_ok() || matches!(bare, "true" | "false");
            if word.starts_with('"') || scalar || plain {
                let (key, group) = (key.clone(), group.clone());
                found.push(Value { source, start: at, end: at + length, key, group });
            }
        }
        at += length;
    }
}

/// Other values of the same kind, the likeliest to be good first.
fn others(word: &str) -> Vec<String> {
    let bare = word.trim_matches('"');
    let mut others = Vec::new();
    if let Ok(flag) = bare.parse::<bool>() {
        others.push((!flag).to_string());
    } else {
        // Another digit, from the last one on; then one letter more.
        for (at, digit) in bare.char_indices().rev().filter(|(_, c)| c.is_ascii_digit()).take(3) {
            for other in ['7', '3'].into_iter().filter(|other| *other != digit) {
                others.push(format!("{}{other}{}", &bare[..at], &bare[at + 1..]));
            }
        }
        others.push(format!("{bare}x"));
        others.extend(WORDS.iter().filter(|word| **word != bare).map(|word| (*word).to_owned()));
    }
    let quoted = |text: String| if word.starts_with('"') { format!("\"{text}\"") } else { text };
    others.into_iter().map(quoted).collect()
}

fn said(found: &[Diagnostic]) -> String {
    let one = |d: &Diagnostic| format!("{} {} {}\n", d.code, d.message, d.help.clone().unwrap_or_default());
    found.iter().map(one).collect()
}

/// All that becomes of an input, before its configurations are rendered.
struct Outcome {
    parts: BTreeMap<&'static str, String>,
    spec: Spec,
    blueprint: Blueprint,
}

/// An error is all that is said against it.
fn outcome(sources: &[Source]) -> Result<Outcome, String> {
    let made = imported(sources).map_err(|failed| said(&failed.diagnostics))?;
    let loaded = model::load::load(&[Source::new("cluster.yaml", made.yaml)]);
    let spec = loaded.map_err(|failed| said(&failed.diagnostics))?.spec;
    let blueprint = model::resolve::resolve(&spec, None, Some("abc=")).map_err(|found| said(&found))?;
    let mut parts = BTreeMap::from([("the list", said(&made.notes) + &said(&made.checks))]);
    let p = &spec.proxmox;
    parts.insert(
        "the way to Proxmox",
        format!("{:?} {:?} {:?} {}", p.endpoint, p.endpoints, p.ca, p.insecure),
    );
    let mut vms = format!("{:?}\n", blueprint.resource_pool);
    for (name, node) in &blueprint.nodes {
        vms.push_str(&format!("{name} {:?} {} {:?}\n", node.host, node.vmid, node.hardware.description));
        vms.push_str(&format!("{:?} {:?}\n", node.hardware.tags, node.image_datastore));
        for (key, value) in model::vm::settings(&blueprint, node) {
            vms.push_str(&format!("{key}: {value}\n"));
        }
        for drive in model::vm::drives(node) {
            let drive =
                format!("{}: {:?} {:?} {:?}\n", drive.key, drive.holds, drive.datastore, drive.options);
            vms.push_str(&drive);
        }
    }
    parts.insert("VM", vms);
    parts.insert("image", format!("{:?}", blueprint.images));
    Ok(Outcome { parts, spec, blueprint })
}

/// Images and configurations, which take longest.
fn rendered(outcome: &Outcome, sources: &[Source]) -> Result<BTreeMap<&'static str, String>, String> {
    let text =
        |file: &str| sources.iter().find(|s| s.name == file).map(|s| s.text.clone()).unwrap_or_default();
    let attachments: Attachments =
        attached(&outcome.spec).into_iter().map(|one| (one.file.to_owned(), text(one.file))).collect();
    let schematics = schematics(&outcome.blueprint, &attachments).map_err(|e| e.causes().join(": "))?;
    let configs = Renderer::new(&outcome.blueprint, &schematics, &attachments).configs(&bundle());
    let configs = configs.map_err(|found| said(&found))?;
    let configs: String = configs.values().map(|config| config.expose().to_owned()).collect();
    Ok([("image", format!("{schematics:?}")), ("configuration", configs)].into())
}

/// Where a change of a value shows, if anywhere.
fn place(
    key: &str,
    before: &Outcome,
    made: &BTreeMap<&str, String>,
    sources: &[Source],
) -> Result<Option<&'static str>, ()> {
    // What any other value is refused for was read.
    let Ok(after) = outcome(sources) else { return Err(()) };
    let order = ["VM", "image", "the way to Proxmox"];
    if let Some(part) = order.into_iter().find(|part| after.parts[part] != before.parts[part]) {
        return Ok(Some(part));
    }
    let now = rendered(&after, sources).map_err(|_| ())?;
    let told = after.parts["the list"] != before.parts["the list"];
    Ok(match () {
        () if now["image"] != made["image"] => Some("image"),
        () if now["configuration"] != made["configuration"] => Some("configuration"),
        () if told => Some("the list"),
        () if LIMITS.contains(&key) && after.spec != before.spec => Some("the file, as a limit"),
        () => None,
    })
}

/// Every key of an input with the places in which its values are found; `nowhere` is one of them.
fn places(name: &str) -> BTreeMap<String, BTreeSet<&'static str>> {
    let seed = Seed::named(name);
    let mut found = Vec::new();
    for (at, source) in seed.sources.iter().enumerate() {
        values(at, &source.name, &source.text, &mut found);
    }
    assert!(found.len() > 8, "{name} has only {} values", found.len());
    let before = outcome(&seed.sources).unwrap();
    let made = rendered(&before, &seed.sources).unwrap();
    let told = &before.parts["the list"];
    let mut places: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for value in &found {
        let source = &seed.sources[value.source];
        let word = &source.text[value.start..value.end];
        // Told by name, alone or behind the group that it stands in.
        let listed = [&value.key, &value.group].iter().any(|key| told.contains(&format!("{key}`")));
        // Where a module comes from is no part of the cluster.
        if source.name.ends_with(".tf") && value.key == "source" {
            continue;
        }
        // A file that is told not to be carried over is not carried over line by line.
        let left = source.name.ends_with("cilium-install.yaml");
        let changed = |other: String| {
            let mut sources = seed.sources.clone();
            sources[value.source].text.replace_range(value.start..value.end, &other);
            place(&value.key, &before, &made, &sources)
        };
        let mut refused = false;
        let shows = others(word).into_iter().find_map(|other| {
            let shows = changed(other);
            refused |= shows.is_err();
            shows.ok().flatten()
        });
        let place = match shows {
            Some(place) => place,
            None if listed || left => "the list",
            None if refused => "the checks",
            None => "nowhere",
        };
        places.entry(format!("{}: {}", source.name, value.key)).or_default().insert(place);
    }
    places
}

#[test]
#[ignore = "takes half a minute: conformance/seeds/run"]
fn every_value_of_an_input_is_found_again() {
    let seeds = ["nodes-config", "module-call", "grouped", "flat", "lists-yaml", "flux-module"];
    in_parallel(seeds.to_vec(), |name| {
        let places = places(name);
        let lost: Vec<&String> =
            places.iter().filter(|(_, places)| places.contains("nowhere")).map(|(key, _)| key).collect();
        assert!(lost.is_empty(), "{name}: changed without a trace: {lost:#?}");
        let lines = places
            .into_iter()
            .map(|(key, places)| format!("{key}: {}\n", places.into_iter().collect::<Vec<_>>().join(", ")));
        let text: String = lines.collect();
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/lab/places/{name}.txt"));
        if std::env::var_os("UPDATE_FIXTURES").is_some() {
            std::fs::write(&path, &text).unwrap();
        }
        assert_eq!(
            std::fs::read_to_string(&path).unwrap_or_default(),
            text,
            "UPDATE_FIXTURES=1 writes it again"
        );
    });
}
