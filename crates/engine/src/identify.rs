//! Who answers at a node's address, asked without giving away anything secret.

use std::net::IpAddr;

use model::blueprint::Node;
use talos_client::{Kind as Refused, Machine, Maintenance};

use crate::render::Access;
use crate::systems::{REQUEST_TIMEOUT, Systems};
use crate::unmet::Unmet;

/// Who answers at a node's address.
pub(crate) enum Identified {
    /// Our VM, waiting for its configuration, over a connection on which that was proved.
    Maintenance(Maintenance),
    /// A machine with a configuration under our authority.
    Configured(Machine),
    ForeignMachine {
        /// Whose it seems to be.
        why: String,
    },
    /// A machine with a configuration, under other keys than ours.
    OtherKeys {
        /// What was seen.
        why: String,
    },
    /// Nothing answers yet.
    Unresponsive(Unmet),
}

/// Asks what answers at the node's address for its identity. Sends nothing that is secret.
pub(crate) async fn identify(systems: &Systems, node: &Node, access: &Access) -> Identified {
    match reach(systems, node, access).await {
        Reached::Keys(machine) => identify_configured(systems, node, machine).await,
        Reached::Identified(identified) => identified,
    }
}

/// Who answers at a node's address, before everything about it is proved.
pub(crate) enum Reached {
    /// A machine with keys of this cluster. Whether it is the node, [`identify_configured`] tells.
    Keys(Machine),
    /// Anything else.
    Identified(Identified),
}

/// Knocks at the node's address, first as one who has the keys.
pub(crate) async fn reach(systems: &Systems, node: &Node, access: &Access) -> Reached {
    let address = systems.address(node);
    if address.is_unspecified() {
        let words = "nothing says which address it has";
        return Reached::Identified(Identified::Unresponsive(Unmet::new(words).coded("machine-unavailable")));
    }
    let configured = Machine::connect(&systems.net, &systems.clock, address, &access.talos);
    let answer = match &configured {
        Ok(machine) => systems.clock.timeout(REQUEST_TIMEOUT, machine.version()).await,
        Err(_) => Err(ambient::TimedOut),
    };
    match (configured, answer) {
        (Ok(machine), Ok(Ok(_))) => return Reached::Keys(machine),
        // It is configured, and nothing else that it says would tell more.
        (_, Ok(Err(error))) if error.kind() == Refused::Clock => {
            return Reached::Identified(unresponsive(&error));
        }
        _ => {}
    }
    // One that waits in maintenance mode does not show a certificate of the cluster, so it is asked without.
    Reached::Identified(
        match systems.clock.timeout(REQUEST_TIMEOUT, identify_waiting(systems, node, address)).await {
            Ok(Ok(found)) => found,
            Ok(Err(error)) if error.kind() == Refused::Rejected => {
                return other_keys(systems, address, access).await;
            }
            Ok(Err(error)) => unresponsive(&error),
            Err(_) => no_answer(),
        },
    )
}

/// A machine that asks for a certificate has a configuration. It may have taken it between the two calls, so it is asked once
/// more with our keys; if it does not accept those, it never will.
async fn other_keys(systems: &Systems, address: IpAddr, access: &Access) -> Reached {
    let machine = match Machine::connect(&systems.net, &systems.clock, address, &access.talos) {
        Ok(machine) => machine,
        Err(error) => return Reached::Identified(unresponsive(&error)),
    };
    Reached::Identified(match systems.clock.timeout(REQUEST_TIMEOUT, machine.version()).await {
        Ok(Ok(_)) => return Reached::Keys(machine),
        Ok(Err(error)) if matches!(error.kind(), Refused::Untrusted | Refused::Rejected) => {
            Identified::OtherKeys { why: in_words(&error) }
        }
        Ok(Err(error)) => unresponsive(&error),
        Err(_) => no_answer(),
    })
}

/// Where nothing answers, how it was asked makes no difference.
fn unresponsive(error: &talos_client::Error) -> Identified {
    let words = match error.io_kind() {
        Some(_) => format!("{}: {}", error.address(), error.reason()),
        None => in_words(error),
    };
    Identified::Unresponsive(Unmet::of_machine(words, error))
}

fn no_answer() -> Identified {
    Identified::Unresponsive(Unmet::new("no answer within five seconds").coded("machine-unavailable"))
}

/// Whether a machine with keys of this cluster is the node.
pub(crate) async fn identify_configured(systems: &Systems, node: &Node, machine: Machine) -> Identified {
    if node.external {
        return identify_external(systems, node, machine).await;
    }
    match systems.clock.timeout(REQUEST_TIMEOUT, machine.system_uuid()).await {
        Ok(Ok(uuid)) if is(node, &uuid) => Identified::Configured(machine),
        Ok(Ok(uuid)) => Identified::ForeignMachine {
            why: format!(
                "it is of this cluster, but its UUID is {uuid}, and that of {} is {}",
                node.name,
                wanted(node)
            ),
        },
        Ok(Err(error)) => unresponsive(&error),
        Err(_) => no_answer(),
    }
}

