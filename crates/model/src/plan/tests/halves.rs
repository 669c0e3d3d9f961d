//! Changes with two halves, one in the VM and one in the machine config: both are made, or neither.

use super::*;
use crate::observed::{ConfigChange, ConfigCost, ConfigDifference};

/// The machine config of a node differs from the file in these places.
fn differs(world: &mut Observed, rendered: &mut Rendered, node: &str, changes: &[(&str, ConfigCost)]) {
    let machine = world.machines.get_mut(node).unwrap();
    machine.config_digest = Some("other".to_owned());
    let change = |(path, costs): &(&str, ConfigCost)| ConfigChange {
        path: (*path).to_owned(),
        costs: *costs,
        difference: ConfigDifference::Changed,
    };
    machine.config_changes = Some(changes.iter().map(change).collect());
    rendered.configs.insert(node.into(), "ours".to_owned());
}

/// A setting of a node in the file.
type Setting = (&'static str, fn(&mut Node));

const NETWORK: [Setting; 4] = [
    ("mac", |node| node.mac = "BC:24:11:00:09:21".to_owned()),
    ("mtu", |node| node.mtu = Some(9000)),
    ("gateway", |node| node.gateway = "10.25.150.2".parse().unwrap()),
    ("vlan", |node| node.vlan = Some(7)),
];

#[test]
fn leftover_1_the_network_of_a_vm_waits_for_its_blocked_machine_config() {
    for (key, change) in NETWORK {
        let (mut file, mut rendered) = (blueprint(), rendered());
        let mut world = healthy_world(&file);
        change(file.nodes.get_mut("w-1").unwrap());
        differs(&mut world, &mut rendered, "w-1", &[("LinkConfig/net0", ConfigCost::Network)]);
        let told = plan(&file, &rendered, &world);
        assert_eq!((ids(&told), told.refusals.len()), (vec![], 0), "{key}: {told:?}");
        let [vm, config] = told.blocked.as_slice() else { panic!("{key}: {:?}", told.blocked) };
        assert!(vm.what.contains("together with the machine config"), "{key}: {}", vm.what);
        assert!(config.what.contains("LinkConfig/net0"), "{key}: {}", config.what);
        // What is not a half of it is changed all the same.
        file.nodes.get_mut("w-1").unwrap().memory_mib = 8192;
        let told = plan(&file, &rendered, &world);
        let Action::PowerCycleVm { set, .. } = &step(&told, "power-cycle-vm/w-1").action else { panic!() };
        assert_eq!(set.keys().collect::<Vec<_>>(), ["memory"], "{key}");
        assert_eq!(told.blocked.len(), 2, "{key}: {:?}", told.blocked);
    }
}

#[test]
fn leftover_1_what_is_not_known_of_the_machine_config_holds_the_network_too() {
    let (mut file, mut rendered) = (blueprint(), rendered());
    let mut world = healthy_world(&file);
    file.nodes.get_mut("w-1").unwrap().mtu = Some(9000);
    differs(&mut world, &mut rendered, "w-1", &[]);
    for (digest, changes) in [(Some("other".to_owned()), None), (None, Some(vec![]))] {
        let machine = world.machines.get_mut("w-1").unwrap();
        (machine.config_digest, machine.config_changes) = (digest, changes);
        assert_eq!(ids(&plan(&file, &rendered, &world)), Vec::<&str>::new());
    }
    // The machine runs what the file says.
    world.machines.get_mut("w-1").unwrap().config_digest = Some("ours".to_owned());
    assert!(ids(&plan(&file, &rendered, &world)).contains(&"power-cycle-vm/w-1"));
}

#[test]
fn leftover_1_the_guest_agent_goes_with_its_image() {
    let (mut file, rendered) = (blueprint(), rendered());
    let mut world = healthy_world(&file);
    let image = file.images.get_mut("default").unwrap();
    image.extensions = vec!["siderolabs/qemu-guest-agent".to_owned()];
    let is_said = |told: &Plan| {
        told.notes.iter().any(|note| note.text.contains("once the node runs the image in the file"))
    };
    // It runs the image already.
    world.machines.get_mut("w-1").unwrap().schematic = Some(rendered.schematics["default"].clone());
    let told = plan(&file, &rendered, &world);
    assert!(ids(&told).contains(&"power-cycle-vm/w-1") && !is_said(&told), "{told:?}");
    // It gets it: one restart for both.
    world.machines.get_mut("w-1").unwrap().schematic = Some("another".to_owned());
    let told = plan(&file, &rendered, &world);
    let at = |id: &str| ids(&told).iter().position(|step| *step == id);
    assert!(at("install-talos/w-1").is_some() && !is_said(&told), "{told:?}");
    assert!(at("install-talos/w-1") < at("power-cycle-vm/w-1"), "{told:?}");
    // It does not: neither half changes.
    world.machines.get_mut("w-1").unwrap().config_problems = vec!["machine.x: unknown".to_owned()];
    let told = plan(&file, &rendered, &world);
    assert!(at_all(&told, "w-1").is_empty() && is_said(&told), "{told:?}");
}

fn at_all(plan: &Plan, node: &str) -> Vec<String> {
    let of_node = plan.steps.iter().filter(|step| step.action.node() == Some(node));
    of_node.map(|step| step.id.0.clone()).collect()
}

#[test]
fn leftover_2_another_role_blocks_one_node_and_refuses_nothing() {
    for (node, role, kinds) in [
        ("w-1", Role::ControlPlane, ("a worker node", "control plane node")),
        ("cp-3", Role::Worker, ("a control plane node", "worker node")),
    ] {
        let (mut file, mut rendered) = (blueprint(), rendered());
        let mut world = healthy_world(&file);
        file.nodes.get_mut(node).unwrap().role = role;
        // A control plane node has keys that a worker node does not have.
        let changes = [
            ("machine.type", ConfigCost::Reboot),
            ("cluster.ca.key", ConfigCost::Services),
            ("cluster.etcd.ca", ConfigCost::Services),
            ("LinkConfig/net0", ConfigCost::Network),
        ];
        differs(&mut world, &mut rendered, node, &changes);
        let other = world.proxmox.marked.iter_mut().find(|vm| vm.mark.node == "cp-2").unwrap();
        other.config.insert("name".to_owned(), "other".to_owned());
        let told = plan(&file, &rendered, &world);
        assert_eq!(told.refusals, []);
        let [blocked] = told.blocked.as_slice() else { panic!("{node}: {:?}", told.blocked) };
        assert_eq!(blocked.node.as_deref(), Some(node));
        assert!(blocked.what.contains(kinds.0) && blocked.what.contains(kinds.1), "{}", blocked.what);
        assert!(blocked.hint.contains(&format!("`--allow-destroy {node}`")), "{}", blocked.hint);
        assert_eq!(ids(&told), ["update-vm/cp-2"], "{node}: the others are changed");
    }
}

#[test]
fn leftover_19_another_address_is_not_called_another_vm_id() {
    let mut file = blueprint();
    let mut world = healthy_world(&file);
    let node = file.nodes.get_mut("w-1").unwrap();
    (node.address, node.vmid) = ("10.25.150.51/24".parse().unwrap(), 150_051);
    world.machines.insert("w-1".into(), Machine::unresponsive("no route to host"));
    let told = plan(&file, &rendered(), &world);
    let [refusal] = told.refusals.as_slice() else { panic!("{:?}", told.refusals) };
    assert!(
        refusal.why.contains("10.25.150.21/24") && refusal.why.contains("10.25.150.51/24"),
        "{refusal:?}"
    );
    assert_eq!(told.blocked, []);
}

#[test]
fn leftover_19_what_a_running_cluster_keeps_is_refused_with_both_values() {
    let (file, mut rendered) = (blueprint(), rendered());
    let mut world = healthy_world(&file);
    for node in ["cp-1", "cp-2", "cp-3", "w-1"] {
        differs(&mut world, &mut rendered, node, &[("cluster.network.cni.name", ConfigCost::Services)]);
        let machine = world.machines.get_mut(node).unwrap();
        machine.config_changes.as_mut().unwrap()[0].difference =
            ConfigDifference::Values { old: Some("flannel".to_owned()), new: Some("none".to_owned()) };
    }
    let told = plan(&file, &rendered, &world);
    let [refusal] = told.refusals.as_slice() else { panic!("{:?}", told.refusals) };
    assert!(refusal.why.contains("cluster.network.cni.name (flannel → none)"), "{}", refusal.why);
}
