//! What a certificate says about its holder.
//!
//! A node reads a client's roles from it, and a client pins a node in maintenance by the fingerprint that the node prints on
//! its console.

use std::net::IpAddr;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use jiff::Timestamp;
use sha2::{Digest, Sha256};
use x509_parser::{
    extensions::{GeneralName, ParsedExtension},
    prelude::X509Certificate,
};

/// The readable part of a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leaf {
    /// The common name, if there is one.
    pub common_name: Option<String>,
    /// The organizations: roles for Talos, groups for Kubernetes.
    pub organizations: Vec<String>,
    /// The organizations of the issuer, which tell Talos' authorities apart.
    pub issuer_organizations: Vec<String>,
    /// Names and addresses that the certificate is good for.
    pub names: Vec<String>,
    /// Whether the extended key usage is client authentication and nothing else, as Talos wants it.
    pub only_client: bool,
    /// First moment of validity.
    pub not_before: Timestamp,
    /// Last moment of validity.
    pub not_after: Timestamp,
    /// Base64 of the SHA-256 of the public key information: what a node in maintenance prints on its console.
    pub fingerprint: String,
}

impl Leaf {
    /// Reads a certificate in DER, or nothing where it is none.
    #[must_use]
    pub fn read(der: &[u8]) -> Option<Self> {
        let (_, certificate) = x509_parser::parse_x509_certificate(der).ok()?;
        let texts = |name: &x509_parser::x509::X509Name<'_>| {
            name.iter_organization().filter_map(|value| value.as_str().ok()).map(str::to_owned).collect()
        };
        let common_name =
            certificate.subject().iter_common_name().find_map(|value| value.as_str().ok()).map(str::to_owned);
        let moment = |time: x509_parser::time::ASN1Time| Timestamp::from_second(time.timestamp()).ok();
        Some(Self {
            common_name,
            organizations: texts(certificate.subject()),
            issuer_organizations: texts(certificate.issuer()),
            names: names(&certificate),
            only_client: only_client(&certificate),
            not_before: moment(certificate.validity().not_before)?,
            not_after: moment(certificate.validity().not_after)?,
            fingerprint: STANDARD.encode(Sha256::digest(certificate.public_key().raw)),
        })
    }

    /// Whether the certificate is valid at this moment.
    #[must_use]
    pub fn valid_at(&self, moment: Timestamp) -> bool {
        self.not_before <= moment && moment <= self.not_after
    }
}

fn names(certificate: &X509Certificate<'_>) -> Vec<String> {
    let Ok(Some(extension)) = certificate.subject_alternative_name() else { return Vec::new() };
    extension
        .value
        .general_names
        .iter()
        .filter_map(|name| match name {
            GeneralName::DNSName(name) => Some((*name).to_owned()),
            GeneralName::IPAddress(bytes) => match bytes.len() {
                4 => <[u8; 4]>::try_from(*bytes).ok().map(|bytes| IpAddr::from(bytes).to_string()),
                16 => <[u8; 16]>::try_from(*bytes).ok().map(|bytes| IpAddr::from(bytes).to_string()),
                _ => None,
            },
            _ => None,
        })
        .collect()
}

fn only_client(certificate: &X509Certificate<'_>) -> bool {
    certificate.extensions().iter().any(|extension| match extension.parsed_extension() {
        ParsedExtension::ExtendedKeyUsage(usage) => {
            usage.client_auth
                && !usage.server_auth
                && !usage.any
                && !usage.code_signing
                && !usage.email_protection
                && !usage.time_stamping
                && !usage.ocsp_signing
                && usage.other.is_empty()
        }
        _ => false,
    })
}
