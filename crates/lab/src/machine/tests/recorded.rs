//! The order of events and of port states, beside what real machines were recorded to do.

use serde_json::Value;

use super::*;

/// The rows of a recording.
fn rows_of(file: &str) -> Vec<Value> {
    let folder = std::env::var("RECORDINGS").expect("RECORDINGS is not set: run conformance/recordings/run");
    let file = format!("{folder}/data/talos-observed/{file}");
    let text =
        std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("could not read {file}: {error}"));
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The events of one recorded stream, without the empty ones.
fn recorded(stream: &str) -> Vec<Value> {
    let mut rows = rows_of("events.jsonl");
    rows.retain(|row| row["stream"] == stream && row["type_url"].is_string());
    rows
}

/// One line a sequence and phase: what, its name, what happens to it.
fn steps_of(rows: &[Value]) -> Vec<String> {
    rows.iter()
        .filter_map(|row| {
            let event = &row["event"];
            let action = event["action"].as_str();
            let kind = row["type_url"].as_str()?;
            if kind.ends_with("SequenceEvent") {
                let code = event.get("error").map(|e| e["code"].as_str().unwrap_or("FATAL"));
                return Some(format!(
                    "sequence {} {}",
                    event["sequence"].as_str()?,
                    code.or(action).unwrap_or("START")
                ));
            }
            kind.ends_with("PhaseEvent")
                .then(|| format!("phase {} {}", event["phase"].as_str().unwrap(), action.unwrap_or("START")))
        })
        .collect()
}

fn steps(log: &[Entry]) -> Vec<String> {
    let word = |action: &Action| if *action == Action::Start { "START" } else { "STOP" };
    log.iter()
        .filter_map(|entry| match &entry.what {
            Happening::Sequence(name, action) => Some(format!("sequence {name} {}", word(action))),
            Happening::Failure(name, fault, _) => {
                Some(format!("sequence {name} {}", format!("{fault:?}").to_uppercase()))
            }
            Happening::Phase(name, action) => Some(format!("phase {name} {}", word(action))),
            _ => None,
        })
        .collect()
}

/// The states that each service goes through, without repetitions.
fn services(states: impl Iterator<Item = (String, String)>) -> BTreeMap<String, Vec<String>> {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (service, state) in states {
        let list = found.entry(service).or_default();
        if list.last() != Some(&state) {
            list.push(state);
        }
    }
    found
}

fn stages(states: impl Iterator<Item = String>) -> Vec<String> {
    let mut found: Vec<String> = vec![];
    for stage in states {
        if found.last() != Some(&stage) {
            found.push(stage);
        }
    }
    found
}

fn configured() -> Rig {
    let mut rig = Rig::new();
    rig.on(101);
    rig.wait(40);
    rig.apply(101, Role::ControlPlane);
    rig.wait(5);
    rig
}

#[test]
#[ignore = "needs recordings of real systems: conformance/recordings/run"]
fn from_power_on_over_maintenance_to_services() {
    let rows = recorded("vm-disk-image-apply");
    let rig = configured();
    let log = &rig.machines.get(101).unwrap().log;
    assert_eq!(steps(log), steps_of(&rows));

    let theirs = services(rows.iter().filter_map(|row| {
        let event = &row["event"];
        row["type_url"].as_str()?.ends_with("ServiceStateEvent").then(|| {
            (event["service"].as_str().unwrap().to_owned(), event["action"].as_str().unwrap().to_owned())
        })
    }));
    let ours = services(log.iter().filter_map(|entry| match &entry.what {
        Happening::Service(id, state, _, _) => Some((id.clone(), state.to_uppercase())),
        _ => None,
    }));
    for (id, states) in theirs {
        // The recorded clock was never right: trustd, etcd and kubelet stayed where they wait.
        assert!(ours[&id].starts_with(&states), "{id}: {:?} does not begin with {states:?}", ours[&id]);
    }

    let theirs = rows
        .iter()
        .filter(|row| row["type_url"].as_str().is_some_and(|kind| kind.ends_with("MachineStatusEvent")));
    let theirs = stages(theirs.map(|row| row["event"]["stage"].as_str().unwrap_or("UNKNOWN").to_lowercase()));
    let ours = stages(log.iter().filter_map(|entry| match &entry.what {
        Happening::Status(status) => Some(status.stage.clone()),
        _ => None,
    }));
    assert_eq!(ours, theirs);
}

