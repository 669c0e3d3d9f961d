//! Carries out a plan.
//!
//! One task owns everything: it starts steps whose needs are met, linearises their events, renews the lease and listens
//! to the wish to stop. Steps are futures that it polls; they own nothing but themselves. On Proxmox' side at most
//! four steps run on one host at once, because storages take locks; how many requests a host is asked at a time the client
//! bounds by itself.
//!
//! When a step fails, what needs it is skipped and says so; everything else goes on. Nothing is undone: the next run
//! observes the cluster again and continues from there.
//!
//! No step gets on when the lease was not renewed in time by our own clock (`model::lease`): a laptop that slept, or one that
//! Proxmox does not hear, must first find out whether another operator has taken over. A run that started before there was a
//! place for a lease takes it as soon as there is one.
//!
//! The first wish to stop starts no new step, lets calls that change something come to their end for a few minutes, and
//! abandons waiting. The second drops everything at once. Both are safe at any point, as is a crash. The end of the time that the
//! operator gave is like the first, and steps that were still waiting have failed.

mod keeping;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::Poll;
use std::time::Duration;

use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use jiff::Timestamp;
use model::blueprint::Node;
use model::event::{Consent, Outcome, What};
use model::names::VmRef;
use model::ownership;
use model::plan::{Plan, graph};
use model::step::{Action, Step, StepId, UnitId};
use model::unit::{Goal, Unit};
use tokio::sync::{Notify, watch};

use crate::audit::{self, Moment};
use crate::context::{Context, Done, Purpose};
use crate::emit::{Emitter, MOMENT, Progress};
use crate::error::{Error, Kind, Result};
use crate::gate;
use crate::kubernetes_lease::KubernetesLease;
use crate::lease::{self, Holder, Operator};
use crate::record::Record;
use crate::session::Snapshot;
use crate::steps;
use crate::systems::Systems;

/// Steps at once on one Proxmox host.
const PER_HOST: usize = 4;
/// How long calls that change something may take to come to their end after the first wish to stop.
const GRACE_PERIOD: Duration = Duration::from_secs(5 * 60);
/// For giving the lease back at the end.
const TO_RELEASE: Duration = Duration::from_secs(30);
/// The same, for an operator who wants to stop at once.
const AT_ONCE: Duration = Duration::from_secs(1);
/// The command that deletes a cluster.
const DESTROY: &str = "destroy";
/// What events about the lease call their step.
const LEASE: &str = "lease";
/// The code of steps that were still waiting at the end of the operator's time, and what events about that time call their step.
const TIMEOUT: &str = "timeout";
const AFTER_TIMEOUT: &str =
    "run the command again to continue, with a longer `--timeout` if waiting this long is usual here";

/// How much an operator wants to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Stop {
    /// Not at all.
    #[default]
    No,
    /// The time that the operator gave is over: as `Graceful`, and steps that were still waiting have failed.
    Timeout,
    /// After what is being changed right now.
    Graceful,
    /// At once.
    Forced,
}

/// What a run needs beside the plan.
pub struct Run<'a> {
    /// What the steps talk to.
    pub systems: &'a Systems,
    /// What was observed when the plan was made.
    pub snapshot: &'a Snapshot,
    /// Who runs it.
    pub operator: &'a Operator,
    /// The wish to stop.
    pub stop: watch::Receiver<Stop>,
    /// Where events go.
    pub emitter: &'a Emitter,
    /// `apply` or `destroy`, for the journal.
    pub verb: &'a str,
    /// Who approved it, for the journal.
    pub approval: Option<Approval>,
}

/// Who approved a run, and what.
#[derive(Debug, Clone)]
pub struct Approval {
    /// Who it was.
    pub by: String,
    /// In which way.
    pub how: Consent,
    /// What was approved.
    pub goals: Vec<Goal>,
}

