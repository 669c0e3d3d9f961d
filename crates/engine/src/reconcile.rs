//! Brings a cluster to its file, and keeps at it until nothing is left that may be done.
//!
//! ```text
//!        ┌────────────────────────────────────────────────────────────────┐
//!        ▼                                                                │
//!     observe ─► plan ─► approved? ─► secrets? ─► run ─► done, or another ┘
//!                  │         │                     │     operator was there
//!                  ▼         ▼                     ▼
//!          nothing left   declined      failed, busy, interrupted
//! ```
//!
//! Every round observes again: after an answer, because a person may take long; after the secrets of a new cluster were created,
//! because identities derive from them; after another operator; and after a run that ended well, because some changes only show then
//! (a VM that was off is compared with the file once it runs) and some are made one after the other (the second of two control plane
//! nodes that leave). What the approval covers is done without another question. A plan that comes back although it was run is run
//! once more, and then reported as left.
//!
//! A command line, a controller and a provider call this and have no decision of their own. They hand in the stores, an
//! [`Approver`] that answers for a person, and a [`Listener`] that shows what happens.

mod approval;
mod locked;
mod notice;
mod run;
mod window;

use std::collections::BTreeSet;
use std::future::Future;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use model::event::Consent;
use model::names::NodeName;
use model::plan::Plan;
use model::plan::by_hand::{ByHand, Hand};
use model::plan::remnants::{self, Remnant};
use model::unit::Goal;
use secrecy::SecretString;
use tokio::sync::watch;

use crate::apply::Stop;
use crate::error::{Error, Kind};
use crate::lease::{self, Operator};
use crate::saved::SavedPlan;
use crate::session::{Given, ObserveError, Session, Snapshot, UnknownName};
use crate::stores::Stores;

pub use approval::{Answer, Approver, Mandate, Question};
pub use notice::{Listener, Notice, Why};

use approval::Approved;
use run::Ran;

/// How often a plan is made again because another operator had the cluster in between.
const ATTEMPTS: usize = 3;
/// How often a plan that keeps changing is asked for.
const QUESTIONS: usize = 5;
/// How often a plan that was run before may come back.
const REPEATS: usize = 2;

/// What an operator wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Intent {
    /// The cluster as the file describes it.
    Apply,
    /// No cluster.
    Destroy,
    /// What a person asks of single nodes, once.
    ByHand(ByHand),
}

impl Intent {
    /// What the journal calls it.
    fn verb(&self) -> &'static str {
        match self {
            Self::Apply => "apply",
            Self::Destroy => "destroy",
            Self::ByHand(asked) => match asked.hand {
                Hand::Reboot => "reboot",
                Hand::Shutdown => "shutdown",
                Hand::Cordon => "cordon",
                Hand::Uncordon => "uncordon",
                Hand::Drain => "drain",
                Hand::Replace => "replace",
                Hand::DrainHost => "host-drain",
                Hand::UndrainHost => "host-undrain",
            },
        }
    }
}

/// Everything that the loop needs beside the session.
pub struct Reconcile<'a> {
    /// What is wanted.
    pub intent: Intent,
    /// Who wants it.
    pub operator: &'a Operator,
    /// What the operator approves beforehand.
    pub mandate: Mandate,
    /// Who is asked for the rest.
    pub approver: &'a dyn Approver,
    /// What is kept outside of the cluster.
    pub stores: Stores<'a>,
    /// Who is told what happens.
    pub listener: Listener,
    /// The wish to stop.
    pub stop: watch::Receiver<Stop>,
    /// How long runs may take, from the start of the first one.
    pub limit: Option<Duration>,
    /// What no report may contain, beside the secrets of the bundle.
    pub secrets: Vec<SecretString>,
}

/// How it ended, and the state of the cluster then, as far as it was observed.
pub struct Reconciled {
    /// How it ended.
    pub ended: Ended,
    /// How many plans were run.
    pub runs: usize,
    /// What was observed last, and the plan for it.
    pub last: Option<(Snapshot, Plan)>,
}

/// How it ended.
#[derive(Debug)]
pub enum Ended {
    /// Nothing is left to do.
    Converged,
    /// Something is left to do.
    Left(Left),
    /// The plan was refused, and nothing was changed.
    Refused,
    /// A name that the operator gave is not one of a node, or of a disk. Nothing was changed.
    UnknownName(UnknownName),
    /// The saved plan is not what planning gives now.
    Outdated(Box<SavedPlan>),
    /// The question was not answered with yes, and nothing was changed.
    Declined,
    /// It was stopped from outside.
    Interrupted {
        /// While a plan was run, so that events say how far it came.
        running: bool,
    },
    /// A step failed.
    Failed,
    /// Another operator has the lease now.
    Busy,
}

