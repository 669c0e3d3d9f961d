//! Single cases of the gate. What holds for all is in `properties`.

mod properties;

use std::collections::BTreeSet;

use super::*;
use crate::policy::{Window, WindowState};
use crate::spec::{self, HealthGate};

const NODES: [&str; 5] = ["c-1", "c-2", "c-3", "c-4", "c-5"];

fn member(node: &str) -> Member {
    Member { id: format!("id-{node}"), name: node.to_owned(), learner: false, peers: vec![] }
}

/// So many control plane nodes, all well, led by the first, and three workers.
fn view(voters: usize) -> ClusterView {
    let members: Vec<Member> = NODES.iter().take(voters).map(|node| member(node)).collect();
    let says = |node: &&str| MemberView {
        id: format!("id-{node}"),
        members: members.clone(),
        leader: Some("id-c-1".to_owned()),
        term: 2,
        index: 10_000,
        applied: 10_000,
        errors: vec![],
        healthy: true,
    };
    let control = NODES.iter().take(voters);
    let nodes = control.clone().map(|node| (*node, Role::ControlPlane));
    let workers = ["w-1", "w-2", "w-3"].map(|node| (node, Role::Worker));
    ClusterView {
        members: control.map(|node| ((*node).into(), says(node))).collect(),
        nodes: nodes
            .chain(workers)
            .map(|(node, role)| (node.into(), NodeView { role, ready: Some(true) }))
            .collect(),
        kubernetes: true,
        ..ClusterView::default()
    }
}

/// The same with another list in every member's answer.
fn listing(mut view: ClusterView, change: impl Fn(&mut Vec<Member>)) -> ClusterView {
    view.members.values_mut().for_each(|said| change(&mut said.members));
    view
}

fn said<'a>(view: &'a mut ClusterView, node: &str) -> &'a mut MemberView {
    view.members.get_mut(node).unwrap()
}

fn want(node: &str, effect: Effect) -> Request {
    Request { unit: UnitId(format!("unit/{node}")), node: node.into(), effect }
}

fn absence(view: &ClusterView, node: &str) -> Verdict {
    judge(&Policy::default(), view, &Standing::default(), &want(node, Effect::Absence))
}

fn removal(view: &ClusterView, node: &str) -> Verdict {
    judge(&Policy::default(), view, &Standing::default(), &want(node, Effect::Removal))
}

fn outage(view: &ClusterView, node: &str) -> Verdict {
    let approved = Policy { api_outage: true, ..Policy::default() };
    judge(&approved, view, &Standing::default(), &want(node, Effect::Absence))
}

fn goes(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Go(permit) if !permit.is_outage())
}

fn waits(verdict: Verdict) -> Vec<Blocker> {
    match verdict {
        Verdict::Wait(blockers) => blockers,
        other => panic!("{other:?}"),
    }
}

fn stops(verdict: Verdict) -> Vec<Blocker> {
    match verdict {
        Verdict::Stop(blockers) => blockers,
        other => panic!("{other:?}"),
    }
}

#[test]
fn three_healthy_voters_do_without_one() {
    for node in ["c-1", "c-2", "c-3"] {
        assert!(goes(&absence(&view(3), node)));
        assert!(goes(&removal(&view(3), node)));
    }
}

#[test]
fn with_one_dead_only_the_dead_one_may_go() {
    let mut seen = view(3);
    seen.members.remove("c-3");
    let blockers =
        vec![Blocker::NoAnswer("c-3".into()), Blocker::NoMajority { healthy: 1, need: 2, voters: 3 }];
    assert_eq!(waits(absence(&seen, "c-2")), blockers);
    assert_eq!(waits(removal(&seen, "c-2")).len(), 2, "the dead one is removed first");
    assert!(goes(&removal(&seen, "c-3")));
    assert!(goes(&absence(&seen, "c-3")), "it is away already");
}

