//! The words of a real Proxmox VE, and what they must mean.

use ambient::Clock;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::ext::ReasonPhrase;
use serde_json::Value;
use tower::service_fn;

use super::*;
use crate::client::{Client, decode};

#[test]
fn words_have_one_meaning() {
    let cases = [
        ("unable to create VM 100 - VM 100 already exists on node 'pve1'", "exists"),
        ("unable to create VM 120: config file already exists", "exists"),
        (
            "unable to create VM 100 - close (rename) atomic file '/etc/pve/x/100.conf' failed: File exists",
            "exists",
        ),
        ("refusing to override existing file '/var/lib/vz/import/talos.qcow2'", "exists"),
        ("Configuration file 'nodes/pve1/qemu-server/999.conf' does not exist", "missing"),
        ("unable to find configuration file for VM 999 on node 'pve1'", "missing"),
        ("storage 'nostore' does not exist", "missing"),
        ("VM is locked (backup)", "locked"),
        ("can't lock file '/var/lock/qemu-server/lock-910.conf' - got timeout", "lock-timeout"),
        ("unable to create VM 100 - cfs-lock 'storage-ceph' error: got lock request timeout", "lock-timeout"),
        ("unable to create VM 100 - 'storage-ceph'-locked command timed out - aborting", "lock-timeout"),
        ("VM quit/powerdown failed - got timeout", "rejected"),
        ("checksum mismatch (file change by other user?)", "changed-meanwhile"),
        ("checksum mismatch: got 'aa' != expect 'bb'", "rejected"),
        ("cluster not ready - no quorum?", "no-quorum"),
        ("create pool failed: cfs-lock 'file-user_cfg' error: no quorum!", "no-quorum"),
        (
            "unable to open file '/etc/pve/nodes/pve1/qemu-server/100.conf.tmp.4242' - Permission denied",
            "no-quorum",
        ),
        ("VM 100 already running", "wrong-state"),
        ("VM 100 is running - destroy failed", "wrong-state"),
        ("QEMU guest agent is not running", "wrong-state"),
        ("only root can set 'args' config", "permission"),
        ("unable to create VM 100 - 403 Permission check failed (/vms/100, VM.Config.Options)", "permission"),
        (
            "hostname lookup 'pve9' failed - failed to get address info for: pve9: Name or service not known",
            "missing",
        ),
        ("shrinking disks is not supported", "rejected"),
    ];
    for (text, kind) in cases {
        assert_eq!(Kind::of_words(500, text).code(), kind, "{text}");
    }
}

#[test]
fn a_datastore_without_room_is_known_by_its_words() {
    let error = |text: &str| Error::new("creating VM 100 on a", Kind::of_words(0, text));
    for text in [
        "unable to create VM 100 - lvcreate 'pve/vm-100-disk-0' error:   Insufficient free space",
        "not enough free space (1 < 2)",
        "write failed: No space left on device",
    ] {
        assert!(error(text).is_full(), "{text}");
        assert!(error(text).hint().unwrap().contains("make room"), "{text}");
    }
    assert!(!error("something else").is_full());
}

#[test]
fn a_login_that_is_refused_speaks_of_the_password() {
    let error = |text: &str| Error::new("logging in", Kind::Unauthenticated { text: text.to_owned() });
    let login = error("authentication failure");
    assert_eq!(
        login.to_string(),
        "logging in: the user name or the password is wrong (authentication failure)"
    );
    assert_eq!(login.hint().as_deref(), Some("check the user, the realm and the password"));
    let token = error("Authentication failed!");
    assert_eq!(token.to_string(), "logging in: the token was not accepted (Authentication failed!)");
}

#[test]
fn a_missing_privilege_is_named_with_its_path() {
    let kind = Kind::of_answer(
        403,
        "Permission check failed (/storage/a, Datastore.Audit|Datastore.Allocate)\n",
        [].into(),
    );
    let error = Error::new("listing", kind);
    assert_eq!(
        error.to_string(),
        "listing: the token lacks Datastore.Audit or Datastore.Allocate on /storage/a"
    );
    assert!(error.hint().unwrap().contains("/storage/a"));
    let bare = Error::new("creating", Kind::of_answer(403, "Permission check failed", [].into()));
    assert_eq!(bare.to_string(), "creating: Permission check failed");
}

