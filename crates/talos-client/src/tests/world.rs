//! A machine with two faces on in-memory pipes, with the real TLS of both.

use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ambient::{Clock, Dial, Net, Stream};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::service::TowerToHyperService;
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use talos::pki::{Authority, Identity};
use talos::wire::cosi::state_server::{State, StateServer};
use talos::wire::machine::machine_service_server::{MachineService, MachineServiceServer};
use talos::wire::{common, cosi, machine};
use tokio_rustls::TlsAcceptor;
use tonic::codegen::BoxStream;
use tonic::{Request, Response, Status};

use crate::Credentials;
use crate::kubeconfig::tests::pack;

pub const ADDRESS: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
pub const CONFIG: &str = "version: v1alpha1\nmachine:\n  token: hunter2\n---\nkind: HostnameConfig\n";

/// What the machine shows on its port.
#[derive(Clone, Copy, PartialEq)]
pub enum Face {
    /// Nobody answers, not even to refuse.
    Away,
    Closed,
    Maintenance,
    Configured,
}

/// How the machine differs from the usual.
#[derive(Clone, Copy, Default)]
pub struct Habits {
    /// A release that does not tell its version in maintenance.
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
        Self { inner: Arc::new(Mutex::new(inner)), authority: Arc::new(authority(&clock)), habits, clock }
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
        inner.connections.push(tokio::spawn(async move {
            let Ok(stream) = acceptor.accept(theirs).await else { return };
            let node = Node { face, habits };
            let routes = tonic::service::Routes::new(MachineServiceServer::new(node))
                .add_service(StateServer::new(node));
            let service = TowerToHyperService::new(routes.prepare());
            let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
            let _ = server.serve_connection(TokioIo::new(stream), service).await;
        }));
        Box::pin(async { Ok(Stream::new(ours)) })
    }
}

#[derive(Clone, Copy)]
struct Node {
    face: Face,
    habits: Habits,
}

fn streamed<T: Send + 'static>(items: Vec<T>) -> Result<Response<BoxStream<T>>, Status> {
    Ok(Response::new(Box::pin(futures::stream::iter(items.into_iter().map(Ok)))))
}

#[tonic::async_trait]
impl MachineService for Node {
    async fn version(&self, _: Request<()>) -> Result<Response<machine::VersionResponse>, Status> {
        if self.habits.old && self.face == Face::Maintenance {
            return Err(Status::unimplemented("API is not implemented in maintenance mode"));
        }
        let version =
            machine::VersionInfo { tag: "v1.13.9".into(), arch: "amd64".into(), ..Default::default() };
        let message = machine::Version { version: Some(version), ..Default::default() };
        Ok(Response::new(machine::VersionResponse { messages: vec![message] }))
    }

    async fn apply_configuration(
        &self,
        request: Request<machine::ApplyConfigurationRequest>,
    ) -> Result<Response<machine::ApplyConfigurationResponse>, Status> {
        let request = request.into_inner();
        assert_eq!(request.mode(), machine::apply_configuration_request::Mode::Auto);
        if request.data != CONFIG.as_bytes() {
            return Err(Status::invalid_argument("can't be applied\ndiff:\n-token: hunter2\n+token: x"));
        }
        let message = machine::ApplyConfiguration {
            mode: machine::apply_configuration_request::Mode::NoReboot.into(),
            mode_details: "diff: hunter2".into(),
            ..Default::default()
        };
        Ok(Response::new(machine::ApplyConfigurationResponse { messages: vec![message] }))
    }

    async fn kubeconfig(&self, _: Request<()>) -> Result<Response<BoxStream<common::Data>>, Status> {
        let archive = pack("kind: Config\n");
        let data = |bytes: &[u8]| common::Data { bytes: bytes.to_vec(), ..Default::default() };
        streamed(archive.chunks(50).map(data).collect())
    }

    async fn bootstrap(
        &self,
        _: Request<machine::BootstrapRequest>,
    ) -> Result<Response<machine::BootstrapResponse>, Status> {
        Err(Status::already_exists("etcd data directory is not empty"))
    }
}

#[tonic::async_trait]
impl State for Node {
    async fn get(&self, request: Request<cosi::GetRequest>) -> Result<Response<cosi::GetResponse>, Status> {
        let request = request.into_inner();
        let block = CONFIG.lines().fold("|\n".to_owned(), |text, line| format!("{text}    {line}\n"));
        let yaml = match (request.namespace.as_str(), request.r#type.as_str(), request.id.as_str()) {
            ("hardware", "SystemInformations.hardware.talos.dev", "systeminformation") => {
                "manufacturer: QEMU\nuuid: BC1D6309-7A34-4822-981B-DECE7A37BE40\nwakeUpType: Power Switch\n"
            }
            ("runtime", "MachineStatuses.runtime.talos.dev", "machine") => {
                "stage: booting\nstatus:\n    ready: false\n    unmetConditions:\n        - name: services\n          reason: etcd not running\n"
            }
            ("runtime", "Versions.runtime.talos.dev", "version") => "name: Talos\nversion: v1.12.11\n",
            ("config", "MachineConfigs.config.talos.dev", "v1alpha1") if self.face == Face::Configured => {
                &block
            }
            _ => return Err(Status::not_found("resource doesn't exist")),
        };
        Ok(Response::new(cosi::GetResponse { resource: Some(resource(&request.id, yaml)) }))
    }

    async fn list(
        &self,
        request: Request<cosi::ListRequest>,
    ) -> Result<Response<BoxStream<cosi::ListResponse>>, Status> {
        let found = match request.into_inner().r#type.as_str() {
            "Disks.block.talos.dev" => vec![
                resource(
                    "sda",
                    "dev_path: /dev/sda\nsize: 8589934592\nreadonly: false\ncdrom: false\ntransport: virtio\n",
                ),
                resource("sr0", "dev_path: /dev/sr0\nsize: 1048576\nreadonly: true\ncdrom: true\n"),
            ],
            "LinkStatuses.net.talos.dev" => {
                vec![resource(
                    "eth0",
                    "type: ether\nhardwareAddr: 56:48:6a:2f:9e:ac\nmtu: 1500\nlinkState: true\nkind: \"\"\n",
                )]
            }
            other => {
                return Err(Status::permission_denied(format!("resource type {other:?} is not supported")));
            }
        };
        streamed(found.into_iter().map(|resource| cosi::ListResponse { resource: Some(resource) }).collect())
    }
}

fn resource(id: &str, yaml: &str) -> cosi::Resource {
    let metadata = cosi::Metadata { id: id.to_owned(), version: "1".to_owned(), ..Default::default() };
    let spec = cosi::Spec { yaml_spec: yaml.to_owned(), ..Default::default() };
    cosi::Resource { metadata: Some(metadata), spec: Some(spec) }
}
