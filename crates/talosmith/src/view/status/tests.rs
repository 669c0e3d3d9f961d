//! The page on a hand-made cluster of one control plane and two workers, one of which is missing.

use std::collections::BTreeMap;

use model::blueprint::{InventoryDatastore, InventoryHost};
use model::diagnostic::Source;
use model::mark::{BootstrapMark, Lease, RecordState};
use model::observed::Member;
use model::observed::{EtcdStatus, Guest, KubernetesNode, RecordSeen, Unobserved};
use model::step::Disruption;

use super::super::plan::tests::{one_more, plan_of, restarts};
use super::super::window::columns;
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

pub(crate) fn blueprint() -> Blueprint {
    let loaded = model::load::load(&[Source::new("cluster.yaml", FILE)]).unwrap();
    let mut blueprint = model::resolve::resolve(&loaded.spec, None, Some("abc=")).unwrap();
    for node in blueprint.nodes.values_mut() {
        node.host = Some("pve1".into());
    }
    blueprint
}

fn vm(name: &str, vmid: u32) -> Vm {
    let mark = Mark::new("home", Mark::owner_of("abc="), name);
    Vm {
        vmid,
        // Moved by someone: the page shows where it is, not where it was made.
        host: "pve2".into(),
        name: name.into(),
        running: true,
        lock: None,
        uuid: Some(mark.uuid("abc=")),
        vmgenid: None,
        recorded: None,
        mark,
        pool: None,
        ha_state: None,
        config: BTreeMap::new(),
        pending: BTreeMap::new(),
    }
}

pub(crate) fn observed() -> Observed {
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
        run: None,
        since: at,
        expires: "2026-01-01T00:05:00Z".parse().unwrap(),
        stops_after: None,
        outwaits: None,
    };
    let bootstrap = BootstrapMark::new("home-control-1", at, true);
    let state =
        RecordState { lease: Some(lease), bootstrap: Some(bootstrap), turns: 1, ..RecordState::default() };
    seen.proxmox.record = Some(RecordSeen { vmid: 150_000, host: "pve1".into(), state, unreadable: false });
    let mut control = Machine::with(Api::Configured);
    control.talos = Some("v1.13.9".into());
    control.stage = Some("running".into());
    control.ready = true;
    let member = Member { id: "1f".into(), name: "home-control-1".into(), learner: false, peers: vec![] };
    control.etcd = Etcd::Member { id: "1f".into(), learner: false, members: Some(vec![member]) };
    control.etcd_status =
        Some(EtcdStatus { leader: Some("1f".into()), errors: vec![], ..EtcdStatus::default() });
    control.addresses = Some(["10.25.150.11", "10.25.150.10"].map(|a| a.parse().unwrap()).into());
    seen.machines.insert("home-control-1".into(), control);
    seen.machines.insert("home-work-1".into(), Machine::unresponsive("connection refused"));
    seen.kubernetes.answered = true;
    let known = KubernetesNode {
        ready: true,
        version: "v1.35.4".into(),
        schedulable: true,
        uninitialized: false,
        ..KubernetesNode::default()
    };
    seen.kubernetes.nodes.insert("home-control-1".into(), known);
    seen.unobserved.push(Unobserved { what: "home-work-1".into(), why: "connection refused".into() });
    seen
}

