//! What every plan keeps, in any world. `PROPTEST_CASES` says in how many; `conformance/properties/run` takes 100,000.

mod effects;

use proptest::prelude::*;

use super::sketch::{Fact, MachineSeen, NODES, RecordSketch, Sketch, VmSeen, configs, facts, file, sketches};
use super::*;
use crate::gate::Effect;
use crate::unit::Goal;

fn planned(sketch: &Sketch) -> Plan {
    plan_allowing(&file(sketch), &configs(), &sketch.observed(), &sketch.allowed())
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
    // With each, the unit that it is in. What is around the act spares the node, and less knowledge may ask for more of that.
    let units = steps.iter().filter_map(|s| Some(s.unit.as_ref()?.0.as_str()));
    steps.iter().filter(takes).map(|s| s.id.0.as_str()).chain(units).collect()
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

/// Whether a plan wanted to do a step or a unit, and leaves it to another run only because one control plane node is replaced at a time.
fn postponed(plan: &Plan, step: &str) -> bool {
    let names = plan.notes.iter().filter_map(|note| note.text.split_once(" is replaced in another run"));
    names.into_iter().any(|(name, _)| step.split('/').any(|part| part == name))
}

/// Whether a step or a unit starts only once the node that less is known of was seen as a part of the cluster. It is known then, and the
/// gate decides by that.
fn waits_for_proof(plan: &Plan, id: &str, fact: Fact) -> bool {
    let Some(node) = fact.node() else { return false };
    let join = Action::Join { node: node.into() }.id();
    let first = plan.steps.iter().find(|s| s.id.0 == id || s.unit.as_ref().is_some_and(|unit| unit.0 == id));
    first.is_some_and(|step| before(plan, step).contains(&join))
}

fn bootstraps(plan: &Plan) -> usize {
    plan.steps.iter().filter(|s| matches!(s.action, Action::Bootstrap { .. })).count()
}

/// Control plane nodes that a plan replaces.
fn replaced(plan: &Plan) -> usize {
    let replaces = |unit: &&Unit| matches!(unit.goal, Goal::Replace { .. }) && is_control_plane(&unit.node);
    plan.units.iter().filter(replaces).count()
}

fn is_control_plane(name: &str) -> bool {
    // Members that only etcd knows.
    let is_other = name.starts_with("other-");
    is_other || NODES.iter().any(|(known, role, _)| *known == name && *role == Role::ControlPlane)
}

/// The steps that a step comes after, directly or through others.
fn before<'p>(plan: &'p Plan, step: &'p Step) -> BTreeSet<&'p StepId> {
    let (mut open, mut seen) = (vec![&step.id], BTreeSet::new());
    while let Some(id) = open.pop() {
        let found = plan.steps.iter().find(|step| step.id == *id).unwrap();
        open.extend(found.after.iter().filter(|after| seen.insert(*after)));
    }
    seen
}

fn steps_of<'p>(plan: &'p Plan, unit: &Unit) -> Vec<&'p Step> {
    plan.steps.iter().filter(|step| step.unit.as_ref() == Some(&unit.id)).collect()
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
        let again = plan_allowing(&file(&sketch), &configs(), &observed, &sketch.allowed());
        prop_assert_eq!(&first.steps, &again.steps);
        prop_assert_eq!(&first.units, &again.units);
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
                .filter(|step| !postponed(&known, step) && !waits_for_proof(&unknown, step, fact))
                .copied()
                .map(str::to_owned)
                .collect();
            prop_assert!(more.is_empty(), "without {fact:?}: {more:?}; known: {:?} {:?}", known.refusals, known.blocked);
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
                machine.etcd_status = tells.map(|_| EtcdStatus { leader: None, errors: vec![], ..EtcdStatus::default() });
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
            let plan = plan_allowing(&file(&sketch), &configs(), &world, &Allowed::default());
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
    fn no_plan_replaces_two_control_plane_nodes_or_disrupts_two_at_once(sketch in sketches()) {
        let plan = planned(&sketch);
        prop_assert!(replaced(&plan) <= 1, "{:?}", plan.units);
        let voters: Vec<&Unit> = plan.units.iter().filter(|unit| is_control_plane(&unit.node)).collect();
        for pair in voters.windows(2) {
            let (earlier, later) = (steps_of(&plan, pair[0]), steps_of(&plan, pair[1]));
            let (last, first) = (earlier[earlier.len() - 1], later[0]);
            prop_assert!(before(&plan, first).contains(&last.id), "{} and {} overlap", pair[0].id, pair[1].id);
        }
    }

    /// Units are what a person approves and the gate permits: nothing disruptive stands outside, and one node has one.
    #[test]
    fn every_disruptive_step_is_in_a_unit_and_a_unit_is_a_chain_about_one_node(sketch in sketches()) {
        let plan = planned(&sketch);
        for step in &plan.steps {
            let acts = matches!(
                step.action,
                Action::DrainNode { .. }
                    | Action::MoveLeadership { .. }
                    | Action::RebootNode { .. }
                    | Action::PowerCycleVm { .. }
                    | Action::MigrateVm { .. }
                    | Action::RenewDisk { .. }
                    | Action::LeaveEtcd { .. }
                    | Action::DeleteNode { .. }
                    | Action::DeleteDisk { .. }
                    | Action::StopVm { .. }
                    | Action::DeleteVm { .. }
            );
            prop_assert!(step.unit.is_some() || !(acts || step.disruption > Disruption::InPlace), "{:?}", step);
            prop_assert_eq!(step.unit.is_some(), plan.unit_of(step).is_some());
        }
        let nodes: BTreeSet<&str> = plan.units.iter().map(|unit| unit.node.as_str()).collect();
        prop_assert_eq!(nodes.len(), plan.units.len());
        for unit in &plan.units {
            let steps = steps_of(&plan, unit);
            prop_assert!(!steps.is_empty());
            for pair in steps.windows(2) {
                prop_assert!(before(&plan, pair[1]).contains(&pair[0].id), "{:?} {:?}", pair[0].id, pair[1].id);
            }
            prop_assert!(steps.iter().all(|step| step.action.node() == Some(&unit.node)));
            let drains = steps.iter().position(|step| matches!(step.action, Action::DrainNode { .. }));
            let uncordons = steps.iter().position(|step| matches!(step.action, Action::UncordonNode { .. }));
            let removes = matches!(unit.goal, Goal::Remove { .. });
            let person = sketch.nodes.iter().zip(NODES).any(|(seen, (name, ..))| name == unit.node && seen.cordon == Some(false) && sketch.kubernetes && seen.ready.is_some());
            prop_assert!(drains.is_none() || removes || person || uncordons == Some(steps.len() - 1));
        }
        // Worker units come after all of control plane nodes.
        let workers = plan.units.iter().position(|unit| !is_control_plane(&unit.node));
        let voters = plan.units.iter().rposition(|unit| is_control_plane(&unit.node));
        prop_assert!(workers.is_none() || voters.is_none() || workers > voters, "{:?}", plan.units);
    }

    /// What the gate would refuse as an outage is not planned unless it was approved, and what it removes keeps a majority.
    #[test]
    fn no_unit_is_planned_that_loses_the_majority(sketch in sketches()) {
        let plan = planned(&sketch);
        for unit in plan.units.iter().filter(|unit| is_control_plane(&unit.node)) {
            let Some((healthy, voters)) = unit.forecast.voters else { continue };
            let kept = healthy * 2 > voters;
            match unit.effect {
                Effect::Absence if unit.forecast.outage && unit.forecast.blockers.is_empty() => {
                    // With more voters it is one only where no other API server is ready; etcd keeps its majority.
                    prop_assert!(sketch.api_outage && (voters <= 2 || kept), "{:?}", unit);
                    let saved = plan.steps.iter().any(|step| step.action == Action::SnapshotEtcd);
                    prop_assert!(saved, "no snapshot before {:?}", unit);
                }
                Effect::Absence => prop_assert!(kept || !unit.forecast.blockers.is_empty(), "{:?}", unit),
                Effect::Removal if matches!(unit.goal, Goal::Remove { .. }) => {
                    prop_assert!(kept && unit.forecast.blockers.is_empty(), "{:?}", unit);
                }
                Effect::Removal | Effect::Eviction => {}
            }
        }
    }

    #[test]
    fn no_node_is_deleted_without_evidence_that_it_is_dead(sketch in sketches()) {
        let plan = planned(&sketch);
        for ((name, ..), seen) in NODES.iter().zip(&sketch.nodes) {
            let deleted = plan.steps.iter().any(|s| matches!(&s.action, Action::DeleteVm { node, .. } if node == name));
            if !deleted {
                continue;
            }
            if *name == "gone-1" {
                let allowed = sketch.allowed();
                prop_assert!((allowed.removed || allowed.node(name)) && sketch.removed.1 && sketch.kubernetes);
                let known = seen.vm == VmSeen::Off
                    || matches!(seen.machine, MachineSeen::Configured { .. } | MachineSeen::Maintenance)
                    || (seen.machine == MachineSeen::Unreachable && seen.ready != Some(true));
                prop_assert!(known && seen.vm != VmSeen::Locked, "{:?}", seen);
                continue;
            }
            prop_assert!(sketch.allowed().node(name), "{} was not named", name);
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
