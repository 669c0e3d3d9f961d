//! One call: from its parameters to a typed answer.
//!
//! Parameters of GET and DELETE go into the query (Proxmox refuses a body there), those of POST and PUT into a JSON body,
//! as strings, which spares us the traps of its form decoder. Reading calls are tried again when the connection
//! broke; changing ones never. At most a few changing calls run on one node at a time, because a node has three workers.

use std::collections::BTreeMap;
use std::fmt::{Display, Write as _};
use std::sync::Arc;
use std::time::Duration;

use ambient::{Clock, Net};
use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, Response};
use http_body_util::Full;
use hyper::body::Body;
use hyper::ext::ReasonPhrase;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tower::util::BoxCloneSyncService;
use tower::{Service, ServiceExt as _};

use crate::error::{Error, Kind, Result};
use crate::limits::{Limits, Place, Turn, crowded_storage};
use crate::percent::encode;
use crate::token::{Credentials, Token};
use crate::transport::{BoxError, Endpoints, Transport, read};
use crate::trust::{InvalidTrust, Trust};

/// Longer than the 30 s after which a node gives up on another, so that its answer is heard.
const ANSWER_LIMIT: Duration = Duration::from_secs(65);
const READ_ATTEMPTS: u32 = 3;
/// Who was silent for this long is not asked again at once: the transport has asked every endpoint by then.
const RETRY_WITHIN_SECONDS: i64 = 10;

type Boxed = BoxCloneSyncService<Request<Full<Bytes>>, Response<Bytes>, BoxError>;

/// A client for one Proxmox VE cluster. Cheap to clone; the clones share their limits.
#[derive(Clone)]
pub struct Client {
    service: Boxed,
    /// Who calls: `user@realm`, or `user@realm!token`.
    caller: String,
    credentials: Credentials,
    clock: Clock,
    limits: Arc<Limits>,
    /// What consoles are opened with, where this client makes connections of its own.
    transport: Option<Transport>,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("pve::Client")
    }
}

impl Client {
    /// A client over the network. Nothing is sent yet.
    ///
    /// # Errors
    ///
    /// When what is given as trust cannot be used.
    pub fn connect(
        endpoints: Endpoints,
        token: &Token,
        trust: &Trust,
        net: Net,
        clock: Clock,
    ) -> std::result::Result<Self, InvalidTrust> {
        let transport = Transport::new(endpoints, trust, net, clock.clone())?;
        let client = Self::new(BoxCloneSyncService::new(transport.clone()), token, clock);
        Ok(Self { transport: Some(transport), ..client })
    }

    /// A client of nothing, all of whose calls fail: for a cluster without a Proxmox, which asks it nothing.
    #[must_use]
    pub fn of_nothing(clock: Clock) -> Self {
        let service = tower::service_fn(|_: Request<Full<Bytes>>| async {
            Err::<Response<Bytes>, BoxError>("this cluster has no Proxmox".into())
        });
        let service = BoxCloneSyncService::new(service);
        let (caller, credentials) = (String::new(), Credentials::default());
        Self { service, caller, credentials, clock, limits: Arc::default(), transport: None }
    }

