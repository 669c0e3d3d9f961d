//! Machines without a network: what happens in which order, and what does not.

use std::sync::LazyLock;
use std::time::Duration;

use talos::config::{Cni, Contract, Input, MachineSettings, Nic, Role, apply_machine, generate};
use talos::secrets::Bundle;
use tonic::Code;

use super::*;

mod day2;
mod etcd;
mod recorded;
mod surprises;
mod upgrades;

/// A bundle costs seconds: one for all tests.
pub(crate) static BUNDLE: LazyLock<Bundle> =
    LazyLock::new(|| Bundle::generate(Contract::parse("v1.13").unwrap(), start()).unwrap());

pub(crate) const VIP: &str = "10.1.0.10";

pub(crate) fn start() -> Timestamp {
    "2026-06-01T12:00:00Z".parse().unwrap()
}

pub(crate) fn mac(number: u32) -> String {
    format!("BC:24:11:00:00:{number:02X}")
}

pub(crate) fn address(number: u32) -> String {
    format!("10.1.0.{}", number - 90)
}

/// Machine `number` (101, 102, …) as the hypervisor would switch it on.
pub(crate) fn boot(number: u32) -> Boot {
    Boot {
        name: format!("vm-{number}"),
        uuid: format!("00000000-0000-4000-8000-{number:012}"),
        instance_id: String::new(),
        cores: 2,
        memory_mib: 4096,
        disks: vec![BootDisk { slot: "scsi0".into(), bytes: 32 << 30, serial: None, wwn: None }],
        nics: vec![BootNic {
            mac: mac(number),
            bridge: "vmbr0".into(),
            address: Some(format!("{}/24", address(number)).parse().unwrap()),
            gateway: Some("10.1.0.1".parse().unwrap()),
            address6: None,
            gateway6: None,
            dns: vec![],
            dhcp: false,
        }],
        uefi: false,
        secure_boot: false,
        pci: vec![],
        image: Some(BootImage {
            talos: "v1.13.9".into(),
            schematic: "376567988ad370138ad8b2698212367b8edcb69b5fd68c80be1f2ec7d603b4ba".into(),
            platform: "nocloud".into(),
            arch: "amd64".into(),
            extensions: vec![],
        }),
    }
}

/// A configuration for machine `number`.
pub(crate) fn config(number: u32, role: Role, change: impl FnOnce(&mut Input)) -> Vec<u8> {
    made(number, role, "v1.13", "v1.36.3", change)
}

/// A configuration for machine `number` by another contract.
pub(crate) fn config_of(number: u32, role: Role, contract: &str, kubernetes: &str) -> Vec<u8> {
    made(number, role, contract, kubernetes, |_| {})
}

fn made(
    number: u32,
    role: Role,
    contract: &str,
    kubernetes: &str,
    change: impl FnOnce(&mut Input),
) -> Vec<u8> {
    let contract = Contract::parse(contract).unwrap();
    let mut input = Input::new(contract, role, "lab", &format!("https://{VIP}:6443"), kubernetes);
    change(&mut input);
    let mut documents = generate(&BUNDLE, &input).unwrap();
    let node = MachineSettings {
        hostname: format!("n{number}"),
        nics: vec![Nic {
            mac: mac(number),
            addresses: vec![format!("{}/24", address(number))],
            gateway: Some("10.1.0.1".into()),
            vip: Some(VIP.into()),
            ..Nic::default()
        }],
        ..MachineSettings::default()
    };
    apply_machine(&mut documents, contract, &node).unwrap();
    documents.to_yaml().into_bytes()
}

struct Rig {
    machines: Machines,
    now: Timestamp,
}

impl Rig {
    fn new() -> Self {
        let mut machines = Machines::default();
        machines.advance(start());
        Self { machines, now: start() }
    }

    fn wait(&mut self, seconds: u64) {
        self.now = node::after(self.now, Duration::from_secs(seconds));
        self.machines.advance(self.now);
    }

    fn wait_millis(&mut self, millis: u64) {
        self.now = node::after(self.now, Duration::from_millis(millis));
        self.machines.advance(self.now);
    }

