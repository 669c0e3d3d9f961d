//! The factory as HTTP: its routes, and what each answers. Refusals are plain text; a path with another method is told which
//! it takes, one with a slash too many is sent to the one without.

use std::sync::Arc;
use std::time::Duration;

use ambient::Stream;
use bytes::Bytes;
use http::header::{self, HeaderName, HeaderValue};
use http::request::Parts;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;

use crate::calls::{Call, Service};
use crate::factory::{NoAsset, extensions, version};
use crate::https::{Answer, Cut};
use crate::shared::Shared;

const IDLE: Duration = Duration::from_secs(120);
/// The folder that a GET of an image is sent on to.
const STORE: &str = "/store";

/// A place of the factory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Route<'a> {
    Schematics,
    Schematic(&'a str),
    Versions,
    Extensions(&'a str),
    Overlays(&'a str),
    Image,
    Store(&'a str),
    Probe,
}

impl<'a> Route<'a> {
    fn of(path: &'a str) -> Option<Self> {
        let segments: Vec<&str> = path.strip_prefix('/')?.split('/').collect();
        if segments.iter().any(|segment| segment.is_empty()) {
            return None;
        }
        match segments.as_slice() {
            ["schematics"] => Some(Self::Schematics),
            ["schematics", id] => Some(Self::Schematic(id)),
            ["versions"] => Some(Self::Versions),
            ["version", version, "extensions", "official"] => Some(Self::Extensions(version)),
            ["version", version, "overlays", "official"] => Some(Self::Overlays(version)),
            ["image", _, _, _] => Some(Self::Image),
            ["store", ..] => path.strip_prefix(STORE).map(Self::Store),
            ["healthz" | "readyz"] => Some(Self::Probe),
            _ => None,
        }
    }

    fn methods(self) -> &'static [Method] {
        match self {
            Self::Schematics => &[Method::POST],
            Self::Schematic(_) | Self::Versions | Self::Extensions(_) | Self::Overlays(_) => &[Method::GET],
            Self::Image | Self::Store(_) | Self::Probe => &[Method::GET, Method::HEAD],
        }
    }
}

/// Serves one connection.
pub(crate) async fn serve(shared: Arc<Shared>, stream: Stream, origin: Arc<str>) {
    let Ok(tls) = shared.peek(|world| world.factory.server.server_config("the factory")) else { return };
    let clock = shared.clock().clone();
    let handle = |request: Request<Incoming>| {
        let shared = shared.clone();
        let call = Call::new(Service::Factory, request.method().as_str(), request.uri(), &origin);
        async move { shared.around(call, answer(shared.clone(), request)).await }
    };
    crate::https::serve(clock, tls, stream, IDLE, handle).await;
}

async fn answer(shared: Arc<Shared>, request: Request<Incoming>) -> Result<Answer, Cut> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.map(|body| body.to_bytes()).map_err(|_| Cut)?;
    let path = parts.uri.path();
    let Some(route) = Route::of(path) else {
        let shorter = path.strip_suffix('/').filter(|shorter| Route::of(shorter).is_some());
        return Ok(match shorter {
            Some(shorter) if parts.method == Method::GET => {
                elsewhere(StatusCode::MOVED_PERMANENTLY, "Moved Permanently", shorter)
            }
            _ => plain(StatusCode::NOT_FOUND, "404 page not found"),
        });
    };
    if !route.methods().contains(&parts.method) {
        let allowed: Vec<&str> = route.methods().iter().map(Method::as_str).chain(["OPTIONS"]).collect();
        let refusal = plain(StatusCode::METHOD_NOT_ALLOWED, "Method Not Allowed");
        return Ok(with(refusal, header::ALLOW, &allowed.join(", ")));
    }
    Ok(match route {
        Route::Schematics => {
            let text = String::from_utf8_lossy(&body);
            match shared.with(|world, _| world.factory.post(&text)) {
                Ok((id, text)) => {
                    let told = serde_json::json!({ "id": id, "schematic": text });
                    typed(StatusCode::CREATED, "application/json", format!("{told}\n"))
                }
                Err(problem) => plain(StatusCode::BAD_REQUEST, &problem),
            }
        }
        Route::Schematic(id) => match shared.read(|world, _| world.factory.schematics.get(id).cloned()) {
            Some(text) => typed(StatusCode::OK, "application/yaml", text),
            None => plain(StatusCode::NOT_FOUND, "schematic not found"),
        },
        Route::Versions => {
            let broken =
                parts.uri.query().is_some_and(|query| query.split('&').any(|part| part == "broken=true"));
            let known = shared.read(|world, _| world.factory.versions.clone());
            list(&serde_json::json!(if broken { vec![] } else { known }))
        }
        Route::Extensions(version) => of_release(&shared, version, extensions::list),
        Route::Overlays(version) => of_release(&shared, version, |_| serde_json::json!([])),
        Route::Image => image(&shared, &parts).await,
        Route::Store(path) => stored(&shared, path),
        Route::Probe => typed(StatusCode::OK, "text/plain; charset=utf-8", String::new()),
    })
}

/// A list that depends on the release.
fn of_release(shared: &Shared, asked: &str, what: impl Fn(&str) -> serde_json::Value) -> Answer {
    let Some(talos) = version(asked) else { return refusal(&NoAsset::internal()) };
    match shared.read(|world, _| world.factory.available(&talos)) {
        Ok(()) => list(&what(&talos)),
        Err(fault) => refusal(&fault),
    }
}

/// HEAD announces the true size, GET leads to where the image is kept; both when it is built.
async fn image(shared: &Shared, parts: &Parts) -> Answer {
    let path = parts.uri.path();
    let found = shared.with(|world, now| {
        let asset = world.factory.asset(path)?;
        let wait = world.factory.still_builds(&asset, now);
        Ok::<_, NoAsset>((asset, wait))
    });
    let (asset, wait) = match found {
        Ok(found) => found,
        Err(fault) => return refusal(&fault),
    };
    shared.clock().sleep(wait).await;
    if parts.method == Method::GET {
        let host = parts.headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
        return elsewhere(StatusCode::FOUND, "Found", &format!("https://{host}{STORE}{path}"));
    }
    let file = path.rsplit('/').next().unwrap_or_default();
    let wish =
        parts.uri.query().unwrap_or_default().split('&').find_map(|part| part.strip_prefix("filename="));
    let name = wish.filter(|name| !name.is_empty()).unwrap_or(file);
    let answer = typed(StatusCode::OK, asset.mime, String::new());
    let answer = with(answer, header::CONTENT_DISPOSITION, &format!("attachment; filename=\"{name}\""));
    with(answer, header::CONTENT_LENGTH, &asset.bytes.to_string())
}

/// A few bytes that say what they stand for.
fn stored(shared: &Shared, path: &str) -> Answer {
    match shared.read(|world, _| world.factory.asset(path)) {
        Ok(asset) => {
            typed(StatusCode::OK, asset.mime, format!("a lab image of {} bytes: {path}\n", asset.bytes))
        }
        Err(fault) => refusal(&fault),
    }
}

fn refusal(fault: &NoAsset) -> Answer {
    plain(fault.status, &fault.words)
}

/// Sends a reader on.
fn elsewhere(status: StatusCode, words: &str, place: &str) -> Answer {
    let body = format!("<a href=\"{place}\">{words}</a>.\n\n");
    with(typed(status, "text/html; charset=utf-8", body), header::LOCATION, place)
}

/// A list, whose kind the factory does not say: what it is has to be guessed from its text.
fn list(value: &serde_json::Value) -> Answer {
    typed(StatusCode::OK, "text/plain; charset=utf-8", format!("{value}\n"))
}

fn plain(status: StatusCode, words: &str) -> Answer {
    typed(status, "text/plain; charset=utf-8", format!("{words}\n"))
}

fn typed(status: StatusCode, kind: &'static str, body: String) -> Answer {
    let mut answer = Response::new(Full::new(Bytes::from(body)));
    *answer.status_mut() = status;
    answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    answer
}

fn with(mut answer: Answer, name: HeaderName, value: &str) -> Answer {
    if let Ok(value) = HeaderValue::from_str(value) {
        answer.headers_mut().insert(name, value);
    }
    answer
}
