//! The Proxmox cluster as data: hosts, storages with their volumes, VMs, tasks, and who may call.
//!
//! Nothing here knows HTTP, and nothing here acts: what Proxmox does with a request, and what its tasks do later, is in
//! `operations`.

pub(crate) mod access;
pub(crate) mod cloudinit;
pub(crate) mod console;
pub(crate) mod daemons;
mod described;
pub(crate) mod disks;
pub(crate) mod drive;
pub(crate) mod guest;
pub(crate) mod hotplug;
pub(crate) mod kept;
pub(crate) mod log;
pub(crate) mod mapping;
pub(crate) mod options;
pub(crate) mod refusal;
pub(crate) mod rights;
pub(crate) mod roles;
pub(crate) mod second_factor;
pub(crate) mod storage;
pub(crate) mod storage_options;
pub(crate) mod tasks;
pub(crate) mod vm;
pub(crate) mod volname;
pub(crate) mod work;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::factory::Factory;
use crate::keys::Identity;
use crate::rng::Rng;
use crate::{Facts, HostConfig, LabConfig, LabError, PciConfig, ProxmoxVersion};
use access::Access;
use kept::{Fields, Kept};
use storage::Storages;
use tasks::Task;
use vm::Vm;

/// The port of the API on each host.
pub(crate) const PROXMOX_PORT: u16 = 8006;
/// The build of Proxmox.
pub(crate) const REPOID: &str = "a8e257e1a8e257e1";
/// The version of QEMU in it.
pub(crate) const QEMU: &str = "10.0.13";

/// The Proxmox cluster.
#[derive(Debug, Serialize, Deserialize)]
pub struct Hypervisor {
    pub(crate) hosts: BTreeMap<String, Host>,
    pub(crate) storages: Storages,
    pub(crate) vms: BTreeMap<u32, Vm>,
    pub(crate) tasks: BTreeMap<String, Task>,
    /// Tasks that go on. Every request asks what is due next, and most tasks have ended long ago.
    #[serde(default)]
    pub(crate) active: BTreeSet<String>,
    pub(crate) access: Access,
    #[serde(default)]
    pub(crate) mappings: BTreeMap<String, Mapping>,
    /// Resources of high availability by id, with their options.
    #[serde(default)]
    pub(crate) ha: BTreeMap<String, BTreeMap<String, String>>,
    /// What hosts do by themselves in a moment.
    #[serde(default)]
    pub(crate) errands: Vec<daemons::Errand>,
    /// The log of the cluster.
    #[serde(default)]
    pub(crate) log: log::Log,
    /// The release that it plays.
    #[serde(default = "ProxmoxVersion::unsaid")]
    pub(crate) version: ProxmoxVersion,
    /// The cluster has lost its quorum, however many hosts are there.
    #[serde(default)]
    pub(crate) no_quorum: bool,
    /// No status daemon reports.
    #[serde(default)]
    pub(crate) no_status: bool,
    /// Configuration that nothing acts on.
    #[serde(default)]
    pub(crate) kept: Kept,
    /// A web server that the hosts reach, beside the Image Factory.
    #[serde(default)]
    pub(crate) web: Option<Web>,
    /// Web servers of this machine that were asked for a file, by their address.
    #[serde(default)]
    pub(crate) local_web: BTreeMap<String, Web>,
    /// Serial consoles that are open. Their connections are gone when the world is opened again.
    #[serde(skip)]
    pub(crate) consoles: console::Consoles,
    /// Hosts in the order of the configuration: the first is the one that people are told.
    order: Vec<String>,
    authority: Identity,
}

/// One name for a PCI device on each host.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Mapping {
    /// `node=…,path=…,id=…`, one for each device.
    pub(crate) map: Vec<String>,
    pub(crate) about: BTreeMap<String, String>,
}

/// A web server with files to download.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Web {
    /// Its address, without a slash at the end.
    pub(crate) base: String,
    pub(crate) files: BTreeMap<String, WebFile>,
    /// What it answers for anything else, such as `404 Not Found`.
    pub(crate) otherwise: String,
}

/// One file of a web server.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct WebFile {
    pub(crate) bytes: u64,
    pub(crate) disk_bytes: u64,
    /// Its checksums, by algorithm.
    pub(crate) sums: BTreeMap<String, String>,
    pub(crate) mimetype: String,
    /// What kind of image its first bytes say that it is, where someone looked.
    #[serde(default)]
    pub(crate) image: Option<String>,
}

impl Web {
    pub(crate) fn authority(&self) -> &str {
        self.base.split("://").nth(1).unwrap_or(&self.base)
    }
}

