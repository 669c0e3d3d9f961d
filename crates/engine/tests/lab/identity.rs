//! The cluster's keys go to proved machines only: consoles that lie, break or come too late, certificates that change, and a relay
//! in front of a machine. The lab's invariant 6 holds in every test here that does not say `uuid`.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lab::{CallFilter, CallMoment, ConsoleFault, HostConfig, Injection, LabConfig, Verdict, When};
use model::event::{Event, Outcome, What};
use model::plan::RefusalCode;

use crate::external::{METAL, metal};
use crate::faults::Chance;
use crate::rig::{HOME, Rig, setting};

const VM: u32 = 150_011;

fn by_uuid() -> String {
    HOME.replace("8006' }", "8006', identity: uuid }")
}

/// How many machine configs relays have.
fn stolen(rig: &Rig) -> usize {
    rig.lab
        .shared()
        .read(|systems, _| systems.faults.relayed().iter().filter(|sent| sent.config.is_some()).count())
}

fn notes(events: &[Event], words: &str) -> usize {
    let says =
        |event: &&Event| matches!(&event.what, What::StepProgress { note, .. } if note.contains(words));
    events.iter().filter(says).count()
}

fn hints(events: &[Event]) -> String {
    let hint = events.iter().filter_map(|event| match &event.what {
        What::StepFailed { code, hint, .. } => Some(format!("{code}: {hint}")),
        _ => None,
    });
    hint.collect::<Vec<_>>().join("\n")
}

#[tokio::test(start_paused = true)]
async fn a1_a_relay_receives_nothing_and_apply_says_why() {
    let rig = Rig::new();
    rig.lab.inject(Injection::Relay { vmid: VM, present: true });
    let ran = rig.apply(HOME).await;
    assert_eq!(ran.outcome, Outcome::Failed);
    let failures = ran.failures();
    let said = failures.iter().find(|said| said.starts_with("configure/home-control-1")).unwrap();
    assert!(said.contains("not proved to be home-control-1"), "{said}");
    assert!(
        said.matches("fingerprint").count() == 1 && said.contains("the console of VM 150011 names"),
        "{said}"
    );
    let hints = hints(&ran.events);
    assert!(hints.contains("machine-identity: nothing was sent to it"), "{hints}");
    assert!(hints.contains("relay") && hints.contains("another machine has the address"), "{hints}");
    assert_eq!(stolen(&rig), 0);
    // What the console said is kept for the report.
    let tail = rig.systems.consoles.tail("home-control-1");
    assert!(tail.iter().any(|line| line.contains("server certificate issued")), "{tail:?}");
    // Without the relay the same command goes on.
    rig.lab.inject(Injection::Relay { vmid: VM, present: false });
    let ran = rig.apply(HOME).await;
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    rig.assert_whole().await;
}

#[tokio::test(start_paused = true)]
async fn a1_with_uuid_the_plan_warns_and_the_relay_has_the_keys() {
    let rig = Rig::new();
    rig.lab.inject(Injection::Relay { vmid: VM, present: true });
    let snapshot = rig.observe(&by_uuid()).await;
    let plan = snapshot.plan();
    let warning = plan.notes.iter().find(|note| note.text.contains("SMBIOS UUID only"));
    let text = &warning.unwrap().text;
    assert!(text.contains("home-control-1") && text.contains("could receive the cluster's keys"), "{text}");
    let ran = rig.carry_out(&snapshot, &plan, "me").await.unwrap();
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    assert_eq!(stolen(&rig), 1, "this is what the warning is about");
    // Which machines got their keys unproved stays in the journal.
    let kept = ran.events.iter().filter_map(|event| match &event.what {
        What::StepDone { step, warnings, .. } if step.kind() == "configure" => Some(warnings.join("; ")),
        _ => None,
    });
    let kept: Vec<String> = kept.collect();
    assert_eq!(kept.len(), 5);
    assert!(kept.iter().all(|said| said.contains("without a proof of its identity")), "i16: {kept:?}");
    // And in the cluster record VM, where `status` reads it.
    let record = rig.observe(&by_uuid()).await.observed.proxmox.record.clone().unwrap();
    assert_eq!(record.state.unproved.len(), 5, "i16: {record:?}");
    assert_eq!(record.state.unproved["home-work-1"], "SMBIOS UUID (`proxmox.identity: uuid`)");
}

