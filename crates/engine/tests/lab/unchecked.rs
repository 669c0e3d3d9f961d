//! Before a record is created every VM is read; one that cannot be read may be the cluster's.

use std::time::Duration;

use lab::{CallFilter, Disturbance};
use model::event::Outcome;
use model::plan::{Plan, RefusalCode};
use pve::Params;

use crate::rig::{HOME, Rig};

const RECORD: u32 = 150_010;

fn params(pairs: &[(&str, &str)]) -> Params {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn notes(plan: &Plan) -> Vec<&str> {
    plan.notices.iter().map(|notice| notice.text.as_str()).filter(|text| text.contains("checked")).collect()
}

impl Rig {
    /// A VM of another user.
    async fn theirs(&self, host: &str, vmid: u32) {
        let pve = &self.world.pve;
        let wish = params(&[("name", "web"), ("memory", "512")]);
        pve.follow(&pve.create_vm(host, vmid, &wish).await.unwrap(), |_| {}).await.unwrap();
        self.world.clock.sleep(Duration::from_secs(30)).await;
    }

    fn fail(&self, vmid: u32, status: u16, text: &str) {
        let path_contains = format!("/qemu/{vmid}/");
        let which = CallFilter { method: "GET".to_owned(), path_contains, skip: 0 };
        self.lab.disturb(Disturbance::FailCall { which, status, text: text.to_owned() });
    }
}

#[tokio::test(start_paused = true)]
async fn an_unreadable_vm_keeps_a_new_cluster_from_being_created() {
    let rig = Rig::new();
    rig.theirs("pve2", 4711).await;
    rig.fail(4711, 500, "unable to read the file");
    let plan = rig.look(HOME).await.plan();
    assert_eq!(plan.steps, []);
    assert_eq!(plan.refusals.iter().map(|r| r.code).collect::<Vec<_>>(), [RefusalCode::NoRecord]);
    let refusal = &plan.refusals[0];
    assert!(refusal.why.contains("VM 4711 (web) on pve2"), "{refusal:?}");
    assert!(refusal.remedy.contains("`hosts: { pve1: {}, pve3: {} }`"), "{refusal:?}");
    // A right that is missing is no such reason.
    rig.fail(4711, 403, "Permission check failed (/vms/4711, VM.Audit)");
    let plan = rig.look(HOME).await.plan();
    assert_eq!(plan.refusals, []);
    assert!(
        notes(&plan)[0].starts_with("1 VM cannot be checked: the token has no right"),
        "{:?}",
        plan.notices
    );
    let ran = rig.apply(HOME).await;
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
}

/// The record lost its tag, got another name and ID, and cannot be read: that is a lost record and not a new cluster.
#[tokio::test(start_paused = true)]
async fn an_unreadable_record_under_another_id_is_not_a_missing_one() {
    let rig = Rig::new();
    let look = rig.look(HOME).await;
    let mut plan = look.plan();
    plan.steps.retain(|step| step.id.0 == "create-record");
    let ran = rig.carry_out(&look, &plan, "me").await.unwrap();
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    let host = rig.host_of(RECORD).await;
    let world = rig.lab.shared().read(|world, _| serde_json::to_vec(world).unwrap());
    let mut world: serde_json::Value = serde_json::from_slice(&world).unwrap();
    let vms = world["hypervisor"]["vms"].as_object_mut().unwrap();
    let mut record = vms.remove(&RECORD.to_string()).unwrap();
    record["vmid"] = 4711.into();
    record["config"]["name"] = "other".into();
    record["config"].as_object_mut().unwrap().remove("tags");
    vms.insert("4711".to_owned(), record);
    let rig = Rig::copy_of(&serde_json::to_vec(&world).unwrap());
    rig.fail(4711, 595, "No route to host");
    let plan = rig.look(HOME).await.plan();
    assert_eq!(plan.steps, []);
    let told = format!("VM 4711 (other) on {host}");
    assert!(plan.refusals.iter().any(|r| r.why.contains(&told)), "{:?}", plan.refusals);
}

/// One host of a home lab is down. VMs that are known to be others' are counted; the way on is in the plan.
#[tokio::test(start_paused = true)]
async fn an_offline_host_is_named_before_a_new_cluster_is_created() {
    let rig = Rig::new();
    rig.theirs("pve3", 4711).await;
    rig.lab.disturb(Disturbance::HostOffline("pve3".to_owned()));
    let plan = rig.look(HOME).await.plan();
    assert_eq!(plan.refusals, []);
    assert!(
        notes(&plan)[0].starts_with("1 VM on pve3 cannot be checked: the host is offline"),
        "{:?}",
        plan.notices
    );
    // Without its name, which a real Proxmox does not list then, and with our tag, it may be ours.
    let pve = &rig.world.pve;
    rig.lab.disturb(Disturbance::HostOnline("pve3".to_owned()));
    pve.update_config("pve3", 4711, &params(&[("tags", "talosmith")]), &[], None).await.unwrap();
    rig.lab.disturb(Disturbance::HostOffline("pve3".to_owned()));
    let plan = rig.look(HOME).await.plan();
    assert_eq!(plan.steps, []);
    assert!(plan.refusals[0].why.contains("VM 4711 (web) on pve3"), "{:?}", plan.refusals);
    let without = HOME.replace("pools:", "hosts: { pve1: {}, pve2: {} }\npools:");
    let ran = rig.apply(&without).await;
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
}
