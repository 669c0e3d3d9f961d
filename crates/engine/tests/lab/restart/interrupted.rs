//! Runs that wait at the gate, are stopped half way, or meet another operator.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use engine::Snapshot;
use engine::apply::Stop;
use engine::lease::Operator;
use engine::snapshots::NoStore;
use model::event::{Outcome, What};
use model::plan::Plan;
use model::step::{Action, Step};
use tokio::sync::watch;

use super::{WORKERS, failure, nothing, reboot, restart, rolling};
use crate::rig::{HOME, Ran, Rig, operator};

fn one_worker(snapshot: &Snapshot) -> Plan {
    let mut plan = nothing(snapshot);
    restart(&mut plan, WORKERS[0], vec![reboot(WORKERS[0])], &[]);
    plan
}

/// What is left after a run that ended with a node down or cordoned: it is verified and uncordoned.
pub fn rest(snapshot: &Snapshot, node: &str) -> Plan {
    let mut plan = nothing(snapshot);
    let mut after = vec![];
    for action in [Action::VerifyNode { node: node.into() }, Action::UncordonNode { node: node.into() }] {
        let step = Step {
            id: action.id(),
            after: std::mem::take(&mut after),
            reason: "an earlier run cordoned it".into(),
            disruption: model::step::Disruption::None,
            seconds: 30,
            unit: None,
            action,
        };
        after.push(step.id.clone());
        plan.steps.push(step);
    }
    plan
}

/// Stops a run in this way after so many seconds.
async fn stopped_after(rig: &Rig, plan: &Plan, snapshot: &Snapshot, seconds: u64, how: Stop) -> Ran {
    let (wish, stop) = watch::channel(Stop::No);
    let stopping = async {
        rig.systems.clock.sleep(Duration::from_secs(seconds)).await;
        wish.send_replace(how);
        std::future::pending::<()>().await;
    };
    let me = operator("me");
    tokio::select! {
        biased;
        ran = Box::pin(rig.carry_out_until(stop, snapshot, plan, &me)) => ran.unwrap(),
        () = stopping => unreachable!(),
    }
}

#[tokio::test(start_paused = true)]
async fn the_gate_waits_for_a_worker_that_is_away() {
    let rig = Rig::healthy().await;
    rig.lab.person().power_off(150_022).unwrap();
    rig.systems.clock.sleep(Duration::from_secs(60)).await;
    let snapshot = rig.observe(HOME).await;
    let comes_back = async {
        rig.systems.clock.sleep(Duration::from_secs(120)).await;
        rig.lab.person().power_on(150_022).unwrap();
    };
    let before = rig.boots();
    let plan = one_worker(&snapshot);
    let (ran, ()) = tokio::join!(Box::pin(rig.carry_out(&snapshot, &plan, "me")), comes_back);
    let ran = ran.unwrap();
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    let waited = ran.events.iter().any(
        |event| matches!(&event.what, What::StepProgress { note, .. } if note.contains("1 worker may be unavailable at once")),
    );
    assert!(waited);
    assert_ne!(rig.boots()[&150_021], before[&150_021]);
}

#[tokio::test(start_paused = true)]
async fn the_gate_does_not_wait_for_ever() {
    let rig = Rig::healthy().await;
    rig.lab.person().power_off(150_022).unwrap();
    rig.systems.clock.sleep(Duration::from_secs(60)).await;
    let (snapshot, before) = (rig.observe(HOME).await, rig.boots());
    let ran = rig.carry_out(&snapshot, &one_worker(&snapshot), "me").await.unwrap();
    let (step, code, why) = failure(&ran);
    assert_eq!((step.as_str(), code.as_str()), ("drain-node/home-work-1", "gate"), "{why}");
    assert!(why.contains("home-work-2"), "{why}");
    assert_eq!((rig.boots(), rig.cordoned().await), (before, BTreeMap::new()), "nothing was touched");
}

/// A database that is full: a member that stops may not come back.
#[tokio::test(start_paused = true)]
async fn the_gate_sees_an_alarm_of_etcd() {
    let rig = Rig::healthy().await;
    rig.lab.inject(lab::Injection::FullEtcd { vmid: 150_012 });
    let (snapshot, before) = (rig.observe(HOME).await, rig.boots());
    let mut plan = nothing(&snapshot);
    restart(&mut plan, "home-control-1", vec![reboot("home-control-1")], &[]);
    let ran = rig.carry_out(&snapshot, &plan, "me").await.unwrap();
    assert_eq!(failure(&ran).1, "gate");
    assert_eq!((rig.boots(), rig.cordoned().await), (before, BTreeMap::new()), "nothing was touched");
}

