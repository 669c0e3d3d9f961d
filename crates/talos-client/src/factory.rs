//! The Image Factory: it turns a schematic (which extensions, which kernel arguments) into images.

use std::io;
use std::pin::pin;
use std::sync::{Arc, LazyLock};

use ambient::tls::Connector;
use ambient::{Clock, Net};
use bytes::Bytes;
use futures::future::{Either, select};
use http::header::{CONTENT_TYPE, HOST};
use http::{Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls_pki_types::CertificateDer;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::tls;

const BODY_LIMIT: usize = 8 << 20;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The authorities whom to believe about web servers, in DER. Those of the system are read when they are first needed: there are
/// hundreds of files, and most runs ask no web server anything.
#[derive(Debug, Clone, Default)]
pub struct Roots {
    own: Vec<CertificateDer<'static>>,
    system: Arc<LazyLock<Vec<CertificateDer<'static>>>>,
}

impl Roots {
    /// Just these.
    #[must_use]
    pub fn only(own: Vec<CertificateDer<'static>>) -> Self {
        Self { own, ..Self::default() }
    }

    /// These and the system's.
    #[must_use]
    pub fn and_of_system(
        own: Vec<CertificateDer<'static>>,
        system: fn() -> Vec<CertificateDer<'static>>,
    ) -> Self {
        Self { own, system: Arc::new(LazyLock::new(system)) }
    }

    fn all(&self) -> impl Iterator<Item = &CertificateDer<'static>> {
        self.own.iter().chain(self.system.iter())
    }
}

/// An Image Factory.
#[derive(Debug, Clone)]
pub struct Factory {
    net: Net,
    base: Uri,
    /// Nothing for a factory without TLS.
    tls: Option<Arc<ClientConfig>>,
}

/// The Image Factory did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum FactoryError {
    /// The address cannot be used.
    #[error("'{0}' is not the address of an Image Factory; one starts with https://")]
    Address(String),
    /// The roots cannot be used.
    #[error("the certificates of the authorities cannot be used")]
    Roots(#[source] rustls::Error),
    /// There is no connection.
    #[error("the Image Factory at {base} cannot be reached")]
    Unreachable {
        /// Its address.
        base: Uri,
        /// What the network or TLS said.
        #[source]
        source: io::Error,
    },
    /// The connection broke.
    #[error("the connection to the Image Factory at {base} broke")]
    Broken {
        /// Its address.
        base: Uri,
        /// Why.
        #[source]
        source: BoxError,
    },
    #[error("the Image Factory at {base} refused ({status}): {text}")]
    Refused {
        /// Its address.
        base: Uri,
        status: StatusCode,
        /// Its words.
        text: String,
    },
    /// The answer is not what a factory would send.
    #[error("the answer of the Image Factory at {base} cannot be understood")]
    Protocol {
        /// Its address.
        base: Uri,
        /// Why.
        #[source]
        source: BoxError,
    },
}

#[derive(Deserialize)]
struct Posted {
    id: String,
}

#[derive(Deserialize)]
struct Extension {
    name: String,
}

impl Factory {
    /// The factory at `base`, such as `https://factory.example.org`. Nothing is sent yet.
    ///
    /// # Errors
    ///
    /// When the address or the roots cannot be used.
    pub fn new(net: Net, clock: &Clock, base: &str, roots: &Roots) -> Result<Self, FactoryError> {
        let address = || FactoryError::Address(base.to_owned());
        let uri: Uri = base.trim_end_matches('/').parse().map_err(|_| address())?;
        let tls = match uri.scheme_str() {
            Some("https") => Some(tls::public(clock, roots.all()).map_err(FactoryError::Roots)?),
            Some("http") => None,
            _ => return Err(address()),
        };
        uri.host().filter(|host| !host.is_empty()).ok_or_else(address)?;
        Ok(Self { net, base: uri, tls })
    }

    /// Makes a schematic known and returns its id. The same schematic always has the same id.
    ///
    /// # Errors
    ///
    /// [`FactoryError::Refused`] when the schematic is wrong.
    pub async fn post_schematic(&self, yaml: &str) -> Result<String, FactoryError> {
        let posted: Posted =
            self.call(Method::POST, "/schematics", Bytes::copy_from_slice(yaml.as_bytes())).await?;
        Ok(posted.id)
    }

    /// The Talos releases that it has images of, pre-releases included.
    ///
    /// # Errors
    ///
    /// As any call.
    pub async fn versions(&self) -> Result<Vec<String>, FactoryError> {
        self.call(Method::GET, "/versions", Bytes::new()).await
    }

    /// The same with those that are known to be broken.
    ///
    /// # Errors
    ///
    /// As any call.
    pub async fn all_versions(&self) -> Result<Vec<String>, FactoryError> {
        self.call(Method::GET, "/versions?broken=true", Bytes::new()).await
    }

    /// The names of the official extensions of a release, such as `siderolabs/qemu-guest-agent`.
    ///
    /// # Errors
    ///
    /// As any call.
    pub async fn extensions(&self, release: &str) -> Result<Vec<String>, FactoryError> {
        let path = format!("/version/{release}/extensions/official");
        let listed: Vec<Extension> = self.call(Method::GET, &path, Bytes::new()).await?;
        Ok(listed.into_iter().map(|extension| extension.name).collect())
    }

