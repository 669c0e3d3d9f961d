//! The loop, driven as a controller would drive it: every store is in memory, and an answer is a function.

mod upgrade;

use std::collections::BTreeSet;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use engine::Session;
use engine::apply::Stop;
use engine::error::{Error, Kind, Result};
use engine::journal::{JournalStore, Log};
use engine::lease::Operator;
use engine::reconcile::{
    Answer, Approver, Ended, Intent, Left, Mandate, Notice, Question, Reconcile, Reconciled, Why,
};
use engine::report::{Files, ReportStore};
use engine::session::ObserveError;
use engine::stores::{BoxFuture, BundleStore, ClusterLock, Stores};
use jiff::Timestamp;
use lab::{CallFilter, Injection, When};
use model::event::{Consent, Event, What};
use model::observed::Cordon;
use model::plan::Plan;
use model::plan::by_hand::{ByHand, Hand};
use model::spec::Spec;
use model::unit::Goal;
use pve::Params;
use talos::secrets::Bundle;
use tokio::sync::watch;

use crate::rig::{HOME, Rig, bundle, operator, spec};

/// A front end without a folder and without a terminal.
#[derive(Clone)]
struct Controller {
    rig: Rig,
    memory: Arc<Memory>,
}

/// All that it keeps.
#[derive(Default)]
struct Memory {
    bundle: Mutex<Option<Bundle>>,
    journal: Mutex<Vec<Event>>,
    reports: Mutex<Vec<Files>>,
    /// Plans that were shown: why, and their steps.
    shown: Mutex<Vec<(Why, Vec<String>)>>,
    /// What was asked for.
    asked: Mutex<Vec<BTreeSet<Goal>>>,
    others: Mutex<usize>,
}

/// What is done while a question is open, by its number from 1 on; then it is answered.
type Answering = dyn Fn(usize) -> BoxFuture<'static, Answer> + Send + Sync;

struct Person<'a>(&'a Memory, &'a Answering);

impl Approver for Person<'_> {
    fn ask<'a>(&'a self, question: Question<'a>) -> BoxFuture<'a, Result<Answer>> {
        let number = {
            let mut asked = self.0.asked.lock().unwrap();
            asked.push(question.goals.clone());
            asked.len()
        };
        Box::pin(async move { Ok((self.1)(number).await) })
    }
}

impl BundleStore for Controller {
    fn create<'a>(&'a self, _: &'a Spec, _: Timestamp) -> BoxFuture<'a, Result<Bundle>> {
        Box::pin(async {
            assert_eq!(
                self.rig.vmids().await,
                [] as [u64; 0],
                "secrets are kept before anything has an identity"
            );
            *self.memory.bundle.lock().unwrap() = Some(bundle());
            Ok(bundle())
        })
    }
}

impl JournalStore for Controller {
    fn open(&self) -> io::Result<Box<dyn Log>> {
        Ok(Box::new(self.clone()))
    }

    fn tail(&self, lines: usize) -> io::Result<Vec<String>> {
        let journal = self.memory.journal.lock().unwrap();
        let lines = journal.iter().rev().take(lines).map(|event| serde_json::to_string(event).unwrap());
        Ok(lines.collect())
    }

    fn name(&self) -> String {
        "the controller's memory".to_owned()
    }
}

impl Log for Controller {
    fn append(&mut self, event: &Event) -> io::Result<()> {
        self.memory.journal.lock().unwrap().push(event.clone());
        Ok(())
    }
}

impl ReportStore for Controller {
    fn save(&self, _: Timestamp, files: &Files) -> io::Result<String> {
        self.memory.reports.lock().unwrap().push(files.clone());
        Ok("the controller's memory".to_owned())
    }
}

impl ClusterLock for Controller {
    fn lock(&self, _: &str) -> Result<Box<dyn Send + Sync>> {
        Err(Error::new(Kind::Busy, "a cluster with Proxmox has its lease there"))
    }
}

impl Controller {
    /// One that has the bundle of a cluster that exists.
    fn of(rig: &Rig) -> Self {
        let controller = Self { rig: rig.clone(), memory: Arc::default() };
        *controller.memory.bundle.lock().unwrap() = Some(bundle());
        controller
    }

