//! Nodes one by one in a map: `nodes_config`, the module calls with `cluster`, `image` and `nodes`, and `talos_nodes`.
//!
//! These formats share their ancestor, so one reading of a node serves all of them. What differs is where the cluster's
//! values stand, and what the modules take for granted.

mod image;
mod node;

use hcl_edit::expr::Expression;
use model::diagnostic::Span;
use model::spec::{
    BootDisk, BootDiskDetails, Cache, Cni, CniDetails, CniName, Cpu, CpuDetails, GitOps, GitOpsEngine,
    Hardware, Memory, Oidc, RoleDefaults, Spec, Traits,
};
use serde_json::json;

use super::Format;
use super::bag::{At, Bag};
use super::common::{self, blank, patch, written};
use super::eval::Evaluator;
use super::eval::FILE;
use super::folder::Folder;
use super::notes::Notes;

/// What the modules take for granted, and what a node falls back to.
pub(super) struct Ground {
    format: Format,
    /// Whether the module is the one that brings CoreDNS, on VLAN 150; otherwise it is the ancestor's.
    tuned: bool,
    /// Host of nodes that name none.
    host: Option<String>,
    /// Version that nodes marked for an update have.
    update_talos: Option<String>,
    update_kubernetes: Option<String>,
    /// Datastore that images are downloaded to.
    image_store: Option<String>,
    /// Datastore that the module takes when a node names none.
    datastore: Option<&'static str>,
    /// Size of root disks in GiB: control planes, workers.
    root: [u32; 2],
}

pub(super) fn translate(
    format: Format,
    bag: &Bag<'_>,
    folder: &Folder<'_>,
    evaluator: &Evaluator<'_>,
    notes: &mut Notes,
) -> Spec {
    let cluster = match format {
        Format::TalosNodes => bag.bag("talos_cluster_config"),
        _ => bag.bag("cluster"),
    };
    let named = bag.text("cluster_name").or_else(|| cluster.as_ref()?.text("name"));
    let mut spec = blank(&named.map_or_else(|| "talos".to_owned(), |text| common::name(&text, notes)));
    let tuned = format == Format::NodesConfig || format == Format::ModuleCall && bag.has("coredns");
    let mut ground = Ground {
        format,
        tuned,
        host: None,
        update_talos: None,
        update_kubernetes: None,
        image_store: None,
        datastore: match format {
            _ if tuned => Some("velocity"),
            Format::FluxModuleCall => Some("samsung-500gb"),
            _ => Some("local-zfs"),
        },
        root: match format {
            Format::FluxModuleCall => [10, 50],
            _ if tuned => [40, 40],
            Format::TalosNodes => [128, 128],
            _ => [20, 20],
        },
    };
    proxmox(&mut spec, &mut ground, bag, folder, evaluator, notes);
    let cluster_facts = cluster.as_ref().map(|group| about_cluster(&mut spec, &ground, group, notes));
    let region = bag.text("proxmox_cluster").map(|text| text.value).or(cluster_facts.flatten());
    if format == Format::NodesConfig {
        about_nodes_config(&mut spec, bag, notes);
    }
    image::versions(&mut spec, &mut ground, bag, folder, notes);
    network(&mut spec, bag, cluster.as_ref(), format, notes);
    if format == Format::ModuleCall {
        spec.network.vlan = folder.literal_in_modules("vlan_id");
        if spec.network.vlan.is_none() && tuned {
            spec.network.vlan = Some(150);
            notes.assumed("the module puts its cards on VLAN 150; `network.vlan` says so");
        }
    }
    granted(&mut spec, &ground, bag, region, notes);
    let key = match format {
        Format::NodesConfig => "nodes_config",
        Format::TalosNodes => "talos_nodes",
        _ => "nodes",
    };
    if let Some(nodes) = bag.bag(key) {
        node::translate(&mut spec, &ground, &nodes, notes);
    }
    inline(&mut spec, bag, notes);
    flux(&mut spec, bag, notes);
    leftovers(bag, notes);
    common::miss_network(&spec, notes);
    common::assume_endpoint(&mut spec, notes);
    cluster.into_iter().for_each(|group| group.finish(notes));
    spec
}

