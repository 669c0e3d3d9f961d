//! The way of a request: an endpoint, a connection, an answer.
//!
//! Each request has a connection of its own. Proxmox closes an idle connection after five seconds and a kept one after a
//! hundred requests, and a request that meets such an end is lost in doubt; a fresh connection has no such doubt, and the
//! TLS session is resumed, so it costs little. As long as there is no connection, nothing was sent, so while an endpoint is silent
//! the next one is tried as well, and the first one that accepts is asked. A question that one endpoint took and does not answer is
//! put to another one, too; a change never is.

use std::error::Error as StdError;
use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use ambient::tls::{Connector, TlsIo};
use ambient::{Clock, Net};
use bytes::{Bytes, BytesMut};
use futures::StreamExt as _;
use futures::future::{Either, select};
use futures::stream::FuturesUnordered;
use http::header::HOST;
use http::{HeaderValue, Method, Request, Response, Uri};
use http_body_util::{BodyExt, Full};
use hyper::body::Body;

use crate::trust::{InvalidTrust, Trust};

pub(crate) type BoxError = Box<dyn StdError + Send + Sync>;

/// How long one endpoint may take to accept a connection and finish the TLS handshake.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);
/// For how long an endpoint may be silent until the next one is tried as well.
const NEXT_AFTER: Duration = Duration::from_secs(2);
/// For how long an endpoint may think about a question until another one is asked, too.
const ASK_ANOTHER_AFTER: Duration = Duration::from_secs(8);
/// No answer that this client asks for comes near this size.
const BODY_LIMIT: usize = 32 << 20;

/// One node's address, such as `https://pve1:8006`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    host: String,
    port: u16,
}

/// One or more ways to the same Proxmox cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoints(Vec<Endpoint>);

/// This cannot be the address of a Proxmox node.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidEndpoint {
    /// The text is not an https address of a host.
    #[error("'{0}' is not the address of a Proxmox VE node; one looks like https://pve1:8006")]
    Malformed(String),
    /// The list is empty.
    #[error("at least one Proxmox VE endpoint is needed")]
    None,
}

/// No connection came about, so nothing was sent. A service given to [`crate::Client::over`] fails with this to say so.
#[derive(Debug, thiserror::Error)]
#[error("no connection to {endpoint}")]
pub struct NotConnected {
    /// The address that was dialled.
    pub endpoint: String,
    /// What the network or TLS said.
    #[source]
    pub source: io::Error,
}

impl FromStr for Endpoint {
    type Err = InvalidEndpoint;

    fn from_str(text: &str) -> Result<Self, InvalidEndpoint> {
        let malformed = || InvalidEndpoint::Malformed(text.to_owned());
        let text = text.trim();
        let address = if text.contains("://") { text.to_owned() } else { format!("https://{text}") };
        let uri: Uri = address.parse().map_err(|_| malformed())?;
        let path = uri.path().trim_end_matches('/');
        let fits =
            uri.scheme_str() == Some("https") && uri.query().is_none() && matches!(path, "" | "/api2/json");
        let host = uri.host().filter(|h| fits && !h.is_empty()).ok_or_else(malformed)?;
        // What stands behind the host is a port or nothing. `Uri` takes a port that is no number for none at all.
        let port = match uri.authority().and_then(|all| all.as_str().strip_prefix(host)) {
            Some("") => 8006,
            Some(rest) => rest.strip_prefix(':').and_then(number).ok_or_else(malformed)?,
            None => return Err(malformed()),
        };
        Ok(Self { host: host.to_owned(), port })
    }
}

/// A port, in digits only.
fn number(text: &str) -> Option<u16> {
    let digits = text.chars().all(|c| c.is_ascii_digit());
    text.parse().ok().filter(|port| digits && *port > 0)
}

impl std::fmt::Display for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "https://{}:{}", self.host, self.port)
    }
}

