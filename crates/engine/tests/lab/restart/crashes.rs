//! The program dies before or after any call of a restart; the next run finds what is left and finishes it.
//!
//! Reads change nothing, so only those moments are tried in which the lab differs from every other one in more than the time. What is left
//! is found here by need, as a plan does: a change that is not in force, a VM that is off, a node that is cordoned or not whole.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use engine::Snapshot;
use lab::{Service, Verdict, changes};
use model::event::Outcome;
use model::names::NodeName;
use model::plan::Plan;
use model::step::{Action, ConfigMode, Disruption, Step};

use super::interrupted::rest;
use super::{CONTROL, WORKERS, nothing, restart};
use crate::crashes::without_time;
use crate::rig::{HOME, Rig, in_parallel, setting};

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
    async fn crashes(self, every: u64) -> Vec<(Vec<u8>, String)> {
        type Found = (BTreeSet<u64>, Vec<(Vec<u8>, String)>);
        let rig = Rig::healthy().await;
        rig.deploy_canary().await;
        let found: Arc<Mutex<Found>> = Arc::default();
        rig.lab.on_call({
            let (found, shared) = (found.clone(), Arc::downgrade(rig.lab.shared()));
            move |number, moment, method, path| {
                let Some(shared) = shared.upgrade() else { return Verdict::GoOn };
                if !is_change(method, path) && number % every != 0 {
                    return Verdict::GoOn;
                }
                let systems = shared.read(|systems, _| serde_json::to_value(systems).unwrap());
                let mut found = found.lock().unwrap();
                if found.0.insert(without_time(&systems)) {
                    let when = format!("{moment:?} call {number}, {method} {path}");
                    found.1.push((serde_json::to_vec(&systems).unwrap(), when));
                }
                Verdict::GoOn
            }
        });
        self.finish(&rig, "without a crash").await;
        rig.lab.on_call(|_, _, _, _| Verdict::GoOn);
        std::mem::take(&mut found.lock().unwrap().1)
    }
}

/// Whether a call changes something. Renewing the lease does not.
pub fn is_change(method: &str, path: &str) -> bool {
    let service = match method {
        "CALL" => Service::Talos,
        _ if path.starts_with("/api2/") => Service::Proxmox,
        _ => Service::Kubernetes,
    };
    changes(service, method, path) && !path.contains("/150010/")
}

/// Dies at some moments, and finishes after each.
async fn die(of: Of) -> usize {
    let crashes = of.crashes(50).await;
    for (systems, when) in &crashes {
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
    let runtime =
        || tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    let every: u64 = setting("EVERY").unwrap_or(1);
    for (name, of) in [("worker", Of::Worker), ("control plane node", Of::ControlPlane)] {
        let crashes = runtime().block_on(of.crashes(every));
        let tried = crashes.len();
        in_parallel(crashes, |(systems, when)| {
            // The lab needs the runtime from its first moment on.
            runtime().block_on(async { of.finish(&Rig::copy_of(systems), when).await });
        });
        eprintln!("restart of a {name}: {tried} different moments to die in, all finished");
    }
}