#[test]
fn of_five_voters_a_second_one_does_not_go_while_one_is_dead_or_sick() {
    let mut dead = view(5);
    dead.members.remove("c-5");
    let mut sick = view(5);
    said(&mut sick, "c-5").errors = vec!["alarm:NOSPACE".into()];
    for seen in [&dead, &sick] {
        assert_eq!(waits(absence(seen, "c-4")).len(), 1, "the next failure would stop etcd");
        assert_eq!(waits(removal(seen, "c-4")).len(), 1);
        assert!(goes(&removal(seen, "c-5")) && goes(&absence(seen, "c-5")));
    }
    dead.members.remove("c-4");
    assert!(!goes(&absence(&dead, "c-3")) && !goes(&removal(&dead, "c-3")));
    assert!(!goes(&removal(&dead, "c-5")), "that neither answers does not say that they are down");
    dead.nodes.insert("c-5".into(), NodeView { role: Role::ControlPlane, ready: Some(false) });
    assert!(goes(&removal(&dead, "c-5")), "one dead one after the other");
    dead.nodes.remove("c-5");
    assert!(goes(&removal(&dead, "c-5")), "Kubernetes does not have it");
    dead.members.remove("c-3");
    assert_eq!(
        waits(removal(&dead, "c-5")).last(),
        Some(&Blocker::NoMajority { healthy: 2, need: 3, voters: 5 })
    );
}

#[test]
fn a_voter_that_the_file_does_not_have_counts() {
    let mut seen = view(4);
    seen.nodes.remove("c-4");
    seen.members.remove("c-4");
    assert!(!goes(&absence(&seen, "c-3")), "two of four stay");
    assert!(goes(&removal(&seen, "c-4")), "three of four now, three of three then");
}

#[test]
fn every_sign_of_sickness_counts_as_no_answer() {
    let signs: &[&dyn Fn(&mut MemberView)] = &[
        &|said| said.errors = vec!["etcdserver: no leader".into()],
        &|said| said.healthy = false,
        &|said| said.leader = None,
        &|said| said.term = 0,
        &|said| said.index = 0,
        &|said| said.applied = 0,
        &|said| said.applied = 4_999,
        &|said| said.index = 15_001,
    ];
    for (number, sign) in signs.iter().enumerate() {
        for node in ["c-1", "c-2"] {
            let mut seen = view(3);
            sign(said(&mut seen, node));
            assert!(matches!(absence(&seen, "c-3"), Verdict::Wait(_)), "sign {number} of {node}");
            assert!(matches!(removal(&seen, "c-3"), Verdict::Wait(_)), "sign {number} of {node}");
        }
        let mut seen = view(3);
        sign(said(&mut seen, "c-3"));
        assert!(goes(&absence(&seen, "c-3")), "sign {number} of the node itself");
    }
}

#[test]
fn a_member_may_lag_a_little_behind_the_leader() {
    let mut seen = view(3);
    said(&mut seen, "c-2").applied = 5_000;
    assert!(goes(&absence(&seen, "c-3")));
    said(&mut seen, "c-2").applied = 4_999;
    assert_eq!(waits(absence(&seen, "c-3"))[0], Blocker::Unhealthy("c-2".into()));
}

#[test]
fn lists_leaders_and_terms_of_the_others_agree() {
    let mut seen = view(5);
    said(&mut seen, "c-4").members.pop();
    assert_eq!(waits(absence(&seen, "c-2")), [Blocker::Disagree("c-4".into(), "c-1".into())]);
    assert_eq!(waits(absence(&seen, "w-1")), [Blocker::Disagree("c-4".into(), "c-1".into())]);
    assert!(goes(&removal(&seen, "c-4")), "the node itself has no say");
    let mut seen = view(5);
    said(&mut seen, "c-4").leader = Some("id-c-4".into());
    assert_eq!(waits(absence(&seen, "c-2")), [Blocker::OtherLeader("c-4".into(), "c-1".into())]);
    let mut seen = view(5);
    said(&mut seen, "c-4").term = 3;
    assert_eq!(waits(absence(&seen, "c-2")), [Blocker::OtherLeader("c-4".into(), "c-1".into())]);
    let mut seen = view(3);
    said(&mut seen, "c-3").members[0].peers = vec!["https://elsewhere:2380".into()];
    assert!(goes(&absence(&seen, "c-2")), "addresses may differ");
}

