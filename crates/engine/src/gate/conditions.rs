//! What the file asks for beyond the cluster itself, directly before each disruption: systems that must be healthy, and commands that
//! must succeed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use model::gate::Blocker;
use model::spec::HealthGate;

use crate::context::Context;
use crate::emit::Progress;
use crate::kubernetes::Kubernetes;
use crate::kubernetes::health::Reading;
use crate::local::Ran;

/// How long a command gate may take.
const COMMAND_TIMEOUT: Duration = Duration::from_mins(5);

/// What the systems say that must be healthy. Without an answer of Kubernetes, nothing.
pub(super) async fn health(context: &Context, gates: &BTreeSet<HealthGate>) -> BTreeMap<HealthGate, Reading> {
    if gates.is_empty() {
        return BTreeMap::new();
    }
    let (snapshot, systems) = (&context.snapshot, &context.systems);
    let client = snapshot
        .access()
        .and_then(|access| Kubernetes::new(systems, &snapshot.blueprint.endpoint, &access.kubernetes));
    match client {
        Ok(client) => client.health(gates.iter().copied()).await,
        Err(_) => BTreeMap::new(),
    }
}

/// Why commands do not let a unit start.
pub(super) enum Unmet {
    /// One failed, and may succeed later.
    Failed(Blocker),
    /// None is run here.
    Refused(Blocker),
}

/// Runs the command gates, one after the other.
pub(super) async fn commands(
    context: &Context,
    commands: &[String],
    progress: &Progress,
) -> Result<(), Unmet> {
    for command in commands {
        progress.note(format!("running the command gate `{command}`"));
        let ran = context.systems.clock.timeout(COMMAND_TIMEOUT, context.snapshot.local().run(command)).await;
        let blocker = |ended: String| Blocker::Command { command: command.clone(), ended };
        match ran {
            Ok(Ran::Passed) => {}
            Ok(Ran::Failed(ended)) => return Err(Unmet::Failed(blocker(ended))),
            Ok(Ran::Refused(why)) => return Err(Unmet::Refused(blocker(format!("was not run: {why}")))),
            Err(_) => return Err(Unmet::Failed(blocker("did not end within 5 minutes".to_owned()))),
        }
    }
    Ok(())
}
