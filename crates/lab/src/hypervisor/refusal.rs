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

    /// The answer for a VM that is not on that node.
    pub(crate) fn no_vm(node: &str, vmid: u32) -> Self {
        Self::Failed(no_vm(node, vmid))
    }
}

/// The text for a VM that is not on that node.
pub(crate) fn no_vm(node: &str, vmid: u32) -> String {
    format!("Configuration file 'nodes/{node}/qemu-server/{vmid}.conf' does not exist")
}
