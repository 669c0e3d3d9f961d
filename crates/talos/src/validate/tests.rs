//! A valid configuration of each contract, and what happens when something in it is broken.

use super::*;
use crate::{
    config::{Input, MachineSettings, Nic, Role, apply_machine, generate},
    golden,
    secrets::Bundle,
};

fn configuration(minor: u32, role: Role) -> Documents {
    let contract = Contract::parse(&format!("v1.{minor}")).unwrap();
    let kubernetes = format!("v1.{}.1", minor + 22);
    let mut input = Input::new(contract, role, "home", "https://10.25.150.10:6443", &kubernetes);
    input.install_disk = Some("/dev/sda".to_owned());
    let mut documents = generate(&golden::bundle(), &input).unwrap();
    let node = MachineSettings {
        hostname: "cp-1".to_owned(),
        nics: vec![Nic {
            mac: "bc:24:11:00:00:01".to_owned(),
            addresses: vec!["10.25.150.11/24".to_owned()],
            gateway: Some("10.25.150.1".to_owned()),
            vip: Some("10.25.150.10".to_owned()),
            ..Nic::default()
        }],
        nameservers: vec!["1.1.1.1".to_owned()],
        time_servers: vec!["10.25.150.1".to_owned()],
        labels: [("zone".to_owned(), "attic".to_owned())].into(),
        ..MachineSettings::default()
    };
    apply_machine(&mut documents, contract, &node).unwrap();
    documents
}

#[test]
fn what_we_generate_is_accepted() {
    for minor in 10..=14 {
        for role in [Role::ControlPlane, Role::Worker] {
            let documents = configuration(minor, role);
            let contract = Contract::parse(&format!("v1.{minor}")).unwrap();
            for mode in [Mode::Metal, Mode::Cloud, Mode::Container] {
                assert_eq!(validate(&documents, contract, mode), [], "v1.{minor} {role:?} {mode:?}");
            }
        }
    }
}

#[test]
fn a_newer_contract_is_refused_by_an_older_release() {
    let documents = configuration(14, Role::Worker);
    let problems = validate(&documents, Contract::parse("v1.13").unwrap(), Mode::Cloud);
    assert!(problems.iter().any(|it| {
        it.to_string().contains("KubeletConfig: kind is not known to Talos v1.13; it came with v1.14")
    }));
}

#[test]
fn everything_that_is_wrong_is_said_and_nothing_secret() {
    let mut documents = configuration(13, Role::Worker);
    let legacy = documents.v1alpha1_mut().unwrap();
    legacy.map_mut("machine").map_mut("ca").insert("key", "aHVudGVyMg==");
    legacy.map_mut("machine").map_mut("nodeLabels").insert("a b", "c");
    legacy.map_mut("machine").map_mut("kubelet").insert("image", "kubelet:v1.20.0");
    legacy.map_mut("cluster").map_mut("controlPlane").insert("endpoint", "https://:6443");
    let problems = validate(&documents, Contract::parse("v1.13").unwrap(), Mode::Cloud);
    let said: Vec<String> = problems.iter().map(ToString::to_string).collect();
    assert_eq!(
        said,
        [
            "machine.ca.key must not be on a worker",
            "cluster.controlPlane.endpoint must be a URL with a host",
            "machine.nodeLabels.a b is not a name that Kubernetes takes",
            "machine.kubelet.image has Kubernetes v1.20, but Talos v1.13 runs v1.31 to v1.36",
        ]
    );
}

/// Since 1.12 kernel arguments come from the schematic: arguments beside the setting that says so are refused where
/// something is installed. A machine that booted an image ignores both.
#[test]
fn kernel_arguments_belong_in_the_schematic() {
    let mut documents = configuration(13, Role::Worker);
    let install = documents.v1alpha1_mut().unwrap().map_mut("machine").map_mut("install");
    install.insert("extraKernelArgs", Value::List(vec!["noapic".into()]));
    let said = |mode| validate(&documents, Contract::parse("v1.13").unwrap(), mode);
    let metal: Vec<String> = said(Mode::Metal).iter().map(ToString::to_string).collect();
    assert_eq!(metal.len(), 1, "{metal:?}");
    assert!(metal[0].ends_with("kernel arguments belong in the schematic"), "{metal:?}");
}

/// An old bundle that encrypts with AES-CBC keeps doing so under the newest contract: as secretbox, which upstream writes
/// there, nothing that is in etcd could be read again.
#[test]
fn an_old_encryption_is_kept_under_every_contract() {
    let old = golden::SECRETS.replace("secretboxencryptionsecret:", "aescbcencryptionsecret:");
    assert_ne!(old, golden::SECRETS);
    let bundle = Bundle::parse(&old).unwrap();
    for (contract, key) in [("v1.13", "aescbcEncryptionSecret:"), ("v1.14", "aescbc:")] {
        let contract = Contract::parse(contract).unwrap();
        let input = Input::new(contract, Role::ControlPlane, "home", "https://10.25.150.10:6443", "v1.35.4");
        let text = generate(&bundle, &input).unwrap().to_yaml().to_string();
        assert!(text.contains(key) && !text.contains("secretbox"), "{contract:?}");
    }
}

#[test]
fn a_host_name_needs_the_automatic_one_off() {
    let mut documents = configuration(13, Role::Worker);
    let said = |documents: &Documents| {
        let problems = validate(documents, Contract::parse("v1.13").unwrap(), Mode::Cloud);
        problems.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert!(said(&documents).is_empty());
    // As generated, and then only the name patched in.
    documents.kind_mut("HostnameConfig").insert("auto", "stable");
    let problems = said(&documents);
    assert!(
        problems.len() == 1 && problems[0].contains("must be off where there is a hostname"),
        "{problems:?}"
    );
}
