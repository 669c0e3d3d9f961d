//! What other people do to VMs, and ways that are cut.

use std::time::Duration;

use serde_json::json;

use super::lab;
use crate::{CallMoment, Far, Injection, Lost, Partition, Verdict};

#[tokio::test(start_paused = true)]
async fn another_person_does_what_proxmox_does() {
    let (lab, client, _) = lab();
    assert_eq!(client.talos_vm(100).await, "OK");
    let person = lab.person();
    let before = person.config(100).unwrap();
    person.clone_vm(100, 101).unwrap();
    let copy = person.config(101).unwrap();
    for key in ["vmgenid", "smbios1", "net0"] {
        assert_ne!(copy[key], before[key], "{key}");
    }
    let backup = person.backup(100).unwrap();
    person.power_on(100).unwrap();
    person.restore(&backup).unwrap();
    let restored = person.config(100).unwrap();
    assert_ne!(restored["vmgenid"], before["vmgenid"]);
    assert_eq!((&restored["smbios1"], &restored["scsi0"]), (&before["smbios1"], &before["scsi0"]));
    let status = client.get("/nodes/pve1/qemu/100/status/current").await;
    assert_eq!(status["status"], "stopped");
    person.snapshot(100, "now").unwrap();
    person.rollback(100, "now").unwrap();
    assert_ne!(person.config(100).unwrap()["vmgenid"], restored["vmgenid"]);
    person.migrate(101, "pve2").unwrap();
    assert_eq!(client.get("/nodes/pve2/qemu/101/status/current").await["vmid"], 101);
    person.set(101, "protection", "1").unwrap();
    assert!(person.delete(101).unwrap_err().contains("protection mode enabled"));
    person.delete(100).unwrap();
    assert_eq!(person.config(100), None);
    person.create("pve3", 100, &[("name", "theirs"), ("description", "of someone else")]).unwrap();
    assert_eq!(person.config(100).unwrap()["name"], "theirs");
    let left = lab.shared().read(|world, _| world.hypervisor.storages.owned_by(100).count());
    assert_eq!(left, 0, "its ID is reused, its disks are gone");
}

#[tokio::test(start_paused = true)]
async fn a_way_that_is_cut_loses_the_request_or_the_answer() {
    for (lost, there) in [(Lost::Requests, false), (Lost::Answers, true)] {
        let (lab, client, clock) = lab();
        let cut = move |origin: &str| {
            let which = Partition { origin: Some(origin.to_owned()), far: Far::Proxmox, lost };
            Injection::Partition { which, cut: true }
        };
        lab.inject(cut("kim"));
        assert!(client.get("/version").await.is_object(), "the way of others");
        let shared = std::sync::Arc::downgrade(lab.shared());
        // A connection needs both ways, so the answer's is cut once the call has arrived.
        lab.on_call(move |_, moment, _, _| {
            if let Some(shared) = shared.upgrade().filter(|_| moment == CallMoment::Before) {
                shared.with(|world, _| world.inject(cut("")));
            }
            Verdict::GoOn
        });
        if lost == Lost::Requests {
            lab.inject(cut(""));
        }
        let call = client.call_at("pve1", "POST", "/nodes/pve1/qemu", json!({"vmid": 100}));
        assert!(clock.timeout(Duration::from_secs(60), call).await.is_err(), "{lost:?}: no answer");
        lab.on_call(|_, _, _, _| Verdict::GoOn);
        lab.inject(Injection::Clear);
        assert_eq!(lab.person().config(100).is_some(), there, "{lost:?}");
        assert!(client.get("/version").await.is_object(), "mended");
    }
}
