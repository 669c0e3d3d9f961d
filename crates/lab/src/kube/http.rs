//! The API server: who asks, what for, and the answer in JSON.
//!
//! A request is turned into a [`Target`] and answered from the store of the etcd cluster that this control plane belongs
//! to. Without a majority in etcd nothing can be read or written. Only administrators have rights; Talos turns anonymous
//! access off.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use jiff::Timestamp;
use rustls_pki_types::CertificateDer;
use serde_json::{Value, json};
use talos::pki::Leaf;
use tokio::io::{AsyncRead, AsyncWrite};

use super::discovery::{self, Kind};
use super::store::{Place, Store};
use super::{patch, query::Query, table, watch};
use crate::machine::{Etcd, Machines, is_client_of};
use crate::shared::Shared;

pub(super) type Body = UnsyncBoxBody<Bytes, Infallible>;

/// How long an API server waits for etcd before it gives up.
const ETCD_PATIENCE: Duration = Duration::from_secs(7);

/// Serves one connection, HTTP/1.1 or HTTP/2.
pub(crate) async fn serve(
    vmid: u32,
    shared: Arc<Shared>,
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    client: Option<CertificateDer<'static>>,
) {
    let server = Arc::new(Server { vmid, shared, client });
    let service = hyper::service::service_fn(move |request| {
        let server = server.clone();
        async move { Ok::<_, Infallible>(server.answer(request).await) }
    });
    let builder = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
    // A connection that breaks is the client's business.
    let _ = builder.serve_connection(TokioIo::new(stream), service).await;
}

pub(super) struct Server {
    pub(super) vmid: u32,
    pub(super) shared: Arc<Shared>,
    client: Option<CertificateDer<'static>>,
}

/// A refusal, as Kubernetes words it.
#[derive(Debug)]
pub(super) struct Trouble {
    code: StatusCode,
    reason: &'static str,
    message: String,
}

impl Trouble {
    pub(super) fn new(code: StatusCode, reason: &'static str, message: impl Into<String>) -> Self {
        Self { code, reason, message: message.into() }
    }

    fn no_leader() -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", "etcdserver: request timed out")
    }

    fn no_path() -> Self {
        Self::new(StatusCode::NOT_FOUND, "NotFound", "the server could not find the requested resource")
    }

    fn respond(&self) -> Response<Body> {
        let status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "reason": self.reason, "code": self.code.as_u16(),
        });
        answer(self.code, &status)
    }
}

/// What a path of a kind names.
#[derive(Debug, Clone)]
pub(super) struct Target {
    pub(super) kind: Kind,
    /// `None`: all namespaces, or a kind without.
    pub(super) namespace: Option<String>,
    pub(super) name: Option<String>,
    sub: Option<String>,
}

