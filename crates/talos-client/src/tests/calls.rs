//! Calls with consequences: what they send, and what of the answers may surprise.

use std::io::Cursor;
use std::sync::atomic::Ordering;
use std::time::Duration;

use talos::wire::common;
use talos::wire::machine as wire;
use talos::wire::machine::machine_status_event::MachineStage;
use tonic::Status;

use super::node::event;
use super::world::{CONFIG, Face, Habits, World};
use super::{machine, maintenance};
use crate::snapshot::tests::sample;
use crate::*;

const LIMIT: Duration = Duration::from_secs(600);

fn configured() -> World {
    World::new(Face::Configured, Habits::default())
}

fn sequence(name: &str, code: Option<common::Code>) -> wire::SequenceEvent {
    let error =
        code.map(|code| common::Error { code: code.into(), message: "words".into(), ..Default::default() });
    wire::SequenceEvent { sequence: name.into(), error, ..Default::default() }
}

#[tokio::test]
async fn the_mode_of_an_apply_is_always_said() {
    let world = configured();
    let machine = machine(&world);
    let applied = machine.apply(CONFIG.as_bytes()).await.unwrap();
    assert!(!applied.reboots);
    machine.apply_with(CONFIG.as_bytes(), ApplyMode::NoReboot).await.unwrap();
    machine.apply_with(CONFIG.as_bytes(), ApplyMode::Staged).await.unwrap();
    machine.apply_with(CONFIG.as_bytes(), ApplyMode::Try(Duration::from_secs(60))).await.unwrap();
    assert!(machine.apply_dry_run(CONFIG.as_bytes()).await.unwrap().unchanged);
    assert_eq!(
        world.script.lock().unwrap().asked,
        [
            "apply Auto dry=false",
            "apply NoReboot dry=false",
            "apply Staged dry=false",
            "apply Try dry=false",
            "apply Auto dry=true"
        ]
    );
}

#[tokio::test]
async fn a_difference_names_places_and_never_values() {
    let world = configured();
    let wanted = CONFIG.replace("hunter2", "hunter3");
    let release = talos::config::Contract::parse("v1.13").unwrap();
    let changes = machine(&world).changes_to(&wanted, release).await.unwrap();
    assert_eq!(changes.len(), 1);
    assert_eq!(changes[0].path, "machine.token");
    assert!(!format!("{changes:?}").contains("hunter"));
}

#[tokio::test]
async fn a_machine_that_is_switching_over_denies() {
    let world = World::new(Face::Maintenance, Habits::default());
    world.script.lock().unwrap().switching = true;
    let error = maintenance(&world).await.apply(CONFIG.as_bytes()).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Denied, "a client that applied before takes this for success");
}

#[tokio::test(start_paused = true)]
async fn calls_to_etcd_have_an_end_and_say_where_the_machine_was() {
    let world = configured();
    let machine = machine(&world);
    machine.stage().await.unwrap();
    world.script.lock().unwrap().etcd_hangs = true;
    let error = machine.within(Duration::from_secs(3)).etcd_members(false).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Deadline);
    assert_eq!(
        error.to_string(),
        "listing the members of etcd on 10.0.0.1 (last seen booting): no answer within 3 s"
    );
    assert!(error.hint().unwrap().contains("quorum"));
    assert_eq!(
        machine.etcd_members(false).await.unwrap_err().kind(),
        Kind::Deadline,
        "without a limit of ours too"
    );
}

#[tokio::test]
async fn etcd_says_no_in_several_ways() {
    let world = configured();
    let machine = machine(&world);
    for (status, kind) in [
        (Status::unknown("etcdserver: no leader"), Kind::NoQuorum),
        (
            Status::unknown("error building etcd client TLS config: open /system/secrets/etcd/admin.crt"),
            Kind::NotReady,
        ),
        (Status::unimplemented("member list is only available on control plane nodes"), Kind::Unimplemented),
        (Status::unknown("etcdserver: rpc not supported for learner"), Kind::Other),
    ] {
        world.script.lock().unwrap().etcd_refusal = Some(status);
        assert_eq!(machine.etcd_members(true).await.unwrap_err().kind(), kind);
    }
    let joining = &machine.etcd_members(false).await.unwrap()[0];
    assert!(joining.learner && joining.hostname.is_empty(), "so it is for a moment while one joins");
}

