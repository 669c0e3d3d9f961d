//! The program: arguments in, views out. All logic is in the crates below.

mod args;
mod commands;
mod core_dumps;
mod exit;
mod identity;
mod interrupt;
mod local;
mod merge;
mod outside;
mod place;
mod secret_command;
mod terminal;
mod view;

use std::io::IsTerminal;
use std::process::ExitCode;

#[cfg(feature = "lab")]
use ambient::Asleep;
use clap::Parser;

use crate::args::{Cli, Color, Global};
#[cfg(feature = "lab")]
use crate::args::{Command, LabSpeed, WATCHABLE};
use crate::exit::Exit;
use crate::view::{Printer, Problem, Settings};

fn main() -> ExitCode {
    core_dumps::disable();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            #[cfg(not(feature = "lab"))]
            let error = args::without_lab(error);
            // Help and version are errors to clap. What cannot be printed has no reader.
            let _ = error.print();
            return if error.use_stderr() { Exit::Usage.into() } else { Exit::Done.into() };
        }
    };
    let printer = Printer::new(settings(&cli.global)).with_flags(&commands::setup::flags(&cli.global));
    #[cfg(feature = "lab")]
    let made = runtime(&cli);
    #[cfg(not(feature = "lab"))]
    let made = real_runtime();
    let runtime = match made {
        Ok(made) => made,
        Err(error) => {
            printer.problem(&Problem::of(Exit::Internal, &error).within("could not start"));
            return Exit::Internal.into();
        }
    };
    #[cfg(feature = "lab")]
    let (runtime, pace) = runtime;
    let work = commands::run(cli, printer.clone());
    #[cfg(feature = "lab")]
    let work = paced(work, pace);
    let exit = match runtime.block_on(work) {
        Ok(exit) => exit,
        Err(problem) => {
            let exit = problem.exit;
            printer.problem(&problem);
            exit
        }
    };
    let exit = match printer.failure() {
        Some(problem) if exit == Exit::Done => {
            printer.problem(&problem);
            problem.exit
        }
        _ => exit,
    };
    // Whatever still runs (a connection without a reader) must not keep the program from ending.
    runtime.shutdown_background();
    exit.into()
}

fn settings(global: &Global) -> Settings {
    let (out, err) = (std::io::stdout().is_terminal(), std::io::stderr().is_terminal());
    let dumb = std::env::var_os("TERM").is_some_and(|t| t == "dumb");
    let no_color = std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty());
    let always = global.color == Color::Always;
    let (width, height) = window().unwrap_or((100, 24));
    Settings {
        stdout_is_terminal: out || always,
        stderr_is_terminal: err && !dumb,
        colour: always || (global.color == Color::Auto && !no_color && !dumb),
        width,
        height,
        ascii: !has_all_letters(),
        json: global.json,
        quiet: global.quiet,
    }
}

/// Columns and lines of the window, where there is one.
fn window() -> Option<(usize, usize)> {
    let size = terminal_size::terminal_size_of(std::io::stderr())
        .or_else(|| terminal_size::terminal_size_of(std::io::stdout()));
    // A window that says it has no columns, or next to none, does not know.
    size.map(|(width, height)| (usize::from(width.0).max(40), height.0.into()))
}

/// Whether the terminal has more letters than those of ASCII: the first variable of the three that is set decides. Where none
/// is, as in many containers, most terminals have them all.
fn has_all_letters() -> bool {
    let set = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().filter_map(std::env::var_os);
    let decides = set.map(|value| value.to_string_lossy().to_lowercase()).find(|value| !value.is_empty());
    decides.is_none_or(|value| value.contains("utf-8") || value.contains("utf8"))
}

/// Whose time is moved on, and how fast.
#[cfg(feature = "lab")]
type Pace = Option<(Asleep, f64)>;

/// Work, while time is moved on.
#[cfg(feature = "lab")]
async fn paced<T>(work: impl Future<Output = T>, pace: Pace) -> T {
    match pace {
        None => work.await,
        Some((asleep, times)) => tokio::select! {
            biased;
            done = work => done,
            never = asleep.pace(times) => match never {},
        },
    }
}

/// In the lab everything happens on one thread, in a fixed order. Time itself jumps at full speed; otherwise it runs, but only
/// while no task has work.
#[cfg(feature = "lab")]
fn runtime(cli: &Cli) -> std::io::Result<(tokio::runtime::Runtime, Pace)> {
    if !cli.global.lab || matches!(cli.command, Command::Lab(_)) {
        return Ok((real_runtime()?, None));
    }
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let pace = match cli.global.lab_speed.unwrap_or(WATCHABLE) {
        LabSpeed::Max => None,
        LabSpeed::Times(times) => Some((Asleep::watch(&mut builder), times)),
    };
    Ok((builder.enable_all().start_paused(true).build()?, pace))
}

fn real_runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()
}
