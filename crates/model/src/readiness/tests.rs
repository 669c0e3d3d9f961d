//! Each condition, with and without what the file leaves to the operator.

use Condition::{Initialized, Ready, Registered, Running, Time, Version, Voting};
use proptest::prelude::*;

use super::*;

const ALL: [Condition; 7] = [Time, Running, Voting, Registered, Ready, Version, Initialized];

fn blueprint(more: &str) -> Blueprint {
    let text = format!(
        "cluster: home\nversions: {{ talos: v1.13.9, kubernetes: v1.35.4 }}\n\
         proxmox: {{ endpoint: 'https://pve1:8006' }}\n\
         network: {{ cidr: 10.25.150.0/24, gateway: 10.25.150.1, vip: 10.25.150.10 }}\n\
         pools: {{ cp: {{ role: controlplane, count: 1 }}, w: {{ role: worker, count: 1 }} }}\n{more}"
    );
    let source = crate::diagnostic::Source::new("cluster.yaml", text);
    let spec = crate::load::load(&[source]).unwrap().spec;
    crate::resolve::resolve(&spec, None, Some("abc=")).unwrap()
}

/// A control plane node that has its place.
fn whole() -> Observed {
    let mut machine = Machine::with(Api::Configured);
    machine.stage = Some("running".into());
    machine.ready = true;
    machine.etcd = Etcd::Member { id: "1".into(), learner: false, members: None };
    let node = KubernetesNode { ready: true, version: "v1.35.4".into(), ..KubernetesNode::default() };
    let mut seen = Observed::default();
    seen.machines.insert("home-cp-1".into(), machine);
    seen.kubernetes.answered = true;
    seen.kubernetes.nodes.insert("home-cp-1".into(), node);
    seen
}

fn states(blueprint: &Blueprint, observed: &Observed) -> [State; 7] {
    let seen = Seen::of(blueprint, observed, &blueprint.nodes["home-cp-1"]);
    ALL.map(|condition| seen.state(condition))
}

#[test]
fn a_node_in_its_place_meets_every_condition_and_one_that_was_not_observed_none() {
    let blueprint = blueprint("");
    assert_eq!(states(&blueprint, &whole()), [State::Met; 7]);
    assert_eq!(states(&blueprint, &Observed::default()), [State::Unknown; 7]);
    // A worker has no part in etcd.
    let worker = Seen::nothing(&blueprint, &blueprint.nodes["home-w-1"]);
    assert_eq!(worker.state(Voting), State::Met);
    assert_eq!(worker.lacks(&[Voting, Running]), Some(Running));
}

#[test]
fn what_a_machine_lacks_is_named() {
    let blueprint = blueprint("");
    let state = |condition, change: fn(&mut Machine)| {
        let mut seen = whole();
        change(seen.machines.get_mut("home-cp-1").unwrap());
        Seen::of(&blueprint, &seen, &blueprint.nodes["home-cp-1"]).state(condition)
    };
    assert_eq!(state(Time, |m| m.unmet = vec!["time: not synced".into()]), State::Unmet);
    assert_eq!(state(Running, |m| m.stage = Some("booting".into())), State::Unmet);
    assert_eq!(state(Running, |m| m.ready = false), State::Unmet);
    assert_eq!(state(Running, |m| m.stage = None), State::Unknown);
    assert_eq!(state(Running, |m| m.api = Api::Unresponsive { why: "no route".into() }), State::Unknown);
    assert_eq!(state(Voting, |m| m.etcd = Etcd::Unknown), State::Unknown);
    for etcd in [Etcd::Empty, Etcd::Data, Etcd::Member { id: "1".into(), learner: true, members: None }] {
        let mut seen = whole();
        seen.machines.get_mut("home-cp-1").unwrap().etcd = etcd;
        assert_eq!(Seen::of(&blueprint, &seen, &blueprint.nodes["home-cp-1"]).state(Voting), State::Unmet);
    }
}

#[test]
fn what_kubernetes_lacks_is_named() {
    let blueprint = blueprint("");
    let mut seen = whole();
    let node = seen.kubernetes.nodes.get_mut("home-cp-1").unwrap();
    (node.ready, node.version, node.uninitialized) = (false, "v1.35.3".into(), true);
    let [.., registered, ready, version, initialized] = states(&blueprint, &seen);
    assert_eq!(
        (registered, ready, version, initialized),
        (State::Met, State::Unmet, State::Unmet, State::Unmet)
    );
    assert_eq!(is_ready(&seen.kubernetes, "home-cp-1"), Some(false));
    seen.kubernetes.nodes.clear();
    let [.., registered, ready, version, initialized] = states(&blueprint, &seen);
    assert_eq!([registered, ready, version, initialized], [State::Unmet; 4]);
    assert_eq!(is_ready(&seen.kubernetes, "home-cp-1"), None);
}

/// `cni: none`: the operator brings the network, so nodes are as far as they can be, and are not called ready.
#[test]
fn without_a_network_plug_in_a_registered_node_is_enough_and_not_ready() {
    let blueprint = blueprint("kubernetes: { cni: none }\n");
    let mut seen = whole();
    let machine = seen.machines.get_mut("home-cp-1").unwrap();
    (machine.ready, machine.unmet) = (false, vec!["nodeReady: not ready".into()]);
    seen.kubernetes.nodes.get_mut("home-cp-1").unwrap().ready = false;
    let node = Seen::of(&blueprint, &seen, &blueprint.nodes["home-cp-1"]);
    assert_eq!((node.state(Running), node.state(Ready)), (State::LeftToOperator, State::LeftToOperator));
    assert_eq!(node.lacks(&ALL), None);
    assert!(!node.meets(&[Ready]));
    // Talosmith waits for anything else.
    seen.machines.get_mut("home-cp-1").unwrap().unmet.push("services: kubelet".into());
    assert_eq!(Seen::of(&blueprint, &seen, &blueprint.nodes["home-cp-1"]).state(Running), State::Unmet);
}

proptest! {
    /// Less knowledge never meets more.
    #[test]
    fn what_is_not_observed_is_never_enough(machine in any::<bool>(), kubernetes in any::<bool>()) {
        let blueprint = blueprint("");
        let mut seen = whole();
        if !machine {
            seen.machines.clear();
        }
        seen.kubernetes.answered = kubernetes;
        let node = Seen::of(&blueprint, &seen, &blueprint.nodes["home-cp-1"]);
        prop_assert_eq!(node.lacks(&[Time, Running, Voting]).is_none(), machine);
        prop_assert_eq!(node.lacks(&[Registered, Ready, Version, Initialized]).is_none(), kubernetes);
    }
}
