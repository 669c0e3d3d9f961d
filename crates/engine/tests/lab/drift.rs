//! Someone changes something behind our back.

use std::time::Duration;

use engine::kubernetes_api::{Api, Patch, PatchParams};
use k8s_openapi::api::core::v1::Node;
use model::allowed::Allowed;
use model::event::{Outcome, What};
use model::plan::RefusalCode;
use model::step::{Action, Disruption};
use pve::Params;

use crate::rig::{HOME, Rig};

const WORKER: u32 = 150_021;

impl Rig {
    async fn set(&self, host: &str, vmid: u32, pairs: &[(&str, &str)]) {
        let params: Params = pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        self.systems.pve.update_config(host, vmid, &params, &[], None).await.unwrap();
    }

    async fn repaired(&self, file: &str, steps: &[&str]) {
        let snapshot = self.observe(file).await;
        let plan = snapshot.plan();
        assert_eq!(plan.refusals, []);
        let ids: Vec<&str> = plan.steps.iter().map(|s| s.id.0.as_str()).collect();
        assert_eq!(ids, steps);
        let ran = self.carry_out(&snapshot, &plan, "me").await.unwrap();
        assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
        self.assert_nothing_to_do(file).await;
    }
}

#[tokio::test(start_paused = true)]
async fn tags_notes_and_a_change_that_waits_are_put_right() {
    let rig = Rig::healthy().await;
    let host = rig.host_of(WORKER).await;
    rig.set(&host, WORKER, &[("tags", "mine"), ("onboot", "0"), ("cores", "9")]).await;
    rig.repaired(HOME, &["update-vm/home-work-1", "check-health"]).await;
    let config = rig.systems.pve.vm_config(&host, WORKER).await.unwrap();
    assert_eq!(config.tags(), ["mine", "talosmith"]);
    assert_eq!(config.get("cores"), Some("4"));
}

/// Nothing may be touched without its mark; but whose it is, its UUID still says, and no other is made in its place.
#[tokio::test(start_paused = true)]
async fn a_vm_whose_notes_lost_the_mark_is_known_by_its_uuid() {
    let rig = Rig::healthy().await;
    let host = rig.host_of(WORKER).await;
    let before = rig.systems.pve.vm_config(&host, WORKER).await.unwrap().description().to_owned();
    rig.set(&host, WORKER, &[("description", "my files")]).await;
    let snapshot = rig.observe(HOME).await;
    for plan in [snapshot.plan(), rig.session(HOME).observe_to_destroy().await.unwrap().plan_destroy()] {
        let [refusal] = plan.refusals.as_slice() else { panic!("{:?}", plan.refusals) };
        let told =
            format!("VM {WORKER} on {host} is home-work-1 by its UUID, but its notes do not say so any more");
        assert_eq!((refusal.code, &refusal.why), (RefusalCode::LostMark, &told));
        let line = refusal.hint.split(": ").skip(1).collect::<Vec<_>>().join(": ");
        let (told, had) =
            (model::mark::Mark::find(&line).unwrap(), model::mark::Mark::find(&before).unwrap());
        assert!(told.names(had.owner, &had.node), "{line}");
    }
    let mark = before.lines().find(|line| line.starts_with("talosmith-mark: ")).unwrap();
    rig.set(&host, WORKER, &[("description", &format!("my files\n\n{mark}"))]).await;
    rig.repaired(HOME, &["update-vm/home-work-1", "check-health"]).await;
}

#[tokio::test(start_paused = true)]
async fn what_needs_a_stop_and_start_is_done_one_worker_after_another() {
    let rig = Rig::healthy().await;
    let larger = HOME.replace("pools:", "defaults: { worker: { cpu: 6 } }\npools:");
    let snapshot = rig.observe(&larger).await;
    let (plan, before) = (snapshot.plan(), rig.boots());
    assert_eq!((plan.refusals.len(), plan.blocked.len()), (0, 0), "{plan:?}");
    let units: Vec<(&str, Disruption)> = plan.units.iter().map(|u| (u.id.0.as_str(), u.disruption)).collect();
    let class = Disruption::PowerCycle;
    assert_eq!(units, [("restart/home-work-1", class), ("restart/home-work-2", class)]);
    for unit in &plan.units {
        assert_eq!((unit.forecast.workers, unit.forecast.blockers.len()), (Some((1, 2)), 0), "{unit:?}");
    }
    let ran = rig.carry_out(&snapshot, &plan, "me").await.unwrap();
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    let after = rig.boots();
    let restarted: Vec<u32> = before.keys().copied().filter(|vmid| before[vmid] != after[vmid]).collect();
    assert_eq!(restarted, [150_021, 150_022]);
    rig.assert_nothing_to_do(&larger).await;
}

