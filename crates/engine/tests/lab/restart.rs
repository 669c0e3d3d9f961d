//! One node after the other goes down and comes back: the steps of a unit, with plans that are built here.

mod confirmed;
pub mod crashes;
mod drain;
mod interrupted;
mod returns;
pub mod scale_down;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use engine::Snapshot;
use engine::kubernetes::Kubernetes;
use model::event::{Outcome, What};
use model::gate::Effect;
use model::names::VmRef;
use model::plan::Plan;
use model::step::{Action, Disruption, RebootMode, Step, StepId, UnitId};
use model::unit::{Forecast, Goal, Unit};
use serde_json::json;

use crate::rig::{HOME, Ran, Rig, bundle};

const DAY: Duration = Duration::from_secs(24 * 3600);

/// A plan that does nothing yet.
pub fn nothing(snapshot: &Snapshot) -> Plan {
    Plan {
        cluster: snapshot.blueprint.cluster.clone(),
        steps: vec![],
        units: vec![],
        notes: vec![],
        unknown: vec![],
        blocked: vec![],
        refusals: vec![],
        held: vec![],
        upgrade: None,
    }
}

/// Adds a unit with these actions, one after the other, behind some other steps. Gives its last step.
pub fn unit(
    plan: &mut Plan,
    id: &str,
    goal: Goal,
    effect: Effect,
    actions: Vec<Action>,
    after: &[StepId],
) -> StepId {
    let (id, node) = (UnitId(id.to_owned()), actions[0].node().unwrap().to_owned());
    let disruption = if effect == Effect::Removal { Disruption::Delete } else { Disruption::Reboot };
    plan.units.push(Unit {
        id: id.clone(),
        node: node.into(),
        goal,
        disruption,
        effect,
        forecast: Forecast::default(),
    });
    let mut after = after.to_vec();
    for action in actions {
        let step = Step {
            id: action.id(),
            after: std::mem::take(&mut after),
            reason: "a test asks for it".into(),
            disruption,
            seconds: 60,
            unit: Some(id.clone()),
            action,
        };
        after.push(step.id.clone());
        plan.steps.push(step);
    }
    after.remove(0)
}

/// A unit that restarts a node in some way.
pub fn restart(plan: &mut Plan, node: &str, act: Vec<Action>, after: &[StepId]) -> StepId {
    let name = || node.to_owned();
    let mut actions = vec![Action::DrainNode { node: name().into() }];
    if node.contains("control") {
        actions.push(Action::MoveLeadership { node: name().into() });
    }
    actions.extend(act);
    actions.push(Action::VerifyNode { node: name().into() });
    actions.push(Action::UncordonNode { node: name().into() });
    unit(
        plan,
        &format!("restart/{node}"),
        Goal::Reboot { node: name().into() },
        Effect::Absence,
        actions,
        after,
    )
}

pub fn reboot(node: &str) -> Action {
    Action::RebootNode { node: node.into(), mode: RebootMode::Default }
}

impl Rig {
    pub fn kubernetes(&self) -> Kubernetes {
        let identity = talos::secrets::kubernetes_admin(&bundle(), DAY, self.systems.clock.now()).unwrap();
        Kubernetes::new(&self.systems, "https://10.25.150.10:6443", &identity).unwrap()
    }

    /// The boot of each machine, as the lab knows it.
    pub fn boots(&self) -> BTreeMap<u32, String> {
        self.lab.boots()
    }

