//! What went wrong with a machine: which one, what was attempted, and the likely reason in words.
//!
//! A status code is never shown alone. What a machine says about a configuration may quote it, keys and tokens included,
//! so its words pass through [`harmless`] first.

use std::fmt;
use std::io;
use std::net::IpAddr;
use std::time::Duration;

use rustls::{AlertDescription, CertificateError};
use tonic::{Code, Status};

use crate::connection::Fault;
use crate::types::Stage;

/// The result of a call to a machine.
pub type Result<T> = std::result::Result<T, Error>;

/// A call to a machine that did not succeed.
#[derive(Debug, thiserror::Error)]
#[error("{attempt} on {address}{}: {reason}", Seen(.stage.as_ref()))]
pub struct Error {
    address: IpAddr,
    attempt: &'static str,
    kind: Kind,
    reason: String,
    io: Option<io::ErrorKind>,
    stage: Option<Stage>,
}

/// In which stage a machine was seen last, for the end of its name.
struct Seen<'a>(Option<&'a Stage>);

impl fmt::Display for Seen<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |stage| write!(f, " (last seen {stage})"))
    }
}

/// Kinds of failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// The machine is not ready for this yet. Trying later is right.
    NotReady,
    /// It was done already.
    AlreadyExists,
    /// What was asked for is not there.
    NotFound,
    /// Our role does not allow it, or the machine is not in the mode for it.
    Denied,
    /// The machine does not accept the configuration.
    InvalidConfig,
    /// No connection, or it broke. Whether a changing call had an effect is then not known.
    Unavailable,
    /// The time ran out. Whether a changing call had an effect is then not known.
    Deadline,
    /// etcd has lost its quorum: it takes no changes until enough members are back.
    NoQuorum,
    /// A clock is wrong: the machine waits for the time, or a certificate is not valid now for one of both sides.
    Clock,
    /// There is no Talos on the machine's disk.
    NotInstalled,
    /// The machine did not start the sequence, because it is busy with something else.
    Refused,
    /// It was started and failed.
    Failed,
    /// This release, role or mode of the machine does not have the call.
    Unimplemented,
    /// The machine's certificate is not of our authority: it is in maintenance, or another cluster's.
    Untrusted,
    /// The machine does not accept our certificate.
    Rejected,
    /// The answer cannot be understood.
    Protocol,
    /// Anything else; the machine's own words are in the text.
    Other,
}

impl Error {
    pub(crate) fn new(address: IpAddr, attempt: &'static str, kind: Kind, reason: impl Into<String>) -> Self {
        Self { address, attempt, kind, reason: reason.into(), io: None, stage: None }
    }

    pub(crate) fn seen_in(self, stage: Option<Stage>) -> Self {
        Self { stage, ..self }
    }

    /// The time that was allowed ran out.
    pub(crate) fn late(address: IpAddr, attempt: &'static str, limit: Duration) -> Self {
        Self::new(address, attempt, Kind::Deadline, format!("no answer within {} s", limit.as_secs_f32()))
    }

    /// The machine.
    #[must_use]
    pub fn address(&self) -> IpAddr {
        self.address
    }

