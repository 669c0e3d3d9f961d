//! The program dies at any moment; the world goes on; the next run continues and doubles nothing.
//!
//! A bring-up makes some hundred calls, to Proxmox, to the factory, to machines and to Kubernetes. Dying around a call
//! leaves one of two worlds: the one before the call reached it, and the one after it took effect and before its answer
//! came. [`every_call`] walks through all of them. Before the first call an identity and the bundle are written, with a crash at each moment
//! between two operations on the file system. Worlds that differ in nothing but the time are the same crash, so each
//! is tried once.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lab::CallMoment;
use model::event::Outcome;

use crate::faults::Chance;
use crate::home::{Files, another_bundle};
use crate::moments::{self, Call, Moment};
use crate::rig::{HOME, Rig, in_parallel, runtime, setting};

/// Applies until it is done, at most three times: an operator who is told to wait for a lock waits, too.
async fn go_on(rig: &Rig, file: &str, when: &str) {
    open(rig, 3);
    let snapshot = rig.observe(file).await;
    let plan = snapshot.plan();
    assert_eq!(plan.refusals, [], "{when}");
    let ran = rig.carry_out(&snapshot, &plan, "me").await.unwrap();
    assert_eq!(ran.outcome, Outcome::Done, "{when}: {:?}", ran.failures());
    assert_eq!(rig.etcd_clusters(), 1, "{when}: exactly one etcd");
    rig.assert_nothing_to_do(file).await;
    let left = rig.guard.leftovers(&rig.lab);
    assert!(left.is_empty(), "{when}: {left:?}");
}

/// Runs an apply and drops it when `crash` is done, then applies again.
async fn crash_and_go_on(rig: &Rig, crash: impl Future<Output = ()>, when: &str) {
    tokio::select! {
        biased;
        () = crash => {}
        ran = rig.apply(HOME) => assert_eq!(ran.outcome, Outcome::Done, "{when}: {:?}", ran.failures()),
    }
    go_on(rig, HOME, when).await;
    rig.assert_whole().await;
}

/// Dies around the nth calls of one bring-up: the worlds at those moments are kept, and in each the next run goes on.
async fn crash_at_calls(moment: CallMoment, numbers: [u64; 2]) {
    let rig = Rig::new();
    let apply = async {
        let ran = rig.apply(HOME).await;
        assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    };
    let at = move |call: &Call<'_>| call.moment == moment && numbers.contains(&(call.number + 1));
    let kept = moments::collect(&rig, at, apply).await.all;
    assert_eq!(kept.len(), numbers.len());
    for crash in kept {
        let rig = Rig::copy_of(&crash.systems);
        go_on(&rig, HOME, &crash.when).await;
        rig.assert_whole().await;
    }
}

#[tokio::test(start_paused = true)]
async fn before_a_call_reached_the_world() {
    crash_at_calls(CallMoment::Before, [19, 320]).await;
}

#[tokio::test(start_paused = true)]
async fn after_the_world_did_it_and_before_we_knew() {
    crash_at_calls(CallMoment::After, [24, 280]).await;
}

#[tokio::test(start_paused = true)]
async fn at_any_second_of_a_bring_up() {
    for seconds in [31, 67] {
        let rig = Rig::new();
        let clock = rig.systems.clock.clone();
        crash_and_go_on(&rig, clock.sleep(Duration::from_secs(seconds)), &format!("after {seconds} s")).await;
    }
}

#[tokio::test(start_paused = true)]
async fn while_the_identity_and_the_bundle_are_written() {
    let first = open(&nothing_yet(), 1);
    assert_eq!(first.len(), 14, "two files, seven moments each");
    for crash in first {
        // It dies again, wherever the second try writes something.
        let again = crash.rig();
        let second = open(&again, 2);
        for rig in second.iter().map(Crash::rig).chain([crash.rig(), again]) {
            let before = rig.home.bundle();
            open(&rig, 3);
            let after = rig.home.bundle().unwrap();
            assert!(before.is_none_or(|before| before.cluster_id() == after.cluster_id()), "{}", crash.when);
            rig.home.check(Some(after.cluster_id()));
        }
    }
}

/// A world in which someone could have died, and at which call.
struct Crash {
    systems: Vec<u8>,
    /// What is in the operator's folder.
    home: Files,
    when: String,
    /// Whether it is at a write of the identity or the bundle, or at a call of the record, its lease, or etcd's membership.
    vital: bool,
}

impl Crash {
    fn rig(&self) -> Rig {
        Rig::copy_of(&self.systems).with_home(&self.home)
    }
}

/// An empty Proxmox, and an operator who keeps nothing yet.
fn nothing_yet() -> Rig {
    Rig::new().with_home(&Files::new())
}

/// Opens the bundle, or creates one; gives every crash that there is in between. Each first run would draw other keys.
fn open(rig: &Rig, number: u8) -> Vec<Crash> {
    let systems = rig.lab.shared().read(|systems, _| serde_json::to_vec(systems).unwrap());
    let mut crashes = vec![];
    rig.home.open(|| another_bundle(number), &mut |moment| {
        let (systems, home) = (systems.clone(), rig.home.files());
        let when = format!("write {} of the identity and the bundle, {moment:?}", crashes.len() + 1);
        crashes.push(Crash { systems, home, when, vital: true });
    });
    crashes
}

