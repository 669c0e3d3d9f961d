//! Whole cluster files, rendered by the program and judged by Talos: random ones, and our examples.

use anyhow::Context;
use serde_json::{Value, json};
use talos::validate::Mode;

use super::{Run, cases::Dice, oracle::repository, program::Folder, shown};

/// How many random files are tried for each release.
const FILES: u32 = 200;

/// Where a machine of metal installs itself. Virtual machines from a disk image have no need of it.
const INSTALL: &str = "machine: {install: {disk: /dev/sda}}\n";
const INSTALL_DOCUMENT: &str = "apiVersion: v1alpha1\nkind: UnattendedInstallConfig\nprovisioning:\n    diskSelector:\n        match: disk.dev_path == \"/dev/sda\"\n";

impl Run<'_> {
    /// What the program makes of cluster files is accepted, strictly, in cloud and metal mode.
    pub(super) fn blueprints(&mut self) -> anyhow::Result<()> {
        let folder = Folder::new(self.release.version)?;
        folder.write("home.secrets.yaml", &self.secrets)?;
        for (name, text) in ATTACHED {
            folder.write(name, text)?;
        }
        let mut dice = Dice::new(6);
        let mut asked = 0;
        for number in 0..FILES {
            let file = random_file(&mut dice, self.release.minor, self.release.version);
            folder.write("cluster.yaml", &file.to_string())?;
            asked += self.judge(&folder, "cluster.yaml", &format!("file {number} {file}"))?;
        }
        let mut examples = 0;
        for (name, text) in self.examples()? {
            folder.write(&name, &text)?;
            let cluster = text.lines().find_map(|line| line.strip_prefix("cluster: ")).unwrap_or("home");
            folder.write(&format!("{}.secrets.yaml", cluster.trim()), &self.secrets)?;
            asked += self.judge(&folder, &name, &name)?;
            examples += 1;
        }
        self.report(&format!(
            "cluster files: {FILES} random ones and {examples} examples, {asked} configurations in cloud and metal mode"
        ));
        Ok(())
    }

    /// Renders a file and asks about every node of it; says about how many.
    fn judge(&mut self, folder: &Folder, file: &str, name: &str) -> anyhow::Result<usize> {
        let configs = match folder.render(file)? {
            Ok(configs) => configs,
            Err(said) => {
                self.differs(name, "was not asked", &said);
                return Ok(0);
            }
        };
        for (node, config) in &configs {
            let document =
                config.contains("\nkind: KubeletConfig\n") || config.contains("\nkind: KubeNodeConfig\n");
            let install = if document { INSTALL_DOCUMENT } else { INSTALL };
            let installed =
                self.patched_by_talos(config, install)?.unwrap_or_else(|error| format!("# {error}"));
            for (text, mode) in [(config, Mode::Cloud), (&installed, Mode::Metal)] {
                let (theirs, ours) = self.verdicts(text, mode)?;
                if theirs.is_some() || ours.is_some() {
                    self.differs(&format!("{name}: {node} {mode:?}"), &shown(&theirs), &shown(&ours));
                }
            }
        }
        Ok(configs.len())
    }

    /// Our examples, with the versions of this release.
    fn examples(&self) -> anyhow::Result<Vec<(String, String)>> {
        let mut examples = Vec::new();
        for entry in std::fs::read_dir(repository().join("examples"))? {
            let path = entry?.path();
            if path.extension().is_none_or(|it| it != "yaml") {
                continue;
            }
            let name = path.file_name().context("a name")?.to_string_lossy().into_owned();
            let text = std::fs::read_to_string(&path)?;
            examples.push((name, with_versions(&text, self.release.minor, self.release.version)));
        }
        examples.sort();
        Ok(examples)
    }
}

/// The Talos version, the Kubernetes version and the contract with which a release is asked. Machines of the oldest releases
/// are not made any more, but their contracts still are.
fn versions(minor: u32, release: &str) -> (String, String, Option<String>) {
    match minor {
        12.. => (release.to_owned(), format!("v1.{}.1", minor + 22), None),
        _ => ("v1.12.6".to_owned(), "v1.34.1".to_owned(), Some(format!("v1.{minor}"))),
    }
}

