//! The secrets of a cluster: what must be kept, because nothing else can be made again from the file.
//!
//! A [`Bundle`] is the same as `talosctl`'s `secrets.yaml`, which it reads and writes. Texts are held as PEM; the base64
//! around it belongs to the file. Nothing of it shows in `Debug`, and memory is wiped when a bundle goes.

mod file;
mod generate;
mod identities;
mod tofu;

use std::fmt;

pub use identities::{kubernetes_admin, talos_client};

use crate::{keys::KeyGenerationError, pki::PkiError, secret::Secret, yaml::YamlError};

/// A certificate and its key, both as PEM.
#[derive(Clone)]
pub struct KeyPair {
    /// The certificate; no secret.
    pub certificate: String,
    /// Its private key.
    pub key: Secret,
}

/// The key with which etcd's contents are encrypted.
#[derive(Clone)]
pub enum EtcdEncryption {
    /// The form since Talos 1.3.
    Secretbox(Secret),
    /// The form of clusters that were made before.
    AesCbc(Secret),
}

/// Everything secret that a cluster has.
#[derive(Clone)]
pub struct Bundle {
    pub(crate) cluster_id: String,
    pub(crate) cluster_secret: Secret,
    pub(crate) bootstrap_token: Secret,
    pub(crate) etcd_encryption: EtcdEncryption,
    pub(crate) machine_token: Secret,
    pub(crate) etcd: KeyPair,
    pub(crate) kubernetes: KeyPair,
    pub(crate) aggregator: KeyPair,
    pub(crate) service_account: Secret,
    pub(crate) os: KeyPair,
}

impl Bundle {
    /// The cluster's id: not secret, and different for each bundle.
    #[must_use]
    pub fn cluster_id(&self) -> &str {
        &self.cluster_id
    }

    /// The authority of the Talos API.
    #[must_use]
    pub fn os(&self) -> &KeyPair {
        &self.os
    }

    /// The authority of Kubernetes.
    #[must_use]
    pub fn kubernetes(&self) -> &KeyPair {
        &self.kubernetes
    }

    /// The authority of etcd.
    #[must_use]
    pub fn etcd(&self) -> &KeyPair {
        &self.etcd
    }
}

impl fmt::Debug for Bundle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bundle").field("cluster_id", &self.cluster_id).finish_non_exhaustive()
    }
}

impl fmt::Debug for KeyPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyPair").finish_non_exhaustive()
    }
}

/// One thing that is wrong with a bundle.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {reason}")]
pub struct BundleProblem {
    /// Where in the file, as keys joined by dots.
    pub path: &'static str,
    /// What is wrong.
    pub reason: &'static str,
}

/// Why a bundle could not be made or read.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    /// The file is not YAML.
    #[error("read a secrets bundle")]
    Yaml(#[from] YamlError),
    /// The file is not one mapping.
    #[error("a secrets bundle is one YAML document with the keys cluster, secrets, trustdinfo and certs")]
    NotABundle,
    /// A state has no secrets of Talos in it.
    #[error("the state holds no resource of the type talos_machine_secrets")]
    NotInState,
    /// A state has the secrets of several clusters.
    #[error(
        "the state holds {count} resources of the type talos_machine_secrets; hand in the attributes of one"
    )]
    SeveralInState {
        /// How many.
        count: usize,
    },
    /// Parts of it are missing or not sound; all of them are listed.
    #[error("the secrets bundle is not complete: {}", list(.0))]
    Unsound(Vec<BundleProblem>),
    /// A key could not be made.
    #[error("make the {what} of a new secrets bundle")]
    Generate {
        /// What was being made.
        what: &'static str,
        /// What failed.
        #[source]
        source: KeyGenerationError,
    },
    /// A certificate could not be made.
    #[error("make the {what} certificate of a new secrets bundle")]
    Certificate {
        /// What was being made.
        what: &'static str,
        /// What failed.
        #[source]
        source: PkiError,
    },
}

fn list(problems: &[BundleProblem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}
