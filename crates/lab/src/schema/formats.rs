//! The named formats of the API schema: those that are property strings, and those that the server checks by code.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::fits::{
    id, is_boot_device, is_cidr4, is_cidr6, is_config_id, is_cpu_set, is_digits, is_dns, is_drive, is_email,
    is_iface, is_ip, is_ip_or_net, is_label, is_lvm, is_mac_prefix, is_mail_user, is_mask, is_plain,
    is_realm, is_startup, is_tag, is_unicast, is_urlencoded, is_user, is_vmid, job, pair, pool, ports, user,
    vlans, volume_id,
};
use super::{PRIVILEGES, cpu, parse_size};
use super::{Parts, word_to_bool};

const CONTENTS: &[&str] = &["backup", "images", "import", "iso", "none", "rootdir", "snippets", "vztmpl"];

/// The items of a list in one text, as the server splits it.
pub(crate) fn items(text: &str) -> Vec<&str> {
    match text.contains('\0') {
        true => text.split('\0').collect(),
        false => text.split([',', ';', ' ', '\n', '\t', '\r']).filter(|item| !item.is_empty()).collect(),
    }
}

/// Says what is wrong with `value`, the value of the parameter `name`.
pub(crate) fn check(format: &str, name: &str, value: &str) -> Result<(), String> {
    if let Some(props) = super::props(format) {
        let parts = props.parse(name, value)?;
        return agree(format, &parts);
    }
    if let Some(single) = format.strip_suffix("-list") {
        return items(value).into_iter().try_for_each(|item| check(single, name, item));
    }
    if let Some(single) = format.strip_suffix("-opt") {
        return if matches!(value, "" | "0") { Ok(()) } else { check(single, name, value) };
    }
    let good = |good: bool, words: &str| if good { Ok(()) } else { Err(words.to_owned()) };
    let looks = |fits: bool, what: &str| good(fits, &format!("value does not look like a valid {what}"));
    match format {
        "pve-vmid" => looks(is_vmid(value), "VM ID"),
        "pve-node" => looks(is_label(value), "node name"),
        "dns-name" => looks(is_dns(value), "DNS name"),
        "mac-addr" => looks(is_unicast(value), "unicast MAC address"),
        "mac-prefix" => good(is_mac_prefix(value), "value is not a valid unicast MAC address prefix"),
        "ipv4" => looks(value.parse::<Ipv4Addr>().is_ok(), "IPv4 address"),
        "ipv6" => looks(value.parse::<Ipv6Addr>().is_ok(), "IPv6 address"),
        "ip" => looks(is_ip(value), "IP address"),
        "ipv4mask" => looks(is_mask(value), "IP netmask"),
        "address" => looks(is_ip(value) || is_dns(value), &format!("address: {value}")),
        "CIDRv4" => looks(is_cidr4(value), "IPv4 CIDR network"),
        "CIDRv6" => looks(is_cidr6(value), "IPv6 CIDR network"),
        "CIDR" => looks(is_cidr4(value) || is_cidr6(value), "CIDR network"),
        "IPorCIDR" => looks(is_ip_or_net(value), "IP address or CIDR network"),
        "IPorCIDRorAlias" => {
            let bare = value.strip_prefix("dc/").or_else(|| value.strip_prefix("guest/")).unwrap_or(value);
            looks(is_config_id(bare) || is_ip_or_net(value), "IP address or CIDR network")
        }
        "pve-ipv4-config" => {
            looks(matches!(value, "dhcp" | "manual") || is_cidr4(value), "ipv4 network configuration")
        }
        "pve-ipv6-config" => looks(
            matches!(value, "auto" | "dhcp" | "manual") || is_cidr6(value),
            "ipv6 network configuration",
        ),
        "email" => looks(is_email(value), "email address"),
        "email-or-username" => looks(is_email(value) || is_mail_user(value), "email address or user name"),
        "ldap-simple-attr" => {
            let fits = !value.is_empty() && value.chars().all(|c| c.is_ascii_alphanumeric());
            good(fits, &format!("value '{value}' does not look like a simple ldap attribute name"))
        }
        "pve-configid" => good(is_config_id(value), &format!("invalid configuration ID '{value}'")),
        "pve-storage-id" => id(value, "storage"),
        "acme-plugin-id" => id(value, "ACME plugin"),
        "storage-pair" => pair(value, |part| id(part, "storage")),
        "bridge-pair" => pair(value, |part| check("pve-bridge-id", name, part)),
        "pve-bridge-id" => good(is_plain(value), &format!("invalid bridge ID '{value}'")),
        "pve-iface" => good(is_iface(value), &format!("invalid network interface name '{value}'")),
        "pve-vlan-id-or-range" => vlans(value),
        "pve-storage-content" => good(CONTENTS.contains(&value), &format!("invalid content type '{value}'")),
        "pve-storage-path" => {
            let fits = value
                .strip_prefix('/')
                .is_some_and(|rest| !rest.is_empty() && !rest.starts_with([';', '(', ')']));
            looks(fits, "absolute path")
        }
        "pve-storage-server" => looks(is_ip(value) || is_dns(value), "server name or IP address"),
        "pve-storage-portal-dns" => {
            let host =
                value.rsplit_once(':').filter(|(_, port)| is_digits(port)).map_or(value, |(host, _)| host);
            looks(is_ip(value) || is_ip(host.trim_matches(['[', ']'])) || is_dns(host), "portal address")
        }
        "pve-storage-vgname" => {
            good(is_lvm(value), &format!("lvm name '{value}' contains illegal characters"))
        }
        "pve-storage-options" => good(
            !value.is_empty() && !value.contains(char::is_whitespace),
            &format!("invalid options '{value}'"),
        ),
        "pve-dir-override" => {
            let fits = value.split_once('=').is_some_and(|(kind, path)| {
                CONTENTS.contains(&kind) && !path.is_empty() && !path.contains("..") && !path.ends_with('.')
            });
            good(fits, &format!("invalid override '{value}'"))
        }
        "pve-priv" => good(PRIVILEGES.contains(&value), &format!("invalid privilege '{value}'")),
        "pve-poolid" => pool(value),
        "pve-roleid" => good(is_plain(value), &format!("role name '{value}' contains invalid characters")),
        "pve-groupid" => good(is_plain(value), &format!("group name '{value}' contains invalid characters")),
        "pve-realm" => looks(is_realm(value), "realm"),
        "pve-userid" => user(value),
        "pve-tokenid" => {
            let fits = value.split_once('!').is_some_and(|(user, name)| is_user(user) && is_realm(name));
            good(fits, &format!("value '{value}' does not look like a valid token ID"))
        }
        "pve-replication-job-id" => job(value),
        "pve-task-status-type" => {
            let fits = ["ok", "error", "warning", "unknown"].contains(&value.to_lowercase().as_str());
            good(fits, &format!("invalid status '{value}'"))
        }
        "pve-day-of-week" => {
            let days = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];
            good(days.contains(&value), &format!("invalid day '{value}'"))
        }
        "pve-tag" => good(is_tag(value), "invalid characters in tag"),
        "pve-qm-bootdev" => good(is_boot_device(value), &format!("invalid boot device '{value}'")),
        "pve-qm-bootdisk" => good(is_drive(value), &format!("invalid boot disk '{value}'")),
        "pve-phys-bits" => {
            let fits = value == "host" || value.parse::<u8>().is_ok_and(|bits| (8..=64).contains(&bits));
            good(fits, "value must be an integer between 8 and 64 or 'host'")
        }
        "pve-cpuset" => good(is_cpu_set(value), "unable to parse cpuset option"),
        "disk-size" => looks(parse_size(value).is_some(), &format!("disk size: {value}")),
        "pve-volume-id" => volume_id(value),
        "pve-volume-id-or-qm-path" if matches!(value, "none" | "cdrom") || value.starts_with('/') => Ok(()),
        "pve-volume-id-or-absolute-path" if value.starts_with('/') => Ok(()),
        "pve-volume-id-or-qm-path" | "pve-volume-id-or-absolute-path" => volume_id(value),
        "urlencoded" => good(is_urlencoded(value), &format!("invalid urlencoded string: {value}")),
        "pve-hotplug-features" if matches!(value, "0" | "1") => Ok(()),
        "pve-hotplug-features" => {
            let known = ["network", "disk", "cpu", "memory", "usb", "cloudinit"];
            let wrong = items(value).into_iter().find(|item| !known.contains(item));
            wrong.map_or(Ok(()), |item| Err(format!("invalid hotplug feature '{item}'")))
        }
        "pve-startup-order" => good(is_startup(value), "unable to parse startup options"),
        "pve-fw-sport-spec" | "pve-fw-dport-spec" => ports(value),
        _ => Ok(()),
    }
}