#[test]
fn one_refused_parameter_may_mean_more() {
    let taken = [("vmid".to_owned(), "VM 900 already exists".to_owned())].into();
    assert_eq!(Kind::of_answer(400, "Parameter verification failed.\n", taken).code(), "exists");
    let gone = [("upid".to_owned(), "no such task".to_owned())].into();
    assert_eq!(Kind::of_answer(400, "Parameter verification failed.\n", gone).code(), "missing");
    let bad =
        [("memory".to_owned(), "invalid format - format error\nmemory.current: too small\n".to_owned())]
            .into();
    let error = Error::new("creating VM 1 on a", Kind::of_answer(400, "", bad));
    assert_eq!(
        error.to_string(),
        "creating VM 1 on a: parameters were refused (memory: invalid format - format error, memory.current: too small)"
    );
}

#[test]
fn only_lost_changes_and_596_leave_the_effect_open() {
    let unknown = |kind| Error::new("x", kind).effect_unknown();
    assert!(unknown(Kind::of_transport("cut".into(), true)));
    assert!(!unknown(Kind::of_transport("cut".into(), false)));
    let refused = NotConnected { endpoint: "a".into(), source: std::io::ErrorKind::ConnectionRefused.into() };
    assert!(!unknown(Kind::of_transport(refused.into(), true)));
    assert!(unknown(Kind::of_answer(596, "Connection timed out", [].into())));
    assert!(!unknown(Kind::of_answer(595, "No route to host", [].into())));
}

/// Every failure that was recorded from a real Proxmox VE gets a kind, with and without the body that older ones lack.
#[tokio::test(start_paused = true)]
#[ignore = "needs recordings of real systems: conformance/recordings/run"]
async fn recorded_failures_are_understood() {
    let recorded = crate::client::tests::recorded_exchanges();
    let expected = |status: u64, text: &str| match status {
        401 => "unauthenticated",
        403 => "permission",
        501 => "not-implemented",
        _ if text.contains("already exists") => "exists",
        _ if text.contains("does not exist") => "missing",
        _ if text.contains("is locked (") => "locked",
        _ => "",
    };
    let mut failures = 0;
    let mut seen = std::collections::BTreeSet::new();
    for line in recorded.lines() {
        let exchange: Value = serde_json::from_str(line).unwrap();
        let status = exchange["status"].as_u64().unwrap();
        if status < 400 {
            seen.extend(shown_by_success(&exchange).await);
            continue;
        }
        failures += 1;
        let reason = exchange["reason"].as_str().unwrap();
        let body = match &exchange["body"] {
            Value::String(text) => Bytes::from(text.clone()),
            json => Bytes::from(json.to_string()),
        };
        let without_message = match &exchange["body"] {
            Value::Object(o) if o.contains_key("errors") => body.clone(),
            _ => Bytes::from_static(br#"{"data":null}"#),
        };
        for body in [body, without_message] {
            let mut response = Response::builder().status(u16::try_from(status).unwrap()).body(body).unwrap();
            response.extensions_mut().insert(ReasonPhrase::try_from(reason.as_bytes()).unwrap());
            let kind = decode::<Value>(&response).unwrap_err();
            seen.insert(kind.code());
            let expected = expected(status, reason);
            assert!(expected.is_empty() || kind.code() == expected, "{status} {reason}: {kind:?}");
            if status == 400 && exchange["body"]["errors"].is_object() {
                assert!(
                    matches!(kind, Kind::Parameter { .. } | Kind::Exists { .. } | Kind::Missing { .. }),
                    "{kind:?}"
                );
            }
        }
    }
    assert!(failures > 100, "{failures}");
    seen.extend(reported_failures());
    // Where no answer came, none was recorded, and no task was watched for half an hour. All other kinds must have been seen.
    seen.extend(["untrusted", "no-answer", "answer-lost", "task-stuck"]);
    assert_eq!(seen, Kind::CODES.iter().copied().collect());
}

/// What a single host cannot answer, because it has neither a neighbour nor a majority to lose: answers of clusters that people
/// reported in public, and for a lost quorum what the source of pve-cluster says, for no one reported status and words together.
const REPORTED: &[(u16, &str, &str, &str)] = &[
    (595, "Connection refused", "unreachable", "takala-jp/zabbix-proxmox#20, Proxmox VE 6.3"),
    (
        596,
        "tls_process_server_certificate: certificate verify failed",
        "unreachable",
        "packer-proxmox-templates#8, 6.2",
    ),
    (
        596,
        "error:0A000086:SSL routines::certificate verify failed",
        "unreachable",
        "Javisen/proxmox_sensors#15, 9",
    ),
    (
        599,
        "Too many redirections",
        "unreachable",
        "bpg/terraform-provider-proxmox#1413, before pve-http-server 5.1.2",
    ),
    (500, "cluster not ready - no quorum?", "no-quorum", "PVE::Cluster::check_cfs_quorum"),
];

/// All of them came without a body.
fn reported_failures() -> impl Iterator<Item = &'static str> {
    REPORTED.iter().map(|(status, reason, code, from)| {
        let mut response = Response::builder().status(*status).body(Bytes::new()).unwrap();
        response.extensions_mut().insert(ReasonPhrase::from_static(reason.as_bytes()));
        let kind = decode::<Value>(&response).unwrap_err();
        assert_eq!(kind.code(), *code, "{status} {reason} ({from})");
        *code
    })
}

