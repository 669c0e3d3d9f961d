//! Where events go: first to the journal, then to whoever listens.

use std::sync::{Arc, Mutex};

use ambient::Clock;
use model::event::{Event, What};
use model::step::StepId;

use crate::journal::Journal;

/// A listener. It is called in the order in which things happen, and must not block.
pub type Listener = Arc<dyn Fn(&Event) + Send + Sync>;

/// Stamps events with the time and hands them on.
#[derive(Clone)]
pub struct Emitter {
    clock: Clock,
    journal: Option<Arc<Mutex<Journal>>>,
    listener: Listener,
}

impl Emitter {
    /// An emitter that writes to `journal`, if there is one, before `listener` hears of an event.
    pub fn new(clock: Clock, journal: Option<Journal>, listener: Listener) -> Self {
        Self { clock, journal: journal.map(|j| Arc::new(Mutex::new(j))), listener }
    }

    /// Something happened now.
    pub fn emit(&self, what: What) {
        let event = Event { at: self.clock.now(), what };
        if let Some(journal) = &self.journal
            && let Ok(mut journal) = journal.lock()
        {
            journal.append(&event);
        }
        (self.listener)(&event);
    }

    /// What a step is at.
    pub fn step(&self, step: &StepId, node: Option<&str>) -> Progress {
        Progress {
            emitter: self.clone(),
            step: step.clone(),
            node: node.map(str::to_owned),
            last: Arc::default(),
        }
    }
}

/// Tells what one step is at. Saying the same again is not an event.
#[derive(Clone)]
pub struct Progress {
    emitter: Emitter,
    step: StepId,
    node: Option<String>,
    last: Arc<Mutex<Option<(String, Option<u8>)>>>,
}

impl Progress {
    /// In words.
    pub fn note(&self, note: impl Into<String>) {
        self.say(note.into(), None);
    }

    /// In words and as a part of the whole.
    pub fn percent(&self, note: impl Into<String>, percent: u8) {
        self.say(note.into(), Some(percent));
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