    fn see(&self, notice: Notice<'_>) {
        let memory = &self.memory;
        match notice {
            Notice::Planned { snapshot, plan, why } => {
                self.rig.guard.owns(snapshot);
                self.rig.guard.allows(snapshot, plan);
                memory.shown.lock().unwrap().push((why, ids(plan)));
            }
            Notice::OtherOperator => *memory.others.lock().unwrap() += 1,
            Notice::Happened(event) => {
                assert_eq!(memory.journal.lock().unwrap().last(), Some(event), "the journal has it first");
            }
            _ => {}
        }
    }

    async fn reconcile(&self, file: &str, who: &Operator, mandate: Mandate) -> Result<Reconciled> {
        self.answering(file, who, mandate, &|_| Box::pin(async { Answer::Unavailable })).await
    }

    async fn answering(
        &self,
        file: &str,
        who: &Operator,
        mandate: Mandate,
        answer: &Answering,
    ) -> Result<Reconciled> {
        let (_request, stop) = watch::channel(Stop::No);
        self.stoppable(file, who, mandate, answer, stop).await
    }

    async fn stoppable(
        &self,
        file: &str,
        who: &Operator,
        mandate: Mandate,
        answer: &Answering,
        stop: watch::Receiver<Stop>,
    ) -> Result<Reconciled> {
        let known = self.memory.bundle.lock().unwrap().is_some().then(bundle);
        let session = Session::new(self.rig.world_of(who), spec(file), known);
        self.with(session, Intent::Apply, who, mandate, answer, stop).await
    }

    /// The whole loop, in a session.
    async fn with(
        &self,
        session: Session,
        intent: Intent,
        who: &Operator,
        mandate: Mandate,
        answer: &Answering,
        stop: watch::Receiver<Stop>,
    ) -> Result<Reconciled> {
        self.rig.guard.watch.set_deleting(false);
        let reconcile = Reconcile {
            intent,
            operator: who,
            mandate,
            approver: &Person(&self.memory, answer),
            stores: Stores { bundles: self, journal: self, reports: self, lock: self },
            listener: {
                let controller = self.clone();
                Arc::new(move |notice| controller.see(notice))
            },
            stop,
            limit: None,
            secrets: vec![],
        };
        let reconciled = Box::pin(reconcile.run(session)).await;
        self.rig.lab.shared().look();
        self.rig.guard.check();
        reconciled.map_err(|error| match error {
            ObserveError::Engine(error) => error,
            ObserveError::File(found) => panic!("{found:?}"),
        })
    }

    /// The loop for someone who approved beforehand and is not there.
    async fn quiet(&self, session: Session, intent: Intent, who: &Operator) -> Result<Reconciled> {
        let (_request, stop) = watch::channel(Stop::No);
        let never = |_| -> BoxFuture<'static, Answer> { Box::pin(async { Answer::Unavailable }) };
        self.with(session, intent, who, Mandate::FirstPlan, &never, stop).await
    }

    fn events(&self) -> Vec<What> {
        self.memory.journal.lock().unwrap().iter().map(|event| event.what.clone()).collect()
    }

    fn shown(&self) -> Vec<Why> {
        self.memory.shown.lock().unwrap().iter().map(|(why, _)| *why).collect()
    }

    fn asked(&self) -> Vec<BTreeSet<Goal>> {
        self.memory.asked.lock().unwrap().clone()
    }
}

fn ids(plan: &Plan) -> Vec<String> {
    plan.steps.iter().map(|step| step.id.to_string()).collect()
}

fn created(node: &str) -> Goal {
    Goal::Create { node: Some(node.into()) }
}

/// Another person stops a VM.
async fn stop_vm(rig: &Rig, vmid: u32) {
    let host = rig.host_of(vmid).await;
    rig.systems.pve.follow(&rig.systems.pve.stop(&host, vmid).await.unwrap(), |_| {}).await.unwrap();
}

