//! `health`: the named conditions, asked once or waited for.

use std::time::Duration;

use model::plan::RefusalCode;

use super::secrets::no_secrets;
use super::setup::{Setup, Wrong, ended};
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

async fn try_health(global: &Global, args: &HealthArgs, printer: &Printer) -> Result<Exit, Wrong> {
    let setup = Setup::new(global, printer)?;
    if setup.place.kept()?.is_none() {
        return Err(without_bundle(global, &setup, printer).await);
    }
    let outside = setup.outside(global).await?;
    let session = setup.session(&outside, printer)?;
    let snapshot = setup.refresh(&session, printer).await?;
    let clock = &outside.systems.clock;
    let began = clock.now();
    let mut waited_for = String::new();
    loop {
        let conditions = engine::health::conditions(&outside.systems, &snapshot).await;
        let missing = conditions.iter().find_map(|c| Some(format!("{}: {}", c.name, c.missing.as_ref()?)));
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
                printer.health(&snapshot.blueprint.cluster, &conditions);
                return Ok(if missing.is_none() { Exit::Done } else { Exit::Systems });
            }
        }
        clock.sleep(INTERVAL).await;
    }
}
