//! The file's patches of one node, read for the release that it runs, with its own values in their placeholders.

use model::attachments::Attachments;
use model::blueprint::{Blueprint, Node, NodePatch};
use model::diagnostic::Path;
use model::spec;
use talos::config::Contract;
use talos::patch::{Patch, Values};

use super::Refused;

/// A patch and the place that says it.
pub(super) type Read = (Path, Patch);

/// Reads every patch of a node.
///
/// # Errors
///
/// Everything that is no patch for this release.
pub(super) fn read(
    node: &Node,
    attachments: &Attachments,
    release: Contract,
    values: &Values,
) -> Result<Vec<Read>, Vec<Refused>> {
    let mut patches = Vec::new();
    let mut refused = Vec::new();
    for patch in &node.settings.patches {
        match Patch::parse(&text(patch, attachments), release, values) {
            Ok(read) => patches.push((patch.path.clone(), read)),
            Err(error) => refused.push(Refused::patch(&patch.path, &error)),
        }
    }
    if refused.is_empty() { Ok(patches) } else { Err(refused) }
}

fn text(patch: &NodePatch, attachments: &Attachments) -> String {
    match &patch.patch {
        // JSON is YAML too.
        spec::Patch::Inline(map) => serde_json::to_string(map).unwrap_or_default(),
        spec::Patch::Text(text) => match patch.patch.file() {
            Some(file) => attachments.get(file).cloned().unwrap_or_default(),
            None => text.clone(),
        },
    }
}

/// What `${node.…}` and `${cluster.…}` stand for. What only Proxmox can decide is no value as long as it is open.
pub(super) fn values(blueprint: &Blueprint, node: &Node, open_host: Option<&str>) -> Values {
    let mut values = Values::new()
        .with("cluster.name", &blueprint.cluster)
        .with("cluster.endpoint", &blueprint.endpoint)
        .with("node.name", &node.name)
        .with("node.role", &node.role.to_string())
        .with("node.address", &node.address.addr().to_string())
        .with("node.cidr", &node.address.to_string())
        .with("node.gateway", &node.gateway.to_string())
        .with("node.mac", &node.mac.to_ascii_lowercase())
        .with("node.vmid", &node.vmid.to_string())
        .with("node.talos", &node.talos)
        .with("node.kubernetes", &node.kubernetes);
    if let Some(vip) = blueprint.vip {
        values = values.with("cluster.vip", &vip.to_string());
    }
    if let Some(pool) = &node.pool {
        values = values.with("node.pool", pool);
    }
    if let Some(host) = node.host.as_deref().or(open_host) {
        values = values.with("node.host", host);
    }
    values
}
