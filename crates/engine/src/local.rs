//! What only the machine that Talosmith runs on can do: run commands of the file, and know time zones. The engine does neither itself.

use futures::future::BoxFuture;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use model::blueprint::Blueprint;
use model::diagnostic::{Diagnostic, Path, Severity, codes};
use model::policy::WindowState;

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ran {
    /// It exited with 0.
    Passed,
    /// It did not, or could not be run: how it ended, with the last line of its output.
    Failed(String),
    /// No commands are run here: why.
    Refused(String),
}

/// The machine that Talosmith runs on.
pub trait LocalMachine: Send + Sync {
    /// Runs a command. Dropping the future ends the command.
    fn run<'a>(&'a self, command: &'a str) -> BoxFuture<'a, Ran>;

    /// A time zone by its name in the time zone database.
    ///
    /// # Errors
    ///
    /// Why it is not known here.
    fn time_zone(&self, name: &str) -> Result<TimeZone, String>;
}

/// Runs nothing and knows nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoMachine;

impl LocalMachine for NoMachine {
    fn run<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Ran> {
        Box::pin(std::future::ready(Ran::Refused("this session runs no commands".to_owned())))
    }

    fn time_zone(&self, _: &str) -> Result<TimeZone, String> {
        Err("this session has no time zone database".to_owned())
    }
}

/// Whether the maintenance window of the file is open.
pub(crate) fn window(blueprint: &Blueprint, local: &dyn LocalMachine, now: Timestamp) -> WindowState {
    let Some(window) = &blueprint.options.changes.window else { return WindowState::Unknown };
    match window.zone.resolve(|name| local.time_zone(name)) {
        Ok(zone) => window.state(now, &zone),
        Err(_) => WindowState::Unknown,
    }
}

/// Says that the time zone of the maintenance window is not known here, where that is so.
#[must_use]
pub fn unknown_time_zone(
    blueprint: &Blueprint,
    local: &dyn LocalMachine,
    severity: Severity,
) -> Option<Diagnostic> {
    let zone = &blueprint.options.changes.window.as_ref()?.zone;
    let why = zone.resolve(|name| local.time_zone(name)).err()?;
    let message = format!("the time zone `{zone}` is not known on this machine: {why}");
    let found = Diagnostic { severity, ..Diagnostic::error(codes::UNKNOWN_TIME_ZONE, message) };
    Some(
        found
            .at(Path::of(&["changes", "window", "time_zone"]), "")
            .help("install the time zone database (`tzdata`), or write a fixed offset such as `+02:00`"),
    )
}
