//! What is asked for of one machine, in the form of each contract.

use super::*;
use crate::config::{KernelModule, Mirror};

fn settings() -> MachineSettings {
    let nic = |mac: &str| Nic { mac: mac.to_owned(), ..Nic::default() };
    MachineSettings {
        hostname: "cp-1".to_owned(),
        nics: vec![
            Nic {
                addresses: vec!["10.0.0.11/24".to_owned(), "fd00::11/64".to_owned()],
                gateway: Some("10.0.0.1".to_owned()),
                vip: Some("10.0.0.10".to_owned()),
                ..nic("BC:24:11:00:00:01")
            },
            Nic {
                routes: vec![Route { network: "10.9.0.0/16".to_owned(), gateway: None, metric: Some(5) }],
                ..nic("bc:24:11:00:00:02")
            },
        ],
        taints: [("gpu".to_owned(), "NoSchedule".to_owned())].into(),
        kubelet_args: [("v".to_owned(), "4".to_owned())].into(),
        kubelet_subnets: vec!["10.0.0.0/24".to_owned()],
        etcd_subnets: vec!["10.0.0.0/24".to_owned()],
        volumes: vec![UserVolume {
            name: "data".to_owned(),
            disk: DiskId::Wwid("naa.5000c500abcd0001".to_owned()),
            filesystem: None,
            mount: Some("/var/lib/data".to_owned()),
        }],
        mounts: vec![ExtraMount {
            destination: "/var/x".to_owned(),
            source: "/var/y".to_owned(),
            kind: "bind".to_owned(),
            options: vec!["bind".to_owned(), "ro".to_owned()],
        }],
        kernel_modules: vec![KernelModule { name: "nvidia".to_owned(), parameters: Vec::new() }],
        mirrors: [(
            "docker.io".to_owned(),
            Mirror {
                endpoints: vec!["https://m.example/p".to_owned()],
                override_path: true,
                ..Mirror::default()
            },
        )]
        .into(),
        ..MachineSettings::default()
    }
}

fn applied(minor: u32, config: &str) -> Documents {
    let mut documents = Documents::parse(config).unwrap();
    let contract = Contract::parse(&format!("v1.{minor}")).unwrap();
    apply_machine(&mut documents, contract, &settings()).unwrap();
    documents
}

