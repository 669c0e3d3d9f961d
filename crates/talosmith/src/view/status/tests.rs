//! The page on a hand-made cluster of one control plane and two workers, one of which is missing.

use std::collections::BTreeMap;

use model::blueprint::{InventoryDatastore, InventoryHost};
use model::diagnostic::Source;
use model::mark::{BootstrapMark, Lease, RecordState};
use model::observed::{Guest, KubernetesNode, RecordSeen, Unseen};

use super::super::plan::tests::{one_more, plan_of};
use super::*;

const FILE: &str = "
cluster: home
versions: { talos: v1.13.9, kubernetes: v1.35.4 }
proxmox: { endpoint: 'https://pve1:8006' }
network: { cidr: 10.25.150.0/24, gateway: 10.25.150.1, vip: 10.25.150.10 }
pools:
  control: { role: controlplane, count: 1 }
  work: { role: worker, count: 2 }
";

fn blueprint() -> Blueprint {
    let loaded = model::load::load(&[Source::new("cluster.yaml", FILE)]).unwrap();
    let mut blueprint = model::resolve::resolve(&loaded.spec, None, Some("abc=")).unwrap();
    for node in blueprint.nodes.values_mut() {
        node.host = Some("pve1".into());
    }
    blueprint
}

fn vm(name: &str, vmid: u32) -> Vm {
    let mark = Mark { cluster: "home".into(), owner: Mark::owner_of("abc="), node: name.into() };
    Vm {
        vmid,
        // Moved by somebody: the page shows where it is, not where it was made.
        host: "pve2".into(),
        name: name.into(),
        running: true,
        lock: None,
        uuid: None,
        mark,
        pool: None,
        config: BTreeMap::new(),
        pending: BTreeMap::new(),
    }
}

fn observed() -> Observed {
    let mut seen = Observed::default();
    let store = InventoryDatastore { content: vec!["images".into()], shared: false, free_bytes: 180 << 30 };
    for (name, online) in [("pve1", true), ("pve2", false)] {
        let datastores = [("local-zfs".to_owned(), store.clone())].into();
        let host = InventoryHost { online, memory_mib: 65_536, datastores, ..InventoryHost::default() };
        seen.proxmox.inventory.hosts.insert(name.into(), host);
    }
    seen.proxmox.taken.insert(100, Guest { name: None, host: "pve1".into(), lock: None });
    seen.proxmox.marked = vec![vm("home-control-1", 150_011), vm("home-work-1", 150_021)];
    let at = "2026-01-01T00:00:00Z".parse().unwrap();
    let lease = Lease {
        holder: "eva@laptop\u{1b}[2J".into(),
        nonce: "1".into(),
        since: at,
        expires: "2026-01-01T00:05:00Z".parse().unwrap(),
    };
    let bootstrap = BootstrapMark { node: "home-control-1".into(), at, done: true };
    let state = RecordState { lease: Some(lease), bootstrap: Some(bootstrap), turns: 1 };
    seen.proxmox.record = Some(RecordSeen { vmid: 150_000, host: "pve1".into(), state });
    let mut control = Machine::with(Api::Configured);
    control.talos = Some("v1.13.9".into());
    control.stage = Some("running".into());
    control.ready = true;
    control.etcd = Etcd::Member { id: "1f".into(), learner: false };
    seen.machines.insert("home-control-1".into(), control);
    seen.machines.insert("home-work-1".into(), Machine::silent("connection refused"));
    seen.kubernetes.answered = true;
    let known =
        KubernetesNode { ready: true, version: "v1.35.4".into(), schedulable: true, uninitialized: false };
    seen.kubernetes.nodes.insert("home-control-1".into(), known);
    seen.unseen.push(Unseen { what: "home-work-1".into(), why: "connection refused".into() });
    seen
}

#[test]
fn the_page_fits_a_hundred_columns_and_says_what_is_not_known() {
    let mut plan = one_more();
    plan.notices.push(Notice { text: "home-control-1 is on pve2 now".into() });
    let mut text = Vec::new();
    human(&mut text, Ink::PLAIN, &blueprint(), &observed(), &plan).unwrap();
    let text = String::from_utf8(text).unwrap();
    assert!(text.lines().all(|l| l.chars().count() <= 100), "{text}");
    insta::assert_snapshot!(text, @"
    home: 1 of 3 nodes ready, Kubernetes at https://10.25.150.10:6443

    HOST  STATE    MEMORY  GUESTS  DATASTORES
    ----  -------  ------  ------  ------------------------
    pve1  online   64 GiB  1       local-zfs (180 GiB free)
    pve2  offline  64 GiB  0       local-zfs (180 GiB free)

    NODE            ROLE     HOST  VM      ADDRESS       TALOS    STAGE    ETCD    KUBERNETES
    --------------  -------  ----  ------  ------------  -------  -------  ------  -------------
    home-control-1  control  pve2  150011  10.25.150.11  v1.13.9  running  member  ready v1.35.4
    home-work-1     worker   pve2  150021  10.25.150.21  ?        silent   -       not there
    home-work-2     worker   pve1  150022  10.25.150.22  ?        no VM    -       not there

    Record: VM 150000 on pve1; etcd began on home-control-1 at 2026-01-01 00:00:00 UTC;
            eva@laptop?[2J is changing it since 2026-01-01 00:00:00 UTC, until 2026-01-01 00:05:00 UTC.
    not seen: home-work-1: connection refused
    Drift:  7 steps to do; `talosmith plan` shows what would be done.
    notice: home-control-1 is on pve2 now
    ");
}

#[test]
fn an_empty_proxmox_shows_what_is_wanted() {
    let mut text = Vec::new();
    human(&mut text, Ink::PLAIN, &blueprint(), &Observed::default(), &plan_of(vec![])).unwrap();
    insta::assert_snapshot!(String::from_utf8(text).unwrap(), @"
    home: 0 of 3 nodes ready, Kubernetes at https://10.25.150.10:6443

    NODE            ROLE     HOST  VM      ADDRESS       TALOS  STAGE  ETCD  KUBERNETES
    --------------  -------  ----  ------  ------------  -----  -----  ----  ----------
    home-control-1  control  pve1  150011  10.25.150.11  ?      no VM  ?     ?
    home-work-1     worker   pve1  150021  10.25.150.21  ?      no VM  -     ?
    home-work-2     worker   pve1  150022  10.25.150.22  ?      no VM  -     ?

    Record: none; home was not begun, or is not on this Proxmox.
    Drift:  none; everything is as the file says.
    ");
}

#[test]
fn programs_get_both_sides() {
    let (blueprint, observed, plan) = (blueprint(), observed(), one_more());
    let document = serde_json::to_value(json(&blueprint, &observed, &plan)).unwrap();
    assert_eq!(document["ready"], 1);
    assert_eq!(document["pending"], 7);
    assert_eq!(document["nodes"][0]["name"], "home-control-1");
    assert_eq!(document["nodes"][0]["ready"], true);
    assert_eq!(document["observed"]["machines"]["home-work-1"]["api"]["is"], "silent");
}

#[test]
fn sizes_are_short() {
    assert_eq!([512 << 20, 64 << 30, 20 << 40].map(size), ["512 MiB", "64 GiB", "20 TiB"]);
}
