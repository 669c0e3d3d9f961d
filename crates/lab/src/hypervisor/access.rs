//! Who may call: users with passwords, API tokens, tickets. Every known caller may do everything for now.

use std::collections::BTreeMap;
use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::rng::Rng;

/// How long a ticket lasts.
const TICKET_LIFE: SignedDuration = SignedDuration::from_hours(2);
const LAB_TOKEN: &str = "root@pam!lab";
const ROOT: &str = "root@pam";

/// Passwords, token secrets and the key that signs tickets.
#[derive(Serialize, Deserialize)]
pub(crate) struct Access {
    passwords: BTreeMap<String, String>,
    tokens: BTreeMap<String, String>,
    ticket_key: String,
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Access").field("tokens", &self.tokens.keys()).finish_non_exhaustive()
    }
}

impl Access {
    pub(crate) fn new(rng: &mut Rng) -> Self {
        let password = format!("lab-{:012x}", rng.next_u64() & 0xFFFF_FFFF_FFFF);
        Self {
            passwords: BTreeMap::from([(ROOT.to_owned(), password)]),
            tokens: BTreeMap::from([(LAB_TOKEN.to_owned(), rng.uuid())]),
            ticket_key: rng.uuid(),
        }
    }

    /// The lab's own token with its secret, as it stands in a request.
    pub(crate) fn lab_token(&self) -> String {
        self.tokens.get(LAB_TOKEN).map(|secret| format!("{LAB_TOKEN}={secret}")).unwrap_or_default()
    }

    pub(crate) fn root_password(&self) -> &str {
        self.passwords.get(ROOT).map_or("", String::as_str)
    }

    /// The id of a token, `user@realm!name`, if its secret is right.
    pub(crate) fn token(&self, credentials: &str) -> Option<String> {
        let (id, secret) = credentials.split_once('=')?;
        (self.tokens.get(id)? == secret).then(|| id.to_owned())
    }

    /// Whether `password` is the user's, or a valid ticket of the user.
    pub(crate) fn password(&self, user: &str, password: &str, now: Timestamp) -> bool {
        self.passwords.get(user).is_some_and(|right| right == password)
            || self.ticket(password, now).is_some_and(|of| of == user)
    }

    pub(crate) fn new_ticket(&self, user: &str, now: Timestamp) -> String {
        let text = format!("PVE:{user}:{:08X}", now.as_second());
        let signature = self.sign(&text);
        format!("{text}::{signature}")
    }

    /// The user of a valid ticket.
    pub(crate) fn ticket(&self, ticket: &str, now: Timestamp) -> Option<String> {
        let (text, signature) = ticket.split_once("::")?;
        let mut parts = text.split(':');
        let (_, user, time) = (parts.next()?, parts.next()?, parts.next()?);
        let made = Timestamp::from_second(i64::from_str_radix(time, 16).ok()?).ok()?;
        let valid = self.sign(text) == signature && now.duration_since(made) < TICKET_LIFE;
        valid.then(|| user.to_owned())
    }

    /// What a caller with a ticket must repeat in a header of every write.
    pub(crate) fn csrf(&self, user: &str, now: Timestamp) -> String {
        let time = format!("{:08X}", now.as_second());
        let signature = self.sign(&format!("{time}:{user}"));
        format!("{time}:{signature}")
    }

    pub(crate) fn csrf_valid(&self, token: &str, user: &str, now: Timestamp) -> bool {
        let Some((time, signature)) = token.split_once(':') else { return false };
        let made = i64::from_str_radix(time, 16).ok().and_then(|second| Timestamp::from_second(second).ok());
        made.is_some_and(|made| now.duration_since(made) < TICKET_LIFE)
            && self.sign(&format!("{time}:{user}")) == signature
    }

    fn sign(&self, text: &str) -> String {
        STANDARD.encode(Sha256::new().chain_update(&self.ticket_key).chain_update(text).finalize())
    }
}
