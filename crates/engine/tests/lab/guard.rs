//! The invariants that the lab checks in every test.
//!
//! The lab sees each call of the operators and keeps what must not have happened ([`lab::Watch`]). What it cannot know, whose
//! a VM is and who holds the lease, it is told here. A violation fails the test, at the end of the run that it happened in or
//! at the latest when the test ends.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use engine::Snapshot;
use lab::{Allowance, Lab, Rules, VmConfig, Watch};
use model::blueprint::Role;
use model::gate::Effect;
use model::mark::Mark;
use model::plan::Plan;
use model::spec::DrainDeletes;
use model::step::{Action, Disruption};
use serde_json::Value;

pub struct Guard {
    pub watch: Arc<Watch>,
    owners: Owners,
    /// The cluster is being deleted: a restored VM of it goes, too, and its old data cannot harm anything any more.
    pub deleting: Arc<AtomicBool>,
    /// How many runs are under way, and what they may disrupt together.
    running: Mutex<(usize, Allowance)>,
}

/// A run that is under way.
pub struct Running<'a>(&'a Guard);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.running.lock().unwrap().0 -= 1;
    }
}

/// The owners of the clusters whose VMs are ours, and the nodes that their files name: UUID, and whether it has etcd's data.
type Owners = Arc<Mutex<(BTreeSet<String>, BTreeMap<String, (String, bool)>)>>;

impl Guard {
    pub fn new(lab: &Lab) -> Self {
        let (owners, deleting) = (Owners::default(), Arc::new(AtomicBool::new(false)));
        let watch = Arc::new(Watch::new(rules(owners.clone(), deleting.clone())));
        lab.watch(watch.clone());
        Self { watch, owners, deleting, running: Mutex::default() }
    }

    /// The cluster that was looked at is ours.
    pub fn owns(&self, snapshot: &Snapshot) {
        let Some(id) = &snapshot.blueprint.cluster_id else { return };
        let mut owners = self.owners.lock().unwrap();
        let known = owners.clone();
        owners.0.insert(Mark::owner_of(id).to_string());
        let nodes = snapshot.blueprint.nodes.iter();
        owners.1.extend(nodes.filter_map(|(name, node)| {
            Some((name.to_string(), (node.uuid?.to_string(), node.role == Role::ControlPlane)))
        }));
        if *owners != known {
            self.watch.rules_changed();
        }
    }

    /// What is left behind that no one will ever clean up.
    pub fn leftovers(&self, lab: &Lab) -> Vec<String> {
        let rules = rules(self.owners.clone(), self.deleting.clone());
        lab.shared().read(|systems, _| lab::leftovers(systems, &rules))
    }

    /// A plan without units disrupts nothing that is healthy; one with units, as much as its file allows. Of two operators at once, the
    /// plan of one says nothing against what the other one does.
    pub fn allows(&self, snapshot: &Snapshot, plan: &Plan) -> Running<'_> {
        let disrupts = plan.units.iter().any(|unit| unit.disruption > Disruption::InPlace);
        let removes = plan.units.iter().any(|unit| unit.effect == Effect::Removal);
        let all = snapshot.blueprint.nodes.values().filter(|node| node.role == Role::Worker).count();
        let workers = if disrupts { snapshot.blueprint.options.changes.workers.of(all) } else { 0 };
        // A plan has a snapshot for an outage only where that was approved; without approval the gate refuses it anyway.
        let saves = plan.steps.iter().any(|step| step.action == Action::SnapshotEtcd);
        let api_outage = saves && snapshot.blueprint.control_planes().count() <= 2;
        let deletes = &snapshot.blueprint.options.changes.drain_deletes;
        let unmanaged_pods = removes || deletes.contains(&DrainDeletes::UnmanagedPods);
        let mut running = self.running.lock().unwrap();
        let (others, theirs) = *running;
        let theirs = if others > 0 { theirs } else { Allowance::default() };
        let together = Allowance {
            workers: workers.max(theirs.workers),
            api_outage: api_outage || theirs.api_outage,
            unmanaged_pods: unmanaged_pods || theirs.unmanaged_pods,
        };
        *running = (others + 1, together);
        self.watch.allow(together);
        Running(self)
    }

    /// Fails the test if anything happened that must not.
    pub fn check(&self) {
        let violations = self.watch.take_violations();
        let told: Vec<String> = violations.iter().map(ToString::to_string).collect();
        assert!(told.is_empty(), "{}", told.join("\n"));
    }

    /// Whether exactly these invariants were violated since the last check, for tests that violate them on purpose.
    pub fn expect(&self, numbers: &[u8]) {
        let violations = self.watch.take_violations();
        let seen: Vec<u8> = violations.iter().map(|violation| violation.number).collect();
        assert_eq!(seen, numbers, "{violations:?}");
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // A test that fails already says why.
        if !std::thread::panicking() {
            self.check();
        }
    }
}

/// What the lab cannot know. The notes are read here, and not by the code that is tested.
fn rules(owners: Owners, deleting: Arc<AtomicBool>) -> Rules {
    let is_ours = move |_: u32, config: &VmConfig| {
        let Some(mark) = line(config, "talosmith-mark:") else { return false };
        let owners = owners.lock().unwrap();
        let node = mark["node"].as_str().and_then(|node| owners.1.get(node));
        let same = |key: &str, value: &str| config.get(key).is_none_or(|own| own.contains(value));
        mark["owner"].as_str().is_some_and(|owner| owners.0.contains(owner))
            && node.is_none_or(|(uuid, _)| same("smbios1", uuid))
            // A worker that was restored or rolled back has nothing on its disk that could harm the others.
            && mark["vmgenid"]
                .as_str()
                .filter(|_| node.is_some_and(|(_, etcd)| *etcd) && !deleting.load(Ordering::Relaxed))
                .is_none_or(|generation| same("vmgenid", generation))
    };
    let lease = |notes: &str| {
        let record = find(notes, "talosmith-record:")?;
        Some(record["lease"]["holder"].as_str().map(str::to_owned))
    };
    // The holder in Kubernetes is a name and a place.
    let kubernetes_lease = |name: &str, spec: &Value| {
        let holder = name.starts_with("talosmith-").then(|| spec["holderIdentity"].as_str())?;
        Some(
            holder
                .filter(|holder| !holder.is_empty())
                .map(|holder| holder.split(" (").next().unwrap().to_owned()),
        )
    };
    Rules {
        is_ours: Box::new(is_ours),
        lease: Box::new(lease),
        kubernetes_lease: Box::new(kubernetes_lease),
        is_our_account: Box::new(|comment| comment.contains("talosmith-owner:")),
        is_our_cordon: Box::new(|node| node["metadata"]["annotations"]["talosmith.dev/cordoned"].is_string()),
    }
}

fn line(config: &VmConfig, word: &str) -> Option<Value> {
    find(config.get("description")?, word)
}

/// The last line of notes that starts with a word.
fn find(notes: &str, word: &str) -> Option<Value> {
    let text = notes.lines().rev().find_map(|line| line.trim().strip_prefix(word))?;
    serde_json::from_str(text.trim()).ok()
}
