//! The named formats of the API schema: those that are property strings, and those that the server checks by code.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::hypervisor::access::PRIVILEGES;
use crate::hypervisor::drive::parse_size;

const CONTENTS: &[&str] = &["backup", "images", "import", "iso", "none", "rootdir", "snippets", "vztmpl"];

/// Says what is wrong with `value`, the value of the parameter `name`.
pub(crate) fn check(format: &str, name: &str, value: &str) -> Result<(), String> {
    if let Some(props) = super::props(format) {
        return props.parse(name, value).map(drop);
    }
    if let Some(single) = format.strip_suffix("-list") {
        let mut items = value.split([',', ';', ' ', '\0', '\n', '\t']).filter(|item| !item.is_empty());
        return items.try_for_each(|item| check(single, name, item));
    }
    let good = |good: bool, words: &str| if good { Ok(()) } else { Err(words.to_owned()) };
    let looks = |fits: bool, what: &str| good(fits, &format!("value does not look like a valid {what}"));
    match format {
        "pve-vmid" => looks(is_vmid(value), "VM ID"),
        "pve-node" => looks(is_label(value), "node name"),
        "dns-name" => looks(value.split('.').all(|label| label.len() <= 63 && is_label(label)), "DNS name"),
        "mac-addr" => looks(is_unicast(value), "unicast MAC address"),
        "ipv4" => looks(value.parse::<Ipv4Addr>().is_ok(), "ipv4 address"),
        "ipv6" => looks(value.parse::<Ipv6Addr>().is_ok(), "ipv6 address"),
        "ip" => looks(value.parse::<IpAddr>().is_ok(), "IP address"),
        "address" => looks(value.parse::<IpAddr>().is_ok() || value.split('.').all(is_label), "address"),
        "CIDRv4" => {
            looks(value.parse::<ipnet::Ipv4Net>().is_ok_and(|net| net.prefix_len() > 7), "IPv4 CIDR network")
        }
        "CIDRv6" => {
            looks(value.parse::<ipnet::Ipv6Net>().is_ok_and(|net| net.prefix_len() > 7), "IPv6 CIDR network")
        }
        "CIDR" => looks(value.parse::<ipnet::IpNet>().is_ok(), "CIDR network"),
        "pve-ipv4-config" => {
            let fits = matches!(value, "dhcp" | "manual") || value.parse::<ipnet::Ipv4Net>().is_ok();
            looks(fits, "ipv4 network configuration")
        }
        "pve-ipv6-config" => {
            let fits = matches!(value, "auto" | "dhcp" | "manual") || value.parse::<ipnet::Ipv6Net>().is_ok();
            looks(fits, "ipv6 network configuration")
        }
        "pve-configid" => good(is_config_id(value), &format!("invalid configuration ID '{value}'")),
        "pve-storage-id" => storage_id(value),
        "pve-bridge-id" => good(is_iface(value), &format!("invalid bridge ID '{value}'")),
        "pve-iface" => good(is_iface(value), &format!("invalid network interface name '{value}'")),
        "pve-storage-content" => good(CONTENTS.contains(&value), &format!("invalid content type '{value}'")),
        "pve-priv" => good(PRIVILEGES.contains(&value), &format!("invalid privilege '{value}'")),
        "pve-poolid" => good(is_pool(value), &format!("pool name '{value}' contains invalid characters")),
        "pve-roleid" => good(is_plain(value), &format!("role name '{value}' contains invalid characters")),
        "pve-groupid" => good(is_plain(value), &format!("group name '{value}' contains invalid characters")),
        "pve-realm" => looks(is_plain(value) && value.len() > 1, "realm"),
        "pve-userid" => {
            good(is_user(value), &format!("value '{value}' does not look like a valid user name"))
        }
        "pve-tag" => good(is_tag(value), "invalid characters in tag"),
        "pve-qm-bootdev" => good(is_boot_device(value), &format!("invalid boot device '{value}'")),
        "pve-qm-bootdisk" => good(is_boot_device(value), &format!("invalid boot disk '{value}'")),
        "disk-size" => good(parse_size(value).is_some(), &format!("unable to parse size '{value}'")),
        "pve-volume-id" => volume_id(value),
        "pve-volume-id-or-qm-path" if matches!(value, "none" | "cdrom") || value.starts_with('/') => Ok(()),
        "pve-volume-id-or-absolute-path" if value.starts_with('/') => Ok(()),
        "pve-volume-id-or-qm-path" | "pve-volume-id-or-absolute-path" => volume_id(value),
        "urlencoded" => good(is_urlencoded(value), &format!("invalid urlencoded string: {value}")),
        "pve-hotplug-features" => {
            let known = ["network", "disk", "cpu", "memory", "usb", "cloudinit", "0", "1"];
            good(value.split(',').all(|part| known.contains(&part)), "unable to parse hotplug option")
        }
        "pve-startup-order" => good(is_startup(value), "unable to parse startup options"),
        _ => Ok(()),
    }
}

