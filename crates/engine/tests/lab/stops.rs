//! A run ends soon after it was asked to, whatever it waits for, and what it leaves behind is safe.

use std::time::Duration;

use engine::apply::Stop;
use jiff::Timestamp;
use model::event::{Outcome, What};
use model::lease::SUCCESSOR_WAITS;
use tokio::sync::watch;

use crate::rig::{HOME, Ran, Rig, operator};

const RECORD: u32 = 150_010;

/// How a record is lost.
#[derive(Debug, Clone, Copy)]
enum Lost {
    /// Its VM was deleted.
    Vm,
    /// Its line in the notes was deleted.
    Line,
}

impl Lost {
    async fn lose(self, rig: &Rig) {
        match self {
            Self::Vm => {
                rig.lab.person().set(RECORD, "protection", "0").unwrap();
                rig.lab.person().delete(RECORD).unwrap();
            }
            Self::Line => rig.without_line("talosmith-record:").await,
        }
    }
}

/// [`HOME`] with one more worker.
fn more() -> String {
    HOME.replace("worker, count: 2", "worker, count: 3")
}

/// Runs a plan and asks it to stop after this time. Gives what came of it, and when it was asked.
async fn asked_after(rig: &Rig, file: &str, wish: Stop, after: Duration) -> (Ran, Timestamp) {
    let snapshot = rig.observe(file).await;
    let plan = snapshot.plan();
    assert_eq!(plan.refusals, []);
    let (request, stop) = watch::channel(Stop::No);
    let asking = async {
        rig.systems.clock.sleep(after).await;
        request.send_replace(wish);
        rig.systems.clock.now()
    };
    let me = operator("me");
    let (ran, asked) = futures::join!(rig.carry_out_until(stop, &snapshot, &plan, &me), asking);
    (ran.unwrap(), asked)
}

fn took(ran: &Ran, since: Timestamp) -> i64 {
    ran.events.last().unwrap().at.duration_since(since).as_secs()
}

fn started(ran: &Ran) -> Vec<&str> {
    let started = ran.events.iter().filter_map(|event| match &event.what {
        What::StepStarted { step, .. } => Some(step.0.as_str()),
        _ => None,
    });
    started.collect()
}

/// While the former holder of a lost lease is outwaited, nothing is being changed: both ways of stopping end that wait at once. The
/// record keeps saying that the wait is not over.
#[tokio::test(start_paused = true)]
async fn left_1_the_wait_for_a_lost_lease_ends_with_the_first_request_to_stop() {
    for lost in [Lost::Vm, Lost::Line] {
        for (wish, outcome) in [(Stop::Timeout, Outcome::Failed), (Stop::Graceful, Outcome::Interrupted)] {
            // During the wait, and before it: while the record is being written.
            for (after, limit) in [(Duration::from_secs(30), 1), (Duration::from_millis(100), 10)] {
                let told = format!("{lost:?} {wish:?} after {after:?}");
                let rig = Rig::healthy().await;
                lost.lose(&rig).await;
                let (ran, asked) = asked_after(&rig, &more(), wish, after).await;
                assert_eq!(ran.outcome, outcome, "{told}: {:?}", ran.failures());
                let took = took(&ran, asked);
                assert!(took <= limit, "{told}: it took {took} s");
                assert_eq!(started(&ran).len(), 1, "{told}: {:?}", started(&ran));
                let record = rig.observe(HOME).await.observed.proxmox.record.clone().unwrap();
                let lease = record.state.lease.expect("no other operator may take it meanwhile");
                assert_eq!(lease.outwaits.map(u64::from), Some(SUCCESSOR_WAITS.as_secs()), "{told}");
            }
        }
    }
}

/// The estimate of a plan includes that wait.
#[tokio::test(start_paused = true)]
async fn left_1_the_plan_says_how_long_a_lost_record_takes() {
    for lost in [Lost::Vm, Lost::Line] {
        let rig = Rig::healthy().await;
        lost.lose(&rig).await;
        let plan = rig.observe(&more()).await.plan();
        let first = plan.steps.iter().find(|step| step.after.is_empty()).unwrap();
        assert!(u64::from(first.seconds) >= SUCCESSOR_WAITS.as_secs(), "{lost:?}: {} s", first.seconds);
        assert!(first.reason.contains("lease"), "{lost:?}: {}", first.reason);
    }
}
