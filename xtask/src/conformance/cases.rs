//! The cases: patches and breakages from files, and random inputs from a seed.

use std::collections::BTreeMap;

use anyhow::Context;
use talos::config::{
    ClusterSettings, Cni, Contract, DiskId, Documents, Input, KernelModule, MachineSettings, Map, Mirror,
    NVIDIA_MODULES, Nic, Oidc, Role, Route, UserVolume, Value, ZONE_LABEL, apply_cluster, apply_machine,
    generate,
};
use talos::secrets::Bundle;

use super::oracle::repository;

/// A named piece of YAML.
pub struct Case {
    pub name: String,
    pub text: String,
}

/// The cases of a file: each starts with a line `=== name`.
pub fn read(file: &str) -> anyhow::Result<Vec<Case>> {
    let path = repository().join("conformance/cases").join(file);
    let text = std::fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
    let cases = text.split("=== ").skip(1).map(|case| {
        let (name, text) = case.split_once('\n').unwrap_or((case, ""));
        Case { name: name.to_owned(), text: text.to_owned() }
    });
    Ok(cases.collect())
}

/// Numbers that are the same for the same seed, good enough to choose cases with.
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % limit.max(1)
    }

    pub fn between(&mut self, first: u32, last: u32) -> u32 {
        first + u32::try_from(self.below(u64::from(last - first) + 1)).unwrap_or_default()
    }

    pub fn coin(&mut self) -> bool {
        self.below(2) == 0
    }

    pub fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.below(u64::try_from(length).unwrap_or(u64::MAX))).unwrap_or_default()
    }

    pub fn pick<T: Clone>(&mut self, items: &[T]) -> T {
        items[self.index(items.len())].clone()
    }

    fn some<T: Clone>(&mut self, items: &[T]) -> Vec<T> {
        items.iter().filter(|_| self.coin()).cloned().collect()
    }
}

/// A random input of the generator, with Kubernetes in the range of the release.
pub fn random_input(dice: &mut Dice, minor: u32) -> anyhow::Result<Input> {
    let contract = Contract::parse(&format!("v1.{}", 9 + dice.below(u64::from(minor) - 8)))?;
    let role = if dice.coin() { Role::ControlPlane } else { Role::Worker };
    let kubernetes = format!("1.{}.{}", u64::from(minor) + 18 + dice.below(6), dice.below(9));
    let endpoints =
        ["https://10.0.0.1:6443", "https://[fd00::1]:6443", "https://k8s.example.org", "https://a:443/x"];
    let mut input =
        Input::new(contract, role, dice.pick(&["home", "a", "prod-1"]), dice.pick(&endpoints), &kubernetes);
    input.install_disk = Some(dice.pick(&["/dev/sda", "/dev/vda", "/dev/nvme0n1"]).to_owned());
    input.install_image = dice.coin().then(|| "factory.example/nocloud-installer/abc:v1.2.3".to_owned());
    input.cert_sans = dice.some(&["a.example".to_owned(), "10.0.0.9".to_owned(), "fd00::9".to_owned()]);
    input.dns_domain = dice.pick(&["cluster.local", "example.com"]).to_owned();
    input.discovery = dice.coin();
    input.allow_scheduling_on_control_planes = dice.coin();
    input.local_api_port = dice.coin().then_some(7443);
    for key in dice.some(&["net.core.somaxconn", "vm.max_map_count"]) {
        input.sysctls.insert(key.to_owned(), "262144".to_owned());
    }
    for host in dice.some(&["docker.io", "ghcr.io"]) {
        let endpoints = vec![format!("https://{host}.example"), "http://10.0.0.1:5000".to_owned()];
        input.registry_mirrors.insert(host.to_owned(), endpoints);
    }
    Ok(input)
}

/// The question with which the oracle generates the same.
pub fn generator_question(input: &Input, secrets: &str) -> serde_json::Value {
    let mirrors: BTreeMap<&String, &Vec<String>> = input.registry_mirrors.iter().collect();
    serde_json::json!({"op": "generate", "input": {
        "contract": input.contract.to_string(),
        "controlPlane": input.role == Role::ControlPlane,
        "cluster": input.cluster_name,
        "endpoint": input.endpoint,
        "kubernetes": input.kubernetes_version,
        "secrets": secrets,
        "installDisk": input.install_disk,
        "installImage": input.install_image.clone().unwrap_or_default(),
        "kernelArgs": input.extra_kernel_args,
        "sans": input.cert_sans,
        "dnsDomain": input.dns_domain,
        "mirrors": mirrors,
        "sysctls": input.sysctls,
        "noDiscovery": !input.discovery,
        "allowScheduling": input.allow_scheduling_on_control_planes,
        "localAPIPort": input.local_api_port.unwrap_or_default(),
    }})
}

