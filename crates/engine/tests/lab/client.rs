//! The client of the machines, against the machines of the lab: what day two needs of them.

use std::net::IpAddr;
use std::time::Duration;

use talos_client::{Change, Credentials, Kind, Lines, Machine, Past, Reboot, Stage, What};

use crate::rig::{Rig, bundle};

const DAY: Duration = Duration::from_secs(24 * 3600);
const QUARTER: Duration = Duration::from_secs(900);

pub fn machine(rig: &Rig, address: &str) -> Machine {
    let now = rig.systems.clock.now();
    let identity = talos::secrets::talos_client(&bundle(), "os:admin", DAY, now).unwrap();
    let address: IpAddr = address.parse().unwrap();
    Machine::connect(&rig.systems.net, &rig.systems.clock, address, &Credentials::from(&identity)).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_machine_is_restarted_and_awaited_by_its_boot_id() {
    let rig = Rig::healthy().await;
    let worker = machine(&rig, "10.25.150.21");
    let before = worker.boot_id().await.unwrap();
    worker.reboot_and_wait(Reboot::Usual, QUARTER).await.unwrap();
    assert_ne!(worker.boot_id().await.unwrap(), before);
    let mut events = worker.events(Past::Everything).await.unwrap();
    let mut stages = vec![];
    while let Ok(Some(event)) = events.next(Duration::from_secs(5)).await {
        if let What::Status(status) = event.what {
            stages.push(status.stage);
        }
    }
    assert!(!stages.contains(&Stage::Rebooting), "the machine remembers nothing from before its boot");
    assert_eq!(stages.last(), Some(&Stage::Running));
}

#[tokio::test(start_paused = true)]
async fn a_machine_tells_of_itself() {
    let rig = Rig::healthy().await;
    let control = machine(&rig, "10.25.150.11");
    assert!(control.stage().await.unwrap().is_up());
    assert_eq!(control.etcd_members(false).await.unwrap().len(), 3);
    assert_eq!(control.etcd_alarms().await.unwrap(), []);
    let status = control.etcd_status().await.unwrap();
    assert!(status.leader != 0 && !status.learner);
    let etcd = control.services().await.unwrap().into_iter().find(|s| s.id == "etcd").unwrap();
    assert_eq!((etcd.state.as_str(), etcd.healthy), ("Running", Some(true)));
    assert!(control.disks().await.unwrap().iter().any(talos_client::Disk::is_writable));
    assert!(control.addresses().await.unwrap().iter().any(|a| a.address == "10.25.150.11/24"));
    assert_eq!(control.logs("nope", Lines::All).await.unwrap_err().kind(), Kind::Other);
    let mut watch = control.watch("runtime", "Services.v1alpha1.talos.dev", Some("etcd")).await.unwrap();
    assert!(
        matches!(watch.next(QUARTER).await.unwrap(), Some(Change::Created(found)) if found.spec["healthy"] == true)
    );

    let worker = machine(&rig, "10.25.150.21");
    let error = worker.etcd_members(false).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Unimplemented);
    assert!(error.to_string().contains("10.25.150.21"));
}
