//! What a client author trips over, on the machine's side: each of these was seen on, or read from, a real Talos.

use super::*;

#[test]
fn a_stream_that_somebody_holds_delays_the_switch() {
    let mut rig = Rig::new();
    rig.on(101);
    rig.wait(40);
    let epoch = rig.machines.epoch(101);
    rig.machines.hold_stream(101, true);
    rig.apply(101, Role::ControlPlane);
    rig.wait(1);
    assert_eq!(rig.port(101, 50_000), PortState::Refused);
    assert!(rig.machines.is_alive(101, epoch), "the stream itself lives on");
    rig.wait(8);
    assert_eq!(rig.port(101, 50_000), PortState::Refused);
    rig.wait(2);
    assert_eq!(rig.kind(101), Some(Kind::Api), "ten seconds later");
    assert!(!rig.machines.is_alive(101, epoch));
}

#[test]
fn an_apply_on_the_old_listener_after_a_good_one_is_not_authorized() {
    let mut rig = Rig::new();
    rig.on(101);
    rig.wait(40);
    rig.apply(101, Role::ControlPlane);
    let bytes = config(101, Role::ControlPlane, |_| {});
    let again = rig.apply_bytes(101, &bytes).unwrap_err();
    assert_eq!((again.code, again.words.as_str()), (Code::PermissionDenied, "not authorized"));
}

#[test]
fn ready_says_nothing_without_the_stage() {
    let mut rig = Rig::new();
    rig.on(101);
    rig.wait(40);
    assert!(rig.machines.status(101).unwrap().ready, "in maintenance");
    rig.apply(101, Role::ControlPlane);
    rig.wait(10);
    assert!(!rig.machines.status(101).unwrap().ready, "while booting");
    rig.machines.leave(101, Leave::Reboot, rig.now);
    let status = rig.machines.status(101).unwrap();
    assert_eq!((status.stage.as_str(), status.ready), ("rebooting", true));
}

#[test]
fn a_cut_off_boot_is_running_for_a_moment() {
    let mut rig = Rig::new();
    rig.on(101);
    rig.wait(40);
    rig.apply(101, Role::ControlPlane);
    rig.wait(10);
    rig.machines.leave(101, Leave::Reboot, rig.now);
    let stages = rig.machines.get(101).unwrap().log.iter().filter_map(|entry| match &entry.what {
        Happening::Status(status) => Some((status.stage.clone(), status.ready)),
        _ => None,
    });
    let last: Vec<_> = stages.collect();
    assert_eq!(last[last.len() - 2..], [("running".to_owned(), false), ("rebooting".to_owned(), true)]);
}

#[test]
fn a_trial_in_maintenance_leaves_no_api_at_all() {
    let mut rig = Rig::new();
    rig.on(101);
    rig.wait(40);
    let bytes = config(101, Role::ControlPlane, |_| {});
    let limit = Some(Duration::from_secs(30));
    rig.machines.apply(101, &bytes, Mode::Try, false, limit, rig.now).unwrap();
    rig.wait(5);
    assert_eq!(rig.kind(101), Some(Kind::Api));
    rig.wait(120);
    assert_eq!(rig.port(101, 50_000), PortState::Refused, "neither the one nor the other");
    assert_eq!(rig.machines.get(101).unwrap().disk.config, None, "and nothing is on disk");
}

#[test]
fn a_second_trial_makes_the_first_one_the_state_to_return_to() {
    let mut rig = Rig::cluster();
    let original = rig.machines.get(104).unwrap().node().unwrap().config.clone();
    let label = |value: &str| {
        original.replacen("machine:\n", &format!("machine:\n    nodeLabels:\n        a: {value}\n"), 1)
    };
    let limit = Some(Duration::from_secs(20));
    for value in ["one", "two"] {
        rig.machines.apply(104, label(value).as_bytes(), Mode::Try, false, limit, rig.now).unwrap();
    }
    rig.wait(30);
    let machine = rig.machines.get(104).unwrap();
    assert_eq!(machine.node().unwrap().config, label("one"));
    assert_eq!(machine.disk.config.as_deref(), Some(original.as_str()));
}

