//! `health`: the named conditions, asked once or waited for.

use std::time::Duration;

use model::observed::{Api, Observed};
use model::plan::{Plan, Refusal, RefusalCode};

use super::secrets::no_secrets;
use super::setup::{Setup, Wrong, ended, rejected_token};
use crate::args::{Global, HealthArgs};
use crate::exit::Exit;
use crate::view::{Printer, Problem};

const INTERVAL: Duration = Duration::from_secs(3);

/// Says whether the cluster is healthy.
pub async fn health(global: &Global, args: &HealthArgs, printer: &Printer) -> Result<Exit, Problem> {
    ended(try_health(global, args, printer).await)
}

/// Why there is nothing to ask machines with. Where machines of a cluster with this name exist, new keys would lead nowhere.
async fn without_bundle(global: &Global, setup: &Setup, printer: &Printer) -> Wrong {
    let Ok(outside) = setup.outside(global).await else { return no_secrets(setup).into() };
    let session = match setup.session(&outside, printer) {
        Ok(session) => session,
        Err(wrong) => return wrong,
    };
    let Ok(snapshot) = session.refresh().await else { return no_secrets(setup).into() };
    let lost = snapshot.plan().refusals.into_iter().find(|refusal| refusal.code == RefusalCode::LostBundle);
    match lost {
        Some(lost) => Problem::new(Exit::Secrets, lost.why).hint(lost.hint).into(),
        None => no_secrets(setup).into(),
    }
}

/// The refusal that says that the bundle here is not the cluster's. Machines of which one answers with its keys are not all of another
/// cluster: what is wrong with the others is a matter of health.
fn other_bundle<'a>(observed: &Observed, plan: &'a Plan) -> Option<&'a Refusal> {
    let is = |code: RefusalCode| plan.refusals.iter().find(|refusal| refusal.code == code);
    let answers = observed.machines.values().any(|machine| machine.api == Api::Configured);
    is(RefusalCode::LostBundle).or_else(|| is(RefusalCode::OtherKeys).filter(|_| !answers))
}

async fn try_health(global: &Global, args: &HealthArgs, printer: &Printer) -> Result<Exit, Wrong> {
    let setup = Setup::new(global, printer)?;
    if setup.place.kept()?.is_none() {
        return Err(without_bundle(global, &setup, printer).await);
    }
    let outside = setup.outside(global).await?;
    let session = setup.session(&outside, printer)?;
    let snapshot = setup.refresh(&session, printer).await?;
    let plan = snapshot.plan();
    if let Some(refusal) = other_bundle(&snapshot.observed, &plan) {
        // Without the right keys nothing can be asked, and no time helps.
        let cluster = &snapshot.blueprint.cluster;
        let mut problem = Problem::new(Exit::Secrets, format!("the health of {cluster} is unknown"));
        problem.causes.push(refusal.why.clone());
        return Err(problem.hint(refusal.hint.clone()).into());
    }
    rejected_token(&snapshot.observed, &plan, printer);
    let clock = &outside.systems.clock;
    let began = clock.now();
    let mut waited_for = String::new();
    loop {
        let health = engine::health::examine(&outside.systems, &snapshot).await;
        let missing =
            health.conditions.iter().find_map(|c| Some(format!("{}: {}", c.name, c.missing.as_ref()?)));
        let left = args.timeout.is_some_and(|limit| {
            clock.now().duration_since(began) < limit.try_into().unwrap_or(jiff::SignedDuration::MAX)
        });
        match missing {
            Some(missing) if left => {
                if missing != waited_for {
                    printer.note(&format!("waiting: {missing}"));
                    waited_for = missing;
                }
            }
            missing => {
                printer.health(&snapshot.blueprint.cluster, &health);
                return Ok(if missing.is_none() { Exit::Done } else { Exit::Systems });
            }
        }
        clock.sleep(INTERVAL).await;
    }
}
