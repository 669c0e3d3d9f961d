//! Numbers and identifiers that look like chance and are the same in each run.

use sha2::{Digest as _, Sha256};

/// A number that follows from what is named and nothing else.
pub(crate) fn stable_number(parts: &[&str]) -> u64 {
    let digest = Sha256::digest(parts.join("\u{0}"));
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&digest[..8]);
    u64::from_be_bytes(bytes)
}

/// A uuid that follows from what is named and nothing else.
pub(crate) fn stable_uuid(parts: &[&str]) -> String {
    let text = parts.join("\u{0}");
    let halves = [stable_number(&[&text, "first half"]), stable_number(&[&text, "second half"])];
    uuid::Builder::from_u128(u128::from(halves[0]) << 64 | u128::from(halves[1]))
        .with_version(uuid::Version::Random)
        .with_variant(uuid::Variant::RFC4122)
        .into_uuid()
        .to_string()
}