#[test]
fn staged_in_maintenance_is_lost() {
    let mut rig = Rig::new();
    rig.on(101);
    rig.wait(40);
    let bytes = config(101, Role::ControlPlane, |_| {});
    let answer = rig.machines.apply(101, &bytes, Mode::Staged, false, None, rig.now).unwrap();
    assert_eq!(answer.details, "Staged configuration to be applied after the next reboot");
    rig.machines.power_off(101, rig.now);
    rig.on(101);
    rig.wait(60);
    assert_eq!(rig.kind(101), Some(Kind::Maintenance));
}

#[test]
fn a_partial_configuration_keeps_maintenance_and_changes_the_certificate() {
    let mut rig = Rig::new();
    rig.on(101);
    rig.wait(40);
    let before = rig.machines.get(101).unwrap().maintenance_fingerprint();
    rig.apply_bytes(101, b"apiVersion: v1alpha1\nkind: HostnameConfig\nauto: \"off\"\nhostname: partial1\n")
        .unwrap();
    rig.wait(5);
    let machine = rig.machines.get(101).unwrap();
    assert_eq!((rig.kind(101), machine.hostname()), (Some(Kind::Maintenance), "partial1"));
    assert_ne!(machine.maintenance_fingerprint(), before);
}

#[test]
fn without_a_clock_there_is_an_api_and_nothing_else() {
    let mut rig = Rig::new();
    rig.machines.close_outside(Some(vec![
        "registry.k8s.io".into(),
        "ghcr.io".into(),
        "discovery.talos.dev".into(),
    ]));
    rig.on(101);
    rig.on(104);
    rig.wait(40);
    rig.apply(101, Role::ControlPlane);
    rig.apply(104, Role::Worker);
    rig.wait(120);
    assert_eq!(rig.kind(101), Some(Kind::Api));
    assert_eq!(rig.port(101, 50_001), PortState::Refused, "no trustd");
    assert_eq!(rig.port(104, 50_000), PortState::Refused, "so no certificate for the worker");
    let unmet = rig.machines.status(101).unwrap().unmet;
    assert_eq!(unmet[0], ("time".to_owned(), "time is not synced".to_owned()));
    for id in ["etcd", "kubelet", "trustd"] {
        let service = rig.machines.services(101).into_iter().find(|s| s.id == id).unwrap();
        assert_eq!((service.state, service.message.as_str()), ("Waiting", "Waiting for time sync"), "{id}");
    }
    let refused = rig.machines.bootstrap(101, None, rig.now).unwrap_err();
    assert_eq!(
        (refused.words.as_str(), refused.after),
        ("time is not in sync yet", timing::BOOTSTRAP_WAITS_CLOCK)
    );
}

#[test]
fn in_a_closed_world_only_mirrors_help() {
    let mut rig = Rig::new();
    rig.machines.close_outside(Some(vec!["time.cloudflare.com".into(), "mirror.lan".into()]));
    rig.on(101);
    rig.on(102);
    rig.wait(40);
    rig.apply(101, Role::ControlPlane);
    let mirrored = String::from_utf8(config(102, Role::ControlPlane, |_| {})).unwrap()
        + "---\napiVersion: v1alpha1\nkind: RegistryMirrorConfig\nname: ghcr.io\nendpoints:\n    - url: https://mirror.lan\n";
    rig.apply_bytes(102, mirrored.as_bytes()).unwrap();
    rig.wait(60);
    let kubelet =
        |m: &Machines, vmid| m.services(vmid).into_iter().find(|s| s.id == "kubelet").unwrap().state;
    assert_eq!((kubelet(&rig.machines, 101), kubelet(&rig.machines, 102)), ("Preparing", "Running"));
}

#[test]
fn services_may_be_started_that_run_and_few_may_be_restarted() {
    let mut rig = Rig::cluster();
    let mut ask = |id: &str, action| {
        rig.machines.service_action(101, id, action, rig.now).map_err(|refusal| refusal.words)
    };
    assert_eq!(ask("etcd", ServiceAction::Start).unwrap(), "Service \"etcd\" started");
    assert_eq!(ask("kubelet", ServiceAction::Restart).unwrap(), "Service \"kubelet\" restarted");
    assert_eq!(ask("nope", ServiceAction::Stop).unwrap_err(), "service \"nope\" not defined");
    assert_eq!(
        ask("machined", ServiceAction::Restart).unwrap_err(),
        "service \"machined\" doesn't support restart operation via API"
    );
    assert_eq!(
        ask("etcd", ServiceAction::Stop).unwrap_err(),
        "service \"etcd\" doesn't support stop operation via API"
    );
}