/// Texts as they stand in schematics: kernel arguments of all sorts, and random ones of the same letters.
pub fn kernel_arguments(dice: &mut Dice) -> Vec<String> {
    let known = [
        "console=ttyS0,115200n8",
        "-net.ifnames",
        "-console",
        "ip=10.0.0.1::10.0.0.2:255.255.255.0::eth0:off",
        "talos.config=https://a.example/x",
        "a:b",
        "siderolabs/qemu-guest-agent",
        "no",
        "-no",
        "y",
        "null",
        "e5",
        "E5",
        "inf",
        "-inf",
        "x1e5",
    ];
    let letters: Vec<char> = "abenotyx0159-+.:=/_,E".chars().collect();
    let random = (0..1000).map(|_| (0..=dice.below(6)).map(|_| dice.pick(&letters)).collect());
    known.into_iter().map(str::to_owned).chain(random.collect::<Vec<String>>()).collect()
}

/// The configuration of a random machine.
pub fn random_machine(dice: &mut Dice, bundle: &Bundle, minor: u32) -> anyhow::Result<Documents> {
    let mut input = random_input(dice, minor)?;
    input.cni =
        dice.pick(&[Cni::Flannel, Cni::None, Cni::Custom(vec!["https://cni.example/x.yaml".to_owned()])]);
    input.kube_proxy = dice.coin();
    input.core_dns = dice.coin();
    let settings = settings(dice, &input);
    let mut documents = generate(bundle, &input)?;
    if dice.coin() {
        apply_machine(&mut documents, input.contract, &node(dice))?;
    } else {
        apply_machine(&mut documents, input.contract, &settings)?;
        apply_cluster(&mut documents, input.contract, &cluster(dice));
    }
    Ok(documents)
}

/// Everything that can be asked for a machine, by chance.
fn settings(dice: &mut Dice, input: &Input) -> MachineSettings {
    let number = 11 + dice.below(200);
    let one = |dice: &mut Dice, key: &str, value: &str| -> BTreeMap<String, String> {
        dice.some(&[(key.to_owned(), value.to_owned())]).into_iter().collect()
    };
    let nic = |dice: &mut Dice, net: u64| Nic {
        mac: format!("BC:24:11:00:{net:02x}:{number:02x}"),
        addresses: dice.some(&[format!("10.25.{net}.{number}/24"), format!("fd00:{net}::{number}/64")]),
        gateway: dice.coin().then(|| format!("10.25.{net}.1")),
        routes: vec![Route {
            network: format!("10.{}.0.0/16", 100 + net),
            gateway: Some(format!("10.25.{net}.254")),
            metric: dice.coin().then_some(50),
        }],
        mtu: dice.coin().then_some(9000),
        vip: (net == 0 && dice.coin()).then(|| "10.25.0.10".to_owned()),
    };
    let volume = |name: &str, disk, mount: Option<&str>| UserVolume {
        name: name.to_owned(),
        disk,
        filesystem: (name == "fast").then(|| "ext4".to_owned()),
        mount: mount.map(str::to_owned),
    };
    let volumes = [
        volume("data", DiskId::Wwid("naa.5000c500abcd0001".to_owned()), None),
        volume("fast", DiskId::Serial("a b".to_owned()), Some("/var/lib/fast")),
    ];
    let volumes = if input.contract.minor() >= 10 { dice.some(&volumes) } else { Vec::new() };
    let mirror = Mirror {
        endpoints: vec!["https://m.example/v2/proxy".to_owned()],
        override_path: dice.coin(),
        skip_fallback: dice.coin(),
    };
    let modules = NVIDIA_MODULES
        .map(|name| KernelModule { name: name.to_owned(), parameters: dice.some(&["a=b".to_owned()]) });
    MachineSettings {
        hostname: format!("node-{number}"),
        nics: (0..=dice.below(3)).map(|net| nic(dice, net)).collect(),
        nameservers: dice.some(&["1.1.1.1".to_owned(), "fd00::53".to_owned()]),
        time_servers: dice.some(&["ntp.example.org".to_owned()]),
        labels: one(dice, ZONE_LABEL, "attic"),
        annotations: one(dice, "a.example/b", "any text at all"),
        taints: one(dice, "gpu", "yes:NoSchedule"),
        kubelet_args: one(dice, "v", "4"),
        kubelet_subnets: dice.some(&["10.25.0.0/24".to_owned(), "!10.25.0.10/32".to_owned()]),
        etcd_subnets: dice.some(&["10.25.0.0/24".to_owned()]),
        volumes,
        mounts: Vec::new(),
        kernel_modules: dice.some(&modules),
        mirrors: dice.some(&[("quay.io".to_owned(), mirror)]).into_iter().collect(),
    }
}

