//! From the desired and the observed state to the steps: pure, synchronous, the same plan for the same input.
//!
//! A plan has steps with edges and reasons; notes, for what differs and is left alone; and refusals, for what makes any
//! change unsafe. A plan with a refusal is never carried out. The rules are one function each, in the modules below:
//!
//! - [`refuse`]: when nothing may be touched.
//! - [`lost`]: VMs of a cluster with this name whose keys are not here.
//! - [`preflight`]: what must be so before the first VM is created.
//! - [`bring_up`]: what each node still needs.
//! - `bootstrap`: when etcd may be bootstrapped, and when the record must say that it was.
//! - [`drift`]: what of a VM is not as the file says, and what changing it would disrupt.
//! - `reconfigure`: the same for a machine's configuration, and in which order.
//! - `fixed`: what of a configuration a cluster that runs does not change.
//! - `units`: disruptions of nodes, in order, with what the gate says of each.
//! - `remove`: nodes that the file does not have any more.
//! - `replace`: a dead node, made again.
//! - `renew`: a node that a person wants to be made again.
//! - [`moves`]: nodes that move to another Proxmox host.
//! - `hosts`: Proxmox hosts that are drained.
//! - `versions`: nodes that run another version of Talos or Kubernetes.
//! - `path`: where an upgrade goes, and which nodes stay behind.
//! - `in_force`: whether a machine runs the image that the file asks for.
//! - `on_node`: whether the Node in Kubernetes has the labels, annotations and taints of the file.
//! - [`mod@ownership`]: VMs of which it is not certain that they are ours, or finished.
//! - `unchecked`: VMs that could not be read while no record was found.
//! - `identities`: machines that receive their configuration without a proof of who they are.
//! - `others`: what is there and not in the file.
//! - [`accounts`]: accounts in Proxmox for what runs in the cluster.
//! - [`destroy`]: taking everything of ours away, and nothing else.
//! - [`by_hand`]: what a person asks of single nodes.
//! - [`remnants`]: what a deletion cannot remove now.
//! - `target`: a plan for some of the nodes.
//! - [`graph`]: order, critical path, and the checks that every plan must pass.

pub mod accounts;
mod bootstrap;
pub mod bring_up;
pub mod by_hand;
pub mod changed;
pub mod destroy;
pub mod drift;
mod explained;
mod fixed;
pub mod graph;
mod hosts;
mod identities;
mod images;
mod in_force;
mod kubernetes;
pub mod lost;
pub mod moves;
mod on_node;
mod others;
pub mod ownership;
mod path;
pub mod preflight;
mod reconfigure;
pub mod refuse;
pub mod remnants;
mod remove;
mod renew;
mod replace;
mod target;
mod units;
pub use others::DELETION;
pub use replace::ONLY_CONTROL_PLANE;
#[cfg(test)]
mod tests;
mod unchecked;
mod versions;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::allowed::Allowed;
use crate::blueprint::Blueprint;
use crate::names::NodeName;
use crate::observed::Observed;
use crate::ownership::Act;
use crate::quorum;
use crate::step::{Action, Disruption, Step, StepId, UnitId};
use crate::unit::{Goal, Unit};
use crate::upgrade::Upgrade;

/// How the note about etcd's quorum starts.
pub const ETCD: &str = "etcd: ";
/// How a note starts that says who holds the lease.
pub const LEASE: &str = "lease: ";

/// What must be done, in an order that could be followed one by one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    pub cluster: String,
    /// Steps; each stands behind all that it needs.
    pub steps: Vec<Step>,
    /// Disruptions, in the order in which they are made. Each has its steps among `steps`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub units: Vec<Unit>,
    /// What differs and is left alone.
    #[serde(alias = "notices")]
    pub notes: Vec<Note>,
    /// What could not be observed, so that it is not known whether it matches the file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unknown: Vec<Note>,
    /// What the file asks for and the plan does not do, each with what it would take. The steps are carried out all the same.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blocked: Vec<Blocked>,
    /// Why nothing may be done. Empty in a plan that can be carried out.
    pub refusals: Vec<Refusal>,
    /// What would be done if nothing stood in the way, so that nothing that differs is hidden by a reason against something else.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub held: Vec<Step>,
    /// The upgrade that this plan makes the next hop of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upgrade: Option<Upgrade>,
}

/// Something the operator should know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// One sentence.
    pub text: String,
}

/// A change that the file asks for and that the plan does not make: this version cannot, it was not allowed, or the gate has something
/// against it. The cluster does not match the file until then. Unlike a refusal it keeps nothing else from being done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Blocked {
    /// The node it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<NodeName>,
    /// What differs, in one sentence.
    pub what: String,
    /// What the change would disrupt.
    #[serde(alias = "disturbs")]
    pub disruption: Disruption,
    /// How a person makes it, or takes the request back.
    #[serde(alias = "remedy")]
    pub hint: String,
}