fn is_vmid(value: &str) -> bool {
    value.len() <= 9 && !value.starts_with('0') && value.parse::<u32>().is_ok_and(|id| id >= 100)
}

fn is_label(label: &str) -> bool {
    !label.is_empty()
        && label.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
        && !label.starts_with('-')
        && !label.ends_with('-')
}

fn is_unicast(value: &str) -> bool {
    let pair = |pair: &str| pair.len() == 2 && pair.chars().all(|c| c.is_ascii_hexdigit());
    let unicast = u8::from_str_radix(value.get(..2).unwrap_or("ff"), 16).is_ok_and(|first| first & 1 == 0);
    value.split(':').count() == 6 && value.split(':').all(pair) && unicast
}

fn is_config_id(value: &str) -> bool {
    value.len() >= 2
        && value.starts_with(|c: char| c.is_ascii_alphabetic())
        && value.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'))
}

fn is_iface(value: &str) -> bool {
    (2..=20).contains(&value.len())
        && value.starts_with(|c: char| c.is_ascii_alphabetic())
        && value.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | ':'))
}

fn storage_id(value: &str) -> Result<(), String> {
    if value.len() < 2 {
        return Err(format!("storage ID '{value}' cannot be shorter than 2 characters"));
    }
    let good = value.starts_with(|c: char| c.is_ascii_alphabetic())
        && value.ends_with(|c: char| c.is_ascii_alphanumeric())
        && value.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.'));
    if good { Ok(()) } else { Err(format!("storage ID '{value}' contains illegal characters")) }
}

fn volume_id(value: &str) -> Result<(), String> {
    match value.split_once(':') {
        Some((storage, name)) if storage_id(storage).is_ok() && !name.is_empty() => Ok(()),
        _ => Err(format!("unable to parse volume ID '{value}'")),
    }
}

fn is_plain(value: &str) -> bool {
    !value.is_empty() && value.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_'))
}

fn is_pool(value: &str) -> bool {
    let leaf = value.rsplit('/').next().unwrap_or_default();
    value.split('/').count() <= 3
        && value.split('/').all(is_plain)
        && leaf.starts_with(|c: char| c.is_ascii_alphabetic())
}

fn is_user(value: &str) -> bool {
    value.rsplit_once('@').is_some_and(|(name, realm)| {
        !name.is_empty() && !name.contains([' ', ':', '/']) && is_plain(realm) && realm.len() > 1
    })
}

fn is_tag(tag: &str) -> bool {
    tag.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
        && tag.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '+' | '.'))
}

fn is_boot_device(value: &str) -> bool {
    let stem = value.trim_end_matches(|c: char| c.is_ascii_digit());
    stem.len() < value.len() && matches!(stem, "ide" | "sata" | "scsi" | "virtio" | "net" | "usb" | "hostpci")
}

fn is_urlencoded(value: &str) -> bool {
    let bytes = value.as_bytes();
    let escape =
        |at: usize| bytes.get(at + 1..at + 3).is_some_and(|hex| hex.iter().all(u8::is_ascii_hexdigit));
    bytes.iter().enumerate().all(|(at, byte)| match byte {
        b'%' => escape(at),
        other => other.is_ascii_alphanumeric() || b"-_.!~*'()".contains(other),
    })
}

fn is_startup(value: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_digit());
    value.split(',').all(|part| match part.split_once('=') {
        Some((key, number)) => matches!(key, "order" | "up" | "down") && digits(number),
        None => digits(part),
    })
}