#[test]
fn the_leader_answers_for_itself() {
    let mut seen = view(5);
    seen.members.remove("c-1");
    assert_eq!(waits(absence(&seen, "c-2")), [Blocker::NoLeader]);
    assert_eq!(waits(removal(&seen, "c-1")), [Blocker::NoLeader], "a dead one does not lead");
    let mut sick = view(5);
    said(&mut sick, "c-1").errors = vec!["slow".into()];
    assert_eq!(waits(absence(&sick, "c-2"))[0], Blocker::Complains("c-1".into(), "slow".into()));
    assert!(goes(&absence(&sick, "c-1")) && goes(&removal(&sick, "c-1")), "a sick one may be repaired");
    let mut stale = view(3);
    said(&mut stale, "c-1").leader = Some("id-c-2".into());
    said(&mut stale, "c-2").leader = Some("id-c-2".into());
    said(&mut stale, "c-3").leader = Some("id-c-2".into());
    assert!(goes(&absence(&stale, "c-1")));
    stale.members.clear();
    assert_eq!(waits(absence(&stale, "c-1")), [Blocker::NoMember]);
}

#[test]
fn a_leader_that_is_no_voter_is_none() {
    let learner = listing(view(3), |list| list[0].learner = true);
    assert_eq!(waits(absence(&learner, "c-2")), [Blocker::NoLeader]);
    let renamed = listing(view(3), |list| list[0].name = "elsewhere".into());
    assert_eq!(waits(absence(&renamed, "c-2")), [Blocker::NoLeader], "another machine answers for it");
}

#[test]
fn a_member_answers_from_its_own_node() {
    let renamed = listing(view(3), |list| list[2].name = "elsewhere".into());
    let blockers =
        vec![Blocker::NoAnswer("elsewhere".into()), Blocker::NoMajority { healthy: 1, need: 2, voters: 3 }];
    assert_eq!(waits(absence(&renamed, "c-2")), blockers);
    let full = listing(view(3), |list| list[2].name = "c-3.example.net".into());
    assert!(goes(&absence(&full, "c-2")), "a name may be fully qualified");
    let mut other = view(3);
    said(&mut other, "c-3").id = "id-c-9".into();
    assert_eq!(waits(absence(&other, "c-2"))[0], Blocker::NoAnswer("c-3".into()));
}

#[test]
fn nothing_goes_while_a_member_joins_except_that_one() {
    let learner = |name: &str| Member { learner: true, ..member(name) };
    let joining = listing(view(3), |list| list.push(learner("c-4")));
    for verdict in [absence(&joining, "c-2"), removal(&joining, "c-2"), absence(&joining, "c-4")] {
        assert_eq!(waits(verdict), [Blocker::Joining("c-4".into())]);
    }
    assert!(goes(&removal(&joining, "c-4")), "it never became one of them");
    assert!(goes(&absence(&joining, "w-1")), "workers have no part in that");
    let unnamed = listing(view(3), |list| list.push(Member { id: "x".into(), ..member("") }));
    assert_eq!(waits(absence(&unnamed, "c-2")), [Blocker::Joining(String::new())]);
    assert_eq!(waits(removal(&unnamed, "c-2")), [Blocker::Joining(String::new())]);
    let two = listing(view(3), |list| list.extend([learner("c-4"), learner("c-5")]));
    assert_eq!(waits(removal(&two, "c-4")), [Blocker::Joining("c-5".into())]);
}

#[test]
fn no_name_is_listed_twice() {
    let twice = listing(view(3), |list| list.push(Member { id: "old".into(), ..member("c-3") }));
    for verdict in [absence(&twice, "c-2"), removal(&twice, "c-3")] {
        assert_eq!(waits(verdict), [Blocker::Twice("c-3".into())]);
    }
}

#[test]
fn an_outage_must_be_approved() {
    for voters in [1, 2] {
        let seen = view(voters);
        assert_eq!(stops(absence(&seen, "c-1")), [Blocker::Outage { voters }]);
        assert!(matches!(outage(&seen, "c-1"), Verdict::Go(permit) if permit.is_outage()));
    }
    let mut half = view(2);
    half.members.remove("c-2");
    assert!(matches!(outage(&half, "c-1"), Verdict::Wait(_)), "all of them must be healthy before");
    let mut sick = view(1);
    said(&mut sick, "c-1").healthy = false;
    assert!(matches!(outage(&sick, "c-1"), Verdict::Wait(_)));
    let mut three = view(3);
    three.members.remove("c-3");
    assert!(matches!(outage(&three, "c-2"), Verdict::Wait(_)), "three voters never need one");
}

