//! The question whether a plan may be carried out. While a person thinks about it the world may change, so it is observed again
//! after the answer, and a plan that does something else is shown and asked for again.

use engine::{Look, Session};
use model::plan::Plan;

use crate::commands::setup::{Setup, Wrong, confirm};
use crate::exit::Exit;
use crate::view::{Printer, Problem, Verb};

/// How often a plan that keeps changing is asked for.
const QUESTIONS: usize = 5;

/// What a person answered.
pub enum Answer {
    /// The plan is carried out, as it was shown and as it was observed just now.
    Yes(Box<Look>, Plan),
    /// Nothing is done, for this reason; it was shown.
    No(Exit),
}

/// A question about a plan.
pub struct Question<'a> {
    pub setup: &'a Setup,
    pub session: &'a Session,
    pub printer: &'a Printer,
    pub verb: Verb,
    pub text: String,
}

impl Question<'_> {
    /// Asks about `plan`, and again whenever the world needs another one by then.
    pub async fn ask(&self, mut plan: Plan) -> Result<Answer, Wrong> {
        for _ in 0..QUESTIONS {
            if !confirm(self.printer, &self.text)? {
                self.printer.note("Nothing was changed.");
                return Ok(Answer::No(Exit::Done));
            }
            let (look, again) = self.observe().await?;
            if again.refusals.is_empty() && again.same_work(&plan) && !again.steps.is_empty() {
                return Ok(Answer::Yes(Box::new(look), again));
            }
            self.printer.say("The cluster changed since the plan was shown. The plan is now:\n");
            self.printer.plan(&again, self.verb);
            if !again.refusals.is_empty() {
                return Ok(Answer::No(Exit::of_refusals(&again.refusals)));
            }
            if again.steps.is_empty() {
                return Ok(Answer::No(Exit::Done));
            }
            plan = again;
        }
        Err(Problem::new(Exit::Busy, "the cluster keeps changing while the plan is confirmed")
            .remedy("run the command again when no other run changes it")
            .into())
    }

    async fn observe(&self) -> Result<(Look, Plan), Wrong> {
        Ok(match self.verb {
            Verb::Destroy => {
                let look = self.setup.look_to_destroy(self.session, self.printer).await?;
                let plan = look.plan_destroy();
                (look, plan)
            }
            Verb::Apply => {
                let look = self.setup.look(self.session, self.printer).await?;
                let plan = look.plan();
                (look, plan)
            }
        })
    }
}