/// The worlds right after a machine received its configuration, before the operator knows.
fn sent(rig: &Rig) -> Arc<Mutex<Vec<Vec<u8>>>> {
    let kept: Arc<Mutex<Vec<Vec<u8>>>> = Arc::default();
    let (keeps, shared) = (kept.clone(), Arc::downgrade(rig.lab.shared()));
    rig.lab.on_call(move |_, at, _, path| {
        let sends = at == CallMoment::After && path.ends_with("/ApplyConfiguration");
        if let Some(shared) = shared.upgrade().filter(|_| sends) {
            keeps.lock().unwrap().push(shared.read(|systems, _| serde_json::to_vec(systems).unwrap()));
        }
        Verdict::GoOn
    });
    kept
}

async fn unproved(rig: &Rig) -> BTreeMap<String, String> {
    rig.observe(&by_uuid()).await.observed.proxmox.record.clone().unwrap().state.unproved
}

/// A run may die right after a machine has its keys, and the next one finds it configured: so the record says it before.
#[tokio::test(start_paused = true)]
async fn i16_who_receives_keys_unproved_is_in_the_record_before_they_are_sent() {
    let rig = Rig::new();
    let kept = sent(&rig);
    let ran = rig.apply(&by_uuid()).await;
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    assert_eq!(
        notes(&ran.events, "without a proof of its identity"),
        5,
        "in the journal before the step is done"
    );
    let kept = std::mem::take(&mut *kept.lock().unwrap());
    assert_eq!(kept.len(), 5);
    for (configured, systems) in kept.iter().enumerate() {
        let listed = unproved(&Rig::copy_of(systems)).await;
        assert!(listed.len() > configured, "{configured}: {listed:?}");
    }
    // A machine that is made again and proved is not listed any more, from the same moment on.
    rig.lab.person().delete(150_021).unwrap();
    assert!(unproved(&rig).await.contains_key("home-work-1"));
    let kept = sent(&rig);
    let ran = rig.apply(HOME).await;
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    let kept = std::mem::take(&mut *kept.lock().unwrap());
    let [systems] = kept.as_slice() else { panic!("one machine was configured, not {}", kept.len()) };
    let listed = unproved(&Rig::copy_of(systems)).await;
    assert!(listed.len() == 4 && !listed.contains_key("home-work-1"), "{listed:?}");
}