/// Another person changes the tags of a VM.
async fn tag_vm(rig: &Rig, vmid: u32, tags: &str) {
    let host = rig.host_of(vmid).await;
    let tags = Params::from([("tags".to_owned(), tags.to_owned())]);
    rig.systems.pve.update_config(&host, vmid, &tags, &[], None).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_controller_brings_a_cluster_up_from_nothing() {
    let rig = Rig::new();
    let controller = Controller { rig: rig.clone(), memory: Arc::default() };
    let eva = operator("eva");
    let reconciled = controller.reconcile(HOME, &eva, Mandate::FirstPlan).await.unwrap();
    assert!(matches!(reconciled.ended, Ended::Converged), "{:?}", reconciled.ended);
    assert_eq!(reconciled.runs, 1);
    assert!(controller.memory.bundle.lock().unwrap().is_some());
    rig.assert_whole().await;

    let events = controller.events();
    assert!(matches!(&events[0], What::Started { verb, .. } if verb == "apply"));
    let What::Approved { by, how, goals } = &events[1] else { panic!("{:?}", events[1]) };
    assert_eq!((by.as_str(), *how), ("eva@test", Consent::Beforehand));
    assert!(goals.contains(&created("home-work-2")), "{goals:?}");
    assert!(matches!(events.last(), Some(What::Ended { .. })));
    // The plan is the same with secrets as without, and at the end nothing is left.
    assert_eq!(controller.shown(), [Why::First, Why::Ran]);

    let again = controller.reconcile(HOME, &eva, Mandate::Ask).await.unwrap();
    assert!(matches!(again.ended, Ended::Converged) && again.runs == 0, "nothing is asked for nothing");
    assert_eq!(controller.asked(), []);
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_lost_ends_the_loop_and_another_controller_goes_on() {
    let rig = Rig::new();
    let (first, second) = (Controller::of(&rig), Controller::of(&rig));
    let (eva, kim) = (operator("eva"), Operator { take_over: true, ..operator("kim") });
    let later = async {
        rig.systems.clock.sleep(Duration::from_secs(33)).await;
        second.reconcile(HOME, &kim, Mandate::FirstPlan).await
    };
    let (one, other) = futures::join!(first.reconcile(HOME, &eva, Mandate::FirstPlan), later);
    let (one, other) = (one.unwrap(), other.unwrap());
    assert!(matches!(one.ended, Ended::Busy), "{:?}", one.ended);
    assert!(matches!(other.ended, Ended::Converged), "{:?}", other.ended);
    assert_eq!(*second.memory.others.lock().unwrap(), 1, "what it observed was old after the takeover");
    assert!(first.memory.reports.lock().unwrap().is_empty(), "nothing broke");
    rig.assert_whole().await;
    let again = first.reconcile(HOME, &eva, Mandate::FirstPlan).await.unwrap();
    assert!(matches!(again.ended, Ended::Converged) && again.runs == 0);
}

#[tokio::test(start_paused = true)]
async fn a_blocked_node_does_not_keep_the_others_from_going_on() {
    let rig = Rig::healthy().await;
    let controller = Controller::of(&rig);
    // One node leaves the file, which no one allowed; the others get a label.
    let file = HOME.replace("worker, count: 2", "worker, count: 1, labels: { rack: a }");
    let reconciled = controller.reconcile(&file, &operator("eva"), Mandate::FirstPlan).await.unwrap();
    assert!(matches!(reconciled.ended, Ended::Left(Left::Blocked)), "{:?}", reconciled.ended);
    assert_eq!(reconciled.runs, 1);
    let (_, plan) = reconciled.last.unwrap();
    assert!(plan.steps.is_empty(), "{:?}", ids(&plan));
    assert!(plan.blocked.iter().any(|blocked| blocked.node.as_deref() == Some("home-work-2")), "{plan:?}");
    let done =
        |what: &What| matches!(what, What::StepDone { step, .. } if step.0 == "reconfigure/home-work-1");
    assert!(controller.events().iter().any(done));
}

#[tokio::test(start_paused = true)]
async fn a_node_that_fails_leaves_the_others_and_a_report() {
    let rig = Rig::healthy().await;
    let controller = Controller::of(&rig);
    let file = HOME.replace("worker, count: 2", "worker, count: 4");
    let which =
        CallFilter { method: "POST".to_owned(), path_contains: "/nodes/pve3/qemu".to_owned(), skip: 0 };
    rig.lab.inject(Injection::Known { number: 47, when: When::Call(which) });
    let reconciled = controller.reconcile(&file, &operator("eva"), Mandate::FirstPlan).await.unwrap();
    assert!(matches!(reconciled.ended, Ended::Failed), "{:?}", reconciled.ended);
    let done = |what: &&What| matches!(what, What::StepDone { step, .. } if step.kind() == "join");
    assert_eq!(controller.events().iter().filter(done).count(), 1);
    let reports = controller.memory.reports.lock().unwrap();
    assert!(reports.len() == 1 && reports[0].contains_key("failures.txt"), "{reports:?}");
}

#[tokio::test(start_paused = true)]
async fn what_was_not_approved_is_asked_for_and_what_was_is_not() {
    let rig = Rig::healthy().await;
    stop_vm(&rig, 150_021).await;
    let controller = Controller::of(&rig);
    // While a person thinks, another machine goes off.
    let answer = {
        let rig = rig.clone();
        move |number| -> BoxFuture<'static, Answer> {
            let rig = rig.clone();
            Box::pin(async move {
                if number == 1 {
                    stop_vm(&rig, 150_022).await;
                }
                Answer::Approved
            })
        }
    };
    let reconciled = controller.answering(HOME, &operator("eva"), Mandate::Ask, &answer).await.unwrap();
    assert!(matches!(reconciled.ended, Ended::Converged), "{:?}", reconciled.ended);
    let asked = controller.asked();
    assert_eq!(asked.len(), 2, "{asked:?}");
    assert!(asked[0].contains(&created("home-work-1")));
    assert_eq!(asked[1], BTreeSet::from([created("home-work-2")]), "only what is new");
    assert_eq!(controller.shown(), [Why::First, Why::Answered, Why::Ran]);
    rig.assert_whole().await;
}

/// A smaller plan, or a lesser change of the same node, was approved with the greater one.
#[tokio::test(start_paused = true)]
async fn planning_again_within_the_goals_does_not_ask_again() {
    let rig = Rig::healthy().await;
    stop_vm(&rig, 150_021).await;
    tag_vm(&rig, 150_022, "mine").await;
    let controller = Controller::of(&rig);
    let answer = {
        let rig = rig.clone();
        move |_| -> BoxFuture<'static, Answer> {
            let rig = rig.clone();
            Box::pin(async move {
                tag_vm(&rig, 150_021, "mine").await;
                Answer::Approved
            })
        }
    };
    let reconciled = controller.answering(HOME, &operator("eva"), Mandate::Ask, &answer).await.unwrap();
    assert!(matches!(reconciled.ended, Ended::Converged), "{:?}", reconciled.ended);
    assert_eq!(controller.asked().len(), 1);
    assert_eq!(controller.shown(), [Why::First, Why::Answered, Why::Ran], "it is shown all the same");
    rig.assert_whole().await;
}

