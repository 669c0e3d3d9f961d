//! Whether documents that machines fetch for themselves are where the file says: manifests, and the lists of charts.
//!
//! A machine that does not exist yet cannot be asked, so a host is asked, which usually goes the same way out. Usually is not always
//! (a proxy, a header that the server wants), so what it does not find is told and is no reason against a plan.

use std::collections::BTreeSet;

use futures::future::join_all;
use model::blueprint::{Blueprint, Node};
use model::observed::{MissingDocument, Proxmox};
use pve::UrlAnswer;

use super::proxmox::ask;
use crate::Systems;
use crate::render::manifests::addresses;

/// What a host of a new cluster does not find.
pub(super) async fn missing(
    systems: &Systems,
    blueprint: &Blueprint,
    seen: &Proxmox,
    new: &[&Node],
) -> Vec<MissingDocument> {
    let online = |host: &&String| seen.inventory.hosts.get(*host).is_some_and(|host| host.online);
    let hosts = new.iter().filter_map(|node| node.host.as_ref());
    // A cluster that is there has fetched what it needs.
    let Some(host) = hosts.filter(online).min().filter(|_| seen.record.is_none()) else { return vec![] };
    // What is asked for stands in the host's log, where no password belongs.
    let mut urls: BTreeSet<String> = addresses(blueprint);
    urls.retain(|url| !url.contains('?'));
    let asked = join_all(urls.iter().map(|url| ask(systems, systems.pve.query_url(host, url)))).await;
    urls.iter()
        .zip(asked)
        .filter_map(|(url, answer)| match answer {
            Ok(UrlAnswer::Refused { text, .. }) => {
                Some(MissingDocument { host: host.clone(), url: url.clone(), why: text })
            }
            // Where Proxmox itself does not answer, that is seen elsewhere.
            Ok(UrlAnswer::There { .. }) | Err(_) => None,
        })
        .collect()
}
