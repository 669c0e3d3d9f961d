//! Waits that cannot end well end soon, with the cause.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lab::{CallMoment, Injection, Verdict};
use model::event::{Outcome, What};
use model::observed::Etcd;
use talos_client::{Machine, Reboot};

use crate::rig::{HOME, Rig};

impl Rig {
    async fn control(&self, name: &str) -> Machine {
        let snapshot = self.observe(HOME).await;
        let address = IpAddr::V4(snapshot.blueprint.nodes[name].address.addr());
        Machine::connect(&self.systems.net, &self.systems.clock, address, &snapshot.access().unwrap().talos)
            .unwrap()
    }

    /// Applies; the run must fail within so many seconds, with these words.
    pub async fn fails_within(&self, file: &str, seconds: i64, words: &str) {
        let began = self.systems.clock.now();
        let ran = self.apply(file).await;
        let took = self.systems.clock.now().duration_since(began).as_secs();
        assert_eq!(ran.outcome, Outcome::Failed);
        let failures = ran.failures().join("\n");
        assert!(failures.contains(words), "{failures}");
        assert!(took <= seconds, "it took {took} s: {failures}");
    }
}

/// No registry has the kubelet: Talos tries for two minutes, then it never tries again.
#[tokio::test(start_paused = true)]
async fn t5_a_kubelet_whose_image_cannot_be_pulled_ends_the_wait() {
    let rig = Rig::healthy().await;
    let more = HOME.replace("worker, count: 2", "worker, count: 3");
    let file = format!(
        "{more}nodes:\n  home-work-3:\n    patches: [{{ machine: {{ kubelet: {{ image: 'ghcr.io/nope/kubelet:v1.35.4' }} }} }}]\n"
    );
    rig.fails_within(
        &file,
        360,
        "home-work-3 does not join: its service kubelet failed, and Talos does not try again",
    )
    .await;
}

/// A control plane node cannot pull etcd, and the operator dies before etcd is bootstrapped. That node cannot show whether it has etcd data,
/// so nothing is bootstrapped, and the reason is not that it is slow. The hint leads to a healthy cluster.
#[tokio::test(start_paused = true)]
async fn t5_an_etcd_that_talos_gave_up_is_named_before_bootstrap() {
    let rig = Rig::new();
    rig.lab.inject(Injection::NoImage { vmid: 150_012, service: "etcd".to_owned(), missing: true });
    let dead = Arc::new(AtomicBool::new(false));
    let unresponsive = dead.clone();
    rig.lab.on_call(move |_, moment, _, path| {
        let before = moment == CallMoment::Before && path.ends_with("/Bootstrap");
        if before && !unresponsive.load(Ordering::Relaxed) { Verdict::Hold } else { Verdict::GoOn }
    });
    tokio::select! {
        biased;
        () = rig.systems.clock.sleep(Duration::from_secs(120)) => {}
        _ = rig.apply(HOME) => panic!("nothing is bootstrapped"),
    }
    dead.store(true, Ordering::Relaxed);
    rig.systems.clock.sleep(Duration::from_secs(300)).await;
    rig.lab.inject(Injection::Clear);
    let words = "home-control-2 does not say whether it has etcd data: its service etcd failed, and Talos does not try again";
    rig.fails_within(HOME, 30, words).await;
    let ran = rig.apply(HOME).await;
    let hint = ran.events.iter().find_map(|event| match &event.what {
        What::StepFailed { hint, code, .. } if code == "service-halted" => Some(hint.clone()),
        _ => None,
    });
    assert!(hint.as_ref().is_some_and(|hint| hint.contains("`talosctl -n 10.25.150.12 reboot`")), "{hint:?}");
    rig.control("home-control-2").await.reboot(Reboot::Usual).await.unwrap();
    rig.systems.clock.sleep(Duration::from_secs(60)).await;
    assert_eq!(rig.apply(HOME).await.outcome, Outcome::Done);
    rig.assert_whole().await;
}

