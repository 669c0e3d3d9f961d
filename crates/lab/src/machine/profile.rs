//! What differs between Talos versions. Only 1.13 is known so far.

/// The behaviour of one Talos release line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Profile {
    /// The Go release that it was built with, as `Version` tells.
    pub go: &'static str,
    /// etcd's version.
    pub etcd: &'static str,
    /// The storage version that goes with it.
    pub etcd_storage: &'static str,
    /// Oldest and newest minor release of Kubernetes 1.x that a configuration may ask for.
    pub kubernetes_minors: (u64, u64),
    /// Kinds of documents beside v1alpha1 that a configuration may hold.
    pub kinds: &'static [&'static str],
}

/// Talos 1.13.
pub const V1_13: Profile = Profile {
    go: "go1.26.8",
    etcd: "3.6.12",
    etcd_storage: "3.6.0",
    kubernetes_minors: (31, 36),
    kinds: &[
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
        "UserVolumeConfig",
        "EthernetConfig",
        "PCIDriverRebindConfig",
        "RawVolumeConfig",
        "ExistingVolumeConfig",
        "SwapVolumeConfig",
        "ZswapConfig",
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
        "KubeSpanConfig",
        "EnvironmentConfig",
        "ExternalVolumeConfig",
        "ImageVerificationConfig",
        "TCPProbeConfig",
        "VRFConfig",
        "BlackholeRouteConfig",
        "RoutingRuleConfig",
    ],
};

impl Profile {
    /// The profile of a Talos version such as `v1.13.9`. Lines that are not known yet behave as 1.13.
    pub fn of(_talos: &str) -> Self {
        V1_13
    }
}