/// Runs every step of `plan`.
///
/// # Errors
///
/// When the plan has refusals, there is no bundle, or the lease is another operator's. Failed steps are not errors here:
/// they are events, and the outcome says that there were some.
pub async fn run(run: Run<'_>, plan: &Plan) -> Result<Outcome> {
    if let Some(refusal) = plan.refusals.first() {
        return Err(Error::new(Kind::Refused, refusal.why.clone()).hint(refusal.hint.clone()));
    }
    // A plan from elsewhere may lack an order; better none of it than a part.
    graph::in_order(plan.steps.clone()).map_err(|cycle| {
        Error::new(Kind::Refused, "could not start the plan")
            .hint("this is a bug in Talosmith; report it together with the cluster file")
            .because(cycle)
    })?;
    let began = run.systems.clock.now();
    let holder = Holder { operator: run.operator.clone(), run: run.systems.random.id() };
    let purpose = if run.verb == DESTROY { Purpose::Destroy } else { Purpose::Apply };
    let context = Arc::new(Context::new(run.systems.clone(), run.snapshot.clone(), holder, purpose));
    let waited = Mutex::new(String::new());
    let waits = |note: String| {
        waited.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&note);
        let step = StepId(LEASE.to_owned());
        run.emitter.emit(What::StepProgress { step, node: None, note, percent: None });
    };
    let existing = existing_record(&run, &context, plan)?;
    let taking = async {
        if let Some((record, turns)) = &existing {
            Box::pin(record.take_lease(*turns, waits)).await?;
            context.record.send_replace(Some(record.clone()));
        }
        if !run.snapshot.blueprint.has_proxmox() {
            // Before there is a Kubernetes there is no place for a lease; the plan says so, and it is looked for meanwhile.
            context.kubernetes_lease.send_replace(
                Box::pin(KubernetesLease::take(run.systems, run.snapshot, &context.holder, waits)).await?,
            );
        }
        Ok(())
    };
    let mut stop = run.stop.clone();
    let taken = tokio::select! {
        biased;
        taken = taking => taken,
        request = request(&mut stop, Stop::No) => {
            // One that was being taken over may be ours already, and others should not wait for it to expire.
            let releasing = async {
                match &existing {
                    Some((record, _)) => record.release().await,
                    None if run.snapshot.blueprint.has_proxmox() => Ok(false),
                    None => Box::pin(KubernetesLease::release_of(run.systems, run.snapshot, &context.holder)).await,
                }
            };
            let released = run.systems.clock.timeout(AT_ONCE, releasing).await;
            let kept = matches!(released, Ok(Ok(true)));
            run.started(plan);
            let outcome = if request == Stop::Timeout {
                let note = waited.into_inner().unwrap_or_else(PoisonError::into_inner);
                run.emitter.emit(late(StepId(LEASE.to_owned()), None, "the lease: not acquired", &note));
                Outcome::Failed
            } else {
                run.emitter.emit(What::Interrupted);
                Outcome::Interrupted
            };
            run.say_kept(kept);
            return Ok(run.ended(outcome, began));
        }
        never = run.emitter.handing_on() => match never {},
    };
    run.emitter.hand_on();
    taken?;
    run.started(plan);
    let mut dispatcher = Dispatcher::new(&run, context.clone(), plan);
    let outcome = tokio::select! {
        biased;
        outcome = dispatcher.run() => outcome,
        never = run.emitter.handing_on() => match never {},
    };
    let record_is_gone = plan
        .steps
        .iter()
        .any(|s| matches!(s.action, Action::DeleteRecord { .. }) && dispatcher.done.contains(&s.id));
    // A lease that cannot be given back ends by itself, and for this working folder it is no obstacle.
    let releasing = async {
        let mut kept = false;
        if !record_is_gone && let Ok(record) = context.record() {
            kept |= record.release().await.unwrap_or(false);
        }
        if let Some(lease) = context.kubernetes_lease() {
            kept |= lease.release().await.unwrap_or(false);
        }
        kept
    };
    let at_once = async {
        request(&mut stop, Stop::Graceful).await;
        run.systems.clock.sleep(AT_ONCE).await;
    };
    tokio::select! {
        biased;
        released = run.systems.clock.timeout(TO_RELEASE, releasing) => run.say_kept(released.unwrap_or(false)),
        () = at_once => {}
    }
    Ok(run.ended(outcome, began))
}

