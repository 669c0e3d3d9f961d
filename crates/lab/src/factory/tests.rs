//! The factory as a client meets it: real TLS and HTTP over the lab's network. What it answers was read from the code of the
//! real one, and from its own tests where those say the words.

use std::sync::Arc;
use std::time::Duration;

use ambient::Clock;
use ambient::tls::Connector;
use bytes::Bytes;
use http::{HeaderMap, Request, header};
use http_body_util::{BodyExt, Full};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use serde_json::{Value, json};

use crate::{Lab, LabConfig};

const HOST: &str = "factory.talos.dev";
const EMPTY: &str = "376567988ad370138ad8b2698212367b8edcb69b5fd68c80be1f2ec7d603b4ba";
const AGENT: &str = "ce4c980550dd2ab1b17bbf2b08801c7eb59418eafe8f279833297925d67c7515";

struct Client {
    lab: Lab,
    clock: Clock,
}

struct Reply {
    status: u16,
    headers: HeaderMap,
    body: String,
}

impl Reply {
    fn header(&self, name: header::HeaderName) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    /// Status and words of a refusal, which is always plain text.
    fn refusal(&self) -> (u16, &str) {
        assert_eq!(self.header(header::CONTENT_TYPE), "text/plain; charset=utf-8");
        (self.status, self.body.as_str())
    }
}

impl Client {
    fn new() -> Self {
        let clock = Clock::from(LabConfig::first_moment(), 1.0);
        Self { lab: Lab::open(LabConfig::default(), clock.clone()).unwrap(), clock }
    }

    async fn ask(&self, method: &str, path: &str, body: &str) -> Reply {
        let mut roots = rustls::RootCertStore::empty();
        for authority in CertificateDer::pem_slice_iter(self.lab.facts().factory_ca_pem.as_bytes()) {
            roots.add(authority.unwrap()).unwrap();
        }
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let tls = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let stream = Connector::new(self.lab.net(), Arc::new(tls), 443).connect(HOST, 443).await.unwrap();
        let (mut sender, connection) = hyper::client::conn::http1::handshake(stream).await.unwrap();
        tokio::spawn(connection);
        let request = Request::builder().method(method).uri(path).header("Host", HOST);
        let request = request.body(Full::new(Bytes::from(body.to_owned()))).unwrap();
        let (parts, body) = sender.send_request(request).await.unwrap().into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let body = String::from_utf8(body.to_vec()).unwrap();
        Reply { status: parts.status.as_u16(), headers: parts.headers, body }
    }

    async fn get(&self, path: &str) -> Reply {
        self.ask("GET", path, "").await
    }

    async fn post(&self, schematic: &str) -> Reply {
        self.ask("POST", "/schematics", schematic).await
    }

    /// Posts a schematic with one extension; its id.
    async fn with_extension(&self, name: &str) -> String {
        let text = format!("customization: {{systemExtensions: {{officialExtensions: [{name}]}}}}");
        let posted = self.post(&text).await;
        assert_eq!(posted.status, 201, "an unknown name is found out when an image is asked for");
        posted.json()["id"].as_str().unwrap().to_owned()
    }

    async fn seconds(&self, method: &str, path: &str) -> (u16, i64) {
        let before = self.clock.now();
        let reply = self.ask(method, path, "").await;
        (reply.status, self.clock.now().duration_since(before).as_secs())
    }
}

#[tokio::test(start_paused = true)]
async fn a_schematic_is_kept_under_the_hash_of_its_canonical_text() {
    let client = Client::new();
    let missing = client.get(&format!("/schematics/{AGENT}")).await;
    assert_eq!(missing.refusal(), (404, "schematic not found\n"));
    let text =
        r#"{"customization": {"systemExtensions": {"officialExtensions": ["siderolabs/qemu-guest-agent"]}}}"#;
    let canonical = "customization:\n    systemExtensions:\n        officialExtensions:\n            - siderolabs/qemu-guest-agent\n";
    for _ in 0..2 {
        let posted = client.post(text).await;
        assert_eq!((posted.status, posted.header(header::CONTENT_TYPE)), (201, "application/json"));
        assert_eq!(posted.json(), json!({"id": AGENT, "schematic": canonical}));
    }
    let kept = client.get(&format!("/schematics/{AGENT}")).await;
    assert_eq!((kept.status, kept.header(header::CONTENT_TYPE)), (200, "application/yaml"));
    assert_eq!(kept.body, canonical);
    let order = |list: &str| format!("customization: {{extraKernelArgs: [{list}]}}");
    let (one, two) = (client.post(&order("a, b")).await.json(), client.post(&order("b, a")).await.json());
    assert_ne!(one["id"], two["id"], "the order of a list counts");
}

