//! What a step must show before it disrupts anything.
//!
//! A node is disrupted only with the permit of its unit, which only the gate gives ([`model::gate`]). A VM is stopped or deleted only with
//! such a permit, or because the whole cluster is deleted; a run that deletes the cluster has that authority from the start, and no step
//! can create it.

use model::gate::{Effect, Permit};
use model::step::Action;

use crate::context::{Context, Destruction};
use crate::error::{Error, Kind, Result};

/// The code of a step that would disrupt a node without a permit.
const CODE: &str = "no-permit";

/// Why a VM may be stopped or deleted.
#[derive(Clone, Copy)]
pub(crate) enum Authority<'a> {
    /// The gate allows it.
    Permit(&'a Permit),
    /// The whole cluster is deleted.
    #[expect(dead_code, reason = "it proves that the run deletes the cluster, and says nothing more")]
    Destroy(&'a Destruction),
}

impl<'a> Authority<'a> {
    /// The authority of a step that stops or deletes a VM.
    pub(super) fn of(context: &'a Context, permit: Option<&'a Permit>, action: &Action) -> Result<Self> {
        match (permit, context.destruction()) {
            (Some(permit), _) => Ok(Self::Permit(permit)),
            (None, Some(destruction)) => Ok(Self::Destroy(destruction)),
            (None, None) => of(None, action).map(Self::Permit),
        }
    }

    /// Whether it covers the VM of this node.
    pub(super) fn check(self, node: &str) -> Result<()> {
        match self {
            Self::Permit(permit) => check(permit, node, Effect::Removal),
            Self::Destroy(_) => Ok(()),
        }
    }
}

/// The permit of a step that disrupts.
pub(super) fn of<'a>(permit: Option<&'a Permit>, action: &Action) -> Result<&'a Permit> {
    permit.ok_or_else(|| refused(format!("could not {}: it is not part of a unit", action.describe())))
}

/// The authority of a step that belongs to the deletion of the whole cluster.
pub(super) fn destruction<'a>(context: &'a Context, action: &Action) -> Result<&'a Destruction> {
    context.destruction().ok_or_else(|| {
        refused(format!("could not {}: this run does not delete the cluster", action.describe()))
    })
}

/// Refuses unless the permit allows to disrupt this node in this way.
pub(super) fn check(permit: &Permit, node: &str, effect: Effect) -> Result<()> {
    match permit.covers(node, effect) {
        true => Ok(()),
        false => {
            let request = permit.request();
            Err(refused(format!(
                "could not disrupt {node}: the permit of {} does not cover it",
                request.unit
            )))
        }
    }
}

fn refused(what: String) -> Error {
    Error::new(Kind::Refused, what)
        .coded(CODE)
        .hint("this is a bug in Talosmith; report it together with the cluster file. Nothing was disrupted")
}
