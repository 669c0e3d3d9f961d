//! A machine as resources: what `talosctl get` shows. Each is computed from the machine's state when someone asks for its
//! type; nothing is kept but the versions that readers have seen.

mod block;
mod cluster;
mod derived;
mod hardware;
mod kubernetes;
mod network;
mod runtime;
mod secrets;

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Value, json};

pub(super) use kubernetes::kubelet_texts;
pub(super) use network::link_name;
pub(super) use runtime::status_tree;

use super::encode;
use super::table;
use crate::machine::{Machine, Machines, Node, Phase, Profile};

/// One resource, without its version.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Resource {
    pub(crate) id: String,
    pub(crate) owner: &'static str,
    content: Content,
    /// A label without a value, if it has one.
    pub(crate) label: Option<&'static str>,
    /// An annotation with the value `1`, if it has one.
    pub(crate) annotation: Option<&'static str>,
}

#[derive(Debug, Clone, PartialEq)]
enum Content {
    /// In the names of the YAML form.
    Tree(Value),
    /// Where the two forms have little in common.
    Both { yaml: String, protobuf: Vec<u8> },
}

impl Resource {
    fn new(id: impl Into<String>, owner: &'static str, tree: Value) -> Self {
        Self { id: id.into(), owner, content: Content::Tree(tree), label: None, annotation: None }
    }

    fn both(id: impl Into<String>, owner: &'static str, yaml: String, protobuf: Vec<u8>) -> Self {
        let content = Content::Both { yaml, protobuf };
        Self { id: id.into(), owner, content, label: None, annotation: None }
    }

    fn labelled(mut self, label: &'static str) -> Self {
        self.label = Some(label);
        self
    }

    fn annotated(mut self, annotation: &'static str) -> Self {
        self.annotation = Some(annotation);
        self
    }

    /// Who holds a resource of the type `kind`: it cannot go before they let it.
    pub(super) fn holders(&self, kind: &str, minor: u32) -> Vec<String> {
        let ready = matches!(&self.content, Content::Tree(tree) if tree["phase"] == "ready");
        let holder = match kind {
            "VolumeStatuses.block.talos.dev" if ready && self.id == "META" => "META",
            "VolumeStatuses.block.talos.dev" if ready => "block.MountController",
            "MaintenanceServiceRequests.runtime.talos.dev" if minor <= 12 => {
                "runtime.MaintenanceServiceController"
            }
            "MaintenanceServiceRequests.runtime.talos.dev" => "runtime.APIServiceConfigController",
            "HostnameSpecs.net.talos.dev" => "network.HostnameSpecController",
            _ => return vec![],
        };
        vec![holder.to_owned()]
    }

    /// The spec as YAML and as protobuf, for a type whose spec is `spec`.
    pub(super) fn encode(&self, spec: &str) -> (String, Vec<u8>) {
        match &self.content {
            Content::Tree(tree) => (encode::yaml(tree, spec), encode::protobuf(tree, spec)),
            Content::Both { yaml, protobuf } => (yaml.clone(), protobuf.clone()),
        }
    }
}

/// One machine, looked at.
struct View<'a> {
    machines: &'a Machines,
    vmid: u32,
    machine: &'a Machine,
    now: Timestamp,
    profile: Profile,
}

impl View<'_> {
    fn node(&self) -> Option<&Node> {
        self.machine.node()
    }

    fn image(&self) -> (&str, &str) {
        let image = self.machine.image();
        (image.map_or("", |i| i.platform.as_str()), image.map_or("", |i| i.schematic.as_str()))
    }
}

/// The ids of all resources of one type of a running machine.
pub(super) fn ids_of(machines: &Machines, vmid: u32, now: Timestamp, kind: &str) -> Vec<String> {
    of_kind(machines, vmid, now, kind).into_iter().map(|resource| resource.id).collect()
}

/// The content of all resources of one type of a running machine, by id and in their order.
pub(super) fn trees(machines: &Machines, vmid: u32, now: Timestamp, kind: &str) -> BTreeMap<String, Value> {
    let trees =
        of_kind(machines, vmid, now, kind).into_iter().filter_map(|resource| match resource.content {
            Content::Tree(tree) => Some((resource.id, tree)),
            Content::Both { .. } => None,
        });
    trees.collect()
}

/// What is told of a type in a namespace that is not its own: where several sources are put together, what each of them said.
pub(super) fn unmerged(
    machines: &Machines,
    vmid: u32,
    now: Timestamp,
    namespace: &str,
    kind: &str,
) -> Vec<Resource> {
    match (namespace, machines.get(vmid)) {
        ("cluster-raw", Some(machine)) if kind == cluster::AFFILIATES => {
            let view = View { machines, vmid, machine, now, profile: machine.profile() };
            cluster::discovered(&view)
        }
        _ => vec![],
    }
}

/// All resources of one type of a running machine, by id.
pub(crate) fn of_kind(machines: &Machines, vmid: u32, now: Timestamp, kind: &str) -> Vec<Resource> {
    let Some(machine) = machines.get(vmid) else { return vec![] };
    if !matches!(machine.phase, Phase::Maintenance(_) | Phase::Configured(_)) {
        return vec![];
    }
    let view = View { machines, vmid, machine, now, profile: machine.profile() };
    let mut found = match kind {
        table::DEFINITIONS => {
            let all = table::definitions(view.profile.minor).into_iter();
            all.map(|(id, tree)| Resource::new(id, "meta", tree)).collect()
        }
        table::NAMESPACES => {
            let all = table::NAMESPACE_LIST.iter();
            all.map(|(id, text)| Resource::new(*id, "meta", json!({"description": text}))).collect()
        }
        _ => None
            .or_else(|| runtime::of(&view, kind))
            .or_else(|| network::of(&view, kind))
            .or_else(|| block::of(&view, kind))
            .or_else(|| hardware::of(&view, kind))
            .or_else(|| cluster::of(&view, kind))
            .or_else(|| kubernetes::of(&view, kind))
            .or_else(|| derived::of(&view, kind))
            .or_else(|| secrets::of(&view, kind))
            .unwrap_or_default(),
    };
    found.sort_by(|a, b| a.id.cmp(&b.id));
    found
}
