//! Only VMs that Talosmith made are changed: none that took the ID of one, none that carries the notes of one.

use std::time::Duration;

use lab::{CallFilter, Injection, When};
use model::event::Outcome;
use model::plan::{Plan, RefusalCode};
use pve::{Params, PowerState};
use serde_json::Value;

use crate::rig::{HOME, Rig};
use crate::stored;

const CONTROL: u32 = 150_013;
const WORKER: u32 = 150_021;
const RECORD: u32 = 150_010;

fn params(pairs: &[(&str, &str)]) -> Params {
    pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
}

fn codes(plan: &Plan) -> Vec<RefusalCode> {
    assert_eq!(plan.steps, []);
    plan.refusals.iter().map(|refusal| refusal.code).collect()
}

impl Rig {
    async fn stop(&self, vmid: u32) {
        let pve = &self.systems.pve;
        pve.follow(&pve.stop(&self.host_of(vmid).await, vmid).await.unwrap(), |_| {}).await.unwrap();
        self.systems.clock.sleep(Duration::from_secs(30)).await;
    }

    async fn delete_stopped(&self, vmid: u32) {
        let pve = &self.systems.pve;
        pve.follow(&pve.delete_vm(&self.host_of(vmid).await, vmid, true).await.unwrap(), |_| {})
            .await
            .unwrap();
    }

    /// A clone with a VM ID of its own, made by a person.
    async fn clone_of(&self, vmid: u32, newid: u32) {
        let pve = &self.systems.pve;
        let request = pve::Clone {
            newid,
            name: None,
            description: None,
            full: true,
            storage: None,
            pool: None,
            target: None,
        };
        let upid = pve.clone_vm(&self.host_of(vmid).await, vmid, &request).await.unwrap();
        pve.follow(&upid, |_| {}).await.unwrap();
        self.systems.clock.sleep(Duration::from_secs(30)).await;
    }

    async fn config(&self, vmid: u32) -> pve::VmConfig {
        self.systems.pve.vm_config(&self.host_of(vmid).await, vmid).await.unwrap()
    }

    /// The same world with another value at a key of a VM's configuration.
    fn with_config(&self, vmid: u32, key: &str, value: &str) -> Self {
        let systems = self.lab.shared().read(|systems, _| serde_json::to_vec(systems).unwrap());
        let mut systems: Value = serde_json::from_slice(&systems).unwrap();
        systems["hypervisor"]["vms"][vmid.to_string()]["config"][key] = value.into();
        Self::copy_of(&serde_json::to_vec(&systems).unwrap())
    }

    async fn plan_destroy(&self) -> Plan {
        let Ok(snapshot) = self.session(HOME).observe_to_destroy().await else {
            panic!("it can be looked at")
        };
        snapshot.plan_destroy()
    }
}

/// While a person thinks about the plan, a VM is deleted and its ID given to another one.
#[tokio::test(start_paused = true)]
async fn a6_a_vm_that_took_the_id_of_ours_is_not_touched() {
    let rig = Rig::healthy().await;
    rig.systems.pve.create_pool("k8s", "").await.unwrap();
    let file = HOME
        .replace("pools:", "defaults: { worker: { disk: 60G } }\npools:")
        .replace("'https://pve1:8006'", "'https://pve1:8006', pool: k8s");
    rig.stop(WORKER).await;
    let snapshot = rig.observe(&file).await;
    let plan = snapshot.plan();
    let planned =
        |kind: &str| plan.steps.iter().any(|s| s.id.kind() == kind && s.action.node() == Some("home-work-1"));
    assert!(planned("update-vm") && planned("grow-disk") && planned("start-vm"), "{:?}", plan.steps);

    let host = rig.host_of(WORKER).await;
    rig.delete_stopped(WORKER).await;
    let theirs =
        params(&[("name", "theirs"), ("memory", "512"), ("scsi0", "local-lvm:8"), ("tags", "talosmith")]);
    let pve = &rig.systems.pve;
    pve.follow(&pve.create_vm(&host, WORKER, &theirs).await.unwrap(), |_| {}).await.unwrap();
    let before = rig.config(WORKER).await;
    // Each step by itself, as if those before it had been done.
    let mut each = plan.clone();
    let kinds = ["update-vm", "grow-disk", "start-vm"];
    each.steps.retain(|step| kinds.contains(&step.id.kind()) && step.action.node() == Some("home-work-1"));
    each.steps.iter_mut().for_each(|step| step.after.clear());
    let ran = rig.carry_out(&snapshot, &each, "me").await.unwrap();
    assert_eq!(ran.outcome, Outcome::Failed);
    let failures = ran.failures();
    let refused = failures.iter().filter(|failure| failure.contains("is not home-work-1 any more"));
    assert_eq!(refused.count(), 3, "{failures:?}");
    assert_eq!(rig.config(WORKER).await, before);
    assert_eq!(pve.vm_status(&host, WORKER).await.unwrap().power, PowerState::Stopped);
    rig.systems.clock.sleep(Duration::from_secs(30)).await;
    let resources = pve.cluster_resources().await.unwrap();
    let listed = resources.iter().find(|r| r.vmid == Some(u64::from(WORKER))).unwrap();
    assert_eq!(listed.pool, None, "it is not even moved into our pool");
}

