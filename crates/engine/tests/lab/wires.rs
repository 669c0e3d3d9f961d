//! What goes wrong between us and the machines, one thing at a time: the client names it, the engine gets over it or stops with
//! its code, and the next run goes on.

use std::net::IpAddr;
use std::time::Duration;

use lab::{CallFilter, Injection, When, Wire};
use model::event::{Event, Outcome, What};
use talos_client::{Credentials, Kind, Machine, Reboot};

use crate::rig::{HOME, Ran, Rig, bundle};

const DAY: Duration = Duration::from_secs(24 * 3600);

fn machine(rig: &Rig, address: &str) -> Machine {
    let identity = talos::secrets::talos_client(&bundle(), "os:admin", DAY, rig.systems.clock.now()).unwrap();
    let address: IpAddr = address.parse().unwrap();
    Machine::connect(&rig.systems.net, &rig.systems.clock, address, &Credentials::from(&identity)).unwrap()
}

/// At the next call or connection whose method and place fit.
fn at(method: &str, place: &str) -> When {
    When::Call(CallFilter { method: method.to_owned(), path_contains: place.to_owned(), skip: 0 })
}

/// The codes with which steps failed.
fn codes(ran: &Ran) -> Vec<String> {
    let failed = ran.events.iter().filter_map(|e| match &e.what {
        What::StepFailed { code, .. } => Some(code.clone()),
        _ => None,
    });
    failed.collect()
}

#[tokio::test(start_paused = true)]
async fn each_failure_of_the_wire_has_its_kind_and_the_next_call_goes_well() {
    let rig = Rig::healthy().await;
    let cases = [
        ("DIAL", Wire::Refused, Kind::Unavailable, "the port is closed"),
        ("DIAL", Wire::Reset, Kind::Unavailable, "the connection broke"),
        ("DIAL", Wire::BlackHole, Kind::Unavailable, "no answer in time"),
        ("CALL", Wire::Reset, Kind::Unavailable, "the connection broke"),
        ("CALL", Wire::Lost, Kind::Unavailable, "the connection broke"),
        ("CALL", Wire::Cut, Kind::Unavailable, "the connection broke"),
        ("CALL", Wire::BlackHole, Kind::Deadline, "no answer within"),
        ("CALL", Wire::Slow(Duration::from_secs(60)), Kind::Deadline, "no answer within"),
    ];
    for (method, fault, kind, words) in cases {
        let worker = machine(&rig, "10.25.150.21");
        rig.lab.inject(Injection::Wire { fault, when: at(method, "10.25.150.21:50000") });
        let error = worker.version().await.unwrap_err();
        assert_eq!(error.kind(), kind, "{method} {fault}: {error}");
        assert!(error.reason().contains(words), "{method} {fault}: {error}");
        assert_eq!(worker.version().await.unwrap().tag, "v1.13.9", "{method} {fault}: once only");
    }
    rig.assert_nothing_to_do(HOME).await;
}

#[tokio::test(start_paused = true)]
async fn a_bring_up_gets_over_a_bootstrap_whose_answer_is_lost() {
    for fault in [Wire::Lost, Wire::BlackHole] {
        let rig = Rig::new();
        rig.lab.inject(Injection::Wire { fault, when: at("CALL", "/machine.MachineService/Bootstrap") });
        let ran = rig.apply(HOME).await;
        assert_eq!(ran.outcome, Outcome::Done, "{fault}: {:?}", ran.failures());
        rig.assert_whole().await;
    }
}

/// A machine that answers, but not every question, is not taken for one that is as it should be.
#[tokio::test(start_paused = true)]
async fn what_a_machine_does_not_tell_is_in_the_plan() {
    let rig = Rig::healthy().await;
    let mut notes = vec![];
    for skip in 0..4 {
        let path_contains = "10.25.150.21:50000/cosi.resource.State/Get".to_owned();
        let which = CallFilter { method: "CALL".to_owned(), path_contains, skip };
        rig.lab.inject(Injection::Wire { fault: Wire::BlackHole, when: When::Call(which) });
        notes.extend(rig.observe(HOME).await.plan().notes.into_iter().map(|note| note.text));
        rig.lab.inject(Injection::Clear);
    }
    for what in ["the stage", "the configuration"] {
        let told = format!("could not observe {what} of home-work-1: ");
        assert!(notes.iter().any(|note| note.starts_with(&told)), "{what}: {notes:?}");
    }
}

