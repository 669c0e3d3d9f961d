//! Bootstrap, replacement and deletion need positive evidence: what does not answer proves nothing.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use engine::{Session, Snapshot};
use lab::{CallFilter, CallMoment, Injection, LabConfig, Verdict, When, Wire};
use model::allowed::Allowed;
use model::event::Outcome;
use model::observed::Etcd;
use model::plan::{Plan, RefusalCode};
use model::step::Action;
use pve::Params;
use talos::config::Contract;
use talos::secrets::Bundle;

use crate::external::{METAL, metal};
use crate::rig::{HOME, Ran, Rig, spec};

const RECORD: u32 = 150_010;
const WORKER: u32 = 150_021;
const CONTROL: [u32; 3] = [150_011, 150_012, 150_013];

impl Rig {
    /// Someone deletes a VM in the Proxmox UI.
    async fn delete(&self, vmid: u32) {
        let (pve, host) = (&self.systems.pve, self.host_of(vmid).await);
        let unprotected = Params::from([("protection".to_owned(), "0".to_owned())]);
        pve.update_config(&host, vmid, &unprotected, &[], None).await.unwrap();
        self.off(vmid).await;
        pve.follow(&pve.delete_vm(&host, vmid, true).await.unwrap(), |_| {}).await.unwrap();
    }

    async fn off(&self, vmid: u32) {
        let (pve, host) = (&self.systems.pve, self.host_of(vmid).await);
        if pve.vm_status(&host, vmid).await.unwrap().power == pve::PowerState::Running {
            pve.follow(&pve.stop(&host, vmid).await.unwrap(), |_| {}).await.unwrap();
        }
    }

    /// The notes of the record, with lines that start like this taken out.
    pub async fn without_line(&self, starts: &str) {
        let (pve, host) = (&self.systems.pve, self.host_of(RECORD).await);
        let config = pve.vm_config(&host, RECORD).await.unwrap();
        let kept = config.description().lines().filter(|line| !line.starts_with(starts));
        let notes = Params::from([("description".to_owned(), kept.collect::<Vec<_>>().join("\n"))]);
        pve.update_config(&host, RECORD, &notes, &[], None).await.unwrap();
    }

    async fn allowing(&self, file: &str, nodes: &[&str]) -> Snapshot {
        let session = self.session(file).allowing(Allowed::data_of(nodes.iter().copied()));
        let Ok(snapshot) = session.observe().await else { panic!("it can be looked at") };
        snapshot
    }

    fn unplug(&self, vmid: u32) {
        self.lab.inject(Injection::Unplugged { vmid, unplugged: true });
    }

    /// Counts calls of a method from now on.
    fn count_calls(&self, method: &'static str) -> Arc<AtomicU64> {
        let calls = Arc::new(AtomicU64::new(0));
        let counter = calls.clone();
        self.lab.on_call(move |_, moment, _, path| {
            if moment == CallMoment::After && path.ends_with(method) {
                counter.fetch_add(1, Ordering::Relaxed);
            }
            Verdict::GoOn
        });
        calls
    }

    /// A careless person resets partitions of the machine at an address.
    async fn wipe(&self, file: &str, node: &str, partitions: &[&str]) {
        let snapshot = self.observe(file).await;
        let address = std::net::IpAddr::V4(snapshot.blueprint.nodes[node].address.addr());
        let access = snapshot.access().unwrap();
        let (net, clock) = (&self.systems.net, &self.systems.clock);
        let machine = talos_client::Machine::connect(net, clock, address, &access.talos).unwrap();
        let partitions = partitions.iter().map(|label| (*label).to_owned()).collect();
        machine.reset(&talos_client::Reset { graceful: false, reboot: true, partitions }).await.unwrap();
        self.let_pass(60).await;
    }

    async fn let_pass(&self, seconds: u64) {
        self.systems.clock.sleep(Duration::from_secs(seconds)).await;
    }

    async fn is_running(&self, vmid: u32) -> bool {
        let host = self.host_of(vmid).await;
        self.systems.pve.vm_status(&host, vmid).await.unwrap().power == pve::PowerState::Running
    }
}

