//! What a cluster without quorum answers: its files can be read and not written. Logins, lists, downloads and the power of
//! VMs that run go on.

use super::request::Call;

/// How a call fails without quorum.
pub(super) enum Lost {
    /// At once, with this text.
    Answer(String),
    /// In its task, with this text.
    Task(String),
}

/// How this call fails without quorum; nothing if it does not.
pub(super) fn lost(call: &Call) -> Option<Lost> {
    let method = call.method.as_str();
    if method == "GET" {
        return None;
    }
    let vm_file = || {
        format!(
            "unable to open file '/etc/pve/nodes/{}/qemu-server/{}.conf.tmp.4242' - Permission denied",
            call.node,
            call.vmid()
        )
    };
    if let Some(below) = call.path.strip_prefix("/nodes/{node}/qemu") {
        return match (method, below) {
            ("POST", "" | "/{vmid}/clone" | "/{vmid}/status/start" | "/{vmid}/migrate") => {
                Some(Lost::Answer("cluster not ready - no quorum?".to_owned()))
            }
            ("PUT", "/{vmid}/resize")
            | ("DELETE", "/{vmid}")
            | ("POST", "/{vmid}/snapshot" | "/{vmid}/template") => Some(Lost::Task(vm_file())),
            (_, "/{vmid}/config" | "/{vmid}/unlink" | "/{vmid}/snapshot/{snapname}/config") => {
                Some(Lost::Answer(vm_file()))
            }
            _ => None,
        };
    }
    let verb = match method {
        "POST" => "create",
        "PUT" => "update",
        _ => "delete",
    };
    let locked = |what: &str, file: &str| {
        let what = if what.is_empty() { String::new() } else { format!("{what} failed: ") };
        Some(Lost::Answer(format!("{what}cfs-lock '{file}' error: no quorum!")))
    };
    let mut parts = call.path.split('/').skip(1);
    match (parts.next()?, parts.next().unwrap_or_default()) {
        ("pools", _) if method == "PUT" => locked("update pools", "file-user_cfg"),
        ("pools", _) => locked(&format!("{verb} pool"), "file-user_cfg"),
        ("access", "ticket" | "openid" | "vncticket") => None,
        ("access", "acl") => locked("ACL update", "file-user_cfg"),
        ("access", "users") if call.path.contains("/token/") && method == "POST" => {
            locked("generating token", "file-user_cfg")
        }
        ("access", kind @ ("users" | "groups" | "roles")) => {
            locked(&format!("{verb} {}", kind.trim_end_matches('s')), "file-user_cfg")
        }
        ("storage", _) => locked(&format!("{verb} storage"), "file-storage_cfg"),
        ("cluster", "ha") => locked("", "domain-ha"),
        ("cluster", "sdn") => locked("", "domain-sdn"),
        ("access" | "cluster", _) => locked("", "file-datacenter_cfg"),
        _ => None,
    }
}
