//! Reading Proxmox' values so that two ways of writing the same thing are the same.
//!
//! A value is a list of properties; the first may leave out its name. Proxmox prints drives and cards again and keeps
//! everything else as it was written, so values are never compared as texts.

use std::collections::BTreeMap;

/// The properties of a value, the unnamed one under its name, flags as `0` and `1`, and with what Proxmox takes for
/// granted filled in.
#[must_use]
pub fn parts(key: &str, value: &str) -> BTreeMap<String, String> {
    let kind = kind(key);
    if kind == Kind::Plain {
        return [(String::new(), value.trim().to_owned())].into();
    }
    let mut parts: BTreeMap<String, String> =
        kind.granted().iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    for part in value.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let (name, value) = part.split_once('=').unwrap_or((kind.unnamed(), part));
        if kind == Kind::Card && is_mac(value) {
            // `virtio=BC:…` says two things: the model, and the address.
            if name != "macaddr" {
                parts.insert("model".to_owned(), name.to_owned());
            }
            parts.insert("macaddr".to_owned(), value.to_ascii_uppercase());
            continue;
        }
        let value = match kind.granted().iter().find(|(known, _)| *known == name) {
            Some((_, "0" | "1")) => flag(value).to_owned(),
            _ if name == "uuid" => value.to_ascii_lowercase(),
            _ => value.to_owned(),
        };
        parts.insert(name.to_owned(), value);
    }
    parts
}

/// The names of the properties in which `seen` is not as `wanted`. Properties that are not wanted are not compared, nor is
/// the volume of a drive: where it lies is a matter of moving it.
#[must_use]
pub fn differing(key: &str, wanted: &str, seen: Option<&str>) -> Vec<String> {
    let Some(seen) = seen else { return vec![String::new()] };
    let (wanted, seen) = (parts(key, wanted), parts(key, seen));
    let left_alone = |name: &str| matches!(name, "file" | "import-from" | "size" | "media" | "format");
    wanted
        .into_iter()
        .filter(|(name, _)| kind(key) != Kind::Drive || !left_alone(name))
        .filter(|(name, value)| seen.get(name) != Some(value))
        .map(|(name, _)| name)
        .collect()
}

/// `seen` with the properties of `wanted` in place of its own.
#[must_use]
pub fn corrected(key: &str, wanted: &str, seen: Option<&str>) -> String {
    let (Some(seen), true) = (seen, matches!(kind(key), Kind::Drive | Kind::Card)) else {
        return wanted.to_owned();
    };
    let mut merged = parts(key, seen);
    merged.extend(
        parts(key, wanted).into_iter().filter(|(name, _)| name != "file" || kind(key) != Kind::Drive),
    );
    let mut text = match kind(key) {
        Kind::Card => {
            let mac = merged.remove("macaddr").unwrap_or_default();
            format!("{}={mac}", merged.remove("model").unwrap_or_default())
        }
        _ => merged.remove("file").unwrap_or_default(),
    };
    for (name, value) in merged.iter().filter(|(name, value)| {
        // Proxmox takes it for granted, and some buses know no such option.
        !kind(key).granted().iter().any(|(known, granted)| known == name && granted == value)
    }) {
        text.push_str(&format!(",{name}={value}"));
    }
    text
}

/// Size of a drive in GiB, rounded down, where its value says so.
#[must_use]
pub fn gib(value: &str) -> Option<u64> {
    let size = value.split(',').find_map(|part| part.trim().strip_prefix("size="))?;
    let unit = size.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    let number: f64 = size.get(..size.len() - unit.len())?.parse().ok()?;
    let gib = match unit {
        "T" => number * 1024.0,
        "G" => number,
        "M" => number / 1024.0,
        "K" => number / 1024.0 / 1024.0,
        "" => number / 1024.0 / 1024.0 / 1024.0,
        _ => return None,
    };
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "digits and dots are not negative"
    )]
    Some(gib as u64)
}

/// Whether a key names a drive.
#[must_use]
pub fn is_drive(key: &str) -> bool {
    kind(key) == Kind::Drive || matches!(key, "efidisk0" | "tpmstate0")
}

/// How a value is to be read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Plain,
    Drive,
    Card,
    Pci,
    Properties(&'static str),
}

impl Kind {
    fn unnamed(self) -> &'static str {
        match self {
            Self::Drive => "file",
            Self::Card => "model",
            Self::Pci => "host",
            Self::Properties(name) => name,
            Self::Plain => "",
        }
    }

    fn granted(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Drive => {
                &[("cache", "none"), ("discard", "ignore"), ("iothread", "0"), ("ssd", "0"), ("backup", "1")]
            }
            Self::Card => &[("tag", ""), ("mtu", "")],
            Self::Pci => &[("pcie", "0"), ("rombar", "1"), ("x-vga", "0")],
            Self::Plain | Self::Properties(_) => &[],
        }
    }
}

