//! The Image Factory: schematics by the hash of their canonical text, and images of them.
//!
//! A schematic must have been posted before its images exist. The first who asks for an image waits until it is built; a
//! GET is then sent on to where images are kept, a HEAD is not. Bodies of images are tiny; their announced sizes are those
//! that a hypervisor reckons with.

mod extensions;
mod schematic;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use ambient::Stream;
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::faults::Service;
use crate::https::{Answer, Cut};
use crate::keys::Identity;
use crate::machine::BootImage;
use crate::shared::Shared;
use crate::{LabConfig, LabError};
use schematic::Schematic;

/// The raw disk of a Talos image.
const DISK_BYTES: u64 = 1246 << 20;
/// What its qcow2 file takes.
const QCOW2_BYTES: u64 = 243 << 20;
const IDLE: Duration = Duration::from_secs(120);
/// How long an image takes to be built.
const BUILD: Duration = Duration::from_secs(20);
/// The folder that a GET of an image is sent on to.
const STORE: &str = "store";

/// The factory's memory.
#[derive(Debug, Serialize, Deserialize)]
pub struct Factory {
    /// The names it answers to. The first that was configured is the one it is served under.
    hosts: Vec<String>,
    /// Canonical text by id.
    schematics: BTreeMap<String, String>,
    versions: Vec<String>,
    /// When each image that somebody asked for is built.
    #[serde(default)]
    built: BTreeMap<String, Timestamp>,
    authority: Identity,
    server: Identity,
}

/// An image that can be fetched.
pub(crate) struct Asset {
    /// The size of the file.
    pub(crate) bytes: u64,
    /// The size of the disk in it.
    pub(crate) disk_bytes: u64,
    pub(crate) image: Option<BootImage>,
}

impl Factory {
    pub(crate) fn new(config: &LabConfig) -> Result<Self, LabError> {
        let authority = Identity::authority("Lab Image Factory")?;
        let server = authority.issue(&names(std::slice::from_ref(&config.factory_host)))?;
        let mut factory = Self {
            hosts: vec![config.factory_host.clone()],
            schematics: BTreeMap::new(),
            versions: config.talos_versions.clone(),
            built: BTreeMap::new(),
            authority,
            server,
        };
        factory.know(&config.schematics)?;
        Ok(factory)
    }

    /// Takes schematics that were posted before.
    fn know(&mut self, schematics: &[String]) -> Result<(), LabError> {
        schematics
            .iter()
            .try_for_each(|text| self.post(text).map(drop).map_err(|why| LabError::Schematic { why }))
    }

    /// Takes on a name and versions that are new in the configuration.
    pub(crate) fn add_missing(&mut self, config: &LabConfig) -> Result<(), LabError> {
        if !self.hosts.contains(&config.factory_host) {
            self.hosts.push(config.factory_host.clone());
            self.server = self.authority.issue(&names(&self.hosts))?;
        }
        let new = config.talos_versions.iter().filter(|version| !self.versions.contains(version));
        let new: Vec<String> = new.cloned().collect();
        self.versions.extend(new);
        self.know(&config.schematics)
    }

    /// The name it is served under.
    pub(crate) fn host(&self) -> &str {
        self.hosts.first().map_or("", String::as_str)
    }

    pub(crate) fn authority_pem(&self) -> &str {
        &self.authority.certificate_pem
    }

    /// Whether a host of that name is this factory.
    pub(crate) fn is_called(&self, host: &str) -> bool {
        self.hosts.iter().any(|name| name == host)
    }

    /// Whether a hypervisor that asks for this host reaches the factory: on loopback it goes by the address too.
    pub(crate) fn is_reached_at(&self, host: &str) -> bool {
        let loopback = || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
        self.is_called(host) || host == "localhost" || loopback()
    }

    /// Whether the schematic has the extension.
    pub(crate) fn has_extension(&self, schematic: &str, name: &str) -> bool {
        self.extensions_of(schematic).iter().any(|known| known == name)
    }

    /// The extensions of a schematic.
    pub(crate) fn extensions_of(&self, schematic: &str) -> Vec<String> {
        let text = self.schematics.get(schematic).map_or("", String::as_str);
        let after = text.lines().skip_while(|line| line.trim() != "officialExtensions:").skip(1);
        after.map_while(|line| line.trim_start().strip_prefix("- ")).map(str::to_owned).collect()
    }

