//! Whether a text has the form that a named format asks for. Where the server says more than that it does not fit, the words
//! are here as well.

use std::net::{IpAddr, Ipv4Addr};

pub(super) fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

pub(super) fn is_vmid(value: &str) -> bool {
    (3..=9).contains(&value.len()) && is_digits(value) && !value.starts_with('0')
}

pub(super) fn is_label(label: &str) -> bool {
    !label.is_empty()
        && label.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
        && !label.starts_with('-')
        && !label.ends_with('-')
}

pub(super) fn is_dns(value: &str) -> bool {
    value.split('.').all(is_label)
}

pub(super) fn is_ip(value: &str) -> bool {
    value.parse::<IpAddr>().is_ok()
}

pub(super) fn is_mask(value: &str) -> bool {
    value.parse::<Ipv4Addr>().is_ok_and(|mask| ipnet::ip_mask_to_prefix(mask.into()).is_ok())
}

/// A network with fewer than eight bits is none.
pub(super) fn is_cidr4(value: &str) -> bool {
    value.parse::<ipnet::Ipv4Net>().is_ok_and(|net| net.prefix_len() > 7)
}

pub(super) fn is_cidr6(value: &str) -> bool {
    value.parse::<ipnet::Ipv6Net>().is_ok_and(|net| net.prefix_len() > 7)
}

pub(super) fn is_ip_or_net(value: &str) -> bool {
    is_ip(value) || value.parse::<ipnet::IpNet>().is_ok()
}

pub(super) fn is_unicast(value: &str) -> bool {
    let pair = |pair: &str| pair.len() == 2 && pair.chars().all(|c| c.is_ascii_hexdigit());
    let unicast = u8::from_str_radix(value.get(..2).unwrap_or("ff"), 16).is_ok_and(|first| first & 1 == 0);
    value.split(':').count() == 6 && value.split(':').all(pair) && unicast
}

/// One to three pairs, and perhaps the beginning of the next.
pub(super) fn is_mac_prefix(value: &str) -> bool {
    let unicast = u8::from_str_radix(value.get(..2).unwrap_or("ff"), 16).is_ok_and(|first| first & 1 == 0);
    let pairs: Vec<&str> = value.split(':').collect();
    let hex = |text: &str| text.chars().all(|c| c.is_ascii_hexdigit());
    let (last, before) = pairs.split_last().unwrap_or((&"", &[]));
    let whole = before.iter().all(|pair| pair.len() == 2 && hex(pair));
    let end = hex(last)
        && (last.len() == 2 && before.len() < 3 || last.len() < 2 && !before.is_empty() && before.len() <= 3);
    unicast && whole && end
}

pub(super) fn is_mail_user(value: &str) -> bool {
    let word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '+' | '-' | '~');
    value.split('.').all(|part| !part.is_empty() && part.chars().all(word))
}

pub(super) fn is_email(value: &str) -> bool {
    let domain = |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
    value.split_once('@').is_some_and(|(user, host)| is_mail_user(user) && host.split('.').all(domain))
}

pub(super) fn is_config_id(value: &str) -> bool {
    value.len() >= 2
        && value.starts_with(|c: char| c.is_ascii_alphabetic())
        && value.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'))
}

