//! A changed version in the file is the upgrade: hop by hop, node by node, and never more than the gate allows.

mod crashes;
mod faults;
mod kubernetes;
mod once;

use std::collections::BTreeMap;
use std::sync::Mutex;

use lab::ComesBack;
use model::step::{Action, RebootMode};

use super::*;
use crate::restart::{CONTROL, WORKERS};
use crate::snapshots::Counted;

/// The file with another Talos.
pub(super) fn with_talos(talos: &str) -> String {
    HOME.replace("talos: v1.13.9", &format!("talos: {talos}"))
}

impl Controller {
    /// The loop, for a person who approves everything, while a canary is asked.
    async fn upgrade(&self, file: &str) -> Reconciled {
        let failures = Arc::new(Mutex::new(vec![]));
        let reconciled = tokio::select! {
            biased;
            reconciled = Box::pin(self.approved(file)) => reconciled,
            () = self.rig.ask_canary(failures.clone()) => unreachable!(),
        };
        assert_eq!(*failures.lock().unwrap(), [] as [String; 0], "the canary was always answered");
        reconciled
    }

    /// The same without a canary.
    pub(super) async fn approved(&self, file: &str) -> Reconciled {
        self.attempted(file).await.unwrap()
    }

    /// The same, which may fail before it has a plan.
    async fn attempted(&self, file: &str) -> Result<Reconciled> {
        let who = operator("eva");
        let session = Session::new(self.rig.world_of(&who), spec(file), Some(bundle()));
        let session = session.with_snapshots(Arc::new(Counted::default()));
        let yes = |_| -> BoxFuture<'static, Answer> { Box::pin(async { Answer::Approved }) };
        let (_request, stop) = watch::channel(Stop::No);
        self.with(session, Intent::Apply, &who, Mandate::Ask, &yes, stop).await
    }

    /// Steps that were done, in order.
    fn done(&self) -> Vec<String> {
        let done = self.events().into_iter().filter_map(|what| match what {
            What::StepDone { step, .. } => Some(step.to_string()),
            _ => None,
        });
        done.collect()
    }

    /// What failed: the step, its code and its causes.
    fn failed(&self) -> Vec<(String, String, String)> {
        let failed = self.events().into_iter().filter_map(|what| match what {
            What::StepFailed { step, code, causes, .. } => Some((step.to_string(), code, causes.join(": "))),
            _ => None,
        });
        failed.collect()
    }
}

impl Rig {
    /// A healthy cluster of another Talos.
    async fn healthy_with(talos: &str) -> Self {
        static CREATED: Mutex<BTreeMap<String, Vec<u8>>> = Mutex::new(BTreeMap::new());
        let created = CREATED.lock().unwrap().get(talos).cloned();
        if let Some(systems) = created {
            return Self::copy_of(&systems);
        }
        let rig = Self::new();
        let ran = Box::pin(rig.apply(&with_talos(talos))).await;
        assert_eq!(ran.outcome, model::event::Outcome::Done, "{:?}", ran.failures());
        let systems = rig.lab.shared().read(|systems, _| serde_json::to_vec(systems).unwrap());
        CREATED.lock().unwrap().insert(talos.to_owned(), systems);
        rig
    }

    /// What the machines of all nodes run.
    pub(super) async fn releases(&self, file: &str) -> Vec<String> {
        let snapshot = self.observe(file).await;
        let talos = |name: &str| snapshot.observed.machines[name].talos.clone().unwrap_or_default();
        CONTROL.iter().chain(&WORKERS).map(|name| talos(name)).collect()
    }
}

fn position(steps: &[String], step: &str) -> usize {
    steps.iter().position(|done| done == step).unwrap_or_else(|| panic!("no {step} in {steps:?}"))
}

