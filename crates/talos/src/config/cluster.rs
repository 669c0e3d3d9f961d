//! Putting the wishes about the whole cluster into a machine's configuration.

use super::{ClusterSettings, Documents, Oidc, documents::document};
use crate::contract::Contract;
use crate::yaml::{Map, Value, map};

/// Adds what all machines of a cluster share, in the form of the contract that the configuration was generated with.
/// What only control planes do is not written for workers.
pub fn apply_cluster(documents: &mut Documents, contract: Contract, settings: &ClusterSettings) {
    let kind = documents.v1alpha1().and_then(|document| document.text("machine.type"));
    let control_plane = matches!(kind, Some("controlplane" | "init"));
    if settings.external_cloud_provider
        && let Some(legacy) = documents.v1alpha1_mut()
    {
        // The kubelets are told too, so this stands on every machine, and has no document of its own yet.
        legacy.map_mut("cluster").map_mut("externalCloudProvider").insert("enabled", true);
    }
    if !control_plane {
        return;
    }
    if contract.kubernetes_documents() {
        in_documents(documents, settings);
    } else if let Some(legacy) = documents.v1alpha1_mut() {
        in_fields(legacy.map_mut("cluster"), settings);
    }
}

fn in_documents(documents: &mut Documents, settings: &ClusterSettings) {
    if let Some(oidc) = &settings.oidc {
        let configuration = documents.kind_mut("KubeAuthenticationConfig").map_mut("configuration");
        configuration.insert("jwt", Value::List(vec![authenticator(oidc).into()]));
    }
    for (name, manifest) in &settings.inline_manifests {
        let document = document("KubeInlineManifestConfig").with("name", name.as_str());
        documents.push(document.with("manifest", manifest.as_str()));
    }
    for (index, url) in settings.extra_manifests.iter().enumerate() {
        let document = document("KubeExternalManifestConfig").with("name", format!("extra-{}", index + 1));
        documents.push(document.with("url", url.as_str()));
    }
}

fn in_fields(cluster: &mut Map, settings: &ClusterSettings) {
    if let Some(oidc) = &settings.oidc {
        let arguments = cluster.map_mut("apiServer").map_mut("extraArgs");
        for (key, value) in [
            ("oidc-issuer-url", Some(&oidc.issuer)),
            ("oidc-client-id", Some(&oidc.client_id)),
            ("oidc-username-claim", oidc.username_claim.as_ref()),
            ("oidc-username-prefix", oidc.username_prefix.as_ref()),
            ("oidc-groups-claim", oidc.groups_claim.as_ref()),
            ("oidc-groups-prefix", oidc.groups_prefix.as_ref()),
        ] {
            if let Some(value) = value {
                arguments.insert(key, value.as_str());
            }
        }
    }
    if !settings.inline_manifests.is_empty() {
        let manifests = settings.inline_manifests.iter();
        let manifests = manifests.map(|(name, text)| {
            map([("name", name.as_str().into()), ("contents", text.as_str().into())]).into()
        });
        cluster.insert("inlineManifests", Value::List(manifests.collect()));
    }
    if !settings.extra_manifests.is_empty() {
        cluster.insert("extraManifests", Value::texts(&settings.extra_manifests));
    }
}

/// The structured form, with the defaults that the arguments of old had.
fn authenticator(oidc: &Oidc) -> Map {
    let username_claim = oidc.username_claim.as_deref().unwrap_or("sub");
    let default_prefix = if username_claim == "email" { String::new() } else { format!("{}#", oidc.issuer) };
    let username_prefix = match oidc.username_prefix.as_deref() {
        // A single hyphen switches the prefix off.
        Some("-") => "",
        Some(prefix) => prefix,
        None => &default_prefix,
    };
    let claim = |claim: &str, prefix: &str| map([("claim", claim.into()), ("prefix", prefix.into())]);
    let groups = oidc.groups_claim.as_deref();
    let mappings = map([("username", claim(username_claim, username_prefix).into())]).with_some(
        "groups",
        groups.map(|name| claim(name, oidc.groups_prefix.as_deref().unwrap_or_default())),
    );
    map([
        (
            "issuer",
            map([
                ("url", oidc.issuer.as_str().into()),
                ("audiences", Value::List(vec![oidc.client_id.as_str().into()])),
            ])
            .into(),
        ),
        ("claimMappings", mappings.into()),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> ClusterSettings {
        ClusterSettings {
            oidc: Some(Oidc {
                issuer: "https://id.example".to_owned(),
                client_id: "kubernetes".to_owned(),
                username_claim: None,
                username_prefix: None,
                groups_claim: Some("groups".to_owned()),
                groups_prefix: Some("oidc:".to_owned()),
            }),
            external_cloud_provider: true,
            inline_manifests: [("a".to_owned(), "x: y\n".to_owned())].into(),
            extra_manifests: vec!["https://m.example/a.yaml".to_owned()],
        }
    }

    fn applied(minor: u32, config: &str) -> Documents {
        let mut documents = Documents::parse(config).unwrap();
        apply_cluster(&mut documents, Contract::parse(&format!("v1.{minor}")).unwrap(), &settings());
        documents
    }

    #[test]
    fn each_contract_has_its_form() {
        let config = "{version: v1alpha1, machine: {type: controlplane}, cluster: {}}\n";
        let fields = r"version: v1alpha1
machine: {type: controlplane}
cluster:
    externalCloudProvider: {enabled: true}
    apiServer: {extraArgs: {oidc-issuer-url: https://id.example, oidc-client-id: kubernetes, oidc-groups-claim: groups, oidc-groups-prefix: 'oidc:'}}
    inlineManifests: [{name: a, contents: 'x: y
'}]
    extraManifests: [https://m.example/a.yaml]
";
        assert_eq!(applied(13, config).kind("KubeInlineManifestConfig"), None);
        let thirteen = applied(13, config);
        assert_eq!(
            thirteen.v1alpha1().unwrap().texts("cluster.extraManifests"),
            ["https://m.example/a.yaml"]
        );
        assert_eq!(
            thirteen.v1alpha1().unwrap().find("cluster.apiServer"),
            Documents::parse(fields).unwrap().v1alpha1().unwrap().find("cluster.apiServer")
        );
        let fourteen = applied(14, config);
        let jwt = fourteen.kind("KubeAuthenticationConfig").unwrap().find("configuration.jwt").unwrap();
        let expected = Documents::parse("jwt: [{issuer: {url: https://id.example, audiences: [kubernetes]}, claimMappings: {username: {claim: sub, prefix: 'https://id.example#'}, groups: {claim: groups, prefix: 'oidc:'}}}]").unwrap();
        assert_eq!(Some(jwt), expected.iter().next().unwrap().get("jwt"));
        assert_eq!(fourteen.kind("KubeInlineManifestConfig").unwrap().text("manifest"), Some("x: y\n"));
        assert_eq!(fourteen.kind("KubeExternalManifestConfig").unwrap().text("name"), Some("extra-1"));
    }

    #[test]
    fn workers_are_told_of_the_cloud_provider_only() {
        for minor in [13, 14] {
            let config = "{version: v1alpha1, machine: {type: worker}, cluster: {}}\n";
            let expected = "{version: v1alpha1, machine: {type: worker}, cluster: {externalCloudProvider: {enabled: true}}}\n";
            assert_eq!(applied(minor, config), Documents::parse(expected).unwrap());
        }
    }
}