    /// A client over any HTTP service. The requests name no host. An error that is [`crate::NotConnected`] means that
    /// nothing was sent; any other leaves that open.
    pub fn over<S, B>(service: S, token: &Token, clock: Clock) -> Self
    where
        S: Service<Request<Full<Bytes>>, Response = Response<B>> + Clone + Send + Sync + 'static,
        S::Error: Into<BoxError>,
        S::Future: Send,
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        Self::new(BoxCloneSyncService::new(service.map_err(Into::into).and_then(read)), token, clock)
    }

    fn new(service: Boxed, token: &Token, clock: Clock) -> Self {
        let caller = token.id().to_owned();
        let credentials = Credentials::token(token);
        Self { service, caller, credentials, clock, limits: Arc::default(), transport: None }
    }

    /// A client that calls for a user and has not logged in yet.
    pub(crate) fn anonymous(
        endpoints: Endpoints,
        user: &str,
        trust: &Trust,
        net: Net,
        clock: Clock,
    ) -> std::result::Result<Self, InvalidTrust> {
        let transport = Transport::new(endpoints, trust, net, clock.clone())?;
        let service = BoxCloneSyncService::new(transport.clone());
        let (caller, credentials) = (user.to_owned(), Credentials::default());
        let transport = Some(transport);
        Ok(Self { service, caller, credentials, clock, limits: Arc::default(), transport })
    }

    /// The same client with other credentials.
    pub(crate) fn with_credentials(self, credentials: Credentials) -> Self {
        Self { credentials, ..self }
    }

    /// Waits for a turn to work on a storage of a node, or on one that all nodes share. Hold it while something is made
    /// there: a few at a time are let through, fewer after Proxmox reported that waiting for a lock timed out.
    pub async fn storage_turn(&self, node: &str, storage: &str, shared: bool) -> Turn {
        let node = (!shared).then(|| node.to_owned());
        self.limits.turn(Place::Storage(storage.to_owned(), node)).await
    }

    /// Takes note of the words of a failure: where waiting for a lock timed out, less is done at a time from now on.
    pub(crate) fn notice(&self, node: Option<&str>, kind: &Kind) {
        let Kind::LockTimeout { text } = kind else { return };
        match (crowded_storage(text), node) {
            (Some(storage), _) => self.limits.lower_storage(storage),
            (None, Some(node)) => self.limits.lower(Place::Node(node.to_owned())),
            (None, None) => {}
        }
    }

    /// Who calls: `user@realm`, or `user@realm!token`. No secret.
    #[must_use]
    pub fn caller(&self) -> &str {
        &self.caller
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    pub(crate) fn credentials(&self) -> &Credentials {
        &self.credentials
    }

    pub(crate) fn transport(&self) -> Option<&Transport> {
        self.transport.as_ref()
    }

    /// Makes a changing call, and says which endpoint answered it.
    pub(crate) async fn call_at<T: DeserializeOwned>(
        &self,
        transport: &Transport,
        call: Call,
    ) -> std::result::Result<(usize, T), Kind> {
        let _turn = match &call.changes {
            Some(node) => Some(self.limits.turn(Place::Node(node.clone())).await),
            None => None,
        };
        let answer = async { transport.exchange_at(call.request(&self.credentials)?).await };
        let answer = self.clock.timeout(ANSWER_LIMIT, answer).await.unwrap_or_else(|late| Err(late.into()));
        let (endpoint, response) = answer.map_err(|error| Kind::of_transport(error, true))?;
        Ok((endpoint, decode(&response)?))
    }

    /// Makes a call and reads its `data`.
    pub(crate) async fn call<T: DeserializeOwned>(&self, call: Call) -> Result<T> {
        let _turn = match &call.changes {
            Some(node) => Some(self.limits.turn(Place::Node(node.clone())).await),
            None => None,
        };
        let began = self.clock.now();
        let mut attempt = 1;
        loop {
            let changing = call.method != Method::GET;
            let kind = match self.exchange(&call).await {
                Ok(response) => {
                    return decode(&response).map_err(|kind| {
                        self.notice(call.changes.as_deref(), &kind);
                        Error::new(call.attempt, kind)
                    });
                }
                Err(error) => Kind::of_transport(error, changing),
            };
            let late = self.clock.now().duration_since(began).as_secs() >= RETRY_WITHIN_SECONDS;
            if changing || late || attempt == READ_ATTEMPTS || !matches!(kind, Kind::Transport(_)) {
                return Err(Error::new(call.attempt, kind));
            }
            self.clock.sleep(backoff(&call.path, attempt)).await;
            attempt += 1;
        }
    }

    async fn exchange(&self, call: &Call) -> std::result::Result<Response<Bytes>, BoxError> {
        let request = call.request(&self.credentials)?;
        let answer = self.service.clone().oneshot(request);
        self.clock.timeout(ANSWER_LIMIT, answer).await?
    }
}

/// What to ask, and how to name it when it fails.
pub(crate) struct Call {
    attempt: String,
    method: Method,
    path: String,
    params: BTreeMap<String, Value>,
    /// The node that a changing call keeps busy.
    changes: Option<String>,
    /// A body of its own kind, instead of the parameters.
    body: Option<(String, Bytes)>,
}

impl Call {
    pub(crate) fn get(attempt: impl Into<String>, path: impl Into<String>) -> Self {
        let (attempt, path) = (attempt.into(), path.into());
        Self { attempt, method: Method::GET, path, params: BTreeMap::new(), changes: None, body: None }
    }

