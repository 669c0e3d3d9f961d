//! The program dies around any change of an upgrade; the next run finds what is left and finishes it.

use std::collections::BTreeSet;

use lab::{Service, Verdict, changes};

use super::*;
use crate::crashes::without_time;
use crate::rig::{in_parallel, setting};

/// The labs of moments in which a run could die, each of which differs from the others in more than the time.
async fn moments(file: &str, every: u64) -> Vec<(Vec<u8>, String)> {
    type Found = (BTreeSet<u64>, Vec<(Vec<u8>, String)>);
    let rig = Rig::healthy().await;
    let found: Arc<Mutex<Found>> = Arc::default();
    rig.lab.on_call({
        let (found, shared) = (found.clone(), Arc::downgrade(rig.lab.shared()));
        move |number, moment, method, path| {
            let Some(shared) = shared.upgrade() else { return Verdict::GoOn };
            let service = match method {
                "CALL" => Service::Talos,
                _ if path.starts_with("/api2/") => Service::Proxmox,
                _ => Service::Kubernetes,
            };
            // Renewing the lease changes nothing else.
            let is_change = changes(service, method, path) && !path.contains("/150010/");
            if !is_change && number % every != 0 {
                return Verdict::GoOn;
            }
            let systems = shared.read(|systems, _| serde_json::to_value(systems).unwrap());
            let mut found = found.lock().unwrap();
            if found.0.insert(without_time(&systems)) {
                let when = format!("{moment:?} call {number}, {method} {path}");
                found.1.push((serde_json::to_vec(&systems).unwrap(), when));
            }
            Verdict::GoOn
        }
    });
    finish(&rig, file, "without a crash").await;
    rig.lab.on_call(|_, _, _, _| Verdict::GoOn);
    std::mem::take(&mut found.lock().unwrap().1)
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
    assert_eq!(rig.releases(file).await, ["v1.13.10"; 5], "{when}");
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

/// Some moments of every kind.
#[tokio::test(start_paused = true)]
async fn an_upgrade_that_dies_is_finished() {
    let all = moments(&file(), 1_000).await;
    assert!(all.len() > 40, "{}", all.len());
    for (systems, when) in all.iter().step_by(9) {
        finish(&Rig::copy_of(systems), &file(), when).await;
    }
}

/// Every moment. Takes minutes: `conformance/crashes/upgrade`.
#[test]
#[ignore = "takes minutes: conformance/crashes/upgrade"]
fn every_change_of_an_upgrade() {
    let runtime =
        || tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    let every: u64 = setting("EVERY").unwrap_or(20);
    let all = runtime().block_on(moments(&file(), every));
    let tried = all.len();
    in_parallel(all, |(systems, when)| {
        runtime().block_on(async { finish(&Rig::copy_of(systems), &file(), when).await });
    });
    eprintln!("upgrade: {tried} different moments to die in, all finished");
}