fn kinds(plan: &Plan) -> Vec<&str> {
    plan.steps.iter().map(|step| step.id.kind()).collect()
}

fn deleted(plan: &Plan) -> Vec<&str> {
    let node = |step: &'_ model::step::Step| matches!(step.action, Action::DeleteVm { .. });
    plan.steps.iter().filter(|s| node(s)).filter_map(|s| s.action.node()).collect()
}

fn done(ran: &Ran) {
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
}

/// The record and every control plane node are gone, workers run: that is a lost cluster and not a new one.
#[tokio::test(start_paused = true)]
async fn a2_a_missing_record_beside_vms_of_the_cluster_refuses_bootstrap() {
    let rig = Rig::healthy().await;
    for vmid in CONTROL.into_iter().chain([RECORD]) {
        rig.delete(vmid).await;
    }
    rig.let_pass(30).await;
    let plan = rig.observe(HOME).await.plan();
    assert_eq!(kinds(&plan), Vec::<&str>::new());
    let refusal = plan.refusals.iter().find(|r| r.code == RefusalCode::NoRecord).unwrap();
    assert!(!refusal.hint.contains("delete"), "{refusal:?}");
    // Also where they are all off, and where the file does not name them any more.
    for vmid in [150_021, 150_022] {
        rig.off(vmid).await;
    }
    assert_ne!(rig.observe(HOME).await.plan().refusals, []);
    let renamed = HOME.replace("  work:", "  other:");
    assert_ne!(rig.observe(&renamed).await.plan().refusals, []);
}

/// The record is gone while etcd runs: it is created again, and says at once that etcd is bootstrapped.
#[tokio::test(start_paused = true)]
async fn a2_a_missing_record_of_a_live_cluster_is_created_with_its_bootstrap_mark() {
    let rig = Rig::healthy().await;
    rig.delete(RECORD).await;
    let bootstraps = rig.count_calls("/Bootstrap");
    // The run dies long before the health check, which would write the mark as well.
    tokio::select! {
        biased;
        () = rig.let_pass(20) => {}
        _ = rig.apply(HOME) => panic!("it waits for a holder of the lost lease"),
    }
    let snapshot = rig.observe(HOME).await;
    let mark = snapshot.observed.proxmox.record.as_ref().unwrap().state.bootstrap.clone().unwrap();
    assert!(mark.done, "{mark:?}");
    assert_eq!(bootstraps.load(Ordering::Relaxed), 0);
    assert_eq!(rig.etcd_clusters(), 1);
    rig.assert_nothing_to_do(HOME).await;
}

/// Someone edits the notes of the record while etcd runs: the line is written again, with its mark.
#[tokio::test(start_paused = true)]
async fn a2_a_record_that_lost_its_line_gets_its_mark_again() {
    let rig = Rig::healthy().await;
    rig.without_line("talosmith-record:").await;
    let snapshot = rig.observe(HOME).await;
    let plan = snapshot.plan();
    assert_eq!(kinds(&plan), ["seal-record"], "{:?}", plan.refusals);
    done(&rig.carry_out(&snapshot, &plan, "me").await.unwrap());
    let snapshot = rig.observe(HOME).await;
    let record = snapshot.observed.proxmox.record.as_ref().unwrap();
    assert!(record.state.bootstrap.as_ref().unwrap().done);
    assert_eq!(record.state.lease, None, "the lease is released");
    rig.assert_whole().await;
}

/// The same while nothing answers: whether etcd ran is unknown, so nothing is done, and no one is told to delete the record.
#[tokio::test(start_paused = true)]
async fn a2_an_unreadable_record_without_members_refuses() {
    for lost in ["talosmith-record:", "talosmith-"] {
        let rig = Rig::healthy().await;
        rig.without_line(lost).await;
        for vmid in CONTROL {
            rig.unplug(vmid);
        }
        let plan = rig.observe(HOME).await.plan();
        assert_eq!(kinds(&plan), Vec::<&str>::new());
        assert_ne!(plan.refusals, [], "{lost}");
        for refusal in &plan.refusals {
            assert!(!refusal.hint.contains("delete that VM"), "{refusal:?}");
        }
    }
}