/// Every world that a crash around a call leaves behind, each once, from where `rig` stands to the end.
async fn all_crashes(rig: &Rig, file: &str) -> (u64, Vec<Crash>) {
    crashes_at(rig, file, |_, _| true).await
}

/// The same, for the calls that are `wanted` by their number and whether they are vital: to write down a world takes longer than the
/// call.
async fn crashes_at(
    rig: &Rig,
    file: &str,
    wanted: impl Fn(u64, bool) -> bool + Send + Sync + 'static,
) -> (u64, Vec<Crash>) {
    let mut of_files = open(rig, 1 + u8::from(!rig.home.files().is_empty()));
    let home = rig.home.files();
    let apply = async {
        let ran = rig.apply(file).await;
        assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    };
    let found = moments::collect(rig, move |call| wanted(call.number, call.is_vital()), apply).await;
    let crash = |Moment { systems, when, vital }| Crash { systems, home: home.clone(), when, vital };
    of_files.extend(found.all.into_iter().map(crash));
    (found.calls, of_files)
}

/// Three and three, died around every single call. Takes minutes: `conformance/crashes/run`.
#[test]
#[ignore = "takes minutes: conformance/crashes/run"]
fn every_call() {
    let file = HOME.replace("count: 2", "count: 3");
    let (calls, crashes) = runtime().block_on(async { all_crashes(&nothing_yet(), &file).await });
    let of = crashes.len();
    let every: usize = setting("EVERY").unwrap_or(1);
    let chosen: Vec<Crash> = crashes.into_iter().step_by(every).collect();
    let tried = chosen.len();
    in_parallel(chosen, |crash| {
        runtime().block_on(async {
            let rig = crash.rig();
            go_on(&rig, &file, &crash.when).await;
            let expected = [150_010, 150_011, 150_012, 150_013, 150_021, 150_022, 150_023];
            assert_eq!(rig.vmids().await, expected, "{}: every VM once", crash.when);
        });
    });
    eprintln!(
        "{calls} calls, died before and after each: {of} different worlds, {tried} tried, all whole again"
    );
}

/// Goes on in the world of a first crash, dies again at the calls that are `wanted`, and goes on from those that are chosen. Says how
/// many.
fn die_again(
    first: &Crash,
    wanted: impl Fn(u64, bool) -> bool + Send + Sync + 'static,
    choose: impl Fn(Vec<Crash>) -> Vec<Crash>,
) -> u64 {
    let seconds = runtime().block_on(async { crashes_at(&first.rig(), HOME, wanted).await.1 });
    let mut tried = 0;
    for second in choose(seconds) {
        let when = format!("{}, then {}", first.when, second.when);
        runtime().block_on(async {
            let rig = second.rig();
            go_on(&rig, HOME, &when).await;
            rig.assert_whole().await;
        });
        tried += 1;
    }
    tried
}

/// Died twice: all pairs of vital calls, and a sample of all others. `conformance/crashes/nested [SEED [PAIRS [EVERY]]]`.
#[test]
#[ignore = "takes many minutes: conformance/crashes/nested"]
fn nested() {
    /// How many second crashes are tried after one first crash of the sample.
    const EACH: u64 = 10;
    let seed: u64 = setting("NESTED_SEED").unwrap_or(1);
    let pairs: u64 = setting("NESTED_PAIRS").unwrap_or(2000);
    let every: usize = setting("NESTED_EVERY").unwrap_or(1);
    let (calls, crashes) = runtime().block_on(async { all_crashes(&nothing_yet(), HOME).await });
    let (vital, others): (Vec<Crash>, Vec<Crash>) = crashes.into_iter().partition(|crash| crash.vital);
    eprintln!("{} vital moments, {} others", vital.len(), others.len());
    let of_vital = AtomicU64::new(0);
    in_parallel(vital.iter().enumerate().collect(), |(number, first)| {
        // With `every`, each first one meets other second ones.
        let choose = |seconds: Vec<Crash>| {
            let vital = seconds.into_iter().filter(|second| second.vital);
            vital.skip(number % every).step_by(every).collect()
        };
        of_vital.fetch_add(die_again(first, |_, vital| vital, choose), Ordering::Relaxed);
    });
    let chance = &mut Chance::new(seed);
    let numbers: Vec<(usize, u64)> = (0..pairs.div_ceil(EACH))
        .map(|_| (chance.below(others.len() as u64) as usize, chance.next()))
        .collect();
    let of_others = AtomicU64::new(0);
    in_parallel(numbers, |&(first, seed)| {
        // Before and after each call, so twice as many as are wanted, of which some leave the same world.
        let wanted = move |number: u64, _| Chance::new(seed ^ number).below(calls) < EACH;
        let choose = |mut seconds: Vec<Crash>| {
            let chance = &mut Chance::new(seed);
            while seconds.len() as u64 > EACH {
                seconds.swap_remove(chance.below(seconds.len() as u64) as usize);
            }
            seconds
        };
        of_others.fetch_add(die_again(&others[first], wanted, choose), Ordering::Relaxed);
    });
    let of_files = vital.iter().filter(|crash| crash.when.starts_with("write")).count();
    eprintln!(
        "died twice: {} pairs of vital moments ({} first ones, {of_files} of them while identity and bundle are written), {} of others (seed {seed}); all whole again",
        of_vital.into_inner(),
        vital.len(),
        of_others.into_inner()
    );
}