impl Run<'_> {
    fn started(&self, plan: &Plan) {
        let (cluster, verb) = (plan.cluster.clone(), self.verb.to_owned());
        self.emitter.emit(What::Started { cluster, verb, steps: plan.steps.len() });
        if let Some(Approval { by, how, goals }) = self.approval.clone() {
            self.emitter.emit(What::Approved { by, how, goals });
        }
    }

    /// Says that the lease stays ours, where it does.
    fn say_kept(&self, kept: bool) {
        if kept {
            let (step, note) = (StepId(LEASE.to_owned()), lease::KEPT.to_owned());
            self.emitter.emit(What::StepProgress { step, node: None, note, percent: None });
        }
    }

    fn ended(&self, outcome: Outcome, began: Timestamp) -> Outcome {
        self.emitter.emit(What::Ended { outcome, millis: millis(began, self.systems.clock.now()) });
        self.emitter.hand_on();
        outcome
    }
}

struct Dispatcher<'a> {
    emitter: &'a Emitter,
    systems: &'a Systems,
    stop: watch::Receiver<Stop>,
    context: Arc<Context>,
    waiting: Vec<Step>,
    /// Disruptions, and how many steps of each have not succeeded yet.
    units: BTreeMap<UnitId, (Arc<Unit>, usize)>,
    running: BTreeMap<StepId, Running>,
    done: BTreeSet<StepId>,
    /// Steps that failed or were skipped, with the one at fault.
    lost: BTreeMap<StepId, StepId>,
    /// What is said of steps that failed.
    faults: BTreeMap<StepId, String>,
    failed: bool,
}

struct Running {
    host: Option<String>,
    unit: Option<UnitId>,
    began: Timestamp,
    /// When the gate opened for it, where it waited there.
    permitted: Arc<OnceLock<Timestamp>>,
    node: Option<String>,
    /// Asks the step to end as soon as it only waits.
    abandon: watch::Sender<bool>,
    title: String,
    progress: Progress,
}

/// A step's end: `None` when it was abandoned.
type Ended = (StepId, Option<Result<Done>>);

impl<'a> Dispatcher<'a> {
    fn new(run: &Run<'a>, context: Arc<Context>, plan: &Plan) -> Self {
        context.permits.state().order = plan.units.iter().map(|unit| unit.id.clone()).collect();
        Self {
            emitter: run.emitter,
            systems: run.systems,
            stop: run.stop.clone(),
            context,
            waiting: plan.steps.clone(),
            units: units_of(plan),
            running: BTreeMap::new(),
            done: BTreeSet::new(),
            lost: BTreeMap::new(),
            faults: BTreeMap::new(),
            failed: false,
        }
    }

