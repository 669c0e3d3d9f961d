//! trustd: a worker shows its token and a signing request, and gets a certificate for its API. It is for servers only,
//! whatever the request says, and nobody checks the addresses in it.

use std::convert::Infallible;
use std::sync::Arc;

use hyper_util::rt::{TokioExecutor, TokioIo};
use talos::wire::security::security_service_server::{SecurityService, SecurityServiceServer};
use talos::wire::security::{CertificateRequest, CertificateResponse};
use tokio::io::{AsyncRead, AsyncWrite};
use tonic::service::Routes;
use tonic::{Request, Response, Status};
use tower::ServiceExt as _;

use crate::machine::sign_request;
use crate::shared::Shared;

/// Serves one connection to a machine's trustd.
pub(crate) async fn serve(
    vmid: u32,
    shared: Arc<Shared>,
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
) {
    let signer = Signer { vmid, shared };
    let service = hyper::service::service_fn(move |request| {
        let routes = Routes::new(SecurityServiceServer::new(signer.clone()));
        async move {
            let response = match routes.oneshot(request).await {
                Ok(response) => response,
                Err(never) => match never {},
            };
            Ok::<_, Infallible>(response)
        }
    });
    let builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
    // A connection that breaks is the client's business.
    let _ = builder.serve_connection(TokioIo::new(stream), service).await;
}

#[derive(Clone)]
struct Signer {
    vmid: u32,
    shared: Arc<Shared>,
}

#[tonic::async_trait]
impl SecurityService for Signer {
    async fn certificate(
        &self,
        request: Request<CertificateRequest>,
    ) -> Result<Response<CertificateResponse>, Status> {
        let token = request.metadata().get("token").and_then(|value| value.to_str().ok()).map(str::to_owned);
        let settings = self.shared.read(|world, _| {
            world.machines.get(self.vmid).and_then(|m| m.node()).map(|node| node.settings.clone())
        });
        let settings = settings.ok_or_else(|| Status::unavailable("the machine is gone"))?;
        match token {
            None => return Err(Status::unauthenticated("missing token")),
            Some(token) if token != settings.token => return Err(Status::unauthenticated("invalid token")),
            Some(_) => {}
        }
        let text = String::from_utf8(request.into_inner().csr).unwrap_or_default();
        let now = self.shared.clock().now();
        let crt = sign_request(&settings.talos_ca, &text, now)
            .ok_or_else(|| Status::invalid_argument("failed to decode CSR"))?;
        Ok(Response::new(CertificateResponse {
            ca: settings.talos_ca.crt.into_bytes(),
            crt: crt.into_bytes(),
        }))
    }
}