fn proxmox(
    spec: &mut Spec,
    ground: &mut Ground,
    bag: &Bag<'_>,
    folder: &Folder<'_>,
    evaluator: &Evaluator<'_>,
    notes: &mut Notes,
) {
    if let Some(group) = bag.bag("proxmox") {
        common::proxmox(spec, &group, notes);
        ground.host = group.text("name").map(|text| text.value);
        let why = "the label of the region comes from `proxmox_cluster`";
        group.lose(&["cluster_name", "node_name"], why, notes);
        group.finish(notes);
    }
    common::token(spec, bag, "proxmox_api_token", notes);
    let provider =
        folder.blocks("provider").find(|(_, block)| block.labels.iter().any(|l| l.as_str() == "proxmox"));
    if let (None, Some((source, block))) = (&spec.proxmox.endpoint, provider) {
        let value = |key: &str| -> Option<String> {
            let expr: &Expression = &block.body.get_attribute(key)?.value;
            let tree = evaluator.eval(source, expr, &super::eval::Scope::Empty).ok()?;
            super::eval::plain(&tree)
        };
        spec.proxmox.endpoint = value("endpoint").map(|url| common::endpoint(&url));
        spec.proxmox.insecure = value("insecure").as_deref() == Some("true");
        if let Some(token) = block.body.get_attribute("api_token") {
            let literal = token.value.as_str().is_some();
            let range = hcl_edit::Span::span(&token.value).unwrap_or(0..0);
            if literal {
                let span = Span { source, start: range.start, end: range.end };
                notes.secret(span, "provider.proxmox.api_token", common::TOKEN);
            }
            spec.proxmox.token = Some(common::TOKEN.to_owned());
        }
    }
}

/// What a module call or the ancestor says about the cluster; gives the region.
fn about_cluster(spec: &mut Spec, ground: &Ground, group: &Bag<'_>, notes: &mut Notes) -> Option<String> {
    if let Some(text) = group.text("endpoint") {
        spec.endpoint = Some(format!("https://{}:6443", text.value));
    }
    if let Some(text) = group.text("kubernetes_version") {
        spec.versions.kubernetes = common::version(&text.value);
        if ground.format == Format::FluxModuleCall {
            let message = "the module never used its Kubernetes version; the cluster may run another one";
            notes.changed(text.span, message, "compare with `kubectl get nodes` before the first apply");
        }
    }
    if let Some(text) = group.text("talos_version") {
        spec.versions.talos = common::version(&text.value);
    }
    if let Some(text) = group.text("talos_machine_config_version") {
        spec.versions.contract = common::contract(&text.value);
    }
    for (key, target) in
        [("pod_subnet", &mut spec.kubernetes.pod_cidr), ("service_subnet", &mut spec.kubernetes.service_cidr)]
    {
        if let Some(text) = group.text(key) {
            *target = text.value;
        }
    }
    if ground.format == Format::FluxModuleCall && !group.has("service_subnet") && group.has("pod_subnet") {
        "10.43.0.0/16".clone_into(&mut spec.kubernetes.service_cidr);
    }
    if let Some(allowed) = group.flag("allow_scheduling_on_control_plane_nodes") {
        spec.kubernetes.schedule_on_control_planes = allowed;
    }
    if let Some(cilium) = group.bag("cilium") {
        spec.kubernetes.cni = cilium_cni(cilium.text("values_file_path"), cilium.text("version"));
        cilium.lose(&["bootstrap_manifest_path"], "Cilium is installed by its chart", notes);
        cilium.finish(notes);
    }
    for manifest in group.texts("extra_manifests") {
        let list = match manifest.value.contains("://") {
            true => &mut spec.manifests.urls,
            false => &mut spec.manifests.files,
        };
        list.push(manifest.value);
    }
    for (key, part) in [("kubelet", "machine"), ("api_server", "cluster")] {
        let Some(text) = group.text(key) else { continue };
        let inner = if key == "kubelet" { "kubelet" } else { "apiServer" };
        match serde_saphyr::from_str::<serde_json::Value>(&text.value) {
            Ok(value) => spec.patches.extend(patch(json!({ part: { inner: value } }))),
            Err(_) => notes.lost(text.span, &format!("`{key}` is not YAML")),
        }
    }
    if let Some(text) = group.text("gateway_api_version") {
        let url = format!(
            "https://github.com/kubernetes-sigs/gateway-api/releases/download/{}/standard-install.yaml",
            text.value
        );
        notes.changed(
            text.span,
            "the Gateway API is applied from its release",
            "check that the channel is the one you used",
        );
        spec.manifests.urls.push(url);
    }
    group.text("proxmox_cluster").or_else(|| group.text("region")).map(|text| text.value)
}

