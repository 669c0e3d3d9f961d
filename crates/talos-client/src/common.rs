//! Questions that a machine answers in maintenance and afterwards alike.

use serde::Deserialize;
use talos::wire::machine;
use talos::wire::machine::apply_configuration_request::Mode;

use crate::api::{Api, QUESTION, WORK};
use crate::cosi;
use crate::error::{Kind, Result};
use crate::types::{Address, Applied, ApplyMode, Disk, Link, MachineStatus, Version, Volume};

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
    pub(crate) async fn version(&self, attempt: &'static str) -> Result<Version> {
        let message = self.ask(attempt, QUESTION, self.services().version(())).await?;
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
            return Err(self.failure(attempt, Kind::NotFound, "the machine has no SMBIOS UUID"));
        }
        Ok(found.uuid.to_ascii_lowercase())
    }

    pub(crate) async fn stage(&self) -> Result<MachineStatus> {
        let status: MachineStatus = self.get_at("reading the stage", cosi::MACHINE_STATUS).await?;
        self.saw(&status.stage);
        Ok(status)
    }

    pub(crate) async fn disks(&self) -> Result<Vec<Disk>> {
        let disks = self.list("listing the disks", "runtime", "Disks.block.talos.dev").await?;
        Ok(disks.into_iter().map(|(_, _, disk)| disk).collect())
    }

    pub(crate) async fn links(&self) -> Result<Vec<Link>> {
        let links = self.list("listing the network links", "network", "LinkStatuses.net.talos.dev").await?;
        Ok(links.into_iter().map(|(name, _, link)| Link { name, ..link }).collect())
    }

    pub(crate) async fn addresses(&self) -> Result<Vec<Address>> {
        let kind = "AddressStatuses.net.talos.dev";
        let found = self.list("listing the addresses", "network", kind).await?;
        Ok(found.into_iter().map(|(_, _, address)| address).collect())
    }

    pub(crate) async fn volumes(&self) -> Result<Vec<Volume>> {
        let kind = "VolumeStatuses.block.talos.dev";
        let found = self.list("listing the volumes", "runtime", kind).await?;
        Ok(found.into_iter().map(|(name, _, volume)| Volume { name, ..volume }).collect())
    }

    /// The mode is always said outright: unset would mean REBOOT, which 1.14 refuses and others obey.
    pub(crate) async fn apply(&self, config: &[u8], mode: ApplyMode, dry_run: bool) -> Result<Applied> {
        let attempt = if dry_run { "checking the configuration" } else { "applying the configuration" };
        let (mode, timeout) = match mode {
            ApplyMode::Auto => (Mode::Auto, None),
            ApplyMode::NoReboot => (Mode::NoReboot, None),
            ApplyMode::Staged => (Mode::Staged, None),
            ApplyMode::Try(limit) => (Mode::Try, limit.try_into().ok()),
        };
        let request = machine::ApplyConfigurationRequest {
            data: config.to_vec(),
            mode: mode.into(),
            dry_run,
            try_mode_timeout: timeout,
        };
        let mut services = self.services();
        let call = services.apply_configuration(request);
        let answer = self.limited_by(attempt, WORK, call, Self::apply_error).await?;
        let message = self.one(attempt, answer.into_inner())?;
        // The details hold a diff with keys in clear: all that is taken from them is whether there is one.
        Ok(Applied {
            reboots: message.mode == i32::from(Mode::Reboot),
            unchanged: message.mode_details.contains("No changes."),
            warnings: message.warnings,
        })
    }
}