/// A control plane node whose original is gone would come back with an old raft log under the ID of a live member.
#[tokio::test(start_paused = true)]
async fn a8_a_clone_of_a_control_plane_node_never_takes_its_place() {
    for rig in [Rig::healthy().await, stored::f9b9111()] {
        let of_stored = rig.config(CONTROL).await.description().contains("\"version\"");
        rig.stop(CONTROL).await;
        rig.clone_of(CONTROL, 4711).await;
        rig.delete_stopped(CONTROL).await;
        let before = rig.config(4711).await;
        let (plan, destroy) = match of_stored {
            true => (rig.observe(HOME).await.plan(), rig.plan_destroy().await),
            false => {
                let snapshot = stored::observe(&rig).await;
                (snapshot.plan(), snapshot.plan_destroy())
            }
        };
        for plan in [plan, destroy] {
            assert_eq!(codes(&plan), [RefusalCode::Copied], "{:?}", plan.refusals);
            assert!(plan.refusals[0].why.contains("VM 4711"), "{:?}", plan.refusals);
        }
        assert_eq!(rig.config(4711).await, before);
    }
}

/// The clone comes between the plan and its steps, with the very ID.
#[tokio::test(start_paused = true)]
async fn a8_a_clone_that_comes_after_the_plan_is_left_alone() {
    let rig = Rig::healthy().await;
    rig.stop(CONTROL).await;
    let snapshot = rig.observe(HOME).await;
    let plan = snapshot.plan();
    assert!(plan.steps.iter().any(|s| s.id.0 == "start-vm/home-control-3"), "{:?}", plan.steps);
    let host = rig.host_of(CONTROL).await;
    rig.clone_of(CONTROL, 4711).await;
    rig.delete_stopped(CONTROL).await;
    rig.clone_of(4711, CONTROL).await;
    let before = rig.config(CONTROL).await;
    let ran = rig.carry_out(&snapshot, &plan, "me").await.unwrap();
    assert_eq!(ran.outcome, Outcome::Failed);
    assert_eq!(rig.config(CONTROL).await, before);
    let status = rig.systems.pve.vm_status(&host, CONTROL).await.unwrap();
    assert_eq!(status.power, PowerState::Stopped);
}

#[tokio::test(start_paused = true)]
async fn a8_a_restored_control_plane_node_is_refused_and_a_restored_worker_goes_on() {
    let another = "11111111-2222-4333-8444-555555555555";
    let rig = Rig::healthy().await.with_config(CONTROL, "vmgenid", another);
    let plan = rig.observe(HOME).await.plan();
    assert_eq!(codes(&plan), [RefusalCode::Restored], "{:?}", plan.refusals);
    assert!(plan.refusals[0].hint.contains("talosctl etcd remove-member"), "{:?}", plan.refusals);
    assert_eq!(rig.plan_destroy().await.refusals, [], "the cluster can still be deleted");

    let rig = Rig::healthy().await.with_config(RECORD, "vmgenid", another);
    for plan in [rig.observe(HOME).await.plan(), rig.plan_destroy().await] {
        assert_eq!(codes(&plan), [RefusalCode::Restored], "{:?}", plan.refusals);
    }

    let rig = Rig::healthy().await.with_config(WORKER, "vmgenid", another);
    let snapshot = rig.observe(HOME).await;
    let plan = snapshot.plan();
    let ids: Vec<&str> = plan.steps.iter().map(|s| s.id.0.as_str()).collect();
    assert_eq!(ids, ["update-vm/home-work-1", "check-health"], "{:?}", plan.refusals);
    let ran = rig.carry_out(&snapshot, &plan, "me").await.unwrap();
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    rig.assert_nothing_to_do(HOME).await;
}

