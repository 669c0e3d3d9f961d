//! What machines can reach outside: registries, time servers, the discovery service.
//!
//! By default everything answers. A world can be closed, so that only named hosts do; then a machine whose configuration
//! does not lead there waits, as in life.

use super::Machines;
use super::node::Machine;
use super::settings::Settings;

/// The service by which machines find each other.
const DISCOVERY: &str = "discovery.talos.dev";

impl Machines {
    /// Closes the world except for `hosts`, or opens it again.
    pub fn close_outside(&mut self, hosts: Option<Vec<String>>) {
        self.outside = hosts.map(|hosts| hosts.into_iter().collect());
        self.catch_up();
    }

    /// Whether a host answers.
    pub(crate) fn reaches(&self, host: &str) -> bool {
        let bare = host.split_once("://").map_or(host, |(_, rest)| rest);
        let bare = bare.split('/').next().unwrap_or(bare);
        let name = bare.rsplit_once(':').map_or(bare, |(name, _)| name);
        self.outside.as_ref().is_none_or(|open| open.contains(bare) || open.contains(name))
    }

    /// Whether a time server of the machine answers.
    pub(super) fn reaches_time(&self, machine: &Machine) -> bool {
        !self.no_time && machine.time_servers().iter().any(|server| self.reaches(server))
    }

    /// Whether a machine is seen by the others through discovery.
    pub(crate) fn reaches_discovery(&self, vmid: u32) -> bool {
        self.machines.contains_key(&vmid) && self.reaches(DISCOVERY)
    }

    /// Whether an image can be fetched: from the mirrors that the configuration names for its registry, else from the
    /// registry itself.
    pub(crate) fn reaches_image(&self, settings: &Settings, image: &str) -> bool {
        let registry = image.split('/').next().filter(|_| image.contains('/')).unwrap_or("docker.io");
        let mirrors = settings.mirrors.get(registry).or_else(|| settings.mirrors.get("*"));
        let mirrored = mirrors.is_some_and(|mirrors| mirrors.iter().any(|mirror| self.reaches(mirror)));
        mirrored || self.reaches(registry)
    }
}
