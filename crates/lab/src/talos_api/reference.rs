//! Names of images: which are well formed, what they are in full, and in which words a wrong one is refused.

/// Why a name is refused when no more can be said.
const WRONG: &str = "invalid reference format";

/// A name in full, with its registry and its tag, as container runtimes write it.
///
/// # Errors
///
/// For a name that is none, with the reason.
pub(super) fn normalized(name: &str) -> Result<String, String> {
    if name.len() == 64 && name.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) {
        let words = "cannot specify 64-byte hexadecimal strings";
        return Err(format!("invalid repository name ({name}), {words}"));
    }
    let registry = name.split_once('/').filter(|(first, _)| {
        first.contains(['.', ':']) || *first == "localhost" || first.to_lowercase() != *first
    });
    let (domain, rest) = match registry {
        Some((domain, rest)) => (domain, rest.to_owned()),
        None if name.contains('/') => ("docker.io", name.to_owned()),
        None => ("docker.io", format!("library/{name}")),
    };
    let remote = rest.split(':').next().unwrap_or_default();
    if remote.chars().any(char::is_uppercase) {
        return Err(format!("{WRONG}: repository name ({remote}) must be lowercase"));
    }
    let (named, digest) = rest.split_once('@').map_or((rest.as_str(), None), |(named, d)| (named, Some(d)));
    let (path, tag) = named.split_once(':').map_or((named, None), |(path, tag)| (path, Some(tag)));
    let sound = is_domain(domain)
        && path.split('/').all(is_component)
        && tag.is_none_or(is_tag)
        && digest.is_none_or(is_digest);
    match (sound, digest, tag) {
        (false, ..) => Err(WRONG.to_owned()),
        // A digest says it all.
        (true, Some(digest), _) => Ok(format!("{domain}/{path}@{digest}")),
        (true, None, tag) => Ok(format!("{domain}/{path}:{}", tag.unwrap_or("latest"))),
    }
}

/// Whether a name is well formed for those who verify signatures. Their rules are other ones.
pub(super) fn is_verifiable(name: &str) -> bool {
    let (named, digest) = name.split_once('@').map_or((name, None), |(named, d)| (named, Some(d)));
    let tagged = named.rsplit_once(':').filter(|(_, tag)| !tag.contains('/'));
    let (base, tag) = tagged.map_or((named, None), |(base, tag)| (base, Some(tag)));
    let registry =
        base.split_once('/').filter(|(first, _)| first.contains(['.', ':']) || *first == "localhost");
    let path = registry.map_or(base, |(_, path)| path);
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "_-./".contains(c);
    (2..=255).contains(&path.len())
        && path.chars().all(allowed)
        && tag.is_none_or(is_tag)
        && digest.is_none_or(|digest| digest.len() == 71 && is_digest(digest))
}

fn is_domain(domain: &str) -> bool {
    let (host, port) = domain.split_once(':').map_or((domain, None), |(host, port)| (host, Some(port)));
    let label = |part: &str| {
        let inner = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        !part.is_empty() && part.bytes().all(inner) && !part.starts_with('-') && !part.ends_with('-')
    };
    host.split('.').all(label)
        && port.is_none_or(|port| !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit()))
}

/// Letters and digits, with single separators between them; dashes may be many.
fn is_component(part: &str) -> bool {
    let word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = part.as_bytes();
    let ends = bytes.first().is_some_and(|b| word(*b)) && bytes.last().is_some_and(|b| word(*b));
    let separators = part.split(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit());
    ends && separators
        .filter(|text| !text.is_empty())
        .all(|text| [".", "_", "__"].contains(&text) || text.bytes().all(|byte| byte == b'-'))
}

fn is_tag(tag: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    (1..=128).contains(&tag.len()) && tag.bytes().all(inner) && !tag.starts_with(['.', '-'])
}

fn is_digest(digest: &str) -> bool {
    let Some((kind, hash)) = digest.split_once(':') else { return false };
    !kind.is_empty() && hash.len() >= 32 && hash.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn e1_names_are_completed_or_refused() {
        let digest = format!("sha256:{}", "a".repeat(64));
        for (name, whole) in [
            ("etcd", "docker.io/library/etcd:latest"),
            ("flannel/flannel:v1", "docker.io/flannel/flannel:v1"),
            ("registry.k8s.io/etcd:V3", "registry.k8s.io/etcd:V3"),
            ("localhost:5000/a__b/c--d:1", "localhost:5000/a__b/c--d:1"),
        ] {
            assert_eq!(normalized(name), Ok(whole.to_owned()));
        }
        let pinned = format!("ghcr.io/a/b:v1@{digest}");
        assert_eq!(normalized(&pinned), Ok(format!("ghcr.io/a/b@{digest}")));
        for name in ["", "a b", "a/", "/a", "a..b", "a:b:c", "example.com/a@sha256:12", "a:", "-a"] {
            assert_eq!(normalized(name), Err(WRONG.to_owned()), "{name:?}");
        }
        let words = "invalid reference format: repository name (library/Upper) must be lowercase";
        assert_eq!(normalized("Upper").unwrap_err(), words);
        assert!(is_verifiable("example.com/app:V1") && is_verifiable("etcd"));
        assert!(!is_verifiable("example.com/Upper:v1") && !is_verifiable("") && !is_verifiable("x"));
    }
}