/// Five members vote, the file has three nodes: two that are off are not forgotten.
#[tokio::test(start_paused = true)]
async fn a3_members_of_etcd_are_counted_not_the_file() {
    let rig = Rig::new();
    let five = HOME.replace("count: 3", "count: 5");
    done(&rig.apply(&five).await);
    for vmid in [150_014, 150_015] {
        rig.off(vmid).await;
    }
    // The third one lives, and is a part of the majority; only from here it is not seen.
    for at in ["10.25.150.13:50000", ":6443"] {
        let which = CallFilter { method: String::new(), path_contains: at.to_owned(), skip: 0 };
        let when = When::Chance { which, permille: 1000, seed: 1 };
        rig.lab.inject(Injection::Wire { fault: Wire::BlackHole, when });
    }
    let plan = rig.allowing(HOME, &["home-control-3"]).await.plan();
    assert_eq!(deleted(&plan), Vec::<&str>::new());
    assert!(plan.refusals.iter().any(|r| r.why.contains("2 of 5")), "{:?}", plan.refusals);
    assert!(rig.is_running(150_013).await);
}

/// Two permissions replace one control plane node; the other one waits for the next run.
#[tokio::test(start_paused = true)]
async fn a3_one_control_plane_node_is_replaced_per_run() {
    let rig = Rig::new();
    let five = HOME.replace("count: 3", "count: 5");
    done(&rig.apply(&five).await);
    let both = ["home-control-4", "home-control-5"];
    for node in both {
        rig.wipe(&five, node, &[]).await;
    }
    rig.let_pass(120).await;
    let snapshot = rig.allowing(&five, &both).await;
    let plan = snapshot.plan();
    assert_eq!(plan.refusals, []);
    assert_eq!(deleted(&plan), ["home-control-4"]);
    assert!(plan.notes.iter().any(|n| n.text.contains("home-control-5")), "{:?}", plan.notes);
    done(&rig.carry_out(&snapshot, &plan, "me").await.unwrap());
    let snapshot = rig.allowing(&five, &both).await;
    let plan = snapshot.plan();
    assert_eq!(deleted(&plan), ["home-control-5"], "{:?}", plan.refusals);
    done(&rig.carry_out(&snapshot, &plan, "me").await.unwrap());
    assert_eq!(rig.etcd_clusters(), 1);
    rig.assert_nothing_to_do(&five).await;
}

/// Another member is lost between the plan and the stop: the majority is counted again, and nothing is stopped.
#[tokio::test(start_paused = true)]
async fn a3_the_majority_is_counted_again_before_the_stop() {
    let rig = Rig::healthy().await;
    rig.unplug(150_013);
    rig.let_pass(120).await;
    let snapshot = rig.allowing(HOME, &["home-control-3"]).await;
    let mut plan = snapshot.plan();
    assert_eq!(deleted(&plan), ["home-control-3"], "{:?}", plan.refusals);
    // Without a majority there is no snapshot either; here it was taken before.
    plan.steps.retain(|step| step.action != Action::SnapshotEtcd);
    plan.steps.iter_mut().for_each(|step| step.after.retain(|id| id.0 != "snapshot-etcd"));
    rig.off(150_012).await;
    let stops = rig.count_calls("/status/stop");
    let ran = rig.carry_out(&snapshot, &plan, "me").await.unwrap();
    assert_eq!(ran.outcome, Outcome::Failed);
    let told = "could not replace home-control-3";
    assert!(ran.failures().iter().any(|f| f.contains(told)), "{:?}", ran.failures());
    assert_eq!(stops.load(Ordering::Relaxed), 0);
}

