//! Releases that differ, and how a machine gets from one to the other.

use secrecy::ExposeSecret as _;
use talos_client::{Kind, LegacyUpgrade, Progress, Reboot, Upgraded};

use super::*;

/// Up to 1.12 the version of a machine that waits is in its resources only, and a watch needs its options.
#[tokio::test(start_paused = true)]
async fn an_old_machine_is_known_by_its_resources() {
    let rig = Rig::with_waiting("v1.12.11").await;
    let connection = rig.maintenance().await;
    assert_eq!(connection.version().await.unwrap().tag, "v1.12.11");
    let old = config(61, Role::ControlPlane, "v1.12", "v1.35.4");
    connection.apply(old.as_bytes()).await.unwrap();
    rig.pass(10).await;
    let machine = rig.machine(61);
    assert_eq!(machine.version().await.unwrap().tag, "v1.12.11");
    for id in [None, Some("machine")] {
        let mut watch = machine.watch("runtime", "MachineStatuses.runtime.talos.dev", id).await.unwrap();
        assert!(watch.next(MINUTE).await.unwrap().is_some());
    }
    let error = machine.list("runtime", "Environments.runtime.talos.dev").await.unwrap_err();
    assert_eq!(error.kind(), Kind::Unimplemented);
}

/// A cluster of the oldest and of the newest release comes up by the same steps.
#[tokio::test(start_paused = true)]
async fn every_release_comes_up() {
    for (talos, kubernetes) in [("v1.12.11", "v1.35.4"), ("v1.14.2", "v1.36.3")] {
        let file = HOME.replace("v1.13.9", talos).replace("v1.35.4", kubernetes);
        let rig = Rig::new();
        let ran = Box::pin(rig.apply(&file)).await;
        assert_eq!(ran.outcome, model::event::Outcome::Done, "{talos}: {:?}", ran.failures());
        rig.assert_nothing_to_do(&file).await;
    }
}

/// Where there are services for images and upgrades the new way is taken, else the old one.
#[tokio::test(start_paused = true)]
async fn a_machine_is_upgraded_in_the_way_it_offers() {
    let rig = Rig::home().await;
    let worker = rig.machine(21);
    let image = "ghcr.io/siderolabs/installer:v1.13.8";
    let before = worker.boot_id().await.unwrap();
    let mut heard = vec![];
    let upgraded = worker.upgrade(image, |progress| heard.push(progress)).await.unwrap();
    assert_eq!(upgraded, Upgraded::AwaitsReboot);
    assert!(heard.iter().any(|p| matches!(p, Progress::Layer { .. })), "{heard:?}");
    assert_eq!(worker.boot_id().await.unwrap(), before, "nothing restarts by itself");
    worker.reboot_and_wait(Reboot::Usual, QUARTER).await.unwrap();
    assert_eq!(worker.version().await.unwrap().tag, "v1.13.8");
    worker.rollback().await.unwrap();
    rig.pass(120).await;
    assert_eq!(worker.version().await.unwrap().tag, "v1.13.9");

    let old = Rig::with_waiting("v1.12.11").await;
    let configured = config(61, Role::ControlPlane, "v1.12", "v1.35.4");
    old.maintenance().await.apply(configured.as_bytes()).await.unwrap();
    old.pass(10).await;
    let machine = old.machine(61);
    machine.bootstrap().await.unwrap();
    old.pass(120).await;
    let before = machine.boot_id().await.unwrap();
    let upgraded = machine.upgrade("ghcr.io/siderolabs/installer:v1.13.9", |_| {}).await.unwrap();
    assert!(matches!(upgraded, Upgraded::RestartsItself { .. }), "{upgraded:?}");
    machine.wait_for_boot(&before, QUARTER).await.unwrap();
    assert_eq!(machine.version().await.unwrap().tag, "v1.13.9");
}