#[test]
fn the_last_member_is_never_removed_and_the_second_may_be() {
    assert!(matches!(removal(&view(1), "c-1"), Verdict::Wait(_)));
    let approved = Policy { api_outage: true, ..Policy::default() };
    let verdict = judge(&approved, &view(1), &Standing::default(), &want("c-1", Effect::Removal));
    assert!(matches!(verdict, Verdict::Wait(_)), "no approval is for that");
    assert!(goes(&removal(&view(2), "c-2")));
}

#[test]
fn another_control_plane_node_is_ready() {
    let mut seen = view(3);
    seen.nodes.insert("c-1".into(), NodeView { role: Role::ControlPlane, ready: Some(false) });
    assert!(goes(&absence(&seen, "c-2")), "c-3 is");
    seen.nodes.insert("c-3".into(), NodeView { role: Role::ControlPlane, ready: None });
    assert_eq!(waits(absence(&seen, "c-2")), [Blocker::NoControlPlane], "unknown is not ready");
    assert_eq!(waits(removal(&seen, "c-2")), [Blocker::NoControlPlane]);
    assert!(goes(&absence(&seen, "c-1")), "c-2 is");
    assert!(matches!(outage(&seen, "c-2"), Verdict::Go(permit) if permit.is_outage()));
    seen.kubernetes = false;
    assert_eq!(waits(absence(&seen, "c-1")), [Blocker::NoKubernetes]);
    assert!(matches!(outage(&seen, "c-1"), Verdict::Go(permit) if permit.is_outage()));
}

#[test]
fn control_plane_nodes_go_alone() {
    let flying = |node: &str| Standing { in_flight: vec![want(node, Effect::Absence)], failed: None };
    let asks = |standing: &Standing, node: &str| {
        judge(&Policy::default(), &view(5), standing, &want(node, Effect::Absence))
    };
    assert_eq!(waits(asks(&flying("c-1"), "c-2")), [Blocker::InFlight("c-1".into())]);
    assert_eq!(waits(asks(&flying("w-1"), "c-2")), [Blocker::InFlight("w-1".into())]);
    assert_eq!(waits(asks(&flying("c-1"), "w-1")), [Blocker::InFlight("c-1".into())]);
    assert_eq!(waits(asks(&flying("x-9"), "w-1")), [Blocker::InFlight("x-9".into())], "it may be anything");
    let same_unit = Standing {
        in_flight: vec![Request { node: "w-2".into(), ..want("w-1", Effect::Absence) }],
        failed: None,
    };
    let two = Policy { workers: Budget::Count(2), ..Policy::default() };
    let verdict = judge(&two, &view(3), &same_unit, &want("w-1", Effect::Absence));
    assert_eq!(waits(verdict), [Blocker::InFlight("w-2".into())], "a unit starts once");
    let verdict = judge(
        &two,
        &view(3),
        &flying("w-1"),
        &Request { unit: UnitId("other".into()), ..want("w-1", Effect::Absence) },
    );
    assert_eq!(waits(verdict), [Blocker::InFlight("w-1".into())], "and a node is in one unit");
    assert!(goes(&judge(&two, &view(3), &flying("w-2"), &want("w-1", Effect::Absence))));
}

#[test]
fn a_failure_closes_the_gate() {
    let failed = UnitId("restart/w-1".into());
    let standing = Standing { in_flight: vec![], failed: Some(failed.clone()) };
    for node in ["w-2", "c-1"] {
        let verdict = judge(&Policy::default(), &view(3), &standing, &want(node, Effect::Absence));
        assert_eq!(stops(verdict), [Blocker::EarlierFailure(failed.clone())]);
    }
}

