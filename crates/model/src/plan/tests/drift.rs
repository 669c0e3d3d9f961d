//! What someone changed, and what becomes of it.

use super::*;
use crate::names::VmRef;
use crate::observed::{ConfigChange, ConfigCost, ConfigDifference};
use crate::plan::drift;
use crate::step::Disruption;

/// The plan for a healthy cluster in which `w-1` was changed in Proxmox.
fn drifted(blueprint: &Blueprint, change: impl FnOnce(&mut Vm)) -> Plan {
    let mut world = healthy_world(blueprint);
    change(world.proxmox.marked.iter_mut().find(|v| v.mark.node == "w-1").unwrap());
    plan(blueprint, &rendered(), &world)
}

fn set(vm: &mut Vm, key: &str, value: &str) {
    vm.config.insert(key.to_owned(), value.to_owned());
}

#[test]
fn what_does_not_disturb_is_put_right() {
    let blueprint = blueprint();
    let drifted = drifted(&blueprint, |vm| {
        set(vm, "tags", "mine");
        set(vm, "onboot", "0");
        set(vm, "name", "other");
        set(vm, "scsi0", "local-lvm:vm-1-scsi0,backup=0,discard=on,iothread=1,iops=90,size=20G,ssd=1");
        set(vm, "scsi7", "local-lvm:vm-9999-pvc-1,size=7G");
        vm.host = "pve3".to_owned();
    });
    assert_eq!(drifted.refusals, []);
    assert_eq!(drifted.notes, [], "where it runs is Proxmox' to decide");
    let update = step(&drifted, "update-vm/w-1");
    assert_eq!(update.disruption, Disruption::InPlace);
    let Action::UpdateVm { vm: VmRef { host, .. }, set, says, .. } = &update.action else {
        panic!("{:?}", update.action)
    };
    assert_eq!(host, "pve3");
    let set: Vec<String> = set.iter().map(|(k, v)| format!("{k}={v}")).collect();
    assert_eq!(
        set,
        ["name=w-1", "onboot=1", "scsi0=local-lvm:vm-1-scsi0,discard=on,iops=90,iothread=1,size=20G,ssd=1",]
    );
    assert_eq!(says.len(), 3, "{says:?}");
}

#[test]
fn a_lost_tag_comes_back_beside_those_of_others() {
    let mut blueprint = blueprint();
    blueprint.nodes.get_mut("w-1").unwrap().hardware.tags = vec!["talosmith".to_owned(), "worker".to_owned()];
    let drifted = drifted(&blueprint, |vm| set(vm, "tags", "mine;talosmith"));
    let Action::UpdateVm { set, says, .. } = &step(&drifted, "update-vm/w-1").action else { panic!() };
    assert_eq!(set["tags"], "mine;talosmith;worker");
    assert_eq!(says, &["tags + worker"]);
}

#[test]
fn what_needs_a_stop_and_start_is_a_unit_of_the_node() {
    let blueprint = blueprint();
    let drifted = drifted(&blueprint, |vm| {
        set(vm, "cores", "8");
        set(vm, "memory", "2048");
    });
    assert_eq!((drifted.refusals.len(), drifted.blocked.len()), (0, 0), "{drifted:?}");
    let Action::PowerCycleVm { vm: VmRef { host, vmid }, set, says, .. } =
        &step(&drifted, "power-cycle-vm/w-1").action
    else {
        panic!("{:?}", drifted.steps)
    };
    assert_eq!((host.as_str(), *vmid), ("pve1", 150_021));
    assert_eq!((set["cores"].as_str(), set["memory"].as_str(), set.len()), ("2", "4096", 2));
    assert_eq!(says, &["cores 8 → 2", "memory 2048 MiB → 4096 MiB"]);
}

