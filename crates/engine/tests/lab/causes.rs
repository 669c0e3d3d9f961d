//! Waits name their true cause: power, the time, the console, Kubernetes' own words; and a run that is given a time ends with it.

use std::net::IpAddr;
use std::sync::Mutex;
use std::time::Duration;

use engine::apply::Stop;
use jiff::Timestamp;
use lab::Injection;
use model::event::{Outcome, What};
use talos_client::Machine;

use crate::rig::{HOME, Ran, Rig, operator};

const NEW: &str = "home-work-3";
const VM: u32 = 150_023;

/// [`HOME`] with one more worker.
fn more() -> String {
    HOME.replace("worker, count: 2", "worker, count: 3")
}

/// What steps said about themselves, with the moment.
fn notes(ran: &Ran) -> Vec<(Timestamp, String, String)> {
    let note = |event: &model::event::Event| match &event.what {
        What::StepProgress { step, note, .. } => Some((event.at, step.0.clone(), note.clone())),
        _ => None,
    };
    ran.events.iter().filter_map(note).collect()
}

fn started(ran: &Ran, id: &str) -> Timestamp {
    let is =
        |event: &&model::event::Event| matches!(&event.what, What::StepStarted { step, .. } if step.0 == id);
    ran.events.iter().find(is).unwrap_or_else(|| panic!("{id} never started")).at
}

fn hints(ran: &Ran) -> String {
    let hint = |event: &model::event::Event| match &event.what {
        What::StepFailed { code, hint, .. } => Some(format!("{code}: {hint}")),
        _ => None,
    };
    ran.events.iter().filter_map(hint).collect::<Vec<_>>().join("\n")
}

impl Rig {
    /// Waits until the new worker's VM runs; gives its host.
    async fn until_it_runs(&self) -> String {
        loop {
            self.systems.clock.sleep(Duration::from_millis(500)).await;
            let resources = self.systems.pve.cluster_resources().await.unwrap();
            let Some(host) = resources.into_iter().find(|r| r.vmid == Some(VM.into())).and_then(|r| r.node)
            else {
                continue;
            };
            if self.systems.pve.is_running(&host, VM).await.unwrap_or(false) {
                return host;
            }
        }
    }

    /// Waits until the new worker answers a client that has the cluster's keys.
    async fn until_it_answers(&self) {
        let snapshot = self.observe(&more()).await;
        let address = IpAddr::V4(snapshot.blueprint.nodes[NEW].address.addr());
        loop {
            self.systems.clock.sleep(Duration::from_secs(1)).await;
            let machine = Machine::connect(
                &self.systems.net,
                &self.systems.clock,
                address,
                &snapshot.access().unwrap().talos,
            )
            .unwrap();
            if machine.version().await.is_ok() {
                return;
            }
        }
    }

    async fn switch_off(&self, host: &str) {
        let stop = self.systems.pve.stop(host, VM).await.unwrap();
        self.systems.pve.follow(&stop, |_| {}).await.unwrap();
    }
}

/// Before a control plane node has the time it has no trustd, no etcd and no kubelet: the time server is the cause of all of that.
#[tokio::test(start_paused = true)]
async fn f10_without_a_time_server_ntp_is_named_within_a_minute() {
    let rig = Rig::new();
    rig.lab.inject(Injection::TimeServers { answer: false });
    let ran = rig.apply(HOME).await;
    assert_eq!(ran.outcome, Outcome::Failed);
    let notes = notes(&ran);
    let named = notes.iter().find(|(_, _, note)| note.contains("time server")).expect("it is named");
    assert!(named.2.contains("network.ntp") && named.2.contains("home-control-1"), "{named:?}");
    let took = named.0.duration_since(started(&ran, "bootstrap/home-control-1")).as_secs();
    assert!(took <= 60, "{took} s: {notes:?}");
    assert!(!notes.iter().any(|(_, _, note)| note.contains("trustd")), "{notes:?}");
    let failures = ran.failures().join("\n");
    assert!(failures.contains("time server") && !failures.contains("trustd"), "{failures}");
    assert!(hints(&ran).contains("clock: ") && hints(&ran).contains("network.ntp"), "{}", hints(&ran));
}

#[tokio::test(start_paused = true)]
async fn f10_a_worker_without_the_time_ends_the_wait_and_names_the_time_server() {
    let rig = Rig::healthy().await;
    rig.lab.inject(Injection::TimeServers { answer: false });
    rig.fails_within(&more(), 420, "time server").await;
}

