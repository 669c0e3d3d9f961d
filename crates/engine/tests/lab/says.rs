//! What commands say of the world is true.

use std::time::Duration;

use lab::Injection;
use model::event::Outcome;

use crate::rig::{HOME, Rig, examine};

impl Rig {
    /// The condition of health about etcd.
    async fn etcd_condition(&self) -> String {
        let snapshot = self.session(HOME).refresh().await.unwrap();
        let conditions = engine::health::conditions(&self.systems, &snapshot).await;
        conditions.into_iter().find(|c| c.name.starts_with("etcd")).unwrap().missing.unwrap_or_default()
    }
}

#[tokio::test(start_paused = true)]
async fn t6_a_lost_quorum_is_said_by_plan_and_health() {
    let rig = Rig::healthy().await;
    let snapshot = rig.observe(HOME).await;
    let whole = model::quorum::standing(&snapshot.blueprint, &snapshot.observed.machines).unwrap();
    let text = whole.to_string();
    assert!(
        text.starts_with("3 of 3 members answer, quorum holds, 1 failure is tolerated; leader home-"),
        "{text}"
    );
    assert!(text.contains("; VIP 10.25.150.10 on home-control-"), "{text}");
    assert_eq!(snapshot.plan().notes, [], "nothing to tell of an etcd that is whole");
    assert_eq!(rig.etcd_condition().await, "");

    // The first one, which nothing may stop at.
    rig.lab.inject(Injection::Unplugged { vmid: 150_011, unplugged: true });
    rig.systems.clock.sleep(Duration::from_secs(60)).await;
    let tight = "2 of 3 members answer, quorum holds, one more failure loses it; etcd on home-control-1 does not answer; leader home-control-";
    let told =
        |plan: model::plan::Plan| plan.notes.into_iter().map(|n| n.text).collect::<Vec<_>>().join("\n");
    let notes = told(rig.observe(HOME).await.plan());
    assert!(notes.contains(&format!("etcd: {tight}")), "{notes}");
    let condition = rig.etcd_condition().await;
    assert!(condition.starts_with(tight), "{condition}");

    rig.lab.inject(Injection::Unplugged { vmid: 150_012, unplugged: true });
    rig.systems.clock.sleep(Duration::from_secs(60)).await;
    let lost = "quorum lost: home-control-3 answers and sees no leader; etcd on home-control-1, home-control-2 does not answer";
    let notes = told(rig.observe(HOME).await.plan());
    assert!(notes.contains(&format!("etcd: {lost}")), "{notes}");
    let condition = rig.etcd_condition().await;
    assert!(condition.starts_with(lost), "{condition}");
}

/// Issue 15: two of three are lost, one of them for good. Nothing empty is put beside them; what brings a member back goes on, and once
/// it is back, the lost one is created again.
#[tokio::test(start_paused = true)]
async fn issue_15_a_control_plane_node_is_created_again_only_while_etcd_has_a_majority() {
    let rig = Rig::healthy().await;
    let person = rig.lab.person();
    person.power_off(150_012).unwrap();
    person.delete(150_013).unwrap();
    rig.systems.clock.sleep(Duration::from_secs(60)).await;
    let grown = HOME.replace("count: 2", "count: 3");
    let plan = rig.observe(&grown).await.plan();
    assert_eq!(plan.refusals, []);
    let has = |id: &str| plan.steps.iter().any(|step| step.id.0 == id);
    assert!(has("start-vm/home-control-2") && has("create-vm/home-work-3"), "{plan:?}");
    assert!(!plan.steps.iter().any(|step| step.id.objects().any(|of| of == "home-control-3")), "{plan:?}");
    let held = &plan.blocked[0];
    let lost = "home-control-3 is not created: etcd takes no new member: quorum lost: home-control-1 answers and sees no leader";
    assert!(held.what.starts_with(lost), "{held:?}");
    let ran = rig.apply(&grown).await;
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    let ran = rig.apply(&grown).await;
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    let snapshot = rig.observe(&grown).await;
    assert!(snapshot.plan().is_empty(), "{:?}", snapshot.plan());
    assert_eq!(rig.etcd_clusters(), 1);
}

