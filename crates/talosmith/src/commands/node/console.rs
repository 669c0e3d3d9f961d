//! `node console`: what a machine prints on its serial console, for people.

use std::io::{IsTerminal as _, Read as _};
use std::time::Duration;

use ambient::Clock;
use engine::Snapshot;
use jiff::Timestamp;
use model::identity::was_started_since;
use pve::{Client, Console, Lines, PowerState};
use serde::Serialize;
use tokio::sync::mpsc;

use crate::args::{ConsoleArgs, Global};
use crate::commands::setup::{Setup, Wrong, ended};
use crate::exit::Exit;
use crate::interrupt;
use crate::terminal::Typing;
use crate::view::{Printer, Problem};

/// Ctrl-], which ends a console everywhere.
const DETACH: u8 = 0x1d;
/// After this long without a line it is asked whether the VM runs.
const QUIET: Duration = Duration::from_secs(10);
/// What is said then, once.
const ONE_ONLY: &str = "Nothing was printed for 10 seconds. Only one console of a VM gets its output: close others (the web page of Proxmox, \
     another `node console`, an `apply` that waits for this machine), or wait for the machine to print something.";

/// Shows a node's console.
pub async fn console(global: &Global, args: &ConsoleArgs, printer: &Printer) -> Result<Exit, Problem> {
    ended(try_console(global, args, printer).await)
}

async fn try_console(global: &Global, args: &ConsoleArgs, printer: &Printer) -> Result<Exit, Wrong> {
    let setup = Setup::new(global, printer)?;
    let outside = setup.outside(global).await?;
    let session = setup.session(&outside, printer)?;
    let snapshot = setup.observe_to_destroy(&session, printer).await?;
    let (host, vmid) = place(&snapshot, &args.node)?;
    let systems = &outside.systems;
    let problem = |error: &pve::ConsoleError| {
        let problem =
            Problem::of(Exit::Systems, error).within(format!("could not show the console of {}", args.node));
        match error.hint() {
            Some(hint) => problem.hint(hint),
            None => problem,
        }
    };
    let off = || {
        Problem::new(
            Exit::Systems,
            format!("could not show the console of {}: VM {vmid} on {host} is off", args.node),
        )
        .hint("`talosmith apply` starts it; then run the command again")
    };
    // A console can be opened all the same, and says nothing ever. What Proxmox does not tell is not off.
    if matches!(systems.pve.is_running(&host, vmid).await, Ok(false)) {
        return Err(off().into());
    }
    let console = systems.pve.console(&host, vmid).await.map_err(|error| problem(&error))?;
    printer
        .note(&format!("The console of {} (VM {vmid} on {host}), from now on. Ctrl-] ends it.", args.node));
    let shown =
        Shown { pve: &systems.pve, clock: &systems.clock, printer, host: &host, vmid, write: args.write };
    let showing = async {
        match args.timeout {
            Some(limit) => systems.clock.timeout(limit, shown.run(console)).await.unwrap_or(Ok(())),
            None => shown.run(console).await,
        }
    };
    match interrupt::unless(showing).await {
        Some(Err(End::Failed(error))) => Err(problem(&error).into()),
        Some(Err(End::Off)) => Err(off().into()),
        Some(Ok(())) | None => Ok(Exit::Done),
    }
}

/// Why a console ends by itself.
enum End {
    Failed(pve::ConsoleError),
    /// The VM was switched off.
    Off,
}

impl From<pve::ConsoleError> for End {
    fn from(error: pve::ConsoleError) -> Self {
        Self::Failed(error)
    }
}

/// The host and the VM ID of a node.
fn place(snapshot: &Snapshot, name: &str) -> Result<(String, u32), Problem> {
    let Some(node) = snapshot.blueprint.nodes.get(name) else {
        let known: Vec<&str> =
            snapshot.blueprint.in_order().into_iter().map(|node| node.name.as_str()).collect();
        return Err(Problem::new(Exit::Usage, format!("the file has no node {name}"))
            .hint(format!("it has {}", known.join(", "))));
    };
    if node.external {
        return Err(Problem::new(
            Exit::Usage,
            format!("{name} is an external machine, whose console is not in Proxmox"),
        ));
    }
    let vm = model::ownership::vm_of(&snapshot.blueprint, &snapshot.observed.proxmox, name);
    vm.map(|vm| (vm.host.clone(), vm.vmid)).ok_or_else(|| {
        Problem::new(Exit::Systems, format!("{name} has no VM")).hint("`talosmith apply` creates it")
    })
}

