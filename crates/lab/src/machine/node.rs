//! One machine: its hardware, its disk, and the phase it is in.
//!
//! A phase is data with moments in it. What is true now follows from comparing those moments with the present; nothing
//! here runs. `clockwork` moves machines from phase to phase.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::boot::{Boot, BootImage};
use super::calls::Calls;
use super::components::Components;
use super::console::Console;
use super::journal::{Entry, Told};
use super::profile::Profile;
use super::settings::{Issuer, Role, Settings};
use super::timing;

/// One virtual machine as seen from inside.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Machine {
    /// What it was last switched on with.
    pub hardware: Boot,
    /// What survives a power-off.
    pub disk: Disk,
    /// The system that it was last started with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub running: Option<BootImage>,
    /// How often it was started, counting restarts.
    pub boots: u64,
    /// Connections made in another epoch are dead.
    pub epoch: u64,
    /// How often a certificate with a new key was made, in this boot.
    pub keys: u64,
    pub phase: Phase,
    /// What readers of the resource API saw last, to number versions.
    pub seen: BTreeMap<String, Seen>,
    /// What it published since it was started.
    #[serde(default)]
    pub(crate) log: Vec<Entry>,
    #[serde(default)]
    pub(crate) told: Told,
    /// Connections of an older epoch that live on for a while: which, and until when.
    #[serde(default)]
    pub draining: Option<(u64, Timestamp)>,
    /// Streams that clients hold open; they are not part of the saved world.
    #[serde(skip)]
    pub streams: usize,
    /// What its API was asked since it was started.
    #[serde(skip)]
    pub(crate) calls: Calls,
    /// Its network cable is pulled.
    #[serde(default)]
    pub unplugged: bool,
    /// By how many seconds the clock of the host that started it was ahead.
    #[serde(default)]
    pub clock_error: i64,
    /// Whether the host that started it is slow.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub slow: bool,
    /// What it prints.
    #[serde(default, skip_serializing_if = "Console::is_empty")]
    pub(super) console: Console,
}

/// The content of the system disk.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Disk {
    /// Set when the whole disk was wiped: nothing is left to boot from.
    pub empty: bool,
    /// The configuration on the STATE partition.
    pub config: Option<String>,
    /// etcd's data directory.
    pub etcd: Option<EtcdData>,
    /// The data that came with a clone, a restored backup or a rollback: what its member wrote since is missing.
    #[serde(default)]
    pub copied: Option<EtcdData>,
    /// The system that an upgrade put in place of the one that the disk was made with.
    #[serde(default)]
    pub system: Option<BootImage>,
    /// The system before it, to which a rollback or a failed boot returns.
    #[serde(default)]
    pub previous: Option<BootImage>,
    /// Set from an upgrade until the machine was ready once: a failed boot goes back.
    #[serde(default)]
    pub on_probation: bool,
    /// An installer that runs at the next boot, before anything else.
    #[serde(default)]
    pub staged: Option<BootImage>,
    /// The META partition.
    #[serde(default)]
    pub meta: BTreeMap<u8, String>,
    /// Container images by namespace and name: digest and when they came.
    #[serde(default)]
    pub images: BTreeMap<String, Timestamp>,
    /// How often the EPHEMERAL partition was wiped.
    #[serde(default)]
    pub ephemeral: u64,
    /// An etcd snapshot that was uploaded for recovery.
    #[serde(default)]
    pub recovery: Option<Vec<u8>>,
    /// The boot entry lost a part of its kernel arguments.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub few_arguments: bool,
}

/// Whose data an etcd directory holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct EtcdData {
    /// Which etcd cluster.
    pub cluster: u64,
    /// Which member of it.
    pub member: u64,
}

/// A resource as a reader last saw it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Seen {
    pub version: u64,
    pub digest: u64,
    pub created: Timestamp,
    pub updated: Timestamp,
}

/// Where a machine is in its life.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "phase", rename_all = "lowercase")]
pub enum Phase {
    /// Switched off.
    Off,
    /// Switched on, with nothing to boot from.
    Blank,
    /// Firmware, kernel, machined.
    Booting {
        network: Timestamp,
        until: Timestamp,
        /// Set once the console has told of the network.
        #[serde(default)]
        connected: bool,
    },
    /// Waits for a configuration.
    Maintenance(Maintenance),
    /// Has a configuration and runs it.
    Configured(Box<Node>),
}

