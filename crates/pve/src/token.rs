//! An API token: who calls, and the secret that proves it.

use std::str::FromStr;

use http::header::{AUTHORIZATION, COOKIE, HeaderName};
use http::{HeaderMap, HeaderValue};
use secrecy::{ExposeSecret, SecretString};

use crate::percent::encode;

/// An API token in Proxmox's own notation, `user@realm!name=secret`. The secret is never shown.
#[derive(Clone)]
pub struct Token {
    id: String,
    secret: SecretString,
}

/// The text is not an API token. The text itself is left out, because it may hold the secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this is not an API token; one looks like user@realm!name=xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx")]
pub struct InvalidToken;

impl Token {
    /// The part that is no secret: `user@realm!name`.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The whole token, for the one moment in which a new one is handed to its owner.
    #[must_use]
    pub fn reveal(&self) -> SecretString {
        SecretString::from(format!("{}={}", self.id, self.secret.expose_secret()))
    }

    pub(crate) fn header(&self) -> Option<HeaderValue> {
        let text = format!("PVEAPIToken={}={}", self.id, self.secret.expose_secret());
        let mut value = HeaderValue::from_str(&text).ok()?;
        value.set_sensitive(true);
        Some(value)
    }
}

/// What a request is signed with: a token, or a ticket and its companion for changes.
#[derive(Clone, Default)]
pub(crate) struct Credentials {
    always: Option<(HeaderName, HeaderValue)>,
    for_changes: Option<(HeaderName, HeaderValue)>,
}

impl Credentials {
    pub(crate) fn token(token: &Token) -> Self {
        Self { always: token.header().map(|value| (AUTHORIZATION, value)), for_changes: None }
    }

    pub(crate) fn ticket(ticket: &str, csrf: &str) -> Self {
        let secret = |text: &str| {
            let mut value = HeaderValue::from_str(text).ok()?;
            value.set_sensitive(true);
            Some(value)
        };
        let cookie = secret(&format!("PVEAuthCookie={}", encode(ticket)));
        let csrf = secret(csrf).map(|value| (HeaderName::from_static("csrfpreventiontoken"), value));
        Self { always: cookie.map(|value| (COOKIE, value)), for_changes: csrf }
    }

    pub(crate) fn put(&self, headers: &mut HeaderMap, changing: bool) {
        let for_changes = self.for_changes.iter().filter(|_| changing);
        for (name, value) in self.always.iter().chain(for_changes) {
            headers.insert(name.clone(), value.clone());
        }
    }
}

impl FromStr for Token {
    type Err = InvalidToken;

    fn from_str(text: &str) -> Result<Self, InvalidToken> {
        let text = text.trim();
        let text = text.strip_prefix("PVEAPIToken=").unwrap_or(text);
        let (id, secret) = text.split_once('=').ok_or(InvalidToken)?;
        let (user, name) = id.split_once('!').ok_or(InvalidToken)?;
        let (login, realm) = user.rsplit_once('@').ok_or(InvalidToken)?;
        let plain = |s: &str| !s.is_empty() && s.chars().all(|c| c.is_ascii_graphic());
        if [login, realm, name, secret].into_iter().all(plain) {
            Ok(Self { id: id.to_owned(), secret: SecretString::from(secret.to_owned()) })
        } else {
            Err(InvalidToken)
        }
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Token({})", self.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_shows_its_name_and_hides_its_secret() {
        let token: Token = " root@pam!lab=3db95989-2fee-4214-9bc8-d3b71bb9ad9a\n".parse().unwrap();
        assert_eq!(token.id(), "root@pam!lab");
        assert_eq!(format!("{token:?}"), "Token(root@pam!lab)");
        let header = token.header().unwrap();
        assert!(header.is_sensitive());
        assert_eq!(header.as_bytes(), b"PVEAPIToken=root@pam!lab=3db95989-2fee-4214-9bc8-d3b71bb9ad9a");
    }

    #[test]
    fn what_is_not_a_token_is_refused_without_repeating_it() {
        for text in
            ["", "root@pam", "root@pam!lab", "root!lab=x", "root@pam!=x", "root@pam!lab=", "a@b!c=d e"]
        {
            assert_eq!(text.parse::<Token>().unwrap_err(), InvalidToken, "{text}");
        }
    }

    #[test]
    fn a_ticket_goes_into_a_cookie_and_its_companion_into_changes_only() {
        let credentials = Credentials::ticket("PVE:root@pam:6AFA1423::a+b/c==", "6AFA1423:x");
        let mut headers = HeaderMap::new();
        credentials.put(&mut headers, false);
        assert_eq!(headers[COOKIE], "PVEAuthCookie=PVE%3Aroot%40pam%3A6AFA1423%3A%3Aa%2Bb%2Fc%3D%3D");
        assert!(headers[COOKIE].is_sensitive() && headers.len() == 1);
        credentials.put(&mut headers, true);
        assert_eq!(headers["csrfpreventiontoken"], "6AFA1423:x");
    }
}