#[test]
fn first_use_1_a_change_that_still_waits_is_taken_back_and_ours_is_put_into_force() {
    let blueprint = blueprint();
    let plan = drifted(&blueprint, |vm| {
        vm.pending.insert("cores".to_owned(), Some("8".to_owned()));
    });
    let update = step(&plan, "update-vm/w-1");
    assert_eq!((update.disruption, plan.units.len()), (Disruption::None, 0));
    assert!(matches!(&update.action, Action::UpdateVm { set, .. } if set["cores"] == "2"));
    let plan = drifted(&blueprint, |vm| {
        set(vm, "cores", "8");
        vm.pending.insert("cores".to_owned(), Some("2".to_owned()));
    });
    let Action::PowerCycleVm { set: keys, says, .. } = &step(&plan, "power-cycle-vm/w-1").action else {
        panic!()
    };
    assert_eq!((keys.len(), says.len()), (0, 1), "Proxmox has the value: {says:?}");
    assert_eq!(says, &["cores 8 → 2, which waits in Proxmox"]);
    // One that waits and is neither what runs nor what the file says is overwritten.
    let plan = drifted(&blueprint, |vm| {
        set(vm, "cores", "8");
        vm.pending.insert("cores".to_owned(), Some("16".to_owned()));
    });
    let Action::PowerCycleVm { set, .. } = &step(&plan, "power-cycle-vm/w-1").action else { panic!() };
    assert_eq!(set["cores"], "2");
}

#[test]
fn what_an_installed_system_does_not_survive_takes_a_new_node() {
    let blueprint = blueprint();
    for (key, value) in [("bios", "ovmf"), ("machine", "pc")] {
        for waits in [false, true] {
            let plan = drifted(&blueprint, |vm| {
                let file = vm.config.get(key).cloned();
                set(vm, key, value);
                if waits {
                    vm.pending.insert(key.to_owned(), file);
                }
            });
            assert_eq!((plan.steps.len(), plan.units.len(), plan.refusals.len()), (0, 0, 0), "{key}");
            let [blocked] = plan.blocked.as_slice() else { panic!("{:?}", plan.blocked) };
            assert_eq!((blocked.node.as_deref(), blocked.disruption), (Some("w-1"), Disruption::Replace));
            assert!(blocked.hint.contains("`talosmith node replace w-1 --force`"), "{}", blocked.hint);
        }
    }
    let bus = drifted(&blueprint, |vm| {
        let disk = vm.config.remove("scsi0").unwrap();
        vm.config.insert("virtio0".to_owned(), disk);
    });
    let [blocked] = bus.blocked.as_slice() else { panic!("{:?}", bus.blocked) };
    assert_eq!((blocked.disruption, bus.steps.len()), (Disruption::Replace, 0));
}

#[test]
fn a_vm_that_is_off_takes_everything_before_it_starts() {
    let blueprint = blueprint();
    let plan = drifted(&blueprint, |vm| {
        vm.running = false;
        set(vm, "cores", "8");
        set(vm, "scsi0", "local-lvm:vm-1-scsi0,discard=on,iothread=1,size=10G,ssd=1");
        vm.config.remove("ide2");
    });
    let at = |id: &str| ids(&plan).iter().position(|s| *s == id).unwrap_or_else(|| panic!("no {id}"));
    assert!(at("update-vm/w-1") < at("grow-disk/w-1/scsi0"));
    assert!(at("grow-disk/w-1/scsi0") < at("start-vm/w-1"));
    let Action::UpdateVm { set, .. } = &step(&plan, "update-vm/w-1").action else { panic!() };
    assert_eq!((set["cores"].as_str(), set["ide2"].as_str()), ("2", "local-lvm:cloudinit"));
}