    /// Waits until `what` holds; says how long it took.
    fn until(&mut self, limit: u64, what: impl Fn(&Machines) -> bool) -> u64 {
        for seconds in 0..limit {
            if what(&self.machines) {
                return seconds;
            }
            self.wait(1);
        }
        panic!("not within {limit} s");
    }

    fn on(&mut self, number: u32) {
        self.machines.power_on(number, boot(number), self.now);
    }

    fn apply(&mut self, number: u32, role: Role) {
        let bytes = config(number, role, |_| {});
        self.apply_bytes(number, &bytes).unwrap();
    }

    fn apply_bytes(&mut self, number: u32, bytes: &[u8]) -> Result<apply::Applied, Refusal> {
        self.machines.apply(number, bytes, Mode::Auto, false, None, self.now)
    }

    fn port(&self, number: u32, port: u16) -> PortState {
        self.machines.port(address(number).parse().unwrap(), port)
    }

    fn kind(&self, number: u32) -> Option<Kind> {
        match self.port(number, 50_000) {
            PortState::Open(listener) => Some(listener.kind),
            _ => None,
        }
    }

    fn nodes_ready(&self) -> usize {
        let stores = self.machines.etcds.iter().map(|etcd| &etcd.store);
        let nodes = stores.flat_map(|store| store.list("", "nodes", None));
        nodes.filter(|node| node["status"]["conditions"][3]["status"] == "True").count()
    }

    /// Three control planes and two workers, bootstrapped and ready.
    fn cluster() -> Self {
        let mut rig = Self::new();
        for number in 101..=105 {
            rig.on(number);
        }
        rig.until(60, |m| (101..=105).all(|n| matches!(m.get(n).unwrap().phase, Phase::Maintenance(_))));
        for number in 101..=103 {
            rig.apply(number, Role::ControlPlane);
        }
        for number in 104..=105 {
            rig.apply(number, Role::Worker);
        }
        rig.wait(4);
        rig.machines.bootstrap(101, None, rig.now).unwrap();
        rig.until(200, |m| (101..=105).all(|n| m.status(n).is_some_and(|s| s.stage == "running" && s.ready)));
        rig
    }
}

/// Three control planes (101 to 103) and two workers, bootstrapped and ready, and when that is.
pub(crate) fn cluster() -> (Machines, Timestamp) {
    let rig = Rig::cluster();
    (rig.machines, rig.now)
}

