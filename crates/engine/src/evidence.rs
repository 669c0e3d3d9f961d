//! What identifies a VM, read from its configuration in Proxmox. `model::ownership` decides by it.

use model::mark::Mark;
use model::ownership::Evidence;
use pve::VmConfig;

/// What identifies a VM with this configuration.
pub(crate) fn evidence<'a>(vmid: u32, mark: &'a Mark, config: &'a VmConfig) -> Evidence<'a> {
    Evidence {
        vmid,
        name: config.get("name").unwrap_or_default(),
        mark,
        uuid: config.smbios_uuid().and_then(|uuid| uuid.parse().ok()),
        vmgenid: config.get("vmgenid").and_then(|id| id.parse().ok()),
        recorded: None,
        template: config.get("template") == Some("1"),
    }
}