/// A download that was started, or not, without anybody hearing of it is started again.
#[tokio::test(start_paused = true)]
async fn a_download_whose_answer_is_lost_is_begun_again() {
    for after in [false, true] {
        let rig = Rig::new();
        let path_contains = "/download-url".to_owned();
        let which = CallFilter { method: "POST".to_owned(), path_contains, skip: 0 };
        rig.lab.inject(Injection::CutCall { which, after });
        let snapshot = rig.observe(HOME).await;
        let mut plan = snapshot.plan();
        let kept = ["create-record", "register-schematic", "download-image"];
        plan.steps.retain(|step| kept.contains(&step.id.kind()));
        let downloads = plan.steps.len() - 2;
        let ran = rig.carry_out(&snapshot, &plan, "me").await.unwrap();
        assert_eq!((downloads, ran.outcome), (3, Outcome::Done), "{:?} {:?}", ran.failures(), plan.steps);
    }
}

#[tokio::test(start_paused = true)]
async fn without_a_time_server_the_clock_is_named_and_with_one_it_goes_on() {
    for ahead in [-3_000, 400_000] {
        let rig = Rig::new();
        for host in ["pve1", "pve2", "pve3"] {
            rig.lab.inject(Injection::HostClock { node: host.to_owned(), ahead });
        }
        rig.lab.inject(Injection::TimeServers { answer: false });
        let ran = rig.apply(HOME).await;
        assert_eq!(ran.outcome, Outcome::Failed);
        let codes = codes(&ran);
        assert!(codes.iter().any(|code| code == "clock"), "{ahead}: {:?} {codes:?}", ran.failures());
        rig.lab.inject(Injection::Clear);
        let ran = rig.apply(HOME).await;
        assert_eq!(ran.outcome, Outcome::Done, "{ahead}: {:?}", ran.failures());
        rig.assert_whole().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_disk_that_did_not_grow_gets_no_configuration() {
    let rig = Rig::new();
    rig.lab.inject(Injection::SmallDisk { vmid: 150_021, gib: 3 });
    let ran = rig.apply(HOME).await;
    assert_eq!(codes(&ran), ["disk-too-small"], "{:?}", ran.failures());
    assert!(!rig.lab.shared().read(|systems, _| systems.machines.is_configured(150_021)));
    rig.lab.inject(Injection::Clear);
    for host in ["pve1", "pve2", "pve3"] {
        // Only one has it.
        let _ = rig.systems.pve.stop(host, 150_021).await;
    }
    rig.systems.clock.sleep(Duration::from_secs(15)).await;
    let ran = rig.apply(HOME).await;
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    rig.assert_whole().await;
}

#[tokio::test(start_paused = true)]
async fn an_etcd_without_majority_is_named() {
    let rig = Rig::healthy().await;
    for vmid in [150_012, 150_013] {
        rig.lab.inject(Injection::Unplugged { vmid, unplugged: true });
    }
    let error = machine(&rig, "10.25.150.11").etcd_members(false).await.unwrap_err();
    assert_eq!(error.kind(), Kind::NoQuorum, "{error}");
    let ran = rig.apply(HOME).await;
    assert_eq!(ran.outcome, Outcome::Failed);
    // The two that are gone, the one that is left, and the workers, who know nothing of etcd.
    let codes = codes(&ran);
    let told = ["machine-unavailable", "machine-unavailable", "etcd-no-quorum", "kubernetes", "kubernetes"];
    assert_eq!(codes, told, "{:?}", ran.failures());
    // What waits for them ends with them, not minutes later.
    let failed = |event: &&Event| matches!(event.what, What::StepFailed { .. });
    let times: Vec<_> = ran.events.iter().filter(failed).map(|event| event.at).collect();
    let after = times[4].duration_since(times[1]).as_secs();
    assert!(after <= 30, "f10: {after} s, {:?}", ran.failures());
    rig.lab.inject(Injection::Clear);
    let ran = rig.apply(HOME).await;
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    rig.assert_whole().await;
}

#[tokio::test(start_paused = true)]
async fn a_release_that_does_not_come_up_leaves_the_old_one_running() {
    let talos = "v1.13.10".to_owned();
    let mut config = lab::LabConfig::default();
    config.talos_versions.push(talos.clone());
    let rig = Rig::with(config);
    let ran = rig.apply(HOME).await;
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    rig.lab.inject(Injection::BrokenSystem { vmid: 150_021, talos, broken: true });
    let worker = machine(&rig, "10.25.150.21");
    let schematic = rig.observe(HOME).await.rendered.schematics["default"].clone();
    let image = format!("factory.talos.dev/nocloud-installer/{schematic}:v1.13.10");
    let mut heard = vec![];
    worker.upgrade(&image, |progress| heard.push(progress)).await.unwrap();
    worker.reboot_and_wait(Reboot::Usual, Duration::from_secs(900)).await.unwrap();
    assert_eq!(worker.version().await.unwrap().tag, "v1.13.9", "back, healthy, and old");
    rig.systems.clock.sleep(Duration::from_secs(60)).await;
    rig.assert_nothing_to_do(HOME).await;
}
