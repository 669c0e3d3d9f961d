//! What went wrong, in kinds that a caller can act on.
//!
//! Proxmox has no 404 and no 409. Whatever is neither schema (400), login (401) nor permission (403) is a 500, and only
//! its words tell a missing machine from a locked one. This module holds those words, in one table, for answers and for
//! the exit texts of tasks alike.

use std::collections::BTreeMap;

use crate::transport::{BoxError, NotConnected};
use crate::trust::{Fingerprint, Unaccepted, Unverified};
use crate::upid::Upid;

pub type Result<T> = std::result::Result<T, Error>;

/// A call that did not succeed: what was attempted, and the kind of failure.
#[derive(Debug)]
pub struct Error {
    attempt: String,
    kind: Kind,
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.attempt, self.kind)
    }
}

impl std::error::Error for Error {
    /// What is below the kind: the kind itself is part of the text already.
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.kind.source()
    }
}

/// Kinds of failure.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Kind {
    /// What should be made is there already.
    #[error("it exists already ({text})")]
    Exists {
        /// Proxmox's words.
        text: String,
    },
    /// The machine, storage, disk or task is not there, or not on that node.
    #[error("it does not exist ({text})")]
    Missing {
        /// Proxmox's words.
        text: String,
    },
    /// The machine is locked by other work.
    #[error("the machine is locked ({why})")]
    Locked {
        /// The lock's name, such as `backup` or `create`.
        why: String,
    },
    /// Proxmox waited for a lock of its own and gave up. Trying later is right.
    #[error("a lock was not released in time ({text})")]
    LockTimeout {
        /// Proxmox's words.
        text: String,
    },
    /// The machine is running when it must not be, or the other way round, or its guest agent does not answer.
    #[error("its state does not allow this ({text})")]
    WrongState {
        /// Proxmox's words.
        text: String,
    },
    /// A privilege is missing.
    #[error("{}", permission(path.as_deref(), privilege.as_deref(), text))]
    Permission {
        /// The path on which it is missing, where Proxmox says so.
        path: Option<String>,
        /// The privilege, or alternatives joined by `|`, where Proxmox says so.
        privilege: Option<String>,
        /// Proxmox's words.
        text: String,
    },
    /// Parameters were refused.
    #[error("parameters were refused ({})", parameters(errors))]
    Parameter {
        /// The reason for each parameter.
        errors: BTreeMap<String, String>,
    },
    /// The token, or the password of a login, was not accepted.
    #[error("{} ({text})", credentials(text))]
    Unauthenticated {
        /// Proxmox's words.
        text: String,
    },
    /// This Proxmox does not have this call.
    #[error("this Proxmox VE does not know the call ({text})")]
    NotImplemented {
        /// Proxmox's words.
        text: String,
    },
    /// The node that we talk to cannot reach the node that must answer.
    #[error("the node could not be reached through the cluster ({status} {text})")]
    NodeUnreachable {
        /// 595 to 599.
        status: u16,
        /// Proxmox's words.
        text: String,
    },
    /// The Proxmox cluster has no quorum, so nothing can be changed.
    #[error("the Proxmox cluster has no quorum ({text})")]
    NoQuorum {
        /// Proxmox's words.
        text: String,
    },
    /// The configuration was changed by someone else since it was read.
    #[error("the configuration was changed by someone else in the meantime")]
    DigestMismatch,
    /// A task ended with an error.
    #[error("the task failed: {exit}{}", reason(exit, tail))]
    TaskFailed {
        /// The task.
        upid: Box<Upid>,
        /// Its last word.
        exit: String,
        /// The last lines of its log.
        tail: Vec<String>,
        /// What its last word means.
        meaning: Box<Kind>,
    },
    /// A task neither ended nor wrote anything for long.
    #[error("the task has written nothing for {minutes} minutes, and goes on in Proxmox")]
    TaskStuck {
        /// The task.
        upid: Box<Upid>,
        /// For how long.
        minutes: u64,
    },
    /// Proxmox refused for a reason that this list has no kind for.
    #[error("{text}")]
    Refused {
        /// The HTTP status; 0 for a task.
        status: u16,
        /// Proxmox's words.
        text: String,
    },
    /// The answer is not what Proxmox VE would send.
    #[error("the answer cannot be understood: {text}")]
    Protocol {
        /// What was wrong with it.
        text: String,
    },
    /// The server's certificate is not trusted. Nothing was sent.
    #[error("the certificate that {endpoint} shows is not trusted: {why}")]
    Untrusted {
        /// The address that was dialled.
        endpoint: String,
        /// Which certificate, and what is wrong with it.
        why: Unverified,
    },
    /// No answer, and it is certain that nothing was changed.
    #[error("no answer")]
    Transport(#[source] BoxError),
    /// The connection broke after a changing request was sent: it may have happened or not. Look before trying again.
    #[error("the connection broke before the answer came, so it is not known whether it happened")]
    Lost(#[source] BoxError),
}

/// One word for each kind, and with it the list of all of them: a new kind needs its word.
macro_rules! codes {
    ($($kind:pat => $code:literal,)*) => {
        /// Every word that [`Kind::code`] has.
        pub const CODES: &'static [&'static str] = &[$($code),*];

        /// The kind in one word, for programs. A word never changes its meaning.
        #[must_use]
        pub fn code(&self) -> &'static str {
            match self {
                $($kind => $code,)*
            }
        }
    };
}