#[test]
fn the_documents_of_1_14() {
    let config = "version: v1alpha1\nmachine: {type: controlplane}\ncluster: {etcd: {ca: {}}}\n---\n{apiVersion: v1alpha1, kind: KubeletConfig, image: 'k:v1', config: {}}\n---\n{apiVersion: v1alpha1, kind: RegistryMirrorConfig, name: docker.io, endpoints: []}\n";
    let expected = r#"version: v1alpha1
machine:
    type: controlplane
    kubelet:
        image: k:v1
        disableManifestsDirectory: true
        extraArgs: {v: "4"}
        extraMounts:
            - {destination: /var/lib/data, type: bind, source: /var/mnt/data, options: [bind, rshared, rw]}
            - {destination: /var/x, type: bind, source: /var/y, options: [bind, ro]}
cluster: {etcd: {ca: {}, advertisedSubnets: [10.0.0.0/24]}}
---
{apiVersion: v1alpha1, kind: HostnameConfig, auto: "off", hostname: cp-1}
---
apiVersion: v1alpha1
kind: LinkAliasConfig
name: net0
selector: {match: 'mac(link.permanent_addr) == "bc:24:11:00:00:01"'}
---
apiVersion: v1alpha1
kind: LinkConfig
name: net0
up: true
addresses: [{address: 10.0.0.11/24}, {address: 'fd00::11/64'}]
routes: [{gateway: 10.0.0.1}]
---
{apiVersion: v1alpha1, kind: Layer2VIPConfig, name: 10.0.0.10, link: net0}
---
apiVersion: v1alpha1
kind: LinkAliasConfig
name: net1
selector: {match: 'mac(link.permanent_addr) == "bc:24:11:00:00:02"'}
---
{apiVersion: v1alpha1, kind: LinkConfig, name: net1, up: true, routes: [{destination: 10.9.0.0/16, metric: 5}]}
---
{apiVersion: v1alpha1, kind: DHCPv4Config, name: net1}
---
apiVersion: v1alpha1
kind: RegistryMirrorConfig
name: docker.io
endpoints: [{url: https://m.example/p, overridePath: true}]
---
{apiVersion: v1alpha1, kind: KubeNodeConfig, taints: {gpu: NoSchedule}, nodeIP: {validSubnets: [10.0.0.0/24]}}
---
{apiVersion: v1alpha1, kind: KernelModuleConfig, name: nvidia}
---
apiVersion: v1alpha1
kind: UserVolumeConfig
name: data
provisioning: {diskSelector: {match: disk.wwid == "naa.5000c500abcd0001"}, minSize: 100MiB, grow: true}
"#;
    assert_eq!(applied(14, config).to_yaml(), Documents::parse(expected).unwrap().to_yaml());
}

#[test]
fn the_fields_of_1_11() {
    let config = "version: v1alpha1\nmachine: {type: worker, kubelet: {image: 'k:v1'}}\ncluster: {}\n";
    let expected = r#"version: v1alpha1
machine:
    type: worker
    kubelet:
        image: k:v1
        nodeIP: {validSubnets: [10.0.0.0/24]}
        extraConfig: {registerWithTaints: [{key: gpu, effect: NoSchedule}]}
        extraArgs: {v: "4"}
        extraMounts:
            - {destination: /var/lib/data, type: bind, source: /var/mnt/data, options: [bind, rshared, rw]}
            - {destination: /var/x, type: bind, source: /var/y, options: [bind, ro]}
    network:
        hostname: cp-1
        interfaces:
            - deviceSelector: {hardwareAddr: 'bc:24:11:00:00:01'}
              addresses: [10.0.0.11/24, 'fd00::11/64']
              routes: [{network: 0.0.0.0/0, gateway: 10.0.0.1}]
            - deviceSelector: {hardwareAddr: 'bc:24:11:00:00:02'}
              dhcp: true
              routes: [{network: 10.9.0.0/16, metric: 5}]
    registries: {mirrors: {docker.io: {endpoints: [https://m.example/p], overridePath: true}}}
    kernel: {modules: [{name: nvidia}]}
cluster: {}
---
apiVersion: v1alpha1
kind: UserVolumeConfig
name: data
provisioning: {diskSelector: {match: disk.wwid == "naa.5000c500abcd0001"}, minSize: 100MiB, grow: true}
"#;
    assert_eq!(applied(11, config).to_yaml(), Documents::parse(expected).unwrap().to_yaml());
}

#[test]
fn a_worker_of_1_14_registers_with_its_taints() {
    let mut documents = Documents::parse("version: v1alpha1\nmachine: {type: worker}\n---\n{apiVersion: v1alpha1, kind: KubeletConfig, image: 'k:v1', config: {}}\n").unwrap();
    let taints = [("gpu".to_owned(), "true:NoSchedule".to_owned())].into();
    let settings = MachineSettings { taints, ..MachineSettings::default() };
    apply_machine(&mut documents, crate::contract::NEWEST, &settings).unwrap();
    let registered = documents.kind("KubeletConfig").unwrap().find("config.registerWithTaints").unwrap();
    let expected = Documents::parse("a: [{key: gpu, value: 'true', effect: NoSchedule}]").unwrap();
    assert_eq!(Some(registered), expected.iter().next().unwrap().get("a"));
    assert_eq!(documents.kind("KubeNodeConfig"), None);
}

#[test]
fn what_a_contract_lacks_is_refused() {
    let mut documents = Documents::parse("machine: {type: worker}\n").unwrap();
    let oldest = crate::contract::OLDEST;
    let error = apply_machine(&mut documents, oldest, &settings()).unwrap_err();
    assert!(error.to_string().contains("choose v1.10 or a newer one"), "{error}");
}

/// What nearly every machine has.
fn plain() -> MachineSettings {
    MachineSettings {
        hostname: "cp-1".to_owned(),
        nics: vec![Nic {
            mac: "BC:24:11:00:00:01".to_owned(),
            addresses: vec!["10.25.150.11/24".to_owned()],
            gateway: Some("10.25.150.1".to_owned()),
            mtu: Some(1450),
            vip: Some("10.25.150.10".to_owned()),
            ..Nic::default()
        }],
        nameservers: vec!["1.1.1.1".to_owned()],
        time_servers: vec!["10.25.150.1".to_owned()],
        labels: [("zone".to_owned(), "attic".to_owned())].into(),
        ..MachineSettings::default()
    }
}

fn machine(kind: &str) -> Documents {
    Documents::parse(&format!(
        "version: v1alpha1\nmachine:\n    type: {kind}\n---\napiVersion: v1alpha1\nkind: HostnameConfig\nauto: stable\n"
    ))
    .unwrap()
}

#[test]
fn documents_name_the_card_by_its_mac() {
    let mut documents = machine("controlplane");
    apply_machine(&mut documents, Contract::parse("v1.13").unwrap(), &plain()).unwrap();
    let expected = r#"version: v1alpha1
machine: {type: controlplane, nodeLabels: {zone: attic}, kubelet: {}}
---
{apiVersion: v1alpha1, kind: HostnameConfig, auto: "off", hostname: cp-1}
---
apiVersion: v1alpha1
kind: LinkAliasConfig
name: net0
selector:
    match: mac(link.permanent_addr) == "bc:24:11:00:00:01"
---
apiVersion: v1alpha1
kind: LinkConfig
name: net0
up: true
mtu: 1450
addresses: [{address: 10.25.150.11/24}]
routes: [{gateway: 10.25.150.1}]
---
{apiVersion: v1alpha1, kind: Layer2VIPConfig, name: 10.25.150.10, link: net0}
---
{apiVersion: v1alpha1, kind: ResolverConfig, nameservers: [{address: 1.1.1.1}]}
---
{apiVersion: v1alpha1, kind: TimeSyncConfig, ntp: {servers: [10.25.150.1]}}
"#;
    assert_eq!(documents.to_yaml(), Documents::parse(expected).unwrap().to_yaml());
}

#[test]
fn before_1_12_they_are_fields_of_the_machine() {
    let mut documents =
        Documents::parse("version: v1alpha1\nmachine: {type: controlplane, network: {}}\n").unwrap();
    apply_machine(&mut documents, Contract::parse("v1.11").unwrap(), &plain()).unwrap();
    let expected = r"version: v1alpha1
machine:
    type: controlplane
    network:
        hostname: cp-1
        interfaces:
            - deviceSelector: {hardwareAddr: 'bc:24:11:00:00:01'}
              addresses: [10.25.150.11/24]
              routes: [{network: 0.0.0.0/0, gateway: 10.25.150.1}]
              mtu: 1450
              vip: {ip: 10.25.150.10}
        nameservers: [1.1.1.1]
    time: {servers: [10.25.150.1]}
    nodeLabels: {zone: attic}
    kubelet: {}
";
    assert_eq!(documents.to_yaml(), Documents::parse(expected).unwrap().to_yaml());
}

#[test]
fn a_worker_holds_no_shared_address_and_dhcp_is_asked_without_one_of_its_own() {
    let mut documents = machine("worker");
    let mut settings = plain();
    settings.nics[0].addresses.clear();
    apply_machine(&mut documents, Contract::parse("v1.14").unwrap(), &settings).unwrap();
    assert!(documents.kind("Layer2VIPConfig").is_none());
    assert_eq!(documents.kind("DHCPv4Config").unwrap().text("name"), Some("net0"));
    assert!(documents.kind("LinkConfig").unwrap().get("addresses").is_none());
    assert_eq!(documents.kind("KubeNodeConfig").unwrap().text("labels.zone"), Some("attic"));
}
