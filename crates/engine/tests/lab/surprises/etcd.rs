//! etcd: its beginning, its members, and how they are lost.

use std::io::Cursor;

use talos_client::{Kind, Past, Reset, SequenceFailure, What};

use super::*;

/// As long as nothing is written a bootstrap is answered well again; afterwards it is refused, with a kind of its own.
#[tokio::test(start_paused = true)]
async fn a_second_bootstrap_is_well_and_a_late_one_is_not() {
    let rig = Rig::with_configured().await;
    let machine = rig.machine(61);
    machine.bootstrap().await.unwrap();
    machine.bootstrap().await.unwrap();
    rig.pass(60).await;
    assert_eq!(machine.bootstrap().await.unwrap_err().kind(), Kind::AlreadyExists);
    assert_eq!(rig.etcd_clusters(), 1);
}

/// Leadership is given away by the leader only, and by no one who is alone.
#[tokio::test(start_paused = true)]
async fn leadership_is_given_away_by_the_leader_only() {
    let rig = Rig::home().await;
    let status = rig.machine(11).etcd_status().await.unwrap();
    let members = rig.machine(11).etcd_members(false).await.unwrap();
    let leader = members.iter().find(|m| m.id == status.leader).unwrap().hostname.clone();
    let (mut gave, mut kept) = (0, 0);
    for last in [11, 12, 13] {
        let machine = rig.machine(last);
        let own = machine.hostname().await.unwrap();
        if own == leader {
            let next = machine.etcd_forfeit_leadership().await.unwrap();
            assert!(next.is_some_and(|next| next != own));
            gave += 1;
            break;
        }
        assert_eq!(machine.etcd_forfeit_leadership().await.unwrap(), None);
        kept += 1;
    }
    assert!(gave == 1 && kept <= 2);
    let alone = Rig::with_single().await;
    let error = alone.machine(61).etcd_forfeit_leadership().await.unwrap_err();
    assert!(error.to_string().contains("only one member"), "{error}");
}

/// A member leaves, another is removed; what cannot be is refused with a reason.
#[tokio::test(start_paused = true)]
async fn members_leave_and_are_removed() {
    let rig = Rig::home().await;
    let control = rig.machine(11);
    rig.machine(13).etcd_leave().await.unwrap();
    rig.pass(10).await;
    let members = control.etcd_members(false).await.unwrap();
    assert_eq!(members.len(), 2);
    let error = control.etcd_remove_member(123).await.unwrap_err();
    assert_eq!(error.kind(), Kind::NotFound, "{error}");
    let own = control.etcd_status().await.unwrap().member;
    let other = members.iter().find(|m| m.id != own).unwrap().id;
    control.etcd_remove_member(other).await.unwrap();
    rig.pass(10).await;
    assert_eq!(control.etcd_members(false).await.unwrap().len(), 1);
    assert!(control.etcd_leave().await.is_err(), "the last one cannot");
}

/// Alarms are told and disarmed; defragmenting is a call like any other.
#[tokio::test(start_paused = true)]
async fn alarms_are_disarmed() {
    let rig = Rig::home().await;
    let control = rig.machine(11);
    rig.lab.shared().with(|systems, _| systems.machines.fill_etcd(150_012));
    assert_eq!(control.etcd_alarms().await.unwrap().len(), 1);
    control.etcd_defragment().await.unwrap();
    control.etcd_disarm().await.unwrap();
    assert_eq!(control.etcd_alarms().await.unwrap(), []);
}

/// Without a majority the client says so, names what helps, and can still take a snapshot.
#[tokio::test(start_paused = true)]
async fn a_lost_majority_has_words_and_a_snapshot() {
    let rig = Rig::home().await;
    let control = rig.machine(11);
    control.stage().await.unwrap();
    rig.lab.shared().with(|systems, now| {
        systems.machines.power_off(150_012, now);
        systems.machines.power_off(150_013, now);
    });
    rig.pass(30).await;
    let error = control.etcd_members(false).await.unwrap_err();
    assert_eq!(error.kind(), Kind::NoQuorum);
    assert_eq!(
        error.to_string(),
        "listing the members of etcd on 10.25.150.11 (last seen running): etcd has no leader: too few of its members are up"
    );
    assert!(error.hint().unwrap().contains("snapshot"));
    let error = control.within(MINUTE).etcd_alarms().await.unwrap_err();
    assert_eq!(error.kind(), Kind::Deadline, "this one never answers");
    let mut kept = vec![];
    assert!(control.etcd_snapshot(&mut kept).await.unwrap().bytes > 0);
}

/// A snapshot brings a cluster back whose data is gone; garbage is not handed over, because a machine would take it.
#[tokio::test(start_paused = true)]
async fn a_snapshot_brings_a_lost_cluster_back() {
    let rig = Rig::home().await;
    let control = rig.machine(11);
    let mut kept = vec![];
    let taken = control.etcd_snapshot(&mut kept).await.unwrap();
    let wipe = Reset { graceful: false, reboot: true, partitions: vec!["EPHEMERAL".to_owned()] };
    for last in [11, 12, 13] {
        rig.machine(last).reset(&wipe).await.unwrap();
    }
    rig.pass(120).await;
    let error = control.etcd_recover(Cursor::new(b"garbage".to_vec())).await.unwrap_err();
    assert!(error.to_string().contains("not a snapshot"), "{error}");
    assert_eq!(control.etcd_recover(Cursor::new(kept)).await.unwrap(), taken);
    control.bootstrap_recovered().await.unwrap();
    rig.pass(180).await;
    assert_eq!(control.etcd_members(false).await.unwrap().len(), 3);
    assert!(control.stage().await.unwrap().is_up());
}

/// The last control plane says yes to a graceful reset and comes back as it was: an event tells.
#[tokio::test(start_paused = true)]
async fn the_last_control_plane_comes_back_unwiped() {
    let rig = Rig::with_single().await;
    let machine = rig.machine(61);
    let before = machine.boot_id().await.unwrap();
    let mut events = machine.events(Past::Nothing).await.unwrap();
    let actor = machine.reset(&Reset { graceful: true, reboot: true, partitions: vec![] }).await.unwrap();
    let mut failed = false;
    while let Ok(Some(event)) = events.next(MINUTE).await {
        if let What::Sequence { failure: Some(SequenceFailure::Fatal(_)), .. } = event.what {
            failed |= event.actor == actor;
        }
    }
    assert!(failed);
    machine.wait_for_boot(&before, QUARTER).await.unwrap();
    assert_eq!(machine.etcd_members(false).await.unwrap().len(), 1);
}
