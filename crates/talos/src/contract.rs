//! The version contract: which release's form of configuration is wanted.
//!
//! It decides only what a generator writes. A node takes what its own release knows, so a contract may be older than the
//! node but never newer. The gates below are the whole difference between the contracts that this crate writes.

use std::{fmt, str::FromStr};

/// The form of configuration of one Talos release line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Contract {
    minor: u32,
}

/// A version that is none, or none that this crate writes configuration for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ContractError {
    /// Not of the form `v1.13` or `v1.13.9`.
    #[error("{text:?} is not a Talos version; write it like v1.13.9")]
    Malformed {
        /// What was given.
        text: String,
    },
    /// A version outside of the supported lines.
    #[error("there is no configuration contract for Talos {text}; known are {OLDEST} to {NEWEST}")]
    Unknown {
        /// What was given.
        text: String,
    },
}

pub const OLDEST: Contract = Contract { minor: 9 };

pub const NEWEST: Contract = Contract { minor: 14 };

impl Contract {
    /// Reads the contract of a version such as `v1.13`, `1.13.9` or `v1.14.0-rc.1`.
    ///
    /// # Errors
    ///
    /// Where the text is no version or its line has no contract here.
    pub fn parse(text: &str) -> Result<Self, ContractError> {
        let malformed = || ContractError::Malformed { text: text.to_owned() };
        let mut parts = text.strip_prefix('v').unwrap_or(text).split('.');
        let (major, minor) = (parts.next().ok_or_else(malformed)?, parts.next().ok_or_else(malformed)?);
        let (major, minor): (u32, u32) =
            (major.parse().map_err(|_| malformed())?, minor.parse().map_err(|_| malformed())?);
        let contract = Self { minor };
        if major == 1 && (OLDEST..=NEWEST).contains(&contract) {
            Ok(contract)
        } else {
            Err(ContractError::Unknown { text: text.to_owned() })
        }
    }

    /// The number after `1.`.
    #[must_use]
    pub fn minor(self) -> u32 {
        self.minor
    }

    /// Host name, network and registries are documents of their own; some features are always on and not written.
    pub(crate) fn network_documents(self) -> bool {
        self.minor >= 12
    }

    /// `machine.network` is written even when there is nothing in it.
    pub(crate) fn empty_network(self) -> bool {
        self.minor <= 12
    }

    /// Kubernetes, discovery, installation and kernel settings are documents of their own.
    pub(crate) fn kubernetes_documents(self) -> bool {
        self.minor >= 14
    }
}

impl FromStr for Contract {
    type Err = ContractError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text)
    }
}

impl fmt::Display for Contract {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v1.{}", self.minor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_all_spellings_name_their_contract() {
        for text in ["v1.13.9", "1.13", "v1.13", "v1.13.0-alpha.2"] {
            assert_eq!(Contract::parse(text).unwrap().minor(), 13, "{text}");
        }
    }

    #[test]
    fn what_is_no_supported_version_is_refused() {
        for text in ["", "v1", "1.x", "latest", "v1.13-rc.1"] {
            assert!(matches!(Contract::parse(text), Err(ContractError::Malformed { .. })), "{text}");
        }
        for text in ["v1.8.0", "v1.15.0", "v2.13.0"] {
            assert!(matches!(Contract::parse(text), Err(ContractError::Unknown { .. })), "{text}");
        }
    }
}