/// Waiting for a configuration.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Maintenance {
    pub network_from: Timestamp,
    /// When its certificate was issued; worlds of older versions do not know.
    #[serde(default)]
    pub issued: Option<Timestamp>,
    /// A configuration without the v1alpha1 document: its host name counts, the machine stays here.
    pub hostname: Option<String>,
    /// The configuration that was accepted.
    pub accepted: Option<Accepted>,
    /// When it switches itself off, after someone pressed the power button.
    pub off_at: Option<Timestamp>,
}

/// A configuration on its way.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Accepted {
    pub config: String,
    /// When the maintenance listener goes away for it.
    pub at: Timestamp,
    /// How long it is tried, if it is only tried.
    pub trial: Option<std::time::Duration>,
}

/// A machine that runs a configuration.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Node {
    /// The active configuration, byte for byte.
    pub config: String,
    pub settings: Settings,
    /// Since when its address is in use; the older of two keeps it.
    pub network_from: Timestamp,
    /// When the boot sequence started.
    pub began: Timestamp,
    /// When the API listens, once it has a certificate.
    pub api_from: Option<Timestamp>,
    /// Who signed that certificate.
    pub issuer: Option<Issuer>,
    pub clock_from: Timestamp,
    pub cri_from: Timestamp,
    pub kubelet_from: Timestamp,
    pub etcd: EtcdService,
    pub api_server_from: Option<Timestamp>,
    pub registration: Registration,
    pub leaving: Option<Leaving>,
    /// Who asked for that.
    #[serde(default)]
    pub actor: String,
    /// A configuration on trial: when it is taken back, and what it is replaced with. Without one the machine ends up
    /// without any configuration and without any API.
    pub trial: Option<(Timestamp, Option<String>)>,
    /// How many configurations were active since the start; Kubernetes' static pods carry it.
    #[serde(default)]
    pub generation: u64,
    /// A trial that started in maintenance has ended: nothing gives this machine an API again before it restarts.
    #[serde(default)]
    pub without_api: bool,
    /// The kubelet was stopped by its API.
    #[serde(default)]
    pub kubelet_stopped: bool,
    /// When the machine gives up to fetch a kubelet that no registry has.
    #[serde(default)]
    pub kubelet_gives_up: Option<Timestamp>,
    /// What of Kubernetes runs there by itself.
    #[serde(default)]
    pub components: Components,
}

/// The etcd service of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "lowercase")]
pub enum EtcdService {
    /// A worker has none.
    Absent,
    /// Waits for `Bootstrap` or for a cluster to join.
    Preparing,
    /// Found a cluster and is about to add itself.
    Joining { at: Timestamp },
    /// `Bootstrap` was called; nothing is on disk yet.
    Bootstrapping { at: Timestamp },
    /// Its image is in no registry, and the machine still tries.
    Pulling { until: Timestamp },
    /// It no longer does. Only a restart or `Bootstrap` tries again.
    Failed { since: Timestamp },
    /// Starts on the data it has.
    Starting { at: Timestamp },
    /// Left its cluster; only `Bootstrap` starts it again.
    Finished { since: Timestamp },
    /// Was removed by another member: starts and fails for ever.
    Removed,
    /// Panics on a log that is older than what the others know that it has acknowledged: starts and fails for ever.
    Crashing,
    /// Runs. A learner has no moment of health yet.
    Running { since: Timestamp, healthy_from: Option<Timestamp> },
}

/// What the kubelet has achieved since the machine started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "lowercase")]
pub enum Registration {
    /// Not yet, for want of an API server.
    None,
    /// Found an API server.
    Registering { at: Timestamp },
    /// The node object is there, in the etcd cluster named.
    Registered { cluster: u64, ready_at: Option<Timestamp> },
}

/// A reboot, shutdown or reset under way.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Leaving {
    pub why: Leave,
    /// Then services stop, machined among them: the API still takes calls and cannot serve them.
    pub quits: Timestamp,
    /// Then the API closes.
    pub closes: Timestamp,
    /// Then the machine restarts or switches itself off.
    pub gone: Timestamp,
    /// Set once services have stopped.
    pub stopped: bool,
    /// Set once the API has closed.
    pub closed: bool,
    /// Whether it goes down to take a new configuration: until then it takes no other.
    #[serde(default)]
    pub for_config: bool,
}