#[test]
fn a_cluster_comes_up_in_order_and_in_time() {
    let mut rig = Rig::new();
    assert_eq!(rig.port(101, 50_000), PortState::NoHost);
    for number in 101..=105 {
        rig.on(number);
    }
    assert_eq!(rig.port(101, 50_000), PortState::NoHost, "firmware has no network");
    rig.until(40, |m| m.port("10.1.0.11".parse().unwrap(), 50_000) == PortState::Refused);
    rig.until(40, |m| (101..=105).all(|n| matches!(m.get(n).unwrap().phase, Phase::Maintenance(_))));
    assert_eq!(rig.kind(101), Some(Kind::Maintenance));
    assert_eq!(rig.machines.status(101).unwrap().stage, "maintenance");

    let before = rig.machines.epoch(101);
    for number in 101..=103 {
        rig.apply(number, Role::ControlPlane);
    }
    rig.apply(104, Role::Worker);
    rig.apply(105, Role::Worker);
    assert_eq!(rig.kind(101), Some(Kind::Maintenance), "the old listener lingers");
    rig.wait(1);
    assert_eq!(rig.kind(101), Some(Kind::Api));
    assert_ne!(rig.machines.epoch(101), before);

    let early = rig.machines.bootstrap(101, None, rig.now).unwrap_err();
    assert_eq!(
        (early.code, early.words.as_str()),
        (Code::FailedPrecondition, "bootstrap is not available yet")
    );
    rig.wait(4);
    assert_eq!(rig.kind(104), Some(Kind::Api), "trustd of a control plane gave the worker its certificate");
    let status = rig.machines.status(101).unwrap();
    assert_eq!((status.stage.as_str(), status.ready), ("booting", false));
    let etcd = |m: &Machines, n| m.services(n).into_iter().find(|s| s.id == "etcd").unwrap();
    assert_eq!(etcd(&rig.machines, 101).state, "Preparing");

    rig.wait(30);
    assert_eq!(etcd(&rig.machines, 101).state, "Preparing", "nothing happens without Bootstrap");
    rig.machines.bootstrap(101, None, rig.now).unwrap();
    assert!(rig.machines.bootstrap(101, None, rig.now).is_ok(), "as long as nothing is on disk");
    rig.wait(3);
    let again = rig.machines.bootstrap(101, None, rig.now).unwrap_err();
    assert_eq!((again.code, again.words.as_str()), (Code::AlreadyExists, "etcd data directory is not empty"));
    let worker = rig.machines.bootstrap(104, None, rig.now).unwrap_err();
    assert_eq!(worker.code, Code::Unimplemented);

    rig.until(90, |m| m.etcds[0].members.len() == 3);
    assert!(rig.machines.etcds[0].members.values().filter(|m| m.learner_until.is_some()).count() <= 1);
    let took =
        rig.until(200, |m| (101..=105).all(|n| m.status(n).is_some_and(|s| s.stage == "running" && s.ready)));
    assert!(took < 90, "{took}");
    assert_eq!(rig.machines.etcds.len(), 1);
    assert_eq!(rig.nodes_ready(), 5);
    let vip: std::net::IpAddr = VIP.parse().unwrap();
    assert!(matches!(rig.machines.port(vip, 6443), PortState::Open(l) if l.kind == Kind::Kubernetes));
    let pods = rig.machines.etcds[0].store.list("", "pods", Some("kube-system"));
    assert_eq!(pods.len(), 3 * 3 + 5 + 5 + 2);
    assert!(pods.iter().all(|pod| pod["status"]["phase"] == "Running"));
    assert_eq!(rig.machines.next_due(), None, "a quiet cluster needs no time");
}

#[test]
fn from_power_on_to_ready_takes_about_a_hundred_seconds() {
    let rig = Rig::cluster();
    let took = rig.now.duration_since(start()).as_secs();
    assert!((80..=120).contains(&took), "{took} s");
}

#[test]
fn a_worker_waits_for_the_trustd_of_its_own_cluster() {
    let mut rig = Rig::new();
    rig.on(101);
    rig.on(104);
    rig.wait(40);
    rig.apply(104, Role::Worker);
    rig.wait(120);
    assert_eq!(rig.port(104, 50_000), PortState::Refused);
    let foreign = config(101, Role::ControlPlane, |_| {});
    let foreign = String::from_utf8(foreign).unwrap().replace("token: ", "token: x");
    rig.apply_bytes(101, foreign.as_bytes()).unwrap();
    rig.wait(60);
    assert_eq!(rig.port(104, 50_000), PortState::Refused, "another token");
    let other = config(101, Role::ControlPlane, |_| {});
    rig.apply_bytes(101, &other).unwrap();
    rig.until(60, |m| matches!(m.port("10.1.0.14".parse().unwrap(), 50_000), PortState::Open(_)));
}

#[test]
fn without_discovery_a_worker_needs_the_endpoint() {
    let mut rig = Rig::new();
    rig.on(101);
    rig.on(104);
    rig.wait(40);
    let quiet = |n, role| config(n, role, |input| input.discovery = false);
    rig.apply_bytes(101, &quiet(101, Role::ControlPlane)).unwrap();
    rig.apply_bytes(104, &quiet(104, Role::Worker)).unwrap();
    rig.wait(60);
    assert_eq!(rig.port(104, 50_000), PortState::Refused, "the shared address is not up before Bootstrap");
    rig.machines.bootstrap(101, None, rig.now).unwrap();
    rig.until(60, |m| matches!(m.port("10.1.0.14".parse().unwrap(), 50_000), PortState::Open(_)));
}