impl Kind {
    codes! {
        Self::Exists { .. } => "exists",
        Self::Missing { .. } => "missing",
        Self::Locked { .. } => "locked",
        Self::LockTimeout { .. } => "lock-timeout",
        Self::WrongState { .. } => "wrong-state",
        Self::Permission { .. } => "permission",
        Self::Parameter { .. } => "parameter",
        Self::Unauthenticated { .. } => "unauthenticated",
        Self::NotImplemented { .. } => "not-implemented",
        Self::NodeUnreachable { .. } => "unreachable",
        Self::NoQuorum { .. } => "no-quorum",
        Self::DigestMismatch => "changed-meanwhile",
        Self::TaskFailed { .. } => "task-failed",
        Self::TaskStuck { .. } => "task-stuck",
        Self::Refused { .. } => "rejected",
        Self::Protocol { .. } => "protocol",
        Self::Untrusted { .. } => "untrusted",
        Self::Transport(_) => "no-answer",
        Self::Lost(_) => "answer-lost",
    }
}

impl Error {
    /// The certificate that was shown and not accepted, if that is what went wrong.
    #[must_use]
    pub fn shown_certificate(&self) -> Option<Fingerprint> {
        match &self.kind {
            Kind::Untrusted { why, .. } => Some(why.shown),
            _ => None,
        }
    }

    pub(crate) fn new(attempt: impl Into<String>, kind: Kind) -> Self {
        Self { attempt: attempt.into(), kind }
    }

    /// What was attempted, such as "creating VM 150011 on pve1".
    #[must_use]
    pub fn attempt(&self) -> &str {
        &self.attempt
    }

    /// The kind of failure as it happened; for a failed task that is [`Kind::TaskFailed`].
    #[must_use]
    pub fn kind(&self) -> &Kind {
        &self.kind
    }

    /// The kind of failure, whether it came as an answer or as the end of a task.
    #[must_use]
    pub fn meaning(&self) -> &Kind {
        match &self.kind {
            Kind::TaskFailed { meaning, .. } => meaning,
            kind => kind,
        }
    }

    /// Whether what was asked for is not there.
    #[must_use]
    pub fn is_missing(&self) -> bool {
        matches!(self.meaning(), Kind::Missing { .. })
    }

    /// Whether what was to be made is there already.
    #[must_use]
    pub fn is_exists(&self) -> bool {
        matches!(self.meaning(), Kind::Exists { .. })
    }

    /// Whether the effect may have happened although the call failed: look before trying again.
    #[must_use]
    pub fn effect_unknown(&self) -> bool {
        matches!(self.meaning(), Kind::Lost(_) | Kind::NodeUnreachable { status: 596, .. })
    }

