//! The API as a client meets it: real TLS and HTTP over the lab's network, on a clock that jumps.

mod breadth;
mod broken;
mod client;
mod console;
mod copies;
mod migration;
mod persons;
mod refusals;
mod releases;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ambient::{Clock, Net};
use http::Request;
use http_body_util::Full;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;

use crate::{CallFilter, CallMoment, Injection, Lab, LabConfig, ServeOptions, Verdict, When};
use client::Client;

fn moment() -> Clock {
    Clock::from(LabConfig::first_moment(), 1.0)
}

fn lab() -> (Lab, Client, Clock) {
    let clock = moment();
    let lab = Lab::open(LabConfig::default(), clock.clone()).unwrap();
    let client = Client::new(&lab, &clock);
    (lab, client, clock)
}

#[tokio::test(start_paused = true)]
async fn a_vm_lives_and_goes() {
    let (_lab, client, _) = lab();
    assert_eq!(client.talos_vm(100).await, "OK");
    let config = client.get("/nodes/pve1/qemu/100/config").await;
    assert_eq!(config["scsi0"], "local-lvm:vm-100-disk-0,discard=on,iothread=1,size=1246M,ssd=1");
    assert_eq!(config["ide2"], "local-lvm:vm-100-cloudinit,media=cdrom");
    assert_eq!((&config["memory"], &config["cores"]), (&json!("4096"), &json!(2)));
    assert!(config["net0"].as_str().unwrap().starts_with("virtio=BC:24:11:"));
    assert!(config.get("lock").is_none());

    let wish = json!({"disk": "scsi0", "size": "20G"});
    assert_eq!(client.done("PUT", "/nodes/pve1/qemu/100/resize", wish).await, "OK");
    assert_eq!(client.done("POST", "/nodes/pve1/qemu/100/status/start", json!({})).await, "OK");
    let status = client.get("/nodes/pve1/qemu/100/status/current").await;
    assert_eq!((&status["status"], &status["maxdisk"]), (&json!("running"), &json!(20_u64 << 30)));

    client.clock.sleep(Duration::from_secs(60)).await;
    let cards = client.get("/nodes/pve1/qemu/100/agent/network-get-interfaces").await;
    assert_eq!(cards["result"][1]["ip-addresses"][0]["ip-address"], "10.25.150.11");

    let running = client.call("DELETE", "/nodes/pve1/qemu/100", Value::Null).await;
    assert_eq!((running.status, running.reason.as_str()), (500, "VM 100 is running - destroy failed"));
    assert_eq!(client.done("POST", "/nodes/pve1/qemu/100/status/shutdown", json!({})).await, "OK");
    assert_eq!(client.done("DELETE", "/nodes/pve1/qemu/100?purge=1", Value::Null).await, "OK");
    let gone = client.call("GET", "/nodes/pve1/qemu/100/config", Value::Null).await;
    assert_eq!(gone.reason, "Configuration file 'nodes/pve1/qemu-server/100.conf' does not exist");
    assert_eq!(client.get("/nodes/pve1/storage/local-lvm/content").await, json!([]));
}

#[tokio::test(start_paused = true)]
async fn a_task_shows_its_progress() {
    let (_lab, client, _) = lab();
    client.image().await;
    let wish = json!({"vmid": 100, "scsi0": "local-lvm:0,import-from=local:import/talos.qcow2"});
    let upid = client.call("POST", "/nodes/pve1/qemu", wish).await.text();
    assert!(upid.starts_with("UPID:pve1:") && upid.ends_with(":qmcreate:100:root@pam!talosmith:"), "{upid}");
    let locked = client.call("PUT", "/nodes/pve1/qemu/100/config", json!({"cores": 2})).await;
    assert_eq!(locked.reason, "VM is locked (create)");
    client.clock.sleep(Duration::from_secs(4)).await;
    let log = client.call("GET", &format!("/nodes/pve1/tasks/{upid}/log"), Value::Null).await.json();
    let last = log["data"].as_array().unwrap().last().unwrap()["t"].as_str().unwrap().to_owned();
    assert!(last.starts_with("transferred ") && !last.contains("(100"), "{last}");
    assert_eq!(client.task(&upid).await, "OK");
    let status = client.get(&format!("/nodes/pve1/tasks/{upid}/status")).await;
    assert_eq!((&status["user"], &status["tokenid"]), (&json!("root@pam"), &json!("talosmith")));
}

