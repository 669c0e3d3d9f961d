//! `node console`: what a machine prints on its serial console, for people.

use std::io::{IsTerminal as _, Read as _};
use std::time::Duration;

use ambient::Clock;
use engine::Look;
use pve::{Client, Console, Lines};
use serde::Serialize;
use tokio::sync::mpsc;

use super::setup::{Setup, Wrong, ended};
use crate::args::{ConsoleArgs, Global};
use crate::exit::Exit;
use crate::interrupt;
use crate::terminal::Typing;
use crate::view::{Printer, Problem};

/// Ctrl-], which ends a console everywhere.
const DETACH: u8 = 0x1d;
/// After this long without a line it is asked whether the VM runs.
const QUIET: Duration = Duration::from_secs(10);

/// Shows a node's console.
pub async fn console(global: &Global, args: &ConsoleArgs, printer: &Printer) -> Result<Exit, Problem> {
    ended(try_console(global, args, printer).await)
}

async fn try_console(global: &Global, args: &ConsoleArgs, printer: &Printer) -> Result<Exit, Wrong> {
    let setup = Setup::new(global, printer)?;
    let outside = setup.outside(global)?;
    let session = setup.session(&outside, printer)?;
    let look = setup.look_to_destroy(&session, printer).await?;
    let (host, vmid) = place(&look, &args.node)?;
    let world = &outside.world;
    let problem = |error: &pve::ConsoleError| {
        let problem =
            Problem::of(Exit::World, error).within(format!("could not show the console of {}", args.node));
        match error.remedy() {
            Some(remedy) => problem.remedy(remedy),
            None => problem,
        }
    };
    let console = world.pve.console(&host, vmid).await.map_err(|error| problem(&error))?;
    printer
        .note(&format!("The console of {} (VM {vmid} on {host}), from now on. Ctrl-] ends it.", args.node));
    let shown = Shown { pve: &world.pve, clock: &world.clock, printer, host, vmid, write: args.write };
    let showing = async {
        match args.timeout {
            Some(limit) => world.clock.timeout(limit, shown.run(console)).await.unwrap_or(Ok(())),
            None => shown.run(console).await,
        }
    };
    match interrupt::unless(showing).await {
        Some(Err(error)) => Err(problem(&error).into()),
        Some(Ok(())) | None => Ok(Exit::Done),
    }
}

/// The host and the VM ID of a node.
fn place(look: &Look, name: &str) -> Result<(String, u32), Problem> {
    let Some(node) = look.blueprint.nodes.get(name) else {
        let known: Vec<&str> = look.blueprint.in_order().into_iter().map(|node| node.name.as_str()).collect();
        return Err(Problem::new(Exit::Usage, format!("the file has no node {name}"))
            .remedy(format!("it has {}", known.join(", "))));
    };
    if node.external {
        return Err(Problem::new(
            Exit::Usage,
            format!("{name} is an external machine, whose console is not in Proxmox"),
        ));
    }
    let vm = model::ownership::vm_of(&look.blueprint, &look.observed.proxmox, name);
    vm.map(|vm| (vm.host.clone(), vm.vmid)).ok_or_else(|| {
        Problem::new(Exit::World, format!("{name} has no VM")).remedy("`talosmith apply` creates it")
    })
}

struct Shown<'a> {
    pve: &'a Client,
    clock: &'a Clock,
    printer: &'a Printer,
    host: String,
    vmid: u32,
    write: bool,
}

#[derive(Serialize)]
struct Line<'a> {
    line: &'a str,
}

impl Shown<'_> {
    async fn run(&self, mut console: Console) -> Result<(), pve::ConsoleError> {
        let terminal = std::io::stdin().is_terminal();
        let _typing = terminal.then(|| Typing::one_by_one(self.write)).flatten();
        let mut typed = (terminal || self.write).then(read_stdin);
        let (mut lines, mut told) = (Lines::default(), false);
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
                    Ok(bytes) => {
                        told = false;
                        self.show(&bytes?, &mut lines);
                    }
                    Err(_) if told => {}
                    Err(_) => told = self.tell_if_off().await,
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

    /// A VM that is off says nothing, and its console stays open.
    async fn tell_if_off(&self) -> bool {
        let off = matches!(self.pve.is_running(&self.host, self.vmid).await, Ok(false));
        if off {
            self.printer.note(&format!("VM {} is off", self.vmid));
        }
        off
    }
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
