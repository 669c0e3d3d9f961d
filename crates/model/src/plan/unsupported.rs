//! What the file can say and this version cannot do yet.
//!
//! The file's surface is wider than what is carried out today. Nothing that was asked for is silently left out: it is
//! refused, by name. A function goes from here when it is carried out.

use super::{Refusal, RefusalCode};
use crate::blueprint::{Blueprint, Options};

/// Everything that the file asks for and this version does not do, each once.
#[must_use]
pub fn refusals(blueprint: &Blueprint) -> Vec<Refusal> {
    let refusal = |key: &str| Refusal {
        code: RefusalCode::NotYet,
        why: format!("the cluster asks for `{key}`, which this version does not do yet"),
        hint: "take it out of the file; it would otherwise be missing without a word".to_owned(),
    };
    cluster(&blueprint.options).into_iter().map(refusal).collect()
}

fn named(list: &[(bool, &'static str)]) -> Vec<&'static str> {
    list.iter().filter(|(asked, _)| *asked).map(|(_, key)| *key).collect()
}

fn cluster(options: &Options) -> Vec<&'static str> {
    // What is only machine configuration is carried out by rendering it: contract, networks, Kubernetes itself, manifests.
    let Options {
        contract: _,
        via: _,
        identity: _,
        kubelet_network: _,
        etcd_network: _,
        kubernetes: _,
        manifests: _,
        gitops: _,
        changes: _,
        backup,
        proxmox_api: _,
        insecure: _,
    } = options;
    named(&[(backup.is_some(), "backup")])
}
