//! How a machine without a configuration proves that it is the one that is meant, before it receives the cluster's keys.
//!
//! Talos in maintenance mode shows a certificate without a trusted issuer, and claims a SMBIOS UUID that anyone can repeat: an attacker
//! between operator and machine can pass both on. But Talos prints the fingerprint of its certificate on the console, and
//! Proxmox hands that out over a connection that is authenticated. Where the last fingerprint on the console of *our* VM is that
//! of the certificate on *this* connection, no relay stands in between.
//!
//! All rules are here and pure: which proof a node needs ([`method`]), what a console and a certificate say together
//! ([`judge`]), and when a machine whose lines are gone may be restarted so that it prints them again ([`may_restart`]).

use std::str::FromStr;

use serde::Deserialize;

use crate::blueprint::{Blueprint, Node, Role};
use crate::names::NodeName;
use crate::observed::{Etcd, Machine, Member, Observed, Vm};
use crate::ownership;
use crate::quorum::{self, View};
use crate::spec::Identity;

/// The SHA-256 of a certificate's public key, in base64, as Talos prints it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fingerprint(String);

/// The text is no such fingerprint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a fingerprint as Talos prints it is 44 characters of base64")]
pub struct NoFingerprint;

impl FromStr for Fingerprint {
    type Err = NoFingerprint;

    fn from_str(text: &str) -> Result<Self, NoFingerprint> {
        let digits = text.strip_suffix('=').ok_or(NoFingerprint)?;
        let value = |byte: u8| match byte {
            b'A'..=b'Z' => Some(byte - b'A'),
            b'a'..=b'z' => Some(byte - b'a' + 26),
            b'0'..=b'9' => Some(byte - b'0' + 52),
            b'+' => Some(62),
            b'/' => Some(63),
            _ => None,
        };
        // Thirty-two bytes leave two bits of the last digit over. One way to write a fingerprint, so that texts compare.
        let last = digits.bytes().last().and_then(value).ok_or(NoFingerprint)?;
        let whole = digits.len() == 43 && digits.bytes().all(|byte| value(byte).is_some());
        if whole && last % 4 == 0 { Ok(Self(text.to_owned())) } else { Err(NoFingerprint) }
    }
}

impl std::fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// The proof that a node needs before it receives its configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Method {
    /// Its certificate is the one on its VM's console.
    Console,
    /// Only its SMBIOS UUID, which proves nothing against a relay in between.
    Uuid(Unproved),
    /// Its certificate has the fingerprint that the file says.
    Fingerprint(String),
    /// None: the file says so.
    Unverified,
    /// An external machine of which the file says nothing.
    Undeclared,
}

/// Why a VM is known by its UUID alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unproved {
    /// The file says so.
    Chosen,
    /// The token lacks VM.Console.
    NoRight,
    /// The VM has no serial port.
    NoSerialPort,
}

/// The proof that a node needs. What is not known counts as if there were a console: then it fails instead of being skipped.
#[must_use]
pub fn method(blueprint: &Blueprint, observed: &Observed, node: &Node) -> Method {
    let settings = &node.settings;
    if node.external {
        return match (&settings.fingerprint, settings.unverified) {
            (Some(fingerprint), _) => Method::Fingerprint(fingerprint.clone()),
            (None, true) => Method::Unverified,
            (None, false) => Method::Undeclared,
        };
    }
    match blueprint.options.identity {
        Some(Identity::Console) => return Method::Console,
        Some(Identity::Uuid) => return Method::Uuid(Unproved::Chosen),
        None => {}
    }
    let record = observed.proxmox.record.as_ref();
    if record.is_some_and(|record| record.state.doubted.contains_key(node.name.as_str())) {
        return Method::Console;
    }
    let lacks = |nodes: &std::collections::BTreeSet<NodeName>| nodes.contains(&node.name);
    if observed.proxmox.no_console.as_ref().is_some_and(lacks) {
        return Method::Uuid(Unproved::NoRight);
    }
    match runs_without_serial_port(blueprint, observed, node) {
        Some(_) => Method::Uuid(Unproved::NoSerialPort),
        None => Method::Console,
    }
}

/// The node's VM, where it runs without a serial port. One that is off gets its port before it is started.
#[must_use]
pub fn runs_without_serial_port<'a>(
    blueprint: &Blueprint,
    observed: &'a Observed,
    node: &Node,
) -> Option<&'a Vm> {
    ownership::vm_of(blueprint, &observed.proxmox, &node.name).filter(|vm| vm.running && !has_serial_port(vm))
}

fn has_serial_port(vm: &Vm) -> bool {
    vm.config.get("serial0").is_some_and(|port| port == "socket")
}

/// What was read from a console since the VM was started or the console was opened.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Printed {
    fingerprints: Vec<Fingerprint>,
    /// Whether something may have been printed that was not read: the console was opened late, or was cut.
    pub gap: bool,
}

/// How many fingerprints of one boot are remembered. A machine prints two or three.
const REMEMBERED: usize = 16;

impl Printed {
    /// Nothing yet. `gap` says that something may have been printed before.
    #[must_use]
    pub fn new(gap: bool) -> Self {
        Self { gap, ..Self::default() }
    }