/// A value that a person set in Proxmox and that waits there is put into force where it is the file's.
#[tokio::test(start_paused = true)]
async fn what_waits_in_proxmox_is_put_into_force_or_taken_back() {
    let rig = Rig::healthy().await;
    let host = rig.host_of(WORKER).await;
    rig.set(&host, WORKER, &[("cores", "6")]).await;
    let larger = HOME.replace("worker, count: 2", "worker, count: 2, cpu: 6");
    let plan = rig.observe(&larger).await.plan();
    let power_cycle = plan.steps.iter().find(|step| step.id.0 == "power-cycle-vm/home-work-1").unwrap();
    let Action::PowerCycleVm { set, .. } = &power_cycle.action else { panic!() };
    assert_eq!(set.len(), 0, "{:?}", power_cycle.action);
    let ran = rig.apply(&larger).await;
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    rig.assert_nothing_to_do(&larger).await;
}

/// All that a node needs is one restart of it: a patch that needs a reboot, and more memory.
#[tokio::test(start_paused = true)]
async fn a_config_and_hardware_are_changed_with_one_restart() {
    let patch = "patches:\n  - { machine: { files: [{ path: /var/x, op: create, content: x, permissions: 0o600 }] } }\n";
    let file = format!("{}{patch}", HOME.replace("worker, count: 2", "worker, count: 2, memory: 6G"));
    let rig = Rig::healthy().await;
    let snapshot = rig.observe(&file).await;
    let (plan, before) = (snapshot.plan(), rig.boots());
    assert_eq!((plan.refusals.len(), plan.blocked.len(), plan.units.len()), (0, 0, 5), "{plan:?}");
    let ran = rig.carry_out(&snapshot, &plan, "me").await.unwrap();
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    let after = rig.boots();
    assert!(before.keys().all(|vmid| before[vmid] != after[vmid]), "{before:?} {after:?}");
    rig.assert_nothing_to_do(&file).await;
}

/// Services of control plane nodes restart one node after another, and no machine reboots.
#[tokio::test(start_paused = true)]
async fn a_config_that_restarts_services_goes_through_the_gate() {
    let file = format!("{HOME}patches:\n  - {{ machine: {{ kubelet: {{ extraArgs: {{ v: '2' }} }} }} }}\n");
    let rig = Rig::healthy().await;
    let snapshot = rig.observe(&file).await;
    let (plan, before) = (snapshot.plan(), rig.boots());
    assert_eq!(plan.units.len(), 5, "{plan:?}");
    assert!(plan.units.iter().all(|unit| unit.disruption == Disruption::ServiceRestart), "{:?}", plan.units);
    assert!(
        !plan.steps.iter().any(|step| matches!(step.action, Action::DrainNode { .. })),
        "{:?}",
        plan.steps
    );
    let ran = rig.carry_out(&snapshot, &plan, "me").await.unwrap();
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    assert_eq!(rig.boots(), before);
    rig.assert_nothing_to_do(&file).await;
}

/// A node that is taken out of the file is removed where that is allowed, with its VM, and etcd has one member less.
#[tokio::test(start_paused = true)]
async fn fewer_nodes_in_the_file_are_removed_where_that_is_allowed() {
    let rig = Rig::healthy().await;
    let fewer = HOME
        .replace("controlplane, count: 3", "controlplane, count: 2")
        .replace("worker, count: 2", "worker, count: 1");
    let session = rig.session(&fewer).allowing(Allowed { removed: true, ..Allowed::default() });
    let Ok(snapshot) = session.observe().await else { panic!("it can be looked at") };
    let plan = snapshot.plan();
    assert_eq!((plan.refusals.len(), plan.blocked.len()), (0, 0), "{:?} {:?}", plan.refusals, plan.blocked);
    let units: Vec<&str> = plan.units.iter().map(|unit| unit.id.0.as_str()).collect();
    assert_eq!(units, ["remove/home-control-3", "remove/home-work-2"]);
    let ran = rig.carry_out(&snapshot, &plan, "me").await.unwrap();
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    rig.assert_nothing_to_do(&fewer).await;
    assert!(!rig.vmids().await.iter().any(|vmid| [150_013, 150_022].contains(vmid)));
}

/// Another bridge cuts the network for a moment, so it is done through the gate.
#[tokio::test(start_paused = true)]
async fn another_bridge_is_corrected_through_the_gate() {
    let rig = Rig::healthy().await;
    let host = rig.host_of(WORKER).await;
    let card = rig.systems.pve.vm_config(&host, WORKER).await.unwrap().get("net0").unwrap().to_owned();
    let tagged = format!("{card},tag=7");
    rig.set(&host, WORKER, &[("net0", &tagged)]).await;
    let plan = rig.observe(HOME).await.plan();
    // It may be cut off already, and then it is corrected at once.
    let corrected = plan.steps.iter().find(|step| step.id.0 == "update-vm/home-work-1").unwrap();
    let answers =
        rig.observe(HOME).await.observed.machines["home-work-1"].api == model::observed::Api::Configured;
    assert_eq!(corrected.unit.is_some(), answers, "{corrected:?}");
    let ran = rig.apply(HOME).await;
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    rig.assert_nothing_to_do(HOME).await;
}

