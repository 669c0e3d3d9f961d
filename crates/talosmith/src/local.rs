//! The machine that Talosmith runs on: command gates and time zones.
//!
//! A command gate runs in a shell, in the folder of the cluster file, without what is meant for us, as commands that print secrets do
//! (`secret_command`). It has a process group of its own, which ends when the gate gives up on it.

use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::process::{Command, Output, Stdio};

use engine::local::{LocalMachine, Ran};
use jiff::tz::TimeZone;

use crate::secret_command::{self, Commands};

/// Where systems keep the time zone database.
const DATABASES: &[&str] =
    &["/usr/share/zoneinfo", "/usr/lib/zoneinfo", "/usr/share/lib/zoneinfo", "/etc/zoneinfo"];

/// So much is told of the last line of a command.
const LINE: usize = 200;

/// This machine, for one cluster file.
#[derive(Debug)]
pub struct Local {
    folder: PathBuf,
    commands: Commands,
    in_lab: bool,
}

impl Local {
    /// Commands run in this folder. In a lab they pass without being run: they would ask about the real cluster.
    pub fn new(folder: &Path, commands: Commands, in_lab: bool) -> Self {
        let here = folder.as_os_str().is_empty();
        Self { folder: if here { PathBuf::from(".") } else { folder.to_path_buf() }, commands, in_lab }
    }

    async fn gate(&self, command: &str) -> Ran {
        if self.in_lab {
            return Ran::Passed;
        }
        if self.commands == Commands::Refused {
            return Ran::Refused("`--no-commands` is given".to_owned());
        }
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(command).current_dir(&self.folder);
        shell.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        secret_command::withhold(&mut shell);
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut shell, 0);
        let child = match shell.spawn() {
            Ok(child) => child,
            Err(error) => return Ran::Failed(format!("could not be started: {error}")),
        };
        let mut group = Group { id: Some(child.id()) };
        let ended = tokio::task::spawn_blocking(move || child.wait_with_output()).await;
        group.id = None;
        match ended {
            Ok(Ok(output)) if output.status.success() => Ran::Passed,
            Ok(Ok(output)) => Ran::Failed(told(&output)),
            Ok(Err(error)) => Ran::Failed(format!("could not be followed: {error}")),
            Err(error) => Ran::Failed(format!("could not be followed: {error}")),
        }
    }
}

impl LocalMachine for Local {
    fn run<'a>(&'a self, command: &'a str) -> Pin<Box<dyn Future<Output = Ran> + Send + 'a>> {
        Box::pin(self.gate(command))
    }

    fn time_zone(&self, name: &str) -> Result<TimeZone, String> {
        let own = std::env::var_os("TZDIR").map(PathBuf::from);
        time_zone(own.into_iter().chain(DATABASES.iter().map(PathBuf::from)), name)
    }
}

/// A time zone from the first of these folders that is there.
fn time_zone(folders: impl IntoIterator<Item = PathBuf>, name: &str) -> Result<TimeZone, String> {
    let Some(folder) = folders.into_iter().find(|folder| folder.is_dir()) else {
        return Err("it has no time zone database".to_owned());
    };
    let data = std::fs::read(folder.join(name))
        .map_err(|error| format!("{} does not have it ({error})", folder.display()))?;
    TimeZone::tzif(name, &data).map_err(|error| error.to_string())
}

/// A group of processes that ends with this value.
struct Group {
    id: Option<u32>,
}

impl Drop for Group {
    fn drop(&mut self) {
        #[cfg(unix)]
        {
            use rustix::process::{Pid, Signal, kill_process_group};
            let id = self.id.take().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
            if let Some(id) = id {
                let _ = kill_process_group(id, Signal::KILL);
            }
        }
    }
}

