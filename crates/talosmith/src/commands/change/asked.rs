//! The person at the terminal, who is asked whether a plan may be run.

use engine::error::{Error, Kind, Result};
use engine::reconcile::{Answer, Approver, Question};
use engine::stores::BoxFuture;

use crate::commands::setup::{can_ask, confirm, confirm_deletion};
use crate::view::{Printer, Problem, Verb};

pub struct Terminal<'a> {
    pub printer: &'a Printer,
    pub verb: Verb,
}

impl Approver for Terminal<'_> {
    fn ask<'a>(&'a self, question: Question<'a>) -> BoxFuture<'a, Result<Answer>> {
        Box::pin(async move {
            if !can_ask(self.printer) {
                return Ok(Answer::Unavailable);
            }
            let (printer, verb) = (self.printer.clone(), self.verb);
            let text = text(verb, &question);
            // Signals are heard while a person thinks.
            let answering = tokio::task::spawn_blocking(move || match verb {
                Verb::Apply | Verb::ByHand(_) => confirm(&printer, &text),
                Verb::Destroy => confirm_deletion(&printer, &text),
            });
            let unread = |e| Error::new(Kind::Systems, "could not read your answer").because(e);
            let agreed = answering.await.map_err(unread)?.map_err(Problem::into_error)?;
            Ok(if agreed { Answer::Approved } else { Answer::Declined })
        })
    }
}

fn text(verb: Verb, question: &Question<'_>) -> String {
    match (verb, question.ran, question.again) {
        (Verb::Destroy, ..) => {
            format!("The cluster {} and all its data will be deleted.", question.plan.cluster)
        }
        (_, true, _) => "Apply these changes, too?".to_owned(),
        (_, false, true) => "Apply these changes instead?".to_owned(),
        (_, false, false) => "Apply these changes?".to_owned(),
    }
}
