//! Whether etcd takes a new member. Without a majority it takes none: an empty control plane node that is made then never joins, and
//! one more machine beside the lost ones makes recovery harder.

use std::fmt;

use super::{Quorum, Standing, standing};
use crate::blueprint::Blueprint;
use crate::names::NodeName;
use crate::observed::{Etcd, Observed};

/// Why etcd takes no new member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Closed {
    /// Members answer, and they are no majority, or do not tell whether there is one.
    NoMajority(Box<Standing>),
    /// It exists, by its data or by the record, and no member of it answers.
    NoMember {
        /// The control plane nodes of the file.
        unresponsive: Vec<NodeName>,
    },
}

impl fmt::Display for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoMajority(standing) => standing.fmt(f),
            Self::NoMember { unresponsive } => {
                write!(f, "it was bootstrapped, and no member of it answers ({})", unresponsive.join(", "))
            }
        }
    }
}

impl Closed {
    /// What the operator can do.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        match self {
            Self::NoMajority(standing) if standing.quorum == Quorum::Unknown => {
                "run the command again; if members still do not tell, look at them with `talosmith health`"
            }
            Self::NoMajority(_) | Self::NoMember { .. } => {
                "bring the control plane nodes that have etcd's data back until a majority of the members answers, then run the command \
                 again. If a majority is lost for good, restore the VMs from a backup in Proxmox, or etcd from a snapshot"
            }
        }
    }
}

/// Whether a new control plane node could join etcd, as far as was observed. Where etcd does not exist yet, it can.
///
/// # Errors
///
/// The reason against it.
pub fn admits(blueprint: &Blueprint, observed: &Observed) -> Result<(), Closed> {
    let Some(standing) = standing(blueprint, &observed.machines) else {
        let mark = observed.proxmox.record.as_ref().and_then(|record| record.state.bootstrap.as_ref());
        let has_data =
            |name: &NodeName| observed.machines.get(name).is_some_and(|machine| machine.etcd == Etcd::Data);
        let names: Vec<NodeName> = blueprint.control_planes().map(|node| node.name.clone()).collect();
        let exists = mark.is_some_and(|mark| mark.done) || names.iter().any(has_data);
        return if exists { Err(Closed::NoMember { unresponsive: names }) } else { Ok(()) };
    };
    let open = match (standing.quorum, standing.voters) {
        (Quorum::Holds, Some(voters)) => (voters - standing.unresponsive.len().min(voters)) * 2 > voters,
        // A leader is seen, so a majority is there.
        (Quorum::Holds, None) => true,
        (Quorum::Lost | Quorum::Unknown, _) => false,
    };
    if open { Ok(()) } else { Err(Closed::NoMajority(Box::new(standing))) }
}