/// How a command ended, with its last line: of what it complained about, else of what it printed.
fn told(output: &Output) -> String {
    let last = |bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes);
        let line = text.lines().map(str::trim).rfind(|line| !line.is_empty())?;
        Some(line.chars().filter(|c| !c.is_control()).take(LINE).collect::<String>())
    };
    let ended = match output.status.code() {
        Some(code) => format!("exited with {code}"),
        None => "was ended by a signal".to_owned(),
    };
    match last(&output.stderr).or_else(|| last(&output.stdout)) {
        Some(line) => format!("{ended}: {line}"),
        None => ended,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn local(commands: Commands, in_lab: bool) -> (tempfile::TempDir, Local) {
        let folder = tempfile::tempdir().unwrap();
        let local = Local::new(folder.path(), commands, in_lab);
        (folder, local)
    }

    #[tokio::test]
    async fn a_command_gate_passes_with_exit_code_0_only() {
        let (folder, local) = local(Commands::Allowed, false);
        std::fs::write(folder.path().join("here"), "").unwrap();
        assert_eq!(local.run("test -e here").await, Ran::Passed, "in the folder of the file");
        let failed = |ended: &str| Ran::Failed(ended.to_owned());
        assert_eq!(local.run("echo one; echo two; exit 3").await, failed("exited with 3: two"));
        assert_eq!(local.run("echo out; echo err >&2; false").await, failed("exited with 1: err"));
        assert_eq!(local.run("exit 4").await, failed("exited with 4"));
        assert_eq!(local.run("kill -9 $$").await, failed("was ended by a signal"));
        assert_eq!(local.run("printf '\\033[31mred\\n'; false").await, failed("exited with 1: [31mred"));
        assert_eq!(local.run("read line").await, failed("exited with 1"), "nothing can be asked for");
    }

    #[tokio::test]
    async fn a_command_that_is_given_up_ends_with_all_that_it_started() {
        let (folder, local) = local(Commands::Allowed, false);
        let run = local.run("echo $$ > pid; sleep 600 & wait");
        let pid = folder.path().join("pid");
        let clock = ambient::Clock::real();
        let written = async {
            while std::fs::read_to_string(&pid).unwrap_or_default().trim().is_empty() {
                clock.sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::select! {
            ran = run => panic!("{ran:?}"),
            () = written => {}
        }
        let pid: i32 = std::fs::read_to_string(&pid).unwrap().trim().parse().unwrap();
        let group = rustix::process::Pid::from_raw(pid).unwrap();
        for _ in 0..500 {
            if rustix::process::test_kill_process_group(group).is_err() {
                return;
            }
            clock.sleep(Duration::from_millis(10)).await;
        }
        panic!("something of it still runs");
    }

    #[tokio::test]
    async fn no_command_runs_where_none_is_wanted() {
        let (folder, refusing) = local(Commands::Refused, false);
        assert!(matches!(refusing.run("touch ran").await, Ran::Refused(_)));
        let in_lab = Local::new(folder.path(), Commands::Allowed, true);
        assert_eq!(in_lab.run("touch ran; false").await, Ran::Passed);
        assert!(!folder.path().join("ran").exists());
    }

    #[test]
    fn a_time_zone_is_read_from_the_database_or_not_known() {
        let database = tempfile::tempdir().unwrap();
        // One hour ahead of UTC, always: a header with a single type of local time.
        let counts = [0u32, 0, 0, 0, 1, 4].map(u32::to_be_bytes).concat();
        let file = [&b"TZif\0"[..], &[0; 15], &counts, &3600i32.to_be_bytes(), &[0, 0], b"ONE\0"].concat();
        std::fs::write(database.path().join("One"), file).unwrap();
        std::fs::write(database.path().join("Broken"), "x").unwrap();
        let folders = || [PathBuf::from("/does/not/exist"), database.path().to_path_buf()];
        let zone = time_zone(folders(), "One").unwrap();
        assert_eq!(zone.to_datetime("2026-07-01T12:00:00Z".parse().unwrap()).hour(), 13);
        assert!(time_zone(folders(), "Two").unwrap_err().contains("does not have it"));
        assert!(time_zone(folders(), "Broken").is_err());
        assert_eq!(time_zone([], "One").unwrap_err(), "it has no time zone database");
    }
}
