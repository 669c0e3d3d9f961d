//! Templates, copies of VMs, and VMs that move to another node.

use http::Method;

use crate::client::{Call, Client};
use crate::error::Result;
use crate::upid::Upid;
use crate::vm::machine;

/// How a copy should be.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Clone {
    /// Its number.
    pub newid: u32,
    pub name: Option<String>,
    /// Its notes, instead of those of the original.
    pub description: Option<String>,
    /// A full copy, where a copy of a template would only hold the differences.
    pub full: bool,
    /// The storage for the disks of a full copy.
    pub storage: Option<String>,
    /// The pool it is put into.
    pub pool: Option<String>,
    /// The node it should be on, where all its disks are shared.
    pub target: Option<String>,
}

/// How a VM should move.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Migrate {
    /// Where to.
    pub target: String,
    /// While it runs.
    pub online: bool,
    /// Its local disks move too.
    pub with_local_disks: bool,
}

impl Client {
    /// Copies a VM or template.
    ///
    /// # Errors
    ///
    /// [`crate::Kind::Exists`] when the number is taken. [`crate::Kind::Lost`]: look whether it is there before trying again.
    pub async fn clone_vm(&self, node: &str, vmid: u32, request: &Clone) -> Result<Upid> {
        let attempt = format!("copying VM {vmid} on {node} to VM {}", request.newid);
        let mut call = Call::change(Method::POST, node, attempt, machine(node, vmid, "/clone"));
        call = call.with("newid", request.newid).with("full", u8::from(request.full));
        let optional = [
            ("name", &request.name),
            ("description", &request.description),
            ("storage", &request.storage),
            ("pool", &request.pool),
            ("target", &request.target),
        ];
        for (key, value) in optional {
            if let Some(value) = value {
                call = call.with(key, value);
            }
        }
        self.task(call).await
    }

    /// Makes a template of a VM. There is no way back.
    pub async fn make_template(&self, node: &str, vmid: u32) -> Result<Upid> {
        let attempt = format!("making a template of VM {vmid} on {node}");
        self.task(Call::change(Method::POST, node, attempt, machine(node, vmid, "/template"))).await
    }

    /// Moves a VM to another node.
    pub async fn migrate(&self, node: &str, vmid: u32, request: &Migrate) -> Result<Upid> {
        let attempt = format!("moving VM {vmid} from {node} to {}", request.target);
        let call = Call::change(Method::POST, node, attempt, machine(node, vmid, "/migrate"));
        let call = call.with("target", &request.target).with("online", u8::from(request.online));
        self.task(call.with("with-local-disks", u8::from(request.with_local_disks))).await
    }
}
