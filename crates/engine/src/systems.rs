//! Everything outside, in one value: Proxmox, the network that reaches machines, the time.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ambient::{Clock, Net, Random};
use model::blueprint::Node;
use talos_client::Roots;

use crate::consoles::Consoles;

/// What the engine talks to. The caller creates it, from the real network or from the lab. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Systems {
    /// Proxmox VE.
    pub pve: pve::Client,
    /// Reaches machines, Kubernetes and the Image Factory.
    pub net: Net,
    /// Tells the time.
    pub clock: Clock,
    /// Draws the ID of a run.
    pub random: Random,
    /// Authorities that the Image Factory's certificate may be signed by.
    pub factory_roots: Arc<Roots>,
    /// Where machines are that a DHCP server gave another address than the file's. Empty at the beginning.
    pub found: DiscoveredAddresses,
    /// The consoles that are read, and what they said.
    pub consoles: Consoles,
}

impl Systems {
    /// Where a node is, as far as is known.
    #[must_use]
    pub fn address(&self, node: &Node) -> IpAddr {
        IpAddr::V4(self.found.of(&node.name).unwrap_or_else(|| node.address.addr()))
    }
}

/// Addresses that were found, by node. All clones know the same.
#[derive(Debug, Clone, Default)]
pub struct DiscoveredAddresses(Arc<Mutex<BTreeMap<String, Ipv4Addr>>>);

impl DiscoveredAddresses {
    /// Where a node was found, if that is not where the file expects it.
    #[must_use]
    pub fn of(&self, node: &str) -> Option<Ipv4Addr> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(node).copied()
    }

    pub(crate) fn note(&self, node: &str, address: Ipv4Addr) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(node.to_owned(), address);
    }
}

/// How long a single question to a machine may take. etcd's answers hang before it runs, and a black hole never answers.
pub(crate) const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a machine has to accept a connection.
pub(crate) const PROBE_TIMEOUT: Duration = Duration::from_secs(1);
/// The port of Talos' own API.
pub(crate) const TALOS_PORT: u16 = 50_000;
