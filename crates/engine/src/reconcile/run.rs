//! One run of a plan: its journal, its events, the end of the operator's time, and a report should it fail.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use model::event::{Event, Outcome};
use model::plan::Plan;
use secrecy::ExposeSecret;
use tokio::sync::watch;

use super::approval::Approved;
use super::{Notice, Reconcile};
use crate::apply::{self, Run, Stop};
use crate::emit::Emitter;
use crate::error::{Error, Kind, Result};
use crate::report::{self, Failed};
use crate::session::{Session, Snapshot};

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ran {
    /// Every step succeeded.
    Done,
    /// A step failed.
    Failed,
    /// Another operator has the lease now.
    Busy,
    /// It was stopped from outside.
    Interrupted,
    /// Another operator had the lease after the cluster was observed: nothing was changed.
    Stale,
}

impl Reconcile<'_> {
    /// Runs a plan that is approved.
    pub(super) async fn carry_out(
        &self,
        session: &Session,
        (snapshot, plan): (&Snapshot, &Plan),
        approved: &Approved,
        deadline: Option<Timestamp>,
    ) -> Result<Ran> {
        let (clock, store) = (&session.systems.clock, self.stores.journal);
        let journal = store
            .open()
            .map_err(|e| Error::systems(format!("could not open the journal {}", store.name())).because(e))?;
        (self.listener)(Notice::RunStarts(plan));
        let events: Arc<Mutex<Vec<Event>>> = Arc::default();
        let listener = {
            let (listener, events) = (self.listener.clone(), events.clone());
            Arc::new(move |event: &Event| {
                events.lock().unwrap_or_else(PoisonError::into_inner).push(event.clone());
                listener(Notice::Happened(event));
            })
        };
        let emitter = Emitter::new(clock.clone(), plan, Some(journal), listener);
        let approval = approved.how.map(|how| apply::Approval {
            by: self.operator.person.clone(),
            how,
            goals: approved.goals(&self.intent, plan),
        });
        let (request, stop) = watch::channel(Stop::No);
        let run = Run {
            systems: &session.systems,
            snapshot,
            operator: self.operator,
            stop,
            emitter: &emitter,
            verb: self.intent.verb(),
            approval,
        };
        let outcome = tokio::select! {
            biased;
            outcome = Box::pin(apply::run(run, plan)) => outcome,
            never = self.forward(&request) => match never {},
            never = expire(session, deadline, &request) => match never {},
        };
        let outcome = match outcome {
            Ok(outcome) => outcome,
            Err(error) => {
                (self.listener)(Notice::RunCancelled);
                return if error.kind() == Kind::Stale { Ok(Ran::Stale) } else { Err(error) };
            }
        };
        (self.listener)(Notice::RunEnds);
        if let Some(why) = emitter.journal_failure() {
            (self.listener)(Notice::JournalIncomplete { journal: &store.name(), why: &why });
        }
        let events = std::mem::take(&mut *events.lock().unwrap_or_else(PoisonError::into_inner));
        Ok(match outcome {
            Outcome::Done => Ran::Done,
            Outcome::Interrupted => Ran::Interrupted,
            // Another operator goes on with it, so nothing broke.
            Outcome::Failed if events.iter().any(|event| event.what.is_busy()) => Ran::Busy,
            Outcome::Failed => {
                self.report(session, snapshot, &events).await;
                Ran::Failed
            }
        })
    }

    /// Hands the operator's wish to stop on to the run.
    async fn forward(&self, request: &watch::Sender<Stop>) -> Infallible {
        let mut stop = self.stop.clone();
        loop {
            let wish = *stop.borrow_and_update();
            strengthen(request, wish);
            if stop.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    }

    /// Gathers what is needed to understand a failure. That it cannot be had is no reason to end in another way.
    async fn report(&self, session: &Session, snapshot: &Snapshot, events: &[Event]) {
        let mut scrub = session.scrub();
        self.secrets.iter().for_each(|secret| scrub.add(secret.expose_secret()));
        let systems = &session.systems;
        let failed = Failed { systems, snapshot, events, journal: self.stores.journal, scrub: &scrub };
        let Some(files) = self.unless_stopped(report::collect(&failed)).await else { return };
        match self.stores.reports.save(systems.clock.now(), &files) {
            Ok(place) => (self.listener)(Notice::Reported(&place)),
            Err(error) => (self.listener)(Notice::NotReported(&error.to_string())),
        }
    }
}

/// Tells the run when the operator's time is over.
async fn expire(session: &Session, deadline: Option<Timestamp>, request: &watch::Sender<Stop>) -> Infallible {
    if let Some(deadline) = deadline {
        let left = deadline.duration_since(session.systems.clock.now());
        session.systems.clock.sleep(left.try_into().unwrap_or_default()).await;
        strengthen(request, Stop::Timeout);
    }
    std::future::pending().await
}

/// A wish to stop never gets weaker.
fn strengthen(request: &watch::Sender<Stop>, wish: Stop) {
    request.send_if_modified(|request| {
        let stronger = wish > *request;
        *request = wish.max(*request);
        stronger
    });
}
