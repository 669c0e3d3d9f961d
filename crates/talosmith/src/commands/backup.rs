//! `backup`: backups of etcd are made, listed, read, verified and deleted.

use ambient::Clock;
use engine::backup::{Backups, Entry};
use engine::etcd_snapshot;

use super::secrets::no_secrets;
use super::setup::{Setup, Wrong, confirm, ended};
use crate::args::{BackupCommand, GetArgs, Global, PruneArgs, VerifyArgs};
use crate::exit::Exit;
use crate::outside;
use crate::view::{Printer, Problem};

/// Runs one of the subcommands.
pub async fn backup(global: &Global, command: BackupCommand, printer: &Printer) -> Result<Exit, Problem> {
    ended(match command {
        BackupCommand::Create => create(global, printer).await,
        BackupCommand::List => list(global, printer),
        BackupCommand::Get(args) => get(global, &args, printer),
        BackupCommand::Verify(args) => verify(global, &args, printer),
        BackupCommand::Prune(args) => prune(global, &args, printer),
    })
}

async fn create(global: &Global, printer: &Printer) -> Result<Exit, Wrong> {
    let setup = Setup::new(global, printer)?;
    setup.backup_section()?;
    if setup.place.kept()?.is_none() {
        return Err(no_secrets(&setup).into());
    }
    let outside = setup.outside(global).await?;
    let session = setup.session(&outside, printer)?;
    let snapshot = setup.refresh(&session, printer).await?;
    let note = |text: String| printer.note(&text);
    let taken = Box::pin(etcd_snapshot::take(&outside.systems, &snapshot, &note)).await;
    let taken = taken.map_err(|e| Problem::from(&e).within("could not make a backup"))?;
    let backups = setup.backups(outside.systems.clock.clone())?;
    let entry = backups.find(Some(&taken.place)).map_err(|e| Problem::from(&e))?;
    printer.backup_made(&backups, &entry);
    Ok(Exit::Done)
}

/// The backups of the file's cluster, without asking the cluster.
fn offline(global: &Global, printer: &Printer) -> Result<(Setup, Backups), Wrong> {
    let setup = Setup::new(global, printer)?;
    let clock = match setup.lab {
        Some(_) => Clock::from(outside::time(Some(setup.place.folder())), 1.0),
        None => Clock::real(),
    };
    let backups = setup.backups(clock)?;
    Ok((setup, backups))
}

fn list(global: &Global, printer: &Printer) -> Result<Exit, Wrong> {
    let (_, backups) = offline(global, printer)?;
    let entries = backups.list().map_err(|e| Problem::from(&e))?;
    printer.backups(&backups, &entries);
    Ok(Exit::Done)
}

fn get(global: &Global, args: &GetArgs, printer: &Printer) -> Result<Exit, Wrong> {
    let (_, backups) = offline(global, printer)?;
    let entry = backups.find(Some(&args.backup)).map_err(|e| Problem::from(&e))?;
    let snapshot = backups.get(&entry, &args.output).map_err(|e| Problem::from(&e))?;
    if printer.is_json() {
        printer.data(&serde_json::json!({
            "file": args.output, "backup": entry.name.snapshot(), "bytes": snapshot.bytes, "sha256": snapshot.sha256,
        }));
    }
    printer.note(&format!(
        "The snapshot of {} is in {}, unencrypted. It contains every Secret of the cluster.",
        entry.name.at,
        args.output.display()
    ));
    Ok(Exit::Done)
}

fn verify(global: &Global, args: &VerifyArgs, printer: &Printer) -> Result<Exit, Wrong> {
    let (_, backups) = offline(global, printer)?;
    let find = |meant: Option<&str>| backups.find(meant).map_err(|e| Problem::from(&e));
    let entries: Vec<Entry> = match (args.all, args.backups.as_slice()) {
        (true, _) => backups.list().map_err(|e| Problem::from(&e))?,
        (false, []) => vec![find(None)?],
        (false, named) => named.iter().map(|name| find(Some(name))).collect::<Result<_, _>>()?,
    };
    if entries.is_empty() {
        find(None)?;
    }
    // One that is damaged does not keep the others from being verified.
    let mut first = None;
    for entry in entries {
        let name = entry.name.clone();
        match backups.verify(entry) {
            Ok(verified) => printer.backup_verified(&verified),
            Err(error) => {
                let problem = Problem::from(&error);
                printer.backup_damaged(&name, &problem);
                first.get_or_insert(problem);
            }
        }
    }
    match first {
        Some(problem) if !printer.is_json() => Err(problem.into()),
        Some(problem) => Ok(problem.exit),
        None => Ok(Exit::Done),
    }
}

fn prune(global: &Global, args: &PruneArgs, printer: &Printer) -> Result<Exit, Wrong> {
    let (setup, backups) = offline(global, printer)?;
    let keep = setup.backup_section()?.keep;
    let found = backups.prunable(&keep).map_err(|e| Problem::from(&e))?;
    let nothing = found.delete.is_empty() && found.leftovers.is_empty();
    if !printer.is_json() || nothing {
        printer.prunable(&found, false);
    }
    if nothing {
        return Ok(Exit::Done);
    }
    if !args.yes && !confirm(printer, "Delete these backups?")? {
        return Ok(Exit::Declined);
    }
    backups.delete(&found).map_err(|e| Problem::from(&e))?;
    if printer.is_json() {
        printer.prunable(&found, true);
    }
    printer.say("The backups were deleted.");
    Ok(Exit::Done)
}
