//! Logging in with a password, and with a second factor where the account has one.

use ambient::{Clock, Net};
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde_json::Value;

use crate::client::{Call, Client};
use crate::error::{Error, Kind};
use crate::scalar;
use crate::token::Credentials;
use crate::transport::Endpoints;
use crate::trust::{InvalidTrust, Trust};

/// What comes before the list of second factors in a ticket that opens nothing yet.
const PENDING: &str = "PVE:!tfa!";

/// Why the login failed.
#[derive(Debug, thiserror::Error)]
pub enum LoginError {
    /// What is given as trust cannot be used.
    #[error(transparent)]
    Trust(#[from] InvalidTrust),
    /// The call failed.
    #[error(transparent)]
    Call(#[from] Error),
}

/// What a right password leads to.
#[derive(Debug)]
pub enum Login {
    /// The client is logged in.
    Done(Client),
    /// The account needs a second factor.
    SecondFactor(SecondFactor),
}

/// A login whose password was right and which still needs a second factor.
#[derive(Debug)]
pub struct SecondFactor {
    client: Client,
    user: String,
    challenge: SecretString,
}

#[derive(Deserialize)]
struct Ticket {
    ticket: String,
    #[serde(rename = "CSRFPreventionToken")]
    csrf: String,
    #[serde(default, rename = "NeedTFA", deserialize_with = "scalar::flag")]
    pending: bool,
}

impl Client {
    /// Logs in with a password, which is used once and not kept. The right of the client ends after two hours.
    ///
    /// # Errors
    ///
    /// [`Kind::Unauthenticated`] when user or password is wrong; otherwise as any call.
    pub async fn login(
        endpoints: Endpoints,
        user: &str,
        password: &SecretString,
        trust: &Trust,
        net: Net,
        clock: Clock,
    ) -> Result<Login, LoginError> {
        let client = Self::anonymous(endpoints, user, trust, net, clock)?;
        let ticket = client.ticket(user, password.expose_secret(), None).await?;
        // A ticket that waits for a second factor looks like any other, and every call with it is refused.
        if ticket.pending || ticket.ticket.starts_with(PENDING) {
            let (user, challenge) = (user.to_owned(), SecretString::from(ticket.ticket));
            return Ok(Login::SecondFactor(SecondFactor { client, user, challenge }));
        }
        Ok(Login::Done(client.with_ticket(&ticket)))
    }

    /// Proves that a Proxmox VE answers whose certificate is trusted, before anybody is asked for a password. Nothing is sent but a
    /// question without credentials; that it is refused is an answer, too.
    ///
    /// # Errors
    ///
    /// [`Kind::Untrusted`] with the certificate that is shown, or that nothing answers.
    pub async fn greet(
        endpoints: Endpoints,
        trust: &Trust,
        net: Net,
        clock: Clock,
    ) -> Result<(), LoginError> {
        let client = Self::anonymous(endpoints, "", trust, net, clock)?;
        match client.version().await {
            Err(error)
                if matches!(error.kind(), Kind::Untrusted { .. } | Kind::Transport(_) | Kind::Lost(_)) =>
            {
                Err(error.into())
            }
            _ => Ok(()),
        }
    }

    async fn ticket(&self, user: &str, password: &str, challenge: Option<&str>) -> Result<Ticket, Error> {
        let mut call = Call::secret(format!("logging in as {user}"), "/access/ticket");
        call = call.with("username", user).with("password", password);
        if let Some(challenge) = challenge {
            call = call.with("tfa-challenge", challenge);
        }
        self.call(call).await
    }

    fn with_ticket(self, ticket: &Ticket) -> Self {
        self.with_credentials(Credentials::ticket(&ticket.ticket, &ticket.csrf))
    }
}

impl SecondFactor {
    /// Whether the account takes one-time codes (TOTP). Where the answer cannot be read, it may.
    #[must_use]
    pub fn takes_totp(&self) -> bool {
        let challenge = self.challenge.expose_secret().strip_prefix(PENDING).unwrap_or_default();
        let factors = decode(challenge.split(':').next().unwrap_or_default());
        match serde_json::from_str::<Value>(&factors) {
            Ok(Value::Object(factors)) => {
                factors.get("totp").is_some_and(|totp| !matches!(totp, Value::Null | Value::Bool(false)))
            }
            _ => true,
        }
    }

    /// Ends the login with a one-time code.
    ///
    /// # Errors
    ///
    /// [`Kind::Unauthenticated`] when the code is wrong; otherwise as any call.
    pub async fn totp(self, code: &SecretString) -> Result<Client, LoginError> {
        let answer = SecretString::from(format!("totp:{}", code.expose_secret()));
        let challenge = self.challenge.expose_secret();
        let ticket = self.client.ticket(&self.user, answer.expose_secret(), Some(challenge)).await?;
        Ok(self.client.with_ticket(&ticket))
    }
}

/// Undoes percent-encoding. What is not encoded stays.
fn decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        let pair = after.get(..2).and_then(|pair| std::str::from_utf8(pair).ok());
        match pair.and_then(|pair| u8::from_str_radix(pair, 16).ok()) {
            Some(decoded) if *byte == b'%' => {
                bytes.push(decoded);
                rest = &after[2..];
            }
            _ => {
                bytes.push(*byte);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p4_the_kinds_of_second_factor_are_read_from_the_challenge() {
        let takes = |challenge: &str| {
            let (client, user) = (Client::of_nothing(Clock::real()), "root@pam".to_owned());
            let challenge = SecretString::from(challenge.to_owned());
            SecondFactor { client, user, challenge }.takes_totp()
        };
        assert!(takes("PVE:!tfa!%7B%22totp%22%3Atrue%7D:6AFA1589::abc"));
        assert!(!takes("PVE:!tfa!%7B%22webauthn%22%3A%7B%7D%7D:6AFA1589::abc"));
        assert!(!takes("PVE:!tfa!%7B%22totp%22%3Afalse%7D:6AFA1589::abc"));
        assert!(takes("PVE:!tfa!%:6AFA1589::abc"), "what cannot be read may take one");
    }
}
