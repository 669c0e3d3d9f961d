//! What the file asks for before each disruption: a maintenance window, systems that are healthy, commands that succeed.

use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use engine::Snapshot;
use engine::local::{LocalMachine, Ran};
use jiff::tz::TimeZone;
use model::allowed::Allowed;
use model::event::{Outcome, What};
use model::plan::Plan;
use serde_json::{Value, json};

use crate::restart::{nothing, reboot, restart};
use crate::rig::{HOME, Rig};

const WORKER: &str = "home-work-1";

/// A machine whose commands fail so many times, and whose only zone is Berlin.
#[derive(Default)]
struct Local {
    failures: AtomicUsize,
    ran: Mutex<Vec<String>>,
    hangs: bool,
}

impl LocalMachine for Local {
    fn run<'a>(&'a self, command: &'a str) -> Pin<Box<dyn Future<Output = Ran> + Send + 'a>> {
        self.ran.lock().unwrap().push(command.to_owned());
        let fails = self.failures.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1));
        match (self.hangs, fails) {
            (true, _) => Box::pin(std::future::pending()),
            (false, Ok(_)) => Box::pin(std::future::ready(Ran::Failed("exited with 1: no endpoints".into()))),
            (false, Err(_)) => Box::pin(std::future::ready(Ran::Passed)),
        }
    }

    fn time_zone(&self, name: &str) -> Result<TimeZone, String> {
        assert_eq!(name, "Europe/Berlin");
        TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").map_err(|error| error.to_string())
    }
}

impl Rig {
    async fn observe_with(&self, changes: &str, local: Arc<Local>, allowed: Allowed) -> Snapshot {
        let session = self.session(&format!("{HOME}changes: {changes}\n"));
        session.with_local(local).allowing(allowed).observe().await.ok().unwrap()
    }

    /// Restarts a worker, and says whether that was done; else what kept it, with the hint.
    async fn restart_worker(&self, snapshot: &Snapshot) -> Result<(), String> {
        let mut plan: Plan = nothing(snapshot);
        restart(&mut plan, WORKER, vec![reboot(WORKER)], &[]);
        let before = self.boots();
        let ran = self.carry_out(snapshot, &plan, "me").await.unwrap();
        if ran.outcome == Outcome::Done {
            assert_ne!(before, self.boots());
            return Ok(());
        }
        assert_eq!(before, self.boots(), "nothing was restarted");
        let told = ran.events.iter().find_map(|event| match &event.what {
            What::StepFailed { code, causes, hint, .. } => {
                assert_eq!(code, "gate");
                Some(format!("{} / {hint}", causes.join(": ")))
            }
            _ => None,
        });
        Err(told.unwrap())
    }
}

async fn cluster() -> Rig {
    let rig = Rig::new();
    rig.apply(HOME).await;
    rig
}

#[tokio::test(start_paused = true)]
async fn outside_of_its_window_nothing_starts_and_the_next_opening_is_told() {
    let rig = cluster().await;
    let local = || Arc::new(Local::default());
    // A window that opens an hour from now, by the clock in Berlin, and is closed for the rest of the day.
    let berlin = local().time_zone("Europe/Berlin").unwrap();
    let hour = rig.systems.clock.now() + jiff::SignedDuration::from_hours(1);
    let opens = berlin.to_datetime(hour);
    let (from, to) = (
        opens.strftime("%H:00"),
        berlin.to_datetime(hour + jiff::SignedDuration::from_hours(3)).strftime("%H:00").to_string(),
    );
    let changes = format!("{{ window: {{ from: \"{from}\", to: \"{to}\", time_zone: Europe/Berlin }} }}");
    let snapshot = rig.observe_with(&changes, local(), Allowed::default()).await;
    let closed = rig.restart_worker(&snapshot).await.unwrap_err();
    assert!(closed.contains("Europe/Berlin) is closed; it opens at 2"), "{closed}");
    assert!(closed.contains("--now"), "{closed}");
    let now = Allowed { outside_window: true, ..Allowed::default() };
    let snapshot = rig.observe_with(&changes, local(), now).await;
    rig.restart_worker(&snapshot).await.unwrap();
    rig.systems.clock.sleep(Duration::from_secs(90 * 60)).await;
    let snapshot = rig.observe_with(&changes, local(), Allowed::default()).await;
    rig.restart_worker(&snapshot).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_command_gate_runs_before_each_unit_and_is_waited_for() {
    let rig = cluster().await;
    let local = Arc::new(Local { failures: 2.into(), ..Local::default() });
    let snapshot =
        rig.observe_with("{ commands: [./first, ./second] }", local.clone(), Allowed::default()).await;
    assert_eq!(*local.ran.lock().unwrap(), [] as [String; 0], "observing runs no command");
    rig.restart_worker(&snapshot).await.unwrap();
    assert_eq!(*local.ran.lock().unwrap(), ["./first", "./first", "./first", "./second"]);
}

#[tokio::test(start_paused = true)]
async fn a_command_gate_that_does_not_succeed_stops_the_run() {
    let rig = cluster().await;
    let never = Arc::new(Local { failures: usize::MAX.into(), ..Local::default() });
    let snapshot = rig.observe_with("{ commands: [./check] }", never, Allowed::default()).await;
    let failed = rig.restart_worker(&snapshot).await.unwrap_err();
    assert!(failed.contains("the command gate `./check` exited with 1: no endpoints"), "{failed}");
    let hangs = Arc::new(Local { hangs: true, ..Local::default() });
    let snapshot = rig.observe_with("{ commands: [./check] }", hangs, Allowed::default()).await;
    let failed = rig.restart_worker(&snapshot).await.unwrap_err();
    assert!(failed.contains("did not end within 5 minutes"), "{failed}");
    // A session that was given no machine runs nothing, and says so at once.
    let snapshot = rig.observe(&format!("{HOME}changes: {{ commands: [./check] }}\n")).await;
    let before = rig.systems.clock.now();
    let refused = rig.restart_worker(&snapshot).await.unwrap_err();
    assert!(refused.contains("was not run: this session runs no commands"), "{refused}");
    assert!(rig.systems.clock.now().duration_since(before).as_mins() < 5);
}

fn definition(group: &str, version: &str, kind: &str, plural: &str) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase(), "listKind": format!("{kind}List")},
            "versions": [{
                "name": version, "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
            }],
        },
    })
}

