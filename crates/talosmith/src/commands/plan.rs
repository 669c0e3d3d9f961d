//! `plan` and `status`: looking without touching.

use engine::Session;

use super::setup::{Setup, Wrong, ended};
use crate::args::{Global, PlanArgs};
use crate::exit::Exit;
use crate::view::{Printer, Problem, Verb};

/// Shows what `apply` would do.
pub async fn plan(global: &Global, args: &PlanArgs, printer: &Printer) -> Result<Exit, Problem> {
    ended(try_plan(global, args, printer).await)
}

async fn try_plan(global: &Global, args: &PlanArgs, printer: &Printer) -> Result<Exit, Wrong> {
    let setup = Setup::new(global, printer)?;
    let outside = setup.outside(global)?;
    let session = Session::new(outside.world.clone(), setup.loaded.spec.clone(), setup.place.load_bundle()?);
    let look = setup.look(&session, printer).await?;
    let plan = look.plan();
    printer.plan(&plan, Verb::Apply);
    Ok(if !plan.refusals.is_empty() {
        Exit::Refused
    } else if args.detailed_exitcode && !plan.steps.is_empty() {
        Exit::Pending
    } else {
        Exit::Done
    })
}

/// Shows how the cluster is.
pub async fn status(global: &Global, printer: &Printer) -> Result<Exit, Problem> {
    ended(try_status(global, printer).await)
}

async fn try_status(global: &Global, printer: &Printer) -> Result<Exit, Wrong> {
    let setup = Setup::new(global, printer)?;
    let outside = setup.outside(global)?;
    let session = Session::new(outside.world.clone(), setup.loaded.spec.clone(), setup.place.load_bundle()?);
    let look = setup.look(&session, printer).await?;
    printer.status(&look.blueprint, &look.observed, &look.plan().notices);
    Ok(Exit::Done)
}
