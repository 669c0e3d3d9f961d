//! Reading a machine's resources: Get, List and Watch. Types that the machine's release does not have are refused by name,
//! as namespaces are that no one has, and sensitive types without the administrator's role.

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
use super::resources::{Resource, of_kind, unmerged};
use super::table::{self, Definition};
use super::{Caller, Held};
use crate::machine::{Happening, Machines, Seen};
use crate::schema::Pattern;

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
        let ListRequest { namespace, r#type, options } = request.into_inner();
        self.may_read(&namespace, &r#type)?;
        let pattern = id_pattern(options.and_then(|options| options.id_query))?;
        let found = self.resources(&namespace, &r#type).into_iter();
        let found = found.filter(|(id, _)| pattern.as_ref().is_none_or(|pattern| pattern.fits(id)));
        let answers: Vec<_> =
            found.map(|(_, resource)| Ok(ListResponse { resource: Some(resource) })).collect();
        Ok(Response::new(stream::iter(answers).boxed()))
    }

    async fn watch(
        &self,
        request: Request<WatchRequest>,
    ) -> Result<Response<BoxStream<WatchResponse>>, Status> {
        let request = request.into_inner();
        self.may_read(&request.namespace, &request.r#type)?;
        let minor = self.read(|machines, _| machines.get(self.vmid).map_or(13, |m| m.profile().minor));
        let Some(options) = request.options.clone().or((minor > 12).then(Default::default)) else {
            // 1.12 looks at options that are not there.
            return Err(Status::internal("runtime error: invalid memory address or nil pointer dereference"));
        };
        if request.id.is_some() && options.bootstrap_contents {
            return Err(Status::unimplemented("bootstrap contents is not implemented for resource watch"));
        }
        if request.id.is_some() && !options.label_query.is_empty() {
            return Err(Status::unimplemented("label query is not implemented for resource watch"));
        }
        let pattern = id_pattern(options.id_query)?;
        let mut watch = Watch {
            changes: self.shared.subscribe(),
            _held: self.hold(),
            caller: self.clone(),
            request,
            pattern,
            seen: BTreeMap::new(),
            waiting: VecDeque::new(),
        };
        let tail = usize::try_from(options.tail_events).unwrap_or(0);
        watch.begin(options.bootstrap_contents, tail);
        let events = stream::unfold(watch, |mut watch| async move { Some((Ok(watch.next().await?), watch)) });
        Ok(Response::new(events.boxed()))
    }
}

/// The pattern of a question for ids. It may fit anywhere.
fn id_pattern(query: Option<talos::wire::cosi::IdQuery>) -> Result<Option<Pattern>, Status> {
    let Some(text) = query.map(|query| query.regexp).filter(|text| !text.is_empty()) else { return Ok(None) };
    let wrong = || {
        let what = if text.matches('(').count() > text.matches(')').count() {
            "missing closing )"
        } else {
            "invalid syntax"
        };
        Status::invalid_argument(format!("failed to compile regexp: error parsing regexp: {what}: `{text}`"))
    };
    Pattern::new(&format!(".*({text}).*")).map(Some).ok_or_else(wrong)
}

impl Caller {
    fn may_read(&self, namespace: &str, kind: &str) -> Result<(), Status> {
        let minor = self.read(|machines, _| machines.get(self.vmid).map_or(13, |m| m.profile().minor));
        let Some(definition) = table::definition_in_any_case(kind, minor) else {
            return Err(Status::permission_denied(format!("resource type {kind:?} is not supported")));
        };
        if definition.sensitive && !self.has("os:admin") {
            return Err(Status::permission_denied("not authorized"));
        }
        if !table::NAMESPACE_LIST.iter().any(|(name, _)| *name == namespace) {
            return Err(Status::permission_denied(format!("namespace {namespace:?} is not supported")));
        }
        Ok(())
    }

    fn definition(&self, kind: &str) -> Option<&'static Definition> {
        let minor = self.read(|machines, _| machines.get(self.vmid).map(|m| m.profile().minor))?;
        table::definition(kind, minor)
    }

    /// Resources of one kind by id. Looking at them numbers their versions.
    fn resources(&self, namespace: &str, kind: &str) -> BTreeMap<String, Wire> {
        let Some(definition) = self.definition(kind) else { return BTreeMap::new() };
        let found = self.read(|machines, now| match namespace {
            own if own == definition.namespace => of_kind(machines, self.vmid, now, kind),
            other => unmerged(machines, self.vmid, now, other, kind),
        });
        let now = self.shared.clock().now();
        self.shared.with_quiet(|world| {
            let wired = found.into_iter().map(|resource| {
                let mut wired = wire(&mut world.machines, self.vmid, kind, definition, &resource, now);
                if let Some(metadata) = &mut wired.metadata {
                    namespace.clone_into(&mut metadata.namespace);
                }
                (resource.id, wired)
            });
            wired.collect()
        })
    }
}

fn wire(
    machines: &mut Machines,
    vmid: u32,
    kind: &str,
    definition: &Definition,
    resource: &Resource,
    now: Timestamp,
) -> Wire {
    let (yaml_spec, proto_spec) = resource.encode(&definition.spec);
    let mut seen = machines.version_of(vmid, kind, &resource.id, &yaml_spec, now);
    // Static pods carry the version of their configuration, which does not depend on how often a client read it.
    let node = machines.get(vmid).and_then(|machine| machine.node());
    seen.version = node.and_then(|node| node.config_version(kind)).unwrap_or(seen.version);
    let minor = machines.get(vmid).map_or(0, |machine| machine.profile().minor);
    let metadata =
        Metadata { finalizers: resource.holders(kind, minor), ..metadata(kind, definition, resource, &seen) };
    Wire { metadata: Some(metadata), spec: Some(Spec { proto_spec, yaml_spec }) }
}

fn metadata(kind: &str, definition: &Definition, resource: &Resource, seen: &Seen) -> Metadata {
    Metadata {
        namespace: definition.namespace.clone(),
        r#type: kind.to_owned(),
        id: resource.id.clone(),
        version: seen.version.to_string(),
        owner: resource.owner.into(),
        phase: "running".into(),
        created: Some(stamp(seen.created)),
        updated: Some(stamp(seen.updated)),
        labels: resource.label.into_iter().map(|label| (label.to_owned(), String::new())).collect(),
        annotations: resource.annotation.into_iter().map(|key| (key.to_owned(), "1".to_owned())).collect(),
        ..Default::default()
    }
}

/// One watch: what the client has seen so far.
struct Watch {
    caller: Caller,
    changes: tokio::sync::watch::Receiver<u64>,
    request: WatchRequest,
    pattern: Option<Pattern>,
    _held: Held,
    seen: BTreeMap<String, Wire>,
    waiting: VecDeque<WatchResponse>,
}

impl Watch {
    /// The first answer is empty: the watch is armed. Then comes what is there, or what led to it, if it was asked for.
    fn begin(&mut self, contents: bool, tail: usize) {
        self.seen = self.current();
        self.waiting.push_back(WatchResponse::default());
        let past = self.past(tail);
        if !past.is_empty() {
            self.waiting.extend(past);
            return;
        }
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
                    let mut end = event(EventType::Bootstrapped, Some(self.tombstone(String::new())), None);
                    for event in &mut end.event {
                        event.bookmark = Some(bookmark(0));
                    }
                    self.waiting.push_back(end);
                }
            }
            None => {}
        }
    }

    /// The last changes of the machine's status, which is the one resource whose past is kept.
    fn past(&self, tail: usize) -> Vec<WatchResponse> {
        const STATUS: &str = "MachineStatuses.runtime.talos.dev";
        let Some(now) = self.request.id.as_ref().and_then(|id| self.seen.get(id)) else { return vec![] };
        if self.request.r#type != STATUS || tail == 0 {
            return vec![];
        }
        let states: Vec<_> = self.caller.read(|machines, _| {
            let log = machines.get(self.caller.vmid).map(|m| m.log.as_slice()).unwrap_or_default();
            log.iter()
                .filter_map(|entry| match &entry.what {
                    Happening::Status(status) => Some(super::resources::status_tree(status)),
                    _ => None,
                })
                .collect()
        });
        let shown = |number: usize| -> Option<Wire> {
            let tree = states.get(number)?;
            let mut wire = now.clone();
            let spec = "runtime.MachineStatusSpec";
            wire.spec = Some(Spec {
                proto_spec: super::encode::protobuf(tree, spec),
                yaml_spec: super::encode::yaml(tree, spec),
            });
            Some(wire)
        };
        let first = states.len().saturating_sub(tail).max(1);
        (first..states.len())
            .map(|number| {
                let mut told = event(EventType::Updated, shown(number), shown(number - 1));
                for event in &mut told.event {
                    event.bookmark = Some(bookmark(number));
                }
                told
            })
            .collect()
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
        if let Some(pattern) = &self.pattern {
            found.retain(|key, _| pattern.fits(key));
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

/// Where a watch has got to.
fn bookmark(number: usize) -> Vec<u8> {
    let number = u64::try_from(number).unwrap_or(0);
    [0x9734_3eab_8009_24d3_u64.to_be_bytes(), number.to_be_bytes()].concat()
}

fn event(kind: EventType, resource: Option<Wire>, old: Option<Wire>) -> WatchResponse {
    let event = Event { resource, event_type: kind.into(), old, error: None, bookmark: None };
    WatchResponse { event: vec![event] }
}