/// The operator's way to the machines is down, Proxmox answers: nothing says that the node is dead.
#[tokio::test(start_paused = true)]
async fn a4_a_node_is_not_deleted_while_nothing_answers() {
    let rig = Rig::healthy().await;
    for vmid in CONTROL.into_iter().chain([WORKER, 150_022]) {
        rig.unplug(vmid);
    }
    let plan = rig.allowing(HOME, &["home-work-1"]).await.plan();
    assert_eq!(deleted(&plan), Vec::<&str>::new());
    assert_ne!(plan.refusals, []);
}

/// The same, where the way breaks between the plan and the stop.
#[tokio::test(start_paused = true)]
async fn a4_evidence_is_looked_for_again_before_the_stop() {
    let rig = Rig::healthy().await;
    rig.unplug(WORKER);
    rig.let_pass(120).await;
    let snapshot = rig.allowing(HOME, &["home-work-1"]).await;
    let plan = snapshot.plan();
    assert_eq!(deleted(&plan), ["home-work-1"], "{:?}", plan.refusals);
    for vmid in CONTROL.into_iter().chain([150_022]) {
        rig.unplug(vmid);
    }
    let stops = rig.count_calls("/status/stop");
    let ran = rig.carry_out(&snapshot, &plan, "me").await.unwrap();
    assert_eq!(ran.outcome, Outcome::Failed);
    assert_eq!(stops.load(Ordering::Relaxed), 0, "{:?}", ran.failures());
}

/// Kubernetes says Ready: that is a veto, however silent the Talos API is.
#[tokio::test(start_paused = true)]
async fn a4_ready_in_kubernetes_vetoes_the_stop() {
    let rig = Rig::healthy().await;
    rig.unplug(WORKER);
    rig.let_pass(120).await;
    let snapshot = rig.allowing(HOME, &["home-work-1"]).await;
    let plan = snapshot.plan();
    assert_eq!(deleted(&plan), ["home-work-1"], "{:?}", plan.refusals);
    rig.lab.inject(Injection::Clear);
    let which = CallFilter { method: String::new(), path_contains: "10.25.150.21:50000".to_owned(), skip: 0 };
    let when = When::Chance { which, permille: 1000, seed: 1 };
    rig.lab.inject(Injection::Wire { fault: Wire::BlackHole, when });
    rig.let_pass(60).await;
    let stops = rig.count_calls("/status/stop");
    let ran = rig.carry_out(&snapshot, &plan, "me").await.unwrap();
    assert_eq!(ran.outcome, Outcome::Failed);
    assert!(ran.failures().iter().any(|f| f.contains("Ready")), "{:?}", ran.failures());
    assert_eq!(stops.load(Ordering::Relaxed), 0);
}

/// Nothing is stopped before the node has been silent for minutes.
#[tokio::test(start_paused = true)]
async fn a4_a_node_that_comes_back_within_two_minutes_keeps_its_vm() {
    let rig = Rig::healthy().await;
    rig.unplug(WORKER);
    rig.let_pass(120).await;
    let snapshot = rig.allowing(HOME, &["home-work-1"]).await;
    let plan = snapshot.plan();
    let mended = async {
        rig.let_pass(90).await;
        rig.lab.inject(Injection::Clear);
        std::future::pending::<()>().await;
    };
    let stops = rig.count_calls("/status/stop");
    let ran = tokio::select! {
        biased;
        ran = rig.carry_out(&snapshot, &plan, "me") => ran.unwrap(),
        () = mended => panic!("never"),
    };
    assert_eq!(ran.outcome, Outcome::Failed);
    assert_eq!(stops.load(Ordering::Relaxed), 0, "{:?}", ran.failures());
    rig.assert_nothing_to_do(HOME).await;
}

