//! What a request is about, and how it is refused.

use http::{Response, StatusCode};
use serde_json::{Value, json};

use super::http::{Body, answer};
use super::kinds::Kind;
use super::store::{Place, Store};

/// A refusal, as Kubernetes words it.
#[derive(Debug)]
pub(super) struct Trouble {
    code: StatusCode,
    reason: &'static str,
    message: String,
    details: Value,
}

impl Trouble {
    pub(super) fn new(code: StatusCode, reason: &'static str, message: impl Into<String>) -> Self {
        Self { code, reason, message: message.into(), details: Value::Null }
    }

    pub(super) fn with(self, details: Value) -> Self {
        Self { details, ..self }
    }

    pub(super) fn no_leader() -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", "etcdserver: request timed out")
    }

    pub(super) fn no_path() -> Self {
        Self::new(StatusCode::NOT_FOUND, "NotFound", "the server could not find the requested resource")
    }

    pub(super) fn bad(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "BadRequest", message)
    }

    pub(super) fn invalid(message: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message)
    }

    pub(super) fn conflict(message: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, "Conflict", message)
    }

    pub(super) fn method() -> Self {
        let message = "the server does not allow this method on the requested resource";
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", message)
    }

    /// The refusal as an object.
    pub(super) fn status(&self) -> Value {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "reason": self.reason, "code": self.code.as_u16(),
        });
        if !self.details.is_null() {
            status["details"] = self.details.clone();
        }
        status
    }

    pub(super) fn respond(&self) -> Response<Body> {
        answer(self.code, &self.status())
    }
}

/// What a path names: a kind, an object of it, or something below one.
#[derive(Debug, Clone)]
pub(super) struct Target {
    pub(super) kind: Kind,
    /// `None`: all namespaces, or a kind without.
    pub(super) namespace: Option<String>,
    pub(super) name: Option<String>,
    pub(super) sub: Option<String>,
}

impl Target {
    pub(super) fn parse(store: &Store, path: &str) -> Option<Self> {
        let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
        let (group, version, rest) = match parts.as_slice() {
            ["api", version, rest @ ..] => ("", *version, rest),
            ["apis", group, version, rest @ ..] => (*group, *version, rest),
            _ => return None,
        };
        let owned = |text: &&str| Some((*text).to_owned());
        let (namespace, rest) = match rest {
            ["namespaces", namespace, rest @ ..]
                if !rest.is_empty() && !["status", "finalize"].contains(&rest[0]) =>
            {
                (owned(namespace), rest)
            }
            rest => (None, rest),
        };
        let kind = Kind::find(store, group, version, rest.first()?)?;
        if kind.namespaced && namespace.is_none() && rest.len() > 1 {
            return None;
        }
        let sub = rest.get(2).and_then(owned);
        if sub.as_ref().is_some_and(|sub| !kind.has(sub)) {
            return None;
        }
        Some(Self { kind, namespace, name: rest.get(1).and_then(owned), sub })
    }

    pub(super) fn place<'a>(&'a self, name: &'a str) -> Place<'a> {
        let namespace = self.namespace.as_deref().unwrap_or_default();
        Place { group: &self.kind.group, plural: &self.kind.plural, namespace, name }
    }

    /// Kind and version belong to an object that stands alone.
    pub(super) fn full(&self, object: &Value) -> Value {
        let mut object = object.clone();
        object["kind"] = self.kind.kind.as_ref().into();
        object["apiVersion"] = self.kind.api_version().into();
        object
    }

    pub(super) fn missing(&self, name: &str) -> Trouble {
        let message = format!("{} {name:?} not found", self.kind.qualified());
        let details = json!({"name": name, "group": self.kind.group, "kind": self.kind.plural});
        Trouble::new(StatusCode::NOT_FOUND, "NotFound", message).with(details)
    }
}
