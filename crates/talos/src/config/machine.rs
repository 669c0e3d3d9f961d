//! Putting the wishes about one machine into its configuration.

use std::collections::BTreeMap;

use super::{
    Documents, ExtraMount, GenerateError, MachineSettings, Nic, Role, UserVolume,
    documents::document,
    settings::{DiskId, Route},
};
use crate::contract::Contract;
use crate::yaml::{Map, Value, map};

/// Adds what is special to a machine to its configuration, in the form of the contract that it was generated with.
///
/// # Errors
///
/// Where the contract has no form for a wish.
pub fn apply_machine(
    documents: &mut Documents,
    contract: Contract,
    settings: &MachineSettings,
) -> Result<(), GenerateError> {
    let role = match documents.v1alpha1().and_then(|document| document.text("machine.type")) {
        Some("controlplane" | "init") => Role::ControlPlane,
        _ => Role::Worker,
    };
    if contract.network_documents() {
        network_documents(documents, settings, role);
        mirror_documents(documents, settings);
    } else if let Some(legacy) = documents.v1alpha1_mut() {
        network_fields(legacy.map_mut("machine"), settings, role);
        mirror_fields(legacy.map_mut("machine"), settings);
    }
    node(documents, contract, settings, role);
    kubelet(documents, contract, settings, role);
    if role == Role::ControlPlane
        && !settings.etcd_subnets.is_empty()
        && let Some(legacy) = documents.v1alpha1_mut()
    {
        let etcd = legacy.map_mut("cluster").map_mut("etcd");
        etcd.insert("advertisedSubnets", Value::texts(&settings.etcd_subnets));
    }
    kernel_modules(documents, contract, settings);
    volumes(documents, contract, settings)
}

fn alias(index: usize) -> String {
    format!("net{index}")
}

fn network_documents(documents: &mut Documents, settings: &MachineSettings, role: Role) {
    let hostname = documents.kind_mut("HostnameConfig");
    hostname.insert("auto", "off");
    hostname.insert("hostname", settings.hostname.as_str());
    for (index, nic) in settings.nics.iter().enumerate() {
        let name = alias(index);
        let selector = format!("mac(link.permanent_addr) == \"{}\"", nic.mac.to_ascii_lowercase());
        documents.push(
            document("LinkAliasConfig")
                .with("name", name.as_str())
                .with("selector", map([("match", selector.into())])),
        );
        documents.push(link(nic, &name));
        if nic.addresses.is_empty() {
            documents.push(document("DHCPv4Config").with("name", name.as_str()));
        }
        if let Some(vip) = nic.vip.as_deref().filter(|_| role == Role::ControlPlane) {
            documents.push(document("Layer2VIPConfig").with("name", vip).with("link", name.as_str()));
        }
    }
    if !settings.nameservers.is_empty() {
        let servers = settings.nameservers.iter().map(|it| map([("address", it.as_str().into())]).into());
        documents.kind_mut("ResolverConfig").insert("nameservers", Value::List(servers.collect()));
    }
    if !settings.time_servers.is_empty() {
        let ntp = map([("servers", Value::texts(&settings.time_servers))]);
        documents.kind_mut("TimeSyncConfig").insert("ntp", ntp);
    }
}

fn link(nic: &Nic, name: &str) -> Map {
    let addresses = nic.addresses.iter().map(|it| map([("address", it.as_str().into())]).into());
    let default = nic.gateway.iter().map(|gateway| map([("gateway", gateway.as_str().into())]));
    let routes = default.chain(nic.routes.iter().map(|route| route_map(route, "destination")));
    let routes: Vec<Value> = routes.map(Into::into).collect();
    document("LinkConfig")
        .with("name", name)
        .with("up", true)
        .with_some("mtu", nic.mtu)
        .with_some("addresses", (!nic.addresses.is_empty()).then(|| Value::List(addresses.collect())))
        .with_some("routes", (!routes.is_empty()).then_some(Value::List(routes)))
}

fn route_map(route: &Route, network: &str) -> Map {
    map([(network, route.network.as_str().into())])
        .with_some("gateway", route.gateway.as_deref())
        .with_some("metric", route.metric)
}

