//! What a machine wrote, for people. Nothing is changed.

use model::blueprint::Node;
use talos_client::{Lines, Machine};

use crate::error::{Error, Kind, Result};
use crate::identify::{Identified, identify};
use crate::session::Snapshot;
use crate::systems::Systems;

/// The last lines of the log of a service, or all of them.
///
/// # Errors
///
/// When the machine does not respond, or keeps no such log.
pub async fn of_service(
    systems: &Systems,
    snapshot: &Snapshot,
    node: &Node,
    service: &str,
    lines: Option<u16>,
) -> Result<Vec<String>> {
    let attempt = || Error::systems(format!("could not read the log of {service} on {}", node.name));
    let machine = machine(systems, snapshot, node, &attempt).await?;
    let lines = lines.map_or(Lines::All, Lines::Last);
    let text = match machine.logs(service, lines).await {
        Ok(text) => text,
        Err(error) => {
            let known = machine.services().await.unwrap_or_default();
            let known: Vec<&str> = known.iter().map(|service| service.id.as_str()).collect();
            let error = attempt().because(error);
            return Err(match known.contains(&service) || known.is_empty() {
                true => error,
                false => error.hint(format!("its services are {}", known.join(", "))),
            });
        }
    };
    Ok(text.lines().map(str::to_owned).collect())
}

/// The log of the kernel and of Talos since the machine booted.
///
/// # Errors
///
/// When the machine does not respond.
pub async fn of_kernel(systems: &Systems, snapshot: &Snapshot, node: &Node) -> Result<Vec<String>> {
    let attempt = || Error::systems(format!("could not read the kernel log of {}", node.name));
    let machine = machine(systems, snapshot, node, &attempt).await?;
    machine.dmesg().await.map_err(|error| attempt().because(error))
}

async fn machine(
    systems: &Systems,
    snapshot: &Snapshot,
    node: &Node,
    attempt: &dyn Fn() -> Error,
) -> Result<Machine> {
    match Box::pin(identify(systems, node, snapshot.access()?)).await {
        Identified::Configured(machine) => Ok(machine),
        Identified::Maintenance(_) => Err(attempt().coded("machine-not-ready").hint(
            "it waits in maintenance mode, where it shows no logs; `talosmith node console` shows what it prints",
        )),
        Identified::ForeignMachine { why } | Identified::OtherKeys { why } => {
            Err(Error::new(Kind::Refused, format!("{} is another machine: {why}", node.name)))
        }
        Identified::Unresponsive(unmet) => Err(attempt()
            .coded(unmet.code)
            .hint(format!("{}; `talosmith node console` shows what it prints", unmet.words))),
    }
}
