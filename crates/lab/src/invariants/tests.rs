//! Each invariant can be violated, and is seen to be.

use std::sync::Arc;

use jiff::SignedDuration;
use serde_json::json;

use super::*;
use crate::LabConfig;
use crate::calls::Delivery;
use crate::hypervisor::vm::{Running, Vm};
use crate::kube::Place;
use crate::machine::Leave;
use crate::machine::tests::cluster;

/// A healthy cluster of 101 to 105 with its record, held by eva, and a VM of others.
fn world() -> World {
    let (machines, now) = cluster();
    let mut world = World::new(&LabConfig::default(), now).unwrap();
    world.machines = machines;
    let vms = (101..=105).map(|vmid| (vmid, "ours")).chain([(100, "record: eva"), (900, "theirs")]);
    for (vmid, notes) in vms {
        let mut vm = Vm::new(vmid, "pve1");
        vm.config.insert("description".to_owned(), notes.to_owned());
        vm.running = (vmid != 100).then_some(Running { since: now, pid: vmid });
        world.hypervisor.vms.insert(vmid, vm);
    }
    world
}

fn rules() -> Rules {
    Rules {
        is_ours: Box::new(|_, config| config.get("description").is_some_and(|notes| notes != "theirs")),
        lease: Box::new(|notes| {
            let holder = notes.strip_prefix("record:")?.trim();
            Some(Some(holder.to_owned()).filter(|holder| !holder.is_empty()))
        }),
        kubernetes_lease: Box::new(|name, spec| {
            (name == "ours").then(|| spec["holderIdentity"].as_str().map(str::to_owned))
        }),
        is_our_account: Box::new(|comment| comment == "ours"),
        is_our_cordon: Box::new(|node| node["metadata"]["annotations"]["ours"].is_string()),
    }
}

fn watch() -> Watch {
    Watch::new(rules())
}

fn call(origin: &str, service: Service, method: &str, path: &str, machine: Option<u32>) -> Call {
    Call {
        number: 0,
        service,
        method: method.to_owned(),
        path: path.to_owned(),
        origin: Arc::from(origin),
        machine,
        dry_run: false,
        delivery: None,
    }
}

fn proxmox(method: &str, rest: &str) -> Call {
    call("eva", Service::Proxmox, method, &format!("/api2/json/nodes/pve1/qemu/{rest}"), None)
}

fn talos(vmid: u32, method: &str) -> Call {
    call("eva", Service::Talos, "CALL", &format!("/machine.MachineService/{method}"), Some(vmid))
}

fn kubernetes(method: &str, path: &str) -> Call {
    call("eva", Service::Kubernetes, method, path, Some(101))
}

/// The numbers of what was violated since the last time.
fn numbers(watch: &Watch) -> Vec<u8> {
    watch.take_violations().into_iter().map(|violation| violation.number).collect()
}

/// A call that has no effect but the one that it is given.
fn made(watch: &Watch, world: &mut World, call: &Call, effect: impl FnOnce(&mut World)) -> Vec<u8> {
    watch.before(call, world);
    effect(world);
    watch.after(call, world, "200 OK");
    numbers(watch)
}

fn none(_: &mut World) {}

const NOTHING: [u8; 0] = [];

fn wait(world: &mut World, seconds: i64) {
    let to = world.now + SignedDuration::from_secs(seconds);
    world.advance(to);
}

#[test]
fn invariant_1_a_second_bootstrap_is_seen() {
    let (watch, mut world) = (watch(), world());
    assert_eq!(made(&watch, &mut world, &talos(103, "Version"), none), NOTHING);
    let now = world.now;
    world.machines.leave_etcd(103, now).unwrap();
    let seen = made(&watch, &mut world, &talos(103, "Bootstrap"), |world| {
        world.machines.bootstrap(103, None, now).unwrap();
        wait(world, 20);
    });
    assert_eq!(seen, [1]);
    assert_eq!(made(&watch, &mut world, &talos(103, "Version"), none), NOTHING, "it is told once");
}