/// Why a machine goes down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "why", rename_all = "lowercase")]
pub enum Leave {
    Reboot,
    /// At once: nothing is stopped or unmounted first.
    ForcedReboot,
    Shutdown,
    Reset {
        graceful: bool,
        wipe: Wipe,
    },
    /// The installer has run, or runs; then a restart.
    Upgrade,
}

/// What a reset does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Wipe {
    pub state: bool,
    pub ephemeral: bool,
    pub meta: bool,
    pub whole_disk: bool,
    pub reboot: bool,
}

/// `moment` later by `duration`; the end of time is far enough for what does not fit.
pub(super) fn after(moment: Timestamp, duration: std::time::Duration) -> Timestamp {
    moment.checked_add(duration).unwrap_or(Timestamp::MAX)
}

impl Machine {
    pub(super) fn new(hardware: Boot) -> Self {
        Self {
            hardware,
            disk: Disk::default(),
            running: None,
            boots: 0,
            epoch: 0,
            keys: 0,
            phase: Phase::Off,
            seen: BTreeMap::new(),
            log: vec![],
            told: Told::default(),
            draining: None,
            streams: 0,
            calls: Calls::default(),
            unplugged: false,
            clock_error: 0,
            slow: false,
            console: Console::default(),
        }
    }

    /// The system that boots next.
    pub(crate) fn on_disk(&self) -> Option<&BootImage> {
        self.disk.system.as_ref().or(self.hardware.image.as_ref())
    }

    /// The system that runs. Another one that was installed beside it shows only after the next boot.
    pub(crate) fn image(&self) -> Option<&BootImage> {
        self.running.as_ref().or(self.on_disk())
    }

    /// Whether it runs the system that boots next.
    pub(crate) fn has_booted(&self) -> bool {
        self.image() == self.on_disk()
    }

    /// The Talos version that runs, with its `v`.
    pub(crate) fn talos(&self) -> &str {
        self.image().map_or("v0.0.0", |image| image.talos.as_str())
    }

    /// How that version behaves.
    pub(crate) fn profile(&self) -> Profile {
        Profile::of(self.talos())
    }

    /// The names of the system extensions in it.
    pub(crate) fn extensions(&self) -> &[String] {
        self.image().map_or(&[], |image| image.extensions.as_slice())
    }

    /// Name servers: the configuration's, else the platform's.
    pub(crate) fn resolvers(&self) -> Vec<IpAddr> {
        let configured = self.node().map(|node| node.settings.resolvers.clone()).unwrap_or_default();
        if configured.is_empty() {
            self.hardware.nics.iter().flat_map(|nic| nic.dns.clone()).collect()
        } else {
            configured
        }
    }

    /// Time servers: the configuration's, else Talos' own.
    pub(crate) fn time_servers(&self) -> Vec<String> {
        let configured = self.node().map(|node| node.settings.time_servers.clone()).unwrap_or_default();
        if configured.is_empty() { vec!["time.cloudflare.com".to_owned()] } else { configured }
    }

    /// The default gateway of a card.
    pub(crate) fn gateway(&self, card: usize) -> Option<IpAddr> {
        let configured = self.node().and_then(|node| Settings::of_card(&node.settings.gateways, card));
        configured.or_else(|| self.hardware.nics.get(card).and_then(|nic| nic.gateway))
    }

    /// The packet size of a card.
    pub(crate) fn mtu(&self, card: usize) -> u64 {
        self.node().and_then(|node| Settings::of_card(&node.settings.mtus, card)).unwrap_or(1500)
    }

    /// A number of this machine's own, different in each boot.
    pub(super) fn seed(&self, purpose: &str) -> u64 {
        crate::stable::stable_number(&[&self.hardware.uuid, &self.boots.to_string(), purpose])
    }

    /// 32 bytes of this machine's own, for the key of its current certificate.
    pub(super) fn key_seed(&self, purpose: &str) -> [u8; 32] {
        let text = format!("{}\n{}\n{}\n{purpose}", self.hardware.uuid, self.boots, self.keys);
        Sha256::digest(text).into()
    }

    /// Starts the machine: power-on and every restart.
    pub(super) fn start(&mut self, now: Timestamp) {
        self.boots += 1;
        self.epoch += 1;
        self.keys = 0;
        self.seen.clear();
        self.calls = Calls::default();
        self.draining = None;
        self.begin_log();
        if let Some(staged) = self.disk.staged.take() {
            self.install(staged);
        }
        self.running = self.on_disk().cloned();
        self.print_boot(now);
        if self.image().is_none() || self.disk.empty {
            self.phase = Phase::Blank;
            return;
        }
        let span = u64::try_from(timing::BOOT_JITTER.as_millis()).unwrap_or(u64::MAX);
        let jitter = std::time::Duration::from_millis(self.seed("boot") % span);
        let until = after(now, timing::BOOT + jitter);
        let network = until.checked_sub(timing::NETWORK_BEFORE_API).unwrap_or(now);
        self.phase = Phase::Booting { network, until, connected: false };
    }

