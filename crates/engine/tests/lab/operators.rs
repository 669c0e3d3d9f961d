//! Two operators: one works at a time, the other is refused with the reason, and no operator continues without the lease.

use std::time::Duration;

use engine::apply::Stop;
use engine::error::Kind;
use engine::lease::Operator;
use lab::{CallMoment, Verdict};
use model::event::{Outcome, What};
use model::mark::{Lease, Mark, RecordState};
use tokio::sync::watch;

use crate::rig::{HOME, Rig, operator};

fn taking_over(place: &str) -> Operator {
    Operator { take_over: true, ..operator(place) }
}

/// Looks, plans, carries out; looks again as often as the world was looked at too early.
async fn apply_as(rig: &Rig, who: &Operator) -> engine::Result<crate::rig::Ran> {
    loop {
        let snapshot = rig.observe(HOME).await;
        match rig.carry_out_as(&snapshot, &snapshot.plan(), who).await {
            Err(error) if error.kind() == Kind::Stale => {}
            result => return result,
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_second_operator_is_told_who_is_at_work() {
    let rig = Rig::new();
    let (eva, kim) = (operator("eva"), operator("kim"));
    let second = async {
        rig.systems.clock.sleep(Duration::from_secs(40)).await;
        apply_as(&rig, &kim).await
    };
    let (first, second) = futures::join!(apply_as(&rig, &eva), second);
    let error = second.err().unwrap();
    assert_eq!(error.kind(), Kind::Busy);
    let told = format!("{error}; {}", error.advice().unwrap_or_default());
    assert!(told.starts_with("eva@test is changing the cluster since 2026-"), "{told}");
    assert!(told.contains("after 2026-") && told.contains("`--take-over`"), "{told}");
    assert!(told.contains("Talosmith then waits 150 s"), "leftover 4: the hint names the real wait: {told}");
    assert_eq!(first.unwrap().outcome, Outcome::Done);
    rig.assert_whole().await;
}

#[tokio::test(start_paused = true)]
async fn of_two_who_begin_at_once_one_works() {
    let rig = Rig::new();
    let (eva, kim) = (operator("eva"), operator("kim"));
    let (one, other) = futures::join!(apply_as(&rig, &eva), apply_as(&rig, &kim));
    let done = [&one, &other].iter().filter(|r| r.as_ref().is_ok_and(|r| r.outcome == Outcome::Done)).count();
    assert_eq!(done, 1);
    rig.assert_whole().await;

    // And on a cluster that exists, where both read the same free lease.
    rig.systems.pve.follow(&rig.systems.pve.stop("pve1", 150_021).await.unwrap(), |_| {}).await.unwrap();
    let (one, other) = futures::join!(apply_as(&rig, &eva), apply_as(&rig, &kim));
    let busy = [&one, &other].iter().filter(|r| r.as_ref().is_err_and(|e| e.kind() == Kind::Busy)).count();
    assert_eq!(busy, 1, "{:?} {:?}", one.err(), other.err());
    rig.assert_whole().await;
}

#[tokio::test(start_paused = true)]
async fn a_living_holder_finds_out_before_its_successor_begins() {
    let rig = Rig::new();
    let (eva, kim) = (operator("eva"), taking_over("kim"));
    let second = async {
        rig.systems.clock.sleep(Duration::from_secs(33)).await;
        apply_as(&rig, &kim).await
    };
    let (first, second) = futures::join!(apply_as(&rig, &eva), second);
    let first = first.unwrap();
    assert_eq!(first.outcome, Outcome::Failed);
    let told = first.failures();
    assert!(told.iter().any(|t| t == "lease: kim@test took over the lease"), "{told:?}");
    let second = second.unwrap();
    assert_eq!(second.outcome, Outcome::Done, "{:?}", second.failures());
    assert!(first.events.last().unwrap().at < second.events[0].at, "one after the other");
    rig.assert_whole().await;
}

/// An operator that took over and finds nothing left to do keeps no other waiting.
#[tokio::test(start_paused = true)]
async fn a_lease_that_turned_out_to_be_of_no_use_is_given_back() {
    let rig = Rig::new();
    let grown = HOME.replace("count: 2", "count: 3");
    assert_eq!(apply_as(&rig, &operator("eva")).await.unwrap().outcome, Outcome::Done);
    let snapshot = rig.observe(&grown).await;
    let plan = snapshot.plan();
    tokio::select! {
        biased;
        () = rig.systems.clock.sleep(Duration::from_secs(5)) => {}
        _ = rig.carry_out(&snapshot, &plan, "eva") => panic!("too fast"),
    }
    let stale = rig.carry_out_as(&snapshot, &plan, &taking_over("kim")).await.err().unwrap();
    assert_eq!(stale.kind(), Kind::Stale);
    let record = rig.observe(HOME).await.observed.proxmox.record.clone().unwrap();
    assert_eq!(record.state.lease, None, "no one holds it");
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_nobody_renews_is_watched_and_then_taken() {
    let rig = Rig::new();
    let (eva, kim) = (operator("eva"), operator("kim"));
    tokio::select! {
        biased;
        () = rig.systems.clock.sleep(Duration::from_secs(50)) => {}
        _ = apply_as(&rig, &eva) => panic!("too fast"),
    }
    let busy = apply_as(&rig, &kim).await.err().unwrap();
    assert_eq!(busy.kind(), Kind::Busy, "dead, but no one can know yet");
    rig.systems.clock.sleep(Duration::from_secs(6 * 60)).await;
    let before = rig.systems.clock.now();
    let ran = apply_as(&rig, &kim).await.unwrap();
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    let waited = ran.events[0].at.duration_since(before).as_secs();
    assert!((150..160).contains(&waited), "watched for {waited} s");
    rig.assert_whole().await;
}

/// The first wish to stop waits for what is being changed, but not for ever.
#[tokio::test(start_paused = true)]
async fn a_wish_to_stop_does_not_wait_for_a_task_that_never_ends() {
    let rig = Rig::new();
    let snapshot = rig.observe(HOME).await;
    // No one hears any more how the creations of nodes get on.
    rig.lab.on_call(|_, moment, _, path| {
        let creation = path.contains("/tasks/") && path.contains("qmcreate") && !path.contains("150010");
        if creation && moment == CallMoment::Before { Verdict::Hold } else { Verdict::GoOn }
    });
    let (request, stop) = watch::channel(Stop::No);
    let (plan, eva) = (snapshot.plan(), operator("eva"));
    let stopping = async {
        rig.systems.clock.sleep(Duration::from_secs(60)).await;
        request.send_replace(Stop::Graceful);
        rig.systems.clock.now()
    };
    let run = rig.carry_out_until(stop, &snapshot, &plan, &eva);
    let (ran, stopped) = futures::join!(run, stopping);
    let ran = ran.unwrap();
    assert_eq!(ran.outcome, Outcome::Interrupted);
    let waited = ran.events.last().unwrap().at.duration_since(stopped).as_secs();
    assert!((300..340).contains(&waited), "waited for {waited} s");
    let told = ran.events.iter().any(
        |e| matches!(&e.what, What::StepProgress { note, .. } if note.starts_with("it continues in Proxmox")),
    );
    assert!(told, "it is said what goes on");
}

#[tokio::test(start_paused = true)]
async fn a_wrong_clock_alone_takes_nothing() {
    let rig = Rig::new();
    let (eva, kim) = (operator("eva"), operator("kim"));
    // Kim's clock is an hour ahead, so every lease looks expired to her.
    let ahead = rig.an_hour_ahead();
    let second = async {
        rig.systems.clock.sleep(Duration::from_secs(10)).await;
        apply_as(&ahead, &kim).await
    };
    let (first, second) = futures::join!(apply_as(&rig, &eva), second);
    assert_eq!(second.err().unwrap().kind(), Kind::Busy);
    assert_eq!(first.unwrap().outcome, Outcome::Done);
    rig.assert_whole().await;
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_wakes_up_after_a_takeover_changes_nothing_more() {
    let rig = Rig::new();
    let (eva, kim) = (operator("eva"), operator("kim"));
    let mut first = Box::pin(apply_as(&rig, &eva));
    tokio::select! {
        biased;
        () = rig.systems.clock.sleep(Duration::from_secs(35)) => {}
        _ = &mut first => panic!("too fast"),
    }
    // The lid is closed: nothing of hers runs, while the world goes on.
    rig.systems.clock.sleep(Duration::from_secs(6 * 60)).await;
    let ran = apply_as(&rig, &kim).await.unwrap();
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    let changes = rig.count_changes();
    let woken = first.await.unwrap();
    assert_eq!(woken.outcome, Outcome::Failed);
    assert!(woken.failures().iter().any(|f| f.starts_with("lease: ")), "{:?}", woken.failures());
    assert_eq!(changes.load(std::sync::atomic::Ordering::Relaxed), 0, "nothing was changed after waking up");
    rig.assert_whole().await;
}

/// Looks at machines that are not ours to create, plans, carries out; again as often as that was too early.
async fn apply_metal(rig: &Rig, file: &str, who: &Operator) -> engine::Result<crate::rig::Ran> {
    loop {
        let snapshot = rig.observe(file).await;
        match rig.carry_out_as(&snapshot, &snapshot.plan(), who).await {
            Err(error) if error.kind() == Kind::Stale => {}
            result => return result,
        }
    }
}

/// A cluster without Proxmox, and a file that asks for a worker more, which does not answer: `apply` waits.
async fn metal_that_waits() -> (Rig, String) {
    let rig = crate::external::metal().await;
    let ran = apply_metal(&rig, crate::external::METAL, &operator("first")).await.unwrap();
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    let more = "  w-2: { role: worker, address: 10.25.150.33, external: true, unverified: true }\n";
    (rig, format!("{}{more}", crate::external::METAL))
}

#[tokio::test(start_paused = true)]
async fn without_proxmox_the_lease_in_kubernetes_keeps_operators_apart() {
    let (rig, file) = metal_that_waits().await;
    let (eva, kim) = (operator("eva"), operator("kim"));
    let second = async {
        rig.systems.clock.sleep(Duration::from_secs(40)).await;
        apply_metal(&rig, &file, &kim).await
    };
    let mut first = Box::pin(apply_metal(&rig, &file, &eva));
    let second = tokio::select! {
        biased;
        second = second => second,
        _ = &mut first => panic!("no one answers for w-2"),
    };
    let error = second.err().unwrap();
    assert_eq!(error.kind(), Kind::Busy);
    let told = format!("{error}; {}", error.advice().unwrap_or_default());
    assert!(told.starts_with("eva@test (eva) is changing the cluster since 2026-"), "{told}");
    assert!(told.contains("after 2026-") && told.contains("`--take-over`"), "{told}");
    assert!(told.contains("Talosmith then waits 150 s"), "leftover 4: the hint names the real wait: {told}");

    // Taken over: the holder finds out before the other one starts.
    let kim = taking_over("kim");
    let third = apply_metal(&rig, &file, &kim);
    let (first, third) = futures::join!(first, async {
        tokio::select! {
            biased;
            _ = third => None,
            () = rig.systems.clock.sleep(Duration::from_secs(300)) => Some(rig.systems.clock.now()),
        }
    });
    let first = first.unwrap();
    assert_eq!(first.outcome, Outcome::Failed);
    let lost = first.events.iter().find(
        |e| matches!(&e.what, What::StepFailed { step, code, .. } if step.0 == "lease" && code == "busy"),
    );
    let lost = lost.unwrap_or_else(|| panic!("{:?}", first.failures()));
    assert!(third.is_some_and(|end| lost.at < end), "while the new holder still waited");
}

#[tokio::test(start_paused = true)]
async fn without_proxmox_a_holder_that_slept_changes_nothing_more() {
    let (rig, file) = metal_that_waits().await;
    let (eva, kim) = (operator("eva"), operator("kim"));
    let mut first = Box::pin(apply_metal(&rig, &file, &eva));
    tokio::select! {
        biased;
        () = rig.systems.clock.sleep(Duration::from_secs(30)) => {}
        _ = &mut first => panic!("no one answers for w-2"),
    }
    // The lid is closed: her lease runs out, and the next one watches it for a while before taking it.
    rig.systems.clock.sleep(Duration::from_secs(4 * 60)).await;
    let mut second = Box::pin(apply_metal(&rig, &file, &kim));
    let before = rig.systems.clock.now();
    tokio::select! {
        biased;
        () = rig.systems.clock.sleep(Duration::from_secs(200)) => {}
        _ = &mut second => panic!("no one answers for w-2"),
    }
    let found = crate::external::lease(&rig).await;
    assert_eq!(found.holder.as_deref(), Some("kim@test (kim)"));
    let waited = found.since.unwrap().duration_since(before).as_secs();
    // Watched for two and a half minutes; then the world is looked at again.
    assert!((150..175).contains(&waited), "taken after {waited} s");

    let changes = rig.count_changes();
    let woken = first.await.unwrap();
    assert_eq!(woken.outcome, Outcome::Failed);
    assert!(woken.failures().iter().any(|f| f.starts_with("lease: ")), "{:?}", woken.failures());
    assert_eq!(changes.load(std::sync::atomic::Ordering::Relaxed), 0, "nothing was changed after waking up");
}

/// An operator that took over for nothing keeps no other waiting; and one who slept while others came and went has lost the lease, though
/// no one has it now.
#[tokio::test(start_paused = true)]
async fn without_proxmox_a_lease_that_somebody_had_meanwhile_is_gone() {
    let (rig, file) = metal_that_waits().await;
    let eva = operator("eva");
    let mut first = Box::pin(apply_metal(&rig, &file, &eva));
    tokio::select! {
        biased;
        () = rig.systems.clock.sleep(Duration::from_secs(30)) => {}
        _ = &mut first => panic!("no one answers for w-2"),
    }
    let snapshot = rig.observe(&file).await;
    let stale = rig.carry_out_as(&snapshot, &snapshot.plan(), &taking_over("kim")).await.err().unwrap();
    assert_eq!(stale.kind(), Kind::Stale);
    assert_eq!(crate::external::lease(&rig).await.holder, None, "given back");
    let woken = first.await.unwrap();
    assert_eq!(woken.outcome, Outcome::Failed);
    assert!(
        woken.failures().contains(&"lease: another operator took over the lease".to_owned()),
        "{:?}",
        woken.failures()
    );
}

/// A run that takes over and dies during its wait: the next one from there waits again, because the one before may still be at work.
#[tokio::test(start_paused = true)]
async fn a7_an_interrupted_take_over_waits_again() {
    let rig = Rig::healthy().await;
    let file = HOME.replace("count: 2", "count: 3");
    let snapshot = rig.observe(&file).await;
    let plan = snapshot.plan();
    let started = rig.systems.clock.now();
    // Another operator is at work, and is not seen to stop.
    tokio::select! {
        _ = rig.carry_out(&snapshot, &plan, "me") => panic!("it takes longer"),
        () = rig.systems.clock.sleep(Duration::from_secs(10)) => {}
    }
    let snapshot = rig.observe(&file).await;
    let (plan, kim) = (snapshot.plan(), taking_over("kim"));
    tokio::select! {
        _ = rig.carry_out_as(&snapshot, &plan, &kim) => panic!("it waits longer"),
        () = rig.systems.clock.sleep(Duration::from_secs(20)) => {}
    }
    let snapshot = rig.observe(&file).await;
    let again = rig.carry_out(&snapshot, &snapshot.plan(), "kim").await;
    assert_eq!(again.err().map(|error| error.kind()), Some(Kind::Stale));
    let waited = rig.systems.clock.now().duration_since(started).as_secs();
    assert!(waited >= i64::try_from(model::lease::SUCCESSOR_WAITS.as_secs()).unwrap(), "{waited}");
}

/// A holder that waits itself may not be the last one that is at work: its successor waits for as long as it would have.
#[tokio::test(start_paused = true)]
async fn leftover_4_a_successor_waits_for_whom_the_holder_waits_for() {
    for take_over in [true, false] {
        let rig = Rig::healthy().await;
        let (host, now) = (rig.host_of(150_010).await, rig.systems.clock.now());
        let config = rig.systems.pve.vm_config(&host, 150_010).await.unwrap();
        let mut state = RecordState::find(config.description()).unwrap();
        state.lease = Some(Lease {
            holder: "eva@test".to_owned(),
            nonce: "eva".to_owned(),
            run: Some("1".to_owned()),
            since: now,
            // Who does not take over waits until it has expired.
            expires: if take_over { now + Duration::from_secs(60) } else { now },
            stops_after: Some(60),
            outwaits: Some(390),
        });
        let notes = Mark::find(config.description()).unwrap().describe_record(&state);
        let params = pve::Params::from([("description".to_owned(), notes)]);
        rig.systems.pve.update_config(&host, 150_010, &params, &[], None).await.unwrap();
        let snapshot = rig.observe(&HOME.replace("count: 2", "count: 3")).await;
        let kim = Operator { take_over, ..operator("kim") };
        let stale = rig.carry_out_as(&snapshot, &snapshot.plan(), &kim).await.err().unwrap();
        assert_eq!(stale.kind(), Kind::Stale);
        let waited = rig.systems.clock.now().duration_since(now).as_secs();
        assert!(waited >= 390, "take over: {take_over}; it waited {waited} s");
    }
}

/// What a run says of the lease at its end.
fn said_of_the_lease(ran: &crate::rig::Ran) -> Vec<&str> {
    let said = ran.events.iter().filter_map(|event| match &event.what {
        What::StepProgress { step, note, .. } if step.0 == "lease" => Some(note.as_str()),
        _ => None,
    });
    said.collect()
}

/// A take-over that is stopped keeps the lease, because the one before may still be at work. That is said.
#[tokio::test(start_paused = true)]
async fn leftover_4_a_take_over_that_is_stopped_says_that_it_keeps_the_lease() {
    let kept = "the lease is not released, because the run that it was taken from may still be at work";
    for wish in [Stop::Graceful, Stop::Timeout] {
        let rig = Rig::healthy().await;
        let file = HOME.replace("count: 2", "count: 3");
        let snapshot = rig.observe(&file).await;
        let plan = snapshot.plan();
        tokio::select! {
            _ = rig.carry_out(&snapshot, &plan, "me") => panic!("it takes longer"),
            () = rig.systems.clock.sleep(Duration::from_secs(10)) => {}
        }
        let (metal, external) = metal_that_waits().await;
        let eva = operator("eva");
        tokio::select! {
            _ = apply_metal(&metal, &external, &eva) => panic!("nothing answers for w-2"),
            () = metal.systems.clock.sleep(Duration::from_secs(30)) => {}
        }
        for (rig, file) in [(&rig, &file), (&metal, &external)] {
            let snapshot = rig.observe(file).await;
            let (plan, kim) = (snapshot.plan(), taking_over("kim"));
            let (request, stop) = watch::channel(Stop::No);
            let stopping = async {
                rig.systems.clock.sleep(Duration::from_secs(20)).await;
                request.send_replace(wish);
            };
            let (ran, ()) = futures::join!(rig.carry_out_until(stop, &snapshot, &plan, &kim), stopping);
            let ran = ran.unwrap();
            let said = said_of_the_lease(&ran);
            assert!(said.last().is_some_and(|said| said.starts_with(kept)), "{wish:?}: {said:?}");
        }
    }
}
