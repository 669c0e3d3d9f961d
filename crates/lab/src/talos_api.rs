//! The Talos API of one machine: gRPC over one TLS connection.
//!
//! Each request passes the door first (`door`): is the service known, may this caller call the method, which machine is
//! meant. Then the generated servers take over. In maintenance everybody is a reader; on a configured machine the roles
//! are the organizations of the client's certificate.

mod containers;
mod cosi;
mod door;
mod encode;
mod etcd;
mod events;
mod fan_out;
mod files;
mod images;
mod kubeconfig;
mod logs;
mod machine_service;
mod pings;
mod power;
mod reference;
mod resources;
mod small_services;
mod sockets;
mod system;
mod table;
mod trustd;

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Either, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message as _;
use rustls_pki_types::CertificateDer;
use talos::pki::Leaf;
use talos::wire::cluster::cluster_service_server::ClusterServiceServer;
use talos::wire::cosi::state_server::StateServer;
use talos::wire::inspect::inspect_service_server::InspectServiceServer;
use talos::wire::machine::image_service_server::ImageServiceServer;
use talos::wire::machine::lifecycle_service_server::LifecycleServiceServer;
use talos::wire::machine::machine_service_server::MachineServiceServer;
use talos::wire::storage::storage_service_server::StorageServiceServer;
use talos::wire::time::time_service_server::TimeServiceServer;
use talos::wire::{MAX_MESSAGE_SIZE, machine};
use tokio::io::{AsyncRead, AsyncWrite};
use tonic::Status;
use tonic::body::Body;
use tonic::server::NamedService;
use tower::ServiceExt as _;

use crate::calls::{Call, Delivery, Service};
use crate::faults::Relayed;
use crate::line::Line;
use crate::machine::{Kind, Listener, Machines, Refusal};
use crate::shared::Shared;
#[cfg(test)]
pub(crate) use door::methods;
pub(crate) use trustd::serve as serve_trustd;

/// Who asks, and which machine is asked.
#[derive(Clone)]
pub(crate) struct Caller {
    shared: Arc<Shared>,
    vmid: u32,
    roles: Arc<[String]>,
    maintenance: bool,
}

/// Serves one connection.
pub(crate) async fn serve(
    listener: Listener,
    shared: Arc<Shared>,
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    client: Option<CertificateDer<'static>>,
    shown: Option<Delivery>,
    line: Line,
) {
    let maintenance = listener.kind == Kind::Maintenance;
    let roles = match client.and_then(|certificate| Leaf::read(&certificate)) {
        _ if maintenance => vec!["os:reader".to_owned()],
        Some(leaf) => leaf.organizations,
        None => vec![],
    };
    let stream = pings::Patient::new(stream, shared.clock().clone());
    let caller = Caller { shared, vmid: listener.vmid, roles: roles.into(), maintenance };
    let calls = line.clone();
    let service = hyper::service::service_fn(move |request| {
        let (caller, line, shown) = (caller.clone(), calls.clone(), shown.clone());
        async move {
            let (shared, path) = (caller.shared.clone(), request.uri().path().to_owned());
            let mut call = Call::new(Service::Talos, "CALL", request.uri(), line.origin());
            call.machine = Some(caller.vmid);
            let (request, sent) = look_for_config(request).await;
            call.dry_run = sent.as_ref().is_some_and(|sent| sent.dry_run);
            let config = sent.map(|sent| String::from_utf8_lossy(&sent.data).into_owned());
            let keys = config.as_ref().is_some_and(|config| has_keys(config));
            if shown.as_ref().is_some_and(|shown| shown.relayed) {
                let sent = Relayed { vmid: caller.vmid, path: path.clone(), config };
                shared.with_quiet(|world| world.faults.relay(sent));
            }
            call.delivery = shown.filter(|_| keys);
            let answer = line.call("CALL", &path, door::enter(caller, request));
            Ok::<_, Infallible>(shared.around(call, answer).await)
        }
    });
    let builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
    let serving = async {
        let mut connection = std::pin::pin!(builder.serve_connection(TokioIo::new(stream), service));
        tokio::select! {
            biased;
            // A connection that breaks is the client's business.
            _ = &mut connection => return,
            () = line.ending().cancelled() => connection.as_mut().graceful_shutdown(),
        }
        let _ = connection.await;
    };
    line.serve(serving).await;
}

