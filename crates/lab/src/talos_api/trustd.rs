//! trustd: a worker shows its token and a signing request, and gets a certificate for its API. It is for servers only,
//! whatever the request says, and no one checks the addresses in it.

use std::convert::Infallible;
use std::sync::Arc;

use base64::Engine as _;
use hyper_util::rt::{TokioExecutor, TokioIo};
use talos::wire::security::security_service_server::{SecurityService, SecurityServiceServer};
use talos::wire::security::{CertificateRequest, CertificateResponse};
use tokio::io::{AsyncRead, AsyncWrite};
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
        let server = SecurityServiceServer::new(signer.clone());
        async move {
            if let Some(status) = unknown(request.uri().path()) {
                return Ok::<_, Infallible>(status.into_http());
            }
            let response = match server.oneshot(request).await {
                Ok(response) => response,
                Err(never) => match never {},
            };
            Ok(response)
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
        let wrong = |words: String| Status::invalid_argument(words);
        let der =
            pem_block(&request.into_inner().csr).ok_or_else(|| wrong("failed to decode CSR".to_owned()))?;
        check_request(&der).map_err(|why| wrong(format!("failed to parse CSR: {why}")))?;
        let now = self.shared.clock().now();
        // What is a request and cannot be signed was not signed by the key that it names.
        let crt = sign_request(&settings.talos_ca, &der, now).ok_or_else(|| {
            let why = "failed verifying CSR signature: x509: Ed25519 verification failure";
            Status::internal(format!("failed to sign CSR: {why}"))
        })?;
        Ok(Response::new(CertificateResponse {
            ca: settings.talos_ca.crt.into_bytes(),
            crt: crt.into_bytes(),
        }))
    }
}

/// What is said to a call of something that is not here. No token is asked for before that.
fn unknown(path: &str) -> Option<Status> {
    let (service, method) = path.trim_start_matches('/').split_once('/').unwrap_or((path, ""));
    match (service, method) {
        ("securityapi.SecurityService", "Certificate") => None,
        ("securityapi.SecurityService", method) => {
            Some(Status::unimplemented(format!("unknown method {method} for service {service}")))
        }
        _ => Some(Status::unimplemented(format!("unknown service {service}"))),
    }
}

/// The bytes of the first PEM block of a text, whatever it is called.
fn pem_block(text: &[u8]) -> Option<Vec<u8>> {
    let text = std::str::from_utf8(text).ok()?;
    let (_, rest) = text.split_once("-----BEGIN ")?;
    let (name, rest) = rest.split_once("-----")?;
    let (body, _) = rest.split_once(&format!("-----END {name}-----"))?;
    let body: String = body.chars().filter(|c| !c.is_whitespace()).collect();
    base64::engine::general_purpose::STANDARD.decode(body).ok()
}

/// Whether bytes start as a signing request does, in the words of who reads them.
fn check_request(der: &[u8]) -> Result<(), String> {
    let Some((tag, rest)) = der.split_first() else {
        return Err("asn1: syntax error: sequence truncated".to_owned());
    };
    let truncated = || "asn1: syntax error: data truncated".to_owned();
    let (first, rest) = rest.split_first().ok_or_else(truncated)?;
    let (length, head) = match usize::from(*first) {
        short @ 0..0x80 => (short, 2),
        long => {
            let bytes = rest.get(..long & 0x7f).ok_or_else(truncated)?;
            let length = bytes
                .iter()
                .fold(0_usize, |all, byte| all.saturating_mul(256).saturating_add(usize::from(*byte)));
            (length, 2 + bytes.len())
        }
    };
    if der.len() < head + length {
        return Err(truncated());
    }
    if *tag != 0x30 {
        let (class, number, compound) = (tag >> 6, tag & 0x1f, tag & 0x20 != 0);
        return Err(format!(
            "asn1: structure error: tags don't match (16 vs {{class:{class} tag:{number} length:{length} isCompound:{compound}}}) {{optional:false explicit:false application:false private:false defaultValue:<nil> tag:<nil> stringType:0 timeType:0 set:false omitEmpty:false}} certificateRequest @{head}"
        ));
    }
    if der.len() > head + length { Err("asn1: syntax error: trailing data".to_owned()) } else { Ok(()) }
}