#[test]
fn workers_go_by_budget_and_unready_ones_count() {
    let mut seen = view(3);
    assert!(goes(&absence(&seen, "w-1")) && goes(&removal(&seen, "w-1")));
    seen.nodes.insert("w-2".into(), NodeView { role: Role::Worker, ready: None });
    let full = [Blocker::Budget { away: vec!["w-2".into()], budget: 1 }];
    assert_eq!(waits(absence(&seen, "w-1")), full, "unknown is not ready");
    assert!(goes(&absence(&seen, "w-2")), "it is away itself");
    seen.nodes.insert("w-2".into(), NodeView { role: Role::Worker, ready: Some(false) });
    assert_eq!(waits(absence(&seen, "w-1")), full);
    let two = Policy { workers: Budget::Count(2), ..Policy::default() };
    let ask = |standing: &Standing, node: &str| judge(&two, &seen, standing, &want(node, Effect::Absence));
    assert!(goes(&ask(&Standing::default(), "w-1")));
    let flying = Standing { in_flight: vec![want("w-2", Effect::Absence)], failed: None };
    assert!(goes(&ask(&flying, "w-1")), "it is one, unready and in flight");
    let flying = Standing { in_flight: vec![want("w-3", Effect::Absence)], failed: None };
    let away = vec!["w-2".into(), "w-3".into()];
    assert_eq!(waits(ask(&flying, "w-1")), [Blocker::Budget { away, budget: 2 }]);
    seen.kubernetes = false;
    assert_eq!(waits(absence(&seen, "w-2")), [Blocker::NoKubernetes]);
}

#[test]
fn a_percentage_is_of_the_workers_only() {
    let mut seen = view(5);
    seen.nodes.insert("w-1".into(), NodeView { role: Role::Worker, ready: Some(false) });
    let share = |percent| Policy { workers: Budget::Percent(percent), ..Policy::default() };
    let ask = |percent| judge(&share(percent), &seen, &Standing::default(), &want("w-2", Effect::Absence));
    assert!(matches!(ask(66), Verdict::Wait(_)), "one of three");
    assert!(goes(&ask(67)), "two of three");
}

/// Whatever the file calls it.
#[test]
fn a_worker_that_etcd_lists_is_a_control_plane_node() {
    let mut seen = view(3);
    seen.nodes.insert("c-3".into(), NodeView { role: Role::Worker, ready: Some(true) });
    seen.members.remove("c-2");
    assert!(!goes(&absence(&seen, "c-3")), "two voters are healthy, and it is one of them");
    assert!(goes(&absence(&seen, "w-1")));
    let budget = Policy { workers: Budget::Percent(66), ..Policy::default() };
    seen.nodes.insert("w-1".into(), NodeView { role: Role::Worker, ready: Some(false) });
    let verdict = judge(&budget, &seen, &Standing::default(), &want("w-2", Effect::Absence));
    assert!(matches!(verdict, Verdict::Wait(_)), "it is not one of the workers that the share is of");
    seen.members.clear();
    assert_eq!(waits(absence(&seen, "w-3")), [Blocker::NoMember], "whether it is a member is not known");
}

#[test]
fn a_node_that_nothing_knows_is_judged_as_a_control_plane_node() {
    let mut seen = view(3);
    assert!(goes(&removal(&seen, "x-9")), "etcd is healthy and does not list it");
    seen.kubernetes = false;
    assert_eq!(waits(removal(&seen, "x-9")), [Blocker::NoKubernetes], "it might be a ready worker");
    let approved = Policy { api_outage: true, ..Policy::default() };
    let verdict = judge(&approved, &seen, &Standing::default(), &want("x-9", Effect::Removal));
    assert_eq!(waits(verdict), [Blocker::NoKubernetes], "no outage is for that");
    seen.kubernetes = true;
    seen.members.remove("c-2");
    seen.members.remove("c-3");
    assert!(matches!(removal(&seen, "x-9"), Verdict::Wait(_)));
}

#[test]
fn a_node_with_an_etcd_of_its_own_is_not_outside_of_it() {
    let mut seen = view(3);
    let alone = MemberView {
        id: "id-x-9".into(),
        members: vec![member("x-9")],
        leader: Some("id-x-9".into()),
        ..seen.members["c-1"].clone()
    };
    seen.members.insert("x-9".into(), alone);
    for node in ["x-9", "c-2", "w-1"] {
        assert_eq!(waits(removal(&seen, node)), [Blocker::Disagree("x-9".into(), "c-1".into())]);
    }
}

