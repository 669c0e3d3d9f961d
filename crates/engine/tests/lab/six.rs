//! Six machines from power-on to six ready nodes, through the client of the machines alone: in a blink, and twice the same.

use std::fmt::Write as _;
use std::net::IpAddr;
use std::time::Duration;

use ambient::Clock;
use lab::machine::{Boot, BootDisk, BootImage, BootNic};
use lab::{Lab, LabConfig};
use talos::config::{Contract, Input, MachineSettings, Nic, Role, apply_machine, generate};
use talos_client::{Credentials, Machine, Maintenance, Past};

use crate::rig::bundle;

const DAY: Duration = Duration::from_secs(24 * 3600);
const SHARED: &str = "10.1.0.10";

fn address(number: u32) -> IpAddr {
    IpAddr::from([10, 1, 0, u8::try_from(number).unwrap()])
}

fn mac(number: u32) -> String {
    format!("bc:24:11:00:00:{number:02x}")
}

fn boot(number: u32) -> Boot {
    let net = BootNic {
        mac: mac(number),
        bridge: "vmbr0".to_owned(),
        address: Some(format!("{}/24", address(number)).parse().unwrap()),
        gateway: Some(address(1)),
        address6: None,
        gateway6: None,
        dns: vec![],
        dhcp: false,
    };
    Boot {
        name: format!("vm-{number}"),
        uuid: format!("00000000-0000-4000-8000-{number:012}"),
        instance_id: String::new(),
        cores: 2,
        memory_mib: 4096,
        disks: vec![BootDisk { slot: "scsi0".to_owned(), bytes: 32 << 30, serial: None, wwn: None }],
        nics: vec![net],
        image: Some(BootImage {
            talos: "v1.13.9".to_owned(),
            schematic: "376567988ad370138ad8b2698212367b8edcb69b5fd68c80be1f2ec7d603b4ba".to_owned(),
            platform: "nocloud".to_owned(),
            arch: "amd64".to_owned(),
            extensions: vec![],
        }),
        uefi: false,
        secure_boot: false,
        pci: vec![],
    }
}

fn config(bundle: &talos::secrets::Bundle, number: u32) -> Vec<u8> {
    let contract = Contract::parse("v1.13").unwrap();
    let role = if number < 14 { Role::ControlPlane } else { Role::Worker };
    let input = Input::new(contract, role, "six", &format!("https://{SHARED}:6443"), "v1.36.3");
    let mut documents = generate(bundle, &input).unwrap();
    let node = MachineSettings {
        hostname: format!("n{number}"),
        nics: vec![Nic {
            mac: mac(number),
            addresses: vec![format!("{}/24", address(number))],
            gateway: Some(address(1).to_string()),
            vip: Some(SHARED.to_owned()),
            ..Nic::default()
        }],
        ..MachineSettings::default()
    };
    apply_machine(&mut documents, contract, &node).unwrap();
    documents.to_yaml().into_bytes()
}

/// From power-on to six ready nodes; every event that the machines told of, with its time.
async fn six() -> String {
    let clock = Clock::from(LabConfig::first_moment(), 1.0);
    let lab = Lab::open(LabConfig::default(), clock.clone()).unwrap();
    let (net, bundle, numbers) = (lab.net(), bundle(), 11..=16);
    lab.shared().with(|systems, now| {
        numbers.clone().for_each(|number| systems.machines.power_on(number, boot(number), now));
    });
    clock.sleep(Duration::from_secs(40)).await;
    for number in numbers.clone() {
        let machine = Maintenance::connect(&net, &clock, address(number)).await.unwrap();
        assert!(machine.system_uuid().await.unwrap().ends_with(&number.to_string()));
        machine.apply(&config(&bundle, number)).await.unwrap();
    }
    clock.sleep(Duration::from_secs(15)).await;
    let identity = talos::secrets::talos_client(&bundle, "os:admin", DAY, clock.now()).unwrap();
    let credentials = Credentials::from(&identity);
    let connect = |number| Machine::connect(&net, &clock, address(number), &credentials).unwrap();
    let machines: Vec<Machine> = numbers.map(connect).collect();
    machines[0].bootstrap().await.unwrap();
    for machine in &machines {
        while !machine.stage().await.is_ok_and(|status| status.is_up()) {
            clock.sleep(Duration::from_secs(5)).await;
        }
    }
    let mut log = String::new();
    for machine in &machines {
        let mut events = machine.events(Past::Everything).await.unwrap();
        while let Ok(Some(event)) = events.next(Duration::from_millis(10)).await {
            writeln!(log, "{} {event:?}", machine.address()).unwrap();
        }
    }
    log
}

/// How long this thread has been at work, which on a machine with nothing else to do is the time that passes.
fn worked() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    Duration::from_nanos(text.split(' ').next().and_then(|first| first.parse().ok()).unwrap_or(0))
}

#[tokio::test(start_paused = true)]
async fn six_machines_are_ready_within_a_second_and_twice_the_same() {
    // Keys take seconds, once for all tests.
    bundle();
    let before = worked();
    let first = six().await;
    let took = worked().checked_sub(before).unwrap();
    println!("six machines: {took:?}");
    assert!(first.lines().count() > 300, "{first}");
    assert_eq!(first, six().await, "one seed, one story");
    assert!(took < Duration::from_secs(1), "{took:?}");
}
