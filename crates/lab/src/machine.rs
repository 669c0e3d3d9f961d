//! What runs inside the virtual machines: Talos, etcd, and the beginnings of Kubernetes.
//!
//! [`Machines`] is plain data with a time. One virtual machine is one entry, known by its vmid, and lives until the
//! hypervisor forgets it. The hypervisor switches machines on and off; everything else happens over the machines' own
//! ports. Whatever takes time is a moment in the data (`clockwork` goes through them), and chance comes from
//! the uuid and the boot count of a machine, so the same world run twice is the same.

mod admission;
mod apart;
mod apply;
mod boot;
mod broken;
mod calls;
mod clockwork;
mod components;
mod console;
mod copies;
mod diff;
mod etcd;
mod etcd_operations;
mod hardware;
mod journal;
mod kubernetes;
mod links;
mod network;
mod node;
mod operations;
mod profile;
mod pulls;
mod reach;
mod sequences;
mod settings;
mod slow;
pub(crate) mod snapshot;
mod status;
pub mod timing;
pub(crate) mod tls;
mod upgrade;
mod versions;
mod view;

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

pub(crate) use apply::{Mode, Refusal};
pub use boot::{Boot, BootDisk, BootImage, BootNic};
pub(crate) use broken::Return;
pub(crate) use console::printed_fingerprint;
pub(crate) use copies::CopiedDisk;
pub(crate) use etcd::Etcd;
pub(crate) use hardware::{command_line, devices, kernel_lines};
pub(crate) use journal::{Action, Entry, Fault, Happening};
pub(crate) use network::TALOS_PORT;
pub(crate) use node::{EtcdService, Leave, Machine, Node, Phase, Registration, Seen, Wipe};
pub(crate) use operations::{RecoverOptions, ServiceAction};
pub(crate) use profile::Profile;
pub(crate) use pulls::{is_published, not_found};
pub(crate) use settings::Settings;
pub(crate) use status::{Service, Status};
pub(crate) use tls::{Judge, is_client_of, sign_request};
pub(crate) use upgrade::Installer;
pub(crate) use view::EtcdView;

/// All machines of a world, and the etcd clusters they form.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Machines {
    now: Timestamp,
    machines: BTreeMap<u32, Machine>,
    etcds: Vec<Etcd>,
    power_offs: Vec<u32>,
    /// What machines can fetch from outside, by address.
    #[serde(default)]
    pub documents: BTreeMap<String, String>,
    /// The hosts outside that answer; all when there is none.
    #[serde(default)]
    outside: Option<BTreeSet<String>>,
    /// What the DHCP server of the lab's network gives out, and to which card it gave what.
    #[serde(default)]
    dhcp: Option<ipnet::IpNet>,
    #[serde(default)]
    leases: BTreeMap<String, ipnet::IpNet>,
    /// Machines on which the named version does not come up.
    #[serde(default)]
    broken_systems: BTreeSet<(u32, String)>,
    /// Machines whose boot disk is smaller than Proxmox says, with its size in bytes.
    #[serde(default)]
    small_disks: BTreeMap<u32, u64>,
    /// Whether no time server answers.
    #[serde(default)]
    no_time: bool,
    /// Machines that hear nothing of each other.
    #[serde(default)]
    apart: apart::Apart,
    /// Services of machines whose image no registry has.
    #[serde(default)]
    no_images: BTreeSet<(u32, String)>,
    /// How machines come back the next time that they boot.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    returns: BTreeMap<u32, Return>,
    /// Machines whose streams of events say nothing.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    silent: BTreeSet<u32>,
    /// The certificates that a client read on the console of a machine: whose client, which machine, the fingerprint.
    #[serde(skip)]
    witnessed: BTreeSet<(String, u32, String)>,
    /// Machines on which something happened that no one was told of yet.
    #[serde(skip)]
    dirty: BTreeSet<u32>,
}

/// What a connection to a port meets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PortState {
    /// No one has the address.
    NoHost,
    /// No one listens on the port.
    Refused,
    /// Packets vanish.
    BlackHole,
    /// Someone listens.
    Open(Listener),
}