/// A console that cannot be opened is no reason to restart a machine.
#[tokio::test(start_paused = true)]
async fn i16_without_a_console_nothing_is_restarted() {
    let rig = Rig::new();
    let kept = sent(&rig);
    for vmid in [150_011, 150_012, 150_013, 150_021, 150_022] {
        let path_contains = format!("{vmid}/termproxy");
        for _ in 0..40 {
            let which =
                CallFilter { method: "POST".to_owned(), path_contains: path_contains.clone(), skip: 0 };
            rig.lab.inject(Injection::Known { number: 65, when: When::Call(which) });
        }
    }
    let ran = rig.apply(HOME).await;
    assert_eq!(ran.outcome, Outcome::Failed);
    assert_eq!(notes(&ran.events, "restarting it"), 0);
    assert!(kept.lock().unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn certificates_that_change_are_proved_again() {
    for connections in [1, 2, 5] {
        let rig = Rig::new();
        for vmid in [VM, 150_012, 150_021] {
            rig.lab.inject(Injection::Reissue { vmid, connections });
        }
        let ran = rig.apply(HOME).await;
        assert_eq!(ran.outcome, Outcome::Done, "{connections}: {:?}", ran.failures());
    }
}

#[tokio::test(start_paused = true)]
async fn a_console_that_breaks_or_lags_costs_time_only() {
    let faults = [
        ConsoleFault::Cut(Duration::from_secs(5)),
        ConsoleFault::Cut(Duration::from_secs(20)),
        ConsoleFault::Slow(Duration::from_secs(20)),
        ConsoleFault::Flood,
    ];
    for fault in faults {
        let rig = Rig::new();
        rig.lab.inject(Injection::Console { vmid: VM, fault: Some(fault) });
        let ran = rig.apply(HOME).await;
        assert_eq!(ran.outcome, Outcome::Done, "{fault}: {:?}", ran.failures());
        rig.assert_whole().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_console_of_a_quiet_machine_that_breaks_again_and_again_is_opened_again() {
    let rig = Rig::new();
    // So that the line with its certificate falls into a gap.
    let fault = Some(ConsoleFault::Cut(Duration::from_millis(5500)));
    rig.lab.inject(Injection::Console { vmid: VM, fault });
    let snapshot = rig.observe(HOME).await;
    // Nothing is printed and nothing answers for two minutes, in which the console breaks some twenty times.
    let unplugging = async {
        while !rig.systems.pve.is_running("pve1", VM).await.unwrap_or(false) {
            rig.systems.clock.sleep(Duration::from_millis(500)).await;
        }
        rig.lab.inject(Injection::Unplugged { vmid: VM, unplugged: true });
        rig.systems.clock.sleep(Duration::from_mins(2)).await;
        rig.lab.inject(Injection::Unplugged { vmid: VM, unplugged: false });
    };
    let plan = snapshot.plan();
    let (ran, ()) = futures::join!(rig.carry_out(&snapshot, &plan, "me"), unplugging);
    let ran = ran.unwrap();
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    rig.assert_whole().await;
}

#[tokio::test(start_paused = true)]
async fn without_a_word_on_its_console_a_machine_gets_nothing() {
    let rig = Rig::new();
    rig.lab.inject(Injection::Console { vmid: VM, fault: Some(ConsoleFault::Silent) });
    let ran = rig.apply(HOME).await;
    assert_eq!(ran.outcome, Outcome::Failed);
    assert!(ran.failures()[0].contains("the console of VM 150011 does not name"), "{:?}", ran.failures());
    assert!(hints(&ran.events).contains("close other consoles of VM 150011"));
    // The machine waits since, and its lines are gone: it is restarted once.
    rig.lab.inject(Injection::Console { vmid: VM, fault: None });
    let ran = rig.apply(HOME).await;
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    assert_eq!(notes(&ran.events, "restarting it"), 1);
    rig.assert_whole().await;
}

/// At the end of the operator's time, whatever the step did last, the console is what was waited for.
#[tokio::test(start_paused = true)]
async fn issue_16_a_timeout_names_the_console_that_is_silent() {
    for seconds in [90, 105, 120] {
        let rig = Rig::new();
        rig.lab.inject(Injection::Console { vmid: VM, fault: Some(ConsoleFault::Silent) });
        let (snapshot, me) = (rig.observe(HOME).await, crate::rig::operator("me"));
        let (plan, (request, stop)) = (snapshot.plan(), tokio::sync::watch::channel(engine::apply::Stop::No));
        let limit = async {
            rig.systems.clock.sleep(Duration::from_secs(seconds)).await;
            request.send_replace(engine::apply::Stop::Timeout);
        };
        let (ran, ()) = futures::join!(rig.carry_out_until(stop, &snapshot, &plan, &me), limit);
        let failures = ran.unwrap().failures();
        let told = failures.iter().find(|told| told.starts_with("configure/home-control-1"));
        let told = told.unwrap_or_else(|| panic!("{seconds}: {failures:?}"));
        assert!(told.contains("the console of VM 150011 printed nothing"), "{seconds}: {told}");
    }
}

/// A proof failed, and then the token lost VM.Console: the node is not configured by its UUID instead, unless the file says so.
#[tokio::test(start_paused = true)]
async fn issue_16_a_failed_proof_is_not_forgotten_without_the_console() {
    let rig = Rig::new();
    rig.lab.inject(Injection::Relay { vmid: VM, present: true });
    assert_eq!(rig.apply(HOME).await.outcome, Outcome::Failed);
    let snapshot = rig.observe(HOME).await;
    assert!(snapshot.observed.proxmox.record.as_ref().unwrap().state.doubted.contains_key("home-control-1"));
    let mut blind = snapshot.clone();
    let nodes = snapshot.blueprint.nodes.keys().cloned().collect();
    Arc::make_mut(&mut blind.observed).proxmox.no_console = Some(nodes);
    let plan = blind.plan();
    let codes: Vec<RefusalCode> = plan.refusals.iter().map(|refusal| refusal.code).collect();
    assert_eq!(codes, [RefusalCode::Identity], "{:?}", plan.refusals);
    let refusal = &plan.refusals[0];
    assert!(refusal.why.contains("home-control-1") && !refusal.why.contains("home-control-2"), "{refusal:?}");
    assert!(refusal.hint.contains("`proxmox.identity: uuid`"), "{refusal:?}");
    // The file may say so.
    assert_eq!(rig.observe(&by_uuid()).await.plan().refusals, []);
    // Once it is proved, nothing is left of it.
    rig.lab.inject(Injection::Relay { vmid: VM, present: false });
    assert_eq!(rig.apply(HOME).await.outcome, Outcome::Done);
    let record = rig.observe(HOME).await.observed.proxmox.record.clone().unwrap();
    assert!(record.state.doubted.is_empty(), "{record:?}");
}

#[tokio::test(start_paused = true)]
async fn the_last_line_on_its_console_is_part_of_the_reason_while_a_machine_does_not_come_up() {
    let rig = Rig::new();
    // The network of the first machine is gone from the moment at which it was started.
    let snapshot = rig.observe(HOME).await;
    let unplugging = async {
        while !rig.systems.pve.is_running("pve1", VM).await.unwrap_or(false) {
            rig.systems.clock.sleep(Duration::from_millis(500)).await;
        }
        rig.lab.inject(Injection::Unplugged { vmid: VM, unplugged: true });
    };
    let plan = snapshot.plan();
    let (ran, ()) = futures::join!(rig.carry_out(&snapshot, &plan, "me"), unplugging);
    let ran = ran.unwrap();
    assert_eq!(ran.outcome, Outcome::Failed);
    assert!(notes(&ran.events, "; the last line on its console: [") > 0);
    assert!(ran.failures()[0].contains("the last line on its console: ["), "{:?}", ran.failures());
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_waited_before_is_restarted_only_if_nobody_uses_it() {
    let rig = Rig::healthy().await;
    // Someone wiped a worker, which Kubernetes still knows.
    let pretends = |present| Injection::Relay { vmid: 150_021, present };
    rig.lab.inject(pretends(true));
    rig.assert_nothing_to_do(HOME).await;
    rig.lab.inject(pretends(false));
    // A new worker that waits since before the run.
    let more = HOME.replace("count: 2", "count: 3");
    rig.lab.inject(Injection::Console { vmid: 150_023, fault: Some(ConsoleFault::Silent) });
    let ran = rig.apply(&more).await;
    assert_eq!(ran.outcome, Outcome::Failed);
    rig.lab.inject(Injection::Console { vmid: 150_023, fault: None });
    let ran = rig.apply(&more).await;
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    assert_eq!(notes(&ran.events, "restarting it"), 1);
}

#[tokio::test(start_paused = true)]
async fn an_external_machine_needs_its_fingerprint_or_a_word() {
    let rig = metal().await;
    let undeclared = METAL.replace(", unverified: true", "");
    let plan = rig.observe(&undeclared).await.plan();
    let codes: Vec<RefusalCode> = plan.refusals.iter().map(|refusal| refusal.code).collect();
    assert_eq!(codes, [RefusalCode::Identity]);
    assert!(plan.refusals[0].why.contains("cp-1, w-1"), "{:?}", plan.refusals);
    let shown = async |address: &str| {
        let (net, clock) = (&rig.systems.net, &rig.systems.clock);
        let machine = talos_client::Maintenance::connect(net, clock, address.parse().unwrap()).await.unwrap();
        machine.fingerprint().unwrap()
    };
    let (control, worker) = (shown("10.25.150.31").await, shown("10.25.150.32").await);
    let with = |control: &str, worker: &str| {
        let identity = |fingerprint: &str| format!(", identity: {{ fingerprint: \"{fingerprint}\" }}");
        let text = METAL.replacen(", unverified: true", &identity(control), 1);
        text.replacen(", unverified: true", &identity(worker), 1)
    };
    // Each has the fingerprint of the other.
    let swapped = with(&worker, &control);
    let snapshot = rig.observe(&swapped).await;
    let ran = rig.carry_out(&snapshot, &snapshot.plan(), "me").await.unwrap();
    assert_eq!(ran.outcome, Outcome::Failed);
    assert!(
        ran.failures()[0].contains(&format!("fingerprint {control}, and the file says {worker}")),
        "{:?}",
        ran.failures()
    );
    let right = with(&control, &worker);
    let snapshot = rig.observe(&right).await;
    let ran = rig.carry_out(&snapshot, &snapshot.plan(), "me").await.unwrap();
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    // Once they are configured, no one asks for it any more.
    assert_eq!(rig.observe(&undeclared).await.plan().refusals, []);
}

/// More machines than consoles: at most 8 per host are open. A hundred nodes on ten hosts are in `conformance/speed/run`.
#[tokio::test(start_paused = true)]
async fn many_machines_keep_few_consoles_open() {
    let large = |number| HostConfig { memory_bytes: 1 << 40, ..HostConfig::numbered(number) };
    let rig = Rig::with(LabConfig { hosts: (1..=2).map(large).collect(), ..LabConfig::default() });
    let text = HOME
        .replace("10.25.150.0/24", "10.25.150.0/23")
        .replace("count: 2", "count: 25, addresses: 10.25.151.21");
    let snapshot = rig.observe(&text).await;
    let plan = snapshot.plan();
    assert_eq!(plan.refusals, []);
    let began = rig.systems.clock.now();
    let most = async {
        let mut most = 0;
        loop {
            let mut open = 0;
            for host in 1..=2 {
                let tasks = rig.systems.pve.tasks(&format!("pve{host}"), began.as_second()).await.unwrap();
                open += tasks
                    .iter()
                    .filter(|(upid, end)| upid.to_string().contains(":vncproxy:") && end.is_none())
                    .count();
            }
            most = most.max(open);
            rig.systems.clock.sleep(Duration::from_secs(1)).await;
            if rig.systems.clock.now().duration_since(began) > jiff::SignedDuration::from_secs(240) {
                return most;
            }
        }
    };
    let (ran, most) = futures::join!(rig.carry_out(&snapshot, &plan, "me"), most);
    let ran = ran.unwrap();
    assert_eq!(ran.outcome, Outcome::Done, "{:?}", ran.failures());
    let took = rig.systems.clock.now().duration_since(began);
    println!("at most {most} consoles, {took:#}");
    assert!((12..=16).contains(&most), "{most} consoles at once");
}

/// Proxmox leaves a console open when its VM stops, and says nothing on it any more: what the next boot prints is not read.
#[tokio::test(start_paused = true)]
async fn i16_a_vm_that_is_stopped_and_started_while_it_boots_is_proved_again() {
    for after in [6, 25] {
        let rig = Rig::new();
        let snapshot = rig.observe(HOME).await;
        let plan = snapshot.plan();
        let pve = &rig.systems.pve;
        let power = async {
            while !pve.is_running("pve1", VM).await.unwrap_or(false) {
                rig.systems.clock.sleep(Duration::from_millis(500)).await;
            }
            rig.systems.clock.sleep(Duration::from_secs(after)).await;
            pve.follow(&pve.stop("pve1", VM).await.unwrap(), |_| {}).await.unwrap();
            rig.systems.clock.sleep(Duration::from_secs(3)).await;
            pve.follow(&pve.start("pve1", VM).await.unwrap(), |_| {}).await.unwrap();
        };
        let (ran, ()) = futures::join!(rig.carry_out(&snapshot, &plan, "me"), power);
        let ran = ran.unwrap();
        assert_eq!(ran.outcome, Outcome::Done, "{after}: {:?}", ran.failures());
        rig.assert_whole().await;
    }
}

/// A machine that was told apart by nothing is refused before the cluster's keys are made.
#[tokio::test(start_paused = true)]
async fn i16_an_undeclared_external_machine_is_refused_before_there_is_a_bundle() {
    let rig = metal().await;
    let undeclared = METAL.replace(", unverified: true", "");
    let session = engine::Session::new(rig.systems.clone(), crate::rig::spec(&undeclared), None);
    let Ok(snapshot) = session.observe().await else { panic!("it can be looked at") };
    let codes: Vec<RefusalCode> = snapshot.plan().refusals.iter().map(|refusal| refusal.code).collect();
    assert_eq!(codes, [RefusalCode::Identity]);
    // Declared ones are not.
    let session = engine::Session::new(rig.systems.clone(), crate::rig::spec(METAL), None);
    let Ok(snapshot) = session.observe().await else { panic!("it can be looked at") };
    assert_eq!(snapshot.plan().refusals, []);
}

/// Something that happens to the console or the certificate of a VM.
fn fault(chance: &mut Chance, vmid: u32) -> Injection {
    let seconds = Duration::from_secs(1 + chance.below(40));
    let console = |fault| Injection::Console { vmid, fault: Some(fault) };
    match chance.below(7) {
        0 => Injection::Relay { vmid, present: true },
        1 => console(ConsoleFault::Silent),
        2 => console(ConsoleFault::Cut(seconds)),
        3 => console(ConsoleFault::Slow(seconds / 3)),
        4 => console(ConsoleFault::Flood),
        _ => Injection::Reissue { vmid, connections: 1 + chance.below(4) as u32 },
    }
}

/// Whatever happens to consoles and certificates, no key goes to an unproved machine, and once it is over the same command ends
/// with a whole cluster. Machines of a run that failed wait in maintenance mode, and their lines are gone.
async fn seeded(seeds: std::ops::Range<u64>) {
    const VMS: [u32; 5] = [150_011, 150_012, 150_013, 150_021, 150_022];
    for seed in seeds {
        let (rig, chance) = (Rig::new(), &mut Chance::new(seed));
        let faults: Vec<Injection> = (0..=chance.below(3))
            .map(|_| {
                let vmid = VMS[chance.below(5) as usize];
                fault(chance, vmid)
            })
            .collect();
        let told = format!("seed {seed}: {faults:?}");
        for fault in faults {
            rig.lab.inject(fault);
        }
        let ran = rig.apply(HOME).await;
        assert_eq!(stolen(&rig), 0, "{told}");
        let codes = ran.events.iter().filter_map(|event| match &event.what {
            What::StepFailed { code, .. } => Some(code.as_str()),
            _ => None,
        });
        assert!(codes.into_iter().all(|code| code == "machine-identity"), "{told}: {:?}", ran.failures());
        rig.lab.inject(Injection::Clear);
        let ran = rig.apply(HOME).await;
        assert_eq!(ran.outcome, Outcome::Done, "{told}: {:?}", ran.failures());
        rig.assert_whole().await;
    }
}

#[tokio::test(start_paused = true)]
async fn seeded_consoles_and_certificates() {
    seeded(0..2).await;
}

#[tokio::test(start_paused = true)]
#[ignore = "takes minutes: conformance/identity/run"]
async fn many_seeded_consoles_and_certificates() {
    let seed: u64 = setting("IDENTITY_SEED").unwrap_or(0);
    let runs: u64 = setting("IDENTITY_RUNS").unwrap_or(200);
    seeded(seed..seed + runs).await;
    eprintln!("{runs} bring-ups from seed {seed} on, no key to an unproved machine, each whole in the end");
}
