//! VMs that move to another host, by what Proxmox says before and does then.

use std::time::Duration;

use serde_json::{Value, json};

use super::lab;

#[tokio::test(start_paused = true)]
async fn what_ties_a_vm_to_its_host_is_told_before_it_moves() {
    let (_lab, client, _) = lab();
    assert_eq!(client.talos_vm(100).await, "OK");
    let before = client.get("/nodes/pve1/qemu/100/migrate").await;
    let allowed = before["allowed_nodes"].as_array().unwrap();
    assert!(allowed.contains(&json!("pve2")) && !allowed.contains(&json!("pve1")), "{before}");
    let disks: Vec<&Value> =
        before["local_disks"].as_array().unwrap().iter().map(|disk| &disk["volid"]).collect();
    assert!(disks.contains(&&json!("local-lvm:vm-100-disk-0")), "{before}");
    // A storage that only its host has.
    let only = json!({"nodes": "pve1"});
    assert_eq!(client.call("PUT", "/storage/local-lvm", only).await.status, 200);
    let after = client.get("/nodes/pve1/qemu/100/migrate").await;
    assert_eq!(after["allowed_nodes"], json!([]));
    assert_eq!(after["not_allowed_nodes"]["pve2"], json!({"unavailable_storages": ["local-lvm"]}));
}

#[tokio::test(start_paused = true)]
async fn a_vm_that_runs_moves_with_its_local_disks_only_if_that_is_asked_for() {
    let (_lab, client, _) = lab();
    assert_eq!(client.talos_vm(100).await, "OK");
    assert_eq!(client.done("POST", "/nodes/pve1/qemu/100/status/start", json!({})).await, "OK");
    let offline = client.call("POST", "/nodes/pve1/qemu/100/migrate", json!({"target": "pve2"})).await;
    assert_eq!(offline.reason, "can't migrate running VM without --online");
    let wish = json!({"target": "pve2", "online": 1});
    let without = client.done("POST", "/nodes/pve1/qemu/100/migrate", wish).await;
    assert_eq!(without, "can't live migrate attached local disks without with-local-disks option");
    let wish = json!({"target": "pve2", "online": 1, "with-local-disks": 1});
    assert_eq!(client.done("POST", "/nodes/pve1/qemu/100/migrate", wish).await, "OK");
    assert_eq!(client.get("/nodes/pve2/qemu/100/status/current").await["status"], "running");
}

#[tokio::test(start_paused = true)]
async fn the_manager_of_high_availability_moves_a_vm_after_the_task_has_ended() {
    let (_lab, client, clock) = lab();
    assert_eq!(client.talos_vm(100).await, "OK");
    assert_eq!(client.done("POST", "/nodes/pve1/qemu/100/status/start", json!({})).await, "OK");
    let wish = json!({"sid": "vm:100", "state": "started"});
    assert_eq!(client.call("POST", "/cluster/ha/resources", wish).await.status, 200);
    let wish = json!({"target": "pve2", "online": 1});
    let upid = client.call("POST", "/nodes/pve1/qemu/100/migrate", wish).await.text();
    assert!(upid.contains(":hamigrate:100:"), "{upid}");
    assert_eq!(client.task(&upid).await, "OK");
    let log = client.get(&format!("/nodes/pve1/tasks/{upid}/log")).await;
    assert_eq!(log[0]["t"], "Requesting HA migration for VM 100 to node pve2");
    assert_eq!(client.get("/nodes/pve1/qemu/100/status/current").await["status"], "running", "not yet");
    clock.sleep(Duration::from_secs(60)).await;
    assert_eq!(client.get("/nodes/pve2/qemu/100/status/current").await["status"], "running");
}

#[tokio::test(start_paused = true)]
async fn a_host_in_maintenance_says_so_where_it_is_seen() {
    let (lab, client, clock) = lab();
    assert_eq!(client.talos_vm(100).await, "OK");
    let hastate = async || {
        let rows = client.get("/cluster/resources?type=node").await;
        let row = rows.as_array().unwrap().iter().find(|row| row["node"] == "pve1").unwrap().clone();
        assert_eq!(row["status"], "online");
        row.get("hastate").cloned()
    };
    assert_eq!(hastate().await, None, "without high availability nothing is said");
    let wish = json!({"sid": "vm:100", "state": "stopped"});
    assert_eq!(client.call("POST", "/cluster/ha/resources", wish).await.status, 200);
    assert_eq!(hastate().await, Some(json!("online")));
    lab.person().maintain("pve1", true);
    assert_eq!(hastate().await, Some(json!("maintenance")));
    let status = client.get("/cluster/ha/status/current").await;
    let lrm = status.as_array().unwrap().iter().find(|row| row["id"] == "lrm:pve1").unwrap();
    assert!(lrm["status"].as_str().unwrap().starts_with("pve1 (maintenance mode, watchdog active"), "{lrm}");
    // What the manager looks after leaves.
    clock.sleep(Duration::from_secs(60)).await;
    let gone = client.call("GET", "/nodes/pve1/qemu/100/config", Value::Null).await;
    assert_eq!(gone.status, 500, "it was moved");
    lab.person().maintain("pve1", false);
    assert_eq!(hastate().await, Some(json!("online")));
}
