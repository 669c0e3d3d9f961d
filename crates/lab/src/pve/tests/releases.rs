//! What a real 9.2 was seen to do besides what was recorded of 9.1.8, and what only one of the two does.

use std::time::Duration;

use serde_json::{Value, json};

use super::client::Client;
use super::{lab, moment};
use crate::{Lab, LabConfig, ProxmoxVersion};

fn lab_of(proxmox: ProxmoxVersion) -> (Lab, Client) {
    let clock = moment();
    let lab = Lab::open(LabConfig { proxmox, ..LabConfig::default() }, clock.clone()).unwrap();
    let client = Client::new(&lab, &clock);
    (lab, client)
}

/// A VM without disks that runs. Nothing in it obeys.
async fn running(client: &Client, vmid: u32) {
    assert_eq!(client.done("POST", "/nodes/pve1/qemu", json!({ "vmid": vmid })).await, "OK");
    assert_eq!(power(client, vmid, "start").await, "OK");
}

async fn power(client: &Client, vmid: u32, verb: &str) -> String {
    client.done("POST", &format!("/nodes/pve1/qemu/{vmid}/status/{verb}"), json!({})).await
}

async fn status(client: &Client, vmid: u32) -> Value {
    client.get(&format!("/nodes/pve1/qemu/{vmid}/status/current")).await
}

async fn wait(client: &Client, millis: u64) {
    client.clock.sleep(Duration::from_millis(millis)).await;
}

/// Kind and user of the tasks about a VM, the newest first.
async fn tasks(client: &Client, vmid: u32) -> Vec<String> {
    let rows = client.get(&format!("/nodes/pve1/tasks?vmid={vmid}&source=all")).await;
    let row = |row: &Value| format!("{} {}", row["type"].as_str().unwrap(), row["user"].as_str().unwrap());
    rows.as_array().unwrap().iter().map(row).collect()
}

#[tokio::test(start_paused = true)]
async fn lab_9_2_a_reboot_is_two_tasks_and_the_first_ends_with_the_vm_off() {
    let (_lab, client, _) = lab();
    assert_eq!(client.talos_vm(100).await, "OK");
    assert_eq!(power(&client, 100, "start").await, "OK");
    wait(&client, 60_000).await;
    let before = status(&client, 100).await["pid"].clone();
    let change = json!({"cores": 4});
    assert_eq!(client.call("PUT", "/nodes/pve1/qemu/100/config", change).await.status, 200);

    assert_eq!(power(&client, 100, "reboot").await, "OK");
    assert_eq!(status(&client, 100).await["status"], "stopped");
    wait(&client, 6_000).await;
    let after = status(&client, 100).await;
    assert_eq!((&after["status"], &after["cpus"]), (&json!("running"), &json!(4)));
    assert_ne!(after["pid"], before);
    assert_eq!(tasks(&client, 100).await[..2], ["qmstart root@pam", "qmreboot root@pam!talosmith"]);
}

#[tokio::test(start_paused = true)]
async fn lab_9_2_a_guest_that_does_not_obey_is_not_rebooted_later() {
    let (_lab, client, _) = lab();
    running(&client, 100).await;
    let wish = json!({"timeout": 5});
    let ended = client.done("POST", "/nodes/pve1/qemu/100/status/reboot", wish).await;
    assert_eq!(ended, "VM quit/powerdown failed - got timeout");
    assert_eq!(power(&client, 100, "stop").await, "OK");
    wait(&client, 60_000).await;
    assert_eq!(status(&client, 100).await["status"], "stopped");
}

#[tokio::test(start_paused = true)]
async fn lab_9_2_a_vm_started_directly_after_its_stop_keeps_its_lock_for_half_a_minute() {
    let (_lab, client, clock) = lab();
    running(&client, 100).await;
    assert_eq!(power(&client, 100, "stop").await, "OK");
    assert_eq!(power(&client, 100, "start").await, "OK");
    let locked = "can't lock file '/var/lock/qemu-server/lock-100.conf' - got timeout";
    let before = clock.now();
    let change = || client.call("PUT", "/nodes/pve1/qemu/100/config", json!({"description": "x"}));
    let refused = change().await;
    assert_eq!((refused.status, refused.reason.as_str()), (500, locked));
    assert!(clock.now().duration_since(before).as_secs() >= 10);
    assert_eq!(power(&client, 100, "stop").await, locked);
    wait(&client, 15_000).await;
    assert_eq!(change().await.status, 200);

    // A client that waits for the clean-up has no such trouble.
    assert_eq!(power(&client, 100, "stop").await, "OK");
    wait(&client, 3_000).await;
    assert_eq!(power(&client, 100, "start").await, "OK");
    wait(&client, 3_000).await;
    let before = clock.now();
    assert_eq!(change().await.status, 200);
    assert!(clock.now().duration_since(before).as_secs() < 1);

    let (_lab, client) = lab_of(ProxmoxVersion::V9_1);
    running(&client, 100).await;
    for verb in ["stop", "start", "stop", "start"] {
        assert_eq!(power(&client, 100, verb).await, "OK");
    }
}

