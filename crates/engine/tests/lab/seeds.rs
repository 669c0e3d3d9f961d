//! Files that were made for other tools, imported as they stand, come up to the condition that they ask for.
//!
//! Each world has what an operator of such a file has: its hosts, datastores and bridges, and a name server that knows the
//! cluster's endpoint. Nothing else is added but what a test says.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use engine::health::Condition;
use engine::session::ObserveError;
use engine::{Session, Snapshot};
use import::{Imported, Input, Reach, import};
use lab::{HostConfig, LabConfig, PciConfig, StorageConfig, StorageKind};
use model::attachments::Attachments;
use model::diagnostic::Source;
use model::event::Outcome;
use model::load::Failed;
use model::plan::RefusalCode;
use model::spec::{Cni, CniName, Manifests, Spec};
use secrecy::SecretString;

use crate::rig::{Ran, Rig, bundle, spec};

/// An input of another tool.
pub struct Seed {
    pub sources: Vec<Source>,
    pub made: Imported,
    folder: PathBuf,
}

impl Seed {
    pub fn named(name: &str) -> Self {
        let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../import/tests/fixtures")).join(name);
        let mut sources = Vec::new();
        read(&folder, "", &mut sources);
        let made = imported(&sources).unwrap_or_else(|failed| panic!("{:?}", failed.diagnostics));
        Self { sources, made, folder }
    }

    fn spec(&self) -> Spec {
        spec(&self.made.yaml)
    }

    /// The same with a change of the imported file.
    fn changed(&self, from: &str, to: &str) -> Spec {
        assert!(self.made.yaml.contains(from), "{}", self.made.yaml);
        spec(&self.made.yaml.replace(from, to))
    }

    pub fn attachments(&self, spec: &Spec) -> Attachments {
        engine::attachments::read(spec, &self.folder).unwrap_or_else(|found| panic!("{found:?}"))
    }
}

pub fn imported(sources: &[Source]) -> Result<Imported, Failed> {
    import(&Input { sources, reach: Reach::Folder, here: "", result: "" })
}

fn read(folder: &Path, prefix: &str, sources: &mut Vec<Source>) {
    let mut paths: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    for path in paths {
        let name = format!("{prefix}{}", path.file_name().unwrap().to_string_lossy());
        if path.is_dir() {
            read(&path, &format!("{name}/"), sources);
        } else if name != "result.txt" {
            sources.push(Source::new(name, std::fs::read_to_string(&path).unwrap()));
        }
    }
}

/// What an operator of this file has.
fn surroundings(spec: &Spec) -> LabConfig {
    let blueprint = model::resolve::resolve(spec, None, None).unwrap_or_else(|found| panic!("{found:?}"));
    let devices = blueprint.nodes.values().flat_map(|node| node.hardware.pci.iter());
    let mappings: BTreeMap<String, String> = devices
        .enumerate()
        .map(|(at, device)| (device.mapping.clone(), format!("0000:{:02x}:00.0", 0x10 + at)))
        .collect();
    let named = spec.hosts.keys().enumerate();
    let hosts = named.map(|(at, name)| {
        let number = u8::try_from(at + 1).unwrap();
        let mut host = HostConfig { name: name.clone(), ..HostConfig::numbered(number) };
        host.memory_bytes = 1 << 40;
        host.pci = mappings.values().map(|address| PciConfig::graphics(address)).collect();
        let mut offer = |id: &str, content: &str| match host.storages.iter_mut().find(|s| s.id == id) {
            Some(storage) if storage.content.iter().any(|has| has == content) => {}
            Some(storage) => storage.content.push(content.to_owned()),
            None => host.storages.push(StorageConfig {
                id: id.to_owned(),
                kind: StorageKind::Dir,
                content: vec![content.to_owned()],
                shared: false,
                bytes: 4 << 40,
            }),
        };
        offer(spec.hosts[name].datastores.image.as_deref().unwrap_or("local"), "import");
        for node in blueprint.nodes.values() {
            for drive in model::vm::drives(node) {
                offer(drive.datastore.as_deref().unwrap_or("local-lvm"), "images");
            }
            let extra = node.settings.extra_nics.iter().map(|nic| &nic.bridge);
            for bridge in [&node.bridge].into_iter().chain(extra) {
                if !host.bridges.contains(bridge) {
                    host.bridges.push(bridge.clone());
                }
            }
        }
        host
    });
    let endpoint = blueprint.endpoint.strip_prefix("https://").unwrap().strip_suffix(":6443").unwrap();
    let first = blueprint.control_planes().next().unwrap().address.addr();
    let names = match endpoint.parse::<IpAddr>() {
        Ok(_) => BTreeMap::new(),
        Err(_) => [(endpoint.to_owned(), blueprint.vip.unwrap_or(first).into())].into(),
    };
    LabConfig { hosts: hosts.collect(), names, mappings: mappings.clone(), ..LabConfig::default() }
}