#[tokio::test(start_paused = true)]
async fn a_vm_that_was_switched_off_and_changed_is_completed_and_started() {
    let rig = Rig::healthy().await;
    let host = rig.host_of(WORKER).await;
    let pve = &rig.systems.pve;
    pve.follow(&pve.stop(&host, WORKER).await.unwrap(), |_| {}).await.unwrap();
    rig.set(&host, WORKER, &[("memory", "1024"), ("balloon", "512")]).await;
    let plan = rig.observe(HOME).await.plan();
    let ids: Vec<&str> = plan.steps.iter().map(|s| s.id.0.as_str()).collect();
    assert!(ids.starts_with(&["update-vm/home-work-1", "start-vm/home-work-1"]), "{ids:?}");
    let ran = rig.apply(HOME).await;
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    rig.assert_whole().await;
}

#[tokio::test(start_paused = true)]
async fn a_boot_disk_grows_while_the_machine_runs() {
    let rig = Rig::healthy().await;
    let larger = HOME.replace("pools:", "defaults: { worker: { disk: 60G } }\npools:");
    rig.repaired(&larger, &["grow-disk/home-work-1/scsi0", "grow-disk/home-work-2/scsi0", "check-health"])
        .await;
    let plan = rig.observe(HOME).await.plan();
    assert!(plan.steps.is_empty() && plan.refusals.is_empty());
    assert_eq!(plan.blocked.len(), 2, "{:?}", plan.blocked);
    assert!(plan.blocked[0].what.contains("a disk never shrinks"), "{:?}", plan.blocked);
}

#[tokio::test(start_paused = true)]
async fn a_node_whose_vm_is_gone_is_made_again() {
    let rig = Rig::healthy().await;
    let host = rig.host_of(WORKER).await;
    let pve = &rig.systems.pve;
    pve.follow(&pve.stop(&host, WORKER).await.unwrap(), |_| {}).await.unwrap();
    pve.follow(&pve.delete_vm(&host, WORKER, true).await.unwrap(), |_| {}).await.unwrap();
    let ran = rig.apply(HOME).await;
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    rig.assert_whole().await;
}

#[tokio::test(start_paused = true)]
async fn a_configuration_that_was_changed_by_hand_is_put_right_where_that_does_not_disturb() {
    let rig = Rig::healthy().await;
    let snapshot = rig.observe(HOME).await;
    let node = &snapshot.blueprint.nodes["home-work-1"];
    let address = std::net::IpAddr::V4(node.address.addr());
    let access = snapshot.access().unwrap();
    let machine =
        talos_client::Machine::connect(&rig.systems.net, &rig.systems.clock, address, &access.talos).unwrap();
    let runs = machine.machine_config().await.unwrap();
    let runs = secrecy::ExposeSecret::expose_secret(&runs);
    let change = |from: &str, to: &str| {
        assert!(runs.contains(from), "{from}");
        runs.replacen(from, to, 1)
    };
    let hot = change("machine:\n", "machine:\n    sysctls:\n        vm.swappiness: \"7\"\n");
    machine.apply(hot.as_bytes()).await.unwrap();
    rig.systems.clock.sleep(Duration::from_secs(5)).await;
    let plan = rig.observe(HOME).await.plan();
    assert!(plan.steps[0].reason.contains("machine.sysctls"), "{:?} {:?}", plan.steps, plan.refusals);
    assert!(matches!(plan.steps[0].action, Action::Reconfigure { .. }));
    rig.repaired(HOME, &["reconfigure/home-work-1", "check-health"]).await;
}

/// A gateway that is wrong would cut off every node at once; name and time servers cut off no one.
#[tokio::test(start_paused = true)]
async fn what_may_cut_machines_off_is_left_and_the_rest_goes_one_after_another() {
    let rig = Rig::healthy().await;
    let changed = HOME.replace("gateway: 10.25.150.1,", "gateway: 10.25.150.2, dns: [10.25.150.3],");
    let plan = rig.observe(&changed).await.plan();
    let sends = |step: &model::step::Step| matches!(step.action, Action::Reconfigure { .. });
    assert!(plan.units.is_empty() && plan.refusals.is_empty() && !plan.steps.iter().any(sends), "{plan:?}");
    // Each VM waits for its machine config.
    let (vms, configs): (Vec<_>, Vec<_>) =
        plan.blocked.iter().partition(|blocked| blocked.what.starts_with("the VM of "));
    assert_eq!((vms.len(), configs.len()), (5, 5), "{:?}", plan.blocked);
    for blocked in configs {
        let told = "LinkConfig/net0: routes (changed): the machine could become unreachable";
        assert!(blocked.what.contains(told), "{}", blocked.what);
    }

    let names = HOME.replace("vip:", "dns: [10.25.150.3], ntp: [10.25.150.4], vip:");
    let snapshot = rig.observe(&names).await;
    let plan = snapshot.plan();
    assert_eq!(plan.refusals, []);
    let ran = rig.carry_out(&snapshot, &plan, "me").await.unwrap();
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    let mut running: Vec<&str> = vec![];
    for event in &ran.events {
        match &event.what {
            What::StepStarted { step, .. } if step.kind() == "reconfigure" => {
                assert!(!running.iter().any(|id| id.contains("control")), "{step} beside {running:?}");
                running.push(&step.0);
            }
            What::StepDone { step, .. } => running.retain(|id| *id != step.0),
            _ => {}
        }
    }
    rig.assert_nothing_to_do(&names).await;
}

