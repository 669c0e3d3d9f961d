//! What somebody changed, and what becomes of it.

use super::*;
use crate::observed::ConfigChange;
use crate::plan::drift;
use crate::step::Disturbs;

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
    assert_eq!(drifted.notices, [], "where it runs is Proxmox' to decide");
    let update = step(&drifted, "update-vm/w-1");
    assert_eq!(update.disturbs, Disturbs::Hot);
    let Action::UpdateVm { host, set, says, .. } = &update.action else { panic!("{:?}", update.action) };
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
fn what_needs_a_restart_is_refused_with_what_it_costs() {
    let blueprint = blueprint();
    let drifted = drifted(&blueprint, |vm| {
        set(vm, "cores", "8");
        set(vm, "memory", "2048");
    });
    assert!(drifted.steps.is_empty());
    assert_eq!(
        drifted.refusals[0].why,
        "the VM of w-1 is not as the file says (cores 8 → 2; memory 2048 → 4096), and changing that means stopping and \
         starting it, which this version does not do"
    );
}

#[test]
fn a_change_that_still_waits_is_taken_back_and_ours_is_told() {
    let blueprint = blueprint();
    let plan = drifted(&blueprint, |vm| {
        vm.pending.insert("cores".to_owned(), Some("8".to_owned()));
    });
    let update = step(&plan, "update-vm/w-1");
    assert_eq!(update.disturbs, Disturbs::Nothing);
    assert!(matches!(&update.action, Action::UpdateVm { set, .. } if set["cores"] == "2"));
    let plan = drifted(&blueprint, |vm| {
        set(vm, "cores", "8");
        vm.pending.insert("cores".to_owned(), Some("2".to_owned()));
    });
    assert!(plan.is_empty());
    assert_eq!(
        plan.notices[0].text,
        "cores of w-1 will be 2 from its next stop and start on; until then it is 8"
    );
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
    let disk = crate::blueprint::Disk {
        name: "data".to_owned(),
        bus: crate::spec::Bus::Scsi,
        slot: 1,
        size_gib: 100,
        datastore: Some("local-lvm".to_owned()),
        options: crate::blueprint::DiskOptions::default(),
        wwn: "0x5000000000000001".to_owned(),
        serial: "1".to_owned(),
        mount: "/var/mnt/data".to_owned(),
    };
    blueprint.nodes.get_mut("w-1").unwrap().hardware.disks.push(disk);
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
    assert_eq!(missing.disturbs, Some(Disturbs::Hot));
    let ours = "discard=on,iothread=1,ssd=1,wwn=0x5000000000000001";
    assert_eq!(
        become_(Some(&format!("l:vm-1-disk-1,size=50G,{ours}"))).grow,
        [("scsi1".to_owned(), 50, 100)]
    );
    let large = become_(Some(&format!("l:vm-1-disk-1,size=200G,{ours}")));
    assert!(large.refusals[0].why.contains("a disk never shrinks"), "{large:?}");
    let anothers = become_(Some("l:vm-9999-pvc,size=100G,discard=on,iothread=1,ssd=1"));
    assert!(anothers.refusals[0].why.contains("is not the disk that the file means"), "{anothers:?}");
    assert!(anothers.set.is_empty());
}

/// The plan for a healthy cluster in which `w-1` runs another configuration.
fn reconfigured(disturbs: &[Disturbs]) -> Plan {
    let blueprint = blueprint();
    let mut world = healthy_world(&blueprint);
    let machine = world.machines.get_mut("w-1").unwrap();
    machine.config_digest = Some("other".to_owned());
    let change = |d: &Disturbs| ConfigChange { path: format!("machine.{d:?}"), disturbs: *d };
    machine.config_changes = Some(disturbs.iter().map(change).collect());
    let mut rendered = rendered();
    rendered.configs.insert("w-1".to_owned(), "ours".to_owned());
    plan(&blueprint, &rendered, &world)
}

#[test]
fn a_configuration_is_put_right_only_where_the_machine_follows_at_once() {
    assert!(reconfigured(&[]).is_empty(), "the same in other words");
    let hot = reconfigured(&[Disturbs::Hot]);
    assert_eq!(ids(&hot), ["reconfigure/w-1", "check-health"]);
    assert_eq!(step(&hot, "reconfigure/w-1").disturbs, Disturbs::Hot);
    let reboot = reconfigured(&[Disturbs::Hot, Disturbs::Reboot]);
    assert!(reboot.steps.is_empty());
    assert!(
        reboot.refusals[0].why.contains("changing machine.Reboot means a reboot"),
        "{:?}",
        reboot.refusals
    );
}

#[test]
fn another_talos_is_an_upgrade_and_refused_as_such() {
    let blueprint = blueprint();
    let mut world = healthy_world(&blueprint);
    world.machines.get_mut("w-1").unwrap().talos = Some("v1.13.8".to_owned());
    let plan = plan(&blueprint, &rendered(), &world);
    assert_eq!(
        plan.refusals[0].why,
        "w-1 runs Talos v1.13.8, and the file says v1.13.9: upgrades are not supported yet"
    );
}
