//! What hardware, images, networks and settings become, key by key.

use proptest::prelude::*;

use super::*;
use crate::diagnostic::{Source, render};
use crate::load::load;
use crate::spec::{Bios, Bus, Cache, Delivery, Patch};

const RICH: &str = "cluster: home
versions: { talos: v1.13.9, kubernetes: v1.35.4, contract: v1.12 }
proxmox: { endpoint: 'https://pve1:8006', tags: [lab] }
network:
  cidr: 10.25.150.0/24
  gateway: 10.25.150.1
  vip: 10.25.150.10
  routes: [{ to: 10.40.0.0/16, via: 10.25.150.2 }]
  etcd: storage
  extra:
    storage: { cidr: 192.168.9.0/24, bridge: vmbr1, vlan: 9, mtu: 9000, pools: [control, work] }
    wild: { dhcp: true, bridge: vmbr2, pools: [nobody] }
image: { extensions: [siderolabs/b, siderolabs/a], mirror: 'https://proxy.example/' }
sizes:
  big: { cpu: { cores: 8, units: 200 }, memory: { size: 32G, balloon: 16G }, disks: { longhorn: { size: 1T, cache: writeback } } }
defaults:
  worker:
    cpu: { type: host }
    disk: { size: 60G, backup: false }
    datastore: fast
    disks:
      longhorn: { size: 220G, slot: 2, mount: /var/lib/longhorn, backup: false }
    labels: { tier: work }
    patches: [{ machine: { sysctls: { a: '1' } } }]
  controlplane: { bios: ovmf, startup: { order: 1 } }
pools:
  control: { role: controlplane, count: 3 }
  work: { role: worker, count: 2, size: big, tags: [heavy], patches: [pool.yaml] }
  gpu:
    role: worker
    count: 1
    addresses: 10.25.150.41
    pci: [gpu]
    image: { extensions: [siderolabs/nvidia], secure_boot: true }
    taints: { gpu: 'true:NoSchedule' }
  canary: { role: worker, count: 1, addresses: 10.25.150.51, versions: { talos: v1.13.8 } }
  nobody: { role: worker, count: 0, addresses: 10.25.150.61 }
nodes:
  home-work-2: { disks: { longhorn: { size: 500G } }, networks: { storage: { address: 192.168.9.99 }, wild: {} }, annotations: { a: b } }
  metal: { role: worker, address: 10.25.150.90, external: true, network: { dns: [9.9.9.9] } }
patches: [{ machine: { sysctls: { all: '1' } } }]
";

fn resolved(text: &str) -> Blueprint {
    let loaded = load(&[Source::new("c.yaml", text)]);
    let spec = loaded.unwrap_or_else(|failed| panic!("{}", render(&failed.diagnostics))).spec;
    resolve(&spec, None, Some("id")).unwrap_or_else(|problems| panic!("{}", render(&problems)))
}

#[test]
fn disks_inherit_key_by_key() {
    let blueprint = resolved(RICH);
    let disk = |node: &str| blueprint.nodes[node].hardware.disks[0].clone();
    // The partial override keeps slot, mount and backup of the role, and the cache of the size.
    let partial = disk("home-work-2");
    assert_eq!((partial.size_gib, partial.slot, partial.mount.as_str()), (500, 2, "/var/lib/longhorn"));
    assert_eq!((partial.options.cache, partial.options.backup), (Cache::Writeback, false));
    assert_eq!(disk("home-work-1").size_gib, 1024);
    assert_eq!(disk("home-gpu-1").size_gib, 220);
    assert_eq!(disk("home-gpu-1").options.cache, Cache::None);
    assert_eq!(partial.key(), "scsi2");
    assert_eq!(partial.datastore.as_deref(), Some("fast"));
    assert_ne!(partial.wwn, disk("home-work-1").wwn);
    assert!(partial.wwn.starts_with("0x5") && partial.wwn.len() == 18 && partial.serial.len() == 20);
    assert!(blueprint.nodes["home-control-1"].hardware.disks.is_empty());
}

#[test]
fn cpu_memory_and_boot_disk_inherit_key_by_key() {
    let blueprint = resolved(RICH);
    let node = &blueprint.nodes["home-work-1"];
    assert_eq!((node.cores, node.cpu_type.as_str(), node.hardware.cpu_units), (8, "host", Some(200)));
    assert_eq!((node.memory_mib, node.hardware.balloon_mib), (32 * 1024, 16 * 1024));
    assert_eq!((node.disk_gib, node.hardware.boot.options.backup), (60, false));
    assert_eq!(node.disk_datastore.as_deref(), Some("fast"));
    let control = &blueprint.nodes["home-control-1"];
    assert_eq!((control.cores, control.cpu_type.as_str()), (2, "x86-64-v2-AES"));
    assert_eq!((control.hardware.bios, control.hardware.tpm), (Bios::Ovmf, false));
    assert_eq!(control.hardware.startup.unwrap().order, Some(1));
    assert_eq!(control.hardware.balloon_mib, 0);
    assert_eq!(control.hardware.boot.bus, Bus::Scsi);
    assert_eq!(node.hardware.tags, ["heavy", "lab", "talosmith"]);
}

