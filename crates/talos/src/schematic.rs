//! Image Factory schematics: what an image is made of, and the id that stands for it.
//!
//! The id is the SHA-256 of the canonical text, so it is known without asking a factory. That holds for plain texts only:
//! where Go's YAML writer would quote or fold, the id that the factory answers with is the truth, and [`Schematic::id`]
//! says nothing. The order of lists counts; lists of extensions are sorted here so that the same set is the same image.

use std::collections::BTreeSet;

use sha2::{Digest, Sha256};

/// What an image is made of.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Schematic {
    /// An overlay for a single-board computer.
    pub overlay: Option<Overlay>,
    /// Kernel arguments; a leading `-` removes a default one.
    pub extra_kernel_args: Vec<String>,
    /// Values for the META partition, by key.
    pub meta: Vec<(u8, String)>,
    /// Official system extensions, such as `siderolabs/qemu-guest-agent`.
    pub extensions: BTreeSet<String>,
    /// Whether the well-known certificates are enrolled for secure boot.
    pub well_known_certificates: bool,
    /// The sector size of the disk image, where it is not the usual one.
    pub sector_size: Option<u16>,
}

/// An overlay: the image it comes from and its name in there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Overlay {
    /// Where the overlay comes from.
    pub image: String,
    /// Its name.
    pub name: String,
}

impl Schematic {
    /// The canonical text, which a factory takes and hashes.
    #[must_use]
    pub fn canonical(&self) -> String {
        let mut text = String::new();
        if let Some(overlay) = &self.overlay {
            text += &format!(
                "overlay:\n    image: {}\n    name: {}\n",
                scalar(&overlay.image),
                scalar(&overlay.name)
            );
        }
        let body = self.customization();
        if body.is_empty() { text + "customization: {}\n" } else { text + "customization:\n" + &body }
    }

    fn customization(&self) -> String {
        let mut text = String::new();
        if !self.extra_kernel_args.is_empty() {
            text += "    extraKernelArgs:\n";
            self.extra_kernel_args
                .iter()
                .for_each(|argument| text += &format!("        - {}\n", scalar(argument)));
        }
        if !self.meta.is_empty() {
            text += "    meta:\n";
            for (key, value) in &self.meta {
                text += &format!("        - key: {key}\n          value: {}\n", scalar(value));
            }
        }
        if !self.extensions.is_empty() {
            text += "    systemExtensions:\n        officialExtensions:\n";
            self.extensions.iter().for_each(|name| text += &format!("            - {}\n", scalar(name)));
        }
        if self.well_known_certificates {
            text += "    secureboot:\n        includeWellKnownCertificates: true\n";
        }
        if let Some(size) = self.sector_size {
            text += &format!("    diskImage:\n        sectorSize: {size}\n");
        }
        text
    }

    /// The id, where it can be known without a factory.
    #[must_use]
    pub fn id(&self) -> Option<String> {
        let overlay = self.overlay.iter().flat_map(|overlay| [&overlay.image, &overlay.name]);
        let values = self.meta.iter().map(|(_, value)| value);
        let mut texts = overlay.chain(&self.extra_kernel_args).chain(values).chain(&self.extensions);
        texts.all(|text| is_plain(text)).then(|| hex::encode(Sha256::digest(self.canonical())))
    }
}

/// A text as the factory would read it, quoted where it must be.
fn scalar(text: &str) -> String {
    if is_plain(text) { text.to_owned() } else { crate::config::quoted(text) }
}

/// Whether Go's YAML writer surely leaves the text bare: words that cannot be numbers, flags or anything else.
fn is_plain(text: &str) -> bool {
    let inner = |c: char| c.is_ascii_alphanumeric() || "/_.=,+-".contains(c);
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(inner)
        && !["true", "false", "yes", "no", "on", "off", "y", "n", "null"]
            .contains(&text.to_ascii_lowercase().as_str())
}

/// The path, on any factory, of the disk image that Proxmox imports without further work.
#[must_use]
pub fn nocloud_image_path(id: &str, talos_version: &str) -> String {
    format!("/image/{id}/{}/nocloud-amd64.qcow2", tag(talos_version))
}

/// The installer image for virtual machines with a cloud-init drive, on a factory's host.
#[must_use]
pub fn installer_image(factory_host: &str, id: &str, talos_version: &str) -> String {
    format!("{factory_host}/nocloud-installer/{id}:{}", tag(talos_version))
}

fn tag(version: &str) -> String {
    format!("v{}", version.strip_prefix('v').unwrap_or(version))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ids_are_those_that_factories_give() {
        let plain = Schematic::default;
        let vectors = [
            (plain(), "376567988ad370138ad8b2698212367b8edcb69b5fd68c80be1f2ec7d603b4ba"),
            (
                Schematic { extensions: ["siderolabs/qemu-guest-agent".to_owned()].into(), ..plain() },
                "ce4c980550dd2ab1b17bbf2b08801c7eb59418eafe8f279833297925d67c7515",
            ),
            (
                Schematic { extra_kernel_args: vec!["noapic".to_owned(), "nolapic".to_owned()], ..plain() },
                "9cba8e32753f91a16c1837ab8abf356af021706ef284aef07380780177d9a06c",
            ),
            (
                Schematic { meta: vec![(10, "foo".to_owned())], ..plain() },
                "d308a2a5ee2277bed5fbaa104fcbc8d59122abfa737df987a95b4ca763459a7f",
            ),
            (
                Schematic { well_known_certificates: true, ..plain() },
                "fa8e05f142a851d3ee568eb0a8e5841eaf6b0ebc8df9a63df16ac5ed2c04f3e6",
            ),
            (
                Schematic { sector_size: Some(4096), ..plain() },
                "92833e9ddd9bb9e11b2464fa5525429f01866306d52ebd882ee08d7918f6d1ea",
            ),
            (
                Schematic {
                    overlay: Some(Overlay {
                        image: "siderolabs/sbc-raspberrypi".to_owned(),
                        name: "rpi_generic".to_owned(),
                    }),
                    ..plain()
                },
                "ee21ef4a5ef808a9b7484cc0dda0f25075021691c8c09a276591eedb638ea1f9",
            ),
        ];
        for (schematic, id) in vectors {
            assert_eq!(schematic.id().as_deref(), Some(id), "{}", schematic.canonical());
        }
    }

    #[test]
    fn an_id_that_cannot_be_known_is_not_guessed() {
        for argument in ["-console", "1", "off", "a: b", "", "a b"] {
            let schematic =
                Schematic { extra_kernel_args: vec![argument.to_owned()], ..Schematic::default() };
            assert_eq!(schematic.id(), None, "{argument}");
        }
    }

    #[test]
    fn paths_take_versions_with_and_without_v() {
        for version in ["v1.13.9", "1.13.9"] {
            assert_eq!(nocloud_image_path("abc", version), "/image/abc/v1.13.9/nocloud-amd64.qcow2");
            assert_eq!(
                installer_image("factory.example", "abc", version),
                "factory.example/nocloud-installer/abc:v1.13.9"
            );
        }
    }
}