#[test]
fn disks_grow_and_appear_but_never_shrink_or_take_anothers_place() {
    let mut blueprint = blueprint();
    blueprint.nodes.get_mut("w-1").unwrap().hardware.disks.push(data_disk());
    let mut world = healthy_world(&blueprint);
    let examined = |world: &Observed| {
        let vm = world.proxmox.marked.iter().find(|v| v.mark.node == "w-1").unwrap();
        drift::examine(&blueprint, &blueprint.nodes["w-1"], vm, None)
    };
    assert_eq!(examined(&world), drift::Drift::default());
    let mut become_ = |value: Option<&str>| {
        let vm = world.proxmox.marked.iter_mut().find(|v| v.mark.node == "w-1").unwrap();
        vm.config.remove("scsi1");
        if let Some(value) = value {
            set(vm, "scsi1", value);
        }
        examined(&world)
    };
    let missing = become_(None);
    assert_eq!(missing.says, ["new disk scsi1 of 100 GiB on local-lvm"]);
    assert_eq!(missing.disruption, Some(Disruption::InPlace));
    let ours = "discard=on,iothread=1,ssd=1,wwn=0x5000000000000001";
    assert_eq!(
        become_(Some(&format!("l:vm-1-disk-1,size=50G,{ours}"))).grow,
        [("scsi1".to_owned(), 50, 100)]
    );
    let large = become_(Some(&format!("l:vm-1-disk-1,size=200G,{ours}")));
    assert!(large.blocked[0].what.contains("a disk never shrinks"), "{large:?}");
    let anothers = become_(Some("l:vm-9999-pvc,size=100G,discard=on,iothread=1,ssd=1"));
    assert!(anothers.blocked[0].what.contains("is not the disk that the file means"), "{anothers:?}");
    assert!(anothers.set.is_empty());
}

#[test]
fn memory_is_added_while_a_vm_runs_that_was_started_for_it() {
    let mut blueprint = blueprint();
    blueprint.nodes.get_mut("w-1").unwrap().hardware.memory_hotplug = true;
    let mut world = healthy_world(&blueprint);
    let at = world.proxmox.marked.iter().position(|v| v.mark.node == "w-1").unwrap();
    let examined = |mib: u64, vm: &Vm| {
        let mut blueprint = blueprint.clone();
        blueprint.nodes.get_mut("w-1").unwrap().memory_mib = mib;
        drift::examine(&blueprint, &blueprint.nodes["w-1"], vm, None)
    };
    let has = blueprint.nodes["w-1"].memory_mib;
    assert_eq!(examined(has, &world.proxmox.marked[at]), drift::Drift::default());
    let more = examined(has + 512, &world.proxmox.marked[at]);
    assert_eq!((more.disruption, more.power_cycle.is_empty()), (Some(Disruption::InPlace), true), "{more:?}");
    assert_eq!(more.set["memory"], (has + 512).to_string());
    assert!(more.notes[0].text.contains("service kubelet restart"), "{more:?}");
    let less = examined(has - 512, &world.proxmox.marked[at]);
    assert!(less.set.is_empty() && less.power_cycle.set.contains_key("memory"), "{less:?}");
    world.proxmox.marked[at].config.remove("numa");
    let unprepared = examined(has + 512, &world.proxmox.marked[at]);
    assert!(unprepared.set.is_empty(), "{unprepared:?}");
    assert_eq!(unprepared.power_cycle.set.keys().collect::<Vec<_>>(), ["memory", "numa"]);
}

/// The same disk at another place: a second one would have the same name for Talos, and the first one has the data.
#[test]
fn a_disk_whose_slot_changed_in_the_file_is_neither_doubled_nor_offered_for_deletion() {
    use crate::spec::Bus;
    let mut blueprint = blueprint();
    blueprint.nodes.get_mut("w-1").unwrap().hardware.disks.push(data_disk());
    let world = healthy_world(&blueprint);
    let vm = world.proxmox.marked.iter().find(|v| v.mark.node == "w-1").unwrap();
    for (bus, slot) in [(Bus::Scsi, 2), (Bus::Virtio, 1)] {
        let disk = &mut blueprint.nodes.get_mut("w-1").unwrap().hardware.disks[0];
        (disk.bus, disk.slot) = (bus, slot);
        let drift = drift::examine(&blueprint, &blueprint.nodes["w-1"], vm, None);
        assert!(
            drift.set.is_empty() && drift.power_cycle.is_empty() && drift.left_disks.is_empty(),
            "{drift:?}"
        );
        assert!(drift.blocked[0].what.contains("is at scsi1 of VM"), "{drift:?}");
    }
}

