//! Everything that the file can say about a VM, found again in Proxmox' words.

use super::*;
use crate::diagnostic::Source;

const FILE: &str = "
cluster: home
versions: { talos: v1.13.9, kubernetes: v1.35.4 }
proxmox: { endpoint: 'https://pve1:8006', tags: [prod] }
network:
  cidr: 10.25.150.0/24
  gateway: 10.25.150.1
  bridge: vmbr7
  vlan: 20
  mtu: 9000
  dns: [10.25.150.2, 9.9.9.9]
  extra:
    storage: { cidr: 10.99.0.0/24, bridge: vmbr8, model: e1000, mtu: 9000 }
    upstream: { dhcp: true, bridge: vmbr9, vlan: 30 }
image: { secure_boot: true }
hosts:
  pve1: { datastores: { disks: fast, cloudinit: slow, image: local } }
nodes:
  one:
    role: controlplane
    host: pve1
    address: 10.25.150.11
    vmid: 4711
    mac: BC:24:11:00:00:01
    cpu: { cores: 6, type: host, units: 200 }
    memory: { size: 16G, balloon: 8G }
    disk: { size: 40G, bus: virtio, cache: writeback, discard: false, iothread: false, backup: false }
    disks:
      data: { size: 220G, slot: 3, datastore: big, cache: unsafe, ssd: false }
      old: { size: 10G, bus: sata }
      block: { size: 5G, bus: virtio, slot: 2 }
    pci: [gpu, { mapping: nic, pcie: false, rombar: false, primary: true }]
    machine: q35
    display: virtio
    start_on_boot: false
    startup: { order: 2, up: 30, down: 60 }
    tags: [k8s]
    description: runs the post office
";

fn node() -> (Blueprint, Node) {
    let spec = crate::load::load(&[Source::new("cluster.yaml", FILE)]).unwrap().spec;
    let blueprint = crate::resolve::resolve(&spec, None, Some("abc=")).unwrap();
    let node = blueprint.nodes["one"].clone();
    (blueprint, node)
}

#[test]
fn everything_the_file_says_is_there() {
    let (blueprint, node) = node();
    let settings = settings(&blueprint, &node);
    let lines: Vec<String> = settings.iter().map(|(key, value)| format!("{key}: {value}")).collect();
    insta::assert_snapshot!(lines.join("\n"));
    let lines: Vec<String> = drives(&node)
        .iter()
        .map(|drive| format!("{}: {}", drive.key, drive.creation("local:import/talos.qcow2").unwrap()))
        .collect();
    insta::assert_snapshot!(lines.join("\n"));
    assert_eq!(node.hardware.tags, ["k8s", "prod", "talosmith"]);
    assert_eq!(node.hardware.description.as_deref(), Some("runs the post office"));
}

#[test]
fn nothing_said_is_right_by_default() {
    let (blueprint, mut node) = node();
    node.hardware = crate::blueprint::Hardware::default();
    node.settings = crate::blueprint::NodeSettings::default();
    let settings = settings(&blueprint, &node);
    for (key, value) in [
        ("machine", "q35"),
        ("bios", "seabios"),
        ("balloon", "0"),
        ("scsihw", "virtio-scsi-single"),
        ("boot", "order=scsi0"),
        ("serial0", "socket"),
        ("onboot", "1"),
        ("agent", "1"),
    ] {
        assert_eq!(settings.get(key).map(String::as_str), Some(value), "{key}");
    }
    let drives = drives(&node);
    assert_eq!(
        drives[0].creation("i").unwrap(),
        "fast:0,import-from=i,backup=1,cache=none,discard=on,iothread=1,ssd=1"
    );
    assert_eq!(drives.len(), 2, "no EFI disk, no TPM");
}
