//! The golden files of the tests: secrets, and what Talos' own library generates from them.
//!
//! `cargo xtask conformance --goldens` writes them, and every conformance run compares them with the library.

use crate::{config::Role, secrets::Bundle};

/// The secrets bundle as Talos wrote it. It is public.
pub const SECRETS: &str = include_str!("../goldens/secrets.yaml");

/// The secrets bundle of the golden machine configs.
pub fn bundle() -> Bundle {
    Bundle::parse(SECRETS).unwrap()
}

/// The golden machine config of a version contract. A contract without files of its own gives what the one before it gives.
pub fn config(minor: u32, variant: &str, role: Role) -> String {
    let role = match role {
        Role::ControlPlane => "controlplane",
        Role::Worker => "worker",
    };
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/goldens");
    let versions = (9..=minor).rev().map(|minor| format!("{folder}/v1.{minor}"));
    let version = versions.into_iter().find(|version| std::path::Path::new(version).is_dir()).unwrap();
    std::fs::read_to_string(format!("{version}/{variant}-{role}.yaml")).unwrap()
}
