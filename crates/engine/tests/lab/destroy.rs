//! Taking a cluster away that is dead, or on a host that is.

use std::time::Duration;

use engine::Snapshot;
use lab::{CallFilter, Injection};
use model::event::{Outcome, What};
use model::plan::{Plan, RefusalCode};

use crate::rig::{HOME, Ran, Rig};

/// Who held the lease is lost with the line, and may still be at work: the line that is printed instead makes the next run wait.
#[tokio::test(start_paused = true)]
async fn a7_a_restored_line_of_the_record_does_not_free_a_lease() {
    let rig = Rig::healthy().await;
    rig.without_line("talosmith-record:").await;
    let Ok(snapshot) = rig.session(HOME).observe_to_destroy().await else { panic!("it can be looked at") };
    let [refusal] = snapshot.plan_destroy().refusals.try_into().unwrap();
    assert!(!refusal.why.contains("no member of etcd answers"), "no machine was asked: {}", refusal.why);
    let line = refusal.hint.split_once("this line says so: ").unwrap().1.to_owned();
    let host = rig.host_of(150_010).await;
    let notes = rig.systems.pve.vm_config(&host, 150_010).await.unwrap().description().to_owned();
    rig.lab.person().set(150_010, "description", &format!("{notes}\n{line}\n")).unwrap();
    let Ok(snapshot) = rig.session(HOME).observe_to_destroy().await else { panic!("it can be looked at") };
    let plan = snapshot.plan_destroy();
    assert_eq!(plan.refusals, []);
    let began = rig.systems.clock.now();
    let ran = rig.carry_out(&snapshot, &plan, "me").await;
    let waited = rig.systems.clock.now().duration_since(began).as_secs();
    assert!(waited >= 150, "{waited} s: {:?}", ran.map(|ran| ran.failures()));
    let vms = rig.vmids().await;
    assert!(vms.contains(&150_011), "what was seen before the wait is not acted upon: {vms:?}");
}

async fn destroy(rig: &Rig) -> (Vec<String>, Ran) {
    destroy_file(rig, HOME).await
}

async fn destroy_file(rig: &Rig, file: &str) -> (Vec<String>, Ran) {
    let Ok(snapshot) = rig.session(file).observe_to_destroy().await else { panic!("it can be looked at") };
    let plan = snapshot.plan_destroy();
    assert_eq!(plan.refusals, []);
    let notes = plan.notes.iter().map(|n| n.text.clone()).collect();
    (notes, rig.carry_out(&snapshot, &plan, "me").await.unwrap())
}

#[tokio::test(start_paused = true)]
async fn a_dead_cluster_is_no_obstacle_and_what_is_out_of_reach_is_named() {
    let rig = Rig::healthy().await;
    for vmid in [150_011, 150_012, 150_013, 150_021, 150_022] {
        rig.lab.inject(Injection::Unplugged { vmid, unplugged: true });
    }
    rig.lab.inject(Injection::HostOffline("pve3".to_owned()));
    let (notes, ran) = destroy(&rig).await;
    let left: Vec<u64> = rig.vmids().await;
    assert!(!left.is_empty() && left.len() < 6, "what is on the hosts that answer is gone: {left:?}");
    let failed: Vec<&String> = ran
        .events
        .iter()
        .filter_map(|e| match &e.what {
            What::StepFailed { step, .. } => Some(&step.0),
            _ => None,
        })
        .collect();
    let said = format!("{notes:?} {failed:?}");
    for vmid in left.iter().filter(|vmid| **vmid != 150_010) {
        assert!(said.contains(&vmid.to_string()) || said.contains("pve3"), "{vmid} is named: {said}");
    }
    assert!(left.contains(&150_010), "the record guards what is left");

    rig.lab.inject(Injection::HostOnline("pve3".to_owned()));
    rig.systems.clock.sleep(Duration::from_secs(30)).await;
    let (_, ran) = destroy(&rig).await;
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    assert_eq!(rig.vmids().await, [] as [u64; 0]);
}

const WORKER: u32 = 150_021;

/// A plan to take everything away, and the look that it was made from.
async fn planned(rig: &Rig) -> (Snapshot, Plan) {
    let Ok(snapshot) = rig.session(HOME).observe_to_destroy().await else { panic!("it can be looked at") };
    let plan = snapshot.plan_destroy();
    (snapshot, plan)
}

/// Moves a VM to another host, and says to which.
async fn move_away(rig: &Rig, vmid: u32) -> String {
    let from = rig.host_of(vmid).await;
    let target = if from == "pve2" { "pve3" } else { "pve2" };
    let pve = &rig.systems.pve;
    let online = pve.vm_status(&from, vmid).await.unwrap().power == pve::PowerState::Running;
    let request = pve::Migrate { target: target.to_owned(), online, with_local_disks: true };
    pve.follow(&pve.migrate(&from, vmid, &request).await.unwrap(), |_| {}).await.unwrap();
    target.to_owned()
}