fn kind(key: &str) -> Kind {
    let word = key.trim_end_matches(|c: char| c.is_ascii_digit());
    match word {
        "scsi" | "virtio" | "sata" | "ide" if word.len() < key.len() => Kind::Drive,
        "net" => Kind::Card,
        "hostpci" => Kind::Pci,
        "efidisk" | "tpmstate" => Kind::Properties("file"),
        "cpu" => Kind::Properties("cputype"),
        "machine" | "vga" => Kind::Properties("type"),
        "agent" => Kind::Properties("enabled"),
        "startup" => Kind::Properties("order"),
        "ipconfig" => Kind::Properties("ip"),
        "boot" => Kind::Properties("legacy"),
        "smbios" => Kind::Properties("uuid"),
        _ => Kind::Plain,
    }
}

fn is_mac(text: &str) -> bool {
    text.len() == 17 && text.split(':').count() == 6
}

fn flag(text: &str) -> &str {
    match text.to_ascii_lowercase().as_str() {
        "1" | "on" | "yes" | "true" => "1",
        "0" | "off" | "no" | "false" => "0",
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_ways_of_writing_the_same_are_the_same() {
        for (key, wanted, seen) in [
            (
                "net0",
                "virtio=BC:24:11:00:00:01,bridge=vmbr0",
                "model=virtio,macaddr=bc:24:11:00:00:01,bridge=vmbr0,firewall=1",
            ),
            (
                "scsi0",
                "x:0,cache=none,discard=on,iothread=1,ssd=1,backup=1",
                "local-lvm:vm-1-disk-0,discard=on,iothread=on,size=20G,ssd=1",
            ),
            ("cpu", "host", "cputype=host,flags=+aes"),
            ("agent", "1", "enabled=1,fstrim_cloned_disks=1"),
            ("hostpci0", "mapping=gpu,pcie=1,rombar=1,x-vga=0", "mapping=gpu,pcie=1"),
            ("smbios1", "uuid=ab", "uuid=AB,serial=x"),
            ("startup", "order=1,up=30", "1,up=30"),
            ("boot", "order=scsi0", "order=scsi0"),
            ("efidisk0", "", "local-lvm:vm-1-disk-1,efitype=4m,size=4M"),
        ] {
            assert_eq!(differing(key, wanted, Some(seen)), Vec::<String>::new(), "{key}");
        }
    }

    #[test]
    fn what_differs_is_named() {
        assert_eq!(differing("cores", "4", Some("2")), [""]);
        assert_eq!(differing("cores", "4", None), [""]);
        assert_eq!(
            differing(
                "net0",
                "virtio=BC:24:11:00:00:01,bridge=vmbr0",
                Some("virtio=BC:24:11:00:00:01,bridge=vmbr1,tag=4")
            ),
            ["bridge", "tag"]
        );
        assert_eq!(
            differing("scsi1", "x:0,cache=writeback", Some("x:vm-1-disk-1,backup=0,size=1G")),
            ["backup", "cache"]
        );
    }

    #[test]
    fn a_correction_keeps_volume_address_and_what_others_set() {
        assert_eq!(
            corrected(
                "scsi1",
                "x:100,cache=none,discard=on,backup=0,wwn=0x5",
                Some("x:vm-1-disk-1,cache=unsafe,iops=90,size=100G")
            ),
            "x:vm-1-disk-1,backup=0,discard=on,iops=90,size=100G,wwn=0x5"
        );
        assert_eq!(
            corrected(
                "net0",
                "virtio=BC:24:11:00:00:01,bridge=vmbr0",
                Some("virtio=BC:24:11:00:00:01,bridge=vmbr1,firewall=1,tag=4")
            ),
            "virtio=BC:24:11:00:00:01,bridge=vmbr0,firewall=1"
        );
        assert_eq!(corrected("cores", "4", Some("2")), "4");
    }

    #[test]
    fn sizes_are_whole_gib() {
        assert_eq!(gib("x:vm-1-disk-0,size=20G"), Some(20));
        assert_eq!(gib("x:vm-1-disk-0,size=1T"), Some(1024));
        assert_eq!(gib("x:vm-1-disk-0,size=10500M,ssd=1"), Some(10));
        assert_eq!(gib("none"), None);
    }
}