    /// Whether the same call may succeed a little later without anyone doing anything.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self.meaning() {
            Kind::LockTimeout { .. }
            | Kind::NodeUnreachable { .. }
            | Kind::NoQuorum { .. }
            | Kind::Transport(_) => true,
            Kind::Locked { why } => !matches!(why.as_str(), "create" | "clone" | "destroyed"),
            Kind::Refused { text, .. } => text.contains("worker"),
            _ => false,
        }
    }

    /// Whether there was no room for what should be written.
    #[must_use]
    pub fn is_full(&self) -> bool {
        let full = |text: &str| text.contains("free space") || text.contains("No space left");
        matches!(self.meaning(), Kind::Refused { text, .. } if full(text))
    }

    /// What a person can do about it, where that is known.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        let words = match self.meaning() {
            Kind::Locked { why } if matches!(why.as_str(), "create" | "clone" | "destroyed") => {
                "work on this VM was cut off and left its lock behind; root must clear it on the node: qm unlock VMID"
            }
            Kind::Locked { .. } => "wait until that work is done",
            Kind::LockTimeout { .. } => "the node is busy; try again",
            Kind::Permission { path: Some(path), privilege: Some(privilege), .. } => {
                return Some(format!(
                    "give the token (and, with privilege separation, its user) {privilege} on {path}"
                ));
            }
            Kind::Permission { text, .. } if text.contains("only root") || text.contains("Only root") => {
                "no token can do this, not even one of root@pam: leave the setting out"
            }
            Kind::Permission { .. } => "compare the token's privileges with those in the documentation",
            Kind::Unauthenticated { text } if is_login(text) => "check the user, the realm and the password",
            Kind::Unauthenticated { .. } => {
                "check the token's user, realm, name and secret, that it has not expired, and that the node's clock is right"
            }
            Kind::NodeUnreachable { .. } => "check that the node is up and that the cluster network works",
            Kind::NoQuorum { .. } => "bring back enough Proxmox nodes: until then nothing can be changed",
            Kind::DigestMismatch => "someone else changes the same VM; read it again and repeat",
            Kind::NotImplemented { .. } => "check that this is Proxmox VE 9",
            Kind::Untrusted { why, .. } => return Some(untrusted(why)),
            Kind::Transport(_) => {
                "check the endpoint's address, and that its port (8006 unless the endpoint names another) can be reached from here"
            }
            Kind::TaskStuck { upid, .. } => {
                return Some(format!(
                    "look at the task {upid} in Proxmox: it goes on there. Wait for its end, or stop it, then run the command again"
                ));
            }
            Kind::Refused { .. } if self.is_full() => {
                "make room in the datastore, or name another one in the file"
            }
            Kind::Lost(_) => "run again: the state is looked at before anything is repeated",
            _ => return None,
        };
        Some(words.to_owned())
    }
}

/// What the last lines of a task's log say beyond its last word, which is often only that a program ended.
fn reason(exit: &str, tail: &[String]) -> String {
    const LINES: usize = 3;
    const LONGEST: usize = 300;
    let tells = |line: &&str| {
        let says_the_end = line.contains(exit) || exit.contains(*line) || line.starts_with("TASK ");
        !line.is_empty() && !says_the_end && !line.starts_with("transferred ")
    };
    let lines: Vec<&str> = tail.iter().map(|line| line.trim()).filter(tells).collect();
    let last = lines.iter().skip(lines.len().saturating_sub(LINES));
    let last: Vec<String> = last.map(|line| line.chars().take(LONGEST).collect()).collect();
    if last.is_empty() { String::new() } else { format!("; its log says: {}", last.join("; ")) }
}

/// Whether a login was refused. Nothing else is refused in these words.
fn is_login(text: &str) -> bool {
    text.trim() == "authentication failure"
}

/// What was not accepted.
fn credentials(text: &str) -> &'static str {
    if is_login(text) { "the user name or the password is wrong" } else { "the token was not accepted" }
}

fn permission(path: Option<&str>, privilege: Option<&str>, text: &str) -> String {
    match (path, privilege) {
        (Some(path), Some(privilege)) => {
            format!("the token lacks {} on {path}", privilege.replace('|', " or "))
        }
        _ => text.to_owned(),
    }
}

fn parameters(errors: &BTreeMap<String, String>) -> String {
    let one = |(name, why): (&String, &String)| format!("{name}: {}", why.trim().replace('\n', ", "));
    errors.iter().map(one).collect::<Vec<_>>().join("; ")
}

