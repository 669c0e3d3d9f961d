//! What all translators need: an empty cluster file to fill, and small readings of values.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use ipnet::Ipv4Net;
use model::forms::{self, Version};
use model::spec::{
    Changes, Defaults, Image, Kubernetes, Manifests, Network, NicModel, Patch, Proxmox, Spec, Versions,
    Written,
};

use super::bag::{At, Bag};
use super::notes::Notes;

/// Where the token is found from now on.
pub(super) const TOKEN: &str = "env:PROXMOX_VE_API_TOKEN";

/// A cluster file that says nothing yet.
pub(super) fn blank(cluster: &str) -> Spec {
    Spec {
        cluster: cluster.to_owned(),
        versions: Versions {
            talos: String::new(),
            kubernetes: String::new(),
            contract: None,
            via: Default::default(),
        },
        proxmox: Proxmox::default(),
        network: Network {
            cidr: String::new(),
            gateway: String::new(),
            vip: None,
            bridge: "vmbr0".to_owned(),
            vlan: None,
            mtu: None,
            model: NicModel::Virtio,
            dhcp: false,
            dns: Vec::new(),
            ntp: Vec::new(),
            routes: Vec::new(),
            extra: BTreeMap::new(),
            kubelet: None,
            etcd: None,
        },
        hosts: BTreeMap::new(),
        image: Image::default(),
        sizes: BTreeMap::new(),
        defaults: Defaults::default(),
        pools: BTreeMap::new(),
        nodes: BTreeMap::new(),
        kubernetes: Kubernetes::default(),
        manifests: Manifests::default(),
        gitops: None,
        patches: Vec::new(),
        changes: Changes::default(),
        backup: None,
        endpoint: None,
        protect: false,
    }
}

/// A name in the form that ours have.
pub(super) fn name(text: &At<String>, notes: &mut Notes) -> String {
    let folded: String = text
        .value
        .to_ascii_lowercase()
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .collect();
    let folded = folded.trim_matches('-').to_owned();
    if folded != text.value {
        notes.changed(text.span, &format!("`{}` is called `{folded}` here", text.value), "");
    }
    folded
}

/// A version with its leading `v`.
pub(super) fn version(text: &str) -> String {
    Version::read(text).map_or_else(|| text.to_owned(), |version| version.to_string())
}

/// The contract of a Talos version: configurations older than all that are known follow the version itself.
pub(super) fn contract(talos: &str) -> Option<String> {
    let short: Vec<&str> = talos.splitn(3, '.').take(2).collect();
    forms::contract(&short.join("."))
}

/// The Kubernetes version that a Talos release brings by default.
pub(super) fn kubernetes_of(talos: &str) -> &'static str {
    let version = Version::read(talos);
    match version.map_or((0, 0), |version| (version.minor, version.patch)) {
        (0..=9, _) => "v1.32.13",
        (10, 0..=6) => "v1.33.3",
        (10, _) => "v1.33.6",
        (11, _) => "v1.34.1",
        (12, 0..=6) => "v1.35.2",
        (12, _) => "v1.35.4",
        (13, _) => "v1.36.3",
        _ => "v1.37.0",
    }
}

/// The network of an address.
pub(super) fn network_of(address: &str, prefix: u8) -> Option<String> {
    let address: Ipv4Addr = address.parse().ok()?;
    Some(Ipv4Net::new(address, prefix).ok()?.trunc().to_string())
}

/// `https://HOST:8006` out of what was given as endpoint.
pub(super) fn endpoint(text: &str) -> String {
    text.trim_end_matches('/').trim_end_matches("/api2/json").to_owned()
}

pub(super) fn written(text: impl std::fmt::Display) -> Written {
    Written(text.to_string())
}

/// Endpoint, TLS and token, wherever they stand.
pub(super) fn proxmox(spec: &mut Spec, bag: &Bag<'_>, notes: &mut Notes) {
    if let Some(url) = bag.text("endpoint") {
        spec.proxmox.endpoint = Some(endpoint(&url.value));
    }
    if let Some(insecure) = bag.flag("insecure") {
        spec.proxmox.insecure = insecure;
    }
    token(spec, bag, "api_token", notes);
    let ssh = ["username", "ssh", "ssh_username", "ssh_password", "ssh_private_key", "ssh_private_key_file"];
    bag.lose(&ssh, "nothing here needs SSH", notes);
}

/// A token becomes a reference.
pub(super) fn token(spec: &mut Spec, bag: &Bag<'_>, key: &str, notes: &mut Notes) {
    if let Some(token) = bag.text(key) {
        spec.proxmox.token = Some(TOKEN.to_owned());
        let name = if bag.name.is_empty() { key.to_owned() } else { format!("{}.{key}", bag.name) };
        notes.secret(token.span, &name, TOKEN);
    }
}

/// A patch, by its JSON.
pub(super) fn patch(json: serde_json::Value) -> Option<Patch> {
    match json {
        serde_json::Value::Object(map) => Some(Patch::Inline(map)),
        _ => None,
    }
}

/// Says that the input names no network, which only a person can mend.
pub(super) fn miss_network(spec: &Spec, notes: &mut Notes) {
    if spec.network.cidr.is_empty() || spec.network.gateway.is_empty() {
        notes.assumed(
            "the input does not say which network the nodes are in; set `network.cidr` and `network.gateway`",
        );
    }
}

/// Where Proxmox is, when the input does not say: most likely at the first host.
pub(super) fn assume_endpoint(spec: &mut Spec, notes: &mut Notes) {
    if spec.proxmox.endpoint.is_some() {
        return;
    }
    if let Some(host) = spec.hosts.keys().next() {
        spec.proxmox.endpoint = Some(format!("https://{host}:8006"));
        notes.assumed(&format!("the input does not say where Proxmox is; `https://{host}:8006` was taken"));
    }
}