/// Cilium, with a file of values where one is named.
fn cilium_cni(values: Option<At<String>>, version: Option<At<String>>) -> Cni {
    let values_file = values.map(|text| text.value.trim_start_matches(FILE).to_owned());
    let version = version.map(|text| text.value);
    if values_file.is_none() && version.is_none() {
        return Cni::Name(CniName::Cilium);
    }
    Cni::Details(CniDetails { name: CniName::Cilium, version, values_file, ..CniDetails::default() })
}

fn about_nodes_config(spec: &mut Spec, bag: &Bag<'_>, notes: &mut Notes) {
    let domain = bag.text("cluster_domain");
    if let Some(domain) = &domain {
        spec.kubernetes.dns_domain.clone_from(&domain.value);
    }
    if let Some(host) = bag.text("external_api_endpoint") {
        spec.endpoint = Some(format!("https://{}:6443", host.value));
    } else if let Some(domain) = domain {
        spec.endpoint = Some(format!("https://api.{}:6443", domain.value));
    }
    if let Some(oidc) = bag.bag("oidc") {
        let text = |key: &str| oidc.text(key).map(|text| text.value);
        if let (Some(issuer), Some(client)) = (text("issuer_url"), text("client_id")) {
            spec.kubernetes.oidc = Some(Oidc {
                issuer,
                client,
                username_claim: Some("preferred_username".to_owned()),
                username_prefix: None,
                groups_claim: Some("groups".to_owned()),
                groups_prefix: None,
            });
        }
        oidc.finish(notes);
    }
}

fn network(spec: &mut Spec, bag: &Bag<'_>, cluster: Option<&Bag<'_>>, format: Format, notes: &mut Notes) {
    let group = bag.bag("network");
    let pick = |key: &str| group.as_ref().and_then(|group| group.text(key)).or_else(|| cluster?.text(key));
    if let Some(gateway) = pick("gateway") {
        spec.network.gateway = gateway.value;
    }
    let default: u8 = if format == Format::FluxModuleCall { 16 } else { 24 };
    let prefix = pick("cidr_prefix").or_else(|| pick("subnet_mask"));
    let prefix = prefix.and_then(|text| text.value.parse().ok()).unwrap_or(default);
    spec.network.cidr = common::network_of(&spec.network.gateway, prefix).unwrap_or_default();
    spec.network.vip = pick("vip").map(|text| text.value);
    if let Some(cluster) = cluster {
        spec.network.dns = cluster.values("dns");
    }
    if let Some(group) = &group {
        spec.network.dns = group.values("dns_servers");
        if let Some(bridge) = group.text("bridge") {
            spec.network.bridge = bridge.value;
        }
        spec.network.vlan = group.number("vlan_id").map(|number| number.value).filter(|vlan| *vlan != 0);
        if let Some(vip) = group.text("api_lb_vip") {
            spec.kubernetes.cert_sans.push(vip.value);
            notes.changed(vip.span, "the load balancer's address is only put into the certificates", "");
        }
    }
    group.into_iter().for_each(|group| group.finish(notes));
}

