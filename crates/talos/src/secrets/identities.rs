//! Identities of administrators, from the authorities of a bundle.

use std::time::Duration;

use jiff::Timestamp;

use super::Bundle;
use crate::pki::{Authority, Identity, PkiError};

/// An identity for the Talos API with one role, from the bundle's authority.
///
/// # Errors
///
/// Where the bundle's authority is not sound or no key can be made.
pub fn talos_client(
    bundle: &Bundle,
    role: &str,
    lifetime: Duration,
    now: Timestamp,
) -> Result<Identity, PkiError> {
    let authority = Authority::from_pem(&bundle.os.certificate, bundle.os.key.expose())?;
    authority.issue_for_client(None, role, lifetime, now)
}

/// An identity for Kubernetes with every right, from the bundle's authority.
///
/// # Errors
///
/// Where the bundle's authority is not sound or no key can be made.
pub fn kubernetes_admin(bundle: &Bundle, lifetime: Duration, now: Timestamp) -> Result<Identity, PkiError> {
    let authority = Authority::from_pem(&bundle.kubernetes.certificate, bundle.kubernetes.key.expose())?;
    authority.issue_for_client(Some("admin"), "system:masters", lifetime, now)
}
