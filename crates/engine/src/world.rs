//! Everything outside, in one value: Proxmox, the network that reaches machines, the time.

use std::sync::Arc;
use std::time::Duration;

use ambient::{Clock, Net, Random};
use talos_client::Roots;

use crate::consoles::Consoles;
use crate::whereabouts::Whereabouts;

/// What the engine talks to. Made by whoever calls it, from the real network or from the lab. Cheap to clone.
#[derive(Debug, Clone)]
pub struct World {
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
    pub found: Whereabouts,
    /// The consoles that are read, and what they said.
    pub consoles: Consoles,
}

/// How long a single question to a machine may take. etcd's answers hang before it runs, and a black hole never answers.
pub(crate) const QUESTION: Duration = Duration::from_secs(5);
/// How long somebody has to answer the door.
pub(crate) const KNOCK: Duration = Duration::from_secs(1);
/// The port of Talos' own API.
pub(crate) const TALOS_PORT: u16 = 50_000;
