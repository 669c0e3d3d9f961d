//! The forms of names, addresses and versions that Talos checks.

use crate::schema::check::{is_address, is_prefix};

/// A subnet or an address, with `!` before it where it is excluded.
pub(super) fn is_subnet_filter(text: &str) -> bool {
    let text = text.strip_prefix('!').unwrap_or(text);
    is_prefix(text) || is_address(text)
}

/// An address with or without a prefix length.
pub(super) fn is_address_or_prefix(text: &str) -> bool {
    is_prefix(text) || is_address(text)
}

/// A URL with a host, whose port is a port.
pub(super) fn is_endpoint(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once("://") else { return false };
    let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    let (name, port) = match host.strip_prefix('[') {
        Some(inner) => match inner.split_once(']') {
            Some((address, "")) => (address, None),
            Some((address, port)) if port.starts_with(':') => (address, Some(&port[1..])),
            _ => return false,
        },
        None if host.matches(':').count() > 1 => return false,
        None => match host.split_once(':') {
            Some((name, port)) => (name, Some(port)),
            None => (host, None),
        },
    };
    let bad = |c: char| c.is_whitespace() || c.is_control() || "<>\"\\^`{|}%".contains(c);
    is_scheme
        && !name.is_empty()
        && !host.contains(bad)
        && port.is_none_or(|port| port.is_empty() || port.parse::<u16>().is_ok_and(|port| port > 0))
}

/// A name in DNS, with letters, digits, hyphens and underscores.
pub(super) fn is_dns_name(text: &str) -> bool {
    let name = text.strip_suffix('.').unwrap_or(text);
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && !label.starts_with('-')
            && label.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
    };
    !name.is_empty() && text.len() <= 255 && name.split('.').all(is_label)
}

/// A name such as Kubernetes wants for labels, annotations and taints: with or without a domain before it.
pub(super) fn is_qualified_name(text: &str) -> bool {
    let (prefix, name) = match text.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, text),
    };
    let is_label = |label: &str| {
        let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        label.starts_with(inner) && label.ends_with(inner) && label.chars().all(|c| inner(c) || c == '-')
    };
    let prefix_fits = prefix.is_none_or(|prefix| prefix.len() <= 253 && prefix.split('.').all(is_label));
    prefix_fits && !name.is_empty() && is_label_value(name)
}

/// What may stand as the value of a label.
pub(super) fn is_label_value(text: &str) -> bool {
    let outer = |c: char| c.is_ascii_alphanumeric();
    text.is_empty()
        || (text.len() <= 63
            && text.starts_with(outer)
            && text.ends_with(outer)
            && text.chars().all(|c| outer(c) || "-_.".contains(c)))
}

/// A taint: its effect, or a value and its effect around a colon.
pub(super) fn is_taint(text: &str) -> bool {
    let (value, effect) = text.split_once(':').unwrap_or(("", text));
    is_label_value(value) && ["NoSchedule", "PreferNoSchedule", "NoExecute"].contains(&effect)
}

/// The Kubernetes minors that a Talos release runs.
pub(super) fn kubernetes_range(minor: u32) -> std::ops::RangeInclusive<u32> {
    (minor + 18)..=(minor + 23)
}

/// The Kubernetes minor of an image whose tag is `v1.35.4`, with or without a digest.
pub(super) fn kubernetes_minor(image: &str) -> Option<u32> {
    let (_, tag) = image.rsplit_once(":v")?;
    let version = tag.split('@').next()?;
    let core = version.split(['-', '+']).next()?;
    let mut parts = core.split('.');
    let numbers: Vec<u32> = parts.by_ref().map(|part| part.parse().ok()).collect::<Option<_>>()?;
    match numbers[..] {
        [1, minor, _] => Some(minor),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms() {
        assert!(
            ["https://a:6443", "https://[::1]:6443", "https://a", "http://10.0.0.1/x"]
                .into_iter()
                .all(is_endpoint)
        );
        assert!(
            ![
                "",
                "a",
                "https://",
                "https://:6443",
                "https://a:b",
                "https://a:99999",
                "https://::1:6443",
                "https://a b"
            ]
            .into_iter()
            .any(is_endpoint)
        );
        assert!(["a", "a.b/c", "node.kubernetes.io/exclude", "A_b.c"].into_iter().all(is_qualified_name));
        assert!(!["", "/a", "a/", "a/b/c", "A.b/c", "-a", "a b"].into_iter().any(is_qualified_name));
        assert!(["NoSchedule", ":NoExecute", "x:PreferNoSchedule"].into_iter().all(is_taint));
        assert!(!["", "x", "x:", "NoSchedule:x"].into_iter().any(is_taint));
        assert_eq!(kubernetes_minor("ghcr.io/siderolabs/kubelet:v1.35.4@sha256:abc"), Some(35));
        assert_eq!(kubernetes_minor("a:1.35.4"), None);
        assert_eq!(kubernetes_range(13), 31..=36);
    }
}
