//! A schematic as the factory takes it: strict about keys, and hashed over a canonical text in which lists keep their order.
//!
//! The text is the one that Go's YAML writer makes, because ids are made of it.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::Deserialize;
use serde_json::Value;
use sha2::{Digest, Sha256};

/// What an image is made of, as posted.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Schematic {
    owner: String,
    overlay: Overlay,
    customization: Customization,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Overlay {
    image: String,
    name: String,
    options: BTreeMap<String, Value>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct Customization {
    embedded_machine_configuration: String,
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

/// The types by their first key, as the factory calls them when it finds a key that it does not know.
const TYPES: [(&str, &str); 7] = [
    ("owner", "Schematic"),
    ("image", "Overlay"),
    ("embeddedMachineConfiguration", "Customization"),
    ("key", "MetaValue"),
    ("officialExtensions", "SystemExtensions"),
    ("enrollKeys", "SecureBootCustomization"),
    ("sectorSize", "DiskImageCustomization"),
];

impl Schematic {
    /// Reads YAML (so JSON too).
    ///
    /// # Errors
    ///
    /// What the factory says to a text that is none.
    pub(super) fn read(text: &str) -> Result<Self, String> {
        if text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#')) {
            return Err("EOF".to_owned());
        }
        let schematic: Self = serde_saphyr::from_str(text).map_err(|error| {
            let line = error.location().map_or(1, |at| at.line());
            format!("yaml: construct errors: line {line}: {}", fault(&error.to_string()))
        })?;
        let loader = &schematic.customization.bootloader;
        if !matches!(loader.as_str(), "" | "none" | "dual-boot" | "sd-boot" | "grub") {
            let line = 1 + text.lines().position(|line| line.contains("bootloader")).unwrap_or(0);
            return Err(format!(
                "yaml: construct errors: line {line}: {loader} does not belong to BootloaderKind values"
            ));
        }
        if !schematic.owner.is_empty() {
            return Err("owner field is only supported in Enterprise edition".to_owned());
        }
        Ok(schematic)
    }

    /// The system extensions that it asks for.
    pub(super) fn extensions(&self) -> &[String] {
        &self.customization.system_extensions.official_extensions
    }

    /// Whether a machine configuration is to stand in the image.
    pub(super) fn has_configuration(&self) -> bool {
        !self.customization.embedded_machine_configuration.is_empty()
    }

    /// A word about enrolling keys that means nothing.
    pub(super) fn wrong_enrolment(&self) -> Option<&str> {
        let keys = self.customization.secureboot.enroll_keys.as_str();
        (!matches!(keys, "" | "off" | "manual" | "if-safe" | "force")).then_some(keys)
    }

    /// The id for a canonical text.
    pub(super) fn id(canonical: &str) -> String {
        hex::encode(Sha256::digest(canonical))
    }

    /// The text that is hashed.
    pub(super) fn canonical(&self) -> String {
        let mut text = String::new();
        let Overlay { image, name, options } = &self.overlay;
        if !(image.is_empty() && name.is_empty() && options.is_empty()) {
            let _ = writeln!(text, "overlay:\n    image: {}\n    name: {}", scalar(image), scalar(name));
            if !options.is_empty() {
                text.push_str("    options:\n");
            }
            for (key, value) in options {
                let value = value.as_str().map_or_else(|| value.to_string(), scalar);
                let _ = writeln!(text, "        {}: {value}", scalar(key));
            }
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
        line(&mut text, 4, "embeddedMachineConfiguration", &self.embedded_machine_configuration);
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
        if self.bootloader != "none" {
            line(&mut text, 4, "bootloader", &self.bootloader);
        }
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

/// What the reader found fault with, in the words of the real one where they are known.
fn fault(said: &str) -> String {
    let quoted = |text: &str| text.split('`').nth(1).unwrap_or_default().to_owned();
    let Some((_, unknown)) = said.split_once("unknown field ") else { return said.to_owned() };
    let expected = unknown.split_once("expected one of ").map_or("", |(_, rest)| rest);
    let first = expected.split([',', ' ', '\n']).next().unwrap_or_default().trim_matches('`');
    let kind = TYPES.iter().find(|(key, _)| *key == first).map_or("Schematic", |(_, kind)| kind);
    format!("field {} not found in type schematic.{kind}", quoted(unknown))
}

/// `key: value`, unless the value is empty.
fn line(text: &mut String, indent: usize, key: &str, value: &str) {
    if value.is_empty() {
        return;
    }
    let _ = write!(text, "{:indent$}{key}: ", "");
    if value.contains('\n') {
        let kept = match value.strip_suffix('\n') {
            None => "|-",
            Some(rest) if rest.ends_with('\n') => "|+",
            Some(_) => "|",
        };
        text.push_str(kept);
        for line in value.lines() {
            let _ =
                if line.is_empty() { writeln!(text) } else { write!(text, "\n{:1$}{line}", "", indent + 4) };
        }
        text.push('\n');
    } else {
        let _ = writeln!(text, "{}", scalar(value));
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

/// A text bare where YAML reads it as itself, else quoted as Go's writer does.
fn scalar(text: &str) -> String {
    let single = || format!("'{}'", text.replace('\'', "''"));
    if text.chars().any(char::is_control) {
        return serde_json::to_string(text).unwrap_or_default();
    }
    if is_something_else(text) {
        return format!("\"{text}\"");
    }
    let lower = text.to_ascii_lowercase();
    if ["yes", "no", "on", "off", "y", "n", "<<"].contains(&lower.as_str()) {
        return single();
    }
    let marked =
        text.starts_with(['*', '&', '!', '%', '@', '`', '[', ']', '{', '}', '|', '>', '\'', '"', '#', ',']);
    let entry =
        |mark: char| text.strip_prefix(mark).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '));
    let structured = ['-', '?', ':'].into_iter().any(entry)
        || text.contains(": ")
        || text.contains(" #")
        || text.ends_with(':')
        || text.trim() != text;
    if marked || structured { single() } else { text.to_owned() }
}

/// Whether YAML would read a bare text as a number, a truth, a day, or nothing.
fn is_something_else(text: &str) -> bool {
    let bare = text.trim_start_matches(['+', '-']);
    let digits = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_digit());
    let prefixed = ["0x", "0o", "0b"].iter().any(|prefix| {
        bare.strip_prefix(prefix)
            .is_some_and(|rest| !rest.is_empty() && rest.chars().all(|c| c.is_ascii_hexdigit()))
    });
    let number = bare.starts_with(|c: char| c.is_ascii_digit() || c == '.') && bare.parse::<f64>().is_ok();
    let mut parts = text.split('-');
    let day = parts.next().is_some_and(|year| year.len() == 4 && digits(year))
        && parts.clone().count() == 2
        && parts.all(|part| part.len() <= 2 && digits(part));
    let words = ["", "~", "null", "Null", "NULL", "true", "True", "TRUE", "false", "False", "FALSE"];
    words.contains(&text) || prefixed || number || day
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_those_of_the_real_factory() {
        let cases = [
            ("{}", "376567988ad370138ad8b2698212367b8edcb69b5fd68c80be1f2ec7d603b4ba"),
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

    /// As Talos' own library writes these, with the YAML writer that the factory has, too.
    #[test]
    fn texts_are_quoted_as_the_real_factory_does() {
        let bare = [
            "-net.ifnames",
            "ip=10.0.0.1::10.0.0.2:eth0:off",
            "foo bar",
            "foo#bar",
            "a'b",
            "a\"b",
            "a,b",
            "x]",
            "a:b",
            ":a",
            "?a",
            "=",
            "é",
            "console=ttyS0,115200",
        ];
        for text in bare {
            assert_eq!(scalar(text), text);
        }
        let single = [
            "a: b", "a #b", "*x", "&x", "!x", "%x", "@x", "`x", "[x]", "a:", "- a", "-", "no", "y", "<<",
            " a",
        ];
        for text in single {
            assert_eq!(scalar(text), format!("'{text}'"));
        }
        assert_eq!(scalar("'x'"), "'''x'''");
        for text in ["10", "1.5", "", "true", "~", "0x1f", "1e3", "+5", ".5", "2001-01-01"] {
            assert_eq!(scalar(text), format!("\"{text}\""));
        }
        assert_eq!(scalar("a\tb"), "\"a\\tb\"");
    }

    #[test]
    fn what_is_no_schematic_is_refused_in_the_factorys_words() {
        for (text, words) in [
            ("", "EOF"),
            ("# nothing\n", "EOF"),
            (
                "something:",
                "yaml: construct errors: line 1: field something not found in type schematic.Schematic",
            ),
            (
                "customization:\n  systemExtensions:\n    official: []\n",
                "yaml: construct errors: line 3: field official not found in type schematic.SystemExtensions",
            ),
            (
                "customization: {bootloader: lilo}",
                "yaml: construct errors: line 1: lilo does not belong to BootloaderKind values",
            ),
            ("owner: me", "owner field is only supported in Enterprise edition"),
        ] {
            assert_eq!(Schematic::read(text).unwrap_err(), words);
        }
        assert!(Schematic::read("customization: [").is_err());
    }

    #[test]
    fn long_texts_stand_in_blocks() {
        let canonical =
            Schematic::read("customization: {embeddedMachineConfiguration: \"a: 1\\n\\nb: 2\\n\"}").unwrap();
        let expected = "customization:\n    embeddedMachineConfiguration: |\n        a: 1\n\n        b: 2\n";
        assert_eq!(canonical.canonical(), expected);
    }
}
