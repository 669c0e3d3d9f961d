//! Image Factory schematics: what an image is made of, and the id that stands for it.
//!
//! The id is the SHA-256 of the canonical text, so it is known without asking a factory. That holds for plain texts only:
//! where Go's YAML writer would quote or fold, the id that the factory answers with is the truth, and [`Schematic::id`]
//! says nothing. The order of lists counts; extensions are sorted here so that the same set is the same image, but a
//! schematic that a person wrote as a file ([`SchematicFile`]) keeps the order that it has.

mod asset;
mod file;

use std::collections::{BTreeMap, BTreeSet};

pub use asset::{Arch, Asset, Compression, DiskFormat, ImageName, Platform};
pub use file::{SchematicError, SchematicFile};
use sha2::{Digest, Sha256};

use crate::yaml::{Map, Value, map};

/// What an image is made of.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Schematic {
    /// An overlay for a single-board computer.
    pub overlay: Option<Overlay>,
    /// A machine configuration inside of the image; Talos reads it since 1.12.
    pub embedded_configuration: Option<String>,
    /// Kernel arguments; a leading `-` removes a default one.
    pub extra_kernel_args: Vec<String>,
    /// Values for the META partition, by key.
    pub meta: Vec<(u8, String)>,
    /// Official system extensions, such as `siderolabs/qemu-guest-agent`.
    pub extensions: BTreeSet<String>,
    /// The boot loader: `auto`, `dual-boot`, `grub` or `sd-boot`.
    pub bootloader: Option<String>,
    /// When the image enrolls its keys for secure boot, such as `if-safe` or `force`.
    pub enroll_keys: Option<String>,
    /// Whether the well-known certificates are enrolled for secure boot.
    pub well_known_certificates: bool,
    /// The sector size of the disk image, where it is not the usual one.
    pub sector_size: Option<u16>,
}

/// An overlay: the image it comes from and its name in there.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Overlay {
    /// Where the overlay comes from.
    pub image: String,
    pub name: String,
    /// What it is told.
    pub options: BTreeMap<String, String>,
}

impl Schematic {
    /// The canonical text, which a factory takes and hashes.
    #[must_use]
    pub fn canonical(&self) -> String {
        canonical(&self.document())
    }

    /// The id, where it can be known without a factory.
    #[must_use]
    pub fn id(&self) -> Option<String> {
        id(&self.document())
    }

    /// The fields in the order in which factories write them, without those that are not set.
    fn document(&self) -> Map {
        let overlay = self.overlay.as_ref().map(|overlay| {
            map([("image", overlay.image.as_str().into()), ("name", overlay.name.as_str().into())])
                .with_some("options", (!overlay.options.is_empty()).then_some(&overlay.options))
        });
        let meta = self.meta.iter().map(|(key, value)| {
            map([("key", u16::from(*key).into()), ("value", value.as_str().into())]).into()
        });
        let extensions: Vec<String> = self.extensions.iter().cloned().collect();
        let extensions =
            (!extensions.is_empty()).then(|| map([("officialExtensions", Value::texts(&extensions))]));
        let secure_boot = Map::new()
            .with_some("enrollKeys", self.enroll_keys.as_deref())
            .with_some("includeWellKnownCertificates", self.well_known_certificates.then_some(true));
        let arguments = &self.extra_kernel_args;
        let customization = Map::new()
            .with_some("embeddedMachineConfiguration", self.embedded_configuration.as_deref())
            .with_some("extraKernelArgs", (!arguments.is_empty()).then(|| Value::texts(arguments)))
            .with_some("meta", (!self.meta.is_empty()).then(|| Value::List(meta.collect())))
            .with_some("systemExtensions", extensions)
            .with_some("bootloader", self.bootloader.as_deref())
            .with_some("secureboot", (!secure_boot.is_empty()).then_some(secure_boot))
            .with_some("diskImage", self.sector_size.map(|size| map([("sectorSize", size.into())])));
        Map::new().with_some("overlay", overlay).with("customization", customization)
    }
}

/// The text of fields in canonical order.
fn canonical(document: &Map) -> String {
    let mut text = String::new();
    write(&mut text, document, 0);
    text
}

/// The id of fields in canonical order, where every text is surely written as a factory writes it.
fn id(document: &Map) -> Option<String> {
    document.iter().all(|(_, value)| is_sure(value)).then(|| hex::encode(Sha256::digest(canonical(document))))
}

fn is_sure(value: &Value) -> bool {
    match value {
        Value::Text(text) => is_plain(text),
        Value::List(list) => list.iter().all(is_sure),
        Value::Map(map) => map.iter().all(|(key, value)| is_plain(key) && is_sure(value)),
        Value::Bool(_) | Value::Int(_) => true,
        Value::Null | Value::Float(_) | Value::Number(_) => false,
    }
}