#[tokio::test(start_paused = true)]
async fn the_end_of_the_operators_time_at_the_gate_is_clean() {
    let rig = Rig::healthy().await;
    rig.lab.person().power_off(150_022).unwrap();
    rig.systems.clock.sleep(Duration::from_secs(60)).await;
    let (snapshot, before) = (rig.observe(HOME).await, rig.boots());
    let ran = stopped_after(&rig, &one_worker(&snapshot), &snapshot, 30, Stop::Timeout).await;
    assert_eq!(ran.outcome, Outcome::Failed);
    let (step, code, why) = failure(&ran);
    assert_eq!((step.as_str(), code.as_str()), ("drain-node/home-work-1", "timeout"));
    assert!(why.contains("was waiting: 1 worker may be unavailable at once"), "{why}");
    assert_eq!((rig.boots(), rig.cordoned().await), (before, BTreeMap::new()), "nothing was touched");
}

#[tokio::test(start_paused = true)]
async fn an_interrupt_lets_the_step_end_and_the_next_run_goes_on() {
    let rig = Rig::healthy().await;
    let (snapshot, before) = (rig.observe(HOME).await, rig.boots());
    // While it reboots.
    let ran = stopped_after(&rig, &rolling(&snapshot), &snapshot, 20, Stop::Graceful).await;
    assert_eq!(ran.outcome, Outcome::Interrupted);
    let done: Vec<String> = ran
        .events
        .iter()
        .filter_map(|event| match &event.what {
            What::StepDone { step, .. } => Some(step.to_string()),
            _ => None,
        })
        .collect();
    assert_eq!(done.last().map(String::as_str), Some("reboot-node/home-control-1"), "{done:?}");
    assert!(!done.iter().any(|step| step.starts_with("verify")), "nothing new was started");
    let rebooted: Vec<u32> =
        rig.boots().into_iter().filter(|(vmid, boot)| before[vmid] != *boot).map(|(v, _)| v).collect();
    assert_eq!(rebooted, [150_011]);
    let cordoned = rig.cordoned().await;
    assert_eq!(cordoned.keys().collect::<Vec<_>>(), ["home-control-1"]);
    let snapshot = rig.observe(HOME).await;
    let ran = rig.carry_out(&snapshot, &rest(&snapshot, "home-control-1"), "me").await.unwrap();
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    assert_eq!(rig.cordoned().await, BTreeMap::new());
    rig.assert_whole().await;
}

/// Another operator takes the lease over while a node reboots: the first one disrupts nothing any more.
#[tokio::test(start_paused = true)]
async fn who_lost_the_lease_disrupts_nothing() {
    let rig = Rig::healthy().await;
    let first = rig.observe(HOME).await;
    let kim = Operator { take_over: true, ..operator("kim") };
    let second = async {
        rig.systems.clock.sleep(Duration::from_secs(25)).await;
        loop {
            let snapshot = rig.observe(HOME).await;
            match rig.carry_out_as(&snapshot, &rolling(&snapshot), &kim).await {
                Err(error) if error.kind() == engine::error::Kind::Stale => {}
                result => return result,
            }
        }
    };
    let plan = rolling(&first);
    let (eva, kim) = tokio::join!(Box::pin(rig.carry_out(&first, &plan, "eva")), Box::pin(second));
    let (eva, kim) = (eva.unwrap(), kim.unwrap());
    assert_eq!(eva.outcome, Outcome::Failed);
    assert!(
        eva.failures().iter().any(|told| told == "lease: kim@test took over the lease"),
        "{:?}",
        eva.failures()
    );
    assert_eq!(kim.outcome, Outcome::Done, "{:?}", kim.failures());
    assert_eq!(rig.cordoned().await, BTreeMap::new());
    rig.assert_whole().await;
}

/// A step outside of the unit fails that a later step of it needs: what the unit has started is half done, so nothing else starts.
#[tokio::test(start_paused = true)]
async fn a_unit_that_cannot_go_on_closes_the_gate() {
    let rig = Rig::healthy().await;
    let session = rig.session(HOME).with_snapshots(Arc::new(NoStore));
    let (snapshot, before) = (session.observe().await.ok().unwrap(), rig.boots());
    let mut plan = one_worker(&snapshot);
    // There is no place for a snapshot, so it fails, while the node is drained.
    let mut snapshot_step = rest(&snapshot, WORKERS[0]).steps.remove(0);
    snapshot_step.action = Action::SnapshotEtcd;
    snapshot_step.id = Action::SnapshotEtcd.id();
    let id = snapshot_step.id.clone();
    snapshot_step.after = vec![plan.steps[0].id.clone()];
    plan.steps[1].after.push(id);
    plan.steps.push(snapshot_step);
    restart(&mut plan, WORKERS[1], vec![reboot(WORKERS[1])], &[]);
    let ran = rig.carry_out(&snapshot, &plan, "me").await.unwrap();
    assert_eq!(ran.outcome, Outcome::Failed);
    assert_eq!(failure(&ran).1, "no-snapshot-store");
    assert_eq!(rig.boots(), before, "nothing was rebooted");
    assert_eq!(
        rig.cordoned().await.keys().collect::<Vec<_>>(),
        [WORKERS[0]],
        "the other one was never drained"
    );
}
