//! Quorum on small member lists, and on random ones.

use proptest::prelude::*;

use super::*;

fn member(number: usize, learner: bool) -> Member {
    Member { id: format!("{number:x}"), name: format!("cp-{number}"), learner, peers: vec![] }
}

/// Views of the nodes in `answer` on the same list.
fn agree(members: &[Member], answer: &[usize]) -> Vec<View> {
    let view = |number: &usize| View {
        node: format!("cp-{number}"),
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
