//! A thousand machine configurations, in a loop in one process: `cargo bench -p talos --bench config`.
//!
//! Each is generated, patched with the node's own name and written as text, for control planes and workers in turn. Prints CPU
//! seconds and peak memory as JSON, so that `conformance/bench` can put them beside those of Talos' own library.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a measurement that fails has nothing to say")]

use talos::config::{Contract, Input, Role, generate};
use talos::patch::{Patch, Values};
use talos::secrets::Bundle;

const NODES: usize = 1000;

fn main() {
    let contract = Contract::parse("v1.13").unwrap();
    // The secrets are made before the clock runs, as they are on the other side.
    let bundle = Bundle::placeholder(contract, "2026-01-01T00:00:00Z".parse().unwrap()).unwrap();
    let before = cpu_seconds();
    let mut bytes = 0;
    for number in 0..NODES {
        let role = if number % 2 == 0 { Role::ControlPlane } else { Role::Worker };
        let input = Input {
            install_disk: Some("/dev/sda".to_owned()),
            ..Input::new(contract, role, "home", "https://10.25.150.10:6443", "1.35.4")
        };
        let patch = "apiVersion: v1alpha1\nkind: HostnameConfig\nauto: off\nhostname: ${node.name}\n---\nmachine: {sysctls: {a.b: '1'}, certSANs: [c.example]}\n";
        let values = Values::new().with("node.name", &format!("node-{number}"));
        let mut documents = generate(&bundle, &input).unwrap();
        Patch::parse(patch, contract, &values).unwrap().apply(&mut documents).unwrap();
        bytes += documents.to_yaml().len();
    }
    let cpu = cpu_seconds() - before;
    println!(
        "{{\"configurations\":{NODES},\"cpu_seconds\":{cpu:.3},\"peak_kib\":{},\"bytes\":{bytes}}}",
        peak_kib()
    );
}

/// User and system time of this process.
fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = text.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|it| it.parse::<f64>().ok()).unwrap_or_default();
    // Linux counts a hundred to the second.
    (ticks(11) + ticks(12)) / 100.0
}

/// The most memory that this process ever held.
fn peak_kib() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|it| it.trim().trim_end_matches(" kB").parse().ok()).unwrap_or_default()
}
