//! Many machines: six through their API in a blink, and three hundred in one process.

use std::time::{Duration, Instant};

use talos::config::Role;
use talos::wire::machine as wire;

use super::Rig;
use crate::machine::tests::{boot, config};

/// From power-on to six ready nodes, over TLS and gRPC; what the machines published.
async fn six() -> String {
    let rig = Rig::new();
    for number in 101..=106 {
        rig.on(number);
    }
    rig.wait(40).await;
    for number in 101..=106 {
        rig.apply(number, if number < 104 { Role::ControlPlane } else { Role::Worker }).await;
    }
    rig.wait(10).await;
    let admin = rig.role("os:admin");
    rig.client(101, Some(&admin)).bootstrap(wire::BootstrapRequest::default()).await.unwrap();
    for number in 101..=106 {
        loop {
            let mut client = rig.client(number, Some(&admin));
            let services = client.service_list(()).await.unwrap().into_inner().messages.remove(0).services;
            assert!(services.len() > 6);
            let ready = rig.lab.shared().read(|world, _| world.machines.status(number).unwrap());
            if ready.stage == "running" && ready.ready {
                break;
            }
            rig.wait(5).await;
        }
    }
    rig.lab.shared().read(|world, _| {
        let logs = world.machines.iter().map(|(vmid, machine)| (vmid, machine.log.clone()));
        serde_json::to_string_pretty(&logs.collect::<Vec<_>>()).unwrap()
    })
}

#[tokio::test(start_paused = true)]
async fn six_machines_are_ready_within_a_second_and_twice_the_same() {
    // The bundle's keys take seconds, once for all tests.
    let _ = &*crate::machine::tests::BUNDLE;
    #[expect(clippy::disallowed_methods, reason = "real time is what is measured")]
    let began = Instant::now();
    let first = six().await;
    let took = began.elapsed();
    assert!(first.len() > 10_000);
    assert_eq!(first, six().await, "one seed, one story");
    // A machine that does ten other things may be slower; on a quiet one this takes a quarter of it.
    assert!(took < Duration::from_secs(if std::env::var_os("CI").is_some() { 3 } else { 10 }), "{took:?}");
    println!("six machines: {took:?}");
}

/// The memory of this process, in MiB.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().split(' ').next()?.parse::<u64>().ok()).unwrap_or(0) / 1024
}

#[test]
#[ignore = "takes half a minute: conformance/many-machines/run"]
fn three_hundred_machines_fit_in_one_process() {
    let mut machines = crate::machine::Machines::default();
    let mut now = crate::machine::tests::start();
    machines.advance(now);
    let machine = |number: u32| {
        let mut boot = boot(101);
        boot.name = format!("m{number}");
        boot.uuid = format!("00000000-0000-4000-8000-{number:012}");
        boot.nics[0].mac = format!("bc:24:11:00:{:02x}:{:02x}", number >> 8, number & 0xff);
        boot.nics[0].address =
            Some(format!("10.1.{}.{}/16", number / 200, 11 + number % 200).parse().unwrap());
        boot
    };
    #[expect(clippy::disallowed_methods, reason = "real time is what is measured")]
    let began = Instant::now();
    for number in 0..300 {
        machines.power_on(1000 + number, machine(number), now);
    }
    let mut wait = |machines: &mut crate::machine::Machines, seconds: u64| {
        now = now.checked_add(Duration::from_secs(seconds)).unwrap();
        machines.advance(now);
        now
    };
    let mut moment = wait(&mut machines, 40);
    println!("300 machines wait in maintenance after {:?}, {} MiB", began.elapsed(), resident());
    for number in 0..300 {
        let role = if number < 3 { Role::ControlPlane } else { Role::Worker };
        let bytes = config(101, role, |_| {});
        let text = String::from_utf8(bytes).unwrap();
        let own = machine(number);
        let text = text
            .replace("BC:24:11:00:00:65", &own.nics[0].mac)
            .replace("bc:24:11:00:00:65", &own.nics[0].mac)
            .replace("10.1.0.11/24", &own.nics[0].address.unwrap().to_string())
            .replace("hostname: n101", &format!("hostname: m{number}"));
        machines
            .apply(1000 + number, text.as_bytes(), crate::machine::Mode::Auto, false, None, moment)
            .unwrap();
    }
    moment = wait(&mut machines, 10);
    println!("configured after {:?}, {} MiB", began.elapsed(), resident());
    machines.bootstrap(1000, None, moment).unwrap();
    for _ in 0..40 {
        moment = wait(&mut machines, 5);
    }
    let ready = (1000..1300)
        .filter(|vmid| machines.status(*vmid).is_some_and(|s| s.ready && s.stage == "running"))
        .count();
    println!("{ready} ready after {:?} ({moment}), {} MiB", began.elapsed(), resident());
    assert_eq!(ready, 300);
    assert!(resident() < 1024, "{} MiB", resident());
}
