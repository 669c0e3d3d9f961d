//! The question whether a plan may be carried out. While a person thinks about it the world may change, so it is observed again
//! after the answer, and a plan that does something else is shown and asked for again.

use engine::{Session, Snapshot};
use model::plan::Plan;

use crate::commands::setup::{Setup, Wrong, confirm, confirm_deletion};
use crate::exit::Exit;
use crate::view::{Printer, Problem, Verb};

/// How often a plan that keeps changing is asked for.
const QUESTIONS: usize = 5;

/// What a person answered.
pub enum Answer<Seen = Box<Snapshot>> {
    /// The plan is carried out, as it was shown and as it was observed just now.
    Yes(Seen, Plan),
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
    pub async fn ask(&self, plan: Plan) -> Result<Answer, Wrong> {
        agree(self, plan).await
    }
}

/// The person who is asked, and the world that is observed after each answer.
trait Asked {
    type Seen;

    fn confirm(&self) -> Result<bool, Problem>;
    async fn observe(&self) -> Result<(Self::Seen, Plan), Wrong>;
    /// The plan is another one by now.
    fn show(&self, again: &Plan);
}

async fn agree<A: Asked>(asked: &A, mut plan: Plan) -> Result<Answer<A::Seen>, Wrong> {
    for _ in 0..QUESTIONS {
        if !asked.confirm()? {
            return Ok(Answer::No(Exit::Declined));
        }
        let (seen, again) = asked.observe().await?;
        if again.refusals.is_empty() && again.same_work(&plan) && !again.steps.is_empty() {
            return Ok(Answer::Yes(seen, again));
        }
        asked.show(&again);
        if !again.refusals.is_empty() {
            return Ok(Answer::No(Exit::of_refusals(&again.refusals)));
        }
        if again.steps.is_empty() {
            return Ok(Answer::No(Exit::Done));
        }
        plan = again;
    }
    Err(Problem::new(Exit::Busy, "the cluster keeps changing while the plan is confirmed")
        .hint("run the command again when no other run changes it")
        .into())
}

impl Asked for Question<'_> {
    type Seen = Box<Snapshot>;

    fn confirm(&self) -> Result<bool, Problem> {
        let agreed = match self.verb {
            Verb::Apply => confirm(self.printer, &self.text)?,
            Verb::Destroy => confirm_deletion(self.printer, &self.text)?,
        };
        if !agreed {
            self.printer.note("Nothing was changed.");
        }
        Ok(agreed)
    }

    async fn observe(&self) -> Result<(Box<Snapshot>, Plan), Wrong> {
        Ok(match self.verb {
            Verb::Destroy => {
                let snapshot = self.setup.observe_to_destroy(self.session, self.printer).await?;
                let plan = snapshot.plan_destroy();
                (Box::new(snapshot), plan)
            }
            Verb::Apply => {
                let snapshot = self.setup.observe(self.session, self.printer).await?;
                let plan = snapshot.plan();
                (Box::new(snapshot), plan)
            }
        })
    }

    fn show(&self, again: &Plan) {
        self.printer.say("The cluster changed since the plan was shown. The plan is now:\n");
        self.printer.plan(again, self.verb);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use model::plan::{Refusal, RefusalCode};

    use super::*;
    use crate::view::plan::tests::one_more as plan_of_one_more;

    /// A person who agrees or does not, and what is observed after each answer, last first.
    struct Played {
        agrees: bool,
        observed: RefCell<Vec<Plan>>,
        shown: RefCell<usize>,
    }

    impl Asked for Played {
        type Seen = ();

        fn confirm(&self) -> Result<bool, Problem> {
            Ok(self.agrees)
        }

        async fn observe(&self) -> Result<((), Plan), Wrong> {
            Ok(((), self.observed.borrow_mut().pop().unwrap()))
        }

        fn show(&self, _: &Plan) {
            *self.shown.borrow_mut() += 1;
        }
    }

    async fn asked(shown: &Plan, observed: Vec<Plan>) -> (Result<Answer<()>, Wrong>, usize) {
        let played = Played { agrees: true, observed: RefCell::new(observed), shown: RefCell::new(0) };
        let answer = agree(&played, shown.clone()).await;
        (answer, played.shown.into_inner())
    }

    #[tokio::test]
    async fn user_h_an_answer_other_than_yes_is_not_a_success() {
        let played = Played { agrees: false, observed: RefCell::default(), shown: RefCell::default() };
        let answer = agree(&played, plan_of_one_more()).await;
        assert!(matches!(answer, Ok(Answer::No(Exit::Declined))));
    }

    #[tokio::test]
    async fn a6_what_changed_while_a_person_thought_is_shown_and_asked_for_again() {
        let plan = plan_of_one_more();
        let mut more = plan.clone();
        more.steps.pop();
        let (answer, shown) = asked(&plan, vec![plan.clone()]).await;
        assert!(matches!(answer, Ok(Answer::Yes((), again)) if again == plan) && shown == 0);
        let (answer, shown) = asked(&plan, vec![more.clone(), more.clone()]).await;
        assert!(
            matches!(answer, Ok(Answer::Yes((), again)) if again == more) && shown == 1,
            "asked for again"
        );
        let mut refused = plan.clone();
        let (code, why, hint) = (RefusalCode::TakenId, "taken".to_owned(), "free it".to_owned());
        refused.refusals.push(Refusal { code, why, hint });
        let (answer, shown) = asked(&plan, vec![refused]).await;
        assert!(matches!(answer, Ok(Answer::No(exit)) if exit != Exit::Done) && shown == 1);
        let mut nothing = plan.clone();
        nothing.steps.clear();
        let (answer, _) = asked(&plan, vec![nothing]).await;
        assert!(matches!(answer, Ok(Answer::No(Exit::Done))));
        let (answer, _) = asked(&plan, [&plan, &more].repeat(3).into_iter().cloned().collect()).await;
        assert!(answer.is_err(), "it never comes to rest");
    }
}
