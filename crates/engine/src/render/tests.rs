//! What the file says reaches the configuration, in the form of the contract; what a node would refuse is found.

use model::diagnostic::Source;
use model::load::Loaded;

use super::*;

const HOME: &str = "cluster: home
proxmox: { endpoint: 'https://pve1:8006' }
pools:
  control: { role: controlplane, count: 1 }
  work: { role: worker, count: 1 }
";

/// The base with the top-level keys of `more`; versions and network are there where `more` does not say them.
fn loaded(more: &str) -> Loaded {
    let mut text = HOME.to_owned();
    if !more.contains("versions:") {
        text.push_str("versions: { talos: v1.13.9, kubernetes: v1.35.4 }\n");
    }
    if !more.lines().any(|line| line.starts_with("network:")) {
        text.push_str("network: { cidr: 10.25.150.0/24, gateway: 10.25.150.1, vip: 10.25.150.10 }\n");
    }
    if more.contains("pools:") {
        text = text
            .lines()
            .filter(|l| !l.starts_with("pools") && !l.starts_with("  "))
            .fold(String::new(), |all, l| all + l + "\n");
    }
    text.push_str(more);
    let loaded = model::load::load(&[Source::new("c.yaml", text)])
        .unwrap_or_else(|failed| panic!("{:?}", failed.diagnostics));
    let found: Vec<_> = loaded.check().into_iter().filter(Diagnostic::is_error).collect();
    assert_eq!(found, []);
    loaded
}

fn bundle() -> Bundle {
    Bundle::placeholder(config::NEWEST, "2026-01-01T00:00:00Z".parse().unwrap()).unwrap()
}

fn rendered(
    more: &str,
    files: &[(&str, &str)],
) -> std::result::Result<BTreeMap<String, Documents>, Vec<Diagnostic>> {
    let loaded = loaded(more);
    let blueprint = model::resolve::resolve(&loaded.spec, None, None).unwrap();
    let attachments: Attachments =
        files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
    let schematics = schematics(&blueprint, &attachments).unwrap();
    let configs = Renderer::new(&blueprint, &schematics, &attachments).configs(&bundle());
    let configs = configs.map_err(|found| loaded.locate(found))?;
    Ok(configs.iter().map(|(name, it)| (name.to_string(), Documents::parse(it.expose()).unwrap())).collect())
}

/// The documents of one node that differ from those of the plain file, without secrets, for reading.
fn different(node: &str, more: &str, files: &[(&str, &str)]) -> String {
    let versions = more.lines().find(|line| line.starts_with("versions:")).unwrap_or("");
    let plain = rendered(&format!("{versions}\n"), &[]).unwrap().remove(node).unwrap();
    let made = rendered(more, files).unwrap_or_else(|found| panic!("{found:?}")).remove(node).unwrap();
    let mut lines: Vec<String> = Vec::new();
    let known: Vec<String> = plain.to_yaml().lines().map(str::to_owned).collect();
    for line in made.to_yaml().lines() {
        if !known.contains(&line.to_owned()) && !line.contains("LS0t") && !line.contains("key:") {
            lines.push(line.to_owned());
        }
    }
    // How a text is quoted is not the point here.
    lines.iter().map(|line| format!("{}\n", line.replace(['"', '\\'], ""))).collect()
}

/// Every text must stand among the lines that the wish adds, with both forms of configuration.
fn reaches(node: &str, more: &str, files: &[(&str, &str)], old: &[&str], new: &[&str]) {
    for (versions, wanted) in [
        ("versions: { talos: v1.13.9, kubernetes: v1.35.4 }\n", old),
        ("versions: { talos: v1.14.1, kubernetes: v1.36.0 }\n", new),
    ] {
        let text = different(node, &format!("{versions}{more}"), files);
        for part in wanted {
            assert!(text.contains(part), "{part:?} is not in\n{text}");
        }
    }
}

const CP: &str = "home-control-1";
const WORKER: &str = "home-work-1";

#[test]
fn network_plug_ins_proxy_and_dns() {
    reaches(
        CP,
        "kubernetes: { cni: none, kube_proxy: false, coredns: false }\n",
        &[],
        &["name: none", "disabled: true"],
        &["enabled: false"],
    );
    let urls =
        "kubernetes: { cni: { name: custom, urls: ['https://c.example/a', 'https://c.example/b'] } }\n";
    let both = ["https://c.example/a", "https://c.example/b"];
    reaches(CP, urls, &[], &both, &both);
}

