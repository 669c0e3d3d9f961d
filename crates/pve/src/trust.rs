//! Whom to believe on the other end of a TLS connection.
//!
//! A fresh Proxmox node has a certificate of its own private authority, so people pin what they see: the SHA-256 of the
//! leaf certificate. A pinned or unchecked leaf still has its handshake signature verified: the server must hold the
//! key of the certificate that it shows. Validity is judged by the clock that is handed in.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use ambient::Clock;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature,
};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, OtherError, RootCertStore, SignatureScheme,
};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use sha2::{Digest, Sha256};

/// What makes a server's certificate acceptable.
#[derive(Debug, Clone)]
pub enum Trust {
    /// Its leaf is one of these. Each node of a Proxmox cluster has a leaf of its own.
    Fingerprints(Vec<Fingerprint>),
    /// It is signed by one of the authorities in this PEM text, for the name that was dialled.
    Authority(String),
    /// It is signed by one of these authorities (DER), for the name that was dialled.
    System(Vec<CertificateDer<'static>>),
    /// Anything is acceptable. Only ever because a person wrote so.
    Insecure,
}

/// The SHA-256 of a leaf certificate, in the notation of Proxmox: `AA:BB:…`, 32 bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint([u8; 32]);

/// What was given as trust cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum InvalidTrust {
    /// Not a fingerprint.
    #[error("'{0}' is not a SHA-256 fingerprint: 32 pairs of hexadecimal digits, separated by colons")]
    Fingerprint(String),
    /// The PEM text has no certificate in it, or a broken one.
    #[error("the authority's file holds no certificate that can be read")]
    Authority(#[source] Option<rustls_pki_types::pem::Error>),
    /// The roots were refused.
    #[error("the certificates of the authority cannot be used")]
    Roots(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// Why a server's certificate was not accepted, and which one it showed.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{reason} (its SHA-256 fingerprint is {shown})")]
pub struct Unverified {
    /// The certificate that it showed.
    pub shown: Fingerprint,
    /// What is wrong with it.
    pub reason: Unaccepted,
}

/// What is wrong with a certificate.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unaccepted {
    /// Fingerprints are pinned, and this is none of them.
    #[error("it is not the pinned one")]
    NotPinned,
    /// No authority that is trusted signed it.
    #[error("no trusted certificate authority signed it")]
    UnknownIssuer,
    /// It was made for other names than the one that was dialled.
    #[error("it is for another host name than the endpoint's")]
    OtherName,
    /// Its time is over, or a clock is wrong.
    #[error("it has expired")]
    Expired,
    /// Its time has not come, or a clock is wrong.
    #[error("it is not valid yet")]
    NotYetValid,
    /// Anything else.
    #[error("it is not valid: {0}")]
    Invalid(String),
}

impl From<&rustls::Error> for Unaccepted {
    fn from(error: &rustls::Error) -> Self {
        let rustls::Error::InvalidCertificate(why) = error else { return Self::Invalid(error.to_string()) };
        match why {
            // Authorities of several installations have one name, so a signature by another one is met as a bad one.
            CertificateError::UnknownIssuer | CertificateError::BadSignature => Self::UnknownIssuer,
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                Self::OtherName
            }
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => Self::Expired,
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => Self::NotYetValid,
            other => Self::Invalid(other.to_string()),
        }
    }
}

impl Unverified {
    fn refuse(leaf: &CertificateDer<'_>, reason: Unaccepted) -> rustls::Error {
        let why = Self { shown: Fingerprint::of(leaf), reason };
        rustls::Error::InvalidCertificate(CertificateError::Other(OtherError(Arc::new(why))))
    }
}

impl Fingerprint {
    /// The fingerprint of a certificate in DER.
    #[must_use]
    pub fn of(der: &[u8]) -> Self {
        Self(Sha256::digest(der).into())
    }
}

impl FromStr for Fingerprint {
    type Err = InvalidTrust;