/// What the parts of a property string must agree in.
fn agree(format: &str, parts: &Parts) -> Result<(), String> {
    let on = |key: &str| parts.get(key).is_some_and(|value| word_to_bool(value) == "1");
    match format {
        "pve-vm-cpu-conf" => cpu::check(parts),
        "prune-backups" => {
            let mut others = parts.iter().filter(|(key, _)| *key != "keep-all");
            match on("keep-all") && others.any(|(_, count)| count != "0") {
                true => Err("keep-all cannot be set together with other options.".to_owned()),
                false => Ok(()),
            }
        }
        "backup-fleecing" if on("enabled") && !parts.contains_key("storage") => {
            Err("'storage' parameter is required when 'enabled' is set".to_owned())
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::check;

    #[test]
    fn what_does_not_fit_is_refused_in_the_servers_words() {
        for (format, value, words) in [
            ("pve-bridge-id", "vmbr 0", "invalid bridge ID 'vmbr 0'"),
            ("pve-iface", "a-b", "invalid network interface name 'a-b'"),
            ("ipv4", "10.0.0.300", "value does not look like a valid IPv4 address"),
            ("address-list", "10.0.0.1 -x", "value does not look like a valid address: -x"),
            ("CIDRv4", "10.0.0.0/7", "value does not look like a valid IPv4 CIDR network"),
            ("disk-size", "10X", "value does not look like a valid disk size: 10X"),
            ("pve-hotplug-features", "disk,gpu", "invalid hotplug feature 'gpu'"),
            ("pve-startup-order", "0", "unable to parse startup options"),
            ("pve-startup-order", "order=first", "unable to parse startup options"),
            ("pve-qm-bootdev-list", "scsi0;scsi31", "invalid boot device 'scsi31'"),
            ("pve-qm-bootdev-list", "efidisk0", "invalid boot device 'efidisk0'"),
            ("pve-userid", "a@b", "value 'a@b' does not look like a valid user name"),
            ("pve-userid", "ab", "user name 'ab' is too short"),
            ("pve-tokenid-list", "a@pve", "value 'a@pve' does not look like a valid token ID"),
            ("pve-poolid", "a/b/c/d", "pool name 'a/b/c/d' nested too deeply (max levels = 3)"),
            ("pve-storage-path", "var/lib", "value does not look like a valid absolute path"),
            ("pve-storage-vgname", "a b", "lvm name 'a b' contains illegal characters"),
            ("pve-vlan-id-or-range-list", "2 9-4", "VLAN range must go from lower to higher tag '9-4'"),
            (
                "storage-pair-list",
                "a:b",
                "entry 'a:b' contains invalid ID - storage ID 'a' cannot be shorter than 2 characters\n\n",
            ),
            ("email-opt", "nobody", "value does not look like a valid email address"),
            (
                "prune-backups",
                "keep-all=1,keep-last=2",
                "keep-all cannot be set together with other options.",
            ),
            ("pve-fw-dport-spec", "80:22", "backwards range '80:22' not allowed, did you mean '22:80'?"),
        ] {
            assert_eq!(check(format, "x", value), Err(words.to_owned()), "{format} {value}");
        }
    }

    #[test]
    fn what_fits_is_taken() {
        for (format, value) in [
            ("pve-bridge-id", "_lan.1"),
            ("pve-iface", "eno1.100"),
            ("disk-size", "10GiB"),
            ("pve-startup-order", "order=1,up=30"),
            ("pve-startup-order", "5"),
            ("urlencoded", "100%"),
            ("email-opt", ""),
            ("mac-prefix", "BC:24:11"),
            ("mac-prefix", "BC:24:1"),
            ("pve-vmid-list", "100, 200"),
            ("pve-cpuset", "0,5,8-11"),
            ("pve-fw-dport-spec", "22,http,1000:2000"),
        ] {
            assert_eq!(check(format, "x", value), Ok(()), "{format} {value}");
        }
    }
}
