//! Takes secrets out of text that came from elsewhere.
//!
//! What is known to be secret (every value of the bundle, in the forms in which it is written, and whatever else is handed
//! in) is replaced wherever it stands; PEM blocks are cut out, whatever they belong to.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use secrecy::{ExposeSecret, SecretString};
use talos::secrets::Bundle;
use zeroize::Zeroizing;

/// What stands in place of a secret.
const INSTEAD: &str = "(secret)";
/// Shorter values are no secrets, and would be found everywhere.
const SHORTEST: usize = 8;

/// Everything that must not be told.
#[derive(Default)]
pub struct Scrub {
    secrets: Vec<SecretString>,
}

impl Scrub {
    /// The secrets of a bundle.
    #[must_use]
    pub fn of(bundle: &Bundle) -> Self {
        let mut scrub = Self::default();
        let text = Zeroizing::new(bundle.to_yaml());
        for value in text.lines().filter_map(|line| line.split_once(": ")).map(|(_, value)| value) {
            let value = value.trim().trim_matches(['"', '\'']);
            scrub.add(value);
            // Keys and certificates are kept as base64 of a PEM file, whose lines may turn up on their own.
            let Some(inner) = STANDARD.decode(value).ok().and_then(|bytes| String::from_utf8(bytes).ok())
            else {
                continue;
            };
            let inner = Zeroizing::new(inner);
            inner.lines().filter(|line| !line.starts_with("-----")).for_each(|line| scrub.add(line));
        }
        scrub.secrets.sort_by_key(|secret| std::cmp::Reverse(secret.expose_secret().len()));
        scrub
    }

    /// One more secret.
    pub fn add(&mut self, secret: &str) {
        if secret.len() >= SHORTEST {
            self.secrets.push(SecretString::from(secret.to_owned()));
        }
    }

    /// The text without secrets.
    #[must_use]
    pub fn clean(&self, text: &str) -> String {
        let mut text = without_pem(text);
        for secret in &self.secrets {
            if text.contains(secret.expose_secret()) {
                text = text.replace(secret.expose_secret(), INSTEAD);
            }
        }
        text
    }
}

/// Cuts out what stands between the lines that start and end a PEM block.
fn without_pem(text: &str) -> String {
    const BEGIN: &str = "-----BEGIN ";
    const END: &str = "-----END ";
    let mut rest = text;
    let mut clean = String::with_capacity(text.len());
    while let Some(at) = rest.find(BEGIN) {
        clean.push_str(&rest[..at]);
        clean.push_str(INSTEAD);
        let block = &rest[at + BEGIN.len()..];
        // A block without an end goes to the end of the text.
        let after = block.find(END).map(|end| &block[end + END.len()..]);
        rest = after.and_then(|after| after.split_once("-----")).map_or("", |(_, rest)| rest);
    }
    clean.push_str(rest);
    clean
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_secrets_and_keys_of_strangers_are_gone() {
        let mut scrub = Scrub::default();
        scrub.add("canary-in-a-coal-mine");
        scrub.add("short");
        let text = "a canary-in-a-coal-mine, short\n-----BEGIN RSA PRIVATE KEY-----\nMIIabc\n-----END RSA PRIVATE KEY-----\nb";
        assert_eq!(scrub.clean(text), "a (secret), short\n(secret)\nb");
        assert_eq!(scrub.clean("x -----BEGIN EC PRIVATE KEY-----\\nMHc"), "x (secret)");
    }
}
