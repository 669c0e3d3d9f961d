//! What the gate keeps, in any cluster. `PROPTEST_CASES` says in how many; `conformance/properties/run` takes 100,000.
//!
//! A cluster is sketched by what is true of it, and the view is made from that. So the tests count healthy voters by the truth, not by
//! what the gate makes of the view.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::sample::Index;

use super::*;
use crate::quorum;

/// How a member of etcd is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Well,
    Silent,
    Complains,
    NotHealthy,
    SeesNoLeader,
    Behind,
    /// It answers with an older list.
    OldList,
    /// It follows another leader in another term.
    OtherTerm,
}

/// What the file and Kubernetes say of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Known {
    ControlPlane,
    /// By mistake, or because the file was changed.
    Worker,
    Nothing,
}

#[derive(Debug, Clone)]
struct Sketch {
    /// Every voter, what is known of its node, and whether Kubernetes calls it ready.
    voters: Vec<(State, Known, Option<bool>)>,
    leader: usize,
    /// A node that is joining, if there is one.
    learner: bool,
    workers: Vec<Option<bool>>,
    kubernetes: bool,
    gate: Option<Health>,
    window: WindowState,
    policy: Policy,
}

impl Sketch {
    fn voter(at: usize) -> String {
        format!("c-{}", at + 1)
    }

    fn list(&self) -> Vec<Member> {
        let voters = (0..self.voters.len()).map(|at| member(&Self::voter(at)));
        let learner = self.learner.then(|| Member { learner: true, ..member("c-9") });
        voters.chain(learner).collect()
    }

    fn says(&self, at: usize, state: State) -> Option<MemberView> {
        let leader = format!("id-{}", Self::voter(self.leader % self.voters.len()));
        let well = MemberView {
            id: format!("id-{}", Self::voter(at)),
            members: self.list(),
            leader: Some(leader),
            term: 7,
            index: 90_000,
            applied: 90_000,
            errors: vec![],
            healthy: true,
        };
        // A leader has the newest list: it is by its word that others are old.
        let leads = well.leader.as_ref() == Some(&well.id);
        Some(match state {
            State::OldList | State::OtherTerm if leads => MemberView { healthy: false, ..well },
            State::Well => well,
            State::Silent => return None,
            State::Complains => MemberView { errors: vec!["alarm:CORRUPT".into()], ..well },
            State::NotHealthy => MemberView { healthy: false, ..well },
            State::SeesNoLeader => MemberView { leader: None, ..well },
            State::Behind => MemberView { applied: 80_000, ..well },
            State::OldList => {
                let old = Member { id: "id-c-8".into(), ..member("c-8") };
                MemberView { members: well.members.iter().cloned().chain([old]).collect(), ..well }
            }
            State::OtherTerm => MemberView { leader: Some("id-c-8".into()), term: 9, ..well },
        })
    }

    fn view(&self) -> ClusterView {
        let said = self.voters.iter().enumerate();
        let members = said
            .filter_map(|(at, (state, ..))| Some((Self::voter(at).into(), self.says(at, *state)?)))
            .collect();
        let ready = |ready: Option<bool>| ready.filter(|_| self.kubernetes);
        let mut nodes = BTreeMap::new();
        for (at, (_, known, is_ready)) in self.voters.iter().enumerate() {
            let role = match known {
                Known::ControlPlane => Role::ControlPlane,
                Known::Worker => Role::Worker,
                Known::Nothing => continue,
            };
            nodes.insert(Self::voter(at).into(), NodeView { role, ready: ready(*is_ready) });
        }
        for (at, is_ready) in self.workers.iter().enumerate() {
            let node = NodeView { role: Role::Worker, ready: ready(*is_ready) };
            nodes.insert(format!("w-{}", at + 1).into(), node);
        }
        let health = self.gate.iter().map(|health| (HealthGate::Ceph, health.clone())).collect();
        let (kubernetes, window) = (self.kubernetes, self.window.clone());
        ClusterView { members, nodes, kubernetes, health, window, maintenance: BTreeMap::new() }
    }

