//! Rules of the document without a kind.

use super::{
    Mode, Rules,
    forms::{
        is_address_or_prefix, is_dns_name, is_endpoint, is_label_value, is_qualified_name, is_subnet_filter,
        is_taint, kubernetes_minor, kubernetes_range,
    },
    has_text, set,
};
use crate::{
    schema::check::{is_address, is_prefix, text_of},
    yaml::{Map, Value},
};

/// Settings of the kubelet that Talos keeps for itself.
pub(super) const PROTECTED: &[&str] = &[
    "apiVersion",
    "authentication",
    "authorization",
    "cgroupRoot",
    "kind",
    "kubeletCgroups",
    "port",
    "protectKernelDefaults",
    "resolvConf",
    "rotateCertificates",
    "systemCgroups",
    "staticPodPath",
    "seccompDefault",
];

impl Rules<'_> {
    pub(super) fn v1alpha1(&mut self) {
        let Some(document) = self.legacy() else { return };
        if set(document, "machine").is_none() {
            return self.problem("machine", "is missing");
        }
        if set(document, "persist") == Some(&Value::Bool(false)) {
            self.problem("persist", "must be true");
        }
        self.machine_type(document);
        self.authorities(document);
        self.cluster(document);
        self.install(document);
        self.network(document);
        self.kubelet_and_node(document);
        self.features(document);
        self.legacy_images(document);
    }

    fn machine_type(&mut self, document: &Map) {
        let kind = document.text("machine.type").unwrap_or_default();
        if !["controlplane", "init", "worker", "join", ""].contains(&kind) {
            self.problem("machine.type", format!("must be controlplane or worker, not {kind:?}"));
        }
    }

    fn authorities(&mut self, document: &Map) {
        let accepted =
            set(document, "machine.acceptedCAs").and_then(Value::as_list).is_some_and(|it| !it.is_empty());
        let there = set(document, "machine.ca").is_some();
        if !there && !accepted {
            self.problem("machine.ca", "is missing");
        }
        if self.is_control_plane() {
            if !there {
                self.problem("machine.ca", "is missing on a control plane");
            } else if !has_text(document, "machine.ca.key") {
                self.problem("machine.ca.key", "is missing on a control plane");
            }
            return;
        }
        if has_text(document, "machine.ca.key") {
            self.problem("machine.ca.key", "must not be on a worker");
        }
        if there && !has_text(document, "machine.ca.crt") && !accepted {
            self.problem("machine.ca.crt", "is missing");
        }
        if has_text(document, "cluster.ca.key") {
            self.problem("cluster.ca.key", "must not be on a worker");
        }
    }

    fn cluster(&mut self, document: &Map) {
        if set(document, "cluster").is_none() {
            return self.problem("cluster", "is missing");
        }
        let endpoint = set(document, "cluster.controlPlane.endpoint").and_then(text_of);
        let control_plane = set(document, "cluster.controlPlane").is_some();
        match &endpoint {
            Some(endpoint) if !is_endpoint(endpoint) => {
                self.problem("cluster.controlPlane.endpoint", "must be a URL with a host");
            }
            None if self.minor < 14 || control_plane => {
                self.problem("cluster.controlPlane.endpoint", "is missing");
            }
            _ => {}
        }
        if self.minor >= 14 && set(document, "cluster.serviceAccount").is_some() && endpoint.is_none() {
            self.problem("cluster.serviceAccount", "needs cluster.controlPlane.endpoint beside it");
        }
        if let Some(domain) = document.text("cluster.network.dnsDomain")
            && !domain.is_empty()
            && !is_dns_name(domain)
        {
            self.problem("cluster.network.dnsDomain", "is not a DNS name");
        }
        self.etcd(document);
        self.cni(document);
        self.cloud_provider(document);
        self.inline_manifests(document);
        self.discovery(document);
        for component in ["apiServer", "controllerManager", "scheduler"] {
            self.resources(document, &format!("cluster.{component}.resources"));
        }
    }

    fn etcd(&mut self, document: &Map) {
        if set(document, "cluster.etcd").is_none() {
            return;
        }
        if !self.is_control_plane() {
            return self.problem("cluster.etcd", "must not be on a worker");
        }
        if set(document, "cluster.etcd.ca").is_none() {
            self.problem("cluster.etcd.ca", "is missing");
        }
        let advertised = !document.texts("cluster.etcd.advertisedSubnets").is_empty();
        if has_text(document, "cluster.etcd.subnet") && advertised {
            self.problem("cluster.etcd.subnet", "cannot stand beside advertisedSubnets");
        }
        for key in ["advertisedSubnets", "listenSubnets"] {
            self.each_text(document, &format!("cluster.etcd.{key}"), is_subnet_filter, "is not a subnet");
        }
    }

    fn cni(&mut self, document: &Map) {
        if !self.is_control_plane() || set(document, "cluster.network").is_none() {
            return;
        }
        let name = match document.text("cluster.network.cni.name") {
            None if set(document, "cluster.network.cni").is_none() => "flannel",
            name => name.unwrap_or_default(),
        };
        let urls = document.texts("cluster.network.cni.urls");
        if !["flannel", "custom", "none"].contains(&name) {
            self.problem("cluster.network.cni.name", "must be flannel, custom or none");
        }
        if name == "custom" {
            self.each_text(document, "cluster.network.cni.urls", is_endpoint, "is not a URL with a host");
        } else if !urls.is_empty() {
            self.problem("cluster.network.cni.urls", "must be empty unless the name is custom");
        }
        if name != "flannel" {
            if !document.texts("cluster.network.cni.flannel.extraArgs").is_empty() {
                self.problem(
                    "cluster.network.cni.flannel.extraArgs",
                    "must be empty unless the name is flannel",
                );
            }
            if set(document, "cluster.network.cni.flannel.kubeNetworkPoliciesEnabled")
                == Some(&Value::Bool(true))
            {
                let path = "cluster.network.cni.flannel.kubeNetworkPoliciesEnabled";
                self.problem(path, "must not be true unless the name is flannel");
            }
        }
    }

    fn cloud_provider(&mut self, document: &Map) {
        let manifests = document.texts("cluster.externalCloudProvider.manifests");
        let enabled = set(document, "cluster.externalCloudProvider.enabled") == Some(&Value::Bool(true));
        if !enabled && !manifests.is_empty() {
            self.problem("cluster.externalCloudProvider.manifests", "are given, but it is not enabled");
        } else {
            let path = "cluster.externalCloudProvider.manifests";
            self.each_text(document, path, is_endpoint, "is not a URL with a host");
        }
    }

    fn inline_manifests(&mut self, document: &Map) {
        let list = set(document, "cluster.inlineManifests").and_then(Value::as_list).unwrap_or_default();
        let mut seen = Vec::new();
        for (index, manifest) in list.iter().filter_map(Value::as_map).enumerate() {
            let name = manifest.get("name").and_then(text_of).unwrap_or_default();
            let path = format!("cluster.inlineManifests[{index}].name");
            if name.trim().is_empty() {
                self.problem(&path, "is missing");
            } else if seen.contains(&name) {
                self.problem(&path, format!("{name:?} stands twice"));
            }
            seen.push(name);
        }
    }

    fn discovery(&mut self, document: &Map) {
        let off = |path: &str| set(document, path) == Some(&Value::Bool(true));
        let enabled = set(document, "cluster.discovery.enabled") == Some(&Value::Bool(true));
        let service = enabled && !off("cluster.discovery.registries.service.disabled");
        if service {
            if let Some(endpoint) = document.text("cluster.discovery.registries.service.endpoint")
                && !endpoint.is_empty()
                && !(is_endpoint(endpoint) && endpoint.splitn(4, '/').nth(3).is_none_or(str::is_empty))
            {
                let path = "cluster.discovery.registries.service.endpoint";
                self.problem(path, "must be a URL with a host and without a path");
            }
            for key in ["id", "secret"] {
                if !has_text(document, &format!("cluster.{key}")) {
                    self.problem(&format!("cluster.{key}"), "is missing, but the discovery service needs it");
                }
            }
        }
        let kubernetes = enabled
            && set(document, "cluster.discovery.registries.kubernetes.disabled") == Some(&Value::Bool(false));
        let kubespan = set(document, "machine.network.kubespan.enabled") == Some(&Value::Bool(true));
        let by_document = self.documents.kind("DiscoveryServiceConfig").is_some();
        if kubespan && !service && !kubernetes && !by_document {
            self.problem("machine.network.kubespan.enabled", "needs discovery");
        }
    }

    fn resources(&mut self, document: &Map, path: &str) {
        for kind in ["requests", "limits"] {
            let path = format!("{path}.{kind}");
            let Some(Value::Map(map)) = set(document, &path) else { continue };
            for (key, _) in map.iter().filter(|(key, _)| *key != "cpu" && *key != "memory") {
                self.problem(&format!("{path}.{key}"), "must be cpu or memory");
            }
        }
    }

    fn install(&mut self, document: &Map) {
        if self.mode == Mode::Metal {
            match set(document, "machine.install") {
                None if self.minor < 14 => {
                    self.problem("machine.install", "is missing, but the machine installs itself")
                }
                None => {}
                Some(_) => {
                    let selector = set(document, "machine.install.diskSelector").and_then(Value::as_map);
                    let selects =
                        selector.is_some_and(|map| map.iter().any(|(_, value)| *value != Value::Null));
                    if !has_text(document, "machine.install.disk") && !selects {
                        self.problem("machine.install.disk", "or diskSelector is missing");
                    }
                    let arguments = !document.texts("machine.install.extraKernelArgs").is_empty();
                    let from_image =
                        set(document, "machine.install.grubUseUKICmdline") == Some(&Value::Bool(true));
                    if self.minor >= 12 && arguments && from_image {
                        let message =
                            "cannot stand beside grubUseUKICmdline; kernel arguments belong in the schematic";
                        self.problem("machine.install.extraKernelArgs", message);
                    }
                }
            }
        }
        let extensions =
            set(document, "machine.install.extensions").and_then(Value::as_list).unwrap_or_default();
        let images: Vec<String> =
            extensions.iter().filter_map(|it| it.as_map()?.get("image").and_then(text_of)).collect();
        for (index, image) in
            images.iter().enumerate().filter(|(index, image)| images[..*index].contains(image))
        {
            self.problem(
                &format!("machine.install.extensions[{index}].image"),
                format!("{image:?} stands twice"),
            );
        }
    }

    fn network(&mut self, document: &Map) {
        let interfaces =
            set(document, "machine.network.interfaces").and_then(Value::as_list).unwrap_or_default();
        let maps: Vec<&Map> = interfaces.iter().filter_map(Value::as_map).collect();
        let mut members: Vec<(String, String)> = Vec::new();
        for (index, interface) in maps.iter().enumerate() {
            let path = format!("machine.network.interfaces[{index}]");
            let name = interface.text("interface").unwrap_or_default().to_owned();
            let (bond, bridge) = (set(interface, "bond").is_some(), set(interface, "bridge").is_some());
            if bond && bridge {
                self.problem(&path, "cannot be both a bond and a bridge");
            }
            let bonded = interface.texts("bond.interfaces");
            let selectors = set(interface, "bond.deviceSelectors")
                .and_then(Value::as_list)
                .is_some_and(|it| !it.is_empty());
            if !bonded.is_empty() && selectors {
                self.problem(&format!("{path}.bond"), "has both interfaces and deviceSelectors");
            }
            let parts = if bridge { interface.texts("bridge.interfaces") } else { bonded };
            for member in parts {
                if members.iter().any(|(known, owner)| *known == member && *owner != name) {
                    self.problem(&path, format!("has the member {member:?}, which belongs to another link"));
                }
                members.push((member, name.clone()));
            }
        }
        for (index, interface) in maps.iter().enumerate() {
            if set(interface, "ignore") == Some(&Value::Bool(true)) {
                self.vip_on_worker(interface, &format!("machine.network.interfaces[{index}]"));
                continue;
            }
            self.interface(interface, &format!("machine.network.interfaces[{index}]"), &members);
        }
    }

    fn interface(&mut self, interface: &Map, path: &str, members: &[(String, String)]) {
        let name = interface.text("interface").unwrap_or_default();
        let selector = set(interface, "deviceSelector").and_then(Value::as_map);
        match (name.is_empty(), selector) {
            (true, None) => self.problem(path, "needs interface or deviceSelector"),
            (false, Some(_)) => self.problem(path, "has both interface and deviceSelector"),
            _ => {}
        }
        if selector.is_some_and(|map| {
            map.iter().all(|(_, value)| text_of(value).is_some_and(|text| text.is_empty()))
        }) {
            self.problem(&format!("{path}.deviceSelector"), "is empty");
        }
        let addresses = interface.texts("addresses");
        let old = interface.text("cidr").unwrap_or_default();
        let has_vip = set(interface, "vip").is_some();
        let addressed = !addresses.is_empty()
            || !old.is_empty()
            || has_vip
            || set(interface, "dhcp") == Some(&Value::Bool(true));
        if addressed && members.iter().any(|(member, _)| member == name) {
            self.problem(path, "is part of a bond or bridge and must not have addresses");
        }
        if !addresses.is_empty() && !old.is_empty() {
            self.problem(path, "has both cidr and addresses");
        }
        for address in addresses.iter().map(String::as_str).chain([old]).filter(|text| !text.is_empty()) {
            if !is_address_or_prefix(address) {
                self.problem(&format!("{path}.addresses"), format!("{address:?} is not an address"));
            }
        }
        self.vip_on_worker(interface, path);
        if has_vip && !interface.text("vip.ip").is_some_and(is_address) {
            self.problem(&format!("{path}.vip.ip"), "is not an IP address");
        }
        let vlans = set(interface, "vlans").and_then(Value::as_list).unwrap_or_default();
        for (index, vlan) in vlans.iter().filter_map(Value::as_map).enumerate() {
            let path = format!("{path}.vlans[{index}]");
            let (addresses, old) = (vlan.texts("addresses"), vlan.text("cidr").unwrap_or_default());
            if !addresses.is_empty() && !old.is_empty() {
                self.problem(&path, "has both cidr and addresses");
            }
            for address in addresses.iter().map(String::as_str).chain([old]).filter(|text| !text.is_empty()) {
                if !is_address_or_prefix(address) {
                    self.problem(&format!("{path}.addresses"), format!("{address:?} is not an address"));
                }
            }
        }
        let routes = set(interface, "routes").and_then(Value::as_list).unwrap_or_default();
        for (index, route) in routes.iter().filter_map(Value::as_map).enumerate() {
            let path = format!("{path}.routes[{index}]");
            let text = |key: &str| route.text(key).unwrap_or_default();
            if text("network").is_empty() && text("gateway").is_empty() {
                self.problem(&path, "needs a network or a gateway");
            }
            if !text("network").is_empty() && !is_prefix(text("network")) {
                self.problem(&format!("{path}.network"), "is not an address with a prefix length");
            }
            for key in ["gateway", "source"] {
                if !text(key).is_empty() && !is_address(text(key)) {
                    self.problem(&format!("{path}.{key}"), "is not an IP address");
                }
            }
        }
    }

    fn vip_on_worker(&mut self, interface: &Map, path: &str) {
        if self.is_control_plane() {
            return;
        }
        let vlans = set(interface, "vlans").and_then(Value::as_list).unwrap_or_default();
        let in_vlan = vlans.iter().filter_map(Value::as_map).any(|vlan| set(vlan, "vip").is_some());
        if set(interface, "vip").is_some() || in_vlan {
            self.problem(&format!("{path}.vip"), "must not be on a worker");
        }
    }

    fn kubelet_and_node(&mut self, document: &Map) {
        self.each_text(document, "machine.kubelet.nodeIP.validSubnets", is_subnet_filter, "is not a subnet");
        self.protected(document, "machine.kubelet.extraConfig");
        self.node(document, "machine.nodeLabels", "machine.nodeAnnotations", "machine.nodeTaints");
    }

    pub(super) fn protected(&mut self, document: &Map, path: &str) {
        let Some(Value::Map(map)) = set(document, path) else { return };
        for (key, _) in map.iter().filter(|(key, _)| PROTECTED.contains(key)) {
            self.in_document(document, &format!("{path}.{key}"), "is set by Talos itself");
        }
    }

    /// Labels, annotations and taints, wherever they stand.
    pub(super) fn node(&mut self, document: &Map, labels: &str, annotations: &str, taints: &str) {
        let reserved = ["talos.dev/owned-labels", "talos.dev/owned-annotations", "talos.dev/owned-taints"];
        for (path, value_fits) in
            [(labels, is_label_value as fn(&str) -> bool), (annotations, |_| true), (taints, is_taint)]
        {
            let Some(Value::Map(map)) = set(document, path) else { continue };
            for (key, value) in map.iter() {
                let value = text_of(value).unwrap_or_default();
                if !is_qualified_name(key) {
                    self.in_document(
                        document,
                        &format!("{path}.{key}"),
                        "is not a name that Kubernetes takes",
                    );
                } else if !value_fits(&value) {
                    self.in_document(
                        document,
                        &format!("{path}.{key}"),
                        "has a value that Kubernetes does not take",
                    );
                } else if path == annotations && reserved.contains(&key) {
                    self.in_document(document, &format!("{path}.{key}"), "is set by Talos itself");
                }
            }
        }
    }

    fn features(&mut self, document: &Map) {
        let is = |path: &str, flag: bool| set(document, path) == Some(&Value::Bool(flag));
        if self.minor >= 13
            && is("machine.features.hostDNS.forwardKubeDNSToHost", true)
            && !is("machine.features.hostDNS.enabled", true)
        {
            self.problem("machine.features.hostDNS.forwardKubeDNSToHost", "needs hostDNS.enabled");
        }
        if is("machine.features.kubernetesTalosAPIAccess.enabled", true) && !self.is_control_plane() {
            self.problem("machine.features.kubernetesTalosAPIAccess", "must not be on a worker");
        }
        let roles = ["os:admin", "os:operator", "os:reader", "os:etcd:backup", "os:impersonator"];
        for role in document.texts("machine.features.kubernetesTalosAPIAccess.allowedRoles") {
            if is("machine.features.kubernetesTalosAPIAccess.enabled", true)
                && !roles.contains(&role.as_str())
            {
                let path = "machine.features.kubernetesTalosAPIAccess.allowedRoles";
                self.problem(path, format!("{role:?} is not a role of Talos"));
            }
        }
    }

    /// The versions of Kubernetes in image names; nodes look at them since 1.11.
    fn legacy_images(&mut self, document: &Map) {
        if self.minor < 11 {
            return;
        }
        let mut paths = vec!["machine.kubelet.image"];
        if self.is_control_plane() {
            paths.extend([
                "cluster.apiServer.image",
                "cluster.controllerManager.image",
                "cluster.scheduler.image",
            ]);
        }
        for path in paths {
            if has_text(document, path) {
                self.kubernetes_image(document, path);
            }
        }
    }

    pub(super) fn kubernetes_image(&mut self, document: &Map, path: &str) {
        let range = kubernetes_range(self.minor);
        let image = document.text(path).unwrap_or_default();
        match kubernetes_minor(image) {
            None => self.in_document(document, path, "must have a tag such as v1.35.4"),
            Some(version) if !range.contains(&version) => {
                let message = format!(
                    "has Kubernetes v1.{version}, but Talos v1.{} runs v1.{} to v1.{}",
                    self.minor,
                    range.start(),
                    range.end()
                );
                self.in_document(document, path, message);
            }
            Some(_) => {}
        }
    }
}
