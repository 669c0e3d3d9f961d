//! Three hundred machines in one process.

use std::time::{Duration, Instant};

use talos::config::Role;

use crate::machine::tests::{boot, config};

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