/// The file asks for an extension that the running image does not have.
#[tokio::test(start_paused = true)]
async fn first_use_1_an_extension_is_not_said_to_be_there_before_it_runs() {
    for image in ["extensions: [siderolabs/qemu-guest-agent, siderolabs/iscsi-tools]", "kernel_args: [quiet]"]
    {
        let rig = Rig::healthy().await;
        let file = HOME.replace("pools:", &format!("image: {{ {image} }}\npools:"));
        let plan = rig.observe(&file).await.plan();
        assert_eq!((plan.refusals.len(), plan.blocked.len(), plan.units.len()), (0, 0, 5), "{plan:?}");
        // Writing it into the machine config alone is no step.
        assert!(plan.steps.iter().all(|step| step.id.kind() != "reconfigure"), "{plan:?}");
    }
}

/// What is taken out of the file stays, and is not forgotten.
#[tokio::test(start_paused = true)]
async fn first_use_4_a_removed_node_is_left_to_do() {
    let rig = Rig::healthy().await;
    let plan = rig.observe(&HOME.replace("worker, count: 2", "worker, count: 1")).await.plan();
    assert!(plan.steps.is_empty() && plan.refusals.is_empty() && !plan.is_empty());
    assert!(plan.blocked[0].what.starts_with("home-work-2 (VM 150022 on "), "{:?}", plan.blocked);
}

/// Hands a machine another configuration, as someone with talosctl would.
async fn by_hand(rig: &Rig, node: &str, change: impl FnOnce(String) -> String) {
    use secrecy::ExposeSecret as _;
    let snapshot = rig.observe(HOME).await;
    let address = std::net::IpAddr::V4(snapshot.blueprint.nodes[node].address.addr());
    let talos = &snapshot.access().unwrap().talos;
    let machine =
        talos_client::Machine::connect(&rig.systems.net, &rig.systems.clock, address, talos).unwrap();
    let runs = machine.machine_config().await.unwrap().expose_secret().to_owned();
    machine.apply(change(runs).as_bytes()).await.unwrap();
    rig.systems.clock.sleep(Duration::from_secs(5)).await;
}

/// Between the look and the change someone else gave the machine another configuration: ours would undo it, with a reboot.
#[tokio::test(start_paused = true)]
async fn by_reading_1_a_machine_that_was_changed_since_the_look_is_not_configured() {
    let rig = Rig::healthy().await;
    let file = HOME.replace("pools:", "defaults: { worker: { labels: { a: b } } }\npools:");
    let snapshot = rig.observe(&file).await;
    let plan = snapshot.plan();
    by_hand(&rig, "home-work-1", |runs| {
        runs.replacen("machine:\n", "machine:\n    sysctls:\n        vm.swappiness: \"7\"\n", 1)
    })
    .await;
    let ran = rig.carry_out(&snapshot, &plan, "me").await.unwrap();
    assert_eq!(ran.outcome, Outcome::Failed);
    let failures = ran.failures().join("\n");
    assert!(
        failures.contains("the configuration of home-work-1 was changed since the plan was made"),
        "{failures}"
    );
    let runs = rig.observe(&file).await.observed.machines["home-work-1"].clone();
    assert_ne!(runs.config_digest, snapshot.rendered.configs.get("home-work-1").cloned(), "nothing was sent");
}

/// The class of a change was wrong: the machine refuses, and nothing reboots.
#[tokio::test(start_paused = true)]
async fn arch1_a_change_that_needs_a_reboot_after_all_is_refused_by_the_machine() {
    let rig = Rig::healthy().await;
    by_hand(&rig, "home-work-1", |runs| runs.replacen("machine:\n", "machine:\n    env:\n        A: b\n", 1))
        .await;
    rig.systems.clock.sleep(Duration::from_secs(120)).await;
    let snapshot = rig.observe(HOME).await;
    let mut plan = snapshot.plan();
    assert!(
        plan.units.iter().any(|unit| unit.disruption == Disruption::Reboot),
        "the plan knows that it needs a reboot"
    );
    // A plan that did not know.
    plan.units.clear();
    let action = Action::reconfigure("home-work-1");
    plan.steps = vec![model::step::Step {
        id: action.id(),
        action,
        after: vec![],
        reason: String::new(),
        disruption: Disruption::InPlace,
        seconds: 1,
        unit: None,
    }];
    let boots = rig.boot_id("home-work-1").await;
    let ran = rig.carry_out(&snapshot, &plan, "me").await.unwrap();
    assert_eq!(ran.outcome, Outcome::Failed);
    let failures = ran.failures().join("\n");
    assert!(failures.contains("immediate mode") && !failures.contains("diff"), "{failures}");
    rig.systems.clock.sleep(Duration::from_secs(120)).await;
    assert_eq!(rig.boot_id("home-work-1").await, boots, "it did not reboot");
}