    /// What was attempted.
    #[must_use]
    pub fn attempt(&self) -> &'static str {
        self.attempt
    }

    /// The kind of failure.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The likely reason, without the machine and the attempt.
    #[must_use]
    pub fn reason(&self) -> &str {
        &self.reason
    }

    /// The stage in which the machine was seen last before this, where it was seen.
    #[must_use]
    pub fn stage(&self) -> Option<&Stage> {
        self.stage.as_ref()
    }

    /// What the network said, where it was the network.
    #[must_use]
    pub fn io_kind(&self) -> Option<io::ErrorKind> {
        self.io
    }

    /// What a person can do about it, where that is known.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        match self.kind {
            Kind::Clock => Some(
                "check that the machine reaches its time servers (NTP), and the clock here; etcd, kubelet and trustd wait for it",
            ),
            Kind::Untrusted => Some(
                "the machine may have lost its configuration, or belong to another cluster, or the secrets are not its own",
            ),
            Kind::Rejected => Some("the secrets may be those of another cluster"),
            Kind::Unavailable if self.io == Some(io::ErrorKind::ConnectionRefused) => Some(
                "the machine is booting or restarting; a worker keeps its port closed until it reaches a control plane",
            ),
            Kind::Unavailable
                if matches!(self.io, Some(io::ErrorKind::TimedOut | io::ErrorKind::HostUnreachable)) =>
            {
                Some("check that the machine runs and that its address can be reached from here")
            }
            Kind::Deadline if self.attempt.contains("etcd") => Some(
                "etcd is not up there, waits to be bootstrapped, or has lost its quorum: until then its calls have no answer",
            ),
            Kind::NoQuorum => {
                Some("bring back enough control plane nodes for a majority, or recover from a snapshot")
            }
            Kind::InvalidConfig => Some("correct the file or its patches; the machine keeps what it had"),
            _ => None,
        }
    }

    /// What a failed dial means.
    pub(crate) fn of_dial(address: IpAddr, attempt: &'static str, error: &io::Error) -> Self {
        Self::of_fault(address, attempt, &Fault::of(error))
    }

    fn of_fault(address: IpAddr, attempt: &'static str, fault: &Fault) -> Self {
        match fault {
            Fault::Tls(tls) => {
                let (kind, reason) = of_tls(tls);
                Self::new(address, attempt, kind, reason)
            }
            Fault::Io(kind) => {
                let reason = match kind {
                    io::ErrorKind::ConnectionRefused => "the port is closed".to_owned(),
                    io::ErrorKind::TimedOut => "no answer in time".to_owned(),
                    io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => {
                        "the network is unreachable".to_owned()
                    }
                    io::ErrorKind::NotConnected => "the connection is gone".to_owned(),
                    kind => format!("the connection broke ({kind})"),
                };
                Self { io: Some(*kind), ..Self::new(address, attempt, Kind::Unavailable, reason) }
            }
        }
    }

    /// What a status means, given what broke the connection, if anything did.
    pub(crate) fn of_status(
        address: IpAddr,
        attempt: &'static str,
        status: &Status,
        fault: Option<&Fault>,
    ) -> Self {
        // A status with a cause was made on our side: no answer came.
        if std::error::Error::source(status).is_some() {
            return match fault {
                Some(fault) => Self::of_fault(address, attempt, fault),
                None => Self::new(address, attempt, Kind::Unavailable, "the connection broke"),
            };
        }
        let words = harmless(status.message());
        let (kind, reason) = match status.code() {
            Code::FailedPrecondition if words.contains("time is not in sync") => {
                (Kind::Clock, "its clock is not in sync yet".to_owned())
            }
            Code::FailedPrecondition if words.contains("not installed") => (Kind::NotInstalled, words),
            Code::FailedPrecondition if words.contains("not supported in container mode") => {
                (Kind::Unimplemented, words)
            }
            Code::FailedPrecondition => (Kind::NotReady, words),
            Code::AlreadyExists => (Kind::AlreadyExists, words),
            Code::NotFound => (Kind::NotFound, words),
            Code::PermissionDenied if words == "not authorized" => (
                Kind::Denied,
                "our role does not allow this, or the machine is not in the mode for it".to_owned(),
            ),
            // A type of resource that the release does not know is refused as if it were forbidden.
            Code::PermissionDenied if words.contains("is not supported") => {
                (Kind::Unimplemented, format!("this release does not have it ({words})"))
            }
            Code::PermissionDenied | Code::Unauthenticated => (Kind::Denied, words),
            Code::Unimplemented => (Kind::Unimplemented, format!("it does not offer this call ({words})")),
            Code::DeadlineExceeded | Code::Cancelled => {
                (Kind::Deadline, "the time allowed ran out".to_owned())
            }
            Code::Unavailable => (Kind::Unavailable, format!("it is starting or going down ({words})")),
            Code::Unknown if words.contains("etcdserver: no leader") => {
                (Kind::NoQuorum, "etcd has no leader: too few of its members are up".to_owned())
            }
            Code::Unknown if words.contains("error building etcd client TLS config") => {
                (Kind::NotReady, "etcd is not set up there yet".to_owned())
            }
            Code::Ok => (Kind::Protocol, "it says that all is well and gave no answer".to_owned()),
            Code::Internal => (Kind::Other, format!("it failed inside ({words})")),
            Code::ResourceExhausted | Code::OutOfRange => {
                (Kind::Other, format!("the message is larger than what is taken ({words})"))
            }
            _ => (Kind::Other, words),
        };
        // Words that a machine left out are not replaced by the name of a code.
        let reason = match reason.strip_suffix(" ()") {
            Some(reason) => format!("{reason}, and gave no reason"),
            None if reason.is_empty() => "it refused and gave no reason".to_owned(),
            None => reason,
        };
        Self::new(address, attempt, kind, reason)
    }

    /// As [`Self::of_status`], for a call that carried a configuration.
    pub(crate) fn of_apply(
        address: IpAddr,
        attempt: &'static str,
        status: &Status,
        fault: Option<&Fault>,
    ) -> Self {
        let mut error = Self::of_status(address, attempt, status, fault);
        // Releases up to 1.12 say "unknown" where they mean that the text could not be parsed.
        let unparsed = error.kind == Kind::Other && error.reason.contains("failed to parse config");
        if unparsed || status.code() == Code::InvalidArgument {
            error.kind = Kind::InvalidConfig;
            error.reason = format!("it does not accept the configuration: {}", error.reason);
        }
        error
    }
}