/// A reason to touch nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// The kind of reason, in one word for programs. A word never changes its meaning.
    pub code: RefusalCode,
    /// What is in the way, in one sentence.
    pub why: String,
    /// What the operator can do.
    #[serde(alias = "remedy")]
    pub hint: String,
}

/// The kinds of reasons to touch nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RefusalCode {
    /// Proxmox does not answer.
    NoProxmox,
    /// Proxmox is too old.
    OldProxmox,
    /// The keys to machines that exist are gone.
    LostBundle,
    /// The notes of a VM of ours do not say any more that it is.
    LostMark,
    /// The cluster record VM may be there and cannot be read, so nothing keeps two operators apart.
    NoRecord,
    /// The same node exists more than once.
    Doubled,
    /// A newer Talosmith wrote the notes of a VM.
    Newer,
    /// A VM with our mark is a copy of the one that Talosmith made.
    Copied,
    /// A VM was restored from a backup or rolled back, and its data must not come back.
    Restored,
    /// The creation of a VM was cut off.
    Unfinished,
    /// The file protects the cluster, or a person protected a VM of it.
    Protected,
    /// An id is taken by another guest.
    TakenId,
    /// An address is taken by another guest.
    TakenAddress,
    /// An account in Proxmox belongs to another cluster.
    TakenAccount,
    /// A host is off, unknown, or was never decided.
    Host,
    /// A host lacks a bridge.
    Bridge,
    /// A host has too little memory.
    Memory,
    /// A VM asks for more processors than its host has.
    Processors,
    /// The token lacks privileges.
    Rights,
    /// A boot image cannot be had.
    Image,
    /// A pool or a device that the file names is not there.
    #[serde(alias = "not-there")]
    NotFound,
    /// Proxmox holds a lock on a VM.
    Locked,
    /// What answers at an address is not our machine.
    #[serde(alias = "stranger")]
    ForeignMachine,
    /// The file does not say what an external machine is known by.
    Identity,
    /// A machine has a configuration with other keys than those of the bundle.
    OtherKeys,
    /// etcd's data is gone, or it cannot be said where etcd was bootstrapped, or a new one would stand beside it.
    Etcd,
    /// etcd would lose its quorum with a host.
    Quorum,
    /// Nothing shows that a node that may be replaced is dead.
    NotProven,
    /// The cluster differs from the file in what a cluster that runs does not change.
    Differs,
    /// The plan contradicts itself: a mistake in Talosmith.
    Internal,
}

/// What was computed outside of this crate and is compared here.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rendered {
    /// Schematic ids by image key.
    pub schematics: BTreeMap<String, String>,
    /// SHA-256 of each node's machine configuration. Empty as long as there is no bundle.
    pub configs: BTreeMap<NodeName, String>,
    /// The installer image of each node.
    pub installers: BTreeMap<NodeName, String>,
}

/// What brings the world to the blueprint.
#[must_use]
pub fn plan(blueprint: &Blueprint, rendered: &Rendered, observed: &Observed) -> Plan {
    plan_allowing(blueprint, rendered, observed, &Allowed::default())
}

/// The same, with what the operator allows.
#[must_use]
pub fn plan_allowing(
    blueprint: &Blueprint,
    rendered: &Rendered,
    observed: &Observed,
    allowed: &Allowed,
) -> Plan {
    plan_part(blueprint, rendered, observed, allowed, &BTreeSet::new())
}

/// The same for some of the nodes, and what these need. With no nodes, for all.
#[must_use]
pub fn plan_for(
    blueprint: &Blueprint,
    rendered: &Rendered,
    observed: &Observed,
    allowed: &Allowed,
    targets: &BTreeSet<NodeName>,
) -> Plan {
    let all = plan_allowing(blueprint, rendered, observed, allowed);
    if targets.is_empty() {
        return all;
    }
    plan_part(blueprint, rendered, observed, allowed, targets).of_nodes(targets, all.steps.len())
}

