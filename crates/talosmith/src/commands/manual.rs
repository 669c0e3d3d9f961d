//! What comes from the command line's own description: completions, manual pages, and the reference of commands.

#[cfg(test)]
mod reference;

use clap::CommandFactory as _;
use clap_complete::Shell;

use crate::args::{Cli, ManArgs};
use crate::exit::Exit;
use crate::view::{Printer, Problem};

/// Prints a completion script.
pub fn completions(shell: Shell, printer: &Printer) -> Exit {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "talosmith", &mut script);
    printer.document(&String::from_utf8_lossy(&script));
    Exit::Done
}

/// Prints the manual page, or writes those of all commands.
pub fn man(args: &ManArgs, printer: &Printer) -> Result<Exit, Problem> {
    let Some(folder) = &args.output else {
        let mut page = Vec::new();
        clap_mangen::Man::new(Cli::command())
            .render(&mut page)
            .map_err(|e| Problem::of(Exit::Internal, &e).within("could not create the manual page"))?;
        printer.document(&String::from_utf8_lossy(&page));
        return Ok(Exit::Done);
    };
    let written =
        std::fs::create_dir_all(folder).and_then(|()| clap_mangen::generate_to(Cli::command(), folder));
    written.map_err(|e| {
        Problem::of(Exit::Input, &e).within(format!("could not write manual pages to {}", folder.display()))
    })?;
    if printer.is_json() {
        printer.data(&serde_json::json!({ "folder": folder }));
    }
    printer.note(&format!("Written to {}; `man -l {0}/talosmith.1` shows the first.", folder.display()));
    Ok(Exit::Done)
}