/// What a good answer can show: a task that failed, and an answer to another question than was asked.
async fn shown_by_success(exchange: &Value) -> Option<&'static str> {
    let body = Bytes::from(exchange["body"].to_string());
    let service = service_fn(move |_: Request<Full<Bytes>>| {
        let answer = Response::new(Full::new(body.clone()));
        async move { Ok::<_, BoxError>(answer) }
    });
    let client = Client::over(service, &"a@pve!b=c".parse().unwrap(), Clock::real());
    let data = &exchange["body"]["data"];
    let failed = match data["upid"].as_str().filter(|_| data["exitstatus"].is_string()) {
        Some(upid) => client.follow(&upid.parse().unwrap(), |_| ()).await.err(),
        None => client.version().await.err(),
    };
    failed.map(|error| error.kind().code())
}

/// `QEMU exited with code 1` is no reason: that is in the lines before.
#[test]
fn p11_a_failed_task_says_what_its_log_ends_with() {
    let upid: Upid = "UPID:pve1:0003B8A3:008A4C10:6720A1B2:qmstart:150021:root@pam:".parse().unwrap();
    let failed = |exit: &str, tail: &[&str]| {
        Kind::TaskFailed {
            upid: Box::new(upid.clone()),
            exit: exit.to_owned(),
            tail: tail.iter().map(|line| (*line).to_owned()).collect(),
            meaning: Box::new(Kind::of_words(0, exit)),
        }
        .to_string()
    };
    let qemu = "start failed: QEMU exited with code 1";
    let log = [
        "",
        "kvm: -device vfio-pci,host=0000:01:00.0: vfio 0000:01:00.0: no iommu_group found",
        "TASK ERROR: start failed: QEMU exited with code 1",
    ];
    assert_eq!(
        failed(qemu, &log),
        "the task failed: start failed: QEMU exited with code 1; its log says: kvm: -device vfio-pci,host=0000:01:00.0: vfio \
         0000:01:00.0: no iommu_group found"
    );
    let copied = ["transferred 8.0 GiB of 8.0 GiB (100.00%)", "TASK ERROR: no space left"];
    assert_eq!(failed("no space left", &copied), "the task failed: no space left");
    let many = ["1", "2", "3", "4"];
    assert!(failed("bad", &many).ends_with("its log says: 2; 3; 4"));
}
