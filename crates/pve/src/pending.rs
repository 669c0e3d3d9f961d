//! A machine's configuration twice: as it runs, and as it will be after the next stop and start.
//!
//! What a running machine cannot take over at once waits in Proxmox. One call shows both sides, so looking at a machine
//! costs one request.

use std::collections::BTreeMap;

use http::Method;
use serde::Deserialize;
use serde_json::Value;

use crate::client::{Call, Client};
use crate::error::Result;
use crate::scalar;
use crate::upid::Upid;
use crate::vm::{Params, VmConfig, machine};

/// Both sides of a machine's configuration.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BothConfigs {
    /// What holds now.
    pub now: VmConfig,
    /// What holds from the next start on.
    pub next: VmConfig,
}

#[derive(Deserialize)]
struct Row {
    key: String,
    #[serde(default)]
    value: Option<Value>,
    #[serde(default)]
    pending: Option<Value>,
    #[serde(default, deserialize_with = "scalar::number")]
    delete: Option<u64>,
}

impl BothConfigs {
    fn of(rows: Vec<Row>) -> Self {
        let mut now: BTreeMap<String, String> = BTreeMap::new();
        let mut next = BTreeMap::new();
        for row in rows {
            let value = row.value.as_ref().and_then(scalar::as_text);
            let after = match (&row.pending, row.delete) {
                (Some(pending), _) => scalar::as_text(pending),
                (None, Some(1..)) => None,
                (None, _) => value.clone(),
            };
            now.extend(value.map(|value| (row.key.clone(), value)));
            next.extend(after.map(|value| (row.key, value)));
        }
        let digest = now.remove("digest").unwrap_or_default();
        next.remove("digest");
        Self { now: VmConfig { digest: digest.clone(), keys: now }, next: VmConfig { digest, keys: next } }
    }
}

impl Client {
    /// A machine's configuration as it runs and as it will be.
    ///
    /// # Errors
    ///
    /// [`crate::Kind::Missing`] when the machine is not on that node.
    pub async fn vm_configs(&self, node: &str, vmid: u32) -> Result<BothConfigs> {
        let attempt = format!("reading the configuration of VM {vmid} on {node}");
        Ok(BothConfigs::of(self.call(Call::get(attempt, machine(node, vmid, "/pending"))).await?))
    }

    /// Changes a machine's configuration in a task, which may take its time over new disks.
    ///
    /// # Errors
    ///
    /// [`crate::Kind::DigestMismatch`], [`crate::Kind::Locked`], and as any call.
    pub async fn change_config(
        &self,
        node: &str,
        vmid: u32,
        params: &Params,
        digest: &str,
    ) -> Result<Option<Upid>> {
        let attempt = format!("changing the configuration of VM {vmid} on {node}");
        let call = Call::change(Method::POST, node, attempt.clone(), machine(node, vmid, "/config"))
            .params(params)
            .with("digest", digest);
        // A task that ended at once is not told of.
        let text: Option<String> = self.call(call).await?;
        let upid = text.map(|text| text.parse()).transpose();
        upid.map_err(|text| crate::Error::new(attempt, crate::Kind::Protocol { text }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_is_told_from_what_runs() {
        let rows = serde_json::json!([
            { "key": "cores", "value": 2, "pending": 1 },
            { "key": "memory", "value": "320", "pending": "384" },
            { "key": "vga", "value": "std", "delete": 1 },
            { "key": "balloon", "pending": 0 },
            { "key": "tags", "value": "a;b" },
            { "key": "digest", "value": "5b16" },
        ]);
        let both = BothConfigs::of(serde_json::from_value(rows).unwrap());
        assert_eq!((both.now.get("cores"), both.next.get("cores")), (Some("2"), Some("1")));
        assert_eq!((both.now.get("vga"), both.next.get("vga")), (Some("std"), None));
        assert_eq!((both.now.get("balloon"), both.next.get("balloon")), (None, Some("0")));
        assert_eq!((both.now.get("tags"), both.next.get("tags")), (Some("a;b"), Some("a;b")));
        assert_eq!((both.now.digest.as_str(), both.now.get("digest")), ("5b16", None));
    }
}