    /// Two pods behind a budget of one.
    pub async fn deploy_canary(&self) {
        let kubernetes = self.kubernetes();
        let labels = json!({"app": "canary"});
        let deployment = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "canary", "namespace": "default"},
            "spec": {
                "replicas": 2, "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels},
                    "spec": {"containers": [{"name": "c", "image": "example/c:1"}]},
                },
            },
        });
        let budget = json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": {"name": "canary", "namespace": "default"},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": labels}},
        });
        for manifest in [deployment, budget] {
            kubernetes.apply(&manifest).await.unwrap();
        }
        for _ in 0..30 {
            self.systems.clock.sleep(Duration::from_secs(1)).await;
            if self.lab.request("default", "canary", 0).is_ok()
                && self.lab.request("default", "canary", 1).is_ok()
            {
                return;
            }
        }
        panic!("the canary does not come up");
    }

    /// One request a second to the canary, for as long as it is polled. Gives what failed.
    pub async fn ask_canary(&self, failures: Arc<Mutex<Vec<String>>>) {
        for number in 0.. {
            if let Err(why) = self.lab.request("default", "canary", number) {
                failures.lock().unwrap().push(format!("{}: {why}", self.systems.clock.now()));
            }
            self.systems.clock.sleep(Duration::from_secs(1)).await;
        }
    }

    /// Carries out a plan while the canary is asked, which must never fail.
    pub async fn carry_out_with_canary(&self, snapshot: &Snapshot, plan: &Plan) -> Ran {
        let failures = Arc::new(Mutex::new(vec![]));
        let ran = tokio::select! {
            biased;
            ran = Box::pin(self.carry_out(snapshot, plan, "me")) => ran.unwrap(),
            () = self.ask_canary(failures.clone()) => unreachable!(),
        };
        assert_eq!(*failures.lock().unwrap(), [] as [String; 0], "the canary was always answered");
        ran
    }

    /// Nodes that are cordoned, with what Talosmith wrote on them.
    pub async fn cordoned(&self) -> BTreeMap<String, Option<String>> {
        let nodes = self.kubernetes().nodes().await.unwrap();
        let cordoned = nodes.into_iter().filter(|(_, node)| !node.schedulable || node.cordoned.is_some());
        cordoned.map(|(name, node)| (name.to_string(), node.cordoned)).collect()
    }
}

pub const CONTROL: [&str; 3] = ["home-control-1", "home-control-2", "home-control-3"];
pub const WORKERS: [&str; 2] = ["home-work-1", "home-work-2"];

/// A rolling reboot of all nodes: control plane nodes one after the other, then the workers, which the budget limits.
pub fn rolling(snapshot: &Snapshot) -> Plan {
    let mut plan = nothing(snapshot);
    let mut last = vec![];
    for node in CONTROL {
        last = vec![restart(&mut plan, node, vec![reboot(node)], &last)];
    }
    for node in WORKERS {
        restart(&mut plan, node, vec![reboot(node)], &last);
    }
    plan
}

#[tokio::test(start_paused = true)]
async fn every_node_is_rebooted_and_the_canary_is_never_down() {
    let rig = Rig::healthy().await;
    rig.deploy_canary().await;
    let (before, snapshot) = (rig.boots(), rig.observe(HOME).await);
    let ran = rig.carry_out_with_canary(&snapshot, &rolling(&snapshot)).await;
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    for (vmid, boot) in rig.boots() {
        assert_ne!(before[&vmid], boot, "VM {vmid} has booted once");
    }
    assert_eq!(rig.cordoned().await, BTreeMap::new());
    rig.assert_whole().await;
}

#[tokio::test(start_paused = true)]
async fn workers_restart_in_the_order_of_the_plan() {
    let rig = Rig::healthy().await;
    let [first, second] = WORKERS;
    for order in [[first, second], [second, first]] {
        let snapshot = rig.observe(HOME).await;
        let mut plan = nothing(&snapshot);
        for node in order {
            restart(&mut plan, node, vec![reboot(node)], &[]);
        }
        // What starts first is no matter of which step stands first.
        plan.steps.sort_by_key(|step| step.unit != Some(UnitId(format!("restart/{}", order[1]))));
        let ran = rig.carry_out(&snapshot, &plan, "me").await.unwrap();
        assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
        let started = ran.events.iter().filter_map(|event| match &event.what {
            What::UnitStarted { node, .. } => Some(node.as_str()),
            _ => None,
        });
        assert_eq!(started.collect::<Vec<_>>(), order);
    }
}

/// How often each call was made to machines whose path ends so.
fn count(rig: &Rig, end: &'static str) -> Arc<Mutex<Vec<String>>> {
    let calls: Arc<Mutex<Vec<String>>> = Arc::default();
    let kept = calls.clone();
    rig.lab.on_call(move |_, moment, _, path| {
        if moment == lab::CallMoment::Before && path.ends_with(end) {
            kept.lock().unwrap().push(path.to_owned());
        }
        lab::Verdict::GoOn
    });
    calls
}

#[tokio::test(start_paused = true)]
async fn a_node_is_rebooted_once_and_says_meanwhile_who_cordoned_it() {
    let rig = Rig::healthy().await;
    let snapshot = rig.observe(HOME).await;
    let mut plan = nothing(&snapshot);
    restart(&mut plan, WORKERS[0], vec![reboot(WORKERS[0])], &[]);
    let reboots = count(&rig, "/Reboot");
    let seen = async {
        loop {
            rig.systems.clock.sleep(Duration::from_secs(1)).await;
            if let Some(why) = rig.cordoned().await.remove(WORKERS[0]) {
                return why;
            }
        }
    };
    let (ran, why) = tokio::join!(Box::pin(rig.carry_out(&snapshot, &plan, "me")), seen);
    assert_eq!(ran.unwrap().outcome, Outcome::Done);
    assert_eq!(why.as_deref(), Some("restart/home-work-1 by me@test"));
    assert_eq!(reboots.lock().unwrap().len(), 1);
    assert_eq!(rig.cordoned().await, BTreeMap::new());
}