/// One Proxmox host.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Host {
    pub(crate) name: String,
    pub(crate) address: IpAddr,
    pub(crate) cpus: u32,
    pub(crate) memory_bytes: u64,
    pub(crate) bridges: Vec<String>,
    pub(crate) online: bool,
    /// Whether an administrator put it into the maintenance mode of high availability.
    #[serde(default)]
    pub(crate) maintenance: bool,
    pub(crate) booted: Timestamp,
    pub(crate) identity: Identity,
    pub(crate) fingerprint: String,
    /// Devices that can be handed through.
    #[serde(default)]
    pub(crate) pci: Vec<PciConfig>,
    /// The interfaces, once someone changed them.
    #[serde(default)]
    pub(crate) network: Option<BTreeMap<String, Fields>>,
    /// The interfaces after the next reload, where that differs.
    #[serde(default)]
    pub(crate) next_network: Option<BTreeMap<String, Fields>>,
    /// How many seconds its clock is ahead.
    #[serde(default)]
    pub(crate) clock_error: i64,
    /// How much longer every answer and every stage of a task takes.
    #[serde(default)]
    pub(crate) slow: Duration,
    /// The process number of the last task or VM.
    last_pid: u32,
}

impl Host {
    fn new(config: &HostConfig, now: Timestamp, authority: &Identity) -> Result<Self, LabError> {
        let names =
            [config.name.clone(), config.address.to_string(), "localhost".to_owned(), "127.0.0.1".to_owned()];
        let identity = authority.issue(&names)?;
        let fingerprint = identity.fingerprint();
        Ok(Self {
            name: config.name.clone(),
            address: config.address,
            cpus: config.cpus,
            memory_bytes: config.memory_bytes,
            bridges: config.bridges.clone(),
            online: true,
            maintenance: false,
            booted: now,
            identity,
            fingerprint,
            pci: config.pci.clone(),
            network: None,
            next_network: None,
            clock_error: 0,
            slow: Duration::ZERO,
            last_pid: 1200,
        })
    }

    /// A new process number.
    pub(crate) fn next_pid(&mut self, rng: &mut Rng) -> u32 {
        let step = u32::try_from(1 + rng.below(9)).unwrap_or(1);
        self.last_pid = if self.last_pid > 4_000_000 { 1200 } else { self.last_pid.saturating_add(step) };
        self.last_pid
    }

    /// Makes what waits of the network true.
    pub(crate) fn reload_network(&mut self) {
        let Some(mut next) = self.next_network.take() else { return };
        for interface in next.values_mut() {
            interface.insert("active".to_owned(), 1.into());
        }
        let bridge = |fields: &Fields| {
            matches!(fields.get("type").and_then(|kind| kind.as_str()), Some("bridge" | "OVSBridge"))
        };
        self.bridges =
            next.iter().filter(|(_, fields)| bridge(fields)).map(|(name, _)| name.clone()).collect();
        self.network = Some(next);
    }

    /// Seconds since the host started.
    pub(crate) fn uptime(&self, now: Timestamp) -> i64 {
        now.duration_since(self.booted).as_secs().max(0)
    }
}

/// Where zones and vnets are kept.
const ZONES: &str = "/cluster/sdn/zones";
pub(crate) const VNETS: &str = "/cluster/sdn/vnets";

impl Hypervisor {
    /// The zone of a vnet, if it is one. The bridges of the hosts themselves count to `localnetwork`.
    pub(crate) fn zone_of(&self, bridge: &str) -> Option<&str> {
        self.kept.get(VNETS, bridge)?.get("zone")?.as_str()
    }

    pub(crate) fn new(config: &LabConfig, now: Timestamp, rng: &mut Rng) -> Result<Self, LabError> {
        if config.hosts.is_empty() {
            return Err(LabError::NoHosts);
        }
        let mut new = Self {
            hosts: BTreeMap::new(),
            storages: Storages::default(),
            vms: BTreeMap::new(),
            tasks: BTreeMap::new(),
            active: BTreeSet::new(),
            access: Access::new(rng),
            mappings: BTreeMap::new(),
            ha: BTreeMap::new(),
            errands: Vec::new(),
            log: log::Log::default(),
            version: config.proxmox,
            no_quorum: false,
            no_status: false,
            kept: Kept::default(),
            web: None,
            local_web: BTreeMap::new(),
            consoles: console::Consoles::default(),
            order: Vec::new(),
            authority: Identity::authority("Proxmox Virtual Environment")?,
        };
        new.access.require_second_factor(config.second_factor.as_deref());
        new.add_missing(config, now)?;
        if let Some(described) = &config.described {
            described.fill(&mut new, now);
        }
        Ok(new)
    }

