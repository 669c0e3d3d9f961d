//! Backups of etcd.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::is_default;

/// Backups of etcd: where they are stored, who can open them, and which of them are kept. `talosmith backup create` makes one; so does
/// `apply` before it removes or upgrades a member of etcd.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Backup {
    /// Folder that backups are stored in. A relative path starts at the folder of the cluster file. Each cluster has a folder of its own
    /// in it.
    #[serde(default = "default_folder")]
    pub folder: String,
    /// Age public keys (`age1…`) that can open backups in addition to the recipients of the secrets bundle, who always can.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub recipients: Vec<String>,
    /// Which backups `talosmith backup prune` keeps.
    #[serde(default, skip_serializing_if = "is_default")]
    pub keep: Keep,
    /// When the cluster makes backups by itself. This version does not implement it: run `talosmith backup create` from cron or a systemd
    /// timer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<String>,
}

impl Default for Backup {
    fn default() -> Self {
        Self { folder: default_folder(), recipients: vec![], keep: Keep::default(), schedule: None }
    }
}

/// How many backups are kept: the newest of each hour, day and week (UTC) that has one. The newest verified backup is always kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Keep {
    /// For how many hours the newest backup of the hour is kept.
    pub hourly: u32,
    /// For how many days the newest backup of the day is kept.
    pub daily: u32,
    /// For how many weeks the newest backup of the week is kept.
    pub weekly: u32,
}

impl Default for Keep {
    fn default() -> Self {
        Self { hourly: 24, daily: 7, weekly: 4 }
    }
}

fn default_folder() -> String {
    "backups".to_owned()
}
