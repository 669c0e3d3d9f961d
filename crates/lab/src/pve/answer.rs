//! Answers: the envelope, the reason phrase that carries the message, and the headers that the real server sends.

use bytes::Bytes;
use http::{HeaderValue, Method, Response, StatusCode, header};
use http_body_util::Full;
use hyper::ext::ReasonPhrase;
use serde_json::{Map, Value, json};

use crate::https::Answer;

/// What a successful call answers.
#[derive(Debug)]
pub(super) struct Data {
    content: Content,
    total: Option<usize>,
    changes: Option<String>,
}

#[derive(Debug)]
enum Content {
    Tree(Value),
    /// JSON, where a list may be so long that a tree of it would take longer than writing it.
    Text(String),
}

impl From<Value> for Data {
    fn from(value: Value) -> Self {
        Self { content: Content::Tree(value), total: None, changes: None }
    }
}

impl Data {
    /// A list of which this is a part.
    pub(super) fn of_total(value: Value, total: usize) -> Self {
        Self { total: Some(total), ..Self::from(value) }
    }

    /// A list with what waits to become true.
    pub(super) fn with_changes(value: Value, changes: Option<String>) -> Self {
        Self { changes, ..Self::from(value) }
    }

    /// A long list, each row as JSON.
    pub(super) fn of_rows(rows: &[String]) -> Self {
        let content = Content::Text(format!("[{}]", rows.join(",")));
        Self { content, total: None, changes: None }
    }

    /// The rows, to change some of them.
    pub(super) fn rows_mut(&mut self) -> impl Iterator<Item = &mut Value> {
        if let Content::Text(text) = &self.content {
            self.content = Content::Tree(serde_json::from_str(text).unwrap_or_default());
        }
        let rows = match &mut self.content {
            Content::Tree(value) => value.as_array_mut(),
            Content::Text(_) => None,
        };
        rows.into_iter().flatten()
    }
}

/// What a failed call answers.
#[derive(Debug)]
pub(super) struct Failure {
    status: u16,
    message: String,
    errors: Vec<(String, String)>,
    body: Body,
}

#[derive(Debug, PartialEq, Eq)]
enum Body {
    Json,
    Plain,
    Empty,
}

impl Failure {
    /// The usual kind: the message in the reason phrase and in the body.
    pub(super) fn of(status: u16, message: impl Into<String>) -> Self {
        Self { status, message: format!("{}\n", message.into()), errors: Vec::new(), body: Body::Json }
    }

    /// Wrong parameters.
    pub(super) fn parameters(errors: Vec<(String, String)>) -> Self {
        Self { errors, ..Self::of(400, "Parameter verification failed.") }
    }

    /// No such path, or not with this method.
    pub(super) fn not_implemented(method: &Method, path: &str) -> Self {
        let message = format!("Method '{method} {path}' not implemented");
        Self { status: 501, message, errors: Vec::new(), body: Body::Json }
    }

    /// The message in the reason phrase alone.
    pub(super) fn empty(status: u16, message: impl Into<String>) -> Self {
        Self { status, message: message.into(), errors: Vec::new(), body: Body::Empty }
    }

    /// The message as plain text without a type.
    pub(super) fn plain(status: u16, message: impl Into<String>) -> Self {
        Self { status, message: message.into(), errors: Vec::new(), body: Body::Plain }
    }
}

#[cfg(test)]
impl Failure {
    /// Status and words, or status and wrong parameters.
    pub(super) fn in_one_line(&self) -> String {
        let errors: Vec<String> = self.errors.iter().map(|(key, text)| format!("{key}: {text}")).collect();
        let words = if errors.is_empty() { self.message.trim_end().to_owned() } else { errors.join(" ") };
        format!("{} {words}", self.status)
    }
}

pub(super) fn data(data: Data, extjs: bool) -> Answer {
    let mut body = match data.content {
        Content::Tree(value) => format!("{{\"data\":{value}"),
        Content::Text(text) => format!("{{\"data\":{text}"),
    };
    let total = data.total.map(|total| ("total", json!(total)));
    let changes = data.changes.map(|changes| ("changes", json!(changes)));
    let success = extjs.then(|| ("success", json!(1)));
    for (name, value) in [total, changes, success].into_iter().flatten() {
        body.push_str(&format!(",\"{name}\":{value}"));
    }
    body.push('}');
    envelope(StatusCode::OK, "OK", Some(body))
}

pub(super) fn failure(failure: &Failure, extjs: bool) -> Answer {
    let errors: Map<String, Value> =
        failure.errors.iter().map(|(key, text)| (key.clone(), json!(text))).collect();
    let mut body = json!({"data": null, "message": failure.message});
    if !errors.is_empty() {
        body["errors"] = Value::Object(errors);
    }
    if extjs && failure.body == Body::Json {
        body["success"] = json!(0);
        body["status"] = if failure.status == 400 { json!("400") } else { json!(failure.status) };
        return envelope(StatusCode::OK, "OK", Some(body.to_string()));
    }
    let status = StatusCode::from_u16(failure.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let reason = failure.message.lines().next().unwrap_or_default();
    match failure.body {
        Body::Json => envelope(status, reason, Some(body.to_string())),
        Body::Empty => envelope(status, reason, None),
        Body::Plain => {
            let mut answer = envelope(status, reason, None);
            *answer.body_mut() = Full::new(Bytes::from(failure.message.clone()));
            answer
        }
    }
}

/// A failure that someone ordered.
pub(super) fn failed(status: u16, text: &str) -> Answer {
    // A login that failed is told in the body as well; every other refusal of a caller has none.
    let bare = status >= 590 || (status == 401 && text != "authentication failure");
    let ordered = if bare { Failure::empty(status, text) } else { Failure::of(status, text) };
    failure(&ordered, false)
}

fn envelope(status: StatusCode, reason: &str, body: Option<String>) -> Answer {
    let has_body = body.is_some();
    let mut answer = Response::new(Full::new(Bytes::from(body.unwrap_or_default())));
    *answer.status_mut() = status;
    if let Ok(reason) = ReasonPhrase::try_from(reason.as_bytes().to_vec()) {
        answer.extensions_mut().insert(reason);
    }
    let headers = answer.headers_mut();
    headers.insert(header::SERVER, HeaderValue::from_static("pve-api-daemon/3.0"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("max-age=0"));
    headers.insert(header::PRAGMA, HeaderValue::from_static("no-cache"));
    if has_body {
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json;charset=UTF-8"));
    }
    if status.as_u16() >= 400 {
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    answer
}