/// The plan for a healthy cluster in which some nodes run another configuration.
fn reconfigured(nodes: &[&str], costs: &[ConfigCost], allowed: &[&str]) -> Plan {
    let blueprint = blueprint();
    let (mut world, mut rendered) = (healthy_world(&blueprint), rendered());
    for node in nodes {
        let machine = world.machines.get_mut(*node).unwrap();
        machine.config_digest = Some("other".to_owned());
        let change = |costs: &ConfigCost| ConfigChange {
            path: format!("at.{costs:?}"),
            costs: *costs,
            difference: ConfigDifference::Changed,
        };
        machine.config_changes = Some(costs.iter().map(change).collect());
        rendered.configs.insert((*node).into(), "ours".to_owned());
    }
    plan_allowing(&blueprint, &rendered, &world, &Allowed::data_of(allowed.iter().copied()))
}

#[test]
fn a_configuration_that_the_machine_follows_at_once_is_put_right_in_place() {
    assert!(reconfigured(&["w-1"], &[], &[]).is_empty(), "the same in other words");
    let hot = reconfigured(&["w-1"], &[ConfigCost::Nothing], &[]);
    assert_eq!(ids(&hot), ["reconfigure/w-1", "check-health"]);
    assert_eq!((step(&hot, "reconfigure/w-1").disruption, hot.units.len()), (Disruption::InPlace, 0));
}

#[test]
fn what_may_cut_a_machine_off_is_left_and_nothing_else_of_the_plan_is() {
    let plan = reconfigured(&["w-1", "cp-1"], &[ConfigCost::Nothing, ConfigCost::Network], &[]);
    assert_eq!((plan.steps.len(), plan.refusals.len()), (0, 0), "{plan:?}");
    let blocked: Vec<_> = plan.blocked.iter().map(|b| (b.node.as_deref(), b.disruption)).collect();
    let class = Disruption::ServiceRestart;
    assert_eq!(blocked, [(Some("cp-1"), class), (Some("w-1"), class)]);
    assert!(plan.blocked[0].what.contains("at.Network (changed)"), "{}", plan.blocked[0].what);
}

#[test]
fn first_use_1_another_image_is_a_change_that_is_left() {
    let blueprint = blueprint();
    let mut world = healthy_world(&blueprint);
    let mut rendered = rendered();
    rendered.configs.insert("w-1".into(), "ours".to_owned());
    let wanted = rendered.schematics["default"].clone();
    let mut planned = |runs: Option<&str>, digest: &str, costs: &[ConfigCost]| {
        let machine = world.machines.get_mut("w-1").unwrap();
        machine.schematic = runs.map(str::to_owned);
        machine.config_digest = Some(digest.to_owned());
        let change = |costs: &ConfigCost| ConfigChange {
            path: format!("at.{costs:?}"),
            costs: *costs,
            difference: ConfigDifference::Changed,
        };
        machine.config_changes = Some(costs.iter().map(change).collect());
        plan(&blueprint, &rendered, &world)
    };
    // The configuration that it was given names the file's image, and it runs another one.
    let stale = planned(Some("376567988ad370138ad8b269"), "ours", &[]);
    assert!(stale.blocked.is_empty() && stale.refusals.is_empty());
    assert_eq!(
        step(&stale, "install-talos/w-1").reason,
        "it runs the schematic 376567988ad3, and the file asks for ce4c980550dd (extensions, kernel arguments)"
    );
    assert!(ids(&stale).contains(&"register-schematic/default"), "the factory may not know it");
    // Writing it into the configuration would put nothing into force, so that alone is no step.
    let changed = planned(Some("376567988ad370138ad8b269"), "other", &[ConfigCost::Install]);
    assert_eq!((ids(&changed), changed.blocked.len()), (ids(&stale), 0));
    let unknown = planned(None, "other", &[ConfigCost::Install]);
    assert_eq!((ids(&unknown).len(), unknown.blocked.len()), (0, 1), "not said is not the same");
    // What the machine follows goes on.
    let both =
        planned(Some("376567988ad370138ad8b269"), "other", &[ConfigCost::Install, ConfigCost::Nothing]);
    assert!(ids(&both).contains(&"install-talos/w-1") && both.blocked.is_empty());
    assert_eq!(
        step(&both, "reconfigure/w-1").reason,
        "its configuration differs from the file in at.Nothing (changed)"
    );
    // Someone upgraded it: the configuration follows.
    let upgraded = planned(Some(&wanted), "other", &[ConfigCost::Install]);
    assert_eq!((ids(&upgraded), upgraded.blocked.len()), (vec!["reconfigure/w-1", "check-health"], 0));
    assert!(planned(Some(&wanted), "ours", &[]).is_empty());
}

