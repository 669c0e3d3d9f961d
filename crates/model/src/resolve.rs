//! Decides every name, address, VM id, MAC address and host.

use crate::blueprint::{Blueprint, Inventory};
use crate::diagnostic::{Diagnostic, codes};
use crate::spec::Spec;

/// The blueprint of a file.
///
/// # Errors
/// Everything that stands against it, by path.
pub fn resolve(
    spec: &Spec,
    inventory: Option<&Inventory>,
    cluster_id: Option<&str>,
) -> Result<Blueprint, Vec<Diagnostic>> {
    let _ = (spec, inventory, cluster_id);
    Err(vec![Diagnostic::error(codes::NO_CONTROL_PLANE, "not yet")])
}
