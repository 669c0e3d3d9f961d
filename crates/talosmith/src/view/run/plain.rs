//! One line for each thing that happened, for pipes and terminals that cannot move their cursor.
//!
//! `0:12.3  home-work-1  configuring: waiting for the machine to answer`. A line that would say what the last line about
//! the same step said is left out, and a percentage is told in quarters.

use std::collections::BTreeMap;

use model::event::{Event, What};
use model::step::StepId;

use super::super::error::causes;
use super::super::ink::{Ink, clean, count, duration};
use super::state::RunState;
use super::words;

/// What was said last, so that it is not said again.
#[derive(Default)]
pub struct Plain {
    /// The note, without its numbers, and how many quarters were done.
    said: BTreeMap<StepId, (String, u8)>,
}

impl Plain {
    /// The lines for an event that `state` has already seen.
    pub fn lines(&mut self, state: &RunState, event: &Event) -> Vec<String> {
        let (subject, texts) = match &event.what {
            What::Started { verb, steps, cluster } => {
                (cluster.clone(), vec![format!("{verb}: {}", count(*steps, "step"))])
            }
            What::StepStarted { step, title, node } => {
                // A note that says no more, with nothing done yet, would be the same line again.
                self.said.insert(step.clone(), (String::new(), 0));
                let text = state.step(step).map_or(title.as_str(), |s| words::doing(&s.action));
                (subject(state, step, node.as_deref()), vec![text.to_owned()])
            }
            What::StepProgress { step, node, note, percent } => {
                let note = clean(note);
                let action = state.step(step).map(|s| &s.action);
                let is_new = action.is_none_or(|action| !words::adds_nothing(action, &note));
                let told = if is_new { without_digits(&note) } else { String::new() };
                let key = (told, percent.unwrap_or(0) / 25);
                if self.said.insert(step.clone(), key.clone()).as_ref() == Some(&key) {
                    return vec![];
                }
                let text = match action {
                    _ if state.is_at_gate(step) => format!("waiting: {note}"),
                    Some(action) => words::doing_with(action, &note),
                    None => note.to_string(),
                };
                let part = percent.map(|percent| format!(", {percent} %")).unwrap_or_default();
                (subject(state, step, node.as_deref()), vec![format!("{text}{part}")])
            }
            What::StepDone { step, node, millis, warnings } => {
                let done = state.step(step).map_or("done", |s| words::done(&s.action));
                let mut texts = vec![format!("{done} ({})", duration(*millis))];
                texts.extend(warnings.iter().map(|warning| format!("warning: {}", clean(warning))));
                (subject(state, step, node.as_deref()), texts)
            }
            What::StepFailed { step, node, code, causes: all, hint } => {
                let mut text = Vec::new();
                let plain = Ink { colour: false, width: usize::MAX, limit: usize::MAX, ascii: false };
                // Writing to memory cannot fail.
                let _ = causes(&mut text, plain, &words::failed(code), "", all, Some(hint));
                let texts = String::from_utf8_lossy(&text).lines().map(str::to_owned).collect();
                (subject(state, step, node.as_deref()), texts)
            }
            // One failure may keep dozens of steps from beginning; the summary counts them.
            What::StepSkipped { .. } => return vec![],
            // The person who approved it knows, and the steps of a unit say what happens. These are for the journal and for programs.
            What::Approved { .. }
            | What::UnitStarted { .. }
            | What::UnitVerified { .. }
            | What::UnitFailed { .. } => return vec![],
            What::Waiting { .. } => return vec![still(state, &event.what)],
            What::Interrupted => (String::new(), vec![words::STOPPING.to_owned()]),
            // The summary says it.
            What::Ended { .. } => return vec![],
        };
        texts.iter().map(|text| line(state, &subject, text)).collect()
    }
}

fn line(state: &RunState, subject: &str, text: &str) -> String {
    let tenths = state.elapsed() / 100;
    let time = format!("{}:{:02}.{}", tenths / 600, tenths / 10 % 60, tenths % 10);
    let width = state.widest_node();
    format!("{time:>8}  {subject:<width$}  {text}")
}

/// The line for what the run still waits for.
pub fn still(state: &RunState, waiting: &What) -> String {
    let What::Waiting { step, node, note, millis, others } = waiting else { return String::new() };
    let note = clean(note);
    let mut text = match state.step(step).map(|step| &step.action) {
        _ if state.is_at_gate(step) => format!("still waiting after {}: {note}", duration(*millis)),
        Some(action) => {
            let doing = format!("still {} after {}", words::doing(action), duration(*millis));
            if words::adds_nothing(action, &note) { doing } else { format!("{doing}: {note}") }
        }
        None => format!("still waiting: {note}"),
    };
    if *others > 0 {
        text = format!("{text} ({} running)", count(*others, "more step"));
    }
    line(state, &subject(state, step, node.as_deref()), &text)
}

/// Whom a line is about: the node, or the host of a download, or the cluster.
fn subject(state: &RunState, step: &StepId, node: Option<&str>) -> String {
    node.or_else(|| state.step(step).and_then(|s| s.action.host()))
        .unwrap_or_else(|| state.cluster())
        .to_owned()
}

/// A note may itself carry how much is done, so its numbers do not make it new.
fn without_digits(note: &str) -> String {
    note.chars().filter(|c| !c.is_ascii_digit()).collect()
}