#[test]
#[ignore = "needs recordings of real systems: conformance/recordings/run"]
fn a_bootstrap_restarts_the_service() {
    let rows = recorded("container-bootstrap");
    let mut rig = configured();
    rig.wait(8);
    let before = rig.machines.get(101).unwrap().log.len();
    rig.machines.bootstrap(101, None, rig.now).unwrap();
    rig.wait(10);
    let ours: Vec<_> = rig.machines.get(101).unwrap().log[before..]
        .iter()
        .filter_map(|entry| match &entry.what {
            Happening::Service(id, state, words, _) if id == "etcd" => {
                Some((state.to_uppercase(), words.split(" (PID").next().unwrap().to_owned()))
            }
            _ => None,
        })
        .collect();
    let theirs: Vec<_> = rows
        .iter()
        .filter(|row| row["event"]["service"] == "etcd")
        .map(|row| {
            let words = row["event"]["message"].as_str().unwrap().split(" (PID").next().unwrap().to_owned();
            (row["event"]["action"].as_str().unwrap().to_owned(), words)
        })
        .collect();
    // The recorded call was made twice; the second time it came to its end.
    let second = theirs.iter().rposition(|(_, words)| words == "Bootstrap requested").unwrap() - 1;
    assert_eq!(ours, theirs[second..]);
}

#[test]
#[ignore = "needs recordings of real systems: conformance/recordings/run"]
fn a_reboot_replaces_a_reboot() {
    let rows = recorded("vm-reboot");
    let mut rig = configured();
    rig.wait(8);
    let before = rig.machines.get(101).unwrap().log.len();
    let first = rig.machines.leave(101, Leave::Reboot, rig.now);
    let second = rig.machines.leave(101, Leave::Reboot, rig.now);
    assert_ne!(first, second);
    rig.wait(1);
    let log = &rig.machines.get(101).unwrap().log[before..];
    assert_eq!(steps(log), steps_of(&rows));
    let canceled = log
        .iter()
        .find(|entry| matches!(&entry.what, Happening::Failure(name, _, _) if name == "reboot"))
        .unwrap();
    assert_eq!(canceled.actor, first, "it is the first one's failure");
}

#[test]
#[ignore = "needs recordings of real systems: conformance/recordings/run"]
fn a_reset_waits_for_nobody_and_is_refused_by_an_event_only() {
    let rows = recorded("vm-lock");
    let locked = rows.iter().find(|row| row["event"]["error"]["code"] == "LOCKED").unwrap();
    let mut rig = configured();
    rig.wait(8);
    rig.machines.leave(101, Leave::Reboot, rig.now);
    let wipe = Wipe { ephemeral: true, reboot: true, ..Wipe::default() };
    let actor = rig.machines.reset(101, false, wipe, rig.now);
    assert!(!actor.is_empty(), "the call is answered as if all were well");
    let log = &rig.machines.get(101).unwrap().log;
    let refused = log.iter().rev().find_map(|entry| match &entry.what {
        Happening::Failure(name, Fault::Locked, words) => {
            Some((name.clone(), words.clone(), entry.actor.clone()))
        }
        _ => None,
    });
    let words = locked["event"]["error"]["message"].as_str().unwrap().to_owned();
    assert_eq!(refused, Some(("reset".to_owned(), words, String::new())), "no one is named in it");
    let before = log.len();
    rig.machines.leave(101, Leave::Shutdown, rig.now);
    rig.wait(1);
    let ours = steps(&rig.machines.get(101).unwrap().log[before..]);
    let theirs = steps_of(&rows);
    let from = theirs.iter().position(|step| step == "sequence reboot STOP").unwrap();
    assert_eq!(ours, theirs[from..]);
}

