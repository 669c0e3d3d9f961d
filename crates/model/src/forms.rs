//! The grammars of single values: sizes, versions, ranges, names, addresses of network cards.
//!
//! Each reader gives the value or nothing. Saying what is wrong is left to the checks, which know the key.

use std::fmt;
use std::net::Ipv4Addr;

use crate::blueprint::Taint;
use crate::{natural, releases};

/// Prefix lengths that the nodes' network may have.
pub(crate) const NODE_PREFIXES: std::ops::RangeInclusive<u8> = 8..=29;

/// Memory in MiB: `8G`, `8192M`, or plain MiB.
pub(crate) fn memory_mib(text: &str) -> Option<u64> {
    let (number, unit) = number_and_unit(text)?;
    match unit.as_str() {
        "" | "M" | "MIB" => Some(number),
        "G" | "GIB" => number.checked_mul(1 << 10),
        "T" | "TIB" => number.checked_mul(1 << 20),
        _ => None,
    }
}

/// A disk in GiB: `32G`, `1T`, or plain GiB.
pub(crate) fn disk_gib(text: &str) -> Option<u64> {
    let (number, unit) = number_and_unit(text)?;
    match unit.as_str() {
        "" | "G" | "GIB" => Some(number),
        "T" | "TIB" => number.checked_mul(1 << 10),
        "M" | "MIB" => (number % 1024 == 0).then_some(number / 1024),
        _ => None,
    }
}

fn number_and_unit(text: &str) -> Option<(u64, String)> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    Some((number.parse().ok()?, unit.trim_start().to_ascii_uppercase()))
}

/// A version of Talos or Kubernetes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version {
    /// Major version.
    pub major: u64,
    /// Minor version.
    pub minor: u64,
    /// Patch version.
    pub patch: u64,
    pre: Option<String>,
}

impl Version {
    /// `v1.13.9` or `1.13.9`, with or without a pre-release.
    pub fn read(text: &str) -> Option<Self> {
        let text = text.strip_prefix('v').unwrap_or(text);
        let (numbers, pre) = match text.split_once('-') {
            Some((numbers, pre)) => (numbers, Some(pre)),
            None => (text, None),
        };
        let fine =
            |pre: &str| pre.split('.').all(|p| !p.is_empty() && p.chars().all(|c| c.is_ascii_alphanumeric()));
        if pre.is_some_and(|pre| !fine(pre)) {
            return None;
        }
        let mut numbers = numbers.split('.').map(number);
        let version = Self {
            major: numbers.next()??,
            minor: numbers.next()??,
            patch: numbers.next()??,
            pre: pre.map(str::to_owned),
        };
        numbers.next().is_none().then_some(version)
    }
}

impl Version {
    /// A final release of the first major version.
    pub(crate) fn first(minor: u64, patch: u64) -> Self {
        Self { major: 1, minor, patch, pre: None }
    }