/// Between the plan and the word yes there is time for a VM to move. It is not gone, and it is followed.
#[tokio::test(start_paused = true)]
async fn a_vm_that_moved_since_the_plan_is_deleted_where_it_is() {
    for runs in [true, false] {
        let rig = Rig::healthy().await;
        if !runs {
            let pve = &rig.systems.pve;
            let stopping = pve.stop(&rig.host_of(WORKER).await, WORKER).await.unwrap();
            pve.follow(&stopping, |_| {}).await.unwrap();
            rig.systems.clock.sleep(Duration::from_secs(30)).await;
        }
        let (snapshot, plan) = planned(&rig).await;
        move_away(&rig, WORKER).await;
        let ran = rig.carry_out(&snapshot, &plan, "me").await.unwrap();
        assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
        assert_eq!(rig.vmids().await, [] as [u64; 0]);
    }
}

/// It moved, and on the way someone gave it to others: it stays, and so does the record.
#[tokio::test(start_paused = true)]
async fn a_vm_that_moved_and_lost_its_mark_stays() {
    let rig = Rig::healthy().await;
    let (snapshot, plan) = planned(&rig).await;
    let host = move_away(&rig, WORKER).await;
    let theirs = pve::Params::from([("description".to_owned(), "mine now".to_owned())]);
    rig.systems.pve.update_config(&host, WORKER, &theirs, &[], None).await.unwrap();
    let ran = rig.carry_out(&snapshot, &plan, "me").await.unwrap();
    assert_eq!(rig.vmids().await, [150_010, u64::from(WORKER)]);
    let status = rig.systems.pve.vm_status(&host, WORKER).await.unwrap();
    assert_eq!(status.power, pve::PowerState::Running, "it is not even stopped");
    let failures = ran.failures();
    assert_eq!(failures.len(), 1, "{failures:?}");
    assert!(failures[0].contains("is not home-work-1 any more"), "{failures:?}");
}

/// Where the host that it moved to fell silent, no one can say that the VM is gone.
#[tokio::test(start_paused = true)]
async fn a_vm_that_moved_to_a_host_that_is_off_is_not_gone() {
    let rig = Rig::healthy().await;
    let (snapshot, plan) = planned(&rig).await;
    let host = move_away(&rig, WORKER).await;
    assert_ne!(host, rig.host_of(150_010).await, "the record is elsewhere");
    rig.lab.inject(Injection::HostOffline(host.clone()));
    let ran = rig.carry_out(&snapshot, &plan, "me").await.unwrap();
    let left = rig.vmids().await;
    assert!(left.contains(&150_010), "the record guards what is left: {left:?}");
    let told = format!("Proxmox lists it on {host}, which is offline");
    let failures = ran.failures();
    assert!(failures.iter().any(|f| f.contains("home-work-1") && f.contains(&told)), "{failures:?}");
}

/// A VM that moves between Proxmox' list and the look at it is not taken for one that is not there.
#[tokio::test(start_paused = true)]
async fn a_vm_that_moves_during_the_look_is_seen() {
    let rig = Rig::healthy().await;
    let which = CallFilter { method: "GET".into(), path_contains: format!("/qemu/{WORKER}/"), skip: 0 };
    let text = format!("Configuration file 'nodes/pve1/qemu-server/{WORKER}.conf' does not exist\n");
    rig.lab.inject(Injection::FailCall { which, status: 500, text });
    let (snapshot, plan) = planned(&rig).await;
    assert_eq!(snapshot.observed.unobserved, []);
    assert!(
        plan.steps
            .iter()
            .any(|step| step.id.kind() == "delete-vm" && step.action.node() == Some("home-work-1")),
        "{:?}",
        plan.steps
    );
}

/// Without the record VM the lease cannot be read, and another operator may hold it.
#[tokio::test(start_paused = true)]
async fn without_its_record_a_cluster_is_neither_changed_nor_taken_away() {
    let rig = Rig::healthy().await;
    let pve = &rig.systems.pve;
    let request = pve::Migrate { target: "pve3".to_owned(), online: false, with_local_disks: false };
    pve.follow(&pve.migrate("pve1", 150_010, &request).await.unwrap(), |_| {}).await.unwrap();
    let params: pve::Params = [("tags".to_owned(), "mine".to_owned())].into_iter().collect();
    pve.update_config("pve1", 150_011, &params, &[], None).await.unwrap();
    rig.lab.inject(Injection::HostOffline("pve3".to_owned()));
    rig.systems.clock.sleep(Duration::from_secs(30)).await;
    let Ok(snapshot) = rig.session(HOME).observe_to_destroy().await else { panic!("it can be looked at") };
    for plan in [rig.observe(HOME).await.plan(), snapshot.plan_destroy()] {
        assert_eq!(plan.steps, []);
        let refusal = &plan.refusals[0];
        assert_eq!(refusal.code, RefusalCode::NoRecord);
        assert!(refusal.why.starts_with("VM 150010 on pve3 may be the cluster record VM"), "{refusal:?}");
        assert!(refusal.hint.contains("mv /etc/pve/nodes/pve3/qemu-server/150010.conf"), "{refusal:?}");
    }
    rig.lab.inject(Injection::HostOnline("pve3".to_owned()));
    rig.systems.clock.sleep(Duration::from_secs(30)).await;
    let ran = rig.apply(HOME).await;
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
}

