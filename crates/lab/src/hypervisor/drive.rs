//! The drives of a VM.

use crate::hypervisor::options;
use crate::schema::{Parts, parse_size};

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
