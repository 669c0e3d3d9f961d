//! Whether a value can stand where it stands: known keys, and values of the kind that Talos reads there.
//!
//! This is the strict reading that a node starts with. What the values mean is validation's matter.

use std::net::{IpAddr, SocketAddr};

use base64::{Engine as _, engine::general_purpose::STANDARD};

use super::{Type, field_of, fields_of, first_release_of, words_of};
use crate::yaml::{Map, Value};

/// One value that a node would not read: where it is, and why not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Misfit {
    pub(crate) path: String,
    pub(crate) message: String,
}

/// Everything in a mapping that a type of that name does not take.
pub(crate) fn misfits(map: &Map, name: &'static str, minor: u32) -> Vec<Misfit> {
    let mut check = Check { minor, path: Vec::new(), misfits: Vec::new() };
    check.fields(map, name);
    check.misfits
}

struct Check {
    minor: u32,
    path: Vec<String>,
    misfits: Vec<Misfit>,
}

impl Check {
    fn misfit(&mut self, message: impl Into<String>) {
        let mut path = String::new();
        for part in &self.path {
            if !path.is_empty() && !part.starts_with('[') {
                path.push('.');
            }
            path.push_str(part);
        }
        self.misfits.push(Misfit { path, message: message.into() });
    }

    fn at(&mut self, part: String, look: impl FnOnce(&mut Self)) {
        self.path.push(part);
        look(self);
        self.path.pop();
    }

    fn fields(&mut self, map: &Map, name: &'static str) {
        for (key, value) in map.iter() {
            self.at(key.to_owned(), |check| match field_of(name, key, check.minor) {
                Some(field) => check.value(value, field.kind),
                None => check.unknown(name, key),
            });
        }
    }

    fn unknown(&mut self, name: &'static str, key: &str) {
        let minor = self.minor;
        let message = match first_release_of(name, key) {
            Some(since) if since > minor => {
                format!("is not known to Talos v1.{minor}; it came with v1.{since}")
            }
            Some(_) => format!("is not known to Talos v1.{minor} any more"),
            None => match nearest(key, fields_of(name, minor).map(|field| field.key)) {
                Some(near) => {
                    format!("is not a key that Talos v1.{minor} knows here; did you mean {near:?}?")
                }
                None => format!("is not a key that Talos v1.{minor} knows here"),
            },
        };
        self.misfit(message);
    }

    fn value(&mut self, value: &Value, kind: &'static Type) {
        if *value == Value::Null {
            return;
        }
        match kind {
            Type::Any => {}
            Type::Ptr(inner) | Type::Merged(_, inner) => self.value(value, inner),
            Type::Named(name) => match value {
                Value::Map(map) => self.fields(map, name),
                _ => self.misfit("must be a mapping"),
            },
            Type::Unstructured => {
                if value.as_map().is_none() {
                    self.misfit("must be a mapping");
                }
            }
            Type::List(inner) => match value {
                Value::List(list) => {
                    for (index, value) in list.iter().enumerate() {
                        self.at(format!("[{index}]"), |check| check.item(value, inner));
                    }
                }
                _ => self.misfit("must be a list"),
            },
            Type::Map(inner) => match value {
                Value::Map(map) => {
                    for (key, value) in map.iter() {
                        self.at(key.to_owned(), |check| check.item(value, inner));
                    }
                }
                _ => self.misfit("must be a mapping"),
            },
            Type::Opaque(name) if name.starts_with("x509.") => self.pem(value, name),
            Type::Opaque(name) if name.ends_with(".ArgValue") => self.argument(value),
            Type::Enum(name) => self.word(value, name),
            scalar => match text_of(value) {
                Some(text) => {
                    if let Err(message) = scalar_fits(value, &text, scalar, self.minor) {
                        self.misfit(message);
                    }
                }
                None => self.misfit("must be a single value"),
            },
        }
    }

    /// A word out of a few, in any case.
    fn word(&mut self, value: &Value, name: &str) {
        let Some(text) = text_of(value) else { return self.misfit("must be a single value") };
        let Some(words) = words_of(name) else { return };
        if !words.iter().any(|word| word.eq_ignore_ascii_case(&text)) {
            let known = if words.len() > 12 { String::new() } else { format!(": {}", words.join(", ")) };
            self.misfit(format!("is not one of the words that Talos knows here{known}"));
        }
    }

    /// An entry of a list or mapping: since 1.14 nothing may stand where a value of its own is expected.
    fn item(&mut self, value: &Value, kind: &'static Type) {
        if *value == Value::Null && matches!(kind, Type::Ptr(_)) && self.minor >= 14 {
            self.misfit("must not be empty");
        }
        self.value(value, kind);
    }