#[tokio::test(start_paused = true)]
async fn a_changed_patch_release_is_a_rolling_upgrade() {
    let rig = Rig::healthy().await;
    rig.deploy_canary().await;
    let (controller, file) = (Controller::of(&rig), with_talos("v1.13.10"));
    let plan = rig.observe(&file).await.plan();
    assert_eq!((plan.refusals.len(), plan.blocked.len(), plan.units.len()), (0, 0, 5), "{plan:?}");
    let modes = plan.steps.iter().filter_map(|step| match &step.action {
        Action::RebootNode { mode: RebootMode::PowerCycle, node } => Some(node.to_string()),
        _ => None,
    });
    let first = |nodes: &[&str]| {
        let units = plan.units.iter().map(|unit| unit.node.to_string());
        units.into_iter().find(|node| nodes.contains(&node.as_str())).unwrap()
    };
    assert_eq!(modes.collect::<Vec<_>>(), [first(&CONTROL), first(&WORKERS)], "the first of each role");
    let before = rig.boots();
    let reconciled = controller.upgrade(&file).await;
    assert!(matches!(reconciled.ended, Ended::Converged), "{:?} {:?}", reconciled.ended, controller.failed());
    assert_eq!(rig.releases(&file).await, ["v1.13.10"; 5]);
    assert!(rig.boots().iter().all(|(vmid, boot)| before[vmid] != *boot), "each has booted");
    let steps = controller.done();
    let first_drain = steps.iter().position(|step| step.starts_with("drain-node/")).unwrap();
    assert!(position(&steps, "snapshot-etcd") < first_drain, "{steps:?}");
    for node in CONTROL.iter().chain(&WORKERS) {
        assert!(position(&steps, &format!("pull-image/{node}")) < first_drain, "{steps:?}");
    }
    for (control, worker) in CONTROL.iter().flat_map(|control| WORKERS.map(|worker| (control, worker))) {
        let verified = position(&steps, &format!("uncordon-node/{control}"));
        assert!(verified < position(&steps, &format!("drain-node/{worker}")), "{steps:?}");
    }
    assert_eq!(controller.asked().len(), 1, "it is asked for once");
    assert_eq!(rig.cordoned().await.len(), 0);
    rig.assert_nothing_to_do(&file).await;
}

#[tokio::test(start_paused = true)]
async fn two_minors_are_two_hops_of_one_apply_and_asked_for_once() {
    let rig = Rig::healthy_with("v1.12.11").await;
    rig.deploy_canary().await;
    let (controller, file) = (Controller::of(&rig), with_talos("v1.14.1"));
    let plan = rig.observe(&file).await.plan();
    assert!(
        plan.notes.iter().any(|note| note.text.contains("goes to Talos v1.13.10 → v1.14.1")),
        "{:?}",
        plan.notes
    );
    let reconciled = controller.upgrade(&file).await;
    assert!(matches!(reconciled.ended, Ended::Converged), "{:?} {:?}", reconciled.ended, controller.failed());
    assert_eq!(rig.releases(&file).await, ["v1.14.1"; 5]);
    assert_eq!(controller.asked().len(), 1, "{:?}", controller.asked());
    let installs = controller.done().iter().filter(|step| step.starts_with("install-talos/")).count();
    assert_eq!(installs, 10);
    rig.assert_nothing_to_do(&file).await;
}

#[tokio::test(start_paused = true)]
async fn the_hop_over_etcds_minor_is_named_and_the_file_names_the_stop() {
    let rig = Rig::healthy_with("v1.12.11").await;
    let file = HOME.replace("talos: v1.13.9", "talos: v1.14.1, via: { talos: [v1.13.9] }");
    let controller = Controller::of(&rig);
    let reconciled = controller.approved(&file).await;
    assert!(matches!(reconciled.ended, Ended::Converged), "{:?} {:?}", reconciled.ended, controller.failed());
    let installed = controller.events().iter().filter(|what| matches!(what, What::StepDone { .. })).count();
    assert!(installed > 0);
    let shown = controller.memory.shown.lock().unwrap().len();
    assert!(shown >= 3, "each hop is shown");
    assert_eq!(rig.releases(&file).await, ["v1.14.1"; 5]);
}