#[tokio::test(start_paused = true)]
async fn lab_9_2_more_cores_than_the_host_has_are_refused_at_the_start() {
    let (_lab, client, _) = lab();
    let wish = json!({"vmid": 100, "cores": 9, "sockets": 2});
    assert_eq!(client.done("POST", "/nodes/pve1/qemu", wish).await, "OK");
    assert_eq!(power(&client, 100, "start").await, "MAX 16 vcpus allowed per VM on this node");
    assert_eq!(status(&client, 100).await["status"], "stopped");
}

#[tokio::test(start_paused = true)]
async fn lab_9_2_the_manager_of_high_availability_acts_some_ten_seconds_after_it_was_asked() {
    let (_lab, client, clock) = lab();
    running(&client, 100).await;
    let wish = json!({"sid": "vm:100", "state": "started"});
    assert_eq!(client.call("POST", "/cluster/ha/resources", wish).await.status, 200);
    for (verb, kind, to) in [("stop", "hastop", "stopped"), ("start", "hastart", "running")] {
        let before = clock.now();
        assert_eq!(power(&client, 100, verb).await, "OK");
        assert!(clock.now().duration_since(before).as_secs() < 2);
        assert_ne!(status(&client, 100).await["status"], to);
        assert_eq!(tasks(&client, 100).await[0], format!("{kind} root@pam!talosmith"));
        let upid = client.get("/nodes/pve1/tasks?vmid=100&source=all").await[0]["upid"].clone();
        let log = client.get(&format!("/nodes/pve1/tasks/{}/log", upid.as_str().unwrap())).await;
        assert_eq!(log[0]["t"], format!("Requesting HA {verb} for VM 100"));
        wait(&client, 8_000).await;
        assert_ne!(status(&client, 100).await["status"], to, "not before ten seconds");
        wait(&client, 17_000).await;
        let now = status(&client, 100).await;
        assert_eq!(now["status"], to);
        assert_eq!(now["ha"]["managed"], 1);
        assert_eq!(tasks(&client, 100).await[0], format!("qm{verb} root@pam"));
    }
    let resources = client.get("/cluster/resources?type=vm").await;
    assert_eq!(resources[0]["hastate"], "started");
}

#[tokio::test(start_paused = true)]
async fn lab_9_2_tags_are_checked_before_the_vm_is_in_its_pool_and_9_1_takes_them_as_they_come() {
    for (release, words, kept) in [
        (
            ProxmoxVersion::V9_2,
            "unable to create VM 100 - 403 Permission check failed (/vms/100, VM.Config.Options)",
            "a;b",
        ),
        (ProxmoxVersion::V9_1, "OK", "B;a"),
    ] {
        let (lab, client) = lab_of(release);
        client.call("POST", "/pools", json!({"poolid": "k8s"})).await.data();
        client
            .call("POST", "/access/users", json!({"userid": "a@pve", "password": "secret-123"}))
            .await
            .data();
        let acl = json!({"path": "/pool/k8s", "roles": "PVEAdmin", "users": "a@pve"});
        client.call("PUT", "/access/acl", acl).await.data();
        let token = client.call("POST", "/access/users/a@pve/token/t1", json!({"privsep": 0})).await.data();
        let mut own = Client::new(&lab, &client.clock);
        own.authorization = format!("PVEAPIToken=a@pve!t1={}", token["value"].as_str().unwrap());
        let upid =
            own.call("POST", "/nodes/pve1/qemu", json!({"vmid": 100, "pool": "k8s", "tags": "B;a"})).await;
        assert_eq!(client.task(&upid.text()).await, words);
        assert_eq!(client.done("POST", "/nodes/pve1/qemu", json!({"vmid": 101, "tags": "B;a"})).await, "OK");
        assert_eq!(client.get("/nodes/pve1/qemu/101/config").await["tags"], kept);
    }
}

