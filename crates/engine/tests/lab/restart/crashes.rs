//! The program dies before or after any call of a restart; the next run finds what is left and finishes it.
//!
//! Reads change nothing, so only those moments are tried in which the lab differs from every other one in more than the time. What is left
//! is found here by need, as a plan does: a change that is not in force, a VM that is off, a node that is cordoned or not whole.

use std::collections::BTreeMap;

use engine::Snapshot;
use model::event::Outcome;
use model::names::NodeName;
use model::plan::Plan;
use model::step::{Action, ConfigMode, Disruption, Step};

use super::interrupted::rest;
use super::{CONTROL, WORKERS, nothing, restart};
use crate::moments::{self, Moment};
use crate::rig::{HOME, Rig, in_parallel, runtime, setting};

/// What is restarted, and why.
#[derive(Clone, Copy)]
enum Of {
    /// A worker gets more memory.
    Worker,
    /// A control plane node gets a file that it needs a reboot for.
    ControlPlane,
}

impl Of {
    fn node(self) -> &'static str {
        match self {
            Self::Worker => WORKERS[0],
            Self::ControlPlane => CONTROL[0],
        }
    }

    fn file(self) -> String {
        // What must stay so for a while is no part of what can go wrong here.
        let home = format!("{HOME}changes: {{ soak: 5s }}\n");
        match self {
            Self::Worker => format!("{home}nodes: {{ home-work-1: {{ memory: 6G }} }}\n"),
            Self::ControlPlane => format!(
                "{home}nodes:\n  home-control-1:\n    patches: [{{ machine: {{ files: [{{ path: /var/x, op: create, content: x, permissions: 0o600 }}] }} }}]\n"
            ),
        }
    }

    /// What is left to do. Nothing when the node is as it should be.
    fn left(self, snapshot: &Snapshot) -> Option<Plan> {
        let (node, observed) = (self.node(), &snapshot.observed);
        let vm = observed.proxmox.marked.iter().find(|vm| vm.mark.node == node).unwrap();
        let set = BTreeMap::from([("memory".to_owned(), "6144".to_owned())]);
        let mut plan = nothing(snapshot);
        let place = || (NodeName::from(node), vm.at());
        if !vm.running {
            plan = rest(snapshot, node);
            let (node, vm) = place();
            let start = Action::StartVm { node, vm };
            let step = Step {
                id: start.id(),
                after: vec![],
                reason: "it is off".into(),
                disruption: Disruption::None,
                seconds: 5,
                unit: None,
                action: start,
            };
            plan.steps[0].after.push(step.id.clone());
            plan.steps.insert(0, step);
            return Some(plan);
        }
        let machine = &observed.machines[node];
        let needs = match self {
            Self::Worker => vm.config.get("memory").map(String::as_str) != Some("6144"),
            Self::ControlPlane => machine.config_changes.as_ref().is_some_and(|changes| !changes.is_empty()),
        };
        let seen = observed.kubernetes.nodes.get(node);
        if needs {
            let (node, vm) = place();
            let act = match self {
                Self::Worker => Action::PowerCycleVm { node, vm, set, says: vec![] },
                Self::ControlPlane => Action::Reconfigure { node, mode: ConfigMode::Reboot },
            };
            restart(&mut plan, self.node(), vec![act], &[]);
            return Some(plan);
        }
        let whole = machine.ready && seen.is_some_and(|seen| seen.ready && seen.cordoned.is_none());
        (!whole).then(|| rest(snapshot, node))
    }

    /// Runs until nothing is left. A node that was on its way shows only then what it lacks.
    async fn finish(self, rig: &Rig, when: &str) {
        for _ in 0..4 {
            let snapshot = rig.observe(&self.file()).await;
            let Some(plan) = self.left(&snapshot) else {
                assert_eq!(rig.cordoned().await, BTreeMap::new(), "{when}");
                rig.assert_nothing_to_do(&self.file()).await;
                assert_eq!(rig.guard.leftovers(&rig.lab), [] as [&str; 0], "{when}");
                return;
            };
            let ran = Box::pin(rig.carry_out(&snapshot, &plan, "me")).await.unwrap();
            assert_eq!(ran.outcome, Outcome::Done, "{when}: {:?}", ran.failures());
        }
        panic!("{when}: it does not come to an end");
    }

    /// The labs of moments in which a run could die, of which each differs from the others: around each change, and around every nth of
    /// the other calls.
    async fn crashes(self, every: u64) -> Vec<Moment> {
        let rig = Rig::healthy().await;
        rig.deploy_canary().await;
        moments::around_changes(&rig, every, self.finish(&rig, "without a crash")).await
    }
}

/// Dies at some moments, and finishes after each.
async fn die(of: Of) -> usize {
    let crashes = of.crashes(50).await;
    for Moment { systems, when, .. } in crashes.iter().step_by(2) {
        of.finish(&Rig::copy_of(systems), when).await;
    }
    crashes.len()
}

#[tokio::test(start_paused = true)]
async fn a_restart_of_a_worker_that_dies_is_finished() {
    assert!(die(Of::Worker).await > 10);
}

#[tokio::test(start_paused = true)]
async fn a_restart_of_a_control_plane_node_that_dies_is_finished() {
    assert!(die(Of::ControlPlane).await > 8);
}

/// Every moment of both. Takes minutes: `conformance/crashes/restart`.
#[test]
#[ignore = "takes minutes: conformance/crashes/restart"]
fn every_call_of_a_restart() {
    let every: u64 = setting("EVERY").unwrap_or(1);
    for (name, of) in [("worker", Of::Worker), ("control plane node", Of::ControlPlane)] {
        let crashes = runtime().block_on(of.crashes(every));
        let tried = crashes.len();
        in_parallel(crashes, |Moment { systems, when, .. }| {
            // The lab needs the runtime from its first moment on.
            runtime().block_on(async { of.finish(&Rig::copy_of(systems), when).await });
        });
        eprintln!("restart of a {name}: {tried} different moments to die in, all finished");
    }
}
