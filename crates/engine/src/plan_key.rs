//! The key that authenticates saved plans ([`crate::saved`]).

use aws_lc_rs::hmac;
use talos::secrets::Bundle;

/// Sets this use of the bundle's key apart from any other.
const PURPOSE: &[u8] = b"talosmith saved plan";

/// The key that authenticates saved plans of one cluster. It is derived from the bundle, and nothing else can be derived from it.
pub struct PlanKey(hmac::Key);

impl std::fmt::Debug for PlanKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PlanKey")
    }
}

impl PlanKey {
    /// Of the cluster with this bundle.
    #[must_use]
    pub fn of(bundle: &Bundle) -> Self {
        let root = hmac::Key::new(hmac::HMAC_SHA256, bundle.os().key.expose().as_bytes());
        Self(hmac::Key::new(hmac::HMAC_SHA256, hmac::sign(&root, PURPOSE).as_ref()))
    }

    pub(crate) fn sign(&self, bytes: &[u8]) -> String {
        hex::encode(hmac::sign(&self.0, bytes))
    }

    pub(crate) fn verifies(&self, bytes: &[u8], tag: &str) -> bool {
        hex::decode(tag).is_ok_and(|tag| hmac::verify(&self.0, bytes, &tag).is_ok())
    }
}
