//! Whatever a file says about its VMs: applied once, there is nothing left to do.
//!
//! `TALOSMITH_SEED` and `TALOSMITH_RUNS` choose what is drawn; a failure prints the file and the seed that made it.

use model::event::Outcome;

use crate::rig::Rig;

/// A small generator: the same seed draws the same files everywhere.
struct Draw(u64);

impl Draw {
    fn next(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }

    fn coin(&mut self) -> bool {
        self.next(2) == 0
    }

    fn of<'a>(&mut self, words: &[&'a str]) -> &'a str {
        let at = usize::try_from(self.next(words.len() as u64)).unwrap();
        words[at]
    }

    /// Some of these lines.
    fn some(&mut self, lines: Vec<String>) -> Vec<String> {
        lines.into_iter().filter(|_| self.coin()).collect()
    }
}

fn disk(draw: &mut Draw, size: u64, bus: &str) -> String {
    let mut keys = vec![format!("size: {size}G"), format!("bus: {bus}")];
    let mut options = vec![
        format!("cache: {}", draw.of(&["none", "writethrough", "writeback", "directsync", "unsafe"])),
        format!("discard: {}", draw.coin()),
        format!("backup: {}", draw.coin()),
    ];
    if bus != "sata" {
        options.push(format!("iothread: {}", draw.coin()));
    }
    if bus != "virtio" {
        options.push(format!("ssd: {}", draw.coin()));
    }
    keys.extend(draw.some(options));
    format!("{{ {} }}", keys.join(", "))
}

fn node(draw: &mut Draw, name: &str, role: &str, last: u64) -> String {
    let mut lines = vec![format!("role: {role}"), format!("address: 10.25.150.{last}")];
    let boot = draw.of(&["scsi", "scsi", "virtio", "sata"]);
    let (memory, size) = (4096 + 512 * draw.next(8), 20 + draw.next(30));
    let optional = vec![
        format!("host: pve{}", 1 + draw.next(3)),
        format!("vmid: {}", 7000 + last),
        format!("mac: BC:24:11:00:01:{last:02X}"),
        format!(
            "cpu: {{ cores: {}, type: {}, units: {} }}",
            2 + draw.next(6),
            draw.of(&["host", "x86-64-v3"]),
            1 + draw.next(9999)
        ),
        format!("memory: {{ size: {memory}M, balloon: {}M }}", 1024 + 512 * draw.next(4)),
        format!("disk: {}", disk(draw, size, boot)),
        format!("bios: {}", draw.of(&["seabios", "ovmf"])),
        format!("tpm: {}", draw.coin()),
        format!("display: {}", draw.of(&["std", "virtio", "serial0"])),
        format!("start_on_boot: {}", draw.coin()),
        format!("startup: {{ order: {}, up: {} }}", draw.next(9), draw.next(99)),
        format!("tags: [t{}, k8s]", draw.next(9)),
        format!("description: \"note {}, of mine\"", draw.next(9)),
        format!("network: {{ model: {} }}", draw.of(&["virtio", "e1000", "vmxnet3"])),
    ];
    lines.extend(draw.some(optional));
    format!("  {name}:\n    {}\n", lines.join("\n    "))
}

fn file(seed: u64) -> String {
    let mut draw = Draw(seed);
    for _ in 0..4 {
        draw.next(2);
    }
    let mut text = String::from(
        "cluster: any\nproxmox: { endpoint: 'https://pve1:8006', tags: [prod] }\n\
         versions: { talos: v1.13.9, kubernetes: v1.35.4 }\n",
    );
    let mut network = vec!["cidr: 10.25.150.0/24".to_owned(), "gateway: 10.25.150.1".to_owned()];
    network.push("vip: 10.25.150.10".to_owned());
    let options = vec![format!("mtu: {}", 1400 + draw.next(100)), "dns: [10.25.150.2, 9.9.9.9]".to_owned()];
    network.extend(draw.some(options));
    text.push_str(&format!("network: {{ {} }}\n", network.join(", ")));
    if draw.coin() {
        text.push_str(&format!("image: {{ delivery: {} }}\n", draw.of(&["import", "template"])));
    }
    text.push_str("nodes:\n");
    let control = if draw.coin() { 1 } else { 3 };
    for n in 0..control {
        text.push_str(&node(&mut draw, &format!("cp-{n}"), "controlplane", 11 + n));
    }
    for n in 0..1 + draw.next(2) {
        text.push_str(&node(&mut draw, &format!("w-{n}"), "worker", 21 + n));
    }
    text
}

#[tokio::test(start_paused = true)]
async fn applied_once_there_is_nothing_left_to_do() {
    let number = |name: &str, otherwise: u64| {
        std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
    };
    let (seed, runs) = (number("TALOSMITH_SEED", 1), number("TALOSMITH_RUNS", 3));
    for seed in seed..seed + runs {
        let text = file(seed);
        let rig = Rig::new();
        let ran = rig.apply(&text).await;
        assert_eq!(ran.outcome, Outcome::Done, "seed {seed}: {:?}\n{text}", ran.failures());
        let plan = rig.observe(&text).await.plan();
        let steps: Vec<_> = plan.steps.iter().map(|s| s.action.describe()).collect();
        assert!(plan.is_empty(), "seed {seed}: {steps:?} {:?}\n{text}", plan.refusals);
        let waits: Vec<_> = plan.notes.iter().map(|n| &n.text).collect();
        assert!(waits.is_empty(), "seed {seed}: {waits:?}\n{text}");
    }
}