fn plan_part(
    blueprint: &Blueprint,
    rendered: &Rendered,
    observed: &Observed,
    allowed: &Allowed,
    targets: &BTreeSet<NodeName>,
) -> Plan {
    if let Some(refusal) = refuse::silence(observed) {
        return finish(blueprint, Found { refusals: vec![refusal], ..Found::default() });
    }
    let mut refusals = refuse::always(blueprint, observed);
    refusals.extend(bootstrap::lost_record(blueprint, observed));
    refusals.extend(unchecked::refusals(blueprint, observed));
    refusals.extend(ownership::foreign(blueprint, observed, Act::Change));
    if refusals.is_empty() {
        // With the bundle lost or Proxmox too old, every id would look taken and every host wrong.
        refusals.extend(refuse::creation(blueprint, observed));
    }
    let mut found = bring_up::steps(blueprint, rendered, observed, allowed, targets);
    refusals.append(&mut found.refusals);
    found.notes.extend(unchecked::notes(blueprint, observed));
    found.notes.extend(etcd(blueprint, observed));
    found.notes.extend(lease(observed));
    found.notes.extend(preflight::warnings(blueprint, observed));
    found.notes.extend(window(blueprint, allowed).filter(|_| !found.units.is_empty()));
    let mut upgrade = blueprint.upgrade.clone().filter(|upgrade| upgrade.problem.is_none());
    if let Some(upgrade) = &mut upgrade {
        upgrade.hops = path::hops(upgrade, targets);
    }
    Plan { upgrade, ..finish(blueprint, Found { refusals, ..found }) }
}

/// When disruptions may start, where the file does not leave that open.
fn window(blueprint: &Blueprint, allowed: &Allowed) -> Option<Note> {
    let window = blueprint.options.changes.window.as_ref().filter(|_| !allowed.outside_window)?;
    let text =
        format!("disruptions start only in the maintenance window ({window}), or with `--now` outside of it");
    Some(Note { text })
}

/// Who holds the lease: what that run has not done yet is in this plan too.
fn lease(observed: &Observed) -> Option<Note> {
    let record = observed.proxmox.record.as_ref().filter(|record| !record.unreadable)?;
    let lease = record.state.lease.as_ref()?;
    let text = format!(
        "{LEASE}held by {} since {}. Another run may be changing the cluster now; `talosmith status` shows what it works on",
        lease.holder,
        lease.since.strftime("%Y-%m-%d %H:%M:%S UTC")
    );
    Some(Note { text })
}

/// How etcd stands, where it is not whole.
fn etcd(blueprint: &Blueprint, observed: &Observed) -> Option<Note> {
    let standing = quorum::standing(blueprint, &observed.machines).filter(|standing| !standing.is_whole())?;
    // One that was rolled back must not be started: its refusal says what helps.
    let is_restored = |node: &String| ownership::is_restored(blueprint, observed, node);
    let hint = standing.hint().filter(|_| !standing.unresponsive.iter().any(is_restored));
    let hint = hint.map(|hint| format!(". To do: {hint}")).unwrap_or_default();
    Some(Note { text: format!("{ETCD}{standing}{hint}") })
}

/// What takes the cluster away.
#[must_use]
pub fn plan_destroy(blueprint: &Blueprint, observed: &Observed) -> Plan {
    if let Some(refusal) = refuse::silence(observed) {
        return finish(blueprint, Found { refusals: vec![refusal], ..Found::default() });
    }
    let mut refusals = refuse::always(blueprint, observed);
    refusals.extend(bootstrap::unreadable_record(blueprint, observed));
    refusals.extend(ownership::foreign(blueprint, observed, Act::Remove));
    refusals.extend(refuse::protected(blueprint));
    refusals.extend(ownership::protected(blueprint, observed));
    let (steps, notes) = destroy::steps(blueprint, observed);
    finish(blueprint, Found { steps, notes, refusals, ..Found::default() })
}

/// What the rules found, before it is put in order.
#[derive(Debug, Default)]
struct Found {
    steps: Vec<Step>,
    units: Vec<Unit>,
    notes: Vec<Note>,
    unknown: Vec<Note>,
    refusals: Vec<Refusal>,
    blocked: Vec<Blocked>,
}

fn finish(blueprint: &Blueprint, found: Found) -> Plan {
    let Found { steps, units, notes, unknown, mut refusals, blocked } = found;
    let ordered = graph::in_order(steps).unwrap_or_else(|cycle| {
        refusals.push(Refusal {
            code: RefusalCode::Internal,
            why: format!("the plan has no order: {cycle}"),
            hint: "this is a bug in Talosmith; report it together with the cluster file".to_owned(),
        });
        vec![]
    });
    let (steps, held) = if refusals.is_empty() { (ordered, vec![]) } else { (vec![], ordered) };
    let units = if refusals.is_empty() { units } else { vec![] };
    Plan {
        cluster: blueprint.cluster.clone(),
        steps,
        units,
        notes,
        unknown,
        blocked,
        refusals,
        held,
        upgrade: None,
    }
}

/// What a step does, and the steps beside it that it comes after.
type Work<'p> = (&'p Action, Vec<&'p StepId>, Disruption, Option<&'p UnitId>);

