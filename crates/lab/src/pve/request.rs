//! A request taken apart: address, parameters from query and body with the decoder's oddities, and their check.

use std::collections::BTreeMap;

use http::{HeaderMap, Method, Request, header};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;

use super::answer::Failure;
use super::routes::Route;
use crate::https::Cut;
use crate::hypervisor::options;
use crate::schema::{Kind, MISSING, UNKNOWN};

/// No request but an upload may be larger.
const MAX_BODY: usize = 512 * 1024;

/// A request whose parts were read.
pub(super) struct Plain {
    pub(super) method: Method,
    /// Below `/api2/json`, without doubled or trailing slashes, still encoded.
    pub(super) path: String,
    pub(super) headers: HeaderMap,
    pub(super) params: Params,
    /// The caller asked for the other envelope, in which every answer is a success.
    pub(super) extjs: bool,
}

/// A checked request for an endpoint.
pub(super) struct Call {
    /// The node that answers.
    pub(super) node: String,
    /// The node that was called.
    pub(super) local: String,
    pub(super) caller: String,
    pub(super) params: Params,
}

impl Call {
    pub(super) fn text(&self, name: &str) -> &str {
        self.params.one(name).unwrap_or_default()
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.params.one(name)
    }

    pub(super) fn number(&self, name: &str) -> Option<u64> {
        self.get(name).and_then(|text| text.parse().ok())
    }

    pub(super) fn flag(&self, name: &str) -> bool {
        self.get(name) == Some("1")
    }

    pub(super) fn vmid(&self) -> u32 {
        self.get("vmid").and_then(|text| text.parse().ok()).unwrap_or(0)
    }

    /// The parameters that are options of a VM's configuration.
    pub(super) fn options(&self) -> BTreeMap<String, String> {
        let all = self.params.0.iter().filter(|(name, _)| options::option(name).is_some());
        all.filter_map(|(name, value)| Some((name.clone(), value.one()?.to_owned()))).collect()
    }

    /// The items of a list parameter.
    pub(super) fn list(&self, name: &str) -> Vec<String> {
        let text = self.text(name);
        text.split([',', ';', ' ', '\0']).filter(|item| !item.is_empty()).map(str::to_owned).collect()
    }
}

/// A parameter's value.
#[derive(Debug, Clone)]
enum Param {
    One(String),
    /// Given more than once.
    Many,
    /// Named without a value.
    Absent,
}

impl Param {
    fn one(&self) -> Option<&str> {
        match self {
            Self::One(text) => Some(text),
            Self::Many | Self::Absent => None,
        }
    }
}

/// All parameters by name.
#[derive(Debug, Clone, Default)]
pub(super) struct Params(BTreeMap<String, Param>);

impl Params {
    pub(super) fn one(&self, name: &str) -> Option<&str> {
        self.0.get(name).and_then(Param::one)
    }

    pub(super) fn put(&mut self, name: String, value: String) {
        self.0.insert(name, Param::One(value));
    }

    /// Pairs are split at `&` and at `;`, and what follows a second `=` is lost.
    fn add_form(&mut self, text: &str) {
        let mut seen: BTreeMap<String, Param> = BTreeMap::new();
        for pair in text.split(['&', ';']).filter(|pair| !pair.is_empty()) {
            let mut halves = pair.split('=');
            let name = decode(halves.next().unwrap_or_default(), true);
            let value = halves.next().map_or(Param::Absent, |value| Param::One(decode(value, true)));
            seen.entry(name).and_modify(|old| *old = Param::Many).or_insert(value);
        }
        seen.remove("_dc");
        self.0.extend(seen);
    }

    fn add_json(&mut self, text: &str) -> Result<(), String> {
        let value: serde_json::Value = serde_json::from_str(text).map_err(|error| {
            format!(
                "malformed JSON string, at character offset {} at /usr/share/perl5/PVE/APIServer/AnyEvent.pm line 934.",
                error.column()
            )
        })?;
        for (name, value) in value.as_object().into_iter().flatten() {
            let param = match value {
                serde_json::Value::Null => Param::Absent,
                serde_json::Value::Array(items) => {
                    Param::One(items.iter().map(scalar).collect::<Vec<_>>().join(","))
                }
                other => Param::One(scalar(other)),
            };
            self.0.insert(name.clone(), param);
        }
        Ok(())
    }

    /// Checks every parameter against the route.
    pub(super) fn check(&self, route: &Route) -> Result<(), Vec<(String, String)>> {
        let mut errors = Vec::new();
        for (name, value) in &self.0 {
            let known = route.fields.iter().find(|field| field.name == name);
            let kind: Option<&Kind> = known.map(|field| &field.kind);
            let kind = kind.or_else(|| options::option(name).filter(|_| route.vm_options));
            let Some(kind) =
                kind.or_else(|| path_kind(name).filter(|_| route.path.contains(&format!("{{{name}}}"))))
            else {
                errors.push((name.clone(), UNKNOWN.to_owned()));
                continue;
            };
            match value {
                Param::One(text) => {
                    if let Err(problem) = kind.check(name, text) {
                        errors.push((name.clone(), problem));
                    }
                }
                Param::Many => {
                    errors.push((
                        name.clone(),
                        format!("type check ('{}') failed - got ARRAY", kind.type_name()),
                    ));
                }
                Param::Absent => {}
            }
            if let Some(needs) = known.and_then(|field| field.needs).filter(|needs| self.one(needs).is_none())
            {
                errors.push((needs.to_owned(), format!("missing property required by '{name}'")));
            }
        }
        for field in route.fields.iter().filter(|field| field.required && !self.0.contains_key(field.name)) {
            errors.push((field.name.to_owned(), MISSING.to_owned()));
        }
        if errors.is_empty() { Ok(()) } else { Err(errors) }
    }
}