#[tokio::test(start_paused = true)]
async fn p12_t7_a_vm_that_is_switched_off_ends_the_wait_for_its_machine() {
    let rig = Rig::healthy().await;
    let snapshot = rig.observe(&more()).await;
    let plan = snapshot.plan();
    let off = Mutex::new(None);
    let switching = async {
        let host = rig.until_it_runs().await;
        rig.systems.clock.sleep(Duration::from_secs(5)).await;
        rig.switch_off(&host).await;
        *off.lock().unwrap() = Some((host, rig.systems.clock.now()));
    };
    let (ran, ()) = futures::join!(rig.carry_out(&snapshot, &plan, "me"), switching);
    let (host, since) = off.lock().unwrap().take().unwrap();
    let ran = ran.unwrap();
    let failures = ran.failures().join("\n");
    assert!(failures.starts_with(&format!("configure/{NEW}: ")), "{failures}");
    assert!(failures.contains(&format!("VM {VM} on {host} is off")), "{failures}");
    assert!(hints(&ran).starts_with("vm-off: "), "{}", hints(&ran));
    let took = ran.events.last().unwrap().at.duration_since(since).as_secs();
    assert!(took <= 150, "{took} s");

    // Once more, when it has its configuration: it does not wait for a certificate, nor for a CNI plugin.
    let snapshot = rig.observe(&more()).await;
    let plan = snapshot.plan();
    let switching = async {
        rig.until_it_answers().await;
        rig.switch_off(&host).await;
        *off.lock().unwrap() = Some((host.clone(), rig.systems.clock.now()));
    };
    let (ran, ()) = futures::join!(rig.carry_out(&snapshot, &plan, "me"), switching);
    let (_, since) = off.lock().unwrap().take().unwrap();
    let ran = ran.unwrap();
    let failures = ran.failures().join("\n");
    assert!(failures.starts_with(&format!("join/{NEW}: ")), "{failures}");
    assert!(failures.contains(&format!("VM {VM} on {host} is off")), "{failures}");
    let took = ran.events.last().unwrap().at.duration_since(since).as_secs();
    assert!(took <= 150, "{took} s");
    for (at, _, note) in notes(&ran) {
        let settled = at.duration_since(since).as_secs() > 10;
        assert!(!settled || !note.contains("certificate") && !note.contains("plug-in"), "{note}");
    }
}

#[tokio::test(start_paused = true)]
async fn t7_e5_a_configured_machine_that_falls_silent_is_not_asked_without_credentials() {
    let rig = Rig::healthy().await;
    let snapshot = rig.observe(&more()).await;
    let plan = snapshot.plan();
    let since = Mutex::new(None);
    let unplugging = async {
        rig.until_it_answers().await;
        *since.lock().unwrap() = Some(rig.systems.clock.now());
        rig.lab.inject(Injection::Unplugged { vmid: VM, unplugged: true });
        rig.systems.clock.sleep(Duration::from_mins(2)).await;
        rig.lab.inject(Injection::Unplugged { vmid: VM, unplugged: false });
    };
    let (ran, ()) = futures::join!(rig.carry_out(&snapshot, &plan, "me"), unplugging);
    let ran = ran.unwrap();
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    let since = since.into_inner().unwrap().unwrap();
    let notes: Vec<String> = notes(&ran)
        .into_iter()
        .filter(|(at, step, _)| *at > since && step.starts_with("join/"))
        .map(|(_, _, note)| note)
        .collect();
    assert!(notes.iter().any(|note| note.contains("does not answer")), "{notes:?}");
    for note in &notes {
        assert!(!note.contains("without credentials") && !note.contains("sign its certificate"), "{note}");
    }
}

#[tokio::test(start_paused = true)]
async fn e7_a_system_that_panics_while_the_node_joins_is_told_by_its_console() {
    let rig = Rig::healthy().await;
    let snapshot = rig.observe(&more()).await;
    let plan = snapshot.plan();
    let since = Mutex::new(None);
    let breaking = async {
        rig.until_it_answers().await;
        *since.lock().unwrap() = Some(rig.systems.clock.now());
        rig.lab.inject(Injection::BrokenSystem { vmid: VM, talos: "v1.13.9".to_owned(), broken: true });
        let host = rig.host_of(VM).await;
        rig.systems.pve.follow(&rig.systems.pve.reset(&host, VM).await.unwrap(), |_| {}).await.unwrap();
    };
    let (ran, ()) = futures::join!(rig.carry_out(&snapshot, &plan, "me"), breaking);
    let ran = ran.unwrap();
    let failures = ran.failures().join("\n");
    assert!(failures.contains("Kernel panic"), "{failures}");
    let since = since.into_inner().unwrap().unwrap();
    let took = ran.events.last().unwrap().at.duration_since(since).as_secs();
    assert!(took <= 420, "{took} s");
}