#[test]
fn systems_that_the_file_names_are_healthy() {
    let gates = BTreeSet::from([HealthGate::Longhorn, HealthGate::Ceph]);
    let policy = Policy { gates, ..Policy::default() };
    let mut seen = view(3);
    let ask = |seen: &ClusterView| judge(&policy, seen, &Standing::default(), &want("w-1", Effect::Absence));
    let not_asked = |gate| Blocker::GateUnknown(gate, "it was not asked".into());
    assert_eq!(waits(ask(&seen)), [not_asked(HealthGate::Longhorn), not_asked(HealthGate::Ceph)]);
    seen.health.insert(HealthGate::Longhorn, Health::Unhealthy { what: "pvc-1 is degraded".into() });
    seen.health.insert(HealthGate::Ceph, Health::Healthy);
    assert_eq!(waits(ask(&seen)), [Blocker::GateUnhealthy(HealthGate::Longhorn, "pvc-1 is degraded".into())]);
    seen.health.insert(HealthGate::Longhorn, Health::Unknown { why: "no answer".into() });
    assert_eq!(waits(ask(&seen)), [Blocker::GateUnknown(HealthGate::Longhorn, "no answer".into())]);
    seen.health.insert(HealthGate::Ceph, Health::Missing);
    assert_eq!(stops(ask(&seen)), [Blocker::GateMissing(HealthGate::Ceph)], "that does not pass by itself");
    seen.health = HealthGate::ALL.map(|gate| (gate, Health::Healthy)).into();
    assert!(goes(&ask(&seen)));
}

#[test]
fn outside_of_the_window_nothing_starts() {
    let window =
        spec::Window { days: vec![], from: "22:00".into(), to: "04:00".into(), time_zone: "UTC".into() };
    let policy = Policy { window: Window::read(&window), ..Policy::default() };
    let mut seen = view(3);
    let ask = |seen: &ClusterView| judge(&policy, seen, &Standing::default(), &want("w-1", Effect::Absence));
    let text = || "22:00 to 04:00 UTC".to_owned();
    assert_eq!(stops(ask(&seen)), [Blocker::OutsideWindow { window: text(), opens: None }], "unknown");
    let opens = "2026-11-21T22:00:00Z".parse().ok();
    seen.window = WindowState::Closed { opens };
    assert_eq!(stops(ask(&seen)), [Blocker::OutsideWindow { window: text(), opens }]);
    assert!(goes(&absence(&seen, "w-1")), "a file without a window has no such times");
    seen.window = WindowState::Open;
    assert!(goes(&ask(&seen)));
}

#[test]
fn a_permit_is_for_one_node_and_one_effect() {
    let Verdict::Go(permit) = absence(&view(3), "c-2") else { panic!("it goes") };
    assert!(permit.covers("c-2", Effect::Absence) && !permit.covers("c-1", Effect::Absence));
    assert!(!permit.covers("c-2", Effect::Removal));
    assert_eq!(permit.request(), &want("c-2", Effect::Absence));
    let Verdict::Go(permit) = removal(&view(3), "c-2") else { panic!("it goes") };
    assert!(permit.covers("c-2", Effect::Absence) && permit.covers("c-2", Effect::Removal));
}

/// High availability moves guests there without asking etcd.
#[test]
fn a_host_in_maintenance_holds_its_nodes_unless_they_leave_it() {
    let mut view = view(3);
    view.maintenance = [("c-2".into(), "pve2".to_owned()), ("w-1".into(), "pve2".to_owned())].into();
    for node in ["c-2", "w-1"] {
        let blocker = Blocker::HostMaintenance { host: "pve2".to_owned() };
        assert_eq!(stops(absence(&view, node)), std::slice::from_ref(&blocker));
        assert_eq!(stops(removal(&view, node)), [blocker]);
        for unit in ["move", "shutdown"] {
            let want = Request { unit: UnitId(format!("{unit}/{node}")), ..want(node, Effect::Absence) };
            assert!(goes(&judge(&Policy::default(), &view, &Standing::default(), &want)), "{unit}/{node}");
        }
        assert!(goes(&judge(&Policy::default(), &view, &Standing::default(), &want(node, Effect::Eviction))));
    }
    assert!(goes(&absence(&view, "c-1")) && goes(&absence(&view, "w-2")));
}