#[test]
fn cilium_comes_as_a_job_with_the_file_s_values() {
    let more = "kubernetes: { kube_proxy: false, cni: { name: cilium, version: 1.18.2, values_file: v.yaml, values: { hubble: { enabled: true } } } }\nmanifests: { helm_image: r.example/helm:1 }\n";
    let files = [("v.yaml", "hubble: { enabled: false, x: 7 }\nipam: { mode: cluster-pool }\n")];
    let made = rendered(more, &files).unwrap();
    let manifests =
        made[CP].v1alpha1().unwrap().find("cluster.inlineManifests").unwrap().as_list().unwrap().to_vec();
    let text = |name: &str| {
        let one =
            manifests.iter().filter_map(|it| it.as_map()).find(|it| it.text("name") == Some(name)).unwrap();
        one.text("contents").unwrap().to_owned()
    };
    assert!(text("helm-install").contains("cluster-admin"));
    let objects: Vec<serde_json::Value> = serde_saphyr::from_multiple(&text("helm-cilium")).unwrap();
    let values: serde_json::Value =
        serde_saphyr::from_str(objects[0]["data"]["values.yaml"].as_str().unwrap()).unwrap();
    assert_eq!(values["hubble"], serde_json::json!({ "enabled": true, "x": 7 }));
    assert_eq!(values["ipam"]["mode"], "cluster-pool");
    assert_eq!(
        (&values["k8sServiceHost"], &values["kubeProxyReplacement"]),
        (&"localhost".into(), &true.into())
    );
    assert_eq!(objects[1]["spec"]["template"]["spec"]["containers"][0]["image"], "r.example/helm:1");
    assert!(objects[1].to_string().contains("1.18.2"));
    assert_eq!(made[CP].v1alpha1().unwrap().text("cluster.network.cni.name"), Some("none"));
    assert!(made[WORKER].v1alpha1().unwrap().find("cluster.inlineManifests").is_none());
}

#[test]
fn certificates_mirrors_mounts_and_log_in() {
    reaches(CP, "kubernetes: { cert_sans: [k8s.example] }\n", &[], &["k8s.example"], &["k8s.example"]);
    let mirror = "kubernetes: { registry_mirrors: { docker.io: { endpoints: ['https://m.example/v2/d'], override_path: true, skip_fallback: true } } }\n";
    let parts = ["name: docker.io", "https://m.example/v2/d", "overridePath: true", "skipFallback: true"];
    reaches(WORKER, mirror, &[], &parts, &parts);
    let mounts = "kubernetes: { extra_mounts: [{ source: /var/lib/longhorn }] }\n";
    let parts = ["destination: /var/lib/longhorn", "source: /var/lib/longhorn", "- rshared"];
    reaches(WORKER, mounts, &[], &parts, &parts);
    let oidc =
        "kubernetes: { oidc: { issuer: 'https://id.example/', client: kubectl, groups_claim: groups } }\n";
    reaches(
        CP,
        oidc,
        &[],
        &["oidc-issuer-url: https://id.example/", "oidc-client-id: kubectl", "oidc-groups-claim: groups"],
        &["url: https://id.example/", "- kubectl", "claim: groups"],
    );
}

#[test]
fn manifests_from_files_urls_and_inline() {
    let more = "manifests: { files: [m/ns.yaml], urls: ['https://m.example/a.yaml'], inline: { own: 'kind: A' }, helm: { x: { repository: 'https://c.example', version: 1.0.0 } } }\n";
    let files = [("m/ns.yaml", "apiVersion: v1\nkind: Namespace\nmetadata: {name: zz}\n")];
    let parts = [
        "name: m-ns",
        "kind: Namespace",
        "https://m.example/a.yaml",
        "name: own",
        "kind: A",
        "name: helm-x",
        "https://c.example",
    ];
    reaches(CP, more, &files, &parts, &parts);
}

