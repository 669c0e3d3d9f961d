//! The client against a real TLS server on in-memory pipes.

use std::sync::Mutex;

use ambient::{Dial, Stream};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_rustls::TlsAcceptor;

use super::*;
use crate::{Client, Fingerprint, Kind};

#[test]
fn endpoints_need_a_host_and_https() {
    let read = |s: &str| s.parse::<Endpoint>().map(|e| e.to_string());
    assert_eq!(read("https://pve1:8006").unwrap(), "https://pve1:8006");
    assert_eq!(read("https://pve1").unwrap(), "https://pve1:8006");
    assert_eq!(read("pve1.example.org").unwrap(), "https://pve1.example.org:8006");
    assert_eq!(read("https://[fd00::1]:443/api2/json").unwrap(), "https://[fd00::1]:443");
    for bad in ["", "http://pve1:8006", "https://pve1/ui", "https://", "ftp://x"] {
        assert!(read(bad).is_err(), "{bad}");
    }
    assert_eq!(Endpoints::parse([]), Err(InvalidEndpoint::None));
}

#[test]
fn an_endpoint_with_a_port_that_is_no_number_is_refused() {
    for bad in [
        "https://pve1:9106.evil",
        "https://pve1:",
        "https://pve1:0",
        "https://pve1:+8006",
        "https://a@pve1:8006",
    ] {
        assert!(bad.parse::<Endpoint>().is_err(), "{bad}");
    }
}

/// One node answers over TLS; those that are called silent take no one in, those called mute take everybody in and say nothing,
/// and every other name is down. All dials are written down.
struct OneNode {
    acceptor: TlsAcceptor,
    answer: &'static str,
    dialled: Arc<Mutex<Vec<String>>>,
}

impl Dial for OneNode {
    fn dial(&self, host: &str, port: u16) -> Pin<Box<dyn Future<Output = io::Result<Stream>> + Send + '_>> {
        self.dialled.lock().unwrap().push(format!("{host}:{port}"));
        if host.starts_with("silent") {
            return Box::pin(std::future::pending());
        }
        if host != "pve2" && host != "mute" {
            return Box::pin(async { Err(io::ErrorKind::ConnectionRefused.into()) });
        }
        let mute = host == "mute";
        let (ours, theirs) = tokio::io::duplex(64 << 10);
        let (acceptor, answer) = (self.acceptor.clone(), self.answer);
        tokio::spawn(async move {
            let Ok(mut stream) = acceptor.accept(theirs).await else { return };
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") && stream.read_buf(&mut request).await.unwrap_or(0) > 0 {}
            if mute {
                std::future::pending::<()>().await;
            }
            assert!(request.starts_with(b"GET /api2/json/version HTTP/1.1\r\n"));
            stream.write_all(answer.as_bytes()).await.unwrap();
            stream.flush().await.unwrap();
            // Dropped without a goodbye, as pveproxy does.
        });
        Box::pin(async { Ok(Stream::new(ours)) })
    }
}

struct World {
    net: Net,
    certificate: CertificateDer<'static>,
    pem: String,
    dialled: Arc<Mutex<Vec<String>>>,
}

fn world(answer: &'static str) -> World {
    let made = rcgen::generate_simple_self_signed(["pve2".to_owned()]).unwrap();
    let certificate = made.cert.der().clone();
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.clone()], key)
        .unwrap();
    let dialled = Arc::default();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let net = Net::of(OneNode { acceptor, answer, dialled: Arc::clone(&dialled) });
    World { net, certificate, pem: made.cert.pem(), dialled }
}

fn client(world: &World, trust: &Trust) -> Client {
    let endpoints = Endpoints::parse(["https://pve1:8006", "https://pve2"]).unwrap();
    Client::connect(endpoints, &"a@pve!b=c".parse().unwrap(), trust, world.net.clone(), Clock::real())
        .unwrap()
}

