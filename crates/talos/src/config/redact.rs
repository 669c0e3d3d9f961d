//! Taking the secrets out of a configuration, so that people may see the rest.
//!
//! A value is known to be secret by its key, whatever the document: Talos names them alike everywhere. A private key is known
//! wherever it stands, and so is a manifest that holds a Kubernetes secret.
//!
//! What people wrote freely (manifests with the values of charts, and everything that a patch brought) may hold a secret under any
//! key. Of that, digests are shown: enough to see that something changed.

use sha2::{Digest, Sha256};

use crate::yaml::{Map, Value};

/// What stands in place of a secret.
const REDACTED: &str = "REDACTED";

/// Keys whose value is always secret.
const SECRETS: &[&str] = &[
    "token",
    "secret",
    "clusterSecret",
    "aescbcEncryptionSecret",
    "secretboxEncryptionSecret",
    "privateKey",
    "presharedKey",
    "password",
    "auth",
    "identityToken",
    "passphrase",
    "sideroLinkJoinToken",
];

/// The mapping without its secrets.
pub(super) fn redacted(map: &Map) -> Map {
    // A key is a secret beside a certificate; elsewhere it may be the key of a label.
    let pair = map.get("crt").is_some() || map.get("cert").is_some();
    let one = |(key, value): (&str, &Value)| {
        // The cluster's id is none, but it too belongs to a bundle.
        let id = key == "clusterID" || (key == "id" && map.get("secret").is_some());
        let secret = SECRETS.contains(&key) || (key == "key" && pair) || id;
        let value = match value {
            Value::Text(text) if !text.is_empty() && (secret || holds_secret(text)) => REDACTED.into(),
            Value::Map(inner) if key == "serviceAccount" => whole(inner),
            value => inside(value),
        };
        (key.to_owned(), value)
    };
    map.iter().map(one).collect()
}

fn inside(value: &Value) -> Value {
    match value {
        Value::Map(map) => redacted(map).into(),
        Value::List(list) => Value::List(list.iter().map(inside).collect()),
        Value::Text(text) if holds_secret(text) => REDACTED.into(),
        other => other.clone(),
    }
}

/// A mapping of which every text is secret.
fn whole(map: &Map) -> Value {
    let one = |(key, _): (&str, &Value)| (key.to_owned(), REDACTED.into());
    map.iter().map(one).collect::<Map>().into()
}

/// Whatever is PEM, as it is or in base64, and manifests of Kubernetes secrets. Certificates are no secret, but they say nothing
/// to a reader and differ from bundle to bundle.
fn holds_secret(text: &str) -> bool {
    let is_secret =
        |line: &str| matches!(line.trim_end_matches(','), "kind: Secret" | "\"kind\": \"Secret\"");
    text.starts_with("LS0tLS1CRUdJTi")
        || text.contains("-----BEGIN ")
        || text.contains("UFJJVkFURSBLRVkt")
        || text.contains("BSSVZBVEUgS0VZL")
        || text.contains("QUklWQVRFIEtFWS")
        || text.lines().map(str::trim).any(is_secret)
}

/// The mapping without its secrets, and with digests in place of everything that `base`, the same before any patch, has not.
pub(super) fn redacted_beyond(map: &Map, base: Option<&Map>) -> Map {
    let shown = redacted(map);
    let one = |(key, value): (&str, &Value)| {
        // Without these it would be unknown which document it is.
        let names = base.is_none() && matches!(key, "apiVersion" | "kind" | "name");
        let known = base.and_then(|base| base.get(key));
        let shown = shown.get(key).unwrap_or(&Value::Null);
        let value = match key {
            "inlineManifests" => digests(value, &["name"]),
            _ if names => shown.clone(),
            _ => beyond(value, shown, known),
        };
        (key.to_owned(), value)
    };
    map.iter().map(one).collect()
}

/// `value` as it is `shown`, where `known` has the same; its digests, where it has not.
fn beyond(value: &Value, shown: &Value, known: Option<&Value>) -> Value {
    match (value, known) {
        (Value::Map(map), Some(Value::Map(base))) => redacted_beyond(map, Some(base)).into(),
        (Value::List(list), Some(Value::List(base))) => {
            let shown = shown.as_list().unwrap_or_default();
            let one = |(item, shown): (&Value, &Value)| match base.contains(item) {
                true => shown.clone(),
                false => digests(item, &[]),
            };
            Value::List(list.iter().zip(shown).map(one).collect())
        }
        (value, Some(known)) if value == known => shown.clone(),
        (value, _) => digests(value, &[]),
    }
}

/// The same with digests of all texts and numbers, but under these keys.
fn digests(value: &Value, but: &[&str]) -> Value {
    match value {
        Value::Map(map) => {
            let one = |(key, value): (&str, &Value)| {
                let value = if but.contains(&key) { value.clone() } else { digests(value, but) };
                (key.to_owned(), value)
            };
            map.iter().map(one).collect::<Map>().into()
        }
        Value::List(list) => Value::List(list.iter().map(|item| digests(item, but)).collect()),
        Value::Null | Value::Bool(_) => value.clone(),
        Value::Text(text) | Value::Number(text) => digest(text),
        Value::Int(number) => digest(&number.to_string()),
        Value::Float(number) => digest(&number.to_string()),
    }
}