fn with_versions(text: &str, minor: u32, release: &str) -> String {
    let (talos, kubernetes, contract) = versions(minor, release);
    let contract = contract.map(|it| format!(", contract: {it}")).unwrap_or_default();
    let line = format!("versions: {{ talos: {talos}, kubernetes: {kubernetes}{contract} }}");
    let mut inside = false;
    let mut lines = Vec::new();
    for old in text.lines() {
        // The key and what is indented below it.
        inside = old.starts_with("versions:") || inside && old.starts_with(' ');
        match (old.starts_with("versions:"), inside) {
            (true, _) => lines.push(line.as_str()),
            (false, true) => {}
            (false, false) => lines.push(old),
        }
    }
    lines.join("\n") + "\n"
}

const ATTACHED: &[(&str, &str)] = &[
    (
        "patch.yaml",
        "machine: {sysctls: {vm.max_map_count: '262144', kernel.hostname: '${node.name}'}}\n---\napiVersion: v1alpha1\nkind: WatchdogTimerConfig\ndevice: /dev/watchdog0\n",
    ),
    (
        "m/ns.yaml",
        "apiVersion: v1\nkind: Namespace\nmetadata: {name: zz}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n",
    ),
    ("values.yaml", "hubble: {enabled: true}\n"),
    ("schematic.yaml", "customization: {systemExtensions: {officialExtensions: [siderolabs/iscsi-tools]}}\n"),
];

/// A cluster file that says anything that a file can say about configuration.
fn random_file(dice: &mut Dice, minor: u32, release: &str) -> Value {
    let (talos, kubernetes, contract) = versions(minor, release);
    let contract = contract.or_else(|| dice.coin().then(|| format!("v1.{}", dice.between(10, minor))));
    let file = json!({
        "cluster": "home",
        "versions": { "talos": talos, "kubernetes": kubernetes, "contract": contract },
        "proxmox": { "endpoint": "https://pve1:8006", "region": dice.coin().then_some("home") },
        "network": network(dice),
        "image": image(dice),
        "kubernetes": cluster(dice),
        "manifests": manifests(dice),
        "patches": if dice.coin() { json!(["patch.yaml"]) } else { Value::Null },
        "defaults": { "worker": traits(dice), "controlplane": traits(dice) },
        "pools": {
            "control": { "role": "controlplane", "count": dice.pick(&[1, 3]) },
            "work": {
                "role": "worker", "count": 1,
                "disks": disks(dice),
                "gpu": dice.coin().then_some("nvidia"),
            },
        },
        "endpoint": dice.coin().then_some("https://k8s.example.net:6443"),
    });
    without_nulls(file)
}

fn network(dice: &mut Dice) -> Value {
    let extra = dice.coin();
    json!({
        "cidr": "10.25.150.0/24", "gateway": "10.25.150.1", "vip": "10.25.150.10",
        "mtu": dice.coin().then_some(9000),
        "dhcp": dice.coin().then_some(true),
        "dns": if dice.coin() { json!(["9.9.9.9", "1.1.1.1"]) } else { Value::Null },
        "ntp": if dice.coin() { json!(["time.example.org"]) } else { Value::Null },
        "routes": if dice.coin() { json!([{ "to": "10.40.0.0/16", "via": "10.25.150.2", "metric": 70000 }]) } else { Value::Null },
        "extra": if extra {
            json!({
                "storage": { "cidr": "192.168.9.0/24", "bridge": "vmbr1", "routes": [{ "to": "10.41.0.0/16", "via": "192.168.9.2" }] },
                "wild": { "dhcp": true, "bridge": "vmbr2", "mtu": 1400 },
            })
        } else { Value::Null },
        "etcd": (extra && dice.coin()).then_some("storage"),
        "kubelet": (extra && dice.coin()).then_some("storage"),
    })
}