#[tokio::test]
async fn snapshots_are_checked_on_both_ways() {
    let world = configured();
    let machine = machine(&world);
    let sound = sample(20);
    world.script.lock().unwrap().snapshot = sound.clone();
    let mut written = Vec::new();
    let taken = machine.etcd_snapshot(&mut written).await.unwrap();
    assert_eq!((written.as_slice(), taken.bytes), (sound.as_slice(), 20 * 512 + 32));
    assert_eq!(machine.etcd_recover(Cursor::new(sound.clone())).await.unwrap(), taken);
    assert_eq!(world.script.lock().unwrap().recovered, sound);
    machine.bootstrap_recovered().await.unwrap();

    world.script.lock().unwrap().snapshot.truncate(5000);
    assert_eq!(machine.etcd_snapshot(&mut Vec::new()).await.unwrap_err().kind(), Kind::Failed);
    world.script.lock().unwrap().recovered.clear();
    let error = machine.etcd_recover(Cursor::new(b"garbage".to_vec())).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "handing over a snapshot of etcd on 10.0.0.1: it is not a snapshot of etcd, or was cut off"
    );
    assert!(world.script.lock().unwrap().recovered.is_empty(), "a machine would have taken it");
}

#[tokio::test(start_paused = true)]
async fn a_restart_is_over_when_the_boot_id_changed_and_it_stays_running() {
    let world = configured();
    let machine = machine(&world);
    {
        let mut script = world.script.lock().unwrap();
        // Another restart took over ours: that is not a failure.
        script.events = vec![event("me", &sequence("reboot", Some(common::Code::Canceled)))];
        script.boots = ["first", "first", "second"].into();
        script.stages = ["running", "rebooting", "booting", "running"].into();
    }
    machine.reboot_and_wait(Reboot::PowerCycle, LIMIT).await.unwrap();
    let script = world.script.lock().unwrap();
    assert_eq!(script.asked, ["reboot Powercycle"]);
    assert_eq!(script.stages, ["running"], "one sighting of running was not believed");
}

#[tokio::test(start_paused = true)]
async fn a_restart_that_is_refused_or_fails_is_told_by_events_only() {
    for (code, actor, kind) in
        [(common::Code::Locked, "", Kind::Refused), (common::Code::Fatal, "me", Kind::Failed)]
    {
        let world = configured();
        world.script.lock().unwrap().events = vec![
            event("somebody", &sequence("reboot", Some(common::Code::Fatal))),
            event(actor, &sequence("reboot", Some(code))),
        ];
        let error = machine(&world).reboot_and_wait(Reboot::Usual, LIMIT).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_comes_back_bare_or_not_at_all_is_told() {
    let world = configured();
    let credentials = world.credentials();
    let machine = Machine::connect(&world.net(), &world.clock, super::ADDRESS, &credentials).unwrap();
    let boot = machine.boot_id().await.unwrap();
    world.show(Face::Closed);
    world.cut().await;
    let error = machine.wait_for_boot(&boot, LIMIT).await.unwrap_err();
    assert_eq!(error.to_string(), "waiting for a boot on 10.0.0.1: it is not back after 600 s");
    world.show(Face::Maintenance);
    let error = machine.wait_for_boot(&boot, LIMIT).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Untrusted);
    assert!(error.to_string().ends_with("it came back without its configuration"));
}

#[tokio::test]
async fn events_are_read_and_end_well() {
    let world = configured();
    let machine = machine(&world);
    let status = wire::MachineStatusEvent { stage: MachineStage::Rebooting.into(), ..Default::default() };
    // The code of a fatal error is zero, and so is not on the wire at all.
    let fatal = sequence("reset", Some(common::Code::Fatal));
    world.script.lock().unwrap().events = vec![event("me", &fatal), event("", &status)];
    let mut events = machine.events(Past::Everything).await.unwrap();
    machine.reboot(Reboot::Usual).await.unwrap();
    let first = events.next(LIMIT).await.unwrap().unwrap();
    assert_eq!(first.actor, "me");
    assert_eq!(
        first.what,
        What::Sequence {
            name: "reset".into(),
            step: None,
            failure: Some(SequenceFailure::Fatal("words".into()))
        }
    );
    let last = events.next(LIMIT).await.unwrap().unwrap();
    assert!(matches!(last.what, What::Status(MachineStatus { stage: Stage::Rebooting, .. })));
    assert_eq!(events.next(LIMIT).await.unwrap(), None, "the end says nothing but that it is the end");
    let error = machine.logs("nope", Lines::All).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "reading a log on 10.0.0.1 (last seen rebooting): log \"nope\" was not registered"
    );
}

