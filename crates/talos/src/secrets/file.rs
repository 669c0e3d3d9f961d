//! The bundle as a file, in the form of `talosctl gen secrets`.
//!
//! Reading looks at everything before it complains, so that a person repairs a file once. It also proves that each key is a
//! key, each certificate a certificate, and that the two belong together.

use base64::{Engine as _, engine::general_purpose::STANDARD};

use super::{Bundle, BundleError, BundleProblem, EtcdEncryption, KeyPair};
use crate::{
    keys,
    pki::{Authority, PkiError},
    secret::Secret,
    yaml::{Map, Value, map, read as read_yaml},
};

impl Bundle {
    /// Reads a `secrets.yaml`.
    ///
    /// # Errors
    ///
    /// Where it is no YAML, or with every missing or unsound part at once.
    pub fn parse(text: &str) -> Result<Self, BundleError> {
        let mut documents = read_yaml(text)?;
        let (Some(Value::Map(mut map)), true) = (documents.pop(), documents.is_empty()) else {
            return Err(BundleError::NotABundle);
        };
        let bundle = Reader { map: &map, problems: Vec::new() }.read();
        map.wipe();
        bundle
    }

    /// Writes a `secrets.yaml`.
    #[must_use]
    pub fn to_yaml(&self) -> String {
        let pair = |pair: &KeyPair| -> Value {
            map([
                ("crt", STANDARD.encode(&pair.certificate).into()),
                ("key", STANDARD.encode(pair.key.expose()).into()),
            ])
            .into()
        };
        let mut secrets = map([("bootstraptoken", self.bootstrap_token.expose().into())]);
        match &self.etcd_encryption {
            EtcdEncryption::Secretbox(key) => secrets.insert("secretboxencryptionsecret", key.expose()),
            EtcdEncryption::AesCbc(key) => secrets.insert("aescbcencryptionsecret", key.expose()),
        }
        let certs = map([
            ("etcd", pair(&self.etcd)),
            ("k8s", pair(&self.kubernetes)),
            ("k8saggregator", pair(&self.aggregator)),
            (
                "k8sserviceaccount",
                map([("key", STANDARD.encode(self.service_account.expose()).into())]).into(),
            ),
            ("os", pair(&self.os)),
        ]);
        let mut file = map([
            (
                "cluster",
                map([
                    ("id", self.cluster_id.as_str().into()),
                    ("secret", self.cluster_secret.expose().into()),
                ])
                .into(),
            ),
            ("secrets", secrets.into()),
            ("trustdinfo", map([("token", self.machine_token.expose().into())]).into()),
            ("certs", certs.into()),
        ]);
        let text = file.to_yaml();
        file.wipe();
        text
    }
}

/// Reads the parts of a bundle and remembers what was wrong.
struct Reader<'a> {
    map: &'a Map,
    problems: Vec<BundleProblem>,
}

