//! May this node be disrupted now? One pure function decides, and it is asked twice: the plan forecasts with it, and the engine asks
//! again on a fresh view directly before each unit. Nothing disruptive runs without the [`Permit`] that only this module makes.
//!
//! **etcd.** Its size is what its members say, never what the file says. V are the voting members, H those of them that are proved
//! healthy (`etcd.rs`), d is the node in question. An absence for a while needs a majority of V among H without d. A removal
//! needs a majority of V among H now, or etcd cannot commit it, and a majority of the rest among H without d afterwards. Members that
//! answer must give one list, one leader and one term. No member may be joining, and no name may be listed twice. A member that
//! answers and is not healthy counts as one that does not answer: were it otherwise, not seeing it would allow more.
//!
//! A member that works is not taken from an etcd that lacks another one already, even where five voters would keep a majority: the next
//! failure would stop it. Only a removal goes on of a node that is down: its VM is off, or Kubernetes calls it not ready or does not have
//! it. That its member does not answer says nothing.
//!
//! **Kubernetes.** Another control plane node must be ready, or the API is away with this one.
//!
//! **Outages.** With one or two voters no absence keeps a majority, and without another ready control plane node the API does not
//! stay. Both are outages of the API, which a person approves by a flag or in the file. An absence of one of two voters or of the only
//! one additionally needs all of them healthy before: etcd comes back with its data.
//!
//! **Workers** go by budget, which counts those that are not ready, and those of which it is not known. It must be known that the node
//! is no member of etcd, whatever role the file gives it. A node that the view does not have is judged as a control plane node, and only
//! while Kubernetes answers.
//!
//! **Hosts.** While high availability has a Proxmox host in maintenance, it moves guests away from it without asking etcd. Nothing else
//! is disrupted there meanwhile, except that nodes leave.
//!
//! **Overlap.** A control plane node is disrupted alone: not together with another control plane node, and not with workers. While its
//! API server, or the VIP, is away, requests of a drain or of a verification elsewhere fail, and a unit that fails closes the gate. Two
//! failures at once are also harder to understand than one. It costs little, because plans do workers after control plane nodes.

use serde::{Deserialize, Serialize};

use self::etcd::{Consensus, majority};
use crate::blueprint::Role;
use crate::names::NodeName;
use crate::observed::{Health, Member};
use crate::policy::WindowState;
use crate::step::UnitId;

mod blocker;
mod etcd;
mod view;

pub use crate::policy::{Budget, Policy};
pub use blocker::Blocker;
pub use view::{ClusterView, MemberView, NodeView};

/// What a unit does to its node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Effect {
    /// Its pods go elsewhere, and its machine stays as it is.
    Eviction,
    /// It is away for a while and comes back with its data: a reboot, a power cycle, a migration, a restart of its services.
    Absence,
    /// It goes for good, or comes back without its data.
    Removal,
}

/// A unit that wants to start, or has started.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Request {
    pub unit: UnitId,
    pub node: NodeName,
    /// What it does to the node.
    pub effect: Effect,
}

/// The right to carry out one unit. Only [`judge`] makes one.
#[derive(Debug, PartialEq, Eq)]
pub struct Permit {
    request: Request,
    outage: bool,
}

impl Permit {
    /// What it allows.
    #[must_use]
    pub fn request(&self) -> &Request {
        &self.request
    }

    /// Whether the API is away while the unit runs, as was approved.
    #[must_use]
    pub fn is_outage(&self) -> bool {
        self.outage
    }

    /// Whether it allows to disrupt this node in this way.
    #[must_use]
    pub fn covers(&self, node: &str, effect: Effect) -> bool {
        self.request.node == node && self.request.effect >= effect
    }
}

/// What the gate says.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The unit may start.
    Go(Permit),
    /// Not now. Looking again may help.
    Wait(Vec<Blocker>),
    /// Not in this run.
    Stop(Vec<Blocker>),
}

/// Units that hold a permit, and whether one of them ended unverified.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Standing {
    /// Units that started and have not been verified.
    pub in_flight: Vec<Request>,
    /// The unit that ended unverified, which closes the gate.
    pub failed: Option<UnitId>,
}