/// An installer that fails ends its stream well; the client tells the failure, with the installer's last words.
#[tokio::test(start_paused = true)]
async fn an_installer_that_fails_is_a_failure() {
    let rig = Rig::home().await;
    let worker = rig.machine(21);
    let error = worker.upgrade("ghcr.io/siderolabs/installer:v1.14.0", |_| {}).await.unwrap_err();
    assert_eq!(error.kind(), Kind::NotFound, "since 1.14 they are at the factory only: {error}");
    let error = worker.install_upgrade("ghcr.io/siderolabs/installer:v1.13.8", |_| {}).await.unwrap_err();
    assert!(error.to_string().contains("not found"), "it was not pulled: {error}");

    let rig = Rig::with_waiting("v1.13.9").await;
    let old = config(61, Role::ControlPlane, "v1.13", "v1.31.0");
    rig.maintenance().await.apply(old.as_bytes()).await.unwrap();
    rig.pass(20).await;
    let machine = rig.machine(61);
    let text = "customization: {}\n";
    let (net, clock) = (rig.systems.net.clone(), &rig.systems.clock);
    let factory =
        talos_client::Factory::new(net, clock, "https://factory.talos.dev", &rig.systems.factory_roots);
    assert_eq!(factory.unwrap().post_schematic(text).await.unwrap(), SCHEMATIC);
    let newest = format!("factory.talos.dev/nocloud-installer/{SCHEMATIC}:v1.14.0");
    let error = machine.upgrade(&newest, |_| {}).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Failed);
    assert!(error.to_string().contains("the installer ended with code"), "{error}");
    assert!(error.to_string().contains("too old"), "{error}");
}

/// The new way asks no one about etcd; the old one does, and its refusal has words.
#[tokio::test(start_paused = true)]
async fn the_old_way_asks_etcd() {
    let rig = Rig::home().await;
    rig.lab.shared().with(|systems, now| systems.machines.power_off(150_013, now));
    rig.pass(10).await;
    let control = rig.machine(11);
    let image = "ghcr.io/siderolabs/installer:v1.13.8";
    let error = control.upgrade_legacy(image, LegacyUpgrade::default()).await.unwrap_err();
    assert!(error.to_string().contains("all members must be healthy"), "{error}");
    assert_eq!(control.upgrade(image, |_| {}).await.unwrap(), Upgraded::AwaitsReboot);
}

/// A machine may come back healthy on the system before: the caller compares.
#[tokio::test(start_paused = true)]
async fn a_machine_may_come_back_healthy_and_old() {
    let rig = Rig::home().await;
    rig.lab.shared().with(|systems, _| systems.machines.break_system(150_021, "v1.13.8", true));
    let worker = rig.machine(21);
    worker.upgrade("ghcr.io/siderolabs/installer:v1.13.8", |_| {}).await.unwrap();
    worker.reboot_and_wait(Reboot::Usual, QUARTER).await.unwrap();
    rig.pass(60).await;
    assert!(worker.stage().await.unwrap().is_up());
    assert_eq!(worker.version().await.unwrap().tag, "v1.13.9");
}

/// Which Kubernetes runs is asked of every kubelet: a worker that lags behind is found, though every control plane has the
/// version that it should.
#[tokio::test(start_paused = true)]
async fn a_kubelet_that_lags_behind_is_found() {
    let rig = Rig::home().await;
    let worker = rig.machine(21);
    let older = worker.machine_config().await.unwrap().expose_secret().replace(":v1.35.4", ":v1.34.2");
    assert!(!worker.apply(older.as_bytes()).await.unwrap().reboots);
    rig.pass(60).await;
    let snapshot = rig.observe(HOME).await;
    let lacks: Vec<_> = engine::health::conditions(&rig.systems, &snapshot)
        .await
        .into_iter()
        .filter_map(|c| c.missing)
        .collect();
    assert_eq!(lacks, ["home-work-1 runs v1.34.2, not v1.35.4"]);
    assert!(!snapshot.plan().is_empty(), "and it is put right");
}
