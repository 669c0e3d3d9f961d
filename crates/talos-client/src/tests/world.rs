//! A machine with two faces on in-memory pipes, with the real TLS of both. What it says is in `node`.

use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use ambient::{Clock, Dial, Net, Stream};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use talos::pki::{Authority, Identity};
use talos::wire::cosi::state_server::StateServer;
use talos::wire::machine::image_service_server::ImageServiceServer;
use talos::wire::machine::lifecycle_service_server::LifecycleServiceServer;
use talos::wire::machine::machine_service_server::MachineServiceServer;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::TlsAcceptor;
use tonic::server::NamedService as _;
use tower::ServiceExt as _;

use super::node::{Node, Script};
use crate::Credentials;

pub const ADDRESS: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
pub const CONFIG: &str = "version: v1alpha1\nmachine:\n  token: hunter2\n---\nkind: HostnameConfig\n";

/// What the machine shows on its port.
#[derive(Clone, Copy, PartialEq)]
pub enum Face {
    /// No one answers, not even to refuse.
    Away,
    Closed,
    Maintenance,
    Configured,
}

/// How the machine differs from the usual.
#[derive(Clone, Copy, Default)]
pub struct Habits {
    /// A release before 1.13: no version in maintenance, no services for images and upgrades.
    pub old: bool,
}

struct Inner {
    face: Face,
    dials: usize,
    connections: Vec<tokio::task::JoinHandle<()>>,
}

#[derive(Clone)]
pub struct World {
    inner: Arc<Mutex<Inner>>,
    authority: Arc<Authority>,
    habits: Habits,
    /// What the machine says and was asked.
    pub script: Arc<Mutex<Script>>,
    /// Bytes that came from the client.
    pub received: Arc<AtomicUsize>,
    pub clock: Clock,
}

pub fn authority(clock: &Clock) -> Authority {
    Authority::ephemeral(clock.now()).unwrap()
}

const DAY: Duration = Duration::from_secs(24 * 3600);

impl World {
    pub fn new(face: Face, habits: Habits) -> Self {
        let clock = Clock::real();
        let inner = Inner { face, dials: 0, connections: Vec::new() };
        Self {
            inner: Arc::new(Mutex::new(inner)),
            authority: Arc::new(authority(&clock)),
            habits,
            script: Arc::default(),
            received: Arc::default(),
            clock,
        }
    }

    pub fn net(&self) -> Net {
        Net::of(self.clone())
    }

    pub fn dials(&self) -> usize {
        self.inner.lock().unwrap().dials
    }

    pub fn show(&self, face: Face) {
        self.inner.lock().unwrap().face = face;
    }

    /// Cuts all connections.
    pub async fn cut(&self) {
        let connections = std::mem::take(&mut self.inner.lock().unwrap().connections);
        for connection in connections {
            connection.abort();
            let _ = connection.await;
        }
    }

    /// Waits until every connection has been closed by the other side.
    pub async fn closed(&self) {
        let connections = std::mem::take(&mut self.inner.lock().unwrap().connections);
        let all = futures::future::join_all(connections);
        self.clock.timeout(Duration::from_secs(5), all).await.expect("a connection was left open");
    }

    pub fn credentials(&self) -> Credentials {
        Credentials::from(&self.authority.issue_client(None, "os:admin", DAY, self.clock.now()).unwrap())
    }

    fn acceptor(&self, face: Face) -> TlsAcceptor {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let issue = |by: &Authority, name: &str| -> Identity {
            by.issue_server(name, &[ADDRESS.to_string()], DAY, self.clock.now()).unwrap()
        };
        let builder = ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .unwrap();
        let (builder, leaf) = if face == Face::Configured {
            let leaf = issue(&self.authority, "n1");
            let mut roots = RootCertStore::empty();
            roots.add(leaf.ca_der()).unwrap();
            let verifier =
                WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap();
            (builder.with_client_cert_verifier(verifier), leaf)
        } else {
            let leaf = issue(&authority(&self.clock), talos::pki::MAINTENANCE_NAME);
            (builder.with_no_client_auth(), leaf)
        };
        let mut config =
            builder.with_single_cert(vec![leaf.certificate_der().clone()], leaf.key_der()).unwrap();
        config.alpn_protocols = vec![b"h2".to_vec()];
        TlsAcceptor::from(Arc::new(config))
    }
}

impl Dial for World {
    fn dial(&self, host: &str, port: u16) -> Pin<Box<dyn Future<Output = io::Result<Stream>> + Send + '_>> {
        assert_eq!((host, port), ("10.0.0.1", 50000));
        let mut inner = self.inner.lock().unwrap();
        inner.dials += 1;
        if inner.face == Face::Closed {
            return Box::pin(async { Err(io::ErrorKind::ConnectionRefused.into()) });
        }
        if inner.face == Face::Away {
            return Box::pin(std::future::pending());
        }
        let face = inner.face;
        let (ours, theirs) = tokio::io::duplex(64 << 10);
        let (acceptor, habits) = (self.acceptor(face), self.habits);
        let (script, received) = (self.script.clone(), self.received.clone());
        inner.connections.push(tokio::spawn(async move {
            let Ok(stream) = acceptor.accept(Counted { stream: theirs, received }).await else { return };
            let node = Node { face, habits, script };
            let service = hyper::service::service_fn(move |request: http::Request<Incoming>| {
                let node = node.clone();
                async move {
                    let service = request.uri().path().split('/').nth(1).unwrap_or_default().to_owned();
                    match service.as_str() {
                        MachineServiceServer::<Node>::NAME => {
                            MachineServiceServer::new(node).oneshot(request).await
                        }
                        StateServer::<Node>::NAME => StateServer::new(node).oneshot(request).await,
                        ImageServiceServer::<Node>::NAME if !habits.old => {
                            ImageServiceServer::new(node).oneshot(request).await
                        }
                        LifecycleServiceServer::<Node>::NAME if !habits.old => {
                            LifecycleServiceServer::new(node).oneshot(request).await
                        }
                        _ => Ok(tonic::Status::unimplemented("").into_http()),
                    }
                }
            });
            let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
            let _ = server.serve_connection(TokioIo::new(stream), service).await;
        }));
        Box::pin(async { Ok(Stream::new(ours)) })
    }
}

/// Counts what comes in.
struct Counted<S> {
    stream: S,
    received: Arc<AtomicUsize>,
}

impl<S: AsyncRead + Unpin> AsyncRead for Counted<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let result = Pin::new(&mut self.stream).poll_read(cx, buf);
        self.received.fetch_add(buf.filled().len() - before, Ordering::SeqCst);
        result
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Counted<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