#[test]
fn invariant_2_a_majority_that_goes_is_seen() {
    let (watch, mut world) = (watch(), world());
    let now = world.now;
    world.machines.power_off(103, now);
    wait(&mut world, 5);
    for request in [proxmox("POST", "102/status/stop"), talos(102, "Reboot"), talos(101, "EtcdLeaveCluster")]
    {
        assert_eq!(made(&watch, &mut world, &request, none), [2], "{request:?}");
    }
    let watch = self::watch();
    assert_eq!(
        made(&watch, &mut world, &talos(101, "EtcdRemoveMemberByID"), none),
        NOTHING,
        "of the dead one"
    );
    assert_eq!(
        made(&watch, &mut world, &proxmox("DELETE", "103"), none),
        NOTHING,
        "it is dead, the others decide"
    );
    assert_eq!(made(&watch, &mut world, &proxmox("POST", "103/status/start"), none), NOTHING);
    watch.set_deleting(true);
    assert_eq!(
        made(&watch, &mut world, &proxmox("POST", "102/status/stop"), none),
        NOTHING,
        "all of it goes"
    );
}

#[test]
fn invariant_3_two_at_once_are_seen() {
    let (watch, mut world) = (watch(), world());
    assert_eq!(made(&watch, &mut world, &proxmox("POST", "101/status/stop"), none), NOTHING);
    assert_eq!(made(&watch, &mut world, &proxmox("POST", "102/status/stop"), none), [3]);
    let (watch, mut world) = (self::watch(), self::world());
    assert_eq!(made(&watch, &mut world, &talos(101, "Reboot"), none), NOTHING);
    let now = world.now;
    world.machines.power_cycle(101, now);
    assert_eq!(made(&watch, &mut world, &talos(104, "Version"), none), NOTHING);
    wait(&mut world, 120);
    assert_eq!(made(&watch, &mut world, &talos(102, "Reboot"), none), NOTHING, "the first one is back");
}

#[test]
fn invariant_4_a_change_without_the_lease_is_seen() {
    let (watch, mut world) = (watch(), world());
    let by = |origin: &str, path: &str| Call { origin: origin.into(), ..proxmox("PUT", path) };
    assert_eq!(made(&watch, &mut world, &by("eva", "101/config"), none), NOTHING);
    assert_eq!(made(&watch, &mut world, &by("kim", "101/config"), none), [4]);
    assert_eq!(
        made(&watch, &mut world, &by("kim", "100/config"), none),
        NOTHING,
        "the record is how it is acquired"
    );
    assert_eq!(made(&watch, &mut world, &by("", "101/config"), none), NOTHING, "another person");
    let create =
        Call { origin: "kim".into(), path: "/api2/json/nodes/pve1/qemu".to_owned(), ..proxmox("POST", "") };
    assert_eq!(made(&watch, &mut world, &create, none), [4]);
    watch.before(&create, &world);
    watch.after(&create, &world, "500 VM 100 already exists");
    assert_eq!(
        numbers(&watch),
        NOTHING,
        "an operator who saw no record tries to create it, and Proxmox refuses"
    );
    let taken = Call { origin: "kim".into(), ..kubernetes("PATCH", "/api/v1/nodes/vm-101") };
    assert_eq!(made(&watch, &mut world, &taken, none), [4]);
    let hand = |world: &mut World, notes: &str| {
        let record = world.hypervisor.vms.get_mut(&100).unwrap();
        record.config.insert("description".to_owned(), notes.to_owned());
    };
    hand(&mut world, "record: kim");
    assert_eq!(made(&watch, &mut world, &by("eva", "101/config"), none), NOTHING, "kim still waits");
    assert_eq!(made(&watch, &mut world, &by("kim", "101/config"), none), NOTHING);
    assert_eq!(made(&watch, &mut world, &by("eva", "101/config"), none), [4], "both at once");
    hand(&mut world, "record:");
    assert_eq!(made(&watch, &mut world, &by("eva", "101/config"), none), [4], "it is free");
}