/// A file in its world.
struct Tried {
    rig: Rig,
    session: Session,
}

impl Tried {
    fn new(seed: &Seed, spec: Spec) -> Self {
        Self::within(seed, spec, |_| {})
    }

    fn within(seed: &Seed, spec: Spec, arrange: impl FnOnce(&mut LabConfig)) -> Self {
        let mut config = surroundings(&spec);
        arrange(&mut config);
        let rig = Rig::with(config);
        let attachments = seed.attachments(&spec);
        let session = Session::new(rig.systems.clone(), spec, Some(bundle())).with_attachments(attachments);
        let session = session.with_references(Arc::new(|_: &str| Ok(SecretString::from("me:a token"))));
        Self { rig, session }
    }

    async fn observe(&self) -> Snapshot {
        match self.session.observe().await {
            Ok(snapshot) => snapshot,
            Err(ObserveError::Engine(error)) => panic!("{:?}", error.causes()),
            Err(ObserveError::File(found)) => panic!("{found:?}"),
        }
    }

    async fn apply(&self) -> Ran {
        let snapshot = self.observe().await;
        let plan = snapshot.plan();
        assert_eq!(plan.refusals, []);
        self.rig.carry_out(&snapshot, &plan, "me").await.unwrap()
    }

    /// Applies and gives the conditions afterwards. There is nothing left to do.
    async fn comes_up(&self) -> Vec<Condition> {
        let ran = self.apply().await;
        assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
        assert_eq!(self.rig.etcd_clusters(), 1);
        let snapshot = self.observe().await;
        let plan = snapshot.plan();
        let steps: Vec<_> = plan.steps.iter().map(|s| (s.action.describe(), &s.reason)).collect();
        assert!(plan.is_empty(), "{steps:?} {:?}", plan.refusals);
        let conditions = engine::health::conditions(&self.rig.systems, &snapshot).await;
        for condition in &conditions {
            assert_eq!(condition.missing, None, "{}", condition.name);
        }
        // The plan says so for those that wait, and for no other.
        let waits = conditions.iter().filter(|condition| condition.awaits.is_some()).count();
        assert_eq!(plan.notes.len(), waits, "{:?}", plan.notes);
        conditions
    }

    async fn is_healthy(&self) {
        for condition in self.comes_up().await {
            assert_eq!(condition.awaits, None, "{}", condition.name);
        }
    }

    /// Everything holds but one condition, which waits for what the file leaves to others.
    async fn waits_for(&self, name: &str, what: &str) {
        let waiting: Vec<Condition> =
            self.comes_up().await.into_iter().filter(|condition| condition.awaits.is_some()).collect();
        assert_eq!(waiting.len(), 1, "{waiting:?}");
        assert_eq!(waiting[0].name, name);
        assert!(waiting[0].awaits.as_ref().unwrap().contains(what), "{waiting:?}");
    }
}

/// A CNI plugin as a manifest: pods on every node that write the kubelet's configuration.
const PLUG_IN: &str = "\
apiVersion: apps/v1
kind: DaemonSet
metadata: { name: network, namespace: kube-system }
spec:
  selector: { matchLabels: { app: network } }
  template:
    metadata: { labels: { app: network } }
    spec:
      hostNetwork: true
      tolerations: [{ operator: Exists }]
      containers: [{ name: network, image: ghcr.io/example/network:1 }]
      volumes: [{ name: cni, hostPath: { path: /etc/cni/net.d } }]
";

const NODES_READY: &str = "every node is ready in Kubernetes";

/// Each input as it was imported. 000, 001 and 003 bring Cilium by its chart, 003 and 004 Flux; 002 leaves its cloud provider to
/// a manifest.
#[tokio::test(start_paused = true)]
async fn inputs_of_other_tools_come_up_as_they_are_imported() {
    for name in ["nodes-config", "module-call", "lists-yaml"] {
        let seed = Seed::named(name);
        Tried::new(&seed, seed.spec()).is_healthy().await;
    }
    let seed = Seed::named("flux-module");
    let tried = Tried::new(&seed, seed.spec());
    tried.is_healthy().await;
    let snapshot = tried.observe().await;
    assert!(snapshot.observed.kubernetes.secrets.contains("flux-system/cluster-repository"));
    let seed = Seed::named("grouped");
    let tried = Tried::new(&seed, seed.spec());
    tried.waits_for("the cloud provider has seen every node", "cloud provider").await;
    let users = tried.rig.systems.pve.users().await.unwrap();
    assert!(users.iter().any(|user| user.name == "meadow-ccm@pve"), "{users:?}");
}

