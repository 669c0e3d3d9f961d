//! Waiting for nodes, by watching them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;

use super::{Kubernetes, seen};
use crate::error::{Error, Result};
use crate::kubernetes_api::{Api, ListParams, WatchEvent, WatchParams};

/// Between two attempts to watch.
const INTERVAL: Duration = Duration::from_secs(2);

impl Kubernetes {
    /// Waits until all of `nodes` are there and ready.
    ///
    /// # Errors
    ///
    /// When some are not at the end of the time; they are named.
    pub async fn wait_for_ready(&self, nodes: &[&str], limit: Duration) -> Result<()> {
        let mut missing: BTreeSet<String> = nodes.iter().map(|name| (*name).to_owned()).collect();
        let work = async {
            // A watch may break at any time, and its version may be too old: then look again from the beginning.
            while self.watch_until_ready(nodes, &mut missing).await.is_err() {
                self.clock.sleep(INTERVAL).await;
            }
        };
        match self.clock.timeout(limit, work).await {
            Ok(()) => Ok(()),
            Err(_) => {
                let names: Vec<&str> = missing.iter().map(String::as_str).collect();
                let seconds = limit.as_secs();
                Err(Error::systems(format!("not ready in Kubernetes after {seconds} s: {}", names.join(", ")))
                    .hint("a node without a network for pods (CNI) is never ready; `talosmith status` shows each machine's stage"))
            }
        }
    }

    async fn watch_until_ready(&self, nodes: &[&str], missing: &mut BTreeSet<String>) -> Result<()> {
        let api: Api<Node> = Api::all(self.client.clone());
        let list = self.ask("list nodes", api.list(&ListParams::default())).await?;
        let mut ready: BTreeMap<String, bool> =
            nodes.iter().map(|name| ((*name).to_owned(), false)).collect();
        let mut note = |node: &Node, there: bool| {
            let name = node.metadata.name.clone().unwrap_or_default();
            if let Some(known) = ready.get_mut(&name) {
                *known = there && seen(node).ready;
            }
            *missing = ready.iter().filter(|(_, ready)| !**ready).map(|(name, _)| name.clone()).collect();
            missing.is_empty()
        };
        let mut done = nodes.is_empty();
        for node in &list.items {
            done = note(node, true);
        }
        if done {
            return Ok(());
        }
        let version = list.metadata.resource_version.unwrap_or_default();
        let mut events = self.ask("watch nodes", api.watch(&WatchParams::default(), &version)).await?;
        let broke = || Error::systems(format!("the watch of nodes at {} broke", self.endpoint));
        while let Some(event) = events.next().await.map_err(|e| broke().because(e))? {
            let done = match &event {
                WatchEvent::Added(node) | WatchEvent::Modified(node) => note(node, true),
                WatchEvent::Deleted(node) => note(node, false),
                WatchEvent::Bookmark(_) => false,
                WatchEvent::Error(_) => return Err(broke()),
            };
            if done {
                return Ok(());
            }
        }
        Err(broke())
    }
}