#[tokio::test(start_paused = true)]
async fn an_unwelcome_caller_waits_three_seconds_for_nothing() {
    let (_lab, mut client, clock) = lab();
    for (authorization, words) in
        [("PVEAPIToken=root@pam!talosmith=wrong", "Authentication failed!"), ("Bearer x", "No ticket")]
    {
        client.authorization = authorization.to_owned();
        let before = clock.now();
        let reply = client.call("GET", "/version", Value::Null).await;
        assert_eq!((reply.status, reply.reason.as_str(), reply.body.as_str()), (401, words, ""));
        assert!(clock.now().duration_since(before).as_secs() >= 3);
    }
}

#[tokio::test(start_paused = true)]
async fn a_ticket_needs_its_companion_for_writes() {
    let (lab, client, _) = lab();
    let login = json!({"username": "root@pam", "password": lab.facts().root_password});
    let mut anonymous = Client::new(&lab, &client.clock);
    anonymous.authorization = "none".to_owned();
    let ticket = anonymous.call("POST", "/access/ticket", login).await.data();
    let write = |csrf: Option<&str>| {
        let request = Request::post("/api2/json/nodes/pve1/qemu?vmid=100").header("Host", "pve1");
        let cookie = format!("PVEAuthCookie={}", ticket["ticket"].as_str().unwrap());
        let request = request.header("Cookie", cookie).header("CSRFPreventionToken", csrf.unwrap_or("0:0"));
        anonymous.send("pve1", 8006, request.body(Full::default()).unwrap())
    };
    assert_eq!(write(None).await.unwrap().reason, "Permission denied - invalid csrf token");
    let reply = write(ticket["CSRFPreventionToken"].as_str()).await.unwrap();
    assert!(reply.text().ends_with(":qmcreate:100:root@pam:"));
    let wrong = json!({"username": "root@pam", "password": "wrong"});
    let reply = anonymous.call("POST", "/access/ticket", wrong).await;
    assert_eq!((reply.status, reply.reason.as_str()), (401, "authentication failure"));
}

#[tokio::test(start_paused = true)]
async fn the_digest_is_a_compare_and_set() {
    let (_lab, client, _) = lab();
    assert_eq!(client.done("POST", "/nodes/pve1/qemu", json!({"vmid": 100, "name": "record"})).await, "OK");
    let digest = client.get("/nodes/pve1/qemu/100/config").await["digest"].clone();
    let first = client
        .call("PUT", "/nodes/pve1/qemu/100/config", json!({"description": "a", "digest": digest}))
        .await;
    assert_eq!((first.status, first.json()["data"].clone()), (200, Value::Null));
    let second = client
        .call("PUT", "/nodes/pve1/qemu/100/config", json!({"description": "b", "digest": digest}))
        .await;
    assert_eq!(
        (second.status, second.reason.as_str()),
        (500, "checksum mismatch (file change by other user?)")
    );
    assert_eq!(client.get("/nodes/pve1/qemu/100/config").await["description"], "a");
    let again = client.call_at("pve2", "POST", "/nodes/pve2/qemu", json!({"vmid": 100})).await.unwrap();
    assert_eq!(again.reason, "unable to create VM 100 - VM 100 already exists on node 'pve1'");
    assert_eq!(again.json()["message"], "unable to create VM 100 - VM 100 already exists on node 'pve1'\n");
}