#[test]
fn invariant_3_workers_are_counted_with_those_that_are_away_already() {
    let at_once = |workers| {
        let watch = watch();
        watch.allow(Allowance { workers, ..Allowance::default() });
        watch
    };
    let (mut world, stop) = (world(), proxmox("POST", "105/status/stop"));
    assert_eq!(made(&at_once(0), &mut world, &stop, none), [3], "it is Ready");
    assert_eq!(made(&at_once(1), &mut world, &stop, none), NOTHING);
    let now = world.now;
    world.machines.power_off(104, now);
    wait(&mut world, 120);
    assert_eq!(made(&at_once(1), &mut world, &stop, none), [3], "the other one is away");
    assert_eq!(made(&at_once(0), &mut world, &proxmox("DELETE", "104"), none), NOTHING, "it is away itself");
    let (watch, mut world) = (at_once(1), self::world());
    let now = world.now;
    assert_eq!(made(&watch, &mut world, &proxmox("POST", "104/status/stop"), none), NOTHING);
    world.machines.power_off(104, now);
    wait(&mut world, 5);
    assert_eq!(made(&watch, &mut world, &stop, none), [3], "Kubernetes still calls the first one Ready");
    let watch = at_once(0);
    watch.set_deleting(true);
    assert_eq!(made(&watch, &mut world, &stop, none), NOTHING, "all of it goes");
}

#[test]
fn invariant_3_a_config_restarts_a_worker_only_if_it_was_not_restarting_before() {
    let (watch, mut world) = (watch(), world());
    let restarts = |world: &mut World| {
        let now = world.now;
        world.machines.leave(104, Leave::Reboot, now);
    };
    let config = Call { number: 7, ..talos(104, "ApplyConfiguration") };
    assert_eq!(made(&watch, &mut world, &config, restarts), [3], "this config restarts it");
    // As after a run that asked for the restart and died.
    let (watch, mut world) = (self::watch(), self::world());
    restarts(&mut world);
    assert_eq!(made(&watch, &mut world, &config, none), NOTHING, "it was restarting before");
}

#[test]
fn invariant_2_one_voter_goes_down_only_with_approval_and_a_snapshot() {
    let mut world = world();
    let now = world.now;
    world.machines.leave_etcd(103, now).unwrap();
    world.machines.leave_etcd(102, now).unwrap();
    let reboot = talos(101, "Reboot");
    let (watch, approved) = (watch(), Allowance { api_outage: true, ..Allowance::default() });
    assert_eq!(made(&watch, &mut world, &reboot, none), [2], "no one approved it");
    watch.allow(approved);
    assert_eq!(made(&watch, &mut world, &reboot, none), [2], "there is no snapshot");
    assert_eq!(made(&watch, &mut world, &talos(101, "EtcdSnapshot"), none), NOTHING);
    assert_eq!(made(&watch, &mut world, &reboot, none), NOTHING);
}

#[test]
fn invariant_3_a_member_that_left_is_not_awaited() {
    let (watch, mut world) = (watch(), world());
    let now = world.now;
    let left = |world: &mut World| world.machines.leave_etcd(103, now).unwrap();
    assert_eq!(made(&watch, &mut world, &talos(103, "EtcdLeaveCluster"), left), NOTHING);
    watch.allow(Allowance { api_outage: true, ..Allowance::default() });
    assert_eq!(made(&watch, &mut world, &talos(101, "EtcdSnapshot"), none), NOTHING);
    assert_eq!(made(&watch, &mut world, &talos(102, "Reboot"), none), NOTHING);
}