const VERSION: &str = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 29\r\n\r\n{\"data\":{\"version\":\"9.1.8\"}}\r\n";

#[tokio::test]
async fn the_next_endpoint_is_tried_and_remembered() {
    let world = world(VERSION);
    let client = client(&world, &Trust::Fingerprints(vec![Fingerprint::of(&world.certificate)]));
    assert_eq!(client.version().await.unwrap().major, 9);
    assert_eq!(client.version().await.unwrap().major, 9);
    assert_eq!(*world.dialled.lock().unwrap(), ["pve1:8006", "pve2:8006", "pve2:8006"]);
}

/// How long a client of these endpoints takes for its first answer and for its second, in seconds, and what came of the last.
async fn asked(endpoints: &[&str]) -> (u64, u64, crate::Result<crate::Version>) {
    let world = world(VERSION);
    let clock = Clock::from("2026-01-01T00:00:00Z".parse().unwrap(), 1.0);
    let endpoints = Endpoints::parse(endpoints.iter().copied()).unwrap();
    let token = "a@pve!b=c".parse().unwrap();
    let client =
        Client::connect(endpoints, &token, &Trust::Insecure, world.net.clone(), clock.clone()).unwrap();
    let began = clock.now();
    let since = |then| u64::try_from(clock.now().duration_since(then).as_secs()).unwrap();
    let _ = client.version().await;
    let (first, then) = (since(began), clock.now());
    let answer = client.version().await;
    (first, since(then), answer)
}

#[tokio::test(start_paused = true)]
async fn silent_endpoints_cost_little_time_and_only_once() {
    let (first, second, answer) = asked(&["silent1", "silent2", "pve2"]).await;
    assert_eq!((first, second, answer.unwrap().major), (4, 0, 9));
    // One that takes the question and says nothing.
    let (first, second, answer) = asked(&["mute", "pve2"]).await;
    assert_eq!((first, second, answer.unwrap().major), (8, 0, 9));
    // No one at all.
    let (first, second, answer) = asked(&["silent1", "silent2"]).await;
    assert_eq!((first, second, answer.unwrap_err().kind().code()), (12, 12, "no-answer"));
}

#[tokio::test]
async fn an_authority_and_no_check_at_all_are_accepted_too() {
    let world = world(VERSION);
    for trust in
        [Trust::Authority(world.pem.clone()), Trust::System(vec![world.certificate.clone()]), Trust::Insecure]
    {
        assert_eq!(client(&world, &trust).version().await.unwrap().minor, 1, "{trust:?}");
    }
}

/// The whole chain as a person reads it.
fn words(error: &crate::Error) -> String {
    let mut words = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        words = format!("{words}: {cause}");
        source = cause.source();
    }
    words
}

#[tokio::test(start_paused = true)]
async fn first_use_7_and_21_an_unknown_certificate_is_named_with_the_line_that_pins_it() {
    let world = world(VERSION);
    let shown = Fingerprint::of(&world.certificate);
    let other = rcgen::generate_simple_self_signed(["pve2".to_owned()]).unwrap();
    for (trust, reason) in [
        (Trust::Fingerprints(vec![Fingerprint::of(b"another")]), "it is not the pinned one"),
        (Trust::Authority(other.cert.pem()), "no trusted certificate authority signed it"),
    ] {
        let error = client(&world, &trust).version().await.unwrap_err();
        assert_eq!(error.kind().code(), "untrusted");
        assert_eq!(error.shown_certificate(), Some(shown));
        assert_eq!(
            words(&error),
            format!(
                "reading the version of Proxmox VE: the certificate that https://pve2:8006 shows is not trusted: {reason} (its SHA-256 \
                 fingerprint is {shown})"
            )
        );
        let hint = error.hint().unwrap();
        assert!(hint.contains(&format!("write `fingerprint: \"{shown}\"` under `proxmox:`")), "{hint}");
        assert!(hint.contains("pvenode cert info"), "{hint}");
    }
}

#[tokio::test]
async fn a_failure_without_body_length_or_goodbye_is_read() {
    let world = world("HTTP/1.1 401 Authentication failed!\r\nConnection: close\r\n\r\n");
    let error = client(&world, &Trust::Insecure).version().await.unwrap_err();
    assert!(
        matches!(error.kind(), Kind::Unauthenticated { text } if text == "Authentication failed!"),
        "{error:?}"
    );
}