    /// A certificate, a key, or both, each as base64 of its PEM text.
    fn pem(&mut self, value: &Value, name: &str) {
        let known: &[&str] = match name {
            "x509.PEMEncodedCertificate" => &["crt"],
            "x509.PEMEncodedKey" => &["key"],
            _ => &["crt", "key"],
        };
        let Value::Map(map) = value else { return self.misfit("must be a mapping") };
        for (key, value) in map.iter() {
            self.at(key.to_owned(), |check| {
                if !known.contains(&key) {
                    check.misfit(format!("is not a key that Talos v1.{} knows here", check.minor));
                } else if *value != Value::Null
                    && value.as_text().is_none_or(|text| STANDARD.decode(text).is_err())
                {
                    check.misfit("must be base64");
                }
            });
        }
    }

    /// The value of a program's argument: one text, or since 1.13 a list of them.
    fn argument(&mut self, value: &Value) {
        match value {
            Value::List(list) => {
                for (index, value) in list.iter().enumerate() {
                    if text_of(value).is_none() && *value != Value::Null {
                        self.at(format!("[{index}]"), |check| check.misfit("must be a single value"));
                    }
                }
            }
            Value::Map(_) => self.misfit("must be a text or a list of texts"),
            _ => {}
        }
    }
}

/// A scalar as text; nothing for a list or a mapping.
pub(crate) fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::Null => Some(String::new()),
        Value::Bool(flag) => Some(flag.to_string()),
        Value::Int(number) => Some(number.to_string()),
        Value::Float(number) => Some(format!("{number:?}")),
        Value::Number(text) | Value::Text(text) => Some(text.clone()),
        Value::List(_) | Value::Map(_) => None,
    }
}

fn scalar_fits(value: &Value, text: &str, kind: &Type, minor: u32) -> Result<(), &'static str> {
    let fits = |fits: bool, message| if fits || text.is_empty() { Ok(()) } else { Err(message) };
    match kind {
        Type::Bool => match value {
            Value::Bool(_) => Ok(()),
            _ if ["y", "Y", "yes", "on", "n", "N", "no", "off"].contains(&text) => Ok(()),
            _ => Err("must be true or false"),
        },
        Type::Int(bits) | Type::Uint(bits) => match value {
            Value::Int(number) => {
                let fits = match kind {
                    Type::Int(64) => true,
                    Type::Int(_) => number.unsigned_abs() < 1 << (bits - 1),
                    _ => *number >= 0 && (*bits == 64 || number.unsigned_abs() < 1 << bits),
                };
                if fits { Ok(()) } else { Err("is a number that is too large or too small here") }
            }
            Value::Number(text) if !text.contains(['.', 'e', 'E']) || text.contains('x') => Ok(()),
            Value::Float(number) if number.fract() == 0.0 => Ok(()),
            _ => Err("must be a whole number"),
        },
        Type::Duration if matches!(value, Value::Int(_)) => Ok(()),
        Type::Duration => fits(is_duration(text), "must be a duration such as 5m or 1h30m"),
        Type::Bytes(name) if name.ends_with("HardwareAddr") => {
            fits(is_hardware_address(text), "must be a hardware address such as bc:24:11:00:00:01")
        }
        Type::Bytes(_) => fits(STANDARD.decode(text).is_ok(), "must be base64"),
        Type::Opaque(name) => match name.rsplit('.').next().unwrap_or_default() {
            "Prefix" => fits(is_prefix(text), "must be an address with a prefix length, such as 10.0.0.0/8"),
            "Addr" => fits(is_address(text), "must be an IP address"),
            "AddrPort" => fits(text.parse::<SocketAddr>().is_ok(), "must be an address with a port"),
            // A single port was a number only, until 1.13 took it as a text too.
            "PortRange" if minor < 13 && value.as_text().is_some_and(|text| !text.contains('-')) => {
                Err("must be a port as a number, or a range such as 1000-2000")
            }
            "PortRange" => fits(is_port_range(text), "must be a port or a range such as 1000-2000"),
            "ByteSize" => fits(is_size(text), "must be a size such as 10GiB"),
            "Size" => fits(is_size(text.trim_end_matches('%')), "must be a size such as 10GiB or 50%"),
            _ => Ok(()),
        },
        _ => Ok(()),
    }
}

/// Whether Go would read the text as a duration: numbers with units, one after another.
fn is_duration(text: &str) -> bool {
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest == "0" {
        return true;
    }
    while !rest.is_empty() {
        let number = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let after = &rest[number..];
        let Some(unit) =
            ["ns", "us", "µs", "μs", "ms", "s", "m", "h"].into_iter().find(|unit| after.starts_with(unit))
        else {
            return false;
        };
        if number == 0 || rest[..number].parse::<f64>().is_err() {
            return false;
        }
        rest = &after[unit.len()..];
    }
    !text.is_empty()
}

fn is_hardware_address(text: &str) -> bool {
    let parts: Vec<&str> = text.split([':', '-']).collect();
    [6, 8, 20].contains(&parts.len())
        && parts.iter().all(|part| part.len() == 2 && part.chars().all(|c| c.is_ascii_hexdigit()))
}

/// An address with a prefix length that fits it. Bits beyond the prefix may be set.
pub(crate) fn is_prefix(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else { return false };
    let canonical = length.parse::<u8>().ok().filter(|number| number.to_string() == length);
    match (address.parse::<IpAddr>(), canonical) {
        (Ok(IpAddr::V4(_)), Some(length)) => length <= 32,
        (Ok(IpAddr::V6(_)), Some(length)) => length <= 128,
        _ => false,
    }
}