/// The console of the only control plane node stays silent, so nothing proves it, and etcd is not bootstrapped. Workers that have their
/// configuration since the first run wait for a control plane node, and end with it.
#[tokio::test(start_paused = true)]
async fn issue_16_a_worker_does_not_wait_for_a_control_plane_that_failed() {
    let (rig, file) = (Rig::new(), HOME.replace("controlplane, count: 3", "controlplane, count: 1"));
    rig.lab.inject(Injection::Console { vmid: 150_011, fault: Some(lab::ConsoleFault::Silent) });
    assert_eq!(rig.apply(&file).await.outcome, Outcome::Failed);
    rig.systems.clock.sleep(Duration::from_secs(120)).await;
    let began = rig.systems.clock.now();
    let ran = rig.apply(&file).await;
    let failures = ran.failures();
    let failed = |step: &str| {
        let event = ran
            .events
            .iter()
            .find(|event| matches!(&event.what, What::StepFailed { step: id, .. } if id.0 == step));
        event.unwrap_or_else(|| panic!("{step}: {failures:?}")).at.duration_since(began).as_secs()
    };
    let (control, worker) = (failed("configure/home-control-1"), failed("configure/home-work-1"));
    assert!(worker <= control + 10, "{worker} s, and the control plane node failed after {control} s");
    let told = failures.iter().find(|told| told.starts_with("configure/home-work-1")).unwrap();
    let why = "no control plane node runs in this run: configure/home-control-1 failed: what answers at 10.25.150.11 is not proved";
    assert!(told.contains(why), "{told}");
    // What is said every 30 seconds is the main cause, too.
    let notes = ran.events.iter().filter_map(|event| match &event.what {
        What::StepProgress { step, note, .. } if step.0 == "configure/home-work-1" => Some(note.as_str()),
        _ => None,
    });
    let notes: Vec<&str> = notes.collect();
    let main = "and none runs yet (home-control-1: ";
    assert!(notes.iter().any(|note| note.contains(main)), "{notes:?}");
}

#[tokio::test(start_paused = true)]
async fn t5_a_control_plane_that_left_etcd_ends_the_wait() {
    let rig = Rig::healthy().await;
    rig.control("home-control-3").await.etcd_leave().await.unwrap();
    rig.systems.clock.sleep(Duration::from_secs(30)).await;
    rig.fails_within(HOME, 240, "home-control-3 does not join: its service etcd has ended").await;
}

#[tokio::test(start_paused = true)]
async fn t5_a_removed_member_that_kept_its_data_ends_the_wait() {
    let rig = Rig::healthy().await;
    let third = rig.control("home-control-3").await.etcd_status().await.unwrap().member;
    rig.control("home-control-1").await.etcd_remove_member(third).await.unwrap();
    rig.systems.clock.sleep(Duration::from_secs(30)).await;
    rig.fails_within(HOME, 240, "home-control-3 does not join: its service etcd restarts again and again")
        .await;
}

/// A member that boots prepares its etcd as a node does that never had any; only its data tells them apart.
#[tokio::test(start_paused = true)]
async fn t1_a_member_that_prepares_again_has_data() {
    let rig = Rig::healthy().await;
    let machine = rig.control("home-control-2").await;
    rig.lab.person().power_off(150_012).and_then(|()| rig.lab.person().power_on(150_012)).unwrap();
    let mut prepared = false;
    for _ in 0..1000 {
        let services = machine.services().await.unwrap_or_default();
        let etcd = services.iter().find(|service| service.id == "etcd").map(|etcd| etcd.state.clone());
        if etcd.as_deref() == Some("Preparing") {
            prepared = true;
            let seen = rig.observe(HOME).await.observed.machines["home-control-2"].etcd.clone();
            assert_ne!(seen, Etcd::Empty);
        } else if etcd.as_deref() == Some("Running") && prepared {
            return;
        }
        rig.systems.clock.sleep(Duration::from_millis(200)).await;
    }
    panic!("it was not seen to prepare: {prepared}");
}

/// Kubernetes notices a reboot up to a minute later. Until then its word does not stand beside that of the machine.
#[tokio::test(start_paused = true)]
async fn leftover_health_has_one_readiness_during_a_restart() {
    let rig = Rig::healthy().await;
    rig.control("home-control-2").await.reboot(Reboot::Usual).await.unwrap();
    rig.systems.clock.sleep(Duration::from_secs(8)).await;
    let snapshot = rig.observe(HOME).await;
    assert!(snapshot.observed.kubernetes.nodes["home-control-2"].ready, "Kubernetes has not noticed");
    let conditions = engine::health::conditions(&rig.systems, &snapshot).await;
    let missing = |name: &str| {
        let condition = conditions.iter().find(|condition| condition.name == name).unwrap();
        condition.missing.clone().unwrap_or_default()
    };
    for name in [
        "every machine runs and is ready",
        "every node is ready in Kubernetes",
        "the control plane's pods are ready",
    ] {
        assert!(missing(name).contains("home-control-2"), "{name}: {conditions:?}");
    }
}
