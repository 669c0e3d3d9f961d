//! What is believed about a node that the file does not have.

use super::*;
use crate::observed::{Api, KubernetesNode, Machine, Member};

const ID: &str = "abc=";

fn blueprint() -> Blueprint {
    let text = "cluster: home\nversions: { talos: v1.13.9, kubernetes: v1.35.4 }\n\
         proxmox: { endpoint: 'https://pve1:8006' }\n\
         network: { cidr: 10.25.150.0/24, gateway: 10.25.150.1, vip: 10.25.150.10 }\n\
         pools: { cp: { role: controlplane, count: 1 }, w: { role: worker, count: 1 } }\n";
    let source = crate::diagnostic::Source::new("cluster.yaml", text);
    let spec = crate::load::load(&[source]).unwrap().spec;
    crate::resolve::resolve(&spec, None, Some(ID)).unwrap()
}

fn vm(node: &str, config: &[(&str, &str)]) -> Vm {
    let mark = Mark::new("home", Mark::owner_of(ID), node);
    Vm {
        vmid: 150_014,
        host: "pve2".to_owned(),
        name: node.to_owned(),
        running: true,
        lock: None,
        uuid: Some(mark.uuid(ID)),
        vmgenid: None,
        recorded: None,
        mark,
        pool: None,
        ha_state: None,
        config: config.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
        pending: BTreeMap::new(),
    }
}

fn seen(vms: Vec<Vm>) -> Observed {
    let mut seen = Observed::default();
    seen.proxmox.marked = vms;
    seen
}

/// A member of etcd with a list of these nodes.
fn member(seen: &mut Observed, node: &str, listed: &[&str]) {
    let mut machine = Machine::with(Api::Configured);
    let members = listed.iter().map(|name| Member {
        id: format!("id of {name}"),
        name: (*name).to_owned(),
        learner: false,
        peers: vec!["https://10.25.150.44:2380".to_owned()],
    });
    let members = Some(members.collect());
    machine.etcd = Etcd::Member { id: format!("id of {node}"), learner: false, members };
    seen.machines.insert(node.into(), machine);
}

fn role_of(seen: &Observed) -> Role {
    of(&blueprint(), seen)["old-1"].role
}

#[test]
fn a_node_counts_as_a_control_plane_node_until_something_shows_that_it_is_none() {
    let mut seen = seen(vec![vm("old-1", &[])]);
    assert_eq!(role_of(&seen), Role::ControlPlane, "nothing is known");
    let known = KubernetesNode::default();
    seen.kubernetes.nodes.insert("old-1".into(), known.clone());
    assert_eq!(role_of(&seen), Role::ControlPlane, "a label that is missing shows nothing");

    member(&mut seen, "home-cp-1", &["home-cp-1"]);
    assert_eq!(role_of(&seen), Role::Worker, "etcd does not have it");
    seen.kubernetes.nodes.insert("old-1".into(), KubernetesNode { control_plane: true, ..known });
    assert_eq!(role_of(&seen), Role::ControlPlane, "Kubernetes says so");
    seen.kubernetes.nodes.clear();
    member(&mut seen, "home-cp-1", &["home-cp-1", "old-1"]);
    assert_eq!(role_of(&seen), Role::ControlPlane, "etcd has it");

    seen.machines.clear();
    let mut worker = Machine::with(Api::Configured);
    worker.role = Some(Role::Worker);
    seen.machines.insert("old-1".into(), worker);
    assert_eq!(role_of(&seen), Role::Worker, "it says so itself");
    seen.machines.get_mut("old-1").unwrap().etcd = Etcd::Data;
    assert_eq!(role_of(&seen), Role::ControlPlane, "its data says more");
}

#[test]
fn an_address_comes_from_the_vm_then_kubernetes_then_etcd() {
    let dhcp = vm("old-1", &[("ipconfig0", "ip=dhcp")]);
    let mut seen = seen(vec![dhcp]);
    let address_of = |seen: &Observed| of(&blueprint(), seen)["old-1"].address.map(|a| a.to_string());
    assert_eq!(address_of(&seen), None);
    member(&mut seen, "home-cp-1", &["old-1"]);
    assert_eq!(address_of(&seen).as_deref(), Some("10.25.150.44"));
    let address = "10.25.150.33".parse().ok();
    seen.kubernetes.nodes.insert("old-1".into(), KubernetesNode { address, ..KubernetesNode::default() });
    assert_eq!(address_of(&seen).as_deref(), Some("10.25.150.33"));
    seen.proxmox.marked = vec![vm("old-1", &[("ipconfig0", "ip=10.25.150.14/24,gw=10.25.150.1")])];
    assert_eq!(address_of(&seen).as_deref(), Some("10.25.150.14"));
}

#[test]
fn its_node_has_what_is_its_own_and_nothing_to_configure() {
    let config = [
        ("ipconfig0", "ip=10.25.150.14/24,gw=10.25.150.1"),
        ("net0", "virtio=BC:24:11:00:00:14,bridge=vmbr0"),
        ("scsi0", "local-lvm:vm-150014-disk-0,size=20G"),
        ("scsi1", "local-lvm:vm-150014-disk-1,size=1T"),
        ("efidisk0", "local-lvm:vm-150014-disk-2,size=4M"),
        ("ide2", "local-lvm:vm-150014-cloudinit,media=cdrom"),
        ("unused0", "local-lvm:vm-150014-disk-3"),
    ];
    let blueprint = blueprint();
    let mut seen = seen(vec![vm("old-1", &config), vm("home-w-1", &config)]);
    seen.removed = of(&blueprint, &seen);
    assert_eq!(seen.removed.keys().collect::<Vec<_>>(), ["old-1"], "a node of the file is none of these");
    let disks = [("scsi0", 20), ("scsi1", 1024), ("unused0", 0)].map(|(key, gib)| (key.to_owned(), gib));
    assert_eq!(seen.removed["old-1"].disks, disks.into());
    let node = &nodes(&blueprint, &seen)["old-1"];
    assert_eq!((node.name.as_str(), node.vmid, node.host.as_deref()), ("old-1", 150_014, Some("pve2")));
    assert_eq!(
        (node.address.to_string(), node.mac.as_str()),
        ("10.25.150.14/24".to_owned(), "BC:24:11:00:00:14")
    );
    assert_eq!((node.uuid, node.role), (seen.proxmox.marked[0].uuid, Role::ControlPlane));
    assert!(!node.settings.dhcp && node.settings.patches.is_empty() && node.hardware.disks.is_empty());
}

#[test]
fn a_copy_of_a_vm_is_no_node_and_neither_is_another_clusters() {
    let mut copy = vm("old-1", &[]);
    copy.uuid = Some(uuid::Uuid::from_u128(7));
    let mut foreign = vm("old-2", &[]);
    foreign.mark.owner = uuid::Uuid::from_u128(8);
    assert_eq!(of(&blueprint(), &seen(vec![copy, foreign])), BTreeMap::new());
}