    /// Reads the next line.
    pub fn read(&mut self, line: &str) {
        if let Some(fingerprint) = issued(line) {
            if self.fingerprints.len() == REMEMBERED {
                self.fingerprints.remove(0);
            }
            self.fingerprints.push(fingerprint);
        }
    }

    /// The fingerprint that counts.
    #[must_use]
    pub fn last(&self) -> Option<&Fingerprint> {
        self.fingerprints.last()
    }
}

/// What the console and the certificate of a connection say together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The machine at the end of the connection is the one with the console.
    Proved,
    /// The certificate was the machine's and was replaced since: connect again.
    Outdated,
    /// The console names another certificate.
    Mismatch {
        /// The certificate that the console named last.
        printed: Fingerprint,
    },
    /// The console has not named any, or not all of them were read.
    Unknown,
}

/// Judges a connection by the certificate that it shows.
#[must_use]
pub fn judge(printed: &Printed, shown: &Fingerprint) -> Verdict {
    match printed.last() {
        Some(last) if last == shown => Verdict::Proved,
        None => Verdict::Unknown,
        Some(_) if printed.fingerprints.contains(shown) => Verdict::Outdated,
        Some(_) if printed.gap => Verdict::Unknown,
        Some(last) => Verdict::Mismatch { printed: last.clone() },
    }
}

/// Whether a VM that runs for `uptime` was started after a console was opened that is open for `open_for`. Proxmox counts whole seconds,
/// and a moment passes between a start and the opening.
#[must_use]
pub fn was_started_since(uptime: std::time::Duration, open_for: jiff::SignedDuration) -> bool {
    const SLACK: std::time::Duration = std::time::Duration::from_secs(2);
    std::time::Duration::try_from(open_for).is_ok_and(|open_for| uptime + SLACK < open_for)
}

/// The fingerprint in a line of Talos about a new certificate of its maintenance API, such as
/// `[   39.051143] [talos] server certificate issued {"component": …, "fingerprint": "…"}`.
///
/// Only the whole line in exactly this form counts: part of it may appear in a line about something that came over the network.
#[must_use]
pub fn issued(line: &str) -> Option<Fingerprint> {
    #[derive(Deserialize)]
    struct Fields {
        fingerprint: String,
    }
    let (time, rest) = line.strip_prefix('[')?.split_once("] ")?;
    if !time.trim_start().bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
        return None;
    }
    let fields = rest.strip_prefix("[talos] server certificate issued ")?;
    let fields: Fields = serde_json::from_str(fields.trim_end()).ok()?;
    fields.fingerprint.parse().ok()
}

/// Why a machine is not restarted to make it print its certificate again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeptRunning {
    /// Kubernetes calls the node ready.
    #[error("Kubernetes says that the node is Ready")]
    Ready,
    /// etcd has a member of its name, and needs it or may need it.
    #[error("etcd has a member of this name, and {0}")]
    MemberOfEtcd(String),
    /// The cluster runs, and neither Kubernetes nor etcd can be asked.
    #[error("the cluster was bootstrapped, and Kubernetes or etcd do not tell whether the node is in use")]
    Unknown,
}

/// Whether a VM that waits in maintenance mode, as far as the network says, may be restarted. What answers there proves
/// nothing yet, so the reasons come from elsewhere: a VM that was created after the observation, a cluster that was never
/// bootstrapped, or a Kubernetes that does not know the node or calls it not ready, and an etcd that does without it.
///
/// # Errors
///
/// The reason against it.
pub fn may_restart(blueprint: &Blueprint, observed: &Observed, node: &Node) -> Result<(), KeptRunning> {
    let known = observed.kubernetes.nodes.get(&node.name);
    if known.is_some_and(|known| known.ready) {
        return Err(KeptRunning::Ready);
    }
    let views: Vec<View> =
        observed.machines.iter().filter_map(|(name, machine)| view(name, machine)).collect();
    let address = format!("//{}:", node.address.addr());
    let is_it =
        |member: &Member| member.is_of(&node.name) || member.peers.iter().any(|peer| peer.contains(&address));
    if views.iter().flat_map(|view| &view.members).any(is_it) {
        return match (known, quorum::may_remove(&node.name, &views)) {
            (Some(_), Ok(())) => Ok(()),
            (Some(_), Err(blocker)) => Err(KeptRunning::MemberOfEtcd(blocker.to_string())),
            (None, _) => {
                Err(KeptRunning::MemberOfEtcd("Kubernetes does not say that it is not ready".to_owned()))
            }
        };
    }
    let is_new = ownership::vm_of(blueprint, &observed.proxmox, &node.name).is_none();
    let record = observed.proxmox.record.as_ref();
    let never_bootstrapped = record.is_some_and(|seen| !seen.unreadable && seen.state.bootstrap.is_none());
    // Without a member that responds, it is unknown whether a control plane node is one.
    let asked = observed.kubernetes.answered && (node.role == Role::Worker || !views.is_empty());
    if is_new || never_bootstrapped || asked { Ok(()) } else { Err(KeptRunning::Unknown) }
}

fn view(name: &str, machine: &Machine) -> Option<View> {
    match &machine.etcd {
        Etcd::Member { id, members: Some(members), .. } => {
            Some(View { node: name.into(), id: id.clone(), members: members.clone() })
        }
        Etcd::Member { members: None, .. } | Etcd::Data | Etcd::Empty | Etcd::Unknown => None,
    }
}

#[cfg(test)]
mod tests;
