//! Which file of which image a path means, with the factory's faults in the order and in the words in which it finds them.

use http::StatusCode;

use super::schematic::Schematic;
use super::{Factory, extensions};
use crate::machine::BootImage;

/// The raw disk of a Talos image.
const DISK_BYTES: u64 = 1246 << 20;
/// What its qcow2 file takes.
const QCOW2_BYTES: u64 = 243 << 20;
/// What it takes compressed.
const COMPRESSED_BYTES: u64 = QCOW2_BYTES - (30 << 20);
/// The boot medium.
const ISO_BYTES: u64 = QCOW2_BYTES + (60 << 20);
/// Anything smaller that belongs to a release: a kernel, an installer.
const PART_BYTES: u64 = 90 << 20;

/// The platforms that an image can be for.
const PLATFORMS: &[&str] = &[
    "akamai",
    "aws",
    "azure",
    "cloudstack",
    "container",
    "digital-ocean",
    "equinixMetal",
    "exoscale",
    "gcp",
    "hcloud",
    "metal",
    "nocloud",
    "opennebula",
    "openstack",
    "oracle",
    "scaleway",
    "upcloud",
    "vmware",
    "vultr",
];

/// A file that can be fetched.
pub(crate) struct Asset {
    /// What is built once: schematic, version and file.
    pub(super) key: String,
    /// The size of the file.
    pub(crate) bytes: u64,
    /// The size of the disk in it.
    pub(crate) disk_bytes: u64,
    /// What a machine boots from it.
    pub(crate) image: Option<BootImage>,
    /// What kind of file it is, as HTTP names it.
    pub(crate) mime: &'static str,
}

/// Why there is no such file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NoAsset {
    pub(crate) status: StatusCode,
    pub(crate) words: String,
}

impl NoAsset {
    fn new(status: StatusCode, words: impl Into<String>) -> Self {
        Self { status, words: words.into() }
    }

    fn bad(words: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, words)
    }

    /// Something that the factory does not tell.
    pub(crate) fn internal() -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal server error")
    }

    /// The status as clients tell it that show nothing else.
    pub(crate) fn line(&self) -> String {
        format!("{} {}", self.status.as_u16(), self.status.canonical_reason().unwrap_or_default())
    }
}

/// A version with its `v`, which may be left out; nothing when it is none.
pub(crate) fn version(text: &str) -> Option<String> {
    let bare = text.strip_prefix('v').unwrap_or(text);
    let (numbers, extra) = match bare.split_once('-') {
        Some((numbers, extra)) => (numbers, Some(extra)),
        None => (bare, None),
    };
    let number = |part: &str| {
        !part.is_empty()
            && part.chars().all(|c| c.is_ascii_digit())
            && (part == "0" || !part.starts_with('0'))
    };
    let sound = numbers.split('.').count() == 3 && numbers.split('.').all(number);
    let extra = extra.is_none_or(|extra| {
        let word =
            |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
        extra.split('.').all(word)
    });
    (sound && extra).then(|| format!("v{bare}"))
}

/// What a file's name says.
#[derive(Debug, Default, PartialEq, Eq)]
struct Named {
    platform: String,
    arch: String,
    secure_boot: bool,
    form: Form,
}

#[derive(Debug, Default, PartialEq, Eq)]
enum Form {
    Raw,
    Qcow2,
    Compressed,
    Iso,
    /// Without extensions in it: a kernel, its arguments.
    Bare,
    #[default]
    Part,
}

fn arch(text: &str) -> Result<String, NoAsset> {
    match text {
        "amd64" | "arm64" => Ok(text.to_owned()),
        "x86_64" | "i386" => Ok("amd64".to_owned()),
        _ => Err(NoAsset::bad(format!("invalid architecture: {text:?}"))),
    }
}

impl Named {
    fn platform(text: &str, form: Form) -> Result<Self, NoAsset> {
        let (text, secure_boot) = text.strip_suffix("-secureboot").map_or((text, false), |text| (text, true));
        let (platform, rest) = match text.strip_prefix("digital-ocean-") {
            Some(rest) => ("digital-ocean", rest),
            None => text
                .split_once('-')
                .ok_or_else(|| NoAsset::bad(format!("invalid platform-arch: {text:?}")))?,
        };
        Ok(Self { platform: platform.to_owned(), arch: arch(rest)?, secure_boot, form })
    }

