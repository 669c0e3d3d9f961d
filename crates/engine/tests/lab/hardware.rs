//! Everything that the file can say about a VM reaches Proxmox, is not found different afterwards, and costs few calls.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use lab::{CallMoment, Verdict};
use model::event::Outcome;

use crate::rig::{HOME, Rig};

/// Two nodes with all that a VM can have.
const RICH: &str = "\
cluster: rich
versions: { talos: v1.13.9, kubernetes: v1.35.4 }
proxmox: { endpoint: 'https://pve1:8006', tags: [prod] }
network: { cidr: 10.25.150.0/24, gateway: 10.25.150.1, vip: 10.25.150.10, dns: [10.25.150.2] }
nodes:
  one:
    role: controlplane
    host: pve1
    address: 10.25.150.11
    mac: BC:24:11:00:00:01
    cpu: { cores: 6, type: host, units: 200 }
    memory: { size: 16G, balloon: 8G }
    disk: { size: 40G, bus: virtio, cache: writeback, discard: false, iothread: false, backup: false }
    bios: ovmf
    tpm: true
    display: virtio
    start_on_boot: false
    startup: { order: 2, up: 30, down: 60 }
    tags: [k8s]
    description: runs the post office
  two:
    role: worker
    host: pve2
    address: 10.25.150.21
    vmid: 4711
    network: { model: e1000 }
";

#[tokio::test(start_paused = true)]
async fn what_the_file_says_about_a_vm_is_found_in_proxmox() {
    let rig = Rig::new();
    let ran = rig.apply(RICH).await;
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    let config = rig.world.pve.vm_config("pve1", 150_011).await.unwrap();
    for (key, value) in [
        ("cores", "6"),
        ("cpu", "host"),
        ("cpuunits", "200"),
        ("memory", "16384"),
        ("balloon", "8192"),
        ("bios", "ovmf"),
        ("vga", "virtio"),
        ("onboot", "0"),
        ("startup", "order=2,up=30,down=60"),
        ("boot", "order=virtio0"),
        ("tags", "k8s;prod;talosmith"),
        ("nameserver", "10.25.150.2"),
        ("net0", "virtio=BC:24:11:00:00:01,bridge=vmbr0"),
    ] {
        assert_eq!(config.get(key), Some(value), "{key}");
    }
    assert!(config.description().contains("\nruns the post office\n"), "{}", config.description());
    let disk = config.drive("virtio0").unwrap();
    assert_eq!(disk.size, Some(40 << 30));
    for (option, value) in [("cache", "writeback"), ("backup", "0"), ("iothread", "0"), ("discard", "ignore")]
    {
        assert_eq!(disk.options.get(option), Some(value), "{option}");
    }
    assert_eq!(config.drive("efidisk0").unwrap().options.get("pre-enrolled-keys"), Some("0"));
    assert_eq!(config.drive("tpmstate0").unwrap().options.get("version"), Some("v2.0"));
    let other = rig.world.pve.vm_config("pve2", 4711).await.unwrap();
    assert!(other.get("net0").unwrap().starts_with("e1000="), "{other:?}");
    rig.assert_nothing_to_do(RICH).await;
}

#[tokio::test(start_paused = true)]
async fn nodes_can_be_copies_of_templates() {
    let rig = Rig::new();
    let file = HOME.replace("pools:", "image: { delivery: template }\npools:");
    let ran = rig.apply(&file).await;
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    assert_eq!(rig.etcd_clusters(), 1);
    rig.assert_nothing_to_do(&file).await;
    let look = rig.look(&file).await;
    let owner = model::mark::Mark::owner_of(look.blueprint.cluster_id.as_deref().unwrap());
    let templates = look.observed.proxmox.templates(owner).count();
    assert_eq!(templates, 5, "control planes on three hosts, workers on two");
    let config = rig.world.pve.vm_config("pve1", 150_011).await.unwrap();
    assert_eq!(config.mac(0).as_deref(), Some(look.blueprint.nodes["home-control-1"].mac.as_str()));
    // Copies go with the cluster, and so do the templates.
    let ran = rig.carry_out(&look, &look.plan_destroy(), "me").await.unwrap();
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    assert_eq!(rig.vmids().await, Vec::<u64>::new());
}

/// Requests to Proxmox during one look.
async fn calls_of_a_look(rig: &Rig, file: &str) -> u64 {
    let calls = Arc::new(AtomicU64::new(0));
    rig.lab.on_call({
        let calls = calls.clone();
        move |_, at, _, path| {
            if at == CallMoment::Before && path.starts_with("/api2/") {
                calls.fetch_add(1, Ordering::Relaxed);
            }
            Verdict::GoOn
        }
    });
    rig.look(file).await;
    calls.load(Ordering::Relaxed)
}

#[tokio::test(start_paused = true)]
async fn a_look_costs_three_calls_and_one_for_each_node_and_datastore() {
    let rig = Rig::new();
    assert!(calls_of_a_look(&rig, HOME).await <= 3 + 5 + 3, "nothing is there yet");
    rig.apply(HOME).await;
    assert_eq!(calls_of_a_look(&rig, HOME).await, 3 + 5, "version, list, record, nodes");
    let grown = HOME.replace("count: 2", "count: 3");
    assert!(calls_of_a_look(&rig, &grown).await <= 3 + 6 + 1, "one node more");
}
