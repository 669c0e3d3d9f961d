//! `plan` and `status`: they observe and change nothing.

use std::time::Duration;

use ambient::Clock;
use engine::saved::SavedPlan;
use engine::secrets::write_private;
use model::plan::Plan;

use super::change::reviewed::{self, of_this_cluster, read_plan};
use super::change::unknown_name;
use super::setup::{Setup, Wrong, ended, rejected_token};
use crate::args::{Global, PlanArgs, StatusArgs};
use crate::exit::Exit;
use crate::view::{Printer, Problem, Verb};

/// How long `status` waits for the folder of the backups, once the cluster has answered.
const BACKUP_TIMEOUT: Duration = Duration::from_secs(2);

/// Shows what `apply` would do.
pub async fn plan(global: &Global, args: &PlanArgs, printer: &Printer) -> Result<Exit, Problem> {
    ended(try_plan(global, args, printer).await)
}

async fn try_plan(global: &Global, args: &PlanArgs, printer: &Printer) -> Result<Exit, Wrong> {
    let setup = Setup::new(global, printer)?;
    if let Some(path) = &args.saved {
        let saved = read_plan(path)?;
        of_this_cluster(&saved, path, &setup.loaded.spec.cluster)?;
        reviewed::verify(&saved, path, setup.place.load_bundle()?.as_ref())?;
        return Ok(shown(args, &saved.plan, printer));
    }
    let outside = setup.outside(global).await?;
    let session = setup.session(&outside, printer)?;
    let session = session.allowing(args.allow.allowed()).targeting(args.allow.target.clone());
    let snapshot = setup.observe(&session, printer).await?;
    if let Some(unknown) = snapshot.unknown_name() {
        return Err(unknown_name(&unknown).into());
    }
    let plan = snapshot.plan();
    let exit = shown(args, &plan, printer);
    if let Some(path) = args.output.as_ref().filter(|_| !plan.refusals.is_empty()) {
        printer.note(&format!("Nothing was saved to {}: this plan cannot be applied.", path.display()));
    } else if let Some(path) = &args.output {
        let saved = SavedPlan::new(&snapshot, &plan);
        write_private(path, saved.to_text().as_bytes(), false).map_err(|e| {
            Problem::of(Exit::Systems, &e).within(format!("could not write the plan {}", path.display()))
        })?;
        printer.note(&format!(
            "Saved to {}. Apply it with: talosmith apply{} {}",
            path.display(),
            super::setup::flags(global),
            path.display()
        ));
    }
    Ok(exit)
}

/// Shows a plan; gives the exit code.
fn shown(args: &PlanArgs, plan: &Plan, printer: &Printer) -> Exit {
    if args.markdown {
        printer.markdown(plan, Verb::Apply);
    } else {
        printer.plan(plan, Verb::Apply);
    }
    if !plan.refusals.is_empty() {
        Exit::of_refusals(&plan.refusals)
    } else if args.detailed_exitcode && !(plan.steps.is_empty() && plan.blocked.is_empty()) {
        Exit::Pending
    } else if args.detailed_exitcode && !plan.unknown.is_empty() {
        Exit::Systems
    } else {
        Exit::Done
    }
}

/// Shows how the cluster is.
pub async fn status(global: &Global, args: &StatusArgs, printer: &Printer) -> Result<Exit, Problem> {
    ended(try_status(global, args, printer).await)
}

async fn try_status(global: &Global, args: &StatusArgs, printer: &Printer) -> Result<Exit, Wrong> {
    let setup = Setup::new(global, printer)?;
    let outside = setup.outside(global).await?;
    let session = setup.session(&outside, printer)?;
    let backups = match setup.loaded.spec.backup {
        Some(_) => Some(setup.backups(outside.systems.clock.clone())?),
        None => None,
    };
    // The folder is asked while the cluster is. The time of the lab stands still while nothing happens in it.
    let limit = setup.lab.is_none().then_some(BACKUP_TIMEOUT);
    let look = || async {
        let seen = backups.as_ref().map(|backups| backups.look(limit));
        let snapshot = setup.refresh(&session, printer).await;
        let seen = match seen {
            Some(seen) => Some(seen.await),
            None => None,
        };
        (snapshot, seen)
    };
    if !args.watch {
        let (snapshot, backup) = look().await;
        let snapshot = snapshot?;
        let plan = snapshot.plan();
        printer.status(&snapshot.blueprint, &snapshot.observed, &plan, backup.as_ref());
        let rejected = rejected_token(&snapshot.observed, &plan, printer);
        return Ok(if rejected { Exit::Input } else { Exit::Done });
    }
    let mut first = true;
    // A person who watches has a real clock.
    let clock = Clock::real();
    loop {
        let (seen, backup) = look().await;
        let now = outside.systems.clock.now().strftime("%H:%M:%S UTC");
        let last = format!("{now}; again every {} s, until Ctrl-C.", args.every);
        match seen {
            Ok(snapshot) => {
                let all = (&*snapshot.blueprint, &*snapshot.observed, &snapshot.plan());
                printer.watched(Ok(all), backup.as_ref(), crate::window(), first, &last);
            }
            // Proxmox may be away for a moment, and comes back.
            Err(Wrong::Problem(problem)) if !first => {
                printer.watched(Err(&problem), None, crate::window(), first, &last);
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