/// The hints lead to a healthy cluster. One control plane node that went back is never accepted; all of them together are.
#[tokio::test(start_paused = true)]
async fn a8_what_the_remedy_of_a_rollback_says_heals_the_cluster() {
    let rig = Rig::healthy().await;
    let person = rig.lab.person();
    let rolled_back = async |vmids: &[u32]| {
        for vmid in vmids {
            person.snapshot(*vmid, "before").unwrap();
        }
        rig.systems.clock.sleep(Duration::from_secs(60)).await;
        for vmid in vmids {
            person.rollback(*vmid, "before").unwrap();
        }
        rig.systems.clock.sleep(Duration::from_secs(60)).await;
        let plan = rig.observe(HOME).await.plan();
        assert_eq!(codes(&plan), vec![RefusalCode::Restored; vmids.len()], "{:?}", plan.refusals);
        plan.refusals.into_iter().map(|refusal| refusal.hint).collect::<Vec<String>>()
    };
    let hints = rolled_back(&[CONTROL]).await;
    assert!(hints[0].contains("`talosctl etcd remove-member ID` removes it"), "{hints:?}");
    assert!(!hints[0].contains("talosmith-mark:"), "one alone is not accepted: {hints:?}");
    let snapshot = rig.observe(HOME).await;
    let address = std::net::IpAddr::V4(snapshot.blueprint.nodes["home-control-1"].address.addr());
    let (net, clock) = (&rig.systems.net, &rig.systems.clock);
    let first =
        talos_client::Machine::connect(net, clock, address, &snapshot.access().unwrap().talos).unwrap();
    let members = first.etcd_members(false).await.unwrap();
    let old = members.iter().find(|member| member.hostname == "home-control-3").unwrap();
    first.etcd_remove_member(old.id).await.unwrap();
    person.delete(CONTROL).unwrap();
    let ran = rig.apply(HOME).await;
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    rig.assert_whole().await;
    // The record knows the new VM: its mark can be written again from there.
    let snapshot = rig.observe(HOME).await;
    let new = snapshot.observed.proxmox.marked.iter().find(|vm| vm.vmid == CONTROL).unwrap();
    assert_eq!((new.recorded, new.mark.vmgenid), (new.vmgenid, new.vmgenid));

    let all = [150_011, 150_012, 150_013];
    let hints = rolled_back(&all).await;
    for (vmid, hint) in all.into_iter().zip(hints) {
        let line = hint.rsplit("in its notes by: ").next().unwrap();
        person.set(vmid, "description", line).unwrap();
    }
    let ran = rig.apply(HOME).await;
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    rig.assert_whole().await;
}