#[tokio::test(start_paused = true)]
async fn lab_9_2_a_token_gets_another_secret_and_keeps_its_rights() {
    let (lab, client) = lab_of(ProxmoxVersion::V9_2);
    assert_eq!(client.get("/version").await["release"], "9.2");
    client.call("POST", "/access/users", json!({"userid": "a@pve"})).await.data();
    let path = "/access/users/a@pve/token/t1";
    let old = client.call("POST", path, json!({"comment": "mine", "expire": 0})).await.data();
    for whom in [json!({"users": "a@pve"}), json!({"tokens": "a@pve!t1"})] {
        let mut acl = json!({"path": "/vms", "roles": "PVEAuditor"});
        acl.as_object_mut().unwrap().extend(whom.as_object().unwrap().clone());
        client.call("PUT", "/access/acl", acl).await.data();
    }
    let new = client.call("PUT", path, json!({"regenerate": 1})).await.data();
    assert_eq!((&new["full-tokenid"], &new["privsep"]), (&json!("a@pve!t1"), &json!(1)));
    assert_ne!(new["value"], old["value"]);
    let with = |secret: &Value| {
        let authorization = format!("PVEAPIToken=a@pve!t1={}", secret.as_str().unwrap());
        Client { authorization, ..Client::new(&lab, &client.clock) }
    };
    let refused = with(&old["value"]).call("GET", "/version", Value::Null).await;
    assert_eq!(refused.reason, "Authentication failed!");
    let own = with(&new["value"]);
    assert!(own.get("/access/permissions").await["/vms"]["VM.Audit"].is_number());
    assert_eq!(client.get(path).await["comment"], "mine");
    let itself = own.call("PUT", path, json!({"regenerate": 1})).await;
    assert_eq!(itself.status, 403, "{itself:?}");

    let (_lab, client) = lab_of(ProxmoxVersion::V9_1);
    assert_eq!(client.get("/version").await["version"], "9.1.8");
    client.call("POST", "/access/users", json!({"userid": "a@pve"})).await.data();
    client.call("POST", path, json!({})).await.data();
    let unknown = client.call("PUT", path, json!({"regenerate": 1})).await;
    assert_eq!(unknown.status, 400);
    assert!(unknown.json()["errors"]["regenerate"].as_str().unwrap().starts_with("property is not defined"));
}

#[tokio::test(start_paused = true)]
async fn lab_9_2_calls_that_are_new_are_unknown_to_9_1() {
    let models = "/cluster/qemu/custom-cpu-models";
    let (_lab, client) = lab_of(ProxmoxVersion::V9_2);
    client.call("POST", models, json!({"cputype": "lean", "reported-model": "kvm64"})).await.data();
    assert_eq!(client.get(models).await[0]["cputype"], "lean");
    let (_lab, client) = lab_of(ProxmoxVersion::V9_1);
    let unknown = client.call("GET", models, Value::Null).await;
    assert_eq!(unknown.status, 501, "{unknown:?}");
}

/// All that pve-manager 9.2.11, qemu-server 9.2.6 and storage 9.1.7 have more than 9.1.8.
#[tokio::test(start_paused = true)]
async fn lab_9_2_has_twelve_methods_more() {
    let new = [
        "GET /cluster/qemu",
        "GET /cluster/qemu/cpu-flags",
        "GET /cluster/qemu/custom-cpu-models",
        "POST /cluster/qemu/custom-cpu-models",
        "GET /cluster/qemu/custom-cpu-models/lean",
        "PUT /cluster/qemu/custom-cpu-models/lean",
        "DELETE /cluster/qemu/custom-cpu-models/lean",
        "GET /nodes/pve1/storage/local/identity",
        "DELETE /nodes/pve1/ceph/fs/shared",
        "GET /nodes/pve1/ceph/releases",
        "POST /nodes/pve1/ceph/restart-bulk",
        "POST /cluster/ceph/restart-bulk",
    ];
    for version in [ProxmoxVersion::V9_1, ProxmoxVersion::V9_2] {
        let (_lab, client) = lab_of(version);
        for call in new {
            let (method, path) = call.split_once(' ').unwrap();
            // A parameter that no call has shows whether the call is known, and changes nothing.
            let reply = client.call(method, &format!("{path}?nonsense=1"), Value::Null).await;
            let known = reply.status == 400;
            assert_eq!(known, version == ProxmoxVersion::V9_2, "{call}: {reply:?}");
            assert!(known || reply.status == 501, "{call}: {reply:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn lab_9_2_every_change_of_a_configuration_is_a_line_in_the_log_of_the_cluster() {
    let (_lab, client, _) = lab();
    assert_eq!(client.done("POST", "/nodes/pve1/qemu", json!({"vmid": 100})).await, "OK");
    for text in ["one", "two"] {
        let change = json!({"description": text, "cipassword": "secret"});
        assert_eq!(client.call("PUT", "/nodes/pve1/qemu/100/config", change).await.status, 200);
    }
    let log = client.get("/cluster/log?max=1").await;
    assert_eq!(log.as_array().unwrap().len(), 1);
    assert_eq!(log[0]["msg"], "update VM 100: -cipassword <hidden> -description two");
    assert_eq!((&log[0]["user"], &log[0]["node"]), (&json!("root@pam!talosmith"), &json!("pve1")));
}
