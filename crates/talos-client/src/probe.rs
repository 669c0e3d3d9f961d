//! What a port says about the machine behind it.

use std::io;
use std::net::IpAddr;

use ambient::{Clock, Net};

use crate::error::{Error, Kind};
use crate::{Credentials, Machine, Maintenance, Version};

/// What was found at an address.
#[derive(Debug)]
pub enum Probe {
    /// The port is closed: booting, restarting, switching from maintenance, or a worker that cannot reach a control plane.
    Refused,
    /// Nothing can be reached there.
    Unreachable(io::ErrorKind),
    /// A machine without a configuration.
    Maintenance {
        /// Its release.
        version: Version,
    },
    /// A configured machine: ours, if credentials were given.
    Configured {
        /// Its release; nothing where no credentials were given or it did not tell.
        version: Option<Version>,
    },
    /// A configured machine of another authority.
    WrongAuthority {
        /// The certificate that it showed, in DER.
        certificate: Vec<u8>,
    },
    /// A machine of our authority that does not accept our certificate.
    NotAccepted(Error),
    /// Something else; the error tells what is known.
    Unclear(Error),
}

/// Finds out what is at `address`. Sends nothing that is secret. The caller sets the limit of time.
pub async fn probe(net: &Net, clock: &Clock, address: IpAddr, credentials: Option<&Credentials>) -> Probe {
    if let Some(credentials) = credentials {
        let version = match Machine::connect(net, clock, address, credentials) {
            Ok(machine) => machine.version().await,
            Err(error) => return Probe::NotAccepted(error),
        };
        match version {
            Ok(version) => return Probe::Configured { version: Some(version) },
            Err(error) => match error.kind() {
                Kind::Untrusted => {}
                Kind::Rejected | Kind::Clock => return Probe::NotAccepted(error),
                Kind::Unavailable | Kind::Protocol => return unreachable(error),
                // It spoke with us over mutual TLS, whatever it said.
                _ => return Probe::Configured { version: None },
            },
        }
    }
    let maintenance = match Maintenance::connect(net, clock, address).await {
        Ok(maintenance) => maintenance,
        Err(error) => return unreachable(error),
    };
    match maintenance.version().await {
        Ok(version) => Probe::Maintenance { version },
        Err(error) if error.kind() == Kind::Rejected => match credentials {
            Some(_) => Probe::WrongAuthority { certificate: maintenance.certificate().to_vec() },
            None => Probe::Configured { version: None },
        },
        Err(error) => Probe::Unclear(error),
    }
}

fn unreachable(error: Error) -> Probe {
    match error.io_kind() {
        Some(io::ErrorKind::ConnectionRefused) => Probe::Refused,
        Some(
            kind @ (io::ErrorKind::TimedOut
            | io::ErrorKind::HostUnreachable
            | io::ErrorKind::NetworkUnreachable
            | io::ErrorKind::NotFound),
        ) => Probe::Unreachable(kind),
        _ => Probe::Unclear(error),
    }
}