#[tokio::test(start_paused = true)]
async fn a_power_cycle_brings_more_memory() {
    let file = HOME.replace("role: worker, count: 2", "role: worker, count: 2, memory: 6G");
    let rig = Rig::healthy().await;
    rig.deploy_canary().await;
    let snapshot = rig.observe(&file).await;
    let (mut plan, before) = (nothing(&snapshot), rig.boots());
    let set = BTreeMap::from([("memory".to_owned(), "6144".to_owned())]);
    for (node, vmid) in WORKERS.into_iter().zip([150_021, 150_022]) {
        let host = rig.host_of(vmid).await;
        let act = Action::PowerCycleVm {
            node: node.into(),
            vm: VmRef::new(host, vmid),
            set: set.clone(),
            says: vec![],
        };
        restart(&mut plan, node, vec![act], &[]);
    }
    let ran = rig.carry_out_with_canary(&snapshot, &plan).await;
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    for vmid in [150_021, 150_022] {
        let configs = rig.systems.pve.vm_configs(&rig.host_of(vmid).await, vmid).await.unwrap();
        assert_eq!((configs.now.get("memory"), configs.next.get("memory")), (Some("6144"), Some("6144")));
        assert_ne!(before[&vmid], rig.boots()[&vmid]);
    }
    assert_eq!(rig.cordoned().await, BTreeMap::new());
    rig.assert_nothing_to_do(&file).await;
}

#[tokio::test(start_paused = true)]
async fn a_config_that_needs_a_reboot_is_taken_over_with_one() {
    let patch = "patches:\n  - { machine: { files: [{ path: /var/x, op: create, content: x, permissions: 0o600 }] } }\n";
    let file = format!("{HOME}{patch}");
    let rig = Rig::healthy().await;
    let snapshot = rig.observe(&file).await;
    let (mut plan, before) = (nothing(&snapshot), rig.boots());
    let mut last = vec![];
    for node in CONTROL {
        let act = Action::Reconfigure { node: node.into(), mode: model::step::ConfigMode::Reboot };
        last = vec![restart(&mut plan, node, vec![act], &last)];
    }
    let ran = rig.carry_out(&snapshot, &plan, "me").await.unwrap();
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    assert!([150_011, 150_012, 150_013].iter().all(|vmid| before[vmid] != rig.boots()[vmid]));
    let again = rig.observe(&file).await;
    for node in CONTROL {
        assert_eq!(
            again.observed.machines[node].config_changes,
            Some(vec![]),
            "{node} runs what the file says"
        );
    }
    // Nothing is left to do, so nothing reboots.
    let after = rig.boots();
    let ran = rig.carry_out(&again, &plan, "me").await.unwrap();
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    assert_eq!(rig.boots(), after);
}

#[tokio::test(start_paused = true)]
async fn the_leader_hands_over_before_it_goes_down() {
    let rig = Rig::healthy().await;
    let snapshot = rig.observe(HOME).await;
    let leader = snapshot.observed.machines.values().find_map(|machine| machine.etcd_status.clone()?.leader);
    let leads = |(_, machine): &(&model::names::NodeName, &model::observed::Machine)| matches!(&machine.etcd, model::observed::Etcd::Member { id, .. } if Some(id) == leader.as_ref());
    let (node, _) = snapshot.observed.machines.iter().find(leads).unwrap();
    let mut plan = nothing(&snapshot);
    restart(&mut plan, node, vec![reboot(node)], &[]);
    let forfeits = count(&rig, "/EtcdForfeitLeadership");
    let ran = rig.carry_out(&snapshot, &plan, "me").await.unwrap();
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    assert_eq!(forfeits.lock().unwrap().len(), 1);
    rig.assert_whole().await;
}

/// The failed step, its code and its causes.
pub fn failure(ran: &Ran) -> (String, String, String) {
    let failed = ran.events.iter().find_map(|event| match &event.what {
        What::StepFailed { step, code, causes, .. } => {
            Some((step.to_string(), code.clone(), causes.join(": ")))
        }
        _ => None,
    });
    failed.unwrap_or_else(|| panic!("{:?} without a failure", ran.outcome))
}
