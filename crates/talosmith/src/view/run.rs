//! A run while it happens, and what there is to say about it afterwards.
//!
//! ```text
//! events ──► RunState (a pure fold) ──► rows ──► Live   a line per node on a terminal
//!                 │                └──► lines ─► plain  one line an event, for pipes and simple terminals
//!                 └──► summary: how it ended, where the time went, what failed
//! ```
//!
//! With `--json` the events themselves are printed, one a line, and nothing is made of them.

mod live;
mod plain;
mod state;
mod words;

use std::convert::Infallible;
use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use ambient::Clock;
use jiff::Timestamp;
use model::event::{Event, Outcome, What};
use model::plan::Plan;

use self::live::Live;
use self::plain::Plain;
use self::state::{Counts, RunState};
use super::Printer;
use super::error::causes;
use super::ink::{Ink, clean, count, duration};

/// Shows one run. Hand it every event, then call [`RunView::finish`].
pub struct RunView {
    printer: Printer,
    inner: Mutex<Inner>,
}

struct Inner {
    state: RunState,
    form: Form,
    /// How many failures were shown with nothing else after them.
    fresh: usize,
    pulse: Pulse,
}

/// Off a terminal, something is printed at least so often: a little less than half a minute, so that it does not fall on the moment at
/// which a step that looks every few seconds has something to say.
const QUIET: Duration = Duration::from_millis(29_500);

/// Since when nothing was printed.
#[derive(Default)]
struct Pulse {
    last: Option<Timestamp>,
}

impl Pulse {
    fn shown(&mut self, now: Timestamp) {
        self.last = Some(now);
    }

    /// When to look again.
    fn next(&self, now: Timestamp) -> Duration {
        let quiet: Duration =
            self.last.map_or(Duration::ZERO, |last| now.duration_since(last).try_into().unwrap_or_default());
        QUIET.saturating_sub(quiet)
    }

    fn is_due(&self, now: Timestamp) -> bool {
        self.next(now).is_zero()
    }
}

/// The form in which events are shown as they come.
enum Form {
    Json,
    Plain(Plain),
    Live(Box<Live>),
}

impl RunView {
    pub(super) fn new(printer: Printer, plan: &Plan, saved: bool) -> Self {
        let settings = &printer.settings;
        let mut state = RunState::new(plan);
        state.saved = saved;
        let form = if settings.json {
            Form::Json
        } else if settings.stderr_is_terminal && !settings.quiet {
            // One line stays free for the cursor, one for what is printed above.
            Form::Live(Box::new(Live::new(
                &state.rows(),
                printer.ink(true),
                settings.height.saturating_sub(2),
            )))
        } else {
            Form::Plain(Plain::default())
        };
        Self { printer, inner: Mutex::new(Inner { state, form, fresh: 0, pulse: Pulse::default() }) }
    }