/// 000, 001 and 003, where the CNI plugin is left to others: everything is healthy but the nodes, which wait for it, and
/// they are ready when it is given as a manifest.
#[tokio::test(start_paused = true)]
#[ignore = "takes a minute: conformance/seeds/run"]
async fn a_network_plug_in_may_be_left_to_a_manifest() {
    for name in ["nodes-config", "module-call", "lists-yaml"] {
        let seed = Seed::named(name);
        let mut left = seed.spec();
        left.kubernetes.cni = Cni::Name(CniName::None);
        left.manifests = Manifests::default();
        Tried::new(&seed, left.clone()).waits_for(NODES_READY, "CNI plugin").await;
        left.manifests.inline = [("network".to_owned(), PLUG_IN.to_owned())].into();
        Tried::new(&seed, left).is_healthy().await;
    }
}

/// 002 with its flat variables, and with the cloud provider's chart.
#[tokio::test(start_paused = true)]
#[ignore = "takes a minute: conformance/seeds/run"]
async fn counted_nodes_wait_for_their_cloud_provider() {
    let seed = Seed::named("flat");
    Tried::new(&seed, seed.spec())
        .waits_for("the cloud provider has seen every node", "cloud provider")
        .await;
    let given = seed.changed("proxmox_ccm: {}", "proxmox_ccm: { version: 0.2.18 }");
    Tried::new(&seed, given).is_healthy().await;
}

/// The hosts that a file's own mirrors and time servers are on.
fn mirrors(spec: &Spec) -> Vec<String> {
    let registries = spec.kubernetes.registry_mirrors.values().flat_map(|mirror| &mirror.endpoints);
    let named = spec.image.mirror.iter().chain(&spec.image.installer_mirror).chain(registries);
    let host = |url: &String| {
        let rest = url.split_once("://").map_or(url.as_str(), |(_, rest)| rest);
        rest.split('/').next().unwrap().to_owned()
    };
    named.chain(&spec.network.ntp).map(host).collect()
}

/// 003 in a world in which only its mirrors answer: image, installer, registries and a time server of its own; no one else,
/// no discovery service either. The CNI plugin is a manifest, because its chart would come from outside.
#[tokio::test(start_paused = true)]
#[ignore = "takes a minute: conformance/seeds/run"]
async fn lists_by_role_come_up_where_only_their_mirrors_answer() {
    let seed = Seed::named("lists-yaml");
    let mut imported = seed.spec();
    imported.network.ntp = vec!["192.168.44.1".to_owned()];
    let mut wanted = imported.clone();
    wanted.kubernetes.cni = Cni::Name(CniName::None);
    wanted.manifests.inline = [("network".to_owned(), PLUG_IN.to_owned())].into();
    // Someone fetched the image through the proxy before, so that it is known there.
    let blueprint = model::resolve::resolve(&wanted, None, None).unwrap();
    let known = engine::render::schematics(&blueprint, &Attachments::new()).unwrap();
    let known: Vec<String> = known.into_values().map(|schematic| schematic.text).collect();
    let only = mirrors(&wanted);
    assert_eq!(only.len(), 8, "{only:?}");
    let closed = |spec: Spec| {
        Tried::within(&seed, spec, |config| {
            config.outside = Some(only.clone());
            config.schematics.clone_from(&known);
        })
    };
    closed(wanted.clone()).is_healthy().await;
    // What the file does not lead to its mirrors does not come, and the reason is told.
    let mut without_proxy = wanted.clone();
    without_proxy.image.mirror = None;
    let refusals = closed(without_proxy).observe().await.plan().refusals;
    assert!(!refusals.is_empty(), "before anything is made");
    for refusal in refusals {
        assert_eq!(refusal.code, RefusalCode::Image, "{refusal:?}");
        assert!(refusal.why.contains("factory.talos.dev"), "{refusal:?}");
    }
    let mut without_time = wanted;
    without_time.network.ntp.clear();
    for (spec, why) in [(without_time, "time"), (imported, "waits for Cilium")] {
        let ran = closed(spec).apply().await;
        assert_eq!(ran.outcome, Outcome::Failed, "{why}");
        let failures = ran.failures();
        assert!(failures.iter().any(|failure| failure.contains(why)), "{why}: {failures:?}");
    }
}
