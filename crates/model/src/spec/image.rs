//! The Talos image that nodes boot, for all and for some.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::is_default;

/// The Talos image that the nodes boot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Image {
    /// Base URL of the Image Factory.
    pub factory: String,
    /// Official system extensions. The guest agent is among them unless you say otherwise.
    pub extensions: Vec<String>,
    /// Kernel arguments.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kernel_args: Vec<String>,
    /// File with a schematic, used as it stands, instead of `extensions` and `kernel_args`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schematic: Option<String>,
    /// Processor architecture.
    pub arch: Arch,
    /// Boot only what is signed. Needs `bios: ovmf`, which is then the default, with a TPM.
    #[serde(skip_serializing_if = "is_default")]
    pub secure_boot: bool,
    /// How the boot disk comes to be.
    #[serde(skip_serializing_if = "is_default")]
    pub delivery: Delivery,
    /// A proxy that the hosts download images through: `https://PROXY` asks for `https://PROXY/FACTORY/image/…`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = ["https://proxy.example.net"]))]
    pub mirror: Option<String>,
    /// Registry that installer images are pulled from instead of the factory.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = ["harbor.example.net/talos"]))]
    pub installer_mirror: Option<String>,
    /// File with the authority of a private Image Factory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca: Option<String>,
}

impl Default for Image {
    fn default() -> Self {
        Self {
            factory: "https://factory.talos.dev".to_owned(),
            extensions: vec!["siderolabs/qemu-guest-agent".to_owned()],
            kernel_args: Vec::new(),
            schematic: None,
            arch: Arch::Amd64,
            secure_boot: false,
            delivery: Delivery::Import,
            mirror: None,
            installer_mirror: None,
            ca: None,
        }
    }
}

/// Another image for some nodes. What is left out is as for the others.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ImageOverride {
    /// Base URL of the Image Factory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub factory: Option<String>,
    /// Official system extensions, all of them: this list replaces the other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extensions: Option<Vec<String>>,
    /// Kernel arguments: this list replaces the other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel_args: Option<Vec<String>>,
    /// File with a schematic, used as it stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schematic: Option<String>,
    /// Boot only what is signed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secure_boot: Option<bool>,
    /// How the boot disk comes to be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivery: Option<Delivery>,
}

/// Processor architecture.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Arch {
    /// 64-bit x86.
    #[default]
    Amd64,
    /// 64-bit Arm.
    Arm64,
}

impl std::fmt::Display for Arch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Amd64 => "amd64",
            Self::Arm64 => "arm64",
        })
    }
}

/// How a boot disk comes to be.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Delivery {
    /// The image is copied into each new disk.
    #[default]
    Import,
    /// One template for each image and role, cloned in full for each node.
    Template,
}