impl Plan {
    /// Whether the cluster matches the file: nothing to do, nothing blocked, nothing refused and nothing unknown.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
            && self.blocked.is_empty()
            && self.refusals.is_empty()
            && self.unknown.is_empty()
    }

    /// Whether both do the same: all steps but their reasons, which tell of passing things, and but the order of units, which
    /// follows the leader of etcd and the VIP wherever they move.
    #[must_use]
    pub fn same_work(&self, other: &Self) -> bool {
        self.work() == other.work()
    }

    fn work(&self) -> BTreeMap<&StepId, Work<'_>> {
        let units: BTreeMap<&StepId, Option<&UnitId>> =
            self.steps.iter().map(|step| (&step.id, step.unit.as_ref())).collect();
        let mut work = BTreeMap::new();
        for step in &self.steps {
            let unit = step.unit.as_ref();
            let is_beside = |id: &&StepId| units.get(*id) == Some(&unit);
            let after = step.after.iter().filter(is_beside).collect();
            work.insert(&step.id, (&step.action, after, step.disruption, unit));
        }
        work
    }

    /// What a person agrees to with this plan.
    #[must_use]
    pub fn goals(&self) -> BTreeSet<Goal> {
        let units = self.units.iter().map(|unit| unit.goal.clone());
        let steps = self.steps.iter().filter(|step| step.unit.is_none()).map(|step| Goal::of(&step.action));
        // Later hops of an upgrade are part of what a person sees and approves with its first one. So is the rest of one that only
        // waits for a node to come back, and the upgrade of a node that is created.
        let upgraded = self.upgrade.iter().flat_map(|upgrade| self.goals_of(upgrade));
        units.chain(steps).chain(upgraded).collect()
    }

    /// What a person agrees to with an upgrade: every hop of every node. Where nothing of it is done, of nodes that are created.
    fn goals_of(&self, upgrade: &Upgrade) -> Vec<Goal> {
        let waits = upgrade.waits_for_reboot();
        let created = |node: &NodeName| {
            let creates = |step: &Step| match &step.action {
                Action::CreateVm { node: n, .. }
                | Action::CloneVm { node: n, .. }
                | Action::Configure { node: n, if_needed: false, .. } => n == node,
                _ => false,
            };
            self.steps.iter().any(creates)
        };
        let is_part = |node: &NodeName| waits || !self.units.is_empty() || created(node);
        let rebooting = upgrade.rebooting.iter().filter(|_| waits);
        let talos = upgrade.talos.keys().filter(|node| is_part(node)).chain(rebooting);
        let talos = talos.map(|node| Goal::UpgradeTalos { node: node.clone() });
        // What goes before it on the way, such as a machine config, is approved together with it.
        let first = !upgrade.configured_first.is_empty() && !self.steps.is_empty();
        let kubernetes = upgrade.kubernetes.keys().filter(|node| first || is_part(node));
        let kubernetes = kubernetes.map(|node| Goal::UpgradeKubernetes { node: node.clone() });
        talos.chain(kubernetes).collect()
    }

    /// How many hops are left with the one that this plan makes. None where it makes none.
    #[must_use]
    pub fn hops_left(&self) -> usize {
        let upgrades =
            |unit: &Unit| matches!(unit.goal, Goal::UpgradeTalos { .. } | Goal::UpgradeKubernetes { .. });
        let upgrades = self.units.iter().any(upgrades);
        self.upgrade.iter().filter(|_| upgrades).map(|upgrade| upgrade.hops.len()).sum()
    }

    #[must_use]
    pub fn unit_of(&self, step: &Step) -> Option<&Unit> {
        let id = step.unit.as_ref()?;
        self.units.iter().find(|unit| unit.id == *id)
    }

    /// About how long it takes, in seconds, when everything that can run at once does.
    #[must_use]
    pub fn seconds(&self) -> u32 {
        graph::critical_path(&self.steps).saturating_add(self.queued())
    }

    /// About how long a unit takes, in seconds.
    #[must_use]
    pub fn unit_seconds(&self, unit: &Unit) -> u32 {
        let own = self.steps.iter().filter(|step| step.unit.as_ref() == Some(&unit.id));
        own.map(|step| step.seconds).sum()
    }

    /// How long units of workers wait for each other: their steps have no order, and the gate lets only so many run at once.
    fn queued(&self) -> u32 {
        let workers = || self.units.iter().filter(|unit| unit.forecast.workers.is_some());
        let at_once = workers().map(|unit| unit.forecast.at_once).max().unwrap_or(1).max(1);
        let all: u32 = workers().map(|unit| self.unit_seconds(unit)).sum();
        let longest = workers().map(|unit| self.unit_seconds(unit)).max().unwrap_or(0);
        (all / u32::try_from(at_once).unwrap_or(u32::MAX)).saturating_sub(longest)
    }
}
