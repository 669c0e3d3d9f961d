//! Where a machine is whose address a DHCP server chose.
//!
//! A machine is first looked for where the file expects it, which is right at once where the server has a reservation for it. Where
//! nothing answers, or a foreign machine, the machine's guest agent tells Proxmox the address of its network device, known by its MAC address.
//! That is a hint and no proof: what answers there must still prove its identity before Talosmith sends anything.

use std::net::{IpAddr, Ipv4Addr};

use model::blueprint::Node;

use crate::systems::{PROBE_TIMEOUT, REQUEST_TIMEOUT, Systems, TALOS_PORT};

/// Whether a DHCP server decides where the node's VM is.
pub(crate) fn may_move(node: &Node) -> bool {
    node.settings.dhcp && !node.external
}

/// Whether connections are accepted where the node is believed to be.
pub(crate) async fn is_anybody_there(systems: &Systems, node: &Node) -> bool {
    let address = systems.address(node);
    if address.is_unspecified() {
        return false;
    }
    let address = address.to_string();
    let dial = systems.net.dial(&address, TALOS_PORT);
    matches!(systems.clock.timeout(PROBE_TIMEOUT, dial).await, Ok(Ok(_)))
}

/// Asks the agent in the node's VM (its host and id) for the address of its card. Says whether that is news.
pub(crate) async fn search(systems: &Systems, node: &Node, vm: (&str, u32), vip: Option<Ipv4Addr>) -> bool {
    let (host, vmid) = vm;
    let asked = systems.clock.timeout(REQUEST_TIMEOUT, systems.pve.agent_interfaces(host, vmid)).await;
    // An agent that does not run, or not yet, says nothing.
    let Ok(Ok(interfaces)) = asked else { return false };
    let card = interfaces.iter().find(|i| i.mac.as_ref().is_some_and(|m| m.eq_ignore_ascii_case(&node.mac)));
    let addresses: Vec<Ipv4Addr> = card
        .into_iter()
        .flat_map(|card| &card.addresses)
        .filter_map(|address| match address {
            // A control plane's card may carry the cluster's address, which moves.
            IpAddr::V4(address) if !address.is_link_local() && Some(*address) != vip => Some(*address),
            _ => None,
        })
        .collect();
    let known = systems.address(node);
    if addresses.iter().any(|address| IpAddr::V4(*address) == known) {
        return false;
    }
    let in_network = |address: &&Ipv4Addr| node.address.contains(*address);
    let Some(address) = addresses.iter().find(in_network).or(addresses.first()) else { return false };
    systems.found.note(&node.name, *address);
    true
}