impl Server {
    async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        if let Err(trouble) = self.admit(&request) {
            return trouble.respond();
        }
        let leads = self.shared.read(|world, _| cluster(&world.machines, self.vmid).is_some());
        match request.uri().path() {
            "/livez" => return text(StatusCode::OK, "ok"),
            "/readyz" | "/healthz" if leads => return text(StatusCode::OK, "ok"),
            "/readyz" | "/healthz" => {
                let words = "[+]ping ok\n[-]etcd failed: reason withheld\nreadyz check failed\n";
                return text(StatusCode::INTERNAL_SERVER_ERROR, words);
            }
            _ => {}
        }
        let outcome = match self.document(request.uri().path()) {
            Some(document) => document.map(|value| answer(StatusCode::OK, &value)),
            None if !leads => {
                self.shared.clock().sleep(ETCD_PATIENCE).await;
                Err(Trouble::no_leader())
            }
            None => self.object(request).await,
        };
        outcome.unwrap_or_else(|trouble| trouble.respond())
    }

    /// A certificate of the cluster's authority, with the group that may do everything.
    fn admit(&self, request: &Request<Incoming>) -> Result<(), Trouble> {
        let unauthorized = || Trouble::new(StatusCode::UNAUTHORIZED, "Unauthorized", "Unauthorized");
        let client = self.client.as_ref().ok_or_else(unauthorized)?;
        let known = self.shared.read(|world, now| {
            let node = world.machines.get(self.vmid).and_then(|m| m.node());
            node.is_some_and(|node| is_client_of(&node.settings.cluster_ca.crt, client, now))
        });
        let leaf = Leaf::read(client).filter(|_| known).ok_or_else(unauthorized)?;
        if leaf.organizations.iter().any(|group| group == "system:masters") {
            return Ok(());
        }
        let user = leaf.common_name.unwrap_or_default();
        let (verb, path) = (request.method().as_str().to_lowercase(), request.uri().path());
        let message = format!("forbidden: User {user:?} cannot {verb} path {path:?}");
        Err(Trouble::new(StatusCode::FORBIDDEN, "Forbidden", message))
    }

    /// Documents that are not objects.
    fn document(&self, path: &str) -> Option<Result<Value, Trouble>> {
        let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
        match parts.as_slice() {
            ["version"] => {
                let version = self.shared.read(|world, _| {
                    let node = world.machines.get(self.vmid).and_then(|m| m.node());
                    node.map(|n| n.settings.kubernetes.clone()).unwrap_or_default()
                });
                Some(Ok(discovery::version(&version)))
            }
            ["api"] => Some(Ok(discovery::core_versions())),
            ["apis"] => Some(Ok(discovery::groups())),
            ["api", version] => Some(discovery::resources("", version).ok_or_else(Trouble::no_path)),
            ["apis", group, version] => {
                Some(discovery::resources(group, version).ok_or_else(Trouble::no_path))
            }
            _ => None,
        }
    }

    async fn object(&self, request: Request<Incoming>) -> Result<Response<Body>, Trouble> {
        let target = target(request.uri().path()).ok_or_else(Trouble::no_path)?;
        let query = Query::parse(request.uri().query().unwrap_or_default());
        let header = |name: http::HeaderName| {
            request.headers().get(name).and_then(|v| v.to_str().ok()).unwrap_or_default().to_owned()
        };
        let as_table = header(http::header::ACCEPT).contains("as=Table");
        let media_type = header(http::header::CONTENT_TYPE);
        let method = request.method().clone();
        if method == Method::GET {
            if query.watch {
                return Ok(watch::stream(self, target, query));
            }
            return self
                .store(|store, now| read(store, &target, &query, as_table, now))
                .map(|v| answer(StatusCode::OK, &v));
        }
        let unreadable =
            |_| Trouble::new(StatusCode::BAD_REQUEST, "BadRequest", "unable to read the request body");
        let body = request.into_body().collect().await.map_err(unreadable)?.to_bytes();
        let (code, value) =
            self.store_mut(|store, now| write(store, &target, &method, &media_type, &body, now))?;
        Ok(answer(code, &value))
    }

    /// Looks at the store, as long as etcd has a majority.
    pub(super) fn store<T>(
        &self,
        look: impl FnOnce(&Store, Timestamp) -> Result<T, Trouble>,
    ) -> Result<T, Trouble> {
        self.shared.read(|world, now| {
            let etcd = cluster(&world.machines, self.vmid).ok_or_else(Trouble::no_leader)?;
            look(&etcd.store, now)
        })
    }

    fn store_mut<T>(
        &self,
        work: impl FnOnce(&mut Store, Timestamp) -> Result<T, Trouble>,
    ) -> Result<T, Trouble> {
        self.shared.with(|world, now| {
            let store = world.machines.store_mut(self.vmid).ok_or_else(Trouble::no_leader)?;
            work(store, now)
        })
    }
}

fn cluster(machines: &Machines, vmid: u32) -> Option<&Etcd> {
    machines.etcd_of(vmid).filter(|etcd| etcd.leader.is_some())
}

fn answer(code: StatusCode, value: &Value) -> Response<Body> {
    let body = Full::new(Bytes::from(value.to_string())).boxed_unsync();
    respond(code, "application/json", body)
}

fn text(code: StatusCode, words: &'static str) -> Response<Body> {
    respond(code, "text/plain; charset=utf-8", Full::new(Bytes::from_static(words.as_bytes())).boxed_unsync())
}

pub(super) fn respond(code: StatusCode, media_type: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = code;
    response.headers_mut().insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static(media_type));
    response
}

fn target(path: &str) -> Option<Target> {
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    let (group, version, rest) = match parts.as_slice() {
        ["api", version, rest @ ..] => ("", *version, rest),
        ["apis", group, version, rest @ ..] => (*group, *version, rest),
        _ => return None,
    };
    let owned = |text: &&str| Some((*text).to_owned());
    let (namespace, rest) = match rest {
        ["namespaces", namespace, rest @ ..]
            if !rest.is_empty() && !["status", "finalize"].contains(&rest[0]) =>
        {
            (owned(namespace), rest)
        }
        rest => (None, rest),
    };
    let kind = Kind::find(group, version, rest.first()?)?;
    if kind.namespaced && namespace.is_none() && rest.len() > 1 {
        return None;
    }
    Some(Target { kind, namespace, name: rest.get(1).and_then(owned), sub: rest.get(2).and_then(owned) })
}

