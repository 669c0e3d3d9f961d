//! From secrets and options to documents.

use super::{Documents, Input, documents::document, kubernetes, v1alpha1::v1alpha1};
use crate::secrets::Bundle;
use crate::yaml::{Map, Value, map};

/// Why no configuration can be written for an input.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GenerateError {
    /// The endpoint is not an `https` URL with a host.
    #[error("the control plane endpoint {endpoint:?} is not an https:// URL with a host")]
    Endpoint {
        /// What was given.
        endpoint: String,
    },
    /// A setting has no form in the wanted contract.
    #[error("{setting} cannot be written with the configuration contract {contract}; choose an older one")]
    NoForm {
        /// Which setting.
        setting: &'static str,
        /// Which contract.
        contract: super::Contract,
    },
    /// A setting came with a later contract.
    #[error(
        "{setting} cannot be written with the configuration contract {contract}; choose v1.{since} or a newer one"
    )]
    TooOld {
        /// Which setting.
        setting: &'static str,
        /// Which contract.
        contract: super::Contract,
        /// The first minor that has it.
        since: u32,
    },
}

/// Writes the configuration of one machine, without anything that is special to it.
///
/// # Errors
///
/// Where the endpoint is no URL or the contract has no form for a setting.
pub fn generate(bundle: &Bundle, input: &Input) -> Result<Documents, GenerateError> {
    if input.endpoint_host().is_none() {
        return Err(GenerateError::Endpoint { endpoint: input.endpoint.clone() });
    }
    if input.contract.kubernetes_documents() && !input.extra_mounts.is_empty() {
        return Err(GenerateError::NoForm { setting: "a kubelet mount", contract: input.contract });
    }
    let mut documents = vec![v1alpha1(bundle, input)];
    if input.contract.kubernetes_documents() {
        documents.extend(machine_documents(bundle, input));
    }
    if input.contract.network_documents() {
        documents.extend(input.registry_mirrors.iter().map(|(host, endpoints)| {
            let endpoints = endpoints.iter().map(|url| map([("url", url.as_str().into())]).into()).collect();
            document("RegistryMirrorConfig")
                .with("name", host.as_str())
                .with("endpoints", Value::List(endpoints))
        }));
        documents.push(document("HostnameConfig").with("auto", "stable"));
    }
    if input.contract.kubernetes_documents() {
        documents.extend(kubernetes::common(bundle, input));
        if input.is_control_plane() {
            documents.extend(kubernetes::control_plane(bundle, input));
        }
    }
    Ok(Documents::new(documents))
}

/// The machine's own documents since 1.14.
fn machine_documents(bundle: &Bundle, input: &Input) -> Vec<Map> {
    let mut documents = Vec::new();
    if input.discovery {
        let service = document("DiscoveryServiceConfig");
        documents.push(service.with("name", "default").with("endpoint", "https://discovery.talos.dev/"));
    }
    documents.push(
        document("DiscoveryIdentityConfig")
            .with("clusterID", bundle.cluster_id.as_str())
            .with("clusterSecret", bundle.cluster_secret.expose()),
    );
    if let Some(disk) = &input.install_disk {
        let selector = map([("match", format!("disk.dev_path == {:?}", disk).into())]);
        documents.push(
            document("UnattendedInstallConfig")
                .with("installer", Map::new().with_some("image", input.install_image.as_deref()))
                .with("provisioning", map([("diskSelector", selector.into()), ("wipe", false.into())])),
        );
    }
    let host_dns = map([("enabled", true.into()), ("forwardKubeDNSToHost", true.into())]);
    documents.push(document("ResolverConfig").with("hostDNS", host_dns));
    if !input.sysctls.is_empty() {
        documents.push(document("SysctlConfig").with("params", &input.sysctls));
    }
    let ephemeral = document("VolumeConfig").with("name", "EPHEMERAL");
    documents.push(ephemeral.with("mount", map([("secure", true.into())])));
    documents.push(document("FilesystemTrimConfig").with("interval", "168h0m0s"));
    documents.push(document("SecurityProfileConfig").with("workloadIsolation", true));
    documents
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Cni, ExtraMount, Role};
    use crate::contract::Contract;
    use crate::golden;

    fn overrides(mut input: Input) -> Input {
        input.install_disk = Some("/dev/vda".to_owned());
        input.extra_kernel_args = vec!["foo=bar".to_owned(), "bar=baz".to_owned()];
        input.cert_sans = vec!["foo".to_owned(), "bar".to_owned()];
        input.dns_domain = "example.com".to_owned();
        input.cni = Cni::Custom(vec!["https://example.com/cni.yaml".to_owned()]);
        input.allow_scheduling_on_control_planes = true;
        input.local_api_port = Some(5443);
        input.sysctls.insert("foo".to_owned(), "bar".to_owned());
        input.registry_mirrors.insert("ghcr.io".to_owned(), vec!["https://ghcr.io.my-mirror.com".to_owned()]);
        if input.contract.kubernetes_documents() {
            input.cluster_dns = vec!["3.3.3.3".to_owned()];
        } else {
            input.extra_mounts = vec![ExtraMount {
                destination: "/var/opt".to_owned(),
                source: "/var/opt".to_owned(),
                kind: "bind".to_owned(),
                options: vec!["rshared".to_owned()],
            }];
        }
        input
    }

    #[test]
    fn equals_what_talos_itself_generates() {
        let bundle = golden::bundle();
        for minor in 9..=14 {
            for role in [Role::ControlPlane, Role::Worker] {
                for variant in ["base", "overrides"] {
                    let contract = Contract::parse(&format!("v1.{minor}")).unwrap();
                    let base = Input::new(contract, role, "base", "https://base:6443", "1.28.0");
                    let input = if variant == "base" { base } else { overrides(base) };
                    let golden = Documents::parse(&golden::config(minor, variant, role)).unwrap();
                    let ours = generate(&bundle, &input).unwrap();
                    // As text, so that the order of documents and of keys counts too.
                    let (ours, golden) = (ours.to_yaml(), golden.to_yaml());
                    for (mine, theirs) in ours.lines().zip(golden.lines()) {
                        assert_eq!(mine, theirs, "v1.{minor} {variant} {role:?}");
                    }
                    assert_eq!(ours, golden, "v1.{minor} {variant} {role:?}");
                }
            }
        }
    }

    #[test]
    fn what_cannot_be_written_is_refused() {
        let bundle = golden::bundle();
        let newest = crate::contract::NEWEST;
        for endpoint in ["", "base", "http://base:6443", "https://", "https://:6443"] {
            let input = Input::new(newest, Role::Worker, "base", endpoint, "1.36.0");
            assert!(matches!(generate(&bundle, &input), Err(GenerateError::Endpoint { .. })), "{endpoint}");
        }
        let older = overrides(Input::new(
            crate::contract::OLDEST,
            Role::Worker,
            "base",
            "https://base:6443",
            "1.36.0",
        ));
        let input = Input { contract: newest, ..older };
        assert!(matches!(generate(&bundle, &input), Err(GenerateError::NoForm { .. })));
    }
}
