//! Watching a list: one line of JSON for each change, for as long as the client stays.
//!
//! A watch goes through the remembered changes, so none is missed and all come in order. One that starts without a version
//! gets what is there first. Clients that ask for bookmarks are told now and then how far the watch has come.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::stream;
use http::{Response, StatusCode};
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::Frame;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::watch::Receiver;

use super::{Body, Server, respond};
use crate::kube::query::Query;
use crate::kube::read::{Form, shown};
use crate::kube::target::{Target, Trouble};
use crate::kube::{Place, Store};
use crate::shared::Shared;

/// How long a watch may be silent when bookmarks were asked for, and how long one lasts when no one said.
const BOOKMARK: Duration = Duration::from_secs(60);
const USUAL_LIFE: u64 = 2400;

/// One watch: how far the client has come.
struct Watch {
    shared: Arc<Shared>,
    changes: Receiver<u64>,
    vmid: u32,
    target: Target,
    query: Query,
    form: Form,
    /// The version up to which everything was told.
    seen: u64,
    waiting: VecDeque<Value>,
    ends: Timestamp,
    /// A table tells its columns once.
    told_columns: bool,
    over: bool,
}

/// An answer that goes on until the client leaves.
pub(super) fn stream(
    server: &Server,
    target: Target,
    query: Query,
    form: Form,
) -> Result<Response<Body>, Trouble> {
    let changes = server.shared.subscribe();
    let life = Duration::from_secs(query.timeout.unwrap_or(USUAL_LIFE));
    let now = server.shared.clock().now();
    let mut watch = Watch {
        shared: server.shared.clone(),
        changes,
        vmid: server.vmid,
        target,
        query,
        form,
        seen: 0,
        waiting: VecDeque::new(),
        ends: now.checked_add(life).unwrap_or(now),
        told_columns: false,
        over: false,
    };
    server.store(|store, now| {
        watch.begin(store, now);
        Ok(())
    })?;
    let lines = stream::unfold(watch, |mut watch| async move {
        let event = watch.next().await?;
        let line = Bytes::from(format!("{event}\n"));
        Some((Ok::<_, Infallible>(Frame::data(line)), watch))
    });
    Ok(respond(StatusCode::OK, "application/json", StreamBody::new(lines).boxed_unsync()))
}

impl Watch {
    /// Without a version, or with 0, what is there comes first; with one, the changes since.
    fn begin(&mut self, store: &Store, now: Timestamp) {
        let version = self.query.version.unwrap_or(0);
        if version > 0 && !self.query.initial_events {
            self.seen = version;
            self.catch_up(store, now);
            return;
        }
        let kind = &self.target.kind;
        let entries = store.entries(&kind.group, &kind.plural, self.target.namespace.as_deref());
        let present: Vec<Value> =
            entries.filter(|(_, object)| self.wants(object)).map(|(_, object)| object.clone()).collect();
        for object in present {
            self.tell(store, "ADDED", &object, now);
        }
        self.seen = store.revision();
        if self.query.initial_events {
            let mut mark = self.bookmark();
            mark["object"]["metadata"]["annotations"] = json!({"k8s.io/initial-events-end": "true"});
            self.waiting.push_back(mark);
        }
    }

    async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(event) = self.waiting.pop_front() {
                return Some(event);
            }
            let clock = self.shared.clock().clone();
            let left = self.ends.duration_since(clock.now());
            let left = Duration::try_from(left).ok().filter(|left| !left.is_zero())?;
            if self.over {
                return None;
            }
            match clock.timeout(left.min(BOOKMARK), self.changes.changed()).await {
                Ok(changed) => changed.ok()?,
                Err(_) if left <= BOOKMARK => return None,
                Err(_) if self.query.bookmarks => return Some(self.bookmark()),
                Err(_) => continue,
            }
            self.look();
        }
    }

    fn look(&mut self) {
        let shared = self.shared.clone();
        shared.read(|world, now| {
            // Without a majority nothing changes, and the watch stays as it is.
            if let Some(etcd) = world.machines.etcd_of(self.vmid) {
                self.catch_up(&etcd.store, now);
            }
        });
    }

    fn catch_up(&mut self, store: &Store, now: Timestamp) {
        let Some(changes) = store.changes_since(self.seen) else {
            let message = format!("too old resource version: {} ({})", self.seen, store.revision());
            let gone = Trouble::new(StatusCode::GONE, "Expired", message).status();
            self.waiting.push_back(json!({"type": "ERROR", "object": gone}));
            self.over = true;
            return;
        };
        for change in changes {
            if !self.concerns(&change.key) {
                continue;
            }
            let before = change.old.as_deref().filter(|old| self.wants(old));
            let after = change.new.as_deref().filter(|new| self.wants(new));
            match (before, after) {
                (None, Some(new)) => self.tell(store, "ADDED", new, now),
                (Some(_), Some(new)) => self.tell(store, "MODIFIED", new, now),
                (Some(old), None) => {
                    let mut last = change.new.as_deref().unwrap_or(old).clone();
                    last["metadata"]["resourceVersion"] = change.revision.to_string().into();
                    self.tell(store, "DELETED", &last, now);
                }
                (None, None) => {}
            }
        }
        self.seen = self.seen.max(store.revision());
    }

    fn concerns(&self, key: &str) -> bool {
        Place::of_key(key).is_some_and(|place| {
            place.group == self.target.kind.group
                && place.plural == self.target.kind.plural
                && self.target.namespace.as_deref().is_none_or(|namespace| namespace == place.namespace)
        })
    }

    fn wants(&self, object: &Value) -> bool {
        let named = self.target.name.as_deref().is_none_or(|name| object["metadata"]["name"] == name);
        named && self.query.wants(object)
    }

    fn tell(&mut self, store: &Store, kind: &str, object: &Value, now: Timestamp) {
        let mut shown = shown(store, &self.target, object, self.form, now);
        if self.form == Form::Table {
            if self.told_columns {
                shown["columnDefinitions"] = Value::Null;
            }
            self.told_columns = true;
        }
        self.waiting.push_back(json!({"type": kind, "object": shown}));
    }

    fn bookmark(&self) -> Value {
        let object = match self.form {
            Form::Whole => {
                json!({"kind": self.target.kind.kind, "apiVersion": self.target.kind.api_version()})
            }
            Form::Table => {
                json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1", "columnDefinitions": null, "rows": []})
            }
            Form::Metadata => json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}),
        };
        let mut mark = json!({"type": "BOOKMARK", "object": object});
        mark["object"]["metadata"] =
            json!({"resourceVersion": self.seen.to_string(), "creationTimestamp": null});
        mark
    }
}