/// What a person can do about a certificate, which may be that of another server: first compare, then pin.
fn untrusted(why: &Unverified) -> String {
    let Unverified { shown, reason } = why;
    let advice = match reason {
        Unaccepted::Expired | Unaccepted::NotYetValid => {
            return "check the clocks of this computer and of the Proxmox host; a certificate that has really expired is renewed \
                    on the host with `pvecm updatecerts --force`, or by ACME"
                .to_owned();
        }
        Unaccepted::NotPinned => {
            "if this is your Proxmox host and its certificate was renewed, replace the pin"
        }
        _ => "if this is your Proxmox host, pin its certificate",
    };
    format!(
        "{advice}: write `fingerprint: \"{shown}\"` under `proxmox:`, once you have compared it with what the host itself shows \
         (`pvenode cert info` in its shell, or NODE > System > Certificates in the web interface). If they differ, something else \
         answers at this address"
    )
}

/// What a verifier of ours said of the certificate, below whatever carries its error.
fn unverified<'a>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a Unverified> {
    if let Some(io) = error.downcast_ref::<std::io::Error>() {
        return unverified(io.get_ref()?);
    }
    match error.downcast_ref::<rustls::Error>()? {
        rustls::Error::InvalidCertificate(rustls::CertificateError::Other(other)) => other.0.downcast_ref(),
        _ => None,
    }
}

impl Kind {
    /// The kind of a request that got no answer.
    pub(crate) fn of_transport(error: BoxError, changing: bool) -> Self {
        match error.downcast_ref::<NotConnected>() {
            Some(e) => match unverified(&e.source) {
                Some(why) => Self::Untrusted { endpoint: e.endpoint.clone(), why: why.clone() },
                None => Self::Transport(error),
            },
            None if changing => Self::Lost(error),
            None => Self::Transport(error),
        }
    }

    /// The kind of an answer that is not a success.
    pub(crate) fn of_answer(status: u16, text: &str, errors: BTreeMap<String, String>) -> Self {
        let text = text.trim().to_owned();
        match status {
            401 => Self::Unauthenticated { text },
            403 => of_permission(text),
            501 => Self::NotImplemented { text },
            595..=599 => Self::NodeUnreachable { status, text },
            400 if !errors.is_empty() => {
                let only = errors.values().next().filter(|_| errors.len() == 1);
                match only.map(|why| Self::of_words(400, why)) {
                    Some(kind @ (Self::Exists { .. } | Self::Missing { .. })) => kind,
                    _ => Self::Parameter { errors },
                }
            }
            _ => Self::of_words(status, &text),
        }
    }

    /// The kind of a 500 or of a task's last word. The order matters: a creation that fails on a lock says both.
    pub(crate) fn of_words(status: u16, text: &str) -> Self {
        let text = text.trim().to_owned();
        let has = |words: &[&str]| words.iter().any(|w| text.contains(w));
        if has(&["no quorum"]) || (text.contains("/etc/pve/") && text.contains("Permission denied")) {
            Self::NoQuorum { text }
        } else if let Some(why) = between(&text, "is locked (", ")") {
            Self::Locked { why: why.to_owned() }
        } else if (text.contains("lock") && has(&["got timeout", "got lock request timeout"]))
            || has(&["-locked command timed out"])
        {
            Self::LockTimeout { text }
        } else if has(&["checksum mismatch (file change", "detected modified configuration"]) {
            Self::DigestMismatch
        } else if has(&["Permission check failed", "only root can", "Only root can", "Only root may"]) {
            of_permission(text)
        } else if has(&[
            "already running",
            "not running",
            "is running - ",
            "No QEMU guest agent",
            "is paused",
        ]) {
            Self::WrongState { text }
        } else if has(&["already exists", "File exists", "already defined", "refusing to override"]) {
            Self::Exists { text }
        } else if has(&["does not exist", "unable to find configuration file", "no such ", "No such storage"])
            || has(&["failed to stat", "hostname lookup"])
        {
            Self::Missing { text }
        } else {
            Self::Refused { status, text }
        }
    }
}

fn of_permission(text: String) -> Kind {
    let inside = between(&text, "Permission check failed (", ")").and_then(|inside| inside.split_once(", "));
    let (path, privilege) = match inside {
        Some((path, privilege)) if path.starts_with('/') => {
            (Some(path.to_owned()), Some(privilege.to_owned()))
        }
        _ => (None, None),
    };
    Kind::Permission { path, privilege, text }
}

fn between<'a>(text: &'a str, before: &str, after: &str) -> Option<&'a str> {
    let rest = &text[text.find(before)? + before.len()..];
    Some(&rest[..rest.find(after)?])
}

#[cfg(test)]
#[path = "error_tests.rs"]
mod tests;
