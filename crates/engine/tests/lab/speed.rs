//! How long things take: a bring-up against the longest chain of the lab's own durations, and a hundred nodes. Changes are in a module
//! of their own.
//!
//! The chain is what no one could shorten: Proxmox' tasks for one control plane (the record, the download on its host, its
//! creation and start) as long as they really took, then boot, etcd, its members one after the other, and the last API
//! server, from the lab's table of durations. It knows nothing of our steps and edges.

mod changes;

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use lab::{HostConfig, LabConfig, timing};
use model::event::Outcome;
use serde_json::Value;

use crate::rig::{HOME, Rig};

/// The sum of what Proxmox and the machines need for the slowest control plane, in seconds.
fn longest_chain(systems: &Value, control_planes: &[(u32, String)]) -> f64 {
    let tasks: Vec<&Value> = systems["hypervisor"]["tasks"].as_object().unwrap().values().collect();
    let took = |task: &&Value| {
        let moment = |key: &str| task[key].as_str().unwrap().parse::<Timestamp>().unwrap();
        moment("ended").duration_since(moment("started")).as_secs_f64()
    };
    // A console is open beside everything else.
    let of =
        |id: &str| tasks.iter().filter(|t| t["id"] == id && t["kind"] != "vncproxy").map(took).sum::<f64>();
    let downloads: BTreeMap<&str, f64> = tasks
        .iter()
        .filter(|t| t["kind"] == "download")
        .map(|t| (t["node"].as_str().unwrap(), took(t)))
        .collect();
    let proxmox = control_planes
        .iter()
        .map(|(vmid, host)| of(&vmid.to_string()) + downloads.get(host.as_str()).copied().unwrap_or(0.0))
        .fold(0.0, f64::max);
    let once = [
        timing::BOOT,
        timing::MAINTENANCE_LINGERS,
        timing::SWITCH,
        timing::CRI,
        timing::ETCD_DATA,
        timing::ETCD_HEALTHY,
        timing::ETCD_PROMOTED_HEALTHY,
        timing::API_SERVER,
    ];
    let joins = (timing::ETCD_JOIN + timing::ETCD_LEARNER) * (control_planes.len() as u32 - 1);
    proxmox + once.iter().sum::<Duration>().as_secs_f64() + joins.as_secs_f64()
}

/// What this process has held in memory at most, in MiB, where the system tells: without the pages of the program's own file, of
/// which a build with tests and without optimisation has some 60 MiB more than one that people use.
fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let field = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name))?;
        line.split_whitespace().nth(1)?.parse::<u64>().ok()
    };
    Some(field("VmHWM:")?.saturating_sub(field("RssFile:")?) >> 10)
}

/// Brings a file up and gives the seconds that it took in the lab, those of the longest chain, and those of planning.
async fn measured(rig: &Rig, file: &str) -> (f64, f64, Duration) {
    let snapshot = rig.observe(file).await;
    #[expect(clippy::disallowed_methods, reason = "planning takes real time, not the lab's")]
    let began = std::time::Instant::now();
    let plan = snapshot.plan();
    let planning = began.elapsed();
    let before = rig.systems.clock.now();
    let ran = rig.carry_out(&snapshot, &plan, "me").await.unwrap();
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    let took = rig.systems.clock.now().duration_since(before).as_secs_f64();
    let control_planes: Vec<(u32, String)> =
        snapshot.blueprint.control_planes().map(|n| (n.vmid, n.host.clone().unwrap())).collect();
    let systems = rig.lab.shared().read(|systems, _| serde_json::to_value(systems).unwrap());
    (took, longest_chain(&systems, &control_planes), planning)
}

#[tokio::test(start_paused = true)]
async fn a_small_cluster_takes_little_more_than_the_world_itself() {
    let (took, chain, _) = measured(&Rig::new(), HOME).await;
    let ratio = took / chain;
    eprintln!("3 + 2 nodes: {took:.0} s in the lab, longest chain {chain:.0} s, ratio {ratio:.2}");
    assert!(ratio < 1.15, "{took:.0} s for a chain of {chain:.0} s is {ratio:.2}");
}

/// A hundred nodes on ten hosts: `conformance/speed/run`.
#[tokio::test(start_paused = true)]
#[ignore = "takes a minute: conformance/speed/run"]
async fn a_hundred_nodes_on_ten_hosts() {
    let hosts = (1..=10).map(|n| HostConfig { memory_bytes: 512 << 30, ..HostConfig::numbered(n) }).collect();
    let rig = Rig::with(LabConfig { hosts, ..LabConfig::default() });
    let file = HOME.replace("10.25.150.", "10.26.151.").replace("count: 2", "count: 97");
    let (took, chain, planning) = measured(&rig, &file).await;
    let (ratio, memory) = (took / chain, peak_memory().unwrap_or(0));
    eprintln!(
        "100 nodes on 10 hosts: planned in {planning:?}; {took:.0} s in the lab, longest chain {chain:.0} s, \
         ratio {ratio:.2}; at most {memory} MiB, the lab included"
    );
    assert!(planning < Duration::from_millis(300), "planned in {planning:?}");
    assert!(ratio < 1.3, "{took:.0} s for a chain of {chain:.0} s is {ratio:.2}");
    assert!(memory < 120, "{memory} MiB");
}

/// A plan says about how long it takes. A run of it in the lab takes that long, give or take a third.
#[tokio::test(start_paused = true)]
async fn leftover_the_estimate_of_a_plan_is_the_time_that_it_takes() {
    let rig = Rig::new();
    let power_cycle = format!("{HOME}defaults: {{ worker: {{ memory: 6G }} }}\n");
    let upgrade = power_cycle.replace("talos: v1.13.9", "talos: v1.14.1");
    for (what, file) in [("creation", HOME), ("power cycles", &power_cycle), ("upgrade", &upgrade)] {
        let snapshot = rig.observe(file).await;
        let plan = snapshot.plan();
        let began = rig.systems.clock.now();
        let ran = Box::pin(rig.carry_out(&snapshot, &plan, "me")).await.unwrap();
        assert_eq!(ran.outcome, Outcome::Done, "{what}: {:?}", ran.failures());
        let (took, said) =
            (rig.systems.clock.now().duration_since(began).as_secs(), i64::from(plan.seconds()));
        assert!(said * 4 > took * 3 && said * 3 < took * 4, "{what}: said {said} s, took {took} s");
    }
}
