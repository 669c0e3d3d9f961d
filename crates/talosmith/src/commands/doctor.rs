//! `doctor`: whether Proxmox is as the file needs it, and a plan would be accepted.

use engine::doctor::{self, Finding, Unexamined, Verdict};

use super::setup::{Setup, Wrong, ended};
use crate::args::Global;
use crate::exit::Exit;
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
        Ok(found) => found,
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
