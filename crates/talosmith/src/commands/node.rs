//! `node`: single nodes of the cluster, and `host`: the Proxmox hosts that they are on.

mod by_hand;
mod console;
mod logs;

use crate::args::{Global, HostCommand, NodeCommand};
use crate::exit::Exit;
use crate::view::{Printer, Problem};
use model::plan::by_hand::Hand;

/// Runs one of the subcommands.
pub async fn node(global: &Global, command: NodeCommand, printer: &Printer) -> Result<Exit, Problem> {
    match command {
        NodeCommand::Console(args) => console::console(global, &args, printer).await,
        NodeCommand::Reboot(args) => by_hand::by_hand(global, Hand::Reboot, &args, printer).await,
        NodeCommand::Shutdown(args) => by_hand::by_hand(global, Hand::Shutdown, &args, printer).await,
        NodeCommand::Drain(args) => by_hand::by_hand(global, Hand::Drain, &args, printer).await,
        NodeCommand::Cordon(args) => by_hand::by_hand(global, Hand::Cordon, &args.into(), printer).await,
        NodeCommand::Uncordon(args) => by_hand::by_hand(global, Hand::Uncordon, &args.into(), printer).await,
        NodeCommand::Replace(args) => by_hand::replace(global, &args, printer).await,
        NodeCommand::Logs(args) => logs::logs(global, &args, printer).await,
        NodeCommand::Dmesg(args) => logs::dmesg(global, &args, printer).await,
    }
}

/// Runs one of the subcommands about a Proxmox host.
pub async fn host(global: &Global, command: HostCommand, printer: &Printer) -> Result<Exit, Problem> {
    match command {
        HostCommand::Drain(args) => by_hand::host(global, Hand::DrainHost, &args, printer).await,
        HostCommand::Undrain(args) => by_hand::host(global, Hand::UndrainHost, &args, printer).await,
    }
}