/// What the module does without being asked, so that the cluster stays what it is.
fn granted(spec: &mut Spec, ground: &Ground, bag: &Bag<'_>, region: Option<String>, notes: &mut Notes) {
    let mut labels = std::collections::BTreeMap::new();
    if let Some(region) = region {
        labels.insert("topology.kubernetes.io/region".to_owned(), region);
    }
    spec.defaults.controlplane = role_defaults(ground, bag, (0, "controlplane"), &labels, notes);
    spec.defaults.worker = role_defaults(ground, bag, (1, "worker"), &labels, notes);
    if let (Some(store), false) = (ground.datastore, bag.has("proxmox_datastore")) {
        let [control, work] = ground.root;
        notes.assumed(&format!(
            "where nodes say nothing, disks lie on `{store}`, boot disks have {control}G and {work}G, and the CPU is the host's: the module takes it for granted"
        ));
    }
    if matches!(ground.format, Format::NodesConfig | Format::ModuleCall | Format::TalosNodes) {
        if matches!(spec.kubernetes.cni, Cni::Name(CniName::Flannel)) {
            spec.kubernetes.cni = Cni::Name(CniName::Cilium);
        }
        spec.kubernetes.kube_proxy = false;
    }
    match ground.format {
        _ if ground.tuned => {
            let tuned = json!({ "machine": {
                "sysctls": { "vm.nr_hugepages": "1024" },
                "kernel": { "modules": [{ "name": "nvme_tcp" }, { "name": "vfio_pci" }] },
            }});
            spec.patches.extend(patch(tuned));
            notes.assumed("huge pages and kernel modules that the module sets are kept as a patch; the manifests that it brings itself (Gateway API, certificate approver, metrics) are not: add them under `manifests`");
            if !bag.has("coredns") {
                notes
                    .assumed("the module turns CoreDNS off and brings its own; here Talos' CoreDNS stays on");
            }
        }
        Format::TalosNodes | Format::ModuleCall => {
            spec.kubernetes.schedule_on_control_planes = true;
            notes.assumed("the module lets workloads run on control plane nodes; its kernel settings and metrics addresses are not kept");
        }
        _ => {}
    }
}

/// The defaults of a role, by the module's own where the input says nothing.
fn role_defaults(
    ground: &Ground,
    bag: &Bag<'_>,
    (role, key): (usize, &str),
    labels: &std::collections::BTreeMap<String, String>,
    notes: &mut Notes,
) -> RoleDefaults {
    let head =
        ["external_api_endpoint", "kubernetes_image", "lb_nodes", "enable_lb"].iter().any(|key| bag.has(key));
    let usual: Option<(u32, u32)> = match (ground.format, head) {
        (Format::NodesConfig, false) => [(6, 6144), (8, 13312)].get(role).copied(),
        (Format::NodesConfig, true) => [(6, 8192), (8, 21504)].get(role).copied(),
        _ => None,
    };
    let group = bag.bag(&format!("defaults_{key}"));
    let number = |name: &str| group.as_ref().and_then(|group| group.number(name)).map(|number| number.value);
    if group.is_none()
        && let Some((cores, mib)) = usual
    {
        notes.assumed(&format!(
            "no `defaults_{key}` is given; the module's own, {cores} cores and {mib} MiB, were taken"
        ));
    }
    let hardware = Hardware {
        cpu: Some(Cpu::Details(CpuDetails {
            cores: number("cpu").or(usual.map(|(cores, _)| cores)),
            kind: Some("host".to_owned()),
            units: number("cpu_units").or((head && ground.format == Format::NodesConfig).then_some(1024)),
        })),
        memory: number("ram_dedicated")
            .or(usual.map(|(_, mib)| mib))
            .map(|mib| Memory::Size(written(format!("{mib}M")))),
        disk: Some(BootDisk::Details(BootDiskDetails {
            size: ground.root.get(role).map(|gib| written(format!("{gib}G"))),
            cache: Some(Cache::Writethrough),
            ..BootDiskDetails::default()
        })),
        datastore: bag
            .text("proxmox_datastore")
            .map(|text| text.value)
            .or_else(|| ground.datastore.map(str::to_owned)),
        ..Hardware::default()
    };
    let (tag, description) = match role {
        0 => ("control-plane", "Talos Control Plane"),
        _ => ("worker", "Talos Worker"),
    };
    let traits = Traits {
        tags: vec!["k8s".to_owned(), tag.to_owned()],
        description: Some(description.to_owned()),
        labels: labels.clone(),
        ..Traits::default()
    };
    let mut defaults = RoleDefaults { hardware, traits };
    if let Some(group) = group {
        node::data_disks(&mut defaults.hardware, &group, notes);
        group.lose(&["machine_type"], "these are the defaults of a role", notes);
        group.lose(&["igpu"], "a device belongs to one node", notes);
        group.finish(notes);
    } else if role == 1 && ground.format == Format::NodesConfig && !head {
        node::default_longhorn(&mut defaults.hardware, notes);
    }
    defaults
}

