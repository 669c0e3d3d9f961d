//! A request taken apart: address, parameters from query and body with the decoder's oddities, and their check.

use std::collections::BTreeMap;

use http::{HeaderMap, Method, Request, header};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;

use super::answer::Failure;
use super::upload::{self, Upload};
use crate::ProxmoxVersion;
use crate::https::Cut;
use crate::hypervisor::options;
use crate::schema::{Kind, MISSING, Method as Rules, UNKNOWN, formats};

/// No request but an upload may be larger.
const MAX_BODY: usize = 512 * 1024;
/// The largest file that the lab takes. It is looked at, not kept.
const MAX_UPLOAD: usize = 4 << 30;

/// A request whose parts were read.
pub(super) struct Plain {
    pub(super) method: Method,
    /// Below `/api2/json`, without doubled or trailing slashes, still encoded.
    pub(super) path: String,
    pub(super) headers: HeaderMap,
    pub(super) params: Params,
    /// The caller asked for the other envelope, in which every answer is a success.
    pub(super) extjs: bool,
    /// The file that came with it.
    pub(super) upload: Option<Upload>,
}

#[cfg(test)]
impl Plain {
    /// A request with these parameters and nothing else.
    pub(super) fn of(method: &str, path: &str, authorization: &str, params: &[(&str, &str)]) -> Self {
        let mut all = Params::default();
        for (name, value) in params {
            all.put((*name).to_owned(), (*value).to_owned());
        }
        let headers = HeaderMap::from_iter([(header::AUTHORIZATION, authorization.parse().unwrap())]);
        let (method, path) = (method.parse().unwrap(), path.to_owned());
        Self { method, path, headers, params: all, extjs: false, upload: None }
    }
}

/// A checked request for an endpoint.
pub(super) struct Call {
    /// The node that answers.
    pub(super) node: String,
    /// The node that was called.
    pub(super) local: String,
    pub(super) caller: String,
    pub(super) method: String,
    /// The path as the table of calls has it, with names in braces.
    pub(super) path: &'static str,
    pub(super) params: Params,
    pub(super) upload: Option<Upload>,
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

    /// Parameters as they were given, those named here left out.
    pub(super) fn others(&self, without: &[&str]) -> BTreeMap<String, String> {
        let all = self.params.pairs().filter(|(name, _)| !without.contains(name));
        all.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    /// The items of a list parameter.
    pub(super) fn list(&self, name: &str) -> Vec<String> {
        formats::items(self.text(name)).into_iter().map(str::to_owned).collect()
    }
}

/// A parameter's value.
#[derive(Debug, Clone)]
enum Param {
    One(String),
    /// Given more than once, or as a list.
    Many(Vec<String>),
    /// Named without a value.
    Absent,
}

impl Param {
    /// Given once more.
    fn and(&mut self, more: Option<&str>) {
        let mut all: Vec<String> = match self {
            Self::One(text) => vec![text.clone()],
            Self::Many(all) => std::mem::take(all),
            Self::Absent => Vec::new(),
        };
        all.extend(more.map(str::to_owned));
        *self = Self::Many(all);
    }

    fn one(&self) -> Option<&str> {
        match self {
            Self::One(text) => Some(text),
            Self::Many(_) | Self::Absent => None,
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
            seen.entry(name).and_modify(|old| old.and(value.one())).or_insert(value);
        }
        seen.remove("_dc");
        self.0.extend(seen);
    }

    fn add_json(&mut self, text: &str) -> Result<(), String> {
        let value: serde_json::Value = serde_json::from_str(text).map_err(|_| json_problem(text))?;
        for (name, value) in value.as_object().into_iter().flatten() {
            let param = match value {
                serde_json::Value::Null => Param::Absent,
                serde_json::Value::Array(items) => Param::Many(items.iter().map(scalar).collect()),
                other => Param::One(scalar(other)),
            };
            self.0.insert(name.clone(), param);
        }
        Ok(())
    }