    /// Whether the factory builds images of this version.
    pub(crate) fn has_version(&self, version: &str) -> bool {
        self.versions.iter().any(|known| known == version)
    }

    /// Whether the schematic was posted.
    pub(crate) fn has_schematic(&self, schematic: &str) -> bool {
        self.schematics.contains_key(schematic)
    }

    /// The image at `/image/<schematic>/<version>/<file>`; else the status line of the refusal.
    pub(crate) fn asset(&self, path: &str) -> Result<Asset, String> {
        let not_found = || "404 Not Found".to_owned();
        let mut segments = path.trim_start_matches('/').split('/');
        let (Some("image"), Some(schematic), Some(version), Some(file), None) =
            (segments.next(), segments.next(), segments.next(), segments.next(), segments.next())
        else {
            return Err(not_found());
        };
        if !version.starts_with('v') {
            return Err("500 Internal Server Error".to_owned());
        }
        if [".sha256", ".sha512", ".sigstore.json"].iter().any(|ending| file.ends_with(ending)) {
            return Err("402 Payment Required".to_owned());
        }
        if !self.schematics.contains_key(schematic) || !self.versions.iter().any(|known| known == version) {
            return Err(not_found());
        }
        let extensions = self.extensions_of(schematic);
        if !extensions.iter().all(|name| extensions::is_official(name)) {
            return Err("400 Bad Request".to_owned());
        }
        let (stem, ending) = file.split_once('.').ok_or_else(not_found)?;
        let stem = stem.strip_suffix("-secureboot").unwrap_or(stem);
        let (platform, arch) = stem.split_once('-').ok_or_else(not_found)?;
        if !matches!(platform, "nocloud" | "metal") || !matches!(arch, "amd64" | "arm64") {
            return Err("400 Bad Request".to_owned());
        }
        let image = BootImage {
            talos: version.to_owned(),
            schematic: schematic.to_owned(),
            platform: platform.to_owned(),
            arch: arch.to_owned(),
            extensions,
        };
        let (bytes, bootable) = match ending {
            "qcow2" => (QCOW2_BYTES, true),
            "raw" => (DISK_BYTES, true),
            "iso" => (QCOW2_BYTES + (60 << 20), false),
            "raw.xz" | "raw.zst" | "raw.gz" | "qcow2.xz" | "qcow2.zst" => (QCOW2_BYTES - (30 << 20), false),
            _ => return Err("400 Bad Request".to_owned()),
        };
        Ok(Asset {
            bytes,
            disk_bytes: if bootable { DISK_BYTES } else { bytes },
            image: bootable.then_some(image),
        })
    }

    /// How long the image at a path is still being built. The first who asks begins it.
    pub(crate) fn still_builds(&mut self, path: &str, now: Timestamp) -> Duration {
        let ready =
            *self.built.entry(path.to_owned()).or_insert_with(|| now.saturating_add(BUILD).unwrap_or(now));
        Duration::try_from(ready.duration_since(now)).unwrap_or(Duration::ZERO)
    }

    fn post(&mut self, body: &str) -> Result<String, String> {
        let text = Schematic::read(body)?.canonical();
        let id = Schematic::id(&text);
        self.schematics.insert(id.clone(), text);
        Ok(id)
    }
}

/// What its certificate is for.
fn names(hosts: &[String]) -> Vec<String> {
    hosts.iter().cloned().chain(["localhost".to_owned(), "127.0.0.1".to_owned()]).collect()
}

/// Serves one connection.
pub(crate) async fn serve(shared: Arc<Shared>, stream: Stream) {
    let Ok(tls) = shared.peek(|world| world.factory.server.server_config("the factory")) else { return };
    let clock = shared.clock().clone();
    let handle = |request: Request<Incoming>| {
        let shared = shared.clone();
        async move {
            let (method, path) = (request.method().to_string(), request.uri().path().to_owned());
            shared.hooks().around(Service::Factory, &method, &path, answer(shared.clone(), request)).await
        }
    };
    crate::https::serve(clock, tls, stream, IDLE, handle).await;
}

