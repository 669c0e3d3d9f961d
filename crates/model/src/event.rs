//! What happens while a plan is carried out.
//!
//! The engine emits these and knows nothing of displays. The journal keeps them, `--json` prints them, the terminal folds
//! them into a line per node.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::step::{StepId, UnitId};
use crate::unit::Goal;

/// One thing that happened, and when.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// The time on the clock of the run.
    pub at: Timestamp,
    /// What happened then.
    #[serde(flatten)]
    pub what: What,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "event")]
pub enum What {
    /// A run starts.
    Started {
        /// The name of the cluster in the file.
        cluster: String,
        /// `apply` or `destroy`.
        verb: String,
        /// Number of steps.
        steps: usize,
    },
    /// What the run does was approved.
    Approved {
        /// Who approved it.
        by: String,
        /// In which way.
        how: Consent,
        /// What was approved, as far as this run needs it.
        goals: Vec<Goal>,
    },
    StepStarted {
        /// The ID that the step has in the plan.
        step: StepId,
        /// What it does.
        title: String,
        /// The node it is about.
        #[serde(skip_serializing_if = "Option::is_none")]
        node: Option<String>,
    },
    /// A step tells what it is at.
    StepProgress {
        /// The ID that the step has in the plan.
        step: StepId,
        /// The node it is about.
        #[serde(skip_serializing_if = "Option::is_none")]
        node: Option<String>,
        /// In words.
        note: String,
        /// How much of it is done, where that is known.
        #[serde(skip_serializing_if = "Option::is_none")]
        percent: Option<u8>,
    },
    /// A step is done and its effect was verified.
    StepDone {
        /// The ID that the step has in the plan.
        step: StepId,
        /// The node it is about.
        #[serde(skip_serializing_if = "Option::is_none")]
        node: Option<String>,
        /// How long it took, in milliseconds.
        millis: u64,
        /// Warnings that the world gave.
        #[serde(skip_serializing_if = "Vec::is_empty", default)]
        warnings: Vec<String>,
    },
    StepFailed {
        /// The ID that the step has in the plan.
        step: StepId,
        /// The node it is about.
        #[serde(skip_serializing_if = "Option::is_none")]
        node: Option<String>,
        /// What sort of failure it was, in one word for programs, such as `no-quorum`.
        code: String,
        /// What was attempted and what went wrong, outermost first.
        causes: Vec<String>,
        /// What to do about it.
        #[serde(alias = "remedy")]
        hint: String,
    },
    /// A step was not started, because one that it needs did not succeed.
    StepSkipped {
        /// The ID that the step has in the plan.
        step: StepId,
        /// The node it is about.
        #[serde(skip_serializing_if = "Option::is_none")]
        node: Option<String>,
        /// The step at fault.
        because: StepId,
    },
    /// A disruption of a node starts: the gate permits it.
    UnitStarted {
        /// The ID that the unit has in the plan.
        unit: UnitId,
        /// The node that is disrupted.
        node: String,
        /// What it is for.
        goal: Goal,
        /// The step with which it starts.
        step: StepId,
    },
    /// A disruption has ended, and its node is as it should be.
    UnitVerified {
        /// The ID that the unit has in the plan.
        unit: UnitId,
        /// The node that was disrupted.
        node: String,
        /// What it was for.
        goal: Goal,
        /// The step with which it ended.
        step: StepId,
    },
    /// A disruption has started and did not come to its end. No other one starts in this run.
    UnitFailed {
        /// The ID that the unit has in the plan.
        unit: UnitId,
        /// The node that is disrupted.
        node: String,
        /// What it is for.
        goal: Goal,
        /// The step at fault.
        step: StepId,
    },
    /// Nothing new happened for a while: what the run still waits for. Programs that read events get it as a sign of life; the journal
    /// does not keep it.
    Waiting {
        /// The step that runs longest.
        step: StepId,
        /// The node it is about.
        #[serde(skip_serializing_if = "Option::is_none")]
        node: Option<String>,
        /// What it said last.
        note: String,
        /// For how long it runs, in milliseconds.
        millis: u64,
        /// How many other steps run.
        others: usize,
    },
    /// A person asked to stop: no new step starts.
    Interrupted,
    /// A run ends.
    Ended {
        /// Whether everything was done.
        outcome: Outcome,
        /// How long it took, in milliseconds.
        millis: u64,
    },
}

impl What {
    /// Whether a step failed because another operator is changing the cluster.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        matches!(self, Self::StepFailed { code, .. } if code == "busy")
    }
}

/// How a run was approved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Consent {
    /// A person answered a question.
    Answer,
    /// Beforehand, for the first plan and what follows within its goals.
    Beforehand,
    /// With a plan that was saved and reviewed.
    SavedPlan,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Every step succeeded.
    Done,
    /// At least one step failed.
    Failed,
    /// It was stopped from outside.
    Interrupted,
}