#[test]
fn invariant_8_a_pod_with_a_budget_must_be_evicted_before_its_node_goes_down() {
    let (watch, mut world) = (watch(), world());
    watch.allow(Allowance { workers: 1, ..Allowance::default() });
    let (now, node) = (world.now, world.machines.get(105).unwrap().hostname().to_owned());
    let store = world.machines.store_mut(101).unwrap();
    let labels = json!({"app": "web"});
    let owner = json!([{"kind": "ReplicaSet", "name": "web", "controller": true}]);
    let pod = json!({
        "metadata": {"name": "web-1", "namespace": "default", "labels": labels, "ownerReferences": owner},
        "spec": {"nodeName": node}, "status": {"phase": "Running"},
    });
    store.put(&Place::core("pods", "default", "web-1"), pod, now);
    let place = Place { group: "policy", plural: "poddisruptionbudgets", namespace: "default", name: "web" };
    let budget = json!({
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": labels}},
    });
    store.put(&place, budget, now);
    let reboot = talos(105, "Reboot");
    assert_eq!(made(&watch, &mut world, &reboot, none), [8]);
    world.machines.store_mut(101).unwrap().remove(&Place::core("pods", "default", "web-1"));
    assert_eq!(made(&watch, &mut world, &reboot, none), NOTHING);
}

#[test]
fn invariant_4_without_a_record_the_valid_lease_of_another_forbids() {
    let (watch, mut world) = (watch(), world());
    world.hypervisor.vms.remove(&100);
    let now = world.now;
    let hold = |world: &mut World, holder: &str| {
        let lease =
            Place { group: "coordination.k8s.io", plural: "leases", namespace: "kube-system", name: "ours" };
        let spec =
            json!({"holderIdentity": holder, "leaseDurationSeconds": 60, "renewTime": now.to_string()});
        world.machines.store_mut(101).unwrap().put(
            &lease,
            json!({"spec": spec, "metadata": {"name": "ours"}}),
            now,
        );
    };
    let by = |origin: &str| Call { origin: origin.into(), ..talos(101, "ApplyConfiguration") };
    assert_eq!(made(&watch, &mut world, &by("kim"), none), NOTHING, "there is none yet");
    hold(&mut world, "eva");
    assert_eq!(made(&watch, &mut world, &by("kim"), none), NOTHING, "eva still waits");
    assert_eq!(made(&watch, &mut world, &by("eva"), none), NOTHING);
    assert_eq!(made(&watch, &mut world, &by("kim"), none), [4]);
    let renewal =
        Call { origin: "kim".into(), ..kubernetes("PUT", "/apis/coordination.k8s.io/v1/leases/ours") };
    assert_eq!(made(&watch, &mut world, &renewal, none), NOTHING, "that is how it is acquired");
    wait(&mut world, 61);
    assert_eq!(made(&watch, &mut world, &by("kim"), none), NOTHING, "it is over");
}

#[test]
fn invariant_5_a_person_is_held_to_account_for_their_own_change_only() {
    let (watch, mut world) = (watch(), world());
    let set = |world: &mut World, key: &str| {
        let vm = world.hypervisor.vms.get_mut(&900).unwrap();
        vm.config.insert(key.to_owned(), "9".to_owned());
    };
    assert_eq!(made(&watch, &mut world, &proxmox("PUT", "101/config"), none), NOTHING);
    let person = Call { origin: "".into(), ..proxmox("PUT", "900/config") };
    assert_eq!(made(&watch, &mut world, &person, |world| set(world, "cores")), NOTHING);
    let ours = proxmox("PUT", "101/config");
    assert_eq!(made(&watch, &mut world, &ours, |world| set(world, "sockets")), [5], "a moment later");
    watch.before_person(&world);
    set(&mut world, "cpulimit");
    watch.after_person(900, &world);
    assert_eq!(made(&watch, &mut world, &ours, none), NOTHING);
    set(&mut world, "numa");
    watch.before_person(&world);
    assert_eq!(numbers(&watch), [5], "what was done before them");
}