    /// Checks every parameter against what the call takes; lists become what the call wants of them.
    pub(super) fn check(
        &mut self,
        rules: &Rules,
        version: ProxmoxVersion,
    ) -> Result<(), Vec<(String, String)>> {
        let mut errors = Vec::new();
        for (name, value) in &mut self.0 {
            let Some(rule) = rules.rule(name).filter(|rule| rule.since <= version) else {
                if !rules.open {
                    errors.push((name.clone(), UNKNOWN.to_owned()));
                }
                continue;
            };
            if let Param::Many(items) = value
                && rule.joins_lists()
            {
                *value = Param::One(items.join(","));
            }
            // Where a list is wanted, one value is a list of one; what is wrong is told of each.
            if rule.kind == Kind::List {
                let items = match value {
                    Param::One(text) => std::slice::from_ref(text),
                    Param::Many(items) => items.as_slice(),
                    Param::Absent => &[],
                };
                for (index, item) in items.iter().enumerate() {
                    let place = format!("{name}[{index}]");
                    errors.extend(rule.check(&place, item).err().map(|problem| (place, problem)));
                }
                continue;
            }
            let result = match value {
                Param::One(text) => rule.check(name, text),
                Param::Many(_) => Err(format!("type check ('{}') failed - got ARRAY", rule.kind.name())),
                Param::Absent => Ok(()),
            };
            if let Err(problem) = result {
                errors.push((name.clone(), problem));
            }
        }
        for name in self.0.keys() {
            let needs = rules.rule(name).and_then(|rule| rule.requires.as_ref());
            if let Some(needs) = needs.filter(|needs| !self.0.contains_key(*needs)) {
                errors.push((needs.clone(), format!("missing property required by '{name}'")));
            }
        }
        let given = |name: &String| self.0.get(name).is_some_and(|value| !matches!(value, Param::Absent));
        let required = rules.params.iter().filter(|(name, rule)| !rule.optional && !given(name));
        errors.extend(required.map(|(name, _)| (name.clone(), MISSING.to_owned())));
        if errors.is_empty() { Ok(()) } else { Err(errors) }
    }

    /// The values of a parameter that may be given more than once.
    pub(super) fn all(&self, name: &str) -> Vec<String> {
        match self.0.get(name) {
            Some(Param::One(text)) => vec![text.clone()],
            Some(Param::Many(all)) => all.clone(),
            Some(Param::Absent) | None => Vec::new(),
        }
    }

    /// The names of all parameters that have a value.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        let given = self.0.iter().filter(|(_, value)| !matches!(value, Param::Absent));
        given.map(|(name, _)| name.as_str())
    }

    /// All parameters that have one value.
    pub(super) fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().filter_map(|(name, value)| Some((name.as_str(), value.one()?)))
    }
}

/// What is wrong with a text that is no JSON, in the words of the server's reader.
fn json_problem(text: &str) -> String {
    let mut stream = serde_json::Deserializer::from_str(text).into_iter::<serde_json::Value>();
    let column = match stream.next() {
        Some(Err(error)) => error.column(),
        _ => text.len(),
    };
    let at = if text.get(column..).is_none_or(str::is_empty) { text.len() } else { column.saturating_sub(1) };
    let before = text.get(..at).unwrap_or(text).trim_end();
    let rest = text.get(at..).filter(|rest| !rest.is_empty()).unwrap_or("(end of string)");
    let what = if before.ends_with(['{', ',']) {
        "'\"' expected"
    } else {
        "malformed JSON string, neither tag, array, object, number, string or atom"
    };
    format!(
        "{what}, at character offset {at} (before \"{rest}\") at /usr/share/perl5/PVE/APIServer/AnyEvent.pm line 934."
    )
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
    let kind =
        parts.headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let boundary = upload::boundary(kind).filter(|_| parts.uri.path().ends_with("/upload"));
    let most = if boundary.is_some() { MAX_UPLOAD } else { MAX_BODY };
    if announced.unwrap_or(0) > most {
        return Ok(Err(Failure::plain(501, "for data too large")));
    }
    let bytes = Limited::new(body, most).collect().await.map_err(|_| Cut)?.to_bytes();
    let body = if boundary.is_some() { "".into() } else { String::from_utf8_lossy(&bytes) };

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
    let mut file = None;
    if let Some(boundary) = boundary {
        let Some((fields, upload)) = upload::read(&bytes, boundary) else {
            return Ok(Err(Failure::empty(400, "Bad Request")));
        };
        for (name, value) in fields {
            params.put(name, value);
        }
        file = Some(upload);
    }
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
    Ok(Ok(Plain { method: parts.method, path, headers: parts.headers, params, extjs, upload: file }))
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
        assert_eq!(params.all("x"), ["1", "2"]);
    }

    #[test]
    fn json_takes_booleans_numbers_and_lists() {
        let mut params = Params::default();
        params.add_json(r#"{"onboot": true, "cores": 4, "tags": ["a", "b"], "name": "n"}"#).unwrap();
        assert_eq!(params.one("onboot"), Some("1"));
        assert_eq!(params.one("cores"), Some("4"));
        assert_eq!(params.all("tags"), ["a", "b"]);
    }
}
