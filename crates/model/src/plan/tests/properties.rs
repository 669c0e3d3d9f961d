//! What every plan keeps, in any world. `PROPTEST_CASES` says in how many; `conformance/properties/run` takes 100,000.

mod effects;

use proptest::prelude::*;

use super::sketch::{Fact, MachineSeen, NODES, RecordSketch, Sketch, VmSeen, facts, file, sketches};
use super::*;
use crate::observed::EtcdStatus;

fn planned(sketch: &Sketch) -> Plan {
    plan_allowing(&file(sketch), &rendered(), &sketch.observed(), &sketch.allowed())
}

fn removal(sketch: &Sketch) -> Plan {
    plan_destroy(&file(sketch), &sketch.observed())
}

/// Steps that take something away, or interrupt it.
fn destructive(steps: &[Step]) -> BTreeSet<&str> {
    let takes = |s: &&Step| {
        let removes = matches!(
            s.action,
            Action::StopVm { .. }
                | Action::DeleteVm { .. }
                | Action::DeleteRecord { .. }
                | Action::RemoveAccount { .. }
        );
        removes || s.disruption > Disruption::InPlace
    };
    steps.iter().filter(takes).map(|s| s.id.0.as_str()).collect()
}

/// Whether all that was in the way, and is no longer seen, concerned one VM or the replacement of the node that is unknown now: such a
/// reason holds back steps that it says nothing about, and they stand on evidence of their own.
fn only_about_one_vm(known: &Plan, unknown: &Plan, fact: Fact) -> bool {
    let gone = known.refusals.iter().filter(|refusal| !unknown.refusals.contains(refusal));
    gone.into_iter().all(|refusal| {
        use RefusalCode::{Differs, Etcd, ForeignMachine, Locked, LostMark, NotProven, OtherKeys, TakenId};
        match refusal.code {
            Differs | Locked | LostMark | OtherKeys | ForeignMachine | TakenId => true,
            Etcd | NotProven => {
                fact.node().is_some_and(|node| refusal.why.starts_with(&format!("{node} cannot be replaced")))
            }
            _ => false,
        }
    })
}

/// Whether a plan wanted to do a step, and leaves it to another run only because one control plane node is replaced at a time.
fn postponed(plan: &Plan, step: &str) -> bool {
    let names = plan.notes.iter().filter_map(|note| note.text.split_once(" is replaced in another run"));
    names.into_iter().any(|(name, _)| step.contains(&format!("/{name}/")))
}

fn bootstraps(plan: &Plan) -> usize {
    plan.steps.iter().filter(|s| matches!(s.action, Action::Bootstrap { .. })).count()
}

/// Control plane nodes whose VM a plan stops or deletes.
fn disrupted(plan: &Plan) -> BTreeSet<&str> {
    let nodes = plan.steps.iter().filter_map(|s| match &s.action {
        Action::StopVm { node, .. } | Action::DeleteVm { node, .. } => Some(node.as_str()),
        _ => None,
    });
    let is_control_plane =
        |name: &&str| NODES.iter().any(|(known, role, _)| known == name && *role == Role::ControlPlane);
    nodes.filter(is_control_plane).collect()
}