#[tokio::test(start_paused = true)]
async fn a8_where_a_majority_was_rolled_back_nothing_is_to_be_deleted() {
    let rig = Rig::healthy().await;
    let person = rig.lab.person();
    for vmid in [150_011, 150_012] {
        person.snapshot(vmid, "before").unwrap();
    }
    rig.systems.clock.sleep(Duration::from_secs(60)).await;
    for vmid in [150_011, 150_012] {
        person.rollback(vmid, "before").unwrap();
    }
    rig.systems.clock.sleep(Duration::from_secs(60)).await;
    let plan = rig.observe(HOME).await.plan();
    assert_eq!(codes(&plan), [RefusalCode::Restored; 2], "{:?}", plan.refusals);
    for refusal in &plan.refusals {
        assert!(refusal.hint.contains("delete no VM"), "{refusal:?}");
        assert!(!refusal.hint.contains("delete the VM and apply"), "{refusal:?}");
    }
    let notes: Vec<&str> = plan.notes.iter().map(|note| note.text.as_str()).collect();
    assert!(!notes.iter().any(|text| text.contains("start the control plane nodes")), "{notes:?}");
    // Accepted all the same, beside one that was not rolled back.
    for (vmid, refusal) in [150_011, 150_012].into_iter().zip(&plan.refusals) {
        let line = refusal.hint.rsplit("in its notes by: ").next().unwrap();
        let line = line.split_once(". If not").unwrap().0;
        person.set(vmid, "description", line).unwrap();
    }
    // Whatever state the third is in: running, off, or on a host that is off.
    for (state, but) in [
        ("runs", "home-control-3 was not"),
        ("off", "home-control-3 was not"),
        ("unread", "whether home-control-3 was rolled back, too, could not be read on pve3"),
    ] {
        match state {
            "off" => person.power_off(150_013).unwrap(),
            "unread" => rig.lab.inject(Injection::HostOffline("pve3".to_owned())),
            _ => {}
        }
        let plan = rig.observe(HOME).await.plan();
        assert_eq!(codes(&plan), [RefusalCode::Restored; 2], "{state}: {:?}", plan.refusals);
        for refusal in &plan.refusals {
            assert!(refusal.why.contains(but), "{state}: {refusal:?}");
            assert!(!refusal.hint.contains("delete the VM"), "{state}: {refusal:?}");
        }
        if state == "off" {
            // It left the file, and still has its data. `destroy` does not make the record forget what was accepted.
            let snapshot = rig.observe(&HOME.replace("count: 3", "count: 2")).await;
            let plan = snapshot.plan();
            assert_eq!(codes(&plan), [RefusalCode::Restored; 2], "{:?}", plan.refusals);
            let kept = model::ownership::generations(&snapshot.blueprint, &snapshot.observed);
            let accepted = snapshot.observed.proxmox.marked.iter().filter(|vm| vm.mark.accepted.is_some());
            let taken: Vec<_> =
                accepted.filter(|vm| kept.get(&vm.mark.node) == vm.vmgenid.as_ref()).collect();
            assert!(taken.is_empty(), "{taken:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_clone_of_the_record_is_not_taken_for_it() {
    let rig = Rig::healthy().await;
    rig.clone_of(RECORD, 900_002).await;
    let snapshot = rig.observe(HOME).await;
    assert_eq!(snapshot.observed.proxmox.record.as_ref().unwrap().vmid, RECORD);
    let plan = snapshot.plan();
    assert_eq!(codes(&plan), [RefusalCode::Doubled], "{:?}", plan.refusals);
    assert!(plan.refusals[0].hint.contains("the copy, VM 900002"), "{:?}", plan.refusals);
}

/// Marks of the first release have no generation ID. One that comes back with a snapshot is known by what the record has.
#[tokio::test(start_paused = true)]
async fn a_rollback_to_a_mark_without_a_generation_is_known_by_the_record() {
    let rig = stored::f9b9111();
    let (old, worker) = (rig.config(CONTROL).await, rig.config(WORKER).await);
    assert!(!old.description().contains("vmgenid"), "{}", old.description());
    let snapshot = stored::observe(&rig).await;
    let ran = rig.carry_out(&snapshot, &snapshot.plan(), "me").await.unwrap();
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    let set = async |rig: &Rig, vmid: u32, notes: &str| {
        let host = rig.host_of(vmid).await;
        rig.systems
            .pve
            .update_config(&host, vmid, &params(&[("description", notes)]), &[], None)
            .await
            .unwrap();
    };
    let another = "11111111-2222-4333-8444-555555555555";
    let current = rig.config(CONTROL).await;
    set(&rig, CONTROL, old.description()).await;
    set(&rig, WORKER, worker.description()).await;
    let plan = stored::observe(&rig).await.plan();
    assert_eq!(plan.refusals, [], "the same generation: a person edited the notes");
    let rolled_back = rig.with_config(CONTROL, "vmgenid", another).with_config(WORKER, "vmgenid", another);
    let plan = stored::observe(&rolled_back).await.plan();
    assert_eq!(codes(&plan), [RefusalCode::Restored], "{:?}", plan.refusals);
    assert!(plan.refusals[0].why.contains("VM 150013"), "{:?}", plan.refusals);
    // A mark that is lost as well is not restored without its generation.
    set(&rolled_back, CONTROL, "nothing").await;
    let plan = stored::observe(&rolled_back).await.plan();
    assert_eq!(codes(&plan), [RefusalCode::LostMark], "{:?}", plan.refusals);
    let known = current.get("vmgenid").unwrap();
    let told = &plan.refusals[0].hint;
    assert!(told.contains(&format!("\"vmgenid\":\"{known}\"")), "{told}");
}

/// A person may use our template for a VM of his own.
#[tokio::test(start_paused = true)]
async fn a8_a_clone_of_our_template_stays_when_the_cluster_goes() {
    let rig = Rig::new();
    let small = HOME.replace("count: 3", "count: 1").replace("count: 2", "count: 1");
    let file = small.replace("pools:", "image: { delivery: template }\npools:");
    let ran = rig.apply(&file).await;
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    rig.clone_of(15_001_001, 4711).await;
    let Ok(snapshot) = rig.session(&file).observe_to_destroy().await else { panic!("it can be looked at") };
    let plan = snapshot.plan_destroy();
    assert!(plan.notes.iter().any(|n| n.text.contains("VM 4711")), "{:?}", plan.notes);
    let ran = rig.carry_out(&snapshot, &plan, "me").await.unwrap();
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    assert_eq!(rig.vmids().await, [4711]);
}

#[tokio::test(start_paused = true)]
async fn a9_unknown_fields_stay_and_newer_notes_are_refused() {
    let rig = Rig::healthy().await;
    for (vmid, line) in
        [(WORKER, "talosmith-mark: {"), (RECORD, "talosmith-mark: {"), (RECORD, "talosmith-record: {")]
    {
        let notes = rig.config(vmid).await.description().replace(line, &format!("{line}\"later\":[{vmid}],"));
        let host = rig.host_of(vmid).await;
        let change = params(&[("description", &notes), ("onboot", "0")]);
        rig.systems.pve.update_config(&host, vmid, &change, &[], None).await.unwrap();
    }
    let ran = rig.apply(HOME).await;
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    assert_eq!(rig.config(WORKER).await.description().matches("\"later\":[150021]").count(), 1);
    assert_eq!(rig.config(RECORD).await.description().matches("\"later\":[150010]").count(), 2);
    rig.assert_nothing_to_do(HOME).await;

    for (vmid, line) in
        [(WORKER, "talosmith-mark: {"), (RECORD, "talosmith-mark: {"), (RECORD, "talosmith-record: {")]
    {
        let notes = rig.config(vmid).await.description().to_owned();
        let host = rig.host_of(vmid).await;
        let set = async |notes: &str| {
            let change = params(&[("description", notes)]);
            rig.systems.pve.update_config(&host, vmid, &change, &[], None).await.unwrap();
        };
        let before = format!("{line}\"version\":1");
        assert!(notes.contains(&before), "{notes}");
        set(&notes.replace(&before, &format!("{line}\"version\":2"))).await;
        for plan in [rig.observe(HOME).await.plan(), rig.plan_destroy().await] {
            assert_eq!(codes(&plan)[0], RefusalCode::Newer, "{:?}", plan.refusals);
            assert!(plan.refusals[0].hint.contains("upgrade this program"), "{:?}", plan.refusals);
        }
        set(&notes).await;
    }
    rig.assert_nothing_to_do(HOME).await;
}

#[tokio::test(start_paused = true)]
async fn p6_a_vm_that_a_person_protected_is_not_even_stopped() {
    let rig = Rig::healthy().await;
    let Ok(snapshot) = rig.session(HOME).observe_to_destroy().await else { panic!("it can be looked at") };
    let early = snapshot.plan_destroy();
    let host = rig.host_of(WORKER).await;
    rig.systems.pve.update_config(&host, WORKER, &params(&[("protection", "1")]), &[], None).await.unwrap();
    let plan = rig.plan_destroy().await;
    assert_eq!(codes(&plan), [RefusalCode::Protected]);
    assert!(plan.refusals[0].why.contains("home-work-1 (VM 150021"), "{:?}", plan.refusals);
    // It was protected after the plan was made: the others go, this one is not stopped.
    let ran = rig.carry_out(&snapshot, &early, "me").await.unwrap();
    assert_eq!(ran.outcome, Outcome::Failed);
    assert_eq!(rig.vmids().await, [u64::from(RECORD), u64::from(WORKER)]);
    assert_eq!(rig.systems.pve.vm_status(&host, WORKER).await.unwrap().power, PowerState::Running);
}

#[tokio::test(start_paused = true)]
async fn p10_a_creation_that_was_cut_off_is_neither_missing_nor_done() {
    let rig = Rig::new();
    let which = CallFilter { method: "POST".into(), path_contains: "/nodes/pve1/qemu".into(), skip: 1 };
    rig.lab.inject(Injection::Known { number: 54, when: When::Call(which) });
    let ran = rig.apply(HOME).await;
    assert_eq!(ran.outcome, Outcome::Failed);
    rig.lab.inject(Injection::Clear);
    rig.systems.clock.sleep(Duration::from_secs(60)).await;
    let locked: Vec<u64> = {
        let resources = rig.systems.pve.cluster_resources().await.unwrap();
        resources.iter().filter(|r| r.lock.as_deref() == Some("create")).filter_map(|r| r.vmid).collect()
    };
    let [vmid] = locked.as_slice() else { panic!("{locked:?}") };
    for plan in [rig.observe(HOME).await.plan(), rig.plan_destroy().await] {
        assert_eq!(codes(&plan), [RefusalCode::Unfinished], "{:?}", plan.refusals);
        let told = format!("`qm destroy {vmid} --skiplock --destroy-unreferenced-disks 1 --purge`");
        assert!(plan.refusals[0].hint.contains(&told), "{:?}", plan.refusals);
    }
}
