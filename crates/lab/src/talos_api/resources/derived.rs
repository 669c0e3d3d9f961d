//! What a configured machine derives from its configuration for its own parts: addresses of the kubelet, ways to the API
//! server, discovery, the state of its static pods.

use serde_json::{Value, json};

use super::{Resource, View};

pub(super) fn of(view: &View<'_>, kind: &str) -> Option<Vec<Resource>> {
    let node = view.node()?;
    let settings = &node.settings;
    let one = |id: &str, owner, tree| Some(vec![Resource::new(id, owner, tree)]);
    let api_server = node.api_server_from.is_some_and(|at| at <= view.now);
    let version = node.generation.to_string();
    match kind {
        "DiscoveryConfigs.cluster.talos.dev" => one(
            "cluster",
            "cluster.ConfigController",
            json!({
                "discoveryEnabled": settings.discovery, "registryKubernetesEnabled": false,
                "registryServiceEnabled": settings.discovery, "serviceEndpoint": "discovery.talos.dev:443",
                "serviceEndpointInsecure": false, "serviceClusterID": settings.cluster_id,
            }),
        ),
        "NodeIPs.kubernetes.talos.dev" => {
            let addresses: Vec<String> = view.machine.address().map(|a| a.to_string()).into_iter().collect();
            one("kubelet", "k8s.NodeIPController", json!({"addresses": addresses}))
        }
        "NodeIPConfigs.kubernetes.talos.dev" => one(
            "kubelet",
            "k8s.NodeIPConfigController",
            json!({
                "validSubnets": ["0.0.0.0/0", "::/0"],
                "excludeSubnets": [settings.pod_subnet.to_string(), settings.service_subnet.to_string()],
            }),
        ),
        "Endpoints.kubernetes.talos.dev" => {
            let addresses = control_planes(view);
            one("discovery", "cluster.EndpointController", json!({"addresses": addresses, "hosts": []}))
        }
        "KubePrismConfigs.kubernetes.talos.dev" => one(
            "k8s-loadbalancer-config",
            "k8s.KubePrismConfigController",
            json!({"host": "127.0.0.1", "port": 7445, "endpoints": ways(view)}),
        ),
        "KubePrismEndpoints.kubernetes.talos.dev" => {
            one("k8s-cluster", "k8s.KubePrismEndpointsController", json!({"endpoints": ways(view)}))
        }
        "KubePrismStatuses.kubernetes.talos.dev" => one(
            "k8s-loadbalancer",
            "k8s.KubePrismController",
            json!({"host": "127.0.0.1:7445", "healthy": api_server || node.kubelet_has_joined()}),
        ),
        "ConfigStatuses.kubernetes.talos.dev" if node.is_control_plane() => {
            let tree = json!({"ready": true, "version": version});
            one("static-pods", "k8s.RenderConfigsStaticPodController", tree)
        }
        "SecretStatuses.kubernetes.talos.dev" if node.is_control_plane() => {
            let tree = json!({"ready": true, "version": version});
            one("static-pods", "k8s.RenderSecretsStaticPodController", tree)
        }
        "EtcdConfigs.etcd.talos.dev" if node.is_control_plane() => {
            let image = Some(settings.images.etcd.clone()).filter(|image| !image.is_empty());
            let image = image.unwrap_or_else(|| format!("registry.k8s.io/etcd:v{}", view.profile.etcd));
            one("etcd", "etcd.ConfigController", json!({"image": image, "extraArgs": {}}))
        }
        "TimeServerSpecs.net.talos.dev" => {
            let layer = if settings.time_servers.is_empty() { "default" } else { "configuration" };
            let tree = json!({"timeServers": view.machine.time_servers(), "layer": layer});
            one("timeservers", "network.TimeServerMergeController", tree)
        }
        "ResolverSpecs.net.talos.dev" => {
            let layer = if settings.resolvers.is_empty() { "platform" } else { "configuration" };
            let servers: Vec<String> = view.machine.resolvers().iter().map(ToString::to_string).collect();
            let tree = json!({"dnsServers": servers, "layer": layer, "searchDomains": []});
            one("resolvers", "network.ResolverMergeController", tree)
        }
        "HardwareAddresses.net.talos.dev" => {
            let mac = view.machine.hardware.nics.first().map(|nic| nic.mac.to_lowercase())?;
            let tree = json!({"name": super::link_name(0), "hardwareAddr": mac});
            one("first", "network.HardwareAddrController", tree)
        }
        _ => None,
    }
}

/// The addresses of the cluster's control planes.
fn control_planes(view: &View<'_>) -> Vec<String> {
    let cluster = view.machines.cluster_of(view.vmid).into_iter().filter_map(|vmid| view.machines.get(vmid));
    let control = cluster.filter(|machine| machine.node().is_some_and(|node| node.is_control_plane()));
    control.filter_map(|machine| machine.address().map(|address| address.to_string())).collect()
}

/// The ways to an API server: the endpoint, and each control plane.
fn ways(view: &View<'_>) -> Vec<Value> {
    let endpoint = view.node().map(|node| node.settings.endpoint_host().to_owned());
    let hosts = endpoint.into_iter().chain(control_planes(view));
    let mut all: Vec<Value> = hosts.map(|host| json!({"host": host, "port": 6443})).collect();
    all.dedup();
    all
}