#[tokio::test(start_paused = true)]
async fn wrong_parameters_are_named_in_proxmox_words() {
    let (_lab, client, _) = lab();
    let cases = [
        (json!({"name": "x"}), "vmid", "property is missing and it is not optional"),
        (json!({"vmid": 99}), "vmid", "invalid format - value does not look like a valid VM ID\n"),
        (json!({"vmid": "abc"}), "vmid", "type check ('integer') failed - got 'abc'"),
        (
            json!({"vmid": 101, "disk": "x"}),
            "disk",
            "property is not defined in schema and the schema does not allow additional properties",
        ),
        (
            json!({"vmid": 101, "memory": "lots"}),
            "memory",
            "invalid format - format error\nmemory.current: type check ('integer') failed - got 'lots'\n",
        ),
        (json!({"vmid": 101, "cores": 0}), "cores", "value must have a minimum value of 1"),
        (
            json!({"vmid": 101, "name": "bad_name!"}),
            "name",
            "invalid format - value does not look like a valid DNS name\n",
        ),
        (
            json!({"vmid": 101, "net0": "virtio=ZZ:24:11:41:A2:3B,bridge=vmbr0"}),
            "net0",
            "invalid format - format error\nnet0.macaddr: invalid format - value does not look like a valid unicast MAC address\n\n",
        ),
        (
            json!({"vmid": 101, "ipconfig0": "gw=10.0.0.1"}),
            "ipconfig0",
            "invalid format - format error\nipconfig0.ip: missing property required by 'ipconfig0.gw'\n",
        ),
        (
            json!({"vmid": 101, "scsi0": "local-lvm:8,import-from=local:import/lab.qcow2"}),
            "scsi0",
            "'import-from' requires special syntax - use <storage ID>:0,import-from=<source>",
        ),
    ];
    for (wish, key, words) in cases {
        let reply = client.call("POST", "/nodes/pve1/qemu", wish.clone()).await;
        assert_eq!((reply.status, reply.reason.as_str()), (400, "Parameter verification failed."), "{wish}");
        assert_eq!(reply.json()["errors"], json!({ key: words }), "{wish}");
    }
    let reply = client.call("GET", "/does/not/exist", Value::Null).await;
    assert_eq!((reply.status, reply.reason.as_str()), (501, "Method 'GET /does/not/exist' not implemented"));
}