impl Endpoints {
    /// Reads a list of addresses; they are tried in this order.
    ///
    /// # Errors
    ///
    /// When one of them is no address, or there is none.
    pub fn parse<'a>(addresses: impl IntoIterator<Item = &'a str>) -> Result<Self, InvalidEndpoint> {
        let endpoints = addresses.into_iter().map(str::parse).collect::<Result<Vec<_>, _>>()?;
        if endpoints.is_empty() { Err(InvalidEndpoint::None) } else { Ok(Self(endpoints)) }
    }

    /// Those that are not among others. Names of hosts are alike in any case.
    #[must_use]
    pub fn not_among(&self, allowed: &Self) -> Vec<String> {
        let is = |one: &Endpoint, other: &Endpoint| {
            one.port == other.port && one.host.eq_ignore_ascii_case(&other.host)
        };
        let others = self.0.iter().filter(|one| !allowed.0.iter().any(|other| is(one, other)));
        others.map(ToString::to_string).collect()
    }
}

impl std::fmt::Display for Endpoints {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let all: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&all.join(", "))
    }
}

/// The tower service below a real client.
#[derive(Clone)]
pub(crate) struct Transport {
    endpoints: Arc<[Endpoint]>,
    /// The endpoint that answered last. It is asked first, so a dead node costs its time once.
    preferred: Arc<AtomicUsize>,
    connector: Connector,
    clock: Clock,
}

impl Transport {
    pub(crate) fn new(
        endpoints: Endpoints,
        trust: &Trust,
        net: Net,
        clock: Clock,
    ) -> Result<Self, InvalidTrust> {
        let connector = Connector::new(net, trust.client_config(&clock)?, 8006);
        Ok(Self { endpoints: endpoints.0.into(), preferred: Arc::default(), connector, clock })
    }

    /// A connection to the first endpoint that accepts one, in their order from `first` on.
    async fn connect(&self, first: usize) -> Result<(usize, TlsIo), NotConnected> {
        let number = self.endpoints.len();
        let mut failure: Option<NotConnected> = None;
        let mut dials = FuturesUnordered::new();
        let mut left = (0..number).map(|offset| (first + offset) % number);
        loop {
            let more = left.next();
            dials.extend(more.map(|index| async move { (index, self.dial(index).await) }));
            let ended = match left.len() {
                0 => dials.next().await,
                // No connection yet: the next one is tried beside.
                _ => match self.clock.timeout(NEXT_AFTER, dials.next()).await {
                    Ok(ended) => ended,
                    Err(_) => continue,
                },
            };
            match ended {
                Some((index, Ok(stream))) => return Ok((index, stream)),
                // A certificate that does not fit tells a person more than a node that is down.
                Some((index, Err(source))) => {
                    if failure.as_ref().is_none_or(|f| f.source.kind() != io::ErrorKind::InvalidData) {
                        let endpoint = self.endpoints.get(index).map(Endpoint::to_string).unwrap_or_default();
                        failure = Some(NotConnected { endpoint, source });
                    }
                }
                None => break,
            }
        }
        Err(failure.unwrap_or_else(|| NotConnected {
            endpoint: String::new(),
            source: io::Error::new(io::ErrorKind::InvalidInput, InvalidEndpoint::None),
        }))
    }

    async fn dial(&self, index: usize) -> io::Result<TlsIo> {
        let Endpoint { host, port } = &self.endpoints[index];
        match self.clock.timeout(CONNECT_LIMIT, self.connector.connect(host, *port)).await {
            Ok(dialled) => dialled,
            Err(late) => Err(io::Error::new(io::ErrorKind::TimedOut, late)),
        }
    }

    /// Sends a changing request, and says which endpoint answered.
    pub(crate) async fn exchange_at(
        &self,
        request: Request<Full<Bytes>>,
    ) -> Result<(usize, Response<Bytes>), BoxError> {
        let (index, stream) = self.connect(self.preferred.load(Ordering::Relaxed)).await?;
        Ok((index, self.send(index, stream, request).await?))
    }

