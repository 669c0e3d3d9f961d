//! The id of a task, which most changes are answered with.

use std::fmt;
use std::str::FromStr;

/// The id of a task. It names the node on which the task runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upid {
    text: String,
    /// The node that runs it.
    pub node: String,
    /// What it does, such as `qmcreate`.
    pub kind: String,
    /// What it does it to: mostly a VM id; may be empty.
    pub id: String,
    /// Who started it: a user, or `user@realm!token`.
    pub user: String,
}

impl Upid {
    /// The id as Proxmox writes it.
    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }
}

impl FromStr for Upid {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts: Vec<&str> = text.split(':').collect();
        match parts[..] {
            ["UPID", node, pid, started, time, kind, id, user, ""]
                if ![node, kind, user].iter().any(|p| p.is_empty())
                    && [pid, started, time].iter().all(|p| u64::from_str_radix(p, 16).is_ok()) =>
            {
                let [node, kind, id, user] = [node, kind, id, user].map(str::to_owned);
                Ok(Self { text: text.to_owned(), node, kind, id, user })
            }
            _ => Err(format!("'{text}' is not a task id")),
        }
    }
}

impl fmt::Display for Upid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
