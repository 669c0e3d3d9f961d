//! What can be done to an etcd cluster over the machines' API.

use super::*;

fn members(rig: &Rig) -> usize {
    rig.machines.etcds[0].members.len()
}

fn id_of(rig: &Rig, vmid: u32) -> u64 {
    rig.machines.member_of(vmid).unwrap().0
}

#[test]
fn leadership_is_given_away_by_the_leader_only() {
    let mut rig = Rig::cluster();
    let leader = rig.machines.etcds[0].leader.unwrap();
    let (holder, _) = [101, 102, 103]
        .map(|vmid| (vmid, id_of(&rig, vmid)))
        .into_iter()
        .find(|(_, id)| *id == leader)
        .unwrap();
    let follower = [101, 102, 103].into_iter().find(|vmid| *vmid != holder).unwrap();
    assert_eq!(rig.machines.forfeit(follower, rig.now).unwrap(), None);
    let name = rig.machines.forfeit(holder, rig.now).unwrap().unwrap();
    assert_ne!(rig.machines.etcds[0].leader, Some(leader));
    let now_leads = rig.machines.etcds[0].leader.unwrap();
    assert_eq!(rig.machines.etcds[0].members[&now_leads].name, name);
}

#[test]
fn a_member_that_left_can_only_begin_a_cluster_of_its_own() {
    let mut rig = Rig::cluster();
    rig.machines.leave_etcd(103, rig.now).unwrap();
    rig.wait(5);
    assert_eq!(members(&rig), 2);
    let etcd = rig.machines.services(103).into_iter().find(|s| s.id == "etcd").unwrap();
    assert_eq!(etcd.state, "Finished");
    assert!(!rig.machines.get(103).unwrap().has_etcd_data());
    let start = rig.machines.service_action(103, "etcd", ServiceAction::Start, rig.now).unwrap_err();
    assert_eq!(start.words, "service \"etcd\" doesn't support start operation via API");
    rig.wait(60);
    assert_eq!(members(&rig), 2, "it does not come back by itself");
    rig.machines.bootstrap(103, None, rig.now).unwrap();
    rig.wait(20);
    assert_eq!(rig.machines.etcd_clusters(), 2, "and this is the accident");
}

#[test]
fn removal_is_refused_when_the_rest_could_not_decide() {
    let mut rig = Rig::cluster();
    let (second, third) = (id_of(&rig, 102), id_of(&rig, 103));
    let unknown = rig.machines.remove_member(101, 123, rig.now).unwrap_err();
    assert_eq!(
        (unknown.code, unknown.words.as_str()),
        (Code::NotFound, "failed to remove member 123: etcdserver: member not found")
    );
    rig.machines.power_off(103, rig.now);
    rig.wait(2);
    rig.machines.remove_member(101, third, rig.now).unwrap();
    assert_eq!(members(&rig), 2);
    rig.machines.remove_member(101, second, rig.now).unwrap();
    rig.wait(2);
    let etcd = rig.machines.services(102).into_iter().find(|s| s.id == "etcd").unwrap();
    assert_eq!(etcd.state, "Waiting", "a living member that was removed starts and fails for ever");
    let again = rig.machines.bootstrap(102, None, rig.now).unwrap_err();
    assert_eq!(again.code, Code::AlreadyExists);
    let own = id_of(&rig, 101);
    let last = rig.machines.remove_member(101, own, rig.now).unwrap_err();
    assert!(
        last.words.ends_with("etcdserver: re-configuration failed due to not enough started members"),
        "{}",
        last.words
    );
    let leave = rig.machines.leave_etcd(101, rig.now).unwrap_err();
    assert!(
        leave.words.starts_with("failed to leave cluster: 1 error(s) occurred:\n\tfailed to remove member "),
        "{}",
        leave.words
    );
    let forfeit = rig.machines.forfeit(101, rig.now).unwrap_err();
    assert_eq!(forfeit.words, "failed to forfeit leadership: cannot forfeit leadership, only one member");
}

#[test]
fn a_snapshot_brings_a_lost_cluster_back() {
    let mut rig = Rig::cluster();
    let etcd = &rig.machines.etcds[0];
    let file = snapshot::write(&etcd.store, etcd.raft_index(), "3.6.0");
    let nodes = rig.nodes_ready();
    assert_eq!(nodes, 5);
    let wipe = Wipe { ephemeral: true, reboot: true, ..Wipe::default() };
    for vmid in 101..=103 {
        rig.machines.reset(vmid, false, wipe, rig.now);
    }
    rig.wait(60);
    assert_eq!(rig.machines.get(101).unwrap().node().unwrap().etcd, EtcdService::Preparing);
    let options = RecoverOptions { skip_hash_check: false };
    let nothing = rig.machines.bootstrap(101, Some(options), rig.now).unwrap_err();
    assert!(nothing.words.contains("no such file or directory"), "{}", nothing.words);
    rig.machines.upload_snapshot(101, b"garbage".to_vec(), rig.now).unwrap();
    let garbage = rig.machines.bootstrap(101, Some(options), rig.now).unwrap_err();
    assert!(garbage.words.contains("missing hash"), "{}", garbage.words);
    rig.machines.upload_snapshot(101, file, rig.now).unwrap();
    rig.machines.bootstrap(101, Some(options), rig.now).unwrap();
    rig.until(200, |m| (101..=103).all(|n| m.status(n).is_some_and(|s| s.stage == "running" && s.ready)));
    let recovered = rig.machines.etcd_of(101).unwrap();
    assert_eq!(recovered.store.list("", "nodes", None).len(), 5, "what Kubernetes knew is there again");
}

