//! Certificates of the lab's own servers. They are made once and kept in the world. Their validity is wide, because the
//! lab's time and the time by which a client judges a certificate are not the same.

use std::fmt;
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::LabError;

/// A certificate and its key.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Identity {
    /// The certificate, followed by those that lead to its authority.
    pub(crate) certificate_pem: String,
    key_pem: String,
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").finish_non_exhaustive()
    }
}

impl Identity {
    /// A new self-signed authority.
    pub(crate) fn authority(name: &str) -> Result<Self, LabError> {
        let make = || {
            let key = KeyPair::generate()?;
            let mut params = lasting(name, &[])?;
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
            Ok(Self { certificate_pem: params.self_signed(&key)?.pem(), key_pem: key.serialize_pem() })
        };
        make().map_err(|source| LabError::Certificate { whose: name.to_owned(), source })
    }

    /// A server's certificate for `names` (DNS names and addresses), signed by `self`.
    pub(crate) fn issue(&self, names: &[String]) -> Result<Self, LabError> {
        let name = names.first().map_or("lab", String::as_str);
        let make = || {
            let issuer = Issuer::from_ca_cert_pem(&self.certificate_pem, KeyPair::from_pem(&self.key_pem)?)?;
            let key = KeyPair::generate()?;
            let mut params = lasting(name, names)?;
            params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
            let leaf = params.signed_by(&key, &issuer)?.pem();
            Ok(Self {
                certificate_pem: format!("{leaf}{}", self.certificate_pem),
                key_pem: key.serialize_pem(),
            })
        };
        make().map_err(|source| LabError::Certificate { whose: name.to_owned(), source })
    }

    /// SHA-256 of the leaf, in capitals with colons, as Proxmox prints it.
    pub(crate) fn fingerprint(&self) -> String {
        let leaf = CertificateDer::from_pem_slice(self.certificate_pem.as_bytes());
        let digest = Sha256::digest(leaf.as_ref().map_or(&[][..], AsRef::as_ref));
        digest.iter().map(|byte| format!("{byte:02X}")).collect::<Vec<_>>().join(":")
    }

    /// The server side of TLS for HTTP/1.1.
    pub(crate) fn server_config(&self, whose: &str) -> Result<Arc<rustls::ServerConfig>, LabError> {
        let make = || {
            let unreadable = |_| rustls::Error::General("the PEM text cannot be read".to_owned());
            let chain = CertificateDer::pem_slice_iter(self.certificate_pem.as_bytes())
                .collect::<Result<Vec<_>, _>>()
                .map_err(unreadable)?;
            let key = PrivateKeyDer::from_pem_slice(self.key_pem.as_bytes()).map_err(unreadable)?;
            let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
            rustls::ServerConfig::builder_with_provider(provider)
                .with_safe_default_protocol_versions()?
                .with_no_client_auth()
                .with_single_cert(chain, key)
        };
        make().map(Arc::new).map_err(|source| LabError::Tls { whose: whose.to_owned(), source })
    }
}

fn lasting(name: &str, subject_alternative: &[String]) -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::new(subject_alternative.to_vec())?;
    params.distinguished_name.push(DnType::CommonName, name);
    params.not_before = rcgen::date_time_ymd(2000, 1, 1);
    params.not_after = rcgen::date_time_ymd(2090, 1, 1);
    Ok(params)
}