#[test]
fn control_planes_are_configured_anew_one_after_another_and_workers_last() {
    let plan = reconfigured(&["w-1", "cp-1", "cp-2", "cp-3"], &[ConfigCost::Nothing], &[]);
    let after = |id: &str| step(&plan, id).after.iter().map(|id| id.0.clone()).collect::<Vec<_>>();
    assert_eq!(after("reconfigure/cp-1"), [] as [&str; 0]);
    assert_eq!(after("reconfigure/cp-2"), ["reconfigure/cp-1"]);
    assert_eq!(after("reconfigure/cp-3"), ["reconfigure/cp-2"]);
    assert_eq!(after("reconfigure/w-1"), ["reconfigure/cp-3"]);
}

#[test]
fn a_volume_is_unmounted_only_where_that_is_allowed_by_name() {
    let costs = [ConfigCost::Nothing, ConfigCost::Volume];
    for allowed in [&[] as &[&str], &["cp-1"]] {
        let left = reconfigured(&["w-1"], &costs, allowed);
        assert_eq!((left.steps.len(), left.refusals.len()), (0, 0), "{left:?}");
        let [blocked] = left.blocked.as_slice() else { panic!("{:?}", left.blocked) };
        assert_eq!((blocked.node.as_deref(), blocked.disruption), (Some("w-1"), Disruption::Delete));
        assert!(blocked.what.starts_with("w-1 has at.Volume, and the file does not"), "{}", blocked.what);
        assert!(blocked.hint.contains("`--allow-destroy w-1`"), "{}", blocked.hint);
    }
    let allowed = reconfigured(&["w-1"], &costs, &["w-1"]);
    assert_eq!(ids(&allowed), ["reconfigure/w-1", "verify-node/w-1", "check-health"]);
    assert_eq!(step(&allowed, "reconfigure/w-1").disruption, Disruption::ServiceRestart);
    assert!(step(&allowed, "reconfigure/w-1").reason.ends_with("at.Volume is unmounted"));
}

#[test]
fn the_address_of_a_machine_is_not_changed() {
    let mut blueprint = blueprint();
    let mut world = healthy_world(&blueprint);
    blueprint.nodes.get_mut("w-1").unwrap().address = "10.25.150.51/24".parse().unwrap();
    // Someone wrote into Proxmox what the machine does not have.
    let put_right = plan(&blueprint, &rendered(), &world);
    assert_eq!(ids(&put_right), ["update-vm/w-1", "check-health"]);
    world.machines.insert("w-1".into(), Machine::unresponsive("no answer"));
    for running in [true, false] {
        let vm = world.proxmox.marked.iter_mut().find(|vm| vm.mark.node == "w-1").unwrap();
        vm.running = running;
        let refused = plan(&blueprint, &rendered(), &world);
        assert!(refused.steps.is_empty());
        assert_eq!(
            refused.refusals[0].why,
            "w-1 (VM 150021) was created with the address 10.25.150.21/24, the file says 10.25.150.51/24, and it does not answer there: \
             the address of a machine is not changed"
        );
        assert!(refused.refusals[0].hint.contains("delete VM 150021 and apply"));
    }
    // One that is off and that no one knows of was never configured: it takes the new address at its first start.
    world.kubernetes.nodes.remove("w-1");
    let started = plan(&blueprint, &rendered(), &world);
    assert_eq!(started.refusals, []);
    assert!(ids(&started).starts_with(&["update-vm/w-1", "start-vm/w-1"]), "{:?}", ids(&started));
}

