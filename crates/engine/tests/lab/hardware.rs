//! Everything that the file can say about a VM reaches Proxmox, is not found different afterwards, and costs few calls.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use lab::{CallMoment, Verdict};
use model::event::Outcome;

use crate::client::machine;
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
    let config = rig.systems.pve.vm_config("pve1", 150_011).await.unwrap();
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
    let other = rig.systems.pve.vm_config("pve2", 4711).await.unwrap();
    assert!(other.get("net0").unwrap().starts_with("e1000="), "{other:?}");
    rig.assert_nothing_to_do(RICH).await;
}

/// What needs more of Proxmox than a plain host has: bridges, a pool, a device, another datastore.
const WIRED: &str = "\
cluster: wired
versions: { talos: v1.13.9, kubernetes: v1.35.4 }
proxmox: { endpoint: 'https://pve1:8006', pool: k8s }
network:
  cidr: 10.25.150.0/24
  gateway: 10.25.150.1
  vip: 10.25.150.10
  vlan: 20
  mtu: 9000
  extra:
    storage: { cidr: 172.20.0.0/24, bridge: vmbr1, vlan: 30, mtu: 9000, model: e1000 }
image: { secure_boot: true }
kubernetes: { schedule_on_control_planes: true }
nodes:
  one:
    role: controlplane
    host: pve1
    address: 10.25.150.11
    disks:
      data: { size: 220G, slot: 3, datastore: local, cache: unsafe, ssd: false, mount: /var/lib/data }
      old: { size: 10G, bus: sata, discard: false, backup: false }
      block: { size: 5G, bus: virtio, slot: 2, iothread: false }
    pci: [{ mapping: gpu, rombar: false, primary: true }]
";

#[tokio::test(start_paused = true)]
async fn cards_disks_devices_and_pools_are_found_in_proxmox() {
    let mut config = lab::LabConfig { pools: vec!["k8s".to_owned()], ..lab::LabConfig::default() };
    let host = &mut config.hosts[0];
    host.bridges.push("vmbr1".to_owned());
    host.storages[0].content.push("images".to_owned());
    let rig = Rig::with(config);
    let pve = &rig.systems.pve;
    let device = "node=pve1,path=0000:01:00.0,id=10de:2204,iommugroup=11,subsystem-id=10de:1467";
    pve.create_pci_mapping("gpu", &[device.to_owned()]).await.unwrap();
    let ran = rig.apply(WIRED).await;
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    let config = pve.vm_config("pve1", 150_011).await.unwrap();
    let net = |key: &str| config.get(key).unwrap_or_default().to_owned();
    let has = |key: &str, all: &[&str]| all.iter().all(|part| net(key).split(',').any(|is| is == *part));
    assert!(has("net0", &["bridge=vmbr0", "tag=20", "mtu=9000"]), "{}", net("net0"));
    assert!(net("net1").starts_with("e1000=") && has("net1", &["bridge=vmbr1", "tag=30"]), "{}", net("net1"));
    assert_eq!(net("ipconfig1"), "ip=172.20.0.11/24");
    assert!(has("hostpci0", &["mapping=gpu", "pcie=1", "rombar=0", "x-vga=1"]), "{}", net("hostpci0"));
    assert_eq!(net("bios"), "ovmf");
    for (key, gib, store, options) in [
        ("scsi3", 220, "local:", [("cache", "unsafe"), ("ssd", "0"), ("discard", "on")]),
        ("sata1", 10, "local-lvm:", [("cache", "none"), ("discard", "ignore"), ("backup", "0")]),
        ("virtio2", 5, "local-lvm:", [("cache", "none"), ("discard", "on"), ("iothread", "0")]),
    ] {
        let disk = config.drive(key).unwrap();
        assert_eq!(disk.size, Some(gib << 30), "{key}");
        assert!(config.get(key).unwrap().starts_with(store), "{key}");
        for (option, value) in options {
            assert_eq!(disk.options.get(option), Some(value), "{key} {option}");
        }
    }
    assert_eq!(config.drive("efidisk0").unwrap().options.get("pre-enrolled-keys"), Some("0"));
    assert_eq!(config.drive("tpmstate0").unwrap().options.get("version"), Some("v2.0"));
    let snapshot = rig.observe(WIRED).await;
    let vm = snapshot.observed.proxmox.marked.iter().find(|vm| vm.vmid == 150_011).unwrap();
    assert_eq!(vm.pool.as_deref(), Some("k8s"));
    rig.assert_nothing_to_do(WIRED).await;
}

