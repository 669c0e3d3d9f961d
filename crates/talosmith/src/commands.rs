//! One file per command. Each reads as a table of contents: load, look, plan, do, show.

mod change;
mod credentials;
mod lab;
mod offline;
mod plan;
mod setup;

use crate::args::{Cli, Command, LabCommand};
use crate::exit::Exit;
use crate::view::{Printer, Problem};

/// Runs one command to its end.
pub async fn run(cli: Cli, printer: Printer) -> Result<Exit, Problem> {
    let global = cli.global;
    match cli.command {
        Command::Validate => offline::validate(&global, &printer),
        Command::Schema => Ok(offline::schema(&printer)),
        Command::Explain { code } => offline::explain(&code, &printer),
        Command::Plan(args) => plan::plan(&global, &args, &printer).await,
        Command::Status => plan::status(&global, &printer).await,
        Command::Apply(args) => change::apply(&global, &args, &printer).await,
        Command::Destroy(args) => change::destroy(&global, &args, &printer).await,
        Command::Kubeconfig(args) => credentials::kubeconfig(&global, &args, &printer),
        Command::Talosconfig(args) => credentials::talosconfig(&global, &args, &printer),
        Command::Lab(LabCommand::Up { proxmox, factory, world }) => match world {
            Some(world) => lab::up_world(&global, &world, proxmox, factory, &printer).await,
            None => lab::up(&global, proxmox, factory, &printer).await,
        },
        Command::Lab(LabCommand::Reset { yes }) => lab::reset(&global, yes, &printer),
    }
}