#[test]
fn networks_of_kubelet_and_etcd_cards_and_routes() {
    let more = "network: { cidr: 10.25.150.0/24, gateway: 10.25.150.1, vip: 10.25.150.10, mtu: 9000, ntp: [time.example], dns: [9.9.9.9], routes: [{ to: 10.40.0.0/16, via: 10.25.150.2, metric: 70000 }], etcd: storage, extra: { storage: { cidr: 192.168.9.0/24, bridge: vmbr1, mtu: 1400, routes: [{ to: 10.41.0.0/16, via: 192.168.9.2 }] }, wild: { dhcp: true, bridge: vmbr2 } } }\n";
    let parts = [
        "192.168.9.0/24",
        "!10.25.150.10/32",
        "address: 192.168.9.11/24",
        "destination: 10.40.0.0/16",
        "metric: 70000",
        "destination: 10.41.0.0/16",
        "kind: DHCPv4Config",
        "name: net2",
        "mtu: 9000",
        "mtu: 1400",
        "time.example",
        "9.9.9.9",
    ];
    reaches(CP, more, &[], &parts, &parts);
    let text = different(WORKER, more, &[]);
    assert!(!text.contains("10.25.150.10") && !text.contains("advertisedSubnets"), "{text}");
}

#[test]
fn an_address_by_dhcp_is_not_written() {
    let more = "network: { cidr: 10.25.150.0/24, gateway: 10.25.150.1, vip: 10.25.150.10, dhcp: true }\n";
    let made = rendered(more, &[]).unwrap();
    assert!(made[CP].kind("LinkConfig").unwrap().get("addresses").is_none());
    assert_eq!(made[CP].kind("DHCPv4Config").unwrap().text("name"), Some("net0"));
    assert_eq!(made[CP].kind("Layer2VIPConfig").unwrap().text("name"), Some("10.25.150.10"));
}

#[test]
fn disks_are_found_by_what_their_bus_shows() {
    let more = "defaults: { worker: { disks: { fast: { size: 10G, bus: virtio, slot: 1 }, longhorn: { size: 10G, mount: /var/lib/longhorn } } } }\n";
    let parts = [
        "disk.wwid == naa.5",
        "disk.serial == ",
        "name: longhorn",
        "destination: /var/lib/longhorn",
        "source: /var/mnt/longhorn",
    ];
    reaches(WORKER, more, &[], &parts, &parts);
    assert!(!different(WORKER, more, &[]).contains("destination: /var/mnt/fast"), "it is there already");
}

#[test]
fn labels_annotations_and_taints_by_role() {
    let more = "defaults: { controlplane: { labels: { a: b }, annotations: { c: d }, taints: { e: 'f:NoSchedule' } }, worker: { taints: { gpu: ':NoExecute' } } }\n";
    let parts = ["a: b", "c: d", "e: f:NoSchedule"];
    reaches(CP, more, &[], &parts, &parts);
    reaches(
        WORKER,
        more,
        &[],
        &["registerWithTaints", "effect: NoExecute"],
        &["registerWithTaints", "effect: NoExecute"],
    );
}

#[test]
fn kubelet_arguments_topology_and_cloud_provider() {
    let args = "defaults: { worker: { kubelet_args: { rotate-server-certificates: 'true' } } }\n";
    let parts = ["extraArgs:", "rotate-server-certificates: true"];
    reaches(WORKER, args, &[], &parts, &parts);
    let zones = "hosts: { pve1: { zone: rack-a } }\nnodes: { home-work-1: { host: pve1 } }\ndefaults: { worker: { labels: { topology.kubernetes.io/region: home } } }\n";
    let parts = ["topology.kubernetes.io/region: home", "topology.kubernetes.io/zone: rack-a"];
    reaches(WORKER, zones, &[], &parts, &parts);
    let provider = "manifests: { proxmox_ccm: {} }\n";
    for node in [CP, WORKER] {
        let made = rendered(provider, &[]).unwrap();
        let legacy = made[node].v1alpha1().unwrap();
        assert_eq!(legacy.find("cluster.externalCloudProvider.enabled"), Some(&true.into()), "{node}");
    }
}

#[test]
fn storage_brings_extensions_and_its_folder() {
    let made = |more: &str| {
        let blueprint = model::resolve::resolve(&loaded(more).spec, None, None).unwrap();
        let schematics = schematics(&blueprint, &Attachments::new()).unwrap();
        schematics["default"].extensions.join(" ")
    };
    let agent = "siderolabs/qemu-guest-agent";
    assert_eq!(
        made("kubernetes: { storage: [longhorn] }\n"),
        format!("siderolabs/iscsi-tools {agent} siderolabs/util-linux-tools")
    );
    assert_eq!(
        made("kubernetes: { storage: [nfs, iscsi] }\n"),
        format!("siderolabs/iscsi-tools siderolabs/nfs-utils {agent}")
    );
    let parts = ["destination: /var/lib/longhorn", "source: /var/lib/longhorn", "- rshared"];
    reaches(WORKER, "kubernetes: { storage: [longhorn] }\n", &[], &parts, &parts);
    // A disk that is mounted there is the folder.
    let disk = "defaults: { worker: { disks: { longhorn: { size: 10G, mount: /var/lib/longhorn } } } }\nkubernetes: { storage: [longhorn] }\n";
    let text = different(WORKER, disk, &[]);
    assert_eq!(text.matches("destination: /var/lib/longhorn").count(), 1, "{text}");
    assert!(text.contains("source: /var/mnt/longhorn"), "{text}");
}