#[test]
fn a_reboot_forgets_a_bootstrap_that_wrote_nothing() {
    let mut rig = Rig::new();
    rig.on(101);
    rig.wait(40);
    rig.apply(101, Role::ControlPlane);
    rig.wait(10);
    rig.machines.bootstrap(101, None, rig.now).unwrap();
    rig.machines.power_off(101, rig.now);
    rig.on(101);
    rig.wait(120);
    assert!(rig.machines.etcds.is_empty());
    assert_eq!(rig.machines.get(101).unwrap().node().unwrap().etcd, EtcdService::Preparing);
    rig.machines.bootstrap(101, None, rig.now).unwrap();
    rig.wait(60);
    rig.machines.leave(101, Leave::Reboot, rig.now);
    assert_eq!(rig.machines.status(101).unwrap().stage, "rebooting");
    rig.wait(120);
    assert_eq!(rig.machines.etcds.len(), 1);
    assert_eq!(rig.machines.status(101).unwrap().stage, "running", "what is on disk survives");
}

#[test]
fn two_bootstraps_make_two_clusters() {
    let mut rig = Rig::new();
    rig.on(101);
    rig.on(102);
    rig.wait(40);
    rig.apply(101, Role::ControlPlane);
    rig.apply(102, Role::ControlPlane);
    rig.wait(10);
    rig.machines.bootstrap(101, None, rig.now).unwrap();
    rig.machines.bootstrap(102, None, rig.now).unwrap();
    rig.wait(60);
    assert_eq!(rig.machines.etcds.len(), 2);
    assert_eq!(rig.machines.etcds[0].key, rig.machines.etcds[1].key);
}

#[test]
fn of_two_machines_with_one_address_the_older_keeps_it() {
    let mut rig = Rig::new();
    rig.on(101);
    rig.wait(40);
    let foreign = Boot { uuid: "ffffffff-0000-4000-8000-000000000000".into(), ..boot(101) };
    rig.machines.power_on(999, foreign, rig.now);
    rig.wait(40);
    let PortState::Open(listener) = rig.port(101, 50_000) else { panic!("no one") };
    assert_eq!(listener.vmid, 101);
    rig.machines.power_off(101, rig.now);
    let PortState::Open(listener) = rig.port(101, 50_000) else { panic!("no one") };
    assert_eq!(listener.vmid, 999);
}

#[test]
fn without_a_majority_there_is_no_shared_address_and_no_writing() {
    let mut rig = Rig::cluster();
    let vip: std::net::IpAddr = VIP.parse().unwrap();
    rig.machines.power_off(102, rig.now);
    rig.wait(5);
    assert!(rig.machines.etcds[0].leader.is_some());
    rig.machines.power_off(103, rig.now);
    rig.wait(5);
    assert_eq!(rig.machines.etcds[0].leader, None);
    assert_eq!(rig.machines.port(vip, 6443), PortState::NoHost);
    assert!(rig.machines.store_mut(101).is_none());
    rig.on(103);
    rig.until(120, |m| matches!(m.port(vip, 6443), PortState::Open(_)));
    rig.until(120, |m| m.status(103).is_some_and(|s| s.ready));
}

#[test]
fn the_shared_address_moves_when_the_lease_of_a_dead_holder_ends() {
    let mut rig = Rig::cluster();
    let vip: std::net::IpAddr = VIP.parse().unwrap();
    let holder = rig.machines.etcds[0].vip.as_ref().unwrap().holder;
    rig.machines.power_off(holder, rig.now);
    assert_eq!(rig.machines.port(vip, 6443), PortState::NoHost);
    let took = rig.until(90, |m| matches!(m.port(vip, 6443), PortState::Open(_)));
    assert!((59..=63).contains(&took), "{took}");
}

#[test]
fn a_silent_node_becomes_unknown_and_comes_back() {
    let mut rig = Rig::cluster();
    rig.machines.power_off(105, rig.now);
    rig.wait(30);
    assert_eq!(rig.nodes_ready(), 5, "no one has noticed yet");
    rig.wait(15);
    assert_eq!(rig.nodes_ready(), 4);
    rig.on(105);
    rig.wait(90);
    assert_eq!(rig.nodes_ready(), 5);
}