#[tokio::test(start_paused = true)]
async fn an_answer_other_than_yes_changes_nothing() {
    let rig = Rig::healthy().await;
    stop_vm(&rig, 150_021).await;
    let controller = Controller::of(&rig);
    let changes = rig.count_changes();
    for (answer, declined) in [(Answer::Declined, true), (Answer::Unavailable, false)] {
        let answers = move |_| -> BoxFuture<'static, Answer> { Box::pin(async move { answer }) };
        let reconciled = controller.answering(HOME, &operator("eva"), Mandate::Ask, &answers).await.unwrap();
        match reconciled.ended {
            Ended::Declined => assert!(declined),
            Ended::Left(Left::Unapproved(goals)) => {
                assert!(!declined && goals.contains(&created("home-work-1")), "{goals:?}");
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(reconciled.runs, 0);
    }
    assert_eq!(changes.load(std::sync::atomic::Ordering::Relaxed), 0);
    assert_eq!(controller.events(), []);
}

/// `--yes` is for the plan that was shown. What turns up later is not part of it.
#[tokio::test(start_paused = true)]
async fn an_approval_beforehand_does_not_cover_what_turns_up_later() {
    let rig = Rig::healthy().await;
    stop_vm(&rig, 150_021).await;
    let controller = Controller::of(&rig);
    let person = async {
        rig.systems.clock.sleep(Duration::from_secs(15)).await;
        tag_vm(&rig, 150_022, "mine").await;
    };
    let eva = operator("eva");
    let (reconciled, ()) = futures::join!(controller.reconcile(HOME, &eva, Mandate::FirstPlan), person);
    let reconciled = reconciled.unwrap();
    let Ended::Left(Left::Unapproved(goals)) = &reconciled.ended else { panic!("{:?}", reconciled.ended) };
    assert_eq!(*goals, BTreeSet::from([Goal::Update { node: "home-work-2".into() }]));
    assert_eq!(reconciled.runs, 1, "what was approved is done");
    assert_eq!(controller.asked().len(), 1, "a person would have been asked");
    let again = controller.reconcile(HOME, &eva, Mandate::FirstPlan).await.unwrap();
    assert!(matches!(again.ended, Ended::Converged), "{:?}", again.ended);
    rig.assert_whole().await;
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_keeps_changing_is_not_asked_about_for_ever() {
    let rig = Rig::healthy().await;
    stop_vm(&rig, 150_021).await;
    let controller = Controller::of(&rig);
    // Each time a person thinks, another node of the cluster is changed.
    let answer = {
        let rig = rig.clone();
        move |number: usize| -> BoxFuture<'static, Answer> {
            let rig = rig.clone();
            Box::pin(async move {
                match [150_022, 150_011, 150_012, 150_013].get(number - 1) {
                    Some(vmid) => tag_vm(&rig, *vmid, "mine").await,
                    None => stop_vm(&rig, 150_022).await,
                }
                Answer::Approved
            })
        }
    };
    let error = controller.answering(HOME, &operator("eva"), Mandate::Ask, &answer).await.err().unwrap();
    assert_eq!(error.kind(), Kind::Busy);
    assert_eq!(controller.asked().len(), 5, "{:?}", controller.asked());
    assert_eq!(controller.events(), [], "nothing was run");
}

#[tokio::test(start_paused = true)]
async fn a_wish_to_stop_is_heard_while_a_question_is_open() {
    let rig = Rig::healthy().await;
    stop_vm(&rig, 150_021).await;
    let controller = Controller::of(&rig);
    let (request, stop) = watch::channel(Stop::No);
    let never = |_| -> BoxFuture<'static, Answer> { Box::pin(std::future::pending()) };
    let stopping = async {
        rig.systems.clock.sleep(Duration::from_secs(60)).await;
        request.send_replace(Stop::Graceful);
    };
    let eva = operator("eva");
    let loops = controller.stoppable(HOME, &eva, Mandate::Ask, &never, stop);
    let (reconciled, ()) = futures::join!(loops, stopping);
    let ended = reconciled.unwrap().ended;
    assert!(matches!(ended, Ended::Interrupted { running: false }), "{ended:?}");
}

#[tokio::test(start_paused = true)]
async fn names_that_no_node_has_are_found_before_anything_is_done() {
    let rig = Rig::healthy().await;
    stop_vm(&rig, 150_021).await;
    let eva = operator("eva");
    let session = Session::new(rig.world_of(&eva), spec(HOME), Some(bundle()));
    let session = session.targeting(["home-work-9".to_owned()]);
    let snapshot = session.observe().await.unwrap_or_else(|_| panic!("it can be observed"));
    let name = snapshot.unknown_name().unwrap().name;
    assert_eq!(name, "home-work-9");
    assert!(snapshot.node_names().contains(&"home-work-1".into()));
}

/// One node only: the others are left as they are, and the end says that nothing of this node is left.
#[tokio::test(start_paused = true)]
async fn only_the_nodes_that_were_named_are_changed() {
    let rig = Rig::healthy().await;
    stop_vm(&rig, 150_021).await;
    stop_vm(&rig, 150_022).await;
    let (controller, eva) = (Controller::of(&rig), operator("eva"));
    let session = Session::new(rig.world_of(&eva), spec(HOME), Some(bundle()));
    let session = session.targeting(["home-work-1".to_owned()]);
    let reconciled = controller.quiet(session, Intent::Apply, &eva).await.unwrap();
    assert!(matches!(reconciled.ended, Ended::Converged), "{:?}", reconciled.ended);
    assert!(rig.systems.pve.is_running(&rig.host_of(150_021).await, 150_021).await.unwrap());
    assert!(!rig.systems.pve.is_running(&rig.host_of(150_022).await, 150_022).await.unwrap());
}

fn by_hand(hand: Hand, nodes: &[&str]) -> Intent {
    Intent::ByHand(ByHand::of(hand, nodes.iter().copied()))
}

/// Every control plane node restarts once, one after the other, and everything is as before.
#[tokio::test(start_paused = true)]
async fn nodes_are_rebooted_by_hand_through_the_gate() {
    let rig = Rig::healthy().await;
    let (controller, eva) = (Controller::of(&rig), operator("eva"));
    let before = rig.boots();
    let names = ["home-control-1", "home-control-2", "home-control-3", "home-work-1"];
    let session = || Session::new(rig.world_of(&eva), spec(HOME), Some(bundle()));
    let reconciled = controller.quiet(session(), by_hand(Hand::Reboot, &names), &eva).await.unwrap();
    assert!(matches!(reconciled.ended, Ended::Converged), "{:?}", reconciled.ended);
    let after = rig.boots();
    let rebooted = before.iter().filter(|(vmid, boot)| after[vmid] != **boot).map(|(vmid, _)| *vmid);
    assert_eq!(rebooted.collect::<Vec<_>>(), [150_011, 150_012, 150_013, 150_021]);
    let verified = |what: &&What| matches!(what, What::UnitVerified { .. });
    assert_eq!(controller.events().iter().filter(verified).count(), 4);
    let started = |what: &&What| matches!(what, What::Started { verb, .. } if verb == "reboot");
    assert_eq!(controller.events().iter().filter(started).count(), 1, "once is enough");
    rig.assert_whole().await;

    let wrong = controller.quiet(session(), by_hand(Hand::Reboot, &["home-work-9"]), &eva).await.unwrap();
    assert!(
        matches!(&wrong.ended, Ended::UnknownName(unknown) if unknown.name == "home-work-9"),
        "{:?}",
        wrong.ended
    );
}

/// A run was killed while Proxmox moves a VM: the next one waits for that task, and goes on.
#[tokio::test(start_paused = true)]
async fn leftover_a_run_waits_for_the_task_that_a_killed_one_left() {
    let rig = Rig::healthy().await;
    let (controller, eva) = (Controller::of(&rig), operator("eva"));
    let file = format!("{HOME}nodes: {{ home-work-1: {{ host: pve3 }} }}\n");
    let session = || Session::new(rig.world_of(&eva), spec(&file), Some(bundle()));
    let from = rig.host_of(150_021).await;
    assert_ne!(from, "pve3");
    let request = pve::Migrate { target: "pve3".to_owned(), online: true, with_local_disks: true };
    rig.systems.pve.migrate(&from, 150_021, &request).await.unwrap();
    let locked = session().observe().await.unwrap();
    let vm = locked.observed.proxmox.marked.iter().find(|vm| vm.vmid == 150_021).unwrap();
    assert_eq!(vm.lock.as_deref(), Some("migrate"));
    assert!(!locked.plan().refusals.is_empty(), "a plan alone does not wait");
    let done = controller.quiet(session(), Intent::Apply, &eva).await.unwrap();
    assert!(matches!(done.ended, Ended::Converged), "{:?}", done.ended);
    assert_eq!(rig.host_of(150_021).await, "pve3");
}

/// One rule for names that do not exist, of nodes and of hosts.
#[tokio::test(start_paused = true)]
async fn leftover_an_unknown_host_is_an_unknown_name() {
    let rig = Rig::healthy().await;
    let (controller, eva) = (Controller::of(&rig), operator("eva"));
    for hand in [Hand::DrainHost, Hand::UndrainHost] {
        let session = Session::new(rig.world_of(&eva), spec(HOME), Some(bundle()));
        let intent = Intent::ByHand(ByHand::of_host(hand, "pve9"));
        let wrong = controller.quiet(session, intent, &eva).await.unwrap();
        let Ended::UnknownName(unknown) = &wrong.ended else { panic!("{:?}", wrong.ended) };
        assert_eq!((unknown.name.as_str(), unknown.known.join(" ").as_str()), ("pve9", "pve1 pve2 pve3"));
    }
}

/// What a person drained stays so whatever `apply` does, until a person takes it back.
#[tokio::test(start_paused = true)]
async fn a_cordon_by_hand_is_a_persons() {
    let rig = Rig::healthy().await;
    let (controller, eva) = (Controller::of(&rig), operator("eva"));
    let session = || Session::new(rig.world_of(&eva), spec(HOME), Some(bundle()));
    let schedulable = async |name: &str| rig.observe(HOME).await.observed.kubernetes.nodes[name].schedulable;
    for hand in [Hand::Cordon, Hand::Drain] {
        let done = controller.quiet(session(), by_hand(hand, &["home-work-1"]), &eva).await.unwrap();
        assert!(matches!(done.ended, Ended::Converged), "{:?}", done.ended);
        assert!(!schedulable("home-work-1").await);
        let cordon = rig.observe(HOME).await.observed.kubernetes.nodes["home-work-1"].cordon();
        let Some(Cordon::Person { command: Some(command) }) = cordon else { panic!("{cordon:?}") };
        assert_eq!(
            command, "cordon by eva@test",
            "leftover: its command is known, and a drain after it keeps it"
        );
        let applied = controller.quiet(session(), Intent::Apply, &eva).await.unwrap();
        assert!(matches!(applied.ended, Ended::Converged) && applied.runs == 0, "{:?}", applied.ended);
        assert!(!schedulable("home-work-1").await, "{hand}: apply leaves it");
    }
    let done = controller.quiet(session(), by_hand(Hand::Uncordon, &["home-work-1"]), &eva).await.unwrap();
    assert!(matches!(done.ended, Ended::Converged), "{:?}", done.ended);
    assert!(schedulable("home-work-1").await);
}

/// A node that was shut down is off, and the next apply brings it back with its pods.
#[tokio::test(start_paused = true)]
async fn a_node_that_was_shut_down_comes_back_with_the_next_apply() {
    let rig = Rig::healthy().await;
    let (controller, eva) = (Controller::of(&rig), operator("eva"));
    let session = || Session::new(rig.world_of(&eva), spec(HOME), Some(bundle()));
    let off = by_hand(Hand::Shutdown, &["home-work-1", "home-work-2"]);
    let done = controller.quiet(session(), off, &eva).await.unwrap();
    assert!(matches!(done.ended, Ended::Left(Left::Blocked)), "the budget is one: {:?}", done.ended);
    let running = async |vmid| rig.systems.pve.is_running(&rig.host_of(vmid).await, vmid).await.unwrap();
    assert!(!running(150_021).await && running(150_022).await);
    let applied = controller.quiet(session(), Intent::Apply, &eva).await.unwrap();
    assert!(matches!(applied.ended, Ended::Converged), "{:?}", applied.ended);
    rig.assert_whole().await;
    let nodes = rig.observe(HOME).await.observed.kubernetes.nodes.clone();
    assert!(nodes["home-work-1"].schedulable, "Talosmith cordoned it, and takes that back");
}

/// A closed maintenance window is no failure: what may start is done, and the rest is left.
#[tokio::test(start_paused = true)]
async fn x2_4_outside_of_the_window_only_disruptions_are_left() {
    let rig = Rig::healthy().await;
    let controller = Controller::of(&rig);
    let hour = |hours: i64| {
        let at = rig.systems.clock.now() + jiff::SignedDuration::from_hours(hours);
        jiff::tz::TimeZone::fixed(jiff::tz::offset(2)).to_datetime(at).strftime("%H:00").to_string()
    };
    let file = HOME.replace("pools:", "defaults: { worker: { cpu: 6, labels: { a: b } } }\npools:")
        + &format!(
            "changes: {{ window: {{ from: '{}', to: '{}', time_zone: '+02:00' }} }}\n",
            hour(2),
            hour(4)
        );
    let boots = rig.boots();
    let Reconciled { ended, runs, last } =
        controller.reconcile(&file, &operator("me"), Mandate::FirstPlan).await.unwrap();
    assert!(matches!(ended, Ended::Left(Left::Blocked)), "{ended:?}");
    assert_eq!((runs, boots), (1, rig.boots()));
    assert_eq!(controller.memory.reports.lock().unwrap().len(), 0);
    let (snapshot, plan) = last.unwrap();
    assert_eq!((plan.steps.len(), plan.units.len(), plan.blocked.len()), (0, 0, 2), "{plan:?}");
    let opens = format!("at {} +02:00", hour(2));
    for blocked in &plan.blocked {
        assert!(blocked.what.contains("does not power cycle home-work-"), "{blocked:?}");
        assert!(blocked.what.ends_with(&opens), "{blocked:?}");
    }
    assert!(plan.notes.iter().any(|note| note.text.contains("maintenance window")), "{:?}", plan.notes);
    assert_eq!(snapshot.observed.kubernetes.nodes["home-work-1"].labels["a"], "b");
    let journal = controller.memory.journal.lock().unwrap();
    assert!(!journal.iter().any(|event| matches!(event.what, What::StepFailed { .. })));
}
