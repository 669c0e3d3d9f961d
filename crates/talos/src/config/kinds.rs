//! Which kinds of documents each release knows.
//!
//! A node refuses a kind that its release does not know, so a configuration is checked before it is sent.

use super::Documents;

/// Kinds by the minor release that knew them first. Nothing was removed since.
const KINDS: &[(u32, &[&str])] = &[
    (
        9,
        &[
            "SideroLinkConfig",
            "ExtensionServiceConfig",
            "KmsgLogConfig",
            "EventSinkConfig",
            "WatchdogTimerConfig",
            "TrustedRootsConfig",
            "VolumeConfig",
            "NetworkRuleConfig",
            "NetworkDefaultActionConfig",
            "KubeSpanEndpointsConfig",
        ],
    ),
    (10, &["UserVolumeConfig", "EthernetConfig", "PCIDriverRebindConfig"]),
    (11, &["RawVolumeConfig", "ExistingVolumeConfig", "SwapVolumeConfig", "ZswapConfig"]),
    (
        12,
        &[
            "HostnameConfig",
            "LinkConfig",
            "LinkAliasConfig",
            "BondConfig",
            "BridgeConfig",
            "VLANConfig",
            "DummyLinkConfig",
            "WireguardConfig",
            "DHCPv4Config",
            "DHCPv6Config",
            "Layer2VIPConfig",
            "HCloudVIPConfig",
            "ResolverConfig",
            "TimeSyncConfig",
            "StaticHostConfig",
            "RegistryMirrorConfig",
            "RegistryAuthConfig",
            "RegistryTLSConfig",
            "OOMConfig",
        ],
    ),
    (
        13,
        &[
            "KubeSpanConfig",
            "EnvironmentConfig",
            "ExternalVolumeConfig",
            "ImageVerificationConfig",
            "TCPProbeConfig",
            "VRFConfig",
            "BlackholeRouteConfig",
            "RoutingRuleConfig",
        ],
    ),
    (
        14,
        &[
            "BGPInstanceConfig",
            "CRIBaseRuntimeSpecConfig",
            "CRICustomizationConfig",
            "ContainerConfig",
            "DiscoveryIdentityConfig",
            "DiscoveryServiceConfig",
            "EtcFileConfig",
            "FilesystemScrubConfig",
            "FilesystemTrimConfig",
            "HTTPProbeConfig",
            "ImageCacheConfig",
            "KernelModuleConfig",
            "KubeAPIServerCAConfig",
            "KubeAPIServerConfig",
            "KubeAdmissionControlConfig",
            "KubeAggregatorCAConfig",
            "KubeAuditPolicyConfig",
            "KubeAuthenticationConfig",
            "KubeAuthorizerConfig",
            "KubeClusterConfig",
            "KubeControllerManagerConfig",
            "KubeCoreDNSConfig",
            "KubeCredentialProviderConfig",
            "KubeEtcdEncryptionConfig",
            "KubeExternalManifestConfig",
            "KubeFlannelCNIConfig",
            "KubeInlineManifestConfig",
            "KubeNetworkConfig",
            "KubeNodeConfig",
            "KubePrismConfig",
            "KubeProxyConfig",
            "KubeSchedulerConfig",
            "KubeServiceAccountConfig",
            "KubeStaticPodConfig",
            "KubeTalosAPIAccessConfig",
            "KubeletConfig",
            "LVMLogicalVolumeConfig",
            "LVMVolumeGroupConfig",
            "RAIDArrayConfig",
            "SecurityProfileConfig",
            "SysctlConfig",
            "SysfsConfig",
            "UdevRulesConfig",
            "UnattendedInstallConfig",
            "VethConfig",
        ],
    ),
];

/// A document that a release does not know.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{kind:?} is not a kind of document that Talos v1.{minor} knows{}", since(*known_since))]
pub struct UnknownKind {
    /// The document's kind.
    pub kind: String,
    /// The release that was asked.
    pub minor: u32,
    /// The minor release that knows it first, if any does.
    pub known_since: Option<u32>,
}

fn since(minor: Option<u32>) -> String {
    minor.map(|minor| format!("; it came with v1.{minor}")).unwrap_or_default()
}

/// The minor release of Talos 1 that knew a kind first (9 stands for that one and all before).
#[must_use]
pub fn known_since(kind: &str) -> Option<u32> {
    KINDS.iter().find(|(_, kinds)| kinds.contains(&kind)).map(|(minor, _)| *minor)
}

/// Every kind of document that any release knows.
pub fn all_kinds() -> impl Iterator<Item = &'static str> {
    KINDS.iter().flat_map(|(_, kinds)| kinds.iter().copied())
}

/// The documents that a minor release of Talos 1 would refuse for their kind.
#[must_use]
pub fn unknown_kinds(documents: &Documents, minor: u32) -> Vec<UnknownKind> {
    documents
        .iter()
        .filter_map(|document| document.text("kind"))
        .map(|kind| UnknownKind { kind: kind.to_owned(), minor, known_since: known_since(kind) })
        .filter(|unknown| unknown.known_since.is_none_or(|since| since > minor))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_newer_document_is_refused_by_an_older_release() {
        let documents =
            Documents::parse("kind: KubeletConfig\n---\nkind: HostnameConfig\n---\nkind: Nonsense\n")
                .unwrap();
        let refused = |minor| -> Vec<String> {
            unknown_kinds(&documents, minor).into_iter().map(|unknown| unknown.kind).collect()
        };
        assert_eq!(refused(11), ["KubeletConfig", "HostnameConfig", "Nonsense"]);
        assert_eq!(refused(13), ["KubeletConfig", "Nonsense"]);
        assert_eq!(refused(14), ["Nonsense"]);
    }
}