/// A letter, one to twenty more, and perhaps a number after a dot or colon.
pub(super) fn is_iface(value: &str) -> bool {
    let name =
        value.rsplit_once([':', '.']).filter(|(_, number)| is_digits(number)).map_or(value, |(name, _)| name);
    (2..=21).contains(&name.len())
        && name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

pub(super) fn vlans(value: &str) -> Result<(), String> {
    let (first, last) = value.split_once('-').map_or((value, None), |(first, last)| (first, Some(last)));
    if !is_digits(first) || last.is_some_and(|last| !is_digits(last)) {
        return Err(format!("invalid VLAN configuration '{value}'"));
    }
    let tag = |text: &str| match text.parse::<u32>() {
        Ok(tag) if (2..=4094).contains(&tag) => Ok(tag),
        _ => Err(format!("invalid VLAN tag '{text}'")),
    };
    let first = tag(first)?;
    match last.map(tag).transpose()? {
        Some(last) if first >= last => Err(format!("VLAN range must go from lower to higher tag '{value}'")),
        _ => Ok(()),
    }
}

pub(super) fn id(value: &str, what: &str) -> Result<(), String> {
    if value.len() < 2 {
        return Err(format!("{what} ID '{value}' cannot be shorter than 2 characters"));
    }
    match is_id(value) {
        true => Ok(()),
        false => Err(format!("{what} ID '{value}' contains illegal characters")),
    }
}

fn is_id(value: &str) -> bool {
    value.len() > 1
        && value.starts_with(|c: char| c.is_ascii_alphabetic())
        && value.ends_with(|c: char| c.is_ascii_alphanumeric())
        && is_plain(value)
}

pub(super) fn is_lvm(value: &str) -> bool {
    let ends = |c: char| c.is_ascii_alphanumeric();
    value.len() > 1 && value.starts_with(ends) && value.ends_with(ends) && is_plain(value)
}

/// One item of a map: `1`, a target for all, or `from:to`.
pub(super) fn pair(value: &str, valid: impl Fn(&str) -> Result<(), String>) -> Result<(), String> {
    if value == "1" {
        return Ok(());
    }
    let both = value.split_once(':').map_or(vec![value], |(from, to)| vec![from, to]);
    let result = both.into_iter().try_for_each(valid);
    result.map_err(|words| format!("entry '{value}' contains invalid ID - {words}\n\n"))
}

pub(super) fn volume_id(value: &str) -> Result<(), String> {
    match value.split_once(':') {
        Some((storage, name)) if is_id(storage) && !name.is_empty() => Ok(()),
        _ => Err(format!("unable to parse volume ID '{value}'")),
    }
}

pub(super) fn is_plain(value: &str) -> bool {
    !value.is_empty() && value.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_'))
}

pub(super) fn is_realm(value: &str) -> bool {
    value.len() > 1 && value.starts_with(|c: char| c.is_ascii_alphabetic()) && is_plain(value)
}

pub(super) fn pool(value: &str) -> Result<(), String> {
    let parts = value.trim_end_matches('/').split('/').count();
    if parts > 3 {
        return Err(format!("pool name '{value}' nested too deeply (max levels = 3)"));
    }
    match value.split('/').all(is_plain) {
        true => Ok(()),
        false => Err(format!("pool name '{value}' contains invalid characters")),
    }
}

pub(super) fn user(value: &str) -> Result<(), String> {
    match value.chars().count() {
        0..3 => Err(format!("user name '{value}' is too short")),
        length @ 65.. => Err(format!("user name '{value}' is too long ({length} > 64)")),
        _ if is_user(value) => Ok(()),
        _ => Err(format!("value '{value}' does not look like a valid user name")),
    }
}

pub(super) fn is_user(value: &str) -> bool {
    value.rsplit_once('@').is_some_and(|(name, realm)| {
        !name.is_empty()
            && !name.contains([':', '/'])
            && !name.contains(char::is_whitespace)
            && is_realm(realm)
    })
}

pub(super) fn job(value: &str) -> Result<(), String> {
    let words = format!("invalid replication job id '{value}'");
    match value.split_once('-') {
        Some((guest, number)) if is_digits(guest) && is_digits(number) => match guest.parse::<u64>() {
            Ok(0..100) => Err(format!("{words} (guest IDs < 100 are reserved)")),
            _ => Ok(()),
        },
        _ => Err(words),
    }
}

pub(super) fn is_tag(tag: &str) -> bool {
    tag.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
        && tag.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '+' | '.'))
}

/// A key with a number from zero to less than `count`.
fn is_slot(value: &str, kinds: &[(&str, u32)]) -> bool {
    let stem = value.trim_end_matches(|c: char| c.is_ascii_digit());
    let number = value.get(stem.len()..).filter(|digits| *digits == "0" || !digits.starts_with('0'));
    let number = number.and_then(|digits| digits.parse::<u32>().ok());
    kinds.iter().any(|(kind, count)| *kind == stem && number.is_some_and(|number| number < *count))
}

const BUSES: &[(&str, u32)] = &[("ide", 4), ("sata", 6), ("scsi", 31), ("virtio", 16)];

pub(super) fn is_boot_device(value: &str) -> bool {
    is_slot(value, BUSES) || is_slot(value, &[("net", 32), ("usb", 14), ("hostpci", 16)])
}

pub(super) fn is_drive(value: &str) -> bool {
    is_slot(value, BUSES) || matches!(value, "efidisk0" | "tpmstate0")
}

/// Numbers and ranges of them, such as `0,5,8-11`.
pub(super) fn is_cpu_set(value: &str) -> bool {
    value.split(',').all(|part| match part.split_once('-') {
        Some((first, last)) => match (first.parse::<u32>(), last.parse::<u32>()) {
            (Ok(first), Ok(last)) => first <= last,
            _ => false,
        },
        None => is_digits(part),
    })
}

pub(super) fn is_urlencoded(value: &str) -> bool {
    value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-%_.!~*'()".contains(&byte))
}

pub(super) fn is_startup(value: &str) -> bool {
    let mut parts = value.split(',').filter(|part| !part.trim().is_empty());
    !matches!(value, "" | "0")
        && parts.all(|part| {
            let number =
                ["order=", "up=", "down="].iter().find_map(|key| part.strip_prefix(key)).unwrap_or(part);
            is_digits(number)
        })
}

/// Ports, ranges of ports, and names of services, which are not looked up.
pub(super) fn ports(value: &str) -> Result<(), String> {
    if value.is_empty() {
        return Ok(());
    }
    if value.ends_with(',') {
        return Err("extraneous commas in list".to_owned());
    }
    let valid = |port: &str| match port.parse::<u64>() {
        Ok(number) if number <= 65535 => Ok(number),
        _ => Err(format!("invalid port '{port}'")),
    };
    let mut count = 0;
    for item in value.split(',') {
        match item.split_once(':') {
            Some((first, last)) if is_digits(first) && is_digits(last) => {
                count += 2;
                if valid(first)? > valid(last)? {
                    return Err(format!(
                        "backwards range '{first}:{last}' not allowed, did you mean '{last}:{first}'?"
                    ));
                }
            }
            None if is_digits(item) => {
                count += 1;
                valid(item)?;
            }
            Some(_) => return Err(format!("invalid port '{item}'")),
            None if item.chars().all(|c| c.is_ascii_alphanumeric() || c == '-') && !item.is_empty() => {}
            None => return Err(format!("invalid port '{item}'")),
        }
    }
    if count > 15 { Err("too many entries in port list (> 15 numbers)".to_owned()) } else { Ok(()) }
}
