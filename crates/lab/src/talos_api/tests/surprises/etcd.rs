//! etcd: its beginning, its members, and how they are lost.

use futures::stream;
use talos::wire::common;

use super::*;

fn begin() -> wire::BootstrapRequest {
    wire::BootstrapRequest::default()
}

impl Rig {
    async fn members(&self, number: u32) -> Vec<wire::EtcdMember> {
        let request = wire::EtcdMemberListRequest::default();
        self.admin(number).etcd_member_list(request).await.unwrap().into_inner().messages.remove(0).members
    }

    async fn member_id(&self, name: &str) -> u64 {
        self.members(101).await.into_iter().find(|m| m.hostname == name).unwrap().id
    }

    fn etcd_clusters(&self) -> usize {
        self.lab.shared().read(|world, _| world.machines.etcd_clusters())
    }
}

/// As long as etcd has written nothing every bootstrap is answered well, also a second one right behind the first.
#[tokio::test(start_paused = true)]
async fn two_bootstraps_at_once_are_both_well() {
    let rig = Rig::configured().await;
    rig.admin(101).bootstrap(begin()).await.unwrap();
    rig.clock.sleep(Duration::from_millis(100)).await;
    rig.admin(101).bootstrap(begin()).await.unwrap();
    rig.wait(60).await;
    assert_eq!(rig.etcd_clusters(), 1);
    let again = rig.admin(101).bootstrap(begin()).await;
    assert_eq!(refused(again), (Code::AlreadyExists, "etcd data directory is not empty".to_owned()));
}

/// A machine that restarts before etcd wrote something has forgotten that it was bootstrapped.
#[tokio::test(start_paused = true)]
async fn a_restart_forgets_a_bootstrap() {
    let rig = Rig::configured().await;
    rig.admin(101).bootstrap(begin()).await.unwrap();
    rig.lab.shared().with(|world, now| world.machines.power_off(101, now));
    rig.on(101);
    rig.wait(120).await;
    assert_eq!((rig.service(101, "etcd").await.as_str(), rig.etcd_clusters()), ("Preparing", 0));
    rig.admin(101).bootstrap(begin()).await.unwrap();
    rig.wait(60).await;
    assert_eq!((rig.service(101, "etcd").await.as_str(), rig.etcd_clusters()), ("Running", 1));
}

/// Two machines that are both bootstrapped are two clusters, and each says that all is well.
#[tokio::test(start_paused = true)]
async fn a_second_bootstrap_elsewhere_is_a_second_cluster() {
    let rig = Rig::new();
    (101..=102).for_each(|number| rig.on(number));
    rig.wait(40).await;
    for number in 101..=102 {
        rig.apply(number, Role::ControlPlane).await;
    }
    rig.wait(10).await;
    for number in 101..=102 {
        rig.admin(number).bootstrap(begin()).await.unwrap();
    }
    rig.wait(60).await;
    assert_eq!(rig.etcd_clusters(), 2);
}

/// Who joins is a learner without a name first, then one with a name; its service is unhealthy all that time.
#[tokio::test(start_paused = true)]
async fn a_joining_member_has_no_name_and_no_vote() {
    let rig = Rig::single().await;
    rig.on(102);
    rig.wait(40).await;
    rig.apply(102, Role::ControlPlane).await;
    let (mut nameless, mut learning, mut answered) = (0, 0, false);
    for _ in 0..1200 {
        let members = rig.members(101).await;
        if let Some(joining) = members.iter().find(|m| m.is_learner) {
            learning += 1;
            nameless += u32::from(joining.hostname.is_empty());
            if !joining.hostname.is_empty() && !answered {
                answered = true;
                let local = wire::EtcdMemberListRequest { query_local: true };
                let words = "etcdserver: rpc not supported for learner".to_owned();
                let asked = rig.admin(102).etcd_member_list(local).await;
                assert_eq!(refused(asked), (Code::Unknown, words));
                assert_eq!(rig.members(102).await.len(), 2, "the others can be asked through it");
                let etcd = Rig::services(rig.admin(102)).await.into_iter().find(|s| s.id == "etcd").unwrap();
                assert_eq!((etcd.state.as_str(), etcd.health.unwrap().healthy), ("Running", false));
                let own = rig.resources(102).get(get("etcd", "EtcdMembers.etcd.talos.dev", "local")).await;
                assert_eq!(refused(own).0, Code::NotFound);
                assert!(rig.admin(102).kubeconfig(()).await.is_ok());
            }
        }
        if members.len() == 2 && !members.iter().any(|m| m.is_learner) {
            break;
        }
        rig.clock.sleep(Duration::from_millis(100)).await;
    }
    assert!((1..=5).contains(&nameless), "nameless for {nameless} tenths of a second");
    assert!((100..=220).contains(&learning), "learning for {learning} tenths of a second");
    let hex = Rig::yaml(rig.resources(101), "etcd", "EtcdMembers.etcd.talos.dev", "local").await;
    assert_eq!(hex.trim(), format!("memberID: {:016x}", rig.member_id("n101").await).trim());
}

