//! Reading a machine's resources: Get, List and Watch. Types and namespaces that 1.13 does not have are refused by name,
//! sensitive ones without the administrator's role.

use std::collections::{BTreeMap, VecDeque};

use futures::{StreamExt as _, stream};
use jiff::Timestamp;
use talos::wire::cosi::state_server::State;
use talos::wire::cosi::{
    Event, EventType, GetRequest, GetResponse, ListRequest, ListResponse, Metadata, Resource as Wire, Spec,
    WatchRequest, WatchResponse,
};
use tonic::codegen::BoxStream;
use tonic::{Request, Response, Status};

use super::machine_service::stamp;
use super::resources::{Resource, resources};
use super::{Caller, types};
use crate::machine::Machines;

#[tonic::async_trait]
impl State for Caller {
    async fn get(&self, request: Request<GetRequest>) -> Result<Response<GetResponse>, Status> {
        let GetRequest { namespace, r#type, id, .. } = request.into_inner();
        self.may_read(&namespace, &r#type)?;
        let found = self.resources(&namespace, &r#type).remove(&id);
        let missing =
            || Status::not_found(format!("resource {}({namespace}/{id}@undefined) doesn't exist", r#type));
        Ok(Response::new(GetResponse { resource: Some(found.ok_or_else(missing)?) }))
    }

    async fn list(&self, request: Request<ListRequest>) -> Result<Response<BoxStream<ListResponse>>, Status> {
        let ListRequest { namespace, r#type, .. } = request.into_inner();
        self.may_read(&namespace, &r#type)?;
        let found = self.resources(&namespace, &r#type).into_values();
        let answers: Vec<_> = found.map(|resource| Ok(ListResponse { resource: Some(resource) })).collect();
        Ok(Response::new(stream::iter(answers).boxed()))
    }

    async fn watch(
        &self,
        request: Request<WatchRequest>,
    ) -> Result<Response<BoxStream<WatchResponse>>, Status> {
        let request = request.into_inner();
        self.may_read(&request.namespace, &request.r#type)?;
        let options = request.options.clone().unwrap_or_default();
        if request.id.is_some() && options.bootstrap_contents {
            return Err(Status::unimplemented("bootstrap contents is not implemented for resource watch"));
        }
        let changes = self.shared.subscribe();
        let mut watch =
            Watch { caller: self.clone(), changes, request, seen: BTreeMap::new(), waiting: VecDeque::new() };
        watch.begin(options.bootstrap_contents);
        let events = stream::unfold(watch, |mut watch| async move { Some((Ok(watch.next().await?), watch)) });
        Ok(Response::new(events.boxed()))
    }
}

impl Caller {
    fn may_read(&self, namespace: &str, kind: &str) -> Result<(), Status> {
        let sensitive = types::SENSITIVE.contains(&kind);
        if !sensitive && !types::OPEN.contains(&kind) {
            return Err(Status::permission_denied(format!("resource type {kind:?} is not supported")));
        }
        if !types::NAMESPACES.contains(&namespace) {
            return Err(Status::permission_denied(format!("namespace {namespace:?} is not supported")));
        }
        if sensitive && !self.has("os:admin") {
            return Err(Status::permission_denied("not authorized"));
        }
        Ok(())
    }

    /// Resources of one kind by id.
    fn resources(&self, namespace: &str, kind: &str) -> BTreeMap<String, Wire> {
        self.read(|machines, now| {
            let all = resources(machines, self.vmid, now).into_iter();
            let wanted = all.filter(|r| r.namespace == namespace && r.kind == kind);
            wanted.map(|resource| (resource.id.clone(), wire(machines, self.vmid, resource, now))).collect()
        })
    }
}

fn wire(machines: &Machines, vmid: u32, resource: Resource, now: Timestamp) -> Wire {
    let seen = machines.seen(vmid, &resource);
    let (version, created, updated) = seen.map_or((1, now, now), |s| (s.version, s.created, s.updated));
    let metadata = Metadata {
        namespace: resource.namespace.into(),
        r#type: resource.kind.into(),
        id: resource.id,
        version: version.to_string(),
        owner: resource.owner.into(),
        phase: "running".into(),
        created: Some(stamp(created)),
        updated: Some(stamp(updated)),
        ..Default::default()
    };
    Wire { metadata: Some(metadata), spec: Some(Spec { proto_spec: vec![], yaml_spec: resource.yaml }) }
}

/// One watch: what the client has seen so far.
struct Watch {
    caller: Caller,
    changes: tokio::sync::watch::Receiver<u64>,
    request: WatchRequest,
    seen: BTreeMap<String, Wire>,
    waiting: VecDeque<WatchResponse>,
}

impl Watch {
    /// The first answer is empty: the watch is armed. Then comes what is there, if it was asked for.
    fn begin(&mut self, contents: bool) {
        self.seen = self.current();
        self.waiting.push_back(WatchResponse::default());
        match self.request.id.clone() {
            Some(id) => {
                let event = match self.seen.get(&id) {
                    Some(resource) => event(EventType::Created, Some(resource.clone()), None),
                    None => event(EventType::Destroyed, Some(self.tombstone(id)), None),
                };
                self.waiting.push_back(event);
            }
            None if contents => {
                let created = self.seen.values().map(|r| event(EventType::Created, Some(r.clone()), None));
                self.waiting.extend(created);
                // Clients of the first version of the protocol do not know this event.
                if self.request.api_version > 0 {
                    self.waiting.push_back(event(EventType::Bootstrapped, None, None));
                }
            }
            None => {}
        }
    }

    async fn next(&mut self) -> Option<WatchResponse> {
        loop {
            if let Some(answer) = self.waiting.pop_front() {
                return Some(answer);
            }
            self.changes.changed().await.ok()?;
            self.compare();
        }
    }

    fn compare(&mut self) {
        let current = self.current();
        for (id, resource) in &current {
            match self.seen.get(id) {
                None => self.waiting.push_back(event(EventType::Created, Some(resource.clone()), None)),
                Some(old) if old.spec != resource.spec => {
                    self.waiting.push_back(event(
                        EventType::Updated,
                        Some(resource.clone()),
                        Some(old.clone()),
                    ));
                }
                Some(_) => {}
            }
        }
        for (id, old) in &self.seen {
            if !current.contains_key(id) {
                self.waiting.push_back(event(EventType::Destroyed, Some(old.clone()), None));
            }
        }
        self.seen = current;
    }

    fn current(&self) -> BTreeMap<String, Wire> {
        let mut found = self.caller.resources(&self.request.namespace, &self.request.r#type);
        if let Some(id) = &self.request.id {
            found.retain(|key, _| key == id);
        }
        found
    }

    /// A resource that is not there.
    fn tombstone(&self, id: String) -> Wire {
        let now = Some(stamp(self.caller.shared.clock().now()));
        let metadata = Metadata {
            namespace: self.request.namespace.clone(),
            r#type: self.request.r#type.clone(),
            id,
            version: "undefined".into(),
            phase: "running".into(),
            created: now,
            updated: now,
            ..Default::default()
        };
        Wire { metadata: Some(metadata), spec: Some(Spec::default()) }
    }
}

fn event(kind: EventType, resource: Option<Wire>, old: Option<Wire>) -> WatchResponse {
    let event = Event { resource, event_type: kind.into(), old, error: None, bookmark: None };
    WatchResponse { event: vec![event] }
}