#[tokio::test(start_paused = true)]
async fn a_schematic_that_is_none_is_refused_with_a_reason() {
    let client = Client::new();
    assert_eq!(client.post("").await.refusal(), (400, "EOF\n"));
    let words = "yaml: construct errors: line 1: field something not found in type schematic.Schematic\n";
    assert_eq!(client.post("something:").await.refusal(), (400, words));
    for bad in ["customization: [", "customization: {meta: [{key: 256, value: x}]}", "- a\n"] {
        let reply = client.post(bad).await;
        assert_eq!(reply.status, 400, "{bad}");
        assert!(reply.body.starts_with("yaml: "), "{}", reply.body);
    }
}

/// Every file that a cluster can ask for, by both methods.
#[tokio::test(start_paused = true)]
async fn images_have_a_file_for_every_platform_architecture_and_boot() {
    let client = Client::new();
    client.post("{}").await;
    for platform in ["nocloud", "metal"] {
        for arch in ["amd64", "arm64"] {
            for secure in ["", "-secureboot"] {
                for ending in [".qcow2", ".raw", ".raw.xz", ".raw.zst", ".iso"] {
                    let file = format!("{platform}-{arch}{secure}{ending}");
                    let path = format!("/image/{EMPTY}/v1.13.9/{file}");
                    let head = client.ask("HEAD", &path, "").await;
                    assert_eq!((head.status, head.body.as_str()), (200, ""), "{file}");
                    let length: u64 = head.header(header::CONTENT_LENGTH).parse().unwrap();
                    assert!(length > 100 << 20, "{file}: {length}");
                    let named = format!("attachment; filename=\"{file}\"");
                    assert_eq!(head.header(header::CONTENT_DISPOSITION), named);
                    assert_eq!(client.get(&path).await.status, 302, "{file}");
                }
            }
        }
    }
    let path = format!("/image/{EMPTY}/v1.13.9/nocloud-amd64.qcow2");
    let head = client.ask("HEAD", &format!("{path}?filename=mine.qcow2"), "").await;
    assert_eq!(head.header(header::CONTENT_DISPOSITION), "attachment; filename=\"mine.qcow2\"");
    assert_eq!(head.header(header::CONTENT_TYPE), "application/x-qemu-disk");
}

#[tokio::test(start_paused = true)]
async fn a_get_is_sent_on_to_where_images_are_kept() {
    let client = Client::new();
    client.post("{}").await;
    let sent = client.get(&format!("/image/{EMPTY}/v1.13.9/nocloud-amd64.qcow2")).await;
    let place = sent.header(header::LOCATION).to_owned();
    assert_eq!(sent.status, 302);
    assert_eq!(sent.body, format!("<a href=\"{place}\">Found</a>.\n\n"));
    let path = place.strip_prefix("https://factory.talos.dev").expect("a whole address");
    assert_eq!(client.get(path).await.status, 200);
}

/// The first who asks waits without a byte, the next ones wait for the rest, and afterwards no one waits.
#[tokio::test(start_paused = true)]
async fn the_first_build_is_slow_and_the_next_answer_fast() {
    let client = Client::new();
    client.post("{}").await;
    let path = format!("/image/{EMPTY}/v1.13.9/nocloud-amd64.qcow2");
    let second = async {
        client.clock.sleep(Duration::from_secs(15)).await;
        client.seconds("GET", &path).await
    };
    let (first, second) = tokio::join!(client.seconds("HEAD", &path), second);
    assert_eq!((first, second), ((200, 20), (302, 5)));
    assert_eq!(client.seconds("HEAD", &path).await, (200, 0));
    assert_eq!(
        client.seconds("GET", &path.replace("/v1", "/1")).await,
        (302, 0),
        "the same without its letter"
    );
    assert_eq!(client.seconds("HEAD", &path.replace("qcow2", "raw")).await, (200, 20), "another file");
}

