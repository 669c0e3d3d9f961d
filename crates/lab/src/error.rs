//! What can go wrong while a lab is opened or served.

use std::net::SocketAddr;
use std::path::PathBuf;

/// Why a lab could not be opened or served.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// The folder or its file could not be used.
    #[error("cannot {what} {}", path.display())]
    Folder {
        /// What was attempted.
        what: &'static str,
        /// On which file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// The saved world is not one of ours.
    #[error("the lab state saved in {} cannot be read", path.display())]
    Saved {
        /// The file.
        path: PathBuf,
        /// Where it went wrong.
        #[source]
        source: serde_json::Error,
    },
    /// No host was configured.
    #[error("a lab needs at least one Proxmox host")]
    NoHosts,
    /// A schematic in the configuration is none.
    #[error("the factory does not take a schematic of the configuration: {why}")]
    Schematic {
        /// Its words.
        why: String,
    },
    /// A key or certificate could not be made.
    #[error("cannot make the certificate of {whose}")]
    Certificate {
        /// The host or server whose certificate it is.
        whose: String,
        /// Why not.
        #[source]
        source: rcgen::Error,
    },
    /// A key or certificate in the world cannot be served.
    #[error("cannot use the certificate of {whose}")]
    Tls {
        /// The host or server whose certificate it is.
        whose: String,
        /// Why not.
        #[source]
        source: rustls::Error,
    },
    /// A loopback port could not be taken.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address that was asked for.
        address: SocketAddr,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
}

impl LabError {
    /// What a person can do about it.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Saved { .. } => {
                Some("the folder was written by another version; reset the lab to start with a new state")
            }
            Self::Listen { source, .. } if source.kind() == std::io::ErrorKind::AddrInUse => {
                Some("another program, perhaps another lab, listens there; stop it or choose another port")
            }
            _ => None,
        }
    }
}
