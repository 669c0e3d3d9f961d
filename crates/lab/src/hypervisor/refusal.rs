//! Why a request was not carried out, without knowing HTTP.

use std::time::Duration;

/// Why a request was not carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The call failed with this text.
    Failed(String),
    /// The call failed with this text, after a while.
    FailedAfter(Duration, String),
    /// These parameters are wrong.
    Parameters(Vec<(String, String)>),
    /// The caller may not do this.
    Forbidden(String),
    /// The password is wrong.
    Unauthorized(String),
    /// Another task holds the lock of this VM.
    Busy(u32),
    /// The call exists, and this world has nothing that could carry it out.
    Unserved,
}

impl Refusal {
    pub(crate) fn failed(text: impl Into<String>) -> Self {
        Self::Failed(text.into())
    }

    pub(crate) fn parameter(name: &str, text: impl Into<String>) -> Self {
        Self::Parameters(vec![(name.to_owned(), text.into())])
    }

    /// How a task tells of it: with the status that it would have been answered with, in one line.
    pub(crate) fn in_task(self) -> String {
        match self {
            Self::Failed(text) | Self::FailedAfter(_, text) => text,
            Self::Forbidden(text) => format!("403 {text}"),
            Self::Unauthorized(text) => format!("401 {text}"),
            Self::Parameters(errors) => {
                let errors = errors.into_iter().map(|(key, text)| format!(" {key}: {text}"));
                format!("400 Parameter verification failed.{}", errors.collect::<String>())
            }
            Self::Busy(vmid) => super::tasks::lock_timeout(vmid),
            Self::Unserved => "not implemented".to_owned(),
        }
    }

    /// The answer for a VM that is not on that node.
    pub(crate) fn no_vm(node: &str, vmid: u32) -> Self {
        Self::Failed(no_vm(node, vmid))
    }
}

/// The text for a VM that is not on that node.
pub(crate) fn no_vm(node: &str, vmid: u32) -> String {
    format!("Configuration file 'nodes/{node}/qemu-server/{vmid}.conf' does not exist")
}
