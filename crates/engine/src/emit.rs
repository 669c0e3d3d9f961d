//! Where events go: first to the journal, then to the listener.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ambient::Clock;
use model::event::{Event, What};
use model::plan::Plan;
use model::step::StepId;
use tokio::sync::{Notify, watch};

use crate::journal::Log;

/// A listener. It is called in the order in which things happen, and must not block.
pub type Listener = Arc<dyn Fn(&Event) + Send + Sync>;

/// For how long events are held back, so that those of one moment can be put in order.
pub(crate) const MOMENT: Duration = Duration::from_millis(1);

/// Stamps events with the time and hands them on, in an order that does not depend on chance.
///
/// Steps run side by side, and which of two that do something at the same moment is polled first depends on the length of
/// a signature. So events are held back for a moment and handed on sorted: by time, then by the place of their step in the
/// plan, then as they came. A step stands behind all that it needs, so causes stay before effects.
#[derive(Clone)]
pub struct Emitter {
    clock: Clock,
    places: Arc<BTreeMap<StepId, usize>>,
    held: Arc<Mutex<Held>>,
    came: Arc<Notify>,
}

struct Held {
    journal: Option<Box<dyn Log>>,
    /// The first write to the journal that failed.
    failed: Option<io::Error>,
    listener: Listener,
    events: Vec<(usize, Event)>,
}

impl Emitter {
    /// An emitter for a run of `plan` that writes to `journal`, if there is one, before `listener` hears of an event.
    pub fn new(clock: Clock, plan: &Plan, journal: Option<Box<dyn Log>>, listener: Listener) -> Self {
        let places = plan.steps.iter().enumerate().map(|(at, step)| (step.id.clone(), at + 1)).collect();
        let held = Held { journal, failed: None, listener, events: vec![] };
        Self { clock, places: Arc::new(places), held: Arc::new(Mutex::new(held)), came: Arc::default() }
    }

    /// Something happened now.
    pub fn emit(&self, what: What) {
        let place = match &what {
            What::Started { .. } | What::Approved { .. } => 0,
            What::StepStarted { step, .. }
            | What::StepProgress { step, .. }
            | What::StepDone { step, .. }
            | What::StepFailed { step, .. }
            | What::StepSkipped { step, .. }
            | What::UnitStarted { step, .. }
            | What::UnitVerified { step, .. }
            | What::UnitFailed { step, .. } => self.places.get(step).copied().unwrap_or(usize::MAX),
            What::Waiting { .. } | What::Interrupted | What::Ended { .. } => usize::MAX,
        };
        let event = Event { at: self.clock.now(), what };
        self.held.lock().unwrap_or_else(PoisonError::into_inner).events.push((place, event));
        self.came.notify_one();
    }

    /// Hands on what is held, for as long as it is polled.
    pub(crate) async fn handing_on(&self) -> Infallible {
        loop {
            self.came.notified().await;
            self.clock.sleep(MOMENT).await;
            self.hand_on();
        }
    }

    /// Hands on everything that is held, now.
    pub(crate) fn hand_on(&self) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let mut events = std::mem::take(&mut held.events);
        // Stable: what one step says stays in its order.
        events.sort_by_key(|(place, event)| (event.at, *place));
        for (_, event) in events {
            if let Some(Err(error)) = held.journal.as_mut().map(|journal| journal.append(&event)) {
                held.failed.get_or_insert(error);
            }
            (held.listener)(&event);
        }
    }

    /// Why the journal is not complete, if it is not.
    #[must_use]
    pub fn journal_failure(&self) -> Option<String> {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.failed.as_ref().map(ToString::to_string)
    }

    /// What a step is at.
    pub fn step(&self, step: &StepId, node: Option<&str>) -> Progress {
        Progress {
            emitter: self.clone(),
            step: step.clone(),
            node: node.map(str::to_owned),
            last: Arc::default(),
            waits: Arc::new(watch::Sender::new(false)),
        }
    }
}

/// What a step said: in words, and how much of it is done.
type Said = (String, Option<u8>);

/// Tells what one step is at. Saying the same again is not an event.
#[derive(Clone)]
pub struct Progress {
    emitter: Emitter,
    step: StepId,
    node: Option<String>,
    last: Arc<Mutex<Option<Said>>>,
    /// Whether the step only waits at this moment.
    waits: Arc<watch::Sender<bool>>,
}

impl Progress {
    /// Waits for something while the step changes nothing. A run that is asked to stop does not wait for its end.
    pub(crate) async fn only_waiting<T>(&self, wait: impl Future<Output = T>) -> T {
        self.waits.send_replace(true);
        let done = wait.await;
        self.waits.send_replace(false);
        done
    }

    /// Whether the step only waits now, and the next times at which it does.
    pub(crate) fn waits(&self) -> watch::Receiver<bool> {
        self.waits.subscribe()
    }

    /// In words.
    pub fn note(&self, note: impl Into<String>) {
        self.say(note.into(), None);
    }

    /// In words and as a part of the whole.
    pub fn percent(&self, note: impl Into<String>, percent: u8) {
        self.say(note.into(), Some(percent));
    }

    /// Something happened that is more than a note of the step.
    pub(crate) fn emit(&self, what: What) {
        self.emitter.emit(what);
    }

    /// What was said last, in words.
    pub(crate) fn last(&self) -> Option<String> {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.as_ref().map(|(note, _)| note.clone())
    }

    fn say(&self, note: String, percent: Option<u8>) {
        let said = (note, percent);
        if let Ok(mut last) = self.last.lock() {
            if last.as_ref() == Some(&said) {
                return;
            }
            *last = Some(said.clone());
        }
        self.emitter.emit(What::StepProgress {
            step: self.step.clone(),
            node: self.node.clone(),
            note: said.0,
            percent: said.1,
        });
    }
}
