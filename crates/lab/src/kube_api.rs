//! The API server: who asks, what for, and the answer in JSON.
//!
//! A request is turned into a [`Target`] and answered from the store of the etcd cluster that this control plane belongs
//! to. Without a majority in etcd nothing can be read or written. Only administrators have rights; Talos turns anonymous
//! access off.

mod watch;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use jiff::Timestamp;
use rustls_pki_types::CertificateDer;
use serde_json::{Value, json};
use talos::pki::Leaf;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::calls::{Call, Service};
use crate::kube::query::Query;
use crate::kube::read::{Form, read};
use crate::kube::target::{Target, Trouble};
use crate::kube::write::{Change, write};
use crate::kube::{Store, controllers, discovery, openapi, protobuf};
use crate::line::Line;
use crate::machine::{Etcd, Machines, is_client_of};
use crate::shared::Shared;

type Body = UnsyncBoxBody<Bytes, Infallible>;

/// How long an API server waits for etcd before it gives up.
const ETCD_PATIENCE: Duration = Duration::from_secs(7);
const JSON: &str = "application/json";
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// Serves one connection, HTTP/1.1 or HTTP/2.
pub(crate) async fn serve(
    vmid: u32,
    shared: Arc<Shared>,
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    client: Option<CertificateDer<'static>>,
    line: Line,
) {
    let server = Arc::new(Server { vmid, shared, client });
    let calls = line.clone();
    let service = hyper::service::service_fn(move |request| {
        let (server, line) = (server.clone(), calls.clone());
        async move {
            let (method, path) = (request.method().to_string(), request.uri().path().to_owned());
            let mut call = Call::new(Service::Kubernetes, &method, request.uri(), line.origin());
            call.machine = Some(server.vmid);
            let answer = line.call(&method, &path, server.answer(request));
            Ok::<_, Infallible>(server.shared.around(call, answer).await)
        }
    });
    let builder = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
    // A connection that breaks is the client's business.
    line.serve(builder.serve_connection(TokioIo::new(stream), service)).await;
}

struct Server {
    vmid: u32,
    shared: Arc<Shared>,
    client: Option<CertificateDer<'static>>,
}

impl Server {
    async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        let user = match self.admit(&request) {
            Ok(user) => user,
            Err(trouble) => return refuse(&trouble),
        };
        let (method, path) = (request.method().as_str(), request.uri().path());
        if let Some(status) = self.shared.with_quiet(|world| world.faults.meet_kubernetes(method, path)) {
            let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            return refuse(&Trouble::new(
                status,
                "InternalError",
                "the server is currently unable to handle the request",
            ));
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
        if request.uri().path() == "/version" {
            return answer(StatusCode::OK, &self.version());
        }
        if !leads {
            self.shared.clock().sleep(ETCD_PATIENCE).await;
            return refuse(&Trouble::no_leader());
        }
        match self.document(&request) {
            Some(document) => document,
            None => self.object(request, &user).await.unwrap_or_else(|trouble| refuse(&trouble)),
        }
    }

    /// A certificate of the cluster's authority, with the group that may do everything. Returns the user's name.
    fn admit(&self, request: &Request<Incoming>) -> Result<String, Trouble> {
        let unauthorized = || Trouble::new(StatusCode::UNAUTHORIZED, "Unauthorized", "Unauthorized");
        let client = self.client.as_ref().ok_or_else(unauthorized)?;
        let known = self.shared.read(|world, now| {
            let node = world.machines.get(self.vmid).and_then(|m| m.node());
            node.is_some_and(|node| is_client_of(&node.settings.cluster_ca.crt, client, now))
        });
        let leaf = Leaf::read(client).filter(|_| known).ok_or_else(unauthorized)?;
        let user = leaf.common_name.unwrap_or_default();
        if leaf.organizations.iter().any(|group| group == "system:masters") {
            return Ok(user);
        }
        let (verb, path) = (request.method().as_str().to_lowercase(), request.uri().path());
        let message = format!("forbidden: User {user:?} cannot {verb} path {path:?}");
        Err(Trouble::new(StatusCode::FORBIDDEN, "Forbidden", message))
    }

    fn version(&self) -> Value {
        let version = self.shared.read(|world, _| {
            let node = world.machines.get(self.vmid).and_then(|m| m.node());
            node.map(|n| n.settings.kubernetes.clone()).unwrap_or_default()
        });
        discovery::version(&version)
    }