/// What the parts of a path must be.
fn path_kind(name: &str) -> Option<&'static Kind> {
    match name {
        "vmid" => Some(&options::VM_ID),
        "node" | "storage" | "volume" | "upid" => Some(&crate::schema::TEXT),
        _ => None,
    }
}

fn scalar(value: &serde_json::Value) -> String {
    match value {
        serde_json::Value::String(text) => text.clone(),
        serde_json::Value::Bool(flag) => u8::from(*flag).to_string(),
        other => other.to_string(),
    }
}

/// Undoes percent-encoding; in forms `+` is a space.
pub(super) fn decode(text: &str, plus: bool) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = tail;
        match first {
            b'+' if plus => bytes.push(b' '),
            b'%' => match tail
                .get(..2)
                .and_then(|hex| u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok())
            {
                Some(byte) => {
                    bytes.push(byte);
                    rest = tail.get(2..).unwrap_or_default();
                }
                None => bytes.push(b'%'),
            },
            other => bytes.push(*other),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Reads the whole request; a failure is one of the HTTP layer, before any caller is looked at.
pub(super) async fn read(request: Request<Incoming>) -> Result<Result<Plain, Failure>, Cut> {
    let (parts, body) = request.into_parts();
    if !super::known(&parts.method) {
        return Ok(Err(Failure::empty(501, format!("method '{}' not available", parts.method))));
    }
    if parts.headers.contains_key(header::TRANSFER_ENCODING) {
        return Ok(Err(Failure::plain(501, "chunked transfer encoding not supported")));
    }
    let announced = parts
        .headers
        .get(header::CONTENT_LENGTH)
        .and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    if announced.unwrap_or(0) > 0 && matches!(parts.method, Method::GET | Method::DELETE) {
        return Ok(Err(Failure::plain(501, format!("Unexpected content for method '{}'", parts.method))));
    }
    if announced.unwrap_or(0) > MAX_BODY {
        return Ok(Err(Failure::plain(501, "for data too large")));
    }
    let body = Limited::new(body, MAX_BODY).collect().await.map_err(|_| Cut)?.to_bytes();
    let body = String::from_utf8_lossy(&body);

    let segments: Vec<&str> = parts.uri.path().split('/').filter(|segment| !segment.is_empty()).collect();
    let (extjs, rest) = match segments.as_slice() {
        ["api2", "json", rest @ ..] => (false, rest),
        ["api2", "extjs", rest @ ..] => (true, rest),
        _ => {
            let path = parts.uri.path();
            return Ok(Err(Failure::plain(500, format!("no such file '{path}'\n"))));
        }
    };
    let mut params = Params::default();
    let kind =
        parts.headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    match kind.split(';').next().unwrap_or_default().trim() {
        _ if body.is_empty() => {}
        "application/json" => {
            if let Err(problem) = params.add_json(&body) {
                return Ok(Err(Failure::plain(500, format!("{problem}\n"))));
            }
        }
        "" | "application/x-www-form-urlencoded" => params.add_form(&body),
        other => {
            return Ok(Err(Failure::plain(506, format!("upload 'Content-Type '{other}' not implemented"))));
        }
    }
    params.add_form(parts.uri.query().unwrap_or_default());
    let path = format!("/{}", rest.join("/"));
    Ok(Ok(Plain { method: parts.method, path, headers: parts.headers, params, extjs }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_lose_what_follows_a_second_equals_sign() {
        let mut params = Params::default();
        params.add_form("net1=virtio,bridge=vmbr0&boot=order%3Dscsi0;ide2&description=a+b%2Bc&x=1&x=2");
        assert_eq!(params.one("net1"), Some("virtio,bridge"));
        assert_eq!(params.one("boot"), Some("order=scsi0"));
        assert_eq!(params.one("description"), Some("a b+c"));
        assert!(matches!(params.0.get("ide2"), Some(Param::Absent)));
        assert!(matches!(params.0.get("x"), Some(Param::Many)));
    }

    #[test]
    fn json_takes_booleans_numbers_and_lists() {
        let mut params = Params::default();
        params.add_json(r#"{"onboot": true, "cores": 4, "tags": ["a", "b"], "name": "n"}"#).unwrap();
        assert_eq!(params.one("onboot"), Some("1"));
        assert_eq!(params.one("cores"), Some("4"));
        assert_eq!(params.one("tags"), Some("a,b"));
    }
}
