//! Rules of the documents with a kind.

use base64::{Engine as _, engine::general_purpose::STANDARD};

use super::{
    Rules,
    forms::{is_endpoint, is_subnet_filter},
    has_text, set,
};
use crate::{
    pem, schema,
    schema::check::{is_address, is_prefix, text_of},
    yaml::{Map, Value},
};

impl Rules<'_> {
    pub(super) fn documents(&mut self) {
        let documents: Vec<&Map> = self.documents.iter().collect();
        for document in documents {
            let Some(name) = document.text("kind") else { continue };
            let Some(kind) = schema::kind_of(name, self.minor) else { continue };
            if kind.named && !has_text(document, "name") {
                self.in_document(document, "name", "is missing");
            }
            if kind.control_plane_only && !self.is_control_plane() {
                self.in_document(document, "kind", "is for control plane nodes only");
            }
            if kind.link {
                self.link(document);
            }
            self.network_document(document, name);
            self.machine_document(document, name);
            self.kubernetes_document(document, name);
        }
    }

    fn required(&mut self, document: &Map, path: &str) {
        if set(document, path).and_then(text_of).is_none_or(|text| text.is_empty()) {
            self.in_document(document, path, "is missing");
        }
    }

    fn list<'a>(&self, document: &'a Map, path: &str) -> Vec<&'a Map> {
        let list = set(document, path).and_then(Value::as_list).unwrap_or_default();
        list.iter().filter_map(Value::as_map).collect()
    }

    fn link(&mut self, document: &Map) {
        for (index, address) in self.list(document, "addresses").into_iter().enumerate() {
            if !has_text(address, "address") {
                self.in_document(document, &format!("addresses[{index}].address"), "is missing");
            }
        }
    }

    fn network_document(&mut self, document: &Map, kind: &str) {
        match kind {
            "HostnameConfig" => self.hostname(document),
            "VLANConfig" => {
                self.required(document, "parent");
                let id = document.get("vlanID").and_then(Value::as_int).unwrap_or_default();
                if !(1..=4094).contains(&id) {
                    self.in_document(document, "vlanID", "must be from 1 to 4094");
                }
            }
            "BondConfig" => {
                if document.texts("links").is_empty() {
                    self.in_document(document, "links", "is missing");
                }
                self.required(document, "bondMode");
            }
            "Layer2VIPConfig" | "HCloudVIPConfig" => {
                self.required(document, "link");
                self.name_is(document, is_address, "must be the shared IP address");
                if kind == "HCloudVIPConfig" {
                    self.required(document, "apiToken");
                }
            }
            "LinkAliasConfig" => {
                self.required(document, "selector.match");
                let name = document.text("name").unwrap_or_default();
                let pattern =
                    name.split_once('%').is_some_and(|(prefix, suffix)| prefix.is_empty() || suffix != "d");
                if self.minor >= 13 && pattern {
                    self.in_document(document, "name", "may have %d at its end and no other %");
                }
            }
            "StaticHostConfig" => {
                self.name_is(document, is_address, "must be an IP address");
                if document.texts("hostnames").is_empty() {
                    self.in_document(document, "hostnames", "is missing");
                }
            }
            "TimeSyncConfig" if set(document, "ntp").is_some() && set(document, "ptp").is_some() => {
                self.in_document(document, "ptp", "cannot stand beside ntp");
            }
            "BlackholeRouteConfig" => {
                self.name_is(document, is_prefix, "must be an address with a prefix length")
            }
            "NetworkRuleConfig"
                if set(document, "portSelector.ports")
                    .and_then(Value::as_list)
                    .is_none_or(<[Value]>::is_empty) =>
            {
                self.in_document(document, "portSelector.ports", "is missing");
            }
            "ResolverConfig" => {
                let is = |key: &str, flag: bool| set(document, key) == Some(&Value::Bool(flag));
                if is("hostDNS.forwardKubeDNSToHost", true) && !is("hostDNS.enabled", true) {
                    self.in_document(document, "hostDNS.forwardKubeDNSToHost", "needs hostDNS.enabled");
                }
                for (index, server) in self.list(document, "nameservers").into_iter().enumerate() {
                    if !has_text(server, "address") {
                        self.in_document(document, &format!("nameservers[{index}].address"), "is missing");
                    }
                }
            }
            "KubeSpanConfig" => {
                let legacy = self.legacy().and_then(|document| set(document, "cluster.discovery.enabled"));
                let discovery = legacy == Some(&Value::Bool(true))
                    || self.documents.kind("DiscoveryServiceConfig").is_some();
                if set(document, "enabled") == Some(&Value::Bool(true)) && !discovery && self.minor >= 14 {
                    self.in_document(document, "enabled", "needs discovery");
                }
                if document.get("mtu").and_then(Value::as_int).is_some_and(|mtu| mtu < 1280) {
                    self.in_document(document, "mtu", "must be at least 1280");
                }
            }
            "RegistryMirrorConfig" => {
                for (index, endpoint) in self.list(document, "endpoints").into_iter().enumerate() {
                    let url = endpoint.text("url").unwrap_or_default();
                    if !["http", "https"]
                        .iter()
                        .any(|scheme| url.split_once("://").is_some_and(|(it, _)| it == *scheme))
                    {
                        self.in_document(
                            document,
                            &format!("endpoints[{index}].url"),
                            "must be an http or https URL",
                        );
                    }
                }
            }
            _ => {}
        }
    }

    fn name_is(&mut self, document: &Map, fits: fn(&str) -> bool, message: &str) {
        if let Some(name) = document.text("name").filter(|name| !name.is_empty())
            && !fits(name)
        {
            self.in_document(document, "name", message);
        }
    }

    fn hostname(&mut self, document: &Map) {
        let auto = set(document, "auto").and_then(text_of);
        // A YAML reader of old takes a bare off for false.
        let auto = auto.as_deref().map(|auto| if auto == "false" { "off" } else { auto });
        let hostname = document.text("hostname").unwrap_or_default();
        if auto.is_none() && hostname.is_empty() {
            self.in_document(document, "hostname", "or auto is missing");
        }
        match auto {
            Some("stable") if !hostname.is_empty() => {
                self.in_document(document, "auto", "must be off where there is a hostname");
            }
            None | Some("stable" | "off") => {}
            Some(_) => self.in_document(document, "auto", "must be stable or off"),
        }
        let first = hostname.split('.').next().unwrap_or_default();
        if !hostname.is_empty() && (hostname.len() > 253 || first.is_empty() || first.len() > 63) {
            self.in_document(document, "hostname", "must have from 1 to 63 letters before its first dot");
        }
    }

    fn machine_document(&mut self, document: &Map, kind: &str) {
        match kind {
            "UserVolumeConfig" | "RawVolumeConfig" | "ExistingVolumeConfig" | "SwapVolumeConfig" => {
                let fits = |name: &str| {
                    name.len() <= 34 && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
                };
                self.name_is(document, fits, "may have up to 34 letters, digits and hyphens");
                let volume = text_of(set(document, "volumeType").unwrap_or(&Value::Null)).unwrap_or_default();
                if kind == "ExistingVolumeConfig" {
                    self.required(document, "discovery.volumeSelector.match");
                } else if volume == "directory" {
                    if set(document, "provisioning").is_some() {
                        self.in_document(document, "provisioning", "does not go with volumeType directory");
                    }
                } else {
                    self.required(document, "provisioning.diskSelector.match");
                    if volume != "disk" {
                        let size = |key: &str| has_size(document, &format!("provisioning.{key}"));
                        if !size("minSize") && !size("maxSize") {
                            self.in_document(document, "provisioning.minSize", "or maxSize is missing");
                        }
                    }
                }
            }
            "VolumeConfig" => {
                let mut names = vec!["STATE", "EPHEMERAL", "IMAGECACHE"];
                if self.minor >= 14 {
                    names.extend(["ETCD", "CRI", "KUBELET", "LOG"]);
                }
                if !names.contains(&document.text("name").unwrap_or_default()) {
                    self.in_document(document, "name", format!("must be one of {}", names.join(", ")));
                }
            }
            "UnattendedInstallConfig" => self.required(document, "provisioning.diskSelector.match"),
            "DiscoveryIdentityConfig" => {
                self.required(document, "clusterID");
                self.required(document, "clusterSecret");
                let secret = document.text("clusterSecret").unwrap_or_default();
                if !secret.is_empty() && !STANDARD.decode(secret).is_ok_and(|bytes| bytes.len() == 32) {
                    self.in_document(document, "clusterSecret", "must be base64 of 32 bytes");
                }
            }
            "DiscoveryServiceConfig" => {
                self.required(document, "endpoint");
                if self.documents.kind("DiscoveryIdentityConfig").is_none()
                    && !self
                        .legacy()
                        .is_some_and(|it| has_text(it, "cluster.id") && has_text(it, "cluster.secret"))
                {
                    self.in_document(document, "kind", "needs a DiscoveryIdentityConfig");
                }
            }
            _ => {}
        }
    }

    fn kubernetes_document(&mut self, document: &Map, kind: &str) {
        match kind {
            "KubeClusterConfig" => {
                self.required(document, "clusterName");
                self.required(document, "endpoint");
                if document
                    .text("endpoint")
                    .is_some_and(|endpoint| !endpoint.is_empty() && !is_endpoint(endpoint))
                {
                    self.in_document(document, "endpoint", "must be a URL with a host");
                }
            }
            "KubeNodeConfig" => {
                self.each_text(document, "nodeIP.validSubnets", is_subnet_filter, "is not a subnet");
                self.node(document, "labels", "annotations", "taints");
            }
            "KubeletConfig" => {
                self.image(document);
                self.protected(document, "config");
            }
            "KubeAPIServerConfig"
            | "KubeControllerManagerConfig"
            | "KubeSchedulerConfig"
            | "KubeProxyConfig"
                if set(document, "enabled") != Some(&Value::Bool(false)) =>
            {
                self.image(document);
            }
            "KubeNetworkConfig" => {
                for key in ["podSubnets", "serviceSubnets"] {
                    if document.texts(key).is_empty() {
                        self.in_document(document, key, "is missing");
                    }
                }
            }
            "KubeAPIServerCAConfig" | "KubeAggregatorCAConfig" => {
                for path in ["issuingCA.cert", "issuingCA.key"] {
                    if set(document, "issuingCA").is_some() && !document.text(path).is_some_and(is_pem) {
                        self.in_document(document, path, "must be a PEM text");
                    }
                }
                self.each_text_hidden(document, "acceptedCAs");
            }
            "KubeServiceAccountConfig" => {
                self.required(document, "issuer.issuerURL");
                if !document.text("issuer.privateKey").is_some_and(is_pem) {
                    self.in_document(document, "issuer.privateKey", "must be a PEM text");
                }
            }
            "KubeAuthorizerConfig" => self.required(document, "type"),
            "KubeExternalManifestConfig" => self.required(document, "url"),
            _ => {}
        }
    }

    fn each_text_hidden(&mut self, document: &Map, path: &str) {
        if document.texts(path).iter().any(|text| !is_pem(text)) {
            self.in_document(document, path, "must be PEM texts");
        }
    }

    fn image(&mut self, document: &Map) {
        if has_text(document, "image") {
            self.kubernetes_image(document, "image");
        } else {
            self.in_document(document, "image", "is missing");
        }
    }
}

fn has_size(document: &Map, path: &str) -> bool {
    set(document, path).and_then(text_of).is_some_and(|text| !text.is_empty())
}

fn is_pem(text: &str) -> bool {
    pem::decode(text).is_some()
}
