//! What machines tell, in our own words.

use serde::Deserialize;

/// The release a machine runs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Version {
    /// The tag, such as `v1.13.9`.
    pub tag: String,
    /// `amd64` or `arm64`; empty where the machine does not tell.
    pub arch: String,
    /// The platform, such as `nocloud` or `metal`; empty where the machine does not tell.
    pub platform: String,
}

/// Where a machine is in its life, and what it still waits for.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(from = "WireStatus")]
pub struct MachineStatus {
    /// The stage. Look at it first: `ready` is also true in stages that say nothing about health.
    pub stage: Stage,
    /// Whether nothing is missing.
    pub ready: bool,
    /// What is missing.
    pub unmet: Vec<UnmetCondition>,
}

impl MachineStatus {
    /// Whether the machine is up and misses nothing. The stage counts first: installing, restarting or in maintenance,
    /// a machine calls itself ready as well.
    #[must_use]
    pub fn is_up(&self) -> bool {
        self.stage == Stage::Running && self.ready
    }
}

/// The stages of a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stage {
    /// On the way up. A control plane stays here until etcd is bootstrapped.
    Booting,
    /// Writing itself to disk; it restarts afterwards.
    Installing,
    /// Without a configuration.
    Maintenance,
    /// Up.
    Running,
    /// Restarting.
    Rebooting,
    /// Switching off.
    ShuttingDown,
    /// Wiping itself.
    Resetting,
    /// Changing its release.
    Upgrading,
    /// Another word.
    Other(String),
}

impl std::fmt::Display for Stage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Booting => "booting",
            Self::Installing => "installing",
            Self::Maintenance => "maintenance",
            Self::Running => "running",
            Self::Rebooting => "rebooting",
            Self::ShuttingDown => "shutting down",
            Self::Resetting => "resetting",
            Self::Upgrading => "upgrading",
            Self::Other(word) => word,
        })
    }
}

impl From<String> for Stage {
    fn from(word: String) -> Self {
        let stages = [
            Self::Booting,
            Self::Installing,
            Self::Maintenance,
            Self::Running,
            Self::Rebooting,
            Self::ShuttingDown,
            Self::Resetting,
            Self::Upgrading,
        ];
        stages.into_iter().find(|stage| stage.to_string() == word).unwrap_or(Self::Other(word))
    }
}

/// Something that a machine still waits for.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct UnmetCondition {
    /// `time`, `network`, `services`, `staticPods` or `nodeReady`.
    pub name: String,
    /// Why.
    #[serde(default)]
    pub reason: String,
}

#[derive(Deserialize)]
struct WireStatus {
    #[serde(default)]
    stage: String,
    #[serde(default)]
    status: WireReady,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct WireReady {
    ready: bool,
    unmet_conditions: Option<Vec<UnmetCondition>>,
}

impl From<WireStatus> for MachineStatus {
    fn from(wire: WireStatus) -> Self {
        let unmet = wire.status.unmet_conditions.unwrap_or_default();
        Self { stage: wire.stage.into(), ready: wire.status.ready, unmet }
    }
}

/// A system extension of an image.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
pub struct Extension {
    /// Its name, such as `iscsi-tools`.
    pub name: String,
    /// Its version; of the schematic its ID.
    #[serde(default)]
    pub version: String,
}

impl Extension {
    /// Whether it only names the schematic that the Image Factory built the image from.
    #[must_use]
    pub fn is_schematic(&self) -> bool {
        self.name == "schematic"
    }
}

/// A service of a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Service {
    /// Its name, such as `etcd`.
    pub id: String,
    /// `Preparing`, `Waiting`, `Running`, `Finished`, `Failed`, …
    pub state: String,
    /// Whether it is healthy; nothing while that is not known.
    pub healthy: Option<bool>,
    /// The newest that it said about itself.
    pub message: String,
    /// What happened to it, oldest first, as far as the machine remembers.
    pub events: Vec<String>,
}

/// A disk of a machine.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default)]
pub struct Disk {
    /// Its device, such as `/dev/sda`.
    pub dev_path: String,
    /// Its size in bytes.
    pub size: u64,
    /// Whether it cannot be written.
    pub readonly: bool,
    /// Whether it is a CD drive.
    pub cdrom: bool,
    pub model: String,
    /// Its serial number.
    pub serial: String,
    /// Its world-wide id.
    pub wwid: String,
    /// How it is attached, such as `virtio`.
    pub transport: String,
}

impl Disk {
    /// Whether something can be kept on it: no CD drive, and not the read-only device that Talos itself runs from.
    #[must_use]
    pub fn is_writable(&self) -> bool {
        !self.cdrom && !self.readonly
    }
}

/// A network link of a machine.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Link {
    /// Its name, such as `eth0`.
    #[serde(skip)]
    pub name: String,
    /// `ether`, `loopback`, …
    #[serde(rename = "type")]
    pub kind: String,
    /// Its hardware address, in lower case.
    pub hardware_addr: String,
    /// The address that its card was made with. A virtual link has none, and Talos gives an alias only to links that have one.
    pub permanent_addr: String,
    /// Whether there is a carrier.
    pub link_state: bool,
    pub mtu: u32,
}

/// A configuration that was accepted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Applied {
    /// What the machine warned about.
    pub warnings: Vec<String>,
    /// Whether a configured machine restarts for it. In maintenance this says nothing.
    pub reboots: bool,
    /// Whether a check found that it is what the machine runs already.
    pub unchanged: bool,
}

/// How a machine takes a new configuration. That it restarts for whatever it is cannot be asked for: 1.14 refuses it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApplyMode {
    /// At once where that can be, else with a restart. 1.14 never restarts by itself.
    Auto,
    /// At once, or not at all.
    NoReboot,
    /// At the next boot.
    Staged,
    /// At once, and back again after the time, unless it is applied for good before. A second try within the time makes
    /// the first one the state to return to: then nothing is taken back.
    Try(std::time::Duration),
}

/// An address of a machine.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Address {
    /// The address with its prefix length, such as `10.0.0.11/24`.
    pub address: String,
    pub link_name: String,
    /// `inet4` or `inet6`.
    pub family: String,
    /// `global`, `link`, `host`, …
    pub scope: String,
}

/// A volume of a machine.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Volume {
    /// Its name, such as `STATE`.
    #[serde(skip)]
    pub name: String,
    /// `ready`, `missing`, `waiting`, `failed`, …
    pub phase: String,
    /// Where it is, such as `/dev/sda4`; empty while it is nowhere.
    pub location: String,
    /// Bytes.
    pub size: u64,
    /// Why it is not ready.
    pub error_message: String,
}
