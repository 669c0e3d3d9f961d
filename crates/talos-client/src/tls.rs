//! The two ways to trust a Talos machine: not at all, or by the cluster's authority.

use std::fmt;
use std::sync::Arc;

use ambient::Clock;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature,
};
use rustls::server::ParsedCertificate;
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use sha2::{Digest as _, Sha256};

/// What proves us to a machine, and its machine to us. The key is never shown.
pub struct Credentials {
    /// The authority of the machines (`machine.ca`).
    pub ca: CertificateDer<'static>,
    /// Our certificate, signed by it, whose organization is our role.
    pub certificate: CertificateDer<'static>,
    /// Our key.
    pub key: PrivateKeyDer<'static>,
}

impl From<&talos::pki::Identity> for Credentials {
    fn from(identity: &talos::pki::Identity) -> Self {
        let certificate = identity.certificate_der().clone();
        Self { ca: identity.ca_der(), certificate, key: identity.key_der() }
    }
}

impl Clone for Credentials {
    fn clone(&self) -> Self {
        Self { ca: self.ca.clone(), certificate: self.certificate.clone(), key: self.key.clone_key() }
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credentials")
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}

fn builder(
    clock: &Clock,
    verifier: Arc<dyn ServerCertVerifier>,
) -> Result<rustls::ConfigBuilder<ClientConfig, rustls::client::WantsClientCert>, rustls::Error> {
    let builder = ClientConfig::builder_with_details(provider(), Arc::new(clock.clone()));
    Ok(builder.with_safe_default_protocol_versions()?.dangerous().with_custom_certificate_verifier(verifier))
}

fn authority(
    roots: impl IntoIterator<Item = CertificateDer<'static>>,
) -> Result<Arc<dyn ServerCertVerifier>, rustls::Error> {
    let mut store = RootCertStore::empty();
    store.add_parsable_certificates(roots);
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(store), provider()).build();
    verifier.map(|v| v as Arc<dyn ServerCertVerifier>).map_err(|e| rustls::Error::General(e.to_string()))
}

/// Takes any certificate and shows none: for a machine in maintenance.
pub(crate) fn anyone(clock: &Clock) -> Result<Arc<ClientConfig>, rustls::Error> {
    let verifier = AnyLeaf(provider().signature_verification_algorithms);
    let mut config = builder(clock, Arc::new(verifier))?.with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(Arc::new(config))
}

/// Takes certificates of the cluster's authority and shows ours.
pub(crate) fn mutual(clock: &Clock, credentials: &Credentials) -> Result<Arc<ClientConfig>, rustls::Error> {
    let chain = vec![credentials.certificate.clone()];
    let mut config = builder(clock, authority([credentials.ca.clone()])?)?
        .with_client_auth_cert(chain, credentials.key.clone_key())?;
    config.alpn_protocols = vec![b"h2".to_vec()];
    // A resumed session would hide that a machine has changed whom it trusts.
    config.resumption = rustls::client::Resumption::disabled();
    Ok(Arc::new(config))
}

/// Takes certificates of public authorities: for a web server.
pub(crate) fn public<'a>(
    clock: &Clock,
    roots: impl Iterator<Item = &'a CertificateDer<'static>>,
) -> Result<Arc<ClientConfig>, rustls::Error> {
    Ok(Arc::new(builder(clock, authority(roots.cloned())?)?.with_no_client_auth()))
}

/// base64 of the SHA-256 of a certificate's public key, as Talos prints it.
pub(crate) fn fingerprint(certificate: &[u8]) -> Option<String> {
    let certificate = CertificateDer::from(certificate);
    let certificate = ParsedCertificate::try_from(&certificate).ok()?;
    Some(STANDARD.encode(Sha256::digest(certificate.subject_public_key_info())))
}

/// Takes any certificate, but the server must hold its key: the connection cannot be taken over afterwards.
#[derive(Debug)]
struct AnyLeaf(WebPkiSupportedAlgorithms);

impl ServerCertVerifier for AnyLeaf {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, leaf, signature, &self.0)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, leaf, signature, &self.0)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_schemes()
    }
}
