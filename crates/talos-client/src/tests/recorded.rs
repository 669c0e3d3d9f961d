//! What a real Talos said, read by the types and kinds of this crate.

use std::collections::BTreeMap;

use serde_json::Value;
use tonic::{Code, Status};

use super::world::ADDRESS;
use crate::{Address, Disk, Error, Kind, Link, MachineStatus, Stage, Volume};

fn exchanges() -> Vec<Value> {
    let folder = std::env::var("RECORDINGS").expect("RECORDINGS is not set: run conformance/recordings/run");
    let file = format!("{folder}/data/talos-observed/exchanges.jsonl");
    let text =
        std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("could not read {file}: {error}"));
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The YAML of every recorded resource of a type.
fn specs(exchanges: &[Value], kind: &str) -> Vec<String> {
    let mut found = Vec::new();
    for exchange in exchanges.iter().filter(|e| e["request"]["type"] == kind) {
        let answer = &exchange["response"];
        let answers = answer.as_array().cloned().unwrap_or_else(|| vec![answer.clone()]);
        found.extend(
            answers.iter().filter_map(|a| a["resource"]["spec"]["yaml_spec"].as_str().map(str::to_owned)),
        );
    }
    found
}

#[test]
#[ignore = "needs recordings of real systems: conformance/recordings/run"]
fn recorded_resources_are_read() {
    let exchanges = exchanges();
    let disks: Vec<Disk> = read(&specs(&exchanges, "Disks.block.talos.dev"));
    assert!(disks.iter().any(|d| d.dev_path == "/dev/sda" && d.transport == "virtio" && !d.readonly));
    assert!(disks.iter().any(|d| d.dev_path == "/dev/loop0" && !d.is_writable()));
    assert!(disks.iter().any(|d| d.cdrom && !d.is_writable()));
    let addresses: Vec<Address> = read(&specs(&exchanges, "AddressStatuses.net.talos.dev"));
    assert!(
        addresses
            .iter()
            .any(|a| a.address.ends_with("/24") && !a.link_name.is_empty() && a.family == "inet4")
    );
    let volumes: Vec<Volume> = read(&specs(&exchanges, "VolumeStatuses.block.talos.dev"));
    assert!(volumes.iter().any(|v| v.phase == "missing") && volumes.iter().any(|v| v.phase == "ready"));
    let links: Vec<Link> = read(&specs(&exchanges, "LinkStatuses.net.talos.dev"));
    assert!(links.iter().any(|l| l.kind == "ether" && l.hardware_addr.len() == 17 && l.link_state));
    let stages: Vec<MachineStatus> = read(&specs(&exchanges, "MachineStatuses.runtime.talos.dev"));
    assert!(stages.iter().any(|s| s.stage == Stage::Booting && s.unmet.iter().any(|u| u.name == "services")));
    assert!(stages.iter().any(|s| s.stage == Stage::Maintenance && s.ready));
    let odd: Vec<_> = stages.iter().filter(|s| matches!(s.stage, Stage::Other(_))).collect();
    assert!(odd.is_empty(), "{odd:?}");
}

fn read<T: serde::de::DeserializeOwned>(specs: &[String]) -> Vec<T> {
    assert!(!specs.is_empty());
    specs.iter().map(|yaml| serde_saphyr::from_str(yaml).unwrap_or_else(|e| panic!("{yaml}: {e}"))).collect()
}

#[test]
#[ignore = "needs recordings of real systems: conformance/recordings/run"]
fn recorded_failures_have_a_kind_and_words() {
    let exchanges = exchanges();
    let mut kinds = BTreeMap::new();
    for exchange in &exchanges {
        let code = match exchange["code"].as_str().unwrap_or_default() {
            "InvalidArgument" => Code::InvalidArgument,
            "FailedPrecondition" => Code::FailedPrecondition,
            "AlreadyExists" => Code::AlreadyExists,
            "NotFound" => Code::NotFound,
            "PermissionDenied" => Code::PermissionDenied,
            "Unimplemented" => Code::Unimplemented,
            "Unavailable" => Code::Unavailable,
            "Unknown" => Code::Unknown,
            _ => continue,
        };
        let status = Status::new(code, exchange["message"].as_str().unwrap_or_default());
        let applied = exchange["call"] == "/machine.MachineService/ApplyConfiguration";
        let of = if applied { Error::of_apply } else { Error::of_status };
        let error = of(ADDRESS, "x", &status, None);
        assert!(!error.reason().is_empty() && !error.reason().contains(['\n', '\t']), "{error}");
        assert!(!error.reason().contains("+++ b"), "{error}");
        if applied && code == Code::InvalidArgument {
            assert_eq!(error.kind(), Kind::InvalidConfig, "{error}");
        }
        *kinds.entry(format!("{:?}", error.kind())).or_insert(0) += 1;
    }
    assert!(kinds.len() >= 7, "{kinds:?}");
}
