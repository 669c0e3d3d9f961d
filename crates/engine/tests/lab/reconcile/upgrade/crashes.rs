//! The program dies around any change of an upgrade; the next run finds what is left and finishes it.

use super::kubernetes::with_kubernetes;
use super::*;
use crate::moments::{self, Moment};
use crate::rig::{in_parallel, runtime, setting};

/// The labs of moments in which a run could die, each of which differs from the others in more than the time.
async fn crashes(file: &str, every: u64) -> Vec<Moment> {
    let rig = Rig::healthy().await;
    moments::around_changes(&rig, every, finish(&rig, file, "without a crash")).await
}

/// Goes on until nothing is left.
async fn finish(rig: &Rig, file: &str, when: &str) {
    let controller = Controller::of(rig);
    let reconciled = controller.approved(file).await;
    assert!(
        matches!(reconciled.ended, Ended::Converged),
        "{when}: {:?} {:?}",
        reconciled.ended,
        controller.failed()
    );
    match file == kubernetes() {
        true => assert_eq!(rig.kubernetes_versions().await, ["v1.36.3".to_owned()].into(), "{when}"),
        false => assert_eq!(rig.releases(file).await, ["v1.13.10"; 5], "{when}"),
    }
    assert_eq!(rig.cordoned().await.len(), 0, "{when}");
    rig.assert_nothing_to_do(file).await;
    // A run that had nothing left to do did not take the lease of the one that died over; that one ends by itself.
    if reconciled.runs > 0 {
        assert_eq!(rig.guard.leftovers(&rig.lab), [] as [&str; 0], "{when}");
    }
}

fn file() -> String {
    // What must stay so for a while is no part of what can go wrong here.
    format!("{}changes: {{ soak: 5s }}\n", with_talos("v1.13.10"))
}

fn kubernetes() -> String {
    format!("{}changes: {{ soak: 5s }}\n", with_kubernetes("v1.36.3"))
}

/// Some moments of every kind.
#[tokio::test(start_paused = true)]
async fn an_upgrade_that_dies_is_finished() {
    let all = crashes(&file(), 1_000).await;
    assert!(all.len() > 40, "{}", all.len());
    for Moment { systems, when, .. } in all.iter().step_by(25) {
        finish(&Rig::copy_of(systems), &file(), when).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_upgrade_of_kubernetes_that_dies_is_finished() {
    let all = crashes(&kubernetes(), 1_000).await;
    assert!(all.len() > 60, "{}", all.len());
    for Moment { systems, when, .. } in all.iter().step_by(40) {
        finish(&Rig::copy_of(systems), &kubernetes(), when).await;
    }
}

/// Every moment. Takes minutes: `conformance/crashes/upgrade`.
#[test]
#[ignore = "takes minutes: conformance/crashes/upgrade"]
fn every_change_of_an_upgrade() {
    let every: u64 = setting("EVERY").unwrap_or(20);
    for (name, file) in [("Talos", file()), ("Kubernetes", kubernetes())] {
        let all = runtime().block_on(crashes(&file, every));
        let tried = all.len();
        in_parallel(all, |Moment { systems, when, .. }| {
            runtime().block_on(async { finish(&Rig::copy_of(systems), &file, when).await });
        });
        eprintln!("upgrade of {name}: {tried} different moments to die in, all finished");
    }
}
