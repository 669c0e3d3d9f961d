//! Who approves a plan, and what was approved.
//!
//! A person approves goals. Planning again gives other steps for the same goals, and those are not asked for; a goal that was not
//! approved is asked for. A deletion is approved exactly: a list that has one more item was not what the person saw.

use std::collections::BTreeSet;

use futures::future::BoxFuture;
use model::event::Consent;
use model::plan::Plan;
use model::step::StepId;
use model::unit::{Approval, Goal};

use super::Intent;
use crate::error::Result;
use crate::saved::SavedPlan;

/// What an operator approves before the first plan is made.
#[derive(Debug, Clone)]
pub enum Mandate {
    /// Nothing: every goal is asked for.
    Ask,
    /// The goals of the first plan, whatever it is (`--yes`). Any further one is asked for.
    FirstPlan,
    /// The goals of a plan that was saved and reviewed. Nothing else is done, and nothing is asked for.
    Saved(Box<SavedPlan>),
}

/// What is asked.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    /// The plan, which was shown.
    pub plan: &'a Plan,
    /// The goals of it that were not approved yet.
    pub goals: &'a BTreeSet<Goal>,
    /// Whether another plan was approved before this one.
    pub again: bool,
    /// Whether a plan was run before this one.
    pub ran: bool,
}

/// What was answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// The goals are approved.
    Approved,
    /// They are not.
    Declined,
    /// There is no one to ask.
    Unavailable,
}

/// Answers for a person, or asks one.
pub trait Approver: Send + Sync {
    /// Asks about a plan that was shown.
    ///
    /// # Errors
    ///
    /// When the answer could not be read.
    fn ask<'a>(&'a self, question: Question<'a>) -> BoxFuture<'a, Result<Answer>>;
}

/// What was approved so far.
#[derive(Debug, Default)]
pub(super) struct Approved {
    approval: Approval,
    /// The steps of a deletion, each of which was seen.
    deletions: BTreeSet<StepId>,
    /// How the last goal was approved.
    pub(super) how: Option<Consent>,
}

impl Approved {
    /// Which goals of the plan were not approved.
    pub(super) fn lacks(&self, intent: &Intent, plan: &Plan) -> BTreeSet<Goal> {
        match intent {
            Intent::Destroy if plan.steps.iter().all(|step| self.deletions.contains(&step.id)) => {
                BTreeSet::new()
            }
            Intent::Destroy => BTreeSet::from([Goal::Destroy]),
            Intent::Apply | Intent::ByHand(_) => self.approval.lacks(&plan.goals()),
        }
    }

    /// Takes these goals of a plan as approved.
    pub(super) fn add(&mut self, intent: &Intent, plan: &Plan, goals: BTreeSet<Goal>, how: Consent) {
        if *intent == Intent::Destroy {
            self.deletions.extend(plan.steps.iter().map(|step| step.id.clone()));
        }
        self.approval.add(goals);
        self.how = Some(how);
    }

    /// What a run of the plan does, in the words in which it was approved.
    pub(super) fn goals(&self, intent: &Intent, plan: &Plan) -> Vec<Goal> {
        match intent {
            Intent::Destroy => vec![Goal::Destroy],
            Intent::Apply | Intent::ByHand(_) => plan.goals().into_iter().collect(),
        }
    }
}
