//! A hundred VMs over five hosts, made at the same time: each once, nothing left over, no host asked for too much.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ambient::Clock;
use futures::future::join_all;
use lab::{CallFilter, CallMoment, HostConfig, Injection, Lab, LabConfig, Verdict, When};
use pve::{Client, Kind, Params};

const HOSTS: u32 = 5;
const VMS: u32 = 100;

fn crowd() -> (Lab, Client, Clock) {
    let clock = Clock::from(LabConfig::first_moment(), 1.0);
    let hosts = (1..=5).map(HostConfig::numbered).collect();
    let lab = Lab::open(LabConfig { hosts, ..LabConfig::default() }, clock.clone()).unwrap();
    let facts = lab.facts();
    let endpoints = pve::Endpoints::parse(["https://pve1:8006"]).unwrap();
    let trust = pve::Trust::Fingerprints(vec![facts.fingerprint.parse().unwrap()]);
    let token = facts.token.parse().unwrap();
    let client = Client::connect(endpoints, &token, &trust, lab.net(), clock.clone()).unwrap();
    (lab, client, clock)
}

fn host(vmid: u32) -> String {
    format!("pve{}", vmid % HOSTS + 1)
}

/// Makes one VM however often it takes; gives what went wrong on the way.
async fn make(client: &Client, clock: &Clock, vmid: u32) -> Vec<pve::Error> {
    let mark = format!("vm {vmid} of the crowd");
    let params = Params::from(
        [("scsi0", "local-lvm:8"), ("cores", "2"), ("description", &mark)]
            .map(|(key, value)| (key.to_owned(), value.to_owned())),
    );
    let host = host(vmid);
    let mut failures = vec![];
    loop {
        let _turn = client.storage_turn(&host, "local-lvm", false).await;
        let made = async { client.follow(&client.create_vm(&host, vmid, &params).await?, |_| {}).await };
        let Err(error) = made.await else { return failures };
        let snapshot = error.effect_unknown() || error.is_exists();
        assert!(snapshot || error.is_transient(), "{error}");
        if !error.is_exists() {
            failures.push(error);
        }
        clock.sleep(Duration::from_secs(5)).await;
        if snapshot
            && client.vm_config(&host, vmid).await.is_ok_and(|config| config.description().contains(&mark))
        {
            return failures;
        }
        assert!(failures.len() < 12, "{failures:?}");
    }
}

async fn assert_complete(client: &Client) {
    let resources = client.cluster_resources().await.unwrap();
    let mut ids: Vec<u64> = resources.iter().filter_map(|r| r.vmid).collect();
    ids.sort_unstable();
    assert_eq!(ids, (1000..u64::from(1000 + VMS)).collect::<Vec<_>>(), "each once");
    for number in 1..=HOSTS {
        let node = format!("pve{number}");
        let volumes = client.storage_content(&node, "local-lvm", "images").await.unwrap();
        assert_eq!(volumes.len(), 20, "a disk for each VM of {node}, and none besides");
        assert!(volumes.iter().all(|v| v.vmid.is_some_and(|id| host(u32::try_from(id).unwrap()) == node)));
    }
    assert!(resources.iter().all(|r| r.lock.is_none()), "nothing is left locked");
}

/// How many calls each node was busy with at once, at most.
fn watch(lab: &Lab) -> Arc<Mutex<BTreeMap<String, (u32, u32)>>> {
    let busy: Arc<Mutex<BTreeMap<String, (u32, u32)>>> = Arc::default();
    let seen = busy.clone();
    lab.on_call(move |_, moment, method, path| {
        if method == "GET" {
            return Verdict::GoOn;
        }
        let node = path.split('/').nth(4).unwrap_or_default().to_owned();
        let mut busy = seen.lock().unwrap();
        let (now, most) = busy.entry(node).or_default();
        match moment {
            CallMoment::Before => *now += 1,
            CallMoment::After => *now -= 1,
        }
        *most = (*most).max(*now);
        Verdict::GoOn
    });
    busy
}

#[tokio::test(start_paused = true)]
async fn a_hundred_vms_are_made_at_once() {
    let (lab, client, clock) = crowd();
    let busy = watch(&lab);
    let made = join_all((1000..1000 + VMS).map(|vmid| make(&client, &clock, vmid))).await;
    assert!(made.iter().all(Vec::is_empty), "{made:?}");
    assert_complete(&client).await;
    let busy = busy.lock().unwrap();
    assert_eq!(busy.len(), 5);
    assert!(busy.values().all(|(now, most)| *now == 0 && *most <= 3), "{busy:?}");
}

/// The failures that a creation may meet and that another attempt, or a look, puts right.
const FAULTS: &[u8] = &[22, 26, 27, 28, 30, 35, 36, 37];

/// The failures that an error may come from, by their number.
fn codes(error: &pve::Error) -> &'static str {
    match error.meaning() {
        Kind::LockTimeout { text } if text.contains("can't lock file") => "22",
        Kind::LockTimeout { text } if text.contains("cfs-lock") => "35",
        Kind::LockTimeout { .. } => "36",
        Kind::NodeUnreachable { status: 595, text } if text.contains("route") => "26",
        Kind::NodeUnreachable { status: 595, .. } => "27",
        Kind::NodeUnreachable { .. } => "28",
        Kind::Lost(_) => "30",
        Kind::Refused { text, .. } if text.contains("worker") => "37",
        _ => "none that was ordered",
    }
}

#[tokio::test(start_paused = true)]
async fn with_every_tenth_call_failing_each_is_still_made_once() {
    let (lab, client, clock) = crowd();
    for (index, number) in FAULTS.iter().enumerate() {
        let which = CallFilter { method: "POST".to_owned(), path_contains: "/qemu".to_owned(), skip: 0 };
        let seed = 7 + u64::try_from(index).unwrap();
        lab.inject(Injection::Known { number: *number, when: When::Chance { which, permille: 13, seed } });
    }
    let made = join_all((1000..1000 + VMS).map(|vmid| make(&client, &clock, vmid))).await;
    assert_complete(&client).await;
    let mut reported: BTreeMap<String, usize> = BTreeMap::new();
    for error in made.iter().flatten() {
        *reported.entry(codes(error).to_owned()).or_default() += 1;
    }
    let mut ordered: BTreeMap<String, usize> = BTreeMap::new();
    lab.shared().read(|systems, _| {
        for met in systems.faults.met() {
            *ordered.entry(met.number.to_string()).or_default() += 1;
        }
    });
    assert_eq!(reported, ordered, "every failure is told as what it was, and nothing else");
    assert!(ordered.values().sum::<usize>() >= 5, "{ordered:?}");
}