/// A run that died right behind Bootstrap is continued seconds later: etcd comes up by itself and is waited for.
#[tokio::test(start_paused = true)]
async fn t1_a_run_that_died_behind_bootstrap_waits_for_etcd() {
    for seconds in [0, 1, 3] {
        let rig = metal().await;
        let called = Arc::new(tokio::sync::Notify::new());
        let calls = called.clone();
        rig.lab.on_call(move |_, moment, _, path| {
            if moment == CallMoment::After && path.ends_with("/Bootstrap") {
                calls.notify_one();
            }
            Verdict::GoOn
        });
        tokio::select! {
            biased;
            () = called.notified() => {}
            _ = rig.apply(METAL) => panic!("it dies before"),
        }
        rig.let_pass(seconds).await;
        done(&rig.apply(METAL).await);
        assert_eq!(rig.etcd_clusters(), 1);
        rig.assert_nothing_to_do(METAL).await;
    }
}

/// The machine forgot its bootstrap, and another control plane node cannot be seen any more: it is not asked again.
#[tokio::test(start_paused = true)]
async fn a_bootstrap_is_not_repeated_while_a_control_plane_node_cannot_be_seen() {
    let rig = Rig::new();
    let (asked, called) = (Arc::new(AtomicU64::new(0)), Arc::new(tokio::sync::Notify::new()));
    let (shared, counted, calls) = (rig.lab.shared().clone(), asked.clone(), called.clone());
    rig.lab.on_call(move |_, moment, _, path| {
        if moment == CallMoment::After
            && path.ends_with("/Bootstrap")
            && counted.fetch_add(1, Ordering::Relaxed) == 0
        {
            shared.with(|systems, now| systems.machines.power_cycle(CONTROL[0], now));
            calls.notify_one();
        }
        Verdict::GoOn
    });
    let cut = async {
        called.notified().await;
        rig.unplug(CONTROL[1]);
    };
    let (ran, ()) = futures::join!(rig.apply(HOME), cut);
    assert_eq!(ran.outcome, Outcome::Failed);
    assert_eq!(asked.load(Ordering::Relaxed), 1, "{:?}", ran.failures());
    assert!(ran.failures().iter().any(|f| f.contains("it may exist already")), "{:?}", ran.failures());
    assert_eq!(rig.etcd_clusters(), 0);
    rig.lab.inject(Injection::Unplugged { vmid: CONTROL[1], unplugged: false });
    done(&rig.apply(HOME).await);
    rig.assert_whole().await;
}

/// Nothing of etcd is seen, but Kubernetes answers: then there is an etcd.
#[tokio::test(start_paused = true)]
async fn t1_an_answering_kubernetes_means_that_etcd_exists() {
    let rig = Rig::healthy().await;
    rig.without_mark().await;
    for last in [11, 12, 13] {
        let which =
            CallFilter { method: String::new(), path_contains: format!("10.25.150.{last}:50000"), skip: 0 };
        let when = When::Chance { which, permille: 1000, seed: 1 };
        rig.lab.inject(Injection::Wire { fault: Wire::BlackHole, when });
    }
    let snapshot = rig.observe(HOME).await;
    assert!(snapshot.observed.kubernetes.answered);
    let plan = snapshot.plan();
    assert!(!kinds(&plan).contains(&"bootstrap"), "{:?}", kinds(&plan));
    assert!(plan.refusals.iter().any(|r| r.code == RefusalCode::Etcd), "{:?}", plan.refusals);
}

impl Rig {
    /// The record as it was before etcd was bootstrapped, as after the restore of a backup.
    async fn without_mark(&self) {
        let (pve, host) = (&self.systems.pve, self.host_of(RECORD).await);
        let config = pve.vm_config(&host, RECORD).await.unwrap();
        let mark = model::mark::Mark::find(config.description()).unwrap();
        let notes = mark.describe_record(&model::mark::RecordState::default());
        let notes = Params::from([("description".to_owned(), notes)]);
        pve.update_config(&host, RECORD, &notes, &[], None).await.unwrap();
    }
}

