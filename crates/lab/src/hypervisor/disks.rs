//! Making the disks that drive options ask for: new, imported, or for cloud-init. Used when a VM is created and when its
//! configuration is changed.

use std::time::Duration;

use jiff::Timestamp;

use crate::hypervisor::drive::{self, Source};
use crate::hypervisor::options;
use crate::hypervisor::refusal::Refusal;
use crate::hypervisor::storage::{Storages, Volume, Wish};
use crate::schema::Parts;
use crate::schema::print_size;

/// A cloud-init drive has room for four mebibytes.
const CLOUDINIT: u64 = 4 << 20;
/// How fast an image is copied, in bytes a second.
const COPY_RATE: u64 = 220 << 20;

/// One disk that was made.
pub(crate) struct Made {
    /// The option's new value.
    pub(crate) value: String,
    /// The volume, if a new one.
    pub(crate) volid: Option<String>,
    /// What the task writes about it, each with the time from the beginning of this disk.
    pub(crate) lines: Vec<(Duration, String)>,
    /// How long it takes.
    pub(crate) takes: Duration,
}

/// Checks a drive option by itself, for any caller.
pub(crate) fn check(storages: &Storages, node: &str, key: &str, parts: &Parts) -> Result<(), Refusal> {
    let refuse = |text: String| Err(Refusal::parameter(key, text));
    let source = Source::of(parts).map_err(|text| Refusal::parameter(key, text))?;
    if let Source::Import { .. } = source {
        let needed: &[&str] = match key {
            "efidisk0" => &["efitype", "pre-enrolled-keys"],
            "tpmstate0" => &["version"],
            _ => &[],
        };
        if let Some(missing) = needed.iter().find(|needed| !parts.contains_key(**needed)) {
            return refuse(format!("need to specify '{missing}' when using 'import-from'"));
        }
    }
    let Source::Existing { volid } = source else { return Ok(()) };
    if volid.starts_with('/') {
        return match volid.starts_with("/dev/") || storages.volume_or_path(node, &volid).is_some() {
            true => Ok(()),
            false => refuse(format!("unable to associate path '{volid}' to any storage")),
        };
    }
    let named = storages.named(&volid).map_err(Refusal::Failed)?;
    match named.content == "iso" && !drive::is_cdrom(parts) {
        true => refuse("explicit 'media=cdrom' is required for iso images".to_owned()),
        false => Ok(()),
    }
}

/// Makes the disk of one drive option, or leaves the option as it is where nothing is to be made.
pub(crate) fn make(
    storages: &mut Storages,
    node: &str,
    vmid: u32,
    key: &str,
    parts: &Parts,
    now: Timestamp,
) -> Result<Made, String> {
    match Source::of(parts)? {
        Source::Nothing => {
            let mut parts = parts.clone();
            parts.insert("media".to_owned(), "cdrom".to_owned());
            parts.remove("size");
            Ok(Made { value: print(key, &parts), volid: None, lines: Vec::new(), takes: Duration::ZERO })
        }
        Source::Existing { volid } if volid.starts_with("/dev/") => {
            Ok(Made { value: print(key, parts), volid: None, lines: Vec::new(), takes: Duration::ZERO })
        }
        Source::Existing { volid } => {
            let mut parts = parts.clone();
            let there = storages.volume_or_path(node, &volid);
            let volume = there.ok_or_else(|| format!("volume {volid} does not exist"))?;
            if let Some(format) = parts.get("format").filter(|format| **format != volume.format) {
                return Err(format!(
                    "drive '{key}' - volume '{volid}' - 'format={format}' option different from storage format '{}'",
                    volume.format
                ));
            }
            // The size of a disk is looked up, whatever the caller says or leaves out.
            parts.insert("size".to_owned(), print_size(volume.size));
            parts.insert("file".to_owned(), volume.volid.clone());
            Ok(Made { value: print(key, &parts), volid: None, lines: Vec::new(), takes: Duration::ZERO })
        }
        Source::CloudInit { storage } => {
            let format = Some(parts.get("format").map_or("qcow2", String::as_str));
            let wish = Wish {
                storage: &storage,
                vmid,
                size: CLOUDINIT,
                used: CLOUDINIT,
                format,
                cloudinit: true,
                origin: None,
            };
            let volume = storages.allocate(node, wish, now)?;
            let mut parts = parts.clone();
            parts.insert("media".to_owned(), "cdrom".to_owned());
            Ok(made(storages, key, &mut parts, &volume, None))
        }
        Source::New { storage, bytes } => {
            let size = match key {
                // What the firmware keeps its variables in; the larger form must be asked for.
                "efidisk0" if parts.get("efitype").is_some_and(|kind| kind == "4m") => 528 << 10,
                "efidisk0" => 128 << 10,
                "tpmstate0" => CLOUDINIT,
                _ => bytes,
            };
            let format = parts.get("format").map(String::as_str);
            let wish =
                Wish { storage: &storage, vmid, size, used: 0, format, cloudinit: false, origin: None };
            let volume = storages.allocate(node, wish, now)?;
            let mut parts = parts.clone();
            parts.insert("size".to_owned(), print_size(size));
            Ok(made(storages, key, &mut parts, &volume, None))
        }
        Source::Import { storage, from } => {
            let source = storages.volume_or_path(node, &from).cloned().ok_or_else(|| {
                let path =
                    storages.storage_of(&from).map_or_else(|| from.clone(), |storage| storage.path_of(&from));
                format!("failed to stat '{path}'")
            })?;
            let format = parts.get("format").unwrap_or(&source.format).clone();
            let wish = Wish {
                storage: &storage,
                vmid,
                size: source.size,
                used: source.used,
                format: Some(&format),
                cloudinit: false,
                origin: source.origin.clone(),
            };
            let volume = storages.allocate(node, wish, now)?;
            let mut parts = parts.clone();
            parts.insert("size".to_owned(), print_size(source.size));
            Ok(made(storages, key, &mut parts, &volume, Some(&source)))
        }
    }
}