/// A CNI plugin is to blame only for a node that is registered, and that is not ready for this reason.
#[tokio::test(start_paused = true)]
async fn e3_the_network_plug_in_is_named_only_for_registered_nodes() {
    let rig = Rig::new();
    let file = format!("{HOME}kubernetes: {{ cni: cilium }}\n");
    let snapshot = rig.observe(&file).await;
    let plan = snapshot.plan();
    let access = snapshot.access().unwrap();
    let registered = Mutex::new(std::collections::BTreeMap::<String, Timestamp>::new());
    let watching = async {
        loop {
            rig.systems.clock.sleep(Duration::from_secs(1)).await;
            let Ok(client) = engine::kubernetes::Kubernetes::new(
                &rig.systems,
                &snapshot.blueprint.endpoint,
                &access.kubernetes,
            ) else {
                continue;
            };
            let names: Vec<String> = client
                .nodes()
                .await
                .map(|nodes| nodes.into_keys().map(String::from).collect())
                .unwrap_or_default();
            let now = rig.systems.clock.now();
            for name in names {
                registered.lock().unwrap().entry(name).or_insert(now);
            }
        }
    };
    let ran = tokio::select! {
        ran = rig.carry_out(&snapshot, &plan, "me") => ran.unwrap(),
        () = watching => unreachable!(),
    };
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    let registered = registered.into_inner().unwrap();
    let mut blamed = 0;
    for (at, step, note) in
        notes(&ran).into_iter().filter(|(_, step, note)| step.starts_with("join/") && note.contains("Cilium"))
    {
        blamed += 1;
        let node = step.trim_start_matches("join/");
        let since = registered.get(node).unwrap_or_else(|| panic!("{node} was never registered, and {note}"));
        // The other observer looks once a second.
        assert!(
            at + jiff::SignedDuration::from_secs(3) >= *since,
            "{node}, registered at {since}; at {at}: {note}"
        );
    }
    assert!(blamed > 0, "it does wait for Cilium for a while");
}

/// The end of the time that an operator gave: nothing else is started, and the step that still waits is the failure.
#[tokio::test(start_paused = true)]
async fn f10_a_timeout_ends_the_run_and_says_what_was_waited_for() {
    let rig = Rig::healthy().await;
    let snapshot = rig.observe(&more()).await;
    let plan = snapshot.plan();
    let (request, stop) = tokio::sync::watch::channel(Stop::No);
    let limit = async {
        rig.until_it_runs().await;
        rig.lab.inject(Injection::Unplugged { vmid: VM, unplugged: true });
        rig.systems.clock.sleep(Duration::from_secs(40)).await;
        request.send_replace(Stop::Timeout);
    };
    let me = operator("me");
    let (ran, ()) = futures::join!(rig.carry_out_until(stop, &snapshot, &plan, &me), limit);
    let ran = ran.unwrap();
    assert_eq!(ran.outcome, Outcome::Failed);
    let failures = ran.failures().join("\n");
    assert!(failures.starts_with(&format!("configure/{NEW}: ")), "{failures}");
    assert!(failures.contains("waiting for the machine"), "{failures}");
    assert!(hints(&ran).starts_with("timeout: "), "{}", hints(&ran));
    // The lease is free, and the same command goes on.
    rig.lab.inject(Injection::Unplugged { vmid: VM, unplugged: false });
    let snapshot = rig.observe(&more()).await;
    let ran = rig.carry_out(&snapshot, &snapshot.plan(), "another").await.unwrap();
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
}

/// A host goes off while VMs are created on it, started or joined: that host is the cause of what fails there, and is named as such.
#[tokio::test(start_paused = true)]
async fn left_2_a_host_that_goes_off_during_the_creation_is_named() {
    let mut failed = std::collections::BTreeSet::new();
    for after in [2, 45, 58, 75, 120] {
        let rig = Rig::new();
        let outage = async {
            rig.systems.clock.sleep(Duration::from_secs(after)).await;
            rig.lab.inject(Injection::HostOffline("pve3".to_owned()));
        };
        let (ran, ()) = futures::join!(rig.apply(HOME), outage);
        assert_eq!(ran.outcome, Outcome::Failed, "after {after} s");
        for event in &ran.events {
            let What::StepFailed { step, code, causes, hint, .. } = &event.what else { continue };
            let kind = step.kind().to_owned();
            // Of the nodes only this one is on that host. The bootstrap and the health check are about all of them.
            if step.objects().any(|of| of == "pve3" || of == "home-control-3") {
                let told = format!("{after} s, {step}: {causes:?}");
                assert!(
                    causes.iter().any(|cause| cause.contains("the Proxmox host pve3 is offline")),
                    "{told}"
                );
                assert!(hint.contains("pve3"), "{told}: {hint}");
                assert_eq!(code, "unreachable", "{told}");
                failed.insert(kind);
            }
        }
    }
    let kinds = ["configure", "create-vm", "download-image", "join"];
    for kind in kinds {
        assert!(failed.contains(kind), "{kind} is not among {failed:?}");
    }
}

/// While it waits for a machine on such a host, the run says so.
#[tokio::test(start_paused = true)]
async fn leftover_7_a_wait_for_a_machine_names_its_host_that_is_off() {
    let rig = Rig::new();
    let outage = async {
        rig.systems.clock.sleep(Duration::from_secs(75)).await;
        rig.lab.inject(Injection::HostOffline("pve3".to_owned()));
    };
    let (ran, ()) = futures::join!(rig.apply(HOME), outage);
    assert_eq!(ran.outcome, Outcome::Failed);
    let notes = ran.events.iter().filter_map(|event| match &event.what {
        What::StepProgress { node, note, .. } if node.as_deref() == Some("home-control-3") => {
            Some(note.as_str())
        }
        _ => None,
    });
    let notes: Vec<&str> = notes.collect();
    assert!(notes.iter().any(|note| note.contains("the Proxmox host pve3 is offline")), "{notes:#?}");
}