    async fn run(&mut self) -> Outcome {
        let mut futures: FuturesUnordered<BoxFuture<'static, Ended>> = FuturesUnordered::new();
        let mut stopping = Stop::No;
        let urgent = Arc::new(Notify::new());
        let mut lease = Box::pin(keeping::keep(self.context.clone(), urgent.clone()));
        let mut stop = self.stop.clone();
        // Steps that end at one moment are all counted before others start, so that chance does not choose who is next.
        let mut settling: Option<BoxFuture<'static, ()>> = None;
        let mut timeout: Option<BoxFuture<'static, ()>> = None;
        loop {
            if stopping == Stop::No && settling.is_none() {
                self.skip_the_lost();
                self.note_lost_control_plane();
                for step in self.startable() {
                    futures.push(self.begin(step));
                }
            }
            if self.running.is_empty() && settling.is_none() {
                if stopping == Stop::No {
                    self.fail_the_stuck();
                }
                break;
            }
            let settled = once_set(&mut settling);
            let waited = once_set(&mut timeout);
            let context = &self.context;
            let ended = std::future::poll_fn(|cx| {
                if !context.may_change() {
                    urgent.notify_one();
                    return Poll::Pending;
                }
                match futures.poll_next_unpin(cx) {
                    // Nothing runs; something else is waited for.
                    Poll::Ready(None) => Poll::Pending,
                    Poll::Ready(Some(ended)) => Poll::Ready(ended),
                    Poll::Pending => Poll::Pending,
                }
            });
            tokio::select! {
                biased;
                request = request(&mut stop, stopping) => {
                    // After the end of the time, a person may still want to stop at once.
                    if request == Stop::Graceful && stopping == Stop::Timeout {
                        stopping = request;
                        self.emitter.emit(What::Interrupted);
                        continue;
                    }
                    if stopping == Stop::No && request != Stop::Timeout {
                        self.emitter.emit(What::Interrupted);
                    }
                    stopping = request;
                    if stopping == Stop::Forced {
                        break;
                    }
                    self.abandon_waiting(request == Stop::Timeout);
                    let clock = self.systems.clock.clone();
                    timeout = Some(Box::pin(async move { clock.sleep(GRACE_PERIOD).await }));
                }
                // Before the steps, which get on only with a lease that holds.
                lost = &mut lease => {
                    self.lease_lost(&lost);
                    break;
                }
                (id, result) = ended => {
                    self.end(&id, result, stopping == Stop::Timeout);
                    if settling.is_none() {
                        let clock = self.systems.clock.clone();
                        settling = Some(Box::pin(async move { clock.sleep(MOMENT).await }));
                    }
                }
                () = settled => settling = None,
                () = waited => {
                    self.leave_alone();
                    break;
                }
            }
        }
        self.outcome(stopping)
    }

    /// How the run ended. What the operator's time was too short for has failed.
    fn outcome(&mut self, stopping: Stop) -> Outcome {
        if stopping == Stop::Timeout && !self.failed && !self.waiting.is_empty() {
            self.failed = true;
            let left = match self.waiting.len() {
                1 => "1 step".to_owned(),
                left => format!("{left} steps"),
            };
            let step = StepId(TIMEOUT.to_owned());
            self.emitter.emit(late(step, None, &format!("{left} of the plan: not started"), ""));
        }
        match (stopping, self.failed) {
            (Stop::No | Stop::Timeout, false) => Outcome::Done,
            (Stop::No | Stop::Timeout, true) => Outcome::Failed,
            (Stop::Graceful | Stop::Forced, _) => Outcome::Interrupted,
        }
    }

    /// Takes out of the queue what may start now.
    fn startable(&mut self) -> Vec<Step> {
        let mut begin = vec![];
        let mut busy: BTreeMap<String, usize> = BTreeMap::new();
        for host in self.running.values().filter_map(|r| r.host.clone()) {
            *busy.entry(host).or_default() += 1;
        }
        let done = &self.done;
        // The console of a VM is opened when it starts, and read until the machine is configured. A step that waits for one does
        // not occupy its host. Where nothing runs, nothing would release one.
        let mut consoles = (0, BTreeMap::<String, usize>::new());
        let (idle, systems) = (self.running.is_empty(), self.systems);
        self.waiting.retain(|step| {
            if !step.after.iter().all(|id| done.contains(id)) {
                return true;
            }
            if let Some(host) = step.action.host() {
                let running = busy.entry(host.to_owned()).or_default();
                if *running >= PER_HOST {
                    return true;
                }
                if let Action::StartVm { vm: VmRef { host, .. }, .. } = &step.action {
                    let (all, here) = systems.consoles.free(host);
                    let starting = consoles.1.get(host).copied().unwrap_or(0);
                    if !idle && (all <= consoles.0 || here <= starting) {
                        return true;
                    }
                    consoles.0 += 1;
                    consoles.1.insert(host.clone(), starting + 1);
                }
                *running += 1;
            }
            begin.push(step.clone());
            false
        });
        begin
    }

