//! What the file asks for and is not made is never "no changes".

use std::time::Duration;

use model::event::Outcome;
use model::plan::RefusalCode;
use pve::Params;

use crate::rig::{HOME, Rig};

const RECORD: u32 = 150_010;

#[tokio::test(start_paused = true)]
async fn a_changed_record_id_is_blocked_and_a_vm_that_hosts_leave_out_moves() {
    let rig = Rig::healthy().await;
    let other_id = HOME.replace("'https://pve1:8006'", "'https://pve1:8006', record: 4711");
    let plan = rig.observe(&other_id).await.plan();
    assert_eq!((plan.steps.len(), plan.refusals.len()), (0, 0), "{plan:?}");
    let blocked: Vec<&str> = plan.blocked.iter().map(|blocked| blocked.what.as_str()).collect();
    let told = "the cluster record VM has the VM ID 150010, and the file says 4711";
    assert!(blocked.len() == 1 && blocked[0].starts_with(told), "{blocked:?}");
    let fewer = HOME.replace("pools:", "hosts: { pve1: {}, pve2: {} }\npools:");
    let pool = HOME.replace("controlplane, count: 3", "controlplane, count: 3, hosts: [pve1, pve2]");
    for file in [&fewer, &pool] {
        let plan = rig.observe(file).await.plan();
        assert_eq!((plan.blocked.len(), plan.refusals.len()), (0, 0), "{plan:?}");
        let step = plan.steps.iter().find(|step| step.id.0 == "migrate-vm/home-control-3").unwrap();
        assert!(
            step.reason
                .starts_with("home-control-3 is on pve3, which `hosts` in the file leaves out; it moves"),
            "{}",
            step.reason
        );
    }
}

#[tokio::test(start_paused = true)]
async fn the_record_gets_its_name_and_tags_back() {
    let rig = Rig::healthy().await;
    let (pve, host) = (&rig.systems.pve, rig.host_of(RECORD).await);
    pve.update_config(&host, RECORD, &Params::new(), &["tags"], None).await.unwrap();
    rig.lab.person().set(RECORD, "name", "mine").unwrap();
    rig.systems.clock.sleep(Duration::from_secs(30)).await;
    let snapshot = rig.observe(HOME).await;
    let plan = snapshot.plan();
    let [step] = plan.steps.as_slice() else { panic!("{:?}", plan.steps) };
    assert_eq!(step.id.0, "update-record");
    assert_eq!(step.reason, "its name is mine → home-record; it lost the tags talosmith");
    let ran = rig.carry_out(&snapshot, &plan, "me").await.unwrap();
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    let config = pve.vm_config(&host, RECORD).await.unwrap();
    assert_eq!((config.get("name"), config.get("tags")), (Some("home-record"), Some("talosmith")));
    rig.assert_nothing_to_do(HOME).await;
}

#[tokio::test(start_paused = true)]
async fn a_pool_that_does_not_exist_is_refused_before_anything_is_moved_into_it() {
    let rig = Rig::healthy().await;
    let file = HOME.replace("'https://pve1:8006'", "'https://pve1:8006', pool: nowhere");
    let plan = rig.observe(&file).await.plan();
    assert_eq!(plan.steps, []);
    assert_eq!(plan.refusals.iter().map(|r| r.code).collect::<Vec<_>>(), [RefusalCode::NotFound]);
    assert!(plan.refusals[0].why.contains("no resource pool nowhere"), "{:?}", plan.refusals);
}