/// A port that accepts connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listener {
    /// Whose port it is.
    pub vmid: u32,
    /// When the machine's epoch is another one, connections made here are dead.
    pub epoch: u64,
    /// What is spoken there.
    pub kind: Kind,
}

/// What a port speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The Talos API of a machine without a configuration: any client, few rights.
    Maintenance,
    /// The Talos API of a configured machine: client certificates only.
    Api,
    /// The Kubernetes API.
    Kubernetes,
    /// Certificates for workers.
    Trustd,
}

impl Machines {
    /// Switches a machine on. One that is on already goes through a cold restart.
    pub fn power_on(&mut self, vmid: u32, mut boot: Boot, now: Timestamp) {
        self.now = self.now.max(now);
        for nic in &mut boot.nics {
            if nic.dhcp && nic.address.is_none() {
                nic.address = self.lease(&nic.mac);
                nic.gateway = self.dhcp.and_then(|net| net.hosts().next());
            }
        }
        if let (Some(disk), Some(limit)) = (boot.disks.first_mut(), self.disk_limit(vmid)) {
            disk.bytes = disk.bytes.min(limit);
        }
        let machine = self.machines.entry(vmid).or_insert_with(|| Machine::new(boot.clone()));
        machine.hardware = boot;
        machine.start(now);
        self.settle();
    }

    /// Lets a DHCP server give out addresses of `net`, from the 200th host on. A server that is there already stays.
    pub fn serve_dhcp(&mut self, net: Option<ipnet::IpNet>) {
        self.dhcp = net.or(self.dhcp);
    }

    /// Keeps addresses for cards, by MAC address.
    pub fn reserve(&mut self, reservations: &BTreeMap<String, ipnet::IpNet>) {
        let kept = reservations.iter().map(|(mac, address)| (mac.to_lowercase(), *address));
        self.leases.extend(kept);
    }

    /// The address that a card has from the DHCP server, which gives the same one always.
    fn lease(&mut self, mac: &str) -> Option<ipnet::IpNet> {
        let mac = mac.to_lowercase();
        if let Some(known) = self.leases.get(&mac) {
            return Some(*known);
        }
        let net = self.dhcp?;
        let address = net.hosts().skip(199).find(|address| {
            let leased = self.leases.values().any(|lease| lease.addr() == *address);
            !leased && self.owner(*address).is_none()
        })?;
        let lease = ipnet::IpNet::new(address, net.prefix_len()).ok()?;
        self.leases.insert(mac, lease);
        Some(lease)
    }

    /// Counts a stream that a client holds open on a machine, or lets it go.
    pub(crate) fn hold_stream(&mut self, vmid: u32, holds: bool) {
        if let Some(machine) = self.machines.get_mut(&vmid) {
            machine.streams = if holds { machine.streams + 1 } else { machine.streams.saturating_sub(1) };
        }
    }

    /// Makes a version fail to come up on a machine, or clears that.
    pub fn break_system(&mut self, vmid: u32, talos: &str, broken: bool) {
        let entry = (vmid, talos.to_owned());
        if broken {
            self.broken_systems.insert(entry);
        } else {
            self.broken_systems.remove(&entry);
        }
    }

    /// Whether the system on a machine's disk fails to come up.
    fn fails_to_boot(&self, vmid: u32) -> bool {
        let talos = self.machines.get(&vmid).map(|machine| machine.talos().to_owned()).unwrap_or_default();
        self.broken_systems.contains(&(vmid, talos))
    }

    /// Cuts a machine's power. Its disk stays.
    pub fn power_off(&mut self, vmid: u32, now: Timestamp) {
        self.now = self.now.max(now);
        if let Some(machine) = self.machines.get_mut(&vmid) {
            machine.stop(now);
        }
        self.settle();
    }