#[test]
fn invariant_5_a_vm_of_others_that_is_touched_is_seen() {
    let (watch, mut world) = (watch(), world());
    for (method, rest) in [("PUT", "900/config"), ("POST", "900/status/start"), ("DELETE", "900")] {
        assert_eq!(made(&watch, &mut world, &proxmox(method, rest), none), [5], "{method} {rest}");
    }
    let changes: [fn(&mut World); 4] = [
        |world| world.hypervisor.vms.get_mut(&900).unwrap().running = None,
        |world| drop(world.hypervisor.vms.get_mut(&900).unwrap().config.insert("cores".into(), "9".into())),
        |world| {
            world.hypervisor.access.pools.entry("p".into()).or_default().vms.insert(900);
        },
        |world| drop(world.hypervisor.vms.remove(&900)),
    ];
    for change in changes {
        assert_eq!(made(&watch, &mut world, &proxmox("PUT", "101/config"), change), [5]);
    }
    let theirs =
        Vm { config: [("description".to_owned(), "theirs".to_owned())].into(), ..Vm::new(901, "pve1") };
    world.hypervisor.vms.insert(901, theirs);
    assert_eq!(made(&watch, &mut world, &proxmox("PUT", "101/config"), none), NOTHING, "it is new");
    let person = Call { origin: "".into(), ..proxmox("DELETE", "901") };
    assert_eq!(made(&watch, &mut world, &person, |world| drop(world.hypervisor.vms.remove(&901))), NOTHING);
    assert_eq!(made(&watch, &mut world, &proxmox("PUT", "101/config"), none), NOTHING, "its owner did it");
}

#[test]
fn invariant_5_a_copied_member_that_is_started_is_seen() {
    let (watch, mut world) = (watch(), world());
    let disk = world.machines.copy_disk(103);
    let now = world.now;
    world.machines.power_off(103, now);
    world.machines.put_disk(103, disk);
    assert_eq!(made(&watch, &mut world, &proxmox("POST", "103/status/start"), none), [5]);
}

#[test]
fn invariant_6_keys_for_a_machine_of_others_are_seen() {
    let (watch, mut world) = (watch(), world());
    assert_eq!(made(&watch, &mut world, &talos(101, "ApplyConfiguration"), none), NOTHING);
    assert_eq!(made(&watch, &mut world, &talos(900, "ApplyConfiguration"), none), [6]);
    let dry = Call { dry_run: true, ..talos(900, "ApplyConfiguration") };
    assert_eq!(made(&watch, &mut world, &dry, none), NOTHING);
    watch.allow_external(900);
    assert_eq!(made(&watch, &mut world, &talos(900, "ApplyConfiguration"), none), NOTHING);
}

#[test]
fn invariant_6_keys_for_a_machine_that_was_not_proved_are_seen() {
    let (watch, mut world) = (watch(), world());
    let sent = |fingerprint: &str, relayed: bool| Call {
        delivery: Some(Delivery { fingerprint: fingerprint.to_owned(), relayed }),
        ..talos(104, "ApplyConfiguration")
    };
    assert_eq!(made(&watch, &mut world, &sent("relay", true), none), NOTHING, "no one asks for a proof");
    watch.require_console_identity(true);
    assert_eq!(made(&watch, &mut world, &sent("own", false), none), [6]);
    world.machines.witness("kim", 104, "own");
    world.machines.witness("eva", 105, "own");
    assert_eq!(made(&watch, &mut world, &sent("own", false), none), [6], "another client, another machine");
    world.machines.witness("eva", 104, "own");
    assert_eq!(made(&watch, &mut world, &sent("own", false), none), NOTHING);
    assert_eq!(made(&watch, &mut world, &sent("newer", false), none), [6]);
    let dry = Call { dry_run: true, ..sent("relay", true) };
    assert_eq!(made(&watch, &mut world, &dry, none), [6], "a dry run carries the keys all the same");
    watch.allow_external(104);
    assert_eq!(made(&watch, &mut world, &sent("newer", false), none), NOTHING);
    assert_eq!(made(&watch, &mut world, &sent("relay", true), none), [6]);
    assert_eq!(
        made(&watch, &mut world, &talos(104, "ApplyConfiguration"), none),
        NOTHING,
        "it has keys already"
    );
}