/// Whether a unit may start.
#[must_use]
pub fn judge(policy: &Policy, view: &ClusterView, standing: &Standing, want: &Request) -> Verdict {
    if let Some(unit) = &standing.failed {
        return Verdict::Stop(vec![Blocker::EarlierFailure(unit.clone())]);
    }
    if let Some(blocker) = outside_window(policy, view) {
        return Verdict::Stop(vec![blocker]);
    }
    if let Some(host) = view.maintenance.get(&want.node).filter(|_| !leaves_host(want)) {
        return Verdict::Stop(vec![Blocker::HostMaintenance { host: host.clone() }]);
    }
    let (missing, unhealthy): (Vec<Blocker>, Vec<Blocker>) =
        health(policy, view).partition(|blocker| matches!(blocker, Blocker::GateMissing(_)));
    if !missing.is_empty() {
        return Verdict::Stop(missing);
    }
    if !unhealthy.is_empty() {
        return Verdict::Wait(unhealthy);
    }
    let same = |other: &&Request| other.node == want.node || other.unit == want.unit;
    if let Some(other) = standing.in_flight.iter().find(same) {
        return Verdict::Wait(vec![Blocker::InFlight(other.node.clone())]);
    }
    let etcd = match etcd::consensus(view, want) {
        Ok(etcd) => etcd,
        Err(blockers) => return Verdict::Wait(blockers),
    };
    let is_worker = |node: &str| view.is_worker(node) && !etcd.lists(node);
    let conflicts = |other: &&Request| !is_worker(&want.node) || !is_worker(&other.node);
    if let Some(other) = standing.in_flight.iter().find(conflicts) {
        return Verdict::Wait(vec![Blocker::InFlight(other.node.clone())]);
    }
    match is_worker(&want.node) {
        // etcd and the API stay as they are, and there is no budget for control plane nodes.
        false if want.effect == Effect::Eviction => evict(view, want),
        true => worker(policy, view, &etcd, standing, want),
        false => control_plane(policy, view, &etcd, want),
    }
}

/// Whether a unit makes its node leave its host, which is what a maintenance waits for, or takes nothing but pods away.
fn leaves_host(want: &Request) -> bool {
    want.effect == Effect::Eviction || matches!(want.unit.kind(), "move" | "shutdown")
}

/// A control plane node that only loses its pods.
fn evict(view: &ClusterView, want: &Request) -> Verdict {
    match view.kubernetes {
        true => Verdict::Go(Permit { request: want.clone(), outage: false }),
        false => Verdict::Wait(vec![Blocker::NoKubernetes]),
    }
}

/// Whether the maintenance window of the file is anything but open.
fn outside_window(policy: &Policy, view: &ClusterView) -> Option<Blocker> {
    let window = policy.window.as_ref()?.to_string();
    match &view.window {
        WindowState::Open => None,
        WindowState::Closed { opens } => Some(Blocker::OutsideWindow { window, opens: *opens }),
        WindowState::Unknown => Some(Blocker::OutsideWindow { window, opens: None }),
    }
}

/// What speaks against a disruption among the systems that must be healthy.
fn health<'a>(policy: &'a Policy, view: &'a ClusterView) -> impl Iterator<Item = Blocker> + 'a {
    policy.gates.iter().filter_map(|gate| match view.health.get(gate) {
        Some(Health::Healthy) => None,
        Some(Health::Unhealthy { what }) => Some(Blocker::GateUnhealthy(*gate, what.clone())),
        Some(Health::Missing) => Some(Blocker::GateMissing(*gate)),
        Some(Health::Unknown { why }) => Some(Blocker::GateUnknown(*gate, why.clone())),
        None => Some(Blocker::GateUnknown(*gate, "it was not asked".to_owned())),
    })
}