/// Each pair on a line of its own; what stands in a list starts behind its dash.
fn write(out: &mut String, map: &Map, indent: usize) {
    for (index, (key, value)) in map.iter().enumerate() {
        if index > 0 || !out.ends_with("- ") {
            out.extend(std::iter::repeat_n(' ', indent));
        }
        out.push_str(&scalar(key));
        out.push(':');
        match value {
            Value::Map(inner) if !inner.is_empty() => {
                out.push('\n');
                write(out, inner, indent + 4);
            }
            Value::List(list) if !list.is_empty() => {
                out.push('\n');
                for item in list {
                    out.extend(std::iter::repeat_n(' ', indent + 4));
                    out.push_str("- ");
                    match item {
                        Value::Map(inner) => write(out, inner, indent + 6),
                        item => out.push_str(&(single(item) + "\n")),
                    }
                }
            }
            value => out.push_str(&format!(" {}\n", single(value))),
        }
    }
}

fn single(value: &Value) -> String {
    match value {
        Value::Map(_) => "{}".to_owned(),
        Value::List(_) => "[]".to_owned(),
        Value::Text(text) => scalar(text),
        value => crate::schema::check::text_of(value).unwrap_or_default(),
    }
}

/// A text as the factory would read it, quoted where it must be.
fn scalar(text: &str) -> String {
    if is_plain(text) { text.to_owned() } else { crate::yaml::quoted(text) }
}

/// Whether Go's YAML writer surely leaves the text bare: words that cannot be numbers, flags or anything else. Colons stand
/// in kernel arguments and are safe without a space behind them, a hyphen is safe before a letter.
fn is_plain(text: &str) -> bool {
    let inner = |c: char| c.is_ascii_alphanumeric() || "/_.=,+-:".contains(c);
    let word = text.strip_prefix('-').unwrap_or(text);
    word.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(inner)
        && !text.ends_with(':')
        && !["true", "false", "yes", "no", "on", "off", "y", "n", "null", "inf", "nan"]
            .contains(&word.to_ascii_lowercase().as_str())
}

/// The path, on any factory, of the disk image that Proxmox imports without further work.
#[must_use]
pub fn nocloud_image_path(id: &str, talos_version: &str) -> String {
    ImageName::default().path(id, talos_version, Asset::Disk(DiskFormat::Qcow2, Compression::None))
}

/// The installer image for virtual machines with a cloud-init drive, on a factory's host.
#[must_use]
pub fn installer_image(factory_host: &str, id: &str, talos_version: &str) -> String {
    ImageName::default().installer(factory_host, id, talos_version)
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
                        ..Overlay::default()
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
        for argument in ["1", "off", "a: b", "", "a b", "-5", "--", "a:", "#a", "\"a\"", "-no"] {
            let schematic =
                Schematic { extra_kernel_args: vec![argument.to_owned()], ..Schematic::default() };
            assert_eq!(schematic.id(), None, "{argument}");
        }
    }

    #[test]
    fn every_field_stands_where_a_factory_writes_it() {
        let schematic = Schematic {
            overlay: Some(Overlay {
                image: "a/b".to_owned(),
                name: "c".to_owned(),
                options: [("x".to_owned(), "y".to_owned())].into(),
            }),
            embedded_configuration: Some("text".to_owned()),
            extra_kernel_args: vec!["-net.ifnames".to_owned(), "ip=10.0.0.1::10.0.0.2:eth0:off".to_owned()],
            meta: vec![(10, "foo".to_owned()), (11, "bar".to_owned())],
            extensions: ["siderolabs/b".to_owned(), "siderolabs/a".to_owned()].into(),
            bootloader: Some("sd-boot".to_owned()),
            enroll_keys: Some("if-safe".to_owned()),
            well_known_certificates: true,
            sector_size: Some(4096),
        };
        let text = "overlay:\n    image: a/b\n    name: c\n    options:\n        x: \"y\"\ncustomization:\n    embeddedMachineConfiguration: text\n    extraKernelArgs:\n        - -net.ifnames\n        - ip=10.0.0.1::10.0.0.2:eth0:off\n    meta:\n        - key: 10\n          value: foo\n        - key: 11\n          value: bar\n    systemExtensions:\n        officialExtensions:\n            - siderolabs/a\n            - siderolabs/b\n    bootloader: sd-boot\n    secureboot:\n        enrollKeys: if-safe\n        includeWellKnownCertificates: true\n    diskImage:\n        sectorSize: 4096\n";
        assert_eq!(schematic.canonical(), text);
        assert_eq!(schematic.id(), None, "y is quoted by some writers");
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