    /// Takes note of an event and shows it.
    pub fn see(&self, event: &Event) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let Inner { state, form, fresh, pulse } = &mut *inner;
        // Programs get the event as it is; words for people are put on one line each.
        let harmless = (!matches!(form, Form::Json)).then(|| {
            let mut event = super::harmless::data(event);
            if let What::StepFailed { hint, .. } = &mut event.what {
                *hint = super::next::with_flags(hint, &self.printer.flags).into_owned();
            }
            event
        });
        let shown_event = harmless.as_ref().unwrap_or(event);
        state.see(shown_event);
        let shown = match form {
            Form::Json => {
                self.printer.data(event);
                true
            }
            Form::Plain(plain) => {
                let lines = plain.lines(state, shown_event);
                let shown = !lines.is_empty() && !self.printer.settings.quiet;
                if shown {
                    self.printer.to_err(|w, _| lines.iter().try_for_each(|line| writeln!(w, "{line}")));
                }
                shown
            }
            Form::Live(live) => live.show(state, shown_event),
        };
        if shown {
            pulse.shown(event.at);
        }
        match &event.what {
            What::StepFailed { .. } if shown => *fresh += 1,
            _ if shown => *fresh = 0,
            _ => {}
        }
    }

    /// Lets time pass on a live view while nothing happens.
    pub fn tick(&self, now: Timestamp) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let Inner { state, form, .. } = &mut *inner;
        if let Form::Live(live) = form {
            state.tick(now);
            live.redraw(state);
        }
    }

    /// Says what the run still waits for, where nothing was printed for a while. Gives the time until the next look.
    fn beat(&self, now: Timestamp) -> Duration {
        let waiting = {
            let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
            let Inner { state, pulse, .. } = &mut *inner;
            if pulse.last.is_none() {
                pulse.shown(now);
            }
            state.tick(now);
            let due = pulse.is_due(now);
            if due {
                pulse.shown(now);
            }
            if due { state.waiting() } else { None }
        };
        if let Some(what) = waiting {
            self.see(&Event { at: now, what });
        }
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.pulse.next(now)
    }

    /// Ticks for as long as it is polled: run it beside the work. Does nothing where nothing is shown, so that the clock of
    /// a run that is not watched has no timers but the work's own.
    pub async fn ticking(&self, clock: &Clock) -> Infallible {
        let is_live = {
            let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
            matches!(inner.form, Form::Live(_))
        };
        if !is_live && self.printer.settings.quiet && !self.printer.settings.json {
            return std::future::pending().await;
        }
        loop {
            if is_live {
                clock.sleep(Duration::from_secs(1)).await;
                self.tick(clock.now());
            } else {
                let next = self.beat(clock.now());
                clock.sleep(next).await;
            }
        }
    }

    /// Ends the live view of a run that did not start: there is nothing to sum up.
    pub fn dismiss(&self) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        if let Form::Live(live) = &mut inner.form {
            live.clear();
        }
    }

    /// Ends the live view and prints the summary.
    pub fn finish(&self) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let Inner { state, form, fresh, .. } = &mut *inner;
        match form {
            Form::Json => return,
            Form::Plain(_) => {}
            Form::Live(live) => live.finish(state),
        }
        // What was read a moment ago need not be read again.
        if state.failures().len() > *fresh {
            self.printer.to_err(|w, ink| failures(w, ink, state));
        }
        self.printer.to_window(|w, ink| summary(w, ink, state));
    }
}

/// Each failure once, with what to do about it.
fn failures(w: &mut dyn Write, ink: Ink, state: &RunState) -> io::Result<()> {
    for failure in state.failures() {
        let title = ink.red(&words::failed(&failure.code));
        causes(w, ink, &title, "", &failure.causes, Some(&failure.hint))?;
    }
    Ok(())
}

fn again(state: &RunState) -> &'static str {
    match state.saved {
        true => "Run `talosmith apply` without the saved plan to continue.",
        false => "Run the same command again to continue.",
    }
}

/// What became of the steps that are not done.
fn rest(counts: Counts) -> String {
    let Counts { total, done, failed, unfinished } = counts;
    let waiting = total.saturating_sub(done + failed + unfinished);
    let parts = [(failed, "failed"), (unfinished, "not finished"), (waiting, "not started")];
    parts
        .iter()
        .filter(|(number, _)| *number > 0)
        .map(|(number, what)| format!(", {number} {what}"))
        .collect()
}

/// How it ended and where the time went.
fn summary(w: &mut dyn Write, ink: Ink, state: &RunState) -> io::Result<()> {
    let counts = state.counts();
    let steps = format!("{} of {}", counts.done, count(counts.total, "step"));
    for warning in state.warnings() {
        writeln!(w, "{} {}", ink.yellow("warning:"), clean(warning))?;
    }
    match state.ended() {
        Some((Outcome::Done, millis)) => {
            writeln!(w, "{} in {}: {steps}.", ink.green(&state.completed()), duration(millis))?;
        }
        Some((Outcome::Failed, millis)) if state.is_busy() => writeln!(
            w,
            "{} after {}: {steps} done. Another operator is changing the cluster now.",
            ink.yellow("Stopped"),
            duration(millis),
        )?,
        Some((Outcome::Failed, millis)) => writeln!(
            w,
            "{} after {}{}: {steps} done{}. {}",
            if state.is_late() { ink.yellow("Stopped") } else { ink.red("Failed") },
            duration(millis),
            if state.is_late() { ", when `--timeout` expired" } else { "" },
            rest(counts),
            // What looks like an attack is not a reason to try again at once.
            match state.is_unproved() {
                true => "Read the reason before you run the command again.",
                false => again(state),
            },
        )?,
        Some((Outcome::Interrupted, millis)) => writeln!(
            w,
            "{} after {}: {steps} done. {}",
            ink.yellow("Stopped"),
            duration(millis),
            again(state),
        )?,
        None => writeln!(w, "{}: {steps} done.", ink.yellow("Ended early"))?,
    }
    let longest = state.longest(3);
    if !longest.is_empty() && !state.has_failures() {
        writeln!(w, "Most of the time went into:")?;
        for (title, millis) in longest {
            writeln!(w, "  {:>12}  {title}", duration(millis))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
