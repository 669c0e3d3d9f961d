//! `plan` and `status`: looking without touching.

use std::time::Duration;

use ambient::Clock;
use engine::saved::SavedPlan;
use engine::secrets::write_private;

use super::change::known;
use super::setup::{Setup, Wrong, ended};
use crate::args::{Global, PlanArgs, StatusArgs};
use crate::exit::Exit;
use crate::view::{Printer, Problem, Verb};

/// Shows what `apply` would do.
pub async fn plan(global: &Global, args: &PlanArgs, printer: &Printer) -> Result<Exit, Problem> {
    ended(try_plan(global, args, printer).await)
}

async fn try_plan(global: &Global, args: &PlanArgs, printer: &Printer) -> Result<Exit, Wrong> {
    let setup = Setup::new(global, printer)?;
    let outside = setup.outside(global).await?;
    let session = setup.session(&outside, printer)?.allowing(args.allow.allow_destroy.clone());
    let snapshot = setup.observe(&session, printer).await?;
    known(&args.allow, &snapshot)?;
    let plan = snapshot.plan();
    if args.markdown {
        printer.markdown(&plan, Verb::Apply);
    } else {
        printer.plan(&plan, Verb::Apply);
    }
    if let Some(path) = args.output.as_ref().filter(|_| !plan.refusals.is_empty()) {
        printer.note(&format!("Nothing was saved to {}: this plan cannot be carried out.", path.display()));
    } else if let Some(path) = &args.output {
        let saved = SavedPlan::new(&snapshot, &plan);
        write_private(path, saved.to_text().as_bytes(), false).map_err(|e| {
            Problem::of(Exit::Systems, &e).within(format!("could not write the plan {}", path.display()))
        })?;
        printer.note(&format!(
            "Saved to {}. Carry it out with: talosmith apply{} {}",
            path.display(),
            super::setup::flags(global),
            path.display()
        ));
    }
    Ok(if !plan.refusals.is_empty() {
        Exit::of_refusals(&plan.refusals)
    } else if args.detailed_exitcode && !(plan.steps.is_empty() && plan.blocked.is_empty()) {
        Exit::Pending
    } else if args.detailed_exitcode && !plan.unknown.is_empty() {
        Exit::Systems
    } else {
        Exit::Done
    })
}

/// Shows how the cluster is.
pub async fn status(global: &Global, args: &StatusArgs, printer: &Printer) -> Result<Exit, Problem> {
    ended(try_status(global, args, printer).await)
}

async fn try_status(global: &Global, args: &StatusArgs, printer: &Printer) -> Result<Exit, Wrong> {
    let setup = Setup::new(global, printer)?;
    let outside = setup.outside(global).await?;
    let session = setup.session(&outside, printer)?;
    if !args.watch {
        let snapshot = setup.refresh(&session, printer).await?;
        printer.status(&snapshot.blueprint, &snapshot.observed, &snapshot.plan());
        return Ok(Exit::Done);
    }
    let mut first = true;
    // Whoever watches sits before a real clock.
    let clock = Clock::real();
    loop {
        let seen = setup.refresh(&session, printer).await;
        let now = outside.systems.clock.now().strftime("%H:%M:%S UTC");
        let last = format!("{now}; again every {} s, until Ctrl-C.", args.every);
        match seen {
            Ok(snapshot) => {
                let all = (&*snapshot.blueprint, &*snapshot.observed, &snapshot.plan());
                printer.watched(Ok(all), crate::window(), first, &last);
            }
            // Proxmox may be away for a moment; whoever watches wants to see it come back.
            Err(Wrong::Problem(problem)) if !first => {
                printer.watched(Err(&problem), crate::window(), first, &last);
            }
            Err(wrong) => return Err(wrong),
        }
        first = false;
        if printer.has_no_reader() {
            return Ok(Exit::Done);
        }
        clock.sleep(Duration::from_secs(args.every)).await;
    }
}