#[test]
fn a_full_database_raises_an_alarm_until_somebody_disarms_it() {
    let mut rig = Rig::cluster();
    rig.machines.fill_etcd(102);
    let member = id_of(&rig, 102);
    assert_eq!(rig.machines.etcds[0].alarms.iter().copied().collect::<Vec<_>>(), [member]);
    assert_eq!(rig.machines.disarm(101), [member]);
    assert!(rig.machines.etcds[0].alarms.is_empty());
}

/// A machine that was deleted and made again is bootstrapped again: the old data must not show through the new etcd.
#[test]
fn a2_two_etcds_have_two_identities_and_two_data_sets() {
    use crate::kube::Place;
    let mut rig = Rig::cluster();
    let place = Place::core("configmaps", "default", "canary");
    let now = rig.now;
    rig.machines.store_mut(101).unwrap().put(&place, serde_json::json!({"data": {"written": "1"}}), now);
    let first = id_of(&rig, 101);
    for number in 101..=103 {
        rig.machines.forget(number);
        rig.on(number);
    }
    rig.wait(60);
    for number in 101..=103 {
        rig.apply(number, Role::ControlPlane);
    }
    rig.wait(10);
    rig.machines.bootstrap(101, None, rig.now).unwrap();
    rig.until(200, |m| (101..=103).all(|n| m.etcd_of(n).is_some_and(|etcd| etcd.members.len() == 3)));
    let [old, new] = &rig.machines.etcds[..] else { panic!("two clusters") };
    assert_ne!(old.id, new.id);
    assert_eq!(old.key, new.key);
    assert!(old.store.get(&place).is_some(), "what was written is on no disk any more, and no one serves it");
    assert_eq!(id_of(&rig, 101), first, "the first member of the same name and address has the same ID");
    let joined: Vec<u64> = old.members.keys().copied().filter(|id| *id != first).collect();
    assert!(joined.iter().all(|id| !new.members.contains_key(id)), "those who join have others");
    for number in 101..=103 {
        assert!(rig.machines.store_mut(number).unwrap().get(&place).is_none(), "{number} serves the new one");
    }
}

/// A clone, a restored backup and a rollback bring an old raft log back under a live member ID.
#[test]
fn a8_a_member_with_an_old_log_does_not_come_up() {
    let mut rig = Rig::cluster();
    let disk = rig.machines.copy_disk(103);
    rig.machines.power_off(103, rig.now);
    rig.machines.put_disk(103, disk);
    rig.on(103);
    rig.wait(120);
    let etcd = rig.machines.services(103).into_iter().find(|s| s.id == "etcd").unwrap();
    assert_eq!(etcd.state, "Waiting");
    assert!(
        etcd.message.ends_with("going to restart forever: task \"etcd\" failed: exit code 2"),
        "{etcd:?}"
    );
    assert!(rig.machines.etcds[0].leader.is_some(), "the others go on");
}

/// A member that hears no one serves nothing, and two that hear each other go on.
#[test]
fn machines_that_are_apart_do_not_decide_together() {
    let mut rig = Rig::cluster();
    rig.machines.set_apart(101, 102, true);
    rig.machines.set_apart(103, 101, true);
    rig.wait(5);
    assert!(!rig.machines.etcd_has_leader(101));
    assert!(rig.machines.etcd_has_leader(102) && rig.machines.etcd_has_leader(103));
    assert!(rig.machines.store_mut(101).is_none() && rig.machines.store_mut(102).is_some());
    rig.machines.set_apart(102, 103, true);
    rig.wait(5);
    assert!([101, 102, 103].iter().all(|vmid| !rig.machines.etcd_has_leader(*vmid)), "no one is a majority");
    rig.machines.clear_faults();
    rig.wait(5);
    assert!([101, 102, 103].iter().all(|vmid| rig.machines.etcd_has_leader(*vmid)));
    assert_eq!(rig.machines.etcds.len(), 1);
}

/// Without its image a service fails, and it does not come back by itself.
#[test]
fn a_service_without_its_image_fails_for_good() {
    let mut rig = Rig::new();
    rig.on(101);
    rig.wait(40);
    rig.machines.set_missing_image(101, "etcd", true);
    rig.apply(101, Role::ControlPlane);
    let state = |m: &Machines| m.services(101).into_iter().find(|s| s.id == "etcd").map(|s| s.state);
    rig.until(1200, |m| state(m).is_some_and(|state| state == "Failed"));
    rig.machines.set_missing_image(101, "etcd", false);
    rig.wait(600);
    assert_eq!(state(&rig.machines).unwrap(), "Failed");
}