/// Whether a machine config carries keys or tokens of a cluster.
fn has_keys(config: &str) -> bool {
    config.contains("token:") || config.contains("key:")
}

/// The request, and the configuration that it brings.
async fn look_for_config<B>(
    request: Request<B>,
) -> (Request<Either<B, Full<Bytes>>>, Option<machine::ApplyConfigurationRequest>)
where
    B: hyper::body::Body<Data = Bytes>,
{
    if !request.uri().path().ends_with("/ApplyConfiguration") {
        return (request.map(Either::Left), None);
    }
    let (parts, body) = request.into_parts();
    let body = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    // A message is preceded by a flag and its length.
    let message = body.get(5..).and_then(|message| machine::ApplyConfigurationRequest::decode(message).ok());
    (Request::from_parts(parts, Either::Right(Full::new(body))), message)
}

impl Caller {
    /// Lets the server of a service answer, on behalf of this caller.
    async fn dispatch<B>(self, service: &str, request: Request<B>) -> Response<Body>
    where
        B: hyper::body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let request = request.map(Body::new);
        let answer = match service {
            MachineServiceServer::<Self>::NAME => {
                let server = MachineServiceServer::new(self);
                server.max_decoding_message_size(MAX_MESSAGE_SIZE).oneshot(request).await
            }
            ImageServiceServer::<Self>::NAME => {
                let server = ImageServiceServer::new(self);
                server.max_decoding_message_size(MAX_MESSAGE_SIZE).oneshot(request).await
            }
            LifecycleServiceServer::<Self>::NAME => LifecycleServiceServer::new(self).oneshot(request).await,
            StateServer::<Self>::NAME => StateServer::new(self).oneshot(request).await,
            StorageServiceServer::<Self>::NAME => StorageServiceServer::new(self).oneshot(request).await,
            TimeServiceServer::<Self>::NAME => TimeServiceServer::new(self).oneshot(request).await,
            ClusterServiceServer::<Self>::NAME => ClusterServiceServer::new(self).oneshot(request).await,
            InspectServiceServer::<Self>::NAME => InspectServiceServer::new(self).oneshot(request).await,
            unknown => Ok(Status::unimplemented(format!("unknown service {unknown}")).into_http()),
        };
        match answer {
            Ok(response) => response,
            Err(never) => match never {},
        }
    }

    /// Counts as an open stream for as long as the result lives.
    fn hold(&self) -> Held {
        self.shared.with_quiet(|world| world.machines.hold_stream(self.vmid, true));
        Held(self.clone())
    }

    fn has(&self, role: &str) -> bool {
        self.roles.iter().any(|own| own == role)
    }

    /// Looks at the machines.
    fn read<T>(&self, look: impl FnOnce(&Machines, jiff::Timestamp) -> T) -> T {
        self.shared.read(|world, now| look(&world.machines, now))
    }

    /// Does something to the machines. A refusal comes when the machine has thought about it.
    async fn act<T>(
        &self,
        work: impl FnOnce(&mut Machines, jiff::Timestamp) -> Result<T, Refusal>,
    ) -> Result<T, Status> {
        match self.shared.with(|world, now| work(&mut world.machines, now)) {
            Ok(done) => Ok(done),
            Err(refusal) => {
                self.shared.clock().sleep(refusal.after).await;
                Err(Status::new(refusal.code, refusal.words))
            }
        }
    }
}

/// A stream that a client holds open.
struct Held(Caller);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.shared.with_quiet(|world| world.machines.hold_stream(self.0.vmid, false));
    }
}

#[cfg(test)]
pub(crate) mod tests;