/// An external machine has no identity of ours. That it has keys of this cluster is proved by the connection; which
/// of its nodes it is, its name says.
async fn identify_external(systems: &Systems, node: &Node, machine: Machine) -> Identified {
    match systems.clock.timeout(REQUEST_TIMEOUT, machine.hostname()).await {
        Ok(Ok(name)) if name.split('.').next() != Some(node.name.as_str()) => {
            Identified::ForeignMachine { why: format!("it is of this cluster, but is called {name}") }
        }
        Ok(Ok(_)) => Identified::Configured(machine),
        Ok(Err(error)) => unresponsive(&error),
        Err(_) => no_answer(),
    }
}

async fn identify_waiting(
    systems: &Systems,
    node: &Node,
    address: IpAddr,
) -> talos_client::Result<Identified> {
    let connection = Maintenance::connect(&systems.net, &systems.clock, address).await?;
    if node.external {
        // The card that the file names is all that such a machine can be known by. Without one, its address must do, and that
        // it answers a client without keys, as one that has a configuration does not.
        let links = match node.mac.is_empty() {
            true => connection.version().await.map(|_| vec![])?,
            false => connection.links().await?,
        };
        let known = if node.mac.is_empty() { Ok(()) } else { card(&links, &node.mac) };
        return Ok(match known {
            Ok(()) => Identified::Maintenance(connection),
            Err(why) => Identified::ForeignMachine { why },
        });
    }
    let uuid = connection.system_uuid().await?;
    if is(node, &uuid) {
        return Ok(Identified::Maintenance(connection));
    }
    let whose = whose(systems, &uuid).await;
    Ok(Identified::ForeignMachine {
        why: format!("its UUID is {uuid}, and that of {} is {}; {whose}", node.name, wanted(node)),
    })
}

/// Whether one of the links is the card with this address. Talos is told to configure the card by the address that it was made
/// with, so only that proves anything: a link that merely goes by the address would be left without one.
fn card(links: &[talos_client::Link], mac: &str) -> Result<(), String> {
    if links.iter().any(|link| link.permanent_addr.eq_ignore_ascii_case(mac)) {
        return Ok(());
    }
    match links.iter().find(|link| link.hardware_addr.eq_ignore_ascii_case(mac)) {
        Some(link) => Err(format!(
            "its link {} has the address {mac} and no permanent address, as a physical network interface has: Talos would not configure it",
            link.name
        )),
        None => Err(format!("it has no network interface with the MAC address {mac}")),
    }
}

fn is(node: &Node, uuid: &str) -> bool {
    node.uuid.is_some_and(|wanted| uuid.parse() == Ok(wanted))
}

fn wanted(node: &Node) -> String {
    node.uuid.map_or_else(|| "not known".to_owned(), |u| u.to_string())
}

/// Looks through Proxmox for the VM with a UUID. Only done when something is already wrong.
async fn whose(systems: &Systems, uuid: &str) -> String {
    let Ok(resources) = systems.pve.cluster_resources().await else {
        return "whose it is could not be found out".to_owned();
    };
    for vm in resources.iter().filter(|r| r.kind == "qemu") {
        let (Some(host), Some(Ok(vmid))) = (&vm.node, vm.vmid.map(u32::try_from)) else { continue };
        let Ok(config) = systems.pve.vm_config(host, vmid).await else { continue };
        if config.smbios_uuid().is_some_and(|u| u.eq_ignore_ascii_case(uuid)) {
            let name = config.get("name").unwrap_or("without a name");
            return format!("it seems to be VM {vmid} ({name}) on {host}");
        }
    }
    "no VM of this Proxmox has it: it seems to be a machine outside".to_owned()
}

fn in_words(error: &talos_client::Error) -> String {
    let mut words = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        let text = cause.to_string();
        if !words.contains(&text) {
            words = format!("{words}: {text}");
        }
        source = cause.source();
    }
    words
}

#[cfg(test)]
mod tests {
    use talos_client::Link;

    use super::*;

    #[test]
    fn t8_a_card_is_known_by_the_address_that_it_is_configured_by() {
        let link = |hardware: &str, permanent: &str| Link {
            name: "eth0".into(),
            hardware_addr: hardware.into(),
            permanent_addr: permanent.into(),
            ..Link::default()
        };
        let mac = "BC:24:11:00:00:31";
        assert_eq!(card(&[link("bc:24:11:00:00:31", "bc:24:11:00:00:31")], mac), Ok(()));
        // Bonded, a card goes by another address, and is found by its own.
        assert_eq!(card(&[link("bc:24:11:00:00:99", "bc:24:11:00:00:31")], mac), Ok(()));
        let virtual_link = card(&[link("bc:24:11:00:00:31", "")], mac).unwrap_err();
        assert!(
            virtual_link.contains("eth0 has the address BC:24:11:00:00:31 and no permanent address"),
            "{virtual_link}"
        );
        assert!(
            card(&[link("bc:24:11:00:00:99", "")], mac)
                .unwrap_err()
                .starts_with("it has no network interface")
        );
    }
}