#[test]
fn versions_of_a_node_and_the_contract() {
    let more = "versions: { talos: v1.14.1, kubernetes: v1.36.0, contract: v1.12 }\nnodes: { home-work-1: { versions: { kubernetes: v1.35.4 } } }\n";
    let made = rendered(more, &[]).unwrap();
    assert!(made[CP].kind("KubeletConfig").is_none(), "documents of 1.14 are not in the contract 1.12");
    let image = |node: &str| made[node].v1alpha1().unwrap().text("machine.kubelet.image").unwrap().to_owned();
    assert_eq!(image(WORKER), "ghcr.io/siderolabs/kubelet:v1.35.4");
    assert_eq!(image(CP), "ghcr.io/siderolabs/kubelet:v1.36.0");
}

#[test]
fn images_mirrors_secure_boot_and_schematic_files() {
    let image = |more: &str, files: &[(&str, &str)]| {
        rendered(more, files).unwrap()[WORKER]
            .v1alpha1()
            .unwrap()
            .text("machine.install.image")
            .unwrap()
            .to_owned()
    };
    let agent = "ce4c980550dd2ab1b17bbf2b08801c7eb59418eafe8f279833297925d67c7515";
    assert_eq!(image("", &[]), format!("factory.talos.dev/nocloud-installer/{agent}:v1.13.9"));
    assert_eq!(
        image("image: { installer_mirror: h.example/talos, secure_boot: true }\n", &[]),
        format!("h.example/talos/nocloud-installer-secureboot/{agent}:v1.13.9")
    );
    let file = [("s.yaml", "customization: {extraKernelArgs: [noapic, nolapic]}\n")];
    let id = "9cba8e32753f91a16c1837ab8abf356af021706ef284aef07380780177d9a06c";
    assert_eq!(
        image("image: { schematic: s.yaml }\n", &file),
        format!("factory.talos.dev/nocloud-installer/{id}:v1.13.9")
    );
}

/// Started from an ISO, with no one who tells it its network as a cloud does.
#[test]
fn a_machine_that_is_not_ours_installs_itself_as_metal() {
    let more = "nodes: { metal: { role: worker, address: 10.25.150.90, external: true, install_disk: /dev/nvme0n1 } }\n";
    let made = rendered(more, &[]).unwrap();
    let config = made["metal"].v1alpha1().unwrap();
    assert_eq!(config.text("machine.install.disk"), Some("/dev/nvme0n1"));
    let image = config.text("machine.install.image").unwrap();
    assert!(image.starts_with("factory.talos.dev/metal-installer/"), "{image}");
    assert_eq!(made[WORKER].v1alpha1().unwrap().text("machine.install.disk"), None);
}

#[test]
fn a_graphics_card_brings_its_driver_and_its_runtime() {
    let more = "pools:\n  control: { role: controlplane, count: 1 }\n  work: { role: worker, count: 1, gpu: nvidia }\n";
    reaches(WORKER, more, &[], &["- name: nvidia_uvm"], &["kind: KernelModuleConfig", "name: nvidia_uvm"]);
    reaches(CP, more, &[], &["RuntimeClass"], &["RuntimeClass"]);
    assert!(!different(CP, more, &[]).contains("nvidia_uvm"), "only where the card is");
    let blueprint = model::resolve::resolve(&loaded(more).spec, None, None).unwrap();
    let extensions = &blueprint.images[&blueprint.nodes[WORKER].image].extensions;
    assert_eq!(extensions.len(), 3, "{extensions:?}");
    assert_eq!(blueprint.images[&blueprint.nodes[CP].image].extensions.len(), 1);
}

