//! A machine that waits for its configuration.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use lab::{CallMoment, Verdict};
use model::event::{Outcome, What};
use talos_client::{Kind, Probe, Stage, probe};

use super::*;

/// Handing over closes the connection, so nothing delays the switch.
#[tokio::test(start_paused = true)]
async fn an_apply_leaves_nothing_open_that_delays_the_switch() {
    let rig = Rig::with_waiting("v1.13.9").await;
    let connection = rig.maintenance().await;
    connection.system_uuid().await.unwrap();
    connection.stage().await.unwrap();
    connection.apply(usual().as_bytes()).await.unwrap();
    rig.pass(3).await;
    assert_eq!(rig.machine(61).stage().await.unwrap().stage, Stage::Booting);
}

/// Who applied already and is denied has succeeded: it has a kind of its own, and the engine goes on.
#[tokio::test(start_paused = true)]
async fn a_denied_second_apply_has_a_kind_of_its_own() {
    let rig = Rig::with_waiting("v1.13.9").await;
    rig.maintenance().await.apply(usual().as_bytes()).await.unwrap();
    let error = rig.maintenance().await.apply(usual().as_bytes()).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Denied);
}

/// The certificate changes while a machine waits; the identity is the SMBIOS UUID, whatever the certificate.
#[tokio::test(start_paused = true)]
async fn the_certificate_may_change_and_the_identity_stays() {
    let rig = Rig::with_waiting("v1.13.9").await;
    let first = rig.maintenance().await;
    let uuid = first.system_uuid().await.unwrap();
    let part = "apiVersion: v1alpha1\nkind: HostnameConfig\nauto: \"off\"\nhostname: partial1\n";
    rig.maintenance().await.apply(part.as_bytes()).await.unwrap();
    rig.pass(5).await;
    let second = rig.maintenance().await;
    assert_ne!(second.certificate(), first.certificate());
    assert_eq!(second.system_uuid().await.unwrap(), uuid);
    let found = probe(&rig.systems.net, &rig.systems.clock, address(61), None).await;
    assert!(matches!(found, Probe::Maintenance { .. }), "{found:?}");
}

/// A connection over which an identity was read is never dialled again: after a restart it is dead, though someone
/// answers at the address.
#[tokio::test(start_paused = true)]
async fn a_proved_connection_dies_with_the_machine() {
    let rig = Rig::with_waiting("v1.13.9").await;
    let connection = rig.maintenance().await;
    connection.system_uuid().await.unwrap();
    rig.lab.shared().with(|systems, now| systems.machines.power_cycle(9061, now));
    rig.pass(60).await;
    assert!(rig.maintenance().await.system_uuid().await.is_ok());
    let error = connection.apply(usual().as_bytes()).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Unavailable, "{error}");
    rig.pass(10).await;
    assert!(rig.maintenance().await.system_uuid().await.is_ok(), "nothing was sent");
}

/// "Ready" is true while it waits, and the client does not take it for being up.
#[tokio::test(start_paused = true)]
async fn ready_does_not_mean_up() {
    let rig = Rig::with_waiting("v1.13.9").await;
    let status = rig.maintenance().await.stage().await.unwrap();
    assert!(status.ready && !status.is_up());
}

/// Read-only disks and drives are in the list, and are told apart.
#[tokio::test(start_paused = true)]
async fn only_real_disks_are_writable() {
    let rig = Rig::with_waiting("v1.13.9").await;
    let connection = rig.maintenance().await;
    let disks = connection.disks().await.unwrap();
    assert!(disks.len() >= 3, "{disks:?}");
    let writable: Vec<_> = disks.iter().filter(|d| d.is_writable()).map(|d| d.dev_path.as_str()).collect();
    assert_eq!(writable, ["/dev/sda"]);
    let links = connection.links().await.unwrap();
    assert!(links.iter().any(|link| link.hardware_addr.eq_ignore_ascii_case("BC:24:11:00:00:61")));
    assert!(connection.addresses().await.unwrap().iter().any(|a| a.address == "10.25.150.61/24"));
    let volumes = connection.volumes().await.unwrap();
    assert!(volumes.iter().any(|v| v.name == "STATE" && v.phase == "missing"));
}

/// A good apply can be lost before it is on disk. The machine waits again, and is given its configuration again.
#[tokio::test(start_paused = true)]
async fn a_configuration_that_is_lost_is_sent_again() {
    let rig = Rig::new();
    let (shared, lost) = (rig.lab.shared().clone(), AtomicBool::new(false));
    rig.lab.on_call(move |_, moment, _, path| {
        let sent = moment == CallMoment::After && path.ends_with("/ApplyConfiguration");
        if sent && !lost.swap(true, Ordering::Relaxed) {
            for vmid in 150_011..=150_022 {
                shared.with(|systems, now| systems.machines.power_cycle(vmid, now));
            }
        }
        Verdict::GoOn
    });
    let ran = Box::pin(rig.apply(HOME)).await;
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    let told = ran.events.iter().any(|event| match &event.what {
        What::StepProgress { note, .. } => note.contains("lost its configuration"),
        _ => false,
    });
    assert!(told, "and it is said");
    rig.assert_whole().await;
}

/// A machine that restarts before etcd wrote anything has forgotten its bootstrap; it is asked again, once.
#[tokio::test(start_paused = true)]
async fn a_forgotten_bootstrap_is_asked_for_again() {
    let rig = Rig::new();
    let asked = Arc::new(std::sync::atomic::AtomicU64::new(0));
    let (shared, counted) = (rig.lab.shared().clone(), asked.clone());
    rig.lab.on_call(move |_, moment, _, path| {
        if moment == CallMoment::After
            && path.ends_with("/Bootstrap")
            && counted.fetch_add(1, Ordering::Relaxed) == 0
        {
            shared.with(|systems, now| systems.machines.power_cycle(150_011, now));
        }
        Verdict::GoOn
    });
    let ran = Box::pin(rig.apply(HOME)).await;
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    assert!(asked.load(Ordering::Relaxed) >= 2, "also while it was not ready for it yet");
    rig.assert_whole().await;
}
