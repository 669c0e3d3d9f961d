//! Reading a bundle out of an OpenTofu state: the attributes of a `talos_machine_secrets` resource.
//!
//! The provider keeps the same secrets under other names. They are put under the names of `talosctl` and then read as every
//! other bundle, so that the same proofs hold. A state is JSON, which is YAML too.

use super::{Bundle, BundleError};
use crate::yaml::{Map, Value, map, read as read_yaml};

/// The type of the resource in a state.
const RESOURCE: &str = "talos_machine_secrets";

impl Bundle {
    /// Reads the bundle out of an OpenTofu or Terraform state, of `tofu show -json`, or of the attributes alone.
    ///
    /// # Errors
    ///
    /// Where there is no such resource or more than one, or with every missing or unsound part at once.
    pub fn from_tofu_state(text: &str) -> Result<Self, BundleError> {
        let mut values = read_yaml(text)?;
        let mut found = Vec::new();
        values.iter().for_each(|value| collect(value, &mut found));
        let bundle = match found[..] {
            [] => Err(BundleError::NotInState),
            [secrets] => {
                let mut file = renamed(secrets);
                let text = file.to_yaml();
                file.wipe();
                let text = crate::Secret::new(text);
                Self::parse(text.expose())
            }
            _ => Err(BundleError::SeveralInState { count: found.len() }),
        };
        values.iter_mut().for_each(Value::wipe);
        bundle
    }
}

/// The `machine_secrets` of all resources of the type, wherever the form of state keeps them.
fn collect<'a>(value: &'a Value, found: &mut Vec<&'a Map>) {
    match value {
        Value::List(list) => list.iter().for_each(|value| collect(value, found)),
        Value::Map(map) => {
            let is_other = map.text("type").is_some_and(|kind| kind != RESOURCE) && map.get("name").is_some();
            if let Some(Value::Map(secrets)) = map.get("machine_secrets") {
                found.push(secrets);
            } else if !is_other {
                map.iter().for_each(|(_, value)| collect(value, found));
            }
        }
        _ => {}
    }
}

fn renamed(secrets: &Map) -> Map {
    let text = |path: &str| secrets.find(path).cloned().unwrap_or(Value::Null);
    let pair = |name: &str| -> Value {
        map([("crt", text(&format!("certs.{name}.cert"))), ("key", text(&format!("certs.{name}.key")))])
            .into()
    };
    let mut keys = map([("bootstraptoken", text("secrets.bootstrap_token"))]);
    for (ours, theirs) in [
        ("secretboxencryptionsecret", "secrets.secretbox_encryption_secret"),
        ("aescbcencryptionsecret", "secrets.aescbc_encryption_secret"),
    ] {
        if let Some(value) =
            secrets.find(theirs).filter(|value| value.as_text().is_some_and(|it| !it.is_empty()))
        {
            keys.insert(ours, value.clone());
        }
    }
    map([
        ("cluster", map([("id", text("cluster.id")), ("secret", text("cluster.secret"))]).into()),
        ("secrets", keys.into()),
        ("trustdinfo", map([("token", text("trustdinfo.token"))]).into()),
        (
            "certs",
            map([
                ("etcd", pair("etcd")),
                ("k8s", pair("k8s")),
                ("k8saggregator", pair("k8s_aggregator")),
                ("k8sserviceaccount", map([("key", text("certs.k8s_serviceaccount.key"))]).into()),
                ("os", pair("os")),
            ])
            .into(),
        ),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden;

    fn attributes() -> String {
        let theirs = golden::SECRETS
            .replace("crt:", "cert:")
            .replace("bootstraptoken:", "bootstrap_token:")
            .replace("secretboxencryptionsecret:", "secretbox_encryption_secret:")
            .replace("k8saggregator:", "k8s_aggregator:")
            .replace("k8sserviceaccount:", "k8s_serviceaccount:");
        theirs.lines().map(|line| format!("            {line}\n")).collect()
    }

    #[test]
    fn a_state_gives_the_same_bundle() {
        let attributes = attributes();
        let expected = golden::bundle().to_yaml();
        let state = format!(
            "version: 4\nresources:\n- type: proxmox_virtual_environment_vm\n  name: a\n  instances: [{{attributes: {{machine_secrets: {{}}}}}}]\n- mode: managed\n  type: talos_machine_secrets\n  name: this\n  instances:\n  - attributes:\n      id: machine_secrets\n      machine_secrets:\n{attributes}"
        );
        assert_eq!(Bundle::from_tofu_state(&state).unwrap().to_yaml(), expected);
        let alone = format!("machine_secrets:\n{attributes}");
        assert_eq!(Bundle::from_tofu_state(&alone).unwrap().to_yaml(), expected);
        let twice = format!("- {{machine_secrets: {{}}}}\n- machine_secrets:\n{attributes}");
        assert!(matches!(Bundle::from_tofu_state(&twice), Err(BundleError::SeveralInState { count: 2 })));
    }

    #[test]
    fn what_is_missing_is_said() {
        assert!(matches!(
            Bundle::from_tofu_state("{\"version\": 4, \"resources\": []}"),
            Err(BundleError::NotInState)
        ));
        let error =
            Bundle::from_tofu_state("{\"machine_secrets\": {\"cluster\": {\"id\": \"a\"}}}").unwrap_err();
        assert!(error.to_string().contains("certs.os.key: is missing"), "{error}");
        assert!(!error.to_string().contains("cluster.id"), "{error}");
    }
}
