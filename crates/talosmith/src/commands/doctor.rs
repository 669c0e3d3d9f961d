//! `doctor`: whether Proxmox is as the file needs it, and a plan would be accepted.

use std::time::Duration;

use engine::doctor::{self, Finding, Unexamined, Verdict};
use jiff::SignedDuration;

use super::setup::{Setup, Wrong, ended};
use crate::args::Global;
use crate::exit::Exit;
use crate::outside::Outside;
use crate::view::backup::age;
use crate::view::{Printer, Problem};

/// Examines Proxmox and shows what was found.
pub async fn doctor(global: &Global, printer: &Printer) -> Result<Exit, Problem> {
    ended(try_doctor(global, printer).await)
}

async fn try_doctor(global: &Global, printer: &Printer) -> Result<Exit, Wrong> {
    let setup = Setup::new(global, printer)?;
    let outside = setup.outside(global).await?;
    let examined = match setup.session(&outside, printer) {
        Ok(session) => doctor::examine(&session).await,
        Err(Wrong::Shown) => return Err(Wrong::Shown),
        // Without the keys there is no plan. Proxmox can be examined all the same.
        Err(Wrong::Problem(problem)) => {
            doctor::proxmox(&outside.systems, &setup.loaded.spec).await.map(|mut found| {
                let hint = problem.hint.unwrap_or_else(|| "`talosmith plan` needs it".to_owned());
                found.push(Finding::error("secrets bundle", problem.causes.join(": "), hint));
                found
            })
        }
    };
    let found = match examined {
        Ok(mut found) => {
            found.extend(backups(&setup, &outside).await?);
            found
        }
        Err(Unexamined::Systems(error)) => return Err(Problem::from(&error).into()),
        Err(Unexamined::File(problems, found)) => {
            printer.findings(outside.systems.pve.caller(), &found);
            if !printer.is_json() {
                printer.diagnostics(&setup.loaded.sources, &setup.loaded.locate(problems));
            }
            return Err(Wrong::Shown);
        }
    };
    printer.findings(outside.systems.pve.caller(), &found);
    Ok(if doctor::verdict(&found) == Verdict::Error { Exit::Refused } else { Exit::Done })
}

/// How long the folder of the backups may take to answer.
const BACKUP_TIMEOUT: Duration = Duration::from_secs(5);
/// The age of the newest verified backup from which on it is a warning.
const BACKUP_AGE: SignedDuration = SignedDuration::from_hours(48);

/// Whether there is a backup to go back to, where the file has a place for them.
async fn backups(setup: &Setup, outside: &Outside) -> Result<Option<Finding>, Problem> {
    if setup.loaded.spec.backup.is_none() {
        return Ok(None);
    }
    let what = "backup".to_owned();
    let backups = match setup.backups(outside.systems.clock.clone()) {
        Ok(backups) => backups,
        // Why the bundle cannot be opened was found already.
        Err(_) => return Ok(None),
    };
    let seen = backups.look(setup.lab.is_none().then_some(BACKUP_TIMEOUT)).await;
    let (verdict, detail, hint) = match seen.summary {
        Err(why) => {
            let hint = "make the folder of `backup.folder` reachable, for example mount it";
            (Verdict::Warning, format!("unknown: {why}"), hint)
        }
        Ok(summary) => match summary.verified {
            Some(at) if seen.at.duration_since(at) <= BACKUP_AGE => {
                (Verdict::Ok, format!("the newest verified one is of {at}, {} ago", age(seen.at, at)), "")
            }
            Some(at) => {
                let detail = format!("the newest verified one is of {at}, {} ago", age(seen.at, at));
                (
                    Verdict::Warning,
                    detail,
                    "`talosmith backup create` makes one; run it from cron or a systemd timer",
                )
            }
            None if summary.count == 0 => (
                Verdict::Warning,
                format!("there is none in {}", backups.folder().display()),
                "`talosmith backup create` makes one, once the cluster runs",
            ),
            None => (
                Verdict::Warning,
                "none of them is verified".to_owned(),
                "`talosmith backup verify` verifies the newest",
            ),
        },
    };
    let hint = if hint.is_empty() { vec![] } else { vec![hint.to_owned()] };
    Ok(Some(Finding { what, verdict, detail, hint }))
}