    /// Puts another system beside the one on the disk and makes it the one that boots.
    pub(crate) fn install(&mut self, system: BootImage) {
        self.disk.previous = self.image().cloned();
        self.disk.system = Some(system);
        self.disk.on_probation = true;
    }

    /// Waiting for a configuration, it shows another certificate.
    pub(super) fn renew(&mut self, now: Timestamp) {
        if let Phase::Maintenance(maintenance) = &mut self.phase {
            maintenance.issued = Some(now);
        }
        self.issue_certificate(now);
    }

    /// Returns to the system before the last upgrade; says whether there is one.
    pub(super) fn revert(&mut self) -> bool {
        self.disk.on_probation = false;
        let Some(previous) = self.disk.previous.take() else { return false };
        self.disk.previous = self.on_disk().cloned();
        self.disk.system = Some(previous);
        true
    }

    /// Stops it at once, as pulling the plug does.
    pub(super) fn stop(&mut self, now: Timestamp) {
        self.silence(now);
        self.epoch += 1;
        self.draining = None;
        self.phase = Phase::Off;
    }

    /// The configured node inside, if there is one.
    pub(crate) fn node(&self) -> Option<&Node> {
        match &self.phase {
            Phase::Configured(node) => Some(node),
            _ => None,
        }
    }

    pub(super) fn node_mut(&mut self) -> Option<&mut Node> {
        match &mut self.phase {
            Phase::Configured(node) => Some(node),
            _ => None,
        }
    }

    /// The node, as long as its services run and others hear of it.
    pub(crate) fn live_node(&self) -> Option<&Node> {
        self.node().filter(|node| !node.stopped() && self.is_plugged())
    }

    /// Boots into `config`: `api_from` is when its listener comes, for a machine that can issue its own certificate.
    /// A client that still holds a stream of the maintenance API delays that.
    pub(super) fn configure(
        &mut self,
        config: String,
        settings: Settings,
        network_from: Timestamp,
        now: Timestamp,
    ) {
        let held = matches!(self.phase, Phase::Maintenance(_)) && self.streams > 0;
        let switch = if held { timing::STREAMS_LINGER } else { timing::SWITCH };
        let api_from = after(now, switch);
        self.draining = held.then_some((self.epoch, api_from));
        let own_issuer = (settings.role == Role::ControlPlane).then(|| settings.talos_ca.clone());
        let clock_from = after(network_from, timing::CLOCK_SYNC);
        let cri_from = after(now, timing::CRI);
        let etcd = match (settings.role, self.disk.etcd) {
            (Role::Worker, _) => EtcdService::Absent,
            (Role::ControlPlane, None) => EtcdService::Preparing,
            (Role::ControlPlane, Some(_)) => {
                EtcdService::Starting { at: after(cri_from, timing::ETCD_START) }
            }
        };
        self.keys += 1;
        self.epoch += 1;
        self.phase = Phase::Configured(Box::new(Node {
            config,
            settings,
            network_from,
            began: now,
            api_from: own_issuer.as_ref().map(|_| api_from),
            issuer: own_issuer,
            clock_from,
            cri_from,
            kubelet_from: after(cri_from.max(clock_from), timing::KUBELET),
            etcd,
            api_server_from: None,
            registration: Registration::None,
            leaving: None,
            actor: String::new(),
            trial: None,
            generation: 1,
            without_api: false,
            kubelet_stopped: false,
            kubelet_gives_up: None,
            components: Components::default(),
        }));
    }

    /// The machine's host name.
    pub(crate) fn hostname(&self) -> &str {
        let configured = match &self.phase {
            Phase::Maintenance(m) => m.hostname.as_deref(),
            Phase::Configured(node) => node.settings.hostname.as_deref(),
            _ => None,
        };
        configured.unwrap_or(&self.hardware.name)
    }