#[tokio::test(start_paused = true)]
async fn a_protected_cluster_stays() {
    let rig = Rig::healthy().await;
    let protected = HOME.replace("cluster: home", "cluster: home\nprotect: true");
    let plan = rig.observe(&protected).await.plan_destroy();
    assert_eq!(plan.steps, []);
    assert_eq!(plan.refusals[0].code, RefusalCode::Protected);
}

const WITH_ACCOUNTS: &str = "manifests: { proxmox_ccm: {}, proxmox_csi: { user: people@pve } }\n";

/// What was made for the cluster goes with it; an account that a person made stays, and the command for it is told.
#[tokio::test(start_paused = true)]
async fn accounts_of_ours_go_and_those_of_people_stay() {
    let one = HOME.replace("count: 3", "count: 1").replace("count: 2", "count: 1");
    let (rig, file) = (Rig::new(), format!("{one}{WITH_ACCOUNTS}"));
    let pve = &rig.systems.pve;
    pve.create_user("people@pve", "made by hand").await.unwrap();
    let ran = rig.apply(&file).await;
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    let names = async || pve.users().await.unwrap().into_iter().map(|u| u.name).collect::<Vec<_>>();
    let roles = async || pve.roles().await.unwrap().into_iter().map(|r| r.name).collect::<Vec<_>>();
    assert!(names().await.contains(&"home-ccm@pve".to_owned()));
    assert!(roles().await.contains(&"home-ccm".to_owned()));
    let (notes, ran) = destroy_file(&rig, &file).await;
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    assert!(!names().await.contains(&"home-ccm@pve".to_owned()));
    assert!(!roles().await.contains(&"home-ccm".to_owned()));
    assert!(names().await.contains(&"people@pve".to_owned()), "it is not ours");
    assert!(!pve.granted().await.unwrap().iter().any(|g| g.whom.starts_with("home-ccm@pve")));
    let told = "the account people@pve stays in Proxmox, because its comment does not name this cluster: \
                `pveum user delete people@pve` and `pveum role delete home-csi` remove it";
    assert_eq!(notes, [told]);
    assert_eq!(rig.vmids().await, [] as [u64; 0]);
    let (notes, ran) = destroy_file(&rig, &file).await;
    assert_eq!((notes.len(), ran.outcome), (0, Outcome::Done), "nothing is left to say");
}

/// A token that a person made is no one else's to replace: neither the plan nor the step takes it.
#[tokio::test(start_paused = true)]
async fn a_token_of_a_person_is_not_replaced() {
    let one = HOME.replace("count: 3", "count: 1").replace("count: 2", "count: 1");
    let (rig, file) = (Rig::new(), format!("{one}{WITH_ACCOUNTS}"));
    let pve = &rig.systems.pve;
    pve.create_user("people@pve", "made by hand").await.unwrap();
    let early = rig.observe(&file).await;
    let (user, name) = ("people@pve".to_owned(), "kubernetes".to_owned());
    pve.create_token(&pve::NewToken { user, name, separated: true, comment: "mine".to_owned() })
        .await
        .unwrap();
    let plan = rig.observe(&file).await.plan();
    let told: Vec<_> = plan.refusals.iter().map(|r| (r.code, r.why.as_str())).collect();
    let why = "the user people@pve of the storage driver has a token kubernetes already, which does not say that it was made \
               for this cluster";
    assert_eq!(told, [(RefusalCode::TakenAccount, why)]);
    let ran = rig.carry_out(&early, &early.plan(), "me").await.unwrap();
    let failures = ran.failures();
    assert_eq!(failures.len(), 1, "{failures:?}");
    assert!(failures[0].ends_with(why), "{failures:?}");
    assert_eq!(pve.tokens("people@pve").await.unwrap()[0].comment, "mine");
}

/// Two clusters of one name share no account: the second would take the first one's token away.
#[tokio::test(start_paused = true)]
async fn an_account_of_another_cluster_is_not_taken() {
    let (rig, file) = (Rig::new(), format!("{HOME}{WITH_ACCOUNTS}"));
    let theirs = model::holder::comment("home", model::mark::Mark::owner_of("another bundle"));
    rig.systems.pve.create_user("home-ccm@pve", &theirs).await.unwrap();
    let plan = rig.observe(&file).await.plan();
    assert_eq!(plan.refusals.iter().map(|r| r.code).collect::<Vec<_>>(), [RefusalCode::TakenAccount]);
    assert!(plan.refusals[0].hint.contains("`manifests.proxmox_ccm.user`"), "{:?}", plan.refusals);
}