fn made(storages: &Storages, key: &str, parts: &mut Parts, volume: &Volume, source: Option<&Volume>) -> Made {
    parts.remove("import-from");
    parts.remove("format");
    parts.insert("file".to_owned(), volume.volid.clone());
    let value = print(key, parts);
    let mut lines = Vec::new();
    let start = Duration::from_millis(300);
    let mut takes = start;
    if let Some(source) = source {
        lines.push((Duration::ZERO, format!("create full clone of drive ({})", source.volid)));
    }
    lines.push((start, created(storages, volume)));
    if let Some(source) = source {
        lines.push((start, format!("allocated target volume '{}'", volume.volid)));
        takes += copying(source.size, start, &mut lines);
    }
    lines.push((takes, format!("{key}: successfully created disk '{value}'")));
    Made { value, volid: Some(volume.volid.clone()), lines, takes }
}

/// How long it takes to copy so many bytes.
pub(crate) fn copy_time(bytes: u64) -> Duration {
    Duration::from_millis(1200 + bytes.saturating_mul(1000) / COPY_RATE)
}

/// Writes the progress of a copy that starts at `started`; gives how long it takes.
pub(crate) fn copying(bytes: u64, start: Duration, lines: &mut Vec<(Duration, String)>) -> Duration {
    let copy = copy_time(bytes);
    let whole = readable(bytes);
    for percent in (0..=100_u64).step_by(10) {
        let done = readable(bytes.saturating_mul(percent) / 100);
        let at = start + copy.mul_f64(f64::from(u32::try_from(percent).unwrap_or(100)) / 100.0);
        lines.push((at, format!("transferred {done} of {whole} ({percent}.00%)")));
    }
    copy
}

/// What the tool that makes a volume prints.
pub(crate) fn created(storages: &Storages, volume: &Volume) -> String {
    let Some(storage) = storages.storage_of(&volume.volid) else { return String::new() };
    let size = volume.size;
    if !storage.kind.keeps_files() {
        let name = volume.volid.split_once(':').map_or("", |(_, name)| name);
        return format!("  Logical volume \"{name}\" created.");
    }
    let path = storage.path_of(&volume.volid);
    match volume.format.as_str() {
        "qcow2" => format!(
            "Formatting '{path}', fmt=qcow2 cluster_size=65536 extended_l2=off preallocation=metadata \
             compression_type=zlib size={size} lazy_refcounts=off refcount_bits=16"
        ),
        format => format!("Formatting '{path}', fmt={format} size={size} preallocation=off"),
    }
}

fn print(key: &str, parts: &Parts) -> String {
    options::drive_props(key).map(|props| props.print(parts)).unwrap_or_default()
}

/// A size for people, as the copying tool prints it.
fn readable(bytes: u64) -> String {
    let units = [(1_u64 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match units.iter().find(|(unit, _)| bytes >= *unit) {
        Some((unit, name)) => {
            let tenths = bytes.saturating_mul(10) / unit;
            format!("{}.{} {name}", tenths / 10, tenths % 10)
        }
        None => format!("{bytes}.0 B"),
    }
}
