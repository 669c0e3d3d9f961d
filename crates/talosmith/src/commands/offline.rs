//! Commands that look at nothing but the file.

use engine::render::{Renderer, schematics};
use model::blueprint::Blueprint;
use model::load::Loaded;

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
    // What every plan would refuse is said here, where the file alone is looked at.
    if let Some(refusal) = model::plan::not_yet::refusals(&blueprint).into_iter().next() {
        return Err(Problem::new(Exit::Refused, refusal.why).remedy(refusal.remedy).into());
    }
    if printer.is_json() {
        printer.diagnostics(&loaded.sources, &model::check::check(loaded));
    } else {
        let names: Vec<&str> = loaded.sources.iter().map(|source| source.name.as_str()).collect();
        printer.say(&format!("{} is good: {}.", names.join(", "), summary(&blueprint)));
    }
    Ok(Exit::Done)
}

/// Shows what the file decides.
pub fn show(global: &Global, printer: &Printer) -> Result<Exit, Problem> {
    ended(resolved(global, printer).map(|(_, blueprint)| {
        printer.blueprint(&blueprint);
        Exit::Done
    }))
}

/// The file, and what it decides by itself: nobody is asked, so what is Proxmox' to decide stays open.
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
    let text = serde_json::to_string_pretty(&model::spec::schema()).unwrap_or_default();
    printer.verbatim(&format!("{text}\n"));
    Exit::Done
}
