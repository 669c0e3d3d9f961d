//! Why a node may not be disrupted now.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::names::NodeName;
use crate::spec::HealthGate;
use crate::step::UnitId;

/// Why a node may not be disrupted now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Blocker {
    /// A disruption of this run ended unverified.
    EarlierFailure(UnitId),
    /// The maintenance window of the file is not open.
    OutsideWindow {
        /// The window, for people.
        window: String,
        /// When it opens, where that is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        opens: Option<Timestamp>,
    },
    /// Its Proxmox host is in maintenance, and high availability moves guests away from it.
    HostMaintenance { host: String },
    /// Another disruption is in progress on a node that this one must not overlap with.
    InFlight(NodeName),
    /// A system that the file names is not installed.
    GateMissing(HealthGate),
    /// A system that the file names is not healthy, and what of it.
    GateUnhealthy(HealthGate, String),
    /// Whether a system that the file names is healthy is not known, and why.
    GateUnknown(HealthGate, String),
    /// A command that the file names did not succeed.
    Command {
        command: String,
        /// How it ended, with the last line of its output.
        ended: String,
    },
    /// No member of etcd answers.
    NoMember,
    /// No member of etcd that answers is its leader.
    NoLeader,
    /// A member does not answer.
    NoAnswer(String),
    /// A member has another list of members than the leader.
    Disagree(NodeName, NodeName),
    /// A member sees another leader, or another term, than the leader.
    OtherLeader(NodeName, NodeName),
    /// A member complains.
    Complains(NodeName, String),
    /// A member's service is not healthy, or it is behind the others.
    Unhealthy(NodeName),
    /// A member is joining etcd; its name is empty while it starts for the first time.
    Joining(String),
    /// Two members have one name.
    Twice(String),
    /// Too few healthy members would stay.
    NoMajority {
        /// Healthy voting members that stay.
        healthy: usize,
        /// How many must.
        need: usize,
        /// All voting members.
        voters: usize,
    },
    /// With so few members every absence of one is an outage of the API, which was not approved.
    Outage {
        /// All voting members.
        voters: usize,
    },
    /// No other control plane node is ready, so the API would be away.
    NoControlPlane,
    /// Kubernetes does not answer, so it is not known which nodes are ready.
    NoKubernetes,
    /// As many workers are away as may be.
    Budget {
        /// Workers that are not ready, not known to be, or disrupted now.
        away: Vec<NodeName>,
        /// How many may be away.
        budget: usize,
    },
}

impl fmt::Display for Blocker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EarlierFailure(unit) => {
                write!(f, "{unit} failed in this run, and Talosmith disrupts nothing else in this run")
            }
            Self::OutsideWindow { window, opens: Some(opens) } => {
                write!(f, "the maintenance window ({window}) is closed; it opens at {opens}")
            }
            Self::OutsideWindow { window, opens: None } => {
                write!(f, "it is not known when the maintenance window ({window}) is open")
            }
            Self::HostMaintenance { host } => {
                write!(f, "its Proxmox host {host} is in maintenance, and high availability moves its guests")
            }
            Self::InFlight(node) => write!(f, "{node} is being disrupted"),
            Self::GateMissing(gate) => {
                write!(
                    f,
                    "the gate `{}` is named in the file, and its resources are not installed",
                    gate.name()
                )
            }
            Self::GateUnhealthy(gate, what) => write!(f, "the gate `{}` is closed: {what}", gate.name()),
            Self::GateUnknown(gate, why) => {
                write!(f, "it is not known whether the gate `{}` is open: {why}", gate.name())
            }
            Self::Command { command, ended } => write!(f, "the command gate `{command}` {ended}"),
            Self::NoMember => f.write_str("no member of etcd answers"),
            Self::NoLeader => f.write_str("no member of etcd that answers is its leader"),
            Self::NoAnswer(name) => write!(f, "{} does not answer", member(name)),
            Self::Disagree(node, leader) => {
                write!(f, "{node} lists other members of etcd than the leader {leader}")
            }
            Self::OtherLeader(node, leader) => {
                write!(f, "{node} does not see {leader} as the leader of etcd")
            }
            Self::Complains(node, error) => write!(f, "etcd on {node} reports: {error}"),
            Self::Unhealthy(node) => write!(f, "etcd on {node} is not healthy, or behind the leader"),
            Self::Joining(name) => write!(f, "{} is joining etcd", member(name)),
            Self::Twice(name) => write!(f, "etcd lists two members called {name}"),
            Self::NoMajority { healthy, need, voters } => write!(
                f,
                "only {healthy} of {voters} voting members of etcd would be healthy, and {need} must be"
            ),
            Self::Outage { voters: 1 } => f.write_str(
                "it is the only member of etcd, so the Kubernetes API is unavailable while it is down",
            ),
            Self::Outage { voters } => write!(
                f,
                "etcd has {voters} voting members and needs all of them, so the Kubernetes API is unavailable while it is down"
            ),
            Self::NoControlPlane => f.write_str(
                "no other control plane node is ready, so the Kubernetes API is unavailable while it is down",
            ),
            Self::NoKubernetes => {
                f.write_str("Kubernetes does not answer, so it is not known which nodes are ready")
            }
            Self::Budget { away, budget } => {
                let noun = if *budget == 1 { "worker" } else { "workers" };
                let verb = if away.len() == 1 { "is" } else { "are" };
                write!(
                    f,
                    "{budget} {noun} may be unavailable at once, and {} {verb} already",
                    away.join(", ")
                )
            }
        }
    }
}

/// A member that has no name yet.
fn member(name: &str) -> &str {
    if name.is_empty() { "a new member" } else { name }
}

impl Blocker {
    /// What the operator can do.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        match self {
            Self::EarlierFailure(_) => {
                "correct what made it fail, which is shown above, then run the command again"
            }
            Self::OutsideWindow { .. } => {
                "run the command again when the window is open, or with `--now` to start outside of it"
            }
            Self::HostMaintenance { .. } => {
                "run the command again when the maintenance of the host has ended; `talosmith host drain` migrates the nodes that high \
                 availability does not"
            }
            Self::GateMissing(_) => "install it, or take its name out of `changes.gates` in the file",
            Self::GateUnhealthy(..) | Self::GateUnknown(..) => {
                "wait until it is healthy, then run the command again; `changes.gates` in the file names it"
            }
            Self::Command { .. } => {
                "make the command succeed, then run this command again; `changes.commands` in the file names it"
            }
            Self::InFlight(_) | Self::Joining(_) | Self::NoLeader | Self::OtherLeader(..) => {
                "wait, then run the command again"
            }
            Self::NoMember | Self::NoAnswer(_) | Self::NoMajority { .. } | Self::Unhealthy(_) => {
                "bring the other control plane nodes back first; `talosmith health` says what they lack"
            }
            Self::Disagree(..) | Self::Twice(_) => {
                "compare `talosctl etcd members` of all control plane nodes; remove a member that does not exist any more"
            }
            Self::Complains(..) => "clear what etcd reports first; `talosctl etcd alarm list` shows alarms",
            Self::Outage { .. } => {
                "run the command with `--allow-api-outage`, or set `changes: { api_outage: allow }` in the file; workloads continue \
                 to run meanwhile"
            }
            Self::NoControlPlane => {
                "bring another control plane node back first, or run the command with `--allow-api-outage`"
            }
            Self::NoKubernetes => "make the Kubernetes API reachable from here, then run the command again",
            Self::Budget { .. } => {
                "bring the workers that are not ready back, or raise `changes.workers` in the file"
            }
        }
    }
}
