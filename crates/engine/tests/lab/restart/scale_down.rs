//! Nodes that leave the cluster, and outages of the API that were approved.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use engine::snapshots::{NewSnapshot, SnapshotOf, SnapshotStore};
use engine::{Session, Snapshot};
use futures::future::BoxFuture;
use lab::{CallFilter, Injection, When, Wire};
use model::allowed::Allowed;
use model::event::Outcome;
use model::gate::Effect;
use model::names::{NodeName, VmRef};
use model::plan::Plan;
use model::step::{Action, Disruption, Step, StepId};
use model::unit::Goal;
use tokio::io::AsyncWrite;

use super::{count, failure, nothing, reboot, unit};
use crate::rig::{HOME, Rig, spec};

/// Snapshots that were kept: what of, and their bytes.
#[derive(Clone, Default)]
pub struct Kept(Arc<Mutex<Snapshots>>);

type Snapshots = Vec<(SnapshotOf, Vec<u8>)>;

struct New {
    of: SnapshotOf,
    bytes: Vec<u8>,
    kept: Kept,
}

impl SnapshotStore for Kept {
    fn create<'a>(&'a self, of: &'a SnapshotOf) -> BoxFuture<'a, engine::Result<Box<dyn NewSnapshot>>> {
        let new = New { of: of.clone(), bytes: vec![], kept: self.clone() };
        Box::pin(std::future::ready(Ok(Box::new(new) as Box<dyn NewSnapshot>)))
    }
}

impl NewSnapshot for New {
    fn keep(self: Box<Self>, checked: talos_client::Snapshot) -> BoxFuture<'static, engine::Result<String>> {
        assert_eq!(checked.bytes, u64::try_from(self.bytes.len()).unwrap());
        self.kept.0.lock().unwrap().push((self.of, self.bytes));
        Box::pin(std::future::ready(Ok("memory".to_owned())))
    }
}