struct Shown<'a> {
    pve: &'a Client,
    clock: &'a Clock,
    printer: &'a Printer,
    host: &'a str,
    vmid: u32,
    write: bool,
}

#[derive(Serialize)]
struct Line<'a> {
    line: &'a str,
}

impl Shown<'_> {
    async fn run(&self, mut console: Console) -> Result<(), End> {
        let terminal = std::io::stdin().is_terminal();
        let _typing = terminal.then(|| Typing::one_by_one(self.write)).flatten();
        let mut typed = (terminal || self.write).then(read_stdin);
        let (mut lines, mut told, mut opened) = (Lines::default(), false, self.clock.now());
        loop {
            tokio::select! {
                biased;
                bytes = next(&mut typed) => match bytes {
                    Some(bytes) => {
                        let end = if terminal { bytes.iter().position(|byte| *byte == DETACH) } else { None };
                        if self.write {
                            console.write(&bytes[..end.unwrap_or(bytes.len())]).await?;
                        }
                        if end.is_some() {
                            console.close().await;
                            return Ok(());
                        }
                    }
                    None => typed = None,
                },
                read = self.clock.timeout(QUIET, console.read()) => match read {
                    Ok(bytes) => self.show(&bytes?, &mut lines),
                    Err(_) => match self.quiet(opened).await {
                        Quiet::Off => return Err(End::Off),
                        Quiet::StartedAgain => {
                            self.printer.note(&format!("VM {} was stopped and started; opening its console again.", self.vmid));
                            console = self.pve.console(self.host, self.vmid).await?;
                            opened = self.clock.now();
                        }
                        Quiet::Unclear if told => {}
                        Quiet::Unclear => {
                            told = true;
                            self.printer.note(ONE_ONLY);
                        }
                    },
                },
            }
        }
    }

    /// Where something is typed, what is not a whole line yet is seen, too.
    fn show(&self, bytes: &[u8], lines: &mut Lines) {
        if self.write && !self.printer.is_json() {
            self.printer.printed(&String::from_utf8_lossy(bytes).replace('\r', ""));
            return;
        }
        for line in lines.push(bytes) {
            match self.printer.is_json() {
                true => self.printer.data(&Line { line: &line }),
                false => self.printer.printed(&format!("{line}\n")),
            }
        }
    }

    /// Why nothing comes. The console of a VM that was stopped stays open and says nothing, also when it is started again.
    async fn quiet(&self, opened: Timestamp) -> Quiet {
        let Ok(status) = self.pve.vm_status(self.host, self.vmid).await else { return Quiet::Unclear };
        let open_for = self.clock.now().duration_since(opened);
        match status.power {
            PowerState::Stopped => Quiet::Off,
            PowerState::Running if was_started_since(Duration::from_secs(status.uptime), open_for) => {
                Quiet::StartedAgain
            }
            PowerState::Running | PowerState::Unknown => Quiet::Unclear,
        }
    }
}

/// Why nothing is printed.
enum Quiet {
    /// The VM is off.
    Off,
    /// It was stopped and started since the console was opened.
    StartedAgain,
    /// The machine has nothing to say, or another client hears it.
    Unclear,
}

async fn next(typed: &mut Option<mpsc::Receiver<Vec<u8>>>) -> Option<Vec<u8>> {
    match typed {
        Some(typed) => typed.recv().await,
        None => std::future::pending().await,
    }
}

/// Reads stdin in a thread of its own, which ends with the program.
fn read_stdin() -> mpsc::Receiver<Vec<u8>> {
    let (send, receive) = mpsc::channel(16);
    std::thread::spawn(move || {
        let mut bytes = [0; 1024];
        while let Ok(read @ 1..) = std::io::stdin().lock().read(&mut bytes) {
            if send.blocking_send(bytes[..read].to_vec()).is_err() {
                return;
            }
        }
    });
    receive
}
