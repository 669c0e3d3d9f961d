//! A pool, a cluster or a VIP that was renamed in the file: the hint is the old name.

use super::*;
use crate::observed::{ConfigChange, ConfigCost, ConfigDifference, Guest};

/// A world in which the VMs of the file exist under another name.
fn renamed(old: &str, cluster: &str, owner: uuid::Uuid) -> (Blueprint, Observed) {
    let blueprint = blueprint();
    let mut world = healthy_world(&blueprint);
    for vm in &mut world.proxmox.marked {
        if vm.mark.node == "w-1" || cluster != blueprint.cluster {
            vm.mark.cluster = cluster.to_owned();
            vm.mark.owner = owner;
            if vm.mark.node == "w-1" {
                vm.mark.node = old.to_owned();
            }
        }
        let guest = Guest { name: Some(vm.mark.node.clone()), host: vm.host.clone(), lock: None };
        world.proxmox.taken.insert(vm.vmid, guest);
    }
    let address = blueprint.nodes["w-1"].address.addr();
    let vm = world.proxmox.marked.iter_mut().find(|vm| vm.mark.node == old).unwrap();
    vm.config.insert("ipconfig0".to_owned(), format!("ip={address}/24,gw=10.25.150.1"));
    world.machines.remove("w-1");
    world.proxmox.occupied.insert(address, "something answers there on port 50000".to_owned());
    (blueprint, world)
}

#[test]
fn user_b_a_renamed_pool_is_told_with_the_name_that_the_node_has() {
    let owner = Mark::owner_of(blueprint().cluster_id.as_deref().unwrap());
    let (blueprint, world) = renamed("old-1", "home", owner);
    let plan = plan(&blueprint, &rendered(), &world);
    let [refusal] = plan.refusals.as_slice() else { panic!("one reason, not several: {:?}", plan.refusals) };
    assert_eq!(refusal.code, RefusalCode::TakenId);
    assert!(refusal.why.contains("in use by old-1, a node of this cluster"), "{}", refusal.why);
    assert!(refusal.hint.contains("write the old name again"), "{}", refusal.hint);
}

#[test]
fn user_b_a_renamed_cluster_is_told_with_its_old_name() {
    let (mut blueprint, world) = renamed("w-1", "mill", uuid::Uuid::from_u128(7));
    blueprint.cluster_id = None;
    let plan = plan(&blueprint, &rendered(), &world);
    let taken: Vec<&Refusal> = plan.refusals.iter().filter(|r| r.code == RefusalCode::TakenId).collect();
    assert!(!taken.is_empty(), "{:?}", plan.refusals);
    for refusal in taken {
        assert!(refusal.why.contains("of the cluster mill"), "{}", refusal.why);
        assert!(refusal.hint.contains("write `cluster: mill` again"), "{}", refusal.hint);
    }
    let address = plan.refusals.iter().find(|r| r.code == RefusalCode::TakenAddress && r.why.contains("w-1"));
    assert_eq!(address, None, "the same cause");
}

/// The names of its nodes start with the name of the cluster, and the bundle may have been renamed with it.
#[test]
fn a_renamed_cluster_with_its_bundle_is_told_with_its_old_name() {
    let owner = Mark::owner_of(blueprint().cluster_id.as_deref().unwrap());
    let (blueprint, world) = renamed("old-1", "mill", owner);
    let plan = plan(&blueprint, &rendered(), &world);
    let taken: Vec<&Refusal> = plan.refusals.iter().filter(|r| r.code == RefusalCode::TakenId).collect();
    assert!(taken.iter().any(|r| r.hint.contains("write `cluster: mill` again")), "{:?}", plan.refusals);
}

#[test]
fn user_b_another_vip_is_one_reason_with_the_old_one() {
    let blueprint = blueprint();
    let mut world = healthy_world(&blueprint);
    let values = |old: &str, new: &str| ConfigDifference::Values {
        old: Some(old.to_owned()),
        new: Some(new.to_owned()),
    };
    let endpoint = ConfigChange {
        path: "cluster.controlPlane.endpoint".to_owned(),
        costs: ConfigCost::Services,
        difference: values("https://10.25.150.10:6443", "https://10.25.150.9:6443"),
    };
    let mut rendered = rendered();
    for (name, machine) in &mut world.machines {
        machine.config_digest = Some("other".to_owned());
        rendered.configs.insert(name.clone(), "ours".to_owned());
        machine.config_changes = Some(vec![endpoint.clone()]);
    }
    world.machines.get_mut("cp-1").unwrap().config_changes.as_mut().unwrap().push(ConfigChange {
        path: "Layer2VIPConfig/10.25.150.10".to_owned(),
        costs: ConfigCost::Network,
        difference: ConfigDifference::Removed,
    });
    if let Some(record) = &mut world.proxmox.record {
        record.vmid = 150_077;
    }
    let plan = plan(&blueprint, &rendered, &world);
    let [refusal] = plan.refusals.as_slice() else { panic!("{:?}", plan.refusals) };
    assert!(
        refusal.why.contains("https://10.25.150.10:6443") && refusal.why.contains("https://10.25.150.9:6443"),
        "{}",
        refusal.why
    );
    assert!(refusal.hint.contains("`vip: 10.25.150.10`"), "{}", refusal.hint);
    assert!(!plan.blocked.iter().any(|blocked| blocked.hint.contains("record:")), "{:?}", plan.blocked);
}
