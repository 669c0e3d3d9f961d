//! Typed calls to a Kubernetes API server, over our own connections.
//!
//! kube-core builds the requests and knows their parameters. Sending them, reading the responses and following a watch is all that
//! Talosmith needs beyond it; a complete client library would be a fifth of the build.

use std::marker::PhantomData;

use ambient::tls::Connector;
use bytes::Bytes;
use http::Uri;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client as HttpClient;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResourceList;
use kube_core::Request;
use kube_core::params::GetParams;
pub use kube_core::params::{DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchParams};
pub use kube_core::{
    ApiResource, DynamicObject, GroupVersionKind, ObjectList, PartialObjectMeta, Resource, Selector, Status,
    TypeMeta, WatchEvent,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// What became of a call that did not succeed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The API server refused or failed.
    #[error("{}", .0.message)]
    Api(Box<Status>),
    /// There was no response, or not all of it.
    #[error("{0}")]
    Unreachable(String),
    /// The response is not what the call returns.
    #[error("the response could not be read")]
    Response(#[source] serde_json::Error),
    /// The request could not be built.
    #[error("the request could not be built")]
    Request(#[source] kube_core::request::Error),
    /// The API server does not serve this kind.
    #[error("the API server does not serve the kind {kind} of {api_version}")]
    UnknownKind {
        kind: String,
        /// Its group and version.
        api_version: String,
    },
}

pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Libraries report to each other that they failed; only the cause at the bottom helps a person.
    fn unreachable(error: &(dyn std::error::Error + 'static)) -> Self {
        let mut cause = error;
        while let Some(below) = cause.source() {
            cause = below;
        }
        Self::Unreachable(cause.to_string())
    }
}

/// A client of one API server. It sets no timeouts.
#[derive(Clone)]
pub struct Client {
    http: HttpClient<Connector, Full<Bytes>>,
    /// Without a slash at its end.
    base: String,
}

impl Client {
    /// A client that sends its requests to `base`.
    pub(crate) fn new(http: HttpClient<Connector, Full<Bytes>>, base: &Uri) -> Self {
        Self { http, base: base.to_string().trim_end_matches('/').to_owned() }
    }

    /// Sends a request; returns the body of a successful response.
    async fn send(&self, request: http::Request<Vec<u8>>) -> Result<Incoming> {
        let (mut parts, body) = request.into_parts();
        parts.uri = format!("{}{}", self.base, parts.uri).parse().map_err(|e| Error::unreachable(&e))?;
        let request = http::Request::from_parts(parts, Full::new(Bytes::from(body)));
        let response = self.http.request(request).await.map_err(|e| Error::unreachable(&e))?;
        let code = response.status();
        if code.is_success() {
            return Ok(response.into_body());
        }
        let text = collect(response.into_body()).await?;
        // A proxy, or a path that does not exist, answers with text instead of a `Status`.
        let status = serde_json::from_slice::<Status>(&text).ok().filter(|status| status.code != 0);
        let status = status.unwrap_or_else(|| {
            Status::failure(String::from_utf8_lossy(&text).trim(), "").with_code(code.as_u16())
        });
        Err(Error::Api(status.boxed()))
    }

    async fn request<T: DeserializeOwned>(&self, request: http::Request<Vec<u8>>) -> Result<T> {
        let text = collect(self.send(request).await?).await?;
        serde_json::from_slice(&text).map_err(Error::Response)
    }

    /// How the API server serves a kind, and whether its objects have namespaces.
    ///
    /// # Errors
    ///
    /// When there is no response, or the kind is unknown.
    pub async fn discover(&self, kind: &GroupVersionKind) -> Result<(ApiResource, bool)> {
        let root = if kind.group.is_empty() { "api" } else { "apis" };
        let request = http::Request::get(format!("/{root}/{}", kind.api_version())).body(vec![]);
        let request = request.map_err(|e| Error::Request(kube_core::request::Error::BuildRequest(e)))?;
        let served: APIResourceList = self.request(request).await?;
        // Subresources are listed as `pods/log`, some with the kind of their parent.
        let found = served.resources.into_iter().find(|r| r.kind == kind.kind && !r.name.contains('/'));
        let found = found
            .ok_or_else(|| Error::UnknownKind { kind: kind.kind.clone(), api_version: kind.api_version() })?;
        Ok((ApiResource::from_gvk_with_plural(kind, &found.name), found.namespaced))
    }
}

async fn collect(body: Incoming) -> Result<Bytes> {
    let whole = body.collect().await.map_err(|e| Error::unreachable(&e))?;
    Ok(whole.to_bytes())
}

/// The objects of one kind, in one namespace or in all.
pub struct Api<K> {
    client: Client,
    request: Request,
    kind: PhantomData<fn() -> K>,
}

impl<K: Resource<DynamicType = ()>> Api<K> {
    /// The objects of all namespaces, or of a kind without namespaces.
    #[must_use]
    pub fn all(client: Client) -> Self {
        Self::at(client, K::url_path(&(), None))
    }

    /// The objects of one namespace.
    #[must_use]
    pub fn namespaced(client: Client, namespace: &str) -> Self
    where
        K: Resource<Scope = NamespaceResourceScope>,
    {
        Self::at(client, K::url_path(&(), Some(namespace)))
    }
}

impl Api<DynamicObject> {
    /// The objects of a kind that is known by name only, in one namespace or in all.
    #[must_use]
    pub fn dynamic(client: Client, kind: &ApiResource, namespace: Option<&str>) -> Self {
        Self::at(client, DynamicObject::url_path(kind, namespace))
    }
}

impl<K> Api<K> {
    fn at(client: Client, path: String) -> Self {
        Self { client, request: Request::new(path), kind: PhantomData }
    }
}

/// Each call fails when there is no response, or when the API server refuses it.
#[allow(clippy::missing_errors_doc)]
impl<K: Clone + DeserializeOwned> Api<K> {
    /// All objects that `params` selects.
    pub async fn list(&self, params: &ListParams) -> Result<ObjectList<K>> {
        self.client.request(self.request.list(params).map_err(Error::Request)?).await
    }

    /// One object.
    pub async fn get(&self, name: &str) -> Result<K> {
        self.client.request(self.request.get(name, &GetParams::default()).map_err(Error::Request)?).await
    }

    /// The metadata of one object, without its contents.
    pub async fn get_metadata(&self, name: &str) -> Result<PartialObjectMeta<K>> {
        let request = self.request.get_metadata(name, &GetParams::default());
        self.client.request(request.map_err(Error::Request)?).await
    }

    /// Creates an object.
    pub async fn create(&self, params: &PostParams, object: &K) -> Result<K>
    where
        K: Serialize,
    {
        let request = self.request.create(params, serialize(object)?);
        self.client.request(request.map_err(Error::Request)?).await
    }

    /// Creates a subresource, such as an eviction.
    pub async fn create_subresource<T: DeserializeOwned>(
        &self,
        subresource: &str,
        name: &str,
        params: &PostParams,
        object: &impl Serialize,
    ) -> Result<T> {
        let request = self.request.create_subresource(subresource, name, params, serialize(object)?);
        self.client.request(request.map_err(Error::Request)?).await
    }

    /// Replaces an object, if it has not changed since it was read.
    pub async fn replace(&self, name: &str, params: &PostParams, object: &K) -> Result<K>
    where
        K: Serialize,
    {
        let request = self.request.replace(name, params, serialize(object)?);
        self.client.request(request.map_err(Error::Request)?).await
    }

    /// Changes a part of an object.
    pub async fn patch<P: Serialize>(&self, name: &str, params: &PatchParams, patch: &Patch<P>) -> Result<K> {
        self.client.request(self.request.patch(name, params, patch).map_err(Error::Request)?).await
    }

    /// Changes the status of an object.
    pub async fn patch_status<P: Serialize>(
        &self,
        name: &str,
        params: &PatchParams,
        patch: &Patch<P>,
    ) -> Result<K> {
        let request = self.request.patch_subresource("status", name, params, patch);
        self.client.request(request.map_err(Error::Request)?).await
    }

    /// Deletes an object. It may exist for a while, until its finalizers are done.
    pub async fn delete(&self, name: &str, params: &DeleteParams) -> Result<()> {
        let request = self.request.delete(name, params).map_err(Error::Request)?;
        collect(self.client.send(request).await?).await.map(drop)
    }

    /// Follows the changes after the resource version `version`.
    pub async fn watch(&self, params: &WatchParams, version: &str) -> Result<Watch<K>> {
        let request = self.request.watch(params, version).map_err(Error::Request)?;
        Ok(Watch { body: self.client.send(request).await?, unread: vec![], kind: PhantomData })
    }
}

fn serialize(object: &impl Serialize) -> Result<Vec<u8>> {
    let failed = |e| Error::Request(kube_core::request::Error::SerializeBody(e));
    serde_json::to_vec(object).map_err(failed)
}

/// A watch: one JSON object per line, for as long as the API server sends them.
pub struct Watch<K> {
    body: Incoming,
    unread: Vec<u8>,
    kind: PhantomData<fn() -> K>,
}

impl<K: DeserializeOwned> Watch<K> {
    /// The next event; nothing at the end of the watch.
    ///
    /// # Errors
    ///
    /// When the connection broke, or an event cannot be read.
    pub async fn next(&mut self) -> Result<Option<WatchEvent<K>>> {
        loop {
            if let Some(end) = self.unread.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.unread.drain(..=end).collect();
                return serde_json::from_slice(&line).map(Some).map_err(Error::Response);
            }
            match self.body.frame().await {
                None => return Ok(None),
                Some(frame) => {
                    let frame = frame.map_err(|e| Error::unreachable(&e))?;
                    self.unread.extend(frame.into_data().unwrap_or_default());
                }
            }
        }
    }
}
