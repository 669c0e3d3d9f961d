//! The engine with what Proxmox VE 9.2 was seen to do: high availability that follows later, locks after a stop, and a log of the
//! cluster that copies every change.

use std::time::Duration;

use engine::scrub::Scrub;
use lab::{LabConfig, ProxmoxVersion};
use model::event::Outcome;
use model::plan::by_hand::{ByHand, Hand};
use pve::PowerState;
use serde_json::{Value, json};

use crate::rig::{HOME, Rig, bundle};

const WORKER: u32 = 150_021;

impl Rig {
    /// Takes the cluster of [`HOME`] away.
    async fn destroyed(&self) {
        let Ok(snapshot) = self.session(HOME).observe_to_destroy().await else {
            panic!("it can be looked at")
        };
        let plan = snapshot.plan_destroy();
        assert_eq!(plan.refusals, []);
        let ran = self.carry_out(&snapshot, &plan, "me").await.unwrap();
        assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
        assert_eq!(self.vmids().await, [] as [u64; 0]);
    }

    /// The same world, where high availability looks after a VM.
    fn with_ha(&self, vmid: u32, state: &str) -> Self {
        let mut systems = self.as_json();
        systems["hypervisor"]["ha"][format!("vm:{vmid}")] = json!({ "state": state });
        Self::copy_of(&serde_json::to_vec(&systems).unwrap())
    }

    fn as_json(&self) -> Value {
        self.lab.shared().read(|systems, _| serde_json::to_value(systems).unwrap())
    }

    async fn count(&self, host: &str, since: i64, kind: &str) -> usize {
        let tasks = self.systems.pve.tasks(host, since).await.unwrap();
        tasks.iter().filter(|(upid, _)| upid.kind == kind).count()
    }
}

#[tokio::test(start_paused = true)]
async fn lab_9_2_a_highly_available_vm_is_asked_for_once_and_waited_for() {
    let rig = Rig::healthy().await;
    let host = rig.host_of(WORKER).await;
    let pve = &rig.systems.pve;
    pve.follow(&pve.stop(&host, WORKER).await.unwrap(), |_| {}).await.unwrap();
    rig.systems.clock.sleep(Duration::from_secs(60)).await;

    let rig = rig.with_ha(WORKER, "stopped");
    let since = rig.systems.clock.now().as_second();
    let ran = rig.apply(HOME).await;
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    assert_eq!(rig.systems.pve.vm_status(&host, WORKER).await.unwrap().power, PowerState::Running);
    assert_eq!(rig.count(&host, since, "hastart").await, 1, "one wish is enough");

    let since = rig.systems.clock.now().as_second();
    rig.destroyed().await;
    assert_eq!(rig.count(&host, since, "hastop").await, 1, "one wish is enough");
}

/// The manager starts a VM again that switches itself off. A node that is shut down stays off, and `apply` starts it.
#[tokio::test(start_paused = true)]
async fn leftover_9_a_highly_available_node_that_is_shut_down_stays_off() {
    let rig = Rig::healthy().await.with_ha(WORKER, "started");
    let host = rig.host_of(WORKER).await;
    let snapshot = rig.observe(HOME).await;
    // One that switches itself off comes back.
    let (node, access) = (snapshot.node("home-work-1").unwrap(), snapshot.access().unwrap());
    let (net, clock) = (&rig.systems.net, &rig.systems.clock);
    let machine =
        talos_client::Machine::connect(net, clock, rig.systems.address(node), &access.talos).unwrap();
    let before = machine.boot_id().await.unwrap();
    machine.shutdown(true).await.unwrap();
    clock.sleep(Duration::from_secs(180)).await;
    assert_ne!(machine.boot_id().await.unwrap(), before, "high availability started it again");
    let snapshot = rig.observe(HOME).await;
    let asked =
        ByHand { hand: Hand::Shutdown, nodes: ["home-work-1".into()].into(), force: false, host: None };
    let ran = rig.carry_out(&snapshot, &snapshot.plan_by_hand(&asked), "me").await.unwrap();
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    rig.systems.clock.sleep(Duration::from_secs(120)).await;
    let status = rig.systems.pve.vm_status(&host, WORKER).await.unwrap();
    assert_eq!((status.power, status.ha_managed), (PowerState::Stopped, true));
    let ran = rig.apply(HOME).await;
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    assert_eq!(rig.systems.pve.vm_status(&host, WORKER).await.unwrap().power, PowerState::Running);
}

#[tokio::test(start_paused = true)]
async fn lab_9_2_a_lock_that_the_clean_up_after_a_stop_holds_is_waited_for() {
    let rig = Rig::healthy().await;
    let (pve, host) = (&rig.systems.pve, rig.host_of(WORKER).await);
    // A person stops and starts it at once: the host holds its lock for half a minute from then on.
    pve.follow(&pve.stop(&host, WORKER).await.unwrap(), |_| {}).await.unwrap();
    pve.follow(&pve.start(&host, WORKER).await.unwrap(), |_| {}).await.unwrap();
    rig.destroyed().await;
}

#[tokio::test(start_paused = true)]
async fn lab_9_2_the_log_of_the_cluster_learns_no_secret_and_is_not_flooded() {
    let rig = Rig::healthy().await;
    let log = rig.as_json()["hypervisor"]["log"].to_string();
    assert_eq!(Scrub::of(&bundle()).clean(&log), log);
    let lines = log.matches("update VM ").count();
    let renewals = log.matches("update VM 150010:").count();
    assert!(lines > 0 && lines < 40, "{lines} lines for five VMs");
    assert!(renewals < 15, "{renewals} for the record, in the minutes that a bring-up takes");
}

#[tokio::test(start_paused = true)]
async fn lab_9_1_a_cluster_comes_up_as_on_9_2() {
    let rig = Rig::with(LabConfig { proxmox: ProxmoxVersion::V9_1, ..LabConfig::default() });
    let one = HOME.replace("count: 3", "count: 1").replace("count: 2", "count: 1");
    let ran = rig.apply(&one).await;
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    assert_eq!(rig.systems.pve.version().await.unwrap().text, "9.1.8");
}
