//! What surprises the author of a client, through ours: each test is named after one surprise of a real Talos and fails
//! when the client or the engine forgets it. What the machines themselves must show is tested in the lab, without us.

mod etcd;
mod proofs;
mod releases;
mod running;
mod waiting;

use std::net::IpAddr;
use std::time::Duration;

use lab::machine::{Boot, BootDisk, BootImage, BootNic};
use talos::config::{Contract, Input, MachineSettings, Nic, Role, apply_machine, generate};
use talos_client::{Credentials, Machine, Maintenance};
use tokio::sync::OnceCell;

use crate::rig::{HOME, Rig, bundle};

const DAY: Duration = Duration::from_secs(24 * 3600);
const MINUTE: Duration = Duration::from_secs(60);
const QUARTER: Duration = Duration::from_secs(15 * 60);

const SCHEMATIC: &str = "376567988ad370138ad8b2698212367b8edcb69b5fd68c80be1f2ec7d603b4ba";

fn address(last: u8) -> IpAddr {
    IpAddr::from([10, 25, 150, last])
}

/// A machine with the last number of its address, as someone's hypervisor would switch it on.
fn boot(last: u8, talos: &str) -> Boot {
    let net = |text: String| text.parse().unwrap();
    Boot {
        name: format!("vm-{last}"),
        uuid: format!("00000000-0000-4000-8000-0000000000{last}"),
        instance_id: String::new(),
        cores: 2,
        memory_mib: 4096,
        disks: vec![BootDisk { slot: "scsi0".into(), bytes: 32 << 30, serial: None, wwn: None }],
        nics: vec![BootNic {
            mac: format!("BC:24:11:00:00:{last}"),
            bridge: "vmbr0".into(),
            address: Some(net(format!("10.25.150.{last}/24"))),
            gateway: Some(IpAddr::from([10, 25, 150, 1])),
            address6: None,
            gateway6: None,
            dns: vec![],
            dhcp: false,
        }],
        uefi: false,
        secure_boot: false,
        pci: vec![],
        image: Some(BootImage {
            talos: talos.into(),
            schematic: SCHEMATIC.into(),
            platform: "nocloud".into(),
            arch: "amd64".into(),
            extensions: vec![],
        }),
    }
}

/// The configuration of such a machine.
fn config(last: u8, role: Role, contract: &str, kubernetes: &str) -> String {
    let contract = Contract::parse(contract).unwrap();
    let input = Input::new(contract, role, "odd", "https://10.25.150.60:6443", kubernetes);
    let mut documents = generate(&bundle(), &input).unwrap();
    let node = MachineSettings {
        hostname: format!("n{last}"),
        nics: vec![Nic {
            mac: format!("BC:24:11:00:00:{last}"),
            addresses: vec![format!("10.25.150.{last}/24")],
            gateway: Some("10.25.150.1".into()),
            vip: Some("10.25.150.60".into()),
            ..Nic::default()
        }],
        ..MachineSettings::default()
    };
    apply_machine(&mut documents, contract, &node).unwrap();
    documents.to_yaml().to_string()
}

fn usual() -> String {
    config(61, Role::ControlPlane, "v1.13", "v1.35.4")
}

impl Rig {
    /// The world after a bring-up of [`HOME`], made once for all tests here.
    async fn home() -> Self {
        static HEALTHY: OnceCell<Vec<u8>> = OnceCell::const_new();
        let systems = HEALTHY.get_or_init(|| async {
            let rig = Self::new();
            Box::pin(rig.apply(HOME)).await;
            rig.lab.shared().read(|systems, _| serde_json::to_vec(systems).unwrap())
        });
        Self::copy_of(systems.await)
    }

    /// A machine of some release that waits for its configuration, at .61.
    async fn with_waiting(talos: &str) -> Self {
        let rig = Self::new();
        rig.lab.shared().with(|systems, now| systems.machines.power_on(9061, boot(61, talos), now));
        rig.pass(40).await;
        rig
    }

    /// The same machine with its configuration, and without etcd.
    async fn with_configured() -> Self {
        let rig = Self::with_waiting("v1.13.9").await;
        rig.maintenance().await.apply(usual().as_bytes()).await.unwrap();
        rig.pass(10).await;
        rig
    }

    /// The same machine, alone in its cluster.
    async fn with_single() -> Self {
        let rig = Self::with_configured().await;
        rig.machine(61).bootstrap().await.unwrap();
        rig.pass(60).await;
        rig
    }

    async fn pass(&self, seconds: u64) {
        self.systems.clock.sleep(Duration::from_secs(seconds)).await;
    }

    async fn maintenance(&self) -> Maintenance {
        Maintenance::connect(&self.systems.net, &self.systems.clock, address(61)).await.unwrap()
    }

    fn machine(&self, last: u8) -> Machine {
        let identity =
            talos::secrets::talos_client(&bundle(), "os:admin", DAY, self.systems.clock.now()).unwrap();
        let credentials = Credentials::from(&identity);
        Machine::connect(&self.systems.net, &self.systems.clock, address(last), &credentials).unwrap()
    }
}