/// An IP address; one of version 6 may name a zone.
pub(crate) fn is_address(text: &str) -> bool {
    let address =
        text.split_once('%').map_or(text, |(address, zone)| if zone.is_empty() { "" } else { address });
    address.parse::<IpAddr>().is_ok_and(|parsed| parsed.is_ipv6() || address == text)
}

fn is_port_range(text: &str) -> bool {
    let (low, high) = text.split_once('-').unwrap_or((text, text));
    matches!((low.trim().parse::<u16>(), high.trim().parse::<u16>()), (Ok(low), Ok(high)) if low <= high)
}

fn is_size(text: &str) -> bool {
    let text = text.strip_prefix('-').unwrap_or(text);
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.' && c != ',').unwrap_or(text.len());
    let unit = text[digits..].trim().to_ascii_lowercase();
    let units = ["", "b", "kb", "mb", "gb", "tb", "pb", "eb", "kib", "mib", "gib", "tib", "pib", "eib"];
    let short = ["k", "m", "g", "t", "p", "e", "ki", "mi", "gi", "ti", "pi", "ei"];
    digits > 0
        && text[..digits].replace(',', "").parse::<f64>().is_ok()
        && (units.contains(&unit.as_str()) || short.contains(&unit.as_str()))
}

/// The known word that a misspelled one is nearest to, where it is near at all.
fn nearest<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let mut best: Option<(usize, &str)> = None;
    for candidate in known {
        let distance = distance(&word.to_lowercase(), &candidate.to_lowercase());
        if distance <= 1 + candidate.len() / 5 && best.is_none_or(|(least, _)| distance < least) {
            best = Some((distance, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
}

/// How many letters must be put in, taken out or changed to make one word of the other.
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in to.iter().enumerate() {
            let changed = diagonal + usize::from(a != *b);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(row[j + 1] + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Documents;

    fn said(text: &str, minor: u32) -> Vec<String> {
        let documents = Documents::parse(text).unwrap();
        let document = documents.iter().next().unwrap();
        let kind = super::super::kind_of(document.text("kind").unwrap_or("v1alpha1"), minor).unwrap();
        let misfits = misfits(document, kind.root, minor);
        misfits.into_iter().map(|misfit| format!("{}: {}", misfit.path, misfit.message)).collect()
    }

    #[test]
    fn unknown_keys_are_found_where_they_are() {
        assert_eq!(
            said("machine: {netwrok: {}, network: {interfaces: [{interface: eth0, mtuu: 5}]}, x: {}}", 13),
            [
                "machine.netwrok: is not a key that Talos v1.13 knows here; did you mean \"network\"?",
                "machine.network.interfaces[0].mtuu: is not a key that Talos v1.13 knows here; did you mean \"mtu\"?",
                "machine.x: is not a key that Talos v1.13 knows here",
            ]
        );
        let later = said("{apiVersion: v1alpha1, kind: ResolverConfig, hostDNS: {}}", 13);
        assert_eq!(later, ["hostDNS: is not known to Talos v1.13; it came with v1.14"]);
        assert!(said("{apiVersion: v1alpha1, kind: ResolverConfig, hostDNS: {}}", 14).is_empty());
    }

    #[test]
    fn values_of_another_kind_are_found() {
        let text = "machine: {certSANs: a, sysctls: [], install: {wipe: 5}, kubelet: 1, ca: {crt: '*'}}\ncluster: {network: {podSubnets: {a: b}}}";
        assert_eq!(said(text, 14).len(), 6, "{:?}", said(text, 14));
        assert!(
            said("machine: {sysctls: {a: 1, b: true, c: 1.10}, install: {disk: 5}, network: null}", 14)
                .is_empty()
        );
        let link = |address: &str| {
            said(
                &format!(
                    "{{apiVersion: v1alpha1, kind: LinkConfig, name: a, addresses: [{{address: {address}}}]}}"
                ),
                14,
            )
        };
        assert!(link("10.0.0.1/24").is_empty());
        for wrong in ["10.0.0.1", "10.0.0.1/33", "10.0.0/8", "a", "10.0.0.1/08"] {
            assert_eq!(link(wrong).len(), 1, "{wrong}");
        }
    }

    #[test]
    fn forms_are_those_of_go() {
        assert!(["1h", "1h30m", "0", "1.5s", "100ms", "-5m"].into_iter().all(is_duration));
        assert!(!["", "5", "h", "1d", "1h30"].into_iter().any(is_duration));
        assert!(["10GiB", "100", "1.5 GB", "5g", "-1GB"].into_iter().all(is_size));
        assert!(!["", "GiB", "10XB", "-"].into_iter().any(is_size));
        assert!(["1.2.3.4", "::1", "fe80::1%eth0"].into_iter().all(is_address));
        assert!(!["1.2.3", "1.2.3.4%a", "01.2.3.4", ""].into_iter().any(is_address));
    }
}