    fn from_str(text: &str) -> Result<Self, InvalidTrust> {
        let digits: Vec<u8> = text.trim().bytes().filter(|b| *b != b':').collect();
        let mut bytes = [0; 32];
        let pairs = digits.chunks(2);
        let valid = digits.len() == 64
            && bytes.iter_mut().zip(pairs).all(|(byte, pair)| {
                let pair =
                    std::str::from_utf8(pair).ok().filter(|p| p.bytes().all(|b| b.is_ascii_hexdigit()));
                pair.and_then(|p| u8::from_str_radix(p, 16).ok()).map(|b| *byte = b).is_some()
            });
        if valid { Ok(Self(bytes)) } else { Err(InvalidTrust::Fingerprint(text.trim().to_owned())) }
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, byte) in self.0.iter().enumerate() {
            write!(f, "{}{byte:02X}", if index == 0 { "" } else { ":" })?;
        }
        Ok(())
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Trust {
    pub(crate) fn client_config(&self, clock: &Clock) -> Result<Arc<ClientConfig>, InvalidTrust> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let accepts = match self {
            Self::Fingerprints(pins) => Accepts::Pinned(pins.clone()),
            Self::Insecure => Accepts::Anything,
            Self::Authority(pem) => {
                let parsed: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
                let certificates = parsed.map_err(|e| InvalidTrust::Authority(Some(e)))?;
                if certificates.is_empty() {
                    return Err(InvalidTrust::Authority(None));
                }
                signed_by(certificates, &provider)?
            }
            Self::System(roots) => signed_by(roots.clone(), &provider)?,
        };
        let algorithms = provider.signature_verification_algorithms;
        let verifier = Arc::new(Verifier { accepts, algorithms });
        let config = ClientConfig::builder_with_details(provider, Arc::new(clock.clone()))
            .with_safe_default_protocol_versions()
            .map_err(|e| InvalidTrust::Roots(e.into()))?
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_no_client_auth();
        Ok(Arc::new(config))
    }
}

fn signed_by(
    certificates: Vec<CertificateDer<'static>>,
    provider: &Arc<CryptoProvider>,
) -> Result<Accepts, InvalidTrust> {
    let mut roots = RootCertStore::empty();
    // A system's store may hold a certificate that rustls cannot read; the others are still good.
    roots.add_parsable_certificates(certificates);
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone());
    verifier.build().map(Accepts::SignedBy).map_err(|e| InvalidTrust::Roots(e.into()))
}

/// What makes a leaf acceptable to a [`Verifier`].
#[derive(Debug)]
enum Accepts {
    Anything,
    Pinned(Vec<Fingerprint>),
    SignedBy(Arc<WebPkiServerVerifier>),
}

/// Accepts a leaf by its fingerprint or its issuer, or any leaf; never without the proof of its key. Of a leaf that it does not accept
/// it says which one was shown, so that a person can compare and pin it.
#[derive(Debug)]
struct Verifier {
    accepts: Accepts,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        match &self.accepts {
            Accepts::Pinned(pins) if !pins.contains(&Fingerprint::of(leaf)) => {
                Err(Unverified::refuse(leaf, Unaccepted::NotPinned))
            }
            Accepts::Anything | Accepts::Pinned(_) => Ok(ServerCertVerified::assertion()),
            Accepts::SignedBy(authority) => authority
                .verify_server_cert(leaf, intermediates, name, ocsp, now)
                .map_err(|error| Unverified::refuse(leaf, Unaccepted::from(&error))),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, leaf, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, leaf, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fingerprints_read_and_print_in_proxmox_notation() {
        let text =
            "E5:D0:A7:18:74:9E:0C:B6:D5:5F:63:23:EA:4F:99:98:F3:CC:12:C6:81:C5:3F:95:E2:F1:AC:2F:6F:DF:6F:BF";
        let parsed: Fingerprint = text.to_lowercase().parse().unwrap();
        assert_eq!(parsed.to_string(), text);
        for bad in ["", "AA:BB", &text[1..], &text.replace('E', "G")] {
            assert!(bad.parse::<Fingerprint>().is_err(), "{bad}");
        }
        assert_eq!(
            Fingerprint::of(b"").to_string().replace(':', "").to_lowercase(),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
        );
    }

    #[tokio::test]
    async fn an_authority_without_a_certificate_is_refused() {
        let trust = Trust::Authority("nothing here".to_owned());
        assert!(matches!(trust.client_config(&Clock::real()), Err(InvalidTrust::Authority(_))));
    }
}