fn cluster(dice: &mut Dice) -> ClusterSettings {
    let oidc = Oidc {
        issuer: "https://id.example".to_owned(),
        client_id: "kubernetes".to_owned(),
        username_claim: dice.coin().then(|| "email".to_owned()),
        username_prefix: dice.coin().then(|| "-".to_owned()),
        groups_claim: dice.coin().then(|| "groups".to_owned()),
        groups_prefix: None,
    };
    ClusterSettings {
        oidc: dice.coin().then_some(oidc),
        external_cloud_provider: dice.coin(),
        inline_manifests: dice
            .some(&[("a".to_owned(), "apiVersion: v1\nkind: Namespace\n".to_owned())])
            .into_iter()
            .collect(),
        extra_manifests: dice.some(&["https://m.example/a.yaml".to_owned()]),
    }
}

fn node(dice: &mut Dice) -> MachineSettings {
    let number = 11 + dice.below(200);
    MachineSettings {
        hostname: format!("node-{number}"),
        nics: vec![Nic {
            mac: format!("bc:24:11:00:00:{number:02x}"),
            addresses: dice.coin().then(|| format!("10.25.150.{number}/24")).into_iter().collect(),
            gateway: dice.coin().then(|| "10.25.150.1".to_owned()),
            mtu: dice.coin().then_some(1450),
            vip: dice.coin().then(|| "10.25.150.10".to_owned()),
            ..Nic::default()
        }],
        nameservers: dice.some(&["1.1.1.1".to_owned(), "fd00::53".to_owned()]),
        time_servers: dice.some(&["10.25.150.1".to_owned(), "ntp.example.org".to_owned()]),
        labels: dice
            .some(&["zone", "a.example/b"])
            .into_iter()
            .map(|key| (key.to_owned(), "x".to_owned()))
            .collect(),
        ..MachineSettings::default()
    }
}

/// A configuration of a contract, for a release, with everything that patches and breakages look for.
pub fn base(bundle: &Bundle, contract: u32, minor: u32, role: Role) -> anyhow::Result<Documents> {
    let contract = Contract::parse(&format!("v1.{contract}"))?;
    let kubernetes = format!("1.{}.1", minor + 22);
    let mut input = Input::new(contract, role, "base", "https://base.example:6443", &kubernetes);
    input.install_disk = Some("/dev/sda".to_owned());
    input.cert_sans = vec!["zero".to_owned()];
    input.sysctls.insert("a.b".to_owned(), "0".to_owned());
    let mut documents = generate(bundle, &input)?;
    let node = MachineSettings {
        hostname: "node-1".to_owned(),
        nics: vec![Nic {
            mac: "bc:24:11:00:00:01".to_owned(),
            addresses: vec!["10.25.150.11/24".to_owned()],
            gateway: Some("10.25.150.1".to_owned()),
            mtu: Some(1450),
            ..Nic::default()
        }],
        nameservers: vec!["1.1.1.1".to_owned()],
        ..MachineSettings::default()
    };
    apply_machine(&mut documents, contract, &node)?;
    Ok(documents)
}

/// Puts the values of a breakage over a configuration, without any rule but that nothing takes out.
pub fn broken(base: &Documents, breakage: &str) -> anyhow::Result<String> {
    let mut documents: Vec<Map> = base.iter().cloned().collect();
    for change in Documents::parse(breakage)?.iter() {
        let key = |map: &Map| (map.text("kind").map(str::to_owned), map.text("name").map(str::to_owned));
        let whole = change.text("apiVersion") != Some("v1alpha1") && change.get("kind").is_some();
        match documents.iter_mut().find(|document| !whole && key(document) == key(change)) {
            Some(document) => put(document, change),
            None => documents.push(change.clone()),
        }
    }
    let texts: Vec<String> = documents.iter().map(Map::to_yaml).collect();
    Ok(texts.join("---\n"))
}

fn put(map: &mut Map, change: &Map) {
    for (key, value) in change.iter() {
        match value {
            Value::Null => drop(map.remove(key)),
            Value::Map(inner) => put(map.map_mut(key), inner),
            value => map.insert(key, value.clone()),
        }
    }
}
