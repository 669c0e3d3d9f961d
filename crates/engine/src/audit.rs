//! Says in Kubernetes what is done to a node, for people who look at it from there: an Event on its Node when a unit starts and when it
//! ends. The journal of the operator has the same. An Event that cannot be written changes nothing: Kubernetes may be away, which may
//! be what the unit is about.

use std::time::Duration;

use model::unit::{Goal, Unit};

use crate::context::Context;
use crate::kubernetes::Kubernetes;
use crate::kubernetes::events::NodeEvent;

/// For one Event. Nothing waits longer for it.
const TIMEOUT: Duration = Duration::from_secs(5);

/// What a unit is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moment {
    Started,
    /// Its node is as it should be.
    Verified,
    /// It did not come to its end.
    Failed,
}

/// Writes an Event about a unit, if Kubernetes takes it.
pub(crate) async fn record(context: &Context, unit: &Unit, moment: Moment) {
    let writing = async {
        let blueprint = &context.snapshot.blueprint;
        let access = context.snapshot.access().ok()?;
        let kubernetes = Kubernetes::new(&context.systems, &blueprint.endpoint, &access.kubernetes).ok()?;
        let event = event(unit, moment, &context.holder.operator.person);
        kubernetes.record(&event, context.systems.clock.now()).await.ok()
    };
    let _ = context.systems.clock.timeout(TIMEOUT, Box::pin(writing)).await;
}

fn event(unit: &Unit, moment: Moment, person: &str) -> NodeEvent {
    let goal = &unit.goal;
    let message = match moment {
        Moment::Started => format!("Talosmith starts to {goal}, for {person}"),
        Moment::Verified => format!("Talosmith is done: {goal}, for {person}"),
        Moment::Failed => format!("Talosmith could not {goal}, for {person}; its journal says why"),
    };
    NodeEvent {
        node: unit.node.to_string(),
        reason: format!("Talosmith{}", reason(goal)),
        message,
        warning: moment == Moment::Failed,
    }
}

/// The goal in one word, as Kubernetes writes reasons.
fn reason(goal: &Goal) -> &'static str {
    match goal {
        Goal::Create { .. } => "Create",
        Goal::Update { .. } => "Update",
        Goal::RestartServices { .. } => "RestartServices",
        Goal::Reboot { .. } => "Reboot",
        Goal::PowerCycle { .. } => "PowerCycle",
        Goal::DeleteDisks { .. } => "DeleteDisks",
        Goal::UpgradeTalos { .. } => "UpgradeTalos",
        Goal::UpgradeKubernetes { .. } => "UpgradeKubernetes",
        Goal::Replace { .. } => "Replace",
        Goal::Remove { .. } => "Remove",
        Goal::Move { .. } => "Move",
        Goal::Shutdown { .. } => "Shutdown",
        Goal::Drain { .. } => "Drain",
        Goal::Cordon { .. } => "Cordon",
        Goal::Uncordon { .. } => "Uncordon",
        Goal::Destroy => "Destroy",
    }
}