#[test]
fn what_the_file_does_not_name_any_more_is_told_and_stays() {
    let blueprint = blueprint();
    let plan = drifted(&blueprint, |vm| {
        set(vm, "scsi1", "local-lvm:vm-150021-disk-1,size=100G,wwn=0x59387dea28bb01e3");
        set(vm, "scsi2", "local-lvm:vm-9999-pvc-1,size=7G,wwn=0x5056432d49443031");
        set(vm, "scsi3", "local-lvm:vm-150021-disk-2,size=1G");
        set(vm, "startup", "order=3");
        set(vm, "cpuunits", "200");
    });
    assert_eq!((plan.steps.len(), plan.refusals.len()), (0, 0));
    let told: Vec<&str> = plan.notes.iter().map(|note| note.text.as_str()).collect();
    assert_eq!(
        told,
        [
            "w-1 (VM 150021) has CPU units 200, of which the file says nothing; it is not changed",
            "w-1 (VM 150021) has startup order=3, of which the file says nothing; it is not changed",
        ]
    );
    let [blocked] = plan.blocked.as_slice() else { panic!("only the disk of ours: {:?}", plan.blocked) };
    assert_eq!((blocked.node.as_deref(), blocked.disruption), (Some("w-1"), Disruption::Delete));
    assert!(blocked.what.contains("the disk scsi1 with 100 GiB"), "{}", blocked.what);
    assert!(blocked.hint.contains("`--allow-destroy w-1/scsi1`"), "{}", blocked.hint);
}

#[test]
fn first_use_4_another_host_or_vm_id_is_a_change_that_is_left() {
    let mut blueprint = blueprint();
    let world = healthy_world(&blueprint);
    let node = blueprint.nodes.get_mut("w-1").unwrap();
    (node.host, node.host_pinned, node.vmid) = (Some("pve2".to_owned()), true, 4711);
    let plan = plan(&blueprint, &rendered(), &world);
    assert_eq!(plan.refusals, []);
    let told: Vec<&str> = plan.blocked.iter().map(|blocked| blocked.what.as_str()).collect();
    assert_eq!(
        told,
        [
            "w-1 has the VM ID 150021, and the file says 4711; the ID of a VM cannot be changed",
            "w-1 is on pve1, and the file says pve2; it does not move: it is not known whether it can be migrated",
        ]
    );
}

#[test]
fn f9_another_kubernetes_is_an_upgrade_and_said_once() {
    let blueprint = blueprint();
    let (mut world, mut rendered) = (healthy_world(&blueprint), rendered());
    let change = |path: &str, image: &str| ConfigChange {
        path: path.to_owned(),
        costs: ConfigCost::Services,
        difference: ConfigDifference::Values {
            old: Some(format!("{image}:v1.35.3")),
            new: Some(format!("{image}:v1.35.4")),
        },
    };
    for node in ["cp-1", "w-1"] {
        let machine = world.machines.get_mut(node).unwrap();
        machine.config_digest = Some("other".to_owned());
        machine.config_changes = Some(vec![
            change("machine.kubelet.image", "ghcr.io/siderolabs/kubelet"),
            change("KubeAPIServerConfig: image", "registry.k8s.io/kube-apiserver"),
        ]);
        rendered.configs.insert(node.into(), "ours".to_owned());
    }
    let told = plan(&blueprint, &rendered, &world);
    assert_eq!((told.refusals.len(), told.blocked.len()), (0, 0), "{told:?}");
    let upgrades = [
        "pull-images/cp-1",
        "pull-images/w-1",
        "snapshot-etcd",
        "upgrade-component/cp-1/kube-apiserver",
        "upgrade-component/cp-1/kubelet",
        "verify-node/cp-1",
        "upgrade-component/w-1/kubelet",
        "verify-node/w-1",
    ];
    let steps: Vec<&str> = ids(&told).into_iter().filter(|id| *id != "check-health").collect();
    assert_eq!(steps, upgrades);
    // Another registry is a configuration like any other.
    let machine = world.machines.get_mut("w-1").unwrap();
    machine.config_changes = Some(vec![ConfigChange {
        difference: ConfigDifference::Values {
            old: Some("ghcr.io/siderolabs/kubelet:v1.35.4".to_owned()),
            new: Some("mirror.lan/kubelet:v1.35.4".to_owned()),
        },
        ..change("machine.kubelet.image", "")
    }]);
    world.machines.get_mut("cp-1").unwrap().config_changes = Some(vec![]);
    let told = plan(&blueprint, &rendered, &world);
    assert_eq!((told.refusals.len(), told.blocked.len()), (0, 0), "{told:?}");
    let reconfigure = step(&told, "reconfigure/w-1");
    assert_eq!(reconfigure.disruption, Disruption::ServiceRestart);
    let change = "machine.kubelet.image (ghcr.io/siderolabs/kubelet:v1.35.4 → mirror.lan/kubelet:v1.35.4)";
    assert!(reconfigure.reason.contains(change), "{}", reconfigure.reason);
}