fn image(dice: &mut Dice) -> Value {
    let file = dice.coin();
    json!({
        "schematic": file.then_some("schematic.yaml"),
        "kernel_args": if !file && dice.coin() { json!(["console=ttyS0", "-quiet"]) } else { Value::Null },
        "secure_boot": dice.coin().then_some(true),
        "installer_mirror": dice.coin().then_some("harbor.example.net/talos"),
    })
}

fn cluster(dice: &mut Dice) -> Value {
    let cni = dice.pick(&[
        json!("flannel"),
        json!("none"),
        json!("cilium"),
        json!({ "name": "cilium", "version": "1.18.2", "values_file": "values.yaml", "values": { "a": { "b": [1] } } }),
        json!({ "name": "custom", "urls": ["https://c.example/a.yaml", "https://c.example/b.yaml"] }),
    ]);
    json!({
        "kube_proxy": if cni != "flannel" && dice.coin() { json!(false) } else { Value::Null },
        "cni": cni,
        "coredns": dice.coin(),
        "schedule_on_control_planes": dice.coin(),
        "dns_domain": dice.pick(&["cluster.local", "k.example.org"]),
        "cert_sans": if dice.coin() { json!(["k8s.example.org", "10.9.9.9"]) } else { Value::Null },
        "extra_mounts": if dice.coin() { json!([{ "source": "/var/lib/longhorn" }]) } else { Value::Null },
        "storage": if dice.coin() { json!([dice.pick(&["longhorn", "iscsi", "nfs"])]) } else { Value::Null },
        "registry_mirrors": if dice.coin() {
            json!({
                "docker.io": { "endpoints": ["https://m.example/v2/d"], "override_path": dice.coin(), "skip_fallback": dice.coin() },
                "*": { "endpoints": ["https://m.example"] },
            })
        } else { Value::Null },
        "oidc": if dice.coin() {
            json!({ "issuer": "https://id.example/", "client": "kubectl", "groups_claim": "groups", "username_claim": "email" })
        } else { Value::Null },
    })
}

fn manifests(dice: &mut Dice) -> Value {
    json!({
        "files": if dice.coin() { json!(["m/ns.yaml"]) } else { Value::Null },
        "urls": if dice.coin() { json!(["https://m.example/a.yaml"]) } else { Value::Null },
        "inline": if dice.coin() { json!({ "own": "apiVersion: v1\nkind: Namespace\nmetadata: {name: own}\n" }) } else { Value::Null },
        "helm": if dice.coin() {
            json!({ "x": { "repository": dice.pick(&["https://c.example", "oci://c.example/a"]), "version": "1.0.0", "values": { "a": 1 } } })
        } else { Value::Null },
        "proxmox_ccm": if dice.coin() { json!({}) } else { Value::Null },
    })
}

fn traits(dice: &mut Dice) -> Value {
    let one = |key: &str, value: &str| json!({ key: value });
    json!({
        "labels": if dice.coin() { one("topology.kubernetes.io/region", "home") } else { Value::Null },
        "annotations": if dice.coin() { one("a.example/b", "any text at all: yes") } else { Value::Null },
        "taints": if dice.coin() { one("gpu", dice.pick(&["true:NoSchedule", ":NoExecute"])) } else { Value::Null },
        "kubelet_args": if dice.coin() { one("rotate-server-certificates", dice.pick(&["true", "false"])) } else { Value::Null },
        "patches": if dice.coin() { json!([{ "machine": { "sysctls": { "a.b": "${node.address}" } } }]) } else { Value::Null },
    })
}

fn disks(dice: &mut Dice) -> Value {
    match dice.coin() {
        true => json!({
            "longhorn": { "size": "10G", "mount": "/var/lib/longhorn2" },
            "fast": { "size": "10G", "bus": "virtio", "slot": 1 },
            "slow": { "size": "10G", "bus": "sata", "slot": 1 },
        }),
        false => Value::Null,
    }
}

fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(map) => map
            .into_iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(key, value)| (key, without_nulls(value)))
            .collect(),
        other => other,
    }
}
