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
    storage: { cidr: 172.20.0.0/24, bridge: vmbr8, model: e1000, mtu: 9000 }
    upstream: { dhcp: true, bridge: vmbr9, vlan: 30 }
image: { secure_boot: true }
kubernetes: { schedule_on_control_planes: true }
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
    let macs: Vec<&str> = node.settings.extra_nics.iter().map(|nic| nic.mac.as_str()).collect();
    let text = lines.join("\n").replace(macs[0], "MAC-1").replace(macs[1], "MAC-2");
    insta::assert_snapshot!(text.replace(&node.uuid.unwrap().to_string(), "UUID"), @"
    agent: 1
    balloon: 8192
    bios: ovmf
    boot: order=virtio0
    cores: 6
    cpu: host
    cpuunits: 200
    hostpci0: mapping=gpu,pcie=1,rombar=1,x-vga=0
    hostpci1: mapping=nic,pcie=0,rombar=0,x-vga=1
    ipconfig0: ip=10.25.150.11/24,gw=10.25.150.1
    ipconfig1: ip=172.20.0.11/24
    ipconfig2: ip=dhcp
    machine: q35
    memory: 16384
    name: one
    nameserver: 10.25.150.2 9.9.9.9
    net0: virtio=BC:24:11:00:00:01,bridge=vmbr7,tag=20,mtu=9000
    net1: e1000=MAC-1,bridge=vmbr8
    net2: virtio=MAC-2,bridge=vmbr9,tag=30
    onboot: 0
    ostype: l26
    scsihw: virtio-scsi-single
    serial0: socket
    smbios1: uuid=UUID
    sockets: 1
    startup: order=2,up=30,down=60
    vga: virtio
    ");
    let drives = drives(&node);
    let line =
        |drive: &Drive| format!("{}: {}", drive.key, drive.creation("local:import/talos.qcow2").unwrap());
    let mut text = drives.iter().map(line).collect::<Vec<_>>().join("\n");
    for disk in &node.hardware.disks {
        text = text.replace(&disk.wwn, "WWN").replace(&disk.serial, "SERIAL");
    }
    insta::assert_snapshot!(text, @"
    virtio0: fast:0,import-from=local:import/talos.qcow2,backup=0,cache=writeback,discard=ignore,iothread=0
    scsi3: big:220,backup=1,cache=unsafe,discard=on,iothread=1,ssd=0,wwn=WWN
    virtio2: fast:5,backup=1,cache=none,discard=on,iothread=1,serial=SERIAL
    sata1: fast:10,backup=1,cache=none,discard=on,ssd=1,wwn=WWN
    efidisk0: fast:1,efitype=4m,pre-enrolled-keys=0
    tpmstate0: fast:1,version=v2.0
    ide2: slow:cloudinit
    ");
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
