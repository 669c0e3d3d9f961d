//! Commands that look at nothing but the file.

use std::path::Path;

use engine::local::unknown_time_zone;
use engine::render::{Renderer, schematics};
use model::attachments::references;
use model::blueprint::Blueprint;
use model::diagnostic::{Diagnostic, Severity, codes};
use model::load::Loaded;
use model::spec::{Reference, Spec};

use super::setup::{Setup, Wrong, ended, load_file};
use crate::args::Global;
use crate::exit::Exit;
use crate::outside;
use crate::view::show::summary;
use crate::view::{Printer, Problem};

/// Checks the file, and says in one line what it makes.
pub fn validate(global: &Global, printer: &Printer) -> Result<Exit, Problem> {
    ended(try_validate(global, printer))
}

fn try_validate(global: &Global, printer: &Printer) -> Result<Exit, Wrong> {
    let setup = Setup::new(global, printer)?;
    let attachments = setup.attachments(printer)?;
    let shown = |found| setup.shown(found, printer);
    let loaded = &setup.loaded;
    let blueprint = model::resolve::resolve(&loaded.spec, None, None).map_err(shown)?;
    let schematics = schematics(&blueprint, &attachments).map_err(|e| Problem::from(&e))?;
    let now = outside::time(setup.lab.map(|_| setup.place.folder()));
    Renderer::new(&blueprint, &schematics, &attachments).check(now).map_err(shown)?;
    let mut missing = missing_secrets(&loaded.spec, &setup.folder, |name| std::env::var_os(name).is_some());
    missing.extend(unknown_time_zone(&blueprint, &setup.local(), Severity::Warning));
    let missing = loaded.locate(missing);
    if printer.is_json() {
        let found = loaded.check().into_iter().chain(missing).collect::<Vec<_>>();
        printer.diagnostics(&loaded.sources, &found);
    } else {
        if !missing.is_empty() {
            printer.diagnostics(&loaded.sources, &missing);
        }
        let names: Vec<&str> = loaded.sources.iter().map(|source| source.name.as_str()).collect();
        printer.say(&format!("{} is valid: {}.", names.join(", "), summary(&blueprint)));
    }
    Ok(Exit::Done)
}

/// Secrets that are not where the file says. Only warnings: a file is checked in CI, too, where they need not be. Nothing is read
/// beyond whether it can be read, and no command is run.
fn missing_secrets(spec: &Spec, folder: &Path, is_set: impl Fn(&str) -> bool) -> Vec<Diagnostic> {
    let missing = |(path, reference): (model::diagnostic::Path, Reference)| {
        let (what, help) = match &reference {
            Reference::File(file) => {
                let at = folder.join(file);
                let opened = std::fs::File::open(&at).and_then(|file| file.metadata());
                let why = match opened {
                    Ok(file) if file.is_dir() => "it is a folder".to_owned(),
                    Ok(file) if file.is_file() && file.len() == 0 => "it is empty".to_owned(),
                    Ok(_) => return None,
                    Err(error) => error.to_string(),
                };
                let help = "put the secret there, or name another place; the path is relative to the folder of the cluster file";
                (format!("`{path}` names the file {}, and it cannot be used here: {why}", at.display()), help)
            }
            Reference::Env(name) if !is_set(name) => (
                format!("`{path}` names the environment variable {name}, and it is not set here"),
                "set it where commands run that need it, such as `plan` and `apply`",
            ),
            Reference::Env(_) | Reference::Cmd(_) => return None,
        };
        Some(Diagnostic::warning(codes::NO_SECRET, what).at(path, "").help(help))
    };
    references(spec).into_iter().filter_map(missing).collect()
}

/// Shows what the file decides.
pub fn show(global: &Global, printer: &Printer) -> Result<Exit, Problem> {
    ended(resolved(global, printer).map(|(_, blueprint)| {
        printer.blueprint(&blueprint);
        Exit::Done
    }))
}

/// The file, and what it decides by itself: no system is asked, so what is Proxmox' to decide stays open.
fn resolved(global: &Global, printer: &Printer) -> Result<(Loaded, Blueprint), Wrong> {
    let loaded = load_file(global, printer)?;
    match model::resolve::resolve(&loaded.spec, None, None) {
        Ok(blueprint) => Ok((loaded, blueprint)),
        Err(found) => {
            printer.diagnostics(&loaded.sources, &loaded.locate(found));
            Err(Wrong::Shown)
        }
    }
}

/// Prints the schema.
pub fn schema(printer: &Printer) -> Exit {
    let schema = model::spec::schema();
    if printer.is_json() {
        printer.data(&serde_json::json!({ "json_schema": schema }));
        return Exit::Done;
    }
    let text = serde_json::to_string_pretty(&schema).unwrap_or_default();
    printer.verbatim(&format!("{text}\n"));
    Exit::Done
}