fn network_fields(machine: &mut Map, settings: &MachineSettings, role: Role) {
    let interfaces = settings.nics.iter().map(|nic| {
        let selector = map([("hardwareAddr", nic.mac.to_ascii_lowercase().into())]);
        let default = nic.gateway.iter().map(|gateway| {
            let everywhere = if gateway.contains(':') { "::/0" } else { "0.0.0.0/0" };
            map([("network", everywhere.into()), ("gateway", gateway.as_str().into())])
        });
        let routes = default.chain(nic.routes.iter().map(|route| route_map(route, "network")));
        let routes: Vec<Value> = routes.map(Into::into).collect();
        let vip = nic.vip.as_deref().filter(|_| role == Role::ControlPlane);
        map([("deviceSelector", selector.into())])
            .with_some("dhcp", nic.addresses.is_empty().then_some(true))
            .with_some("addresses", (!nic.addresses.is_empty()).then(|| Value::texts(&nic.addresses)))
            .with_some("routes", (!routes.is_empty()).then_some(Value::List(routes)))
            .with_some("mtu", nic.mtu)
            .with_some("vip", vip.map(|address| map([("ip", address.into())])))
            .into()
    });
    let interfaces: Vec<Value> = interfaces.collect();
    let network = machine.map_mut("network");
    network.insert("hostname", settings.hostname.as_str());
    if !interfaces.is_empty() {
        network.insert("interfaces", Value::List(interfaces));
    }
    if !settings.nameservers.is_empty() {
        network.insert("nameservers", Value::texts(&settings.nameservers));
    }
    if !settings.time_servers.is_empty() {
        machine.map_mut("time").insert("servers", Value::texts(&settings.time_servers));
    }
}

fn mirror_documents(documents: &mut Documents, settings: &MachineSettings) {
    for (host, mirror) in &settings.mirrors {
        documents.remove("RegistryMirrorConfig", host);
        let endpoints = mirror.endpoints.iter().map(|url| {
            map([("url", url.as_str().into())])
                .with_some("overridePath", mirror.override_path.then_some(true))
                .into()
        });
        documents.push(
            document("RegistryMirrorConfig")
                .with("name", host.as_str())
                .with("endpoints", Value::List(endpoints.collect()))
                .with_some("skipFallback", mirror.skip_fallback.then_some(true)),
        );
    }
}

fn mirror_fields(machine: &mut Map, settings: &MachineSettings) {
    for (host, mirror) in &settings.mirrors {
        let value = map([("endpoints", Value::texts(&mirror.endpoints))])
            .with_some("overridePath", mirror.override_path.then_some(true))
            .with_some("skipFallback", mirror.skip_fallback.then_some(true));
        machine.map_mut("registries").map_mut("mirrors").insert(host, value);
    }
}

/// Labels and annotations, and the taints of control planes.
fn node(documents: &mut Documents, contract: Contract, settings: &MachineSettings, role: Role) {
    let none = BTreeMap::new();
    let taints = if role == Role::ControlPlane { &settings.taints } else { &none };
    let wishes = [
        ("labels", "nodeLabels", &settings.labels),
        ("annotations", "nodeAnnotations", &settings.annotations),
        ("taints", "nodeTaints", taints),
    ];
    for (key, field, values) in wishes.into_iter().filter(|(_, _, values)| !values.is_empty()) {
        let target = if contract.kubernetes_documents() {
            documents.kind_mut("KubeNodeConfig").map_mut(key)
        } else {
            match documents.v1alpha1_mut() {
                Some(legacy) => legacy.map_mut("machine").map_mut(field),
                None => return,
            }
        };
        for (key, value) in values {
            target.insert(key, value.as_str());
        }
    }
}

/// The kubelet's arguments, subnets and mounts, and the taints that a worker registers with.
fn kubelet(documents: &mut Documents, contract: Contract, settings: &MachineSettings, role: Role) {
    let asked = settings.mounts.iter().map(mount);
    let mounts: Vec<Value> = settings.volumes.iter().filter_map(bind_mount).chain(asked).collect();
    let taints = if role == Role::Worker { registered(&settings.taints) } else { Vec::new() };
    let documents_hold_it = contract.kubernetes_documents();
    if documents_hold_it && !mounts.is_empty() {
        // The document of 1.14 has no mounts, but the release still takes the section that it replaced.
        replace_kubelet_document(documents);
    }
    if !settings.kubelet_subnets.is_empty() {
        let subnets = Value::texts(&settings.kubelet_subnets);
        if documents_hold_it {
            documents.kind_mut("KubeNodeConfig").map_mut("nodeIP").insert("validSubnets", subnets);
        } else if let Some(legacy) = documents.v1alpha1_mut() {
            let kubelet = legacy.map_mut("machine").map_mut("kubelet");
            kubelet.map_mut("nodeIP").insert("validSubnets", subnets);
        }
    }
    let in_document = documents_hold_it && mounts.is_empty();
    let kubelet = if in_document {
        let asked = !settings.kubelet_args.is_empty() || !taints.is_empty();
        asked.then(|| documents.kind_mut("KubeletConfig"))
    } else {
        documents.v1alpha1_mut().map(|legacy| legacy.map_mut("machine").map_mut("kubelet"))
    };
    let Some(kubelet) = kubelet else { return };
    if !taints.is_empty() {
        let config = if in_document { "config" } else { "extraConfig" };
        kubelet.map_mut(config).insert("registerWithTaints", Value::List(taints));
    }
    for (key, value) in &settings.kubelet_args {
        kubelet.map_mut("extraArgs").insert(key, value.as_str());
    }
    if !mounts.is_empty() {
        let known = kubelet.get("extraMounts").and_then(Value::as_list).unwrap_or_default().to_vec();
        kubelet.insert("extraMounts", Value::List(known.into_iter().chain(mounts).collect()));
    }
}