fn control_plane(policy: &Policy, view: &ClusterView, etcd: &Consensus<'_>, want: &Request) -> Verdict {
    let unsettled = unsettled(etcd, want);
    if !unsettled.is_empty() {
        return Verdict::Wait(unsettled);
    }
    let go = |outage| Verdict::Go(Permit { request: want.clone(), outage });
    let is_other = |member: &&&Member| !member.is_of(&want.node);
    let (all, healthy) = (etcd.voters.len(), etcd.healthy.len());
    let left = etcd.voters.iter().filter(is_other).count();
    let stay = etcd.healthy.iter().filter(is_other).count();
    // That there is a majority now, too, without which etcd could not commit a removal, is what made the consensus.
    let need = majority(if want.effect == Effect::Removal { left } else { all });
    if stay >= need && stay < left && !(is_down(view, &want.node) && want.effect == Effect::Removal) {
        return Verdict::Wait(etcd.unwell.clone());
    }
    if stay >= need {
        return match other_control_plane(view, want) {
            Ok(()) => go(false),
            // What nothing is known of is never worth an outage.
            Err(_) if policy.api_outage && view.nodes.contains_key(&want.node) => go(true),
            Err(blocker) => Verdict::Wait(vec![blocker]),
        };
    }
    // One or two voters: no absence keeps a majority, so all of them must be healthy before.
    if want.effect == Effect::Absence && all <= 2 && healthy == all {
        return match policy.api_outage {
            true => go(true),
            false => Verdict::Stop(vec![Blocker::Outage { voters: all }]),
        };
    }
    let mut blockers = etcd.unwell.clone();
    blockers.push(Blocker::NoMajority { healthy: stay, need, voters: all });
    Verdict::Wait(blockers)
}

/// Whether something says that the node does not work.
fn is_down(view: &ClusterView, node: &str) -> bool {
    view.nodes.get(node).map_or(view.kubernetes, |seen| seen.ready == Some(false))
}

/// Members that are not settled: joining, or listed twice. One that never became a voter may be removed.
fn unsettled(etcd: &Consensus<'_>, want: &Request) -> Vec<Blocker> {
    let goes =
        |name: &str, node: &str| want.effect == Effect::Removal && name.split('.').next() == Some(node);
    let joining = etcd
        .list
        .iter()
        .filter(|member| (member.learner || member.name.is_empty()) && !goes(&member.name, &want.node))
        .map(|member| Blocker::Joining(member.name.clone()));
    let mut names: Vec<&str> = etcd.list.iter().map(|member| member.name.as_str()).collect();
    names.sort_unstable();
    let twice = names.windows(2).filter(|pair| pair.first() == pair.last() && !pair.contains(&""));
    let twice = twice.filter_map(|pair| Some(Blocker::Twice((*pair.first()?).to_owned())));
    joining.chain(twice).collect()
}

/// Whether Kubernetes says of another control plane node that it is ready.
fn other_control_plane(view: &ClusterView, want: &Request) -> Result<(), Blocker> {
    if !view.kubernetes {
        return Err(Blocker::NoKubernetes);
    }
    let mut others =
        view.nodes.iter().filter(|(name, node)| node.role == Role::ControlPlane && **name != want.node);
    match others.any(|(_, node)| node.ready == Some(true)) {
        true => Ok(()),
        false => Err(Blocker::NoControlPlane),
    }
}

fn worker(
    policy: &Policy,
    view: &ClusterView,
    etcd: &Consensus<'_>,
    standing: &Standing,
    want: &Request,
) -> Verdict {
    if !view.kubernetes {
        return Verdict::Wait(vec![Blocker::NoKubernetes]);
    }
    let workers = || view.nodes.iter().filter(|(name, _)| view.is_worker(name) && !etcd.lists(name));
    let budget = policy.workers.of(workers().count());
    let in_flight = |name: &str| standing.in_flight.iter().any(|other| other.node == name);
    let away: Vec<NodeName> = workers()
        .filter(|(name, node)| **name != want.node && (node.ready != Some(true) || in_flight(name)))
        .map(|(name, _)| name.clone())
        .collect();
    match away.len() < budget {
        true => Verdict::Go(Permit { request: want.clone(), outage: false }),
        false => Verdict::Wait(vec![Blocker::Budget { away, budget }]),
    }
}

#[cfg(test)]
mod tests;