#[tokio::test(start_paused = true)]
async fn a_named_system_is_installed_and_healthy() {
    let rig = cluster().await;
    let local = || Arc::new(Local::default());
    let changes = "{ gates: [longhorn] }";
    let snapshot = rig.observe_with(changes, local(), Allowed::default()).await;
    let missing = rig.restart_worker(&snapshot).await.unwrap_err();
    assert!(
        missing.contains("the gate `longhorn` is named in the file, and its resources are not installed"),
        "{missing}"
    );

    let kubernetes = rig.kubernetes();
    let volume = |robustness: &str| {
        json!({
            "apiVersion": "longhorn.io/v1beta2", "kind": "Volume",
            "metadata": {"name": "pvc-1", "namespace": "default"},
            "status": {"state": "attached", "robustness": robustness},
        })
    };
    kubernetes.apply(&definition("longhorn.io", "v1beta2", "Volume", "volumes")).await.unwrap();
    rig.systems.clock.sleep(Duration::from_secs(30)).await;
    kubernetes.apply(&volume("degraded")).await.unwrap();
    let snapshot = rig.observe_with(changes, local(), Allowed::default()).await;
    let unhealthy = rig.restart_worker(&snapshot).await.unwrap_err();
    assert!(unhealthy.contains("the gate `longhorn` is closed: default/pvc-1 is degraded"), "{unhealthy}");

    // It recovers while the run waits.
    let recovers = async {
        rig.systems.clock.sleep(Duration::from_secs(120)).await;
        kubernetes.apply(&volume("healthy")).await.unwrap();
        std::future::pending::<()>().await;
    };
    let snapshot = rig.observe_with(changes, local(), Allowed::default()).await;
    tokio::select! {
        biased;
        done = Box::pin(rig.restart_worker(&snapshot)) => done.unwrap(),
        () = recovers => unreachable!(),
    }
}

/// What waits at the gate has not started, and its wait is none of its time.
#[tokio::test(start_paused = true)]
async fn x2_10_a_unit_that_waits_at_the_gate_is_not_draining() {
    let rig = Rig::healthy().await;
    let snapshot = rig.observe(&HOME.replace("pools:", "defaults: { worker: { cpu: 6 } }\npools:")).await;
    let ran = rig.carry_out(&snapshot, &snapshot.plan(), "me").await.unwrap();
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    let at = |is: &dyn Fn(&What) -> bool| ran.events.iter().position(|event| is(&event.what)).unwrap();
    let verified: Vec<usize> = ["home-work-1", "home-work-2"]
        .map(|node| at(&|what| matches!(what, What::UnitVerified { node: n, .. } if n == node)))
        .into();
    let (first, second) =
        if verified[0] < verified[1] { (verified[0], "home-work-2") } else { (verified[1], "home-work-1") };
    let drain = format!("drain-node/{second}");
    let waits = at(&|what| matches!(what, What::StepProgress { step, .. } if step.0 == drain));
    let starts = at(&|what| matches!(what, What::StepStarted { step, .. } if step.0 == drain));
    assert!(waits < first && first < starts, "{waits} {first} {starts}");
    let took = ran.events.iter().find_map(|event| match &event.what {
        What::StepDone { step, millis, .. } if step.0 == drain => Some(*millis),
        _ => None,
    });
    assert!(took.unwrap() < 30_000, "{took:?}");
}