#[test]
fn a_card_without_an_address_gets_one_and_keeps_it() {
    let mut rig = Rig::new();
    rig.machines.serve_dhcp(Some("10.1.0.0/24".parse().unwrap()));
    let mut asking = boot(101);
    asking.nics[0].address = None;
    asking.nics[0].dhcp = true;
    rig.machines.power_on(101, asking.clone(), rig.now);
    rig.wait(40);
    let shown = rig.machines.addresses(101)[0].1.clone();
    assert_eq!(shown, ["10.1.0.200/24".parse().unwrap()]);
    assert!(matches!(rig.machines.port("10.1.0.200".parse().unwrap(), 50_000), PortState::Open(_)));
    rig.machines.power_off(101, rig.now);
    rig.machines.power_on(101, asking, rig.now);
    rig.wait(40);
    assert_eq!(rig.machines.addresses(101)[0].1, shown);
}

#[test]
fn the_extension_of_the_guest_agent_runs_before_any_configuration() {
    let mut rig = Rig::new();
    let mut with = boot(101);
    with.image.as_mut().unwrap().extensions = vec!["siderolabs/qemu-guest-agent".into()];
    rig.machines.power_on(101, with, rig.now);
    rig.wait(40);
    let agent = rig.machines.services(101).into_iter().find(|s| s.id == "ext-qemu-guest-agent").unwrap();
    assert_eq!((agent.state, agent.healthy), ("Running", None));
}

/// A service that started is looked at a second later, and until then it is neither healthy nor unhealthy.
#[test]
fn health_is_unknown_before_the_first_check() {
    let mut rig = Rig::new();
    rig.on(101);
    rig.wait(40);
    rig.apply(101, Role::ControlPlane);
    let seen = |rig: &Rig, id: &str| {
        let found = rig.machines.services(101).into_iter().find(|service| service.id == id);
        found.map(|service| (service.state, service.healthy))
    };
    let mut history = BTreeMap::<&str, Vec<_>>::new();
    for _ in 0..600 {
        rig.wait_millis(100);
        for id in ["cri", "kubelet", "trustd", "apid"] {
            if let Some(now) = seen(&rig, id).filter(|(state, _)| *state == "Running") {
                history.entry(id).or_default().push(now.1);
            }
        }
    }
    for id in ["cri", "kubelet", "trustd"] {
        let seen = &history[id];
        let unknown = seen.iter().take_while(|healthy| healthy.is_none()).count();
        assert!((8..=21).contains(&unknown), "{id}: {unknown} tenths of a second");
        assert!(seen[unknown..].iter().all(|healthy| *healthy == Some(true)), "{id}: {seen:?}");
    }
    let log = &rig.machines.get(101).unwrap().log;
    let told = |words: &str| {
        let said = |what: &Happening| matches!(what, Happening::Service(id, _, text, _) if id == "cri" && text.contains(words));
        log.iter().find(|entry| said(&entry.what)).map(|entry| entry.at).unwrap()
    };
    let between = told("Health check successful").duration_since(told("started with PID"));
    assert_eq!(between.as_millis(), 1_000);
}

/// As rows 841 and 845 of the recordings: the container runtime gets worse again after it was healthy, and everybody who listens hears it.
#[test]
fn leftover_services_get_worse_again_on_a_slow_host() {
    let mut rig = Rig::new();
    rig.on(101);
    rig.machines.set_slow(101, true);
    rig.wait(40);
    rig.apply(101, Role::ControlPlane);
    rig.wait(90);
    let log = &rig.machines.get(101).unwrap().log;
    let checks = |of: &str| -> Vec<bool> {
        let healthy = |what: &Happening| match what {
            Happening::Service(id, _, text, healthy) if id == of && text.starts_with("Health check") => {
                *healthy
            }
            _ => None,
        };
        log.iter().filter_map(|entry| healthy(&entry.what)).collect()
    };
    assert_eq!(checks("containerd"), [false, true, false, true]);
    assert_eq!(checks("cri"), [false, true]);
    assert_eq!(checks("kubelet"), [true]);
    rig.on(102);
    rig.wait(40);
    let healthy = rig.machines.services(102).into_iter().all(|service| service.healthy != Some(false));
    assert!(healthy, "only there");
}