impl Ended {
    /// Stopped while nothing was changed.
    const IDLE: Self = Self::Interrupted { running: false };
}

/// Why something is left to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Left {
    /// The plan has changes that it does not make.
    Blocked,
    /// Something could not be observed.
    Unknown,
    /// After a run, the plan for the rest is refused.
    Refused,
    /// These goals were not approved.
    Unapproved(BTreeSet<Goal>),
    /// The steps were done, and are to be done again.
    NoProgress,
    /// The deletion could not remove this.
    Remnants(Vec<Remnant>),
}

/// Where the loop stands.
struct Course {
    session: Session,
    why: Why,
    approved: Approved,
    /// The plan that was shown last.
    shown: Option<Plan>,
    history: History,
    others: usize,
    questions: usize,
    deadline: Option<Timestamp>,
    lock: Option<Box<dyn Send + Sync>>,
    /// Since when this waits for a task of Proxmox that holds a VM.
    held_since: Option<Timestamp>,
}

impl Reconcile<'_> {
    /// Runs the loop to its end.
    ///
    /// # Errors
    ///
    /// When the cluster cannot be observed, the file does not fit to it, a store fails, or another operator holds the lease. What
    /// fails while a plan is run is an event, and [`Ended`] says so.
    pub async fn run(&self, session: Session) -> Result<Reconciled, ObserveError> {
        let mut course = Course {
            session,
            why: Why::First,
            approved: Approved::default(),
            shown: None,
            history: History::default(),
            others: 0,
            questions: 0,
            deadline: None,
            lock: None,
            held_since: None,
        };
        loop {
            let Some(seen) = self.unless_stopped(self.observe(&course.session)).await else {
                return Ok(course.ended(Ended::IDLE, None));
            };
            let (snapshot, mut plan) = seen?;
            match self.unless_stopped(self.wait_for_task(&mut course, &snapshot)).await {
                None => return Ok(course.ended(Ended::IDLE, None)),
                Some(true) => continue,
                Some(false) => {}
            }
            if let Some(ended) = Box::pin(self.round(&mut course, &snapshot, &mut plan)).await? {
                return Ok(course.ended(ended, Some((snapshot, plan))));
            }
        }
    }

    async fn observe(&self, session: &Session) -> Result<(Snapshot, Plan), ObserveError> {
        Ok(match &self.intent {
            Intent::ByHand(asked) => {
                let snapshot = session.observe_by_hand(asked).await?;
                let plan = snapshot.plan_by_hand(asked);
                (snapshot, plan)
            }
            Intent::Apply => {
                let snapshot = session.observe().await?;
                let plan = snapshot.plan();
                (snapshot, plan)
            }
            Intent::Destroy => {
                let snapshot = session.observe_to_destroy().await?;
                let plan = snapshot.plan_destroy();
                (snapshot, plan)
            }
        })
    }

    /// One round with what was observed. Nothing when there is another one.
    async fn round(
        &self,
        course: &mut Course,
        snapshot: &Snapshot,
        plan: &mut Plan,
    ) -> Result<Option<Ended>, ObserveError> {
        if let Some(ended) = self.unusable(course, snapshot, plan)? {
            return Ok(Some(ended));
        }
        window::hold(snapshot, plan, course.session.systems.clock.now());
        let plan = &*plan;
        let lacks = course.approved.lacks(&self.intent, plan);
        self.show(course, snapshot, plan, &lacks);
        if let Some(ended) = self.settled(course, snapshot, plan) {
            return Ok(Some(ended));
        }
        snapshot.read_references(plan)?;
        if !lacks.is_empty() {
            match self.approve(course, plan, lacks).await? {
                Approve::Beforehand => {}
                // A person may have thought for long.
                Approve::Answered => {
                    course.why = Why::Answered;
                    return Ok(None);
                }
                Approve::No(ended) => return Ok(Some(ended)),
            }
        }
        if snapshot.blueprint.cluster_id.is_none() {
            // Keys must be kept before the first machine is given an identity that derives from them.
            let (spec, now) = (course.session.spec(), course.session.systems.clock.now());
            let creating = self.stores.bundles.create(spec, now);
            let Some(bundle) = self.unless_stopped(creating).await else {
                return Ok(Some(Ended::IDLE));
            };
            course.session = course.session.with_bundle(bundle?);
            course.why = Why::NewSecrets;
            return Ok(None);
        }
        if course.lock.is_none() && !snapshot.blueprint.has_proxmox() {
            course.lock = Some(self.stores.lock.lock(snapshot.cluster_id()?)?);
        }
        self.run_once(course, snapshot, plan).await
    }

    /// Why the plan cannot be used at all: names that do not exist, a saved plan that is not this one, or another operator.
    fn unusable(
        &self,
        course: &Course,
        snapshot: &Snapshot,
        plan: &Plan,
    ) -> Result<Option<Ended>, ObserveError> {
        if course.why == Why::First
            && let Some(unknown) = snapshot.unknown_name().or_else(|| self.unknown_argument(snapshot))
        {
            return Ok(Some(Ended::UnknownName(unknown)));
        }
        if let (Mandate::Saved(saved), Why::First | Why::OtherOperator) = (&self.mandate, course.why) {
            if course.why == Why::First {
                saved.verify(snapshot.plan_key()).map_err(|error| {
                    Error::new(Kind::Refused, "could not use the saved plan").because(error)
                })?;
            }
            let now = SavedPlan::new(snapshot, plan);
            if course.history.is_empty() && !saved.still_holds(&now) {
                return Ok(Some(Ended::Outdated(Box::new(now))));
            }
        }
        // Where another operator is at work, a plan is of no use.
        if let Some(record) = &snapshot.observed.proxmox.record
            && !plan.steps.is_empty()
        {
            lease::may_begin(&record.state, self.operator, course.session.systems.clock.now())?;
        }
        Ok(None)
    }

    /// A node that the command names and the file does not have, or a host that Proxmox does not have.
    fn unknown_argument(&self, snapshot: &Snapshot) -> Option<UnknownName> {
        let Intent::ByHand(asked) = &self.intent else { return None };
        if let Some(host) = &asked.host {
            let hosts = &snapshot.observed.proxmox.inventory.hosts;
            return UnknownName::of(Given::Host, host, hosts.keys().cloned().collect());
        }
        let nodes = snapshot.blueprint.in_order();
        let known: Vec<NodeName> = nodes.into_iter().map(|node| node.name.clone()).collect();
        asked.nodes.iter().find_map(|name| UnknownName::among(Given::Argument, name, &known))
    }

    /// Shows a plan that is new to the operator.
    fn show(&self, course: &mut Course, snapshot: &Snapshot, plan: &Plan, lacks: &BTreeSet<Goal>) {
        let why = course.why;
        // With its secrets a new cluster has other identities, and the same plan.
        let is_new =
            course.shown.as_ref().is_none_or(|shown| !shown.same_work(plan)) && why != Why::NewSecrets;
        if is_new || !lacks.is_empty() || !plan.refusals.is_empty() || plan.steps.is_empty() {
            (self.listener)(Notice::Planned { snapshot, plan, why });
        }
        course.shown = Some(plan.clone());
    }

    /// How it ends where there is nothing to run.
    fn settled(&self, course: &mut Course, snapshot: &Snapshot, plan: &Plan) -> Option<Ended> {
        if !plan.refusals.is_empty() {
            return Some(match course.history.is_empty() {
                true => Ended::Refused,
                false => Ended::Left(Left::Refused),
            });
        }
        if plan.steps.is_empty() {
            let remnants = match self.intent {
                Intent::Destroy => remnants::remnants(&snapshot.blueprint, &snapshot.observed, plan),
                Intent::Apply | Intent::ByHand(_) => vec![],
            };
            return Some(match () {
                () if !remnants.is_empty() => Ended::Left(Left::Remnants(remnants)),
                () if !plan.blocked.is_empty() => Ended::Left(Left::Blocked),
                () if !plan.unknown.is_empty() => Ended::Left(Left::Unknown),
                () => Ended::Converged,
            });
        }
        let stuck = course.why == Why::Ran && course.history.is_stuck(plan);
        stuck.then_some(Ended::Left(Left::NoProgress))
    }

    /// Gets the approval for goals that lack it.
    async fn approve(
        &self,
        course: &mut Course,
        plan: &Plan,
        lacks: BTreeSet<Goal>,
    ) -> Result<Approve, ObserveError> {
        let beforehand = match &self.mandate {
            Mandate::FirstPlan if course.why == Why::First => Some(Consent::Beforehand),
            Mandate::Saved(_) if course.why == Why::First => Some(Consent::SavedPlan),
            _ => None,
        };
        if let Some(how) = beforehand {
            course.approved.add(&self.intent, plan, lacks, how);
            return Ok(Approve::Beforehand);
        }
        if matches!(self.mandate, Mandate::Saved(_)) {
            return Ok(Approve::No(Ended::Left(Left::Unapproved(lacks))));
        }
        if course.questions >= QUESTIONS {
            return Err(Error::new(Kind::Busy, "the cluster keeps changing while the plan is confirmed")
                .hint("run the command again when no other run changes it")
                .into());
        }
        course.questions += 1;
        let again = course.approved.how.is_some();
        let asking =
            self.approver.ask(Question { plan, goals: &lacks, again, ran: !course.history.is_empty() });
        let Some(answer) = self.unless_stopped(asking).await else {
            return Ok(Approve::No(Ended::IDLE));
        };
        Ok(match answer? {
            Answer::Approved => {
                course.approved.add(&self.intent, plan, lacks, Consent::Answer);
                Approve::Answered
            }
            Answer::Declined if course.history.is_empty() => Approve::No(Ended::Declined),
            Answer::Declined | Answer::Unavailable => Approve::No(Ended::Left(Left::Unapproved(lacks))),
        })
    }

    /// Runs the plan, and says whether there is another round.
    async fn run_once(
        &self,
        course: &mut Course,
        snapshot: &Snapshot,
        plan: &Plan,
    ) -> Result<Option<Ended>, ObserveError> {
        if course.deadline.is_none() {
            let limit = self.limit.and_then(|limit| SignedDuration::try_from(limit).ok());
            let now = course.session.systems.clock.now();
            course.deadline = limit.and_then(|limit| now.checked_add(limit).ok());
        }
        let ran =
            self.carry_out(&course.session, (snapshot, plan), &course.approved, course.deadline).await?;
        match ran {
            Ran::Done => {
                course.history.ran.push(plan.clone());
                course.why = Why::Ran;
                course.others = 0;
                // What was requested with this command is done once, and its steps have verified it.
                let once =
                    matches!(self.intent, Intent::ByHand(_)).then_some(match plan.blocked.is_empty() {
                        true => Ended::Converged,
                        false => Ended::Left(Left::Blocked),
                    });
                Ok(once)
            }
            Ran::Failed => Ok(Some(Ended::Failed)),
            Ran::Busy => Ok(Some(Ended::Busy)),
            Ran::Interrupted => Ok(Some(Ended::Interrupted { running: true })),
            Ran::Stale => {
                course.others += 1;
                if course.others >= ATTEMPTS {
                    return Err(Error::new(Kind::Busy, "other operators keep changing the cluster").into());
                }
                (self.listener)(Notice::OtherOperator);
                course.why = Why::OtherOperator;
                Ok(None)
            }
        }
    }

    /// Does what may be left undone, unless the operator wants to stop.
    async fn unless_stopped<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let mut stop = self.stop.clone();
        let stopped = async {
            // A sender that is gone never asks to stop.
            if stop.wait_for(|wish| *wish >= Stop::Graceful).await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            biased;
            () = stopped => None,
            done = work => Some(done),
        }
    }
}

