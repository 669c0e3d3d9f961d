//! `secrets`: the bundle is made, taken over, handed out, and encrypted for others. It is never overwritten by another one.

use std::io::Read;
use std::path::Path;

use engine::secrets::{self, AtRest, check_recipient, write_private};
use jiff::Timestamp;
use talos::secrets::Bundle;
use zeroize::Zeroizing;

use super::setup::{Setup, Wrong, ended};
use crate::args::{Global, KeepArgs, SecretsCommand};
use crate::exit::Exit;
use crate::outside;
use crate::place::Place;
use crate::view::{Printer, Problem};

/// Runs one of the subcommands.
pub async fn secrets(global: &Global, command: SecretsCommand, printer: &Printer) -> Result<Exit, Problem> {
    ended(match command {
        SecretsCommand::New { keep } => new(global, &keep, printer).await,
        SecretsCommand::Import { from, keep } => import(global, &from, &keep, printer),
        SecretsCommand::Export { output } => export(global, &output, printer),
        SecretsCommand::Recipients { add, remove } => recipients(global, &add, &remove, printer),
    })
}

async fn new(global: &Global, keep: &KeepArgs, printer: &Printer) -> Result<Exit, Wrong> {
    let setup = Setup::new(global, printer)?;
    setup.place.make()?;
    let _lock = setup.place.lock()?;
    setup.place.no_bundle_yet()?;
    let at_rest = at_rest(&setup.place, keep, global, printer)?;
    let bundle = secrets::generate(&setup.loaded.spec, now(&setup)).await.map_err(|e| Problem::from(&e))?;
    kept(&setup.place, &bundle, &at_rest, printer)
}

fn import(global: &Global, from: &Path, keep: &KeepArgs, printer: &Printer) -> Result<Exit, Wrong> {
    let setup = Setup::new(global, printer)?;
    setup.place.make()?;
    let _lock = setup.place.lock()?;
    setup.place.no_bundle_yet()?;
    let (text, name) = if from == Path::new("-") {
        let mut text = Zeroizing::new(String::new());
        let read = std::io::stdin().lock().read_to_string(&mut text).map(drop);
        (read.map(|()| text), "standard input".to_owned())
    } else {
        (std::fs::read_to_string(from).map(Zeroizing::new), from.display().to_string())
    };
    let text = text.map_err(|e| Problem::of(Exit::Input, &e).within(format!("could not read {name}")))?;
    let bundle = secrets::import(&text, &name).map_err(|e| Problem::from(&e))?;
    let at_rest = at_rest(&setup.place, keep, global, printer)?;
    let exit = kept(&setup.place, &bundle, &at_rest, printer)?;
    printer.note(&format!("{name} still holds them in clear. Delete it when you no longer need it."));
    Ok(exit)
}

fn export(global: &Global, output: &Path, printer: &Printer) -> Result<Exit, Wrong> {
    let setup = Setup::new(global, printer)?;
    let Some(kept) = setup.place.kept()? else { return Err(no_secrets(&setup).into()) };
    let text = Zeroizing::new(kept.bundle.to_yaml());
    write_private(output, text.as_bytes(), true).map_err(|e| {
        let problem = Problem::of(Exit::Secrets, &e).within(format!("could not write {}", output.display()));
        match e.kind() {
            std::io::ErrorKind::AlreadyExists => problem.hint("name a file that does not exist yet"),
            _ => problem,
        }
    })?;
    printer.note(&format!(
        "The secrets are in {}, unencrypted. Everyone who can read that file has full access to the cluster.",
        output.display()
    ));
    Ok(Exit::Done)
}

fn recipients(global: &Global, add: &[String], remove: &[String], printer: &Printer) -> Result<Exit, Wrong> {
    let setup = Setup::new(global, printer)?;
    setup.place.make()?;
    let _lock = setup.place.lock()?;
    for key in add.iter().chain(remove) {
        check_recipient(key).map_err(|e| Problem::from(&e))?;
    }
    let Some(kept) = setup.place.kept()? else { return Err(no_secrets(&setup).into()) };
    let AtRest::Encrypted(known) = &kept.at_rest else {
        let path = setup.place.bundle_path(true);
        return Err(Problem::new(Exit::Secrets, format!("{} is not encrypted", path.display()))
            .hint("move it to another folder, then `talosmith secrets import` it without `--plain`")
            .into());
    };
    if let Some(unknown) = remove.iter().find(|key| !known.contains(key)) {
        return Err(Problem::new(Exit::Usage, format!("{unknown} is not a recipient of the secrets"))
            .hint("`talosmith secrets recipients` lists the recipients")
            .into());
    }
    let mut wanted: Vec<String> = known.iter().filter(|key| !remove.contains(key)).cloned().collect();
    wanted.extend(add.iter().filter(|key| !known.contains(key)).cloned());
    wanted.dedup();
    if wanted != *known {
        let identity = setup.place.identity().read_or_make(printer, true)?;
        secrets::encrypt_again(&setup.place.bundle_path(false), &kept, &identity, &wanted)
            .map_err(|e| Problem::from(&e))?;
    }
    if printer.is_json() {
        printer.data(&serde_json::json!({ "recipients": wanted }));
    }
    printer.say(&wanted.join("\n"));
    if !remove.is_empty() {
        printer.note("A removed recipient may have kept a copy of what it could decrypt until now.");
    }
    Ok(Exit::Done)
}

/// How a new bundle is stored: encrypted to our own identity and to the other recipients that are named.
fn at_rest(place: &Place, keep: &KeepArgs, global: &Global, printer: &Printer) -> Result<AtRest, Problem> {
    for key in &keep.recipients {
        check_recipient(key).map_err(|e| Problem::from(&e))?;
    }
    if keep.plain {
        return Ok(AtRest::Plain);
    }
    let mut recipients = place.identity().read_or_make(printer, !global.lab)?.recipients();
    for key in &keep.recipients {
        if !recipients.contains(key) {
            recipients.push(key.clone());
        }
    }
    Ok(AtRest::Encrypted(recipients))
}

fn kept(place: &Place, bundle: &Bundle, at_rest: &AtRest, printer: &Printer) -> Result<Exit, Wrong> {
    let path = place.create_bundle(bundle, at_rest)?;
    if printer.is_json() {
        printer.data(&serde_json::json!({ "file": path, "cluster_id": bundle.cluster_id() }));
    }
    printer.say(&match at_rest {
        AtRest::Encrypted(recipients) => {
            let whom = if recipients.len() == 1 {
                "1 recipient".to_owned()
            } else {
                format!("{} recipients", recipients.len())
            };
            format!("The secrets are in {}, encrypted to {whom}. Keep that file.", path.display())
        }
        AtRest::Plain => format!("The secrets are in {}, in clear, readable by you only.", path.display()),
    });
    Ok(Exit::Done)
}

/// Why a command that needs secrets cannot go on.
pub fn no_secrets(setup: &Setup) -> Problem {
    let cluster = &setup.loaded.spec.cluster;
    let why = format!("the cluster {cluster} has no secrets yet: {}", setup.place.bundle_at());
    Problem::new(Exit::Secrets, why)
        .hint(
            "if the cluster exists, restore its bundle from your backup, or import its secrets with `talosmith secrets import`; \
             for a new cluster `talosmith secrets new` or `talosmith apply` creates them",
        )
}

fn now(setup: &Setup) -> Timestamp {
    outside::time(setup.lab.map(|_| setup.place.folder()))
}
