//! Serves a few machines on loopback addresses, for tools that speak the Talos API: `127.0.0.11` and so on, one for each
//! number given on the command line. They answer in maintenance half a minute later.

use std::error::Error;

use ambient::Clock;
use lab::machine::{Boot, BootDisk, BootImage, BootNic};
use lab::{Lab, LabConfig, ServeOptions};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let lab = Lab::open(LabConfig::default(), Clock::real())?;
    for number in std::env::args().skip(1) {
        let number: u32 = number.parse()?;
        let boot = Boot {
            name: format!("n{number}"),
            uuid: format!("00000000-0000-4000-8000-{number:012}"),
            cores: 2,
            memory_mib: 4096,
            disks: vec![BootDisk { slot: "scsi0".into(), bytes: 32 << 30, serial: None, wwn: None }],
            nics: vec![BootNic {
                mac: format!("BC:24:11:00:00:{number:02X}"),
                bridge: "vmbr0".into(),
                address: Some(format!("127.0.0.{number}/8").parse()?),
                gateway: None,
                dns: vec![],
            }],
            image: Some(BootImage {
                talos: "v1.13.9".into(),
                schematic: "376567988ad370138ad8b2698212367b8edcb69b5fd68c80be1f2ec7d603b4ba".into(),
                platform: "nocloud".into(),
                arch: "amd64".into(),
            }),
        };
        lab.shared().with(|world, now| world.machines.power_on(number, boot, now));
    }
    let options = ServeOptions { proxmox: "127.0.0.1:18006".parse()?, factory: "127.0.0.1:18443".parse()? };
    let _serving = lab.serve(options).await?;
    std::future::pending().await
}
