//! What a deletion cannot remove now.

use std::fmt;

use super::{Plan, ownership};
use crate::blueprint::Blueprint;
use crate::observed::Observed;
use crate::step::Action;

/// Something of the cluster that stays after its deletion, or may be something of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Remnant {
    /// A VM whose config could not be read.
    Unread {
        /// The ID of the VM in Proxmox.
        vmid: u32,
        /// Its name, where Proxmox lists it.
        name: Option<String>,
        /// The Proxmox host that it is on.
        host: String,
        /// Whether that host is online, as far as Proxmox knows.
        online: bool,
    },
    /// A VM that Proxmox is still creating.
    Creating {
        /// The ID of the VM in Proxmox.
        vmid: u32,
        /// The Proxmox host that it is on.
        host: String,
        /// Which VM of the cluster has this VM ID.
        whose: String,
    },
    /// The cluster record VM, which is deleted last.
    Record {
        /// The ID of the VM in Proxmox.
        vmid: u32,
        /// The Proxmox host that it is on.
        host: String,
    },
}

impl Remnant {
    /// When it can be removed.
    #[must_use]
    pub fn awaits(&self) -> Option<String> {
        match self {
            Self::Unread { online: true, .. } => Some("it can be read".to_owned()),
            Self::Unread { host, .. } => Some(format!("{host} is back")),
            Self::Creating { .. } => Some("the creation has ended".to_owned()),
            Self::Record { .. } => None,
        }
    }
}

impl fmt::Display for Remnant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unread { vmid, name, host, online } => {
                let name = name.as_ref().map(|name| format!(" ({name})")).unwrap_or_default();
                write!(f, "VM {vmid}{name} on {host} is left: ")?;
                match online {
                    true => f.write_str("it could not be read"),
                    false => write!(f, "{host} is off or cannot be reached"),
                }
            }
            Self::Creating { vmid, host, whose } => write!(
                f,
                "VM {vmid} on {host}, which has the VM ID of {whose}, is left: Proxmox is still creating it"
            ),
            Self::Record { vmid, host } => {
                write!(f, "the cluster record VM {vmid} on {host} is left: it goes last")
            }
        }
    }
}

/// What is left once a plan that deletes the cluster is done. Empty where everything is gone then.
#[must_use]
pub fn remnants(blueprint: &Blueprint, observed: &Observed, plan: &Plan) -> Vec<Remnant> {
    let seen = &observed.proxmox;
    if plan.steps.iter().any(|step| matches!(step.action, Action::DeleteRecord { .. })) {
        return vec![];
    }
    let unread = seen.unread.iter().map(|(vmid, host)| Remnant::Unread {
        vmid: *vmid,
        name: seen.taken.get(vmid).and_then(|guest| guest.name.clone()),
        host: host.clone(),
        online: seen.inventory.hosts.get(host).is_some_and(|known| known.online),
    });
    let creating = seen.creating.iter().map(|(vmid, creation)| Remnant::Creating {
        vmid: *vmid,
        host: creation.host.clone(),
        whose: ownership::whose(blueprint, *vmid),
    });
    let mut left: Vec<Remnant> = unread.chain(creating).collect();
    if !left.is_empty() {
        let record = seen.record.as_ref();
        left.extend(record.map(|seen| Remnant::Record { vmid: seen.vmid, host: seen.host.clone() }));
    }
    left
}