#[tokio::test(start_paused = true)]
async fn memory_waits_for_the_next_start_and_is_limited() {
    let (_lab, client, _) = lab();
    let wish = json!({"vmid": 100, "memory": 2048, "cores": 1, "start": 1});
    assert_eq!(client.done("POST", "/nodes/pve1/qemu", wish).await, "OK");
    client.clock.sleep(Duration::from_secs(5)).await;
    client.call("PUT", "/nodes/pve1/qemu/100/config", json!({"memory": 70_000, "name": "new"})).await.data();
    assert_eq!(client.get("/nodes/pve1/qemu/100/config").await["memory"], "70000");
    assert_eq!(client.get("/nodes/pve1/qemu/100/config?current=1").await["memory"], "2048");
    let rows = client.get("/nodes/pve1/qemu/100/pending").await;
    assert!(
        rows.as_array().unwrap().contains(&json!({"key": "memory", "value": "2048", "pending": "70000"}))
    );
    assert!(rows.as_array().unwrap().contains(&json!({"key": "name", "value": "new"})));
    assert_eq!(client.done("POST", "/nodes/pve1/qemu/100/status/stop", json!({})).await, "OK");
    let exit = client.done("POST", "/nodes/pve1/qemu/100/status/start", json!({})).await;
    assert_eq!(exit, "start failed: QEMU exited with code 1");
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_holds_the_lock_while_the_guest_does_not_obey() {
    let (_lab, client, clock) = lab();
    assert_eq!(client.done("POST", "/nodes/pve1/qemu", json!({"vmid": 100, "start": 1})).await, "OK");
    clock.sleep(Duration::from_secs(5)).await;
    let upid =
        client.call("POST", "/nodes/pve1/qemu/100/status/shutdown", json!({"timeout": 30})).await.text();
    let before = clock.now();
    let reply = client.call("PUT", "/nodes/pve1/qemu/100/config", json!({"cores": 2})).await;
    assert_eq!(reply.reason, "can't lock file '/var/lock/qemu-server/lock-100.conf' - got timeout");
    assert!(clock.now().duration_since(before).as_secs() >= 10);
    assert_eq!(client.task(&upid).await, "VM quit/powerdown failed - got timeout");
}

#[tokio::test(start_paused = true)]
async fn downloads_fail_as_wget_does() {
    let (_lab, client, _) = lab();
    let at = "/nodes/pve1/storage/local/download-url";
    let url = |id: &str| format!("https://factory.talos.dev/image/{id}/v1.13.9/nocloud-amd64.qcow2");
    let wish = |url: String, name: &str| json!({"url": url, "content": "import", "filename": name});
    let unknown = wish(url(&"0".repeat(64)), "a.qcow2");
    assert_eq!(client.done("POST", at, unknown).await, "download failed: exit code 8");
    let reply = client.call("POST", at, wish(url("x"), "a.img")).await;
    assert_eq!(reply.json()["errors"], json!({"filename": "invalid filename or wrong extension"}));
    client.image().await;
    let exit = client.done("POST", at, wish(url("x"), "talos.qcow2")).await;
    assert_eq!(exit, "refusing to override existing file '/var/lib/vz/import/talos.qcow2'");
    let lvm = client.call("POST", "/nodes/pve1/storage/nope/download-url", wish(url("x"), "a.qcow2")).await;
    assert_eq!(lvm.reason, "storage 'nope' does not exist");
}

#[tokio::test(start_paused = true)]
async fn what_was_answered_survives_the_end_of_the_process() {
    let folder = tempfile::tempdir().unwrap();
    let config = LabConfig { folder: Some(folder.path().to_owned()), ..LabConfig::default() };
    let clock = moment();
    let lab = Lab::open(config.clone(), clock.clone()).unwrap();
    let client = Client::new(&lab, &clock);
    client.image().await;
    let wish = json!({"vmid": 100, "scsi0": "local-lvm:0,import-from=local:import/talos.qcow2"});
    let upid = client.call("POST", "/nodes/pve1/qemu", wish).await.text();
    // As after a kill: the file as it is now, not as an orderly end would leave it.
    let killed = tempfile::tempdir().unwrap();
    std::fs::copy(folder.path().join("world.json"), killed.path().join("world.json")).unwrap();
    let (token, fingerprint) = (lab.facts().token, lab.facts().fingerprint);
    drop(lab);
    assert!(client.net.dial("pve1", 8006).await.is_err(), "a dropped lab answers nothing");

    let stood = Lab::saved_time(killed.path()).unwrap();
    let clock = Clock::from(stood, 1.0);
    let again =
        Lab::open(LabConfig { folder: Some(killed.path().to_owned()), ..config }, clock.clone()).unwrap();
    assert_eq!((again.facts().token, again.facts().fingerprint), (token, fingerprint));
    let client = Client::new(&again, &clock);
    let status = client.get(&format!("/nodes/pve1/tasks/{upid}/status")).await;
    assert_eq!(status["status"], "running");
    assert_eq!(client.task(&upid).await, "OK");
    assert_eq!(again.shared().trouble(), None);
}

#[tokio::test(start_paused = true)]
async fn a_host_that_is_off_cannot_be_reached() {
    let (lab, client, clock) = lab();
    let wish = json!({"vmid": 100, "onboot": 1, "start": 1});
    assert_eq!(client.done("POST", "/nodes/pve2/qemu", wish).await, "OK");
    clock.sleep(Duration::from_secs(5)).await;
    lab.inject(Injection::HostOffline("pve2".to_owned()));
    let reply = client.call("GET", "/nodes/pve2/qemu/100/config", Value::Null).await;
    assert_eq!((reply.status, reply.reason.as_str(), reply.body.as_str()), (595, "No route to host", ""));
    let direct = client.call_at("pve2", "GET", "/version", Value::Null).await;
    assert_eq!(direct.unwrap_err().kind(), std::io::ErrorKind::HostUnreachable);
    let nodes = client.get("/nodes").await;
    assert_eq!((&nodes[1]["node"], &nodes[1]["status"]), (&json!("pve2"), &json!("offline")));
    lab.inject(Injection::HostOnline("pve2".to_owned()));
    clock.sleep(Duration::from_secs(5)).await;
    assert_eq!(client.get("/nodes/pve2/qemu/100/status/current").await["status"], "running");
}

#[tokio::test(start_paused = true)]
async fn a_lock_does_not_outlive_the_power() {
    let (lab, client, clock) = lab();
    assert_eq!(client.done("POST", "/nodes/pve2/qemu", json!({"vmid": 100})).await, "OK");
    let start = "/nodes/pve2/qemu/100/status/start";
    assert_eq!(client.call("POST", start, json!({})).await.status, 200);
    clock.sleep(Duration::from_millis(100)).await;
    lab.inject(Injection::HostOffline("pve2".to_owned()));
    lab.inject(Injection::HostOnline("pve2".to_owned()));
    assert_eq!(client.done("POST", start, json!({})).await, "OK");
}

#[tokio::test(start_paused = true)]
async fn single_calls_can_be_made_to_fail() {
    let (lab, client, _) = lab();
    let which = |skip| CallFilter { method: "POST".to_owned(), path_contains: "/qemu".to_owned(), skip };
    let text = "got no worker upid - start worker failed".to_owned();
    lab.inject(Injection::FailCall { which: which(1), status: 500, text: text.clone() });
    lab.inject(Injection::CutCall { which: which(2), after: true });
    let seen = Arc::new(AtomicU64::new(0));
    let counter = seen.clone();
    lab.on_call(move |_, moment, method, _| {
        if moment == CallMoment::After && method == "POST" {
            counter.fetch_add(1, Ordering::Relaxed);
        }
        Verdict::GoOn
    });
    let create = |vmid: u32| client.call_at("pve1", "POST", "/nodes/pve1/qemu", json!({ "vmid": vmid }));
    assert_eq!(create(100).await.unwrap().status, 200);
    assert_eq!(create(101).await.unwrap().reason, text);
    assert!(create(102).await.is_err());
    let ids: Vec<Value> = client
        .get("/cluster/resources?type=vm")
        .await
        .as_array()
        .unwrap()
        .iter()
        .map(|vm| vm["vmid"].clone())
        .collect();
    assert_eq!(ids, [json!(100), json!(102)], "the call that was cut afterwards had its effect");
    assert_eq!(seen.load(Ordering::Relaxed), 3);
}

#[tokio::test(start_paused = true)]
async fn nothing_due_means_no_time_passes() {
    let (_lab, _client, clock) = lab();
    let before = clock.now();
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert_eq!(clock.now(), before);
}

#[tokio::test]
async fn the_lab_listens_on_loopback() {
    let clock = moment();
    let lab = Lab::open(LabConfig::default(), clock.clone()).unwrap();
    let any = "127.0.0.1:0".parse().unwrap();
    let serving = lab.serve(ServeOptions { proxmox: any, factory: any }).await.unwrap();
    let client = Client { net: Net::tcp(), ..Client::new(&lab, &clock) };
    let request = Request::get("/api2/json/version").header("Host", "127.0.0.1");
    let request = request.header("Authorization", &client.authorization).body(Full::default()).unwrap();
    let reply = client.send("127.0.0.1", serving.proxmox.port(), request).await.unwrap();
    assert_eq!(reply.data()["version"], "9.2.11");
    let taken = lab.serve(ServeOptions { proxmox: serving.proxmox, factory: any }).await.unwrap_err();
    assert!(taken.hint().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_folder_can_be_opened_again_at_once_and_takes_on_what_is_new() {
    let folder = tempfile::tempdir().unwrap();
    let config = LabConfig { folder: Some(folder.path().to_owned()), ..LabConfig::default() };
    let clock = moment();
    let lab = Lab::open(config.clone(), clock.clone()).unwrap();
    let client = Client::new(&lab, &clock);
    assert_eq!(client.done("POST", "/nodes/pve1/qemu", json!({"vmid": 100})).await, "OK");
    clock.sleep(Duration::from_secs(100)).await;
    client.get("/version").await;
    drop(lab);

    let clock = Clock::from(Lab::saved_time(folder.path()).unwrap(), 1.0);
    assert!(clock.now().duration_since(LabConfig::first_moment()).as_secs() >= 100, "time does not go back");
    let mut more = config;
    more.hosts.push(crate::HostConfig::numbered(4));
    more.factory_host = "images.example".to_owned();
    let lab = Lab::open(more, clock.clone()).unwrap();
    let client = Client::new(&lab, &clock);
    let nodes = client.get("/nodes").await;
    assert_eq!(nodes.as_array().unwrap().len(), 4);
    assert_eq!(client.get("/nodes/pve1/qemu/100/status/current").await["status"], "stopped");
    let request = Request::get("/versions").header("Host", "images.example").body(Full::default()).unwrap();
    let reply = client.send("images.example", 443, request).await.unwrap();
    assert!(reply.json().as_array().unwrap().contains(&json!("v1.13.9")), "{reply:?}");
}

#[tokio::test(start_paused = true)]
async fn a_machine_is_reached_while_it_runs() {
    let (lab, client, clock) = lab();
    let net = lab.net();
    assert_eq!(client.talos_vm(100).await, "OK");
    let before = clock.now();
    let nobody = net.dial("10.25.150.11", 50000).await.unwrap_err();
    assert_eq!(nobody.kind(), std::io::ErrorKind::HostUnreachable);
    assert!(clock.now().duration_since(before).as_secs() >= 3);
    assert!(net.dial("no.such.name", 443).await.is_err());
    assert_eq!(net.dial("pve1", 22).await.unwrap_err().kind(), std::io::ErrorKind::ConnectionRefused);

    assert_eq!(client.done("POST", "/nodes/pve1/qemu/100/status/start", json!({})).await, "OK");
    clock.sleep(Duration::from_secs(60)).await;
    let mut stream = net.dial("10.25.150.11", 50000).await.unwrap();
    assert_eq!(client.done("POST", "/nodes/pve1/qemu/100/status/stop", json!({})).await, "OK");
    assert_eq!(stream.read(&mut [0; 16]).await.unwrap_or(0), 0, "the connection died with the machine");
    assert!(net.dial("10.25.150.11", 50000).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn known_failures_meet_their_calls() {
    let (lab, client, _) = lab();
    lab.inject(Injection::Known { number: 31, when: When::After(0) });
    let reply = client.call("POST", "/nodes/pve1/qemu", json!({"vmid": 100})).await;
    assert_eq!((reply.status, reply.reason.as_str()), (500, "cluster not ready - no quorum?"));
    let which = CallFilter { method: "POST".to_owned(), path_contains: "/qemu".to_owned(), skip: 0 };
    lab.inject(Injection::Known { number: 35, when: When::Call(which) });
    let exit = client.done("POST", "/nodes/pve1/qemu", json!({"vmid": 100})).await;
    assert_eq!(exit, "unable to create VM 100 - cfs-lock 'storage-local' error: got lock request timeout");
    assert_eq!(client.done("POST", "/nodes/pve1/qemu", json!({"vmid": 100})).await, "OK");
    lab.inject(Injection::Known {
        number: 37,
        when: When::Chance { which: CallFilter::default(), permille: 500, seed: 7 },
    });
    let mut failed = 0;
    for vmid in 200..240 {
        let reply = client.call("POST", "/nodes/pve1/qemu", json!({ "vmid": vmid })).await;
        failed += u32::from(reply.reason == "got no worker upid - start worker failed");
    }
    assert!((10..30).contains(&failed), "{failed}");
}

#[tokio::test(start_paused = true)]
async fn a_token_may_do_what_it_was_given_and_no_more() {
    let (lab, root, clock) = lab();
    root.call("POST", "/access/users", json!({"userid": "a@pve"})).await;
    let token = root.call("POST", "/access/users/a@pve/token/t1", json!({"privsep": 0})).await.data();
    let mut client = Client::new(&lab, &clock);
    client.authorization = format!("PVEAPIToken=a@pve!t1={}", token["value"].as_str().unwrap());
    let refused = client.call("POST", "/nodes/pve1/qemu", json!({"vmid": 100})).await;
    assert_eq!((refused.status, refused.reason.as_str()), (403, "Permission check failed"));
    root.call("POST", "/pools", json!({"poolid": "k8s"})).await;
    let acl = json!({"path": "/pool/k8s", "users": "a@pve", "roles": "PVEVMAdmin"});
    root.call("PUT", "/access/acl", acl).await;
    let wish = json!({"vmid": 100, "pool": "k8s", "cores": 2});
    assert_eq!(client.call("POST", "/nodes/pve1/qemu", wish).await.status, 200);
    clock.sleep(Duration::from_secs(5)).await;
    assert_eq!(client.get("/nodes/pve1/qemu/100/config").await["cores"], 2);
    root.call("PUT", "/pools", json!({"poolid": "k8s", "vms": "100", "delete": 1})).await;
    let refused = client.call("GET", "/nodes/pve1/qemu/100/config", Value::Null).await;
    assert_eq!(refused.reason, "Permission check failed (/vms/100, VM.Audit)");
}

#[tokio::test(start_paused = true)]
async fn a_template_is_copied_and_a_vm_moves() {
    let (_lab, client, _) = lab();
    assert_eq!(client.talos_vm(100).await, "OK");
    assert_eq!(client.done("POST", "/nodes/pve1/qemu/100/template", json!({})).await, "OK");
    let wish = json!({"newid": 101, "name": "copy", "full": 1});
    assert_eq!(client.done("POST", "/nodes/pve1/qemu/100/clone", wish).await, "OK");
    let (base, copy) =
        (client.get("/nodes/pve1/qemu/100/config").await, client.get("/nodes/pve1/qemu/101/config").await);
    assert!(base["scsi0"].as_str().unwrap().starts_with("local-lvm:base-100-disk-0,"));
    assert!(copy["scsi0"].as_str().unwrap().starts_with("local-lvm:vm-101-disk-0,"));
    assert_ne!((&base["net0"], &base["smbios1"]), (&copy["net0"], &copy["smbios1"]));
    assert!(copy.get("template").is_none());
    let there = client.call("POST", "/nodes/pve1/qemu/101/migrate", json!({"target": "pve1"})).await;
    assert_eq!(there.json()["errors"]["target"], "target is local node.");
    assert_eq!(client.done("POST", "/nodes/pve1/qemu/101/migrate", json!({"target": "pve2"})).await, "OK");
    assert_eq!(client.get("/nodes/pve2/qemu/101/config").await["scsi0"], copy["scsi0"]);
    let gone = client.call("GET", "/nodes/pve1/qemu/101/config", Value::Null).await;
    assert_eq!(gone.reason, "Configuration file 'nodes/pve1/qemu-server/101.conf' does not exist");
    let linked = json!({"newid": 102, "name": "linked"});
    assert_eq!(client.done("POST", "/nodes/pve1/qemu/100/clone", linked).await, "OK");
    let exit = client.done("DELETE", "/nodes/pve1/qemu/100", Value::Null).await;
    assert_eq!(exit, "base volume 'local-lvm:base-100-disk-0' is still in use by linked cloned");
}
