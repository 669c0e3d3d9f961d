//! URLs, as far as merging them needs their parts.
//!
//! Talos merges two URLs part by part: what the new one does not have stays as it was. So `https://b:6443` over
//! `https://a:6443/x` is `https://b:6443/x`.

/// The parts that are merged on their own.
#[derive(Debug, PartialEq, Eq)]
struct Url<'a> {
    scheme: &'a str,
    user: Option<&'a str>,
    host: &'a str,
    path: &'a str,
    query: &'a str,
    fragment: &'a str,
}

/// The old URL with the parts of the new one; nothing where both name a user, which Talos does not merge.
pub(super) fn merged(old: &str, new: &str) -> Option<String> {
    let (old, new) = (parse(old), parse(new));
    if old.user.is_some() && new.user.is_some() {
        return None;
    }
    let either = |old: &str, new: &str| if new.is_empty() { old.to_owned() } else { new.to_owned() };
    let mut text = either(old.scheme, new.scheme);
    if !text.is_empty() {
        text.push(':');
    }
    let host = either(old.host, new.host);
    let user = new.user.or(old.user);
    if !host.is_empty() || user.is_some() {
        text += "//";
        if let Some(user) = user {
            text += &format!("{user}@");
        }
        text += &host;
    }
    text += &either(old.path, new.path);
    let (query, fragment) = (either(old.query, new.query), either(old.fragment, new.fragment));
    if !query.is_empty() {
        text += &format!("?{query}");
    }
    if !fragment.is_empty() {
        text += &format!("#{fragment}");
    }
    Some(text)
}

fn parse(text: &str) -> Url<'_> {
    let (rest, fragment) = text.split_once('#').unwrap_or((text, ""));
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let is_scheme = |scheme: &str| {
        scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
    };
    let (scheme, rest) = rest.split_once(':').filter(|(scheme, _)| is_scheme(scheme)).unwrap_or(("", rest));
    let Some(authority) = rest.strip_prefix("//") else {
        return Url { scheme, user: None, host: "", path: rest, query, fragment };
    };
    let (authority, path) = authority.split_at(authority.find('/').unwrap_or(authority.len()));
    let (user, host) = match authority.rsplit_once('@') {
        Some((user, host)) => (Some(user), host),
        None => (None, authority),
    };
    Url { scheme, user, host, path, query, fragment }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_that_are_not_given_stay() {
        for (old, new, both) in [
            ("https://a:6443/x", "https://b:6443", "https://b:6443/x"),
            ("https://a:6443", "https://b", "https://b"),
            ("https://a?x=1#y", "http://a/z", "http://a/z?x=1#y"),
            ("https://u:p@a/", "https://b", "https://u:p@b/"),
            ("https://a", "", "https://a"),
            ("https://[::1]:6443", "https://[::2]:6443/", "https://[::2]:6443/"),
        ] {
            assert_eq!(merged(old, new).as_deref(), Some(both), "{old} {new}");
        }
        assert_eq!(merged("https://u@a", "https://v@b"), None);
    }
}
