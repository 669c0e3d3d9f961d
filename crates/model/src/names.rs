//! What nodes and VMs are called, as types: a name of a node is never taken for one of a host, and a VM is always named with the host
//! that it is on.

use std::borrow::Borrow;
use std::fmt;
use std::ops::Deref;

use serde::{Deserialize, Serialize};

/// The name of a node: of its VM, of its machine and in Kubernetes.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NodeName(String);

impl NodeName {
    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Columns are filled up, as with any text.
        f.pad(&self.0)
    }
}

impl fmt::Debug for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl Deref for NodeName {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl AsRef<str> for NodeName {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for NodeName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

/// So that text from outside, such as the name of a member of etcd, is looked up in a map by node.
impl Borrow<String> for NodeName {
    fn borrow(&self) -> &String {
        &self.0
    }
}

impl From<&str> for NodeName {
    fn from(name: &str) -> Self {
        Self(name.to_owned())
    }
}

impl From<String> for NodeName {
    fn from(name: String) -> Self {
        Self(name)
    }
}

impl From<&String> for NodeName {
    fn from(name: &String) -> Self {
        Self(name.clone())
    }
}

impl From<&NodeName> for NodeName {
    fn from(name: &NodeName) -> Self {
        name.clone()
    }
}

impl From<NodeName> for String {
    fn from(name: NodeName) -> Self {
        name.0
    }
}

impl From<&NodeName> for String {
    fn from(name: &NodeName) -> Self {
        name.0.clone()
    }
}

impl PartialEq<str> for NodeName {
    fn eq(&self, other: &str) -> bool {
        self.0 == other
    }
}

impl PartialEq<&str> for NodeName {
    fn eq(&self, other: &&str) -> bool {
        self.0 == *other
    }
}

impl PartialEq<String> for NodeName {
    fn eq(&self, other: &String) -> bool {
        self.0 == *other
    }
}

impl PartialEq<NodeName> for str {
    fn eq(&self, other: &NodeName) -> bool {
        other.0 == self
    }
}

impl PartialEq<NodeName> for &str {
    fn eq(&self, other: &NodeName) -> bool {
        other.0 == *self
    }
}

impl PartialEq<NodeName> for String {
    fn eq(&self, other: &NodeName) -> bool {
        other.0 == *self
    }
}

/// A VM, and where it is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct VmRef {
    /// The Proxmox host that the VM is on, or will be.
    pub host: String,
    /// The ID of the VM in Proxmox.
    pub vmid: u32,
}

impl VmRef {
    /// This VM on this host.
    #[must_use]
    pub fn new(host: impl Into<String>, vmid: u32) -> Self {
        Self { host: host.into(), vmid }
    }
}

impl fmt::Display for VmRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "VM {} on {}", self.vmid, self.host)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::step::Action;

    /// Saved plans and `--json` had these keys before there were types for names.
    #[test]
    fn a_step_has_the_same_json_as_with_plain_names() {
        let stop =
            Action::StopVm { node: "w-1".into(), vm: VmRef::new("pve1", 150_021), if_unresponsive: false };
        let json = serde_json::to_string(&stop).unwrap();
        assert_eq!(json, r#"{"do":"stop-vm","node":"w-1","host":"pve1","vmid":150021}"#);
        assert_eq!(serde_json::from_str::<Action>(&json).unwrap(), stop);
    }

    #[test]
    fn names_fill_columns_and_are_looked_up_by_text() {
        assert_eq!(format!("{:<5}|", NodeName::from("w-1")), "w-1  |");
        let nodes = std::collections::BTreeMap::from([(NodeName::from("w-1"), 1)]);
        let from_outside = String::from("w-2");
        assert_eq!((nodes.get("w-1"), nodes.get(&from_outside)), (Some(&1), None));
    }
}
