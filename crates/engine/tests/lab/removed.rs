//! Nodes that the file does not have any more.

use std::time::Duration;

use lab::Injection;
use model::allowed::Allowed;
use model::blueprint::Role;
use model::event::{Outcome, What};
use model::observed::{Api, Etcd};

use crate::rig::{HOME, Rig};

/// Two control plane nodes and a worker less than [`HOME`] has.
fn smaller() -> String {
    HOME.replace("count: 3", "count: 1").replace("count: 2", "count: 1")
}

#[tokio::test(start_paused = true)]
async fn issue_20_nodes_that_left_the_file_are_asked_and_vote() {
    let rig = Rig::healthy().await;
    let snapshot = rig.observe(&smaller()).await;
    let removed = &snapshot.observed.removed;
    let told: Vec<_> = removed
        .iter()
        .map(|(name, r)| (name.as_str(), r.vmid, r.role, r.address.unwrap().to_string()))
        .collect();
    let expected = [
        ("home-control-2", 150_012, Role::ControlPlane, "10.25.150.12".to_owned()),
        ("home-control-3", 150_013, Role::ControlPlane, "10.25.150.13".to_owned()),
        ("home-work-2", 150_022, Role::Worker, "10.25.150.22".to_owned()),
    ];
    assert_eq!(told, expected);
    for (name, removed) in removed {
        assert_eq!(removed.host, rig.host_of(removed.vmid).await);
        assert_eq!(removed.disks.keys().collect::<Vec<_>>(), ["scsi0"], "{name}");
        assert!(removed.disks["scsi0"] >= 10, "{name}: {:?}", removed.disks);
        let machine = &snapshot.observed.machines[name];
        assert_eq!(machine.api, Api::Configured, "{name}");
        assert_eq!(matches!(machine.etcd, Etcd::Member { .. }), removed.role == Role::ControlPlane, "{name}");
        assert_eq!(machine.config_changes, None, "{name} has no drift");
        // It is reached and identified like a node of the file.
        let node = snapshot.node(name).unwrap();
        assert_eq!((node.vmid, node.role, &node.name), (removed.vmid, removed.role, name));
        assert_eq!(Some(rig.systems.address(node)), removed.address.map(Into::into));
    }
    assert_eq!(snapshot.observed.machines["home-work-2"].etcd, Etcd::Empty);
    let voters: Vec<_> = snapshot.voters().into_iter().map(|node| node.name).collect();
    assert_eq!(voters, ["home-control-1", "home-control-2", "home-control-3"]);

    let standing = model::quorum::standing(&snapshot.blueprint, &snapshot.observed.machines).unwrap();
    assert_eq!((standing.voters, standing.tolerates), (Some(3), Some(1)));
    assert_eq!(standing.not_in_file, ["home-control-2", "home-control-3"]);
    assert_eq!(standing.not_asked, [] as [&str; 0]);
    let plan = snapshot.plan();
    assert_eq!(plan.refusals, []);
    assert!(plan.steps.is_empty(), "nothing is configured or updated: {:?}", plan.steps);
}

#[tokio::test(start_paused = true)]
async fn issue_20_a_removed_node_that_is_cut_off_or_off_is_no_healthy_voter() {
    let rig = Rig::healthy().await;
    rig.lab.inject(Injection::Unplugged { vmid: 150_013, unplugged: true });
    rig.systems.clock.sleep(Duration::from_secs(60)).await;
    let snapshot = rig.observe(&smaller()).await;
    let standing = model::quorum::standing(&snapshot.blueprint, &snapshot.observed.machines).unwrap();
    assert_eq!((standing.voters, standing.tolerates), (Some(3), Some(0)));
    assert_eq!(standing.unresponsive, ["home-control-3"]);
    assert_eq!(standing.not_asked, [] as [&str; 0], "it was asked, and did not answer");
    assert_eq!(snapshot.observed.removed["home-control-3"].role, Role::ControlPlane, "etcd lists it");

    let person = rig.lab.person();
    person.power_off(150_013).unwrap();
    rig.systems.clock.sleep(Duration::from_secs(60)).await;
    let snapshot = rig.observe(&smaller()).await;
    assert_eq!(snapshot.observed.removed["home-control-3"].role, Role::ControlPlane);
    assert!(!snapshot.observed.machines.contains_key("home-control-3"), "nothing is asked that is off");
    let standing = model::quorum::standing(&snapshot.blueprint, &snapshot.observed.machines).unwrap();
    assert_eq!(standing.not_asked, ["home-control-3"]);
    assert!(snapshot.voters().iter().any(|node| node.name == "home-control-3"));
}

/// What the VM does not say, because a DHCP server gave it its address, Kubernetes says.
#[tokio::test(start_paused = true)]
async fn issue_20_a_removed_node_is_found_where_kubernetes_says() {
    let rig = Rig::healthy().await;
    let host = rig.host_of(150_013).await;
    let dhcp = pve::Params::from([("ipconfig0".to_owned(), "ip=dhcp".to_owned())]);
    rig.systems.pve.update_config(&host, 150_013, &dhcp, &[], None).await.unwrap();
    let snapshot = rig.observe(&smaller()).await;
    let removed = &snapshot.observed.removed["home-control-3"];
    assert_eq!(removed.address.unwrap().to_string(), "10.25.150.13");
    assert!(matches!(snapshot.observed.machines["home-control-3"].etcd, Etcd::Member { .. }));
    assert_eq!(snapshot.observed.unobserved, []);
}

