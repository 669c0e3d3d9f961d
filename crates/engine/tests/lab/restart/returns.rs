//! Machines that come back late, as others, or not at all; and calls whose answers are lost.

use std::collections::BTreeMap;

use lab::{CallFilter, ComesBack, Far, Injection, Lost, Partition, When, Wire};
use model::event::Outcome;
use model::names::VmRef;
use model::plan::Plan;
use model::step::{Action, RebootMode};

use super::{CONTROL, WORKERS, count, failure, nothing, reboot, restart};
use crate::rig::{HOME, Ran, Rig};

/// Reboots a node.
async fn rebooted(rig: &Rig, node: &str) -> Ran {
    let snapshot = rig.observe(HOME).await;
    let mut plan = nothing(&snapshot);
    restart(&mut plan, node, vec![reboot(node)], &[]);
    rig.carry_out(&snapshot, &plan, "me").await.unwrap()
}

fn at(path: &str) -> When {
    When::Call(CallFilter { path_contains: path.into(), ..CallFilter::default() })
}

#[tokio::test(start_paused = true)]
async fn the_boot_id_is_believed_and_not_the_events() {
    let rig = Rig::healthy().await;
    rig.lab.inject(Injection::SilentEvents { vmid: 150_021, silent: true });
    let ran = rebooted(&rig, WORKERS[0]).await;
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_is_no_reason_to_reboot_twice() {
    let rig = Rig::healthy().await;
    rig.lab.inject(Injection::Wire { fault: Wire::Lost, when: at("MachineService/Reboot") });
    let reboots = count(&rig, "/Reboot");
    let ran = rebooted(&rig, WORKERS[0]).await;
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    assert_eq!(reboots.lock().unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_was_not_reached_is_not_rebooted() {
    let rig = Rig::healthy().await;
    let before = rig.boots();
    rig.lab.inject(Injection::Wire { fault: Wire::Reset, when: at("MachineService/Reboot") });
    let ran = rebooted(&rig, WORKERS[0]).await;
    assert_eq!(ran.outcome, Outcome::Failed);
    assert_eq!(failure(&ran).0, "reboot-node/home-work-1");
    assert_eq!(rig.boots(), before);
    assert_eq!(rig.cordoned().await, BTreeMap::new(), "it is as healthy as before, so pods may come again");
    let ran = rebooted(&rig, WORKERS[0]).await;
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    assert_eq!(rig.cordoned().await, BTreeMap::new());
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_comes_back_in_maintenance_closes_the_gate() {
    let rig = Rig::healthy().await;
    rig.lab.inject(Injection::ComesBack { vmid: 150_013, how: Some(ComesBack::InMaintenance) });
    let snapshot = rig.observe(HOME).await;
    let mut plan = nothing(&snapshot);
    let first = restart(&mut plan, CONTROL[2], vec![reboot(CONTROL[2])], &[]);
    restart(&mut plan, CONTROL[1], vec![reboot(CONTROL[1])], &[first]);
    // A worker that does not wait for them.
    restart(&mut plan, WORKERS[0], vec![reboot(WORKERS[0])], &[]);
    let before = rig.boots();
    let ran = rig.carry_out(&snapshot, &plan, "me").await.unwrap();
    assert_eq!(ran.outcome, Outcome::Failed);
    let (step, code, _) = failure(&ran);
    assert_eq!((step.as_str(), code.as_str()), ("reboot-node/home-control-3", "lost-configuration"));
    assert_eq!(rig.boots()[&150_012], before[&150_012], "the next one is left alone");
}

#[tokio::test(start_paused = true)]
async fn lost_kernel_arguments_are_seen() {
    let rig = Rig::healthy().await;
    rig.lab.inject(Injection::ComesBack { vmid: 150_021, how: Some(ComesBack::WithoutKernelArguments) });
    let ran = rebooted(&rig, WORKERS[0]).await;
    assert_eq!(ran.outcome, Outcome::Failed);
    let (step, code, why) = failure(&ran);
    assert_eq!((step.as_str(), code.as_str()), ("verify-node/home-work-1", "not-as-expected"), "{why}");
    assert!(why.contains("kernel arguments"), "{why}");
}

/// The file with an older release, and a plan that installs it on a worker.
async fn upgrade(rig: &Rig, talos: &str) -> (engine::Snapshot, Plan) {
    let snapshot = rig.observe(&HOME.replace("v1.13.9", talos)).await;
    let schematic = snapshot.rendered.schematics.values().next().unwrap();
    let image = format!("factory.talos.dev/nocloud-installer/{schematic}:{talos}");
    let mut plan = nothing(&snapshot);
    let node = WORKERS[0];
    let install =
        Action::InstallTalos { node: node.into(), image, talos: talos.into(), mode: RebootMode::Default };
    restart(&mut plan, node, vec![install, reboot(node)], &[]);
    (snapshot, plan)
}

#[tokio::test(start_paused = true)]
async fn another_release_is_installed_and_verified() {
    let rig = Rig::healthy().await;
    let (snapshot, plan) = upgrade(&rig, "v1.13.8").await;
    let ran = rig.carry_out(&snapshot, &plan, "me").await.unwrap();
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    let seen = rig.observe(&HOME.replace("v1.13.9", "v1.13.8")).await;
    assert_eq!(seen.observed.machines[WORKERS[0]].talos.as_deref(), Some("v1.13.8"));
    assert_eq!(seen.observed.machines[WORKERS[1]].talos.as_deref(), Some("v1.13.9"));
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_fell_back_to_the_old_release_is_not_verified() {
    let rig = Rig::healthy().await;
    rig.lab.inject(Injection::BrokenSystem { vmid: 150_021, talos: "v1.13.8".into(), broken: true });
    let (snapshot, plan) = upgrade(&rig, "v1.13.8").await;
    let ran = rig.carry_out(&snapshot, &plan, "me").await.unwrap();
    let (step, code, why) = failure(&ran);
    assert_eq!((step.as_str(), code.as_str()), ("verify-node/home-work-1", "not-as-expected"));
    assert!(why.contains("came back with Talos v1.13.9 instead of v1.13.8"), "{why}");
}

/// The file of an older cluster, whose machines install and reboot in one call.
#[tokio::test(start_paused = true)]
async fn before_1_13_the_installation_brings_the_reboot() {
    let old = HOME.replace("v1.13.9", "v1.12.11");
    let rig = Rig::new();
    let ran = Box::pin(rig.apply(&old)).await;
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    let (snapshot, plan) = upgrade(&rig, "v1.13.9").await;
    let (reboots, before) = (count(&rig, "/Reboot"), rig.boots());
    let ran = rig.carry_out(&snapshot, &plan, "me").await.unwrap();
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    assert_eq!(reboots.lock().unwrap().len(), 0);
    assert_ne!(rig.boots()[&150_021], before[&150_021]);
    let seen = rig.observe(&old).await;
    assert_eq!(seen.observed.machines[WORKERS[0]].talos.as_deref(), Some("v1.13.9"));
    assert_eq!(rig.cordoned().await, BTreeMap::new());
}

#[tokio::test(start_paused = true)]
async fn an_image_that_is_not_there_changes_nothing() {
    let rig = Rig::healthy().await;
    let (snapshot, mut plan) = upgrade(&rig, "v1.13.8").await;
    for step in &mut plan.steps {
        if let Action::InstallTalos { image, .. } = &mut step.action {
            *image = "ghcr.io/siderolabs/installer:v1.99.0".into();
        }
    }
    let before = rig.boots();
    let ran = rig.carry_out(&snapshot, &plan, "me").await.unwrap();
    assert_eq!(failure(&ran).0, "install-talos/home-work-1");
    assert_eq!((rig.boots(), rig.cordoned().await), (before, BTreeMap::new()));
}

#[tokio::test(start_paused = true)]
async fn another_schematic_is_not_verified() {
    let rig = Rig::healthy().await;
    let (snapshot, mut plan) = upgrade(&rig, "v1.13.8").await;
    let text = "customization:\n  extraKernelArgs: [quiet]\n";
    let (net, clock) = (rig.systems.net.clone(), &rig.systems.clock);
    let factory =
        talos_client::Factory::new(net, clock, "https://factory.talos.dev", &rig.systems.factory_roots);
    let other = factory.unwrap().post_schematic(text).await.unwrap();
    for step in &mut plan.steps {
        if let Action::InstallTalos { image, .. } = &mut step.action {
            *image = format!("factory.talos.dev/nocloud-installer/{other}:v1.13.8");
        }
    }
    let ran = rig.carry_out(&snapshot, &plan, "me").await.unwrap();
    let (step, code, why) = failure(&ran);
    assert_eq!((step.as_str(), code.as_str()), ("verify-node/home-work-1", "not-as-expected"));
    assert!(why.contains("schematic"), "{why}");
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_does_not_shut_down_is_left_running() {
    let rig = Rig::healthy().await;
    let (snapshot, before) = (rig.observe(HOME).await, rig.boots());
    let mut plan = nothing(&snapshot);
    let (node, host) = (WORKERS[0].to_owned(), rig.host_of(150_021).await);
    let act = Action::PowerCycleVm {
        node: node.into(),
        vm: VmRef::new(&host, 150_021),
        set: BTreeMap::new(),
        says: vec![],
    };
    restart(&mut plan, WORKERS[0], vec![act], &[]);
    rig.lab.inject(Injection::Known { number: 50, when: at("status/shutdown") });
    let ran = rig.carry_out(&snapshot, &plan, "me").await.unwrap();
    let (step, code, why) = failure(&ran);
    assert_eq!((step.as_str(), code.as_str()), ("power-cycle-vm/home-work-1", "no-shutdown"), "{why}");
    assert_eq!(rig.boots(), before);
    assert_eq!(rig.systems.pve.vm_status(&host, 150_021).await.unwrap().power, pve::PowerState::Running);
}

/// It does not shut down, and then the way to it is cut. It still runs, so it must not be stopped by force.
#[tokio::test(start_paused = true)]
async fn a_machine_that_cannot_be_reached_is_not_stopped_by_force_while_kubernetes_hears_it() {
    let rig = Rig::healthy().await;
    let (snapshot, before) = (rig.observe(HOME).await, rig.boots());
    let mut plan = nothing(&snapshot);
    let (node, host) = (WORKERS[0].to_owned(), rig.host_of(150_021).await);
    let act = Action::PowerCycleVm {
        node: node.into(),
        vm: VmRef::new(&host, 150_021),
        set: BTreeMap::new(),
        says: vec![],
    };
    restart(&mut plan, WORKERS[0], vec![act], &[]);
    rig.lab.inject(Injection::Known { number: 50, when: at("status/shutdown") });
    let lab = rig.lab.clone();
    rig.lab.on_call(move |_, moment, _, path| {
        if moment == lab::CallMoment::After && path.contains("status/shutdown") {
            let which = Partition { origin: None, far: Far::Machine(150_021), lost: Lost::Requests };
            lab.inject(Injection::Partition { which, cut: true });
        }
        lab::Verdict::GoOn
    });
    let ran = rig.carry_out(&snapshot, &plan, "me").await.unwrap();
    let (step, code, why) = failure(&ran);
    assert_eq!((step.as_str(), code.as_str()), ("power-cycle-vm/home-work-1", "no-shutdown"), "{why}");
    assert_eq!(rig.boots(), before);
    assert_eq!(rig.systems.pve.vm_status(&host, 150_021).await.unwrap().power, pve::PowerState::Running);
}

#[tokio::test(start_paused = true)]
async fn the_lock_of_a_vm_that_was_just_stopped_is_waited_for() {
    let rig = Rig::healthy().await;
    let snapshot = rig.observe(HOME).await;
    let mut plan = nothing(&snapshot);
    let (node, host) = (WORKERS[0].to_owned(), rig.host_of(150_021).await);
    let act = Action::PowerCycleVm {
        node: node.into(),
        vm: VmRef::new(host, 150_021),
        set: BTreeMap::new(),
        says: vec![],
    };
    restart(&mut plan, WORKERS[0], vec![act], &[]);
    rig.lab.inject(Injection::Known { number: 22, when: at("status/shutdown") });
    rig.lab.inject(Injection::Known { number: 22, when: at("status/start") });
    let ran = rig.carry_out(&snapshot, &plan, "me").await.unwrap();
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
}

/// The one that the leader would hand over to has a full database: it is asked to hand over in turn.
#[tokio::test(start_paused = true)]
async fn leadership_does_not_stay_with_a_sick_member() {
    let rig = Rig::healthy().await;
    let snapshot = rig.observe(HOME).await;
    let mut plan = nothing(&snapshot);
    restart(&mut plan, CONTROL[0], vec![reboot(CONTROL[0])], &[]);
    // After the gate was passed: it would not have opened.
    let lab = rig.lab.clone();
    rig.lab.on_call(move |_, moment, _, path| {
        if moment == lab::CallMoment::After && path.contains("volumeattachments") {
            for vmid in [150_012, 150_013] {
                lab.inject(Injection::FullEtcd { vmid });
            }
        }
        lab::Verdict::GoOn
    });
    let leader = snapshot.observed.machines[CONTROL[0]].etcd_status.clone().unwrap().leader;
    let before = rig.boots();
    let ran = rig.carry_out(&snapshot, &plan, "me").await.unwrap();
    assert!(leader.is_some());
    let (step, code, why) = failure(&ran);
    assert_eq!((step.as_str(), code.as_str()), ("move-leadership/home-control-1", "etcd-unhealthy"), "{why}");
    assert_eq!((rig.boots(), rig.cordoned().await), (before, BTreeMap::new()));
}