#[tokio::test(start_paused = true)]
async fn mixed_releases_after_an_interruption_go_on() {
    let rig = Rig::healthy().await;
    let (controller, file) = (Controller::of(&rig), with_talos("v1.13.10"));
    let (request, stop) = watch::channel(Stop::No);
    // Stops after the first node.
    let lab_calls = Arc::new(Mutex::new(0));
    rig.lab.on_call({
        let calls = lab_calls.clone();
        move |_, moment, _, path| {
            if moment == lab::CallMoment::After && path.ends_with("/Reboot") {
                *calls.lock().unwrap() += 1;
                let _ = request.send(Stop::Graceful);
            }
            lab::Verdict::GoOn
        }
    });
    let who = operator("eva");
    let session = Session::new(rig.world_of(&who), spec(&file), Some(bundle()));
    let session = session.with_snapshots(Arc::new(Counted::default()));
    let never = |_| -> BoxFuture<'static, Answer> { Box::pin(async { Answer::Unavailable }) };
    let stopped =
        controller.with(session, Intent::Apply, &who, Mandate::FirstPlan, &never, stop).await.unwrap();
    assert!(matches!(stopped.ended, Ended::Interrupted { .. }), "{:?}", stopped.ended);
    rig.lab.on_call(|_, _, _, _| lab::Verdict::GoOn);
    let mixed = rig.releases(&file).await;
    assert_eq!(mixed.iter().filter(|talos| *talos == "v1.13.10").count(), 1, "{mixed:?}");
    let plan = rig.observe(&file).await.plan();
    assert_eq!(plan.units.len(), 4, "{:?}", plan.units);
    let reconciled = controller.approved(&file).await;
    assert!(matches!(reconciled.ended, Ended::Converged), "{:?} {:?}", reconciled.ended, controller.failed());
    assert_eq!(rig.releases(&file).await, ["v1.13.10"; 5]);
    assert_eq!(rig.cordoned().await.len(), 0);
    rig.assert_nothing_to_do(&file).await;
}

/// Runs into a failure, and says which nodes have booted.
async fn stopped(rig: &Rig, file: &str) -> ((String, String, String), usize) {
    let controller = Controller::of(rig);
    let before = rig.boots();
    let reconciled = controller.approved(file).await;
    assert!(matches!(reconciled.ended, Ended::Failed), "{:?}", reconciled.ended);
    let booted = rig.boots().iter().filter(|(vmid, boot)| before.get(vmid) != Some(boot)).count();
    (controller.failed().remove(0), booted)
}

