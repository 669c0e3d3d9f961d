//! Members of etcd whose VM is gone.

use std::time::Duration;

use lab::Injection;
use model::allowed::Allowed;
use model::event::Outcome;
use model::gate::Effect;
use model::step::Action;
use model::unit::Goal;

use super::units;
use crate::restart::scale_down::{five, members};
use crate::restart::{failure, nothing, unit};
use crate::rig::{HOME, Rig};

fn removed() -> Allowed {
    Allowed { removed: true, ..Allowed::default() }
}

/// One control plane node less than there are.
fn four() -> String {
    HOME.replace("count: 3", "count: 4")
}

async fn delete(rig: &Rig, vmid: u32) {
    let person = rig.lab.person();
    person.power_off(vmid).unwrap();
    person.delete(vmid).unwrap();
    // Until Kubernetes says that it is not ready.
    rig.systems.clock.sleep(Duration::from_secs(120)).await;
}

/// Operations 5137 and 5267: nothing is known of the node but its member and its Node.
#[tokio::test(start_paused = true)]
async fn a_member_whose_vm_is_gone_is_removed_through_the_others() {
    let rig = five().await;
    delete(&rig, 150_015).await;
    let Ok(snapshot) = rig.session(&four()).allowing(removed()).observe().await else { panic!() };
    let plan = snapshot.plan();
    assert_eq!(plan.refusals, []);
    assert_eq!(units(&plan), ["remove/home-control-5"]);
    let ran = rig.carry_out(&snapshot, &plan, "me").await.unwrap();
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    assert!(members(&rig, HOME).await.iter().all(|list| list.len() == 4));
    rig.assert_nothing_to_do(&four()).await;
}

/// Kubernetes has forgotten it, too.
#[tokio::test(start_paused = true)]
async fn a_member_that_kubernetes_does_not_have_is_found_and_removed() {
    let rig = five().await;
    delete(&rig, 150_015).await;
    rig.kubernetes().delete_node("home-control-5").await.unwrap();
    let snapshot = rig.observe(&four()).await;
    let plan = snapshot.plan();
    let told: Vec<&str> = plan.blocked.iter().map(|blocked| blocked.what.as_str()).collect();
    assert_eq!(
        told,
        ["home-control-5 is a member of etcd and is not in the file; it has no VM of this cluster"]
    );
    let Ok(snapshot) = rig.session(&four()).allowing(removed()).observe().await else { panic!() };
    let ran = rig.carry_out(&snapshot, &snapshot.plan(), "me").await.unwrap();
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    rig.assert_nothing_to_do(&four()).await;
}

/// It does not answer from here, and Proxmox says that it runs: it is not removed.
#[tokio::test(start_paused = true)]
async fn a_member_is_not_removed_while_its_vm_runs() {
    let rig = five().await;
    rig.lab.inject(Injection::Unplugged { vmid: 150_015, unplugged: true });
    rig.systems.clock.sleep(Duration::from_secs(120)).await;
    let Ok(snapshot) = rig.session(&four()).allowing(removed()).observe().await else { panic!() };
    let mut plan = nothing(&snapshot);
    let node = || "home-control-5".into();
    let leave = vec![Action::LeaveEtcd { node: node() }];
    unit(&mut plan, "remove/home-control-5", Goal::Remove { node: node() }, Effect::Removal, leave, &[]);
    let ran = rig.carry_out(&snapshot, &plan, "me").await.unwrap();
    assert_eq!(failure(&ran).1, "may-run");
    assert!(members(&rig, HOME).await.iter().all(|list| list.len() == 5));
}

/// The VM came back under the same name before the member was removed: nothing is removed.
#[tokio::test(start_paused = true)]
async fn a_member_is_not_removed_while_a_vm_has_its_name() {
    let rig = five().await;
    delete(&rig, 150_015).await;
    let Ok(snapshot) = rig.session(&four()).allowing(removed()).observe().await else { panic!() };
    let plan = snapshot.plan();
    rig.lab.person().create("pve2", 4711, &[("name", "home-control-5")]).unwrap();
    let ran = rig.carry_out(&snapshot, &plan, "me").await.unwrap();
    assert_eq!(failure(&ran).1, "may-run");
    assert!(members(&rig, HOME).await.iter().all(|list| list.len() == 5));
}