impl Rig {
    async fn boot_id(&self, node: &str) -> String {
        let snapshot = self.observe(HOME).await;
        let address = std::net::IpAddr::V4(snapshot.blueprint.nodes[node].address.addr());
        let talos = &snapshot.access().unwrap().talos;
        let machine =
            talos_client::Machine::connect(&self.systems.net, &self.systems.clock, address, talos).unwrap();
        machine.boot_id().await.unwrap()
    }
}

#[tokio::test(start_paused = true)]
async fn the_address_of_a_machine_is_not_changed() {
    let rig = Rig::healthy().await;
    let other = HOME.replace("count: 2", "count: 2, addresses: 10.25.150.51-10.25.150.59");
    let plan = rig.observe(&other).await.plan();
    assert!(plan.steps.is_empty());
    let codes: Vec<RefusalCode> = plan.refusals.iter().map(|refusal| refusal.code).collect();
    assert_eq!(codes, [RefusalCode::Differs; 2], "{:?}", plan.refusals);
    assert_eq!(plan.blocked, [], "leftover 19: its VM ID follows from its address");
    let why = &plan.refusals[0].why;
    assert!(["150021", "10.25.150.21/24", "10.25.150.51/24"].iter().all(|part| why.contains(part)), "{why}");
}

/// A change with a half in the VM and a half in the machine config: the second one is blocked, so the first one is, too.
#[tokio::test(start_paused = true)]
async fn leftover_1_a_machine_and_its_vm_are_changed_together() {
    let rig = Rig::healthy().await;
    let node = |setting: &str| format!("{HOME}nodes:\n  home-work-1: {{ {setting} }}\n");
    let network = |setting: &str| HOME.replace("vip: 10.25.150.10", &format!("vip: 10.25.150.10, {setting}"));
    for (file, nodes) in [
        (node("mac: 'BC:24:11:00:09:21'"), 1),
        (network("mtu: 1400"), 5),
        (HOME.replace("gateway: 10.25.150.1,", "gateway: 10.25.150.2,"), 5),
    ] {
        let plan = rig.observe(&file).await.plan();
        assert_eq!(plan.refusals, [], "{file}");
        assert!(plan.steps.is_empty(), "{file}{:?}", plan.steps);
        let blocked: Vec<&str> = plan.blocked.iter().map(|blocked| blocked.what.as_str()).collect();
        assert_eq!(blocked.len(), 2 * nodes, "{file}{blocked:#?}");
    }
    // The guest agent goes with the extension that it needs, in one restart.
    let file = format!("{HOME}image: {{ extensions: [] }}\n");
    let plan = rig.observe(&file).await.plan();
    assert_eq!((plan.refusals.len(), plan.blocked.len(), plan.units.len()), (0, 0, 5), "{:?}", plan.blocked);
    let of_worker = plan.steps.iter().filter(|step| step.action.node() == Some("home-work-1"));
    let kinds: Vec<&str> = of_worker.map(|step| step.id.0.split('/').next().unwrap()).collect();
    assert_eq!(
        kinds,
        ["pull-image", "drain-node", "install-talos", "power-cycle-vm", "verify-node", "uncordon-node"]
    );
    // The second run writes the image into the machine configs.
    for _ in 0..2 {
        let ran = rig.apply(&file).await;
        assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    }
    let plan = rig.observe(&file).await.plan();
    assert!(plan.steps.is_empty() && plan.blocked.is_empty(), "{plan:?}");
}

/// A node whose role was changed in the file is left alone. All others are changed as the file says.
#[tokio::test(start_paused = true)]
async fn leftover_2_another_role_is_blocked_for_that_node_alone() {
    let file = |role: &str| {
        let small = HOME.replace("count: 3", "count: 1").replace("count: 2", "count: 1");
        format!("{small}nodes:\n  extra: {{ role: {role}, address: 10.25.150.40 }}\n")
    };
    let other = |role: &str| if role == "worker" { "controlplane" } else { "worker" };
    for role in ["worker", "controlplane"] {
        let rig = Rig::new();
        let ran = rig.apply(&file(role)).await;
        assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
        let changed =
            file(other(role)).replace("role: worker, count", "role: worker, labels: { a: b }, count");
        let snapshot = rig.observe(&changed).await;
        let plan = snapshot.plan();
        assert_eq!(plan.refusals, [], "{role}");
        let [blocked] = plan.blocked.as_slice() else { panic!("{role}: {:#?}", plan.blocked) };
        assert_eq!(blocked.node.as_deref(), Some("extra"), "{role}");
        assert!(blocked.what.contains("the file says"), "{}", blocked.what);
        assert!(plan.steps.iter().all(|step| step.action.node() != Some("extra")), "{:?}", plan.steps);
        let ran = rig.carry_out(&snapshot, &plan, "me").await.unwrap();
        assert_eq!(ran.outcome, Outcome::Done, "{role}: {:?}", ran.failures());
        let plan = rig.observe(&changed).await.plan();
        assert_eq!((plan.steps.len(), plan.blocked.len()), (0, 1), "{role}: {plan:?}");
    }
}