/// What was run.
#[derive(Default)]
struct History {
    ran: Vec<Plan>,
    /// How often a plan came back that was run before.
    repeats: usize,
}

impl History {
    fn is_empty(&self) -> bool {
        self.ran.is_empty()
    }

    /// Whether running this plan, too, would bring the cluster no further. Two plans that bring each other back count as well.
    fn is_stuck(&mut self, plan: &Plan) -> bool {
        self.repeats += usize::from(self.ran.iter().any(|ran| ran.same_work(plan)));
        self.repeats >= REPEATS
    }
}

/// What became of a plan that lacks an approval.
enum Approve {
    /// It was approved before it was made.
    Beforehand,
    /// A person approved it now.
    Answered,
    /// It is not run.
    No(Ended),
}

impl Course {
    fn ended(&self, ended: Ended, last: Option<(Snapshot, Plan)>) -> Reconciled {
        Reconciled { ended, runs: self.history.ran.len(), last }
    }
}

#[cfg(test)]
mod tests {
    use model::names::VmRef;
    use model::step::{Action, Disruption, Step};

    use super::*;

    /// A plan that starts this node.
    fn plan(node: &str) -> Plan {
        let action = Action::StartVm { node: node.into(), vm: VmRef::new("pve1", 1) };
        let step = Step {
            id: action.id(),
            action,
            after: vec![],
            reason: String::new(),
            disruption: Disruption::None,
            seconds: 1,
            unit: None,
        };
        Plan {
            cluster: "home".to_owned(),
            steps: vec![step],
            units: vec![],
            notes: vec![],
            unknown: vec![],
            blocked: vec![],
            refusals: vec![],
            held: vec![],
            upgrade: None,
        }
    }

    #[test]
    fn a_plan_that_comes_back_is_run_once_more_and_no_further() {
        let mut history = History::default();
        let mut runs = |nodes: &[&str]| -> usize {
            let mut count = 0;
            for node in nodes {
                if history.is_stuck(&plan(node)) {
                    break;
                }
                history.ran.push(plan(node));
                count += 1;
            }
            history = History::default();
            count
        };
        assert_eq!(runs(&["a", "b", "c", "d"]), 4, "each brings the cluster further");
        assert_eq!(runs(&["a", "a", "a", "a"]), 2);
        assert_eq!(runs(&["a", "b", "a", "b", "a"]), 3, "two that bring each other back");
    }
}