fn of_tls(error: &rustls::Error) -> (Kind, String) {
    match error {
        rustls::Error::InvalidCertificate(certificate) => match certificate {
            CertificateError::UnknownIssuer | CertificateError::BadSignature => {
                (Kind::Untrusted, "its certificate is not of this cluster's authority".to_owned())
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                (Kind::Untrusted, "its certificate is not for this address".to_owned())
            }
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                (Kind::Clock, "its certificate has expired, or a clock is wrong".to_owned())
            }
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                (Kind::Clock, "its certificate is not valid yet: a clock is wrong".to_owned())
            }
            other => (Kind::Untrusted, format!("its certificate cannot be trusted ({other:?})")),
        },
        rustls::Error::AlertReceived(AlertDescription::CertificateExpired) => {
            (Kind::Clock, "our certificate is not valid now by its clock: a clock is wrong".to_owned())
        }
        rustls::Error::AlertReceived(alert) => (
            Kind::Rejected,
            match alert {
                AlertDescription::CertificateRequired => {
                    "it asks for a client certificate: it is configured already"
                }
                AlertDescription::UnknownCA => "our certificate is of another authority",
                AlertDescription::BadCertificate | AlertDescription::UnsupportedCertificate => {
                    "it does not accept our certificate"
                }
                _ => "it ended the TLS handshake",
            }
            .to_owned(),
        ),
        _ => (Kind::Protocol, "what answers there does not speak TLS as Talos does".to_owned()),
    }
}