/// The control plane node is empty, and a worker of the cluster lives: that was a cluster once.
#[tokio::test(start_paused = true)]
async fn t2_a_worker_that_was_registered_refuses_a_new_etcd() {
    let rig = metal().await;
    done(&rig.apply(METAL).await);
    rig.wipe(METAL, "cp-1", &["STATE", "EPHEMERAL"]).await;
    let bootstraps = rig.count_calls("/Bootstrap");
    let plan = rig.observe(METAL).await.plan();
    assert_eq!(kinds(&plan), Vec::<&str>::new());
    let refusal = plan.refusals.iter().find(|r| r.why.contains("w-1")).unwrap();
    assert!(refusal.hint.contains("snapshot"), "{refusal:?}");
    assert_eq!(bootstraps.load(Ordering::Relaxed), 0);
}

/// The machines were given other keys: refused within seconds, and neither configured nor waited for.
#[tokio::test(start_paused = true)]
async fn t3_machines_with_other_keys_are_refused_at_once() {
    let rig = metal().await;
    done(&rig.apply(METAL).await);
    let contract = Contract::parse("v1.13").unwrap();
    let other = Bundle::generate(contract, LabConfig::first_moment()).unwrap();
    let session = Session::new(rig.systems.clone(), spec(METAL), Some(other));
    let before = rig.systems.clock.now();
    let Ok(snapshot) = session.observe().await else { panic!("it can be looked at") };
    let plan = snapshot.plan();
    assert_eq!(kinds(&plan), Vec::<&str>::new());
    for node in ["cp-1", "w-1"] {
        let why = |r: &&model::plan::Refusal| r.code == RefusalCode::OtherKeys && r.why.contains(node);
        let refusal = plan.refusals.iter().find(why);
        assert!(refusal.is_some_and(|r| r.hint.contains("bundle")), "{node}: {:?}", plan.refusals);
    }
    let took = rig.systems.clock.now().duration_since(before);
    assert!(took < jiff::SignedDuration::from_secs(30), "{took}");
}

/// Wiping STATE alone keeps etcd's data: a machine in maintenance mode says nothing about it, and what it has is used.
#[tokio::test(start_paused = true)]
async fn by_reading_2_maintenance_mode_does_not_prove_that_there_is_no_etcd_data() {
    let single = "\
cluster: metal
versions: { talos: v1.13.9, kubernetes: v1.35.4 }
network: { cidr: 10.25.150.0/24, gateway: 10.25.150.1, vip: 10.25.150.10 }
kubernetes: { schedule_on_control_planes: true }
nodes:
  cp-1: { role: controlplane, address: 10.25.150.31, external: true, unverified: true, mac: 'BC:24:11:00:00:31' }
";
    let rig = metal().await;
    done(&rig.apply(single).await);
    rig.wipe(single, "cp-1", &["STATE"]).await;
    let snapshot = rig.observe(single).await;
    assert_eq!(snapshot.observed.machines["cp-1"].stage.as_deref(), Some("maintenance"));
    assert_eq!(snapshot.observed.machines["cp-1"].etcd, Etcd::Unknown);
    let bootstraps = rig.count_calls("/Bootstrap");
    done(&rig.apply(single).await);
    assert_eq!(bootstraps.load(Ordering::Relaxed), 0, "it has its data");
    assert_eq!(rig.etcd_clusters(), 1);
}

/// With the record of a live cluster its lease is lost. Its holder may go on for a while, so nothing is changed until then, also
/// when the run that wrote the record again dies during this wait.
#[tokio::test(start_paused = true)]
async fn a7_the_holder_of_a_lost_lease_is_outwaited() {
    for dies in [false, true] {
        let rig = Rig::healthy().await;
        rig.delete(RECORD).await;
        let times: Arc<Mutex<Vec<(String, jiff::Timestamp)>>> = Arc::default();
        let (kept, clock) = (times.clone(), rig.systems.clock.clone());
        rig.lab.on_call(move |_, moment, method, path| {
            if moment == CallMoment::Before && method == "POST" && path.ends_with("/qemu") {
                kept.lock().unwrap().push((path.to_owned(), clock.now()));
            }
            Verdict::GoOn
        });
        let file = HOME.replace("count: 2", "count: 3");
        if dies {
            tokio::select! {
                biased;
                () = rig.let_pass(20) => {}
                _ = rig.apply(&file) => panic!("it waits longer"),
            }
            assert_eq!(times.lock().unwrap().len(), 1, "only the record was created");
            let snapshot = rig.observe(&file).await;
            let again = rig.carry_out(&snapshot, &snapshot.plan(), "me").await;
            assert!(again.is_err(), "it waits, and observes again");
        }
        let ran = rig.apply(&file).await;
        assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
        let times = times.lock().unwrap();
        let [(_, record), (_, worker)] = times.as_slice() else { panic!("{times:?}") };
        let waited = worker.duration_since(*record);
        let must = model::lease::SUCCESSOR_WAITS.as_secs();
        assert!(waited.as_secs() >= i64::try_from(must).unwrap(), "{waited}, died: {dies}");
    }
}

