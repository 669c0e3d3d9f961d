//! What a request is about, and how it is refused.

use http::StatusCode;
use serde_json::{Value, json};

use super::kinds::Kind;
use super::store::{Place, Store};

/// A refusal, as Kubernetes words it.
#[derive(Debug)]
pub(crate) struct Trouble {
    code: StatusCode,
    reason: &'static str,
    message: String,
    details: Value,
}

impl Trouble {
    pub(crate) fn new(code: StatusCode, reason: &'static str, message: impl Into<String>) -> Self {
        Self { code, reason, message: message.into(), details: Value::Null }
    }

    pub(crate) fn with(self, details: Value) -> Self {
        Self { details, ..self }
    }

    pub(crate) fn no_leader() -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", "etcdserver: request timed out")
    }

    pub(crate) fn no_path() -> Self {
        Self::new(StatusCode::NOT_FOUND, "NotFound", "the server could not find the requested resource")
    }

    pub(crate) fn bad(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "BadRequest", message)
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message)
    }

    pub(crate) fn conflict(message: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, "Conflict", message)
    }

    pub(crate) fn method() -> Self {
        let message = "the server does not allow this method on the requested resource";
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", message)
    }

    /// The refusal as an object.
    pub(crate) fn status(&self) -> Value {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "reason": self.reason, "code": self.code.as_u16(),
        });
        if !self.details.is_null() {
            status["details"] = self.details.clone();
        }
        status
    }

    /// The status of the answer.
    pub(crate) fn code(&self) -> StatusCode {
        self.code
    }
}

/// What a path names: a kind, an object of it, or something below one.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    pub(crate) kind: Kind,
    /// `None`: all namespaces, or a kind without.
    pub(crate) namespace: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) sub: Option<String>,
}

impl Target {
    pub(crate) fn parse(store: &Store, path: &str) -> Option<Self> {
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

    pub(crate) fn place<'a>(&'a self, name: &'a str) -> Place<'a> {
        let namespace = self.namespace.as_deref().unwrap_or_default();
        Place { group: &self.kind.group, plural: &self.kind.plural, namespace, name }
    }

    /// Kind and version belong to an object that stands alone.
    pub(crate) fn full(&self, object: &Value) -> Value {
        let mut object = object.clone();
        object["kind"] = self.kind.kind.as_ref().into();
        object["apiVersion"] = self.kind.api_version().into();
        object
    }

    pub(crate) fn missing(&self, name: &str) -> Trouble {
        let message = format!("{} {name:?} not found", self.kind.qualified());
        let details = json!({"name": name, "group": self.kind.group, "kind": self.kind.plural});
        Trouble::new(StatusCode::NOT_FOUND, "NotFound", message).with(details)
    }
}