/// Takes everything out of a machine's words that may be a part of a configuration.
pub(crate) fn harmless(words: &str) -> String {
    const UNKNOWN_KEYS: &str = "unknown keys found during decoding:";
    let words = words.split("diff:").next().unwrap_or_default();
    let (words, keys) = match words.split_once(UNKNOWN_KEYS) {
        Some((before, keys)) => (format!("{before}{UNKNOWN_KEYS}"), keys),
        None => (words.to_owned(), ""),
    };
    // What stands between backticks is a quoted value.
    let unquoted = words.split('`').enumerate().map(|(index, part)| if index % 2 == 0 { part } else { "…" });
    let lines = |text: String| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut shown = lines(unquoted.collect());
    for line in keys.lines() {
        let key = line.trim().trim_start_matches("- ").split(':').next().unwrap_or_default();
        if !key.is_empty() && line.contains(':') {
            shown.push(' ');
            shown.push_str(key);
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));

    #[test]
    fn words_about_a_configuration_never_quote_it() {
        let cases = [
            (
                "this config change can't be applied in immediate mode\ndiff:\n-token: abc",
                "this config change can't be applied in immediate mode",
            ),
            (
                "error decoding: unknown keys found during decoding:\nmachine:\n    tokn: abc\n    list:\n        - abc\n",
                "error decoding: unknown keys found during decoding: machine tokn list",
            ),
            ("line 10: cannot construct !!str `abc` into int", "line 10: cannot construct !!str … into int"),
            (
                "1 error occurred:\n\t* cluster instructions are required\n\n",
                "1 error occurred: * cluster instructions are required",
            ),
        ];
        for (said, shown) in cases {
            assert_eq!(harmless(said), shown);
        }
    }

    #[test]
    fn statuses_become_kinds_with_words() {
        let of =
            |code, text: &str| Error::of_status(NODE, "bootstrapping etcd", &Status::new(code, text), None);
        let error = of(Code::FailedPrecondition, "time is not in sync yet");
        assert_eq!(error.to_string(), "bootstrapping etcd on 10.0.0.1: its clock is not in sync yet");
        assert!(error.hint().unwrap().contains("NTP"));
        assert_eq!(of(Code::AlreadyExists, "etcd data directory is not empty").kind(), Kind::AlreadyExists);
        assert_eq!(of(Code::PermissionDenied, "not authorized").kind(), Kind::Denied);
        let unresponsive = of(Code::Unknown, "");
        assert!(!unresponsive.reason().is_empty());
        let apply =
            |code, text: &str| Error::of_apply(NODE, "applying", &Status::new(code, text), None).kind();
        assert_eq!(apply(Code::InvalidArgument, "config not found"), Kind::InvalidConfig);
        assert_eq!(apply(Code::Unknown, "failed to parse config: x"), Kind::InvalidConfig);
        assert_eq!(
            apply(Code::FailedPrecondition, "another apply configuration is already in progress"),
            Kind::NotReady
        );
    }

    #[test]
    fn a_fault_explains_a_lost_answer() {
        let status = Status::from_error(Box::new(io::Error::other("closed")));
        let refused = Fault::Tls(rustls::Error::AlertReceived(AlertDescription::CertificateRequired));
        assert_eq!(Error::of_status(NODE, "x", &status, Some(&refused)).kind(), Kind::Rejected);
        assert_eq!(Error::of_status(NODE, "x", &status, None).kind(), Kind::Unavailable);
    }

    /// Whatever goes wrong, the error says which machine it was, what was attempted, in which stage the machine
    /// was seen, and a reason in words. The name of a code never stands for a reason.
    #[test]
    fn every_way_to_fail_has_a_machine_a_stage_and_a_reason() {
        let codes = (0..=16).map(Code::from_i32);
        let said =
            codes.clone().flat_map(|code| ["", "some words", "not authorized"].map(|w| Status::new(code, w)));
        let mut errors: Vec<Error> = Vec::new();
        for status in said {
            for of in [Error::of_status, Error::of_apply] {
                errors.push(of(NODE, "doing something", &status, None));
            }
        }
        let broken = || Status::from_error(Box::new(io::Error::from(io::ErrorKind::BrokenPipe)));
        let io_kinds = [
            io::ErrorKind::ConnectionRefused,
            io::ErrorKind::ConnectionReset,
            io::ErrorKind::TimedOut,
            io::ErrorKind::HostUnreachable,
            io::ErrorKind::NetworkUnreachable,
            io::ErrorKind::NotConnected,
            io::ErrorKind::BrokenPipe,
            io::ErrorKind::UnexpectedEof,
        ];
        let tls = [
            rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer),
            rustls::Error::InvalidCertificate(CertificateError::NotValidForName),
            rustls::Error::InvalidCertificate(CertificateError::Expired),
            rustls::Error::InvalidCertificate(CertificateError::NotValidYet),
            rustls::Error::InvalidCertificate(CertificateError::Revoked),
            rustls::Error::AlertReceived(AlertDescription::CertificateRequired),
            rustls::Error::AlertReceived(AlertDescription::UnknownCA),
            rustls::Error::AlertReceived(AlertDescription::CertificateExpired),
            rustls::Error::AlertReceived(AlertDescription::BadCertificate),
            rustls::Error::AlertReceived(AlertDescription::HandshakeFailure),
            rustls::Error::HandshakeNotComplete,
        ];
        let faults = io_kinds.map(Fault::Io).into_iter().chain(tls.map(Fault::Tls));
        for fault in faults {
            errors.push(Error::of_status(NODE, "doing something", &broken(), Some(&fault)));
            errors.push(Error::of_fault(NODE, "doing something", &fault));
        }
        errors.push(Error::of_status(NODE, "doing something", &broken(), None));
        errors.push(Error::late(NODE, "doing something", Duration::from_secs(5)));
        for error in errors {
            let error = error.seen_in(Some(Stage::Booting));
            let text = error.to_string();
            assert!(text.starts_with("doing something on 10.0.0.1 (last seen booting): "), "{text}");
            assert!(error.reason().split_whitespace().count() >= 2, "no reason: {text}");
            for code in codes.clone() {
                assert!(!error.reason().eq_ignore_ascii_case(code.description()), "a code alone: {text}");
                assert!(!error.reason().contains(&format!("{code:?}")) || code == Code::Ok, "{text}");
            }
        }
    }
}
