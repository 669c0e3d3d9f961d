//! What both faces of a machine share: the services, and how their failures are explained.

use std::net::IpAddr;

use serde::Deserialize;
use talos::wire::MAX_MESSAGE_SIZE;
use talos::wire::cosi::state_client::StateClient;
use talos::wire::machine::apply_configuration_request::Mode;
use talos::wire::machine::machine_service_client::MachineServiceClient;
use talos::wire::{common, machine};
use tonic::Status;
use tonic::transport::Channel;

use crate::connection::Faults;
use crate::cosi;
use crate::error::{Error, Kind, Result};
use crate::types::{Applied, Disk, Link, MachineStatus, Version};

#[derive(Debug, Clone)]
pub(crate) struct Api {
    address: IpAddr,
    channel: Channel,
    faults: Faults,
}

#[derive(Deserialize)]
struct SystemInformation {
    #[serde(default)]
    uuid: String,
}

#[derive(Deserialize)]
struct VersionSpec {
    version: String,
}

impl Api {
    pub(crate) fn new(address: IpAddr, (channel, faults): (Channel, Faults)) -> Self {
        Self { address, channel, faults }
    }

    pub(crate) fn address(&self) -> IpAddr {
        self.address
    }

    pub(crate) fn services(&self) -> MachineServiceClient<Channel> {
        MachineServiceClient::new(self.channel.clone())
            .max_decoding_message_size(MAX_MESSAGE_SIZE)
            .max_encoding_message_size(MAX_MESSAGE_SIZE)
    }

    pub(crate) fn resources(&self) -> StateClient<Channel> {
        StateClient::new(self.channel.clone()).max_decoding_message_size(MAX_MESSAGE_SIZE)
    }

    pub(crate) fn error(&self, attempt: &'static str, status: &Status) -> Error {
        Error::of_status(self.address, attempt, status, self.faults.last().as_ref())
    }

    /// The one message of an answer. A failure may hide in its metadata.
    pub(crate) fn one<T>(
        &self,
        attempt: &'static str,
        messages: Vec<T>,
        metadata: impl Fn(&T) -> Option<&common::Metadata>,
    ) -> Result<T> {
        let empty = || Error::new(self.address, attempt, Kind::Protocol, "the answer is empty");
        let message = messages.into_iter().next().ok_or_else(empty)?;
        match metadata(&message) {
            Some(metadata) if !metadata.error.is_empty() => {
                let status = metadata.status.as_ref();
                let code = status.map_or(tonic::Code::Unknown, |s| tonic::Code::from_i32(s.code));
                Err(self.error(attempt, &Status::new(code, metadata.error.clone())))
            }
            _ => Ok(message),
        }
    }

    pub(crate) async fn version(&self, attempt: &'static str) -> Result<Version> {
        let answer = self.services().version(()).await.map_err(|status| self.error(attempt, &status))?;
        let message = self.one(attempt, answer.into_inner().messages, |m| m.metadata.as_ref())?;
        let version = message.version.unwrap_or_default();
        let platform = message.platform.unwrap_or_default();
        Ok(Version { tag: version.tag, arch: version.arch, platform: platform.name })
    }

    pub(crate) async fn version_resource(&self, attempt: &'static str) -> Result<Version> {
        let spec: VersionSpec = self.get_at(attempt, cosi::VERSION).await?;
        Ok(Version { tag: spec.version, ..Version::default() })
    }

    pub(crate) async fn system_uuid(&self) -> Result<String> {
        let attempt = "reading the hardware's identity";
        let found: SystemInformation = self.get_at(attempt, cosi::SYSTEM_INFORMATION).await?;
        if found.uuid.is_empty() {
            return Err(Error::new(self.address, attempt, Kind::NotFound, "the machine has no SMBIOS UUID"));
        }
        Ok(found.uuid.to_ascii_lowercase())
    }

    pub(crate) async fn stage(&self) -> Result<MachineStatus> {
        self.get_at("reading the stage", cosi::MACHINE_STATUS).await
    }

    pub(crate) async fn disks(&self) -> Result<Vec<Disk>> {
        let disks = self.list("listing the disks", "runtime", "Disks.block.talos.dev").await?;
        Ok(disks.into_iter().map(|(_, _, disk)| disk).collect())
    }

    pub(crate) async fn links(&self) -> Result<Vec<Link>> {
        let links = self.list("listing the network links", "network", "LinkStatuses.net.talos.dev").await?;
        Ok(links.into_iter().map(|(name, _, link)| Link { name, ..link }).collect())
    }

    /// Mode AUTO is said outright: unset would mean REBOOT.
    pub(crate) async fn apply(&self, config: &[u8], dry_run: bool) -> Result<Applied> {
        let attempt = if dry_run { "checking the configuration" } else { "applying the configuration" };
        let request = machine::ApplyConfigurationRequest {
            data: config.to_vec(),
            mode: Mode::Auto.into(),
            dry_run,
            try_mode_timeout: None,
        };
        let answer =
            self.services().apply_configuration(request).await.map_err(|status| {
                Error::of_apply(self.address, attempt, &status, self.faults.last().as_ref())
            })?;
        let message = self.one(attempt, answer.into_inner().messages, |m| m.metadata.as_ref())?;
        // The details hold a diff with keys in clear and are dropped here.
        Ok(Applied { reboots: message.mode == i32::from(Mode::Reboot), warnings: message.warnings })
    }
}
