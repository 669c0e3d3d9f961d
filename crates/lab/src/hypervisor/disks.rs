//! Making the disks that drive options ask for: new, imported, or for cloud-init. Used when a VM is created and when its
//! configuration is changed.

use std::time::Duration;

use jiff::Timestamp;

use crate::hypervisor::drive::{self, Source, print_size};
use crate::hypervisor::options;
use crate::hypervisor::refusal::Refusal;
use crate::hypervisor::storage::{Storages, Volume, Wish};
use crate::schema::Parts;

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

/// Checks what can be checked before a task begins. `caller` is the full id of who asks.
pub(crate) fn check(
    storages: &Storages,
    node: &str,
    key: &str,
    parts: &Parts,
    caller: &str,
) -> Result<(), Refusal> {
    let source = Source::of(parts).map_err(|text| Refusal::parameter(key, text))?;
    if let Some(storage) = source.target() {
        let storage = storages.usable(node, storage).map_err(Refusal::Failed)?;
        if !storage.content.contains("images") {
            let text = format!("storage '{}' does not support content-type 'images'", storage.id);
            return Err(Refusal::failed(text));
        }
    }
    let Source::Import { from, .. } = source else { return Ok(()) };
    if from.starts_with('/') {
        return if caller == "root@pam" {
            Ok(())
        } else {
            Err(Refusal::failed(
                "Only root can pass arbitrary filesystem paths. at /usr/share/perl5/PVE/Storage.pm line 651.",
            ))
        };
    }
    let (storage, name) = from.split_once(':').unwrap_or((&from, ""));
    storages.usable(node, storage).map_err(Refusal::Failed)?;
    let content = match name.split_once('/').map(|(kind, _)| kind) {
        Some(kind @ ("iso" | "vztmpl" | "backup" | "snippets")) => kind,
        _ => return Ok(()),
    };
    Err(Refusal::parameter(
        key,
        format!("{from} has wrong type '{content}' - needs to be 'images' or 'import'"),
    ))
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
            Ok(Made { value: print(key, parts), volid: None, lines: Vec::new(), takes: Duration::ZERO })
        }
        Source::Existing { volid } => {
            let mut parts = parts.clone();
            // The size of a disk is looked up, whatever the caller says or leaves out.
            if let Some(volume) = storages.volume(node, &volid).filter(|volume| volume.content == "images")
                && !drive::is_cdrom(&parts)
            {
                parts.insert("size".to_owned(), print_size(volume.size));
            }
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
    let begun = Duration::from_millis(300);
    let mut takes = begun;
    if let Some(source) = source {
        lines.push((Duration::ZERO, format!("create full clone of drive ({})", source.volid)));
    }
    lines.push((begun, created(storages, volume)));
    if let Some(source) = source {
        lines.push((begun, format!("allocated target volume '{}'", volume.volid)));
        takes += copying(source.size, begun, &mut lines);
    }
    lines.push((takes, format!("{key}: successfully created disk '{value}'")));
    Made { value, volid: Some(volume.volid.clone()), lines, takes }
}

/// How long it takes to copy so many bytes.
pub(crate) fn copy_time(bytes: u64) -> Duration {
    Duration::from_millis(1200 + bytes.saturating_mul(1000) / COPY_RATE)
}

/// Writes the progress of a copy that begins at `begun`; gives how long it takes.
pub(crate) fn copying(bytes: u64, begun: Duration, lines: &mut Vec<(Duration, String)>) -> Duration {
    let copy = copy_time(bytes);
    let whole = readable(bytes);
    for percent in (0..=100_u64).step_by(10) {
        let done = readable(bytes.saturating_mul(percent) / 100);
        let at = begun + copy.mul_f64(f64::from(u32::try_from(percent).unwrap_or(100)) / 100.0);
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
