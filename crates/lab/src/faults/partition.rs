//! Packets that are lost on the way, one way or the other, between one operator and one kind of server.

use serde::{Deserialize, Serialize};

use super::Faults;
use crate::calls::Service;

/// Packets that get lost.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Partition {
    /// Whose packets, as named in [`crate::Lab::net_of`]; everybody's when there is none.
    pub origin: Option<String>,
    /// Between them and whom.
    pub far: Far,
    /// Which way.
    pub lost: Lost,
}

/// The other side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Far {
    /// All hosts of Proxmox.
    Proxmox,
    /// The Talos API of all machines.
    Machines,
    /// The Talos and the Kubernetes API of the machine of one VM.
    Machine(u32),
    /// The Kubernetes API.
    Kubernetes,
}

/// Which way packets are lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Lost {
    /// On the way there: a call never arrives.
    Requests,
    /// On the way back: a call takes effect, and its answer never arrives.
    Answers,
}

impl Far {
    /// What is cut, in words.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Proxmox => "operator and Proxmox",
            Self::Machines => "operator and machines",
            Self::Machine(_) => "operator and one machine",
            Self::Kubernetes => "operator and Kubernetes",
        }
    }
}

impl Partition {
    fn meets(&self, origin: &str, service: Service, machine: Option<u32>) -> bool {
        let far = match self.far {
            Far::Proxmox => service == Service::Proxmox,
            Far::Machines => service == Service::Talos,
            Far::Machine(vmid) => machine == Some(vmid),
            Far::Kubernetes => service == Service::Kubernetes,
        };
        far && self.origin.as_deref().is_none_or(|own| own == origin)
    }
}

impl Faults {
    /// Cuts a way, or opens it again.
    pub(crate) fn partition(&mut self, which: Partition, cut: bool) {
        self.partitions.retain(|other| *other != which);
        if cut {
            self.partitions.push(which);
        }
    }

    /// Whether a call is lost between an origin and a server, which is counted.
    pub(crate) fn lose(
        &mut self,
        origin: &str,
        service: Service,
        machine: Option<u32>,
        ways: &[Lost],
    ) -> bool {
        let mut cuts = self
            .partitions
            .iter()
            .filter(|cut| ways.contains(&cut.lost) && cut.meets(origin, service, machine));
        let Some(cut) = cuts.next() else { return false };
        *self.partitions_met.entry(cut.far.words().to_owned()).or_default() += 1;
        true
    }
}