/// A machine that is unplugged is not new, and neither is a node whose VM was deleted.
#[tokio::test(start_paused = true)]
async fn first_use_20_what_the_cluster_knows_is_not_planned_as_new() {
    let rig = Rig::healthy().await;
    rig.lab.inject(Injection::Unplugged { vmid: 150_021, unplugged: true });
    let (pve, host) = (&rig.systems.pve, rig.host_of(150_022).await);
    let unprotected = pve::Params::from([("protection".to_owned(), "0".to_owned())]);
    pve.update_config(&host, 150_022, &unprotected, &[], None).await.unwrap();
    pve.follow(&pve.stop(&host, 150_022).await.unwrap(), |_| {}).await.unwrap();
    pve.follow(&pve.delete_vm(&host, 150_022, true).await.unwrap(), |_| {}).await.unwrap();
    rig.systems.clock.sleep(Duration::from_secs(60)).await;
    let plan = rig.observe(HOME).await.plan();
    let told = |id: &str| {
        let step = plan.steps.iter().find(|step| step.id.0 == id);
        step.map(|step| (step.action.describe(), step.reason.clone()))
            .unwrap_or_else(|| panic!("{id}: {plan:?}"))
    };
    let (what, why) = told("configure/home-work-1");
    assert_eq!(what, "wait for home-work-1 to answer, and configure it if it has no configuration");
    assert!(why.ends_with("and Kubernetes knows it: it was configured before"), "{why}");
    let (_, why) = told("create-vm/home-work-2");
    // Reviewers see what is created.
    let first_use_12 = "its VM is gone, and Kubernetes still knows it: it is created again, empty; ";
    assert!(why.starts_with(first_use_12), "{why}");
    assert!(
        why.contains(" cores, ") && why.contains(" GiB RAM, ") && why.ends_with(" disk, Talos v1.13.9"),
        "{why}"
    );
}

/// Proxmox would create the VM and refuse to start it.
#[tokio::test(start_paused = true)]
async fn p7_more_cores_than_the_host_has_are_refused_before_anything_is_made() {
    let rig = Rig::new();
    let file = format!("{HOME}sizes: {{ big: {{ cpu: 200 }} }}\n")
        .replace("role: worker,", "role: worker, size: big,");
    let changes = rig.count_changes();
    let plan = rig.observe(&file).await.plan();
    assert_eq!(changes.load(std::sync::atomic::Ordering::Relaxed), 0);
    let refusal = plan.refusals.iter().find(|r| r.code == model::plan::RefusalCode::Processors).unwrap();
    assert!(refusal.why.starts_with("home-work-1 asks for 200 cores, and pve"), "{refusal:?}");
    assert_eq!(
        plan.refusals.len(),
        2,
        "one for each worker, and nothing for the control plane: {:?}",
        plan.refusals
    );
}

/// There is nothing to examine in Proxmox, and what can be asked is asked.
#[tokio::test(start_paused = true)]
async fn t10_doctor_examines_a_cluster_without_proxmox() {
    let rig = crate::external::metal().await;
    let spec = crate::rig::spec(crate::external::METAL);
    let found = examine(&rig.systems, &spec).await.unwrap();
    let told: Vec<_> = found.iter().map(|f| (f.what.as_str(), f.verdict)).collect();
    use engine::doctor::Verdict;
    assert_eq!(
        told,
        [
            ("Proxmox", Verdict::Ok),
            ("machine cp-1", Verdict::Ok),
            ("machine w-1", Verdict::Ok),
            ("plan", Verdict::Ok)
        ]
    );
    let dark = crate::rig::spec(&crate::external::METAL.replace("10.25.150.32", "10.25.150.99"));
    let found = examine(&rig.systems, &dark).await.unwrap();
    let lost = found.iter().find(|f| f.what == "machine w-1").unwrap();
    assert_eq!(lost.verdict, Verdict::Warning);
    assert_eq!(lost.detail, "nothing answers at 10.25.150.99, port 50000 (the Talos API)");
}

/// All members answer, and etcd still refuses writes.
#[tokio::test(start_paused = true)]
async fn an_etcd_with_an_alarm_is_not_healthy() {
    let rig = Rig::healthy().await;
    rig.lab.inject(Injection::FullEtcd { vmid: 150_011 });
    let condition = rig.etcd_condition().await;
    assert!(condition.starts_with("etcd reports: ") && condition.contains("NOSPACE"), "{condition}");
    assert!(condition.contains("`talosctl etcd alarm disarm`"), "{condition}");
}