    /// Voters that are truly healthy, without one.
    fn healthy_without(&self, node: &str) -> usize {
        let voters = self.voters.iter().enumerate();
        voters.filter(|(at, (state, ..))| *state == State::Well && Self::voter(*at) != node).count()
    }

    fn is_voter(&self, node: &str) -> bool {
        (0..self.voters.len()).any(|at| Self::voter(at) == node)
    }

    fn nodes(&self) -> Vec<String> {
        let voters = (0..self.voters.len()).map(Self::voter);
        let workers = (0..self.workers.len()).map(|at| format!("w-{}", at + 1));
        voters.chain(workers).chain(["c-9".to_owned(), "x-9".to_owned()]).collect()
    }

    fn request(&self, node: Index, effect: Effect) -> Request {
        want(node.get::<String>(&self.nodes()), effect)
    }
}

fn states() -> impl Strategy<Value = State> {
    prop_oneof![
        12 => Just(State::Well),
        3 => Just(State::Silent),
        1 => Just(State::Complains),
        1 => Just(State::NotHealthy),
        1 => Just(State::SeesNoLeader),
        1 => Just(State::Behind),
        1 => Just(State::OldList),
        1 => Just(State::OtherTerm),
    ]
}

fn known() -> impl Strategy<Value = Known> {
    prop_oneof![8 => Just(Known::ControlPlane), 1 => Just(Known::Worker), 1 => Just(Known::Nothing)]
}

fn ready() -> impl Strategy<Value = Option<bool>> {
    prop_oneof![8 => Just(Some(true)), 1 => Just(Some(false)), 1 => Just(None)]
}

fn policies() -> impl Strategy<Value = Policy> {
    let budget = prop_oneof![(1usize..4).prop_map(Budget::Count), (1u8..=100).prop_map(Budget::Percent)];
    (budget, any::<bool>(), any::<bool>(), any::<bool>()).prop_map(|(workers, api_outage, gate, window)| {
        let night =
            spec::Window { days: vec![], from: "22:00".into(), to: "04:00".into(), time_zone: "UTC".into() };
        Policy {
            workers,
            api_outage,
            gates: gate.then_some(HealthGate::Ceph).into_iter().collect(),
            window: if window { Window::read(&night) } else { None },
            ..Policy::default()
        }
    })
}

fn sketches() -> impl Strategy<Value = Sketch> {
    let health = prop_oneof![
        6 => Just(Some(Health::Healthy)),
        1 => Just(Some(Health::Unhealthy { what: "x".into() })),
        1 => Just(Some(Health::Missing)),
        1 => Just(None),
    ];
    let window = prop_oneof![
        6 => Just(WindowState::Open),
        1 => Just(WindowState::Closed { opens: None }),
        1 => Just(WindowState::Unknown),
    ];
    let voters = proptest::collection::vec((states(), known(), ready()), 1..=7);
    let workers = proptest::collection::vec(ready(), 0..6);
    let kubernetes = prop_oneof![9 => Just(true), 1 => Just(false)];
    let learner = prop_oneof![9 => Just(false), 1 => Just(true)];
    (voters, 0usize..7, learner, workers, kubernetes, health, window, policies()).prop_map(
        |(voters, leader, learner, workers, kubernetes, gate, window, policy)| Sketch {
            voters,
            leader,
            learner,
            workers,
            kubernetes,
            gate,
            window,
            policy,
        },
    )
}

fn effects() -> impl Strategy<Value = Effect> {
    prop_oneof![Just(Effect::Eviction), Just(Effect::Absence), Just(Effect::Removal)]
}

/// Something that a view knows.
#[derive(Debug, Clone, Copy)]
enum Fact {
    Member,
    Healthy,
    Leader,
    Term,
    Index,
    Applied,
    Ready,
    Kubernetes,
    Health,
    Window,
}