/// A setting of a VM that runs, waits and is asked for, in every combination: it is changed once, or said once, and never both.
#[test]
fn p16_a_setting_is_changed_in_one_way_only() {
    let blueprint = blueprint();
    let node = &blueprint.nodes["w-1"];
    let settings = crate::vm::settings(&blueprint, node);
    for (key, wanted) in &settings {
        let other = match key.as_str() {
            "memory" | "cores" | "sockets" => "7".to_owned(),
            "net0" => wanted.replace("bridge=", "bridge=x"),
            _ => format!("x{wanted}"),
        };
        let runs = [None, Some(wanted.clone()), Some(other.clone())];
        let waits = [None, Some(None), Some(Some(wanted.clone())), Some(Some(other.clone()))];
        for (now, next) in runs.iter().flat_map(|now| waits.iter().map(move |next| (now, next))) {
            for running in [true, false] {
                let mut world = healthy_world(&blueprint);
                let vm = world.proxmox.marked.iter_mut().find(|vm| vm.mark.node == "w-1").unwrap();
                vm.running = running;
                vm.config.remove(key);
                vm.config.extend(now.clone().map(|now| (key.clone(), now)));
                vm.pending.extend(next.clone().map(|next| (key.clone(), next)));
                let drift = drift::examine(&blueprint, node, vm, world.machines.get("w-1"));
                let case = format!("{key} {now:?} {next:?} {running}: {drift:?}");
                let at_once = usize::from(drift.set.contains_key(key)) + drift.rewire.set.len();
                let restarts = drift.power_cycle.says.len();
                let ways = [at_once, restarts, drift.blocked.len()];
                assert!(ways.iter().sum::<usize>() <= 1, "{case}");
                assert!(
                    running || restarts + drift.blocked.len() == 0,
                    "what is off takes everything: {case}"
                );
                assert_eq!(drift.notes, [], "{case}");
                // What Proxmox takes for granted may be what is wanted; then nothing has to be done.
                let becomes = next.clone().unwrap_or_else(|| now.clone());
                if now.is_none() || becomes.is_none() {
                    continue;
                }
                let (is_right, will_be_right) =
                    (now.as_ref() == Some(wanted), becomes.as_ref() == Some(wanted));
                let sets = at_once + drift.power_cycle.set.len();
                match (is_right, will_be_right) {
                    (true, true) => assert_eq!(ways, [0, 0, 0], "{case}"),
                    // What runs is right: the other value is taken back, and nothing is disrupted.
                    (true, false) => assert_eq!(ways, [1, 0, 0], "{case}"),
                    (false, true) => assert_eq!(
                        (sets, restarts + drift.blocked.len()),
                        (0, usize::from(running)),
                        "{case}"
                    ),
                    (false, false) => assert_eq!(sets + drift.blocked.len(), 1, "{case}"),
                }
            }
        }
    }
}
