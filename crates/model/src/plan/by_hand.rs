//! What a person asks of single nodes (a reboot, a shutdown, a drain, a cordon, a replacement) or of a Proxmox host. It goes through the
//! same units and the same gate as what the file asks for.
//!
//! What a person cordons or drains stays cordoned until a person uncordons it: an `apply` leaves it alone. A node that is shut down is
//! started by the next `apply`, which takes Talosmith's own cordon back.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::bring_up::{Builder, usual};
use super::{
    Found, Note, Plan, Refusal, RefusalCode, Rendered, bootstrap, finish, ownership, preflight, refuse,
    unchecked,
};
use crate::allowed::Allowed;
use crate::blueprint::{Blueprint, Node};
use crate::names::NodeName;
use crate::observed::{Api, Observed};
use crate::ownership as owned;
use crate::ownership::Act;
use crate::step::{Action, Disruption};

/// What is asked of nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ByHand {
    /// What is done.
    pub hand: Hand,
    /// With which nodes of the file.
    pub nodes: BTreeSet<NodeName>,
    /// With which Proxmox host, where it is about one.
    pub host: Option<String>,
    /// Also where the node is not proved to be dead.
    pub force: bool,
}

impl ByHand {
    /// Asked of nodes.
    #[must_use]
    pub fn of<Name: Into<NodeName>>(hand: Hand, nodes: impl IntoIterator<Item = Name>) -> Self {
        Self { hand, nodes: nodes.into_iter().map(Into::into).collect(), host: None, force: false }
    }

    /// Asked of a Proxmox host.
    #[must_use]
    pub fn of_host(hand: Hand, host: &str) -> Self {
        Self { hand, nodes: BTreeSet::new(), host: Some(host.to_owned()), force: false }
    }

    /// The host that is drained, where one is.
    #[must_use]
    pub fn drains(&self) -> Option<&str> {
        self.host.as_deref().filter(|_| self.hand == Hand::DrainHost)
    }

    /// The host that is not drained any more, where there is one.
    #[must_use]
    pub fn undrains(&self) -> Option<&str> {
        self.host.as_deref().filter(|_| self.hand == Hand::UndrainHost)
    }

    /// The nodes that are to be made again.
    #[must_use]
    pub fn replaced(&self) -> BTreeSet<NodeName> {
        if self.hand == Hand::Replace { self.nodes.clone() } else { BTreeSet::new() }
    }

    /// Whether a node is to be made again.
    #[must_use]
    pub fn replaces(&self, node: &str) -> bool {
        self.hand == Hand::Replace && self.nodes.contains(node)
    }
}

/// What a person does with a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Hand {
    /// Drains it and reboots its machine.
    Reboot,
    /// Drains it and shuts its machine down.
    Shutdown,
    /// Lets no new pods come to it.
    Cordon,
    /// Lets pods come to it again, no matter who cordoned it.
    Uncordon,
    /// Lets no new pods come to it, and evicts those that are there.
    Drain,
    /// Removes it and makes it again.
    Replace,
    /// Moves the nodes of a Proxmox host away, or shuts them down.
    DrainHost,
    /// Brings the nodes back that left a Proxmox host, or were shut down there, when it was drained.
    UndrainHost,
}

impl fmt::Display for Hand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Reboot => "reboot",
            Self::Shutdown => "shutdown",
            Self::Cordon => "cordon",
            Self::Uncordon => "uncordon",
            Self::Drain => "drain",
            Self::Replace => "replace",
            Self::DrainHost => "host drain",
            Self::UndrainHost => "host undrain",
        })
    }
}

/// Why every step of it is there.
pub(super) const ASKED: &str = "requested with this command";

/// What does what was asked for.
#[must_use]
pub fn plan_by_hand(
    blueprint: &Blueprint,
    rendered: &Rendered,
    observed: &Observed,
    allowed: &Allowed,
    asked: &ByHand,
) -> Plan {
    let refusal = refuse::silence(observed).or_else(|| no_cluster(blueprint));
    if let Some(refusal) = refusal.or_else(|| no_vms(blueprint, observed)) {
        return finish(blueprint, Found { refusals: vec![refusal], ..Found::default() });
    }
    let mut refusals = refuse::always(blueprint, observed);
    refusals.extend(bootstrap::lost_record(blueprint, observed));
    refusals.extend(unchecked::refusals(blueprint, observed));
    refusals.extend(ownership::foreign(blueprint, observed, Act::Change));
    if asked.hand == Hand::Replace {
        refusals.extend(preflight::rights(observed));
        refusals.extend(preflight::images(observed));
    }
    let mut builder = Builder::new(blueprint, rendered, observed, allowed);
    builder.record();
    if let Some(host) = asked.drains() {
        builder.drain_host(host);
    }
    if let Some(host) = asked.undrains() {
        builder.undrain_host(host);
    }
    for node in blueprint.in_order().into_iter().filter(|node| asked.nodes.contains(&node.name)) {
        match asked.hand {
            Hand::Replace => builder.replace_by_hand(node, asked.force),
            hand => builder.by_hand(node, hand),
        }
    }
    builder.disruptions();
    if let Some(host) = asked.drains() {
        builder.drained(host);
    }
    if let Some(host) = asked.undrains() {
        builder.undrained(host);
    }
    let found = builder.found();
    refusals.extend(found.refusals);
    finish(blueprint, Found { refusals, ..found })
}