#[tokio::test(start_paused = true)]
async fn nodes_can_be_copies_of_templates() {
    let rig = Rig::new();
    let file = HOME.replace("pools:", "image: { delivery: template }\npools:");
    let ran = rig.apply(&file).await;
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    assert_eq!(rig.etcd_clusters(), 1);
    rig.assert_nothing_to_do(&file).await;
    let snapshot = rig.observe(&file).await;
    let owner = model::mark::Mark::owner_of(snapshot.blueprint.cluster_id.as_deref().unwrap());
    let templates = snapshot.observed.proxmox.templates(owner).count();
    assert_eq!(templates, 5, "control plane nodes on three hosts, workers on two");
    let config = rig.systems.pve.vm_config("pve1", 150_011).await.unwrap();
    assert_eq!(config.mac(0).as_deref(), Some(snapshot.blueprint.nodes["home-control-1"].mac.as_str()));
    // Copies go with the cluster, and so do the templates.
    let ran = rig.carry_out(&snapshot, &snapshot.plan_destroy(), "me").await.unwrap();
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
    rig.observe(file).await;
    calls.load(Ordering::Relaxed)
}

#[tokio::test(start_paused = true)]
async fn a_look_costs_three_calls_and_one_for_each_node_and_datastore() {
    let rig = Rig::new();
    // Images and disks, on three hosts.
    let pairs = 2 * 3;
    assert!(
        calls_of_a_look(&rig, HOME).await <= 3 + 5 + pairs + 6 + 3,
        "nothing is there yet; whether the IDs of five nodes and the record are in use is asked, and the room on three hosts"
    );
    rig.apply(HOME).await;
    assert_eq!(calls_of_a_look(&rig, HOME).await, 3 + 5, "version, list, record, nodes");
    let grown = HOME.replace("count: 2", "count: 3");
    assert!(
        calls_of_a_look(&rig, &grown).await <= 3 + 6 + 2 + 1 + 1,
        "one node more, the length of its image, whether its ID is in use, and the room on its host"
    );
}

/// A machine accepts a configuration with a volume that it finds no disk for, so what counts is the volume.
#[tokio::test(start_paused = true)]
async fn a_data_disk_that_is_added_to_a_running_node_is_mounted() {
    let file = HOME.replace("role: worker,", "role: worker, disks: { data: { size: 10G } },");
    let (rig, before) = (Rig::healthy().await, Rig::healthy().await.boots());
    let ran = rig.apply(&file).await;
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    assert_eq!(rig.boots(), before);
    let volumes = async |name: &str| {
        let found = machine(&rig, "10.25.150.21").volumes().await.unwrap();
        found
            .into_iter()
            .find(|volume| volume.name == name)
            .map(|volume| (volume.phase, volume.error_message))
    };
    assert_eq!(volumes("u-data").await, Some(("ready".to_owned(), String::new())));
}

/// Where the file asks for it and the VM was started for it, no machine restarts.
#[tokio::test(start_paused = true)]
async fn memory_is_added_while_a_node_runs() {
    let file = |memory: &str| HOME.replace("role: worker,", &format!("role: worker, memory: {memory},"));
    let rig = Rig::healthy().await;
    let prepared = file("{ size: 8G, hotplug: true }");
    let plan = rig.observe(&prepared).await.plan();
    assert_eq!(plan.units.len(), 2, "the VMs were not started for it");
    let ran = rig.apply(&prepared).await;
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    let (before, more) = (rig.boots(), file("{ size: 10G, hotplug: true }"));
    assert_eq!(rig.observe(&more).await.plan().units, []);
    let ran = rig.apply(&more).await;
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    assert_eq!(rig.boots(), before);
    for vmid in [150_021, 150_022] {
        let configs = rig.systems.pve.vm_configs(&rig.host_of(vmid).await, vmid).await.unwrap();
        assert_eq!((configs.now.get("memory"), configs.next.get("memory")), (Some("10240"), Some("10240")));
    }
    rig.assert_nothing_to_do(&more).await;
    assert_eq!(rig.observe(&prepared).await.plan().units.len(), 2, "less is a power cycle");
}