    /// A connection to one endpoint and no other, and what to call it in a request.
    pub(crate) async fn connect_to(&self, index: usize) -> Result<(String, TlsIo), NotConnected> {
        let Some(endpoint) = self.endpoints.get(index) else {
            let source = io::Error::new(io::ErrorKind::InvalidInput, InvalidEndpoint::None);
            return Err(NotConnected { endpoint: String::new(), source });
        };
        let stream = self.dial(index).await;
        let stream = stream.map_err(|source| NotConnected { endpoint: endpoint.to_string(), source })?;
        Ok((format!("{}:{}", endpoint.host, endpoint.port), stream))
    }

    async fn exchange(&self, request: Request<Full<Bytes>>) -> Result<Response<Bytes>, BoxError> {
        let (index, stream) = self.connect(self.preferred.load(Ordering::Relaxed)).await?;
        if request.method() != Method::GET || self.endpoints.len() == 1 {
            return self.send(index, stream, request).await;
        }
        let first = pin!(self.send(index, stream, request.clone()));
        let first = match select(first, pin!(self.clock.sleep(ASK_ANOTHER_AFTER))).await {
            Either::Left((answer, _)) => return answer,
            Either::Right(((), first)) => first,
        };
        let second = pin!(async {
            let (index, stream) = self.connect(index + 1).await?;
            self.send(index, stream, request).await
        });
        match select(first, second).await {
            Either::Left((Ok(answer), _)) | Either::Right((Ok(answer), _)) => Ok(answer),
            Either::Left((Err(_), second)) => second.await,
            Either::Right((Err(_), first)) => first.await,
        }
    }

    /// Sends a request over a connection to the endpoint `index`, and remembers how that went.
    async fn send(
        &self,
        index: usize,
        stream: TlsIo,
        mut request: Request<Full<Bytes>>,
    ) -> Result<Response<Bytes>, BoxError> {
        let Endpoint { host, port } = &self.endpoints[index];
        let host = HeaderValue::from_str(&format!("{host}:{port}"))?;
        request.headers_mut().insert(HOST, host);
        let (mut sender, connection) = hyper::client::conn::http1::handshake(stream).await?;
        let answer = pin!(async move {
            let response = sender.send_request(request).await?;
            read(response).await
        });
        let answer = match select(answer, pin!(connection)).await {
            Either::Left((answer, _)) => answer,
            Either::Right((_, answer)) => answer.await,
        };
        // One that broke off is asked last.
        let next = if answer.is_ok() { index } else { (index + 1) % self.endpoints.len() };
        self.preferred.store(next, Ordering::Relaxed);
        answer
    }
}

/// Reads the whole body. The answer to a failure is kept even when its end is missing: it carries no length, and some
/// servers cut the connection instead of closing it.
pub(crate) async fn read<B>(response: Response<B>) -> Result<Response<Bytes>, BoxError>
where
    B: Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    let (parts, body) = response.into_parts();
    let mut body = pin!(body);
    let mut read = BytesMut::new();
    while let Some(frame) = body.as_mut().frame().await {
        match frame {
            Ok(frame) => {
                if let Ok(data) = frame.into_data() {
                    read.extend_from_slice(&data);
                }
            }
            Err(_) if !parts.status.is_success() => break,
            Err(error) => return Err(error.into()),
        }
        if read.len() > BODY_LIMIT {
            return Err(format!("the answer is longer than {BODY_LIMIT} bytes").into());
        }
    }
    Ok(Response::from_parts(parts, read.freeze()))
}

impl tower::Service<Request<Full<Bytes>>> for Transport {
    type Response = Response<Bytes>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Bytes>, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Full<Bytes>>) -> Self::Future {
        let this = self.clone();
        Box::pin(async move { this.exchange(request).await })
    }
}

#[cfg(test)]
#[path = "transport_tests.rs"]
mod tests;