proptest! {
    #[test]
    fn the_same_facts_give_the_same_plan(sketch in sketches(), turn in 0usize..6) {
        let (first, destroy) = (planned(&sketch), removal(&sketch));
        let mut observed = sketch.observed();
        let marked = &mut observed.proxmox.marked;
        if !marked.is_empty() {
            let by = turn % marked.len();
            marked.rotate_left(by);
        }
        let again = plan_allowing(&file(&sketch), &rendered(), &observed, &sketch.allowed());
        prop_assert_eq!(&first.steps, &again.steps);
        prop_assert_eq!(destroy.steps, plan_destroy(&file(&sketch), &observed).steps);
    }

    /// A machine that was not asked is unknown. One that was asked and did not answer is a fact, and no proof by itself: see below.
    #[test]
    fn less_knowledge_never_gives_more_destructive_steps(sketch in sketches(), fact in facts()) {
        let Some(less) = sketch.without(fact) else { return Ok(()) };
        for (known, unknown) in [(planned(&sketch), planned(&less)), (removal(&sketch), removal(&less))] {
            let mut wanted = destructive(&known.steps);
            if only_about_one_vm(&known, &unknown, fact) {
                wanted.extend(destructive(&known.held));
            }
            let more: Vec<_> = destructive(&unknown.steps)
                .difference(&wanted)
                .filter(|step| !postponed(&known, step))
                .copied()
                .map(str::to_owned)
                .collect();
            prop_assert!(more.is_empty(), "without {fact:?}: {more:?}; known: {:?}", known.refusals);
        }
    }

    #[test]
    fn p16_a_plan_says_one_thing_about_one_vm(sketch in sketches()) {
        let plan = planned(&sketch);
        let steps: Vec<&Step> = plan.steps.iter().chain(&plan.held).collect();
        let about = |kinds: &[&str], node: &str| {
            steps.iter().any(|s| kinds.iter().any(|kind| s.id.0 == format!("{kind}/{node}")))
        };
        let told: Vec<&str> = plan
            .notes
            .iter()
            .chain(&plan.unknown)
            .map(|note| note.text.as_str())
            .chain(plan.blocked.iter().map(|blocked| blocked.what.as_str()))
            .chain(plan.refusals.iter().map(|refusal| refusal.why.as_str()))
            .collect();
        let once: BTreeSet<&&str> = told.iter().collect();
        prop_assert_eq!(once.len(), told.len(), "the same is said once: {:?}", told);
        for (node, ..) in NODES {
            let made = about(&["create-vm", "clone-vm"], node);
            let deleted = about(&["delete-vm"], node);
            // What is made is not there, and what is there is not made, unless it is deleted first.
            let kept = about(&["update-vm", "grow-disk", "reconfigure"], node);
            prop_assert!(!(made && kept && !deleted), "{}: {:?}", node, ids(&plan));
            let exists = told.iter().any(|text| text.starts_with(&format!("{node} runs ")));
            prop_assert!(!(made && exists && !deleted), "{}: {:?}", node, told);
        }
    }

    #[test]
    fn no_plan_bootstraps_when_a_sign_of_the_cluster_was_seen(sketch in sketches()) {
        let plan = planned(&sketch);
        prop_assert!(bootstraps(&plan) <= 1);
        if sketch.shows_a_cluster() {
            prop_assert_eq!(bootstraps(&plan), 0);
        }
    }

    /// Issue 15. Members give a list and are no majority of it, or see no leader, or do not tell; or none answers, and the record says
    /// that etcd exists.
    #[test]
    fn no_plan_makes_a_control_plane_node_beside_a_lost_majority(sketch in sketches(), tells in any::<Option<bool>>()) {
        let (mut world, mut answer) = (sketch.observed(), BTreeSet::new());
        for (name, machine) in &mut world.machines {
            let Etcd::Member { id, members, .. } = &mut machine.etcd else { continue };
            if NODES[..NODES.len() - 1].iter().any(|(known, ..)| known == name) {
                answer.insert(id.clone());
            }
            if tells != Some(true) {
                *members = None;
                machine.etcd_status = tells.map(|_| EtcdStatus { leader: None, errors: vec![] });
            }
        }
        world.machines.retain(|name, _| name != "gone-1");
        let voters: Vec<_> = sketch.members.iter().filter(|m| !m.learner).collect();
        let majority = voters.iter().filter(|m| answer.contains(&m.id)).count() * 2 > voters.len();
        let lost = match (answer.is_empty(), tells) {
            (true, _) => sketch.record == RecordSketch::Done,
            (false, Some(true)) => !majority,
            (false, _) => true,
        };
        if lost {
            let plan = plan_allowing(&file(&sketch), &rendered(), &world, &BTreeSet::new());
            for step in &plan.steps {
                let made = match &step.action {
                    Action::CreateVm { node, .. } | Action::CloneVm { node, .. } => node,
                    Action::Configure { node, .. }
                        if world.machines.get(node).is_some_and(|seen| seen.api == Api::Maintenance) => node,
                    _ => continue,
                };
                prop_assert!(!made.starts_with("cp-"), "{:?}", step.id);
            }
        }
    }

    #[test]
    fn no_plan_stops_or_deletes_two_control_plane_nodes(sketch in sketches()) {
        let plan = planned(&sketch);
        prop_assert!(disrupted(&plan).len() <= 1, "{:?}", disrupted(&plan));
    }

    #[test]
    fn no_node_is_deleted_without_evidence_that_it_is_dead(sketch in sketches()) {
        let plan = planned(&sketch);
        for ((name, ..), seen) in NODES.iter().zip(&sketch.nodes) {
            let deleted = plan.steps.iter().any(|s| matches!(&s.action, Action::DeleteVm { node, .. } if node == name));
            if !deleted {
                continue;
            }
            prop_assert!(sketch.allowed().contains(*name), "{} was not named", name);
            prop_assert!(seen.machine == MachineSeen::Unreachable, "{} was not seen to be unreachable", name);
            prop_assert!(!(sketch.kubernetes && seen.ready == Some(true)), "Kubernetes calls {} ready", name);
            let others = sketch.nodes.iter().filter(|other| matches!(other.machine, MachineSeen::Configured { .. })).count();
            prop_assert!(sketch.kubernetes || others > 0, "nothing else answers either");
            prop_assert!(seen.vm == VmSeen::Running, "{:?}", seen.vm);
        }
    }

    /// The record is the only thing that tells whether etcd ran once. Where VMs of the cluster exist and it cannot be read, nothing is
    /// concluded from that.
    #[test]
    fn no_plan_bootstraps_without_a_readable_record_beside_vms_of_the_cluster(sketch in sketches()) {
        let less = sketch.without(Fact::Record);
        let Some(less) = less else { return Ok(()) };
        let any = less.nodes.iter().any(|n| matches!(n.vm, VmSeen::Off | VmSeen::Running | VmSeen::Locked));
        if any {
            prop_assert_eq!(bootstraps(&planned(&less)), 0);
        }
    }
}