impl AsyncWrite for New {
    fn poll_write(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        self.bytes.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// An observation of someone who allows this, with a place for snapshots.
async fn observe(rig: &Rig, file: &str, allowed: Allowed, kept: &Kept) -> Snapshot {
    let session = Session::new(rig.systems.clone(), spec(file), rig.home.bundle());
    let session = session.allowing(allowed).with_snapshots(Arc::new(kept.clone()));
    let Ok(snapshot) = session.observe().await else { panic!("it can be observed") };
    snapshot
}

fn saves(plan: &mut Plan) -> StepId {
    let action = Action::SnapshotEtcd;
    let step = Step {
        id: action.id(),
        after: vec![],
        reason: "what follows cannot be undone".into(),
        disruption: Disruption::None,
        seconds: 5,
        unit: None,
        action,
    };
    plan.steps.push(step);
    Action::SnapshotEtcd.id()
}

/// A unit that removes a node.
async fn remove(rig: &Rig, plan: &mut Plan, node: &str, vmid: u32, after: &[StepId]) -> StepId {
    let (name, host) = (|| NodeName::from(node), rig.host_of(vmid).await);
    let mut actions = vec![Action::DrainNode { node: name() }];
    if node.contains("control") {
        actions.push(Action::MoveLeadership { node: name() });
        actions.push(Action::LeaveEtcd { node: name() });
    }
    actions.push(Action::StopVm { node: name(), vm: VmRef::new(&host, vmid), if_unresponsive: false });
    actions.push(Action::DeleteNode { node: name() });
    actions.push(Action::DeleteVm { node: name(), vm: VmRef::new(host, vmid), keeps_quorum: false });
    unit(plan, &format!("remove/{node}"), Goal::Remove { node: name() }, Effect::Removal, actions, after)
}

fn removed() -> Allowed {
    Allowed { removed: true, ..Allowed::default() }
}

#[tokio::test(start_paused = true)]
async fn a_worker_leaves() {
    let file = HOME.replace("role: worker, count: 2", "role: worker, count: 1");
    let (rig, kept) = (Rig::healthy().await, Kept::default());
    rig.deploy_canary().await;
    let snapshot = observe(&rig, &file, removed(), &kept).await;
    let mut plan = nothing(&snapshot);
    remove(&rig, &mut plan, "home-work-2", 150_022, &[]).await;
    let ran = rig.carry_out_with_canary(&snapshot, &plan).await;
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    assert_eq!(rig.vmids().await, [150_010, 150_011, 150_012, 150_013, 150_021]);
    assert!(!rig.kubernetes().nodes().await.unwrap().contains_key("home-work-2"));
    rig.assert_nothing_to_do(&file).await;
    assert_eq!(rig.guard.leftovers(&rig.lab), [] as [&str; 0]);
}

/// Five control plane nodes, in a copy of the lab that is made once.
pub async fn five() -> Rig {
    static WORLD: tokio::sync::OnceCell<Vec<u8>> = tokio::sync::OnceCell::const_new();
    let bring_up = async || {
        let rig = Rig::new();
        let ran = Box::pin(rig.apply(&HOME.replace("count: 3", "count: 5"))).await;
        assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
        rig.lab.shared().read(|systems, _| serde_json::to_vec(systems).unwrap())
    };
    Rig::copy_of(WORLD.get_or_init(bring_up).await)
}

/// The names of the members that each member lists.
pub async fn members(rig: &Rig, file: &str) -> Vec<Vec<String>> {
    let snapshot = rig.observe(file).await;
    let lists = snapshot.observed.machines.values().filter_map(|machine| match &machine.etcd {
        model::observed::Etcd::Member { members, .. } => members.clone(),
        _ => None,
    });
    let names = |list: Vec<model::observed::Member>| {
        let names: BTreeSet<String> = list.into_iter().map(|member| member.name).collect();
        names.into_iter().collect()
    };
    lists.map(names).collect()
}

async fn from_five_to_three(rig: &Rig) -> (crate::rig::Ran, Kept) {
    let kept = Kept::default();
    let snapshot = observe(rig, HOME, removed(), &kept).await;
    let mut plan = nothing(&snapshot);
    let saved = saves(&mut plan);
    let first = remove(rig, &mut plan, "home-control-5", 150_015, &[saved]).await;
    remove(rig, &mut plan, "home-control-4", 150_014, &[first]).await;
    (rig.carry_out(&snapshot, &plan, "me").await.unwrap(), kept)
}

#[tokio::test(start_paused = true)]
async fn five_members_become_three_after_a_snapshot() {
    let rig = five().await;
    let leaves = count(&rig, "/EtcdLeaveCluster");
    let (ran, kept) = from_five_to_three(&rig).await;
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    assert_eq!(leaves.lock().unwrap().len(), 2);
    let kept: Vec<String> = kept.0.lock().unwrap().iter().map(|(of, _)| of.cluster.clone()).collect();
    assert_eq!(kept, ["home"]);
    rig.assert_whole().await;
    let expected = vec![vec!["home-control-1", "home-control-2", "home-control-3"]; 3];
    assert_eq!(members(&rig, HOME).await, expected);
}

/// The member is gone, and the answer is lost: the lists are read, and no one is asked twice.
#[tokio::test(start_paused = true)]
async fn a_lost_answer_of_a_member_that_left_is_no_reason_to_repeat_it() {
    let rig = five().await;
    let when = When::Call(CallFilter { path_contains: "EtcdLeaveCluster".into(), ..CallFilter::default() });
    rig.lab.inject(Injection::Wire { fault: Wire::Lost, when });
    let leaves = count(&rig, "/EtcdLeaveCluster");
    let (ran, _) = from_five_to_three(&rig).await;
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    assert_eq!(leaves.lock().unwrap().len(), 2, "once for each of the two nodes");
    rig.assert_whole().await;
}

/// A member that never heard of it is removed by another one.
#[tokio::test(start_paused = true)]
async fn a_member_that_does_not_hear_is_removed_by_another() {
    let rig = five().await;
    let when = When::Call(CallFilter { path_contains: "EtcdLeaveCluster".into(), ..CallFilter::default() });
    rig.lab.inject(Injection::Wire { fault: Wire::BlackHole, when });
    let removals = count(&rig, "/EtcdRemoveMemberByID");
    let (ran, _) = from_five_to_three(&rig).await;
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    assert_eq!(removals.lock().unwrap().len(), 1);
    rig.assert_whole().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_off_is_removed_from_etcd() {
    let rig = five().await;
    rig.lab.person().power_off(150_015).unwrap();
    rig.systems.clock.sleep(std::time::Duration::from_secs(60)).await;
    let kept = Kept::default();
    let snapshot = observe(&rig, &HOME.replace("count: 3", "count: 4"), removed(), &kept).await;
    let mut plan = nothing(&snapshot);
    let (node, host) = ("home-control-5".to_owned(), rig.host_of(150_015).await);
    let actions = vec![
        Action::LeaveEtcd { node: node.as_str().into() },
        Action::DeleteNode { node: node.as_str().into() },
        Action::DeleteVm { node: node.as_str().into(), vm: VmRef::new(host, 150_015), keeps_quorum: true },
    ];
    unit(
        &mut plan,
        "remove/home-control-5",
        Goal::Remove { node: node.into() },
        Effect::Removal,
        actions,
        &[],
    );
    let ran = rig.carry_out(&snapshot, &plan, "me").await.unwrap();
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    assert!(!rig.vmids().await.contains(&150_015));
    assert!(members(&rig, HOME).await.iter().all(|list| list.len() == 4));
}

/// One control plane node: the API is away while it restarts, which is approved, after a snapshot, and nothing is drained.
#[tokio::test(start_paused = true)]
async fn the_only_control_plane_node_restarts_with_approval() {
    let file = HOME.replace("count: 3", "count: 1");
    let (rig, kept) = (Rig::new(), Kept::default());
    let ran = Box::pin(rig.apply(&file)).await;
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    let outage = Allowed { api_outage: true, ..Allowed::default() };
    for allowed in [Allowed::default(), outage] {
        let approved = allowed.api_outage;
        let (snapshot, before) = (observe(&rig, &file, allowed, &kept).await, rig.boots());
        let mut plan = nothing(&snapshot);
        let saved = saves(&mut plan);
        let node = "home-control-1";
        let verify = Action::VerifyNode { node: node.into() };
        let goal = Goal::Reboot { node: node.into() };
        unit(
            &mut plan,
            "restart/home-control-1",
            goal,
            Effect::Absence,
            vec![reboot(node), verify],
            &[saved],
        );
        let ran = rig.carry_out(&snapshot, &plan, "me").await.unwrap();
        match approved {
            true => assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures()),
            false => assert_eq!(failure(&ran).1, "gate"),
        }
        assert_eq!(rig.boots()[&150_011] != before[&150_011], approved);
    }
    assert_eq!(rig.cordoned().await, BTreeMap::new());
    rig.assert_nothing_to_do(&file).await;
}
