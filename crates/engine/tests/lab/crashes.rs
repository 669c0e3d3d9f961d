//! The program dies at any moment; the world goes on; the next run continues and doubles nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lab::CallMoment;
use model::event::Outcome;
use tokio::sync::Notify;

use crate::rig::{HOME, Rig};

/// Runs an apply and drops it when `crash` is done, then applies again.
async fn crash_and_go_on(rig: &Rig, crash: impl Future<Output = ()>, when: &str) {
    tokio::select! {
        biased;
        () = crash => {}
        ran = rig.apply(HOME) => assert_eq!(ran.outcome, Outcome::Done, "{when}: {:?}", ran.failures()),
    }
    // A VM that is being made is locked until its task has ended; an operator would wait for that, too.
    rig.world.clock.sleep(Duration::from_secs(30)).await;
    let ran = rig.apply(HOME).await;
    assert_eq!(ran.outcome, Outcome::Done, "{when}: {:?}", ran.failures());
    rig.assert_whole().await;
}

/// Dies around the nth request to Proxmox: before the world saw it, or after it took effect and before the answer came.
async fn crash_at_call(nth: u64, moment: CallMoment) {
    let rig = Rig::new();
    let reached = Arc::new(Notify::new());
    let calls = Arc::new(AtomicU64::new(0));
    rig.lab.on_call({
        let (reached, calls) = (reached.clone(), calls.clone());
        move |_, at, _, _| {
            if at == moment && calls.fetch_add(1, Ordering::Relaxed) + 1 == nth {
                reached.notify_one();
            }
        }
    });
    crash_and_go_on(&rig, async { reached.notified().await }, &format!("call {nth}, {moment:?}")).await;
}

#[tokio::test(start_paused = true)]
async fn before_a_call_reached_proxmox() {
    for nth in [3, 9, 11, 14, 19, 30, 47, 90, 150] {
        crash_at_call(nth, CallMoment::Before).await;
    }
}

#[tokio::test(start_paused = true)]
async fn after_proxmox_did_it_and_before_we_knew() {
    for nth in [8, 10, 12, 15, 24, 37, 61, 120] {
        crash_at_call(nth, CallMoment::After).await;
    }
}

#[tokio::test(start_paused = true)]
async fn at_any_second_of_a_bring_up() {
    for seconds in [1, 23, 31, 36, 50, 59, 63, 65, 67, 70, 75, 90, 110] {
        let rig = Rig::new();
        let clock = rig.world.clock.clone();
        crash_and_go_on(&rig, clock.sleep(Duration::from_secs(seconds)), &format!("after {seconds} s")).await;
    }
}