#[tokio::test(start_paused = true)]
async fn a_node_that_falls_back_to_the_old_release_stops_the_roll() {
    let rig = Rig::healthy().await;
    for vmid in [150_011, 150_012, 150_013] {
        rig.lab.inject(Injection::BrokenSystem { vmid, talos: "v1.13.10".into(), broken: true });
    }
    let ((step, code, why), booted) = stopped(&rig, &with_talos("v1.13.10")).await;
    assert!(step.starts_with("verify-node/home-control-"), "{step}: {why}");
    assert_eq!((code.as_str(), booted), ("not-as-expected", 1));
    assert!(why.contains("came back with Talos v1.13.9 instead of v1.13.10"), "{why}");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_comes_back_in_maintenance_stops_the_roll() {
    let rig = Rig::healthy().await;
    for vmid in [150_011, 150_012, 150_013] {
        rig.lab.inject(Injection::ComesBack { vmid, how: Some(ComesBack::InMaintenance) });
    }
    let ((step, code, why), booted) = stopped(&rig, &with_talos("v1.13.10")).await;
    assert!(step.starts_with("reboot-node/home-control-"), "{step}: {why}");
    assert_eq!((code.as_str(), booted), ("lost-configuration", 1));
}

#[tokio::test(start_paused = true)]
async fn a_node_that_lost_its_kernel_arguments_stops_the_roll() {
    let rig = Rig::healthy().await;
    for vmid in [150_011, 150_012, 150_013] {
        rig.lab.inject(Injection::ComesBack { vmid, how: Some(ComesBack::WithoutKernelArguments) });
    }
    let ((step, code, why), booted) = stopped(&rig, &with_talos("v1.13.10")).await;
    assert!(step.starts_with("verify-node/home-control-"), "{step}: {why}");
    assert_eq!((code.as_str(), booted), ("not-as-expected", 1));
    assert!(why.contains("console=ttyS0"), "{why}");
}

#[tokio::test(start_paused = true)]
async fn a_release_that_no_registry_has_disrupts_nothing() {
    let rig = Rig::healthy().await;
    let (controller, before) = (Controller::of(&rig), rig.boots());
    let reconciled = controller.approved(&with_talos("v1.13.99")).await;
    assert!(matches!(reconciled.ended, Ended::Left(_)), "{:?}", reconciled.ended);
    let (_, plan) = reconciled.last.unwrap();
    assert!(plan.blocked.iter().any(|blocked| blocked.what.contains("v1.13.99")), "{:?}", plan.blocked);
    assert_eq!((rig.boots(), rig.cordoned().await.len()), (before, 0));
}

#[tokio::test(start_paused = true)]
async fn an_older_release_is_refused_and_nothing_is_changed() {
    let rig = Rig::healthy().await;
    let (controller, changes) = (Controller::of(&rig), rig.count_changes());
    let reconciled = controller.approved(&with_talos("v1.12.11")).await;
    assert!(matches!(reconciled.ended, Ended::Refused), "{:?}", reconciled.ended);
    let (_, plan) = reconciled.last.unwrap();
    assert!(plan.refusals[0].why.contains("Talos is not downgraded"), "{:?}", plan.refusals);
    assert_eq!(changes.load(std::sync::atomic::Ordering::Relaxed), 0);
}

/// A pool of its own shows a release before the others get it.
#[tokio::test(start_paused = true)]
async fn a_pool_can_be_a_canary() {
    let rig = Rig::healthy().await;
    let file =
        HOME.replace("role: worker, count: 2", "role: worker, count: 2, versions: { talos: v1.13.10 }");
    let controller = Controller::of(&rig);
    let reconciled = controller.approved(&file).await;
    assert!(matches!(reconciled.ended, Ended::Converged), "{:?} {:?}", reconciled.ended, controller.failed());
    let releases = rig.releases(&file).await;
    assert_eq!(releases, ["v1.13.9", "v1.13.9", "v1.13.9", "v1.13.10", "v1.13.10"]);
    rig.assert_nothing_to_do(&file).await;
}

#[tokio::test(start_paused = true)]
async fn other_extensions_are_the_same_operation() {
    let rig = Rig::healthy().await;
    rig.deploy_canary().await;
    let file =
        format!("{HOME}image: {{ extensions: [siderolabs/qemu-guest-agent, siderolabs/iscsi-tools] }}\n");
    let controller = Controller::of(&rig);
    let reconciled = controller.upgrade(&file).await;
    assert!(matches!(reconciled.ended, Ended::Converged), "{:?} {:?}", reconciled.ended, controller.failed());
    rig.assert_nothing_to_do(&file).await;
    let seen = rig.observe(&file).await;
    let extensions = seen.observed.machines[WORKERS[0]].extensions.clone().unwrap();
    assert!(extensions.contains_key("iscsi-tools"), "{extensions:?}");
}

/// It does not answer, so it may be the one that is left behind.
#[tokio::test(start_paused = true)]
async fn no_hop_is_made_while_a_node_does_not_tell_what_it_runs() {
    let rig = Rig::healthy().await;
    let which = lab::Partition { origin: None, far: lab::Far::Machine(150_022), lost: lab::Lost::Requests };
    rig.lab.inject(Injection::Partition { which, cut: true });
    let plan = rig.observe(&with_talos("v1.13.10")).await.plan();
    assert!(
        plan.units.iter().all(|unit| !matches!(unit.goal, Goal::UpgradeTalos { .. })),
        "{:?}",
        plan.units
    );
    let blocked = plan.blocked.iter().find(|blocked| blocked.what.contains("could be left"));
    assert_eq!(blocked.and_then(|blocked| blocked.node.clone()).as_deref(), Some("home-work-2"));
}

/// Pulling images again and again is no progress: outside of the window nothing of an upgrade is done.
#[tokio::test(start_paused = true)]
async fn outside_of_the_maintenance_window_nothing_of_an_upgrade_is_done() {
    let rig = Rig::healthy().await;
    let day = rig.systems.clock.now().strftime("%a").to_string().to_lowercase();
    let days = ["mon", "wed", "fri"];
    let other = days.into_iter().find(|name| *name != day).unwrap();
    let window =
        format!("changes: {{ window: {{ days: [{other}], from: '12:00', to: '12:30', time_zone: UTC }} }}\n");
    let (controller, file) = (Controller::of(&rig), format!("{}{window}", with_talos("v1.13.10")));
    let reconciled = controller.approved(&file).await;
    assert!(matches!(reconciled.ended, Ended::Left(Left::Blocked)), "{:?}", reconciled.ended);
    assert_eq!(reconciled.runs, 0);
    assert_eq!(rig.releases(&file).await, ["v1.13.9"; 5]);
}
