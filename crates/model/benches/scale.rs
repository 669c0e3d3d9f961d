//! How long a large file takes: reading, checking and resolving, at 1,000 and at 10,000 nodes.
//!
//! Prints one line for each size. The goal is under 200 ms for 1,000 nodes, growing linearly.

#![expect(clippy::print_stdout, reason = "printing is what a benchmark does")]
#![expect(clippy::disallowed_methods, reason = "a benchmark measures the real time")]

use std::fmt::Write as _;
use std::time::Instant;

use model::diagnostic::Source;

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

fn main() {
    for nodes in [1_000, 10_000] {
        let text = file(nodes);
        let start = Instant::now();
        let loaded = model::load::load(&[Source::new("big.yaml", text)]);
        let load = start.elapsed();
        match loaded {
            Ok(loaded) => {
                let start = Instant::now();
                let problems = model::check::check(&loaded).len();
                let check = start.elapsed();
                let start = Instant::now();
                let decided =
                    model::resolve::resolve(&loaded.spec, None, Some("id")).map_or(0, |b| b.nodes.len());
                let resolve = start.elapsed();
                println!(
                    "{nodes} nodes: load {load:.1?}, check {check:.1?} ({problems} problems), resolve {resolve:.1?} ({decided} decided)"
                );
            }
            Err(failed) => println!(
                "{nodes} nodes: {} problems, the first {:?}",
                failed.diagnostics.len(),
                failed.diagnostics.first()
            ),
        }
    }
}
