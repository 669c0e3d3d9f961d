//! Quorum on small member lists, and on random ones.

use proptest::prelude::*;

use super::*;

fn member(number: usize, learner: bool) -> Member {
    Member { id: format!("{number:x}"), name: format!("cp-{number}"), learner, peers: vec![] }
}

/// Views of the nodes in `answer` on the same list.
fn agree(members: &[Member], answer: &[usize]) -> Vec<View> {
    let view = |number: &usize| View {
        node: format!("cp-{number}").into(),
        id: format!("{number:x}"),
        members: members.to_vec(),
    };
    answer.iter().map(view).collect()
}

fn voters(count: usize) -> Vec<Member> {
    (1..=count).map(|number| member(number, false)).collect()
}

#[test]
fn a3_voters_that_are_off_count() {
    let five = voters(5);
    assert_eq!(may_remove("cp-3", &agree(&five, &[1, 2])), Err(Blocker::NoMajority { stay: 2, voters: 5 }));
    assert_eq!(may_remove("cp-3", &agree(&five, &[1, 2, 4])), Ok(()));
    assert_eq!(may_remove("cp-3", &agree(&voters(3), &[1, 2])), Ok(()));
    assert_eq!(may_remove("cp-3", &agree(&voters(3), &[1])), Err(Blocker::NoMajority { stay: 1, voters: 3 }));
    assert_eq!(may_remove("cp-2", &agree(&voters(2), &[1])), Err(Blocker::NoMajority { stay: 1, voters: 2 }));
    assert_eq!(may_remove("cp-1", &agree(&voters(1), &[])), Err(Blocker::NoVoter));
}

#[test]
fn a3_the_node_itself_has_no_say() {
    assert_eq!(may_remove("cp-1", &agree(&voters(1), &[1])), Err(Blocker::NoVoter));
    let both = agree(&voters(3), &[1, 3]);
    assert_eq!(may_remove("cp-3", &both), Err(Blocker::NoMajority { stay: 1, voters: 3 }));
}

#[test]
fn a3_a_node_that_is_no_member_costs_no_vote() {
    assert_eq!(may_remove("cp-4", &agree(&voters(3), &[1, 2])), Ok(()));
    assert_eq!(may_remove("cp-4", &agree(&voters(3), &[1])), Err(Blocker::NoMajority { stay: 1, voters: 3 }));
}

#[test]
fn a3_lists_must_agree() {
    let mut views = agree(&voters(3), &[1, 2]);
    views[1].members.pop();
    assert_eq!(may_remove("cp-3", &views), Err(Blocker::Disagree("cp-1".into(), "cp-2".into())));
    // Two etcd clusters of one member each: neither knows the other.
    let two = [agree(&[member(1, false)], &[1]), agree(&[member(2, false)], &[2])].concat();
    assert_eq!(may_remove("cp-3", &two), Err(Blocker::Disagree("cp-1".into(), "cp-2".into())));
}

#[test]
fn a3_a_learner_is_no_voter_and_blocks() {
    let joining = [voters(2), vec![member(3, true)]].concat();
    assert_eq!(may_remove("cp-2", &agree(&joining, &[1, 3])), Err(Blocker::Learner("cp-3".into())));
    // The learner itself may go.
    assert_eq!(may_remove("cp-3", &agree(&joining, &[1, 2])), Ok(()));
    assert_eq!(may_remove("cp-3", &agree(&[member(2, true)], &[2])), Err(Blocker::NoVoter));
}

#[test]
fn a_qualified_host_name_is_the_nodes() {
    let mut three = voters(3);
    three[2].name = "cp-3.home.arpa".into();
    assert_eq!(may_remove("cp-3", &agree(&three, &[1, 2])), Ok(()));
    assert_eq!(may_remove("cp", &agree(&three, &[1])), Err(Blocker::NoMajority { stay: 1, voters: 3 }));
}

proptest! {
    /// What is allowed leaves a majority, before and after.
    #[test]
    fn a3_what_is_allowed_keeps_a_majority(count in 1..8usize, answer in proptest::collection::btree_set(1..8usize, 0..8), target in 1..9usize) {
        let answer: Vec<usize> = answer.into_iter().filter(|n| *n <= count).collect();
        let allowed = may_remove(&format!("cp-{target}"), &agree(&voters(count), &answer)).is_ok();
        let stay = answer.iter().filter(|n| **n != target).count();
        let after = if target <= count { count - 1 } else { count };
        prop_assert_eq!(allowed, stay * 2 > count && stay * 2 > after);
    }

    /// One answer less never allows more.
    #[test]
    fn a3_less_knowledge_never_allows_more(count in 1..8usize, answer in proptest::collection::vec(1..8usize, 1..8), target in 1..8usize) {
        let mut answer: Vec<usize> = answer.into_iter().filter(|n| *n <= count).collect();
        answer.sort_unstable();
        answer.dedup();
        let node = format!("cp-{target}");
        let all = may_remove(&node, &agree(&voters(count), &answer)).is_ok();
        for at in 0..answer.len() {
            let mut fewer = answer.clone();
            fewer.remove(at);
            prop_assert!(all || may_remove(&node, &agree(&voters(count), &fewer)).is_err());
        }
    }
}