    async fn call<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<T, FactoryError> {
        let host = self.base.host().unwrap_or_default();
        let port = self.base.port_u16().unwrap_or(if self.tls.is_some() { 443 } else { 80 });
        let unreachable = |source| FactoryError::Unreachable { base: self.base.clone(), source };
        let broken = |source: BoxError| FactoryError::Broken { base: self.base.clone(), source };
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.base.path().trim_end_matches('/')))
            .header(HOST, self.base.authority().map_or(host, |a| a.as_str()));
        if !body.is_empty() {
            request = request.header(CONTENT_TYPE, "application/yaml");
        }
        let request = request.body(Full::new(body)).map_err(|e| broken(e.into()))?;
        let (status, body) = match &self.tls {
            Some(config) => {
                let connector = Connector::new(self.net.clone(), config.clone(), port);
                exchange(connector.connect(host, port).await.map_err(unreachable)?, request).await
            }
            None => {
                exchange(TokioIo::new(self.net.dial(host, port).await.map_err(unreachable)?), request).await
            }
        }
        .map_err(broken)?;
        if !status.is_success() {
            let text: String = String::from_utf8_lossy(&body).trim().chars().take(500).collect();
            return Err(FactoryError::Refused { base: self.base.clone(), status, text });
        }
        serde_json::from_slice(&body)
            .map_err(|e| FactoryError::Protocol { base: self.base.clone(), source: e.into() })
    }
}

/// One request over one connection: a factory is asked twice in a run, so nothing is kept open.
async fn exchange<I>(io: I, request: Request<Full<Bytes>>) -> Result<(StatusCode, Bytes), BoxError>
where
    I: hyper::rt::Read + hyper::rt::Write + Unpin,
{
    let (mut sender, connection) = hyper::client::conn::http1::handshake(io).await?;
    let answer = pin!(async move {
        let response = sender.send_request(request).await?;
        let status = response.status();
        let body = Limited::new(response.into_body(), BODY_LIMIT).collect().await?;
        Ok((status, body.to_bytes()))
    });
    match select(answer, pin!(connection)).await {
        Either::Left((answer, _)) => answer,
        Either::Right((_, answer)) => answer.await,
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::Pin;
    use std::sync::Mutex;

    use ambient::{Dial, Stream};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    /// A web server without TLS that gives one answer and keeps what it was asked.
    struct Server {
        answer: &'static str,
        asked: Arc<Mutex<String>>,
    }

    impl Dial for Server {
        fn dial(
            &self,
            host: &str,
            port: u16,
        ) -> Pin<Box<dyn Future<Output = io::Result<Stream>> + Send + '_>> {
            assert_eq!((host, port), ("factory", 8080));
            let (ours, mut theirs) = tokio::io::duplex(64 << 10);
            let (answer, asked) = (self.answer, self.asked.clone());
            tokio::spawn(async move {
                let mut request = vec![0; 4096];
                let length = theirs.read(&mut request).await.unwrap();
                *asked.lock().unwrap() = String::from_utf8_lossy(&request[..length]).into_owned();
                theirs.write_all(answer.as_bytes()).await.unwrap();
            });
            Box::pin(async { Ok(Stream::new(ours)) })
        }
    }

    fn factory(answer: &'static str) -> (Factory, Arc<Mutex<String>>) {
        let asked = Arc::<Mutex<String>>::default();
        let net = Net::of(Server { answer, asked: asked.clone() });
        (Factory::new(net, &Clock::real(), "http://factory:8080/sub/", &Roots::default()).unwrap(), asked)
    }

    #[tokio::test]
    async fn a_schematic_is_posted_and_its_id_read() {
        let (factory, asked) = factory("HTTP/1.1 201 Created\r\nContent-Length: 12\r\n\r\n{\"id\":\"376\"}");
        assert_eq!(factory.post_schematic("customization: {}\n").await.unwrap(), "376");
        let asked = asked.lock().unwrap().clone();
        assert!(asked.starts_with("POST /sub/schematics HTTP/1.1\r\nhost: factory:8080\r\n"), "{asked}");
        assert!(asked.ends_with("\r\n\r\ncustomization: {}\n"), "{asked}");
    }

    #[tokio::test]
    async fn a_refusal_keeps_its_words() {
        let (factory, _) =
            factory("HTTP/1.1 400 Bad Request\r\nContent-Length: 16\r\n\r\nbad extension: x\n");
        let error = factory.post_schematic("x: 1").await.unwrap_err();
        assert!(error.to_string().ends_with("refused (400 Bad Request): bad extension: x"), "{error}");
    }

    #[tokio::test]
    async fn addresses_need_a_scheme_and_a_host() {
        for address in ["", "factory", "ftp://factory", "https://"] {
            let made = Factory::new(Net::tcp(), &Clock::real(), address, &Roots::default());
            assert!(matches!(made, Err(FactoryError::Address(_))), "{address}");
        }
    }
}