#[test]
fn the_key_for_etcd_is_there() {
    let secretbox = |versions: &str| rendered(versions, &[]).unwrap()[CP].clone();
    let old = secretbox("versions: { talos: v1.13.9, kubernetes: v1.35.4 }\n");
    assert!(
        old.v1alpha1().unwrap().text("cluster.secretboxEncryptionSecret").is_some_and(|key| key.len() == 44)
    );
    let new = secretbox("versions: { talos: v1.14.1, kubernetes: v1.36.0 }\n");
    assert!(new.kind("KubeEtcdEncryptionConfig").unwrap().to_yaml().contains("secretbox:"));
}

#[test]
fn patches_are_merged_from_far_to_near_with_the_node_s_values() {
    let more = "patches: [all.yaml]\ndefaults: { worker: { patches: [{ machine: { sysctls: { b: 'role' } } }] } }\nnodes: { home-work-1: { patches: [\"machine:\\n  sysctls: { a: '${node.name} ${node.address}' }\\n\"] } }\n";
    let made =
        rendered(more, &[("all.yaml", "machine: {sysctls: {a: all, b: all, c: '${cluster.name}'}}\n")])
            .unwrap();
    let sysctl = |node: &str, key: &str| {
        made[node].v1alpha1().unwrap().text(&format!("machine.sysctls.{key}")).map(str::to_owned)
    };
    assert_eq!(sysctl(WORKER, "a").as_deref(), Some("home-work-1 10.25.150.21"));
    assert_eq!(sysctl(WORKER, "b").as_deref(), Some("role"));
    assert_eq!((sysctl(CP, "a").as_deref(), sysctl(CP, "c").as_deref()), (Some("all"), Some("home")));
}

fn refused(more: &str) -> String {
    let found = rendered(more, &[]).expect_err(more);
    let one = |d: &Diagnostic| {
        let label = &d.labels[0];
        let place = label.place.as_ref().map_or(0, |place| place.line);
        format!("{} line {place} {} ({}): {}\n", d.code, label.path, label.note, d.message)
    };
    found.iter().map(one).collect()
}

#[test]
fn what_a_node_would_refuse_has_the_place_of_the_patch() {
    let cases = [
        (
            "patches:\n  - machine: { sysctls: { a: b } }\n  - machine: { sysctl: { a: b } }\n",
            "TS0703 line 10 patches[1] (for home-control-1 and home-work-1): the patch has parts that Talos would not read: machine.sysctl is not a key that Talos v1.13 knows here; did you mean \"sysctls\"?",
        ),
        (
            "defaults: { controlplane: { patches: [{ machine: { network: { interfaces: [{ mtu: 5 }] } } }] } }\n",
            "TS0703 line 8 defaults.controlplane.patches[0] (for home-control-1): Talos would refuse this configuration: machine.network.interfaces",
        ),
        (
            "patches: [{ machine: { sysctls: { a: '${node.nmae}' } } }]\n",
            "TS0213 line 8 patches[0] (for home-control-1 and home-work-1): could not fill in the variables of a patch: there is no patch variable ${node.nmae} here",
        ),
        ("patches: [{ apiVersion: v1alpha1, kind: KubeletConfig, image: x }]\n", "it came with v1.14"),
        (
            "patches: [{ machine: { sysctls: { a.b: { $patch: delete } } } }]\n",
            "is to be deleted, but does not exist",
        ),
    ];
    for (more, wanted) in cases {
        let text = refused(more);
        assert!(text.contains(wanted), "{wanted}\nis not in\n{text}");
        assert_eq!(text.lines().count(), 1, "{text}");
    }
}

#[test]
fn the_same_can_be_found_before_there_is_a_bundle() {
    let check = |more: &str| {
        let blueprint = model::resolve::resolve(&loaded(more).spec, None, None).unwrap();
        let schematics = schematics(&blueprint, &Attachments::new()).unwrap();
        Renderer::new(&blueprint, &schematics, &Attachments::new())
            .check("2026-01-01T00:00:00Z".parse().unwrap())
    };
    assert_eq!(check(""), Ok(()));
    assert_eq!(
        check("patches: [{ machine: { sysctls: { a: '${node.host}' } } }]\n"),
        Ok(()),
        "a host is chosen later"
    );
    assert!(check("patches: [{ machine: { sysctl: {} } }]\n").is_err());
}

#[test]
fn one_source_a_configurations_are_written_for_the_contracts_that_files_may_name() {
    for minor in 0..40 {
        let written = Contract::parse(&format!("v1.{minor}")).is_ok();
        assert_eq!(model::releases::is_contract(minor), written, "v1.{minor}");
    }
}
