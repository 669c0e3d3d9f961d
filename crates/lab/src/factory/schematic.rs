//! A schematic as the factory takes it: strict about keys, and hashed over a canonical text in which lists keep their order.

use std::fmt::Write;

use serde::Deserialize;
use sha2::{Digest, Sha256};

/// What an image is made of, as posted.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Schematic {
    overlay: Overlay,
    customization: Customization,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Overlay {
    image: String,
    name: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct Customization {
    extra_kernel_args: Vec<String>,
    meta: Vec<Meta>,
    system_extensions: SystemExtensions,
    bootloader: String,
    secureboot: SecureBoot,
    disk_image: DiskImage,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Meta {
    key: u8,
    value: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct SystemExtensions {
    official_extensions: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct SecureBoot {
    enroll_keys: String,
    include_well_known_certificates: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct DiskImage {
    sector_size: u32,
}

impl Schematic {
    /// Reads YAML (so JSON too); an empty text is the empty schematic.
    pub(super) fn read(text: &str) -> Result<Self, String> {
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        serde_saphyr::from_str(text).map_err(|error| format!("yaml: unmarshal errors: {error}"))
    }

    /// The id for a canonical text.
    pub(super) fn id(canonical: &str) -> String {
        hex::encode(Sha256::digest(canonical))
    }

    /// The text that is hashed.
    pub(super) fn canonical(&self) -> String {
        let mut text = String::new();
        let Overlay { image, name } = &self.overlay;
        if !(image.is_empty() && name.is_empty()) {
            text.push_str("overlay:\n");
            line(&mut text, 4, "image", image);
            line(&mut text, 4, "name", name);
        }
        let customization = self.customization.canonical();
        if customization.is_empty() {
            text + "customization: {}\n"
        } else {
            text + "customization:\n" + &customization
        }
    }
}

impl Customization {
    fn canonical(&self) -> String {
        let mut text = String::new();
        list(&mut text, 4, "extraKernelArgs", &self.extra_kernel_args);
        if !self.meta.is_empty() {
            text.push_str("    meta:\n");
            for Meta { key, value } in &self.meta {
                let _ = writeln!(text, "        - key: {key}\n          value: {}", scalar(value));
            }
        }
        if !self.system_extensions.official_extensions.is_empty() {
            text.push_str("    systemExtensions:\n");
            list(&mut text, 8, "officialExtensions", &self.system_extensions.official_extensions);
        }
        line(&mut text, 4, "bootloader", &self.bootloader);
        let SecureBoot { enroll_keys, include_well_known_certificates } = &self.secureboot;
        if !enroll_keys.is_empty() || *include_well_known_certificates {
            text.push_str("    secureboot:\n");
            line(&mut text, 8, "enrollKeys", enroll_keys);
            if *include_well_known_certificates {
                text.push_str("        includeWellKnownCertificates: true\n");
            }
        }
        if self.disk_image.sector_size != 0 {
            let _ = writeln!(text, "    diskImage:\n        sectorSize: {}", self.disk_image.sector_size);
        }
        text
    }
}

/// `key: value`, unless the value is empty.
fn line(text: &mut String, indent: usize, key: &str, value: &str) {
    if !value.is_empty() {
        let _ = writeln!(text, "{:indent$}{key}: {}", "", scalar(value));
    }
}

fn list(text: &mut String, indent: usize, key: &str, items: &[String]) {
    if !items.is_empty() {
        let _ = writeln!(text, "{:indent$}{key}:", "");
        for item in items {
            let _ = writeln!(text, "{:indent$}    - {}", "", scalar(item));
        }
    }
}

/// A text bare where YAML reads it as itself, else quoted.
fn scalar(text: &str) -> String {
    let word = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "/_.=,+-:@".contains(c))
        && !text.ends_with(':');
    let reserved = ["true", "false", "yes", "no", "on", "off", "y", "n", "null"];
    if word && !reserved.contains(&text.to_ascii_lowercase().as_str()) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', "''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_those_of_the_real_factory() {
        let cases = [
            ("", "376567988ad370138ad8b2698212367b8edcb69b5fd68c80be1f2ec7d603b4ba"),
            (
                "customization: {systemExtensions: {officialExtensions: [siderolabs/qemu-guest-agent]}}",
                "ce4c980550dd2ab1b17bbf2b08801c7eb59418eafe8f279833297925d67c7515",
            ),
            (
                "customization: {extraKernelArgs: [noapic, nolapic]}",
                "9cba8e32753f91a16c1837ab8abf356af021706ef284aef07380780177d9a06c",
            ),
            (
                "customization: {meta: [{key: 10, value: foo}]}",
                "d308a2a5ee2277bed5fbaa104fcbc8d59122abfa737df987a95b4ca763459a7f",
            ),
            (
                "customization: {secureboot: {includeWellKnownCertificates: true}}",
                "fa8e05f142a851d3ee568eb0a8e5841eaf6b0ebc8df9a63df16ac5ed2c04f3e6",
            ),
            (
                "customization: {diskImage: {sectorSize: 4096}}",
                "92833e9ddd9bb9e11b2464fa5525429f01866306d52ebd882ee08d7918f6d1ea",
            ),
            (
                "overlay: {name: rpi_generic, image: siderolabs/sbc-raspberrypi}",
                "ee21ef4a5ef808a9b7484cc0dda0f25075021691c8c09a276591eedb638ea1f9",
            ),
        ];
        for (text, id) in cases {
            let canonical = Schematic::read(text).unwrap().canonical();
            assert_eq!(Schematic::id(&canonical), id, "{canonical}");
        }
    }

    #[test]
    fn unknown_keys_are_refused() {
        assert!(Schematic::read("customisation: {}").is_err());
    }
}