    pub(crate) fn change(
        method: Method,
        node: &str,
        attempt: impl Into<String>,
        path: impl Into<String>,
    ) -> Self {
        Self { method, changes: Some(node.to_owned()), ..Self::get(attempt, path) }
    }

    /// A call that changes something of the whole cluster.
    pub(crate) fn change_all(method: Method, attempt: impl Into<String>, path: impl Into<String>) -> Self {
        Self { method, ..Self::get(attempt, path) }
    }

    /// The call that logs in.
    pub(crate) fn secret(attempt: impl Into<String>, path: impl Into<String>) -> Self {
        Self::change_all(Method::POST, attempt, path)
    }

    pub(crate) fn body(mut self, content_type: String, body: Bytes) -> Self {
        self.body = Some((content_type, body));
        self
    }

    pub(crate) fn attempt(&self) -> &str {
        &self.attempt
    }

    pub(crate) fn with(mut self, key: &str, value: impl Display) -> Self {
        self.params.insert(key.to_owned(), Value::String(value.to_string()));
        self
    }

    /// A parameter that is a list. Only bodies can carry one.
    pub(crate) fn with_list(mut self, key: &str, values: &[String]) -> Self {
        self.params.insert(key.to_owned(), values.into());
        self
    }

    pub(crate) fn params(mut self, params: &BTreeMap<String, String>) -> Self {
        self.params.extend(params.iter().map(|(k, v)| (k.clone(), Value::String(v.clone()))));
        self
    }

    fn request(&self, credentials: &Credentials) -> std::result::Result<Request<Full<Bytes>>, BoxError> {
        let mut target = format!("/api2/json{}", self.path);
        let mut body = Bytes::new();
        let mut content_type: Option<HeaderValue> = None;
        if let Some((kind, own)) = &self.body {
            body = own.clone();
            content_type = Some(HeaderValue::from_str(kind)?);
        } else if self.method == Method::GET || self.method == Method::DELETE {
            for (index, (key, value)) in self.params.iter().enumerate() {
                let separator = if index == 0 { '?' } else { '&' };
                let value = value.as_str().unwrap_or_default();
                write!(target, "{separator}{}={}", encode(key), encode(value))?;
            }
        } else if !self.params.is_empty() {
            body = serde_json::to_vec(&self.params)?.into();
            content_type = Some(HeaderValue::from_static("application/json"));
        }
        let mut request = Request::builder().method(self.method.clone()).uri(target).body(Full::new(body))?;
        let headers = request.headers_mut();
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        if let Some(content_type) = content_type {
            headers.insert(CONTENT_TYPE, content_type);
        }
        credentials.put(headers, self.method != Method::GET);
        Ok(request)
    }
}

#[derive(Deserialize)]
struct Envelope {
    #[serde(default)]
    data: Value,
    #[serde(default)]
    message: Option<String>,
    #[serde(default)]
    errors: BTreeMap<String, Value>,
}

pub(crate) fn decode<T: DeserializeOwned>(response: &Response<Bytes>) -> std::result::Result<T, Kind> {
    let status = response.status();
    let envelope: std::result::Result<Envelope, _> = serde_json::from_slice(response.body());
    if status.is_success() {
        let data = envelope.map_err(|e| Kind::Protocol { text: e.to_string() })?.data;
        return serde_json::from_value(data).map_err(|e| Kind::Protocol { text: e.to_string() });
    }
    let reason = response.extensions().get::<ReasonPhrase>().map(|r| String::from_utf8_lossy(r.as_bytes()));
    let reason = reason.or_else(|| status.canonical_reason().map(Into::into)).unwrap_or_default();
    let (message, errors) = match envelope {
        Ok(envelope) => (envelope.message.filter(|m| !m.trim().is_empty()), envelope.errors),
        Err(_) => (None, BTreeMap::new()),
    };
    let errors =
        errors.into_iter().filter_map(|(name, why)| Some((name, crate::scalar::as_text(&why)?))).collect();
    Err(Kind::of_answer(status.as_u16(), message.as_deref().unwrap_or(&reason), errors))
}

/// Grows with the attempt and differs from call to call, so that many that failed together do not come back together.
/// The difference comes from the path instead of chance: the same run takes the same time.
fn backoff(path: &str, attempt: u32) -> Duration {
    let hash = path
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3));
    Duration::from_millis(200 * u64::from(attempt * attempt) + hash % 200)
}

#[cfg(test)]
#[path = "client_tests.rs"]
pub(crate) mod tests;
