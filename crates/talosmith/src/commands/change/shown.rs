//! What a person or a program sees while the loop goes on.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};

use ambient::Clock;
use engine::Snapshot;
use engine::reconcile::{Notice, Why};
use model::plan::Plan;
use model::plan::remnants::remnants;
use tokio::sync::Notify;

use crate::view::{Printer, RunView, Verb};

/// Shows plans and runs.
pub struct Shown {
    printer: Printer,
    verb: Verb,
    /// The plan comes from a file.
    saved: bool,
    /// The run that goes on.
    view: Mutex<Option<Arc<RunView>>>,
    changed: Notify,
}

impl Shown {
    pub fn new(printer: &Printer, verb: Verb, saved: bool) -> Self {
        let printer = printer.clone();
        Self { printer, verb, saved, view: Mutex::default(), changed: Notify::new() }
    }

    /// Shows something.
    pub fn see(&self, notice: Notice<'_>) {
        match notice {
            Notice::Planned { snapshot, plan, why } => self.planned(snapshot, plan, why),
            Notice::OtherOperator => {
                self.printer.note("Another operator held the lease in between. Observing again.");
            }
            Notice::WaitsForTask { vm, lock, seconds } => self.printer.note(&format!(
                "Waiting for the Proxmox task that holds the lock `{lock}` on {} (VM {} on {}, timeout {seconds} s).",
                vm.mark.node, vm.vmid, vm.host
            )),
            Notice::RunStarts(plan) => {
                *self.view() = Some(Arc::new(self.printer.run(plan, self.saved)));
                self.changed.notify_one();
            }
            Notice::Happened(event) => {
                if let Some(view) = &*self.view() {
                    view.see(event);
                }
            }
            Notice::RunCancelled => self.end(RunView::dismiss),
            Notice::RunEnds => self.end(RunView::finish),
            Notice::JournalIncomplete { journal, why } => {
                self.printer.note(&format!("The journal {journal} is not complete: {why}."));
            }
            Notice::Reported(place) => self
                .printer
                .note(&format!("Logs of Proxmox and of the machines, without secrets, are in {place}.")),
            Notice::NotReported(why) => self.printer.note(&format!("A report could not be written: {why}.")),
        }
    }

    fn planned(&self, snapshot: &Snapshot, plan: &Plan, why: Why) {
        let is_idle = plan.steps.is_empty() && plan.refusals.is_empty();
        // What is left is said at the end, in its own words.
        let leaves = || !remnants(&snapshot.blueprint, &snapshot.observed, plan).is_empty();
        if is_idle && (why == Why::Ran || (self.verb == Verb::Destroy && leaves())) {
            return;
        }
        // Programs get the events of the steps.
        if self.printer.is_json() && !plan.steps.is_empty() {
            return;
        }
        match why {
            _ if is_idle && why != Why::Answered => {}
            Why::First => {}
            Why::Answered => {
                self.printer.say("The cluster changed since the plan was shown. The plan is now:\n");
            }
            Why::NewSecrets | Why::OtherOperator => self.printer.say("The plan has changed:\n"),
            Why::Ran => self.printer.say("\nThis is left to do:\n"),
        }
        self.printer.plan(plan, self.verb);
    }

    /// Lets time pass on the view of a run, for as long as it is polled.
    pub async fn ticking(&self, clock: &Clock) -> Infallible {
        loop {
            let view = self.view().clone();
            let changed = self.changed.notified();
            match view {
                None => changed.await,
                Some(view) => tokio::select! {
                    biased;
                    () = changed => {}
                    never = view.ticking(clock) => match never {},
                },
            }
        }
    }

    fn end(&self, end: fn(&RunView)) {
        if let Some(view) = self.view().take() {
            end(&view);
        }
        self.changed.notify_one();
    }

    fn view(&self) -> std::sync::MutexGuard<'_, Option<Arc<RunView>>> {
        self.view.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