    fn read(file: &str) -> Result<Self, NoAsset> {
        let metal = |text: &str, form| {
            Ok(Self { platform: "metal".to_owned(), arch: arch(text)?, secure_boot: false, form })
        };
        if let Some(rest) = file.strip_prefix("kernel-") {
            return metal(rest, Form::Bare);
        }
        if let Some(rest) = file.strip_prefix("cmdline-") {
            return Self::platform(rest, Form::Bare);
        }
        if let Some(rest) = file.strip_prefix("initramfs-").and_then(|rest| rest.strip_suffix(".xz")) {
            return metal(rest, Form::Part);
        }
        if let Some(rest) = file.strip_suffix(".iso") {
            return Self::platform(rest, Form::Iso);
        }
        if let Some(rest) = file.strip_suffix("-uki.efi") {
            return Self::platform(rest, Form::Part);
        }
        if let Some(rest) = file.strip_suffix(".tar") {
            if let Some(rest) = rest.strip_prefix("installer-") {
                return Self::platform(&format!("metal-{rest}"), Form::Part);
            }
            if let Some((platform, rest)) = rest.split_once("-installer-") {
                return Self::platform(&format!("{platform}-{rest}"), Form::Part);
            }
        }
        let packed = [".tar.gz", ".gz", ".xz", ".zst"].iter().find_map(|ending| file.strip_suffix(ending));
        let bare = packed.unwrap_or(file);
        let form = |form| if packed.is_some() { Form::Compressed } else { form };
        let forms =
            [(".raw", Form::Raw), (".qcow2", Form::Qcow2), (".vhd", Form::Part), (".ova", Form::Part)];
        for (ending, disk) in forms {
            if let Some(rest) = bare.strip_suffix(ending) {
                return Self::platform(rest, form(disk));
            }
        }
        Err(NoAsset::bad(format!("invalid profile path: {bare:?}")))
    }
}

/// The kind of a file, by its ending.
fn mime(file: &str) -> &'static str {
    match file.rsplit_once('.').map(|(_, ending)| ending) {
        Some("efi") => "application/efi",
        Some("iso") => "application/x-iso9660-image",
        Some("xz") => "application/x-xz",
        Some("gz") => "application/gzip",
        Some("qcow2") => "application/x-qemu-disk",
        _ => "application/octet-stream",
    }
}

impl Factory {
    /// The file at `/image/<schematic>/<version>/<file>`.
    ///
    /// # Errors
    ///
    /// What the factory answers instead.
    pub(crate) fn asset(&self, path: &str) -> Result<Asset, NoAsset> {
        let segments: Vec<&str> = path.trim_start_matches('/').split('/').collect();
        let ["image", id, asked, file] = segments.as_slice() else {
            return Err(NoAsset::new(StatusCode::NOT_FOUND, "404 page not found"));
        };
        // These are found out before anything is looked up.
        let unpaid = |words: &str| Err(NoAsset::new(StatusCode::PAYMENT_REQUIRED, words));
        if file.ends_with(".sigstore.json") {
            return unpaid("enterprise signing is not enabled: signature endpoint is not available");
        }
        if file.ends_with(".sha256") || file.ends_with(".sha512") {
            return unpaid("enterprise not enabled: checksum endpoint is not available");
        }
        let schematic = self.schematics.get(*id).map(|text| Schematic::read(text).unwrap_or_default());
        let schematic = schematic
            .ok_or_else(|| NoAsset::new(StatusCode::NOT_FOUND, format!("schematic ID {id:?} not found")))?;
        let talos = version(asked).ok_or_else(NoAsset::internal)?;
        let named = Named::read(file).map_err(|fault| NoAsset {
            words: format!("error parsing profile from path: {}", fault.words),
            ..fault
        })?;
        if named.form != Form::Bare {
            self.enhance(&schematic, &named, &talos).map_err(|fault| NoAsset {
                words: format!("error enhancing profile from schematic: {}", fault.words),
                ..fault
            })?;
        }
        self.available(&talos)
            .map_err(|fault| NoAsset { words: format!("failed to get kernel: {}", fault.words), ..fault })?;
        if !PLATFORMS.contains(&named.platform.as_str()) {
            return Err(NoAsset::internal());
        }
        let (bytes, disk_bytes) = match named.form {
            Form::Raw => (DISK_BYTES, DISK_BYTES),
            Form::Qcow2 => (QCOW2_BYTES, DISK_BYTES),
            Form::Compressed => (COMPRESSED_BYTES, COMPRESSED_BYTES),
            Form::Iso => (ISO_BYTES, ISO_BYTES),
            Form::Bare | Form::Part => (PART_BYTES, PART_BYTES),
        };
        // A disk of another platform waits for a cloud that is not there.
        let boots = matches!(named.form, Form::Raw | Form::Qcow2)
            && matches!(named.platform.as_str(), "nocloud" | "metal");
        let image = boots.then(|| BootImage {
            talos: talos.clone(),
            schematic: (*id).to_owned(),
            platform: named.platform,
            arch: named.arch,
            extensions: schematic.extensions().to_vec(),
        });
        Ok(Asset { key: format!("{id}/{talos}/{file}"), bytes, disk_bytes, image, mime: mime(file) })
    }