    fn begin(&mut self, step: Step) -> BoxFuture<'static, Ended> {
        let node = step.action.node().map(str::to_owned);
        let title = step.action.describe();
        let is_first = step.unit.as_ref().is_some_and(|unit| self.context.permits.permit(unit).is_none());
        // The first step of a unit starts when the gate has opened. Until then it says what it waits for.
        if !is_first {
            self.emitter.emit(started(&step));
        }
        let progress: Progress = self.emitter.step(&step.id, node.as_deref());
        let unit = step.unit.as_ref().and_then(|id| self.units.get(id)).map(|(unit, _)| unit.clone());
        let (abandon, mut abandoned) = watch::channel(false);
        let mut waits = progress.waits();
        let ends_unit =
            step.unit.as_ref().and_then(|id| self.units.get(id)).is_some_and(|(_, left)| *left == 1);
        let running = Running {
            host: step.action.host().map(str::to_owned),
            unit: step.unit.clone(),
            began: self.systems.clock.now(),
            permitted: Arc::default(),
            node: node.clone(),
            abandon,
            title,
            progress: progress.clone(),
        };
        let permitted = running.permitted.clone();
        self.running.insert(step.id.clone(), running);
        let context = self.context.clone();
        Box::pin(async move {
            let id = step.id.clone();
            let abandoned = async {
                let asked = abandoned.wait_for(|asked| *asked).await.is_ok();
                if !asked || waits.wait_for(|waits| *waits).await.is_err() {
                    std::future::pending::<()>().await;
                }
            };
            tokio::select! {
                biased;
                () = abandoned => (id, None),
                result = with_permit(&context, &step, unit.as_deref().map(|unit| (unit, ends_unit)), &permitted, &progress) => (id, Some(result)),
            }
        })
    }

    fn end(&mut self, id: &StepId, result: Option<Result<Done>>, timeout: bool) {
        let Some(running) = self.running.remove(id) else { return };
        match result {
            None => self.abandoned(id, running, timeout),
            Some(Ok(done)) => {
                self.done.insert(id.clone());
                let began = running.permitted.get().copied().unwrap_or(running.began);
                self.emitter.emit(What::StepDone {
                    step: id.clone(),
                    node: running.node,
                    millis: millis(began, self.systems.clock.now()),
                    warnings: done.warnings,
                });
                self.step_of_unit_done(running.unit.as_ref(), id);
            }
            Some(Err(error)) => {
                self.failed = true;
                self.lost.insert(id.clone(), id.clone());
                self.faults.insert(id.clone(), error.to_string());
                let advice = error.advice().unwrap_or("run the command again to continue").to_owned();
                self.emitter.emit(What::StepFailed {
                    step: id.clone(),
                    node: running.node,
                    code: error.code().to_owned(),
                    causes: error.causes(),
                    hint: advice,
                });
                self.unit_failed(running.unit.as_ref(), id);
            }
        }
    }

    /// A step of a unit failed. A unit that had started closes the gate.
    fn unit_failed(&self, unit: Option<&UnitId>, step: &StepId) {
        let Some((unit, _)) = unit.and_then(|id| self.units.get(id)) else { return };
        if self.context.permits.permit(&unit.id).is_some() {
            let (id, node, goal, step) =
                (unit.id.clone(), unit.node.to_string(), unit.goal.clone(), step.clone());
            self.context.permits.leave(&id, false);
            self.emitter.emit(What::UnitFailed { unit: id, node, goal, step });
        }
    }

    /// A step of a unit is done. With the last one the unit is verified, and others may count on its node.
    fn step_of_unit_done(&mut self, unit: Option<&UnitId>, step: &StepId) {
        let Some((unit, left)) = unit.and_then(|id| self.units.get_mut(id)) else { return };
        *left = left.saturating_sub(1);
        if *left == 0 {
            self.context.permits.leave(&unit.id, true);
            let (id, node, goal, step) =
                (unit.id.clone(), unit.node.to_string(), unit.goal.clone(), step.clone());
            self.emitter.emit(What::UnitVerified { unit: id, node, goal, step });
        }
    }

    /// What needs a lost step is lost too; each names the step that is really at fault, so one cause is told once.
    fn skip_the_lost(&mut self) {
        loop {
            let found = self.waiting.iter().enumerate().find_map(|(at, step)| {
                let fault = step.after.iter().find_map(|id| self.lost.get(id))?;
                Some((at, fault.clone()))
            });
            let Some((at, because)) = found else { return };
            let step = self.waiting.remove(at);
            self.lost.insert(step.id.clone(), because.clone());
            // What its unit has started is left half done.
            self.unit_failed(step.unit.as_ref(), &because);
            let node = step.action.node().map(str::to_owned);
            self.emitter.emit(What::StepSkipped { step: step.id, node, because });
        }
    }

    /// Which control plane nodes cannot come up any more, because they lost a step.
    fn note_lost_control_plane(&self) {
        let lost = |node: &Node| {
            let ids = [Action::configure(&node.name).id(), Action::Join { node: node.name.clone() }.id()];
            ids.iter().find_map(|id| self.lost.get(id))
        };
        let faults: Vec<&StepId> =
            self.context.snapshot.blueprint.control_planes().filter_map(lost).collect();
        let Some(fault) = faults.first() else { return };
        let why = self.faults.get(*fault).map_or_else(String::new, |why| format!(": {why}"));
        self.context.note_failed_control_planes(faults.len(), format!("{fault} failed{why}"));
    }

    /// Nothing runs, and what is left waits for something that never ends: for each other, or for a step that is not there.
    fn fail_the_stuck(&mut self) {
        for step in std::mem::take(&mut self.waiting) {
            self.failed = true;
            let needs = step.after.iter().filter(|id| !self.done.contains(id));
            let needs: Vec<&str> = needs.map(|id| id.0.as_str()).collect();
            self.emitter.emit(What::StepFailed {
                node: step.action.node().map(str::to_owned),
                code: "internal".to_owned(),
                causes: vec![format!("it was never started: it waits for {}", needs.join(", "))],
                hint: "this is a bug in Talosmith; report it together with the cluster file".to_owned(),
                step: step.id,
            });
        }
    }

    /// Abandons what only waits, and what will only wait later.
    fn abandon_waiting(&mut self, timeout: bool) {
        for running in self.running.values() {
            running.abandon.send_replace(true);
        }
        let waits = |running: &Running| *running.progress.waits().borrow();
        let waiting: Vec<StepId> =
            self.running.iter().filter(|(_, running)| waits(running)).map(|(id, _)| id.clone()).collect();
        for id in waiting {
            self.end(&id, None, timeout);
        }
    }

    /// A step was left while it only waited. At the end of the operator's time, it is what was not finished.
    fn abandoned(&mut self, id: &StepId, running: Running, timeout: bool) {
        if timeout {
            self.failed = true;
            self.lost.insert(id.clone(), id.clone());
            let note = running.progress.last().unwrap_or_default();
            let what = format!("{}: not finished", running.title);
            self.emitter.emit(late(id.clone(), running.node, &what, &note));
        }
    }

    /// What goes on in Proxmox is not waited for any more.
    fn leave_alone(&self) {
        for (step, running) in &self.running {
            let note = "it continues in Proxmox; Talosmith no longer waits for it".to_owned();
            let (step, node) = (step.clone(), running.node.clone());
            self.emitter.emit(What::StepProgress { step, node, note, percent: None });
        }
    }

    fn lease_lost(&mut self, error: &Error) {
        self.failed = true;
        let step = StepId(LEASE.to_owned());
        self.emitter.emit(What::StepFailed {
            step,
            node: None,
            code: error.code().to_owned(),
            causes: error.causes(),
            hint: error
                .advice()
                .unwrap_or("nothing more is changed by this run; `talosmith status` shows its state")
                .to_owned(),
        });
    }
}