/// The members stay, because their removal was not allowed. That is no reason to wait for what does not happen.
#[tokio::test(start_paused = true)]
async fn x2_2_members_that_left_the_file_do_not_keep_a_run_waiting() {
    let rig = Rig::healthy().await;
    let file = smaller().replace("pools:", "defaults: { worker: { labels: { a: b } } }\npools:");
    let before = rig.systems.clock.now();
    let ran = rig.apply(&file).await;
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    assert!(rig.systems.clock.now().duration_since(before).as_secs() < 120);
    let snapshot = rig.observe(&file).await;
    let conditions = engine::health::conditions(&rig.systems, &snapshot).await;
    assert!(conditions.iter().all(|condition| condition.missing.is_none()), "{conditions:?}");
    let awaits = conditions[0].awaits.as_deref().unwrap();
    assert!(
        awaits.starts_with("home-control-2, home-control-3 are not in the file and still members"),
        "{awaits}"
    );
    assert_eq!(snapshot.plan().blocked.len(), 3);
}

/// What is lost for good with a node stands in the plan: its disks with their sizes, pods that nothing recreates, its place in etcd.
#[tokio::test(start_paused = true)]
async fn leftover_21_the_plan_names_what_is_lost_with_a_node() {
    let rig = Rig::healthy().await;
    let pod = |name: &str, node: &str| {
        serde_json::json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"},
            "spec": {"nodeName": node, "containers": [{"name": "c", "image": "example/c:1"}]},
        })
    };
    for (name, node) in [("alone", "home-work-2"), ("elsewhere", "home-work-1")] {
        rig.kubernetes().apply(&pod(name, node)).await.unwrap();
    }
    let plan = rig.observe(&smaller()).await.plan();
    let hint = |node: &str| {
        let blocked = plan.blocked.iter().find(|blocked| blocked.node.as_deref() == Some(node));
        blocked.unwrap_or_else(|| panic!("{:?}", plan.blocked)).hint.clone()
    };
    let worker = hint("home-work-2");
    assert!(worker.contains("scsi0 with ") && worker.contains("default/alone"), "{worker}");
    assert!(!worker.contains("elsewhere") && !worker.contains("etcd"), "{worker}");
    assert!(hint("home-control-3").contains("its membership in etcd"), "{}", hint("home-control-3"));

    let allowed = Allowed { removed: true, ..Allowed::default() };
    let Ok(snapshot) = rig.session(&smaller()).allowing(allowed).observe().await else { panic!() };
    let plan = snapshot.plan();
    let reason = |kind: &str| {
        let is_it =
            |step: &&model::step::Step| step.id.kind() == kind && step.action.node() == Some("home-work-2");
        plan.steps.iter().find(is_it).unwrap_or_else(|| panic!("no {kind}: {plan:?}")).reason.clone()
    };
    assert!(reason("drain-node").contains("default/alone"), "{}", reason("drain-node"));
    assert!(reason("delete-vm").contains("scsi0 with "), "{}", reason("delete-vm"));
    assert!(plan.steps.iter().any(|step| step.id.0 == "leave-etcd/home-control-3"), "{:?}", plan.steps);
}

/// The API is away for a moment while a node is deleted, because the VIP moves: that is said.
#[tokio::test(start_paused = true)]
async fn leftover_8_a_deletion_that_waits_for_the_api_says_so() {
    let rig = Rig::healthy().await;
    let file = HOME.replace("count: 2", "count: 1");
    let allowed = Allowed { removed: true, ..Allowed::default() };
    let Ok(snapshot) = rig.session(&file).allowing(allowed).observe().await else { panic!() };
    let held = std::sync::atomic::AtomicBool::new(false);
    rig.lab.on_call(move |_, moment, method, path| {
        let is_it = method == "DELETE" && path.contains("/api/v1/nodes/home-work-2");
        let first = is_it
            && moment == lab::CallMoment::Before
            && !held.swap(true, std::sync::atomic::Ordering::Relaxed);
        if first { lab::Verdict::Hold } else { lab::Verdict::GoOn }
    });
    let ran = rig.carry_out(&snapshot, &snapshot.plan(), "me").await.unwrap();
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    let notes = ran.events.iter().filter_map(|event| match &event.what {
        What::StepProgress { step, note, .. } if step.0 == "delete-node/home-work-2" => Some(note.as_str()),
        _ => None,
    });
    let notes: Vec<&str> = notes.collect();
    let told = |note: &&str| {
        note.starts_with("waiting for the Kubernetes API at https://10.25.150.10:6443 (timeout 120 s): ")
            && note.contains("the VIP may be moving")
    };
    assert!(notes.iter().any(told), "{notes:?}");
}