/// Directly before the call every control plane node is asked. One that fell back into maintenance mode since, and one that is off, may
/// have data.
#[tokio::test(start_paused = true)]
async fn by_reading_2_a_control_plane_node_that_cannot_be_seen_blocks_the_call() {
    let rig = Rig::new();
    let snapshot = rig.observe(HOME).await;
    let mut plan = snapshot.plan();
    let later = ["bootstrap", "join", "create-credentials", "check-health"];
    plan.steps.retain(|step| !later.contains(&step.id.kind()));
    done(&rig.carry_out(&snapshot, &plan, "me").await.unwrap());
    rig.wipe(HOME, "home-control-2", &["STATE"]).await;
    rig.lab.person().power_off(CONTROL[2]).unwrap();
    let snapshot = rig.observe(HOME).await;
    let mut plan = snapshot.plan();
    plan.steps.retain(|step| step.id.kind() == "bootstrap");
    plan.steps.iter_mut().for_each(|step| step.after.clear());
    let bootstraps = rig.count_calls("/Bootstrap");
    let ran = rig.carry_out(&snapshot, &plan, "me").await.unwrap();
    let told = ran.failures().join("\n");
    assert!(
        told.contains("home-control-2 is in maintenance mode and does not show whether it has etcd data"),
        "{told}"
    );
    assert!(told.contains("home-control-3 cannot be seen"), "{told}");
    assert_eq!(bootstraps.load(Ordering::Relaxed), 0);
}

/// Neither the record nor a node is missing because a tag is, and the file names another VM ID: they are found by their names.
#[tokio::test(start_paused = true)]
async fn a2_vms_without_their_tag_at_other_ids_are_found() {
    let rig = Rig::healthy().await;
    for vmid in CONTROL.into_iter().chain([RECORD, WORKER, 150_022]) {
        rig.lab.person().set(vmid, "tags", "mine").unwrap();
    }
    let moved = HOME.replace("pve1:8006' }", "pve1:8006', record: 7010 }");
    let plan = rig.observe(&moved).await.plan();
    assert!(!kinds(&plan).iter().any(|kind| kind.starts_with("create")), "{:?}", kinds(&plan));
    rig.lab.person().set(RECORD, "name", "renamed").unwrap();
    let plan = rig.observe(&moved).await.plan();
    assert!(!kinds(&plan).iter().any(|kind| kind.starts_with("create")), "{:?}", kinds(&plan));
}

/// The notes of a VM of ours name another owner: destroy does not leave it behind in silence.
#[tokio::test(start_paused = true)]
async fn a8_a_vm_with_our_uuid_and_another_owner_is_not_overlooked() {
    let rig = Rig::healthy().await;
    let notes = rig.lab.person().config(WORKER).unwrap()["description"].clone();
    let owner = model::mark::Mark::find(&notes).unwrap().owner.to_string();
    let other = notes.replace(&owner, "00000000-0000-5000-8000-000000000000");
    rig.lab.person().set(WORKER, "description", &other).unwrap();
    let Ok(snapshot) = rig.session(HOME).observe_to_destroy().await else { panic!("it can be looked at") };
    let plan = snapshot.plan_destroy();
    assert!(!plan.refusals.is_empty(), "{:?}", kinds(&plan));
    assert!(plan.steps.is_empty());
}