/// Every disruption of a plan with the number of its steps.
fn units_of(plan: &Plan) -> BTreeMap<UnitId, (Arc<Unit>, usize)> {
    let steps = |unit: &Unit| plan.steps.iter().filter(|step| step.unit.as_ref() == Some(&unit.id)).count();
    plan.units.iter().map(|unit| (unit.id.clone(), (Arc::new(unit.clone()), steps(unit)))).collect()
}

/// Carries out a step. The first one of a unit waits at the gate; the others have its permit. Kubernetes is told when a unit starts, and
/// when its last step, or one that fails, has ended.
async fn with_permit(
    context: &Context,
    step: &Step,
    unit: Option<(&Unit, bool)>,
    permitted: &OnceLock<Timestamp>,
    progress: &Progress,
) -> Result<Done> {
    let Some((unit, is_last)) = unit else {
        return steps::execute(context, &step.action, None, progress).await;
    };
    let held = context.permits.permit(&unit.id);
    let starts = held.is_none();
    let permit = match held {
        Some(permit) => permit,
        // Nothing is changed before it has the permit.
        None => progress.only_waiting(Box::pin(gate::enter(context, unit, progress))).await?,
    };
    if starts {
        // The wait is none of the step's time.
        let _ = permitted.set(context.systems.clock.now());
        progress.emit(started(step));
        let (id, node, goal, step) =
            (unit.id.clone(), unit.node.to_string(), unit.goal.clone(), step.id.clone());
        progress.emit(What::UnitStarted { unit: id, node, goal, step });
        audit::record(context, unit, Moment::Started).await;
    }
    let result = steps::execute(context, &step.action, Some(&permit), progress).await;
    match &result {
        Ok(_) if is_last => audit::record(context, unit, Moment::Verified).await,
        Ok(_) => {}
        Err(_) => audit::record(context, unit, Moment::Failed).await,
    }
    result
}

