//! Which address leads to which machine, and what its ports do.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::node::{Machine, Phase};
use super::{Kind, Listener, Machines, PortState};

/// The Talos API.
pub(crate) const TALOS_PORT: u16 = 50_000;
/// trustd, where workers get their certificates.
pub(crate) const TRUSTD_PORT: u16 = 50_001;
/// The Kubernetes API.
pub(crate) const KUBERNETES_PORT: u16 = 6443;

impl Machines {
    /// What a connection to `port` of `address` meets.
    #[must_use]
    pub fn port(&self, address: IpAddr, port: u16) -> PortState {
        let Some(vmid) = self.owner(address) else { return PortState::NoHost };
        let Some(machine) = self.machines.get(&vmid) else { return PortState::NoHost };
        match self.service(machine, port) {
            Some(kind) => PortState::Open(Listener { vmid, epoch: machine.epoch, kind }),
            None => PortState::Refused,
        }
    }

    fn service(&self, machine: &Machine, port: u16) -> Option<Kind> {
        match (&machine.phase, port) {
            (Phase::Maintenance(_), TALOS_PORT) => Some(Kind::Maintenance),
            (Phase::Configured(node), _) if node.closed() => None,
            (Phase::Configured(node), TALOS_PORT) => {
                node.api_from.is_some_and(|at| at <= self.now).then_some(Kind::Api)
            }
            (Phase::Configured(node), _) if node.stopped() => None,
            (Phase::Configured(node), TRUSTD_PORT) => {
                (node.is_control_plane() && node.trustd_from() <= self.now).then_some(Kind::Trustd)
            }
            (Phase::Configured(node), KUBERNETES_PORT) => {
                node.api_server_from.is_some_and(|at| at <= self.now).then_some(Kind::Kubernetes)
            }
            _ => None,
        }
    }

    /// The machine that answers at an address: the one that has used it longest, or the holder of a shared address.
    pub(super) fn owner(&self, address: IpAddr) -> Option<u32> {
        let on_network = |machine: &Machine| {
            machine.network_since().filter(|from| *from <= self.now && machine.is_plugged())
        };
        let claims = self.machines.iter().filter_map(|(vmid, machine)| {
            let since = on_network(machine)?;
            let has = machine.own_addresses().iter().any(|(_, net)| net.addr() == address);
            has.then_some((since, *vmid))
        });
        if let Some((_, vmid)) = claims.min() {
            return Some(vmid);
        }
        let shared = self.etcds.iter().filter_map(|etcd| etcd.vip.as_ref());
        let holder = shared
            .filter(|vip| vip.address == address && vip.from <= self.now)
            .map(|vip| vip.holder)
            .next()?;
        self.live(holder).map(|_| holder)
    }

    /// Everything that accepts connections.
    #[must_use]
    pub fn listening(&self) -> BTreeSet<(IpAddr, u16)> {
        let own = self.machines.values().flat_map(Machine::own_addresses).map(|(_, net)| net.addr());
        let shared = self.etcds.iter().filter_map(|etcd| etcd.vip.as_ref().map(|vip| vip.address));
        let addresses: BTreeSet<IpAddr> = own.chain(shared).collect();
        let ports = |address| [TALOS_PORT, TRUSTD_PORT, KUBERNETES_PORT].map(|port| (address, port));
        let open = |place: &(IpAddr, u16)| matches!(self.port(place.0, place.1), PortState::Open(_));
        addresses.into_iter().flat_map(ports).filter(open).collect()
    }

    /// Whether a connection that was made in `epoch` still lives.
    #[must_use]
    pub fn is_alive(&self, vmid: u32, epoch: u64) -> bool {
        self.machines.get(&vmid).is_some_and(|machine| {
            let drains = |(old, until): (u64, jiff::Timestamp)| old == epoch && self.now < until;
            machine.is_plugged() && (machine.epoch == epoch || machine.draining.is_some_and(drains))
        })
    }

    /// The epoch of a machine; a connection from another epoch is dead.
    #[must_use]
    pub fn epoch(&self, vmid: u32) -> u64 {
        self.machines.get(&vmid).map_or(0, |machine| machine.epoch)
    }

    /// The addresses of a machine whose network is up, card by card: hardware address and addresses.
    #[must_use]
    pub fn addresses(&self, vmid: u32) -> Vec<(String, Vec<ipnet::IpNet>)> {
        let Some(machine) = self.machines.get(&vmid) else { return vec![] };
        if machine.network_since().is_none_or(|from| from > self.now) {
            return vec![];
        }
        let shared = self.etcds.iter().filter_map(|etcd| etcd.vip.as_ref());
        let held: Vec<_> = shared.filter(|vip| vip.holder == vmid && vip.from <= self.now).collect();
        let own = machine.own_addresses();
        let card = |number: usize| {
            let mut all: Vec<_> = own.iter().filter(|(n, _)| *n == number).map(|(_, net)| *net).collect();
            if number == 0 {
                all.extend(held.iter().map(|vip| ipnet::IpNet::from(vip.address)));
            }
            all
        };
        machine
            .hardware
            .nics
            .iter()
            .enumerate()
            .map(|(number, nic)| (nic.mac.to_lowercase(), card(number)))
            .collect()
    }
}