#[test]
fn nodes_that_agree_share_an_image() {
    let blueprint = resolved(RICH);
    let image = |node: &str| blueprint.images[&blueprint.nodes[node].image].clone();
    assert_eq!(blueprint.images.len(), 3);
    assert_eq!(blueprint.nodes["home-control-1"].image, "default");
    assert_eq!(image("home-work-1").extensions, ["siderolabs/a", "siderolabs/b"]);
    let gpu = image("home-gpu-1");
    assert!(gpu.secure_boot && gpu.extensions == ["siderolabs/nvidia"] && gpu.delivery == Delivery::Import);
    assert_eq!(gpu.mirror.as_deref(), Some("https://proxy.example"));
    let secure = &blueprint.nodes["home-gpu-1"].hardware;
    assert!(secure.bios == Bios::Ovmf && secure.tpm && secure.secure_boot);
    assert_eq!(secure.pci[0].mapping, "gpu");
    assert_eq!(
        (image("home-canary-1").talos.as_str(), blueprint.nodes["home-canary-1"].talos.as_str()),
        ("v1.13.8", "v1.13.8")
    );
    assert_eq!(blueprint.nodes["home-canary-1"].kubernetes, "v1.35.4");
}

#[test]
fn networks_give_every_node_its_cards() {
    let blueprint = resolved(RICH);
    let cards = |node: &str| -> Vec<String> {
        let nics = blueprint.nodes[node].settings.extra_nics.iter();
        nics.map(|nic| {
            let address = nic.address.map_or_else(|| "dhcp".to_owned(), |address| address.to_string());
            format!("{} {} {address}", nic.network, nic.bridge)
        })
        .collect()
    };
    assert_eq!(cards("home-control-1"), ["storage vmbr1 192.168.9.11/24"]);
    assert_eq!(cards("home-work-2"), ["storage vmbr1 192.168.9.99/24", "wild vmbr2 dhcp"]);
    assert!(cards("home-gpu-1").is_empty());
    assert_eq!(blueprint.options.etcd_network.unwrap().to_string(), "192.168.9.0/24");
    assert_eq!(blueprint.options.kubelet_network, None);
    assert_eq!(blueprint.nodes["home-control-1"].settings.routes[0].via.to_string(), "10.25.150.2");
    assert_eq!(blueprint.options.contract.as_deref(), Some("v1.12"));
}

#[test]
fn settings_add_up_from_far_to_near() {
    let blueprint = resolved(RICH);
    let node = &blueprint.nodes["home-work-2"];
    assert_eq!(node.settings.patches.len(), 3);
    assert_eq!(node.settings.patches[2].patch, Patch::Text("pool.yaml".into()));
    assert_eq!(node.settings.patches[2].path.to_string(), "pools.work.patches[0]");
    assert_eq!(node.labels["tier"], "work");
    assert_eq!(node.settings.annotations["a"], "b");
    let taint = &blueprint.nodes["home-gpu-1"].settings.taints["gpu"];
    assert_eq!((taint.value.as_str(), taint.effect.as_str()), ("true", "NoSchedule"));
    let metal = &blueprint.nodes["metal"];
    assert!(metal.external && metal.host.is_none() && metal.mac.is_empty());
    assert_eq!(metal.dns[0].to_string(), "9.9.9.9");
}

#[test]
fn a_cluster_of_external_machines_needs_no_proxmox() {
    let text = "cluster: metal
versions: { talos: v1.13.9, kubernetes: v1.35.4 }
network: { cidr: 10.25.150.0/24, gateway: 10.25.150.1 }
kubernetes: { schedule_on_control_planes: true }
nodes: { one: { role: controlplane, address: 10.25.150.5, external: true } }
";
    let inventory = Inventory::default();
    let loaded = load(&[Source::new("c.yaml", text)]).unwrap();
    assert_eq!(render(&loaded.check()), "");
    assert!(resolve(&loaded.spec, Some(&inventory), Some("id")).is_ok());
}

