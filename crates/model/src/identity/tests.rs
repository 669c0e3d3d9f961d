//! Which proof a node needs, what counts as one, and when a machine is restarted for it.

use proptest::prelude::*;

use super::*;
use crate::blueprint::{Inventory, InventoryDatastore, InventoryHost};
use crate::diagnostic::Source;
use crate::mark::Mark;
use crate::observed::{Api, Kubernetes, KubernetesNode, RecordSeen};

const EMPTY: &str = "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=";

fn line(fingerprint: &str) -> String {
    format!(
        "[   39.051143] [talos] server certificate issued {{\"component\": \"controller-runtime\", \"controller\": \
         \"runtime.MaintenanceServiceInformController\", \"fingerprint\": \"{fingerprint}\"}}"
    )
}

fn printed(fingerprints: &[&Fingerprint], gap: bool) -> Printed {
    let mut printed = Printed { gap, ..Printed::default() };
    fingerprints.iter().for_each(|one| printed.read(&line(&one.0)));
    printed
}

/// A fingerprint for each number.
fn fingerprint(number: u8) -> Fingerprint {
    let digit = |n: u8| {
        char::from(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"[usize::from(n)])
    };
    let text: String = [digit(number / 64), digit(number % 64)].into_iter().collect();
    format!("{text}{}A=", "A".repeat(40)).parse().unwrap()
}

#[test]
fn a_fingerprint_is_32_bytes_in_one_way_of_writing() {
    assert!(EMPTY.parse::<Fingerprint>().is_ok());
    let bad = [
        "",
        "=",
        &EMPTY[1..],
        &EMPTY.replace('=', ""),
        &EMPTY.replace("U=", "V="),
        &EMPTY.replace('+', "-"),
        "AA:BB",
        &format!("{EMPTY}="),
    ];
    for text in bad {
        assert!(text.parse::<Fingerprint>().is_err(), "{text}");
    }
}

#[test]
fn only_talos_own_line_names_a_certificate() {
    assert_eq!(issued(&line(EMPTY)).unwrap().0, EMPTY);
    assert_eq!(issued(&format!("{}\r", line(EMPTY))).unwrap().0, EMPTY);
    let quoted = line(EMPTY).replace('"', "\\\"");
    for other in [
        // What came over the network and is quoted by another line.
        format!("[   39.1] [talos] hostname set {{\"hostname\": \"x {quoted}\"}}"),
        format!("x {}", line(EMPTY)),
        format!("[   39.1] {}", line(EMPTY)),
        line(EMPTY).replace("[talos]", "[init]"),
        line(EMPTY).replace("fingerprint", "print"),
        line("AA:BB"),
        line(EMPTY)[..line(EMPTY).len() - 2].to_owned(),
        line(EMPTY).replace("   39.051143", "later"),
        format!("[   39.1] [talos] use talosctl apply-config --insecure --cert-fingerprint '{EMPTY}'"),
    ] {
        assert_eq!(issued(&other), None, "{other}");
    }
}

#[test]
fn the_last_line_counts() {
    let (old, new, another) = (fingerprint(1), fingerprint(2), fingerprint(3));
    let both = printed(&[&old, &new], false);
    assert_eq!(judge(&both, &new), Verdict::Proved);
    assert_eq!(judge(&both, &old), Verdict::Outdated);
    assert_eq!(judge(&both, &another), Verdict::Mismatch { printed: new.clone() });
    assert_eq!(judge(&Printed::default(), &new), Verdict::Unknown);
    // The newest line may be missing.
    let cut = printed(&[&old], true);
    assert_eq!(judge(&cut, &new), Verdict::Unknown);
    assert_eq!(judge(&cut, &old), Verdict::Proved);
}

proptest! {
    #[test]
    fn nothing_is_proved_but_by_the_last_line(seen in prop::collection::vec(0u8..5, 0..40), shown in 0u8..5, gap: bool) {
        let lines: Vec<Fingerprint> = seen.iter().map(|n| fingerprint(*n)).collect();
        let verdict = judge(&printed(&lines.iter().collect::<Vec<_>>(), gap), &fingerprint(shown));
        prop_assert_eq!(verdict == Verdict::Proved, seen.last() == Some(&shown));
        // One that was never printed is never taken for an old one.
        if !seen.contains(&shown) {
            let unproved = matches!(verdict, Verdict::Mismatch { .. } | Verdict::Unknown);
            prop_assert!(unproved);
        }
        // An observer that may have missed a line reports no other machine.
        if gap {
            let accused = matches!(verdict, Verdict::Mismatch { .. });
            prop_assert!(!accused);
        }
    }

    #[test]
    fn whatever_a_guest_prints_is_read_without_harm(text: String, before in 0usize..300) {
        let _ = issued(&text);
        let whole = line(EMPTY);
        if let Some(cut) = whole.get(before..) && before > 0 {
            prop_assert_eq!(issued(cut), None);
        }
    }
}

fn blueprint(more: &str) -> Blueprint {
    let text = format!(
        "cluster: home\nversions: {{ talos: v1.13.9, kubernetes: v1.35.4 }}\n\
         network: {{ cidr: 10.25.150.0/24, gateway: 10.25.150.1, vip: 10.25.150.10 }}\n\
         pools: {{ control: {{ role: controlplane, count: 1 }}, work: {{ role: worker, count: 1 }} }}\n{more}"
    );
    let loaded = crate::load::load(&[Source::new("cluster.yaml", text)])
        .unwrap_or_else(|failed| panic!("{:?}", failed.diagnostics));
    let store = InventoryDatastore {
        content: vec!["import".to_owned(), "images".to_owned()],
        shared: false,
        free_bytes: 1 << 40,
    };
    let host = InventoryHost {
        online: true,
        memory_mib: 64 << 10,
        datastores: [("local".to_owned(), store)].into(),
        bridges: vec!["vmbr0".to_owned()],
        ..InventoryHost::default()
    };
    let inventory = Inventory { hosts: [("pve1".to_owned(), host)].into() };
    crate::resolve::resolve(&loaded.spec, Some(&inventory), Some("id=")).unwrap()
}

const PVE: &str = "proxmox: { endpoint: 'https://pve1:8006' }\n";

fn vm(node: &Node, running: bool, serial: Option<&str>) -> Vm {
    Vm {
        vmid: node.vmid,
        host: "pve1".to_owned(),
        name: node.name.to_string(),
        running,
        lock: None,
        uuid: node.uuid,
        vmgenid: None,
        mark: Mark::new("home", Mark::owner_of("id="), &node.name),
        pool: None,
        ha_state: None,
        config: serial.map(|port| ("serial0".to_owned(), port.to_owned())).into_iter().collect(),
        pending: Default::default(),
        recorded: None,
    }
}

#[test]
fn the_console_is_used_where_there_is_one_and_never_silently_left_out() {
    let wanted = blueprint(PVE);
    let node = &wanted.nodes["home-control-1"];
    let mut seen = Observed::default();
    assert_eq!(method(&wanted, &seen, node), Method::Console, "nobody knows of a reason against it");
    seen.proxmox.no_console = Some(["home-control-1".into()].into());
    assert_eq!(method(&wanted, &seen, node), Method::Uuid(Unproved::NoRight));
    assert_eq!(method(&wanted, &seen, &wanted.nodes["home-work-1"]), Method::Console);
    seen.proxmox.no_console = Some(Default::default());
    for (running, serial, expected) in [
        (true, Some("socket"), Method::Console),
        (true, Some("/dev/ttyS0"), Method::Uuid(Unproved::NoSerialPort)),
        (true, None, Method::Uuid(Unproved::NoSerialPort)),
        (false, None, Method::Console),
    ] {
        seen.proxmox.marked = vec![vm(node, running, serial)];
        assert_eq!(method(&wanted, &seen, node), expected, "{running} {serial:?}");
    }
    seen.proxmox.no_console = Some(["home-control-1".into()].into());
    let required = blueprint("proxmox: { endpoint: 'https://pve1:8006', identity: console }\n");
    assert_eq!(method(&required, &seen, node), Method::Console, "what is required is not given up");
    let chosen = blueprint("proxmox: { endpoint: 'https://pve1:8006', identity: uuid }\n");
    assert_eq!(method(&chosen, &Observed::default(), node), Method::Uuid(Unproved::Chosen));
}

#[test]
fn an_external_machine_is_known_by_what_the_file_says() {
    let of = |more: &str| {
        let text = format!(
            "{PVE}nodes: {{ metal: {{ role: worker, address: 10.25.150.40, external: true{more} }} }}\n"
        );
        let wanted = blueprint(&text);
        method(&wanted, &Observed::default(), &wanted.nodes["metal"])
    };
    assert_eq!(of(""), Method::Undeclared);
    assert_eq!(of(", unverified: true"), Method::Unverified);
    assert_eq!(
        of(&format!(", identity: {{ fingerprint: \"{EMPTY}\" }}")),
        Method::Fingerprint(EMPTY.to_owned())
    );
}

#[test]
fn only_a_machine_that_nobody_knows_is_restarted() {
    let wanted = blueprint(PVE);
    let (control, worker) = (&wanted.nodes["home-control-1"], &wanted.nodes["home-work-1"]);
    let mut seen = Observed::default();
    assert_eq!(may_restart(&wanted, &seen, worker), Ok(()), "created by this run");
    seen.proxmox.marked = vec![vm(control, true, None), vm(worker, true, None)];
    assert_eq!(may_restart(&wanted, &seen, worker), Err(KeptRunning::Unknown), "no record was read");
    let record =
        RecordSeen { vmid: 1, host: "pve1".to_owned(), state: Default::default(), unreadable: false };
    seen.proxmox.record = Some(record.clone());
    assert_eq!(may_restart(&wanted, &seen, control), Ok(()), "never bootstrapped");
    seen.proxmox.record = Some(RecordSeen { unreadable: true, ..record });
    assert_eq!(may_restart(&wanted, &seen, control), Err(KeptRunning::Unknown));
    seen.kubernetes = Kubernetes { answered: true, ..Kubernetes::default() };
    assert_eq!(may_restart(&wanted, &seen, worker), Ok(()), "Kubernetes has no such node");
    assert_eq!(may_restart(&wanted, &seen, control), Err(KeptRunning::Unknown), "no member tells");
    let member = |name: &str, peer: &str| Member {
        id: name.to_owned(),
        name: name.to_owned(),
        learner: false,
        peers: vec![format!("https://{peer}:2380")],
    };
    let own = || [member("a", "10.25.150.98"), member("b", "10.25.150.99")];
    let tells = |seen: &mut Observed, others: &[Member]| {
        for name in ["a", "b"] {
            let members = Some([&own()[..], others].concat());
            let etcd = Etcd::Member { id: name.to_owned(), learner: false, members };
            seen.machines
                .insert(name.into(), Machine { api: Api::Configured, etcd, ..Machine::unresponsive("") });
        }
    };
    tells(&mut seen, &[]);
    assert_eq!(may_restart(&wanted, &seen, control), Ok(()));
    for one in [member("home-control-1.lan", "10.25.150.97"), member("", "10.25.150.11")] {
        tells(&mut seen, &[one]);
        let kept = may_restart(&wanted, &seen, control);
        assert!(matches!(kept, Err(KeptRunning::MemberOfEtcd(_))), "it may be joining: {kept:?}");
    }
    let node = |ready| KubernetesNode {
        ready,
        version: String::new(),
        schedulable: true,
        uninitialized: false,
        ..KubernetesNode::default()
    };
    let known =
        |seen: &mut Observed, name: &str, ready| seen.kubernetes.nodes.insert(name.into(), node(ready));
    known(&mut seen, "home-work-1", true);
    assert_eq!(may_restart(&wanted, &seen, worker), Err(KeptRunning::Ready));
    known(&mut seen, "home-work-1", false);
    assert_eq!(may_restart(&wanted, &seen, worker), Ok(()), "it is in no one's use");
    // A member of etcd that is not ready, and without which there is a quorum.
    tells(&mut seen, &[member("home-control-1", "10.25.150.11")]);
    known(&mut seen, "home-control-1", false);
    assert_eq!(may_restart(&wanted, &seen, control), Ok(()));
    seen.machines.remove("b");
    let kept = may_restart(&wanted, &seen, control);
    assert!(matches!(kept, Err(KeptRunning::MemberOfEtcd(_))), "one of three is no majority: {kept:?}");
}
