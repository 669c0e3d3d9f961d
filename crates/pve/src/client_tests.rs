//! The client against a scripted server below it, on paused time.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Mutex;

use http::header::AUTHORIZATION;
use tower::service_fn;

use super::*;
use crate::upid::Upid;

type Script = Arc<Mutex<VecDeque<(u16, &'static str)>>>;
type Seen = Arc<Mutex<Vec<String>>>;

const UPID: &str = "UPID:pve1:0000013C:0005D8F3:6AFA15BC:qmcreate:200:root@pam!lab:";

/// A client whose server gives the answers one after the other. Status 0 means that the connection breaks.
fn scripted(answers: &[(u16, &'static str)]) -> (Client, Seen) {
    let script: Script = Arc::new(Mutex::new(answers.iter().copied().collect()));
    let seen = Seen::default();
    let log = seen.clone();
    let service = service_fn(move |request: Request<Full<Bytes>>| {
        let (script, log) = (script.clone(), log.clone());
        async move {
            let body = http_body_util::BodyExt::collect(request.body().clone())
                .await
                .unwrap_or_else(|e: Infallible| match e {});
            let body = String::from_utf8_lossy(&body.to_bytes()).into_owned();
            assert_eq!(request.headers()[AUTHORIZATION], "PVEAPIToken=a@pve!b=c");
            assert_eq!(request.headers().contains_key(CONTENT_TYPE), !body.is_empty());
            log.lock()
                .unwrap()
                .push(format!("{} {} {body}", request.method(), request.uri()).trim().to_owned());
            match script.lock().unwrap().pop_front() {
                Some((0, _)) => Err(BoxError::from("the connection broke")),
                Some((status, body)) => Ok(Response::builder()
                    .status(status)
                    .body(Full::new(Bytes::from_static(body.as_bytes())))
                    .unwrap()),
                None => panic!("one request too many: {:?}", log.lock().unwrap()),
            }
        }
    });
    (Client::over(service, &"a@pve!b=c".parse().unwrap(), Clock::real()), seen)
}

fn seen(seen: &Seen) -> Vec<String> {
    seen.lock().unwrap().iter().map(|l| l.replace("/api2/json", "")).collect()
}

#[tokio::test(start_paused = true)]
async fn reading_is_repeated_and_changing_is_not() {
    let (client, log) =
        scripted(&[(0, ""), (0, ""), (200, r#"{"data":{"version":"9.1.8","release":"9.1"}}"#)]);
    assert_eq!(client.version().await.unwrap().minor, 1);
    assert_eq!(seen(&log), ["GET /version"; 3]);

    let (client, log) = scripted(&[(0, ""); 3]);
    assert!(matches!(client.nodes().await.unwrap_err().kind(), Kind::Transport(_)));
    assert_eq!(seen(&log).len(), 3);

    let (client, log) = scripted(&[(0, "")]);
    let params = [("name".to_owned(), "a;b=c".to_owned())].into();
    let error = client.create_vm("pve1", 200, &params).await.unwrap_err();
    assert!(error.effect_unknown());
    assert!(error.to_string().starts_with("creating VM 200 on pve1: "), "{error}");
    assert_eq!(seen(&log), [r#"POST /nodes/pve1/qemu {"name":"a;b=c","vmid":"200"}"#]);
}

#[tokio::test(start_paused = true)]
async fn a_task_is_followed_to_its_end() {
    let upid: Upid = UPID.parse().unwrap();
    let (client, _) = scripted(&[
        (200, r#"{"data":{"status":"running"}}"#),
        (200, r#"{"data":[{"n":1,"t":"no content"}],"total":1}"#),
        (200, r#"{"data":{"status":"running"}}"#),
        (200, r#"{"data":[{"n":1,"t":"one"},{"n":"2","t":"two"}],"total":2}"#),
        (200, r#"{"data":{"status":"stopped","exitstatus":"WARNINGS: 1"}}"#),
        (200, r#"{"data":[{"n":3,"t":"WARN: no efidisk"},{"n":4,"t":"TASK WARNINGS: 1"}]}"#),
    ]);
    let mut lines = Vec::new();
    let finished = client.follow(&upid, |line| lines.push(line.to_owned())).await.unwrap();
    assert_eq!(finished.warnings, ["no efidisk"]);
    assert_eq!(lines, ["one", "two", "WARN: no efidisk", "TASK WARNINGS: 1"]);
}

/// A task that never ends, asked about until it is given up. It writes a line at some of the looks.
async fn stuck(kind: &str, writes: fn(u64) -> bool) -> (Error, u64) {
    let upid: Upid = UPID.replace("qmcreate", kind).parse().unwrap();
    let clock = Clock::from("2026-01-01T00:00:00Z".parse().unwrap(), 1.0);
    let looks = Arc::new(Mutex::new((0, 0)));
    let service = service_fn(move |request: Request<Full<Bytes>>| {
        let mut looks = looks.lock().unwrap();
        let body = if request.uri().path().ends_with("/status") {
            r#"{"data":{"status":"running"}}"#.to_owned()
        } else {
            looks.0 += 1;
            looks.1 += u64::from(writes(looks.0));
            format!(r#"{{"data":[{{"n":{},"t":"a line"}}]}}"#, looks.1)
        };
        async move { Ok::<_, BoxError>(Response::new(Full::new(Bytes::from(body)))) }
    });
    let client = Client::over(service, &"a@pve!b=c".parse().unwrap(), clock);
    let began = client.clock().now();
    let error = client.follow(&upid, |_| ()).await.unwrap_err();
    (error, u64::try_from(client.clock().now().duration_since(began).as_secs()).unwrap() / 60)
}

#[tokio::test(start_paused = true)]
async fn a_task_that_writes_nothing_any_more_is_given_up() {
    let (error, minutes) = stuck("qmcreate", |_| false).await;
    assert_eq!((error.kind().code(), minutes), ("task-stuck", 30));
    let told = "creating VM 200 on pve1: the task has written nothing for 30 minutes, and goes on in Proxmox";
    assert_eq!(error.to_string(), told);
    assert!(error.hint().unwrap().contains("look at the task UPID:pve1:0000013C:"), "{error:?}");
    assert!(!error.is_transient() && !error.effect_unknown());
    assert_eq!(stuck("qmstart", |_| false).await.1, 15);
    // As long as it writes, it is at work: here for an hour, with a line each ten minutes.
    let (error, minutes) = stuck("qmcreate", |look| look < 1800 && look % 300 == 0).await;
    assert_eq!((error.kind().code(), minutes), ("task-stuck", 79));
}

/// A node that cannot be asked for a moment has not lost its task.
#[tokio::test(start_paused = true)]
async fn a_task_is_followed_through_a_gap() {
    let upid: Upid = UPID.parse().unwrap();
    let running = (200, r#"{"data":{"status":"running"}}"#);
    let (client, _) = scripted(&[
        running,
        (595, r#"{"data":null}"#),
        (0, ""),
        (0, ""),
        (0, ""),
        (200, r#"{"data":{"status":"stopped","exitstatus":"OK"}}"#),
    ]);
    assert_eq!(client.follow(&upid, |_| ()).await.unwrap(), crate::task::Finished::default());
}

#[tokio::test(start_paused = true)]
async fn a_failed_task_tells_why_even_without_its_log() {
    let upid: Upid = UPID.parse().unwrap();
    let (client, _) = scripted(&[
        (200, r#"{"data":{"status":"stopped","exitstatus":"VM is locked (backup)"}}"#),
        (500, r#"{"data":null,"message":"broken\n"}"#),
    ]);
    let error = client.follow(&upid, |_| ()).await.unwrap_err();
    assert_eq!(error.to_string(), "creating VM 200 on pve1: the task failed: VM is locked (backup)");
    assert!(matches!(error.kind(), Kind::TaskFailed { tail, .. } if tail.is_empty()));
    assert!(matches!(error.meaning(), Kind::Locked { why } if why == "backup"));
    assert!(error.is_transient());
}

#[tokio::test(start_paused = true)]
async fn parameters_go_where_proxmox_wants_them() {
    let upid: &'static str = r#"{"data":"UPID:pve1:0000013C:0005D8F3:6AFA15BC:x:200:root@pam!lab:"}"#;
    let (client, log) =
        scripted(&[(200, upid), (200, upid), (200, r#"{"data":null}"#), (200, r#"{"data":[]}"#)]);
    client.delete_vm("pve1", 200, true).await.unwrap();
    client.start("pve1", 200).await.unwrap();
    client.update_config("pve1", 200, &[].into(), &["net1", "net2"], Some("abc")).await.unwrap();
    client.storage_content("pve1", "local", "import").await.unwrap();
    assert_eq!(
        seen(&log),
        [
            "DELETE /nodes/pve1/qemu/200?purge=1",
            "POST /nodes/pve1/qemu/200/status/start",
            r#"PUT /nodes/pve1/qemu/200/config {"delete":"net1,net2","digest":"abc"}"#,
            "GET /nodes/pve1/storage/local/content?content=import",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_silent_server_does_not_hold_us_for_ever() {
    let service = service_fn(|_: Request<Full<Bytes>>| {
        std::future::pending::<std::result::Result<Response<Full<Bytes>>, BoxError>>()
    });
    let client = Client::over(service, &"a@pve!b=c".parse().unwrap(), Clock::real());
    assert!(client.stop("pve1", 1).await.unwrap_err().effect_unknown());
}

#[tokio::test(start_paused = true)]
async fn a_node_is_not_asked_for_more_than_three_changes_at_once() {
    let busy = Arc::new(Mutex::new((0_u32, 0_u32)));
    // A clock that follows the paused runtime; the real one is the system's.
    let clock = Clock::from("2026-01-01T00:00:00Z".parse().unwrap(), 1.0);
    let (seen, ours) = (busy.clone(), clock.clone());
    let service = service_fn(move |_: Request<Full<Bytes>>| {
        let (busy, clock) = (busy.clone(), clock.clone());
        async move {
            {
                let mut busy = busy.lock().unwrap();
                busy.0 += 1;
                busy.1 = busy.1.max(busy.0);
            }
            clock.sleep(Duration::from_secs(1)).await;
            busy.lock().unwrap().0 -= 1;
            let body =
                Bytes::from_static(br#"{"data":"UPID:a:0000013C:0005D8F3:6AFA15BC:qmstart:1:r@pam:"}"#);
            Ok::<_, BoxError>(Response::new(Full::new(body)))
        }
    });
    let client = Client::over(service, &"a@pve!b=c".parse().unwrap(), ours);
    let started = client.clock().now();
    futures::future::try_join_all((1..=7).map(|vmid| client.start("a", vmid))).await.unwrap();
    assert_eq!(seen.lock().unwrap().1, 3);
    assert_eq!(client.clock().now().duration_since(started).as_secs(), 3);
}

/// What a real Proxmox VE was asked and answered, one exchange a line.
pub(crate) fn recorded_exchanges() -> String {
    let folder = std::env::var("RECORDINGS").expect("RECORDINGS is not set: run conformance/recordings/run");
    let file = format!("{folder}/data/pve-9.1.8/responses.jsonl");
    std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("could not read {file}: {error}"))
}

/// The recorded answers of a real Proxmox VE are read by the typed calls.
#[tokio::test(start_paused = true)]
#[ignore = "needs recordings of real systems: conformance/recordings/run"]
async fn recorded_answers_are_read() {
    let recorded = recorded_exchanges();
    let exchanges: Vec<Value> = recorded.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    let answering = |wanted: &str| {
        let found = exchanges.iter().find(|e| {
            let path = e["request"]["path"].as_str().unwrap();
            path.trim_end_matches('/').split('?').next().unwrap().ends_with(wanted)
                && e["request"]["method"] == "GET"
                && e["status"] == 200
        });
        let body: &'static str =
            Box::leak(found.unwrap_or_else(|| panic!("{wanted}"))["body"].to_string().into_boxed_str());
        scripted(&[(200, body)]).0
    };
    let resources = answering("/cluster/resources").cluster_resources().await.unwrap();
    let template = resources.iter().find(|r| r.vmid == Some(120)).unwrap();
    assert!(template.template && template.tags == ["a", "b"] && template.maxmem == Some(320 << 20));
    let status = answering("/cluster/status").cluster_status().await.unwrap();
    assert!(status.quorate && status.name.is_none() && status.nodes[0].online);
    assert!(answering("/api2/json/nodes").nodes().await.unwrap()[0].online());
    let storages = answering("/nodes/pve1/storage").node_storages("pve1").await.unwrap();
    assert!(storages.iter().all(|s| s.active && s.content.contains(&"import".to_owned())));
    let networks = answering("/nodes/pve1/network").node_networks("pve1").await.unwrap();
    assert!(networks[0].iface == "vmbr0" && networks[0].active);
    let volumes =
        answering("/storage/local/content").storage_content("pve1", "local", "import").await.unwrap();
    assert!(volumes.iter().any(|v| v.volid == "local:import/lab.qcow2"));
    let config = answering("/qemu/910/config").vm_config("pve1", 910).await.unwrap();
    assert_eq!(config.mac(0).as_deref(), Some("BC:24:11:99:E0:59"));
    assert!(config.smbios_uuid().is_some() && config.drive("scsi0").unwrap().size == Some(64 << 20));
    let interfaces = answering("network-get-interfaces").agent_interfaces("pve1", 910).await.unwrap();
    assert_eq!(interfaces[1].mac.as_deref(), Some("BC:24:11:99:E0:59"));
    let permissions = answering("/access/permissions").permissions().await.unwrap();
    assert!(permissions.has("/vms/100", "VM.Allocate") && !permissions.has("/vms/101", "VM.Allocate"));
    let vm = answering("/qemu/100/status/current").vm_status("pve1", 100).await.unwrap();
    assert_ne!(vm.power, crate::vm::PowerState::Unknown);
}

#[tokio::test(start_paused = true)]
async fn copies_pools_and_tokens_are_asked_for_as_proxmox_wants_them() {
    let task = r#"{"data":"UPID:pve1:0000013C:0005D8F3:6AFA15BC:x:200:root@pam!lab:"}"#;
    let token = r#"{"data":{"full-tokenid":"a@pve!t1","value":"v","info":{"privsep":"0"}}}"#;
    let (client, log) = scripted(&[(200, task), (200, task), (200, r#"{"data":null}"#), (200, token)]);
    let request =
        crate::Clone { newid: 101, name: Some("n".to_owned()), full: true, ..crate::Clone::default() };
    client.clone_vm("pve1", 100, &request).await.unwrap();
    let request = crate::Migrate { target: "pve2".to_owned(), online: true, with_local_disks: false };
    client.migrate("pve1", 100, &request).await.unwrap();
    client.delete_pool("k8s").await.unwrap();
    let request = crate::NewToken {
        user: "a@pve".to_owned(),
        name: "t1".to_owned(),
        separated: false,
        comment: "c".to_owned(),
    };
    assert_eq!(client.create_token(&request).await.unwrap().id(), "a@pve!t1");
    assert_eq!(
        seen(&log),
        [
            r#"POST /nodes/pve1/qemu/100/clone {"full":"1","name":"n","newid":"101"}"#,
            r#"POST /nodes/pve1/qemu/100/migrate {"online":"1","target":"pve2","with-local-disks":"0"}"#,
            "DELETE /pools?poolid=k8s",
            r#"POST /access/users/a%40pve/token/t1 {"comment":"c","privsep":"0"}"#,
        ]
    );
}
