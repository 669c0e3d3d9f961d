//! Other memory for a whole cluster, which is a power cycle of each node, against the longest chain that the file allows.
//!
//! The chain is measured in a copy of the same lab, with one who knows everything and checks nothing: it shuts a VM down and starts it
//! again without a drain, without a question to etcd, without a look at the machine, and turns to the next one at the moment at which the
//! node is back. Control plane nodes go one at a time, workers as many at once as the file allows. No program could be faster.

use std::sync::Mutex;
use std::time::Duration;

use engine::kubernetes::Kubernetes;
use lab::{HostConfig, LabConfig};
use model::event::Outcome;
use pve::Params;

use crate::rig::{HOME, Rig, bundle};

/// How many workers the file allows at once.
const AT_ONCE: usize = 2;
const MOMENT: Duration = Duration::from_millis(500);

/// Kubernetes as one address of it answers.
fn kubernetes_at(rig: &Rig, address: &str) -> Kubernetes {
    let day = Duration::from_secs(24 * 3600);
    let identity = talos::secrets::kubernetes_admin(&bundle(), day, rig.systems.clock.now()).unwrap();
    Kubernetes::new(&rig.systems, &format!("https://{address}:6443"), &identity).unwrap()
}

/// One node goes down and comes back. A control plane node is back when its own API server says that it is Ready.
async fn power_cycle(rig: &Rig, name: &str, vmid: u32) {
    let (host, pve) = (rig.host_of(vmid).await, &rig.systems.pve);
    let before = rig.kubernetes().nodes().await.unwrap()[name].boot_id.clone();
    let memory = Params::from([("memory".to_owned(), "6144".to_owned())]);
    pve.update_config(&host, vmid, &memory, &[], None).await.unwrap();
    pve.shutdown(&host, vmid, Duration::from_secs(300)).await.unwrap();
    while pve.is_running(&host, vmid).await.unwrap() {
        rig.systems.clock.sleep(MOMENT).await;
    }
    // The host still cleans up and holds the lock of the VM for a moment, in which a start fails.
    'started: loop {
        let _ = pve.start(&host, vmid).await;
        for _ in 0..8 {
            rig.systems.clock.sleep(MOMENT).await;
            if pve.is_running(&host, vmid).await.unwrap() {
                break 'started;
            }
        }
    }
    let own = format!("10.25.150.{}", vmid % 1000);
    let asked = kubernetes_at(rig, if name.contains("control") { &own } else { "10.25.150.10" });
    loop {
        let nodes = asked.nodes().await.unwrap_or_default();
        if nodes.get(name).is_some_and(|node| node.ready && node.boot_id != before) {
            return;
        }
        rig.systems.clock.sleep(MOMENT).await;
    }
}

/// The seconds of the chain.
async fn longest_chain(rig: &Rig) -> f64 {
    let began = rig.systems.clock.now();
    for number in 1..=3 {
        power_cycle(rig, &format!("home-control-{number}"), 150_010 + number).await;
    }
    let queue = Mutex::new(1..=10_u32);
    let lane = async || {
        loop {
            let Some(number) = queue.lock().unwrap().next() else { return };
            power_cycle(rig, &format!("home-work-{number}"), 150_020 + number).await;
        }
    };
    futures::future::join_all((0..AT_ONCE).map(|_| lane())).await;
    rig.systems.clock.now().duration_since(began).as_secs_f64()
}

/// Three control plane nodes and ten workers: `conformance/speed/run`.
#[tokio::test(start_paused = true)]
#[ignore = "takes half a minute: conformance/speed/run"]
async fn memory_of_thirteen_nodes() {
    let hosts = (1..=3).map(|n| HostConfig { memory_bytes: 512 << 30, ..HostConfig::numbered(n) }).collect();
    let rig = Rig::with(LabConfig { hosts, ..LabConfig::default() });
    let file =
        HOME.replace("count: 2", "count: 10") + &format!("changes: {{ workers: {AT_ONCE}, soak: 0s }}\n");
    let ran = Box::pin(rig.apply(&file)).await;
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    let copy = rig.lab.shared().read(|systems, _| serde_json::to_vec(systems).unwrap());
    let chain = Box::pin(longest_chain(&Rig::copy_of(&copy))).await;

    rig.deploy_canary().await;
    let file = format!("{file}defaults: {{ worker: {{ memory: 6G }}, controlplane: {{ memory: 6G }} }}\n");
    let snapshot = rig.observe(&file).await;
    let plan = snapshot.plan();
    assert_eq!((plan.units.len(), &plan.blocked[..]), (13, &[][..]));
    let (began, before) = (rig.systems.clock.now(), rig.boots());
    let ran = Box::pin(rig.carry_out_with_canary(&snapshot, &plan)).await;
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    let took = rig.systems.clock.now().duration_since(began).as_secs_f64();
    assert!(rig.boots().iter().all(|(vmid, boot)| before.get(vmid) != Some(boot)), "all of them have booted");
    rig.assert_nothing_to_do(&file).await;
    let ratio = took / chain;
    eprintln!(
        "memory of 3 + 10 nodes, {AT_ONCE} workers at once: {took:.0} s in the lab, longest chain {chain:.0} s, ratio {ratio:.2}; \
         the canary was always answered"
    );
    assert!(ratio < 1.15, "{took:.0} s for a chain of {chain:.0} s is {ratio:.2}");
}