/// No one waits for a CNI plugin that no manifest of the file can bring.
#[test]
fn only_what_runs_pods_can_bring_a_network() {
    let awaits = |inline: &str| {
        let text = "cluster: home
versions: { talos: v1.13.9, kubernetes: v1.35.4 }
proxmox: { endpoint: 'https://pve1:8006' }
network: { cidr: 10.25.150.0/24, gateway: 10.25.150.1, vip: 10.25.150.10 }
pools: { control: { role: controlplane, count: 3 }, work: { role: worker, count: 1 } }
kubernetes: { cni: none }
";
        resolved(&format!("{text}manifests: {{ inline: {{ one: '{inline}' }} }}\n")).awaits_network()
    };
    assert!(awaits("{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}"));
    assert!(!awaits("{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: a}}"));
}

#[test]
fn round_robin_takes_hosts_in_the_order_written() {
    let text = "cluster: home
versions: { talos: v1.13.9, kubernetes: v1.35.4 }
proxmox: { endpoint: 'https://pve1:8006' }
network: { cidr: 10.25.150.0/24, gateway: 10.25.150.1, vip: 10.25.150.10 }
pools:
  control: { role: controlplane, count: 3, hosts: [c, a, b], placement: round-robin }
  work: { role: worker, count: 5, hosts: [b, a], placement: round-robin }
";
    let blueprint = resolved(text);
    let hosts: Vec<&str> = blueprint.nodes.values().filter_map(|node| node.host.as_deref()).collect();
    assert_eq!(hosts.join(" "), "c a b b a b a b");
}

#[test]
fn a_datastore_that_a_node_names_must_be_there() {
    let loaded = load(&[Source::new("c.yaml", RICH)]).unwrap();
    let store = crate::blueprint::InventoryDatastore {
        content: vec!["images".into(), "import".into()],
        ..Default::default()
    };
    let host = crate::blueprint::InventoryHost {
        online: true,
        datastores: [("slow".to_owned(), store)].into(),
        ..Default::default()
    };
    let inventory = Inventory { hosts: [("pve1".to_owned(), host)].into() };
    let problems = resolve(&loaded.spec, Some(&inventory), Some("id")).unwrap_err();
    insta::assert_snapshot!(render(&loaded.locate(problems)), @"
error[TS0507] the datastore `fast` on `pve1` does not exist and cannot take content `images`
  at c.yaml:20:16+4 defaults.worker.datastore
  help: use `slow`
");
}

/// A file with that many workers, data disks and extra networks.
fn shaped(workers: u32, disks: &[u32], networks: u32) -> String {
    let disks: Vec<String> =
        disks.iter().map(|slot| format!("d{slot}: {{ size: 10G, slot: {slot} }}")).collect();
    let networks: Vec<String> =
        (0..networks).map(|n| format!("n{n}: {{ cidr: 192.168.{n}.0/24, bridge: vmbr{n} }}")).collect();
    format!(
        "cluster: home
versions: {{ talos: v1.13.9, kubernetes: v1.35.4 }}
proxmox: {{ endpoint: 'https://pve1:8006' }}
network: {{ cidr: 10.25.150.0/24, gateway: 10.25.150.1, vip: 10.25.150.10, extra: {{ {} }} }}
pools:
  control: {{ role: controlplane, count: 3 }}
  work: {{ role: worker, count: {workers}, disks: {{ {} }} }}
",
        networks.join(", "),
        disks.join(", ")
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    /// One node, one disk or one network more changes nothing that was there, and nothing is given twice.
    #[test]
    fn more_of_anything_moves_nothing(
        workers in 1..40u32,
        slots in proptest::collection::btree_set(1..30u32, 1..6),
        networks in 0..4u32,
    ) {
        let slots: Vec<u32> = slots.into_iter().collect();
        let before = resolved(&shaped(workers, &slots[1..], networks));
        let after = resolved(&shaped(workers + 1, &slots, networks + 1));
        let mut wwns = std::collections::BTreeSet::new();
        let mut cards = std::collections::BTreeSet::new();
        for (name, node) in &before.nodes {
            let same = &after.nodes[name];
            prop_assert_eq!((&node.mac, node.address, node.vmid, node.uuid), (&same.mac, same.address, same.vmid, same.uuid));
            for disk in &node.hardware.disks {
                prop_assert!(same.hardware.disks.contains(disk));
            }
            for nic in &node.settings.extra_nics {
                prop_assert!(same.settings.extra_nics.contains(nic));
            }
        }
        for node in after.nodes.values() {
            prop_assert!(node.hardware.disks.iter().all(|disk| wwns.insert(disk.wwn.clone())));
            prop_assert!(node.settings.extra_nics.iter().all(|nic| cards.insert(nic.mac.clone())));
            prop_assert!(cards.insert(node.mac.clone()));
        }
    }
}