fn facts() -> impl Strategy<Value = Fact> {
    proptest::sample::select(vec![
        Fact::Member,
        Fact::Healthy,
        Fact::Leader,
        Fact::Term,
        Fact::Index,
        Fact::Applied,
        Fact::Ready,
        Fact::Kubernetes,
        Fact::Health,
        Fact::Window,
    ])
}

/// The view without a fact about a node, or about all.
fn without(known: &ClusterView, fact: Fact, node: &str) -> ClusterView {
    let mut view = known.clone();
    let member = view.members.get_mut(node);
    match (fact, member) {
        (Fact::Member, _) => drop(view.members.remove(node)),
        (Fact::Healthy, Some(said)) => said.healthy = false,
        (Fact::Leader, Some(said)) => said.leader = None,
        (Fact::Term, Some(said)) => said.term = 0,
        (Fact::Index, Some(said)) => said.index = 0,
        (Fact::Applied, Some(said)) => said.applied = 0,
        (Fact::Ready, _) => view.nodes.get_mut(node).into_iter().for_each(|node| node.ready = None),
        (Fact::Kubernetes, _) => {
            view.kubernetes = false;
            view.nodes.values_mut().for_each(|node| node.ready = None);
        }
        (Fact::Health, _) => view.health.clear(),
        (Fact::Window, _) => view.window = WindowState::Unknown,
        (_, None) => {}
    }
    view
}

fn permitted(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Go(_))
}