    /// Documents that are not objects.
    fn document(&self, request: &Request<Incoming>) -> Option<Response<Body>> {
        let path = request.uri().path().trim_matches('/').to_owned();
        let parts: Vec<&str> = path.split('/').collect();
        let at_once = accept(request).contains("as=APIGroupDiscoveryList");
        let found = |store: &Store| match parts.as_slice() {
            ["api" | "apis"] if at_once => Some(Some(discovery::aggregated(store, parts == ["api"]))),
            ["api"] => Some(Some(discovery::core_versions())),
            ["apis"] => Some(Some(discovery::groups(store))),
            ["apis", group] => Some(discovery::group(store, group)),
            ["api", version] => Some(discovery::resources(store, "", version)),
            ["apis", group, version] => Some(discovery::resources(store, group, version)),
            ["openapi", "v3"] => Some(Some(openapi::index(store))),
            ["openapi", "v3", rest @ ..] => Some(openapi::document(store, &rest.join("/"))),
            _ => None,
        };
        match self.store(|store, _| Ok(found(store))) {
            Ok(Some(Some(value))) => {
                let aggregated = at_once && parts.len() == 1;
                let media_type = if aggregated { AGGREGATED } else { JSON };
                Some(respond(StatusCode::OK, media_type, full(value.to_string())))
            }
            Ok(Some(None)) => Some(refuse(&Trouble::no_path())),
            Ok(None) => None,
            Err(trouble) => Some(refuse(&trouble)),
        }
    }

    async fn object(&self, request: Request<Incoming>, user: &str) -> Result<Response<Body>, Trouble> {
        let path = request.uri().path().to_owned();
        let query = Query::parse(request.uri().query().unwrap_or_default());
        let accepted = accept(&request);
        if !accepted.is_empty()
            && accepted.split(',').all(|choice| choice.trim().starts_with(protobuf::MEDIA_TYPE))
        {
            let message = "only the following media types are accepted: application/json";
            return Err(Trouble::new(StatusCode::NOT_ACCEPTABLE, "NotAcceptable", message));
        }
        let form = Form::of(&accepted);
        let media_type = header_of(&request, header::CONTENT_TYPE);
        let method = request.method().clone();
        if method == Method::POST && path.ends_with("/selfsubjectaccessreviews") {
            return Ok(answer(StatusCode::CREATED, &allowed(user)));
        }
        let target = self.store(|store, _| Target::parse(store, &path).ok_or_else(Trouble::no_path))?;
        if method == Method::GET {
            if query.watch {
                return watch::stream(self, target, query, form);
            }
            let found = self.store(|store, now| read(store, &target, &query, form, now));
            return found.map(|value| answer(StatusCode::OK, &value));
        }
        let unreadable = |_| Trouble::bad("unable to read the request body");
        let body = request.into_body().collect().await.map_err(unreadable)?.to_bytes();
        let change =
            Change { target: &target, query: &query, method: &method, media_type: &media_type, body: &body };
        let (code, value) = self.store_mut(|store, now| {
            let outcome = write(store, &change, now);
            // What controllers do about it comes right after.
            controllers::run(store, now);
            outcome
        })?;
        Ok(answer(code, &value))
    }

    /// Looks at the store, as long as etcd has a majority.
    fn store<T>(&self, look: impl FnOnce(&Store, Timestamp) -> Result<T, Trouble>) -> Result<T, Trouble> {
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
    machines.led_etcd_of(vmid)
}

fn allowed(user: &str) -> Value {
    json!({
        "kind": "SelfSubjectAccessReview", "apiVersion": "authorization.k8s.io/v1", "metadata": {}, "spec": {},
        "status": {"allowed": true, "reason": format!("{user:?} is of system:masters")},
    })
}

fn header_of(request: &Request<Incoming>, name: header::HeaderName) -> String {
    request.headers().get(name).and_then(|v| v.to_str().ok()).unwrap_or_default().to_owned()
}

fn accept(request: &Request<Incoming>) -> String {
    header_of(request, header::ACCEPT)
}

fn full(text: String) -> Body {
    Full::new(Bytes::from(text)).boxed_unsync()
}

fn answer(code: StatusCode, value: &Value) -> Response<Body> {
    respond(code, JSON, full(value.to_string()))
}

/// A refusal as an answer.
fn refuse(trouble: &Trouble) -> Response<Body> {
    answer(trouble.code(), &trouble.status())
}

fn text(code: StatusCode, words: &'static str) -> Response<Body> {
    respond(code, "text/plain; charset=utf-8", Full::new(Bytes::from_static(words.as_bytes())).boxed_unsync())
}

fn respond(code: StatusCode, media_type: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = code;
    response.headers_mut().insert(header::CONTENT_TYPE, http::HeaderValue::from_static(media_type));
    response
}
