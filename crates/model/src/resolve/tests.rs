//! What a file becomes, and what holds for every file.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::blueprint::{InventoryDatastore, InventoryHost};
use crate::diagnostic::{Source, render};
use crate::load::load;

const SMALLEST: &str = "cluster: home
versions: { talos: v1.13.9, kubernetes: v1.35.4 }
proxmox: { endpoint: https://pve1:8006 }
network: { cidr: 10.25.150.0/24, gateway: 10.25.150.1, vip: 10.25.150.10 }
pools:
  control: { role: controlplane, count: 3 }
  work:    { role: worker, count: 2 }
";

fn spec(text: &str) -> Spec {
    let loaded = load(&[Source::new("c.yaml", text)]);
    loaded.unwrap_or_else(|failed| panic!("{}", render(&failed.diagnostics))).spec
}

fn blueprint(text: &str, inventory: Option<&Inventory>) -> Blueprint {
    resolve(&spec(text), inventory, Some("id-1")).unwrap_or_else(|problems| panic!("{}", render(&problems)))
}

fn problems(text: &str, inventory: &Inventory) -> String {
    render(&resolve(&spec(text), Some(inventory), None).expect_err("should not resolve"))
}

fn table(blueprint: &Blueprint) -> String {
    let open = |text: &Option<String>| text.clone().unwrap_or("?".into());
    let mut rows = vec![format!(
        "{} {} {} {}",
        blueprint.record.name,
        blueprint.record.vmid,
        open(&blueprint.record.host),
        blueprint.endpoint
    )];
    for n in blueprint.nodes.values() {
        let (host, disks, image) = (open(&n.host), open(&n.disk_datastore), open(&n.image_datastore));
        rows.push(format!(
            "{} {} {} {} {} {}c {}M {}G {host} {disks} {image}",
            n.name, n.role, n.address, n.vmid, n.mac, n.cores, n.memory_mib, n.disk_gib
        ));
    }
    rows.join("\n")
}

fn host(memory_mib: u64, stores: &[(&str, &[&str])]) -> InventoryHost {
    let store = |content: &[&str]| InventoryDatastore {
        content: content.iter().map(|c| (*c).to_owned()).collect(),
        ..InventoryDatastore::default()
    };
    InventoryHost {
        online: true,
        memory_mib,
        memory_used_mib: 0,
        datastores: stores.iter().map(|(name, content)| ((*name).to_owned(), store(content))).collect(),
        bridges: vec!["vmbr0".to_owned()],
        ..InventoryHost::default()
    }
}

fn inventory(hosts: &[(&str, InventoryHost)]) -> Inventory {
    Inventory { hosts: hosts.iter().map(|(name, host)| ((*name).to_owned(), host.clone())).collect() }
}

const USUAL: &[(&str, &[&str])] =
    &[("local", &["iso", "import", "images"]), ("local-lvm", &["images", "rootdir"])];

#[test]
fn the_smallest_file_without_proxmox_leaves_hosts_open() {
    insta::assert_snapshot!(table(&blueprint(SMALLEST, None)), @"
home-record 150010 ? https://10.25.150.10:6443
home-control-1 controlplane 10.25.150.11/24 150011 BC:24:11:A1:B3:F7 2c 4096M 20G ? ? ?
home-control-2 controlplane 10.25.150.12/24 150012 BC:24:11:16:4A:77 2c 4096M 20G ? ? ?
home-control-3 controlplane 10.25.150.13/24 150013 BC:24:11:3B:3B:82 2c 4096M 20G ? ? ?
home-work-1 worker 10.25.150.21/24 150021 BC:24:11:F5:31:BB 4c 8192M 40G ? ? ?
home-work-2 worker 10.25.150.22/24 150022 BC:24:11:86:5A:B9 4c 8192M 40G ? ? ?
");
}

#[test]
fn proxmox_decides_the_rest() {
    let hosts =
        inventory(&[("pve1", host(1000, USUAL)), ("pve2", host(2000, USUAL)), ("pve3", host(1000, USUAL))]);
    insta::assert_snapshot!(table(&blueprint(SMALLEST, Some(&hosts))), @"
home-record 150010 pve2 https://10.25.150.10:6443
home-control-1 controlplane 10.25.150.11/24 150011 BC:24:11:A1:B3:F7 2c 4096M 20G pve2 local-lvm local
home-control-2 controlplane 10.25.150.12/24 150012 BC:24:11:16:4A:77 2c 4096M 20G pve1 local-lvm local
home-control-3 controlplane 10.25.150.13/24 150013 BC:24:11:3B:3B:82 2c 4096M 20G pve3 local-lvm local
home-work-1 worker 10.25.150.21/24 150021 BC:24:11:F5:31:BB 4c 8192M 40G pve2 local-lvm local
home-work-2 worker 10.25.150.22/24 150022 BC:24:11:86:5A:B9 4c 8192M 40G pve1 local-lvm local
");
}

#[test]
fn what_is_written_wins_key_by_key() {
    let text = "cluster: lab
versions: { talos: 1.14.0, kubernetes: 1.36.1 }
proxmox: { endpoint: https://pve1:8006, tags: [zoo, alpha], pool: prod, region: r }
network: { cidr: 192.168.0.0/16, gateway: 192.168.0.1, dns: [192.168.0.1], vlan: 7 }
hosts:
  pve1: { datastores: { disks: fast, image: nas }, zone: a }
  pve2: { zone: b, weight: 3 }
sizes: { big: { cpu: 8, memory: 32G } }
defaults: { worker: { disk: 100G } }
pools:
  control: { role: controlplane, count: 1, vmids: 500, hosts: [pve1] }
  work: { role: worker, count: 4, size: big, memory: 16G, labels: { a: pool, b: pool } }
nodes:
  lab-work-2: { host: pve1, cpu: 16, labels: { b: node } }
  lone: { role: worker, address: 192.168.9.9, mac: 'aa:00:00:00:00:01', vmid: 9009, disk: 1T }
  more: { pool: work, address: 192.168.9.10, size: big }
";
    let blueprint = blueprint(text, None);
    insta::assert_snapshot!(table(&blueprint), @"
lab-record 1000500 pve1 https://192.168.0.11:6443
lab-control-1 controlplane 192.168.0.11/16 500 BC:24:11:35:1F:F0 2c 4096M 20G pve1 fast nas
lab-work-1 worker 192.168.0.21/16 256021 BC:24:11:14:9C:D2 8c 16384M 100G pve2 ? ?
lab-work-2 worker 192.168.0.22/16 256022 BC:24:11:BA:23:97 16c 16384M 100G pve1 fast nas
lab-work-3 worker 192.168.0.23/16 256023 BC:24:11:B6:92:07 8c 16384M 100G pve1 fast nas
lab-work-4 worker 192.168.0.24/16 256024 BC:24:11:86:34:54 8c 16384M 100G pve2 ? ?
lone worker 192.168.9.9/16 9009 AA:00:00:00:00:01 4c 8192M 1024G pve2 ? ?
more worker 192.168.9.10/16 9010 BC:24:11:4F:5E:EB 8c 32768M 100G pve2 ? ?
");
    assert_eq!(blueprint.tags, ["alpha", "talosmith", "zoo"]);
    assert_eq!(blueprint.images["default"].talos, "v1.14.0");
    let node = &blueprint.nodes["lab-work-2"];
    assert!(node.host_pinned && node.pool.as_deref() == Some("work"));
    let labels: Vec<String> = node.labels.iter().map(|(k, v)| format!("{k}={v}")).collect();
    let topology = ["topology.kubernetes.io/region=r", "topology.kubernetes.io/zone=a"];
    assert_eq!(labels, ["a=pool", "b=node", topology[0], topology[1]]);
}

#[test]
fn what_proxmox_lacks_is_said_by_name() {
    let bare = inventory(&[("pve1", host(1, &[("local", &["iso"])])), ("pve2", host(1, USUAL))]);
    insta::assert_snapshot!(problems(SMALLEST, &bare), @"
error[TS0507] no datastore on `pve1` takes content `images`
  at ? hosts.pve1
  help: in Proxmox, allow content `images` on a datastore of `pve1`: Datacenter, Storage, Edit, Content; if one has it, the token lacks Datastore.Audit there
error[TS0507] no datastore on `pve1` takes content `import`
  at ? hosts.pve1
  help: in Proxmox, allow content `import` on a datastore of `pve1`: Datacenter, Storage, Edit, Content; if one has it, the token lacks Datastore.Audit there
");
    let named = format!(
        "{SMALLEST}hosts: {{ pve2: {{ datastores: {{ disks: ceph, image: local-lvm }} }}, pve: {{}} }}\n"
    );
    insta::assert_snapshot!(problems(&named, &bare), @"
error[TS0508] Proxmox has no host called `pve`
  at ? hosts.pve
  help: did you mean `pve1`?
");
    insta::assert_snapshot!(problems(&named.replace(", pve: {}", ""), &bare), @"
error[TS0507] the datastore `ceph` on `pve2` does not exist and cannot take content `images`
  at ? hosts.pve2.datastores.disks
  help: use `local` or `local-lvm`
error[TS0507] the datastore `local-lvm` on `pve2` does not take content `import`
  at ? hosts.pve2.datastores.image
  help: use `local`
");
    let mut dark = bare;
    dark.hosts.values_mut().for_each(|host| host.online = false);
    // What offline hosts have is not known: a cluster that exists must still be resolved. The plan refuses to create a node.
    for file in [SMALLEST.to_owned(), format!("{SMALLEST}nodes: {{ home-work-1: {{ host: pve2 }} }}\n")] {
        let open = resolve(&spec(&file), Some(&dark), None).unwrap();
        let pinned = open.nodes.values().filter(|node| node.host.is_some());
        assert!(pinned.clone().all(|node| node.name == "home-work-1"), "{file}");
        assert!(pinned.clone().all(|node| node.disk_datastore.is_some()), "{file}: its list is still known");
    }
    dark.hosts.values_mut().for_each(|host| host.datastores.clear());
    let pinned = format!("{SMALLEST}nodes: {{ home-work-1: {{ host: pve2 }} }}\n");
    let open = resolve(&spec(&pinned), Some(&dark), None).unwrap();
    assert_eq!(open.nodes["home-work-1"].disk_datastore, None, "it is open, and not missing");
}

#[test]
fn left_12_the_record_is_not_put_on_a_host_that_is_off() {
    let mut hosts = inventory(&[("pve1", host(1, USUAL)), ("pve2", host(1, USUAL))]);
    hosts.hosts.get_mut("pve2").unwrap().online = false;
    let pinned = spec(&format!("{SMALLEST}nodes: {{ home-control-1: {{ host: pve2 }} }}\n"));
    let blueprint = resolve(&pinned, Some(&hosts), None).unwrap();
    assert_eq!(blueprint.nodes["home-control-1"].host.as_deref(), Some("pve2"));
    assert_eq!(blueprint.record.host.as_deref(), Some("pve1"));
}

#[test]
fn a_file_with_an_error_has_no_blueprint() {
    let wrong = spec(&SMALLEST.replace("10.25.150.1,", "10.25.151.1,"));
    let found = resolve(&wrong, None, None).unwrap_err();
    assert_eq!(found[0].code, codes::OUTSIDE_NETWORK);
    let even = spec(&SMALLEST.replace("count: 3", "count: 4"));
    assert!(resolve(&even, None, None).is_ok(), "a warning does not refuse");
}

#[test]
fn two_clusters_of_one_name_share_cards_but_no_identity() {
    let one = resolve(&spec(SMALLEST), None, Some("id-1")).unwrap();
    let other = resolve(&spec(SMALLEST), None, Some("id-2")).unwrap();
    let before = resolve(&spec(SMALLEST), None, None).unwrap();
    let node = "home-control-1";
    assert_eq!(one.nodes[node].mac, before.nodes[node].mac);
    assert_ne!(one.nodes[node].uuid, other.nodes[node].uuid);
    assert_ne!(one.record.uuid, other.record.uuid);
    assert_eq!(before.nodes[node].uuid, None);
}

#[test]
fn without_a_vip_the_record_stands_beside_the_lowest_control_plane() {
    let text = SMALLEST.replace(", vip: 10.25.150.10", "");
    let blueprint = blueprint(&text, None);
    assert_eq!(blueprint.record.vmid, 1_150_011);
    assert_eq!(blueprint.endpoint, "https://10.25.150.11:6443");
}

/// A cluster with a number of hosts, control planes, two worker pools and some named workers.
#[derive(Debug, Clone)]
struct Shape {
    hosts: usize,
    control: u32,
    work: u32,
    extra: u32,
    named: u32,
}

impl Shape {
    fn spec(&self) -> Spec {
        let mut text = SMALLEST
            .replace("count: 3", &format!("count: {}", self.control))
            .replace("worker, count: 2", &format!("worker, count: {}", self.work));
        text.push_str(&format!(
            "  extra: {{ role: worker, count: {}, addresses: 10.25.150.101 }}\n",
            self.extra
        ));
        text.push_str("kubernetes: { schedule_on_control_planes: true }\nhosts:\n");
        (1..=self.hosts).for_each(|i| text.push_str(&format!("  pve{i}: {{ weight: {i} }}\n")));
        text.push_str("nodes: {");
        (0..self.named).for_each(|i| {
            let address = 200 + i;
            text.push_str(&format!(" n{i}: {{ role: worker, host: pve1, address: 10.25.150.{address} }},"));
        });
        text.push_str("}\n");
        spec(&text)
    }

    fn resolved(&self) -> Blueprint {
        resolve(&self.spec(), None, Some("id")).unwrap_or_else(|problems| panic!("{}", render(&problems)))
    }
}

fn shape() -> impl Strategy<Value = Shape> {
    (1..6usize, 1..8u32, 0..40u32, 0..40u32, 0..20u32)
        .prop_map(|(hosts, control, work, extra, named)| Shape { hosts, control, work, extra, named })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_same_file_gives_the_same_blueprint(shape in shape()) {
        prop_assert_eq!(shape.resolved(), shape.resolved());
    }

    #[test]
    fn one_node_more_changes_no_other(shape in shape(), which in 0..4u8) {
        let mut grown = shape.clone();
        match which {
            0 => grown.control += 1,
            1 => grown.work += 1,
            2 => grown.extra += 1,
            _ => grown.named += 1,
        }
        let (before, after) = (shape.resolved(), grown.resolved());
        prop_assert_eq!(before.nodes.len() + 1, after.nodes.len());
        for (name, node) in &before.nodes {
            prop_assert_eq!(node, &after.nodes[name]);
        }
        prop_assert_eq!(before.record, after.record);
    }

    #[test]
    fn nothing_is_given_twice(shape in shape()) {
        let blueprint = shape.resolved();
        let nodes = || blueprint.nodes.values();
        let count = blueprint.nodes.len();
        prop_assert_eq!(nodes().map(|n| n.address).collect::<BTreeSet<_>>().len(), count);
        prop_assert_eq!(nodes().map(|n| n.mac.clone()).collect::<BTreeSet<_>>().len(), count);
        let ids = nodes().map(|n| n.vmid).chain([blueprint.record.vmid]);
        prop_assert_eq!(ids.collect::<BTreeSet<_>>().len(), count + 1);
        let uuids = nodes().map(|n| n.uuid).chain([blueprint.record.uuid]);
        prop_assert_eq!(uuids.collect::<BTreeSet<_>>().len(), count + 1);
    }

    #[test]
    fn control_planes_spread_before_any_host_has_two(shape in shape()) {
        let blueprint = shape.resolved();
        let on = |i: usize| {
            let host = format!("pve{i}");
            blueprint.control_planes().filter(|n| n.host.as_ref() == Some(&host)).count()
        };
        let counts: Vec<usize> = (1..=shape.hosts).map(on).collect();
        let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
        prop_assert!(most - least <= 1, "{counts:?}");
    }
}