/// Without secrets there is no cluster, and none is created here.
fn no_cluster(blueprint: &Blueprint) -> Option<Refusal> {
    blueprint.cluster_id.is_none().then(|| Refusal {
        code: RefusalCode::LostBundle,
        why: format!("the cluster {} has no secrets here, so there is no key to its nodes", blueprint.cluster),
        hint: "restore the secrets bundle from your backup; for a new cluster, `talosmith apply` creates it first"
            .to_owned(),
    })
}

/// Without VMs there is nothing to act on, and no record is created for it.
fn no_vms(blueprint: &Blueprint, observed: &Observed) -> Option<Refusal> {
    let proxmox = &observed.proxmox;
    let may_exist = |node: &Node| {
        node.external
            || owned::vm_of(blueprint, proxmox, &node.name).is_some()
            || proxmox.unread.contains_key(&node.vmid)
            || proxmox.hidden.contains_key(&node.vmid)
            || proxmox.creating.contains_key(&node.vmid)
            || observed.machines.get(&node.name).is_some_and(|machine| machine.api == Api::Configured)
    };
    let removed = !observed.removed.is_empty();
    (!removed && !observed.kubernetes.answered && !blueprint.nodes.values().any(may_exist)).then(|| Refusal {
        code: RefusalCode::NotFound,
        why: format!("the cluster {} has no VMs in Proxmox", blueprint.cluster),
        hint: "`talosmith apply` creates it".to_owned(),
    })
}

impl Builder<'_> {
    fn by_hand(&mut self, node: &Node, hand: Hand) {
        let kubernetes = &self.observed.kubernetes;
        let seen = kubernetes.nodes.get(&node.name);
        let answers =
            self.observed.machines.get(&node.name).is_some_and(|machine| machine.api == Api::Configured);
        let name = || node.name.clone();
        match (hand, seen) {
            (Hand::Shutdown, _) if !answers && self.is_off(node) => {
                self.notes.push(Note { text: format!("{} is off already", node.name) });
            }
            (Hand::Reboot | Hand::Shutdown, _) if !answers => {
                let (why, hint) = match self.has_no_vm(node) {
                    true => ("it has no VM", "`talosmith plan` says what `talosmith apply` would create"),
                    false => (
                        "its machine does not respond",
                        "`talosmith status` says what is known of it; a VM that hangs is reset in Proxmox",
                    ),
                };
                let what = format!("Talosmith does not {hand} {}: {why}", node.name);
                self.block(&node.name, Disruption::Reboot, what, hint.to_owned());
            }
            (Hand::Cordon | Hand::Uncordon | Hand::Drain, None) => {
                let why = match kubernetes.answered {
                    true => "Kubernetes has no such node",
                    false => "Kubernetes does not respond",
                };
                let what = format!("Talosmith does not {hand} {}: {why}", node.name);
                let hint = "`talosmith health` says what is missing";
                self.block(&node.name, Disruption::InPlace, what, hint.to_owned());
            }
            (Hand::Cordon, Some(seen)) if !seen.schedulable && seen.cordoned.is_none() => {
                self.notes.push(Note { text: format!("{} is cordoned already", node.name) });
            }
            (Hand::Uncordon, Some(seen)) if seen.schedulable => {
                self.notes.push(Note { text: format!("{} is not cordoned", node.name) });
            }
            (Hand::Cordon, Some(_)) => {
                let step = self.push(Action::CordonNode { node: name() }, vec![], ASKED, usual::UNCORDON);
                self.set_disruption(&step, Disruption::InPlace);
            }
            (Hand::Uncordon, Some(_)) => {
                let step = self.push(Action::ReleaseNode { node: name() }, vec![], ASKED, usual::UNCORDON);
                self.set_disruption(&step, Disruption::InPlace);
            }
            (Hand::Reboot | Hand::Shutdown | Hand::Drain, _) => {
                self.need(&node.name, vec![]).by_hand = Some(hand);
            }
            // These are no hands that are laid on a node as it is.
            (Hand::Replace | Hand::DrainHost | Hand::UndrainHost, _) => {}
        }
    }

    /// Whether Proxmox answered, and has no VM of a node.
    fn has_no_vm(&self, node: &Node) -> bool {
        let proxmox = &self.observed.proxmox;
        preflight::to_create(self.blueprint, proxmox).any(|new| new.name == node.name)
            && !proxmox.hidden.contains_key(&node.vmid)
            && !proxmox.creating.contains_key(&node.vmid)
    }

    /// Whether Proxmox says that the VM of a node is off.
    fn is_off(&self, node: &Node) -> bool {
        let vm = owned::vm_of(self.blueprint, &self.observed.proxmox, &node.name);
        vm.is_some_and(|vm| !vm.running)
    }
}