    /// Takes a machine's power away for a moment. Its disk stays.
    pub fn power_cycle(&mut self, vmid: u32, now: Timestamp) {
        if let Some(hardware) = self.machines.get(&vmid).map(|machine| machine.hardware.clone()) {
            self.power_off(vmid, now);
            self.power_on(vmid, hardware, now);
        }
    }

    /// Presses the power button: the machine shuts itself down in order, if it can.
    pub fn press_power_button(&mut self, vmid: u32, now: Timestamp) {
        self.now = self.now.max(now);
        let in_order = node::after(now, timing::LEAVING);
        match self.machines.get_mut(&vmid).map(|machine| &mut machine.phase) {
            Some(Phase::Maintenance(maintenance)) => {
                maintenance.off_at = Some(in_order);
                self.prints(vmid, |machine| machine.print_power_button(now));
            }
            Some(Phase::Configured(_)) => {
                self.prints(vmid, |machine| machine.print_power_button(now));
                drop(self.leave(vmid, Leave::Shutdown, now));
            }
            // No one listens yet.
            _ => {}
        }
    }

    fn prints(&mut self, vmid: u32, print: impl FnOnce(&mut Machine)) {
        if let Some(machine) = self.machines.get_mut(&vmid) {
            print(machine);
        }
    }

    /// Destroys a machine with its disk. What others know of it stays: it is a dead member there.
    pub fn forget(&mut self, vmid: u32) {
        self.machines.remove(&vmid);
        self.settle();
    }

    /// Machines that switched themselves off since the last call.
    pub fn take_power_offs(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.power_offs)
    }

    /// How many etcd clusters there are. More than one under the same keys is the accident that no one may cause.
    #[must_use]
    pub fn etcd_clusters(&self) -> usize {
        self.etcds.len()
    }

    /// Whether a machine was ever given a configuration.
    #[must_use]
    pub fn is_configured(&self, vmid: u32) -> bool {
        self.get(vmid).is_some_and(|machine| machine.node().is_some())
    }

    /// A client has read on a machine's console that it issued a certificate.
    pub(crate) fn witness(&mut self, origin: &str, vmid: u32, fingerprint: &str) {
        self.witnessed.insert((origin.to_owned(), vmid, fingerprint.to_owned()));
    }

    /// Whether a client of `origin` has read on a machine's console that it issued this certificate.
    pub(crate) fn is_witnessed(&self, origin: &str, vmid: u32, fingerprint: &str) -> bool {
        self.witnessed.contains(&(origin.to_owned(), vmid, fingerprint.to_owned()))
    }

    /// A machine in maintenance mode issues another certificate.
    pub(crate) fn reissue(&mut self, vmid: u32, now: Timestamp) {
        let waits = |machine: &&mut Machine| matches!(machine.phase, Phase::Maintenance(_));
        if let Some(machine) = self.machines.get_mut(&vmid).filter(waits) {
            machine.renew(now);
        }
    }

    pub(crate) fn get(&self, vmid: u32) -> Option<&Machine> {
        self.machines.get(&vmid)
    }

    /// What Kubernetes keeps, for a control plane whose etcd takes writes.
    pub(crate) fn store_mut(&mut self, vmid: u32) -> Option<&mut crate::kube::Store> {
        let data = self.machines.get(&vmid)?.disk.etcd?;
        self.led_etcd_of(vmid)?;
        self.etcds.iter_mut().find(|etcd| etcd.id == data.cluster).map(|etcd| &mut etcd.store)
    }

    /// The machines that share a configured machine's identity, itself included.
    pub(crate) fn cluster_of(&self, vmid: u32) -> Vec<u32> {
        let key = |machine: &Machine| machine.node().map(|node| node.settings.cluster_key().to_owned());
        let own = self.machines.get(&vmid).and_then(key);
        self.iter()
            .filter(|(_, machine)| own.is_some() && key(machine) == own)
            .map(|(vmid, _)| vmid)
            .collect()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Machine)> {
        self.machines.iter().map(|(vmid, machine)| (*vmid, machine))
    }
}

#[cfg(test)]
pub(crate) mod tests;