#[test]
#[ignore = "needs recordings of real systems: conformance/recordings/run"]
fn ways_down_have_their_phases() {
    let cases: [(&str, Leave); 2] = [
        ("vm-shutdown", Leave::Shutdown),
        (
            "vm-reset-force",
            Leave::Reset {
                graceful: false,
                wipe: Wipe { state: true, ephemeral: true, reboot: true, ..Wipe::default() },
            },
        ),
    ];
    for (stream, why) in cases {
        let rows = recorded(stream);
        let mut rig = configured();
        rig.wait(8);
        let before = rig.machines.get(101).unwrap().log.len();
        rig.machines.leave(101, why, rig.now);
        rig.wait(1);
        let begins = |steps: Vec<String>| -> Vec<String> {
            let name =
                if stream == "vm-shutdown" { "sequence shutdown START" } else { "sequence reset START" };
            steps.into_iter().skip_while(|step| step != name).collect()
        };
        assert_eq!(
            begins(steps(&rig.machines.get(101).unwrap().log[before..])),
            begins(steps_of(&rows)),
            "{stream}"
        );
    }
}

#[test]
#[ignore = "needs recordings of real systems: conformance/recordings/run"]
fn the_only_member_cannot_be_reset_gracefully() {
    let rows = recorded("vm-reset-graceful-last-member");
    let mut rig = configured();
    rig.wait(8);
    rig.machines.bootstrap(101, None, rig.now).unwrap();
    rig.wait(60);
    let before = rig.machines.get(101).unwrap().log.len();
    let wipe = Wipe { state: true, ephemeral: true, reboot: true, ..Wipe::default() };
    rig.machines.reset(101, true, wipe, rig.now);
    let ours = steps(&rig.machines.get(101).unwrap().log[before..]);
    assert_eq!(ours, steps_of(&rows));
    rig.wait(60);
    assert_eq!(rig.kind(101), Some(Kind::Api), "back as it was");
}

/// What someone who dials the port finds, in the words of the recording.
fn port_states(case: &str) -> Vec<String> {
    let rows = rows_of("port-watch.jsonl");
    let states = rows.iter().filter(|row| row["case"] == case).filter_map(|row| {
        let state = row["state"].as_str()?;
        let short = if state.contains("maintenance-service") {
            "maintenance"
        } else if state.contains("CERTIFICATE_REQUIRED") {
            "configured"
        } else if state.contains("ConnectionRefused") {
            "refused"
        } else if state.contains("No route") || state.contains("timed out") {
            "no host"
        } else {
            // A connection cut in its handshake, and a handshake that the slow machine did not finish in time.
            return None;
        };
        Some(short.to_owned())
    });
    stages(states)
}

fn watch(rig: &mut Rig, seconds: u64) -> Vec<String> {
    let mut states = vec![];
    for _ in 0..seconds * 20 {
        states.push(
            match rig.port(101, 50_000) {
                PortState::Open(listener) if listener.kind == Kind::Maintenance => "maintenance",
                PortState::Open(_) => "configured",
                PortState::Refused => "refused",
                PortState::NoHost | PortState::BlackHole => "no host",
            }
            .to_owned(),
        );
        rig.now = node::after(rig.now, Duration::from_millis(50));
        rig.machines.advance(rig.now);
    }
    stages(states.into_iter())
}

#[test]
#[ignore = "needs recordings of real systems: conformance/recordings/run"]
fn the_port_goes_through_the_recorded_states() {
    let theirs = port_states("5-vm-disk-image");
    let mut rig = Rig::new();
    rig.on(101);
    rig.wait(40);
    rig.apply(101, Role::ControlPlane);
    assert_eq!(watch(&mut rig, 20), theirs);

    rig.machines.leave(101, Leave::Reboot, rig.now);
    assert_eq!(watch(&mut rig, 60), port_states("5-vm-reboot"));

    let wipe = Wipe { state: true, ephemeral: true, reboot: true, ..Wipe::default() };
    rig.machines.reset(101, false, wipe, rig.now);
    assert_eq!(watch(&mut rig, 60), port_states("5-vm-reset-force"));

    let mut rig = Rig::new();
    rig.on(101);
    rig.wait(40);
    let dead = config(101, Role::Worker, |input| input.discovery = false);
    rig.apply_bytes(101, &dead).unwrap();
    assert_eq!(watch(&mut rig, 60), port_states("3-worker-no-trustd"));
}