    /// Adds hosts, bridges, storages and pools of `config` that are not there yet; what is there stays as it is.
    pub(crate) fn add_missing(&mut self, config: &LabConfig, now: Timestamp) -> Result<(), LabError> {
        self.active
            .extend(self.tasks.values().filter(|task| task.due().is_some()).map(|task| task.upid.clone()));
        for wanted in &config.hosts {
            if !self.hosts.contains_key(&wanted.name) {
                self.hosts.insert(wanted.name.clone(), Host::new(wanted, now, &self.authority)?);
                self.order.push(wanted.name.clone());
            }
            if let Some(host) = self.hosts.get_mut(&wanted.name) {
                let missing = wanted.bridges.iter().filter(|bridge| !host.bridges.contains(bridge)).cloned();
                let missing: Vec<_> = missing.collect();
                host.bridges.extend(missing);
                let missing = wanted
                    .pci
                    .iter()
                    .filter(|device| !host.pci.iter().any(|known| known.address == device.address))
                    .cloned();
                let missing: Vec<_> = missing.collect();
                host.pci.extend(missing);
            }
            for storage in &wanted.storages {
                self.storages.add_missing(&wanted.name, storage);
            }
        }
        for pool in &config.pools {
            self.access.pools.entry(pool.clone()).or_default();
        }
        for (vnet, zone) in &config.vnets {
            let fields = |pairs: &[(&str, &str)]| -> Fields {
                pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).into())).collect()
            };
            self.kept.put(ZONES, zone, fields(&[("zone", zone), ("type", "simple")]));
            self.kept.put(VNETS, vnet, fields(&[("vnet", vnet), ("zone", zone), ("type", "vnet")]));
        }
        for (name, address) in &config.mappings {
            let entry = |(host, device): (&String, &PciConfig)| device.entry(host);
            let devices = self.hosts.iter().filter_map(|(name, host)| {
                Some((name, host.pci.iter().find(|device| device.address == *address)?))
            });
            let map: Vec<String> = devices.map(entry).collect();
            self.mappings.entry(name.clone()).or_insert_with(|| Mapping { map, about: BTreeMap::new() });
        }
        Ok(())
    }

    pub(crate) fn next_due(&self) -> Option<Timestamp> {
        let tasks = self.active.iter().filter_map(|upid| self.tasks.get(upid)?.due());
        tasks.chain(self.errands.iter().map(daemons::Errand::due)).min()
    }

    /// The host with this name or address.
    pub(crate) fn host_at(&self, name: &str, address: Option<IpAddr>) -> Option<&Host> {
        self.hosts.values().find(|host| host.name == name || Some(host.address) == address)
    }

    pub(crate) fn host_addresses(&self) -> Vec<(String, IpAddr)> {
        self.order
            .iter()
            .filter_map(|name| self.hosts.get(name))
            .map(|h| (h.name.clone(), h.address))
            .collect()
    }

    pub(crate) fn fingerprints(&self) -> Vec<String> {
        let hosts = self.order.iter().filter_map(|name| self.hosts.get(name));
        hosts.map(|host| host.fingerprint.clone()).collect()
    }

    pub(crate) fn facts(&self, factory: &Factory) -> Facts {
        let first = self.order.first().and_then(|name| self.hosts.get(name));
        Facts {
            endpoint: first.map(|host| format!("{}:{PROXMOX_PORT}", host.name)).unwrap_or_default(),
            fingerprint: first.map(|host| host.fingerprint.clone()).unwrap_or_default(),
            token: self.access.lab_token(),
            root_password: self.access.root_password().to_owned(),
            factory_ca_pem: factory.authority_pem().to_owned(),
        }
    }

    /// The web server that an address leads to, beside the Image Factory.
    pub(crate) fn web_at(&self, url: &str) -> Option<&Web> {
        let here = |web: &&Web| url.strip_prefix(&web.base).is_some_and(|rest| rest.starts_with('/'));
        self.local_web.values().chain(&self.web).find(here)
    }

    /// Whether enough hosts are there to change anything.
    pub(crate) fn quorate(&self) -> bool {
        let online = self.hosts.values().filter(|host| host.online).count();
        !self.no_quorum && (self.hosts.len() == 1 || online * 2 > self.hosts.len())
    }

    /// Memory that running VMs of `node` hold.
    pub(crate) fn memory_in_use(&self, node: &str) -> u64 {
        // Which of many VMs run is known without comparing names.
        self.vms.values().filter(|vm| vm.running.is_some() && vm.node == node).map(Vm::memory_bytes).sum()
    }

    /// A guest switched itself off.
    pub(crate) fn guest_powered_off(&mut self, vmid: u32, now: Timestamp) {
        if let Some(vm) = self.vms.get_mut(&vmid) {
            vm.stopped();
        }
        self.process_ended(vmid, now);
    }
}
