//! How long a large file takes: reading, checking and resolving, at 1,000 and at 10,000 nodes.
//!
//! Prints one line for each size, the best of some runs, and how the two compare. The goal is under 200 ms for 1,000 nodes,
//! growing linearly.

#![expect(clippy::print_stdout, reason = "printing is what a benchmark does")]
#![expect(clippy::disallowed_methods, reason = "a benchmark measures the real time")]

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use model::diagnostic::Source;

const RUNS: usize = 5;

/// A file in which every node is named and has an address of its own.
fn file(nodes: u32) -> String {
    let mut text = String::from(
        "cluster: big
versions: { talos: v1.13.9, kubernetes: v1.35.4 }
proxmox: { endpoint: 'https://pve1:8006' }
network: { cidr: 10.0.0.0/12, gateway: 10.0.0.1, vip: 10.0.0.10 }
kubernetes: { pod_cidr: 10.244.0.0/16, service_cidr: 10.96.0.0/12 }
hosts: { pve1: {}, pve2: {}, pve3: {} }
defaults: { worker: { disks: { data: { size: 100G } }, labels: { tier: work } } }
pools: { control: { role: controlplane, count: 3 } }
nodes:
",
    );
    for number in 0..nodes {
        let (third, fourth) = (number / 200 + 1, number % 200 + 20);
        // Among ten thousand derived MAC addresses two may collide, which is a diagnostic of its own.
        let mac = format!("BC:24:11:{:02X}:{:02X}:{:02X}", number >> 16, number >> 8 & 0xFF, number & 0xFF);
        let line = format!(
            "  n{number}: {{ role: worker, address: 10.1.{third}.{fourth}, mac: '{mac}', disks: {{ data: {{ size: 200G }} }} }}"
        );
        let _ = writeln!(text, "{line}");
    }
    text
}

/// The best of some runs, of each part: load, check, resolve.
fn measure(text: &str) -> Result<[Duration; 3], String> {
    let mut best = [Duration::MAX; 3];
    for _ in 0..RUNS {
        let (loaded, load) = timed(|| model::load::load(&[Source::new("big.yaml", text)]));
        let loaded = loaded.map_err(|failed| format!("{:?}", failed.diagnostics.first()))?;
        let (problems, check) = timed(|| loaded.check());
        if let Some(problem) = problems.first() {
            return Err(format!("{problem:?}"));
        }
        let (blueprint, resolve) = timed(|| model::resolve::resolve(&loaded.spec, None, Some("id")));
        blueprint.map_err(|problems| format!("{:?}", problems.first()))?;
        for (best, took) in best.iter_mut().zip([load, check, resolve]) {
            *best = took.min(*best);
        }
    }
    Ok(best)
}

fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let start = Instant::now();
    let made = work();
    (made, start.elapsed())
}

fn main() -> Result<(), String> {
    let mut totals = Vec::new();
    for nodes in [1_000, 10_000] {
        let [load, check, resolve] = measure(&file(nodes))?;
        // Resolving starts with the checks, so they are not counted twice.
        let total = load + resolve;
        println!(
            "{nodes:>6} nodes: load + resolve {total:>8.1?} (load {load:.1?}, resolve {resolve:.1?}; the checks alone {check:.1?})"
        );
        totals.push(total.as_secs_f64());
    }
    if let [few, many] = totals[..] {
        println!(
            "ten times the nodes take {:.1} times as long; the goal is 1,000 nodes in under 200 ms",
            many / few
        );
    }
    Ok(())
}
