//! What can go wrong, with what to do about it.
//!
//! One type serves all of the engine: an attempt (what was tried, on what), its cause, and a hint. Display shows the
//! attempt only; causes come through the chain, so nothing is said twice.

use std::error::Error as StdError;

/// The result of anything the engine does.
pub type Result<T> = std::result::Result<T, Error>;

/// A failed attempt.
#[derive(Debug)]
pub struct Error {
    attempt: String,
    hint: Option<String>,
    kind: Kind,
    code: Option<&'static str>,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

/// What sort of failure it was, for exit codes and for the decision whether to go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A system did not do what was asked, or did not answer.
    Systems,
    /// Something is unsafe, so nothing was done.
    Refused,
    /// The secrets bundle could not be read, written or opened.
    Secrets,
    /// Another operator is changing the cluster.
    Busy,
    /// The cluster was observed before another operator changed it: observe it again.
    Stale,
    /// The file or something it points to is wrong.
    Input,
}

impl Error {
    /// An attempt that failed by itself.
    pub fn new(kind: Kind, attempt: impl Into<String>) -> Self {
        Self { attempt: attempt.into(), hint: None, kind, code: None, source: None }
    }

    /// A system did not do what was asked.
    pub fn systems(attempt: impl Into<String>) -> Self {
        Self::new(Kind::Systems, attempt)
    }

    /// Adds the cause.
    #[must_use]
    pub fn because(mut self, source: impl StdError + Send + Sync + 'static) -> Self {
        self.source = Some(Box::new(source));
        self
    }

    /// Adds what the operator can do.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Gives it a code of its own, where nothing below has one.
    #[must_use]
    pub fn coded(mut self, code: &'static str) -> Self {
        self.code = Some(code);
        self
    }

    /// The same failure on a Proxmox host that is offline: that is its cause.
    #[must_use]
    pub(crate) fn on_offline_host(self, host: &str) -> Self {
        let hint = format!(
            "bring {host} back, or take it out of `hosts` and name another host for its nodes; then run the command again"
        );
        let cause = OfflineHost { host: host.to_owned(), source: self.source };
        Self { source: Some(Box::new(cause)), hint: Some(hint), code: Some(UNREACHABLE), ..self }
    }

    /// What sort of failure it was.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// What sort of failure it was at the bottom, in one word for programs. A word never changes its meaning.
    #[must_use]
    pub fn code(&self) -> &'static str {
        if let Some(code) = self.code {
            return code;
        }
        let mut source = StdError::source(self);
        while let Some(cause) = source {
            if let Some(code) = code_below(cause) {
                return code;
            }
            source = cause.source();
        }
        match self.kind {
            // What has no cause below it was waited for, and did not come.
            Kind::Systems => "timed-out",
            Kind::Refused => "unsafe",
            Kind::Secrets => "secrets",
            Kind::Busy => "busy",
            Kind::Stale => "changed-meanwhile",
            Kind::Input => "input",
        }
    }

    /// What the operator can do.
    #[must_use]
    pub fn advice(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// The attempt and its causes, outermost first.
    #[must_use]
    pub fn causes(&self) -> Vec<String> {
        let mut causes = vec![self.to_string()];
        let mut source = StdError::source(self);
        while let Some(cause) = source {
            let text = cause.to_string();
            // Libraries below sometimes repeat their cause; a person should not read it twice.
            if causes.last().is_none_or(|last| !last.contains(&text)) {
                causes.push(text);
            }
            source = cause.source();
        }
        causes
    }
}

/// What helps against an error of Proxmox: what its client advises, or to look at the task.
pub(crate) fn hint(error: &pve::Error) -> String {
    let hint =
        error.hint().unwrap_or_else(|| "look at the task in Proxmox, then run the command again".to_owned());
    match error.kind() {
        pve::Kind::Unauthenticated { .. } if hint.contains("token") => {
            format!("{hint}; `talosmith proxmox setup --renew` replaces a token")
        }
        _ => hint,
    }
}

/// The code of a Proxmox host that cannot be reached.
pub(crate) const UNREACHABLE: &str = "unreachable";

/// A Proxmox host that is offline, and what a call to it said.
#[derive(Debug)]
struct OfflineHost {
    host: String,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

impl std::fmt::Display for OfflineHost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the Proxmox host {} is offline", self.host)
    }
}

impl StdError for OfflineHost {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_ref().map(|source| &**source as &(dyn StdError + 'static))
    }
}

/// The code of work that Proxmox called done, and that changed nothing.
pub(crate) const NO_EFFECT: &str = "no-effect";

/// The word for what a client said.
fn code_below(cause: &(dyn StdError + 'static)) -> Option<&'static str> {
    if let Some(error) = cause.downcast_ref::<pve::Error>() {
        return Some(proxmox_code(error));
    }
    if let Some(error) = cause.downcast_ref::<talos_client::Error>() {
        return Some(machine_code(error.kind()));
    }
    if cause.is::<ambient::TimedOut>() {
        return Some("timed-out");
    }
    cause.is::<crate::kubernetes_api::Error>().then_some("kubernetes")
}

fn proxmox_code(error: &pve::Error) -> &'static str {
    match error.meaning() {
        // The end of a task that means nothing more than that.
        pve::Kind::Refused { .. } => error.kind().code(),
        meaning => meaning.code(),
    }
}

/// The word for what a machine said.
pub(crate) fn machine_code(kind: talos_client::Kind) -> &'static str {
    use talos_client::Kind;
    match kind {
        Kind::NotReady => "machine-not-ready",
        Kind::AlreadyExists => "exists",
        Kind::NotFound => "missing",
        Kind::Clock => "clock",
        Kind::NoQuorum => "etcd-no-quorum",
        Kind::Denied => "machine-denied",
        Kind::InvalidConfig => "configuration",
        Kind::Unavailable => "machine-unavailable",
        Kind::Deadline => "timed-out",
        Kind::Unimplemented => "not-implemented",
        Kind::Untrusted | Kind::Rejected => "untrusted",
        Kind::Protocol => "protocol",
        _ => "machine",
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.attempt)
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_ref().map(|s| &**s as &(dyn StdError + 'static))
    }
}
