//! One run: events to the journal, to the view and to the report of a failure; signals to the engine.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use engine::apply::{Run, Stop};
use engine::emit::Emitter;
use engine::error::Kind;
use engine::journal::Journal;
use engine::report::{self, Failed};
use engine::scrub::Scrub;
use engine::{Snapshot, Systems};
use jiff::{SignedDuration, Timestamp};
use model::event::{Event, Outcome};
use model::plan::Plan;
use secrecy::ExposeSecret;
use tokio::sync::watch;

use crate::args::ChangeArgs;
use crate::commands::setup::Setup;
use crate::exit::Exit;
use crate::interrupt;
use crate::outside::Outside;
use crate::place::Place;
use crate::view::{Printer, Problem};

/// What a run needs beside look and plan.
pub struct Change<'a> {
    place: &'a Place,
    systems: &'a Systems,
    args: &'a ChangeArgs,
    verb: &'a str,
    printer: &'a Printer,
    scrub: Scrub,
    /// When the operator's time is over.
    deadline: Option<Timestamp>,
    /// The plan comes from a file.
    saved: bool,
}

impl<'a> Change<'a> {
    /// For a run of `verb`.
    pub fn new(
        setup: &'a Setup,
        outside: &'a Outside,
        args: &'a ChangeArgs,
        verb: &'a str,
        printer: &'a Printer,
    ) -> Result<Self, Problem> {
        let mut scrub = setup.place.load_bundle()?.as_ref().map(Scrub::of).unwrap_or_default();
        scrub.add(outside.token.expose_secret());
        Ok(Self {
            place: &setup.place,
            systems: &outside.systems,
            args,
            verb,
            printer,
            scrub,
            deadline: None,
            saved: false,
        })
    }

    /// Says whether the plan comes from a file.
    pub fn saved(self, saved: bool) -> Self {
        Self { saved, ..self }
    }

    /// Ends runs after this time from now on.
    pub fn within(mut self, limit: Option<Duration>) -> Self {
        let limit = limit.and_then(|limit| SignedDuration::try_from(limit).ok());
        self.deadline = limit.and_then(|limit| self.systems.clock.now().checked_add(limit).ok());
        self
    }

    /// Tells the run when the operator's time is over.
    async fn limit(&self, request: watch::Sender<Stop>) -> Infallible {
        if let Some(deadline) = self.deadline {
            let left = deadline.duration_since(self.systems.clock.now());
            self.systems.clock.sleep(left.try_into().unwrap_or_default()).await;
            request.send_if_modified(|request| {
                let stronger = *request < Stop::Timeout;
                *request = (*request).max(Stop::Timeout);
                stronger
            });
        }
        std::future::pending().await
    }

    /// Carries out a plan. `None` when the world was looked at before somebody else changed it.
    pub async fn carry_out(&self, snapshot: &Snapshot, plan: &Plan) -> Result<Option<Exit>, Problem> {
        let path = self.place.journal();
        let journal = Journal::open(&path).map_err(|e| {
            Problem::of(Exit::Systems, &e).within(format!("could not open the journal {}", path.display()))
        })?;
        let view = Arc::new(self.printer.run(plan, self.saved));
        let events: Arc<Mutex<Vec<Event>>> = Arc::default();
        let listener = {
            let (view, events) = (view.clone(), events.clone());
            Arc::new(move |event: &Event| {
                events.lock().unwrap_or_else(PoisonError::into_inner).push(event.clone());
                view.see(event);
            })
        };
        let emitter = Emitter::new(self.systems.clock.clone(), plan, Some(journal), listener);
        let operator = self.place.operator(self.args.take_over)?;
        let (request, stop) = watch::channel(Stop::No);
        let run = Run {
            systems: self.systems,
            snapshot,
            operator: &operator,
            stop,
            emitter: &emitter,
            verb: self.verb,
        };
        let outcome = tokio::select! {
            biased;
            outcome = engine::apply::run(run, plan) => outcome,
            never = view.ticking(&self.systems.clock) => match never {},
            never = self.limit(request.clone()) => match never {},
            never = interrupt::wishes(request) => match never {},
        };
        let outcome = match outcome {
            Ok(outcome) => outcome,
            // Nothing was started, so there is nothing to sum up.
            Err(error) => {
                view.dismiss();
                return if error.kind() == Kind::Stale { Ok(None) } else { Err(Problem::from(&error)) };
            }
        };
        view.finish();
        if let Some(why) = emitter.journal_failure() {
            self.printer.note(&format!("The journal {} is not complete: {why}.", path.display()));
        }
        let events = std::mem::take(&mut *events.lock().unwrap_or_else(PoisonError::into_inner));
        let exit = match outcome {
            Outcome::Done => Exit::Done,
            Outcome::Interrupted => Exit::Interrupted,
            // Somebody else goes on with it, so nothing broke.
            Outcome::Failed if events.iter().any(|event| event.what.is_busy()) => Exit::Busy,
            Outcome::Failed => Exit::Systems,
        };
        if exit == Exit::Systems {
            self.report(snapshot, &events).await;
        }
        Ok(Some(exit))
    }

    /// Gathers what is needed to understand a failure. That it cannot be had is no reason to end in another way.
    async fn report(&self, snapshot: &Snapshot, events: &[Event]) {
        let journal = self.place.journal();
        let failed =
            Failed { systems: self.systems, snapshot, events, journal: &journal, scrub: &self.scrub };
        match interrupt::unless(report::write(self.place.folder(), &failed)).await {
            Some(Ok(path)) => self.printer.note(&format!(
                "What is needed to understand this is in {} (logs of Proxmox and of the machines, without secrets).",
                path.display()
            )),
            Some(Err(error)) => self.printer.note(&format!("A report could not be written: {error}.")),
            None => {}
        }
    }
}