    /// Its own addresses with the number of their card: cloud-init's, and those of the configuration.
    pub(crate) fn own_addresses(&self) -> Vec<(usize, IpNet)> {
        let cards = self.hardware.nics.iter().enumerate();
        let platform =
            cards.flat_map(|(n, nic)| nic.address.into_iter().chain(nic.address6).map(move |net| (n, net)));
        let configured = self.node().map(|node| node.settings.addresses.clone()).unwrap_or_default();
        let mut all: Vec<_> = platform.chain(configured).collect();
        all.sort();
        all.dedup();
        all
    }

    /// The address that it uses towards others.
    pub(crate) fn address(&self) -> Option<IpAddr> {
        let configured =
            self.node().and_then(|node| node.settings.addresses.first().map(|(_, net)| net.addr()));
        configured.or_else(|| self.own_addresses().first().map(|(_, net)| net.addr()))
    }

    /// Since when it answers on the network.
    pub(crate) fn network_since(&self) -> Option<Timestamp> {
        match &self.phase {
            Phase::Off | Phase::Blank => None,
            Phase::Booting { network, .. } => Some(*network),
            Phase::Maintenance(m) => Some(m.network_from),
            Phase::Configured(node) => Some(node.network_from),
        }
    }

    /// Every moment at which something may happen by itself.
    pub(super) fn moments(&self) -> Vec<Timestamp> {
        let mut all = self.slow_moments();
        all.extend(self.phase_moments());
        all
    }

    fn phase_moments(&self) -> Vec<Timestamp> {
        match &self.phase {
            Phase::Off | Phase::Blank => vec![],
            Phase::Booting { network, until, .. } => vec![*network, *until],
            Phase::Maintenance(m) => {
                let renewed = m.issued.map(|issued| after(issued, timing::CERTIFICATE_RENEWED));
                m.accepted.iter().map(|a| a.at).chain(m.off_at).chain(renewed).collect()
            }
            Phase::Configured(node) => {
                let mut all = node.moments();
                all.extend(self.draining.map(|(_, until)| until));
                all
            }
        }
    }
}

impl Node {
    /// Whether a shutdown has got to the point where services are gone.
    pub(crate) fn stopped(&self) -> bool {
        self.leaving.is_some_and(|leaving| leaving.stopped)
    }

    /// Whether a shutdown has got to the point where nothing listens any more.
    pub(crate) fn closed(&self) -> bool {
        self.leaving.is_some_and(|leaving| leaving.closed)
    }

    /// Whether etcd's own check has passed.
    pub(crate) fn etcd_is_healthy(&self, now: Timestamp) -> bool {
        matches!(self.etcd, EtcdService::Running { healthy_from: Some(at), .. } if at <= now)
    }

    pub(crate) fn is_control_plane(&self) -> bool {
        self.settings.role == Role::ControlPlane
    }

    /// Whether the kubelet has found its cluster and has a certificate of it.
    pub(crate) fn kubelet_has_joined(&self) -> bool {
        matches!(self.registration, Registration::Registered { .. })
    }

    /// When trustd answers.
    pub(super) fn trustd_from(&self) -> Timestamp {
        after(self.began, timing::TRUSTD).max(self.clock_from)
    }

    fn moments(&self) -> Vec<Timestamp> {
        let mut all = vec![self.clock_from, self.cri_from, self.kubelet_from, self.trustd_from()];
        all.extend([self.cri_from, self.trustd_from()].map(|from| after(from, timing::FIRST_CHECK)));
        all.push(after(self.kubelet_from, timing::KUBELET_FIRST_CHECK));
        all.extend(self.api_from);
        all.extend(self.kubelet_gives_up);
        all.extend(self.api_server_from);
        all.extend(self.component_moments());
        all.extend(self.trial.iter().map(|(at, _)| *at));
        all.extend(self.leaving.iter().flat_map(|l| [l.quits, l.closes, l.gone]));
        match self.etcd {
            EtcdService::Absent
            | EtcdService::Preparing
            | EtcdService::Failed { .. }
            | EtcdService::Finished { .. }
            | EtcdService::Removed
            | EtcdService::Crashing => {}
            EtcdService::Joining { at }
            | EtcdService::Pulling { until: at }
            | EtcdService::Bootstrapping { at }
            | EtcdService::Starting { at } => {
                all.push(at);
            }
            EtcdService::Running { healthy_from, .. } => all.extend(healthy_from),
        }
        match self.registration {
            Registration::None => {}
            Registration::Registering { at } => all.push(at),
            Registration::Registered { ready_at, .. } => all.extend(ready_at),
        }
        all
    }
}
