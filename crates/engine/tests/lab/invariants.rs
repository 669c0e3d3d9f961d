//! The lab sees what an operator must not do, over the connections that operators use.

use lab::{Far, Injection, Lost, Partition};
use model::event::Outcome;

use crate::rig::{HOME, Rig, operator};

#[tokio::test(start_paused = true)]
async fn an_operator_that_touches_what_is_not_theirs_is_seen() {
    let rig = Rig::healthy().await;
    rig.guard.owns(&rig.observe(HOME).await);
    let person = rig.lab.person();
    person.create("pve1", 4711, &[("name", "theirs")]).unwrap();
    let kim = rig.world_of(&operator("kim"));
    kim.pve.start("pve1", 4711).await.unwrap();
    rig.guard.expect(&[4, 5]);
    // The same by someone whom no one watches.
    rig.systems.pve.stop("pve1", 4711).await.unwrap();
    rig.guard.expect(&[]);
    // A clone has the notes of its source and is not ours.
    let host = rig.host_of(150_021).await;
    person.clone_vm(150_021, 4712).unwrap();
    kim.pve.start(&host, 4712).await.unwrap();
    rig.guard.expect(&[4, 5]);
}

#[tokio::test(start_paused = true)]
async fn a_way_that_is_cut_for_one_operator_is_open_for_another() {
    let rig = Rig::healthy().await;
    let which = Partition { origin: Some("eva@test".to_owned()), far: Far::Proxmox, lost: Lost::Requests };
    rig.lab.inject(Injection::Partition { which, cut: true });
    let snapshot = rig.observe(&HOME.replace("count: 2", "count: 3")).await;
    let plan = snapshot.plan();
    let cut = rig.carry_out(&snapshot, &plan, "eva").await;
    assert!(cut.is_err(), "Proxmox does not answer eva");
    let ran = rig.carry_out(&snapshot, &plan, "kim").await.unwrap();
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
}