proptest! {
    /// Of etcd's own members, whatever the file says, a majority is healthy while a unit runs. The exception is approved.
    #[test]
    fn a_permit_leaves_a_majority(sketch in sketches(), node in any::<Index>(), effect in effects()) {
        let want = sketch.request(node, effect);
        let verdict = judge(&sketch.policy, &sketch.view(), &Standing::default(), &want);
        let Verdict::Go(permit) = verdict else { return Ok(()) };
        let (voters, stay) = (sketch.voters.len(), sketch.healthy_without(&want.node));
        let gone = usize::from(sketch.is_voter(&want.node));
        let now = sketch.healthy_without("");
        let kept = match effect {
            Effect::Eviction => now * 2 > voters,
            Effect::Absence => stay * 2 > voters,
            Effect::Removal => now * 2 > voters && stay * 2 > voters - gone,
        };
        let approved = permit.is_outage() && sketch.policy.api_outage && effect == Effect::Absence;
        prop_assert!(kept || approved && voters <= 2 && now == voters, "{stay} of {voters} stay");
        // Of an etcd that lacks a member, nothing that works is taken.
        let down = is_down(&sketch.view(), &want.node) && effect == Effect::Removal;
        let takes = sketch.is_voter(&want.node) && effect != Effect::Eviction;
        prop_assert!(!takes || down || stay + 1 == voters, "{stay} of {voters} stay");
        prop_assert!(!permit.is_outage() || sketch.policy.api_outage);
    }

    /// Members that contradict each other are not knowledge, and not asking one of them hides that: they do not answer here.
    #[test]
    fn less_knowledge_never_permits_more(
        mut sketch in sketches(),
        node in any::<Index>(),
        effect in effects(),
        unknown in proptest::collection::vec((facts(), any::<Index>()), 1..4),
    ) {
        for (state, ..) in &mut sketch.voters {
            if [State::OldList, State::OtherTerm].contains(state) {
                *state = State::Silent;
            }
        }
        let (known, want) = (sketch.view(), sketch.request(node, effect));
        let less = unknown.iter().fold(known.clone(), |view, (fact, about)| {
            without(&view, *fact, about.get::<String>(&sketch.nodes()))
        });
        let ask = |view: &ClusterView| judge(&sketch.policy, view, &Standing::default(), &want);
        prop_assert!(permitted(&ask(&known)) || !permitted(&ask(&less)), "without {unknown:?}");
    }

    /// A run: units ask, end well or fail, and the cluster changes between.
    #[test]
    fn permits_do_not_overlap_and_none_follows_a_failure(
        sketches in proptest::collection::vec(sketches(), 1..4),
        acts in proptest::collection::vec((any::<Index>(), any::<Index>(), effects(), 0u8..10), 1..40),
    ) {
        let policy = &sketches[0].policy;
        let mut standing = Standing::default();
        // Which of the units in flight are of voters.
        let mut of_voters: BTreeMap<UnitId, bool> = BTreeMap::new();
        for (at, node, effect, act) in acts {
            let sketch = at.get(&sketches);
            match act {
                // One ends.
                0..=2 if !standing.in_flight.is_empty() => {
                    let ended = standing.in_flight.remove(node.index(standing.in_flight.len()));
                    of_voters.remove(&ended.unit);
                    if act == 0 {
                        standing.failed.get_or_insert(ended.unit);
                    }
                    continue;
                }
                _ => {}
            }
            let want = sketch.request(node, effect);
            let view = sketch.view();
            if !permitted(&judge(policy, &view, &standing, &want)) {
                continue;
            }
            prop_assert!(standing.failed.is_none(), "{want:?} after a failure");
            prop_assert!(standing.in_flight.iter().all(|other| other.node != want.node));
            let votes = sketch.is_voter(&want.node);
            let overlaps = !of_voters.is_empty() && (votes || of_voters.values().any(|voter| *voter));
            prop_assert!(!overlaps, "{want:?} beside {:?}", standing.in_flight);
            if !votes && view.nodes.contains_key(&want.node) {
                let is_away = |(name, node): &(&NodeName, &NodeView)| {
                    let flies = standing.in_flight.iter().any(|other| other.node == **name);
                    node.ready != Some(true) || flies || **name == want.node
                };
                let workers = || view.nodes.iter().filter(|(name, _)| !sketch.is_voter(name));
                let away = workers().filter(is_away).count();
                prop_assert!(away <= policy.workers.of(workers().count()), "{away} away with {want:?}");
            }
            of_voters.insert(want.unit.clone(), votes);
            standing.in_flight.push(want);
        }
    }

    /// The rule for nodes that are dead and have a part in etcd is no stricter: one that is not healthy goes only if that allows it, too.
    #[test]
    fn a_removal_of_a_dead_node_is_allowed_by_the_rule_for_dead_nodes(sketch in sketches(), node in any::<Index>()) {
        let (view, want) = (sketch.view(), sketch.request(node, Effect::Removal));
        let is_worker = view.is_worker(&want.node) && !sketch.is_voter(&want.node);
        if !is_worker && permitted(&judge(&sketch.policy, &view, &Standing::default(), &want)) {
            let lives = sketch.healthy_without("") > sketch.healthy_without(&want.node);
            let views: Vec<quorum::View> = view.members.iter().map(|(node, said)| quorum::View {
                node: node.clone(),
                id: said.id.clone(),
                members: said.members.clone(),
            }).collect();
            let allowed = quorum::may_remove(&want.node, &views);
            prop_assert!(lives || allowed.is_ok(), "{allowed:?}");
        }
    }

    /// So that the properties above are about something: most healthy clusters permit what they can do without.
    #[test]
    fn a_healthy_cluster_permits(voters in 3usize..8, node in any::<Index>(), effect in effects()) {
        let well = (State::Well, Known::ControlPlane, Some(true));
        let sketch = Sketch {
            voters: vec![well; voters],
            leader: 0,
            learner: false,
            workers: vec![Some(true); 3],
            kubernetes: true,
            gate: None,
            window: WindowState::Unknown,
            policy: Policy::default(),
        };
        let want = sketch.request(node, effect);
        let verdict = judge(&sketch.policy, &sketch.view(), &Standing::default(), &want);
        prop_assert!(permitted(&verdict), "{want:?}: {verdict:?}");
    }
}
