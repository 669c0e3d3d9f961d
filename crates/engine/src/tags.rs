//! Tags of VMs that are no nodes: the record, whose name is set with them, and templates.
//!
//! Proxmox checks tags that come with a creation before the new VM is in its pool. A token whose rights are those of the pool
//! is refused then, so that with a pool tags are set afterwards.

use std::time::Duration;

use model::blueprint::Blueprint;
use model::mark::{Mark, RECORD_NODE};
use model::ownership::{self, Act, Foreign};
use pve::{Params, VmConfig};

use crate::Systems;
use crate::error::{Error, Kind, Result, hint};
use crate::evidence::evidence;

const ATTEMPTS: u32 = 5;

/// Puts the tags into a creation, where they may come with it.
pub(crate) fn at_creation(blueprint: &Blueprint, params: &mut Params) {
    match &blueprint.resource_pool {
        Some(pool) => params.insert("pool".to_owned(), pool.clone()),
        None => params.insert("tags".to_owned(), blueprint.tags.join(";")),
    };
}

/// The whole list of tags that a VM should have, if it lacks some. Tags of others stay.
pub(crate) fn missing(config: &VmConfig, wanted: &[String]) -> Option<String> {
    let has: Vec<&str> = config.get("tags").unwrap_or_default().split([';', ',', ' ']).collect();
    let lacks = |tag: &&str| !has.iter().any(|has| has.eq_ignore_ascii_case(tag));
    let more: Vec<&str> = wanted.iter().map(String::as_str).filter(lacks).collect();
    if more.is_empty() {
        return None;
    }
    let mut all: Vec<&str> = has.into_iter().filter(|tag| !tag.is_empty()).chain(more).collect();
    all.sort_unstable();
    Some(all.join(";"))
}

/// Sets the tags of the VM that is `node` of the cluster, unless it has them.
pub(crate) async fn set(
    systems: &Systems,
    host: &str,
    vmid: u32,
    blueprint: &Blueprint,
    node: &str,
) -> Result<()> {
    let attempt = || Error::systems(format!("could not set name and tags of VM {vmid} on {host}"));
    let mut tries = 1;
    loop {
        let failed = |e: pve::Error| attempt().hint(hint(&e)).because(e);
        let config = systems.pve.vm_config(host, vmid).await.map_err(failed)?;
        let mark = Mark::find(config.description()).ok_or(Foreign::Another);
        let owned = mark
            .and_then(|mark| ownership::may(Act::Change, blueprint, &evidence(vmid, &mark, &config), node));
        if let Err(why) = owned {
            let what = format!("VM {vmid} on {host} is not {node} any more");
            return Err(Error::new(Kind::Refused, what)
                .hint("it changed after it was observed, and Talosmith did not change it; run the command again")
                .because(why));
        }
        let mut params = Params::new();
        params.extend(missing(&config, &blueprint.tags).map(|tags| ("tags".to_owned(), tags)));
        let name = Some(blueprint.record.name.as_str());
        if node == RECORD_NODE && config.get("name") != name {
            params.insert("name".to_owned(), blueprint.record.name.clone());
        }
        if params.is_empty() {
            return Ok(());
        }
        match systems.pve.update_config(host, vmid, &params, &[], Some(&config.digest)).await {
            Ok(()) => return Ok(()),
            Err(error) if tries < ATTEMPTS && passes(&error) => {}
            Err(error) => return Err(failed(error)),
        }
        tries += 1;
        systems.clock.sleep(Duration::from_millis(500)).await;
    }
}

/// The next round reads again and finds out what is so.
fn passes(error: &pve::Error) -> bool {
    matches!(error.kind(), pve::Kind::DigestMismatch) || error.is_transient() || error.effect_unknown()
}