fn replace_kubelet_document(documents: &mut Documents) {
    let Some(old) = documents.take_kind("KubeletConfig") else { return };
    let Some(legacy) = documents.v1alpha1_mut() else { return };
    let kubelet = legacy.map_mut("machine").map_mut("kubelet");
    for (key, field) in [
        ("image", "image"),
        ("clusterDNS", "clusterDNS"),
        ("extraArgs", "extraArgs"),
        ("defaultRuntimeSeccompProfileEnabled", "defaultRuntimeSeccompProfileEnabled"),
    ] {
        if let Some(value) = old.get(key) {
            kubelet.insert(field, value.clone());
        }
    }
    if let Some(config) = old.get("config").filter(|it| it.as_map().is_some_and(|map| !map.is_empty())) {
        kubelet.insert("extraConfig", config.clone());
    }
    kubelet.insert("disableManifestsDirectory", true);
}

/// Taints in the kubelet's own form.
fn registered(taints: &BTreeMap<String, String>) -> Vec<Value> {
    let one = |(key, text): (&String, &String)| {
        let (value, effect) = text.rsplit_once(':').unwrap_or(("", text));
        map([("key", key.as_str().into())])
            .with_some("value", (!value.is_empty()).then_some(value))
            .with("effect", effect)
            .into()
    };
    taints.iter().map(one).collect()
}

fn bind_mount(volume: &UserVolume) -> Option<Value> {
    let destination = volume.mount.clone()?;
    let source = format!("/var/mnt/{}", volume.name);
    let options = ["bind", "rshared", "rw"].map(str::to_owned).to_vec();
    (destination != source)
        .then(|| mount(&ExtraMount { destination, source, kind: "bind".to_owned(), options }))
}

fn mount(mount: &ExtraMount) -> Value {
    map([
        ("destination", mount.destination.as_str().into()),
        ("type", mount.kind.as_str().into()),
        ("source", mount.source.as_str().into()),
        ("options", Value::texts(&mount.options)),
    ])
    .into()
}

fn kernel_modules(documents: &mut Documents, contract: Contract, settings: &MachineSettings) {
    let mut modules = Vec::new();
    for module in &settings.kernel_modules {
        let described = |map: Map| {
            let parameters = (!module.parameters.is_empty()).then(|| Value::texts(&module.parameters));
            map.with("name", module.name.as_str()).with_some("parameters", parameters)
        };
        if contract.kubernetes_documents() {
            documents.push(described(document("KernelModuleConfig")));
        } else {
            modules.push(described(Map::new()).into());
        }
    }
    if !modules.is_empty()
        && let Some(legacy) = documents.v1alpha1_mut()
    {
        legacy.map_mut("machine").map_mut("kernel").insert("modules", Value::List(modules));
    }
}

fn volumes(
    documents: &mut Documents,
    contract: Contract,
    settings: &MachineSettings,
) -> Result<(), GenerateError> {
    if contract.minor() < 10 && !settings.volumes.is_empty() {
        return Err(GenerateError::TooOld { setting: "a disk for data", contract, since: 10 });
    }
    for volume in &settings.volumes {
        let expression = match &volume.disk {
            DiskId::Wwid(id) => format!("disk.wwid == {}", crate::yaml::quoted(id)),
            DiskId::Serial(id) => format!("disk.serial == {}", crate::yaml::quoted(id)),
        };
        // The least size only says that there must be one; the volume grows to the whole disk.
        let provisioning = map([
            ("diskSelector", map([("match", expression.into())]).into()),
            ("minSize", "100MiB".into()),
            ("grow", true.into()),
        ]);
        let filesystem = volume.filesystem.as_deref().map(|kind| map([("type", kind.into())]));
        documents.push(
            document("UserVolumeConfig")
                .with("name", volume.name.as_str())
                .with("provisioning", provisioning)
                .with_some("filesystem", filesystem),
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests;