impl Target {
    fn place<'a>(&'a self, name: &'a str) -> Place<'a> {
        let namespace = self.namespace.as_deref().unwrap_or_default();
        Place { group: self.kind.group, plural: self.kind.plural, namespace, name }
    }

    /// Kind and version belong to an object that stands alone.
    pub(super) fn full(&self, object: &Value) -> Value {
        let mut object = object.clone();
        object["kind"] = self.kind.kind.into();
        object["apiVersion"] = self.kind.api_version().into();
        object
    }

    fn qualified(&self) -> String {
        if self.kind.group.is_empty() {
            self.kind.plural.into()
        } else {
            format!("{}.{}", self.kind.plural, self.kind.group)
        }
    }

    fn missing(&self, name: &str) -> Trouble {
        Trouble::new(StatusCode::NOT_FOUND, "NotFound", format!("{} {name:?} not found", self.qualified()))
    }
}

fn read(
    store: &Store,
    target: &Target,
    query: &Query,
    as_table: bool,
    now: Timestamp,
) -> Result<Value, Trouble> {
    let objects: Vec<Value> = match &target.name {
        Some(name) => vec![target.full(store.get(&target.place(name)).ok_or_else(|| target.missing(name))?)],
        None => query.select(store.list(target.kind.group, target.kind.plural, target.namespace.as_deref())),
    };
    if as_table {
        return Ok(table::table(target.kind, &objects, now, store.revision()));
    }
    if target.name.is_some() {
        return objects.into_iter().next().ok_or_else(Trouble::no_path);
    }
    Ok(json!({
        "kind": format!("{}List", target.kind.kind), "apiVersion": target.kind.api_version(),
        "metadata": {"resourceVersion": store.revision().to_string()}, "items": objects,
    }))
}

fn write(
    store: &mut Store,
    target: &Target,
    method: &Method,
    media_type: &str,
    body: &[u8],
    now: Timestamp,
) -> Result<(StatusCode, Value), Trouble> {
    let bad = |message: &str| Trouble::new(StatusCode::BAD_REQUEST, "BadRequest", message);
    let parse = || serde_json::from_slice::<Value>(body).map_err(|e| bad(&e.to_string()));
    match (method.as_str(), &target.name, target.sub.as_deref()) {
        ("POST", Some(name), Some("eviction")) => {
            store.remove(&target.place(name)).ok_or_else(|| target.missing(name))?;
            Ok((
                StatusCode::CREATED,
                json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}),
            ))
        }
        ("POST", None, _) => {
            let object = parse()?;
            let name =
                object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default().to_owned();
            if name.is_empty() {
                return Err(bad("metadata.name: Required value: name or generateName is required"));
            }
            if store.get(&target.place(&name)).is_some() {
                let message = format!("{} {name:?} already exists", target.qualified());
                return Err(Trouble::new(StatusCode::CONFLICT, "AlreadyExists", message));
            }
            Ok((StatusCode::CREATED, target.full(&store.put(&target.place(&name), object, now))))
        }
        ("PUT", Some(name), _) => {
            let object = parse()?;
            let old = store.get(&target.place(name)).ok_or_else(|| target.missing(name))?;
            let given = object.pointer("/metadata/resourceVersion").filter(|v| v.as_str() != Some(""));
            if given.is_some() && given != old.pointer("/metadata/resourceVersion") {
                let message = format!(
                    "Operation cannot be fulfilled on {} {name:?}: the object has been modified; please apply your changes to the latest version and try again",
                    target.qualified()
                );
                return Err(Trouble::new(StatusCode::CONFLICT, "Conflict", message));
            }
            Ok((StatusCode::OK, target.full(&store.put(&target.place(name), object, now))))
        }
        ("PATCH", Some(name), _) => {
            let applies = media_type.starts_with("application/apply-patch");
            let old = store.get(&target.place(name)).cloned();
            let code = if old.is_some() { StatusCode::OK } else { StatusCode::CREATED };
            let mut object = match old {
                Some(old) => old,
                None if applies => json!({}),
                None => return Err(target.missing(name)),
            };
            patch::apply(&mut object, media_type, body).ok_or_else(|| bad("the patch cannot be applied"))?;
            Ok((code, target.full(&store.put(&target.place(name), object, now))))
        }
        ("DELETE", Some(name), None) => {
            store.remove(&target.place(name)).ok_or_else(|| target.missing(name))?;
            Ok((
                StatusCode::OK,
                json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}),
            ))
        }
        _ => {
            let message = "the server does not allow this method on the requested resource";
            Err(Trouble::new(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", message))
        }
    }
}