    /// Whether a release is built at all.
    pub(crate) fn available(&self, talos: &str) -> Result<(), NoAsset> {
        let words = || format!("version {} is not available", talos.trim_start_matches('v'));
        self.has_version(talos).then_some(()).ok_or_else(|| NoAsset::new(StatusCode::NOT_FOUND, words()))
    }

    /// Whether what the schematic asks for can go into the image.
    fn enhance(&self, schematic: &Schematic, named: &Named, talos: &str) -> Result<(), NoAsset> {
        if schematic.has_configuration() && extensions::minor(talos) < 12 {
            let words = format!("embedding configuration is not supported for Talos version {talos}");
            return Err(NoAsset::bad(words));
        }
        if let Some(keys) = schematic.wrong_enrolment().filter(|_| named.secure_boot) {
            let words = format!(
                "invalid secureboot enrollKeys value {keys:?}: {keys} does not belong to SDBootEnrollKeys values"
            );
            return Err(NoAsset::bad(words));
        }
        if schematic.extensions().is_empty() {
            return Ok(());
        }
        self.available(talos).map_err(|fault| NoAsset {
            words: format!("error getting official extensions: {}", fault.words),
            ..fault
        })?;
        match schematic.extensions().iter().find(|name| !extensions::is_official(name, talos)) {
            Some(name) => Err(NoAsset::bad(format!(
                "official extension {name:?} is not available for Talos version {talos}"
            ))),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_platform_architecture_and_form() {
        let read = |file: &str| {
            Named::read(file)
                .map(|n| (n.platform, n.arch, n.secure_boot, n.form))
                .map_err(|fault| fault.words)
        };
        let is = |platform: &str, arch: &str, secure: bool, form| {
            Ok((platform.to_owned(), arch.to_owned(), secure, form))
        };
        for (file, expected) in [
            ("nocloud-amd64.qcow2", is("nocloud", "amd64", false, Form::Qcow2)),
            ("nocloud-arm64-secureboot.qcow2", is("nocloud", "arm64", true, Form::Qcow2)),
            ("metal-amd64.raw", is("metal", "amd64", false, Form::Raw)),
            ("metal-amd64-secureboot.raw.xz", is("metal", "amd64", true, Form::Compressed)),
            ("aws-arm64.raw.tar.gz", is("aws", "arm64", false, Form::Compressed)),
            ("digital-ocean-amd64.raw.gz", is("digital-ocean", "amd64", false, Form::Compressed)),
            ("metal-x86_64.iso", is("metal", "amd64", false, Form::Iso)),
            ("vmware-amd64.ova", is("vmware", "amd64", false, Form::Part)),
            ("metal-amd64-secureboot-uki.efi", is("metal", "amd64", true, Form::Part)),
            ("installer-amd64-secureboot.tar", is("metal", "amd64", true, Form::Part)),
            ("nocloud-installer-amd64.tar", is("nocloud", "amd64", false, Form::Part)),
            ("kernel-arm64", is("metal", "arm64", false, Form::Bare)),
            ("initramfs-amd64.xz", is("metal", "amd64", false, Form::Part)),
            ("cmdline-metal-amd64-secureboot", is("metal", "amd64", true, Form::Bare)),
            ("metal-amd64.ssd", Err("invalid profile path: \"metal-amd64.ssd\"".to_owned())),
            ("metal-sparc.qcow2", Err("invalid architecture: \"sparc\"".to_owned())),
            ("metal.qcow2", Err("invalid platform-arch: \"metal\"".to_owned())),
        ] {
            assert_eq!(read(file), expected, "{file}");
        }
    }

    #[test]
    fn versions_may_come_without_their_letter() {
        for (text, expected) in [
            ("v1.13.9", Some("v1.13.9")),
            ("1.13.9", Some("v1.13.9")),
            ("v1.14.0-rc.1", Some("v1.14.0-rc.1")),
            ("v1.13", None),
            ("latest", None),
            ("v1.013.9", None),
        ] {
            assert_eq!(version(text).as_deref(), expected, "{text}");
        }
    }
}