    /// Whether it came before another one. One that is not final comes before the final one.
    pub(crate) fn is_before(&self, other: &Self) -> bool {
        let numbers = |version: &Self| (version.major, version.minor, version.patch);
        match (&self.pre, &other.pre) {
            _ if numbers(self) != numbers(other) => numbers(self) < numbers(other),
            (Some(one), Some(two)) => natural::compare(one, two).is_lt(),
            (one, two) => one.is_some() && two.is_none(),
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v{}.{}.{}", self.major, self.minor, self.patch)?;
        self.pre.as_ref().map_or(Ok(()), |pre| write!(f, "-{pre}"))
    }
}

/// A number as versions have them: digits, and no zero in front of others.
fn number(text: &str) -> Option<u64> {
    let plain = text.bytes().all(|b| b.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    text.parse().ok().filter(|_| plain)
}

/// A configuration contract: `v1.12`, without a patch number.
pub fn contract(text: &str) -> Option<String> {
    let minor = number(text.strip_prefix('v').unwrap_or(text).strip_prefix("1.")?)?;
    releases::is_contract(minor).then(|| format!("v1.{minor}"))
}

/// A taint: `VALUE:EFFECT`, the value perhaps empty.
pub(crate) fn taint(text: &str) -> Option<Taint> {
    let (value, effect) = text.split_once(':')?;
    let known = ["NoSchedule", "PreferNoSchedule", "NoExecute"].contains(&effect);
    (known && is_label_value(value)).then(|| Taint { value: value.to_owned(), effect: effect.to_owned() })
}

/// The first value of a range and, where it was given, the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) first: u32,
    pub(crate) last: Option<u32>,
}

/// `A` or `A-B`, in that order.
fn range(text: &str, read: impl Fn(&str) -> Option<u32>) -> Option<Range> {
    let Some((first, last)) = text.split_once('-') else {
        return Some(Range { first: read(text.trim())?, last: None });
    };
    let (first, last) = (read(first.trim())?, read(last.trim())?);
    (first <= last).then_some(Range { first, last: Some(last) })
}

/// A range of addresses, as numbers.
pub(crate) fn address_range(text: &str) -> Option<Range> {
    range(text, |one| one.parse::<Ipv4Addr>().ok().map(u32::from))
}

/// A range of VM ids.
pub(crate) fn vmid_range(text: &str) -> Option<Range> {
    range(text, |one| one.parse().ok().filter(|id| is_vmid(*id)))
}

pub(crate) fn is_vmid(id: u32) -> bool {
    (100..=999_999_999).contains(&id)
}

/// A DNS label: what can be a VM name, a host name and a Kubernetes node name at once.
pub fn is_dns_label(text: &str) -> bool {
    let fine = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    (1..=63).contains(&text.len()) && text.chars().all(fine) && !text.starts_with('-') && !text.ends_with('-')
}

/// An age public key, by its form: 58 characters of Bech32 after its start. Whether its checksum is right shows when it is used.
pub(crate) fn is_age_recipient(text: &str) -> bool {
    let fine = |c: char| "qpzry9x8gf2tvdw0s3jn54khce6mua7l".contains(c);
    text.strip_prefix("age1").is_some_and(|rest| rest.len() == 58 && rest.chars().all(fine))
}

/// DNS labels with dots between them.
pub(crate) fn is_dns_name(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(|label| is_dns_label(&label.to_ascii_lowercase()))
}

/// A MAC address of one card, in upper case.
pub fn mac(text: &str) -> Option<String> {
    let pairs: Vec<&str> = text.split(':').collect();
    let hexadecimal = |pair: &&str| pair.len() == 2 && pair.chars().all(|c| c.is_ascii_hexdigit());
    if pairs.len() != 6 || !pairs.iter().all(hexadecimal) {
        return None;
    }
    let one_card = u8::from_str_radix(pairs.first()?, 16).ok()? & 1 == 0;
    one_card.then(|| text.to_ascii_uppercase())
}

/// A SHA-256 fingerprint, with or without colons.
pub(crate) fn is_fingerprint(text: &str) -> bool {
    let digits: Vec<char> = text.chars().filter(|c| *c != ':').collect();
    let colons = text.len() - digits.len();
    digits.len() == 64 && digits.iter().all(char::is_ascii_hexdigit) && (colons == 0 || colons == 31)
}

/// `SCHEME://HOST` or `SCHEME://HOST:PORT`, perhaps with one slash at the end.
pub(crate) fn is_origin(text: &str, schemes: &[&str]) -> bool {
    let Some((scheme, rest)) = text.split_once("://") else { return false };
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    let (host, port) = match rest.strip_prefix('[').and_then(|v6| v6.split_once(']')) {
        Some((host, port)) if host.parse::<std::net::Ipv6Addr>().is_ok() => ("v6", port.strip_prefix(':')),
        Some(_) => return false,
        None => rest.split_once(':').map_or((rest, None), |(host, port)| (host, Some(port))),
    };
    let port_fine = port.is_none_or(|port| port.parse::<u16>().is_ok_and(|port| port > 0));
    schemes.contains(&scheme) && port_fine && is_dns_name(host)
}

/// A URL with a host and perhaps a path, but without a user in it.
pub(crate) fn is_url(text: &str, schemes: &[&str]) -> bool {
    let Some((scheme, rest)) = text.split_once("://") else { return false };
    let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let clean = |c: char| !c.is_ascii_control() && !c.is_whitespace() && c != '@';
    is_origin(&format!("{scheme}://{host}"), schemes) && path.chars().all(clean)
}

/// A registry, perhaps with a port and a path: no scheme.
pub(crate) fn is_registry(text: &str) -> bool {
    !text.contains("://") && is_url(&format!("https://{text}"), &["https"])
}

/// A datastore, a mapping: what Proxmox takes for the name of a thing.
pub(crate) fn is_datastore(text: &str) -> bool {
    let edge = |c: char| c.is_ascii_alphanumeric();
    (2..=100).contains(&text.len())
        && text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.ends_with(edge)
        && text.chars().all(|c| edge(c) || "-_.".contains(c))
}

/// The address of a PCI device: `0000:01:00.0`, `01:00.0` or `01:00`.
pub(crate) fn is_pci_address(text: &str) -> bool {
    let (slot, function) = text.split_once('.').map_or((text, None), |(slot, f)| (slot, Some(f)));
    let parts: Vec<&str> = slot.split(':').collect();
    let hexadecimal =
        |text: &&str| !text.is_empty() && text.len() <= 4 && text.chars().all(|c| c.is_ascii_hexdigit());
    (2..=3).contains(&parts.len())
        && parts.iter().all(hexadecimal)
        && function.is_none_or(|f| f.len() == 1 && hexadecimal(&f))
}

/// A machine type: `q35`, `pc`, or one with its version.
pub(crate) fn is_machine(text: &str) -> bool {
    ["q35", "pc", "virt"].contains(&text)
        || ["pc-q35-", "pc-i440fx-", "virt-"].iter().any(|p| text.strip_prefix(p).is_some_and(is_word))
}

/// A word as Proxmox takes it for a type.
pub(crate) fn is_word(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_.+".contains(c))
}

/// A folder that a disk may be mounted at: below /var, in plain steps.
pub(crate) fn is_mount(text: &str) -> bool {
    let step = |step: &str| {
        !step.is_empty()
            && step != "."
            && step != ".."
            && step.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
    };
    text.strip_prefix("/var/").is_some_and(|rest| rest.trim_end_matches('/').split('/').all(step))
}

/// The name of a program's argument, without the dashes before it.
pub(crate) fn is_argument(text: &str) -> bool {
    let part =
        |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
    text.split('-').all(part)
}

/// A Proxmox tag.
pub(crate) fn is_tag(text: &str) -> bool {
    let word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let mut letters = text.chars();
    letters.next().is_some_and(word) && letters.all(|c| word(c) || "-+.".contains(c))
}

/// The value of a Kubernetes label, or the last part of its name.
pub(crate) fn is_label_value(text: &str) -> bool {
    let edge = |c: char| c.is_ascii_alphanumeric();
    text.is_empty()
        || text.len() <= 63
            && text.starts_with(edge)
            && text.ends_with(edge)
            && text.chars().all(|c| edge(c) || "-_.".contains(c))
}

/// The name of a Kubernetes label.
pub(crate) fn is_label_name(text: &str) -> bool {
    let (prefix, name) = text.split_once('/').map_or((None, text), |(prefix, name)| (Some(prefix), name));
    prefix.is_none_or(is_dns_name) && !name.is_empty() && is_label_value(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!(memory_mib("8G"), Some(8192));
        assert_eq!(memory_mib("8192M"), Some(8192));
        assert_eq!(memory_mib("8192"), Some(8192));
        assert_eq!(memory_mib("8 GiB"), Some(8192));
        assert_eq!(disk_gib("32G"), Some(32));
        assert_eq!(disk_gib("1T"), Some(1024));
        assert_eq!(disk_gib("2048M"), Some(2));
        for wrong in ["", "G", "8GB", "-1", "1.5G", "99999999999999999999G", "18446744073709551615G"] {
            assert_eq!(memory_mib(wrong), None, "{wrong}");
        }
        assert_eq!(disk_gib("1000M"), None);
    }

    #[test]
    fn versions() {
        assert_eq!(Version::read("1.13.9").unwrap().to_string(), "v1.13.9");
        assert_eq!(Version::read("v1.14.0-rc.1").unwrap().to_string(), "v1.14.0-rc.1");
        for wrong in ["latest", "v1.13", "1.2.3.4", "v1.2.x", "v1.02.3", "v1.2.3-", "vv1.2.3", "v1.+2.3"] {
            assert_eq!(Version::read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn ranges() {
        assert_eq!(vmid_range("200-210"), Some(Range { first: 200, last: Some(210) }));
        assert_eq!(vmid_range("200"), Some(Range { first: 200, last: None }));
        assert_eq!(vmid_range("210-200"), None);
        assert_eq!(vmid_range("99"), None);
        assert_eq!(
            address_range("10.0.0.1-10.0.0.1"),
            Some(Range { first: 0x0a00_0001, last: Some(0x0a00_0001) })
        );
        assert_eq!(address_range("10.0.0.1-9"), None);
    }

    #[test]
    fn names_and_the_rest() {
        assert!(is_dns_label("home-1") && !is_dns_label("Home") && !is_dns_label("-a") && !is_dns_label(""));
        assert_eq!(mac("bc:24:11:00:00:0a").as_deref(), Some("BC:24:11:00:00:0A"));
        assert_eq!(mac("bd:24:11:00:00:0a"), None);
        assert_eq!(mac("bc-24-11-00-00-0a"), None);
        assert!(
            is_fingerprint(&"AB:".repeat(32)[..95])
                && is_fingerprint(&"ab".repeat(32))
                && !is_fingerprint("ab")
        );
        assert!(
            is_origin("https://pve1:8006", &["https"]) && is_origin("https://[fd00::1]:8006/", &["https"])
        );
        for wrong in [
            "pve1:8006",
            "http://pve1",
            "https://a@b",
            "https://a/b",
            "https://",
            "https://a:0",
            "https://a b",
        ] {
            assert!(!is_origin(wrong, &["https"]), "{wrong}");
        }
        assert!(is_tag("k8s_prod") && !is_tag("-x") && !is_tag("a b") && !is_tag("Prod"));
        assert!(is_label_name("example.com/zone") && !is_label_name("a b") && !is_label_name("/x"));
        assert!(is_label_value("") && !is_label_value("-x"));
    }
}
