//! One file per command. Each reads as a table of contents: load, look, plan, do, show.

mod backup;
mod change;
mod credentials;
mod doctor;
mod explain;
mod health;
mod import;
mod init;
#[cfg(feature = "lab")]
mod inject;
#[cfg(feature = "lab")]
mod lab;
mod manual;
mod node;
mod offline;
mod plan;
mod proxmox;
mod render;
mod secrets;
pub mod setup;

use crate::args::{Cli, Command, ProxmoxCommand};
#[cfg(feature = "lab")]
use crate::args::{Global, LabCommand};
use crate::exit::Exit;
use crate::view::{Printer, Problem};

/// Runs one command to its end.
pub async fn run(cli: Cli, printer: Printer) -> Result<Exit, Problem> {
    let mut global = cli.global;
    if let Command::Validate(args) | Command::Show(args) = &cli.command
        && !args.paths.is_empty()
    {
        global.files.clone_from(&args.paths);
    }
    // From here on a folder is the files in it. Only `init` may be pointed at one that is still empty.
    if !matches!(cli.command, Command::Init(_)) {
        global.files = setup::expand(&global.files)?;
    }
    match cli.command {
        Command::Init(args) => init::init(&global, &args, &printer).await,
        Command::Validate(_) => offline::validate(&global, &printer),
        Command::Show(_) => offline::show(&global, &printer),
        Command::Import(args) => import::import(&args, &printer),
        Command::Render(args) => render::render(&global, &args, &printer),
        Command::Secrets(command) => secrets::secrets(&global, command, &printer).await,
        Command::Backup(command) => backup::backup(&global, command, &printer).await,
        Command::Schema => Ok(offline::schema(&printer)),
        Command::Explain { code } => explain::explain(code.as_deref(), &printer),
        Command::Completions { shell } => Ok(manual::completions(shell, &printer)),
        Command::Man(args) => manual::man(&args, &printer),
        Command::Plan(args) => plan::plan(&global, &args, &printer).await,
        Command::Status(args) => plan::status(&global, &args, &printer).await,
        Command::Health(args) => health::health(&global, &args, &printer).await,
        Command::Apply(args) => change::apply(&global, &args, &printer).await,
        Command::Destroy(args) => change::destroy(&global, &args, &printer).await,
        Command::Kubeconfig(args) => credentials::kubeconfig(&global, &args, &printer).await,
        Command::Talosconfig(args) => credentials::talosconfig(&global, &args, &printer),
        Command::Doctor => doctor::doctor(&global, &printer).await,
        Command::Node(command) => node::node(&global, command, &printer).await,
        Command::Host(command) => node::host(&global, command, &printer).await,
        Command::Proxmox(ProxmoxCommand::Setup(args)) => proxmox::setup(&global, &args, &printer).await,
        #[cfg(feature = "lab")]
        Command::Lab(command) => in_lab(&global, command, &printer).await,
    }
}

/// Runs one command of the lab.
#[cfg(feature = "lab")]
async fn in_lab(global: &Global, command: LabCommand, printer: &Printer) -> Result<Exit, Problem> {
    match command {
        LabCommand::Up(args) => match &args.state {
            Some(systems) => lab::up_world(global, systems, &args, printer).await,
            None => lab::up(global, &args, printer).await,
        },
        LabCommand::Down(args) => inject::down(global, &args, printer).await,
        LabCommand::Inject(args) => inject::inject(global, &args, printer).await,
        LabCommand::Reset { yes } => lab::reset(global, yes, printer),
    }
}