/// Data is never lost by a line that went: neither the volume nor its disk.
#[tokio::test(start_paused = true)]
async fn a_disk_that_the_file_does_not_have_any_more_keeps_its_data() {
    let rig = Rig::new();
    let without = HOME.replace("count: 3", "count: 1").replace("count: 2", "count: 1");
    let with = without.replace("role: worker,", "role: worker, disks: { data: { size: 10G } },");
    let ran = rig.apply(&with).await;
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    let plan = rig.observe(&without).await.plan();
    assert!(plan.steps.is_empty() && plan.refusals.is_empty());
    let told = "home-work-1 has UserVolumeConfig/data (on the disk scsi1 with 10 GiB), and the file does not";
    assert!(plan.blocked[0].what.starts_with(told), "{:?}", plan.blocked);

    let session = rig.session(&without).allowing(Allowed::data_of(["home-work-1"]));
    let Ok(snapshot) = session.observe().await else { panic!("it can be looked at") };
    let plan = snapshot.plan();
    let ids: Vec<&str> = plan.steps.iter().map(|s| s.id.0.as_str()).collect();
    assert_eq!(ids, ["reconfigure/home-work-1", "verify-node/home-work-1", "check-health"]);
    let ran = rig.carry_out(&snapshot, &plan, "me").await.unwrap();
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    let plan = rig.observe(&without).await.plan();
    assert_eq!((plan.steps.len(), plan.blocked.len()), (0, 1), "{plan:?}");
    assert!(
        plan.blocked[0].what.starts_with("home-work-1 has the disk scsi1 with 10 GiB"),
        "{:?}",
        plan.blocked
    );
    assert!(plan.blocked[0].hint.contains("--allow-destroy home-work-1/scsi1"), "{:?}", plan.blocked);

    let disks = [("home-work-1".into(), ["scsi1".to_owned()].into())].into();
    let session = rig.session(&without).allowing(Allowed { disks, ..Allowed::default() });
    let Ok(snapshot) = session.observe().await else { panic!("it can be looked at") };
    let plan = snapshot.plan();
    let ids: Vec<&str> = plan.steps.iter().map(|s| s.id.0.as_str()).collect();
    assert_eq!(ids, ["delete-disk/home-work-1/scsi1", "verify-node/home-work-1", "check-health"]);
    let ran = rig.carry_out(&snapshot, &plan, "me").await.unwrap();
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    rig.assert_nothing_to_do(&without).await;
    let config = rig.systems.pve.vm_config(&rig.host_of(WORKER).await, WORKER).await.unwrap();
    assert!(config.get("scsi1").is_none() && config.get("unused0").is_none(), "{config:?}");
}

/// A disk that is added to a node that runs: the disk first, then the machine config that mounts it.
#[tokio::test(start_paused = true)]
async fn a_data_disk_is_added_to_a_node_that_runs() {
    let rig = Rig::healthy().await;
    let with = HOME.replace("role: worker,", "role: worker, disks: { data: { size: 10G } },");
    let before = rig.boots();
    let snapshot = rig.observe(&with).await;
    let plan = snapshot.plan();
    assert_eq!((plan.refusals.len(), plan.blocked.len()), (0, 0), "{plan:?}");
    let ran = rig.carry_out(&snapshot, &plan, "me").await.unwrap();
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    assert_eq!(rig.boots(), before, "nothing reboots");
    rig.assert_nothing_to_do(&with).await;
}

#[tokio::test(start_paused = true)]
async fn where_a_vm_runs_is_for_proxmox_to_decide() {
    let rig = Rig::new();
    // A datastore that all hosts share is what lets a VM move.
    let ran = rig.apply(HOME).await;
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    let from = rig.host_of(WORKER).await;
    let target = if from == "pve1" { "pve2" } else { "pve1" };
    let request = pve::Migrate { target: target.to_owned(), online: true, with_local_disks: true };
    let pve = &rig.systems.pve;
    pve.follow(&pve.migrate(&from, WORKER, &request).await.unwrap(), |_| {}).await.unwrap();
    rig.systems.clock.sleep(Duration::from_secs(30)).await;
    rig.assert_nothing_to_do(HOME).await;
    assert_eq!(rig.host_of(WORKER).await, target);
}