impl Reader<'_> {
    fn read(mut self) -> Result<Bundle, BundleError> {
        let cluster_id = self.text("cluster.id");
        let cluster_secret = self.key32("cluster.secret");
        let bootstrap_token = self.token("secrets.bootstraptoken");
        let etcd_encryption = self.etcd_encryption();
        let machine_token = self.token("trustdinfo.token");
        let etcd = self.pair("certs.etcd.crt", "certs.etcd.key");
        let kubernetes = self.pair("certs.k8s.crt", "certs.k8s.key");
        let aggregator = self.pair("certs.k8saggregator.crt", "certs.k8saggregator.key");
        let service_account = self.service_account("certs.k8sserviceaccount.key");
        let os = self.pair("certs.os.crt", "certs.os.key");
        let read = || {
            Some(Bundle {
                cluster_id: cluster_id?,
                cluster_secret: cluster_secret?,
                bootstrap_token: bootstrap_token?,
                etcd_encryption: etcd_encryption?,
                machine_token: machine_token?,
                etcd: etcd?,
                kubernetes: kubernetes?,
                aggregator: aggregator?,
                service_account: service_account?,
                os: os?,
            })
        };
        match read() {
            Some(bundle) if self.problems.is_empty() => Ok(bundle),
            _ => Err(BundleError::Unsound(self.problems)),
        }
    }

    fn problem<T>(&mut self, path: &'static str, reason: &'static str) -> Option<T> {
        self.problems.push(BundleProblem { path, reason });
        None
    }

    fn text(&mut self, path: &'static str) -> Option<String> {
        match self.map.find(path) {
            Some(Value::Text(text)) if !text.is_empty() => Some(text.clone()),
            None | Some(Value::Null | Value::Text(_)) => self.problem(path, "is missing"),
            Some(_) => self.problem(path, "is not a text; put it in quotes"),
        }
    }

    fn key32(&mut self, path: &'static str) -> Option<Secret> {
        let text: Secret = self.text(path)?.into();
        match STANDARD.decode(text.expose()) {
            Ok(bytes) if bytes.len() == 32 => Some(text),
            _ => self.problem(path, "is not base64 of 32 bytes"),
        }
    }

    fn token(&mut self, path: &'static str) -> Option<Secret> {
        let text: Secret = self.text(path)?.into();
        match text.expose().split_once('.') {
            Some((id, secret)) if !id.is_empty() && !secret.is_empty() => Some(text),
            _ => self.problem(path, "is not a token of two parts around a dot"),
        }
    }

    fn etcd_encryption(&mut self) -> Option<EtcdEncryption> {
        const SECRETBOX: &str = "secrets.secretboxencryptionsecret";
        const AESCBC: &str = "secrets.aescbcencryptionsecret";
        match (self.map.text(SECRETBOX), self.map.text(AESCBC)) {
            (None, Some(_)) => self.key32(AESCBC).map(EtcdEncryption::AesCbc),
            (Some(_), Some(_)) => {
                self.problem(AESCBC, "stands beside the secretbox key; only one may be there")
            }
            _ => self.key32(SECRETBOX).map(EtcdEncryption::Secretbox),
        }
    }

    /// A PEM text out of its base64.
    fn pem(&mut self, path: &'static str) -> Option<String> {
        let text: Secret = self.text(path)?.into();
        match STANDARD.decode(text.expose()).ok().and_then(|bytes| String::from_utf8(bytes).ok()) {
            Some(pem) => Some(pem),
            None => self.problem(path, "is not base64 of a PEM text"),
        }
    }

    fn service_account(&mut self, path: &'static str) -> Option<Secret> {
        let key: Secret = self.pem(path)?.into();
        if keys::load(key.expose()).is_some() {
            Some(key)
        } else {
            self.problem(path, "is not a private key")
        }
    }

    fn pair(&mut self, certificate_path: &'static str, key_path: &'static str) -> Option<KeyPair> {
        let certificate = self.pem(certificate_path);
        let key: Option<Secret> = self.pem(key_path).map(Into::into);
        let (certificate, key) = (certificate?, key?);
        match Authority::from_pem(&certificate, key.expose()) {
            Ok(_) => Some(KeyPair { certificate, key }),
            Err(PkiError::Key) => self.problem(key_path, "is not a private key"),
            Err(PkiError::Mismatch) => self.problem(key_path, "does not belong to the certificate beside it"),
            Err(_) => self.problem(certificate_path, "is not a certificate"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden;

    #[test]
    fn a_bundle_that_talos_made_is_read_and_written_back() {
        let bundle = golden::bundle();
        assert_eq!(bundle.cluster_id(), "wfYLUBDvdTMj8fZxgqI0h8dXxTuKamEwrJGVBbu8smM=");
        assert_eq!(read_yaml(&bundle.to_yaml()).unwrap(), read_yaml(golden::SECRETS).unwrap());
    }

    #[test]
    fn everything_that_is_wrong_is_said_at_once() {
        let Err(BundleError::Unsound(problems)) = Bundle::parse("cluster: {id: 5}\ntrustdinfo: {token: x}\n")
        else {
            panic!("must be refused")
        };
        let said: Vec<String> = problems.iter().map(ToString::to_string).collect();
        assert!(said.contains(&"cluster.id: is not a text; put it in quotes".to_owned()), "{said:?}");
        assert!(
            said.contains(&"trustdinfo.token: is not a token of two parts around a dot".to_owned()),
            "{said:?}"
        );
        assert!(said.contains(&"certs.os.key: is missing".to_owned()), "{said:?}");
        assert_eq!(said.len(), 14, "{said:?}");
    }

    #[test]
    fn a_key_of_another_certificate_is_found() {
        let bundle = golden::bundle();
        let swapped =
            Bundle { etcd: KeyPair { key: bundle.kubernetes.key.clone(), ..bundle.etcd.clone() }, ..bundle };
        let error = Bundle::parse(&swapped.to_yaml()).unwrap_err();
        assert!(error.to_string().contains("certs.etcd.key: does not belong"), "{error}");
    }

    #[test]
    fn what_is_no_bundle_is_refused() {
        assert!(matches!(Bundle::parse("- a"), Err(BundleError::NotABundle)));
        assert!(matches!(Bundle::parse(""), Err(BundleError::NotABundle)));
        assert!(matches!(Bundle::parse("a: ["), Err(BundleError::Yaml(_))));
    }
}