/// A member that left has no data, and a bootstrap there makes a second cluster.
#[tokio::test(start_paused = true)]
async fn a_bootstrap_after_leaving_is_a_second_cluster() {
    let rig = Rig::cluster().await;
    rig.admin(103).etcd_leave_cluster(wire::EtcdLeaveClusterRequest {}).await.unwrap();
    rig.wait(10).await;
    assert_eq!(rig.service(103, "etcd").await, "Finished");
    let start = rig.admin(103).service_start(wire::ServiceStartRequest { id: "etcd".into() }).await;
    assert_eq!(refused(start).0, Code::Unknown);
    rig.admin(103).bootstrap(begin()).await.unwrap();
    rig.wait(30).await;
    assert_eq!(rig.etcd_clusters(), 2);
}

/// A living member that others removed starts again and again, and cannot be bootstrapped.
#[tokio::test(start_paused = true)]
async fn a_removed_member_that_lives_never_comes_back() {
    let rig = Rig::cluster().await;
    let member_id = rig.member_id("n103").await;
    let request = wire::EtcdRemoveMemberByIdRequest { member_id };
    rig.admin(101).etcd_remove_member_by_id(request).await.unwrap();
    rig.wait(30).await;
    assert_eq!(rig.members(101).await.len(), 2);
    assert_ne!(rig.service(103, "etcd").await, "Running");
    assert_eq!(refused(rig.admin(103).bootstrap(begin()).await).0, Code::AlreadyExists);
}

/// Nothing of a snapshot is checked when it is handed over, not even by a member that runs.
#[tokio::test(start_paused = true)]
async fn garbage_is_taken_for_a_snapshot() {
    let rig = Rig::single().await;
    let garbage = common::Data { metadata: None, bytes: b"garbage".to_vec() };
    rig.admin(101).etcd_recover(stream::iter([garbage])).await.unwrap();
}

/// Without a majority some calls fail, some never answer, and a snapshot can still be taken.
#[tokio::test(start_paused = true)]
async fn a_lost_majority_shows_in_different_ways() {
    let rig = Rig::cluster().await;
    rig.lab.shared().with(|world, now| {
        world.machines.power_off(102, now);
        world.machines.power_off(103, now);
    });
    rig.wait(30).await;
    let mut client = rig.admin(101);
    let members = client.etcd_member_list(wire::EtcdMemberListRequest::default()).await;
    assert_eq!(refused(members), (Code::Unknown, "etcdserver: no leader".to_owned()));
    let status = client.etcd_status(()).await.unwrap().into_inner().messages.remove(0).member_status.unwrap();
    assert!(!status.errors.is_empty() && status.leader == 0, "{status:?}");
    let minute = Duration::from_secs(60);
    assert!(rig.clock.timeout(minute, rig.admin(101).etcd_alarm_list(())).await.is_err());
    let forfeit = wire::EtcdForfeitLeadershipRequest {};
    assert!(rig.clock.timeout(minute, rig.admin(101).etcd_forfeit_leadership(forfeit)).await.is_err());
    let mut snapshot = client.etcd_snapshot(wire::EtcdSnapshotRequest {}).await.unwrap().into_inner();
    assert!(!snapshot.message().await.unwrap().unwrap().bytes.is_empty());
}

/// No one on the machine protects the majority: two of three can be wiped one after the other.
#[tokio::test(start_paused = true)]
async fn a_wipe_asks_nobody_about_the_majority() {
    let rig = Rig::cluster().await;
    for number in [102, 103] {
        let request = wire::ResetRequest { graceful: false, reboot: true, ..Default::default() };
        rig.admin(number).reset(request).await.unwrap();
        rig.wait(5).await;
    }
    rig.wait(60).await;
    let members = rig.admin(101).etcd_member_list(wire::EtcdMemberListRequest::default()).await;
    assert_eq!(refused(members), (Code::Unknown, "etcdserver: no leader".to_owned()));
}

/// The last control plane cannot leave: its graceful reset is answered well, fails, and it comes back as it was.
#[tokio::test(start_paused = true)]
async fn the_last_member_comes_back_unwiped() {
    let rig = Rig::single().await;
    let before = rig.boot_id(101).await;
    let mut events = rig.admin(101).events(wire::EventsRequest::default()).await.unwrap().into_inner();
    let wipe = |graceful| wire::ResetRequest { graceful, reboot: true, mode: 1, ..Default::default() };
    let actor = rig.admin(101).reset(wipe(true)).await.unwrap().into_inner().messages.remove(0).actor_id;
    let mut failed = false;
    while let Some(event) = events.message().await.unwrap() {
        let data = event.data.unwrap_or_default();
        if data.type_url.ends_with("SequenceEvent") {
            let told: wire::SequenceEvent = prost::Message::decode(data.value.as_slice()).unwrap();
            failed |= event.actor_id == actor && told.error.is_some_and(|e| e.code() == common::Code::Fatal);
        }
    }
    assert!(failed, "an event tells of it");
    rig.wait(120).await;
    assert_ne!(rig.boot_id(101).await, before);
    assert_eq!((rig.members(101).await.len(), rig.etcd_clusters()), (1, 1), "unwiped");

    rig.admin(101).reset(wipe(false)).await.unwrap();
    rig.wait(120).await;
    assert!(rig.admin(101).version(()).await.is_err(), "wiped, without asking");
}