fn started(step: &Step) -> What {
    let node = step.action.node().map(str::to_owned);
    What::StepStarted { step: step.id.clone(), title: step.action.describe(), node }
}

/// The record that was observed, with the number of turns of its lease then. One that says nothing is written again by a step,
/// which takes the lease with it.
fn existing_record(run: &Run<'_>, context: &Context, plan: &Plan) -> Result<Option<(Record, u64)>> {
    let Some(seen) = run.snapshot.observed.proxmox.record.as_ref().filter(|seen| !seen.unreadable) else {
        return Ok(None);
    };
    let (id, blueprint) = (run.snapshot.cluster_id()?, &run.snapshot.blueprint);
    let record = Record::existing(run.systems, blueprint, id, &seen.host, seen.vmid, &context.holder);
    let generations = ownership::generations(blueprint, &run.snapshot.observed);
    let deletes = run.verb == DESTROY
        && plan
            .steps
            .iter()
            .any(|step| matches!(step.action, Action::DeleteRecord { .. } | Action::DeleteVm { .. }));
    Ok(Some((record.with_generations(generations).deleting(deletes), seen.state.turns)))
}

/// What the operator's time was too short for.
fn late(step: StepId, node: Option<String>, what: &str, waited_for: &str) -> What {
    let mut causes = vec![format!("{what} when `--timeout` expired")];
    if !waited_for.is_empty() {
        causes.push(format!("Talosmith was waiting: {waited_for}"));
    }
    What::StepFailed { step, node, code: TIMEOUT.to_owned(), causes, hint: AFTER_TIMEOUT.to_owned() }
}

/// Waits for what may not have been set yet.
async fn once_set(moment: &mut Option<BoxFuture<'static, ()>>) {
    match moment {
        Some(moment) => moment.await,
        None => std::future::pending().await,
    }
}

/// The next, stronger wish to stop.
async fn request(stop: &mut watch::Receiver<Stop>, now: Stop) -> Stop {
    loop {
        let request = *stop.borrow_and_update();
        if request > now {
            return request;
        }
        if stop.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

pub(crate) fn millis(from: Timestamp, to: Timestamp) -> u64 {
    u64::try_from(to.duration_since(from).as_millis()).unwrap_or(0)
}