#[test]
fn the_page_fits_a_hundred_columns_and_says_what_is_not_known() {
    let mut plan = one_more();
    plan.notes.push(Note { text: "home-control-1 is on pve2 now".into() });
    let mut text = Vec::new();
    human(&mut text, Ink::PLAIN, &blueprint(), &observed(), &plan).unwrap();
    let text = String::from_utf8(text).unwrap();
    assert!(text.lines().all(|l| l.chars().count() <= 100), "{text}");
    insta::assert_snapshot!(text, @"
    home: 1 of 3 nodes ready, Kubernetes at https://10.25.150.10:6443

    HOST  STATE    MEMORY  GUESTS  DATASTORES
    ----  -------  ------  ------  ------------------------
    pve1  online   64 GiB  1       local-zfs (180 GiB free)
    pve2  offline  ?       0       local-zfs (180 GiB free)

    NODE            ROLE     HOST  VM      ADDRESS       TALOS    STAGE        ETCD    KUBERNETES
    --------------  -------  ----  ------  ------------  -------  -----------  ------  -------------
    home-control-1  control  pve2  150011  10.25.150.11  v1.13.9  running      leader  ready v1.35.4
    home-work-1     worker   pve2  150021  10.25.150.21  ?        unreachable  -       missing
    home-work-2     worker   pve1  150022  10.25.150.22  ?        no VM        -       missing

    etcd:   1 of 1 member answers, quorum holds, without it etcd stops;
            leader home-control-1; VIP 10.25.150.10 on home-control-1.
    Record: VM 150000 on pve1;
            etcd was bootstrapped on home-control-1 at 2026-01-01 00:00:00 UTC;
            eva@laptop?[2J holds the lease since 2026-01-01 00:00:00 UTC, until 2026-01-01 00:05:00 UTC.
    not observed: home-work-1: connection refused
    Drift:  7 steps to do; `talosmith plan` shows what would be done.
    note: home-control-1 is on pve2 now
    ");
}

/// The page as a window of so many columns shows it.
fn in_window(limit: usize) -> String {
    let ink = Ink { limit, width: limit, ..Ink::PLAIN };
    let mut text = Vec::new();
    human(&mut text, ink, &blueprint(), &observed(), &one_more()).unwrap();
    let text = wrap(&String::from_utf8(text).unwrap(), limit).into_owned();
    assert!(text.lines().all(|line| columns(line) <= limit), "{text}");
    text
}

#[test]
fn at_80_columns_it_leaves_out_what_tells_least() {
    insta::assert_snapshot!(in_window(80), @"
    home: 1 of 3 nodes ready, Kubernetes at https://10.25.150.10:6443

    HOST  STATE    MEMORY  GUESTS  DATASTORES
    ----  -------  ------  ------  ------------------------
    pve1  online   64 GiB  1       local-zfs (180 GiB free)
    pve2  offline  ?       0       local-zfs (180 GiB free)

    NODE            HOST  ADDRESS       TALOS    STAGE        ETCD    KUBERNETES
    --------------  ----  ------------  -------  -----------  ------  -------------
    home-control-1  pve2  10.25.150.11  v1.13.9  running      leader  ready v1.35.4
    home-work-1     pve2  10.25.150.21  ?        unreachable  -       missing
    home-work-2     pve1  10.25.150.22  ?        no VM        -       missing

    etcd:   1 of 1 member answers, quorum holds, without it etcd stops;
            leader home-control-1; VIP 10.25.150.10 on home-control-1.
    Record: VM 150000 on pve1;
            etcd was bootstrapped on home-control-1 at 2026-01-01 00:00:00 UTC;
            eva@laptop?[2J holds the lease since 2026-01-01 00:00:00 UTC, until
              2026-01-01 00:05:00 UTC.
    not observed: home-work-1: connection refused
    Drift:  7 steps to do; `talosmith plan` shows what would be done.
    ");
}

#[test]
fn at_120_and_200_columns_everything_is_there() {
    insta::assert_snapshot!(in_window(120), @"
    home: 1 of 3 nodes ready, Kubernetes at https://10.25.150.10:6443

    HOST  STATE    MEMORY  GUESTS  DATASTORES
    ----  -------  ------  ------  ------------------------
    pve1  online   64 GiB  1       local-zfs (180 GiB free)
    pve2  offline  ?       0       local-zfs (180 GiB free)

    NODE            ROLE     HOST  VM      ADDRESS       TALOS    STAGE        ETCD    KUBERNETES
    --------------  -------  ----  ------  ------------  -------  -----------  ------  -------------
    home-control-1  control  pve2  150011  10.25.150.11  v1.13.9  running      leader  ready v1.35.4
    home-work-1     worker   pve2  150021  10.25.150.21  ?        unreachable  -       missing
    home-work-2     worker   pve1  150022  10.25.150.22  ?        no VM        -       missing

    etcd:   1 of 1 member answers, quorum holds, without it etcd stops;
            leader home-control-1; VIP 10.25.150.10 on home-control-1.
    Record: VM 150000 on pve1;
            etcd was bootstrapped on home-control-1 at 2026-01-01 00:00:00 UTC;
            eva@laptop?[2J holds the lease since 2026-01-01 00:00:00 UTC, until 2026-01-01 00:05:00 UTC.
    not observed: home-work-1: connection refused
    Drift:  7 steps to do; `talosmith plan` shows what would be done.
    ");
    assert_eq!(in_window(200), in_window(120));
}

#[test]
fn what_is_on_a_host_that_is_off_is_not_called_missing() {
    let mut seen = observed();
    seen.proxmox.marked.retain(|vm| vm.vmid != 150_021);
    seen.machines.remove("home-work-1");
    seen.proxmox.unread.insert(150_021, "pve2".into());
    let why = "reading VM 150021 on pve2: no route to host";
    seen.unobserved = vec![Unobserved { what: "VM 150021 on pve2".into(), why: why.into() }];
    let mut plan = plan_of(vec![]);
    for text in [
        "whether VM 150021 on pve2 is home-work-1 could not be read; Talosmith does not change it",
        "something else",
    ] {
        plan.notes.push(Note { text: text.into() });
    }
    let mut text = Vec::new();
    human(&mut text, Ink::PLAIN, &blueprint(), &seen, &plan).unwrap();
    let text = String::from_utf8(text).unwrap();
    let end: Vec<&str> = text.lines().skip_while(|line| !line.starts_with("home-work-1")).collect();
    insta::assert_snapshot!(end.join("\n"), @"
    home-work-1     worker   pve2  150021  10.25.150.21  ?        unknown  -       missing
    home-work-2     worker   pve1  150022  10.25.150.22  ?        no VM    -       missing

    etcd:   1 of 1 member answers, quorum holds, without it etcd stops;
            leader home-control-1; VIP 10.25.150.10 on home-control-1.
    Record: VM 150000 on pve1;
            etcd was bootstrapped on home-control-1 at 2026-01-01 00:00:00 UTC;
            eva@laptop?[2J holds the lease since 2026-01-01 00:00:00 UTC, until 2026-01-01 00:05:00 UTC.
    not observed: VM 150021 on pve2, which is off or cannot be reached
    Drift:  none in what was observed.
    note: something else
    ");
}

#[test]
fn a4_a_vm_that_the_token_may_not_see_is_not_called_missing() {
    let mut seen = observed();
    seen.proxmox.marked.clear();
    seen.machines.clear();
    seen.kubernetes.answered = false;
    seen.proxmox.hidden.insert(150_021, None);
    let mut text = Vec::new();
    human(&mut text, Ink::PLAIN, &blueprint(), &seen, &plan_of(vec![])).unwrap();
    let text = String::from_utf8(text).unwrap();
    let line = |start: &str| text.lines().find(|line| line.starts_with(start)).unwrap().to_owned();
    assert!(line("home-work-1").contains("unknown"), "{text}");
    assert!(line("home-work-2").contains("no VM"), "{text}");
    assert!(text.starts_with("home: ? of 3 nodes ready"), "without Kubernetes it is not known: {text}");
}

#[test]
fn without_proxmox_machines_and_kubernetes_are_shown() {
    let mut seen = observed();
    seen.proxmox =
        model::observed::Proxmox { unresponsive: Some("no route to host".into()), ..Default::default() };
    seen.machines.remove("home-work-1");
    seen.unobserved = vec![Unobserved { what: "Proxmox".into(), why: "no route to host".into() }];
    let mut text = Vec::new();
    human(&mut text, Ink::PLAIN, &blueprint(), &seen, &plan_of(vec![])).unwrap();
    insta::assert_snapshot!(String::from_utf8(text).unwrap(), @"
    home: 1 of 3 nodes ready, Kubernetes at https://10.25.150.10:6443

    NODE            ROLE     HOST  VM      ADDRESS       TALOS    STAGE    ETCD    KUBERNETES
    --------------  -------  ----  ------  ------------  -------  -------  ------  -------------
    home-control-1  control  pve1  150011  10.25.150.11  v1.13.9  running  leader  ready v1.35.4
    home-work-1     worker   pve1  150021  10.25.150.21  ?        unknown  -       missing
    home-work-2     worker   pve1  150022  10.25.150.22  ?        unknown  -       missing

    etcd:   1 of 1 member answers, quorum holds, without it etcd stops;
            leader home-control-1; VIP 10.25.150.10 on home-control-1.
    Record: not observed.
    not observed: Proxmox: no route to host
    Drift:  unknown without Proxmox.
    ");
}

#[test]
fn a_low_window_leaves_out_nodes_that_are_ready() {
    let (blueprint, mut observed) = (blueprint(), observed());
    let seen = |observed: &Observed, height| {
        let mut text = Vec::new();
        within(&mut text, Ink::PLAIN, (&blueprint, observed, &plan_of(vec![])), height).unwrap();
        let text = String::from_utf8(text).unwrap();
        let names = text.lines().filter_map(|line| line.split_whitespace().next());
        let names: Vec<String> =
            names.filter(|n| n.starts_with("home-") || *n == "…").map(Into::into).collect();
        (text.lines().count(), names.join(" "))
    };
    assert_eq!(seen(&observed, 24), (20, "home-control-1 home-work-1 home-work-2".to_owned()));
    // Those that are not ready are never left out.
    assert_eq!(seen(&observed, 10).1, "home-work-1 home-work-2 …");
    for name in ["home-work-1", "home-work-2"] {
        let (machine, node) = (
            observed.machines["home-control-1"].clone(),
            observed.kubernetes.nodes["home-control-1"].clone(),
        );
        observed.machines.insert(name.into(), machine);
        observed.kubernetes.nodes.insert(name.into(), node);
    }
    assert_eq!(
        seen(&observed, 19),
        (19, "home-control-1 home-work-1 home-work-2".to_owned()),
        "hosts go first"
    );
    assert_eq!(seen(&observed, 18).1, "home-control-1 …");
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

    Record: none; home was not created yet, or is not on this Proxmox.
    Drift:  none. The cluster matches the file.
    ");
}

#[test]
fn first_use_4_a_node_that_the_file_does_not_have_is_shown_and_counted() {
    let mut seen = observed();
    seen.proxmox.marked.push(vm("home-work-9", 150_029));
    seen.unobserved.clear();
    let mut text = Vec::new();
    let mut plan = plan_of(vec![]);
    plan.blocked.push(super::super::plan::tests::removed());
    human(&mut text, Ink::PLAIN, &blueprint(), &seen, &plan).unwrap();
    let text = String::from_utf8(text).unwrap();
    assert!(text.contains("\n- home-work-3 is not in the file [delete]\n"), "{text}");
    let told: Vec<&str> =
        text.lines().filter(|line| line.starts_with("home-work-9") || line.starts_with("Drift")).collect();
    insta::assert_snapshot!(told.join("\n"), @"
    home-work-9     ?        pve2  150029  ?             ?        not in file  ?       missing
    Drift:  1 change is blocked; everything else matches the file.
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
    assert_eq!(document["observed"]["machines"]["home-work-1"]["api"]["is"], "unresponsive");
}

#[test]
fn sizes_are_short() {
    assert_eq!([512 << 20, 64 << 30, 20 << 40].map(size), ["512 MiB", "64 GiB", "20 TiB"]);
}

/// etcd is called not bootstrapped only where that was proved.
#[test]
fn a2_the_page_does_not_say_that_a_running_etcd_is_not_bootstrapped() {
    let page = |observed: &Observed| {
        let mut text = Vec::new();
        human(&mut text, Ink::PLAIN, &blueprint(), observed, &one_more()).unwrap();
        String::from_utf8(text).unwrap()
    };
    let mut seen = observed();
    seen.proxmox.record.as_mut().unwrap().state.bootstrap = None;
    assert!(
        page(&seen).contains("etcd is bootstrapped, and the record VM does not say so"),
        "{}",
        page(&seen)
    );
    seen.proxmox.record.as_mut().unwrap().unreadable = true;
    assert!(page(&seen).contains("its notes cannot be read; etcd is bootstrapped"), "{}", page(&seen));
    seen.kubernetes = Default::default();
    seen.machines.insert("home-control-1".into(), Machine::unresponsive("the network is unreachable"));
    assert!(page(&seen).contains("whether etcd is bootstrapped is unknown"), "{}", page(&seen));
    seen.proxmox.record = None;
    assert!(page(&seen).contains("missing, although VMs of home exist"), "{}", page(&seen));
    assert!(page(&seen).contains("whether etcd is bootstrapped is unknown"), "{}", page(&seen));
    let mut control = Machine::with(Api::Configured);
    control.etcd = Etcd::Empty;
    seen.machines.insert("home-control-1".into(), control);
    assert!(page(&seen).contains("etcd is not bootstrapped yet"), "{}", page(&seen));
}

#[test]
fn t6_first_use_11_the_page_says_how_etcd_stands() {
    let page = |observed: &Observed| {
        let mut text = Vec::new();
        human(&mut text, Ink::PLAIN, &blueprint(), observed, &one_more()).unwrap();
        String::from_utf8(text).unwrap()
    };
    let mut seen = observed();
    let control = seen.machines.get_mut("home-control-1").unwrap();
    control.etcd = Etcd::Member { id: "1f".into(), learner: false, members: None };
    control.etcd_status = Some(EtcdStatus {
        leader: None,
        errors: vec!["etcdserver: no leader".into()],
        ..EtcdStatus::default()
    });
    control.addresses = Some(Default::default());
    let text = page(&seen);
    assert!(text.contains("no leader  ready"), "{text}");
    assert!(text.contains("home-control-1 answers and sees no leader"), "{text}");
    let document = serde_json::to_value(json(&blueprint(), &seen, &one_more())).unwrap();
    assert_eq!(document["etcd"]["quorum"], "lost");
    // No member answers: that is not a count of none.
    seen.machines.insert("home-control-1".into(), Machine::unresponsive("the network is unreachable"));
    assert!(
        page(&seen).contains("etcd:   no member answers, so whether it has a quorum is unknown."),
        "{}",
        page(&seen)
    );
}

#[test]
fn t9_external_machines_have_no_vm_and_p14_a_host_in_maintenance_shows() {
    let file = "cluster: metal
versions: { talos: v1.13.9, kubernetes: v1.35.4 }
network: { cidr: 10.25.150.0/24, gateway: 10.25.150.1, vip: 10.25.150.10 }
nodes:
  cp-1: { role: controlplane, address: 10.25.150.31, external: true, unverified: true, mac: 'BC:24:11:00:00:31' }
kubernetes: { schedule_on_control_planes: true }
";
    let loaded = model::load::load(&[Source::new("cluster.yaml", file)]).unwrap();
    let metal = model::resolve::resolve(&loaded.spec, None, Some("abc=")).unwrap();
    let mut text = Vec::new();
    human(&mut text, Ink::PLAIN, &metal, &Observed::default(), &plan_of(vec![])).unwrap();
    insta::assert_snapshot!(String::from_utf8(text).unwrap(), @"
    metal: ? of 1 node ready, Kubernetes at https://10.25.150.10:6443

    NODE  ROLE     HOST  VM  ADDRESS       TALOS  STAGE  ETCD  KUBERNETES
    ----  -------  ----  --  ------------  -----  -----  ----  ----------
    cp-1  control  -     -   10.25.150.31  ?      ?      ?     ?

    Record: none; a cluster without Proxmox keeps its lease in Kubernetes.
    Drift:  none. The cluster matches the file.
    ");
    let document = serde_json::to_value(json(&metal, &Observed::default(), &plan_of(vec![]))).unwrap();
    assert_eq!(document["nodes"][0]["vmid"], serde_json::Value::Null);

    let mut seen = observed();
    seen.proxmox.inventory.hosts.get_mut("pve1").unwrap().maintenance = true;
    let mut text = Vec::new();
    human(&mut text, Ink::PLAIN, &blueprint(), &seen, &one_more()).unwrap();
    let text = String::from_utf8(text).unwrap();
    assert!(text.contains("pve1  maintenance"), "{text}");
}

/// The lines about the record, and everything that is about Proxmox itself.
fn about_the_record(seen: &Observed) -> String {
    let mut text = Vec::new();
    human(&mut text, Ink::PLAIN, &blueprint(), seen, &plan_of(vec![])).unwrap();
    String::from_utf8(text).unwrap()
}

#[test]
fn left_3_a_lease_in_a_record_that_cannot_be_read_is_unknown() {
    let mut seen = observed();
    let record = seen.proxmox.record.as_mut().unwrap();
    (record.state, record.unreadable) = (RecordState::default(), true);
    let text = about_the_record(&seen);
    assert!(!text.contains("the lease is free"), "{text}");
    assert!(text.contains("whether another operator holds the lease is unknown"), "{text}");
    let record = seen.proxmox.record.as_mut().unwrap();
    record.unreadable = false;
    assert!(about_the_record(&seen).contains("the lease is free"), "it was read, and says so");
}

#[test]
fn left_3_a_record_that_the_token_may_not_see_is_not_called_missing() {
    for why in [None, Some("no answer within 20 seconds".to_owned())] {
        let mut seen = observed();
        seen.proxmox.record = None;
        seen.proxmox.hidden.insert(blueprint().record.vmid, why);
        let text = about_the_record(&seen);
        let line = text.lines().find(|line| line.starts_with("Record:")).unwrap();
        assert!(!line.contains("missing") && !line.contains("not created"), "{text}");
        assert!(line.contains(&format!("VM {}", blueprint().record.vmid)), "{text}");
        seen.proxmox.marked.clear();
        let text = about_the_record(&seen);
        let line = text.lines().find(|line| line.starts_with("Record:")).unwrap();
        assert!(!line.contains("missing") && !line.contains("not created"), "{text}");
    }
}

#[test]
fn left_3_a_proxmox_cluster_without_quorum_is_shown() {
    let mut seen = observed();
    for (quorate, shown) in [(None, false), (Some(true), false), (Some(false), true)] {
        seen.proxmox.quorate = quorate;
        let text = about_the_record(&seen);
        let told = "the hosts of Proxmox have no quorum: nothing can be changed";
        assert_eq!(text.contains(told), shown, "{quorate:?}: {text}");
    }
}

#[test]
fn issue_20_who_cordoned_what_and_what_the_next_run_does_is_told() {
    let mut seen = observed();
    let cordoned = |by: Option<&str>| KubernetesNode {
        ready: true,
        version: "v1.35.4".into(),
        cordoned: by.map(str::to_owned),
        ..KubernetesNode::default()
    };
    seen.kubernetes.nodes.insert("home-work-1".into(), cordoned(Some("restart/home-work-1 by eva@laptop")));
    seen.kubernetes.nodes.insert("home-work-2".into(), cordoned(None));
    let page = |seen: &Observed, plan: &Plan| {
        let mut text = Vec::new();
        human(&mut text, Ink::PLAIN, &blueprint(), seen, plan).unwrap();
        String::from_utf8(text).unwrap()
    };
    let text = page(&seen, &restarts());
    let lines = [
        "cordoned: home-work-1 by Talosmith, for restart/home-work-1 by eva@laptop",
        "cordoned: home-work-2 by a person or another program; Talosmith does not uncordon it",
        "in progress: restart/home-work-1 by eva@laptop",
        "Next:   power cycle home-control-1; power cycle home-work-1; remove home-work-2; about 3 min.",
    ];
    for line in lines {
        assert!(text.lines().any(|other| other == line), "{line}\n{text}");
    }
    // The lease is free.
    seen.proxmox.record.as_mut().unwrap().state.lease = None;
    let text = page(&seen, &restarts());
    let line = "interrupted: restart/home-work-1 by eva@laptop; `talosmith apply` continues it";
    assert!(text.lines().any(|other| other == line), "{text}");
    let mut replaced = seen.clone();
    let cordon = cordoned(Some("replace/home-work-1 by eva@laptop"));
    replaced.kubernetes.nodes.insert("home-work-1".into(), cordon);
    let text = page(&replaced, &restarts());
    let line = "interrupted: replace/home-work-1 by eva@laptop; `talosmith apply` uncordons the node";
    assert!(text.lines().any(|other| other == line), "{text}");
    // What `apply` does not do without something else is not promised.
    for (unit, title, disruption) in [
        ("remove/home-work-1", "interrupted", Disruption::Delete),
        ("move/home-work-1", "interrupted", Disruption::PowerCycle),
        ("shutdown/home-work-1", "shut down", Disruption::None),
    ] {
        let mut seen = seen.clone();
        let node = KubernetesNode { ready: false, ..cordoned(Some(unit)) };
        seen.kubernetes.nodes.insert("home-work-1".into(), node);
        let mut plan = restarts();
        let (node, what) = (Some("home-work-1".into()), "it is not done".to_owned());
        plan.blocked.push(Blocked { node, what, disruption, hint: "do this first".to_owned() });
        let text = page(&seen, &plan);
        assert!(text.contains(&format!("{title}: {unit}; do this first\n")), "{text}");
    }
    let document = serde_json::to_value(json(&blueprint(), &seen, &restarts())).unwrap();
    assert_eq!(document["cordons"]["home-work-2"]["by"], "person");
    assert_eq!(document["cordons"]["home-work-1"]["reason"], "restart/home-work-1 by eva@laptop");
    assert_eq!(document["open_units"][0]["state"], "interrupted");
    assert_eq!(document["next"][0]["goal"], "power-cycle");
}