#[tokio::test(start_paused = true)]
async fn images_are_refused_in_the_order_in_which_faults_are_found() {
    let client = Client::new();
    client.post("{}").await;
    let agent = client.with_extension("siderolabs/qemu-guest-agent").await;
    let nope = client.with_extension("siderolabs/nope").await;
    let newer = client.with_extension("siderolabs/uhid").await;
    let other = "0".repeat(64);
    for (path, status, words) in [
        // Checksums and signatures are for those who pay, whatever else is wrong.
        (
            format!("/image/{other}/x/y.sha256"),
            402,
            "enterprise not enabled: checksum endpoint is not available".to_owned(),
        ),
        (
            format!("/image/{EMPTY}/v1.13.9/nocloud-amd64.qcow2.sha512"),
            402,
            "enterprise not enabled: checksum endpoint is not available".to_owned(),
        ),
        (
            format!("/image/{EMPTY}/v1.13.9/nocloud-amd64.qcow2.sigstore.json"),
            402,
            "enterprise signing is not enabled: signature endpoint is not available".to_owned(),
        ),
        (format!("/image/{other}/x/y"), 404, format!("schematic ID \"{other}\" not found")),
        ("/image/abc/v1.13.9/nocloud-amd64.qcow2".to_owned(), 404, "schematic ID \"abc\" not found".to_owned()),
        (format!("/image/{EMPTY}/latest/y"), 500, "internal server error".to_owned()),
        (
            format!("/image/{EMPTY}/v1.99.0/nocloud-amd64.ssd"),
            400,
            "error parsing profile from path: invalid profile path: \"nocloud-amd64.ssd\"".to_owned(),
        ),
        (
            format!("/image/{EMPTY}/v1.13.9/nocloud-sparc.qcow2"),
            400,
            "error parsing profile from path: invalid architecture: \"sparc\"".to_owned(),
        ),
        (
            format!("/image/{nope}/v1.13.9/nocloud-amd64.qcow2"),
            400,
            "error enhancing profile from schematic: official extension \"siderolabs/nope\" is not available for Talos version v1.13.9".to_owned(),
        ),
        (
            format!("/image/{newer}/v1.12.11/nocloud-amd64.qcow2"),
            400,
            "error enhancing profile from schematic: official extension \"siderolabs/uhid\" is not available for Talos version v1.12.11".to_owned(),
        ),
        (
            format!("/image/{agent}/v1.99.0/nocloud-amd64.qcow2"),
            404,
            "error enhancing profile from schematic: error getting official extensions: version 1.99.0 is not available".to_owned(),
        ),
        (
            format!("/image/{EMPTY}/v1.99.0/nocloud-amd64.qcow2"),
            404,
            "failed to get kernel: version 1.99.0 is not available".to_owned(),
        ),
        (format!("/image/{EMPTY}/v1.13.9/amiga-amd64.qcow2"), 500, "internal server error".to_owned()),
    ] {
        let before = client.clock.now();
        assert_eq!(client.get(&path).await.refusal(), (status, format!("{words}\n").as_str()), "{path}");
        let head = client.ask("HEAD", &path, "").await;
        assert_eq!((head.status, head.body.as_str()), (status, ""), "{path}");
        assert_eq!(client.clock.now(), before, "no one waits for a refusal");
    }
}

#[tokio::test(start_paused = true)]
async fn releases_and_what_goes_with_them_are_listed() {
    let client = Client::new();
    let versions = client.get("/versions").await;
    assert_eq!((versions.status, versions.header(header::CONTENT_TYPE)), (200, "text/plain; charset=utf-8"));
    assert!(versions.json().as_array().unwrap().contains(&json!("v1.13.9")), "{}", versions.body);
    assert_eq!(client.get("/versions?broken=true").await.json(), json!([]));
    for version in ["v1.13.9", "1.13.9"] {
        let extensions = client.get(&format!("/version/{version}/extensions/official")).await.json();
        let agent =
            extensions.as_array().unwrap().iter().find(|e| e["name"] == "siderolabs/qemu-guest-agent");
        let agent = agent.unwrap().as_object().unwrap();
        assert_eq!(agent.keys().collect::<Vec<_>>().len(), 5);
        for key in ["name", "ref", "digest", "author", "description"] {
            assert!(agent[key].as_str().is_some_and(|text| !text.is_empty()), "{key}");
        }
        assert!(agent["ref"].as_str().unwrap().starts_with("ghcr.io/siderolabs/qemu-guest-agent:"));
    }
    assert_eq!(client.get("/version/v1.13.9/overlays/official").await.json(), json!([]));
    for what in ["extensions", "overlays"] {
        let unknown = client.get(&format!("/version/v1.99.0/{what}/official")).await;
        assert_eq!(unknown.refusal(), (404, "version 1.99.0 is not available\n"));
        let wrong = client.get(&format!("/version/newest/{what}/official")).await;
        assert_eq!(wrong.refusal(), (500, "internal server error\n"));
    }
}

#[tokio::test(start_paused = true)]
async fn paths_and_methods_that_are_not_there() {
    let client = Client::new();
    assert_eq!(client.get("/nope").await.refusal(), (404, "404 page not found\n"));
    assert_eq!(client.get("/image/x/y").await.refusal(), (404, "404 page not found\n"));
    for (method, path, allowed) in [
        ("GET", "/schematics", "POST, OPTIONS"),
        ("HEAD", "/versions", "GET, OPTIONS"),
        ("DELETE", "/image/a/b/c", "GET, HEAD, OPTIONS"),
    ] {
        let reply = client.ask(method, path, "").await;
        assert_eq!((reply.status, reply.header(header::ALLOW)), (405, allowed), "{method} {path}");
    }
    let slash = client.get("/versions/").await;
    assert_eq!((slash.status, slash.header(header::LOCATION)), (301, "/versions"));
    assert_eq!(client.get("/healthz").await.status, 200);
}
