//! The words of a real Proxmox VE, and what they must mean.

use bytes::Bytes;
use http::Response;
use hyper::ext::ReasonPhrase;
use serde_json::Value;

use super::*;
use crate::client::decode;

fn name(kind: &Kind) -> &'static str {
    match kind {
        Kind::Exists { .. } => "exists",
        Kind::Missing { .. } => "missing",
        Kind::Locked { .. } => "locked",
        Kind::LockTimeout { .. } => "lock timeout",
        Kind::WrongState { .. } => "state",
        Kind::Permission { .. } => "permission",
        Kind::Parameter { .. } => "parameter",
        Kind::Unauthenticated { .. } => "login",
        Kind::NotImplemented { .. } => "not implemented",
        Kind::NodeUnreachable { .. } => "unreachable",
        Kind::NoQuorum { .. } => "quorum",
        Kind::DigestMismatch => "digest",
        Kind::Refused { .. } => "refused",
        _ => "other",
    }
}

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
        ("can't lock file '/var/lock/qemu-server/lock-910.conf' - got timeout", "lock timeout"),
        ("unable to create VM 100 - cfs-lock 'storage-ceph' error: got lock request timeout", "lock timeout"),
        ("unable to create VM 100 - 'storage-ceph'-locked command timed out - aborting", "lock timeout"),
        ("VM quit/powerdown failed - got timeout", "refused"),
        ("checksum mismatch (file change by other user?)", "digest"),
        ("checksum mismatch: got 'aa' != expect 'bb'", "refused"),
        ("cluster not ready - no quorum?", "quorum"),
        ("create pool failed: cfs-lock 'file-user_cfg' error: no quorum!", "quorum"),
        (
            "unable to open file '/etc/pve/nodes/pve1/qemu-server/100.conf.tmp.4242' - Permission denied",
            "quorum",
        ),
        ("VM 100 already running", "state"),
        ("VM 100 is running - destroy failed", "state"),
        ("QEMU guest agent is not running", "state"),
        ("only root can set 'args' config", "permission"),
        ("unable to create VM 100 - 403 Permission check failed (/vms/100, VM.Config.Options)", "permission"),
        (
            "hostname lookup 'pve9' failed - failed to get address info for: pve9: Name or service not known",
            "missing",
        ),
        ("shrinking disks is not supported", "refused"),
    ];
    for (text, kind) in cases {
        assert_eq!(name(&Kind::of_words(500, text)), kind, "{text}");
    }
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
    assert!(error.remedy().unwrap().contains("/storage/a"));
    let bare = Error::new("creating", Kind::of_answer(403, "Permission check failed", [].into()));
    assert_eq!(bare.to_string(), "creating: Permission check failed");
}

#[test]
fn one_refused_parameter_may_mean_more() {
    let taken = [("vmid".to_owned(), "VM 900 already exists".to_owned())].into();
    assert_eq!(name(&Kind::of_answer(400, "Parameter verification failed.\n", taken)), "exists");
    let gone = [("upid".to_owned(), "no such task".to_owned())].into();
    assert_eq!(name(&Kind::of_answer(400, "Parameter verification failed.\n", gone)), "missing");
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
#[test]
fn recorded_failures_are_understood() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data/pve-9.1.8/responses.jsonl");
    let Ok(recorded) = std::fs::read_to_string(path) else {
        println!("skipped: no recordings");
        return;
    };
    let expected = |status: u64, text: &str| match status {
        401 => "login",
        403 => "permission",
        501 => "not implemented",
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
            assert_ne!(name(&kind), "other", "{reason}");
            seen.insert(name(&kind));
            let expected = expected(status, reason);
            assert!(expected.is_empty() || name(&kind) == expected, "{status} {reason}: {kind:?}");
            if status == 400 && exchange["body"]["errors"].is_object() {
                assert!(
                    matches!(kind, Kind::Parameter { .. } | Kind::Exists { .. } | Kind::Missing { .. }),
                    "{kind:?}"
                );
            }
        }
    }
    assert!(failures > 100, "{failures}");
    // A single host has neither an unreachable neighbour nor a lost quorum; all else it showed.
    let all = "digest, exists, lock timeout, locked, login, missing, not implemented, parameter, permission, refused, state";
    assert_eq!(seen.into_iter().collect::<Vec<_>>().join(", "), all);
}
