//! `node logs` and `node dmesg`: what a machine wrote. They only read.

use engine::logs;
use engine::{Snapshot, Systems};
use model::blueprint::Node;
use model::names::NodeName;
use serde::Serialize;

use crate::args::{DmesgArgs, Global, LogsArgs};
use crate::commands::change::unknown_name;
use crate::commands::setup::{Setup, Wrong, ended};
use crate::exit::Exit;
use crate::interrupt;
use crate::view::{Printer, Problem};
use engine::session::{Given, UnknownName};

/// The log of a service.
pub async fn logs(global: &Global, args: &LogsArgs, printer: &Printer) -> Result<Exit, Problem> {
    let read = async |systems: &Systems, snapshot: &Snapshot, node: &Node| {
        logs::of_service(systems, snapshot, node, &args.service, args.lines).await
    };
    ended(shown(global, &args.nodes, printer, read).await)
}

/// The log of the kernel.
pub async fn dmesg(global: &Global, args: &DmesgArgs, printer: &Printer) -> Result<Exit, Problem> {
    let read = async |systems: &Systems, snapshot: &Snapshot, node: &Node| {
        logs::of_kernel(systems, snapshot, node).await
    };
    ended(shown(global, &args.nodes, printer, read).await)
}

#[derive(Serialize)]
struct Log<'a> {
    node: &'a str,
    lines: &'a [String],
}

/// Shows one log of each node. One that cannot be read is said, and does not keep the others from being shown.
async fn shown(
    global: &Global,
    names: &[String],
    printer: &Printer,
    read: impl AsyncFn(&Systems, &Snapshot, &Node) -> engine::Result<Vec<String>>,
) -> Result<Exit, Wrong> {
    let setup = Setup::new(global, printer)?;
    let outside = setup.outside(global).await?;
    let session = setup.session(&outside, printer)?;
    let snapshot = setup.refresh(&session, printer).await?;
    let nodes = &snapshot.blueprint.nodes;
    let known: Vec<NodeName> = nodes.keys().cloned().collect();
    if let Some(unknown) = names.iter().find_map(|name| UnknownName::among(Given::Argument, name, &known)) {
        return Err(unknown_name(&unknown).into());
    }
    let mut exit = Exit::Done;
    for node in names.iter().filter_map(|name| nodes.get(name)) {
        let Some(lines) = interrupt::unless(read(&outside.systems, &snapshot, node)).await else {
            return Ok(Exit::Interrupted);
        };
        match lines {
            Ok(lines) if printer.is_json() => printer.data(&Log { node: &node.name, lines: &lines }),
            Ok(lines) => {
                if names.len() > 1 {
                    printer.say(&format!("== {}", node.name));
                }
                lines.iter().for_each(|line| printer.printed(&format!("{line}\n")));
            }
            Err(error) => {
                let problem = Problem::from(&error);
                exit = problem.exit;
                printer.problem(&problem);
            }
        }
    }
    Ok(exit)
}