#[test]
fn without_a_network_plugin_nodes_never_get_ready() {
    let mut rig = Rig::new();
    rig.on(101);
    rig.wait(40);
    let bytes = config(101, Role::ControlPlane, |input| input.cni = Cni::None);
    rig.apply_bytes(101, &bytes).unwrap();
    rig.wait(10);
    rig.machines.bootstrap(101, None, rig.now).unwrap();
    rig.wait(300);
    let status = rig.machines.status(101).unwrap();
    assert_eq!(status.unmet, vec![("nodeReady".to_owned(), "node \"n101\" is not ready".to_owned())]);
    assert_eq!(status.stage, "running");
}

#[test]
fn a_reset_wipes_what_it_is_told_to() {
    let mut rig = Rig::cluster();
    let wipe = Wipe { state: true, ephemeral: true, meta: false, whole_disk: false, reboot: true };
    rig.machines.reset(103, false, wipe, rig.now);
    rig.wait(60);
    assert_eq!(rig.kind(103), Some(Kind::Maintenance));
    assert_eq!(rig.machines.etcds[0].members.len(), 3, "a forced reset leaves a dead member");
    rig.machines.reset(102, true, wipe, rig.now);
    rig.wait(60);
    assert_eq!(rig.machines.etcds[0].members.len(), 2, "a graceful one takes itself out");
    rig.machines.reset(105, false, Wipe { whole_disk: true, reboot: false, ..wipe }, rig.now);
    rig.wait(20);
    assert_eq!(rig.machines.take_power_offs(), vec![105]);
    rig.on(105);
    rig.wait(60);
    assert!(matches!(rig.machines.get(105).unwrap().phase, Phase::Blank));
}

#[test]
fn changes_apply_at_once_or_with_a_reboot() {
    let mut rig = Rig::cluster();
    let same = config(104, Role::Worker, |_| {});
    let applied = rig.apply_bytes(104, &same).unwrap();
    assert_eq!(
        (applied.mode, applied.details.as_str()),
        (Mode::NoReboot, "Applied configuration without a reboot")
    );
    let files =
        String::from_utf8(same.clone()).unwrap().replacen("machine:\n", "machine:\n    files: []\n", 1);
    let refused =
        rig.machines.apply(104, files.as_bytes(), Mode::NoReboot, false, None, rig.now).unwrap_err();
    assert!(
        refused
            .words
            .starts_with("this config change can't be applied in immediate mode\ndiff:\n--- a\n+++ b\n")
    );
    let boot_id = rig.machines.get(104).unwrap().boot_id();
    let applied = rig.apply_bytes(104, files.as_bytes()).unwrap();
    assert_eq!(applied.mode, Mode::Reboot);
    let again = rig.apply_bytes(104, &same).unwrap_err();
    assert_eq!(again.code, Code::FailedPrecondition);
    rig.wait(90);
    assert_ne!(rig.machines.get(104).unwrap().boot_id(), boot_id);
    assert!(rig.machines.status(104).unwrap().ready);
}

#[test]
fn a_wrong_hardware_address_leaves_only_the_platforms_address() {
    let mut rig = Rig::new();
    let mut other = boot(101);
    other.nics[0].address = Some("10.1.0.99/24".parse().unwrap());
    other.nics[0].mac = mac(7);
    rig.machines.power_on(101, other, rig.now);
    rig.wait(40);
    rig.apply(101, Role::ControlPlane);
    rig.wait(10);
    assert_eq!(rig.port(101, 50_000), PortState::NoHost);
    assert!(matches!(rig.machines.port("10.1.0.99".parse().unwrap(), 50_000), PortState::Open(_)));
}

#[test]
fn a_world_survives_being_written_down() {
    let rig = Rig::cluster();
    let text = serde_json::to_string(&rig.machines).unwrap();
    let again: Machines = serde_json::from_str(&text).unwrap();
    assert_eq!(serde_json::to_string(&again).unwrap(), text);
}
