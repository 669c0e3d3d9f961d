//! Sizes, and the drives of a VM.

use crate::hypervisor::options;
use crate::schema::Parts;

/// Bytes of `10G`, `512M`, `4M`, `1024`; nothing if it is no size.
pub(crate) fn parse_size(text: &str) -> Option<u64> {
    let (number, unit) = match text.find(|c: char| !c.is_ascii_digit() && c != '.') {
        Some(at) => text.split_at(at),
        None => (text, ""),
    };
    if !number.starts_with(|c: char| c.is_ascii_digit()) || number.ends_with('.') {
        return None;
    }
    let unit: u64 = match unit.strip_suffix("iB").filter(|unit| !unit.is_empty()).unwrap_or(unit) {
        "" => 1,
        "K" => 1 << 10,
        "M" => 1 << 20,
        "G" => 1 << 30,
        "T" => 1 << 40,
        _ => return None,
    };
    match number.split_once('.') {
        None => number.parse::<u64>().ok()?.checked_mul(unit),
        Some(_) => {
            let number: f64 = number.parse().ok()?;
            #[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            Some((number * unit as f64) as u64)
        }
    }
}

/// A size with the largest unit that is exact, as Proxmox writes it.
pub(crate) fn print_size(bytes: u64) -> String {
    let units = [(1_u64 << 40, "T"), (1 << 30, "G"), (1 << 20, "M"), (1 << 10, "K")];
    let exact = units.iter().find(|(unit, _)| bytes > 0 && bytes.is_multiple_of(*unit));
    exact.map_or_else(|| bytes.to_string(), |(unit, name)| format!("{}{name}", bytes / unit))
}

/// The parts of a drive option; nothing if `key` is no drive or the value cannot be read.
pub(crate) fn parts(key: &str, value: &str) -> Option<Parts> {
    options::drive_props(key)?.parse(key, value).ok()
}

/// What the `file` of a drive asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Source {
    /// A new empty disk of so many bytes.
    New { storage: String, bytes: u64 },
    /// A copy of another volume.
    Import { storage: String, from: String },
    /// A drive for cloud-init.
    CloudInit { storage: String },
    /// A volume that is already there.
    Existing { volid: String },
    /// No medium, or the host's own drive.
    Nothing,
}

impl Source {
    /// Reads `file` and `import-from`. The error is that of the parameter.
    pub(crate) fn of(parts: &Parts) -> Result<Self, String> {
        let file = parts.get("file").map_or("none", String::as_str);
        let (storage, rest) = match file.split_once(':') {
            Some(split) if !file.starts_with('/') => split,
            _ if file.starts_with('/') => return Ok(Self::Existing { volid: file.to_owned() }),
            None if matches!(file, "none" | "cdrom") => return Ok(Self::Nothing),
            _ => return Err("unable to parse drive options".to_owned()),
        };
        let storage = storage.to_owned();
        if let Some(from) = parts.get("import-from") {
            return match rest.parse::<f64>() {
                Ok(0.0) if is_new(rest) => Ok(Self::Import { storage, from: from.clone() }),
                _ => Err("'import-from' requires special syntax - use <storage ID>:0,import-from=<source>"
                    .to_owned()),
            };
        }
        if rest == "cloudinit" {
            return Ok(Self::CloudInit { storage });
        }
        match parse_size(&format!("{rest}G")).filter(|_| is_new(rest)) {
            Some(bytes) => Ok(Self::New { storage, bytes }),
            None => Ok(Self::Existing { volid: file.to_owned() }),
        }
    }
}

/// Whether what follows the storage is the size of a new disk.
pub(crate) fn is_new(rest: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    rest.split_once('.').map_or_else(|| digits(rest), |(whole, part)| digits(whole) && digits(part))
}

/// Whether the drive is the one for cloud-init, wanted or made.
pub(crate) fn is_cloudinit(parts: &Parts) -> bool {
    let name = parts.get("file").map_or("", |file| file.rsplit([':', '/']).next().unwrap_or_default());
    let stem = ["raw", "qcow2", "vmdk"]
        .iter()
        .find_map(|format| name.strip_suffix(format)?.strip_suffix('.'))
        .unwrap_or(name);
    stem == "cloudinit" || stem.strip_prefix("vm-").is_some_and(|rest| rest.ends_with("-cloudinit"))
}

/// Whether the drive is a CD.
pub(crate) fn is_cdrom(parts: &Parts) -> bool {
    parts.get("media").is_some_and(|media| media == "cdrom")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_and_written() {
        for (text, bytes) in
            [("528K", 540_672), ("4M", 4 << 20), ("20G", 20 << 30), ("1.5G", 3 << 29), ("100", 100)]
        {
            assert_eq!(parse_size(text), Some(bytes), "{text}");
        }
        assert_eq!(parse_size("10X"), None);
        assert_eq!(print_size(3 << 29), "1536M");
        assert_eq!(print_size(540_672), "528K");
        assert_eq!(print_size(2 << 30), "2G");
    }

    #[test]
    fn a_drive_says_what_it_asks_for() {
        let source = |text: &str| Source::of(&parts("scsi0", text).unwrap());
        assert_eq!(source("local:8"), Ok(Source::New { storage: "local".into(), bytes: 8 << 30 }));
        assert_eq!(
            source("local:0,import-from=local:import/a.qcow2"),
            Ok(Source::Import { storage: "local".into(), from: "local:import/a.qcow2".into() })
        );
        assert!(source("local:8,import-from=local:import/a.qcow2").is_err());
        assert_eq!(source("local:cloudinit"), Ok(Source::CloudInit { storage: "local".into() }));
        assert_eq!(source("lvm:vm-1-disk-0"), Ok(Source::Existing { volid: "lvm:vm-1-disk-0".into() }));
    }
}