impl Rig {
    async fn reset(&self, node: &str, partitions: &[&str]) {
        let snapshot = self.observe(HOME).await;
        let address = std::net::IpAddr::V4(snapshot.blueprint.nodes[node].address.addr());
        let access = snapshot.access().unwrap();
        let machine =
            talos_client::Machine::connect(&self.systems.net, &self.systems.clock, address, &access.talos)
                .unwrap();
        let partitions = partitions.iter().map(|label| (*label).to_owned()).collect();
        // A person who is careless: no leave from etcd first.
        let reset = talos_client::Reset { graceful: false, reboot: true, partitions };
        machine.reset(&reset).await.unwrap();
        self.systems.clock.sleep(Duration::from_secs(60)).await;
    }

    /// Looks, plans and carries out, where the data of a node may be deleted.
    async fn apply_allowing(&self, node: &str) -> crate::rig::Ran {
        let session = self.session(HOME).allowing(Allowed::data_of([node]));
        let Ok(snapshot) = session.observe().await else { panic!("it can be looked at") };
        let plan = snapshot.plan();
        assert_eq!(plan.refusals, []);
        self.carry_out(&snapshot, &plan, "me").await.unwrap()
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_lost_its_state_is_configured_again_and_joins() {
    for node in ["home-work-1", "home-control-2"] {
        let rig = Rig::healthy().await;
        rig.reset(node, &["STATE", "EPHEMERAL"]).await;
        let plan = rig.observe(HOME).await.plan();
        let ids: Vec<&str> = plan.steps.iter().map(|s| s.id.0.as_str()).collect();
        assert!(ids.contains(&format!("configure/{node}").as_str()), "{ids:?}");
        assert!(!ids.iter().any(|id| id.starts_with("bootstrap")), "{ids:?}");
        let ran = rig.apply(HOME).await;
        assert_eq!(ran.outcome, Outcome::Done, "{node}: {:?}", ran.failures());
        rig.assert_whole().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_without_any_system_is_made_anew_where_that_is_allowed() {
    for node in ["home-work-1", "home-control-2"] {
        let rig = Rig::healthy().await;
        rig.reset(node, &[]).await;
        // Without a word it is waited for, and what can be done is told.
        let ran = rig.apply(HOME).await;
        assert_eq!(ran.outcome, Outcome::Failed);
        let hints: Vec<String> = ran
            .events
            .iter()
            .filter_map(|e| match &e.what {
                What::StepFailed { hint, .. } => Some(hint.clone()),
                _ => None,
            })
            .collect();
        assert!(hints[0].contains(&format!("node replace {node}`")), "{hints:?}");
        // While a step waits for it, too, as a command that can be typed.
        let hint = format!("`talosmith node replace {node}`");
        let hints = |e: &&model::event::Event| matches!(&e.what, What::StepProgress { note, .. } if note.contains(&hint));
        assert!(ran.events.iter().any(|e| hints(&e)), "e2");

        let ran = rig.apply_allowing(node).await;
        assert_eq!(ran.outcome, Outcome::Done, "{node}: {:?}", ran.failures());
        rig.assert_whole().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_answers_after_all_keeps_its_vm() {
    let rig = Rig::healthy().await;
    rig.lab.inject(lab::Injection::Unplugged { vmid: WORKER, unplugged: true });
    // Long enough for Kubernetes to miss it, too.
    rig.systems.clock.sleep(Duration::from_secs(120)).await;
    let session = rig.session(HOME).allowing(Allowed::data_of(["home-work-1"]));
    let Ok(snapshot) = session.observe().await else { panic!("it can be looked at") };
    let plan = snapshot.plan();
    assert!(plan.steps.iter().any(|s| matches!(s.action, Action::DeleteVm { .. })), "{plan:?}");
    let fetched = |s: &model::step::Step| matches!(s.action, Action::DownloadImage { .. });
    assert!(!plan.steps.iter().any(fetched), "its image is where it was: {plan:?}");

    rig.lab.inject(lab::Injection::Clear);
    rig.systems.clock.sleep(Duration::from_secs(30)).await;
    let ran = rig.carry_out(&snapshot, &plan, "me").await.unwrap();
    assert_eq!(ran.outcome, Outcome::Failed);
    assert!(ran.failures().iter().any(|f| f.contains("answers after all")), "{:?}", ran.failures());
    rig.assert_nothing_to_do(HOME).await;
}

#[tokio::test(start_paused = true)]
async fn what_is_allowed_is_not_asked_for() {
    let rig = Rig::healthy().await;
    let allowing = |nodes: &[&str]| rig.session(HOME).allowing(Allowed::data_of(nodes.iter().copied()));
    let Ok(snapshot) = allowing(&["home-work-1", "home-control-1"]).observe().await else {
        panic!("it can be looked at")
    };
    assert!(snapshot.plan().is_empty(), "{:?}", snapshot.plan());

    // One that Kubernetes hears of is there, even if we do not reach it.
    rig.lab.inject(lab::Injection::Unplugged { vmid: WORKER, unplugged: true });
    let Ok(snapshot) = allowing(&["home-work-1"]).observe().await else { panic!("it can be looked at") };
    let plan = snapshot.plan();
    assert!(plan.notes.iter().any(|n| n.text.contains("it is not replaced")), "{:?}", plan.notes);
    assert!(!plan.steps.iter().any(|s| matches!(s.action, Action::DeleteVm { .. })));
    rig.lab.inject(lab::Injection::Clear);

    // Two of three are gone: what is left is no majority, and what it knows must not be lost.
    for vmid in [150_012, 150_013] {
        rig.lab.inject(lab::Injection::Unplugged { vmid, unplugged: true });
    }
    rig.systems.clock.sleep(Duration::from_secs(60)).await;
    let Ok(snapshot) = allowing(&["home-control-2"]).observe().await else { panic!("it can be looked at") };
    let plan = snapshot.plan();
    assert!(plan.steps.is_empty());
    assert_eq!(plan.refusals[0].code, RefusalCode::NotProven, "{:?}", plan.refusals);
    assert!(plan.refusals[0].why.contains("home-control-2"), "{:?}", plan.refusals);
}

/// What libraries tell each other about a closed port says nothing to someone who was woken up.
#[tokio::test(start_paused = true)]
async fn health_says_that_machines_are_off() {
    let rig = Rig::healthy().await;
    for vmid in [150_011, 150_012, 150_013] {
        let host = rig.host_of(vmid).await;
        let stop = rig.systems.pve.stop(&host, vmid).await.unwrap();
        rig.systems.pve.follow(&stop, |_| {}).await.unwrap();
    }
    let snapshot = rig.observe(HOME).await;
    let conditions = engine::health::conditions(&rig.systems, &snapshot).await;
    let told: Vec<String> =
        conditions.into_iter().filter_map(|c| Some(format!("{}: {}", c.name, c.missing?))).collect();
    let unresponsive = "could not list nodes in Kubernetes at https://10.25.150.10:6443: host unreachable";
    let wanted = [
        "etcd members are the control plane nodes: no member answers: home-control-1 is off (VM 150011 on pve1); home-control-2 is \
         off (VM 150012 on pve2); home-control-3 is off (VM 150013 on pve3)"
            .to_owned(),
        "every machine runs and is ready: home-control-1 is off (VM 150011 on pve1); home-control-2 is off (VM \
         150012 on pve2); home-control-3 is off (VM 150013 on pve3)"
            .to_owned(),
        format!("every node is ready in Kubernetes: {unresponsive}"),
        format!("the control plane's pods are ready: {unresponsive}"),
    ];
    assert_eq!(told, wanted);
}

/// A machine takes the new text at once, and Kubernetes keeps the old one.
#[tokio::test(start_paused = true)]
async fn a_manifest_that_differs_is_not_said_to_be_applied() {
    let rig = Rig::new();
    let file = |value: &str| {
        let small = HOME.replace("count: 3", "count: 1").replace("count: 2", "count: 1");
        let text = format!(
            "{{apiVersion: v1, kind: ConfigMap, metadata: {{name: one, namespace: default}}, data: {{a: {value}}}}}"
        );
        format!("{small}manifests: {{ inline: {{ one: '{text}' }} }}\n")
    };
    assert_eq!(rig.apply(&file("old")).await.outcome, Outcome::Done);
    let plan = rig.observe(&file("new")).await.plan();
    let told: Vec<&str> = plan.notes.iter().map(|note| note.text.as_str()).collect();
    assert!(told.iter().any(|text| text.contains("changes none that it applied before")), "{plan:?}");
}

/// A kubelet sets its taints only when it registers, so a configuration does not put them into force later.
#[tokio::test(start_paused = true)]
async fn x2_3_taints_of_a_running_worker_are_not_said_to_be_in_force() {
    let rig = Rig::healthy().await;
    let file = HOME.replace("count: 2", "count: 3, taints: { gpu: 'true:NoSchedule' }");
    let ran = rig.apply(&file).await;
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    let lack = async || -> Vec<String> {
        let plan = rig.observe(&file).await.plan();
        assert_eq!((plan.steps.len(), plan.refusals.len()), (0, 0), "{plan:?}");
        plan.blocked.iter().map(|blocked| blocked.node.clone().unwrap().to_string()).collect()
    };
    assert_eq!(lack().await, ["home-work-1", "home-work-2"], "the third one registered with it");
    let nodes: Api<Node> = Api::all(rig.kubernetes().client());
    for name in ["home-work-1", "home-work-2"] {
        let taint = serde_json::json!({"spec": {"taints": [{"key": "gpu", "value": "true", "effect": "NoSchedule"}]}});
        nodes.patch(name, &PatchParams::default(), &Patch::Merge(taint)).await.unwrap();
    }
    assert_eq!(lack().await, [] as [&str; 0]);
    rig.assert_nothing_to_do(&file).await;
}