/// Manifests that a module call hands in.
fn inline(spec: &mut Spec, bag: &Bag<'_>, notes: &mut Notes) {
    if let Some(cilium) = bag.bag("cilium") {
        spec.kubernetes.cni = cilium_cni(cilium.text("values"), cilium.text("version"));
        cilium.lose(&["install"], "Cilium is installed by its chart", notes);
        cilium.finish(notes);
    }
    if let Some(coredns) = bag.bag("coredns") {
        if let Some(file) = coredns.text("install") {
            spec.kubernetes.coredns = false;
            match file.value.strip_prefix(FILE) {
                Some(path) => spec.manifests.files.push(path.to_owned()),
                None => {
                    spec.manifests.inline.insert("coredns".to_owned(), file.value);
                }
            }
        }
        coredns.finish(notes);
    }
}

fn flux(spec: &mut Spec, bag: &Bag<'_>, notes: &mut Notes) {
    let Some(group) = bag.bag("flux_bootstrap_repo") else { return };
    let text = |key: &str| group.text(key).map(|text| text.value);
    if let (Some(user), Some(name)) = (text("username"), text("name")) {
        spec.gitops = Some(GitOps {
            engine: GitOpsEngine::Flux,
            repository: format!("https://git.example.com/{user}/{name}.git"),
            revision: text("branch").unwrap_or_else(|| "main".to_owned()),
            path: format!("clusters/{}", spec.cluster),
            namespace: None,
            chart_version: None,
            destination_namespace: None,
            credentials: Some("env:GIT_TOKEN".to_owned()),
        });
        let help = "set `gitops.repository` and `gitops.path`; reading is enough, nothing is written to it";
        notes.changed(group.span, "the input names user and repository, but not the Git server", help);
    }
    group.finish(notes);
}

/// What these modules do beside the cluster.
fn leftovers(bag: &Bag<'_>, notes: &mut Notes) {
    let whole = |keys: &[&str], why: &str, notes: &mut Notes| {
        for key in keys {
            if let Some(tree) = bag.take(key)
                && super::eval::truth(tree) != Some(false)
            {
                notes.lost(tree.span(), &format!("`{key}` is not carried over: {why}"));
            }
        }
    };
    whole(
        &["enable_lb", "lb_nodes", "lb_store"],
        "load balancer VMs are not made here; the VIP does their work",
        notes,
    );
    whole(&["upgrade_control"], "upgrades are planned from the versions", notes);
    whole(&["sealed_secrets_config"], "apply its secret by a manifest of your own", notes);
    whole(
        &["kubernetes_volumes", "bootstrap_volumes"],
        "volumes are the storage driver's: see `manifests.proxmox_csi`",
        notes,
    );
    whole(
        &[
            "bootstrap_cert_manager_version",
            "bootstrap_external_secrets_version",
            "bootstrap_argocd_version",
            "git_repository_url",
        ],
        "install it by `gitops` or `manifests`",
        notes,
    );
}
