//! Clusters that an earlier release made continue to work, without any disruption.

use std::io::Read;

use engine::{Session, Snapshot};
use flate2::read::GzDecoder;
use model::event::Outcome;
use model::step::{Action, Disruption};
use talos::secrets::Bundle;

use crate::rig::{HOME, Rig, spec};

const WORLD: &[u8] = include_bytes!("fixtures/f9b9111-world.json.gz");
const BUNDLE: &[u8] = include_bytes!("fixtures/f9b9111-bundle.yaml.gz");

fn unpacked(bytes: &[u8]) -> Vec<u8> {
    let mut text = vec![];
    GzDecoder::new(bytes).read_to_end(&mut text).unwrap();
    text
}

/// The cluster that commit f9b9111 made.
pub fn f9b9111() -> Rig {
    Rig::copy_of(&unpacked(WORLD)).with_bundle(bundle())
}

fn bundle() -> Bundle {
    Bundle::parse(&String::from_utf8(unpacked(BUNDLE)).unwrap()).unwrap()
}

/// A look at it with its own keys.
pub async fn observe(rig: &Rig) -> Snapshot {
    let Ok(snapshot) = Session::new(rig.systems.clone(), spec(HOME), Some(bundle())).observe().await else {
        panic!("it can be looked at")
    };
    snapshot
}

#[tokio::test(start_paused = true)]
async fn stored_world_of_f9b9111_continues() {
    let rig = f9b9111();
    let uptimes = async || {
        let mut uptimes = vec![];
        for vmid in [150_011, 150_012, 150_013, 150_021, 150_022] {
            let status = rig.systems.pve.vm_status(&rig.host_of(vmid).await, vmid).await.unwrap();
            assert_eq!(status.power, pve::PowerState::Running);
            uptimes.push(rig.systems.clock.now().as_second() - i64::try_from(status.uptime).unwrap());
        }
        uptimes
    };
    let before = uptimes().await;
    let first = observe(&rig).await;
    let plan = first.plan();
    assert_eq!(plan.refusals, []);
    for step in &plan.steps {
        assert_eq!(step.disruption, Disruption::None, "{step:?}");
        match &step.action {
            Action::UpdateVm { set, pool, .. } => {
                assert_eq!(set.keys().collect::<Vec<_>>(), ["description"], "{step:?}");
                assert_eq!(*pool, None);
            }
            Action::CheckHealth => {}
            other => panic!("{other:?}"),
        }
    }
    let ran = rig.carry_out(&first, &plan, "me").await.unwrap();
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    let again = observe(&rig).await.plan();
    assert!(again.is_empty(), "{again:?}");
    assert_eq!(again.notes, []);
    let moved = before.iter().zip(uptimes().await).any(|(before, after)| (after - before).abs() > 1);
    assert!(!moved, "no VM was stopped or started");
    assert_eq!(rig.etcd_clusters(), 1);
}
