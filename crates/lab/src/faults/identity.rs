//! What goes wrong with proving a machine's identity: its console, its certificate, and who stands in front of it.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// What is wrong with the serial console of a VM.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ConsoleFault {
    /// It opens, and never prints anything.
    Silent,
    /// The connection is closed so long after the console was opened.
    Cut(Duration),
    /// Every line comes so much later.
    Slow(Duration),
    /// The guest writes megabytes without an end of line first.
    Flood,
}

impl fmt::Display for ConsoleFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Silent => f.write_str("its console is silent"),
            Self::Cut(after) => write!(f, "its console is cut after {} s", after.as_secs_f64()),
            Self::Slow(by) => write!(f, "its console is late by {} s", by.as_secs_f64()),
            Self::Flood => f.write_str("its console is flooded"),
        }
    }
}

/// What a relay was sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Relayed {
    /// The VM of the machine that it stands in front of.
    pub vmid: u32,
    /// The service and method.
    pub path: String,
    /// The machine config that came with it, if one did.
    pub config: Option<String>,
}

/// What is wrong with the identity of machines, by their VMs.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Identity {
    pub(super) consoles: BTreeMap<u32, ConsoleFault>,
    pub(super) relays: std::collections::BTreeSet<u32>,
    pub(super) relayed: Vec<Relayed>,
    /// How many connections to the maintenance API still meet a certificate that was issued at that moment.
    pub(super) reissues: BTreeMap<u32, u32>,
}

impl Identity {
    /// Nothing is wrong any more. What a relay was sent, it has.
    pub(super) fn clear(&mut self) {
        self.consoles.clear();
        self.relays.clear();
        self.reissues.clear();
    }

    pub(super) fn words(&self) -> impl Iterator<Item = String> {
        let consoles = self.consoles.iter().map(|(vmid, fault)| format!("VM {vmid}: {fault}"));
        let relays = self.relays.iter().map(|vmid| {
            let configs = self.relayed.iter().filter(|sent| sent.vmid == *vmid && sent.config.is_some()).count();
            format!("VM {vmid}: a relay stands in front of its maintenance API and has received {configs} machine configs")
        });
        let reissues = self.reissues.iter().map(|(vmid, times)| {
            format!("VM {vmid}: the next {times} connections to its maintenance API meet a new certificate")
        });
        consoles.chain(relays).chain(reissues)
    }
}

impl super::Faults {
    /// What is wrong with the console of a VM.
    pub(crate) fn console(&self, vmid: u32) -> Option<ConsoleFault> {
        self.identity.consoles.get(&vmid).copied()
    }

    pub(crate) fn set_console(&mut self, vmid: u32, fault: Option<ConsoleFault>) {
        match fault {
            Some(fault) => drop(self.identity.consoles.insert(vmid, fault)),
            None => drop(self.identity.consoles.remove(&vmid)),
        }
    }

    /// Whether a relay stands in front of the maintenance API of a machine.
    pub(crate) fn has_relay(&self, vmid: u32) -> bool {
        self.identity.relays.contains(&vmid)
    }

    pub(crate) fn set_relay(&mut self, vmid: u32, present: bool) {
        if present {
            self.identity.relays.insert(vmid);
        } else {
            self.identity.relays.remove(&vmid);
        }
    }

    /// Everything that relays were sent, in its order.
    #[must_use]
    pub fn relayed(&self) -> &[Relayed] {
        &self.identity.relayed
    }

    /// A relay was sent something.
    pub(crate) fn relay(&mut self, sent: Relayed) {
        self.identity.relayed.push(sent);
    }

    pub(crate) fn set_reissues(&mut self, vmid: u32, connections: u32) {
        if connections == 0 {
            self.identity.reissues.remove(&vmid);
        } else {
            self.identity.reissues.insert(vmid, connections);
        }
    }

    /// Counts a connection to the maintenance API; says whether it is to meet a new certificate.
    pub(crate) fn meets_reissue(&mut self, vmid: u32) -> bool {
        let Some(left) = self.identity.reissues.get_mut(&vmid) else { return false };
        *left -= 1;
        if *left == 0 {
            self.identity.reissues.remove(&vmid);
        }
        true
    }

    /// What is wrong with the identity of machines, in words.
    pub(crate) fn identity_words(&self) -> Vec<String> {
        self.identity.words().collect()
    }
}
