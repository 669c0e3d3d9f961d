//! A machine without a configuration.

use std::io;
use std::net::IpAddr;

use ambient::tls::Connector;
use ambient::{Clock, Net};

use crate::api::Api;
use crate::error::{Error, Kind, Result};
use crate::types::{Address, Applied, ApplyMode, Disk, Link, MachineStatus, Version, Volume};
use crate::{PORT, connection, tls};

/// One connection to a machine in maintenance. Its certificate proves nothing, so a caller that is about to send secrets reads
/// [`Maintenance::system_uuid`] first, over this same connection. When it breaks every call fails: it is never dialled
/// again in silence, because someone else might answer.
#[derive(Debug)]
pub struct Maintenance {
    api: Api,
    certificate: Vec<u8>,
}

impl Maintenance {
    /// Connects.
    ///
    /// # Errors
    ///
    /// When nothing answers there, or it does not speak TLS. A configured machine is not noticed here but by the first
    /// call, which fails with [`Kind::Rejected`].
    pub async fn connect(net: &Net, clock: &Clock, address: IpAddr) -> Result<Self> {
        let attempt = "connecting without credentials";
        let protocol = |why: String| Error::new(address, attempt, Kind::Protocol, why);
        let config = tls::anyone(clock).map_err(|e| protocol(e.to_string()))?;
        let connector = Connector::new(net.clone(), config, PORT);
        let dial = clock.timeout(connection::DIAL_LIMIT, connector.connect(&address.to_string(), PORT)).await;
        let stream = dial.unwrap_or_else(|late| Err(io::Error::new(io::ErrorKind::TimedOut, late)));
        let stream = stream.map_err(|e| Error::of_dial(address, attempt, &e))?;
        let certificate = stream.peer_certificate().unwrap_or_default().to_vec();
        let channel = connection::single(stream, address).await;
        let channel = channel.map_err(|_| protocol("what answers there does not speak HTTP/2".to_owned()))?;
        Ok(Self { api: Api::new(address, clock, channel), certificate })
    }

    /// The certificate that the machine showed, in DER.
    #[must_use]
    pub fn certificate(&self) -> &[u8] {
        &self.certificate
    }

    /// The fingerprint of that certificate as Talos prints it on its console: base64 of the SHA-256 of its public key. Nothing
    /// when the certificate cannot be read.
    #[must_use]
    pub fn fingerprint(&self) -> Option<String> {
        tls::fingerprint(&self.certificate)
    }

    /// The SMBIOS UUID, in lower case.
    ///
    /// # Errors
    ///
    /// As any call; [`Kind::NotFound`] shortly after boot.
    pub async fn system_uuid(&self) -> Result<String> {
        self.api.system_uuid().await
    }

    /// The release. Machines up to 1.12 do not offer the call in maintenance; there the resource of the same name is read.
    ///
    /// # Errors
    ///
    /// As any call.
    pub async fn version(&self) -> Result<Version> {
        let attempt = "reading the version";
        match self.api.version(attempt).await {
            Err(error) if error.kind() == Kind::Unimplemented => self.api.version_resource(attempt).await,
            other => other,
        }
    }

    /// The stage.
    ///
    /// # Errors
    ///
    /// As any call.
    pub async fn stage(&self) -> Result<MachineStatus> {
        self.api.stage().await
    }

    /// The disks, CD drives and read-only ones included.
    ///
    /// # Errors
    ///
    /// As any call.
    pub async fn disks(&self) -> Result<Vec<Disk>> {
        self.api.disks().await
    }

    /// The network links.
    ///
    /// # Errors
    ///
    /// As any call.
    pub async fn links(&self) -> Result<Vec<Link>> {
        self.api.links().await
    }

    /// The addresses of all links.
    ///
    /// # Errors
    ///
    /// As any call.
    pub async fn addresses(&self) -> Result<Vec<Address>> {
        self.api.addresses().await
    }

    /// The volumes. That `STATE` is missing means that no configuration was ever kept.
    ///
    /// # Errors
    ///
    /// As any call.
    pub async fn volumes(&self) -> Result<Vec<Volume>> {
        self.api.volumes().await
    }

    /// Has the machine check a configuration without taking it.
    ///
    /// # Errors
    ///
    /// [`Kind::InvalidConfig`] when it would not take it.
    pub async fn apply_dry_run(&self, config: &[u8]) -> Result<Applied> {
        self.api.apply(config, ApplyMode::Auto, true).await
    }

    /// Hands over the configuration and closes the connection, because an open one delays the switch.
    ///
    /// There is only one mode: tried out, a configuration that is taken back leaves the machine without any API, and one
    /// that is staged is lost, because a fresh disk has no place to keep it.
    ///
    /// # Errors
    ///
    /// [`Kind::InvalidConfig`]; [`Kind::Denied`] when the machine has a configuration already and is about to switch;
    /// [`Kind::Unavailable`] leaves open whether it was taken.
    pub async fn apply(self, config: &[u8]) -> Result<Applied> {
        self.api.apply(config, ApplyMode::Auto, false).await
    }
}