#[test]
fn invariant_8_lost_pods_and_freed_nodes_are_seen() {
    let (watch, mut world) = (watch(), world());
    let now = world.now;
    let put = |world: &mut World, plural: &str, name: &str, object: Value| {
        let namespace = if plural == "nodes" { "" } else { "default" };
        let place = Place::core(plural, namespace, name);
        world.machines.store_mut(101).unwrap().put(&place, object, now);
    };
    put(&mut world, "pods", "lone", json!({"status": {"phase": "Running"}, "metadata": {}}));
    let owned = json!({"ownerReferences": [{"kind": "ReplicaSet"}], "labels": {"app": "web"}});
    put(&mut world, "pods", "web", json!({"status": {"phase": "Running"}, "metadata": owned}));
    let pods = "/api/v1/namespaces/default/pods";
    assert_eq!(made(&watch, &mut world, &kubernetes("POST", &format!("{pods}/lone/eviction")), none), [8]);
    assert_eq!(made(&watch, &mut world, &kubernetes("POST", &format!("{pods}/web/eviction")), none), NOTHING);
    assert_eq!(made(&watch, &mut world, &kubernetes("DELETE", &format!("{pods}/web")), none), NOTHING);
    let budget = Place { group: "policy", plural: "poddisruptionbudgets", namespace: "default", name: "web" };
    let spec = json!({"spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}});
    world.machines.store_mut(101).unwrap().put(&budget, spec, now);
    assert_eq!(made(&watch, &mut world, &kubernetes("DELETE", &format!("{pods}/web")), none), [8]);

    let patch = kubernetes("PATCH", "/api/v1/nodes/x");
    let cordon =
        |world: &mut World, on: bool| put(world, "nodes", "x", json!({"spec": {"unschedulable": on}}));
    assert_eq!(made(&watch, &mut world, &patch, |world| cordon(world, true)), NOTHING);
    assert_eq!(made(&watch, &mut world, &patch, |world| cordon(world, false)), NOTHING, "ours");
    cordon(&mut world, true);
    assert_eq!(made(&watch, &mut world, &patch, |world| cordon(world, false)), [8], "a person's");
}

#[test]
fn invariant_9_what_is_left_behind_is_seen() {
    let mut world = world();
    assert_eq!(leftovers(&world, &rules()), ["the lease of eva in VM 100"]);
    world.machines.forget(103);
    world.hypervisor.vms.get_mut(&101).unwrap().config.insert("lock".to_owned(), "create".to_owned());
    let acl = world.hypervisor.access.acl.entry("/".to_owned()).or_default();
    acl.insert(crate::hypervisor::access::Principal::User("gone@pve".to_owned()), [].into());
    let user = world.hypervisor.access.users.entry("csi@pve".to_owned()).or_default();
    user.about.insert("comment".to_owned(), "ours".to_owned());
    let token =
        crate::hypervisor::access::Token { secret: String::new(), separated: true, expire: 0, comment: None };
    user.tokens.insert("csi".to_owned(), token);
    world.hypervisor.access.roles.insert("CSI".to_owned(), [].into());
    let node = Place::core("nodes", "", "vm-999");
    let now = world.now;
    world.machines.store_mut(101).unwrap().put(&node, json!({"metadata": {"name": "vm-999"}}), now);
    let left = leftovers(&world, &rules());
    for what in [
        "etcd member of VM 103",
        "lock create",
        "rights at /",
        "token csi@pve!csi",
        "role CSI",
        "node vm-999",
    ] {
        assert!(left.iter().any(|left| left.contains(what)), "{what}: {left:?}");
    }
    world.hypervisor.vms.retain(|_, vm| vm.vmid == 900);
    assert!(leftovers(&world, &rules()).iter().any(|left| left.contains("account csi@pve")));
}

#[test]
fn a_violation_is_told_with_what_led_to_it() {
    let (watch, mut world) = (watch(), world());
    watch.before(&talos(101, "Version"), &world);
    watch.after(&talos(101, "Version"), &world, "200 OK");
    watch.before(&proxmox("DELETE", "900"), &world);
    let told = watch.take_violations().pop().unwrap().to_string();
    assert!(told.starts_with("invariant 5 is violated: VM 900"), "{told}");
    assert!(told.contains("/machine.MachineService/Version: 200 OK") && told.contains("DELETE"), "{told}");
    made(&watch, &mut world, &talos(101, "Version"), none);
}
