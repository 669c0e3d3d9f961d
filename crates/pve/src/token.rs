//! An API token: who calls, and the secret that proves it.

use std::str::FromStr;

use http::HeaderValue;
use secrecy::{ExposeSecret, SecretString};

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

    pub(crate) fn header(&self) -> Option<HeaderValue> {
        let text = format!("PVEAPIToken={}={}", self.id, self.secret.expose_secret());
        let mut value = HeaderValue::from_str(&text).ok()?;
        value.set_sensitive(true);
        Some(value)
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
}