async fn answer(shared: Arc<Shared>, request: Request<Incoming>) -> Result<Answer, Cut> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.map(|body| body.to_bytes()).map_err(|_| Cut)?;
    let path = parts.uri.path();
    let segments: Vec<&str> = path.trim_matches('/').split('/').collect();
    let reading = matches!(parts.method, Method::GET | Method::HEAD);
    let answer = match segments.as_slice() {
        ["schematics"] if parts.method == Method::POST => {
            let text = String::from_utf8_lossy(&body);
            match shared.with(|world, _| world.factory.post(&text)) {
                Ok(id) => json(StatusCode::CREATED, &serde_json::json!({ "id": id })),
                Err(problem) => plain(StatusCode::BAD_REQUEST, problem),
            }
        }
        ["schematics", id] if reading => {
            match shared.read(|world, _| world.factory.schematics.get(*id).cloned()) {
                Some(text) => plain(StatusCode::OK, text),
                None => plain(StatusCode::NOT_FOUND, format!("schematic ID \"{id}\" not found\n")),
            }
        }
        ["versions"] if reading => {
            json(StatusCode::OK, &serde_json::json!(shared.read(|world, _| world.factory.versions.clone())))
        }
        ["version", version, what @ ("extensions" | "overlays"), "official"] if reading => {
            if !version.starts_with('v') {
                return Ok(plain(
                    StatusCode::INTERNAL_SERVER_ERROR,
                    "500 Internal Server Error\n".to_owned(),
                ));
            }
            match shared.read(|world, _| world.factory.has_version(version)) {
                true if *what == "extensions" => json(StatusCode::OK, &extensions::list(version)),
                true => json(StatusCode::OK, &serde_json::json!([])),
                false => plain(StatusCode::NOT_FOUND, format!("version {version} is not available\n")),
            }
        }
        ["image", ..] if reading => image(&shared, path, parts.method == Method::HEAD).await,
        [STORE, ..] if reading => stored(&shared, path.get(STORE.len() + 1..).unwrap_or_default()),
        ["healthz" | "readyz"] if reading => plain(StatusCode::OK, String::new()),
        _ => plain(StatusCode::NOT_FOUND, "404 page not found\n".to_owned()),
    };
    Ok(answer)
}

/// HEAD announces the true size, GET leads to where the image is kept; both when it is built.
async fn image(shared: &Shared, path: &str, head: bool) -> Answer {
    let found = shared.with(|world, now| {
        let asset = world.factory.asset(path)?;
        Ok::<_, String>((asset.bytes, world.factory.still_builds(path, now)))
    });
    let (bytes, wait) = match found {
        Ok(found) => found,
        Err(status) => return refusal(&status),
    };
    shared.clock().sleep(wait).await;
    let mut answer = plain(if head { StatusCode::OK } else { StatusCode::FOUND }, String::new());
    let headers = answer.headers_mut();
    if head {
        headers.insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/octet-stream"));
        headers.insert(header::CONTENT_LENGTH, bytes.into());
    } else if let Ok(place) = format!("/{STORE}{path}").parse() {
        headers.insert(header::LOCATION, place);
    }
    answer
}

/// A few bytes that say what they stand for.
fn stored(shared: &Shared, path: &str) -> Answer {
    match shared.read(|world, _| world.factory.asset(path)) {
        Ok(asset) => typed(
            StatusCode::OK,
            "application/octet-stream",
            format!("a lab image of {} bytes: {path}\n", asset.bytes),
        ),
        Err(status) => refusal(&status),
    }
}

/// A refusal by its status line.
fn refusal(status: &str) -> Answer {
    let code = status.get(..3).and_then(|code| StatusCode::from_bytes(code.as_bytes()).ok());
    plain(code.unwrap_or(StatusCode::NOT_FOUND), format!("{status}\n"))
}

fn json(status: StatusCode, value: &serde_json::Value) -> Answer {
    typed(status, "application/json", value.to_string())
}

fn plain(status: StatusCode, text: String) -> Answer {
    typed(status, "text/plain; charset=utf-8", text)
}

fn typed(status: StatusCode, kind: &'static str, body: String) -> Answer {
    let mut answer = Response::new(Full::new(Bytes::from(body)));
    *answer.status_mut() = status;
    answer.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(kind));
    answer
}
