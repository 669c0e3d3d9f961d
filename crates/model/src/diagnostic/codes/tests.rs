//! The examples of the explanations, tried.

use std::collections::BTreeMap;

use super::*;
use crate::diagnostic::Source;
use crate::load::load;

const SOUND: &str = "cluster: home
versions: { talos: v1.13.9, kubernetes: v1.35.4 }
proxmox: { endpoint: \"https://pve1:8006\" }
network: { cidr: 10.25.150.0/24, gateway: 10.25.150.1 }
pools:
  control: { role: controlplane, count: 3 }
  work: { role: worker, count: 2 }
";

/// The sound file with the top-level keys of `piece` instead of its own.
fn lay_over(piece: &str) -> String {
    let blocks = |text: &str| {
        let mut blocks: BTreeMap<String, String> = BTreeMap::new();
        let mut key = String::new();
        for line in text.lines() {
            if !line.starts_with(' ') {
                key = line.split(':').next().unwrap_or_default().to_owned();
            }
            let block = blocks.entry(key.clone()).or_default();
            block.push_str(line);
            block.push('\n');
        }
        blocks
    };
    let mut merged = blocks(SOUND);
    merged.extend(blocks(piece));
    merged.into_values().collect()
}

fn codes_of(text: &str) -> Vec<&'static str> {
    let found = match load(&[Source::new("c.yaml", text)]) {
        Ok(loaded) => loaded.check(),
        Err(failed) => failed.diagnostics,
    };
    found.iter().map(|d| d.code).collect()
}

#[test]
fn bad_examples_have_the_problem_and_good_ones_have_none() {
    for one in ALL {
        if one.bad.is_empty() {
            continue;
        }
        let found = codes_of(&lay_over(one.bad));
        assert!(found.contains(&one.code), "{}: the bad example has {found:?}", one.code);
        // An example about something else need not have a VIP.
        let found = codes_of(&lay_over(one.good));
        let found: Vec<_> = found.into_iter().filter(|c| *c == one.code || *c != SINGLE_ENDPOINT).collect();
        assert!(found.is_empty(), "{}: the good example has {found:?}", one.code);
    }
}

#[test]
fn codes_are_in_order_and_explained() {
    assert!(ALL.windows(2).all(|pair| pair[0].code < pair[1].code));
    assert!(ALL.iter().all(|one| one.text.ends_with('.') && !one.title.ends_with('.')));
    assert_eq!(explain("ts0101").unwrap().code, UNKNOWN_KEY);
    assert_eq!(explain("TS9999"), None);
}