/// What members say of a cluster of three control plane nodes.
mod says {
    use std::collections::BTreeMap;

    use super::*;
    use crate::blueprint::Blueprint;
    use crate::observed::{Api, Etcd, EtcdStatus, Machine};

    fn blueprint() -> Blueprint {
        let text = "cluster: home\nversions: { talos: v1.13.9, kubernetes: v1.35.4 }\n\
             proxmox: { endpoint: 'https://pve1:8006' }\n\
             network: { cidr: 10.25.150.0/24, gateway: 10.25.150.1, vip: 10.25.150.10 }\n\
             pools: { cp: { role: controlplane, count: 3 }, w: { role: worker, count: 1 } }\n";
        let source = crate::diagnostic::Source::new("cluster.yaml", text);
        let spec = crate::load::load(&[source]).unwrap().spec;
        crate::resolve::resolve(&spec, None, Some("abc=")).unwrap()
    }

    /// A member of that many, which sees the leader with this number.
    fn seen(number: usize, of: Option<usize>, leader: Option<Option<usize>>) -> (NodeName, Machine) {
        let list =
            |of| (1..=of).map(|n| Member { name: format!("home-cp-{n}"), ..member(n, false) }).collect();
        let mut machine = Machine::with(Api::Configured);
        machine.etcd = Etcd::Member { id: format!("{number:x}"), learner: false, members: of.map(list) };
        machine.etcd_status = leader.map(|leader| EtcdStatus {
            leader: leader.map(|number| format!("{number:x}")),
            errors: if leader.is_none() { vec!["etcdserver: no leader".into()] } else { vec![] },
            ..EtcdStatus::default()
        });
        machine.addresses =
            Some(if number == 2 { ["10.25.150.10".parse().unwrap()].into() } else { [].into() });
        (format!("home-cp-{number}").into(), machine)
    }

    fn told(machines: impl IntoIterator<Item = (NodeName, Machine)>) -> String {
        standing(&blueprint(), &machines.into_iter().collect::<BTreeMap<_, _>>()).unwrap().to_string()
    }

    #[test]
    fn first_use_11_how_etcd_stands_is_what_its_members_say() {
        let all = [1, 2, 3].map(|n| seen(n, Some(3), Some(Some(1))));
        let whole = "3 of 3 members answer, quorum holds, 1 failure is tolerated; leader home-cp-1; VIP 10.25.150.10 on home-cp-2";
        assert_eq!(told(all.clone()), whole);
        let [_, two, three] = all;
        let tight = "2 of 3 members answer, quorum holds, one more failure loses it; etcd on home-cp-1 does not answer; \
                     leader home-cp-3; VIP 10.25.150.10 on home-cp-2";
        assert_eq!(
            told([two, three].map(|(name, mut machine)| {
                machine.etcd_status =
                    Some(EtcdStatus { leader: Some("3".into()), errors: vec![], ..EtcdStatus::default() });
                (name, machine)
            })),
            tight
        );
        let lost = "quorum lost: home-cp-1 answers and sees no leader; etcd on home-cp-2, home-cp-3 does not answer; \
                    VIP 10.25.150.10 on no node that answers";
        assert_eq!(told([seen(1, None, Some(None))]), lost);
        // Five members, of which the file names three: the members count.
        let five = told([seen(1, Some(5), Some(Some(5))), seen(3, Some(5), Some(Some(5)))]);
        assert!(
            five.starts_with("2 of 5 members answer, quorum holds; etcd on home-cp-2 does not answer"),
            "{five}"
        );
        assert!(
            five.contains("home-cp-4, home-cp-5 are not in the file and were not asked; leader home-cp-5"),
            "{five}"
        );
        // One of them that runs is asked, and counts.
        let asked = told([
            seen(1, Some(4), Some(Some(4))),
            seen(2, Some(4), Some(Some(4))),
            seen(4, Some(4), Some(Some(4))),
        ]);
        let counted = "3 of 4 members answer, quorum holds, one more failure loses it; etcd on home-cp-3 does not answer; \
                       home-cp-4 is not in the file; leader home-cp-4; VIP 10.25.150.10 on home-cp-2";
        assert_eq!(asked, counted);
        let cut_off = (NodeName::from("home-cp-4"), Machine::unresponsive("no route"));
        let asked = told([seen(1, Some(4), Some(Some(1))), seen(2, Some(4), Some(Some(1))), cut_off]);
        assert!(
            asked.contains("etcd on home-cp-3, home-cp-4 does not answer; home-cp-4 is not in the file; "),
            "{asked}"
        );
        // Unknown is not lost, and no member is not a count of none.
        assert!(told([seen(1, None, None)]).starts_with("quorum unknown: home-cp-1 does not tell"));
        assert!(standing(&blueprint(), &BTreeMap::new()).is_none());
        // All answer, and none leads: that may pass.
        let election = told([1, 2, 3].map(|n| seen(n, None, Some(None))));
        assert!(
            election.starts_with("no leader (an election, or quorum lost): home-cp-1, home-cp-2"),
            "{election}"
        );
    }
}