#[tokio::test]
async fn a_watch_tells_changes_and_breaks_when_the_machine_goes() {
    let world = configured();
    let machine = machine(&world);
    for id in [None, Some("kubelet")] {
        let mut watch = machine.watch("runtime", "Services.v1alpha1.talos.dev", id).await.unwrap();
        assert!(
            matches!(watch.next(LIMIT).await.unwrap(), Some(Change::Created(r)) if r.spec["running"] == true)
        );
        assert_eq!(watch.next(LIMIT).await.unwrap(), Some(Change::Bootstrapped));
        assert_eq!(watch.next(LIMIT).await.unwrap(), Some(Change::Destroyed { id: "kubelet".into() }));
        assert_eq!(watch.next(LIMIT).await.unwrap_err().kind(), Kind::Unavailable);
    }
}

#[tokio::test]
async fn an_installer_that_fails_is_a_failure_though_the_stream_ends_well() {
    let world = configured();
    let machine = machine(&world);
    let mut heard = vec![];
    world.script.lock().unwrap().installer = (vec!["writing", "no space left"], Some(1));
    let error = machine.upgrade("factory/x:v1.13.9", |p| heard.push(p)).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Failed);
    assert!(error.to_string().ends_with("the installer ended with code 1: no space left"), "{error}");
    assert_eq!(heard.len(), 3);
    world.script.lock().unwrap().installer = (vec![], None);
    assert_eq!(machine.upgrade("x", |_| {}).await.unwrap_err().kind(), Kind::Failed);
    world.script.lock().unwrap().installer = (vec!["done"], Some(0));
    assert_eq!(machine.upgrade("x", |_| {}).await.unwrap(), Upgraded::AwaitsReboot);
    assert_eq!(machine.upgrade("nope", |_| {}).await.unwrap_err().kind(), Kind::NotFound);
}

#[tokio::test]
async fn an_older_machine_is_upgraded_in_one_call() {
    let world = World::new(Face::Configured, Habits { old: true });
    let machine = machine(&world);
    let upgraded = machine.upgrade("x", |_| {}).await.unwrap();
    assert_eq!(upgraded, Upgraded::RestartsItself { actor: "up".into() });
    assert_eq!(world.script.lock().unwrap().asked, ["upgrade x"]);
}

#[tokio::test]
async fn services_and_logs() {
    let world = configured();
    let machine = machine(&world);
    assert_eq!(machine.logs("kubelet", Lines::Last(10)).await.unwrap(), "one\ntwo\n");
    assert_eq!(machine.logs("kubelet", Lines::All).await.unwrap(), "one\ntwo\n");
    machine.service_start("kubelet").await.unwrap();
    let error = machine.service_start("nope").await.unwrap_err();
    assert_eq!(error.to_string(), "starting a service on 10.0.0.1: service \"nope\" not defined");
}

#[tokio::test]
async fn messages_larger_than_the_usual_limit_are_taken() {
    let found = machine(&configured()).list("runtime", "Large").await.unwrap();
    assert_eq!(found[0].spec["text"].as_str().unwrap().len(), 5 << 20);
}

#[tokio::test(start_paused = true)]
async fn an_idle_stream_is_left_alone() {
    let world = configured();
    let machine = machine(&world);
    let mut events = machine.events(Past::Nothing).await.unwrap();
    let _ = events.next(Duration::from_secs(1)).await;
    let before = world.received.load(Ordering::SeqCst);
    let error = events.next(Duration::from_secs(3600)).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Deadline);
    assert_eq!(world.received.load(Ordering::SeqCst), before, "a ping would earn an end of the connection");
}

#[test]
fn ready_alone_says_nothing() {
    let status = |stage, ready| MachineStatus { stage, ready, unmet: vec![] };
    for stage in
        [Stage::Maintenance, Stage::Installing, Stage::Rebooting, Stage::Resetting, Stage::ShuttingDown]
    {
        assert!(!status(stage, true).is_up());
    }
    assert!(!status(Stage::Running, false).is_up() && status(Stage::Running, true).is_up());
}
