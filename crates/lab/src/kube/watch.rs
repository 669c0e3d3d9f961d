//! Watching a list: one line of JSON for each change, for as long as the client stays.

use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use futures::stream;
use http::{Response, StatusCode};
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::Frame;
use serde_json::{Value, json};
use tokio::sync::watch::Receiver;

use super::http::{Body, Server, Target, respond};
use super::query::Query;
use crate::shared::Shared;

/// One watch: what the client has seen so far.
struct Watch {
    shared: Arc<Shared>,
    changes: Receiver<u64>,
    vmid: u32,
    target: Target,
    query: Query,
    /// Version and content by namespace and name.
    seen: BTreeMap<String, Value>,
    waiting: VecDeque<Value>,
}

/// An answer that goes on until the client leaves.
pub(super) fn stream(server: &Server, target: Target, query: Query) -> Response<Body> {
    let changes = server.shared.subscribe();
    let mut watch = Watch {
        shared: server.shared.clone(),
        changes,
        vmid: server.vmid,
        target,
        query,
        seen: BTreeMap::new(),
        waiting: VecDeque::new(),
    };
    watch.begin();
    let lines = stream::unfold(watch, |mut watch| async move {
        let event = watch.next().await?;
        let line = Bytes::from(format!("{event}\n"));
        Some((Ok::<_, Infallible>(Frame::data(line)), watch))
    });
    respond(StatusCode::OK, "application/json", StreamBody::new(lines).boxed_unsync())
}

impl Watch {
    /// Takes note of what is there; of it the client gets what is newer than the version it knows.
    fn begin(&mut self) {
        let since = self.query.since;
        for (key, object) in self.current() {
            let version = object.pointer("/metadata/resourceVersion").and_then(Value::as_str).unwrap_or("0");
            if version.parse::<u64>().unwrap_or(0) > since {
                self.waiting.push_back(self.event("ADDED", &object));
            }
            self.seen.insert(key, object);
        }
    }

    async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(event) = self.waiting.pop_front() {
                return Some(event);
            }
            self.changes.changed().await.ok()?;
            self.compare();
        }
    }

    fn compare(&mut self) {
        let current = self.current();
        for (key, object) in &current {
            match self.seen.get(key) {
                None => self.waiting.push_back(self.event("ADDED", object)),
                Some(old) if old != object => self.waiting.push_back(self.event("MODIFIED", object)),
                Some(_) => {}
            }
        }
        for (key, object) in &self.seen {
            if !current.contains_key(key) {
                self.waiting.push_back(self.event("DELETED", object));
            }
        }
        self.seen = current;
    }

    fn event(&self, kind: &str, object: &Value) -> Value {
        json!({"type": kind, "object": self.target.full(object)})
    }

    fn current(&self) -> BTreeMap<String, Value> {
        self.shared.read(|world, _| {
            let Some(etcd) = world.machines.etcd_of(self.vmid) else { return BTreeMap::new() };
            let kind = self.target.kind;
            let objects = etcd.store.list(kind.group, kind.plural, self.target.namespace.as_deref());
            let named = |object: &Value| {
                self.target.name.is_none()
                    || object["metadata"]["name"].as_str() == self.target.name.as_deref()
            };
            let wanted = self.query.select(objects).into_iter().filter(named);
            wanted
                .map(|object| {
                    (format!("{}/{}", object["metadata"]["namespace"], object["metadata"]["name"]), object)
                })
                .collect()
        })
    }
}