fn digest(text: &str) -> Value {
    format!("sha256:{}", hex::encode(Sha256::digest(text))).into()
}

#[cfg(test)]
mod tests {
    use crate::config::{Documents, Input, Role, generate};
    use crate::contract::Contract;
    use crate::secrets::Bundle;

    /// Every text of a bundle but its id, as it stands in the file and as it stands in PEM.
    fn secrets(bundle: &Bundle) -> Vec<String> {
        let pairs = [bundle.os(), bundle.kubernetes(), bundle.etcd(), &bundle.aggregator];
        let mut found: Vec<String> = pairs.iter().map(|pair| pair.key.expose().to_owned()).collect();
        let others = [
            &bundle.cluster_secret,
            &bundle.bootstrap_token,
            &bundle.machine_token,
            &bundle.service_account,
            match &bundle.etcd_encryption {
                crate::secrets::EtcdEncryption::Secretbox(key)
                | crate::secrets::EtcdEncryption::AesCbc(key) => key,
            },
        ];
        found.extend(others.iter().map(|secret| secret.expose().to_owned()));
        use base64::{Engine as _, engine::general_purpose::STANDARD};
        let encoded: Vec<String> = found.iter().map(|text| STANDARD.encode(text)).collect();
        // The first line of a key says only what it is.
        let middle = |text: String| text.lines().nth(1).map(str::to_owned).unwrap_or(text);
        found.into_iter().map(middle).chain(encoded).collect()
    }

    #[test]
    fn no_secret_of_a_bundle_stays_whatever_the_contract() {
        let newest = crate::contract::NEWEST;
        let bundle = Bundle::placeholder(newest, "2026-01-01T00:00:00Z".parse().unwrap()).unwrap();
        for minor in 9..=14 {
            for role in [Role::ControlPlane, Role::Worker] {
                let contract = Contract::parse(&format!("v1.{minor}")).unwrap();
                let input = Input::new(contract, role, "c", "https://c:6443", "1.35.4");
                let documents = generate(&bundle, &input).unwrap();
                let (plain, text) = (documents.to_yaml(), documents.redacted().to_yaml());
                let indented = |text: &str| text.replace('\n', "\n        ");
                for secret in secrets(&bundle) {
                    assert!(!text.contains(&secret) && !text.contains(&indented(&secret)), "v1.{minor}");
                }
                assert!(plain.contains(bundle.machine_token.expose()));
                assert_eq!(documents.iter().count(), documents.redacted().iter().count());
                assert!(text.contains("REDACTED") && text.contains("https://c:6443"));
            }
        }
    }

    #[test]
    fn keys_of_labels_stay_and_secrets_in_manifests_go() {
        let text = "machine: {kubelet: {extraConfig: {registerWithTaints: [{key: gpu, effect: NoSchedule}]}}}\ncluster: {inlineManifests: [{name: a, contents: 'apiVersion: v1\n\n    kind: Secret\n\n'}, {name: b, contents: 'kind: Namespace'}]}\n";
        let documents = Documents::parse(text).unwrap().redacted().to_yaml();
        assert!(documents.contains("key: gpu") && documents.contains("kind: Namespace"), "{documents}");
        assert!(!documents.contains("kind: Secret"), "{documents}");
    }

    #[test]
    fn a12_what_people_wrote_freely_is_shown_as_digests() {
        let base = "version: v1alpha1\nmachine: {type: worker, token: a.b, certSANs: [known]}\ncluster: {}\n";
        let text = "version: v1alpha1\nmachine: {type: worker, token: a.b, certSANs: [known, canary], env: {A: canary}, sysctls: {x: 7}}\n\
                    cluster: {inlineManifests: [{name: helm-cilium, contents: 'kind: Job\n\n  value: canary'}]}\n\
                    ---\napiVersion: v1alpha1\nkind: ExtensionServiceConfig\nname: tailscale\nenvironment: [TS_AUTHKEY=canary]\n";
        let (base, whole) = (Documents::parse(base).unwrap(), Documents::parse(text).unwrap());
        let shown = whole.redacted_beyond(&base).to_yaml();
        assert!(!shown.contains("canary") && !shown.contains("a.b"), "{shown}");
        for stays in [
            "type: worker",
            "- known",
            "name: helm-cilium",
            "kind: ExtensionServiceConfig",
            "name: tailscale",
        ] {
            assert!(shown.contains(stays), "{stays}: {shown}");
        }
        assert!(shown.contains("token: REDACTED") && shown.contains("A: sha256:"), "{shown}");
        assert_eq!(whole.redacted_beyond(&whole).to_yaml().matches("sha256:").count(), 1, "manifests only");
    }
}
